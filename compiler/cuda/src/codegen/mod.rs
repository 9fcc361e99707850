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
mod mma;
mod names;
mod producer;
mod register_pressure;
mod stmt;
#[cfg(test)]
mod tests;
mod tile_loop;
mod vector;
mod vector_access;
mod wgmma;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::grid::{Buffer, Grid, Kernel, MemoryScope, Stmt, Tiles, any, read, written};
pub use expr::narrow_exp;
use names::Names;
use tvmtune_ir::dag::{DType, Expr, ScalarId, TensorId};
use tvmtune_ir::poly::{Atom, DimId, Facts, Poly};
pub use vector_access::{Load, Vectors, is_vector, position, vectors};

/// Alignment of every pointer that kernels are passed, in bytes.
pub const ALIGNMENT: u64 = 16;

/// Kernels as text.
#[derive(Clone, Debug, PartialEq)]
pub struct Unit {
    /// CUDA C++.
    pub source: String,
    /// What is launched, one after the other.
    pub entries: Vec<Entry>,
    /// Tensors whose boxes kernels copy.
    pub tensor_maps: Vec<TensorMapEncoding>,
}

/// How boxes of a tensor are described to the hardware that copies them. Dimensions are counted
/// from the innermost.
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
    /// How many elements a box reaches over.
    pub box_dims: Vec<u32>,
    /// Of how many of these one is copied.
    pub element_strides: Vec<u32>,
    /// How a box lies in shared memory, as `CUtensorMapSwizzle`: 0 row by row, 1 to 3 with the
    /// chunks of rows of 32, 64 or 128 bytes swizzle.
    pub swizzle: u32,
}

/// One launch.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The function.
    pub name: String,
    /// Its parameters, in order.
    pub params: Vec<Param>,
    /// Number of blocks, a polynomial in the dimensions; may be 0 or less, for none.
    pub blocks: Poly,
    /// Threads of a block.
    pub threads: u32,
    /// Bytes of shared memory of a block.
    pub shared_bytes: u32,
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
}

/// Whether indices need 64 bits: some tensor has 2^31 elements or more.
pub fn wide(grid: &Grid) -> bool {
    let facts = dim_facts(grid);
    let most = |it: &Buffer| {
        let extents = it.shape.iter().map(|it| it.interval(&facts).hi.max(0) as u64);
        extents.fold(1, u64::saturating_mul)
    };
    grid.buffers
        .iter()
        .filter(|it| it.scope != MemoryScope::Unused)
        .any(|it| most(it) > i32::MAX as u64)
}

/// The text of a grid's kernels.
pub fn print(grid: &Grid) -> Unit {
    let index = if wide(grid) { "long long" } else { "int" };
    let mut source = String::from(
        "#include \"tvmtune/types.cuh\"\n\
         #include \"tvmtune/math.cuh\"\n\
         #include \"tvmtune/copy.cuh\"\n\
         #include \"tvmtune/warp.cuh\"\n\
",
    );
    if grid.kernels.iter().any(|it| !it.fragments.is_empty()) {
        source.push_str("#include \"tvmtune/mma.cuh\"\n");
    }
    let is_warp_specialized = grid.kernels.iter().any(|it| !it.producer.is_empty());
    if is_warp_specialized || grid.kernels.iter().any(Kernel::uses_wgmma) {
        source.push_str("#include \"tvmtune/barrier.cuh\"\n");
    }
    if is_warp_specialized {
        source.push_str("#include \"tvmtune/tma.cuh\"\n");
    }
    if grid.kernels.iter().any(|it| it.tiles.as_ref().is_some_and(|it| it.stream_k.is_some())) {
        source.push_str("#include \"tvmtune/stream.cuh\"\n");
    }
    source.push_str(&wgmma::declarations(grid));
    source.push_str("\nusing namespace tvmtune;\n");
    source.push_str(&format!("using Index = {index};\n"));
    let (mut entries, mut tensor_maps) = (Vec::new(), Vec::new());
    for (n, kernel) in grid.kernels.iter().enumerate() {
        let name = format!("{}_{n}", identifier(&grid.name));
        let mut printer = Printer::new(grid, kernel);
        printer.n_tensor_maps = tensor_maps.len();
        let params = printer.kernel(&name);
        tensor_maps.extend(kernel.tensor_maps.iter().map(|it| printer.encoded(it)));
        source.push('\n');
        source.push_str(&printer.text);
        let blocks = kernel.blocks.iter().fold(Poly::constant(1), |n, it| n * it.extent.clone());
        entries.push(Entry {
            name,
            params,
            blocks,
            threads: kernel.block_threads(),
            shared_bytes: kernel.shared_bytes,
        });
    }
    Unit { source, entries, tensor_maps }
}

/// A name as C++ takes it.
fn identifier(name: &str) -> String {
    let legal = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let text: String = name.chars().map(legal).collect();
    if text.starts_with(|c: char| c.is_ascii_alphabetic()) { text } else { format!("t{text}") }
}

