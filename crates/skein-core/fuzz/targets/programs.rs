//! Targets of the scorers that read answers by programs of their own: logic, planning, instruction following, and
//! coding as far as it runs no code.

use std::sync::LazyLock;

use skein_core::reward::scorers::coding::extract::code_of;
use skein_core::reward::scorers::coding::stdout::outputs_agree;
use skein_core::reward::scorers::coding::value::PlainValue;
use skein_core::reward::scorers::instruction_following::{self, Leniency};
use skein_core::reward::scorers::planning::Mode;
use skein_core::reward::scorers::{coding, logic, planning};

use super::grammars::JSON_MARKS;
use super::{check_score, says_something, two};
use crate::generator::{Grammar, SEPARATOR};

pub fn logic(bytes: &[u8]) {
    let (gold, answer) = two(bytes);
    check_score(logic::score(&answer, &gold));
    check_score(logic::guru_score(&answer, &gold));
    check_score(logic::guru_score(&format!("<answer>{answer}</answer>"), &gold));
    check_score(logic::cell_accuracy(&answer, &gold));
}

pub fn planning(bytes: &[u8]) {
    let (gold, rest) = two(bytes);
    let (answer, question) = rest.split_once(SEPARATOR).unwrap_or((&rest, ""));
    for mode in [Mode::Exact, Mode::Constraints] {
        check_score(planning::score_with(answer, &gold, question, mode));
    }
    says_something(planning::valid_meetings(answer, &gold, question));
    says_something(planning::check_gold(&gold, question));
}

pub fn instruction_following(bytes: &[u8]) {
    let (gold, response) = two(bytes);
    check_score(instruction_following::score(&response, &gold));
    let drawn = &INSTRUCTIONS[bytes.len() % INSTRUCTIONS.len()];
    for gold in says_something(instruction_following::Gold::parse(&gold)).iter().chain([drawn]) {
        let is_followed = |leniency| gold.is_followed_by(&response, leniency);
        assert!(
            !is_followed(Leniency::Strict) || is_followed(Leniency::Loose),
            "strictness accepts what leniency does not"
        );
    }
}

pub fn coding(bytes: &[u8]) {
    let (gold, answer) = two(bytes);
    if let Some(code) = code_of(&answer) {
        assert!(!code.trim().is_empty() && answer.contains(code), "the code is not the answer's");
    }
    if let Some(gold) = says_something(coding::Gold::parse(&gold)) {
        assert!(gold.reference().is_none_or(|reference| reference.len() <= bytes.len()), "a reference was made up");
    }
    assert!(outputs_agree(&answer, &answer), "an output does not agree with itself");
    assert_eq!(outputs_agree(&answer, &gold), outputs_agree(&gold, &answer), "agreement has a direction");
    if let (Some(a), Some(b)) = (PlainValue::from_json(&gold), PlainValue::from_json(&answer)) {
        assert_eq!(a.equals(&b), b.equals(&a), "equality has a direction");
    }
}

/// Instructions of every kind of check, since a gold made of tokens is seldom one.
static INSTRUCTIONS: LazyLock<Vec<instruction_following::Gold>> = LazyLock::new(|| {
    let parse = |gold: &&str| instruction_following::Gold::parse(gold).expect("the gold is a constant");
    INSTRUCTION.seeds.iter().filter(|seed| seed.starts_with('{')).map(parse).collect()
});

