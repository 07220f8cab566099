//! Words as the instruction checks count them.
//!
//! Python's `\w` holds no combining marks, which splits words of Indic scripts into more pieces than the `\w` of the
//! crate `regex`; counts must agree with graders written in Python.

/// How many maximal runs of letters, numbers and underscores a text has.
pub fn num_words(text: &str) -> usize {
    words(text).count()
}

/// The maximal runs of letters, numbers and underscores of a text, in order.
pub fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c| !is_word(c)).filter(|word| !word.is_empty())
}

fn is_word(c: char) -> bool {
    // `is_alphabetic` also holds the vowel signs, which are marks and no letters.
    c == '_' || c.is_alphanumeric() && (c.is_ascii() || !is_combining_mark(c))
}

fn is_combining_mark(c: char) -> bool {
    unicode_normalization::char::is_combining_mark(c)
}

/// Whether a text has letters with a case, all of them capital.
pub fn is_upper(text: &str) -> bool {
    text.contains(char::is_uppercase) && !text.contains(char::is_lowercase)
}

/// Whether a text has letters with a case, all of them small.
pub fn is_lower(text: &str) -> bool {
    text.contains(char::is_lowercase) && !text.contains(char::is_uppercase)
}

/// How many of a text's tokens are in capitals, tokens being those of the Penn Treebank as NLTK splits them: hyphens and
/// inner points stay, other punctuation and clitics come off.
///
/// Only splits that put a letter on either side can change the count, so where quotes and final points go is left out.
pub fn num_capital_words(text: &str) -> usize {
    let mut count = 0;
    for word in separated(text).split_whitespace() {
        let mut rest = word;
        while !rest.is_empty() {
            let (token, after) = rest.split_at(first_token(rest));
            count += usize::from(is_upper(token));
            rest = after;
        }
    }
    count
}

/// A text with a blank for each mark that is a token of its own.
fn separated(text: &str) -> String {
    let mut separated = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    let mut last = ' ';
    while let Some(c) = chars.next() {
        let next = chars.peek().copied();
        let splits = match c {
            ':' | ',' => next.is_none_or(|next| !next.is_numeric()),
            '.' | '-' => next == Some(c) || last == c,
            '\'' => next == Some('\''),
            '‒'..='―' => true,
            _ => ";@#$%&?!*[](){}<>\"`«»“”‘’„".contains(c),
        };
        separated.push(if splits { ' ' } else { c });
        last = c;
    }
    separated
}

/// Words that are two tokens, and where the second one starts.
const CONTRACTIONS: [(&str, usize); 10] = [
    ("cannot", 3),
    ("d'ye", 1),
    ("gimme", 3),
    ("gonna", 3),
    ("gotta", 3),
    ("lemme", 3),
    ("more'n", 4),
    ("wanna", 3),
    ("'tis", 2),
    ("'twas", 2),
];

/// The length of the first token of a word without separate marks.
fn first_token(word: &str) -> usize {
    let unstopped = word.strip_suffix('.').unwrap_or(word);
    let is_contraction = |(contraction, _): &&(&str, usize)| unstopped.eq_ignore_ascii_case(contraction);
    if let Some(&(_, length)) = CONTRACTIONS.iter().find(is_contraction) {
        return length;
    }
    const CLITICS: [&str; 12] = ["'s", "'S", "'m", "'M", "'d", "'D", "'ll", "'LL", "'re", "'RE", "'ve", "'VE"];
    let clitics = CLITICS.iter().chain(&["n't", "N'T"]);
    let stem = clitics.filter_map(|clitic| unstopped.strip_suffix(clitic)).next();
    stem.filter(|stem| !stem.is_empty() && !stem.ends_with('\'')).map_or(word.len(), str::len)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn words_are_those_of_python() {
        assert_eq!(num_words("It's 3.5 a_b — über-all"), 7);
        assert_eq!(num_words("नमस्ते"), 2, "vowel signs and viramas split a word, as in Python");
        assert_eq!(words("").count(), 0);
    }

    #[test]
    fn capitals_are_counted_by_token() {
        for (text, expected) in [
            ("HERE there are THREE FUlly CAPITAL words.", 3),
            ("I CAN'T, I'LL. IT'S CANNOT", 9),
            ("A-B U.S. A/B ONE--TWO THREE...FOUR FIVE:SIX 7:A", 10),
            ("(YES) \"NO\" 'TIS 'QUOTED' 12 2X", 6),
            ("CAN\u{2019}T", 2),
            ("É é", 1),
            ("", 0),
        ] {
            assert_eq!(num_capital_words(text), expected, "{text}");
        }
    }

    #[test]
    fn case_of_whole_texts() {
        assert!(is_upper("ABC 1!") && !is_upper("ABc") && !is_upper("1"));
        assert!(is_lower("abc 1!") && !is_lower("aBc") && !is_lower(""));
    }

    proptest! {
        #[test]
        fn any_text_can_be_counted(text in "[A-Za-z'’., é\u{301}-]{0,40}") {
            prop_assert!(num_capital_words(&text) <= text.chars().count());
            prop_assert!(num_words(&text) <= text.chars().count());
        }
    }
}
