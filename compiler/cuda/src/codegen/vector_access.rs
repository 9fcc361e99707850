//! Vector accesses: accesses of a vectorized loop that become one access of several elements.
//!
//! Those whose elements are neighbors, start at a multiple of the vector's length, and are all
//! predicated alike. `vector` prints them; a cost model counts them.

use super::ALIGNMENT;
use crate::grid::{Grid, MemoryScope, Stmt};
use tvmtune_ir::dag::expr::affine;
use tvmtune_ir::dag::{BinaryOp, Expr, Reducer, TensorId};
use tvmtune_ir::poly::{Poly, VarId};
use tvmtune_schedule::nest::Guard;

/// A vectorized loop around one statement, as it is printed.
#[derive(Clone, Debug, PartialEq)]
pub struct Vectors {
    /// Elements of an access.
    pub lanes: i64,
    /// True if the statement stores them at once.
    pub stores: bool,
    /// The vector loads.
    pub loads: Vec<Load>,
}

/// A read that becomes one of a vector.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// The buffer.
    pub tensor: TensorId,
    /// The position of its lane 0, with the loop's variable in it.
    pub position: Poly,
    /// Its predicate.
    pub(super) conditions: Vec<Guard>,
}

/// Returns the vector accesses of a vectorized loop around `stmt`; `None` if there are none.
pub fn vectors(grid: &Grid, var: VarId, extent: &Poly, stmt: &Stmt) -> Option<Vectors> {
    Inner::read(grid, var, extent, stmt)?.vectors()
}

/// Returns whether elements from there on, along the variable, can be accessed as one vector.
pub fn is_vector(grid: &Grid, tensor: TensorId, position: &Poly, var: VarId, lanes: i64) -> bool {
    let buffer = grid.buffer(tensor);
    let bytes = buffer.dtype.bytes() * lanes as u64;
    if buffer.scope == MemoryScope::Registers || bytes > ALIGNMENT {
        return false;
    }
    position
        .split_linear(var)
        .is_some_and(|(step, first)| step.as_constant() == Some(1) && is_multiple(&first, lanes))
}

/// The statement of a vectorized loop.
pub(super) struct Inner<'a> {
    grid: &'a Grid,
    pub(super) var: VarId,
    pub(super) extent: i64,
    pub(super) guards: &'a [Guard],
    pub(super) tensor: TensorId,
    pub(super) index: &'a [Poly],
    pub(super) value: &'a Expr,
    /// The reduction; `None` for a store.
    pub(super) reducer: Option<Reducer>,
}

impl<'a> Inner<'a> {
    /// Reads a loop; `None` if its length is unknown, or there is more than one statement in it.
    pub(super) fn read(grid: &'a Grid, var: VarId, extent: &Poly, stmt: &'a Stmt) -> Option<Self> {
        let (guards, inner) = match stmt {
            Stmt::If { guards, body } if body.len() == 1 => (guards.as_slice(), &body[0]),
            other => (&[] as &[Guard], other),
        };
        let (tensor, index, value, reducer) = match inner {
            Stmt::Store { tensor, index, value } => (*tensor, index, value, None),
            Stmt::Update { tensor, index, reducer, value } => {
                (*tensor, index, value, Some(*reducer))
            }
            _ => return None,
        };
        let extent = extent.as_constant()?;
        Some(Self { grid, var, extent, guards, tensor, index, value, reducer })
    }

    /// As many elements an access as divide the loop and suit every access that can be a vector;
    /// `None` if that is one.
    pub(super) fn vectors(&self) -> Option<Vectors> {
        [16, 8, 4, 2].into_iter().find_map(|lanes| {
            let uniform = |it: &Guard| is_uniform(it, self.var, lanes);
            if self.extent % lanes != 0 || !self.guards.iter().all(uniform) {
                return None;
            }
            let (stores, loads) = (self.stores_vector(lanes), self.loads_of(lanes));
            (stores || !loads.is_empty()).then_some(Vectors { lanes, stores, loads })
        })
    }

    fn stores_vector(&self, lanes: i64) -> bool {
        let position = self.grid.buffer(self.tensor).position(self.index);
        self.reducer.is_none() && is_vector(self.grid, self.tensor, &position, self.var, lanes)
    }

