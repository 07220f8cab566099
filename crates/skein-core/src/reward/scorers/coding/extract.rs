//! Where the program is in an answer.
//!
//! The rule is LiveCodeBench's: the code is what stands between the last two lines that hold a fence. An answer without
//! any fence is taken as code as a whole, since the answer tag often holds nothing else. An answer with a single fence
//! was cut off or malformed and has no code.

const FENCE: &str = "```";

/// Longer answers have no code: no right program comes near, and an interpreter's parser need not see them.
pub const MAX_CODE_BYTES: usize = 65_536;

/// The program in `answer`; none where there is none.
pub fn code_of(answer: &str) -> Option<&str> {
    let Some(last) = answer.rfind(FENCE) else { return usable(answer) };
    let end = line_start(answer, last);
    let first = answer[..end].rfind(FENCE)?;
    let start = first + answer[first..end].find('\n')? + 1;
    usable(&answer[start..end])
}

fn line_start(text: &str, position: usize) -> usize {
    text[..position].rfind('\n').map_or(0, |newline| newline + 1)
}

fn usable(code: &str) -> Option<&str> {
    (code.len() <= MAX_CODE_BYTES && !code.trim().is_empty()).then_some(code)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn fences() {
        for (answer, code) in [
            ("```python\nx = 1\n```", Some("x = 1\n")),
            ("Sure:\n```\nx = 1\n    ```\nDone", Some("x = 1\n")),
            ("```py\na\n```\nthen\n```py\nb\n```", Some("b\n")),
            ("x = 1", Some("x = 1")),
            ("def f():\r\n    return 1\r\n", Some("def f():\r\n    return 1\r\n")),
            ("```python\nx = 1", None),
            ("```x = 1```", None),
            ("```python\n```", None),
            ("", None),
            ("a\n```b\n```c", None),
        ] {
            assert_eq!(code_of(answer), code, "{answer:?}");
        }
        assert_eq!(code_of(&"#".repeat(MAX_CODE_BYTES + 1)), None);
    }

    proptest! {
        #[test]
        fn never_panics(answer in "(```|\n|é|x| ){0,20}") {
            prop_assert!(code_of(&answer).is_none_or(|code| !code.contains(FENCE)));
        }
    }
}
