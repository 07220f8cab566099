//! Plain-text tables.

/// Rows under a header, columns aligned: the first to the left, the others to the right.
///
/// Widths count characters, so text with wide or combining characters can look ragged. A row may be shorter than the
/// header; cells beyond the header are dropped.
pub fn render_table(header: &[&str], rows: &[Vec<String>]) -> String {
    let width = |text: &str| text.chars().count();
    let cell = |row: &[String], column: usize| row.get(column).map_or("", String::as_str).to_owned();
    let widths: Vec<usize> = (0..header.len())
        .map(|column| rows.iter().map(|row| width(&cell(row, column))).max().unwrap_or(0).max(width(header[column])))
        .collect();
    let line = |cells: Vec<String>| {
        let padded: Vec<String> = cells
            .iter()
            .zip(&widths)
            .enumerate()
            .map(|(column, (text, width))| match column {
                0 => format!("{text:<width$}"),
                _ => format!("{text:>width$}"),
            })
            .collect();
        padded.join("  ").trim_end().to_owned() + "\n"
    };
    let mut text = line(header.iter().map(|&title| title.to_owned()).collect());
    text += &line(widths.iter().map(|&width| "─".repeat(width)).collect());
    for row in rows {
        text += &line((0..header.len()).map(|column| cell(row, column)).collect());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_align() {
        let rows = [vec!["GRPO".to_owned(), "0.5 ±".to_owned()], vec!["r".to_owned()]];
        assert_eq!(render_table(&["arm", "score"], &rows), "arm   score\n────  ─────\nGRPO  0.5 ±\nr\n");
    }
}
