//! Tables for terminals, and in Markdown.

/// Aligns columns.
pub(crate) fn aligned<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| rows.iter().map(|it| it[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    let line = |row: &[String; N]| {
        let cells = row.iter().zip(widths).map(|(it, width)| format!("{it:<width$}"));
        format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

/// A table of Markdown, whose first row is its head; columns after the first `n_text` hold numbers.
pub(crate) fn markdown<const N: usize>(rows: &[[String; N]], n_text: usize) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let rule = (0..N).map(|it| if it < n_text { "---" } else { "--:" }.to_owned());
    let rule: Vec<String> = rule.collect();
    let (head, body) = rows.split_at(1.min(rows.len()));
    let lines = head.iter().map(|it| line(it)).chain([line(&rule)]);
    lines.chain(body.iter().map(|it| line(it))).collect()
}
