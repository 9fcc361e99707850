//! Loads a compiled candidate and launches it, as a crate does that embeds it.
//!
//! In: a [`GpuSpec`] and the bytes of its images. Out: a [`LoadedCandidate`], which can be launched on
//! each case.

use std::rc::Rc;

use tvmtune_runtime::cuda::{Arch, Buffer, Code, Numbers, Stream, Trial};
use tvmtune_runtime::raw::cuda::{Format, Function, Param, TableEntry, TensorMap, Variant};
use tvmtune_runtime::{Error, Tier};

use super::super::super::protocol::{GpuLaunch, GpuSpec, ParamBinding, Word};
use super::super::{WorkerError, invalid};

/// A loaded candidate.
pub(in super::super) struct LoadedCandidate {
    trial: Trial,
    /// For each case, the entries of the parameter table that are device pointers.
    pointers: Vec<Vec<Word>>,
}

impl LoadedCandidate {
    pub(super) fn new(stream: &Stream, spec: &GpuSpec, bytes: &[u8]) -> Result<Self, WorkerError> {
        let first = spec.launches.first().ok_or_else(|| invalid("no launch"))?;
        let fits = |it: &GpuLaunch| {
            it.table.len() == first.table.len() && it.grids.len() == spec.functions.len()
        };
        if !spec.launches.iter().all(fits) {
            return Err(invalid("launches of another code").into());
        }
        let name: &'static str = match spec.functions.first() {
            Some(function) => leak(&function.name),
            None => return Err(invalid("no function").into()),
        };
        let pointers: Vec<Vec<Word>> = spec.launches.iter().map(pointers).collect();
        let names: Vec<&'static str> = pointers[0].iter().map(|_| "an argument").collect();
        // The number of the case takes the place of the dynamic dimensions.
        let ranges = [(0, spec.launches.len() - 1)];
        let (variant, numbers) = (variant(spec, &first.table), numbers(&spec.launches));
        let trial = Trial::load(
            stream,
            (name, names),
            &ranges,
            (variant, split_images(spec, bytes)),
            numbers,
        );
        Ok(Self { trial: trial?, pointers })
    }

    /// Returns the tensors that a launch on a case takes, in order.
    pub(super) fn pointers(&self, case: usize) -> Result<&[Word], WorkerError> {
        let pointers = self.pointers.get(case).ok_or_else(|| invalid("no launch for this case"))?;
        Ok(pointers)
    }

    /// Enqueues a launch; `buffers` has a buffer for each of [`Self::pointers`].
    pub(super) fn launch(&self, case: usize, buffers: &[&Buffer]) -> Result<(), Error> {
        self.trial.try_out(&[case as i64], buffers, &[])
    }
}

/// Returns the entries of a launch's parameter table that are device pointers.
fn pointers(launch: &GpuLaunch) -> Vec<Word> {
    let is_pointer = |it: &&Word| matches!(it, Word::Param(_) | Word::Packed(..) | Word::Output(_));
    launch.table.iter().filter(is_pointer).cloned().collect()
}

/// Splits the bytes of all images, which follow each other in the order of the specification.
fn split_images(spec: &GpuSpec, mut bytes: &[u8]) -> Vec<Code> {
    let mut all = Vec::new();
    for it in &spec.images {
        let (file, rest) = bytes.split_at(it.n_bytes);
        bytes = rest;
        let arch = Arch { major: it.arch.0, minor: it.arch.1, exact: it.exact };
        let format = it.ptx.map_or(Format::Cubin, Format::Ptx);
        all.push(Code { arch, format, bytes: file.to_vec() });
    }
    all
}

/// Builds the [`Variant`] that a generated crate would declare as a constant. Its parts are leaked,
/// since a constant borrows for `'static`; a worker loads few candidates.
fn variant(spec: &GpuSpec, table: &[Word]) -> Variant {
    let functions = spec.functions.iter().map(|it| {
        let param = |it: &ParamBinding| match *it {
            ParamBinding::Table(n) => Param::Entry(n),
            ParamBinding::Map(n) => Param::TensorMap(n),
        };
        Function {
            name: leak(&it.name),
            block: it.block,
            shared_bytes: it.shared_bytes,
            params: Vec::leak(it.params.iter().map(param).collect()),
        }
    });
    let mut n_pointers = 0;
    let entries = table.iter().map(|it| match it {
        Word::Value(_) => TableEntry::Param,
        Word::Shared(_) => TableEntry::Workspace,
        Word::Param(_) | Word::Packed(..) | Word::Output(_) => {
            n_pointers += 1;
            // Weights are brought into their layout before they are copied to the device.
            TableEntry::Pointer { arg: n_pointers - 1, layout: None, align: 16 }
        }
    });
    let entries = Vec::leak(entries.collect());
    let mut first = 0;
    let maps = spec.maps.iter().map(|it| {
        let box_dims: &'static [u32] = Vec::leak(it.boxes.clone());
        let element_strides: &'static [u32] = Vec::leak(it.steps.clone());
        let (entry, element, swizzle) = (it.entry, it.element, it.swizzle);
        let numbers = first;
        let map = TensorMap { entry, element, box_dims, element_strides, swizzle, numbers };
        first += map.n_numbers();
        map
    });
    Variant {
        images: &[],
        functions: Vec::leak(functions.collect()),
        table: entries,
        maps: Vec::leak(maps.collect()),
        numbers: |_, _| {},
        tier: Tier::Default,
        median_ns: None,
        effort: tvmtune_runtime::Effort::NONE,
        artifact: "",
    }
}

/// Returns a function from a case to the integers of its launch: those of the parameter table, then the
/// blocks of each kernel, then the extents and strides of TMA descriptors.
fn numbers(launches: &[GpuLaunch]) -> Rc<Numbers> {
    // Workspace is allocated once, large enough for every case.
    let max_bytes = |entry: usize| {
        let bytes = launches.iter().map(|it| match it.table[entry] {
            Word::Shared(bytes) => bytes,
            _ => 0,
        });
        bytes.max().unwrap_or(0)
    };
    let numbers_of = |launch: &GpuLaunch| -> Vec<u64> {
        let table = launch.table.iter().enumerate().map(|(n, it)| match it {
            Word::Value(value) => *value,
            Word::Shared(_) => max_bytes(n),
            Word::Param(_) | Word::Packed(..) | Word::Output(_) => 0,
        });
        table
            .chain(launch.grids.as_flattened().iter().copied())
            .chain(launch.maps.iter().copied())
            .collect()
    };
    let all: Vec<Vec<u64>> = launches.iter().map(numbers_of).collect();
    Rc::new(move |dims: &[i64], numbers: &mut [u64]| {
        let case = dims.first().and_then(|it| usize::try_from(*it).ok());
        if let Some(values) = case.and_then(|it| all.get(it)) {
            let n = values.len().min(numbers.len());
            numbers[..n].copy_from_slice(&values[..n]);
        }
    })
}

fn leak(text: &str) -> &'static str {
    String::leak(text.to_owned())
}
