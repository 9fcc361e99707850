//! The memory that candidates work on: each argument alone between pages that are no one's.

use std::collections::BTreeMap;
use std::io;

use tvmtune_core::dag::DType;
use tvmtune_core::interp::Array;
use tvmtune_runtime::raw::{Guarded, Layout};

use super::super::protocol::{Case, LayoutSpec, ParamSpec, Word};
use super::invalid;

/// Results are full of this before a launch, and so is memory for temporaries: neither zeros nor
/// the last candidate's results pass for what was not computed.
const SPOILED: u8 = 0xcd;

/// What vectors and cache lines are aligned to.
const LINE: usize = 64;

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
    outputs: Vec<Output>,
    /// Memory for temporaries, by position in the table; kept from candidate to candidate.
    shared: BTreeMap<usize, Guarded>,
}

struct Param {
    spec: ParamSpec,
    tight: Guarded,
    /// Only where candidates are timed.
    aligned: Option<Guarded>,
    packed: BTreeMap<LayoutSpec, Guarded>,
}

struct Output {
    tight: Guarded,
    aligned: Option<Guarded>,
}

impl Arguments {
    /// The arguments of a case; timed, or only verified.
    pub(super) fn new(case: &Case, timed: bool) -> io::Result<Self> {
        let params = case.params.iter().map(|it| Param::new(it, timed));
        let output = |n_bytes: u64, align| {
            let align_of = |placement| if placement == Placement::Tight { align } else { LINE };
            let place = |placement| Guarded::new(n_bytes as usize, align_of(placement));
            let aligned = timed.then(|| place(Placement::Aligned)).transpose()?;
            Ok(Output { tight: place(Placement::Tight)?, aligned })
        };
        let outputs = case.outputs.iter().map(|it| output(it.bytes(), it.dtype.bytes() as usize));
        Ok(Self {
            params: params.collect::<io::Result<_>>()?,
            outputs: outputs.collect::<io::Result<_>>()?,
            shared: BTreeMap::new(),
        })
    }

    /// The argument table.
    pub(super) fn table(&mut self, words: &[Word], placement: Placement) -> io::Result<Vec<u64>> {
        let mut table = Vec::with_capacity(words.len());
        for (slot, word) in words.iter().enumerate() {
            table.push(match word {
                Word::Value(value) => *value,
                Word::Param(n) => self.param(*n)?.address(placement),
                Word::Packed(n, layout) => self.param(*n)?.packed(layout)?,
                Word::Output(n) => {
                    let output = self.outputs.get(*n).ok_or_else(|| invalid("no such result"))?;
                    output.memory(placement).address()
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

impl Output {
    fn memory(&self, placement: Placement) -> &Guarded {
        match (placement, &self.aligned) {
            (Placement::Aligned, Some(aligned)) => aligned,
            _ => &self.tight,
        }
    }
}

impl Param {
    fn new(spec: &ParamSpec, timed: bool) -> io::Result<Self> {
        let bytes = spec.array().bytes();
        let tight = filled(&bytes, spec.dtype.bytes() as usize)?;
        let aligned = timed.then(|| filled(&bytes, LINE)).transpose()?;
        Ok(Self { spec: spec.clone(), tight, aligned, packed: BTreeMap::new() })
    }

    fn address(&self, placement: Placement) -> u64 {
        match (placement, &self.aligned) {
            (Placement::Aligned, Some(aligned)) => aligned.address(),
            _ => self.tight.address(),
        }
    }

    /// The address of the elements in that order, which are packed if they were not before.
    fn packed(&mut self, layout: &LayoutSpec) -> io::Result<u64> {
        if let Some(packed) = self.packed.get(layout) {
            return Ok(packed.address());
        }
        let bytes = pack(self.tight.bytes(), &self.spec, layout)?;
        let memory = filled(&bytes, LINE)?;
        let address = memory.address();
        self.packed.insert(layout.clone(), memory);
        Ok(address)
    }
}

impl ParamSpec {
    /// The parameter's value: floats anywhere in -1..1, so that each of them matters; small whole
    /// numbers else, since they may be indices.
    pub(crate) fn array(&self) -> Array {
        if self.dtype.is_float() {
            Array::random(self.dtype, &self.shape, self.seed)
        } else {
            Array::whole_numbers(self.dtype, &self.shape, self.seed)
        }
    }
}

/// Read-only memory with these bytes.
fn filled(bytes: &[u8], align: usize) -> io::Result<Guarded> {
    let mut memory = Guarded::new(bytes.len(), align)?;
    memory.bytes_mut().copy_from_slice(bytes);
    memory.make_read_only()?;
    Ok(memory)
}

/// The bytes of a parameter in another order, by the function that packs weights for users.
fn pack(bytes: &[u8], spec: &ParamSpec, layout: &LayoutSpec) -> io::Result<Vec<u8>> {
    if !fits(layout, spec.shape.len()) {
        return Err(invalid("the layout does not fit the parameter"));
    }
    // There are few layouts in a worker's life, and the type is made for constants.
    let layout = Layout {
        splits: Box::leak(layout.splits.clone().into_boxed_slice()),
        order: Box::leak(layout.order.clone().into_boxed_slice()),
    };
    let shape: Vec<usize> = spec.shape.iter().map(|it| *it as usize).collect();
    Ok(match spec.dtype {
        DType::I8 | DType::U8 | DType::Bool => {
            pack_as(bytes, layout, &shape, u8::from_le_bytes, u8::to_le_bytes)
        }
        DType::F16 | DType::Bf16 => {
            pack_as(bytes, layout, &shape, u16::from_le_bytes, u16::to_le_bytes)
        }
        DType::F32 | DType::I32 => {
            pack_as(bytes, layout, &shape, u32::from_le_bytes, u32::to_le_bytes)
        }
        DType::F64 | DType::I64 => {
            pack_as(bytes, layout, &shape, u64::from_le_bytes, u64::to_le_bytes)
        }
    })
}

/// Whether a layout is one of tensors with so many dimensions.
fn fits(layout: &LayoutSpec, rank: usize) -> bool {
    let mut splits = layout.splits.iter().zip(rank..);
    let splits_fit = splits.all(|((dim, factor), rank)| *dim < rank && *factor > 0);
    let mut sorted = layout.order.clone();
    sorted.sort_unstable();
    splits_fit && sorted == (0..rank + layout.splits.len()).collect::<Vec<_>>()
}

fn pack_as<const N: usize, T: Copy + Default>(
    bytes: &[u8],
    layout: Layout,
    shape: &[usize],
    from: fn([u8; N]) -> T,
    to: fn(T) -> [u8; N],
) -> Vec<u8> {
    let (elements, _) = bytes.as_chunks::<N>();
    let elements: Vec<T> = elements.iter().map(|it| from(*it)).collect();
    let mut packed = vec![T::default(); layout.stored_shape(shape).iter().product()];
    layout.pack(&elements, shape, &mut packed);
    packed.into_iter().flat_map(to).collect()
}
