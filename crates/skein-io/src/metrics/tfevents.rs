//! TensorBoard's event files, scalars only.
//!
//! A file is a sequence of TFRecords (length, checksum, data, checksum), each holding one `tensorboard.Event` message. The
//! few fields used are encoded here by hand; numbers are the fields' tags in TensorBoard's event.proto and summary.proto.

use std::path::Path;

use super::append::AppendFile;
use super::{MetricsError, Row};

/// What every event file's first record says.
const FILE_VERSION: &str = "brain.Event:2";

/// Added to the rotated checksum (TFRecord's mask).
const CRC_MASK_DELTA: u32 = 0xa282_ead8;

const PREFIX: &str = "events.out.tfevents.";

/// Whether `path` has the name of an event file.
pub(super) fn is_event_file(path: &Path) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(PREFIX))
}

/// A growing event file.
pub(super) struct EventFile {
    file: AppendFile,
}

impl EventFile {
    /// Begins an event file in `directory`; `time` (seconds since 1970) is part of its name.
    pub fn create(directory: &Path, time: f64) -> Result<Self, MetricsError> {
        let mut event = Vec::new();
        put_double(&mut event, 1, time);
        put_bytes(&mut event, 3, FILE_VERSION.as_bytes());
        let path = directory.join(format!("{PREFIX}{:010}.skein", time as u64));
        Ok(Self { file: AppendFile::replace(&path, &record(&event))? })
    }

    /// Appends the row's values as scalars.
    pub fn write(&mut self, row: &Row) -> Result<(), MetricsError> {
        let mut summary = Vec::new();
        for (name, value) in &row.values {
            let mut scalar = Vec::new();
            put_bytes(&mut scalar, 1, name.as_bytes());
            put_float(&mut scalar, 2, *value as f32);
            put_bytes(&mut summary, 1, &scalar);
        }
        let mut event = Vec::new();
        put_double(&mut event, 1, row.time);
        put_varint(&mut event, 2 << 3);
        put_varint(&mut event, row.step);
        put_bytes(&mut event, 5, &summary);
        self.file.append(&record(&event))
    }
}

/// `data` as a TFRecord.
fn record(data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u64).to_le_bytes();
    let mut record = Vec::with_capacity(data.len() + 16);
    record.extend(length);
    record.extend(masked_crc(&length).to_le_bytes());
    record.extend(data);
    record.extend(masked_crc(data).to_le_bytes());
    record
}

fn masked_crc(data: &[u8]) -> u32 {
    crc32c::crc32c(data).rotate_right(15).wrapping_add(CRC_MASK_DELTA)
}

// Protocol buffers: a field is `tag << 3 | wire type`, then the value. Wire types: 0 varint, 1 eight bytes, 2 length and
// bytes, 5 four bytes.

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn put_double(out: &mut Vec<u8>, tag: u64, value: f64) {
    put_varint(out, tag << 3 | 1);
    out.extend(value.to_le_bytes());
}

fn put_float(out: &mut Vec<u8>, tag: u64, value: f32) {
    put_varint(out, tag << 3 | 5);
    out.extend(value.to_le_bytes());
}

fn put_bytes(out: &mut Vec<u8>, tag: u64, value: &[u8]) {
    put_varint(out, tag << 3 | 2);
    put_varint(out, value.len() as u64);
    out.extend(value);
}