pub static LOGIC: Grammar = Grammar {
    tokens: &[&[
        "{",
        "}",
        "[",
        "]",
        "[[",
        "]]",
        ":",
        ",",
        ";",
        "\"",
        "'",
        "\\\"",
        "\\u00e9",
        "\"header\"",
        "\"rows\"",
        "\"solution\"",
        "\"reasoning\"",
        "\"House 1\"",
        "House 2",
        "House",
        "\"Name\"",
        "Pet",
        "Eric",
        "eric ",
        "cat",
        "\"1\"",
        "1",
        "0",
        "-3",
        "99999999999999999999",
        "1.5",
        "null",
        "True",
        "None",
        "(1, 2)",
        "(",
        ")",
        "<answer>",
        "</answer>",
        "<think>",
        "</think>",
        "```json\n",
        "```",
        "\n",
        " ",
        "1 2 3\n",
        "- ",
        "1. ",
        "**",
        "___",
        "hawk",
        "owl",
        "\"type\":\"zebra_grid\",",
        "\"type\":\"arc_grid\",",
        "\"grid\":",
    ]],
    seeds: &[
        r#"{"type":"zebra_grid","header":["House","Name","Pet"],"rows":[["1","Eric","cat"],["2","Peter","super tall dog"]]}"#,
        "{\"header\": [\"House\", \"Name\"], \"rows\": [[\"1\", \"Eric\"], [\"2\", \"Arnold\"], [\"3\", \"___\"]]}",
        "So:\n```json\n{\"reasoning\": \"clue\", \"solution\": {\"House 1\": {\"Name\": \"Eric\", \"Pet\": \"cat\"}, \"House 2\": {\"Name\": \"Peter\", \"Pet\": \"dog\"}}}\n```",
        "<answer>{'header': ['House', 'Name', 'Pet'], 'rows': [['1', 'Eric', 'cat'], ['2', 'Peter', 'dog']]}</answer>",
        "[[1,2,3],[4,5,6],[7,8,9]]",
        r#"{"type":"arc_grid","grid":[[0,0],[7,7]]}"#,
        "The grid is <answer> [[1, 2, 3], [4, 5, 6], [7, 8, 9]] </answer>",
        "1 2 3\n4 5 6\n7 8 9",
        r#"["hawk","owl","robin"]"#,
        "1. hawk\n2. owl\n3. robin",
        "<answer> ['owl', 'hawk', 'robin'] </answer>",
        "gxq",
        "<answer>Gxq</answer>",
    ],
};

pub static PLANNING: Grammar = Grammar {
    tokens: &[
        JSON_MARKS,
        &[
            "\"type\":",
            "\"plan\":",
            "\"calendar\"",
            "\"trip\"",
            "\"meeting\"",
            "\"cities\":",
            "\"durations\":",
            "\"constraints\":",
            "\"dist_matrix\":",
            "\"golden_plan\":",
            "\"golden_meetings\":",
            "\"mode\":\"constraints\"",
            "\"mode\":\"exact\"",
            "Here is the proposed time: ",
            "Monday, ",
            "Friday",
            "9:00",
            "12:30 - 13:00",
            " - ",
            "24:60",
            "99999999999999999999",
            "-1",
            "0",
            "1:15PM to 4:45PM",
            "12:00AM",
            "9:00AM",
            "**Day 1-3:** ",
            "**Day 3:** ",
            "Day 99999999999",
            "Fly from Rome to Oslo.",
            "Visit Rome for 3 days.",
            "Rome**Oslo",
            "3**4",
            "You start at Rome at 9:00AM. ",
            "You travel to Oslo in 20 minutes and arrive at 9:20AM. ",
            "You wait until 12:15PM. ",
            "You meet Ann for 15 minutes from 12:15PM to 12:30PM. ",
            "SOLUTION:",
            "You arrive at ",
            " at ",
            ". ",
            "\n",
            " minutes",
            " to ",
        ],
    ],
    seeds: &[
        r#"{"type":"calendar","plan":"Here is the proposed time: Monday, 12:30 - 13:00"}"#,
        "Here is the proposed time: Monday, 12:30 - 13:00",
        "You need to schedule a meeting for Ann and Bob for half an hour between the work hours of 9:00 to 17:00 on Monday. \n\nHere are the existing schedules for everyone during the day: \nAnn has meetings on Monday during 9:00 to 10:00, 11:30 to 12:30; \nBob is free the entire day.\n\nFind a time that works for everyone's schedule and constraints. \nSOLUTION: ",
        r#"{"type":"trip","cities":"Rome**Oslo","durations":"3**4"}"#,
        r#"{"type":"trip","cities":["Rome","Oslo"],"durations":[3,4],"constraints":{"days":6,"flights":[["Rome","Oslo"]]}}"#,
        "**Day 1-3:** Arriving in Rome and visit Rome for 3 days.\n**Day 3:** Fly from Rome to Oslo.\n**Day 3-6:** Visit Oslo for 4 days.",
        "You plan to visit 2 European cities for 6 days in total. You only take direct flights to commute between cities. You plan to stay in Rome for 3 days. You would like to visit Oslo for 4 days. Here are the cities that have direct flights:\nRome and Oslo.\n\nFind a trip plan of visiting the cities for 6 days by taking direct flights to commute between them.",
        r#"{"type":"meeting","constraints":[["Rome","9:00AM"],["Ann","Oslo","12:15PM to 8:15PM",15],["Bob","Rome","9:30AM to 1:30PM",30]],"dist_matrix":{"Rome":{"Oslo":20},"Oslo":{"Rome":20}},"golden_plan":["You start at Rome at 9:00AM.","You travel to Oslo in 20 minutes and arrive at 9:20AM.","You wait until 12:15PM.","You meet Ann for 15 minutes from 12:15PM to 12:30PM."],"golden_meetings":1}"#,
        "You start at Rome at 9:00AM. You wait until 9:30AM. You meet Bob for 30 minutes from 9:30AM to 10:00AM. You travel to Oslo in 20 minutes and arrive at 10:20AM. You wait until 12:15PM. You meet Ann for 15 minutes from 12:15PM to 12:30PM.",
        "Travel distances (in minutes):\nRome to Oslo: 20.\nOslo to Rome: 20.\n\nCONSTRAINTS: You arrive at Rome at 9:00AM. Ann will be at Oslo from 12:15PM to 8:15PM. You'd like to meet Ann for a minimum of 15 minutes.\n\nSOLUTION:",
    ],
};

