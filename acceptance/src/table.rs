//! Tables for terminals, and in Markdown.

/// Aligns columns.
pub(crate) fn aligned(rows: &[Vec<String>]) -> String {
    let width = |column: usize| rows.iter().map(|it| it[column].chars().count()).max().unwrap_or(0);
    let line = |row: &Vec<String>| {
        let cells = row.iter().enumerate().map(|(n, it)| {
            let width = width(n);
            format!("{it:<width$}")
        });
        format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

/// A table of Markdown, whose first row is its head; columns after the first `n_text` hold numbers.
pub(crate) fn markdown(rows: &[Vec<String>], n_text: usize) -> String {
    let line = |cells: &Vec<String>| format!("| {} |\n", cells.join(" | "));
    let (head, body) = rows.split_at(1.min(rows.len()));
    let n_columns = head.first().map_or(0, Vec::len);
    let rule = (0..n_columns).map(|it| if it < n_text { "---" } else { "--:" }.to_owned());
    let rule: Vec<String> = rule.collect();
    head.iter().chain([&rule]).chain(body).map(line).collect()
}
