//! Tests of the math scorer as a whole: what each kind of answer is equal to, and what it is not.

use proptest::prelude::*;

use super::super::MAX_ANSWER_BYTES;
use super::*;

fn correct(answer: &str, gold: &str) -> bool {
    score(answer, gold).unwrap() == 1.0
}

#[track_caller]
fn check(equal: &[(&str, &str)], different: &[(&str, &str)]) {
    let missed: Vec<_> = equal.iter().filter(|(answer, gold)| !correct(answer, gold)).collect();
    let confused: Vec<_> = different.iter().filter(|(answer, gold)| correct(answer, gold)).collect();
    assert!(missed.is_empty() && confused.is_empty(), "not found equal: {missed:?}; found equal: {confused:?}");
}

#[test]
fn exact_forms_are_exactly_equal() {
    check(
        &[("2/4", "1/2"), ("3 1/3", "\\frac{10}{3}"), ("1,234", "1234"), ("\\frac{1}{2}", "0.5"), ("1e3", "1000")],
        &[
            ("3.14", "\\pi"),
            ("10^{20}+1", "10^{20}"),
            ("1/2004!", "1/2006!"),
            ("\\frac{1}{2^{99}}", "\\frac{1}{2^{98}}"),
            ("\\sqrt{2}", "\\sqrt{3}"),
            ("12", "21"),
            ("-3", "3"),
            ("", "0"),
        ],
    );
}

#[test]
fn decimals_are_equal_after_rounding_to_six_places() {
    check(
        &[("0.333333", "1/3"), ("1.414214", "\\sqrt{2}"), ("2.0", "2"), ("0.6", "\\frac35"), ("3.141593", "\\pi")],
        &[
            ("0.33333", "1/3"),
            ("1.41421", "\\sqrt{2}"),
            ("2.0000001", "2"),
            ("3.14159", "\\pi"),
            ("0.0000001", "0.0000002"),
        ],
    );
}

#[test]
fn percentages_are_hundredths_or_whole_numbers() {
    check(
        &[("9%", "9"), ("9", "9\\%"), ("50%", "0.5"), ("0.335", "33.5\\%"), ("28 percent", "28\\%")],
        &[("5%", "0.5"), ("9%", "8%"), ("0.5\\%", "0.5")],
    );
}

#[test]
fn formulas_are_equal_as_functions() {
    check(
        &[
            ("(r+5)^2", "(r+5)(r+5)"),
            ("\\frac{x}{7}+\\frac{2}{7}", "\\frac{x+2}{7}"),
            ("\\sec^2(y)", "\\tan^2(y)+1"),
            ("|x|", "\\sqrt{x^2}"),
            ("ba", "ab"),
            ("7\\pi", "7 \\cdot \\pi"),
        ],
        &[("x", "\\sqrt{x^2}"), ("x+1", "x+2n+1"), ("2\\pi", "\\pi"), ("\\frac{1}{2}x", "1/2"), ("x^2", "x^3")],
    );
}

#[test]
fn collections_have_an_order_or_none() {
    check(
        &[
            ("3, 1, 2", "1,2,3"),
            ("\\{2,1\\}", "1, 2"),
            ("(1, 4.5)", "(1,\\frac92)"),
            ("1 \\pm \\sqrt 2", "1+\\sqrt2, 1-\\sqrt2"),
            ("(1,2),(3,4)", "(3,4),(1,2)"),
        ],
        &[
            ("(2,1)", "(1,2)"),
            ("1,2", "1,2,3"),
            ("[0,1)", "(0,1]"),
            ("(1,2)", "(1,2,3)"),
            ("2021", "\\pm 2021"),
            ("[1,2]", "12"),
        ],
    );
}

