//! The statements of a nest, each with its loops and what it touches.

use tvmtune_ir::dag::{Expr, Reducer, Subscript, TensorId};
use tvmtune_ir::poly::{Poly, VarId};
use tvmtune_schedule::LoopKind;
use tvmtune_schedule::nest::{Nest, Scope, Stmt};

use super::product;
use super::range::Ranges;

/// A loop around a statement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Loop {
    pub(super) var: VarId,
    pub(super) extent: f64,
    pub(super) kind: LoopKind,
}

/// One statement.
#[derive(Debug)]
pub(super) struct Site<'a> {
    /// Outermost first.
    pub(super) loops: Vec<Loop>,
    pub(super) tensor: TensorId,
    pub(super) index: &'a [Poly],
    pub(super) reducer: Option<Reducer>,
    pub(super) value: &'a Expr,
    /// The buffer written first, then those that are read, in order.
    pub(super) touches: Vec<Touch<'a>>,
}

/// All that one statement does to one buffer.
#[derive(Debug)]
pub(super) struct Touch<'a> {
    pub(super) tensor: TensorId,
    pub(super) reads: bool,
    pub(super) writes: bool,
    /// The subscripts of each access; `None` where data decides.
    pub(super) indices: Vec<Vec<Option<&'a Poly>>>,
    /// How many elements are touched while the loops from that number on run once.
    pub(super) touched: Vec<f64>,
    /// The size of one of its elements.
    pub(super) element_bytes: f64,
    /// The extents of the buffer.
    pub(super) shape: Vec<f64>,
}

/// All statements of a nest.
#[derive(Debug)]
pub(super) struct Sites<'a> {
    pub(super) nest: &'a Nest,
    pub(super) ranges: Ranges,
    /// In order.
    pub(super) all: Vec<Site<'a>>,
    /// By variable: what all statements inside of that loop touch while it runs once, in bytes.
    loop_bytes: Vec<f64>,
    /// By tensor: how many loops stand around all that touches a buffer of one task.
    made: Vec<Option<usize>>,
}

impl Site<'_> {
    /// How often it runs.
    pub(super) fn times(&self) -> f64 {
        product(self.loops.iter().map(|it| it.extent))
    }

    /// Whether it stands inside of that loop of another statement, which is its number `depth`.
    pub(super) fn is_inside(&self, other: &Site<'_>, depth: usize) -> bool {
        self.loops.get(depth).is_some_and(|it| it.var == other.loops[depth].var)
    }

    /// Whether iterations of a loop write different elements.
    pub(super) fn writes_along(&self, var: VarId) -> bool {
        self.index.iter().any(|it| it.mentions(var))
    }
}

impl Touch<'_> {
    pub(super) fn mentions(&self, var: VarId) -> bool {
        self.subscripts().any(|it| it.is_none_or(|it| it.mentions(var)))
    }

    /// Notes how much is touched by more and more of that many loops.
    fn measure(&mut self, ranges: &Ranges, n_loops: usize) {
        let touched = |depth| product(self.widths(ranges, depth));
        self.touched = (0..=n_loops).map(touched).collect();
    }

    fn subscripts(&self) -> impl Iterator<Item = Option<&Poly>> {
        self.indices.iter().flatten().copied()
    }

    /// How many elements of each dimension are touched while the loops from that number on run.
    pub(super) fn widths(&self, ranges: &Ranges, depth: usize) -> impl Iterator<Item = f64> {
        self.shape.iter().enumerate().map(move |(n, most)| {
            let mut hull = (f64::INFINITY, f64::NEG_INFINITY);
            for index in &self.indices {
                let Some(Some(poly)) = index.get(n) else { return *most };
                let range = ranges.of(poly, depth);
                hull = (hull.0.min(range.0), hull.1.max(range.1));
            }
            (hull.1 - hull.0 + 1.0).clamp(1.0, *most)
        })
    }
}

