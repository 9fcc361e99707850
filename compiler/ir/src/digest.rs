//! Hashes: what identities of programs and of code are made of.
//!
//! In: bytes, or text that should be a hash. Out: a [`Digest`]. Next: [`crate::workload`] and
//! [`crate::artifact`] say of what it is one.
//!
//! # Invariants
//!
//! - A value is a hash, whatever file it was read from: its text is 64 digits, and safe in a path.

use std::fmt;
use std::str::FromStr;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

/// A SHA-256; as text, 64 hexadecimal digits in lower case.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; BYTES]);

/// The text is no [`Digest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not 64 hexadecimal digits")]
pub struct NotADigest;

const BYTES: usize = 32;

impl Digest {
    /// Digits that tell one hash from another in the name of a file.
    pub const SHORT: usize = 12;

    /// Hashes some parts, in order.
    pub fn of<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update(part);
        }
        Self(hash.finalize().into())
    }

    /// Returns the first 64 bits, for text that a compiler compares.
    pub fn prefix(&self) -> u64 {
        self.0.iter().take(8).fold(0, |prefix, byte| prefix << 8 | u64::from(*byte))
    }

    /// Returns the first [`Self::SHORT`] digits, for names of files.
    pub fn short(&self) -> String {
        let mut digits = self.to_string();
        digits.truncate(Self::SHORT);
        digits
    }
}

impl FromStr for Digest {
    type Err = NotADigest;

    fn from_str(text: &str) -> Result<Self, NotADigest> {
        let digit = |it: u8| match it {
            b'0'..=b'9' => Ok(it - b'0'),
            b'a'..=b'f' => Ok(it - b'a' + 10),
            _ => Err(NotADigest),
        };
        if text.len() != 2 * BYTES {
            return Err(NotADigest);
        }
        let mut bytes = [0; BYTES];
        for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            *byte = digit(digits[0])? << 4 | digit(digits[1])?;
        }
        Ok(Self(bytes))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|it| write!(f, "{it:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_survives_the_way_to_text_and_back() {
        let hash = Digest::of([b"a".as_slice(), b"bc"]);
        assert_eq!(hash, Digest::of([b"abc".as_slice()]));
        assert_eq!(hash.to_string().parse(), Ok(hash));
        assert!(hash.to_string().starts_with("ba7816bf8f01"), "that of NIST for `abc`");
        assert_eq!(hash.short(), "ba7816bf8f01");
    }

    #[test]
    fn text_that_is_no_hash_is_refused() {
        let good = "0123456789abcdef".repeat(4);
        assert!(good.parse::<Digest>().is_ok());
        for bad in [
            String::new(),
            good[1..].to_owned(),
            format!("{good}0"),
            good.replace('a', "A"),
            good.replace('a', "g"),
            good.replace("01", "../"),
            format!("../{}", &good[3..]),
            good.replace("0123", "é é"),
            good.replacen('0', "\n", 1),
        ] {
            assert_eq!(bad.parse::<Digest>(), Err(NotADigest), "{bad:?}");
        }
    }
}