#[test]
fn equations_relations_and_sets() {
    check(
        &[
            ("x=5", "5"),
            ("5", "x = 5"),
            ("5=x", "x=5"),
            ("-34x-45y+20z-100=0", "34x+45y-20z+100=0"),
            ("(-793, 10)", "-793 < a < 10"),
            ("5 \\leq x", "x \\geq 5"),
            ("-x > -1", "x < 1"),
            ("(0,1) \\cup (1,2)", "(0,2) \\setminus \\{1\\}"),
            ("z \\in [-2,-1] \\cup [1,2]", "1 \\le |z| \\le 2"),
        ],
        &[
            ("y=5", "x=5"),
            ("0", "a^2+b=0"),
            ("x<5", "x>5"),
            ("x<1", "x\\le 1"),
            ("(0,2)", "(0,1) \\cup (1,2)"),
            ("1<y<2", "1<x<2"),
        ],
    );
}

#[test]
fn words_compare_as_texts() {
    check(&[("Even", "\\text{even}"), ("\\text{(C)}", "C"), ("a", "A")], &[("odd", "even"), ("\\text{oddd}", "odd")]);
    check(
        &[("1, 2, \\ldots, n", "$1,2,\\ldots,n$")],
        &[("1,3,5,\\ldots,2n-1", "1, 2, \\ldots, n"), ("0.999...", "0.999")],
    );
}

#[test]
fn hostile_answers_are_wrong_and_cheap() {
    let repeated = [
        "(", "{", "\\frac{", "\\text{", "\\{", "$$", "\\[", "-", "2^", "!", "%", "|", "\\boxed{", "1,", "a=", "\\sqrt",
        "9",
    ];
    for text in repeated {
        assert!(!correct(&text.repeat(4000), "5"), "{text} repeated");
        assert!(!correct(&format!("1{}", text.repeat(4000)), "5"), "1 and {text} repeated");
    }
    for text in ["2^{2^{2^{49}}}", "\\binom{1000000}{500000}", "9^{9^{9}}", "100000!", "1/0", "\\log_1 5"] {
        assert!(!correct(text, "5"), "{text}");
        assert!(correct(text, text), "{text}");
    }
}

proptest! {
    #[test]
    fn never_panics(answer in "\\PC{0,40}", gold in "[-+*/^0-9a-z(){}\\\\|,.=<>% ]{1,24}") {
        if let Ok(score) = score(&answer, &gold) {
            prop_assert!(score == 0.0 || score == 1.0);
        }
    }

    #[test]
    fn formula_fragments_never_panic(
        parts in proptest::collection::vec(
            proptest::sample::select(vec![
                "\\frac", "\\sqrt", "{", "}", "(", ")", "[", "]", "|", "^", "_", "1", "23", "x", "+", "-", "\\pm", ",",
                ";", "=", "<", "\\cup", "\\in", "%", "!", "\\text{a}", "\\begin{pmatrix}", "\\end{pmatrix}", "&",
                "\\\\", "\\sum", "\\log", "\\sin", "0.5", "\\infty", "i", "e", "\\{", "\\}", "\\mod", "\\boxed{", "\\gcd", "\\begin{vmatrix}",
                    "\\end{vmatrix}", "=", "f(x)=", "\\char\"",
            ]),
            0..14,
        ),
    ) {
        let text = parts.concat();
        let _ = score(&text, "x+1");
        if !final_text(&text).is_empty() {
            let _ = score("x+1", &text);
        }
    }

    #[test]
    fn numbers_equal_themselves_and_not_their_successors(n in -10_000i64..10_000, d in 1i64..50) {
        let text = format!("\\frac{{{n}}}{{{d}}}");
        let (same, plain) = (format!("{}/{}", 2 * n, 2 * d), format!("{}/{d}", n + 1));
        prop_assert!(correct(&same, &text));
        prop_assert!(!correct(&plain, &text));
    }
}

