//! Names that are close to another one: what an error suggests in the place of a misspelt name.
//!
//! # Source
//!
//! The limit of a third of the letters, and that case alone never counts, are rustc's
//! (`rustc_span::edit_distance`); the distance is that of Damerau and Levenshtein, restricted: no
//! text is edited twice. A name of one letter is never taken for another one.

/// Returns the name that is closest to `name`, if it is close enough to have been meant; the first
/// of several.
pub fn closest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = name.to_lowercase();
    let n_letters = lower.chars().count();
    let limit = n_letters.max(3) / 3;
    let distances = known.into_iter().map(|it| (distance(&lower, &it.to_lowercase()), it));
    let near = distances.filter(|(it, _)| *it <= limit && *it < n_letters);
    near.min_by_key(|(distance, _)| *distance).map(|(_, it)| it)
}

/// Returns `` : did you mean `exp`? `` to end an error with, where a name is close enough.
pub fn suggestion<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    closest(name, known).map(|it| format!(": did you mean `{it}`?"))
}

/// Returns the number of letters to insert, remove, replace or swap with their neighbor that lead
/// from one text to the other.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    // Row `i` has the distances of the first `i` letters of `a` to the beginnings of `b`.
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = replaced.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_count_edits() {
        for (a, b, expected) in [
            ("", "", 0),
            ("", "ab", 2),
            ("exp", "expp", 1),
            ("tanh", "tahn", 1),
            ("sum", "sun", 1),
            ("kitten", "sitting", 3),
            ("ca", "abc", 3),
        ] {
            assert_eq!(distance(a, b), expected, "{a} {b}");
            assert_eq!(distance(b, a), expected, "{b} {a}");
        }
    }

    #[test]
    fn only_what_may_have_been_meant_is_suggested() {
        let known = ["buckets", "dims", "tol", "exp"];
        let check = |name: &str, expected: Option<&str>| {
            assert_eq!(closest(name, known), expected, "{name}");
        };
        check("bucket", Some("buckets"));
        check("DIMS", Some("dims"));
        check("dmis", Some("dims"));
        check("tl", Some("tol"));
        check("target", None);
        check("x", None);
        assert_eq!(closest("T", ["M", "K"]), None);
        assert_eq!(closest("m", ["M", "K"]), Some("M"));
        assert_eq!(suggestion("expp", known).as_deref(), Some(": did you mean `exp`?"));
        assert_eq!(suggestion("sigmoid", known), None);
    }
}