/// What is known of the dimensions.
fn dim_facts(grid: &Grid) -> Facts {
    let mut facts = Facts::default();
    for (n, dim) in grid.dims.iter().enumerate() {
        facts.bound_dim(DimId(n as u32), dim.range);
    }
    facts
}

/// The C++ type of elements.
fn element_type(dtype: DType) -> &'static str {
    dtype.name()
}

/// What a run-time scalar is passed as.
fn scalar_type(dtype: DType) -> &'static str {
    element_type(dtype.compute())
}

struct Printer<'a> {
    grid: &'a Grid,
    kernel: &'a Kernel,
    facts: Facts,
    names: Names,
    /// Elements that were loaded as vectors: what stands for them.
    loaded: BTreeMap<(TensorId, Poly), String>,
    /// Whether stores may happen later.
    in_cp_async: bool,
    /// The names of the fragments.
    fragments: Vec<String>,
    /// What the next instructions of a batch have in registers as their first operands.
    register_operands: VecDeque<String>,
    /// Maps of the kernels before.
    n_tensor_maps: usize,
    text: String,
    depth: usize,
}

impl<'a> Printer<'a> {
    fn new(grid: &'a Grid, kernel: &'a Kernel) -> Self {
        let mut printer = Self {
            grid,
            kernel,
            facts: dim_facts(grid),
            names: Names::new(grid),
            loaded: BTreeMap::new(),
            in_cp_async: false,
            fragments: Vec::new(),
            register_operands: VecDeque::new(),
            n_tensor_maps: 0,
            text: String::new(),
            depth: 0,
        };
        let of_tiles = kernel.tiles.iter().flat_map(|it| &it.vars);
        for it in kernel.blocks.iter().chain(of_tiles) {
            printer.facts.bound_var(it.var, it.extent.clone());
        }
        for (var, extent) in kernel.tiles.iter().flat_map(Tiles::work_unit_vars) {
            printer.facts.bound_var(var, extent);
        }
        for var in &kernel.thread_vars {
            printer.facts.bound_var(var.var, Poly::constant((var.range / var.step).into()));
        }
        for it in &kernel.circular_buffers {
            printer.facts.bound_var(it.stage, Poly::constant(it.n_stages.into()));
        }
        for stmt in kernel.statements() {
            stmt.walk(&mut |it| {
                if let Stmt::For { var, extent, .. } = it {
                    printer.facts.bound_var(*var, extent.clone());
                }
            });
        }
        printer
    }

    fn in_registers(&self, tensor: TensorId) -> bool {
        self.grid.buffer(tensor).scope == MemoryScope::Registers
    }

