//! Step 6 of 12, for GPUs: a grid printed as CUDA C++.
//!
//! ```text
//! dsl -> dag -> schedule -> nest -> grid -> [codegen::cuda] -> text that NVRTC compiles
//! ```
//!
//! In: a [`Grid`]. Out: a [`Unit`]: the text of its kernels, and how each is launched. The text is
//! plain C++ that calls the device functions of `tvmtune/*.cuh`, which hold all that is not.
//!
//! # Invariants
//!
//! - Every size that is known is a literal; dimensions known at launch are parameters.
//! - Pointers are those of memory aligned to [`ALIGNMENT`] bytes.
//! - An operand that is not a single token, call or element stands in parentheses.

mod cp_async;
mod expr;
mod hand_written;
mod mma;
mod printer;
mod producer;
mod register_pressure;
mod stmt;
#[cfg(test)]
mod tests;
mod tile_loop;
mod vector;
mod vector_access;
mod wgmma;

use std::collections::BTreeSet;

use crate::grid::{Buffer, Grid, Kernel, MemoryScope};
use printer::Printer;
use tvmtune_ir::dag::kernel_template::ParamStruct;
use tvmtune_ir::dag::{DType, ScalarId, TensorId};
use tvmtune_ir::poly::{DimId, Poly};
use tvmtune_schedule::print::Language;
use tvmtune_schedule::print::names::identifier;

pub use expr::narrow_exp;
pub use vector_access::{Load, Vectors, is_vector, vectors};

/// Alignment of every pointer that kernels are passed, in bytes.
pub const ALIGNMENT: u64 = 16;

/// Kernels as text.
#[derive(Clone, Debug, PartialEq)]
pub struct Unit {
    /// CUDA C++.
    pub source: String,
    /// The launches, one after the other.
    pub entries: Vec<Entry>,
    /// The tensor maps of the kernels.
    pub tensor_maps: Vec<TensorMapEncoding>,
    /// The struct that hand-written kernels take, if they take one.
    pub param_struct: Option<ParamStruct>,
    /// Names that the text declares, but for those of kernels.
    pub names: BTreeSet<String>,
}

/// The arguments of `cuTensorMapEncodeTiled` for a tensor. Dimensions are counted from the
/// innermost.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorMapEncoding {
    /// The tensor, which lies at a multiple of [`ALIGNMENT`] bytes.
    pub tensor: TensorId,
    /// The type of its elements, as `CUtensorMapDataType`.
    pub element: u32,
    /// Its extents.
    pub extents: Vec<Poly>,
    /// Bytes between neighbors in each dimension but the innermost.
    pub strides: Vec<Poly>,
    /// The dimensions of a box.
    pub box_dims: Vec<u32>,
    /// The element strides of a box.
    pub element_strides: Vec<u32>,
    /// The swizzle, as `CUtensorMapSwizzle`: 0 for none, 1 to 3 for rows of 32, 64 or 128 bytes.
    pub swizzle: u32,
}

/// One launch.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The function.
    pub name: String,
    /// Its parameters, in order.
    pub params: Vec<Param>,
    /// Blocks in x, y and z, polynomials in the dimensions; may be 0 or less, for none.
    pub grid: [Poly; 3],
    /// Threads of a block in x, y and z.
    pub block: [u32; 3],
    /// Bytes of shared memory of a block.
    pub shared_bytes: u32,
}

impl Entry {
    /// Returns the blocks in x, y and z at some extents; no negative number.
    pub fn blocks_at(&self, dims: &[i64]) -> [i64; 3] {
        self.grid.each_ref().map(|it| it.eval_dims(dims).max(0))
    }

    /// Returns the number of threads of a block.
    pub fn n_threads(&self) -> u32 {
        self.block.iter().product()
    }
}

/// A parameter of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Param {
    /// The address of a parameter or result of the program, or of workspace.
    Pointer(TensorId),
    /// A dimension, as a 32-bit integer, or a 64-bit one if [`wide`] says so.
    Dim(DimId),
    /// A run-time scalar, in its own type; `f16` and `bf16` as `f32`.
    Scalar(ScalarId),
    /// One of the unit's [tensor maps](Unit::tensor_maps), by value.
    TensorMap(usize),
    /// A word of 8 bytes of the unit's [struct](Unit::param_struct); as the parameter of a kernel, word 0
    /// stands for the whole struct, by value.
    StructWord(u32),
}

