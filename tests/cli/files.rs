//! What `--out` names: a file is replaced once the new one is whole, a pipe is written to.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use super::skein;
use super::train::Bench;

/// The files written by a run of each command that writes one.
#[test]
fn a_file_is_replaced_and_a_pipe_is_written_to() {
    let bench = Bench::new();
    let run = bench.out("run");
    bench.train(&run, &["--set", "stages=[\"sft\",\"eval\"]", "--set", "sft.max_steps=1"]);
    let (run, model) = (run.display().to_string(), run.join("latest").display().to_string());
    let generate = ["generate", "--model", &model, "--prompt", "1+1?", "--max-new", "2"];
    for (args, expected) in [
        (&["synth", "--procedural", "--n", "3"][..], "\"steps\""),
        (&["report", &run], "<!doctype html>"),
        (&generate, "\"response\""),
    ] {
        let write_to = |path: &Path| {
            let output = skein(&[args, &["--out", path.to_str().unwrap()]].concat());
            assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        };
        let (file, link) = (bench.out("file"), bench.out("link"));
        fs::write(&file, "old").unwrap();
        // Who has the old file open goes on reading it.
        fs::hard_link(&file, &link).unwrap();
        write_to(&file);
        assert_eq!(fs::read_to_string(&link).unwrap(), "old", "{args:?} wrote into the file that was there");
        assert!(fs::read_to_string(&file).unwrap().contains(expected), "{args:?}");
        assert_ne!(fs::metadata(&file).unwrap().ino(), fs::metadata(&link).unwrap().ino());

        let pipe = bench.out("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || fs::read_to_string(pipe).unwrap()
        });
        write_to(&pipe);
        assert!(!pipe.is_file(), "{args:?} replaced a pipe");
        assert!(reader.join().unwrap().contains(expected), "{args:?}");
        for path in [&file, &link, &pipe] {
            fs::remove_file(path).unwrap();
        }
    }
}
