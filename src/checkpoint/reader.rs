//! Tensors of one or many safetensors files, memory-mapped, copied straight into their place.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use memmap2::Mmap;
use safetensors::tensor::{Dtype, Metadata, SafeTensorError, SafeTensors, TensorInfo};
use serde::Deserialize;
use tch::{Kind, TchError, Tensor};

use super::error::CheckpointError;

pub(super) const SINGLE_FILE: &str = "model.safetensors";
pub(super) const INDEX_FILE: &str = "model.safetensors.index.json";

/// The weight files of a model directory and which tensor is in which.
pub(super) struct TensorFiles {
    /// The single file or the index: what an error about absent names points at.
    described_by: PathBuf,
    files: Vec<TensorFile>,
    /// Tensor name to index into `files`.
    names: BTreeMap<String, usize>,
}

#[derive(Deserialize)]
struct ShardIndex {
    weight_map: BTreeMap<String, String>,
}

impl TensorFiles {
    pub(super) fn open(dir: &Path) -> Result<Self, CheckpointError> {
        let single = dir.join(SINGLE_FILE);
        if single.exists() {
            let file = TensorFile::open(&single)?;
            let names = file.metadata.tensors().into_keys().map(|name| (name, 0)).collect();
            return Ok(Self { described_by: single, files: vec![file], names });
        }
        let index = dir.join(INDEX_FILE);
        if !index.exists() {
            return Err(CheckpointError::NoWeights { dir: dir.to_path_buf() });
        }
        Self::open_shards(dir, index)
    }

    fn open_shards(dir: &Path, index: PathBuf) -> Result<Self, CheckpointError> {
        let text = std::fs::read_to_string(&index).map_err(CheckpointError::io("read", &index))?;
        let ShardIndex { weight_map } =
            serde_json::from_str(&text).map_err(|source| CheckpointError::Json { path: index.clone(), source })?;
        let mut opened: BTreeMap<String, usize> = BTreeMap::new();
        let mut files = Vec::new();
        let mut names = BTreeMap::new();
        for (name, shard) in weight_map {
            let file = match opened.get(&shard) {
                Some(&file) => file,
                None => {
                    files.push(TensorFile::open(&dir.join(&shard))?);
                    opened.insert(shard, files.len() - 1);
                    files.len() - 1
                }
            };
            if files[file].metadata.info(&name).is_none() {
                return Err(CheckpointError::MissingTensor { path: files[file].path.clone(), name, count: 1 });
            }
            names.insert(name, file);
        }
        Ok(Self { described_by: index, files, names })
    }

    /// Checks that the files hold exactly the `expected` names, besides `ignored` ones.
    pub(super) fn check_names<'a>(
        &self,
        expected: impl Iterator<Item = &'a str>,
        ignored: impl Fn(&str) -> bool,
    ) -> Result<(), CheckpointError> {
        let expected: Vec<&str> = expected.collect();
        let missing: Vec<_> = expected.iter().filter(|name| !self.names.contains_key(**name)).collect();
        if let Some(first) = missing.first() {
            let (path, name) = (self.described_by.clone(), first.to_string());
            return Err(CheckpointError::MissingTensor { path, name, count: missing.len() });
        }
        let expected: std::collections::HashSet<&str> = expected.into_iter().collect();
        let unexpected: Vec<_> =
            self.names.keys().filter(|name| !expected.contains(name.as_str()) && !ignored(name)).collect();
        if let Some(first) = unexpected.first() {
            let (path, name) = (self.described_by.clone(), first.to_string());
            return Err(CheckpointError::UnexpectedTensor { path, name, count: unexpected.len() });
        }
        Ok(())
    }

    /// Whether there is a tensor of that name.
    pub(super) fn contains(&self, name: &str) -> bool {
        self.names.contains_key(name)
    }

    /// Copies tensor `name` into `destination`, converting its type.
    pub(super) fn read_into(&self, name: &str, destination: &mut Tensor) -> Result<(), CheckpointError> {
        match self.names.get(name) {
            Some(&file) => self.files[file].read_into(name, destination),
            None => {
                let (path, name) = (self.described_by.clone(), name.to_string());
                Err(CheckpointError::MissingTensor { path, name, count: 1 })
            }
        }
    }
}