    /// A load serves all reads of its elements. So its predicate holds wherever one of them is
    /// evaluated.
    fn loads_of(&self, lanes: i64) -> Vec<Load> {
        let mut reads = Reads::default();
        self.reads(self.value, lanes, &[], &mut reads);
        let mut found: Vec<Load> = Vec::new();
        for load in &reads.vectors {
            let holds = |it: &Load| load.conditions.iter().all(|c| it.conditions.contains(c));
            let serves_all = reads.vectors.iter().filter(|it| it.is_same(load)).all(holds);
            let others = reads.others.iter().any(|it| it.is_same(load));
            let is_first = !found.iter().any(|it| it.is_same(load));
            if is_first && serves_all && (load.conditions.is_empty() || !others) {
                found.push(load.clone());
            }
        }
        found
    }

    /// Collects the reads that may become vectors, and the others, of an expression that is evaluated
    /// if the conditions hold.
    fn reads(&self, value: &Expr, lanes: i64, conditions: &[Guard], found: &mut Reads) {
        match value {
            Expr::Read { tensor, index } => {
                let Some(index) = affine(index) else { return };
                let position = self.grid.buffer(*tensor).position(&index);
                if is_vector(self.grid, *tensor, &position, self.var, lanes) {
                    let conditions = conditions.to_vec();
                    found.vectors.push(Load { tensor: *tensor, position, conditions });
                }
            }
            Expr::Select { condition, then, otherwise } => {
                let of = |it: &Expr| {
                    let mut reads = Reads::default();
                    self.reads(it, lanes, conditions, &mut reads);
                    reads
                };
                let (if_so, if_not) = (of(then), of(otherwise));
                let guards = Guard::all_of(condition)
                    .filter(|it| it.iter().all(|it| is_uniform(it, self.var, lanes)));
                let Some(guards) = guards else {
                    let all = [of(condition), if_so, if_not];
                    found.others.extend(all.into_iter().flat_map(Reads::all));
                    return;
                };
                // A load that stands in both branches is made in any case.
                let in_both = |it: &Load| if_so.vectors.contains(it) && if_not.vectors.contains(it);
                found.vectors.extend(if_so.vectors.iter().filter(|it| in_both(it)).cloned());
                let others = if_not.clone().all().filter(|it| !in_both(it));
                found.others.extend(others.chain(if_so.others));
                found.vectors.extend(if_so.vectors.into_iter().map(|mut it| {
                    it.conditions.splice(conditions.len()..conditions.len(), guards.clone());
                    it
                }));
            }
            Expr::Binary(BinaryOp::And | BinaryOp::Or, a, b) => {
                let mut reads = Reads::default();
                self.reads(a, lanes, conditions, &mut reads);
                self.reads(b, lanes, conditions, &mut reads);
                found.others.extend(reads.all());
            }
            other => {
                for child in other.children() {
                    self.reads(child, lanes, conditions, found);
                }
            }
        }
    }
}

/// The reads of an expression whose elements are neighbors.
#[derive(Clone, Default)]
struct Reads {
    /// Those that may be vector loads, each with what holds where it is evaluated.
    vectors: Vec<Load>,
    /// Those in branches of which nothing is known, which take part in no load of their own.
    others: Vec<Load>,
}

impl Reads {
    fn all(self) -> impl Iterator<Item = Load> {
        self.vectors.into_iter().chain(self.others)
    }
}

impl Load {
    /// Returns whether both are of the same elements.
    fn is_same(&self, other: &Load) -> bool {
        self.tensor == other.tensor && self.position == other.position
    }
}

/// Returns whether a guard holds for all lanes of a vector or for none.
fn is_uniform(guard: &Guard, var: VarId, lanes: i64) -> bool {
    if guard.bound.mentions(var) {
        return false;
    }
    guard.value.split_linear(var).is_some_and(|(step, first)| match step.as_constant() {
        Some(0) => true,
        Some(1) => is_multiple(&first, lanes) && is_multiple(&guard.bound, lanes),
        _ => false,
    })
}

/// Returns whether every value is a multiple.
fn is_multiple(poly: &Poly, of: i64) -> bool {
    poly.terms().all(|(_, coefficient)| coefficient % of == 0)
}
