//! Which addresses and integers a phase needs, and where in its loops each is kept up to date.
//!
//! In: the statements of a phase. Out: a [`Plan`]: for each loop and each `Let`, the sums that
//! change with its variable. Next: [`super::select`] keeps each in a register that the loop
//! advances (strength reduction), so that an access costs no integer arithmetic.
//!
//! Addresses that differ by a constant share a register and differ in displacement. Those that
//! differ by a number known at launch (the rows of a matrix whose width is dynamic) share one too:
//! the number becomes the index register of the access.
//!
//! # Invariants
//!
//! - A sum is kept at the innermost scope whose variable it mentions, and starts from the same sum
//!   without that variable, kept further out.
//! - Scopes are numbered in the order of the walk; selection walks in the same order.

use std::collections::{BTreeMap, BTreeSet};

use crate::kernel::{Address, Base, Count, Lanes, Linear, Mask, Slot, Stmt, Storage, Value};
use tvmtune_ir::poly::VarId;
use tvmtune_ir::target::Isa;

/// `base + param + sum of var * stride`: a [`Linear`] or [`Address`] but for its constant.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub base: Option<Base>,
    pub param: Option<Slot>,
    pub strides: Vec<(VarId, Count)>,
}

/// A [`Key`], by position in [`Plan::keys`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct KeyId(pub u32);

/// A sum that changes with the variable of a scope.
#[derive(Clone, Copy, Debug)]
pub(super) struct Carried {
    pub key: KeyId,
    /// What it is where the variable is 0.
    pub start: KeyId,
    /// What it changes by where the variable changes by 1.
    pub stride: Count,
}

/// Whether a mask leaves lanes out.
pub(super) fn masks(mask: Option<&Mask>, isa: Isa) -> bool {
    let all = i64::from(isa.lanes());
    mask.is_some_and(|it| !matches!(it, Mask::First(Count::Const(n)) if *n >= all))
}

/// Strided accesses whose elements touch are contiguous.
pub(super) fn straighten(lanes: Lanes, storage: Storage) -> Lanes {
    match lanes {
        Lanes::Strided(Count::Const(step)) if step == storage.bytes() => Lanes::Contiguous,
        lanes => lanes,
    }
}

/// Whether a load is of every other word of memory: two vectors, and what is wanted of them, are
/// had sooner than a gather.
pub(super) fn load_halves(isa: Isa, lanes: Lanes, storage: Storage, masked: bool) -> bool {
    lanes == Lanes::Strided(Count::Const(8))
        && storage == Storage::Word
        && (!masked || isa == Isa::Avx512)
}

/// Whether a load is a gather, whose index register is a vector of places.
pub(super) fn load_gathers(isa: Isa, lanes: Lanes, storage: Storage, masked: bool) -> bool {
    storage == Storage::Word
        && match straighten(lanes, storage) {
            Lanes::Uniform => masked && isa == Isa::Avx2,
            Lanes::Contiguous => false,
            Lanes::Strided(_) => !load_halves(isa, lanes, storage, masked),
        }
}

/// Whether a store is a scatter.
pub(super) fn store_scatters(isa: Isa, lanes: Lanes, storage: Storage) -> bool {
    let strided = matches!(straighten(lanes, storage), Lanes::Strided(_));
    storage == Storage::Word && isa == Isa::Avx512 && strided
}

/// How often a loop runs, as far as code is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trips {
    Never,
    Once,
    /// More than once, or unknown.
    Many,
}

impl Trips {
    pub(super) fn of(count: Count) -> Self {
        match count {
            Count::Const(..=0) => Trips::Never,
            Count::Const(1) => Trips::Once,
            _ => Trips::Many,
        }
    }
}

/// The variables that have a value at some point of the walk, innermost last; with their scope,
/// or `None` if the value is 0 for certain.
#[derive(Default)]
pub(super) struct Active(Vec<(VarId, Option<usize>)>);

