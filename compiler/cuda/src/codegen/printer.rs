//! The printer of a kernel: its function, parameters and declarations.
//!
//! `impl Printer` goes on in one file for each kind of construct. They call one another as
//! constructs nest, so none of them stands below the others.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{CUDA, Param, element_type, scalar_type};
use crate::grid::{Grid, Kernel, MemoryScope, SharedMemory, Stmt};
use tvmtune_ir::dag::{Expr, TensorId};
use tvmtune_ir::poly::{Atom, Facts, Poly};
use tvmtune_schedule::nest::{Statement, any, read, written};
use tvmtune_schedule::print::Names;

/// The printer of one kernel.
pub(super) struct Printer<'a> {
    pub(super) grid: &'a Grid,
    pub(super) kernel: &'a Kernel,
    pub(super) facts: Facts,
    pub(super) names: Names,
    /// Texts of elements that were loaded as vectors.
    pub(super) loaded: BTreeMap<(TensorId, Poly), String>,
    /// True if stores are `cp.async`.
    pub(super) in_cp_async: bool,
    /// The names of the fragments.
    pub(super) fragments: Vec<String>,
    /// The packed register operands of the next WGMMA instructions.
    pub(super) register_operands: VecDeque<String>,
    /// Tensor maps of the kernels before.
    pub(super) n_tensor_maps: usize,
    pub(super) text: String,
    pub(super) depth: usize,
}

impl<'a> Printer<'a> {
    pub(super) fn new(grid: &'a Grid, kernel: &'a Kernel) -> Self {
        let mut printer = Self {
            grid,
            kernel,
            facts: grid.facts(),
            names: Names::new(grid, CUDA),
            loaded: BTreeMap::new(),
            in_cp_async: false,
            fragments: Vec::new(),
            register_operands: VecDeque::new(),
            n_tensor_maps: 0,
            text: String::new(),
            depth: 0,
        };
        kernel.bound_loops(&mut printer.facts);
        for var in &kernel.thread_vars {
            printer.facts.bound_var(var.var, Poly::constant((var.range / var.step).into()));
        }
        for it in &kernel.circular_buffers {
            printer.facts.bound_var(it.stage, Poly::constant(it.n_stages.into()));
        }
        printer
    }

    pub(super) fn in_registers(&self, tensor: TensorId) -> bool {
        self.grid.buffer(tensor).scope == MemoryScope::Registers
    }

    pub(super) fn line(&mut self, line: &str) {
        for _ in 0..self.depth {
            self.text.push_str("  ");
        }
        self.text.push_str(line);
        self.text.push('\n');
    }

    pub(super) fn open(&mut self, line: &str) {
        let space = if line.is_empty() { "" } else { " " };
        self.line(&format!("{line}{space}{{"));
        self.depth += 1;
    }

    pub(super) fn close(&mut self) {
        self.depth -= 1;
        self.line("}");
    }

    /// The function; returns its parameters.
    pub(super) fn kernel(&mut self, name: &str) -> Vec<Param> {
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

    /// Returns the parameters of the kernel: the buffers, dimensions and scalars that it uses.
    pub(super) fn params(&self) -> Vec<Param> {
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
            buffer.shape.iter().skip(1).for_each(|it| polys(it, &mut *used));
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
                    value.for_each_poly(&mut |it| polys(it, &mut used));
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

    pub(super) fn param(&self, param: Param) -> String {
        match param {
            Param::Pointer(tensor) => {
                let element = element_type(self.grid.buffer(tensor).dtype);
                let constant = if self.is_written(tensor) { "" } else { "const " };
                // The compiler must read again after a wait, since other threads write.
                let is_exchanged = self.is_written(tensor) && self.is_read(tensor);
                let alone = if is_exchanged { "" } else { " __restrict__" };
                format!("{constant}{element}*{alone} {}", self.names.buffer(tensor))
            }
            Param::TensorMap(map) => {
                format!("TVMTUNE_TENSOR_MAP {}", self.tensor_map_name(map - self.n_tensor_maps))
            }
            Param::StructWord(word) => {
                unreachable!("word {word}: generated kernels take no struct")
            }
            Param::Dim(dim) => format!("Index {}", self.names.dim(dim)),
            Param::Scalar(scalar) => {
                let dtype = self.grid.scalars[scalar.0 as usize].dtype;
                format!("{} {}", scalar_type(dtype), self.names.scalar(scalar))
            }
        }
    }

    pub(super) fn is_written(&self, tensor: TensorId) -> bool {
        written(&self.kernel.body).contains(&tensor)
    }

    pub(super) fn is_read(&self, tensor: TensorId) -> bool {
        let body = &self.kernel.body;
        let updates = |it: &Stmt| matches!(it, Stmt::Update { tensor: to, .. } if *to == tensor);
        read(body).contains(&tensor) || any(body, &updates)
    }

    /// The buffers of this kernel, by where they live.
    pub(super) fn used(&self, is: impl Fn(MemoryScope) -> bool) -> Vec<TensorId> {
        let mut used = written(&self.kernel.body);
        used.extend(self.kernel.tensor_maps.iter().map(|it| it.to));
        used.into_iter().filter(|it| is(self.grid.buffer(*it).scope)).collect()
    }

    pub(super) fn shared_memory(&mut self) {
        if self.kernel.shared_bytes > 0 {
            self.line("extern __shared__ __align__(1024) unsigned char shared[];");
        }
        for tensor in self.used(MemoryScope::is_shared) {
            let buffer = self.grid.buffer(tensor);
            let MemoryScope::Shared(SharedMemory { offset, .. }) = buffer.scope else { continue };
            let (element, name) = (element_type(buffer.dtype), self.names.buffer(tensor));
            self.line(&format!(
                "{element}* const {name} = reinterpret_cast<{element}*>(shared + {offset});"
            ));
        }
    }

    pub(super) fn threads(&mut self) {
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

    pub(super) fn registers(&mut self) {
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

    /// Returns the number of elements of a buffer in registers.
    pub(super) fn n_elements(&self, tensor: TensorId) -> i64 {
        let shape = &self.grid.buffer(tensor).shape;
        shape.iter().map(|it| it.as_constant().unwrap_or(1).max(1)).product()
    }
}
