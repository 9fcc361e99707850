//! Edits of text and bytes: what a slip of a hand, a broken disk or an attacker makes of a file.

use tvmtune_tuner::random::Random;

/// Numbers and marks at which readers of text err.
const WORDS: &[&str] = &[
    "0",
    "1",
    "-1",
    "2147483647",
    "2147483648",
    "-2147483649",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "18446744073709551616",
    "340282366920938463463374607431768211456",
    "1e308",
    "1e-400",
    "nan",
    "inf",
    "-inf",
    "..",
    "..=",
    "\"",
    "'",
    "\\",
    "\n",
    "\r\n",
    "\t",
    "\0",
    "\u{1b}[2J",
    "\u{202e}",
    "é",
    "/",
    "../",
    "{",
    "}",
    "[",
    "]",
    "(",
    ")",
    "#",
    "=",
    ",",
    ";",
];

/// The greatest number of times that one part is repeated.
const MAX_REPEATS: usize = 4096;

/// Longer results are cut off.
const MAX_BYTES: usize = 1 << 20;

/// What an edit takes its material from.
#[derive(Clone, Copy, Debug, Default)]
pub struct Material<'a> {
    /// Words of the language of the text.
    pub words: &'a [&'a str],
    /// Another text of the same kind.
    pub other: &'a str,
}

/// Splits text into names, numbers, single marks, and white space.
pub fn lexemes(text: &str) -> Vec<&str> {
    let class = |it: char| match it {
        it if it.is_alphanumeric() || it == '_' => 0,
        it if it.is_whitespace() => 1,
        _ => 2,
    };
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let same = |it: char| class(it) == class(first) && class(it) != 2;
        let end = rest.find(|it| !same(it)).unwrap_or(rest.len()).max(first.len_utf8());
        let (lexeme, after) = rest.split_at(end);
        found.push(lexeme);
        rest = after;
    }
    found
}

/// Applies one to three edits of lexemes.
pub fn tokens(text: &str, material: Material<'_>, random: &mut Random) -> String {
    let mut all: Vec<String> = lexemes(text).into_iter().map(str::to_owned).collect();
    for _ in 0..=random.below(3) {
        edit_tokens(&mut all, material, random);
    }
    let mut text = all.concat();
    truncate(&mut text);
    text
}

/// What of a text may stand in the place of what: names, numbers, delimiters, other marks.
fn class(lexeme: &str) -> u8 {
    match lexeme.chars().next() {
        Some(it) if it.is_ascii_digit() => 0,
        Some(it) if it.is_alphanumeric() || it == '_' => 1,
        Some('(' | ')' | '[' | ']' | '{' | '}' | '"' | '\'') => 2,
        _ => 3,
    }
}

fn edit_tokens(all: &mut Vec<String>, material: Material<'_>, random: &mut Random) {
    let solid = |at: &usize| !all[*at].trim().is_empty();
    let mut places: Vec<usize> = (0..all.len()).filter(solid).collect();
    // A text whose delimiters don't match is seldom read far.
    if random.chance(0.9) {
        places.retain(|at| class(&all[*at]) != 2);
    }
    if places.is_empty() {
        all.push(word(material, random));
        return;
    }
    let at = places[random.below(places.len())];
    match random.below(11) {
        0 => drop(all.remove(at)),
        1 => all.insert(at, all[at].clone()),
        2..=5 => {
            // `%r12` in the place of `%r7` is read further than another name.
            let stem = |at: usize| all[at].trim_end_matches(|it: char| it.is_ascii_digit());
            let same_stem = random.chance(0.6);
            let is_alike = |it: &usize| {
                class(&all[*it]) == class(&all[at]) && (!same_stem || stem(*it) == stem(at))
            };
            let alike: Vec<usize> = places.iter().copied().filter(is_alike).collect();
            all[at] = all[alike[random.below(alike.len())]].clone();
        }
        6..=7 => all[at] = word(material, random),
        8 => all.insert(at, word(material, random)),
        9 => {
            let other = lexemes(material.other);
            if !other.is_empty() {
                let from = random.below(other.len());
                let n = 1 + random.below(12.min(other.len() - from));
                all.insert(at, other[from..from + n].concat());
            }
        }
        _ => {
            let n = 1 + random.below(8.min(all.len() - at));
            let part = all[at..at + n].concat();
            all.insert(at, part.repeat(repeats(random)));
        }
    }
}

