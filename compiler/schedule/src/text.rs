//! The text of instructions, one line each, as records store it.
//!
//! ```text
//! split s0 a1 [8, 4]
//! fuse s0 a2 a3
//! reorder s0 [a4, a0, a3]
//! annotate s0 a4 vectorized
//! compute_at s1 s0 a2
//! online_reduction s1 s0 a2
//! factor_out s2
//! hoist_invariant s2
//! downcast s2 f16
//! inline s2
//! cache_read t0 s1
//! cache_operand s1 r0
//! cache_padded t0 s1
//! cache_write s1
//! rfactor s1 a2
//! polyphase s1
//! scan s1 a3
//! scan_in_order s1
//! tighten_bounds s1 a3
//! pack t1 [0:48, 1:4] [0, 2, 1, 3]
//! threads one
//! set_knobs [256, 4]
//! ```
//!
//! Records of earlier versions spell some names differently: those are read, but never written.
//!
//! A stage is `s` and its number, an axis `a`, a tensor `t`, a read of a stage `r`. A layout is its
//! splits, each a dimension and a factor, and the order of the dimensions after them.

use std::fmt;
use std::str::FromStr;

use super::{AxisId, Instruction, Layout, LoopKind, StageId, Threads};
use tvmtune_ir::dag::{DType, TensorId};

impl fmt::Display for Instruction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Instruction::Split { stage, axis, factors } => {
                write!(f, "split s{} a{} {}", stage.0, axis.0, list(factors))
            }
            Instruction::Fuse { stage, outer, inner } => {
                write!(f, "fuse s{} a{} a{}", stage.0, outer.0, inner.0)
            }
            Instruction::Reorder { stage, order } => {
                write!(f, "reorder s{} {}", stage.0, list(order.iter().map(|it| Named('a', it.0))))
            }
            Instruction::Annotate { stage, axis, kind } => {
                write!(f, "annotate s{} a{} {}", stage.0, axis.0, Kind(*kind))
            }
            Instruction::ComputeAt { stage, consumer, axis } => {
                write!(f, "compute_at s{} s{} a{}", stage.0, consumer.0, axis.0)
            }
            Instruction::OnlineReduction { stage, host, axis } => {
                write!(f, "online_reduction s{} s{} a{}", stage.0, host.0, axis.0)
            }
            Instruction::FactorOut { stage } => write!(f, "factor_out s{}", stage.0),
            Instruction::HoistInvariant { stage } => write!(f, "hoist_invariant s{}", stage.0),
            Instruction::Downcast { stage, dtype } => write!(f, "downcast s{} {dtype}", stage.0),
            Instruction::Reciprocal { stage } => write!(f, "reciprocal s{}", stage.0),
            Instruction::Inline { stage } => write!(f, "inline s{}", stage.0),
            Instruction::CacheRead { tensor, reader } => {
                write!(f, "cache_read t{} s{}", tensor.0, reader.0)
            }
            Instruction::CacheOperand { reader, read } => {
                write!(f, "cache_operand s{} r{read}", reader.0)
            }
            Instruction::CachePadded { tensor, reader } => {
                write!(f, "cache_padded t{} s{}", tensor.0, reader.0)
            }
            Instruction::CacheWrite { stage } => write!(f, "cache_write s{}", stage.0),
            Instruction::Rfactor { stage, axis } => write!(f, "rfactor s{} a{}", stage.0, axis.0),
            Instruction::Polyphase { stage } => write!(f, "polyphase s{}", stage.0),
            Instruction::Scan { stage, axis } => write!(f, "scan s{} a{}", stage.0, axis.0),
            Instruction::ScanInOrder { stage } => write!(f, "scan_in_order s{}", stage.0),
            Instruction::TightenBounds { stage, axis } => {
                write!(f, "tighten_bounds s{} a{}", stage.0, axis.0)
            }
            Instruction::Pack { tensor, layout } => {
                let splits = layout.splits.iter().map(|(dim, factor)| format!("{dim}:{factor}"));
                write!(f, "pack t{} {} {}", tensor.0, list(splits), list(&layout.order))
            }
            Instruction::Threads { threads: Threads::One } => f.write_str("threads one"),
            Instruction::Threads { threads: Threads::All } => f.write_str("threads all"),
            Instruction::SetKnobs { values } => write!(f, "set_knobs {}", list(values)),
        }
    }
}

