//! Faults of kernels, and their locations in the source.

use std::fmt;

use crate::parse::{LineTable, Position};

/// The kind of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The launch can't begin: wrong arguments, too many threads, too much shared memory.
    BadLaunch,
    /// An access outside of every buffer, or outside of shared or local memory.
    OutOfBounds,
    /// An address that is no multiple of the access's size.
    Misaligned,
    /// Shared memory that was read before anything was written there.
    Uninitialised,
    /// Two accesses of one CTA or cluster, at least one of them a write, that nothing orders.
    Race,
    /// A weak write of one CTA where another one reads or writes, within a launch.
    CrossCtaRace,
    /// A write that an asynchronous copy or `wgmma` reads without a proxy fence in between.
    MissingProxyFence,
    /// Nothing can go on.
    Deadlock,
    /// A warp-level instruction that some of its threads never reach.
    DivergentCollective,
    /// A barrier used against the rules of the PTX ISA.
    BarrierMisuse,
    /// Operands that an instruction does not allow.
    BadInstruction,
    /// A feature that this crate does not implement.
    Unsupported,
    /// A thread that exits while its copies still need its shared memory.
    ExitWhilePending,
    /// `assert` failed, or `trap` was reached.
    Assertion,
    /// More instructions than the options allow.
    InstructionLimit,
}

/// A line of the source that was compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLocation {
    /// The file, as named to the compiler.
    pub file: String,
    /// The line in it.
    pub line: u32,
    /// For the body of an inlined function: the location of its call.
    pub called_at: Option<Box<SourceLocation>>,
}

impl SourceLocation {
    /// The line that is not part of an inlined function.
    #[must_use]
    pub fn outermost(&self) -> &Self {
        self.called_at.as_ref().map_or(self, |it| it.outermost())
    }
}

impl fmt::Display for SourceLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.called_at {
            Some(caller) => write!(f, "{caller} in {}:{}", self.file, self.line),
            None => write!(f, "{}:{}", self.file, self.line),
        }
    }
}

/// An access, a wait, or another action of a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// The CTA within the grid.
    pub cta: Option<[u32; 3]>,
    /// The thread within the CTA.
    pub thread: Option<[u32; 3]>,
    /// The action, in words.
    pub message: String,
    /// The line of the source.
    pub location: Option<SourceLocation>,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if let Some([x, y, z]) = self.thread {
            write!(f, " by thread ({x}, {y}, {z})")?;
        }
        if let Some([x, y, z]) = self.cta {
            write!(f, " of CTA ({x}, {y}, {z})")?;
        }
        match &self.location {
            Some(location) => write!(f, " at {location}"),
            None => Ok(()),
        }
    }
}

/// The reason why a kernel was stopped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{kernel}`: {kind}: {event}{}", Others(.others))]
pub struct Fault {
    /// The rule that was broken.
    pub kind: FaultKind,
    /// The name of the kernel.
    pub kernel: String,
    /// The event at which it was detected.
    pub event: Event,
    /// The other access of a race, or other waiting threads.
    pub others: Vec<Event>,
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BadLaunch => "bad launch",
            Self::OutOfBounds => "out of bounds",
            Self::Misaligned => "misaligned",
            Self::Uninitialised => "uninitialised",
            Self::Race => "race",
            Self::CrossCtaRace => "race between CTAs",
            Self::MissingProxyFence => "missing `fence.proxy.async`",
            Self::Deadlock => "deadlock",
            Self::DivergentCollective => "divergent threads",
            Self::BarrierMisuse => "misused barrier",
            Self::BadInstruction => "bad instruction",
            Self::Unsupported => "unsupported",
            Self::ExitWhilePending => "exit while copies are pending",
            Self::Assertion => "assertion",
            Self::InstructionLimit => "instruction limit",
        })
    }
}

struct Others<'a>(&'a [Event]);

impl fmt::Display for Others<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|it| write!(f, "; {it}"))
    }
}

impl Fault {
    /// The line of the source, outside of inlined functions.
    #[must_use]
    pub fn line(&self) -> Option<u32> {
        self.event.location.as_ref().map(|it| it.outermost().line)
    }
}

/// The lines of a module, with names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Source {
    files: Vec<(u64, String)>,
    lines: Vec<(Position, Option<Position>)>,
}

impl Source {
    pub(crate) fn new(line_table: &LineTable<'_>) -> Self {
        let files = line_table.files.iter().map(|(n, name)| (*n, (*name).to_owned())).collect();
        Self { files, lines: line_table.lines.clone() }
    }

    /// Returns the location with an index; none for code without a line.
    pub(crate) fn location(&self, index: u32) -> Option<SourceLocation> {
        let (position, call) = self.lines[index as usize];
        self.resolve(position, call, 0)
    }

    fn resolve(&self, at: Position, call: Option<Position>, depth: u32) -> Option<SourceLocation> {
        let (file, line, _) = at;
        let name = &self.files.iter().find(|(n, _)| *n == file)?.1;
        // A call inside of an inlined function has a line of its own, with its own caller.
        let outer = call.filter(|_| depth < 16).and_then(|call| {
            let next = self.lines.iter().find(|(it, _)| *it == call).and_then(|(_, it)| *it);
            self.resolve(call, next, depth + 1)
        });
        let line = u32::try_from(line).unwrap_or(u32::MAX);
        Some(SourceLocation { file: name.clone(), line, called_at: outer.map(Box::new) })
    }
}

#[cfg(test)]
mod tests {
    use super::Source;
    use crate::parse::LineTable;

    #[test]
    fn places_lead_back_through_all_inlined_calls() {
        let lines = vec![
            ((0, 0, 0), None),
            ((2, 30, 3), Some((2, 20, 5))),
            ((2, 20, 5), Some((1, 10, 7))),
            ((3, 1, 1), None),
        ];
        let source = Source::new(&LineTable { files: vec![(1, "a.cu"), (2, "b.cuh")], lines });
        let location = source.location(1).unwrap();
        assert_eq!(location.to_string(), "a.cu:10 in b.cuh:20 in b.cuh:30");
        assert_eq!((location.outermost().line, source.location(0)), (10, None));
        assert_eq!(source.location(3), None, "a file that is not listed");
    }
}