/// A word of the language, or one that readers of numbers and marks err at.
fn word(material: Material<'_>, random: &mut Random) -> String {
    let words =
        if material.words.is_empty() || random.chance(0.25) { WORDS } else { material.words };
    words[random.below(words.len())].to_owned()
}

/// A number of repetitions: small ones more often.
fn repeats(random: &mut Random) -> usize {
    let bits = random.below(MAX_REPEATS.ilog2() as usize + 1);
    1 + random.below(1 << bits)
}

/// Applies one to four edits of bytes.
pub fn bytes(content: &[u8], material: Material<'_>, random: &mut Random) -> Vec<u8> {
    let mut content = content.to_vec();
    for _ in 0..=random.below(4) {
        edit_bytes(&mut content, material, random);
    }
    content.truncate(MAX_BYTES);
    content
}

fn edit_bytes(content: &mut Vec<u8>, material: Material<'_>, random: &mut Random) {
    let at = random.below(content.len() + 1);
    let n = random.below((content.len() - at).min(64) + 1);
    match random.below(8) {
        0 => drop(content.drain(at..at + n)),
        1 => content.truncate(at),
        2 => {
            if let Some(byte) = content.get_mut(at) {
                *byte ^= 1 << random.below(8);
            }
        }
        3 => {
            if let Some(byte) = content.get_mut(at) {
                *byte = random.bits() as u8;
            }
        }
        4 => {
            let part = content[at..at + n].repeat(repeats(random));
            content.splice(at..at, part);
        }
        5 => {
            content.splice(at..at + n, word(material, random).into_bytes());
        }
        6 => {
            let other = material.other.as_bytes();
            let from = random.below(other.len() + 1);
            let part = &other[from..from + random.below((other.len() - from).min(200) + 1)];
            content.splice(at..at + n, part.iter().copied());
        }
        _ => lines(content, random),
    }
}

/// Drops, doubles or exchanges whole lines.
fn lines(content: &mut Vec<u8>, random: &mut Random) {
    let mut all: Vec<Vec<u8>> = content.split_inclusive(|it| *it == b'\n').map(Vec::from).collect();
    if all.is_empty() {
        return;
    }
    let (a, b) = (random.below(all.len()), random.below(all.len()));
    match random.below(3) {
        0 => drop(all.remove(a)),
        1 => all.insert(b, all[a].clone()),
        _ => all.swap(a, b),
    }
    *content = all.concat();
}

fn truncate(text: &mut String) {
    let mut end = text.len().min(MAX_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lexemes_are_the_text() {
        let text = "fn f(x: T<f32, 12>) -> é { x[[i,  j]] }\n";
        let found = lexemes(text);
        assert_eq!(found.concat(), text);
        assert!(found.contains(&"f32") && found.contains(&"  ") && found.contains(&"["));
    }

    #[test]
    fn mutants_differ_and_end() {
        let text = "fn f(x: T<f32, 12>) { x[[i, j]] }\nb = 1\n";
        let material = Material { words: &["sum"], other: "other text" };
        let mut n_same = 0;
        for seed in 0..500 {
            let mut random = Random::new(seed);
            let tokens = tokens(text, material, &mut random);
            let bytes = bytes(text.as_bytes(), material, &mut random);
            n_same += u32::from(tokens == text) + u32::from(bytes == text.as_bytes());
            assert!(tokens.len() <= MAX_BYTES && bytes.len() <= MAX_BYTES);
        }
        assert!(n_same < 200, "{n_same} of 1000 mutants are the text");
    }
}