/// Former spellings of primitives and of loop kinds, with those in use.
const FORMER: [(&str, &str); 9] = [
    ("fed", "warp_specialized"),
    ("hoist", "factor_out"),
    ("invert", "reciprocal"),
    ("lift", "hoist_invariant"),
    ("narrow", "downcast"),
    ("rolling_update", "online_reduction"),
    ("streamed", "stream_k"),
    ("tensor", "tensorized"),
    ("trim", "tighten_bounds"),
];

/// The spelling in use of a name.
fn current(name: &str) -> &str {
    FORMER.iter().find(|(former, _)| *former == name).map_or(name, |(_, current)| current)
}

/// A letter and a number.
struct Named(char, u32);

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.0, self.1)
    }
}

fn list<T: fmt::Display>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<String> = items.into_iter().map(|it| it.to_string()).collect();
    format!("[{}]", items.join(", "))
}

/// The loop kinds that have no number.
const PLAIN_KINDS: [LoopKind; 7] = [
    LoopKind::Serial,
    LoopKind::Unrolled,
    LoopKind::Vectorized,
    LoopKind::Parallel,
    LoopKind::Cluster,
    LoopKind::Thread,
    LoopKind::Tensorized,
];

/// A kind as one word.
struct Kind(LoopKind);

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            LoopKind::WarpSpecialized(depth) => return write!(f, "warp_specialized:{depth}"),
            LoopKind::Pipelined(depth) => return write!(f, "pipelined:{depth}"),
            LoopKind::Persistent(blocks) => return write!(f, "persistent:{blocks}"),
            LoopKind::StreamK(blocks) => return write!(f, "stream_k:{blocks}"),
            LoopKind::Serial => "serial",
            LoopKind::Unrolled => "unrolled",
            LoopKind::Vectorized => "vectorized",
            LoopKind::Parallel => "parallel",
            LoopKind::Cluster => "cluster",
            LoopKind::Thread => "thread",
            LoopKind::Tensorized => "tensorized",
        })
    }
}

/// A line that is no instruction.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{line}` is not an instruction: expected {expected}")]
pub struct ParseInstructionError {
    /// The whole line.
    pub line: String,
    /// The token that should have come next.
    pub expected: &'static str,
}

impl FromStr for Instruction {
    type Err = ParseInstructionError;

    fn from_str(line: &str) -> Result<Self, Self::Err> {
        let mut words = Words(line);
        let parsed = words.instruction().and_then(|it| {
            if words.0.trim().is_empty() { Ok(it) } else { Err("the end of the line") }
        });
        parsed.map_err(|expected| ParseInstructionError { line: line.to_owned(), expected })
    }
}

/// The rest of a line; an error is the token that was expected next.
struct Words<'a>(&'a str);

