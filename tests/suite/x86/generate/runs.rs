//! Random runs of statements that machine code takes together as transpositions side by side.

use super::{Generator, Kind};
use tvmtune_cpu::vector::{Address, Base, EntryId, LaneStride, Linear, Stmt, Value};

impl Generator<'_> {
    /// Strided loads of up to 20 consecutive words, as of whole cache lines.
    pub(super) fn many_loads(&mut self) -> Vec<Stmt> {
        let (bytes, storage) = (self.bytes(), self.storage());
        let offset = self.scaled_linear(50, bytes);
        let lanes = LaneStride::Strided(self.scaled(2, [2, 30], bytes));
        let n = self.tape.pick(&[8, 16, 12, 7, 20]);
        let load = |at: i64| {
            let offset = Linear { constant: offset.constant + at * bytes, ..offset.clone() };
            let address = Address { base: Base::Table(EntryId(0)), offset };
            let value = Value::Load { address, lanes, storage, mask: None };
            Stmt::Set { reg: self.assigned(Kind::Float), value, mask: None }
        };
        (0..n).map(load).collect()
    }
}
