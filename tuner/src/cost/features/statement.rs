//! The statements of a nest, each with its loops and the buffers it accesses.

use tvmtune_ir::dag::{Expr, Reducer, Subscript, TensorId};
use tvmtune_ir::poly::{Poly, VarId};
use tvmtune_schedule::LoopKind;
use tvmtune_schedule::nest::{Access, Nest, Scope, Statement as _, Stmt};

use super::range::Ranges;
use super::row::product;

/// A loop around a statement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Loop {
    pub(super) var: VarId,
    pub(super) extent: f64,
    pub(super) kind: LoopKind,
}

/// One statement.
#[derive(Debug)]
pub(super) struct Statement<'a> {
    /// Outermost first.
    pub(super) loops: Vec<Loop>,
    pub(super) tensor: TensorId,
    pub(super) index: &'a [Poly],
    pub(super) reducer: Option<Reducer>,
    pub(super) value: &'a Expr,
    /// The buffer written first, then those that are read, in order.
    pub(super) accesses: Vec<BufferAccess<'a>>,
}

/// All accesses of one statement to one buffer.
#[derive(Debug)]
pub(super) struct BufferAccess<'a> {
    pub(super) tensor: TensorId,
    pub(super) reads: bool,
    pub(super) writes: bool,
    /// The subscripts of each access; `None` where they depend on data.
    pub(super) indices: Vec<Vec<Option<&'a Poly>>>,
    /// By depth, the elements touched while the loops from that depth on run once.
    pub(super) touched: Vec<f64>,
    /// The size of one of its elements.
    pub(super) element_bytes: f64,
    /// The extents of the buffer.
    pub(super) shape: Vec<f64>,
}

/// All statements of a nest.
#[derive(Debug)]
pub(super) struct Statements<'a> {
    pub(super) nest: &'a Nest,
    pub(super) ranges: Ranges,
    /// In order.
    pub(super) all: Vec<Statement<'a>>,
    /// By variable, the bytes that all statements in that loop access while it runs once.
    loop_bytes: Vec<f64>,
    /// By tensor, the number of loops around all statements that access a buffer.
    alloc_depths: Vec<Option<usize>>,
}

impl Statement<'_> {
    /// Returns how often it runs.
    pub(super) fn times(&self) -> f64 {
        product(self.loops.iter().map(|it| it.extent))
    }

    /// Tells if it stands inside of loop number `depth` of another statement.
    pub(super) fn is_inside(&self, other: &Statement<'_>, depth: usize) -> bool {
        self.loops.get(depth).is_some_and(|it| it.var == other.loops[depth].var)
    }

    /// Tells if iterations of a loop write different elements.
    pub(super) fn writes_along(&self, var: VarId) -> bool {
        self.index.iter().any(|it| it.mentions(var))
    }
}

impl BufferAccess<'_> {
    /// Tells if some access may depend on a variable.
    pub(super) fn mentions(&self, var: VarId) -> bool {
        self.subscripts().any(|it| it.is_none_or(|it| it.mentions(var)))
    }

    /// Computes `touched` for each depth.
    fn measure(&mut self, ranges: &Ranges, n_loops: usize) {
        let touched = |depth| product(self.widths(ranges, depth));
        self.touched = (0..=n_loops).map(touched).collect();
    }

    fn subscripts(&self) -> impl Iterator<Item = Option<&Poly>> {
        self.indices.iter().flatten().copied()
    }

    /// Returns the elements touched in each dimension while the loops from number `depth` on run.
    pub(super) fn widths(&self, ranges: &Ranges, depth: usize) -> impl Iterator<Item = f64> {
        self.shape.iter().enumerate().map(move |(n, extent)| {
            let mut hull = (f64::INFINITY, f64::NEG_INFINITY);
            for index in &self.indices {
                let Some(Some(poly)) = index.get(n) else { return *extent };
                let range = ranges.interval(poly, depth);
                hull = (hull.0.min(range.0), hull.1.max(range.1));
            }
            (hull.1 - hull.0 + 1.0).clamp(1.0, *extent)
        })
    }
}

