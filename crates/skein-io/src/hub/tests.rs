use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use super::*;

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// A hub on 127.0.0.1 that serves one model, `owner/model`, and remembers what it was asked.
struct Server {
    endpoint: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Serves `files`; with a token, to those who send it only.
    fn start(files: &[(&str, &str)], token: Option<&'static str>) -> Self {
        let files: HashMap<String, String> =
            files.iter().map(|(name, content)| ((*name).to_owned(), (*content).to_owned())).collect();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&requests);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                answer(stream.unwrap(), &files, token, &log);
            }
        });
        Self { endpoint, requests }
    }

    /// A hub that is this server, with its cache under `home`.
    fn hub(&self, home: &Path, more: &[(&str, &str)]) -> Hub {
        let mut variables = HashMap::from([
            ("HF_ENDPOINT".to_owned(), self.endpoint.clone() + "/"),
            ("HF_HOME".to_owned(), home.display().to_string()),
        ]);
        variables.extend(more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        Hub::from_variables(|name| variables.get(name).cloned())
    }

    /// The paths asked for since the last call.
    fn take_requests(&self) -> Vec<String> {
        std::mem::take(&mut self.requests.lock().unwrap())
    }
}

fn answer(mut stream: TcpStream, files: &HashMap<String, String>, token: Option<&str>, log: &Mutex<Vec<String>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let (mut path, mut range, mut authorized) = (String::new(), None, token.is_none());
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap() == 0 || line == "\r\n" {
            break;
        }
        if let Some(rest) = line.strip_prefix("GET ") {
            path = rest.split(' ').next().unwrap().to_owned();
        }
        if let Some((name, value)) = line.trim_end().split_once(": ") {
            match name.to_lowercase().as_str() {
                "range" => {
                    range = value
                        .strip_prefix("bytes=")
                        .and_then(|r| r.split_once('-'))
                        .map(|(a, b)| (a.to_owned(), b.to_owned()))
                }
                "authorization" => authorized |= Some(value.strip_prefix("Bearer ").unwrap()) == token,
                _ => {}
            }
        }
    }
    log.lock().unwrap().push(path.clone());
    let (status, headers, body) = if !authorized {
        ("401 Unauthorized", String::new(), Vec::new())
    } else if let Some(revision) = path.strip_prefix("/api/models/owner/model/revision/") {
        if revision == "main" || revision == "v1" {
            let siblings: Vec<Value> = files.keys().map(|name| serde_json::json!({ "rfilename": name })).collect();
            let info = serde_json::json!({ "sha": COMMIT, "siblings": siblings });
            ("200 OK", String::new(), info.to_string().into_bytes())
        } else {
            ("404 Not Found", String::new(), Vec::new())
        }
    } else if let Some(content) =
        path.strip_prefix(&format!("/owner/model/resolve/{COMMIT}/")).and_then(|f| files.get(f))
    {
        let (start, end) = range.unwrap();
        let (start, size) = (start.parse::<usize>().unwrap(), content.len());
        let end = end.parse::<usize>().map_or(size, |end| (end + 1).min(size));
        let headers = format!(
            "Content-Range: bytes {start}-{}/{size}\r\nETag: \"{:x}\"\r\nX-Repo-Commit: {COMMIT}\r\n",
            end - 1,
            crc32c::crc32c(content.as_bytes()),
        );
        ("206 Partial Content", headers, content.as_bytes()[start..end].to_vec())
    } else {
        ("404 Not Found", String::new(), Vec::new())
    };
    let head = format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&body).unwrap();
    // The client has what it asked for; wait for it to hang up, or its last bytes could be reset.
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let _ = reader.read_to_end(&mut Vec::new());
}

const SINGLE: [(&str, &str); 5] = [
    ("config.json", "{}"),
    ("tokenizer.json", "{\"a\": 1}"),
    ("model.safetensors", "weights"),
    ("pytorch_model.bin", "never fetched"),
    ("README.md", "never fetched"),
];

