//! Generated code to a program that the runtime launches, as generated crates describe theirs.

use std::rc::Rc;

use tvmtune_core::codegen::GeneratedCuda;
use tvmtune_core::codegen::cuda::{ALIGNMENT, Map, Param};
use tvmtune_core::dag::TensorId;
use tvmtune_core::grid::Home;
use tvmtune_core::interp::Number;
use tvmtune_core::poly::Poly;
use tvmtune_runtime::cuda::{Arch, Code, Numbers, Stream, Trial};
use tvmtune_runtime::raw::cuda::{self as raw, Format, Function, TableEntry, Variant};
use tvmtune_runtime::{Error, Tier};

/// What a launch computes from the dimensions for an entry of the table.
enum Word {
    /// Nothing: an address or a scalar.
    Given,
    /// A number.
    Number(Poly),
}

/// The table of a launch, each parameter once.
#[derive(Default)]
struct Table {
    params: Vec<Param>,
    entries: Vec<TableEntry>,
    words: Vec<Word>,
}

/// A program as the runtime is told of it: never freed, as it would not be in a program's text.
pub struct Described {
    /// Its name.
    pub name: &'static str,
    /// The names of its parameters and results.
    pub names: Vec<&'static str>,
    /// The ranges of its dimensions.
    pub ranges: Vec<(usize, usize)>,
    /// Its functions, and what they are passed; without images, and without numbers.
    pub variant: Variant,
    /// What a launch computes from the dimensions.
    pub numbers: Rc<Numbers>,
}

/// Describes generated code.
pub fn describe(generated: &GeneratedCuda) -> Described {
    let (grid, entries) = (&generated.grid, &generated.unit.entries);
    let mut table = Table::default();
    let mut functions = Vec::new();
    for entry in entries {
        let mut param = |it: &Param| match *it {
            Param::Map(map) => raw::Param::Map(map),
            other => raw::Param::Entry(table.position(generated, other)),
        };
        let params: Vec<raw::Param> = entry.params.iter().map(&mut param).collect();
        functions.push(Function {
            params: Vec::leak(params),
            name: leak(&entry.name),
            threads: entry.threads,
            shared_bytes: entry.shared_bytes,
        });
    }
    let maps = maps(generated, &mut table);
    let variant = Variant {
        images: &[],
        functions: Vec::leak(functions),
        table: Vec::leak(table.entries),
        maps: Vec::leak(maps),
        numbers: |_, _| {},
        tier: Tier::Default,
        median_ns: None,
        artifact: leak(&generated.artifact.0),
    };
    let blocks = entries.iter().map(|it| it.blocks.clone()).collect();
    let of_maps = generated.unit.maps.iter().flat_map(|it| it.extents.iter().chain(&it.strides));
    let names = grid.params.iter().chain(&grid.outputs).map(|it| leak(&grid.buffer(*it).name));
    let ranges = grid.dims.iter().map(|it| (it.range.lo as usize, it.range.hi as usize));
    Described {
        name: leak(&grid.name),
        names: names.collect(),
        ranges: ranges.collect(),
        variant,
        numbers: Rc::new(numbers(table.words, blocks, of_maps.cloned().collect())),
    }
}

/// What computes the numbers of a launch: for each entry of the table, then for each function how
/// many blocks it has, then what maps say of tensors.
fn numbers(words: Vec<Word>, blocks: Vec<Poly>, of_maps: Vec<Poly>) -> impl Fn(&[i64], &mut [u64]) {
    move |dims, numbers| {
        let (table, rest) = numbers.split_at_mut(words.len());
        for (word, number) in words.iter().zip(table) {
            if let Word::Number(value) = word {
                *number = value.eval_dims(dims).cast_unsigned();
            }
        }
        for (value, number) in blocks.iter().chain(&of_maps).zip(rest) {
            *number = value.eval_dims(dims).max(0).cast_unsigned();
        }
    }
}

/// Loads a program whose functions are in an image.
///
/// # Errors
///
/// Whatever the driver finds wrong.
pub fn load(
    generated: &GeneratedCuda,
    (format, arch, bytes): (Format, Arch, Vec<u8>),
    stream: &Stream,
) -> Result<Trial, Error> {
    let Described { name, names, ranges, variant, numbers } = describe(generated);
    let code = vec![Code { arch, format, bytes }];
    Trial::load(stream, (name, names), &ranges, (variant, code), numbers)
}

impl Table {
    /// Where the table has a parameter.
    fn position(&mut self, generated: &GeneratedCuda, param: Param) -> usize {
        if let Some(known) = self.params.iter().position(|it| *it == param) {
            return known;
        }
        let (entry, word) = match param {
            Param::Dim(dim) => (TableEntry::Param, Word::Number(Poly::dim(dim))),
            Param::Scalar(scalar) => (TableEntry::Scalar(scalar.0 as usize), Word::Given),
            Param::Pointer(tensor) => pointer(generated, tensor),
            Param::Map(map) => pointer(generated, generated.unit.maps[map].tensor),
        };
        self.params.push(param);
        self.entries.push(entry);
        self.words.push(word);
        self.params.len() - 1
    }
}

/// The tensors whose boxes kernels copy.
fn maps(generated: &GeneratedCuda, table: &mut Table) -> Vec<raw::TensorMap> {
    let mut first = 0;
    let mut map = |it: &Map| {
        let extents: &'static [u32] = Vec::leak(it.boxes.clone());
        let entry = table.position(generated, Param::Pointer(it.tensor));
        let map = raw::TensorMap {
            entry,
            element: it.element,
            extents,
            swizzle: it.swizzle,
            numbers: first,
        };
        first += map.n_numbers();
        map
    };
    generated.unit.maps.iter().map(&mut map).collect()
}

fn pointer(generated: &GeneratedCuda, tensor: TensorId) -> (TableEntry, Word) {
    let grid = &generated.grid;
    let buffer = grid.buffer(tensor);
    if buffer.home == Home::Workspace {
        let element = Poly::constant(buffer.dtype.bytes() as i64);
        let n_bytes = buffer.shape.iter().fold(element, |n, it| n * it.clone());
        return (TableEntry::Shared, Word::Number(n_bytes));
    }
    let arg = grid.params.iter().chain(&grid.outputs).position(|it| *it == tensor);
    // Weights are brought into their layout before they are copied to the device.
    let entry = TableEntry::Pointer {
        arg: arg.expect("what is no workspace is a parameter or a result"),
        layout: None,
        align: ALIGNMENT as usize,
    };
    (entry, Word::Given)
}

/// A scalar as a launch is passed it.
pub fn bits(value: Number, dtype: tvmtune_core::dag::DType) -> u64 {
    use tvmtune_core::dag::DType;
    match (value.cast(dtype), dtype) {
        (it, DType::F64) => it.to_f64().to_bits(),
        (Number::Float(it), _) => u64::from((it as f32).to_bits()),
        (Number::Int(it), _) => it.cast_unsigned(),
        (Number::Bool(it), _) => u64::from(it),
    }
}

fn leak(text: &str) -> &'static str {
    String::leak(text.to_owned())
}
