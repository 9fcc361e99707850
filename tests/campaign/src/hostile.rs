//! Values in TOML that nobody means: numbers at the ends of types, paths that lead elsewhere, control
//! characters, nesting.

use toml::Value;
use tvmtune_tuner::random::Random;

/// Texts in the place of names, devices, hashes and paths.
const TEXTS: &[&str] = &[
    "",
    ".",
    "..",
    "../../../victim/settings",
    "cpu-avx2/../../../../victim/settings",
    "cpu-avx2-l1:32-l2:512-t2/../../../victim/settings",
    "/tmp/campaign-victim",
    "C:\\victim",
    "a\ncargo::rustc-env=EVIL=1\n",
    "a\ncargo:rustc-link-arg=-evil",
    "a\r\nb\0c",
    "\u{1b}[31mred\u{1b}[0m",
    "\u{202e}gnp.exe",
    "cpu-avx2-l1:0-l2:0-t0",
    "cpu-avx2-l1:18446744073709551615-l2:18446744073709551615-t4294967295",
    "cpu-avx512-amd:25:1-l1:32-l2:512-t2",
    "cuda-sm_90a",
    "default",
    "evolved",
    "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
    "split s0 a0 [0]",
    "split s0 a0 [9223372036854775807, 9223372036854775807]",
    "split s4294967295 a4294967295 [2]",
    "pack t1 [0:0, 0:18446744073709551615] [0, 1]",
    "compute_at s0 s0 a0",
    "threads all",
    "1..=9223372036854775807",
    "-9223372036854775808..=0",
    "16..=1",
];

/// Levels of nesting, at most.
const MAX_DEPTH: usize = 3000;

/// Replaces one or two values of a document.
pub fn values(text: &str, random: &mut Random) -> Option<String> {
    let mut document = Value::Table(toml::from_str(text).ok()?);
    for _ in 0..=random.below(2) {
        let at = random.below(count(&document));
        let mut left = at;
        replace(&mut document, &mut left, random);
    }
    toml::to_string(&document).ok()
}

/// Values in a document, itself included.
fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(all) => all.iter().map(count).sum(),
        Value::Table(all) => all.values().map(count).sum(),
        _ => 0,
    }
}

/// Replaces the value that is reached after so many others.
fn replace(value: &mut Value, left: &mut usize, random: &mut Random) -> bool {
    if *left == 0 {
        *value = instead(value, random);
        return true;
    }
    *left -= 1;
    match value {
        Value::Array(all) => all.iter_mut().any(|it| replace(it, left, random)),
        Value::Table(all) => all.iter_mut().any(|(_, it)| replace(it, left, random)),
        _ => false,
    }
}

fn instead(value: &Value, random: &mut Random) -> Value {
    match (value, random.below(10)) {
        (Value::Array(all), 0..=2) if !all.is_empty() => {
            let bits = random.below(11);
            let n = 1 + random.below(1 << bits);
            Value::Array(all.iter().cycle().take(n * all.len()).cloned().collect())
        }
        (Value::Array(all), 3..=4) => {
            let mut all = all.clone();
            all.reverse();
            all.truncate(random.below(all.len() + 1));
            Value::Array(all)
        }
        (Value::Array(_), 5..=7) => Value::Array(vec![text(random), text(random)]),
        (Value::Table(all), 0..=5) => {
            let mut all = all.clone();
            let keys: Vec<String> = all.keys().cloned().collect();
            if let Some(key) = keys.get(random.below(keys.len().max(1))) {
                all.remove(key);
            }
            Value::Table(all)
        }
        (Value::String(_), 0..=7) => text(random),
        (Value::Integer(_), 0..=7) => integer(random),
        (Value::Float(_), 0..=7) => float(random),
        (_, 8) => {
            let bits = random.below(MAX_DEPTH.ilog2() as usize + 1);
            let depth = random.below((1 << bits).max(1));
            (0..depth).fold(Value::Boolean(true), |inner, _| Value::Array(vec![inner]))
        }
        _ => match random.below(4) {
            0 => text(random),
            1 => integer(random),
            2 => float(random),
            _ => Value::Boolean(random.chance(0.5)),
        },
    }
}

fn text(random: &mut Random) -> Value {
    let text = TEXTS[random.below(TEXTS.len())];
    match random.below(12) {
        0 => Value::String(text.repeat(1000)),
        _ => Value::String(text.to_owned()),
    }
}

fn integer(random: &mut Random) -> Value {
    let ends = [0, 1, -1, 2, 1 << 31, (1 << 32) - 1, 1 << 53, i64::MAX, i64::MIN];
    Value::Integer(ends[random.below(ends.len())])
}

fn float(random: &mut Random) -> Value {
    let ends =
        [0.0, -0.0, -1.0, 1e-300, 1e-3, 5e-324, 1e308, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
    Value::Float(ends[random.below(ends.len())])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_stay_documents_and_change() {
        let text = "a = 1\nb = [1.5, 2.5]\n[c]\nd = \"x\"\n";
        let mut n_changed = 0;
        for seed in 0..300 {
            if let Some(mutant) = values(text, &mut Random::new(seed)) {
                n_changed += usize::from(toml::from_str::<toml::Table>(&mutant).is_err())
                    + usize::from(mutant != text);
            }
        }
        assert!(n_changed > 200, "{n_changed}");
    }
}
