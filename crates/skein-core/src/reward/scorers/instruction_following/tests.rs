use std::path::Path;

use proptest::prelude::*;

use super::*;

fn gold(id: &str, kwargs: &str) -> String {
    format!(r#"{{"instruction_id":"{id}","kwargs":{kwargs}}}"#)
}

fn follows(id: &str, kwargs: &str, response: &str, leniency: Leniency) -> bool {
    Gold::parse(&gold(id, kwargs)).expect("a known instruction").is_followed_by(response, leniency)
}

/// Each instruction with a text that follows it and one that does not.
const EXAMPLES: [(&str, &str, &str, &str); 32] = [
    ("keywords:existence", r#"{"keywords":["gr[ae]y","Cat"]}"#, "A GREY catalogue.", "A grey dog."),
    ("keywords:frequency", r#"{"keyword":" cat ","frequency":2,"relation":"at least"}"#, "Cat cats.", "Cat."),
    ("keywords:frequency", r#"{"keyword":"cat","frequency":1,"relation":"less than"}"#, "Dog.", "Cat."),
    ("keywords:forbidden_words", r#"{"forbidden_words":["cat"]}"#, "A catalogue.", "A Cat."),
    ("keywords:letter_frequency", r#"{"letter":"!","let_frequency":2,"let_relation":"at least"}"#, "a!!", "a!"),
    (
        "keywords:key_sentences",
        r#"{"key_sentences":["It is.","No."],"num_sentences":1}"#,
        "So.\nIt is. Ok.",
        "It is. No.",
    ),
    (
        "language:response_language",
        r#"{"language":"de"}"#,
        "Das Wetter ist heute sehr schön.",
        "Погода сегодня хорошая.",
    ),
    ("length_constraints:number_sentences", r#"{"num_sentences":2,"relation":"at least"}"#, "One. Two.", "One, two."),
    ("length_constraints:number_paragraphs", r#"{"num_paragraphs":2}"#, "***\na\n***\nb", "a\n***\n***\nb"),
    ("length_constraints:number_words", r#"{"num_words":3.0,"relation":"less than"}"#, "a-b", "a b c"),
    (
        "length_constraints:nth_paragraph_first_word",
        r#"{"num_paragraphs":2,"nth_paragraph":2,"first_word":"Yes"}"#,
        "a\n\n 'yes!' b",
        "a\n\nyesterday",
    ),
    ("detectable_content:number_placeholders", r#"{"num_placeholders":2}"#, "[a] [b c]", "[a\n] [b]"),
    ("detectable_content:postscript", r#"{"postscript_marker":"P.S."}"#, "Hi. P. S. Bye", "Hi. PS Bye"),
    ("detectable_content:postscript", r#"{"postscript_marker":"P.P.S"}"#, "Hi. p.p.s bye", "Hi. P.S. bye"),
    ("detectable_content:rephrase_paragraph", r#"{"original_paragraph":"A b b","low":2,"high":2}"#, "a, B", "a b b"),
    ("detectable_format:number_bullet_lists", r#"{"num_bullets":2}"#, "* a\n - b\n**c**", "* a\nb - c"),
    ("detectable_format:constrained_response", "{}", "Hm. My answer is no. So.", "No."),
    ("detectable_format:number_highlighted_sections", r#"{"num_highlights":2}"#, "*a* **b**", "*a* ** **"),
    (
        "detectable_format:multiple_sections",
        r#"{"section_spliter":"Part","num_sections":2}"#,
        "Part 1 a\nPart2 b",
        "Part one Part 2",
    ),
    ("detectable_format:json_format", "{}", "```json\n{\"a\": [1]}\n```", "{'a': 1}"),
    ("detectable_format:title", "{}", "<<A title>>\nx", "<< >> <<a\n>>"),
    ("detectable_format:rephrasing", r#"{"original_message":"I am *happy*."}"#, "I am *glad*.", "I am glad."),
    ("multi-turn:constrained_start", r#"{"starter":"I think"}"#, " I think so.", "Well I think"),
    ("combination:two_responses", "{}", "a\n******\nb", "a\n******\na"),
    ("combination:repeat_prompt", r#"{"prompt_to_repeat":"Say it."}"#, "say it. it", "I say it."),
    ("startend:end_checker", r#"{"end_phrase":"The end. "}"#, "So. \"the END.\" ", "The end. Or not"),
    ("startend:quotation", "{}", " \"a\" ", "\"a"),
    ("change_case:english_capital", "{}", "THE WEATHER IS VERY NICE TODAY.", "THE WEATHER IS Nice."),
    ("change_case:english_lowercase", "{}", "the weather is very nice today.", "The weather is nice."),
    (
        "change_case:capital_word_frequency",
        r#"{"capital_frequency":2,"capital_relation":"at least"}"#,
        "I CAN",
        "I can",
    ),
    ("punctuation:no_comma", "{}", "a; b", "a, b"),
    ("punctuation:no_comma", "null", "a", " "),
];

#[test]
fn each_instruction_can_be_followed_and_not() {
    for (id, kwargs, yes, no) in EXAMPLES {
        assert!(follows(id, kwargs, yes, Leniency::Strict), "{id}: {yes}");
        assert!(follows(id, kwargs, yes, Leniency::Loose), "{id}: {yes}");
        assert!(!follows(id, kwargs, no, Leniency::Strict), "{id}: {no}");
    }
}

#[test]
fn loose_readings_overlook_first_and_last_lines_and_asterisks() {
    let quoted = |response| follows("startend:quotation", "{}", response, Leniency::Loose);
    for response in ["Here:\n\"a\"", "\"a\"\nBye", "Here:\n\"a\"\nBye", "*\"a\"*", "Here:\n**\"a\"**"] {
        assert!(quoted(response) && !follows("startend:quotation", "{}", response, Leniency::Strict), "{response}");
    }
    assert!(!quoted("a\nb") && !quoted(""));
}

#[test]
fn an_item_is_followed_when_all_its_instructions_are() {
    let gold =
        r#"{"type":"ifeval","instruction_id_list":["punctuation:no_comma","startend:quotation"],"kwargs":[{},{}]}"#;
    for (answer, expected) in
        [("\"a\"", 1.0), ("\"a, b\"", 0.0), ("a", 0.0), ("<think>,</think> \"a\"", 1.0), ("", 0.0)]
    {
        assert_eq!(score(answer, gold), Ok(expected), "{answer}");
    }
    assert_eq!(score(&format!("\"{}\"", "a".repeat(MAX_RESPONSE_BYTES)), gold), Ok(0.0));
}

#[test]
fn unusable_golds_are_errors_that_name_the_argument() {
    for (gold, expected) in [
        (gold("punctuation:none", "{}"), "`punctuation:none`, which is not known"),
        (gold("length_constraints:number_words", "{}"), "`relation` is no text"),
        (gold("length_constraints:number_words", r#"{"relation":"at most","num_words":1}"#), "`at most`"),
        (gold("detectable_format:number_bullet_lists", r#"{"num_bullets":-1}"#), "`num_bullets` is no count"),
        (gold("keywords:existence", r#"{"keywords":["("]}"#), "can't be used"),
        (gold("keywords:existence", r#"{"keywords":["(a{1000}){1000}"]}"#), "can't be used"),
        (gold("keywords:existence", &format!(r#"{{"keywords":["{}"]}}"#, "a".repeat(2_000))), "2000 bytes"),
        (gold("keywords:existence", r#"{"keywords":[]}"#), "`keywords` is no list of texts"),
        (gold("keywords:letter_frequency", r#"{"letter":"ab"}"#), "not one character"),
        (gold("language:response_language", r#"{"language":"xx"}"#), "`xx` is not known"),
        (gold("detectable_format:rephrasing", r#"{"original_message":"a*\n*b"}"#), "nothing between asterisks"),
        (r#"{"instruction_id_list":["punctuation:no_comma"],"kwargs":[]}"#.to_owned(), "`kwargs` for 0"),
        (r#"{"instruction_id_list":[],"kwargs":[]}"#.to_owned(), "neither"),
        (r#"{"instruction_id_list":[1],"kwargs":[{}]}"#.to_owned(), "no text"),
        ("Be polite.".to_owned(), "is no JSON object"),
        ("[1]".to_owned(), "neither"),
    ] {
        let message = score("x", &gold).expect_err("the gold is unusable").to_string();
        assert!(message.contains(expected), "{message} lacks {expected}");
    }
}

#[test]
fn every_item_of_the_seed_data_is_known() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/instruction_following.jsonl");
    let Ok(text) = std::fs::read_to_string(&path) else {
        eprintln!("NOT RUN: the instruction seed data are not at ../shared/data/instruction_following.jsonl");
        return;
    };
    for line in text.lines() {
        let item: Value = serde_json::from_str(line).expect("JSON");
        let gold = Gold::parse(&item["answer"].to_string());
        assert!(gold.is_ok_and(|gold| !gold.is_followed_by("", Leniency::Loose)), "{}", item["id"]);
    }
}

proptest! {
    #[test]
    fn any_response_can_be_checked(response in "([\\PC\n]{0,20}|[*\"<>\\[\\]. \n-]{0,8}|Section 1|P\\.S\\.|```|A){0,6}") {
        for (id, kwargs, _, _) in EXAMPLES {
            let strict = follows(id, kwargs, &response, Leniency::Strict);
            prop_assert!(!strict || follows(id, kwargs, &response, Leniency::Loose), "{id}");
            let score = score(&response, &gold(id, kwargs)).expect("a known instruction");
            prop_assert!(score == 0.0 || score == 1.0);
        }
    }

    #[test]
    fn any_gold_is_usable_or_an_error(keyword in "\\PC{1,12}", id in 0..EXAMPLES.len()) {
        let kwargs = serde_json::json!({"keywords": [keyword], "keyword": keyword, "letter": keyword, "relation": keyword});
        let _ = score(&keyword, &gold(EXAMPLES[id].0, &kwargs.to_string()));
    }
}