impl Active {
    pub(super) fn push(&mut self, var: VarId, scope: Option<usize>) {
        self.0.push((var, scope));
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn truncate(&mut self, len: usize) {
        self.0.truncate(len);
    }

    fn scope(&self, var: VarId) -> Option<usize> {
        self.0.iter().rev().find(|it| it.0 == var).expect("variables are in scope").1
    }

    /// The innermost scope that a key changes with, with its variable's place among the strides.
    fn innermost(&self, key: &Key) -> Option<(usize, usize)> {
        let scopes = key.strides.iter().enumerate();
        scopes.filter_map(|(at, it)| Some((self.scope(it.0)?, at))).max()
    }
}

/// Whether accesses with the same base and strides differ by a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Params {
    /// All have that one, or none.
    One(Option<Slot>),
    Several,
}

/// See the [module documentation](self).
#[derive(Default)]
pub(super) struct Plan {
    keys: Vec<Key>,
    known: BTreeMap<Key, KeyId>,
    params: BTreeMap<Key, Params>,
    seen: BTreeSet<(usize, KeyId)>,
    /// For each scope, in order of need.
    scopes: Vec<Vec<Carried>>,
}

impl Plan {
    /// Plans a phase. `lets` stand before `body`, inside the scope of `task`, number 0.
    pub(super) fn new(isa: Isa, task: VarId, lets: &[Stmt], body: &[Stmt]) -> Self {
        let mut plan = Plan::default();
        let mut walk = Walk { isa, plan: &mut plan, active: Active::default(), learning: true };
        walk.phase(task, lets, body);
        plan.scopes.clear();
        let mut walk = Walk { isa, plan: &mut plan, active: Active::default(), learning: false };
        walk.phase(task, lets, body);
        plan
    }

    pub(super) fn key(&self, id: KeyId) -> &Key {
        &self.keys[id.0 as usize]
    }

    pub(super) fn n_keys(&self) -> usize {
        self.keys.len()
    }

    /// The sums that change with that scope.
    pub(super) fn carried(&self, scope: usize) -> &[Carried] {
        &self.scopes[scope]
    }

    /// The key of an address, and the parameter to be added by the access as an index.
    pub(super) fn address(
        &self,
        address: &Address,
        active: &Active,
        indexable: bool,
    ) -> (KeyId, Option<Slot>) {
        let (key, index) = self.split(address, active, indexable);
        (self.known[&key], index)
    }

    /// The key of an integer.
    pub(super) fn linear(&self, linear: &Linear, active: &Active) -> KeyId {
        self.known[&Key::of(None, linear, active)]
    }

    fn split(&self, address: &Address, active: &Active, indexable: bool) -> (Key, Option<Slot>) {
        let full = Key::of(Some(address.base), &address.offset, active);
        let group = Key { param: None, ..full.clone() };
        match self.params.get(&group) {
            Some(Params::Several) if indexable => (group, full.param),
            _ => (full, None),
        }
    }

    fn intern(&mut self, key: Key) -> KeyId {
        if let Some(id) = self.known.get(&key) {
            return *id;
        }
        let id = KeyId(self.keys.len() as u32);
        self.keys.push(key.clone());
        self.known.insert(key, id);
        id
    }
}

impl Key {
    fn of(base: Option<Base>, linear: &Linear, active: &Active) -> Self {
        let moves = |it: &&(VarId, Count)| it.1 != Count::Const(0) && active.scope(it.0).is_some();
        let strides = linear.strides.iter().filter(moves).copied().collect();
        Self { base, param: linear.param, strides }
    }

    /// Whether the sum is 0.
    pub(super) fn is_zero(&self) -> bool {
        *self == Self::default()
    }
}

/// One walk over a phase: first to learn which parameters occur, then to plan.
struct Walk<'a> {
    isa: Isa,
    plan: &'a mut Plan,
    active: Active,
    learning: bool,
}

