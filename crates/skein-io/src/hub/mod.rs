//! From a model's name to a directory: a directory as it is, a hub id through the Hugging Face cache.
//!
//! The environment decides as for other Hugging Face tools: HF_ENDPOINT, HF_HOME, HF_HUB_CACHE, HF_TOKEN,
//! HF_TOKEN_PATH, HF_HUB_OFFLINE. The cache has their layout, so what one tool fetched the other finds. Only the files Skein
//! reads are fetched, all from one commit; weights other than safetensors never are.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

use hf_hub::api::sync::{Api, ApiBuilder, ApiError};
use hf_hub::{Cache, Repo, RepoType};
use serde_json::Value;
use skein_core::config::is_hub_id;

/// The branch taken when none is named.
const DEFAULT_REVISION: &str = "main";

/// Attempts at one file after the first, each continuing where the last one ended.
const MAX_RETRIES: usize = 3;

const INDEX: &str = "model.safetensors.index.json";
const SINGLE_FILE: &str = "model.safetensors";

/// Files fetched where the model has them, besides the weights.
const OPTIONAL_FILES: [&str; 6] = [
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
    "additional_chat_templates/tool_use.jinja",
];

/// Why a model's name could not be turned into a directory.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    /// Neither a directory nor the form of a hub id.
    #[error("there is no directory `{0}`, and it is not a hub id like `owner/name`")]
    NotAName(String),
    /// The hub does not have it.
    #[error("there is no directory `{id}`, and the hub has no model of that name with the revision `{revision}`")]
    NotFound {
        /// The hub id.
        id: String,
        /// Branch, tag or commit.
        revision: String,
    },
    /// The hub wants to know who asks.
    #[error(
        "the hub does not give out `{id}`: it does not exist, or it needs a token of an account with access in HF_TOKEN"
    )]
    Denied {
        /// The hub id.
        id: String,
    },
    /// HF_HUB_OFFLINE is set and the cache does not have the model.
    #[error("`{id}` (revision `{revision}`) is not complete in {}, and HF_HUB_OFFLINE forbids fetching it", cache.display())]
    Offline {
        /// The hub id.
        id: String,
        /// Branch, tag or commit.
        revision: String,
        /// The cache directory.
        cache: PathBuf,
    },
    /// The model has none of the files that make a model.
    #[error("`{id}` has no {file}: Skein reads Hugging Face models with safetensors weights")]
    NoModel {
        /// The hub id.
        id: String,
        /// What is missing.
        file: &'static str,
    },
    /// The hub did not answer, or not as it should.
    #[error("could not fetch {what} of `{id}`: {message}")]
    Failed {
        /// The hub id.
        id: String,
        /// The file, or what else was asked for.
        what: String,
        /// The client's words.
        message: String,
    },
    /// The cache cannot be read or written.
    #[error("{}: {source}", path.display())]
    Cache {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

/// Where models come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hub {
    /// None for the client's default.
    endpoint: Option<String>,
    cache: PathBuf,
    token: Option<String>,
    offline: bool,
    show_progress: bool,
}

impl Hub {
    /// The hub as the environment configures it.
    pub fn from_env() -> Self {
        use std::io::IsTerminal;
        let show_progress = io::stderr().is_terminal();
        Self { show_progress, ..Self::from_variables(|name| env::var(name).ok()) }
    }

    /// The hub as the given variables configure it.
    fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Self {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let home = set("HF_HOME").map(PathBuf::from).unwrap_or_else(|| {
            let user_cache = set("XDG_CACHE_HOME").map(PathBuf::from);
            let user_cache =
                user_cache.unwrap_or_else(|| PathBuf::from(set("HOME").unwrap_or_default()).join(".cache"));
            user_cache.join("huggingface")
        });
        let cache = set("HF_HUB_CACHE").or_else(|| set("HUGGINGFACE_HUB_CACHE"));
        let token_path = set("HF_TOKEN_PATH").map_or_else(|| home.join("token"), PathBuf::from);
        let token = set("HF_TOKEN").or_else(|| fs::read_to_string(token_path).ok());
        let offline = set("HF_HUB_OFFLINE").unwrap_or_default().to_lowercase();
        Self {
            endpoint: set("HF_ENDPOINT").map(|endpoint| endpoint.trim_end_matches('/').to_owned()),
            cache: cache.map_or_else(|| home.join("hub"), PathBuf::from),
            token: token.map(|token| token.trim().to_owned()).filter(|token| !token.is_empty()),
            offline: matches!(offline.as_str(), "1" | "true" | "yes" | "on"),
            show_progress: false,
        }
    }

    /// The directory that holds the model `name`: `name` itself if it is a directory, else the hub model of that id, at
    /// `revision` (a branch, tag or commit; the main branch when none), fetched into the cache as far as it is not there.
    ///
    /// When the hub cannot be reached and the cache has the model, the cached one is taken, with a warning.
    ///
    /// # Errors
    /// See [`HubError`]; nothing half fetched is ever returned.
    pub fn resolve(&self, name: &str, revision: Option<&str>) -> Result<PathBuf, HubError> {
        let path = Path::new(name);
        if path.is_dir() {
            return Ok(path.to_owned());
        }
        if !is_hub_id(name) {
            return Err(HubError::NotAName(name.to_owned()));
        }
        let revision = revision.unwrap_or(DEFAULT_REVISION);
        let cached = self.cached(name, revision);
        if self.offline {
            let (id, revision, cache) = (name.to_owned(), revision.to_owned(), self.cache.clone());
            return cached.ok_or(HubError::Offline { id, revision, cache });
        }
        match (self.fetch(name, revision), cached) {
            (Err(HubError::Failed { message, .. }), Some(cached)) => {
                tracing::warn!("the hub cannot be asked about {name} ({message}): taking {}", cached.display());
                Ok(cached)
            }
            (fetched, _) => fetched,
        }
    }