/// Every tensor of the safetensors file at `path` with its name: f32, f16, bf16 or i64, on CPU.
///
/// # Errors
/// Names the file, and the tensor if it is one of another type.
pub fn read_tensors(path: &Path) -> Result<Vec<(String, Tensor)>, CheckpointError> {
    TensorFile::open(path)?.read_all()
}

/// One mapped safetensors file whose header has been checked against its length.
struct TensorFile {
    path: PathBuf,
    map: Mmap,
    data_start: usize,
    metadata: Metadata,
}

impl TensorFile {
    fn open(path: &Path) -> Result<Self, CheckpointError> {
        let file = File::open(path).map_err(CheckpointError::io("open", path))?;
        // SAFETY: checkpoint files are replaced by rename, never written in place; a foreign process that truncates one
        // while it is mapped raises SIGBUS, which no reader of mapped files can rule out.
        #[expect(unsafe_code, reason = "mapping a file is unsafe by signature")]
        let map = unsafe { Mmap::map(&file) }.map_err(CheckpointError::io("map", path))?;
        let (header_len, metadata) = SafeTensors::read_metadata(&map)
            .map_err(|error| CheckpointError::Safetensors { path: path.into(), problem: describe(error, map.len()) })?;
        Ok(Self { path: path.into(), map, data_start: size_of::<u64>() + header_len, metadata })
    }

    /// Every tensor with its name, in file order, in the types they have.
    fn read_all(&self) -> Result<Vec<(String, Tensor)>, CheckpointError> {
        let read = |name: String| {
            let info = self.metadata.info(&name).expect("the name comes from the same header");
            let shape: Vec<i64> = info.shape.iter().map(|&size| size as i64).collect();
            let tensor = self.tensor(&name, &shape, info)?;
            Ok((name, tensor))
        };
        self.metadata.offset_keys().into_iter().map(read).collect()
    }

    fn read_into(&self, name: &str, destination: &mut Tensor) -> Result<(), CheckpointError> {
        let info = self.metadata.info(name).expect("the caller looked the name up in this file");
        let found: Vec<i64> = info.shape.iter().map(|&size| size as i64).collect();
        if found != destination.size() {
            let (path, name) = (self.path.clone(), name.to_string());
            return Err(CheckpointError::Shape { path, name, expected: destination.size(), found });
        }
        let source = self.tensor(name, &found, info)?;
        if !matches!(source.kind(), Kind::Float | Kind::Half | Kind::BFloat16) {
            return Err(self.unsupported(name, info));
        }
        destination.f_copy_(&source).map_err(|error| self.problem(name, &error))
    }

    fn tensor(&self, name: &str, shape: &[i64], info: &TensorInfo) -> Result<Tensor, CheckpointError> {
        let kind = match info.dtype {
            Dtype::F32 => Kind::Float,
            Dtype::F16 => Kind::Half,
            Dtype::BF16 => Kind::BFloat16,
            Dtype::I64 => Kind::Int64,
            _ => return Err(self.unsupported(name, info)),
        };
        let (start, end) = info.data_offsets;
        let bytes = &self.map[self.data_start + start..self.data_start + end];
        Tensor::f_from_data_size(bytes, shape, kind).map_err(|error| self.problem(name, &error))
    }

    fn unsupported(&self, name: &str, info: &TensorInfo) -> CheckpointError {
        let (path, name) = (self.path.clone(), name.to_string());
        CheckpointError::Dtype { path, name, found: format!("{:?}", info.dtype) }
    }

    fn problem(&self, name: &str, error: &TchError) -> CheckpointError {
        CheckpointError::Safetensors { path: self.path.clone(), problem: format!("`{name}`: {error}") }
    }
}

fn describe(error: SafeTensorError, len: usize) -> String {
    match error {
        SafeTensorError::HeaderTooSmall
        | SafeTensorError::InvalidHeaderLength
        | SafeTensorError::MetadataIncompleteBuffer => {
            format!("{len} bytes do not match the header: the file is truncated or still being written; fetch it again")
        }
        other => format!("not a safetensors file: {other}"),
    }
}