pub static INSTRUCTION: Grammar = Grammar {
    tokens: &[
        JSON_MARKS,
        &[
            "\"instruction_id\":",
            "\"instruction_id_list\":",
            "\"kwargs\":",
            "\"relation\":\"at least\"",
            "\"num_sentences\":2",
            "(a+)+",
            "\\b",
            "Dr. ",
            "U.S. ",
            "e.g. ",
            "A. B. ",
            "One. ",
            "Two! ",
            "Why? ",
            "...",
            ". . .",
            ".",
            "?)",
            ".\"",
            ".'",
            ".)",
            "!\u{a0}",
            ".\u{2003}",
            "--",
            "-",
            ",",
            "3.14",
            "1.",
            "İ. ",
            "ß.",
            "NASA",
            "can't",
            "cannot",
            "''",
            "* item\n",
            "- item\n",
            "*bold*",
            "**",
            "***",
            "******",
            "<<",
            ">>",
            "[name]",
            "P.S. ",
            "Section 1",
            "\n",
            "\n\n",
            " ",
            "```json",
            "```",
            "My answer is yes.",
            "Das Wetter ist schön. ",
            "Погода хорошая. ",
            "今天天气很好。",
            "<think>",
            "</think>",
        ],
    ],
    seeds: &[
        r#"{"instruction_id":"keywords:existence","kwargs":{"keywords":["gr[ae]y","Cat"]}}"#,
        r#"{"instruction_id":"keywords:frequency","kwargs":{"keyword":"cat","frequency":2,"relation":"at least"}}"#,
        r#"{"instruction_id":"keywords:forbidden_words","kwargs":{"forbidden_words":["cat","d.g"]}}"#,
        r#"{"instruction_id":"keywords:letter_frequency","kwargs":{"letter":"a","let_frequency":2,"let_relation":"less than"}}"#,
        r#"{"instruction_id":"keywords:key_sentences","kwargs":{"key_sentences":["It is.","No."],"num_sentences":1}}"#,
        r#"{"instruction_id":"language:response_language","kwargs":{"language":"de"}}"#,
        r#"{"instruction_id":"length_constraints:number_sentences","kwargs":{"num_sentences":2,"relation":"at least"}}"#,
        r#"{"instruction_id":"length_constraints:number_paragraphs","kwargs":{"num_paragraphs":2}}"#,
        r#"{"instruction_id":"length_constraints:number_words","kwargs":{"num_words":3,"relation":"less than"}}"#,
        r#"{"instruction_id":"length_constraints:nth_paragraph_first_word","kwargs":{"num_paragraphs":2,"nth_paragraph":2,"first_word":"yes"}}"#,
        r#"{"instruction_id":"detectable_content:number_placeholders","kwargs":{"num_placeholders":2}}"#,
        r#"{"instruction_id":"detectable_content:postscript","kwargs":{"postscript_marker":"P.S."}}"#,
        r#"{"instruction_id":"detectable_content:rephrase_paragraph","kwargs":{"original_paragraph":"A b b","low":2,"high":2}}"#,
        r#"{"instruction_id":"detectable_format:number_bullet_lists","kwargs":{"num_bullets":2}}"#,
        r#"{"instruction_id":"detectable_format:constrained_response","kwargs":{}}"#,
        r#"{"instruction_id":"detectable_format:number_highlighted_sections","kwargs":{"num_highlights":2}}"#,
        r#"{"instruction_id":"detectable_format:multiple_sections","kwargs":{"section_spliter":"Section","num_sections":2}}"#,
        r#"{"instruction_id":"detectable_format:json_format","kwargs":{}}"#,
        r#"{"instruction_id":"detectable_format:title","kwargs":{}}"#,
        r#"{"instruction_id":"detectable_format:rephrasing","kwargs":{"original_message":"I am *happy*."}}"#,
        r#"{"instruction_id":"multi-turn:constrained_start","kwargs":{"starter":"I think"}}"#,
        r#"{"instruction_id":"combination:two_responses","kwargs":{}}"#,
        r#"{"instruction_id":"combination:repeat_prompt","kwargs":{"prompt_to_repeat":"Say it."}}"#,
        r#"{"instruction_id":"startend:end_checker","kwargs":{"end_phrase":"The end."}}"#,
        r#"{"instruction_id":"startend:quotation","kwargs":{}}"#,
        r#"{"instruction_id":"change_case:english_capital","kwargs":{}}"#,
        r#"{"instruction_id":"change_case:english_lowercase","kwargs":{}}"#,
        r#"{"instruction_id":"change_case:capital_word_frequency","kwargs":{"capital_frequency":2,"capital_relation":"at least"}}"#,
        r#"{"type":"ifeval","instruction_id_list":["punctuation:no_comma","startend:quotation"],"kwargs":[{},null]}"#,
        "Dr. Smith lives in the U.S. and works. \"He is old!\" (So is she.) Why? Because... Well.",
        "<<Title>>\n\n* One.\n* Two.\n\n***\n\nMy answer is no. *Really* **bold**.\n\nP.S. THE END.",
        "a\n******\nb",
        "```json\n{\"a\": [1, 2]}\n```",
    ],
};

