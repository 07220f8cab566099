//! Reads grids of integers, as ARC answers have them: `[[1, 2], [3, 4]]`, or one row of digits a line.

/// The first bracketed grid in a text: rows in brackets, cells separated by commas or blanks; none where it is broken.
pub fn bracketed(text: &str) -> Option<Vec<Vec<i64>>> {
    let opens_rows = |&(at, _): &(usize, &str)| text[at + 1..].trim_start().starts_with('[');
    let (start, _) = text.match_indices('[').find(opens_rows)?;
    let mut rest = &text[start + 1..];
    let mut rows = Vec::new();
    loop {
        rest = rest.trim_start_matches(is_separator);
        if rest.starts_with(']') {
            return (!rows.is_empty()).then_some(rows);
        }
        let (row, after) = rest.strip_prefix('[')?.split_once(']')?;
        rows.push(cells(row)?);
        rest = after;
    }
}

/// The last block of lines that hold nothing but digits: cells separated by commas or blanks, or a digit each.
pub fn digit_lines(text: &str) -> Option<Vec<Vec<i64>>> {
    let mut last = None;
    let mut block = Vec::new();
    for line in text.lines().chain([""]) {
        match digit_line(line.trim()) {
            Some(row) => block.push(row),
            None if !block.is_empty() => last = Some(std::mem::take(&mut block)),
            None => {}
        }
    }
    last
}

fn digit_line(line: &str) -> Option<Vec<i64>> {
    if line.is_empty() {
        return None;
    }
    if line.contains(is_separator) {
        return cells(line);
    }
    line.chars().map(|c| c.to_digit(10).map(i64::from)).collect()
}

fn is_separator(c: char) -> bool {
    c == ',' || c.is_whitespace()
}

fn cells(row: &str) -> Option<Vec<i64>> {
    row.split(is_separator).filter(|cell| !cell.is_empty()).map(cell).collect()
}

/// An integer, perhaps quoted or with a zero fraction.
fn cell(text: &str) -> Option<i64> {
    let text = text.trim_matches(['"', '\'']);
    let whole = text
        .split_once('.')
        .map_or(Some(text), |(whole, fraction)| fraction.bytes().all(|digit| digit == b'0').then_some(whole))?;
    whole.parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bracketed_grids() {
        let grid = Some(vec![vec![1, 0], vec![2, -1]]);
        for text in [
            "[[1, 0], [2, -1]]",
            "The grid is [[1,0],\n[2,-1]].",
            "[ [1 0]\n [2 -1] ]",
            "x[1] = [['1', '0'], [2.0, -1]] or [[5]]",
        ] {
            assert_eq!(bracketed(text), grid, "{text}");
        }
        for text in ["[1, 0]", "[[1, 0], [2", "[[1, 0.5]]", "[[1], x]", "[[1], ...]", "[[99999999999999999999]]", ""] {
            assert_eq!(bracketed(text), None, "{text}");
        }
    }

    #[test]
    fn digit_blocks() {
        let grid = Some(vec![vec![1, 0], vec![2, 3]]);
        for text in ["1 0\n2 3", "Input:\n7 7\n\nOutput:\n```\n10\n23\n```\nThat is all.", "1, 0\n 2, 3 \n"] {
            assert_eq!(digit_lines(text), grid, "{text}");
        }
        assert_eq!(digit_lines("no grid"), None);
    }

    proptest! {
        #[test]
        fn any_text_can_be_read(text in "[\\[\\] ,0-9.é'\n-]{0,60}") {
            let _ = (bracketed(&text), digit_lines(&text));
        }
    }
}
