//! The `skein` binary.

fn main() -> std::process::ExitCode {
    skein::cli::main()
}
