//! Formatting of results: aligned columns, and numbers with three significant digits.

use std::fmt;
use std::time::Duration;

use tvmtune_plan::printable::Printable;

/// Rows under a header; columns are as wide as their widest cell.
#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Creates a table with a header and no rows.
    pub(crate) fn new<const N: usize>(header: [&str; N]) -> Self {
        Self { rows: vec![header.map(str::to_owned).to_vec()] }
    }

    /// Adds a row with a cell for each column; what they say may be of others.
    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.map(|it| Printable(it).to_string()).to_vec());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |column: usize| {
            let widths = self.rows.iter().filter_map(|row| Some(row.get(column)?.chars().count()));
            widths.max().unwrap_or(0)
        };
        for row in &self.rows {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let width = width(column);
                line.push_str(&format!("{cell:<width$}  "));
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// Formats a latency: `812 ns`, `41.2 us`, `1.25 ms`.
pub(crate) fn latency(ns: f64) -> String {
    match ns {
        it if it < 1e3 => format!("{it:.0} ns"),
        it if it < 1e6 => format!("{} us", three_digits(it / 1e3)),
        it if it < 1e9 => format!("{} ms", three_digits(it / 1e6)),
        it => format!("{} s", three_digits(it / 1e9)),
    }
}

/// Formats a share of 1: `62%`.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.0}%", share * 100.0)
}

/// Formats a duration: `0.4 s`, `12 s`, `3 min 20 s`.
pub(crate) fn took(span: Duration) -> String {
    match span.as_secs_f64() {
        it if it < 9.95 => format!("{it:.1} s"),
        it if it < 120.0 => format!("{it:.0} s"),
        it => format!("{} min {} s", (it / 60.0) as u64, it as u64 % 60),
    }
}

/// Formats an age in its largest unit: `12 s`, `3 h`, `40 d`.
pub(crate) fn ago(span: Duration) -> String {
    match span.as_secs() {
        it if it < 60 => format!("{it} s"),
        it if it < 60 * 60 => format!("{} min", it / 60),
        it if it < 24 * 60 * 60 => format!("{} h", it / (60 * 60)),
        it => format!("{} d", it / (24 * 60 * 60)),
    }
}

/// Formats a count: `1 kernel`, `7 kernels`.
pub(crate) fn count(n: usize, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

/// Formats a kernel's name, with its weight if it has another one than others: `mlp (weight 12)`.
pub(crate) fn weighted(name: &str, weight: f64) -> String {
    match weight {
        1.0 => name.to_owned(),
        it => format!("{name} (weight {it})"),
    }
}

/// Formats a number with three significant digits.
pub(crate) fn three_digits(value: f64) -> String {
    let decimals = match value {
        it if it < 9.995 => 2,
        it if it < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_lines_end_clean() {
        let mut table = Table::new(["kernel", "tier", ""]);
        table.row(["softmax".to_owned(), "exact".to_owned(), String::new()]);
        table.row(["mm".to_owned(), "default".to_owned(), "x".to_owned()]);
        let expected = "kernel   tier\nsoftmax  exact\nmm       default  x\n";
        assert_eq!(table.to_string(), expected);
    }

    #[test]
    fn cells_control_no_terminal() {
        let mut table = Table::new(["kernel", "note"]);
        table.row(["a\u{1b}[2Jb".to_owned(), "x\ny".to_owned()]);
        assert_eq!(table.to_string(), "kernel       note\na\\u{1b}[2Jb  x\\ny\n");
    }

    #[test]
    fn latencies_have_three_digits() {
        let cases = [(812.4, "812 ns"), (1234.0, "1.23 us"), (41_250.0, "41.2 us")];
        let large = [(999_600.0, "1000 us"), (1.25e6, "1.25 ms"), (2.5e9, "2.50 s")];
        for (ns, text) in cases.into_iter().chain(large) {
            assert_eq!(latency(ns), text);
        }
    }

    #[test]
    fn spans_lose_digits_as_they_grow() {
        let cases = [(0.42, "0.4 s"), (12.3, "12 s"), (200.0, "3 min 20 s")];
        for (seconds, text) in cases {
            assert_eq!(took(Duration::from_secs_f64(seconds)), text);
        }
    }
}
