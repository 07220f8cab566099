//! `skein skills`.

use super::{assert_refused, skein};

#[test]
fn a_bank_without_skills_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bank.toml");
    std::fs::write(&path, "").unwrap();
    let args = ["skills", "match", "--bank", path.to_str().unwrap(), "Sums"];
    assert_refused(&args, 2, "bank.toml: not a skill bank: it lists no skill");
}

#[test]
fn a_label_that_no_name_matches_comes_with_what_to_do() {
    let said = |label: &str| {
        let output = skein(&["skills", "match", label]);
        assert!(output.status.success());
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let (found, hint) = said("math, area_calculation");
    assert!(found.contains("Math, Area Calculation (by name)") && hint.is_empty(), "{found}{hint}");
    let (found, hint) = said("math, sizes of fields");
    assert!(found.contains("out of the bank"), "{found}");
    assert!(hint.contains("scripts/get-model minilm, then --embedder models/all-MiniLM-L6-v2"), "{hint}");
}