    fn line(&mut self, line: &str) {
        for _ in 0..self.depth {
            self.text.push_str("  ");
        }
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn open(&mut self, line: &str) {
        let space = if line.is_empty() { "" } else { " " };
        self.line(&format!("{line}{space}{{"));
        self.depth += 1;
    }

    fn close(&mut self) {
        self.depth -= 1;
        self.line("}");
    }

    /// The function; returns its parameters.
    fn kernel(&mut self, name: &str) -> Vec<Param> {
        let params = self.params();
        let declared: Vec<String> = params.iter().map(|it| self.param(*it)).collect();
        let bounds = self.bounds();
        let cluster = match self.kernel.cluster() {
            1 => String::new(),
            n => format!("__cluster_dims__({n}, 1, 1) "),
        };
        self.open(&format!(
            "extern \"C\" __global__ void {cluster}__launch_bounds__({bounds}) {name}({})",
            declared.join(", ")
        ));
        self.shared_memory();
        self.blocks();
        self.threads();
        self.roles();
        self.close();
        params
    }

    /// What the kernel uses of what there is.
    fn params(&self) -> Vec<Param> {
        let mut used = BTreeSet::new();
        let polys = |poly: &Poly, used: &mut BTreeSet<Param>| {
            poly.for_each_leaf(&mut |leaf| {
                if let Atom::Dim(dim) = leaf {
                    used.insert(Param::Dim(*dim));
                }
            });
        };
        let tensor = |it: TensorId, used: &mut BTreeSet<Param>| {
            let buffer = self.grid.buffer(it);
            if buffer.scope.is_global() {
                used.insert(Param::Pointer(it));
            }
            for extent in buffer.shape.iter().skip(1) {
                extent.for_each_leaf(&mut |leaf| {
                    if let Atom::Dim(dim) = leaf {
                        used.insert(Param::Dim(*dim));
                    }
                });
            }
        };
        // The first extent says only how many blocks there are.
        for block in self.kernel.blocks.iter().skip(1) {
            polys(&block.extent, &mut used);
        }
        if let Some(tiles) = &self.kernel.tiles {
            tiles.vars.iter().for_each(|it| polys(&it.extent, &mut used));
            tiles.stream_k.iter().for_each(|it| polys(&it.iterations, &mut used));
        }
        used.extend(self.tensor_map_params());
        for stmt in self.kernel.statements() {
            stmt.walk(&mut |stmt| match stmt {
                Stmt::TmaLoad { coordinates, .. } => {
                    coordinates.iter().for_each(|it| polys(it, &mut used));
                }
                Stmt::For { extent, .. } => polys(extent, &mut used),
                Stmt::If { guards, .. } => {
                    for guard in guards {
                        polys(&guard.value, &mut used);
                        polys(&guard.bound, &mut used);
                    }
                }
                Stmt::Store { tensor: to, index, value }
                | Stmt::Update { tensor: to, index, value, .. } => {
                    tensor(*to, &mut used);
                    index.iter().for_each(|it| polys(it, &mut used));
                    value.map_polys(&mut |it| {
                        polys(it, &mut used);
                        it.clone()
                    });
                    value.walk(&mut |it| match it {
                        Expr::Read { tensor: from, .. } => tensor(*from, &mut used),
                        Expr::Scalar(scalar) => drop(used.insert(Param::Scalar(*scalar))),
                        _ => {}
                    });
                }
                _ => {}
            });
        }
        used.into_iter().collect()
    }

    fn param(&self, param: Param) -> String {
        match param {
            Param::Pointer(tensor) => {
                let element = element_type(self.grid.buffer(tensor).dtype);
                let constant = if self.is_written(tensor) { "" } else { "const " };
                // What other threads write, the compiler must read again after a wait.
                let is_exchanged = self.is_written(tensor) && self.is_read(tensor);
                let alone = if is_exchanged { "" } else { " __restrict__" };
                format!("{constant}{element}*{alone} {}", self.names.buffer(tensor))
            }
            Param::TensorMap(map) => {
                format!("TVMTUNE_TENSOR_MAP {}", self.tensor_map_name(map - self.n_tensor_maps))
            }
            Param::Dim(dim) => format!("Index {}", self.names.dim(dim)),
            Param::Scalar(scalar) => {
                let dtype = self.grid.scalars[scalar.0 as usize].dtype;
                format!("{} {}", scalar_type(dtype), self.names.scalar(scalar))
            }
        }
    }

    fn is_written(&self, tensor: TensorId) -> bool {
        written(&self.kernel.body).contains(&tensor)
    }

    fn is_read(&self, tensor: TensorId) -> bool {
        let body = &self.kernel.body;
        let updates = |it: &Stmt| matches!(it, Stmt::Update { tensor: to, .. } if *to == tensor);
        read(body).contains(&tensor) || any(body, &updates)
    }

    /// The buffers of this kernel, by where they live.
    fn used(&self, is: impl Fn(MemoryScope) -> bool) -> Vec<TensorId> {
        let mut used = written(&self.kernel.body);
        used.extend(self.kernel.tensor_maps.iter().map(|it| it.to));
        used.into_iter().filter(|it| is(self.grid.buffer(*it).scope)).collect()
    }

    fn shared_memory(&mut self) {
        if self.kernel.shared_bytes > 0 {
            self.line("extern __shared__ __align__(1024) unsigned char shared[];");
        }
        for tensor in self.used(|it| matches!(it, MemoryScope::Shared(_))) {
            let buffer = self.grid.buffer(tensor);
            let MemoryScope::Shared(first) = buffer.scope else { continue };
            let (element, name) = (element_type(buffer.dtype), self.names.buffer(tensor));
            let line = format!(
                "{element}* const {name} = reinterpret_cast<{element}*>(shared + {first});"
            );
            self.line(&line);
        }
    }

    fn threads(&mut self) {
        let kernel = self.kernel;
        for var in &kernel.thread_vars {
            let wish = match (var.step, var.range == kernel.threads) {
                (1, true) => "t".to_owned(),
                (step, true) => format!("t_{step}"),
                (1, false) => format!("t_mod_{}", var.range),
                (step, false) => format!("t_mod_{}_by_{step}", var.range),
            };
            let name = self.names.enter(var.var, &wish);
            let mut text = "Index(threadIdx.x)".to_owned();
            if var.range != kernel.threads {
                text = format!("{text} % {}", var.range);
            }
            if var.step != 1 {
                text = format!("{text} / {}", var.step);
            }
            self.line(&format!("const Index {name} = {text};"));
        }
    }

    fn registers(&mut self) {
        for tensor in self.used(|it| it == MemoryScope::Registers) {
            let (element, n) =
                (element_type(self.grid.buffer(tensor).dtype), self.n_elements(tensor));
            let name = self.names.buffer(tensor);
            let line = if n == 1 {
                format!("{element} {name};")
            } else {
                format!("{element} {name}[{n}];")
            };
            self.line(&line);
        }
    }

    /// How many elements a buffer in registers has.
    fn n_elements(&self, tensor: TensorId) -> i64 {
        let shape = &self.grid.buffer(tensor).shape;
        shape.iter().map(|it| it.as_constant().unwrap_or(1).max(1)).product()
    }
}