/// The most elements of a tensor whose indices have 32 bits: tiles may cover twice as many.
const MAX_NARROW: u64 = 1 << 30;

/// Returns whether indices need 64 bits, because of the size of some tensor.
pub fn wide(grid: &Grid) -> bool {
    let facts = grid.facts();
    let most = |it: &Buffer| {
        let extents = it.shape.iter().map(|it| it.interval(&facts).hi.max(0) as u64);
        extents.fold(1, u64::saturating_mul)
    };
    grid.buffers.iter().filter(|it| it.scope != MemoryScope::Unused).any(|it| most(it) > MAX_NARROW)
}

/// The text of a grid's kernels.
pub fn print(grid: &Grid) -> Unit {
    if let Some(written) = &grid.hand_written {
        return hand_written::unit(grid, written);
    }
    let index = if wide(grid) { "long long" } else { "int" };
    let mut source = String::from(
        "#include \"tvmtune/types.cuh\"\n\
         #include \"tvmtune/math.cuh\"\n\
         #include \"tvmtune/copy.cuh\"\n\
         #include \"tvmtune/warp.cuh\"\n\
",
    );
    if grid.body.iter().any(|it| !it.fragments.is_empty()) {
        source.push_str("#include \"tvmtune/mma.cuh\"\n");
    }
    let is_warp_specialized = grid.body.iter().any(|it| !it.producer.is_empty());
    if is_warp_specialized || grid.body.iter().any(Kernel::uses_wgmma) {
        source.push_str("#include \"tvmtune/barrier.cuh\"\n");
    }
    if is_warp_specialized {
        source.push_str("#include \"tvmtune/tma.cuh\"\n");
    }
    if grid.body.iter().any(Kernel::exchanges_in_quads) {
        source.push_str("#include \"tvmtune/quad.cuh\"\n");
    }
    if grid.body.iter().any(|it| it.tiles.as_ref().is_some_and(|it| it.stream_k.is_some())) {
        source.push_str("#include \"tvmtune/stream.cuh\"\n");
    }
    source.push_str(&wgmma::declarations(grid));
    source.push_str("\nusing namespace tvmtune;\n");
    source.push_str(&format!("using Index = {index};\n"));
    let (mut entries, mut tensor_maps, mut names) = (Vec::new(), Vec::new(), BTreeSet::new());
    for (n, kernel) in grid.body.iter().enumerate() {
        let name = format!("{}_{n}", identifier(&grid.name, CUDA.first_letter));
        let mut printer = Printer::new(grid, kernel);
        printer.n_tensor_maps = tensor_maps.len();
        let params = printer.kernel(&name);
        tensor_maps.extend(kernel.tensor_maps.iter().map(|it| printer.encoded(it)));
        source.push('\n');
        source.push_str(&printer.text);
        names.extend((0..kernel.tensor_maps.len()).map(|it| printer.tensor_map_name(it)));
        names.append(&mut printer.names.given);
        let blocks = kernel.blocks.iter().fold(Poly::constant(1), |n, it| n * it.extent.clone());
        entries.push(Entry {
            name,
            params,
            grid: [blocks, 1.into(), 1.into()],
            block: [kernel.block_threads(), 1, 1],
            shared_bytes: kernel.shared_bytes,
        });
    }
    Unit { source, entries, tensor_maps, param_struct: None, names }
}

/// The names of CUDA C++.
const CUDA: Language = Language {
    is_reserved: |word| RESERVED.split(' ').any(|it| it == word),
    first_letter: 't',
    dim: str::to_owned,
};

/// Words that are no names, separated by spaces: those of C++, and those that the text uses itself.
const RESERVED: &str = "Index alignas and asm auto bf16 bool break case catch char class compl const \
    continue default delete do double else enum explicit export extern f16 f32 f64 false float \
    for friend goto i16 i32 i64 i8 if inline int long mutable namespace new not operator or \
    private protected public register return shared short signed sizeof static struct switch \
    template this throw true try tvmtune typedef typename u16 u32 u64 u8 union unsigned using \
    virtual void volatile while xor";

/// The C++ type of elements.
fn element_type(dtype: DType) -> &'static str {
    dtype.name()
}

/// The C++ type that a run-time scalar is passed as.
fn scalar_type(dtype: DType) -> &'static str {
    element_type(dtype.compute())
}
