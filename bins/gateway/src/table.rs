//! Prints rows in columns.

/// Lays rows out in columns as wide as their widest cell; the last column is not filled up.
pub(crate) fn layout(header: &[&str], rows: &[Vec<String>]) -> String {
    let cells = std::iter::once(
        header
            .iter()
            .map(|cell| (*cell).to_owned())
            .collect::<Vec<_>>(),
    );
    let rows: Vec<Vec<String>> = cells.chain(rows.iter().cloned()).collect();
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
    };
    let widths: Vec<usize> = (0..header.len())
        .map(|column| width(column).unwrap_or(0))
        .collect();
    let mut text = String::new();
    for row in &rows {
        let padded = row.iter().zip(&widths).map(|(cell, width)| {
            let fill = width.saturating_sub(cell.chars().count());
            format!("{cell}{}", " ".repeat(fill))
        });
        let line = padded.collect::<Vec<_>>().join("  ");
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [
            vec!["ä".to_owned(), "long cell".to_owned()],
            vec!["abc".to_owned(), String::new()],
        ];
        assert_eq!(layout(&["A", "B"], &rows), "A    B\nä    long cell\nabc\n");
    }
}
