//! Compiles `csrc/` against the libtorch that torch-sys found.

use std::path::PathBuf;

const SOURCES: [&str; 3] = ["csrc/parallel.cpp", "csrc/record.cpp", "csrc/training.cpp"];

fn main() {
    println!("cargo:rerun-if-changed=csrc");
    println!("cargo:rerun-if-env-changed=LIBTORCH");
    let lib = std::env::var_os("DEP_TCH_LIBTORCH_LIB").map(PathBuf::from);
    let lib = lib.or_else(|| std::env::var_os("LIBTORCH").map(|root| PathBuf::from(root).join("lib")));
    let lib = lib.expect("libtorch not found: set LIBTORCH to its directory (scripts/setup makes one)");
    let include = lib.parent().expect("libtorch's lib directory has a parent").join("include");
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .flag("-fopenmp") // without it ATen's inline parallel_for is a plain loop
        .flag("-w") // ATen's headers, not ours
        .include(&include)
        .include(include.join("torch/csrc/api/include"))
        .files(SOURCES)
        .compile("torch_ext");
    println!("cargo:rustc-link-arg=-Wl,-rpath,{}", lib.display()); // for this crate's own tests
    println!("cargo:rustc-link-search=native={}", lib.display());
    for name in ["torch_cpu", "c10", "gomp"] {
        println!("cargo:rustc-link-lib={name}");
    }
}