#[test]
fn numbers_are_read_in_every_spelling() {
    check(
        &[
            ("1{,}234", "1234"),
            ("1,\\!234", "1234"),
            ("1\\,234", "1234"),
            ("1,234,567.8", "1234567.8"),
            ("\\$5", "5"),
            ("$5$ dollars", "5"),
            ("5 dollars", "5"),
            ("5.", "5"),
            ("90°", "90"),
            ("45^\\circ", "45"),
            ("+7", "7"),
            ("7\\text {cm}", "7"),
            ("12\\text{ cm}^2", "12"),
            ("\\frac12\\text{ percent}", "0.5\\%"),
            ("sqrt(3)*2", "2\\sqrt{3}"),
            ("2**(1/4)", "\\sqrt[4]{2}"),
            ("\\frac1{72}", "1/72"),
            ("\\frac{3}4", "0.75"),
            ("\\sqrt3", "\\sqrt{3}"),
            ("-1\\frac12", "-\\frac32"),
            ("2 1\\frac12", "3"),
            ("0.1\\overline{6}", "1/6"),
            (".\\overline{3}", "1/3"),
            ("3:4", "6:8"),
            ("09:30", "9:30"),
            ("1,22", "1.22"),
            ("101_2", "101_{2}"),
            ("101", "101_2"),
            ("\\char\"0003B1", "\\alpha"),
            ("{\\displaystyle \\frac{1}{2}}", "1/2"),
            ("$\\boxed{12}$ cm", "12"),
        ],
        &[
            ("2:30", "1:15"),
            ("1:10", "2:20"),
            ("101_2", "5"),
            ("101_2", "101_3"),
            ("5", "101_2"),
            ("2 3", "6"),
            ("1,2,\\ldots,n", "2"),
            ("1-\\frac{1}{\\mathrm{e}}", "1"),
            ("3x-y+13=0", "0"),
            ("12,34", "1234"),
            ("1,234", "1.234"),
        ],
    );
}

#[test]
fn functions_have_their_values() {
    check(
        &[
            ("\\sqrt[3]{8}", "2"),
            ("5!", "120"),
            ("\\binom{5}{2}", "10"),
            ("\\log 100", "2"),
            ("\\ln e", "1"),
            ("\\log_2 8", "3"),
            ("\\exp(2)", "e^2"),
            ("\\arcsin 1", "\\frac{\\pi}{2}"),
            ("\\sin^{-1} x", "\\arcsin x"),
            ("\\sinh x", "\\frac{e^x-e^{-x}}{2}"),
            ("\\lfloor 2.5\\rfloor + \\lceil 2.5 \\rceil", "5"),
            ("\\gcd(4,6)", "2"),
            ("\\gcd(x^2-1, x-1)", "x-1"),
            ("\\operatorname{lcm}(a,b)", "ab"),
            ("\\max(1,2)+\\min(1,2)", "3"),
            ("7\\mod 4", "3"),
            ("\\sum_{i=1}^{4} i", "10"),
            ("\\prod_{k=1}^{4} k", "24"),
            ("\\mathrm{i}^2", "-1"),
            ("\\sqrt{2}\\sqrt{3}", "\\sqrt{6}"),
            ("\\sqrt{3+2\\sqrt{2}}", "1+\\sqrt{2}"),
            ("\\frac{1}{\\sqrt{2}}", "\\frac{\\sqrt{2}}{2}"),
            ("x_1", "x_{1}"),
            ("\\begin{vmatrix}1&2\\\\3&4\\end{vmatrix}", "-2"),
        ],
        &[
            ("\\sqrt{2}+\\sqrt{3}", "\\sqrt{5}"),
            ("e^{\\pi\\sqrt{163}}", "640320^3+744"),
            ("\\sqrt{10^{20}+1}", "10^{10}"),
            ("\\sin(10^{-9})", "10^{-9}"),
            ("x_1", "x_2"),
            ("\\gcd(x^2-1, x-1)", "x+1"),
        ],
    );
}

#[test]
fn matrices_are_added_and_multiplied() {
    let matrix = |entries: [&str; 4]| {
        let [a, b, c, d] = entries;
        format!("\\begin{{pmatrix}}{a} & {b} \\\\ {c} & {d}\\end{{pmatrix}}")
    };
    let (a, b) = (matrix(["1", "2", "3", "4"]), matrix(["5", "6", "7", "8"]));
    for (answer, gold) in [
        (format!("{a}+{b}"), matrix(["6", "8", "10", "12"])),
        (format!("{a}-{b}"), matrix(["-4", "-4", "-4", "-4"])),
        (format!("{a}{b}"), matrix(["19", "22", "43", "50"])),
        (format!("2{a}"), matrix(["2", "4", "6", "8"])),
        (format!("\\frac12 {a}"), matrix(["\\frac12", "1", "1.5", "2"])),
        (matrix(["x+x", "0", "0", "1"]), matrix(["2x", "0", "0", "1"])),
        (a.replace("pmatrix", "bmatrix"), a.clone()),
    ] {
        assert!(correct(&answer, &gold), "{answer} answers {gold}");
    }
    let (row, column) = ("\\begin{pmatrix}1 & 2\\end{pmatrix}", "\\begin{pmatrix}1 \\\\ 2\\end{pmatrix}");
    check(&[], &[(row, column), ("(1,2)", row), (&b, &a), (&format!("{b}{a}"), &format!("{a}{b}"))]);
}

