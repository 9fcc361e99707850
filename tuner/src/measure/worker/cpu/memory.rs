//! The memory that candidates work on: each argument alone between pages that are no one's.

use std::collections::{BTreeMap, VecDeque};
use std::io;

use tvmtune_runtime::raw::Guarded;

use super::super::super::protocol::{Case, LayoutSpec, OutputSpec, ParamSpec, Word};
use super::super::invalid;
use super::super::param::Packing;

/// Results are full of this before a launch, and so is memory for temporaries: neither zeros nor
/// the last candidate's results pass for what was not computed.
const SPOILED: u8 = 0xcd;

/// What vectors and cache lines are aligned to.
const LINE: usize = 64;

/// Bytes of a parameter's packed copies that are kept: packing a large weight takes longer than
/// timing a candidate.
const KEPT: usize = 2 << 30;

/// Where arguments lie in their pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placement {
    /// As far up as elements allow, so that the very next byte is a fault.
    Tight,
    /// At a cache line, as the memory of real programs.
    Aligned,
}

/// The arguments of one case.
pub(super) struct Arguments {
    params: Vec<Param>,
    outputs: Vec<Places>,
    /// Memory for temporaries, by position in the table; kept from candidate to candidate.
    shared: BTreeMap<usize, Guarded>,
}

struct Param {
    spec: ParamSpec,
    memory: Places,
    /// Copies in another order, the last one that was asked for first.
    packed: VecDeque<(LayoutSpec, Guarded)>,
    /// Memory of a copy that was given up, for the next one: new pages cost as much as packing.
    spare: Option<Guarded>,
}

/// The same bytes in each placement.
struct Places {
    tight: Guarded,
    /// Only where candidates are timed, and the tight ones are not aligned.
    aligned: Option<Guarded>,
}

impl Arguments {
    /// The arguments of a case; timed, or only verified.
    pub(super) fn new(case: &Case, timed: bool) -> io::Result<Self> {
        let params = case.params.iter().map(|it| Param::new(it, timed));
        let output =
            |it: &OutputSpec| Places::new(it.bytes() as usize, it.dtype.bytes() as usize, timed);
        let outputs = case.outputs.iter().map(output);
        Ok(Self {
            params: params.collect::<io::Result<_>>()?,
            outputs: outputs.collect::<io::Result<_>>()?,
            shared: BTreeMap::new(),
        })
    }

    /// How many bytes of memory there are.
    pub(super) fn n_bytes(&self) -> usize {
        let params = self.params.iter().map(|it| it.memory.n_bytes() + it.n_packed());
        let shared = self.shared.values().map(|it| it.bytes().len());
        params.sum::<usize>()
            + self.outputs.iter().map(Places::n_bytes).sum::<usize>()
            + shared.sum::<usize>()
    }

    /// The argument table.
    pub(super) fn table(&mut self, words: &[Word], placement: Placement) -> io::Result<Vec<u64>> {
        self.params.iter_mut().for_each(|it| it.forget(KEPT));
        let mut table = Vec::with_capacity(words.len());
        for (slot, word) in words.iter().enumerate() {
            table.push(match word {
                Word::Value(value) => *value,
                Word::Param(n) => self.param(*n)?.memory.at(placement).address(),
                Word::Packed(n, layout) => self.param(*n)?.packed(layout)?,
                Word::Output(n) => {
                    let output = self.outputs.get(*n).ok_or_else(|| invalid("no such result"))?;
                    output.at(placement).address()
                }
                Word::Shared(n_bytes) => self.shared(slot, *n_bytes)?,
            });
        }
        Ok(table)
    }

    /// Overwrites results and temporaries.
    pub(super) fn spoil_outputs(&mut self) {
        let outputs = self.outputs.iter_mut().map(|it| &mut it.tight);
        for memory in outputs.chain(self.shared.values_mut()) {
            memory.bytes_mut().fill(SPOILED);
        }
    }

    /// The bytes of the results of the last launch in tight placement.
    pub(super) fn outputs(&self) -> Vec<Vec<u8>> {
        self.outputs.iter().map(|it| it.tight.bytes().to_vec()).collect()
    }

    fn param(&mut self, n: usize) -> io::Result<&mut Param> {
        self.params.get_mut(n).ok_or_else(|| invalid("no such parameter"))
    }

    fn shared(&mut self, slot: usize, n_bytes: u64) -> io::Result<u64> {
        let n_bytes = n_bytes as usize;
        let fits = |it: &Guarded| it.bytes().len() == n_bytes;
        if !self.shared.get(&slot).is_some_and(fits) {
            self.shared.remove(&slot);
            self.shared.insert(slot, Guarded::new(n_bytes, LINE)?);
        }
        Ok(self.shared[&slot].address())
    }
}

