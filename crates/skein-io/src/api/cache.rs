//! Replies that were paid for once, one file each.
//!
//! A file's name is the hash of everything that decides the reply. Files are written beside their place and renamed, so
//! any number of processes may share a folder; of two that ask the same at once, the later one's reply stays. A file that
//! can't be read, or is not whole, is as good as none.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use skein_core::chat::ChatReply;

/// Changes whenever entries are written or hashed in another way, so that old ones are not found.
const FORMAT: u32 = 1;

/// What decides a reply.
#[derive(Debug, Serialize)]
pub(super) struct Asked<'a> {
    /// Where it was asked.
    pub(super) url: &'a str,
    /// The request's fields, but for those that only say how the reply is sent.
    pub(super) body: &'a Value,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    format: u32,
    /// For people who look into the folder.
    asked: Value,
    reply: ChatReply,
    /// Hash of the key and the reply: an entry that was damaged or moved is none.
    seal: String,
}

/// A folder of replies.
#[derive(Debug)]
pub(super) struct ReplyCache {
    folder: PathBuf,
    /// A larger file was not written here.
    max_bytes: usize,
}

impl ReplyCache {
    /// The cache in `folder`, which is made where there is none.
    ///
    /// # Errors
    /// When the folder can't be made.
    pub(super) fn open(folder: &Path, max_reply_bytes: usize) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        // JSON writes a byte as six at most; the request is of the same order.
        Ok(Self { folder: folder.to_owned(), max_bytes: max_reply_bytes.saturating_mul(12).saturating_add(1 << 20) })
    }

    /// The reply that was kept for `asked`.
    pub(super) fn get(&self, asked: &Asked<'_>) -> Option<ChatReply> {
        let key = key(asked);
        let mut bytes = Vec::new();
        let file = File::open(self.path(&key)).ok()?;
        file.take(self.max_bytes as u64).read_to_end(&mut bytes).ok()?;
        let entry: Entry = serde_json::from_slice(&bytes).ok()?;
        let whole = entry.format == FORMAT && entry.seal == seal(&key, &entry.reply);
        whole.then_some(entry.reply)
    }

    /// Keeps `reply` for whoever asks the same.
    ///
    /// # Errors
    /// When the file can't be written; an older one is unharmed.
    pub(super) fn put(&self, asked: &Asked<'_>, reply: &ChatReply) -> io::Result<()> {
        let key = key(asked);
        let entry = Entry {
            format: FORMAT,
            asked: serde_json::to_value(asked)?,
            reply: reply.clone(),
            seal: seal(&key, reply),
        };
        let path = self.path(&key);
        let folder = path.parent().unwrap_or(&self.folder);
        fs::create_dir_all(folder)?;
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(&serde_json::to_vec(&entry)?)?;
        file.persist(&path)?;
        Ok(())
    }

    /// Folders of one per first byte keep each of them small.
    fn path(&self, key: &str) -> PathBuf {
        self.folder.join(&key[..2]).join(format!("{key}.json"))
    }
}

fn key(asked: &Asked<'_>) -> String {
    let bytes = serde_json::to_vec(&(FORMAT, asked)).expect("plain data with string keys");
    blake3::hash(&bytes).to_hex().to_string()
}

fn seal(key: &str, reply: &ChatReply) -> String {
    let bytes = serde_json::to_vec(&(key, reply)).expect("plain data");
    blake3::hash(&bytes).to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use skein_core::types::FinishReason;

    use super::*;

    fn reply(text: &str) -> ChatReply {
        ChatReply { text: text.into(), finish_reason: FinishReason::Stop }
    }

    fn files(folder: &Path) -> Vec<PathBuf> {
        let folders = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        folders.flat_map(|folder| fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path())).collect()
    }

    #[test]
    fn replies_are_found_by_what_was_asked() {
        let folder = tempfile::tempdir().unwrap();
        let cache = ReplyCache::open(&folder.path().join("new/cache"), 1000).unwrap();
        let (one, two) = (json!({ "model": "m", "seed": 1 }), json!({ "model": "m", "seed": 2 }));
        let asked = Asked { url: "http://a", body: &one };
        assert_eq!(cache.get(&asked), None);
        cache.put(&asked, &reply("é\n")).unwrap();
        assert_eq!(cache.get(&asked), Some(reply("é\n")));
        assert_eq!(cache.get(&Asked { url: "http://b", body: &one }), None);
        assert_eq!(cache.get(&Asked { url: "http://a", body: &two }), None);
        cache.put(&asked, &reply("new")).unwrap();
        assert_eq!(cache.get(&asked), Some(reply("new")));
        assert_eq!(files(&folder.path().join("new/cache")).len(), 1);
    }

    #[test]
    fn a_damaged_entry_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let cache = ReplyCache::open(folder.path(), 1000).unwrap();
        let body = json!({ "model": "m" });
        let asked = Asked { url: "http://a", body: &body };
        cache.put(&asked, &reply("good")).unwrap();
        let path = files(folder.path()).remove(0);
        let whole = fs::read(&path).unwrap();
        for damaged in [
            Vec::new(),
            whole[..whole.len() / 2].to_vec(),
            String::from_utf8(whole.clone()).unwrap().replace("good", "evil").into_bytes(),
            [whole.as_slice(), b"x"].concat(),
            vec![0; 100],
            b"{\"format\": 1}".to_vec(),
            vec![b' '; cache.max_bytes + 10],
        ] {
            fs::write(&path, damaged).unwrap();
            assert_eq!(cache.get(&asked), None);
        }
        cache.put(&asked, &reply("good")).unwrap();
        assert_eq!(cache.get(&asked), Some(reply("good")));
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert_eq!(cache.get(&asked), None);
        assert!(cache.put(&asked, &reply("good")).is_err());
    }

    #[test]
    fn writers_of_one_entry_do_not_disturb_each_other() {
        let folder = tempfile::tempdir().unwrap();
        let body = json!({ "model": "m" });
        let asked = Asked { url: "http://a", body: &body };
        std::thread::scope(|scope| {
            for writer in 0..8 {
                let (folder, asked) = (folder.path(), &asked);
                scope.spawn(move || {
                    let cache = ReplyCache::open(folder, 1000).unwrap();
                    for _ in 0..50 {
                        cache.put(asked, &reply(&writer.to_string().repeat(100))).unwrap();
                        assert!(cache.get(asked).is_some(), "an entry was seen half written");
                    }
                });
            }
        });
        assert_eq!(files(folder.path()).len(), 1);
    }
}
