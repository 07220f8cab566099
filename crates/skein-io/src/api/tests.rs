use std::collections::VecDeque;
use std::io::{BufRead, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use skein_core::types::{FinishReason, Message};

use super::*;

const KEY: &str = "sk-very-secret-0123456789";

/// Costs are sums of a few doubles below a thousandth.
const TOLERANCE: f64 = 1e-15;

/// Waits of the tests' clients.
const BACKOFF_SECS: f64 = 0.02;

/// What a server does with one connection.
#[derive(Clone)]
enum Act {
    /// Sends these bytes, with a pause before each piece, and hangs up.
    Send(Vec<Vec<u8>>, Duration),
    /// Says nothing for this long.
    Sleep(Duration),
    /// Says what it was asked, after this pause.
    Echo(Duration),
}

fn response(status: &str, headers: &str, body: &str) -> Act {
    let head = format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    Act::Send(vec![head.into_bytes(), body.as_bytes().to_vec()], Duration::ZERO)
}

fn ok(body: &str) -> Act {
    response("200 OK", "Content-Type: application/json; charset=utf-8\r\n", body)
}

fn reply_json(text: &str) -> String {
    json!({
        "choices": [{ "index": 0, "message": { "role": "assistant", "content": text }, "finish_reason": "stop" }],
        "usage": { "prompt_tokens": 10, "completion_tokens": 4 },
    })
    .to_string()
}

/// A stream in chunks of `size` bytes, each in a packet of its own.
fn stream(body: &str, size: usize) -> Act {
    let head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n";
    let chunk = |part: &[u8]| [format!("{:x}\r\n", part.len()).as_bytes(), part, b"\r\n"].concat();
    let mut pieces = vec![head.to_vec()];
    pieces.extend(body.as_bytes().chunks(size).map(chunk));
    pieces.push(b"0\r\n\r\n".to_vec());
    Act::Send(pieces, Duration::from_millis(1))
}

fn event(text: &str) -> String {
    format!("data: {}\n\n", json!({ "choices": [{ "index": 0, "delta": { "content": text } }] }))
}

const END: &str = "data: {\"choices\": [{\"delta\": {}, \"finish_reason\": \"stop\"}]}\n\n\
                   data: {\"choices\": [], \"usage\": {\"prompt_tokens\": 7, \"completion_tokens\": 3}}\n\n\
                   data: [DONE]\n\n";

/// What a server saw.
#[derive(Default)]
struct Seen {
    requests: Vec<(String, Value)>,
    under_way: usize,
    most_under_way: usize,
}

/// A server on 127.0.0.1 that performs its acts one by one, the last one for ever.
struct Server {
    url: String,
    seen: Arc<Mutex<Seen>>,
}

impl Server {
    fn start(acts: Vec<Act>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1/", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Seen::default()));
        let log = Arc::clone(&seen);
        std::thread::spawn(move || {
            let mut acts = VecDeque::from(acts);
            for stream in listener.incoming() {
                let act = if acts.len() > 1 { acts.pop_front() } else { acts.front().cloned() };
                let log = Arc::clone(&log);
                std::thread::spawn(move || perform(stream.unwrap(), act.unwrap(), &log));
            }
        });
        Self { url, seen }
    }

    fn config(&self) -> ApiConfig {
        ApiConfig {
            base_url: self.url.clone(),
            model: "judge".into(),
            api_key_env: Some("JUDGE_KEY".into()),
            max_retries: 2,
            backoff_secs: BACKOFF_SECS,
            prompt_price: 2.0,
            completion_price: 10.0,
            ..Default::default()
        }
    }

    fn model(&self) -> ApiModel {
        model(self.config())
    }

    fn num_requests(&self) -> usize {
        self.seen.lock().unwrap().requests.len()
    }
}

fn perform(mut stream: TcpStream, act: Act, log: &Mutex<Seen>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 || line == "\r\n" {
            break;
        }
        if let Some((_, value)) = line.split_once(": ").filter(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        {
            length = value.trim().parse().unwrap();
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    {
        let mut seen = log.lock().unwrap();
        seen.requests.push((head, body.clone()));
        seen.under_way += 1;
        seen.most_under_way = seen.most_under_way.max(seen.under_way);
    }
    let act = match act {
        Act::Echo(pause) => {
            std::thread::sleep(pause);
            ok(&reply_json(body["messages"][0]["content"].as_str().unwrap()))
        }
        act => act,
    };
    // Before the reply: whoever has read it may ask again before this thread runs on.
    log.lock().unwrap().under_way -= 1;
    match act {
        Act::Echo(_) => unreachable!("it was replaced"),
        Act::Sleep(time) => std::thread::sleep(time),
        Act::Send(pieces, pause) => {
            for piece in pieces {
                std::thread::sleep(pause);
                if stream.write_all(&piece).and_then(|()| stream.flush()).is_err() {
                    break;
                }
            }
        }
    }
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let _ = reader.read_to_end(&mut Vec::new());
}

fn model(config: ApiConfig) -> ApiModel {
    ApiModel::with_variables(config, |name| (name == "JUDGE_KEY").then(|| KEY.to_owned())).unwrap()
}

fn request(content: &str) -> ChatRequest {
    let messages = vec![Message { role: "user".into(), content: content.into() }];
    ChatRequest { messages, temperature: 0.0, max_new_tokens: 50, seed: 3 }
}

fn ask(model: &ApiModel) -> Result<ChatReply, ChatError> {
    ask_within(model, Duration::from_secs(20))
}

fn ask_within(model: &ApiModel, time: Duration) -> Result<ChatReply, ChatError> {
    model.complete(&[request("hello")], Instant::now() + time).remove(0)
}

#[test]
fn a_request_carries_what_decides_the_reply() {
    let server = Server::start(vec![ok(&reply_json("hé"))]);
    let extra = json!({ "top_k": 1, "seed": null }).as_object().unwrap().clone();
    let model = model(ApiConfig { extra, ..server.config() });
    assert_eq!(ask(&model), Ok(ChatReply { text: "hé".into(), finish_reason: FinishReason::Stop }));
    let (head, body) = server.seen.lock().unwrap().requests.remove(0);
    assert!(head.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"), "{head}");
    assert!(head.to_lowercase().contains(&format!("authorization: bearer {KEY}\r\n")), "{head}");
    let expected = json!({
        "model": "judge", "messages": [{ "role": "user", "content": "hello" }],
        "temperature": 0.0, "max_tokens": 50, "top_k": 1,
    });
    assert_eq!(body, expected);
    let usage = model.usage();
    assert_eq!((usage.requests, usage.retries, usage.replies, usage.unmetered), (1, 0, 1, 0));
    assert!((usage.cost - (10.0 * 2.0 + 4.0 * 10.0) / 1e6).abs() < TOLERANCE, "{}", usage.cost);
}

#[test]
fn characters_cut_by_chunks_are_whole_again() {
    let text = "Grüße, 世界 🦀👩‍👩‍👧 \"ok\"\n";
    let body = text.chars().map(|c| event(&c.to_string())).collect::<String>() + END;
    for size in [1, 2, 3, 7, 10_000] {
        let server = Server::start(vec![stream(&body, size)]);
        let model = model(ApiConfig { stream: true, ..server.config() });
        assert_eq!(ask(&model).map(|reply| reply.text).as_deref(), Ok(text), "chunks of {size}");
        assert_eq!((model.usage().prompt_tokens, model.usage().completion_tokens), (7, 3));
        assert_eq!(server.seen.lock().unwrap().requests[0].1["stream"], true);
    }
}

#[test]
fn what_may_pass_is_repeated() {
    let good = ok(&reply_json("good"));
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{\"choices\"";
    let closed_early = Act::Send(vec![head.into()], Duration::ZERO);
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\nffff\r\ndata: ";
    let broken_chunk = Act::Send(vec![head.into()], Duration::ZERO);
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";
    let stream_cut = Act::Send(vec![head.into(), event("go").into_bytes()], Duration::ZERO);
    for (name, bad) in [
        ("500", response("500 Internal Server Error", "", "oops")),
        ("503", response("503 Service Unavailable", "Content-Type: text/html\r\n", "<html>busy</html>")),
        ("429", response("429 Too Many Requests", "Retry-After: 0\r\n", "")),
        ("nothing", Act::Send(Vec::new(), Duration::ZERO)),
        ("no HTTP", Act::Send(vec![b"hello\r\n\r\n".to_vec()], Duration::ZERO)),
        ("closed early", closed_early),
        ("broken chunk", broken_chunk),
        ("stream cut", stream_cut),
        ("broken JSON", ok("{\"choices\": [{")),
        ("no choices", ok("{}")),
        ("no text", ok(r#"{"choices": [{"message": {}}]}"#)),
        (
            "not UTF-8",
            Act::Send(
                vec![
                    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 3\r\n\r\n\"\xff\"".to_vec(),
                ],
                Duration::ZERO,
            ),
        ),
        ("failure inside", ok(r#"{"error": {"message": "overloaded"}}"#)),
        ("broken event", stream("data: {\n\n", 100)),
        ("failing event", stream("data: {\"error\": {\"message\": \"x\"}}\n\n", 100)),
        ("wrong type", response("200 OK", "Content-Type: text/html\r\n", "<html>")),
        ("no type", response("200 OK", "", &reply_json("x"))),
    ] {
        let server = Server::start(vec![bad.clone(), good.clone()]);
        let model = server.model();
        assert_eq!(ask(&model).map(|reply| reply.text), Ok("good".into()), "{name}");
        assert_eq!((model.usage().requests, model.usage().retries), (2, 1), "{name}");

        let server = Server::start(vec![bad]);
        let error = ask(&server.model()).unwrap_err();
        assert!(matches!(&error, ChatError::Failed { message } if message.ends_with("(attempt 3)")), "{name}: {error}");
        assert_eq!(server.num_requests(), 3, "{name}");
    }
}

#[test]
fn what_will_not_pass_is_not_repeated() {
    let huge = reply_json(&"x".repeat(100_000));
    let filtered = r#"{"choices": [{"message": {"content": ""}, "finish_reason": "content_filter"}]}"#;
    for (act, words) in [
        (
            response("400 Bad Request", "", "{\"error\":\n {\"message\": \"no such model\"}}"),
            "400: {\"error\": {\"message\"",
        ),
        (response("401 Unauthorized", "", ""), "answered 401"),
        (response("404 Not Found", "", &"long ".repeat(100_000)), "answered 404: long long"),
        (response("302 Found", "Location: http://127.0.0.1:9/\r\n", ""), "answered 302"),
        (ok(&huge), "more than 50000 bytes"),
        (stream(&event(&"x".repeat(1000)).repeat(100), 10_000), "more than 50000 bytes"),
        (ok(filtered), "was filtered"),
    ] {
        let server = Server::start(vec![act]);
        let model = model(ApiConfig { max_reply_bytes: 50_000, ..server.config() });
        let error = ask(&model).unwrap_err();
        assert!(matches!(&error, ChatError::Refused { message } if message.contains(words)), "{words}: {error}");
        assert!(error.to_string().len() < 500 && server.num_requests() == 1, "{error}");
    }
}

#[test]
fn the_server_says_how_long_to_wait() {
    let date = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(3));
    for (value, least) in [("1".to_owned(), Duration::from_secs(1)), (date, Duration::from_secs(1))] {
        let busy = response("429 Too Many Requests", &format!("Retry-After: {value}\r\n"), "");
        let server = Server::start(vec![busy.clone(), ok(&reply_json("good"))]);
        let began = Instant::now();
        assert!(ask(&server.model()).is_ok());
        assert!(began.elapsed() >= least, "{value}: {:?}", began.elapsed());
    }
    for value in ["3600", "99999999999999999999", "Fri, 31 Dec 9999 23:59:59 GMT"] {
        let server = Server::start(vec![response("429 Too Many Requests", &format!("Retry-After: {value}\r\n"), "")]);
        let began = Instant::now();
        let error = ask(&server.model()).unwrap_err();
        assert!(matches!(&error, ChatError::Deadline { message } if message.contains("answered 429")), "{error}");
        assert!(began.elapsed() < Duration::from_secs(10), "waiting is no use when the deadline comes first");
    }
}

#[test]
fn nothing_outlives_its_deadline() {
    let slow_stream = Act::Send(
        vec![b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n".to_vec()]
            .into_iter()
            .chain((0..100).map(|_| event("x").into_bytes()))
            .collect(),
        Duration::from_millis(100),
    );
    for act in [Act::Sleep(Duration::from_secs(30)), slow_stream] {
        let server = Server::start(vec![act]);
        let began = Instant::now();
        let error = ask_within(&server.model(), Duration::from_millis(500)).unwrap_err();
        assert!(matches!(error, ChatError::Deadline { .. }), "{error}");
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    }
    let server = Server::start(vec![ok(&reply_json("x"))]);
    let error = ask_within(&server.model(), Duration::ZERO).unwrap_err();
    assert!(matches!(error, ChatError::Deadline { .. }) && server.num_requests() == 0, "{error}");
}

#[test]
fn a_silent_server_is_given_up_and_asked_again() {
    let server = Server::start(vec![Act::Sleep(Duration::from_secs(30)), ok(&reply_json("good"))]);
    let model = model(ApiConfig { read_timeout_secs: 0.3, max_retries: 20, ..server.config() });
    assert_eq!(ask(&model).map(|reply| reply.text), Ok("good".into()));
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = ask(&self::model(ApiConfig { base_url: format!("http://{nobody}"), ..server.config() })).unwrap_err();
    assert!(matches!(error, ChatError::Failed { .. }), "{error}");
}

#[test]
fn replies_keep_their_order_and_requests_their_limits() {
    let server = Server::start(vec![Act::Echo(Duration::from_millis(50))]);
    let model = model(ApiConfig { max_concurrent: 3, ..server.config() });
    let requests: Vec<ChatRequest> = (0..10).map(|index| request(&index.to_string())).collect();
    let deadline = Instant::now() + Duration::from_secs(60);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let replies = model.complete(&requests, deadline);
                for (index, reply) in replies.into_iter().enumerate() {
                    assert_eq!(reply.map(|reply| reply.text), Ok(index.to_string()));
                }
            });
        }
    });
    assert_eq!(server.num_requests(), 20);
    assert!(server.seen.lock().unwrap().most_under_way <= 3, "{}", server.seen.lock().unwrap().most_under_way);

    let mixed = Server::start(vec![response("400 Bad Request", "", ""), ok(&reply_json("a"))]);
    let model = self::model(ApiConfig { max_concurrent: 1, ..mixed.config() });
    let replies = model.complete(&requests[..3], deadline);
    assert!(replies[0].is_err() && replies[1].is_ok() && replies[2].is_ok());

    let model = self::model(ApiConfig { requests_per_minute: 2, ..mixed.config() });
    let replies = model.complete(&requests[..3], Instant::now() + Duration::from_secs(2));
    let late = replies.iter().filter(|reply| matches!(reply, Err(ChatError::Deadline { .. }))).count();
    assert_eq!((late, model.usage().requests), (1, 2));
}

#[test]
fn a_kept_reply_is_not_paid_for_again() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(vec![ok(&reply_json("first")), ok(&reply_json("second"))]);
    let config = || ApiConfig { cache: Some(folder.path().join("replies")), ..server.config() };
    let (one, two) = (model(config()), model(ApiConfig { stream: true, ..config() }));
    for model in [&one, &one, &two] {
        assert_eq!(ask(model).map(|reply| reply.text), Ok("first".into()));
    }
    assert_eq!((server.num_requests(), one.usage().cache_hits, two.usage().cache_hits), (1, 1, 1));
    assert_eq!(two.usage().cost, 0.0);
    let deadline = Instant::now() + Duration::from_secs(20);
    let other = ChatRequest { seed: 4, ..request("hello") };
    assert_eq!(one.complete(&[other], deadline)[0].as_ref().map(|reply| reply.text.as_str()), Ok("second"));
    let renamed = model(ApiConfig { model: "other".into(), ..config() });
    assert_eq!(ask(&renamed).map(|reply| reply.text), Ok("second".into()));

    let failing = Server::start(vec![response("400 Bad Request", "", ""), ok(&reply_json("good"))]);
    let model = model(ApiConfig { cache: Some(folder.path().to_owned()), ..failing.config() });
    assert!(ask(&model).is_err() && ask(&model).is_ok(), "failures are not kept");
}

#[test]
fn the_key_is_shown_nowhere() {
    let echo = format!("{{\"error\": \"Incorrect API key provided: {KEY}.\"}}");
    let cut = format!("{}{KEY}", " ".repeat(MAX_COMPLAINT_BYTES as usize - 12));
    let inside = json!({ "error": { "message": KEY } }).to_string();
    let acts = [response("401 Unauthorized", "", &echo), response("500 Oops", "", &cut), ok(&inside)];
    for act in acts {
        let server = Server::start(vec![act]);
        let model = server.model();
        let error = ask(&model).unwrap_err();
        for text in [format!("{error} {error:?}"), format!("{model:?}")] {
            assert!(!text.contains("secret") && !text.contains("sk-very"), "{text}");
        }
    }
    let config = || ApiConfig { api_key_env: Some("JUDGE_KEY".into()), ..Server::start(vec![]).config() };
    for (value, words) in [(None, "it is not set"), (Some(" "), "it is not set"), (Some("sk secret"), "characters")] {
        let error = ApiModel::with_variables(config(), |_| value.map(str::to_owned)).unwrap_err();
        let text = format!("{error} {error:?}");
        assert!(text.contains(words) && text.contains("JUDGE_KEY") && !text.contains("secret"), "{text}");
    }
    let error = ApiModel::with_variables(ApiConfig::default(), |_| None).unwrap_err().to_string();
    assert!(error.contains("base_url: ") && error.contains("model: "), "{error}");
}
