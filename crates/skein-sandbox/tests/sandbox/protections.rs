//! What happens where the sandbox can't stand: no worker, no interpreter, another user, a caller that dies.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use skein_core::reward::scorers::coding::runner::RunCode;
use skein_sandbox::{Policy, Sandbox, SandboxError};

use super::{policy, sandbox};

/// The uid and gid of `nobody` on most systems; any number that is not root's will do.
const NOBODY: u32 = 65_534;
/// Set for the part of a test that runs as another user.
const AS_NOBODY: &str = "SKEIN_SANDBOX_TEST_AS_NOBODY";

#[test]
fn without_its_parts_there_is_no_sandbox() {
    let none = Policy { worker: Some(PathBuf::from("/nonexistent/worker")), ..policy() };
    let error = Sandbox::start(&none).unwrap_err();
    assert!(matches!(error, SandboxError::NoWorker { .. }) && error.to_string().contains("/nonexistent/worker"));
    let none = Policy { python: Some(PathBuf::from("/nonexistent/python")), ..policy() };
    assert!(matches!(Sandbox::start(&none), Err(SandboxError::NoInterpreter(_))));
    let silent = Policy { worker: Some(PathBuf::from("/bin/true")), ..policy() };
    let error = Sandbox::start(&silent).unwrap_err();
    assert!(matches!(error, SandboxError::Missing { .. }), "{error}");
}

#[test]
fn nothing_is_missing_here() {
    assert_eq!(sandbox().missing(), []);
}

#[test]
fn a_broken_worker_is_an_error_and_not_a_zero() {
    let directory = tempfile::tempdir().unwrap();
    let worker = directory.path().join("worker");
    fs::copy(policy().worker.unwrap(), &worker).unwrap();
    let sandbox = Sandbox::start(&Policy { worker: Some(worker.clone()), ..policy() }).unwrap();
    fs::remove_file(&worker).unwrap();
    let error = sandbox.run_program("print(1)", "").unwrap_err();
    assert!(error.to_string().contains("the worker can't be started"), "{error}");
}

#[test]
fn an_ordinary_user_is_protected_too() {
    if std::env::var_os(AS_NOBODY).is_some() {
        return;
    }
    let (uid, python) = (fs::metadata("/proc/self").unwrap(), PathBuf::from("/usr/bin/python3"));
    if std::os::unix::fs::MetadataExt::uid(&uid) != 0 || !python.exists() {
        eprintln!("NOT RUN: only root with a system Python can try the sandbox as another user");
        return;
    }
    // The build directory may be closed to others.
    let directory = tempfile::tempdir().unwrap();
    let open = || std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(directory.path(), open()).unwrap();
    let [worker, tests] = [policy().worker.unwrap(), std::env::current_exe().unwrap()].map(|binary| {
        let copy = directory.path().join(binary.file_name().unwrap());
        fs::copy(&binary, &copy).unwrap();
        fs::set_permissions(&copy, open()).unwrap();
        copy
    });
    let output = Command::new(tests)
        .args(["--exact", "protections::as_nobody", "--ignored", "--nocapture"])
        .env(AS_NOBODY, worker)
        .current_dir("/")
        .uid(NOBODY)
        .gid(NOBODY)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

#[test]
#[ignore = "run by another test, as another user"]
fn as_nobody() {
    let worker = std::env::var_os(AS_NOBODY).map(PathBuf::from).expect("run by another test");
    let policy = Policy { worker: Some(worker), python: Some("/usr/bin/python3".into()), ..Policy::default() };
    let sandbox = Sandbox::start(&policy).unwrap();
    assert_eq!(sandbox.missing(), []);
    assert_eq!(sandbox.run_program("print(input())", "x").unwrap(), Ok("x\n".into()));
    let attack = "import os\ntry: os.kill(1, 9)\nexcept OSError as error: print(error.errno)";
    assert_eq!(sandbox.run_program(attack, "").unwrap(), Ok("1\n".into()));
}