fn sharded() -> Vec<(&'static str, &'static str)> {
    vec![
        ("config.json", "{}"),
        (
            INDEX,
            r#"{"weight_map": {"a": "model-2.safetensors", "b": "model-1.safetensors", "c": "model-2.safetensors"}}"#,
        ),
        ("model-1.safetensors", "one"),
        ("model-2.safetensors", "two"),
        ("model-3.safetensors", "not in the index"),
    ]
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_hub_id_is_fetched_once_and_then_found_offline() {
    let (server, home) = (Server::start(&SINGLE, None), tempfile::tempdir().unwrap());
    let directory = server.hub(home.path(), &[]).resolve("owner/model", None).unwrap();
    assert_eq!(directory, home.path().join("hub/models--owner--model/snapshots").join(COMMIT));
    assert_eq!(names(&directory), ["config.json", "model.safetensors", "tokenizer.json"]);
    assert_eq!(fs::read_to_string(directory.join("model.safetensors")).unwrap(), "weights");

    server.take_requests();
    assert_eq!(server.hub(home.path(), &[]).resolve("owner/model", None).unwrap(), directory);
    assert_eq!(server.take_requests(), ["/api/models/owner/model/revision/main"], "only the list is asked for again");

    let offline = server.hub(home.path(), &[("HF_HUB_OFFLINE", "1")]);
    assert_eq!(offline.resolve("owner/model", None).unwrap(), directory);
    assert_eq!(offline.resolve("owner/model", Some(COMMIT)).unwrap(), directory);
    assert_eq!(server.take_requests(), [""; 0]);
}

#[test]
fn all_shards_of_an_index_and_a_named_revision_are_fetched() {
    let (server, home) = (Server::start(&sharded(), None), tempfile::tempdir().unwrap());
    let cache = home.path().join("elsewhere");
    let hub = server.hub(home.path(), &[("HF_HUB_CACHE", cache.to_str().unwrap())]);
    let directory = hub.resolve("owner/model", Some("v1")).unwrap();
    assert!(directory.starts_with(&cache));
    assert_eq!(names(&directory), ["config.json", "model-1.safetensors", "model-2.safetensors", INDEX]);

    let offline = Hub { offline: true, ..hub };
    assert_eq!(offline.resolve("owner/model", Some("v1")).unwrap(), directory);
    fs::remove_file(directory.join("model-1.safetensors")).unwrap();
    let error = offline.resolve("owner/model", Some("v1")).unwrap_err().to_string();
    let expected = format!(
        "`owner/model` (revision `v1`) is not complete in {}, and HF_HUB_OFFLINE forbids fetching it",
        cache.display()
    );
    assert_eq!(error, expected, "an incomplete snapshot is none");
}

#[test]
fn offline_without_a_cache_asks_nobody() {
    let (server, home) = (Server::start(&SINGLE, None), tempfile::tempdir().unwrap());
    let error = server.hub(home.path(), &[("HF_HUB_OFFLINE", "True")]).resolve("owner/model", None).unwrap_err();
    assert!(matches!(error, HubError::Offline { .. }), "{error}");
    assert_eq!(server.take_requests(), [""; 0]);
}

#[test]
fn a_model_or_revision_that_is_not_there_is_named() {
    let (server, home) = (Server::start(&SINGLE, None), tempfile::tempdir().unwrap());
    let hub = server.hub(home.path(), &[]);
    assert_eq!(
        hub.resolve("owner/nothing", None).unwrap_err().to_string(),
        "there is no directory `owner/nothing`, and the hub has no model of that name with the revision `main`"
    );
    let error = hub.resolve("owner/model", Some("v9")).unwrap_err().to_string();
    assert!(error.ends_with("with the revision `v9`"), "{error}");
    assert_eq!(
        hub.resolve("no/such/path", None).unwrap_err().to_string(),
        "there is no directory `no/such/path`, and it is not a hub id like `owner/name`"
    );
}

#[test]
fn the_token_is_sent_and_its_absence_explained() {
    let (server, home) = (Server::start(&SINGLE, Some("secret")), tempfile::tempdir().unwrap());
    let error = server.hub(home.path(), &[]).resolve("owner/model", None).unwrap_err();
    assert!(matches!(error, HubError::Denied { .. }) && error.to_string().contains("HF_TOKEN"), "{error}");
    server.hub(home.path(), &[("HF_TOKEN", "secret")]).resolve("owner/model", None).unwrap();

    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("token"), "secret\n").unwrap();
    server.hub(home.path(), &[]).resolve("owner/model", None).unwrap();
}

#[test]
fn a_model_without_safetensors_is_refused() {
    let files = [("config.json", "{}"), ("pytorch_model.bin", "x")];
    let (server, home) = (Server::start(&files, None), tempfile::tempdir().unwrap());
    let error = server.hub(home.path(), &[]).resolve("owner/model", None).unwrap_err().to_string();
    assert_eq!(
        error,
        "`owner/model` has no model.safetensors: Skein reads Hugging Face models with safetensors weights"
    );
}

#[test]
fn a_hub_that_does_not_answer_leaves_the_cache() {
    let (server, home) = (Server::start(&SINGLE, None), tempfile::tempdir().unwrap());
    let directory = server.hub(home.path(), &[]).resolve("owner/model", None).unwrap();
    // A port nobody listens on: bound and given back.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let dead = Hub { endpoint: Some(format!("http://127.0.0.1:{port}")), ..server.hub(home.path(), &[]) };
    assert_eq!(dead.resolve("owner/model", None).unwrap(), directory);
    let error = dead.resolve("owner/other", None).unwrap_err().to_string();
    assert!(error.starts_with("could not fetch the list of files of `owner/other`: "), "{error}");
}

#[test]
fn a_directory_is_itself_and_the_environment_is_read_as_elsewhere() {
    let dir = tempfile::tempdir().unwrap();
    let hub = Hub::from_variables(|name| (name == "HOME").then(|| "/home/me".to_owned()));
    assert_eq!(hub.resolve(dir.path().to_str().unwrap(), None).unwrap(), dir.path());
    assert_eq!(hub.cache, Path::new("/home/me/.cache/huggingface/hub"));
    assert_eq!((hub.endpoint.as_deref(), hub.token.as_deref(), hub.offline), (None, None, false));
    let hub = Hub::from_variables(|name| match name {
        "XDG_CACHE_HOME" => Some("/x".into()),
        "HF_HUB_OFFLINE" => Some("0".into()),
        _ => None,
    });
    assert_eq!((hub.cache.as_path(), hub.offline), (Path::new("/x/huggingface/hub"), false));
}