impl Places {
    fn new(n_bytes: usize, align: usize, timed: bool) -> io::Result<Self> {
        let tight = Guarded::new(n_bytes, align)?;
        let needs_another = timed && !tight.address().is_multiple_of(LINE as u64);
        let aligned = needs_another.then(|| Guarded::new(n_bytes, LINE)).transpose()?;
        Ok(Self { tight, aligned })
    }

    fn at(&self, placement: Placement) -> &Guarded {
        match (placement, &self.aligned) {
            (Placement::Aligned, Some(aligned)) => aligned,
            _ => &self.tight,
        }
    }

    fn n_bytes(&self) -> usize {
        let aligned = self.aligned.as_ref().map_or(0, |it| it.bytes().len());
        self.tight.bytes().len() + aligned
    }
}

impl Param {
    fn new(spec: &ParamSpec, timed: bool) -> io::Result<Self> {
        let bytes = spec.array().bytes();
        let mut memory = Places::new(bytes.len(), spec.dtype.bytes() as usize, timed)?;
        for it in std::iter::once(&mut memory.tight).chain(&mut memory.aligned) {
            it.bytes_mut().copy_from_slice(&bytes);
            it.make_read_only()?;
        }
        Ok(Self { spec: spec.clone(), memory, packed: VecDeque::new(), spare: None })
    }

    /// The address of the elements in that order, which are packed if they are not there.
    fn packed(&mut self, layout: &LayoutSpec) -> io::Result<u64> {
        let known = self.packed.iter().position(|it| it.0 == *layout);
        let (layout, memory) = match known.and_then(|it| self.packed.remove(it)) {
            Some(known) => known,
            None => (layout.clone(), self.pack(layout)?),
        };
        let address = memory.address();
        self.packed.push_front((layout, memory));
        Ok(address)
    }

    /// The elements in another order, by the function that packs weights for users.
    fn pack(&mut self, layout: &LayoutSpec) -> io::Result<Guarded> {
        let Self { spec, memory, spare, .. } = self;
        let packing = Packing::of(spec, layout)?;
        let mut packed = match spare.take().filter(|it| it.bytes().len() == packing.n_bytes()) {
            Some(mut spare) => {
                spare.make_writable()?;
                spare
            }
            None => Guarded::new(packing.n_bytes(), LINE)?,
        };
        packing.pack(memory.tight.bytes(), packed.bytes_mut());
        packed.make_read_only()?;
        Ok(packed)
    }

    /// How many bytes the packed copies have.
    fn n_packed(&self) -> usize {
        self.packed.iter().map(|it| it.1.bytes().len()).sum()
    }

    /// Gives up copies that are too many, the one first that was not asked for in the longest
    /// time. No table may be in use.
    fn forget(&mut self, limit: usize) {
        while self.packed.len() > 1 && self.n_packed() > limit {
            self.spare = self.packed.pop_back().map(|it| it.1);
        }
    }
}

#[cfg(test)]
mod tests {
    use tvmtune_ir::dag::DType;

    use super::*;

    #[test]
    fn memory_of_a_copy_that_was_given_up_serves_the_next() {
        let spec = ParamSpec { dtype: DType::I32, shape: vec![6, 5], seed: 1, rows: None };
        let mut param = Param::new(&spec, true).unwrap();
        let tiled = |factor| LayoutSpec { splits: vec![(0, factor)], order: vec![0, 2, 1] };
        let expected: Vec<Vec<u8>> = [2, 3, 4].map(|it| packed(&spec, &tiled(it))).into();
        let addresses = [2, 3].map(|it| param.packed(&tiled(it)).unwrap());
        assert_eq!(param.packed(&tiled(2)).unwrap(), addresses[0]);
        param.forget(0);
        // Of two copies the one is left that was asked for last.
        assert_eq!(param.packed(&tiled(2)).unwrap(), addresses[0]);
        assert_eq!(param.packed(&tiled(3)).unwrap(), addresses[1]);
        assert_eq!(param.packed[0].1.bytes(), expected[1]);
        assert_eq!(param.packed[1].1.bytes(), expected[0]);
        param.forget(0);
        // Padding makes it larger: the memory does not fit.
        param.packed(&tiled(4)).unwrap();
        assert_eq!(param.packed[0].1.bytes(), expected[2]);
        assert!(param.spare.is_none() && param.n_packed() == expected[1].len() + expected[2].len());
    }

    fn packed(spec: &ParamSpec, layout: &LayoutSpec) -> Vec<u8> {
        let mut param = Param::new(spec, false).unwrap();
        param.packed(layout).unwrap();
        param.packed[0].1.bytes().to_vec()
    }
}