pub static CODING: Grammar = Grammar {
    tokens: &[
        &["```", "```python\n", "\n```", "\n", "\r\n", " ", "x = 1", "def f(x):\n    return x\n"],
        JSON_MARKS,
        &[
            "\\",
            "\"tests\":",
            "\"type\":\"stdio\"",
            "\"type\":\"call\"",
            "\"type\":\"asserts\"",
            "\"inputs\":",
            "\"outputs\":",
            "\"fn_name\":\"f\"",
            "\"code\":\"assert f(1) == 1\"",
            "\"entry_point\":\"f\"",
            "\"reference\":\"x\"",
            "[\"1\"]",
            "1",
            "-0",
            "1e5",
            "1E-999999999999999999",
            "9223372036854775807",
            "1e9223372036854775807",
            "0.10",
            ".5",
            "5.",
            "1_000",
            "inf",
            "-Infinity",
            "nan",
            "sNaN12",
            "NaN",
            "null",
            "true",
            "{\"a\":",
            "{\"a\":1,\"a\":2}",
            "[[[[",
            "YES",
        ],
    ],
    seeds: &[
        "Sure:\n```python\ndef f(x):\n    return x + 1\n```\nDone.",
        "```\na\n```\nthen\n```\nb\n```",
        "x = 1",
        r#"{"tests":{"type":"stdio","inputs":["1 2"],"outputs":["3"]},"reference":"print(3)"}"#,
        r#"{"fn_name":"f","inputs":["1\n[2, 3]"],"outputs":["{\"a\": 1.5}"]}"#,
        r#"{"tests":"assert f(1) == 1","entry_point":"f"}"#,
        r#"[1, -2.5, "a\"b", null, true, {"k": [NaN, Infinity]}]"#,
        "1 2 3\n4.50 1e3\n\nYES",
        "100000000000000000000001 0.30000000000000004",
    ],
};
