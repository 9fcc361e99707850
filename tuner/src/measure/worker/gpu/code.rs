//! Loaded functions, and their parameters on each case.

use std::rc::Rc;

use tvmtune_runtime::cuda::{Arch, Buffer, Code, Numbers, Stream, Trial};
use tvmtune_runtime::raw::cuda::{Format, Function, Param, TableEntry, TensorMap, Variant};
use tvmtune_runtime::{Error, Tier};

use super::super::super::protocol::{GpuLaunch, GpuSpec, ParamBinding, Word};
use super::super::{WorkerError, invalid};

/// A loaded candidate.
pub(in super::super) struct Loaded {
    trial: Trial,
    /// The entries of the table that are addresses of arguments, for each case.
    words: Vec<Vec<Word>>,
}

impl Loaded {
    pub(super) fn new(stream: &Stream, spec: &GpuSpec, bytes: &[u8]) -> Result<Self, WorkerError> {
        let first = spec.launches.first().ok_or_else(|| invalid("no launch"))?;
        let fits = |it: &GpuLaunch| {
            it.table.len() == first.table.len() && it.blocks.len() == spec.functions.len()
        };
        if !spec.launches.iter().all(fits) {
            return Err(invalid("launches of another code").into());
        }
        let name: &'static str = match spec.functions.first() {
            Some(function) => leak(&function.name),
            None => return Err(invalid("no function").into()),
        };
        let words: Vec<Vec<Word>> = spec.launches.iter().map(addresses).collect();
        let names: Vec<&'static str> = words[0].iter().map(|_| "an argument").collect();
        // The number of the case takes the place of the dynamic dimensions.
        let ranges = [(0, spec.launches.len() - 1)];
        let (variant, numbers) = (variant(spec, &first.table), numbers(&spec.launches));
        let trial =
            Trial::load(stream, (name, names), &ranges, (variant, code(spec, bytes)), numbers);
        Ok(Self { trial: trial?, words })
    }

    /// Returns the arguments of a case.
    pub(super) fn words(&self, case: usize) -> Result<&[Word], WorkerError> {
        let words = self.words.get(case).ok_or_else(|| invalid("no launch for this case"))?;
        Ok(words)
    }

    /// Enqueues a launch on the arguments of `words`, in that order.
    pub(super) fn launch(&self, case: usize, arguments: &[&Buffer]) -> Result<(), Error> {
        self.trial.try_out(&[case as i64], arguments, &[])
    }
}

/// Returns the entries of the table that are addresses of arguments.
fn addresses(launch: &GpuLaunch) -> Vec<Word> {
    let is_address = |it: &&Word| matches!(it, Word::Param(_) | Word::Packed(..) | Word::Output(_));
    launch.table.iter().filter(is_address).cloned().collect()
}

/// Returns the compiled files.
fn code(spec: &GpuSpec, mut bytes: &[u8]) -> Vec<Code> {
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

/// Returns the functions as generated crates describe them. It is leaked, as the type is made for
/// constants.
fn variant(spec: &GpuSpec, table: &[Word]) -> Variant {
    let functions = spec.functions.iter().map(|it| {
        let param = |it: &ParamBinding| match *it {
            ParamBinding::Table(n) => Param::Entry(n),
            ParamBinding::Map(n) => Param::Map(n),
        };
        Function {
            name: leak(&it.name),
            threads: it.threads,
            shared_bytes: it.shared_bytes,
            params: Vec::leak(it.params.iter().map(param).collect()),
        }
    });
    let mut n_addresses = 0;
    let entries = table.iter().map(|it| match it {
        Word::Value(_) => TableEntry::Param,
        Word::Shared(_) => TableEntry::Workspace,
        Word::Param(_) | Word::Packed(..) | Word::Output(_) => {
            n_addresses += 1;
            // Weights are brought into their layout before they are copied to the device.
            TableEntry::Pointer { arg: n_addresses - 1, layout: None, align: 16 }
        }
    });
    let entries = Vec::leak(entries.collect());
    let mut first = 0;
    let maps = spec.maps.iter().map(|it| {
        let extents: &'static [u32] = Vec::leak(it.boxes.clone());
        let steps: &'static [u32] = Vec::leak(it.steps.clone());
        let (entry, element, swizzle) = (it.entry, it.element, it.swizzle);
        let map = TensorMap { entry, element, extents, steps, swizzle, numbers: first };
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
        artifact: "",
    }
}

/// Returns the function that computes the numbers of a launch: those of the table, then the blocks of
/// each function, then the extents and strides of TMA descriptors.
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
        table.chain(launch.blocks.iter().copied()).chain(launch.maps.iter().copied()).collect()
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