impl<'a> Words<'a> {
    fn instruction(&mut self) -> Result<Instruction, &'static str> {
        Ok(match current(self.word()) {
            "split" => Instruction::Split {
                stage: self.stage()?,
                axis: self.axis()?,
                factors: self.list("a list of factors", |it| it.parse().ok())?,
            },
            "fuse" => {
                Instruction::Fuse { stage: self.stage()?, outer: self.axis()?, inner: self.axis()? }
            }
            "reorder" => Instruction::Reorder {
                stage: self.stage()?,
                order: self.list("a list of axes", |it| numbered(it, 'a').map(AxisId))?,
            },
            "annotate" => Instruction::Annotate {
                stage: self.stage()?,
                axis: self.axis()?,
                kind: self.kind()?,
            },
            "compute_at" => Instruction::ComputeAt {
                stage: self.stage()?,
                consumer: self.stage()?,
                axis: self.axis()?,
            },
            "online_reduction" => Instruction::OnlineReduction {
                stage: self.stage()?,
                host: self.stage()?,
                axis: self.axis()?,
            },
            "factor_out" => Instruction::FactorOut { stage: self.stage()? },
            "hoist_invariant" => Instruction::HoistInvariant { stage: self.stage()? },
            "downcast" => Instruction::Downcast { stage: self.stage()?, dtype: self.dtype()? },
            "reciprocal" => Instruction::Reciprocal { stage: self.stage()? },
            "inline" => Instruction::Inline { stage: self.stage()? },
            "cache_read" => {
                Instruction::CacheRead { tensor: self.tensor()?, reader: self.stage()? }
            }
            "cache_operand" => {
                Instruction::CacheOperand { reader: self.stage()?, read: self.read()? }
            }
            "cache_padded" => {
                Instruction::CachePadded { tensor: self.tensor()?, reader: self.stage()? }
            }
            "cache_write" => Instruction::CacheWrite { stage: self.stage()? },
            "rfactor" => Instruction::Rfactor { stage: self.stage()?, axis: self.axis()? },
            "polyphase" => Instruction::Polyphase { stage: self.stage()? },
            "scan" => Instruction::Scan { stage: self.stage()?, axis: self.axis()? },
            "scan_in_order" => Instruction::ScanInOrder { stage: self.stage()? },
            "tighten_bounds" => {
                Instruction::TightenBounds { stage: self.stage()?, axis: self.axis()? }
            }
            "pack" => Instruction::Pack { tensor: self.tensor()?, layout: self.layout()? },
            "threads" => Instruction::Threads { threads: self.threads()? },
            "set_knobs" => {
                let values = self.list("a list of values", |it| it.parse().ok())?;
                Instruction::SetKnobs { values }
            }
            _ => return Err("the name of a primitive"),
        })
    }

    fn word(&mut self) -> &'a str {
        let rest = self.0.trim_start();
        let (word, rest) = rest.split_at(rest.find(' ').unwrap_or(rest.len()));
        self.0 = rest;
        word
    }

    fn stage(&mut self) -> Result<StageId, &'static str> {
        numbered(self.word(), 's').map(StageId).ok_or("a stage, as in `s0`")
    }

    fn axis(&mut self) -> Result<AxisId, &'static str> {
        numbered(self.word(), 'a').map(AxisId).ok_or("an axis, as in `a0`")
    }

    fn tensor(&mut self) -> Result<TensorId, &'static str> {
        numbered(self.word(), 't').map(TensorId).ok_or("a tensor, as in `t0`")
    }

    fn read(&mut self) -> Result<u32, &'static str> {
        numbered(self.word(), 'r').ok_or("a read, as in `r0`")
    }

    fn kind(&mut self) -> Result<LoopKind, &'static str> {
        let word = self.word();
        let (name, number) = word.split_once(':').unwrap_or((word, ""));
        let stages = || number.parse::<u8>().ok().filter(|it| (2..=8).contains(it));
        let blocks = || number.parse::<u16>().ok();
        let kind = match (current(name), number) {
            ("pipelined", _) => stages().map(LoopKind::Pipelined),
            ("warp_specialized", _) => stages().map(LoopKind::WarpSpecialized),
            ("persistent", _) => blocks().map(LoopKind::Persistent),
            ("stream_k", _) => blocks().map(LoopKind::StreamK),
            (name, "") => PLAIN_KINDS.into_iter().find(|it| Kind(*it).to_string() == name),
            _ => None,
        };
        kind.ok_or("`serial`, `unrolled`, `vectorized` or `parallel`")
    }

    fn dtype(&mut self) -> Result<DType, &'static str> {
        self.word().parse().map_err(|_| "a type, as in `f16`")
    }

    fn threads(&mut self) -> Result<Threads, &'static str> {
        match self.word() {
            "one" => Ok(Threads::One),
            "all" => Ok(Threads::All),
            _ => Err("`one` or `all`"),
        }
    }

    fn layout(&mut self) -> Result<Layout, &'static str> {
        let split = |it: &str| {
            let (dim, factor) = it.split_once(':')?;
            Some((dim.parse().ok()?, factor.parse().ok()?))
        };
        Ok(Layout {
            splits: self.list("a list of splits, as in `[0:48]`", split)?,
            order: self.list("a list of dimensions", |it| it.parse().ok())?,
        })
    }

    fn list<T>(
        &mut self,
        expected: &'static str,
        item: impl Fn(&str) -> Option<T>,
    ) -> Result<Vec<T>, &'static str> {
        let rest = self.0.trim_start().strip_prefix('[').ok_or(expected)?;
        let (inside, rest) = rest.split_once(']').ok_or(expected)?;
        self.0 = rest;
        if inside.trim().is_empty() {
            return Ok(Vec::new());
        }
        inside.split(',').map(|it| item(it.trim())).collect::<Option<_>>().ok_or(expected)
    }
}