impl<'a> Statements<'a> {
    /// Collects the statements of a nest.
    pub(super) fn new(nest: &'a Nest) -> Self {
        let dims = nest.dims.iter().map(|it| it.range.hi.max(1) as f64).collect();
        let ranges = Ranges::new(dims, nest.n_vars);
        let loop_bytes = vec![0.0; nest.n_vars as usize];
        let alloc_depths = vec![None; nest.buffers.len()];
        let mut statements = Self { nest, ranges, all: Vec::new(), loop_bytes, alloc_depths };
        nest.body.iter().for_each(|it| statements.visit(it, &mut Vec::new()));
        let Self { ranges, all, loop_bytes, .. } = &mut statements;
        for statement in all {
            for access in &mut statement.accesses {
                access.measure(ranges, statement.loops.len());
                for (it, touched) in statement.loops.iter().zip(&access.touched) {
                    if let Some(bytes) = loop_bytes.get_mut(it.var.0 as usize) {
                        *bytes += touched * access.element_bytes;
                    }
                }
            }
        }
        statements.find_alloc_depths();
        statements
    }

    /// Computes the number of loops that all statements touching a buffer share.
    fn find_alloc_depths(&mut self) {
        let mut first: Vec<Option<&[Loop]>> = vec![None; self.alloc_depths.len()];
        for statement in &self.all {
            for access in &statement.accesses {
                let n = access.tensor.0 as usize;
                let loops: &[Loop] = first[n].get_or_insert(&statement.loops);
                let shared = loops.iter().zip(&statement.loops).take_while(|(a, b)| a.var == b.var);
                let depth = self.alloc_depths[n].unwrap_or(usize::MAX).min(shared.count());
                self.alloc_depths[n] = Some(depth);
            }
        }
    }

    /// Returns the number of loops around the allocation of a buffer: it has other contents in each
    /// of their iterations.
    pub(super) fn alloc_depth(&self, tensor: TensorId) -> usize {
        match self.nest.buffer(tensor).scope {
            Scope::Local => self.alloc_depths[tensor.0 as usize].unwrap_or(0),
            Scope::Argument | Scope::Workspace | Scope::Unused => 0,
        }
    }

    /// Returns the bytes that all statements in a loop access while it runs once.
    pub(super) fn bytes_of(&self, it: &Loop) -> f64 {
        self.loop_bytes.get(it.var.0 as usize).copied().unwrap_or(0.0)
    }

    fn visit(&mut self, stmt: &'a Stmt, loops: &mut Vec<Loop>) {
        match stmt {
            Stmt::For { var, extent, kind, body, .. } => {
                let extent = self.ranges.open(*var, loops.len(), extent);
                loops.push(Loop { var: *var, extent, kind: *kind });
                body.iter().for_each(|it| self.visit(it, loops));
                loops.pop();
            }
            Stmt::If { body, .. } => body.iter().for_each(|it| self.visit(it, loops)),
            Stmt::Store { tensor, index, value } => {
                self.add(stmt, loops, (*tensor, index, None, value));
            }
            Stmt::Update { tensor, index, reducer, value } => {
                self.add(stmt, loops, (*tensor, index, Some(*reducer), value));
            }
        }
    }

    fn add(
        &mut self,
        stmt: &'a Stmt,
        loops: &[Loop],
        (tensor, index, reducer, value): (TensorId, &'a [Poly], Option<Reducer>, &'a Expr),
    ) {
        let mut accesses: Vec<BufferAccess<'_>> = Vec::new();
        stmt.accesses(&mut |it| {
            let index: Vec<Option<&Poly>> = match it {
                Access::Write(_, index) => index.iter().map(Some).collect(),
                Access::Read(_, index) => index.iter().map(Subscript::affine).collect(),
            };
            let known = accesses.iter().position(|known| known.tensor == it.tensor());
            let n = known.unwrap_or_else(|| {
                accesses.push(self.access(it.tensor()));
                accesses.len() - 1
            });
            let access = &mut accesses[n];
            match it {
                Access::Write(..) => access.writes = true,
                Access::Read(..) => access.reads = true,
            }
            if !access.indices.contains(&index) {
                access.indices.push(index);
            }
        });
        accesses[0].reads |= reducer.is_some();
        let loops = loops.to_vec();
        self.all.push(Statement { loops, tensor, index, reducer, value, accesses });
    }

    /// Returns the accesses to a buffer before any is added.
    fn access(&self, tensor: TensorId) -> BufferAccess<'a> {
        let buffer = self.nest.buffer(tensor);
        BufferAccess {
            tensor,
            reads: false,
            writes: false,
            indices: Vec::new(),
            touched: Vec::new(),
            element_bytes: buffer.dtype.bytes() as f64,
            shape: buffer.shape.iter().map(|it| self.ranges.max_extent(it)).collect(),
        }
    }
}
