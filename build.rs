//! Makes the binary find libtorch without LD_LIBRARY_PATH, and know the revision it was built from.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=LIBTORCH");
    println!("cargo:rerun-if-changed=build.rs");
    // Grows with every commit; absent in a source archive, where watching it would rerun this script every time.
    if Path::new(".git/logs/HEAD").exists() {
        println!("cargo:rerun-if-changed=.git/logs/HEAD");
    }
    let libtorch = std::env::var("LIBTORCH").unwrap_or_default();
    println!("cargo:rustc-link-arg=-Wl,-rpath,{libtorch}/lib");
    let version = std::fs::read_to_string(Path::new(&libtorch).join("version.py")).unwrap_or_default();
    let version = version.lines().find_map(|line| line.strip_prefix("__version__ = ")).unwrap_or("unknown");
    println!("cargo:rustc-env=SKEIN_LIBTORCH_VERSION={}", version.trim_matches(['\'', '"']));
    println!("cargo:rustc-env=SKEIN_GIT_REVISION={}", revision().as_deref().unwrap_or("unknown"));
}

fn revision() -> Option<String> {
    let output = Command::new("git").args(["describe", "--always", "--abbrev=12"]).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
