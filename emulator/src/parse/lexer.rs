//! PTX text to tokens, each with its line.

use super::tree::{ParseError, Result};

/// A token and the line it is on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind<'a>,
    pub(super) line: u32,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind<'a> {
    /// A name, a directive or an opcode with its modifiers: dots belong to it.
    Word(&'a str),
    /// A number, as its bits.
    Number(u64),
    /// Quoted text, or a number with decimals: the version of the language is the only one.
    Text(&'a str),
    Mark(char),
}

/// All tokens of a text. Comments are dropped.
pub(super) fn tokens(text: &str) -> Result<Vec<Token<'_>>> {
    let (mut found, mut line, mut at) = (Vec::new(), 1, 0);
    let bytes = text.as_bytes();
    while let Some(&byte) = bytes.get(at) {
        let rest = &text[at..];
        let length = match byte {
            b'\n' => {
                line += 1;
                1
            }
            b' ' | b'\t' | b'\r' | 0 => 1,
            b'/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            b'/' if rest.starts_with("/*") => {
                let length = rest.find("*/").map_or(rest.len(), |it| it + 2);
                line += rest[..length].matches('\n').count() as u32;
                length
            }
            b'"' => {
                let end = rest[1..].find('"').ok_or(ParseError::new(line, "text without end"))?;
                found.push(Token { kind: Kind::Text(&rest[1..=end]), line });
                end + 2
            }
            b'0'..=b'9' => {
                let length = rest.bytes().take_while(u8::is_ascii_alphanumeric).count();
                let fraction = rest[length..].strip_prefix('.').unwrap_or("");
                let decimals = fraction.bytes().take_while(u8::is_ascii_digit).count();
                if decimals > 0 {
                    let length = length + 1 + decimals;
                    found.push(Token { kind: Kind::Text(&rest[..length]), line });
                    at += length;
                    continue;
                }
                let number = number(&rest[..length])
                    .ok_or(ParseError::new(line, format!("number `{}`", &rest[..length])))?;
                found.push(Token { kind: Kind::Number(number), line });
                length
            }
            _ if is_name(byte) => {
                let length = word(rest);
                found.push(Token { kind: Kind::Word(&rest[..length]), line });
                length
            }
            _ if byte.is_ascii() => {
                found.push(Token { kind: Kind::Mark(char::from(byte)), line });
                1
            }
            _ => return Err(ParseError::new(line, "text that is not ASCII")),
        };
        at += length;
    }
    Ok(found)
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_$%.".contains(&byte)
}

/// The length of the word that a text begins with; `::` is part of it, `:` is not.
fn word(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 0;
    loop {
        at += bytes[at..].iter().take_while(|it| is_name(**it)).count();
        let scoped = bytes[at..].starts_with(b"::")
            && bytes.get(at + 2).is_some_and(|it| it.is_ascii_alphabetic());
        if !scoped {
            return at;
        }
        at += 2;
    }
}

/// Integers in any base, and floats as bits: `0f3F800000`, `0d3FF0000000000000`.
fn number(text: &str) -> Option<u64> {
    let digits = text.strip_suffix(['U', 'u']).unwrap_or(text);
    let (prefix, hex) = digits.split_at_checked(2).unwrap_or(("", ""));
    match prefix {
        "0x" | "0X" | "0f" | "0F" | "0d" | "0D" => u64::from_str_radix(hex, 16).ok(),
        "0b" | "0B" => u64::from_str_radix(hex, 2).ok(),
        _ => digits.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Kind, tokens};

    #[test]
    fn words_keep_their_dots_and_scopes() {
        let kinds: Vec<Kind<'_>> = tokens("W: ld.shared::cta.b32 %r1,[a+-4]; // x\n0f3F800000 7U")
            .unwrap()
            .iter()
            .map(|it| it.kind)
            .collect();
        use Kind::{Mark, Number, Word};
        let expected = [
            Word("W"),
            Mark(':'),
            Word("ld.shared::cta.b32"),
            Word("%r1"),
            Mark(','),
            Mark('['),
            Word("a"),
            Mark('+'),
            Mark('-'),
            Number(4),
            Mark(']'),
            Mark(';'),
            Number(0x3F80_0000),
            Number(7),
        ];
        assert_eq!(kinds, expected);
    }

    #[test]
    fn text_that_is_no_ptx_is_refused_with_its_line() {
        assert_eq!(tokens("a\n\"b").unwrap_err().to_string(), "PTX line 2: text without end");
        assert_eq!(tokens("a\n\n3x").unwrap_err().to_string(), "PTX line 3: number `3x`");
    }
}