#[test]
fn sets_intervals_and_solutions() {
    check(
        &[
            ("1;2;3", "1,2,3"),
            ("{1,2}", "\\{2,1\\}"),
            ("1 \\text{ and } 2", "2,1"),
            ("1, 1, 2", "1,2"),
            ("\\langle 1,2,3\\rangle", "(1,2,3)"),
            ("[1,2,3]", "(1,2,3)"),
            ("\\emptyset", "\\{\\}"),
            ("∅", "\\emptyset"),
            ("\\pm 3", "3,-3"),
            ("2\\pm\\sqrt3", "2+\\sqrt3,2-\\sqrt3"),
            ("\\{1,3\\}", "(1,3)"),
            ("\\{5\\}", "5"),
            ("(5)", "5"),
            ("\\mathbb{R}", "(-\\infty,\\infty)"),
            ("(-\\infty,-8)\\cup(8,\\infty)", "$(8, \\infty) \\cup (-\\infty, -8)$"),
            ("x\\in [1,2]", "1\\le x\\le 2"),
            ("1<x<2", "(1,2)"),
            ("(1,2)", "1<x<2"),
            ("2>x>1", "1<x<2"),
            ("x=1 \\text{ or } x=2", "x=2,x=1"),
            ("1 or 2", "x=1,x=2"),
            ("3\\ne x", "x\\ne 3"),
            ("p=5,q=2;p=7,q=2", "p = 5, q = 2 \\text{ and } p = 7, q = 2"),
        ],
        &[
            ("\\{3,1\\}", "(1,3)"),
            ("(0,9)", "[0,9)"),
            ("(1,3)", "(3,1)"),
            ("1,2,2", "1,1,3"),
            ("x=1,y=2", "x=2,y=1"),
            ("p=5,q=3;p=7,q=2", "p=5,q=2;p=7,q=3"),
            ("p=5,q=3;p=7,q=2", "p=5,q=2,p=7,q=3"),
            ("x\\ge 1", "x\\ge 2"),
        ],
    );
}

#[test]
fn equations_are_solved_and_scaled() {
    check(
        &[
            ("2x+2y=2", "x+y=1"),
            ("1-x-y=0", "x+y=1"),
            ("x=2", "2x=4"),
            ("y=2x+1", "2x-y+1=0"),
            ("f(x)=x^2", "x^2"),
            ("x^2", "f(x)=x^2"),
            ("f(t)=t^2+1", "f(x)=x^2+1"),
            ("W(x)=1orW(x)=-1", "W(n)=-1 \\text{ and } W(n)=1"),
            ("a=b=5", "5"),
        ],
        &[
            ("x+y=2", "x+y=1"),
            ("x=3", "2x=4"),
            ("f(x)=x^2", "g(x)=x^2"),
            ("P(A)=0.5", "P(B)=0.5"),
            ("f(t)=x^2", "f(x)=x^2"),
            ("x^2=4", "x=2"),
        ],
    );
}

/// Sets of sets, each of which must be compared with several others, and sums of fractions with large denominators.
#[test]
fn work_is_bounded() {
    let nested = |depth: usize, leaf: &str| {
        (0..depth).fold(leaf.to_owned(), |inner, level| format!("\\{{{inner},\\{{{inner},{level}\\}}\\}}"))
    };
    let fractions = |last: u32| (3..last).map(|n| format!("\\frac{{1}}{{{n}^{{99}}}}")).collect::<Vec<_>>().join("+");
    for (gold, pred) in [
        (nested(7, "1"), nested(7, "2")),
        (nested(5, "x+y"), nested(5, "y+x+z")),
        (fractions(300), fractions(299)),
        ("\\sqrt{2+".repeat(30) + "x" + &"}".repeat(30), "x".to_owned()),
        ("\\begin{pmatrix}9^{9000}&1\\\\1&7^{9000}\\end{pmatrix}".repeat(40), "1".to_owned()),
    ] {
        assert!(!correct(&pred, &gold));
    }
}