    /// The snapshot of `revision` in the cache, if it is complete.
    fn cached(&self, id: &str, revision: &str) -> Option<PathBuf> {
        let repo = self.cache.join(Repo::model(id.to_owned()).folder_name());
        let commit = fs::read_to_string(repo.join("refs").join(revision));
        let snapshot = repo.join("snapshots").join(commit.as_deref().map_or(revision, str::trim));
        let complete = snapshot.join("config.json").is_file()
            && weight_files(&snapshot, id).is_ok_and(|files| files.iter().all(|file| snapshot.join(file).is_file()));
        complete.then_some(snapshot)
    }

    fn fetch(&self, id: &str, revision: &str) -> Result<PathBuf, HubError> {
        let api = self.api(id)?;
        let repo = |revision: &str| Repo::with_revision(id.to_owned(), RepoType::Model, revision.to_owned());
        let asked = api.repo(repo(revision)).info();
        let info = asked.map_err(|error| explain(error, id, revision, "the list of files"))?;
        // Everything comes from the commit the list is of, even if the branch moves meanwhile.
        let commit = info.sha;
        let snapshot = self.cache.join(repo(revision).folder_name()).join("snapshots").join(&commit);
        let pinned = api.repo(repo(&commit));
        let has = |file: &str| info.siblings.iter().any(|sibling| sibling.rfilename == file);
        let fetch_file = |file: &str| {
            if snapshot.join(file).is_file() {
                return Ok(());
            }
            tracing::info!("fetching {file} of {id}");
            pinned.download(file).map(|_| ()).map_err(|error| explain(error, id, revision, file))
        };
        if !has("config.json") {
            return Err(HubError::NoModel { id: id.to_owned(), file: "config.json" });
        }
        fetch_file("config.json")?;
        OPTIONAL_FILES.into_iter().filter(|file| has(file)).try_for_each(fetch_file)?;
        if has(INDEX) {
            fetch_file(INDEX)?;
        } else if has(SINGLE_FILE) {
            fetch_file(SINGLE_FILE)?;
        } else {
            return Err(HubError::NoModel { id: id.to_owned(), file: "model.safetensors" });
        }
        weight_files(&snapshot, id)?.iter().try_for_each(|file| fetch_file(file))?;
        let created = Cache::new(self.cache.clone()).repo(repo(revision)).create_ref(&commit);
        created.map_err(|source| HubError::Cache { path: self.cache.clone(), source })?;
        Ok(snapshot)
    }

    fn api(&self, id: &str) -> Result<Api, HubError> {
        let mut builder = ApiBuilder::from_cache(Cache::new(self.cache.clone()))
            .with_token(self.token.clone())
            .with_retries(MAX_RETRIES)
            .with_progress(self.show_progress)
            .with_user_agent("skein", env!("CARGO_PKG_VERSION"));
        if let Some(endpoint) = &self.endpoint {
            builder = builder.with_endpoint(endpoint.clone());
        }
        builder.build().map_err(|error| explain(error, id, DEFAULT_REVISION, "the list of files"))
    }
}

/// The files that hold the weights of the model in `snapshot`: the shards its index names, or the one file.
fn weight_files(snapshot: &Path, id: &str) -> Result<Vec<String>, HubError> {
    let index = snapshot.join(INDEX);
    if !index.is_file() {
        return Ok(vec![SINGLE_FILE.to_owned()]);
    }
    let bytes = fs::read(&index).map_err(|source| HubError::Cache { path: index.clone(), source })?;
    let index: Option<Value> = serde_json::from_slice(&bytes).ok();
    let map = index.as_ref().and_then(|index| index["weight_map"].as_object());
    let broken = |message: &str| HubError::Failed { id: id.to_owned(), what: INDEX.into(), message: message.into() };
    let map = map.ok_or_else(|| broken("it has no weight_map"))?;
    let mut files: Vec<String> = map.values().filter_map(Value::as_str).map(str::to_owned).collect();
    files.sort();
    files.dedup();
    if files.iter().any(|file| file.contains("..") || file.starts_with('/')) {
        return Err(broken("it names a file outside the model"));
    }
    Ok(files)
}

/// The client's error in our words.
fn explain(error: ApiError, id: &str, revision: &str, what: &str) -> HubError {
    let id = id.to_owned();
    let status = match &error {
        ApiError::RequestError(request) => match **request {
            ureq::Error::StatusCode(status) => Some(status),
            _ => None,
        },
        _ => None,
    };
    match status {
        Some(404) if what == "the list of files" => HubError::NotFound { id, revision: revision.to_owned() },
        Some(401 | 403) => HubError::Denied { id },
        _ => HubError::Failed { id, what: what.to_owned(), message: error.to_string() },
    }
}

#[cfg(test)]
mod tests;
