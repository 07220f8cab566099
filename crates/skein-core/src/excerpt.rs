//! Cuts what messages quote: a line of a file can be of any length, a message has to be read.

use std::borrow::Cow;

/// Longest message about something that a file holds, in characters.
pub const MESSAGE_CHARS: usize = 300;
/// Longest quotation of a value or a line, in characters.
pub const QUOTED_CHARS: usize = 120;

/// `text`, or its beginning where it is longer than `max_chars`.
pub fn excerpt(text: &str, max_chars: usize) -> Cow<'_, str> {
    excerpt_around(text, 0, max_chars)
}

/// `text`, or `max_chars` of it with byte `at` among them.
pub fn excerpt_around(text: &str, at: usize, max_chars: usize) -> Cow<'_, str> {
    let before = &text[..text.floor_char_boundary(at)];
    let start = before.char_indices().rev().take(max_chars / 2).last().map_or(before.len(), |(start, _)| start);
    let end = text[start..].char_indices().nth(max_chars).map_or(text.len(), |(length, _)| start + length);
    if start == 0 && end == text.len() {
        return Cow::Borrowed(text);
    }
    let [cut_before, cut_after] = [start > 0, end < text.len()].map(|is_cut| if is_cut { "…" } else { "" });
    Cow::Owned(format!("{cut_before}{}{cut_after}", &text[start..end]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_texts_stay_and_long_ones_show_where_it_is() {
        assert_eq!(excerpt("äöü", 3), "äöü");
        assert_eq!(excerpt("äöüß", 3), "äöü…");
        assert_eq!(excerpt("", 3), "");
        let at = "0123456789".find('5').unwrap();
        assert_eq!(excerpt_around("0123456789", at, 4), "…3456…");
        assert_eq!(excerpt_around("0123456789", 10, 4), "…89");
        assert_eq!(excerpt_around("ääää", 99, 4), "…ää");
        // A byte within a character stands for the character.
        assert_eq!(excerpt_around("ääää", 3, 2), "ää…");
    }
}
