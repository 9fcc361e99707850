//! The arguments of candidates in main memory, each between guard pages.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;

use tvmtune_runtime::raw::Guarded;

use super::super::super::protocol::{Case, LayoutSpec, OutputSpec, ParamSpec, Word};
use super::super::invalid;
use super::super::param::Packing;
use super::rotation::Rotation;

/// The poison that fills results and scratch memory before a launch: neither zeros nor the results of
/// the last candidate pass for elements that were not computed.
const POISON: u8 = 0xcd;

/// The alignment of vectors and cache lines, in bytes.
pub(super) const LINE_BYTES: usize = 64;

/// The maximum size of a parameter's cached packed copies, in bytes: packing a large weight takes
/// longer than timing a candidate.
const CACHE_BYTES: usize = 2 << 30;

/// The size of a parameter's rotated copies from which those of the next layout take the place of the
/// oldest ones, in bytes.
const ROTATIONS_BYTES: usize = 512 << 20;

/// The size of the temporaries of candidates from which those of the next take the place of the oldest
/// ones, in bytes.
const TEMPORARIES_BYTES: usize = 256 << 20;

/// The placement of an argument in its pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placement {
    /// At the end, up to the alignment of elements: an access to the next byte faults.
    Tight,
    /// Aligned to a cache line, as in real programs.
    Aligned,
}

/// The purpose of arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Candidates are timed on them.
    Timing,
    /// Candidates are only verified on them.
    Verification,
}

/// The arguments of one case.
pub(super) struct Arguments {
    /// Those of the same value, as weights, are shared with the arguments of other cases.
    params: Vec<Rc<RefCell<Param>>>,
    outputs: Vec<Output>,
    /// The number of copies of each parameter that timing finds in memory; 0 if it finds none there.
    n_copies: usize,
    /// The number of timed launches so far.
    turn: usize,
    /// Temporaries by position in the table, the most recently used first. Candidates that are timed in turn
    /// find theirs again: touching new pages would count as a part of their time.
    temporaries: VecDeque<(usize, Guarded)>,
    /// The number of those that the last table has: the first ones.
    n_in_use: usize,
}

/// The memory of a result.
enum Output {
    Own(Allocation),
    /// The result is stored in the memory of a parameter.
    Replaces(usize),
}

struct Param {
    spec: ParamSpec,
    memory: Allocation,
    /// Copies that launches take in turn, the most recently used first, as it is or in a layout.
    rotations: VecDeque<(Option<LayoutSpec>, Rotation)>,
    /// The elements at first, of a parameter that a result replaces.
    replaced: Option<Vec<u8>>,
    /// Packed copies, the most recently used first.
    packed: VecDeque<(LayoutSpec, Guarded)>,
    /// The memory of an evicted copy, for the next one: new pages cost as much as packing.
    spare: Option<Guarded>,
}

/// The same bytes in each placement.
struct Allocation {
    tight: Guarded,
    /// Only for timing, and if the tight one is not aligned.
    aligned: Option<Guarded>,
}

