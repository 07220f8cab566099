//! The coding scorer over a back end that follows a script instead of running anything.

use super::runner::{Evidence, Failure};
use super::*;

/// Answers every request with the code it was given, or breaks.
struct Script {
    broken: bool,
}

impl Script {
    fn reply<T>(&self, value: Result<T, Failure>) -> Result<Result<T, Failure>, RunError> {
        if self.broken { Err(RunError::Broken("no interpreter".into())) } else { Ok(value) }
    }
}

impl RunCode for Script {
    fn run_program(&self, code: &str, stdin: &str) -> Result<Result<String, Failure>, RunError> {
        self.reply(match code {
            "hang" => Err(Failure::TimeLimit),
            "echo" => Ok(stdin.to_owned()),
            other => Ok(other.to_owned()),
        })
    }

    fn call(&self, code: &str, _: &str, arguments: &[PlainValue]) -> Result<Result<PlainValue, Failure>, RunError> {
        self.reply(match code {
            "tuple" => Ok(PlainValue::Tuple(arguments.to_vec())),
            _ => Err(Failure::NotPlain),
        })
    }

    fn check_asserts(&self, code: &str, tests: &AssertTests) -> Result<Result<Evidence, Failure>, RunError> {
        if tests.code == "bad" {
            return Err(RunError::Tests("syntax".into()));
        }
        let right = tests.reference.as_deref().unwrap_or("right") == code;
        self.reply(if right { Ok(Evidence::Values) } else { Err(Failure::Rejected("no".into())) })
    }
}

fn verdict(answer: &str, gold: &str) -> Result<f64, String> {
    score(answer, gold, Some(&Script { broken: false })).map_err(|error| error.to_string())
}

#[test]
fn every_form_of_gold() {
    let reference = r#"{"tests":{"type":"asserts","code":"assert f"},"reference":"ref"}"#;
    assert_eq!((verdict("ref", reference), verdict("x", reference)), (Ok(1.0), Ok(0.0)));
    assert_eq!(Gold::parse(reference).unwrap().reference(), Some("ref"));
    assert_eq!(verdict("right", r#"{"tests":"assert f","entry_point":"f"}"#), Ok(1.0));
    for gold in [
        r#"{"inputs":["1","2"],"outputs":["1.0","2"]}"#,
        r#"{"tests":{"type":"stdio","inputs":["1","2"],"outputs":["1","2"]},"reference":null}"#,
    ] {
        assert_eq!((verdict("echo", gold), verdict("1", gold), verdict("hang", gold)), (Ok(1.0), Ok(0.0), Ok(0.0)));
    }
    for gold in [
        r#"{"fn_name":"f","inputs":["3\n4\n"],"outputs":["[3, 4]"]}"#,
        r#"{"tests":{"type":"call","fn_name":"f","inputs":["3\n4"],"outputs":["[3, 4.0]"]}}"#,
    ] {
        assert_eq!((verdict("tuple", gold), verdict("object", gold)), (Ok(1.0), Ok(0.0)));
    }
}

#[test]
fn reasoning_comes_off_and_long_code_stays_whole() {
    let gold = r#"{"inputs":[""],"outputs":["echo 1"]}"#;
    assert_eq!(verdict("```\nno\n```</think> <answer>```python\necho 1\n```</answer>", gold), Ok(1.0));
    let long = "x".repeat(2 * super::super::MAX_ANSWER_BYTES);
    let gold = serde_json::json!({"inputs": [""], "outputs": [long]}).to_string();
    assert_eq!(verdict(&format!("```\n{long}\n```"), &gold), Ok(1.0));
    assert_eq!(verdict("```python\ncut off", &gold), Ok(0.0));
}

#[test]
fn what_cannot_be_judged_is_an_error() {
    let gold = r#"{"inputs":[""],"outputs":[""]}"#;
    assert_eq!(score("x", gold, None), Err(ScoreError::NoRunner));
    assert_eq!(score("x", gold, Some(&Script { broken: true })), Err(ScoreError::Runner("no interpreter".into())));
    for (gold, problem) in [
        ("x", "is not a JSON object"),
        ("{}", "has no list `inputs`"),
        (r#"{"tests":{"type":"pytest"}}"#, "has tests of no known type"),
        (r#"{"tests":{"type":"asserts"}}"#, "has no `code`"),
        (r#"{"inputs":["1"],"outputs":[]}"#, "has 1 inputs and 0 outputs"),
        (r#"{"inputs":[],"outputs":[]}"#, "has 0 inputs"),
        (r#"{"fn_name":"f","inputs":["x"],"outputs":["1"]}"#, "has an input line that is not JSON"),
        (r#"{"fn_name":"f","inputs":["1"],"outputs":["x"]}"#, "has an output that is not JSON"),
        (r#"{"tests":"bad"}"#, "has tests that can't be run: syntax"),
    ] {
        let error = verdict("x", gold).unwrap_err();
        assert!(error.contains(problem), "{gold}: {error}");
    }
}
