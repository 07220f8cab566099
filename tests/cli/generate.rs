//! `skein generate`.

use std::fs;
use std::process::Command;

use serde_json::Value;

use super::train::Bench;
use super::{assert_refused, skein};

#[test]
fn a_hub_id_goes_through_the_cache_the_environment_names() {
    let home = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_skein"))
        .args(["generate", "--model", "owner/name", "--prompt", "hi"])
        .env("HF_HOME", home.path())
        .env("HF_HUB_OFFLINE", "1")
        .env_remove("HF_HUB_CACHE")
        .env_remove("HUGGINGFACE_HUB_CACHE")
        .output()
        .expect("the binary was built with the tests");
    let message = String::from_utf8_lossy(&output.stderr);
    let cache = home.path().join("hub");
    let expected = format!("`owner/name` (revision `main`) is not complete in {}, and HF_HUB_OFFLINE", cache.display());
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains(&expected), "{message}");
}

#[test]
fn what_it_writes_is_what_reward_reads() {
    let bench = Bench::new();
    let run = bench.out("run");
    bench.train(&run, &["--set", "stages=[\"sft\"]", "--set", "sft.max_steps=1"]);
    let path = |name: &str| bench.out(name).display().to_string();
    let step = r#"{"question":"1+1?","answer":"2","domain":"math","skill":"Sums"}"#;
    fs::write(path("tasks"), format!(r#"{{"id":"sum","scenario":"","steps":[{step}]}}"#)).unwrap();
    let generate = |lines: &str| {
        fs::write(path("prompts"), lines).unwrap();
        let (model, prompts, responses) =
            (run.join("latest").display().to_string(), path("prompts"), path("responses"));
        skein(&["generate", "--model", &model, "--prompts", &prompts, "--out", &responses, "--max-new", "4", "-n", "2"])
    };
    let output = generate("{\"id\":\"sum\",\"prompt\":\"1+1?\"}\n");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let scored = skein(&["reward", "--tasks", &path("tasks"), "--responses", &path("responses"), "--json"]);
    assert!(scored.status.success(), "{}", String::from_utf8_lossy(&scored.stderr));
    let lines: Vec<Value> =
        String::from_utf8(scored.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.iter().map(|line| line["id"].as_str().unwrap()).collect::<Vec<_>>(), ["sum", "sum"]);

    assert!(generate("{\"prompt\":\"1+1?\"}\n").status.success(), "an id is not needed to generate");
    let args = ["reward", "--tasks", &path("tasks"), "--responses", &path("responses")];
    assert_refused(&args, 2, "missing field `id`; it names the task");
    let refused = generate("{\"id\":\"sum\"}\n");
    assert_eq!(refused.status.code(), Some(2));
    let message = String::from_utf8(refused.stderr).unwrap();
    assert!(message.contains("prompts:1: expected either `prompt`"), "{message}");
}