impl Arguments {
    /// Creates the arguments of a case, beside those of other cases of the problem. The first case, on
    /// which candidates are timed, is created before others.
    pub(super) fn new<'a>(
        case: &Case,
        purpose: Purpose,
        others: impl Iterator<Item = &'a Arguments> + Clone,
    ) -> io::Result<Self> {
        let param = |(n, spec): (usize, &ParamSpec)| {
            let is_replaced = case.is_replaced(n);
            let mut known = others.clone().flat_map(|it| &it.params);
            let is_same = |it: &Param| it.spec == *spec && it.replaced.is_none();
            match known.find(|it| is_same(&it.borrow())) {
                Some(known) if purpose == Purpose::Verification && !is_replaced => {
                    Ok(Rc::clone(known))
                }
                _ => Ok(Rc::new(RefCell::new(Param::new(spec, purpose, is_replaced)?))),
            }
        };
        let params = case.params.iter().enumerate().map(param);
        let output = |it: &OutputSpec| match it.replaces {
            Some(param) => Ok(Output::Replaces(param)),
            None => Allocation::new(it.bytes() as usize, it.dtype.bytes() as usize, purpose)
                .map(Output::Own),
        };
        let outputs = case.outputs.iter().map(output);
        let rotated = case.params.iter().filter(|it| it.cold && purpose == Purpose::Timing);
        let n_bytes: usize = rotated.map(ParamSpec::n_bytes).sum();
        Ok(Self {
            params: params.collect::<io::Result<_>>()?,
            outputs: outputs.collect::<io::Result<_>>()?,
            n_copies: if n_bytes > 0 { Rotation::n_copies(n_bytes) } else { 0 },
            turn: 0,
            temporaries: VecDeque::new(),
            n_in_use: 0,
        })
    }

    /// Returns the size of all memory, in bytes.
    pub(super) fn n_bytes(&self) -> usize {
        let params = self.params.iter().map(|it| {
            let it = it.borrow();
            it.memory.n_bytes() + it.n_packed()
        });
        params.sum::<usize>()
            + self.outputs.iter().map(Output::n_bytes).sum::<usize>()
            + self.n_temporary_bytes()
    }

    /// Fills the argument table.
    pub(super) fn table(&mut self, words: &[Word], placement: Placement) -> io::Result<Vec<u64>> {
        self.params.iter().for_each(|it| it.borrow_mut().evict(CACHE_BYTES));
        self.n_in_use = 0;
        let mut table = Vec::with_capacity(words.len());
        for (slot, word) in words.iter().enumerate() {
            table.push(match word {
                Word::Value(value) => *value,
                Word::Param(n) => self.param(*n)?.borrow().memory.get(placement).address(),
                Word::Packed(n, layout) => self.param(*n)?.borrow_mut().packed(layout)?,
                Word::Output(n) => {
                    let Some(Output::Own(output)) = self.outputs.get(*n) else {
                        return Err(invalid("no such result"));
                    };
                    output.get(placement).address()
                }
                Word::Shared(n_bytes) => self.temporary(slot, *n_bytes as usize)?,
            });
        }
        Ok(table)
    }

    /// Fills the argument tables of launches that are timed, to be used in turn.
    pub(super) fn tables(&mut self, words: &[Word]) -> io::Result<Vec<Vec<u64>>> {
        let table = self.table(words, Placement::Aligned)?;
        if self.n_copies == 0 {
            return Ok(vec![table]);
        }
        let mut tables = vec![table; self.n_copies];
        for (slot, word) in words.iter().enumerate() {
            let (n, layout) = match word {
                Word::Param(n) => (*n, None),
                Word::Packed(n, layout) => (*n, Some(layout)),
                Word::Output(_) | Word::Shared(_) | Word::Value(_) => continue,
            };
            let mut param = self.param(n)?.borrow_mut();
            if param.spec.cold {
                let rotation = param.rotation(layout, self.n_copies)?;
                for (copy, table) in tables.iter_mut().enumerate() {
                    table[slot] = rotation.address(copy);
                }
            }
        }
        Ok(tables)
    }

    /// Returns the turn of the next launch. Turns go on from one candidate to the next, as the last
    /// launches left their copies in the cache.
    pub(super) fn next_turn(&mut self) -> usize {
        self.turn = self.turn.wrapping_add(1);
        self.turn
    }

    /// Frees copies that can be made anew.
    pub(super) fn free_rotations(&mut self) {
        self.params.iter().for_each(|it| it.borrow_mut().rotations.clear());
    }

    /// Fills results and scratch memory with poison, and parameters that results replace with their
    /// elements.
    pub(super) fn poison_outputs(&mut self) {
        let outputs = self.outputs.iter_mut().filter_map(|it| match it {
            Output::Own(it) => Some(&mut it.tight),
            Output::Replaces(_) => None,
        });
        let temporaries = self.temporaries.iter_mut().take(self.n_in_use).map(|it| &mut it.1);
        for memory in outputs.chain(temporaries) {
            memory.bytes_mut().fill(POISON);
        }
        self.restore();
    }

    /// Gives parameters that results replaced their elements again; returns whether there are any.
    pub(super) fn restore(&mut self) -> bool {
        let restored = self.params.iter().map(|it| it.borrow_mut().restore());
        restored.fold(false, |any, it| any | it)
    }

    /// Returns the results of the last launch in tight placement.
    pub(super) fn outputs(&self) -> Vec<Vec<u8>> {
        let bytes = |it: &Output| match it {
            Output::Own(it) => it.tight.bytes().to_vec(),
            Output::Replaces(n) => self.params[*n].borrow().memory.tight.bytes().to_vec(),
        };
        self.outputs.iter().map(bytes).collect()
    }

    fn param(&self, n: usize) -> io::Result<&RefCell<Param>> {
        self.params.get(n).map(|it| &**it).ok_or_else(|| invalid("no such parameter"))
    }

    /// Returns the address of a temporary, created if necessary. It becomes the first one.
    fn temporary(&mut self, slot: usize, n_bytes: usize) -> io::Result<u64> {
        let is_it = |it: &(usize, Guarded)| it.0 == slot && it.1.bytes().len() == n_bytes;
        let known = self.temporaries.iter().position(is_it);
        let memory = match known.and_then(|it| self.temporaries.remove(it)) {
            Some((_, memory)) => memory,
            None => {
                while self.temporaries.len() > self.n_in_use
                    && self.n_temporary_bytes() + n_bytes > TEMPORARIES_BYTES
                {
                    self.temporaries.pop_back();
                }
                Guarded::new(n_bytes, LINE_BYTES)?
            }
        };
        let address = memory.address();
        self.temporaries.push_front((slot, memory));
        self.n_in_use += 1;
        Ok(address)
    }

    fn n_temporary_bytes(&self) -> usize {
        self.temporaries.iter().map(|it| it.1.bytes().len()).sum()
    }
}