#[test]
fn ordinary_answers_take_little_work() {
    /// A hundredth of what is allowed.
    const ORDINARY_STEPS: u64 = work::MAX_STEPS / 100;
    for (gold, pred) in
        [("\\frac{10}{3}", "3 1/3"), ("(x+1)^5", "(x+1)^4(x+1)"), ("1,2,3,4,5,6,7,8", "8,7,6,5,4,3,2,1")]
    {
        let work = Work::new();
        assert!(is_correct(pred, gold, Rules::default(), &work));
        assert!(steps(&work) <= ORDINARY_STEPS, "{} steps", steps(&work));
    }
}

/// Steps that were taken.
fn steps(work: &Work) -> u64 {
    work::MAX_STEPS - work.left()
}

#[test]
fn whoever_runs_out_of_steps_is_wrong() {
    for (gold, pred) in [("\\sqrt{2}\\sqrt{3}", "\\sqrt{6}"), ("(x+1)^5", "(x+1)^4(x+1)"), ("0.333333", "1/3")] {
        let (work, short) = (Work::new(), Work::of(500));
        assert!(is_correct(pred, gold, Rules::default(), &work) && !work.is_spent());
        assert!(!is_correct(pred, gold, Rules::default(), &short) && short.is_spent());
    }
}

/// Long runs of one thing, each of which costs little: the whole must cost no more than so many of it, and arithmetic
/// of what has grown long must be refused.
#[test]
fn repetition_is_paid_for() {
    const FEW_STEPS: u64 = work::MAX_STEPS / 50;
    /// A part costs more beside many others, whose numbers have grown: a few times more, not as many times as they are.
    const GROWTH: u64 = 8;
    for part in ["4e2864", "5e-2605", "21119/29", "5892%", "\\alpha", "x", "\\gcd(x^9-1,x^7-1)", "\\sum_{i=1}^{99}i"] {
        let (once, often) = (Work::new(), Work::new());
        is_correct(part, "5", Rules::default(), &once);
        assert!(steps(&once) <= FEW_STEPS, "{part} takes {} steps", steps(&once));
        let count = MAX_ANSWER_BYTES / part.len();
        is_correct(&part.repeat(count), "5", Rules::default(), &often);
        let most = (GROWTH * count as u64 * steps(&once)).min(work::MAX_STEPS);
        assert!(steps(&often) <= most, "{part} repeated takes {} steps, at most {most}", steps(&often));
    }
}

/// Texts in texts would be read once for each of them.
#[test]
fn texts_nest_a_few_levels() {
    let nested = |levels: usize| format!("{}1{}", "\\text{".repeat(levels), "}".repeat(levels));
    assert!(lexer::tokenize(&nested(3), &Work::new()).is_some());
    assert_eq!(lexer::tokenize(&nested(1000), &Work::new()), None);
}

/// Closers that many openers share, and formulas of every kind behind one that stays open.
#[test]
fn formulas_end_where_they_should() {
    check(
        &[
            ("so \\[ it is $5$ or \\( not", "5"),
            ("we get $$x = 5$$ here", "5"),
            ("we get \\(4\n\\) then \\(5\\) here", "5"),
            ("costs $3\nbut then $5$ really", "5"),
            ("the final answer, I think, is: $5$ and not $6$", "5"),
        ],
        &[("\\boxed{4} or rather \\boxed{6}", "4")],
    );
}

#[test]
fn numbers_are_equal_in_both_directions() {
    for (a, b) in [("12", "12-0.000000000000000000007028728638074623"), ("(1^2)", "(1^2)-1.7664618947718362e-240")] {
        let [a, b] = [a, b].map(|text| Number::read(text).unwrap());
        assert_eq!(a == b, b == a);
    }
}