/// The number after a letter.
fn numbered(word: &str, letter: char) -> Option<u32> {
    word.strip_prefix(letter)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_instruction_reads_back_as_it_was_written() {
        let lines = "split s0 a1 [8, 4]\nfuse s0 a2 a3\nreorder s0 [a4, a0, a3]\nreorder s1 []\n\
                     annotate s0 a4 vectorized\nannotate s0 a0 parallel\nannotate s0 a0 serial\n\
                     annotate s0 a1 unrolled\n\
                     annotate s0 a0 persistent:132\nannotate s0 a0 stream_k:132\nannotate s0 a0 warp_specialized:3\nannotate s0 a1 tensorized\ncompute_at s1 s0 a2\n\
                     online_reduction s1 s0 a2\nfactor_out s1\nhoist_invariant s1\ndowncast s1 bf16\nreciprocal s1\ninline s2\ncache_read t0 s1\n\
                     cache_operand s1 r1\ncache_padded t0 s1\ncache_write s1\nrfactor s1 a2\npolyphase s1\nscan s1 a3\nscan_in_order s1\ntighten_bounds s1 a3\n\
                     pack t1 [0:48, 1:4] [0, 2, 1, 3]\npack t1 [] [1, 0]\nthreads one\nthreads all\nset_knobs [256, 4]\nset_knobs []";
        for line in lines.lines() {
            let instruction: Instruction = line.parse().unwrap();
            assert_eq!(instruction.to_string(), line);
        }
    }

    #[test]
    fn former_spellings_are_read() {
        let current = |line: &str| line.parse::<Instruction>().unwrap().to_string();
        for (former, now) in [
            ("rolling_update s1 s0 a2", "online_reduction s1 s0 a2"),
            ("hoist s1", "factor_out s1"),
            ("lift s1", "hoist_invariant s1"),
            ("narrow s1 bf16", "downcast s1 bf16"),
            ("invert s1", "reciprocal s1"),
            ("trim s1 a3", "tighten_bounds s1 a3"),
            ("annotate s0 a0 fed:4", "annotate s0 a0 warp_specialized:4"),
            ("annotate s0 a0 streamed:132", "annotate s0 a0 stream_k:132"),
            ("annotate s0 a0 tensor", "annotate s0 a0 tensorized"),
        ] {
            assert_eq!(current(former), now);
        }
    }

    #[test]
    fn other_lines_are_refused_with_the_token_that_was_expected() {
        let refused = |line: &str| line.parse::<Instruction>().unwrap_err().to_string();
        insta::assert_snapshot!(refused("splat s0"), @"`splat s0` is not an instruction: expected the name of a primitive");
        insta::assert_snapshot!(refused("split s0 a1 8"), @"`split s0 a1 8` is not an instruction: expected a list of factors");
        insta::assert_snapshot!(refused("split s0 a1 [8] a2"), @"`split s0 a1 [8] a2` is not an instruction: expected the end of the line");
        insta::assert_snapshot!(refused("fuse s0 a1"), @"`fuse s0 a1` is not an instruction: expected an axis, as in `a0`");
        insta::assert_snapshot!(refused("annotate s0 a1 fast"), @"`annotate s0 a1 fast` is not an instruction: expected `serial`, `unrolled`, `vectorized` or `parallel`");
    }
}