impl Allocation {
    fn new(n_bytes: usize, align: usize, purpose: Purpose) -> io::Result<Self> {
        let tight = Guarded::new(n_bytes, align)?;
        let needs_another =
            purpose == Purpose::Timing && !tight.address().is_multiple_of(LINE_BYTES as u64);
        let aligned = needs_another.then(|| Guarded::new(n_bytes, LINE_BYTES)).transpose()?;
        Ok(Self { tight, aligned })
    }

    fn all(&mut self) -> impl Iterator<Item = &mut Guarded> {
        std::iter::once(&mut self.tight).chain(&mut self.aligned)
    }

    fn get(&self, placement: Placement) -> &Guarded {
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

impl Output {
    fn n_bytes(&self) -> usize {
        match self {
            Output::Own(it) => it.n_bytes(),
            Output::Replaces(_) => 0,
        }
    }
}

impl Param {
    fn new(spec: &ParamSpec, purpose: Purpose, is_replaced: bool) -> io::Result<Self> {
        let bytes = spec.bytes();
        let mut memory = Allocation::new(bytes.len(), spec.dtype.bytes() as usize, purpose)?;
        for it in memory.all() {
            it.bytes_mut().copy_from_slice(&bytes);
            if !is_replaced {
                it.make_read_only()?;
            }
        }
        let (packed, rotations) = (VecDeque::new(), VecDeque::new());
        let replaced = is_replaced.then_some(bytes);
        Ok(Self { spec: spec.clone(), memory, replaced, rotations, packed, spare: None })
    }

    /// Returns copies as it is or in a layout, created if necessary.
    fn rotation(&mut self, layout: Option<&LayoutSpec>, n_copies: usize) -> io::Result<&Rotation> {
        let cached = self.rotations.iter().position(|it| it.0.as_ref() == layout);
        let rotation = match cached.and_then(|it| self.rotations.remove(it)) {
            Some((_, rotation)) => rotation,
            None => {
                let n_bytes: usize = self.rotations.iter().map(|it| it.1.n_bytes()).sum();
                let spare =
                    if n_bytes > ROTATIONS_BYTES { self.rotations.pop_back() } else { None };
                if let Some(layout) = layout {
                    self.packed(layout)?;
                }
                let bytes = match layout {
                    // It is the first of the packed copies now.
                    Some(_) => self.packed[0].1.bytes(),
                    None => self.memory.get(Placement::Aligned).bytes(),
                };
                Rotation::new(bytes, n_copies, spare.map(|it| it.1))?
            }
        };
        self.rotations.push_front((layout.cloned(), rotation));
        Ok(&self.rotations[0].1)
    }

    /// Restores the elements if results replace them; returns whether they do.
    fn restore(&mut self) -> bool {
        let Some(bytes) = &self.replaced else { return false };
        for it in self.memory.all() {
            it.bytes_mut().copy_from_slice(bytes);
        }
        true
    }

    /// Returns the address of the packed copy in a layout, created if necessary.
    fn packed(&mut self, layout: &LayoutSpec) -> io::Result<u64> {
        let cached = self.packed.iter().position(|it| it.0 == *layout);
        let (layout, memory) = match cached.and_then(|it| self.packed.remove(it)) {
            Some(cached) => cached,
            None => (layout.clone(), self.pack(layout)?),
        };
        let address = memory.address();
        self.packed.push_front((layout, memory));
        Ok(address)
    }

    /// Packs the parameter, by the function that packs weights for users.
    fn pack(&mut self, layout: &LayoutSpec) -> io::Result<Guarded> {
        let Self { spec, memory, spare, .. } = self;
        let packing = Packing::new(spec, layout)?;
        let mut packed = match spare.take().filter(|it| it.bytes().len() == packing.n_bytes()) {
            Some(mut spare) => {
                spare.make_writable()?;
                spare
            }
            None => Guarded::new(packing.n_bytes(), LINE_BYTES)?,
        };
        packing.pack(memory.tight.bytes(), packed.bytes_mut());
        packed.make_read_only()?;
        Ok(packed)
    }

    /// Returns the size of the packed copies, in bytes.
    fn n_packed(&self) -> usize {
        self.packed.iter().map(|it| it.1.bytes().len()).sum()
    }

    /// Evicts the least recently used copies beyond a limit in bytes. No table may be in use.
    fn evict(&mut self, limit: usize) {
        while self.packed.len() > 1 && self.n_packed() > limit {
            self.spare = self.packed.pop_back().map(|it| it.1);
        }
    }
}

#[cfg(test)]
mod tests {
    use tvmtune_ir::dag::DType;

    use super::super::super::super::protocol::Numbers;
    use super::*;

    #[test]
    fn cases_share_the_parameters_that_have_one_value() {
        let spec = |n: u64, seed| ParamSpec {
            dtype: DType::F32,
            shape: vec![n],
            seed,
            numbers: Numbers::Uniform,
            cold: false,
        };
        let case = |n| Case { params: vec![spec(n, 1), spec(8, 2)], outputs: Vec::new() };
        let first = Arguments::new(&case(5), Purpose::Timing, std::iter::empty()).unwrap();
        let others = std::iter::once(&first);
        let second = Arguments::new(&case(3), Purpose::Verification, others.clone()).unwrap();
        let is_shared = |n: usize| Rc::ptr_eq(&first.params[n], &second.params[n]);
        assert_eq!([is_shared(0), is_shared(1)], [false, true]);
        // Whoever is timed has aligned memory of its own.
        let timed = Arguments::new(&case(5), Purpose::Timing, others).unwrap();
        assert!(!Rc::ptr_eq(&first.params[1], &timed.params[1]));
    }

    #[test]
    fn candidates_that_are_timed_in_turn_find_their_temporaries_again() {
        let case = Case { params: Vec::new(), outputs: Vec::new() };
        let mut arguments = Arguments::new(&case, Purpose::Timing, std::iter::empty()).unwrap();
        let mut table = |sizes: [u64; 2]| {
            arguments.table(&sizes.map(Word::Shared), Placement::Aligned).unwrap()
        };
        let (large, half) = (TEMPORARIES_BYTES as u64, TEMPORARIES_BYTES as u64 / 2);
        let tables = [table([640, 1280]), table([1280, 640]), table([640, 128])];
        assert_eq!(tables[0][0], tables[2][0], "of one place and size");
        assert_ne!(tables[0][0], tables[1][1], "of another place");
        assert_eq!([table([640, 1280]), table([1280, 640])], tables[..2]);
        // Those of the last table stay, whatever their size.
        let last = table([large, half]);
        assert_eq!(arguments.temporaries.len(), 2);
        assert_eq!(
            arguments.table(&[large, half].map(Word::Shared), Placement::Tight).unwrap(),
            last
        );
    }

    #[test]
    fn what_a_launch_replaces_is_restored_and_not_shared() {
        let spec = ParamSpec {
            dtype: DType::F32,
            shape: vec![5],
            seed: 1,
            numbers: Numbers::Uniform,
            cold: false,
        };
        let result = OutputSpec {
            dtype: DType::F32,
            shape: vec![5],
            rel: 0.0,
            abs: 0.0,
            ill_conditioned: Vec::new(),
            replaces: Some(0),
        };
        let case = Case { params: vec![spec.clone()], outputs: vec![result] };
        let mut first = Arguments::new(&case, Purpose::Timing, std::iter::empty()).unwrap();
        let others = std::iter::once(&first);
        let second = Arguments::new(&case, Purpose::Verification, others).unwrap();
        assert!(!Rc::ptr_eq(&first.params[0], &second.params[0]));
        first.params[0].borrow_mut().memory.all().for_each(|it| it.bytes_mut().fill(7));
        assert_eq!(first.outputs(), [[7; 20]]);
        assert!(first.restore());
        assert_eq!(first.outputs(), [spec.bytes()]);
        assert_eq!(first.params[0].borrow().memory.get(Placement::Aligned).bytes(), spec.bytes());
    }

    #[test]
    fn memory_of_an_evicted_copy_serves_the_next() {
        let spec = ParamSpec {
            dtype: DType::I32,
            shape: vec![6, 5],
            seed: 1,
            numbers: Numbers::Uniform,
            cold: false,
        };
        let mut param = Param::new(&spec, Purpose::Timing, false).unwrap();
        let tiled = |factor| LayoutSpec { splits: vec![(0, factor)], order: vec![0, 2, 1] };
        let expected: Vec<Vec<u8>> = [2, 3, 4].map(|it| packed(&spec, &tiled(it))).into();
        let addresses = [2, 3].map(|it| param.packed(&tiled(it)).unwrap());
        assert_eq!(param.packed(&tiled(2)).unwrap(), addresses[0]);
        param.evict(0);
        // Of two copies the one is left that was asked for last.
        assert_eq!(param.packed(&tiled(2)).unwrap(), addresses[0]);
        assert_eq!(param.packed(&tiled(3)).unwrap(), addresses[1]);
        assert_eq!(param.packed[0].1.bytes(), expected[1]);
        assert_eq!(param.packed[1].1.bytes(), expected[0]);
        param.evict(0);
        // Padding makes it larger: the memory does not fit.
        param.packed(&tiled(4)).unwrap();
        assert_eq!(param.packed[0].1.bytes(), expected[2]);
        assert!(param.spare.is_none() && param.n_packed() == expected[1].len() + expected[2].len());
    }

    fn packed(spec: &ParamSpec, layout: &LayoutSpec) -> Vec<u8> {
        let mut param = Param::new(spec, Purpose::Verification, false).unwrap();
        param.packed(layout).unwrap();
        param.packed[0].1.bytes().to_vec()
    }
}