impl Walk<'_> {
    fn phase(&mut self, task: VarId, lets: &[Stmt], body: &[Stmt]) {
        self.enter(task);
        self.stmts(lets);
        self.stmts(body);
    }

    fn enter(&mut self, var: VarId) {
        self.active.push(var, Some(self.plan.scopes.len()));
        self.plan.scopes.push(Vec::new());
    }

    fn block(&mut self, body: &[Stmt]) {
        let depth = self.active.len();
        self.stmts(body);
        self.active.truncate(depth);
    }

    fn stmts(&mut self, body: &[Stmt]) {
        for stmt in body {
            match stmt {
                Stmt::Loop { var, count, body } => {
                    let depth = self.active.len();
                    match Trips::of(*count) {
                        Trips::Never => continue,
                        Trips::Once => self.active.push(*var, None),
                        Trips::Many => self.enter(*var),
                    }
                    self.block(body);
                    self.active.truncate(depth);
                }
                Stmt::If { value, bound, then, otherwise } => {
                    self.linear(value);
                    self.linear(bound);
                    self.block(then);
                    self.block(otherwise);
                }
                Stmt::Let { var, value, .. } => {
                    self.linear(value);
                    self.enter(*var);
                }
                Stmt::Set { value, mask, .. } => {
                    self.value(value);
                    self.mask(mask.as_ref());
                }
                Stmt::Store { address, lanes, storage, value, mask } => {
                    self.value(value);
                    self.mask(mask.as_ref());
                    self.address(address, !store_scatters(self.isa, *lanes, *storage));
                }
                Stmt::Prefetch { address } => self.address(address, true),
            }
        }
    }

    fn mask(&mut self, mask: Option<&Mask>) {
        if let Some(Mask::Where(value)) = mask {
            self.value(value);
        }
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::Splat(_) | Value::Scalar(_) | Value::Reg(_) => {}
            Value::Load { address, lanes, storage, mask } => {
                let masked = masks(mask.as_ref(), self.isa);
                self.mask(mask.as_ref());
                self.address(address, !load_gathers(self.isa, *lanes, *storage, masked));
            }
            Value::Gather { address, index, mask, .. } => {
                self.value(index);
                self.mask(mask.as_ref());
                self.address(address, false);
            }
            Value::Index { base, .. } => self.linear(base),
            Value::Unary(_, x) | Value::Reduce(_, x) => self.value(x),
            Value::Binary(_, x, y) | Value::Compare(_, x, y) => {
                self.value(x);
                self.value(y);
            }
            Value::Fma(a, b, c) => {
                self.value(a);
                self.value(b);
                self.value(c);
            }
            Value::Select { condition, then, otherwise } => {
                self.value(condition);
                self.value(then);
                self.value(otherwise);
            }
        }
    }

    fn address(&mut self, address: &Address, indexable: bool) {
        if !self.learning {
            let (key, _) = self.plan.split(address, &self.active, indexable);
            self.require(key);
        } else if indexable {
            let mut key = Key::of(Some(address.base), &address.offset, &self.active);
            let mine = Params::One(key.param.take());
            let params = self.plan.params.entry(key).or_insert(mine);
            if *params != mine {
                *params = Params::Several;
            }
        }
    }

    fn linear(&mut self, linear: &Linear) {
        if !self.learning {
            self.require(Key::of(None, linear, &self.active));
        }
    }

    /// Has a sum kept where it changes, and what it starts from further out.
    fn require(&mut self, key: Key) -> KeyId {
        let innermost = self.active.innermost(&key);
        let id = self.plan.intern(key);
        if let Some((scope, at)) = innermost
            && self.plan.seen.insert((scope, id))
        {
            let mut start = self.plan.key(id).clone();
            let (_, stride) = start.strides.remove(at);
            let start = self.require(start);
            self.plan.scopes[scope].push(Carried { key: id, start, stride });
        }
        id
    }
}