impl<'a> Sites<'a> {
    pub(super) fn of(nest: &'a Nest) -> Self {
        let dims = nest.dims.iter().map(|it| it.range.hi.max(1) as f64).collect();
        let ranges = Ranges::new(dims, nest.n_vars);
        let loop_bytes = vec![0.0; nest.n_vars as usize];
        let made = vec![None; nest.buffers.len()];
        let mut sites = Self { nest, ranges, all: Vec::new(), loop_bytes, made };
        nest.body.iter().for_each(|it| sites.visit(it, &mut Vec::new()));
        let Self { ranges, all, loop_bytes, .. } = &mut sites;
        for site in all {
            for touch in &mut site.touches {
                touch.measure(ranges, site.loops.len());
                for (it, touched) in site.loops.iter().zip(&touch.touched) {
                    if let Some(bytes) = loop_bytes.get_mut(it.var.0 as usize) {
                        *bytes += touched * touch.element_bytes;
                    }
                }
            }
        }
        sites.note_made();
        sites
    }

    /// Notes inside of how many loops buffers of one task are made.
    fn note_made(&mut self) {
        let mut first: Vec<Option<&[Loop]>> = vec![None; self.made.len()];
        for site in &self.all {
            for touch in &site.touches {
                let n = touch.tensor.0 as usize;
                let loops: &[Loop] = first[n].get_or_insert(&site.loops);
                let shared = loops.iter().zip(&site.loops).take_while(|(a, b)| a.var == b.var);
                self.made[n] = Some(self.made[n].unwrap_or(usize::MAX).min(shared.count()));
            }
        }
    }

    /// How many of the loops around whatever touches a buffer stand around where it is made: in each
    /// of their iterations it holds something else.
    pub(super) fn made(&self, tensor: TensorId) -> usize {
        match self.nest.buffer(tensor).scope {
            Scope::Local => self.made[tensor.0 as usize].unwrap_or(0),
            Scope::Argument | Scope::Workspace | Scope::Unused => 0,
        }
    }

    /// Bytes touched while a loop runs once, by all statements in it.
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
                self.statement(loops, *tensor, index, None, value);
            }
            Stmt::Update { tensor, index, reducer, value } => {
                self.statement(loops, *tensor, index, Some(*reducer), value);
            }
        }
    }

    fn statement(
        &mut self,
        loops: &[Loop],
        tensor: TensorId,
        index: &'a [Poly],
        reducer: Option<Reducer>,
        value: &'a Expr,
    ) {
        let mut touches = Vec::new();
        let written = index.iter().map(Some).collect();
        self.touch(&mut touches, tensor, written, true);
        if reducer.is_some() {
            touches[0].reads = true;
        }
        value.walk(&mut |it| {
            let Expr::Read { tensor, index } = it else { return };
            let affine = |it: &'a Subscript| match it {
                Subscript::Affine(poly) => Some(poly),
                Subscript::Value(_) => None,
            };
            self.touch(&mut touches, *tensor, index.iter().map(affine).collect(), false);
        });
        self.all.push(Site { loops: loops.to_vec(), tensor, index, reducer, value, touches });
    }

    fn touch(
        &self,
        touches: &mut Vec<Touch<'a>>,
        tensor: TensorId,
        index: Vec<Option<&'a Poly>>,
        writes: bool,
    ) {
        if let Some(known) = touches.iter_mut().find(|it| it.tensor == tensor) {
            known.reads |= !writes;
            known.writes |= writes;
            if !known.indices.contains(&index) {
                known.indices.push(index);
            }
            return;
        }
        let buffer = self.nest.buffer(tensor);
        touches.push(Touch {
            tensor,
            reads: !writes,
            writes,
            indices: vec![index],
            touched: Vec::new(),
            element_bytes: buffer.dtype.bytes() as f64,
            shape: buffer.shape.iter().map(|it| self.ranges.most(it)).collect(),
        });
    }
}
