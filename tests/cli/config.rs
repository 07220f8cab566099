//! `skein config`.

use std::fs;

use skein_core::config::Config;

use super::{assert_refused, skein};

/// A config that needs nothing from the disk.
const VALID: &str = "stages = [\"rl\"]\n[model]\npath = \"owner/name\"\n[rl]\ntasks = { procedural = {} }\n";

#[test]
fn shows_the_whole_config_with_includes_and_overrides() {
    let folder = tempfile::tempdir().unwrap();
    let (base, run) = (folder.path().join("base.toml"), folder.path().join("run.toml"));
    fs::write(&base, VALID).unwrap();
    fs::write(&run, "include = \"base.toml\"\nname = \"mine\"\n").unwrap();
    let output = skein(&["config", "show", run.to_str().unwrap(), "--set", "rl.steps=3", "--set", "rl.lr=1e-7"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let shown = folder.path().join("shown.toml");
    fs::write(&shown, &output.stdout).unwrap();
    let config = Config::load(&shown, &[]).unwrap();
    assert_eq!((config.name.as_str(), config.rl.steps, config.rl.lr, config.rl.group_size), ("mine", 3, 1e-7, 8));
}

#[test]
fn checks_every_file_and_reports_every_problem() {
    let folder = tempfile::tempdir().unwrap();
    let (good, bad) = (folder.path().join("good.toml"), folder.path().join("bad.toml"));
    fs::write(&good, VALID).unwrap();
    fs::write(&bad, format!("{VALID}lrr = 1\ngroup_size = 1\nbatch_size = 0\n")).unwrap();
    let output = skein(&["config", "check", good.to_str().unwrap(), bad.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{}: ok\n", good.display()));
    let message = String::from_utf8(output.stderr).unwrap();
    for expected in [
        "bad.toml:6: rl.lrr: unknown key; did you mean `lr`?",
        "bad.toml:7: rl.group_size: is 1",
        "bad.toml:8: rl.batch_size: is 0; expected 1 or more",
    ] {
        assert!(message.contains(expected), "{message} lacks {expected}");
    }
    assert!(skein(&["config", "check", good.to_str().unwrap()]).status.success());
}

#[test]
fn a_missing_file_and_a_malformed_override_are_usage_errors() {
    assert_refused(&["config", "show", "no/such.toml"], 2, "no/such.toml: cannot read the config: ");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.toml");
    fs::write(&path, VALID).unwrap();
    assert_refused(&["config", "show", path.to_str().unwrap(), "--set", "rl.steps"], 2, "expected KEY=VALUE");
}
