//! Liveness of the arrays of a thread: those of attention scores are dead where exponentials begin.
//!
//! In: a kernel. Out: the most registers that its arrays take at once. An array lives from its first
//! write to its last read; one that a loop carries from one iteration to the next, or that is
//! accessed outside of it, lives through all of the loop.

use std::collections::BTreeMap;
use std::ops::Range;

use tvmtune_cuda::grid::{FirstOperand, Kernel, Stmt};
use tvmtune_ir::dag::{Expr, TensorId};
use tvmtune_schedule::LoopKind;
use tvmtune_schedule::nest::Statement;

/// Returns the most registers that arrays of those sizes take at once.
pub(super) fn most(kernel: &Kernel, size: &dyn Fn(TensorId) -> u64) -> u64 {
    let mut liveness = Liveness::default();
    liveness.body(&kernel.body);
    let lives: Vec<(Range<usize>, u64)> =
        liveness.accesses.iter().map(|(tensor, it)| (liveness.life(it), size(*tensor))).collect();
    let registers_at = |place: usize| {
        let alive = lives.iter().filter(|it| it.0.contains(&place));
        alive.map(|it| it.1).fold(0, u64::saturating_add)
    };
    (0..liveness.place).map(registers_at).max().unwrap_or(0)
}

#[derive(Default)]
struct Liveness {
    /// Statements visited so far.
    place: usize,
    /// The places of accesses of each array, and whether they only write.
    accesses: BTreeMap<TensorId, Vec<(usize, bool)>>,
    /// Loops that stay loops, inner ones first.
    loops: Vec<Range<usize>>,
}

impl Liveness {
    fn body(&mut self, body: &[Stmt]) {
        for stmt in body {
            let first = self.place;
            self.leaf(stmt);
            self.body(stmt.body());
            if let Stmt::For { kind: LoopKind::Serial, .. } = stmt {
                self.loops.push(first..self.place);
            }
        }
    }

    fn leaf(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::Store { tensor, value, .. } => {
                self.note_reads(value);
                self.note(*tensor, true);
            }
            Stmt::Update { tensor, value, .. } => {
                self.note_reads(value);
                self.note(*tensor, false);
            }
            Stmt::AllReduce { tensor, .. }
            | Stmt::TransposeQuad { tensor, .. }
            | Stmt::Mma { tensor, .. } => {
                self.note(*tensor, false);
            }
            Stmt::Wgmma { accumulators, a, .. } => {
                self.note(accumulators.tensor, false);
                if let FirstOperand::Registers(it) = &**a {
                    self.note(it.tensor, false);
                }
            }
            Stmt::WgmmaWait { sum, .. } => self.note(*sum, false),
            _ => return,
        }
        self.place += 1;
    }

    fn note_reads(&mut self, value: &Expr) {
        value.for_each_read(&mut |tensor, _| self.note(tensor, false));
    }

    fn note(&mut self, tensor: TensorId, is_store: bool) {
        self.accesses.entry(tensor).or_default().push((self.place, is_store));
    }

    /// From the first access to the last one; what ends where another begins leaves its place to it.
    fn life(&self, accesses: &[(usize, bool)]) -> Range<usize> {
        let first = accesses.first().map_or(0, |it| it.0);
        let last = accesses.last().map_or(0, |it| it.0);
        let mut life = first..last.max(first + 1);
        for around in &self.loops {
            let mut inside = accesses.iter().filter(|it| around.contains(&it.0));
            let Some((_, begins)) = inside.next() else { continue };
            if !begins || inside.count() + 1 < accesses.len() {
                life = life.start.min(around.start)..life.end.max(around.end);
            }
        }
        life
    }
}
