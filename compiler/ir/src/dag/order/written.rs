//! Orders that a person writes: `order = "lanes(32)"` is another rule for all reductions of a program.
//!
//! In: the text of the option, or that of the line in canonical text. Out: a [`WrittenOrder`]. Next: the
//! orders of a dag follow from it ([`Dag::fix_numerics`](super::super::Dag::fix_numerics)).

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Partial results of a reduction by lanes, a power of two.
const N_LANES: RangeInclusive<u64> = 2..=1024;
/// Iterations of a block.
const SIZES: RangeInclusive<u64> = 2..=1 << 20;

/// The rule for the orders of a program's reductions of floats, where its author wrote one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WrittenOrder {
    /// Each is a sequence.
    Sequence,
    /// Each whose terms lie side by side in memory has this many partial results; others are sequences.
    Lanes(u64),
    /// The iterations of the first range are taken in blocks, each of which is a sequence or by lanes.
    Blocks {
        /// The iterations of a block.
        size: u64,
        /// The partial results within a block, where terms lie side by side in memory.
        lanes: Option<u64>,
    },
}

/// The text is no order.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no order; expected `sequence`, `lanes(32)` with a power of two from 2 to 1024, \
     `blocks(256)` with a number from 2 to 1048576, or `blocks(256, lanes(32))`"
)]
pub struct UnknownOrder(String);

impl fmt::Display for WrittenOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WrittenOrder::Sequence => f.write_str("sequence"),
            WrittenOrder::Lanes(n) => write!(f, "lanes({n})"),
            WrittenOrder::Blocks { size, lanes: None } => write!(f, "blocks({size})"),
            WrittenOrder::Blocks { size, lanes: Some(n) } => {
                write!(f, "blocks({size}, lanes({n}))")
            }
        }
    }
}

impl FromStr for WrittenOrder {
    type Err = UnknownOrder;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text).ok_or_else(|| UnknownOrder(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<WrittenOrder> {
    let text = text.trim();
    if text == "sequence" {
        return Some(WrittenOrder::Sequence);
    }
    if let Some(n) = lanes(text) {
        return Some(WrittenOrder::Lanes(n));
    }
    let inside = text.strip_prefix("blocks(")?.strip_suffix(')')?;
    let (size, inner) = match inside.split_once(',') {
        Some((size, inner)) => (size, Some(lanes(inner)?)),
        None => (inside, None),
    };
    let size = number(size).filter(|it| SIZES.contains(it))?;
    Some(WrittenOrder::Blocks { size, lanes: inner })
}

/// Parses `lanes(32)`.
fn lanes(text: &str) -> Option<u64> {
    let n = number(text.trim().strip_prefix("lanes(")?.strip_suffix(')')?)?;
    (N_LANES.contains(&n) && n.is_power_of_two()).then_some(n)
}

/// Parses a number without a sign or leading zeros.
fn number(text: &str) -> Option<u64> {
    let text = text.trim();
    let number: u64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_come_back_from_their_text() {
        let blocks = |size, lanes| WrittenOrder::Blocks { size, lanes };
        for (text, expected) in [
            ("sequence", WrittenOrder::Sequence),
            ("lanes(2)", WrittenOrder::Lanes(2)),
            ("lanes(1024)", WrittenOrder::Lanes(1024)),
            ("blocks(2)", blocks(2, None)),
            ("blocks(1000)", blocks(1000, None)),
            ("blocks(1048576, lanes(32))", blocks(1 << 20, Some(32))),
        ] {
            assert_eq!(text.parse(), Ok(expected));
            assert_eq!(expected.to_string(), text);
        }
        assert_eq!(" blocks( 7,lanes( 4 ) )".parse(), Ok(blocks(7, Some(4))));
    }

    #[test]
    fn other_texts_are_no_orders() {
        for text in [
            "",
            "lanes",
            "lanes()",
            "lanes(0)",
            "lanes(1)",
            "lanes(3)",
            "lanes(-4)",
            "lanes(+4)",
            "lanes(04)",
            "lanes(2048)",
            "lanes(1000000)",
            "lanes(99999999999999999999999)",
            "lanes(4))",
            "lanes(lanes(4))",
            "blocks(0)",
            "blocks(1)",
            "blocks(1048577)",
            "blocks(4,)",
            "blocks(4, 4)",
            "blocks(4, lanes(3))",
            "blocks(4, lanes(4), 4)",
            "blocks(4, sequence)",
            "blocks(4, blocks(4))",
            "Sequence",
            "sequence()",
            "lanes(32) sequence",
        ] {
            assert_eq!(text.parse::<WrittenOrder>(), Err(UnknownOrder(text.to_owned())));
        }
    }
}
