//! What the two kinds of jailed process run: the Python of this crate, compiled once by the interpreter that runs it.
//!
//! Compiling takes an interpreter about as long as starting, so it is done when the sandbox starts. The compiled form is
//! made by this crate's own sources and the trusted interpreter alone, and travels in sealed files.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

const CANDIDATE: &str = concat!(
    include_str!("../python/codec.py"),
    include_str!("../python/prelude.py"),
    include_str!("../python/candidate.py")
);
const EXAMINER: &str = concat!(
    include_str!("../python/codec.py"),
    include_str!("../python/prelude.py"),
    include_str!("../python/examiner.py")
);

/// Reads a source and writes what it compiles to.
const COMPILE: &str = "import marshal, sys\n\
                       code = compile(sys.stdin.buffer.read(), '<sandbox>', 'exec', dont_inherit=True, optimize=2)\n\
                       sys.stdout.buffer.write(marshal.dumps(code))";

/// The two scripts as their interpreter loads them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scripts {
    /// The answer's process.
    pub candidate: Vec<u8>,
    /// The tests' process.
    pub examiner: Vec<u8>,
}

impl Scripts {
    /// Compiles both for an interpreter.
    pub fn compile(executable: &Path) -> Result<Self, String> {
        let compile = |source: &str| {
            compiled(executable, source).map_err(|error| format!("it can't compile the sandbox's scripts: {error}"))
        };
        Ok(Self { candidate: compile(CANDIDATE)?, examiner: compile(EXAMINER)? })
    }
}

fn compiled(executable: &Path, source: &str) -> std::io::Result<Vec<u8>> {
    let mut child = Command::new(executable)
        .args(["-s", "-S", "-B", "-c", COMPILE])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    // The interpreter reads everything before it writes, so neither waits for the other.
    child.stdin.take().expect("the child's input is a pipe").write_all(source.as_bytes())?;
    let output = child.wait_with_output()?;
    if output.status.success() { Ok(output.stdout) } else { Err(std::io::Error::other(output.status.to_string())) }
}

/// The command line of a process that finds its script at a descriptor.
pub fn loader(descriptor: usize) -> String {
    format!(
        "import marshal, posix; script = posix.read({descriptor}, 1 << 20); posix.close({descriptor}); \
         exec(marshal.loads(script))"
    )
}
