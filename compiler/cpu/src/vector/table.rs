//! The argument table: entries that the caller passes, without duplicates.

use std::collections::BTreeMap;

use super::affine::{Affine, Coef, simplify};
use super::{Count, EntryId, Linear, TableEntry};
use tvmtune_ir::dag::{DType, ScalarId, TensorId};
use tvmtune_ir::poly::{Facts, Poly, exact_sum};
use tvmtune_schedule::nest::{Nest, Scope};

#[derive(Debug)]
pub(super) struct Table {
    facts: Facts,
    entries: Vec<TableEntry>,
    pointers: BTreeMap<TensorId, EntryId>,
    scalars: BTreeMap<ScalarId, EntryId>,
    params: BTreeMap<Poly, EntryId>,
    /// Cache of [`Table::count`], by polynomial before simplification.
    counts: BTreeMap<Poly, Count>,
}

impl Table {
    /// Starts a table with the parameters, the results and the workspaces.
    pub(super) fn new(nest: &Nest, facts: &Facts) -> Self {
        let mut table = Self {
            facts: facts.clone(),
            entries: Vec::new(),
            pointers: BTreeMap::new(),
            scalars: BTreeMap::new(),
            params: BTreeMap::new(),
            counts: BTreeMap::new(),
        };
        let own = nest.outputs.iter().filter(|it| !nest.params.contains(it));
        for tensor in nest.params.iter().chain(own) {
            let layout = nest.buffer(*tensor).layout.clone();
            let entry = table.push(TableEntry::Pointer { tensor: *tensor, layout });
            table.pointers.insert(*tensor, entry);
        }
        for (n, buffer) in nest.buffers.iter().enumerate() {
            if buffer.scope == Scope::Workspace {
                let elements = buffer.shape.iter().fold(Poly::constant(1), |n, it| n * it.clone());
                let bytes = elements * buffer.dtype.bytes() as i64;
                let entry = table.push(TableEntry::Workspace { bytes });
                table.pointers.insert(TensorId(n as u32), entry);
            }
        }
        table
    }

    pub(super) fn into_entries(self) -> Vec<TableEntry> {
        self.entries
    }

    fn push(&mut self, entry: TableEntry) -> EntryId {
        self.entries.push(entry);
        EntryId(self.entries.len() as u32 - 1)
    }

    /// Returns the entry with the address of a buffer; `None` for local buffers.
    pub(super) fn pointer(&self, tensor: TensorId) -> Option<EntryId> {
        self.pointers.get(&tensor).copied()
    }

    pub(super) fn scalar(&mut self, scalar: ScalarId, dtype: DType) -> EntryId {
        if let Some(entry) = self.scalars.get(&scalar) {
            return *entry;
        }
        let entry = self.push(TableEntry::Scalar(scalar, dtype));
        self.scalars.insert(scalar, entry);
        entry
    }

    fn param(&mut self, poly: Poly) -> EntryId {
        if let Some(entry) = self.params.get(&poly) {
            return *entry;
        }
        let entry = self.push(TableEntry::Param(poly.clone()));
        self.params.insert(poly, entry);
        entry
    }

    /// Adds a polynomial in the dimensions; returns a constant where its range is one value.
    pub(super) fn count(&mut self, poly: &Poly) -> Count {
        if let Some(value) = poly.as_constant() {
            return Count::Const(value);
        }
        if let Some(count) = self.counts.get(poly) {
            return *count;
        }
        let tidied = simplify(poly.clone(), &self.facts);
        let range = tidied.interval(&self.facts);
        let count = match range.lo == range.hi {
            true => Count::Const(range.lo),
            false => Count::Param(self.param(tidied)),
        };
        self.counts.insert(poly.clone(), count);
        count
    }

    pub(super) fn greatest(&self, entry: EntryId) -> i64 {
        match &self.entries[entry.0 as usize] {
            TableEntry::Param(poly) => poly.interval(&self.facts).hi,
            _ => i64::MAX,
        }
    }

    /// Converts an affine form over variables of the vector code.
    pub(super) fn linear(&mut self, value: &Affine) -> Linear {
        let mut linear = Linear::constant(value.constant);
        if !value.dims.is_zero() {
            match self.count(&value.dims) {
                Count::Const(more) => linear.constant = exact_sum(linear.constant, more),
                Count::Param(entry) => linear.param = Some(entry),
            }
        }
        for (var, coefficient) in &value.terms {
            let stride = match coefficient {
                Coef::Const(value) => Count::Const(*value),
                Coef::Dims(poly) => self.count(poly),
            };
            linear.strides.push((*var, stride));
        }
        linear
    }
}
