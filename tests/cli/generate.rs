//! `skein generate`.

use std::process::Command;

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
