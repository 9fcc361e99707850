//! Mutated PTX: whatever the text, it is read or refused with its line, and nothing overflows.

use std::path::Path;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use tvmtune_emulator::Module;

/// Texts to put in the place of a token.
const WORDS: [&str; 40] = [
    "0",
    "1",
    "-1",
    "31",
    "32",
    "64",
    "2147483647",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "18446744073709551615",
    "0xffffffffffffffff",
    "0f7FC00000",
    "0d7FF8000000000000",
    "{",
    "}",
    "[",
    "]",
    "(",
    ")",
    "<",
    ">",
    ",",
    ";",
    ":",
    "@",
    "!",
    "|",
    "+",
    "-",
    "%r1",
    "%rd1",
    "%p1",
    "_",
    ".align",
    ".reg .b32 %r<4294967295>;",
    ".shared .align 16 .b8 s[18446744073709551615];",
    ".local .b128 l[4] = {1, {2}};",
    "call (x), f, (y);",
    "\"",
];

/// Kernels as the compiler printed them.
fn texts() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for folder in ["../tests/fixtures", "tests/kernels"] {
        let entries = std::fs::read_dir(root.join(folder)).unwrap();
        files.extend(entries.map(|it| it.unwrap().path()));
    }
    files.retain(|it| it.extension().is_some_and(|it| it == "ptx"));
    files.sort();
    files.iter().map(|it| std::fs::read_to_string(it).unwrap()).collect()
}

/// The start and the end of each token of a text.
fn tokens(text: &str) -> Vec<(usize, usize)> {
    let is_word = |it: char| it.is_ascii_alphanumeric() || "_$%.".contains(it);
    let mut found: Vec<(usize, usize)> = Vec::new();
    for (at, it) in text.char_indices().filter(|(_, it)| !it.is_whitespace()) {
        let end = at + it.len_utf8();
        match found.last_mut() {
            Some(last) if last.1 == at && is_word(it) && text[..at].ends_with(is_word) => {
                last.1 = end;
            }
            _ => found.push((at, end)),
        }
    }
    found
}

/// Applies an edit at one token.
fn mutate(text: &str, kind: u8, at: usize, pick: usize) -> String {
    let tokens = tokens(text);
    let Some(&(start, end)) = tokens.get(at % tokens.len().max(1)) else { return text.to_owned() };
    let (other, other_end) = tokens[pick % tokens.len()];
    let (token, word) = (&text[other..other_end], WORDS[pick % WORDS.len()]);
    let line = text[start..].find('\n').map_or(text.len(), |it| start + it + 1);
    let (before, after) = (&text[..start], &text[end..]);
    match kind {
        0 => format!("{before}{after}"),
        1 => format!("{before}{word}{after}"),
        2 => format!("{before}{token}{after}"),
        3 => format!("{}{word} {}", &text[..end], after),
        4 => format!("{before}{}", &text[line..]),
        5 => format!("{}{}{}", &text[..line], &text[start..line], &text[line..]),
        6 => before.to_owned(),
        _ => format!("{before}{}{after}", word.repeat(1 + pick % 50)),
    }
}

#[test]
fn mutated_kernels_are_read_or_refused() {
    let texts = texts();
    assert!(texts.len() > 10, "kernels to mutate");
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    let (mut read, mut refused) = (0, 0);
    let tally = std::cell::RefCell::new((&mut read, &mut refused));
    let edits = proptest::collection::vec((0..8_u8, any::<u32>(), any::<u32>()), 1..4);
    let strategy = (0..texts.len(), edits);
    TestRunner::new(config)
        .run(&strategy, |(n, edits)| {
            let mut text = texts[n].clone();
            for (kind, at, pick) in edits {
                text = mutate(&text, kind, at as usize, pick as usize);
            }
            let mut tally = tally.borrow_mut();
            match Module::parse(&text) {
                Ok(_) => *tally.0 += 1,
                Err(error) => {
                    assert!(error.line() >= 1 && !error.to_string().is_empty());
                    *tally.1 += 1;
                }
            }
            Ok(())
        })
        .unwrap();
    assert!(read > 10 && refused > 50, "{read} read, {refused} refused");
}

#[test]
fn text_without_end_or_depth_is_refused() {
    let kernel = |body: &str| {
        format!(
            ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() {{\n{body}\nret;\n}}"
        )
    };
    let refused = |text: &str| Module::parse(text).err().map(|it| it.to_string()).unwrap();
    let deep = kernel(&format!(".reg .b32 %r<2>;\nmov.b32 %r1, {};", "{".repeat(100_000)));
    assert_eq!(refused(&deep), "PTX line 6: nested more than 32 deep");
    let deep = kernel(&format!(".reg .b32 %r<2>;\nld.b32 %r1, {};", "[".repeat(100_000)));
    assert_eq!(refused(&deep), "PTX line 6: nested more than 32 deep");
    let deep = format!(".global .b32 x = {}", "{".repeat(100_000));
    assert_eq!(refused(&deep), "PTX line 1: nested more than 32 deep");
    let many = kernel(".reg .b32 %r<262144>, %s<1>;");
    assert_eq!(refused(&many), "PTX line 5: more than 262144 registers");
    let large = kernel(".shared .b8 s[4294967296][4294967297];");
    assert_eq!(refused(&large), "PTX line 5: a variable of more than 67108864 bytes");
    let function = |n: usize| format!(".func f{n}() {{ call f{0}; call f{0}; ret; }}\n", n + 1);
    let chain: String = (0..60).map(function).collect();
    let doubled = format!("{chain}.func f60() {{ ret; }}\n.entry k() {{ call f0; ret; }}");
    assert!(Module::parse(&doubled).is_ok(), "each function is linked once");
}
