//! Programs of the corpus at small extents, so that the interpreters can run them.

use tvmtune_ir::dag::Dag;
use tvmtune_ir::dsl;
use tvmtune_tuner::random::Random;

/// Extents around vectors and tiles, the likelier ones first.
const SMALL: [i64; 12] = [1, 2, 3, 4, 7, 8, 9, 12, 16, 17, 24, 33];

/// Returns a program with some numbers of its `dims(..)` in the place of larger ones; `None` where
/// it reads no program of so small extents.
pub fn reduced(text: &str, random: &mut Random) -> Option<Dag> {
    let (before, rest) = text.split_once("dims(")?;
    let (dims, after) = split_list(rest)?;
    let mut declarations: Vec<String> = dims.split(',').map(|it| it.trim().to_owned()).collect();
    let program = |declarations: &[String]| {
        let text = format!("{before}dims({}){}", declarations.join(", "), without_buckets(after)?);
        dsl::program(&text).ok()
    };
    let mut found = None;
    for at in 0..declarations.len() {
        let Some((name, extent)) = declarations[at].split_once(" = ") else { continue };
        let (lo, hi) = match extent.split_once("..=") {
            Some((lo, hi)) => (Some(lo.to_owned()), hi),
            None => (None, extent),
        };
        let Ok(hi) = hi.parse::<i64>() else { continue };
        let small = SMALL[random.below(SMALL.len())].min(hi);
        let small = match lo {
            Some(lo) => format!("{name} = {lo}..={small}"),
            None => format!("{name} = {small}"),
        };
        let former = std::mem::replace(&mut declarations[at], small);
        // An extent that the body counts on stays.
        match program(&declarations) {
            Some(dag) => found = Some(dag),
            None => declarations[at] = former,
        }
    }
    found.or_else(|| program(&declarations))
}

/// Splits a text behind an opening parenthesis into what stands in it, and what follows it.
fn split_list(text: &str) -> Option<(&str, &str)> {
    let mut depth = 1;
    for (at, mark) in text.char_indices() {
        match mark {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some((&text[..at], &text[at + 1..]));
        }
    }
    None
}

/// The text without the first `buckets(..)`: they cover a range that is no longer there.
fn without_buckets(text: &str) -> Option<String> {
    let Some((before, rest)) = text.split_once("buckets(") else { return Some(text.to_owned()) };
    let (_, after) = split_list(rest)?;
    let before = before.trim_end().trim_end_matches(',');
    Some(format!("{before}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::PROGRAMS;
    use crate::launch::volume;

    #[test]
    fn most_programs_have_small_extents() {
        let (mut n_small, mut n) = (0, 0);
        for (seed, text) in PROGRAMS.iter().enumerate() {
            let dag = reduced(text, &mut Random::new(seed as u64));
            let largest = |it: &Dag| it.dims.iter().map(|it| it.range.hi).collect::<Vec<_>>();
            n += 1;
            n_small += usize::from(dag.is_some_and(|it| volume(&it, &largest(&it)) < 1e6));
        }
        assert!(n_small * 10 > n * 7, "only {n_small} of {n}");
    }
}
