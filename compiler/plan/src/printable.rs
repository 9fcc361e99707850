//! Text of others, for a terminal or for a line of cargo.
//!
//! Names of files and texts in records may have characters that begin a line, move the cursor, or turn
//! the direction of writing: cargo takes a line of a build script for a directive, and a terminal takes
//! sequences for commands. They are printed as Rust escapes them.

use std::fmt::{self, Display, Write};
use std::path::Path;

/// A text, printed on one line and without control characters.
#[derive(Clone, Copy, Debug)]
pub struct Printable<T>(pub T);

/// Returns a path as it is shown to users.
pub fn shown(path: &Path) -> Printable<std::path::Display<'_>> {
    Printable(path.display())
}

/// Joins lines, the result being one without control characters.
pub fn one_line(text: &str) -> String {
    let lines = text.lines().map(str::trim).filter(|it| !it.is_empty());
    Printable(lines.collect::<Vec<_>>().join("; ")).to_string()
}

/// Returns whether a character does something else than to stand for itself.
pub fn is_control(it: char) -> bool {
    // Separators of lines, and marks that change the direction of what follows or cannot be seen.
    it.is_control()
        || matches!(it, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}')
}

impl<T: Display> Display for Printable<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escaped(f), "{}", self.0)
    }
}

/// Escapes what is written through it.
struct Escaped<'a, 'b>(&'a mut fmt::Formatter<'b>);

impl Write for Escaped<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text;
        while let Some((at, it)) = rest.char_indices().find(|(_, it)| is_control(*it)) {
            let (plain, after) = rest.split_at(at);
            write!(self.0, "{plain}{}", it.escape_default())?;
            rest = &after[it.len_utf8()..];
        }
        self.0.write_str(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_and_others_kept() {
        let check = |text: &str, shown: &str| assert_eq!(Printable(text).to_string(), shown);
        check("", "");
        check("größe 3.5 µs", "größe 3.5 µs");
        check("a\ncargo::rustc-env=EVIL=1", "a\\ncargo::rustc-env=EVIL=1");
        check("\u{1b}]0;title\u{7}", "\\u{1b}]0;title\\u{7}");
        check("a\rb\tc\0", "a\\rb\\tc\\u{0}");
        check("\u{9b}31m\u{85}", "\\u{9b}31m\\u{85}");
        check("a\u{202e}b\u{2028}c", "a\\u{202e}b\\u{2028}c");
        check("\u{7f}", "\\u{7f}");
    }

    #[test]
    fn several_lines_become_one() {
        assert_eq!(one_line("a  \n\n b\r\nc"), "a; b; c");
        assert_eq!(one_line("a\rcargo::rustc-env=A=B"), "a\\rcargo::rustc-env=A=B");
        assert_eq!(one_line("\n\n"), "");
    }
}
