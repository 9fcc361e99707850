//! A kernel and all functions it calls, as one list of instructions with one set of registers.
//!
//! Functions have frames of their own at fixed places, in registers and in local memory. That is
//! all recursion would break, so recursion is refused.

use std::collections::{BTreeMap, BTreeSet};

use super::decode;
use super::site::{Rows0, Site};
use crate::code::{Inst, Move, Op, Touched};
use crate::parse::{Function, Operand, ParseError, Result, Space, Tree, Variable};
use crate::registers::{Class, Slot};
use crate::space::{MODULE_WINDOW, SHARED_BASE};

/// What a kernel needs to run.
pub(crate) struct Linked {
    pub(crate) code: Vec<Inst>,
    pub(crate) rows: Rows0,
    /// Offset and size of each parameter.
    pub(crate) parameters: Vec<(u32, u32)>,
    /// Bytes of local memory of a thread.
    pub(crate) local_bytes: u32,
    /// Where dynamic shared memory begins; static shared memory lies before it.
    pub(crate) dynamic_shared: u32,
    pub(crate) static_shared_bytes: u32,
}

/// Addresses of the variables of a module: names with address, and the initial bytes of all.
#[derive(Default)]
pub(crate) struct Layout<'a> {
    addresses: BTreeMap<&'a str, u64>,
    pub(crate) bytes: Vec<u8>,
}

impl<'a> Layout<'a> {
    /// Lays out global and constant variables.
    pub(crate) fn new(tree: &Tree<'a>) -> Self {
        let mut layout = Self::default();
        for variable in &tree.variables {
            if matches!(variable.space, Space::Global | Space::Constant) {
                let at = layout.bytes.len().next_multiple_of(variable.align.max(1) as usize);
                layout.bytes.resize(at, 0);
                layout.bytes.extend(&variable.initial);
                layout.bytes.resize(at + variable.bytes as usize, 0);
                layout.addresses.insert(variable.name, MODULE_WINDOW + at as u64);
            }
        }
        layout
    }
}

/// Where one function lies.
pub(super) struct Frame<'s, 'a> {
    tree: &'s Tree<'a>,
    function: &'s Function<'a>,
    layout: &'s Layout<'a>,
    /// The address of each variable in its space.
    variables: Vec<u64>,
    /// The first rows of its registers, in the order of [`Class`].
    first: [u32; 3],
    first_inst: usize,
    others: &'s BTreeMap<&'a str, Place>,
    shared: &'s BTreeMap<&'a str, u64>,
}

/// What a call needs to know of its target.
struct Place {
    first_inst: usize,
    variables: Vec<u64>,
}

impl<'a> Frame<'_, 'a> {
    pub(super) fn slot(&self, class: Class, slot: Slot) -> Slot {
        self.first[class as usize] + slot
    }

    pub(super) fn target(&self, statement: usize) -> usize {
        self.first_inst + statement
    }

    pub(super) fn is_kernel_parameter(&self, variable: usize) -> bool {
        self.function.is_kernel && variable < self.function.n_parameters
    }

    /// The address of a name.
    pub(super) fn address_of(&self, site: &Site<'_, '_>, operand: &Operand<'_>) -> Result<u64> {
        match operand {
            Operand::Variable(n) => Ok(self.variables[*n]),
            Operand::Symbol(name) => {
                let found = self.layout.addresses.get(name).or_else(|| self.shared.get(name));
                found.copied().ok_or_else(|| site.error(format!("unknown name `{name}`")))
            }
            _ => Err(site.error("expected a name")),
        }
    }

    /// `call (results), function, (parameters)`, with either list left out if empty.
    pub(super) fn call(&self, site: &Site<'_, 'a>) -> Result<Op> {
        let (results, name, parameters) = match site.operands {
            [Operand::List(results), Operand::Symbol(name), Operand::List(parameters), ..] => {
                (results.as_slice(), *name, parameters.as_slice())
            }
            [Operand::Symbol(name), Operand::List(parameters), ..] => {
                ([].as_slice(), *name, parameters.as_slice())
            }
            [Operand::List(results), Operand::Symbol(name)] => {
                (results.as_slice(), *name, [].as_slice())
            }
            [Operand::Symbol(name)] => ([].as_slice(), *name, [].as_slice()),
            _ => return Err(site.error("calls of pointers are not known")),
        };
        if name == "__assertfail" {
            return Ok(Op::Assert);
        }
        let callee = self.tree.functions.iter().find(|it| it.name == name && it.body.is_some());
        let (Some(callee), Some(place)) = (callee, self.others.get(name)) else {
            return Err(site.error(format!("the function `{name}` is not in the module")));
        };
        let moves = |actual: &[Operand<'_>], first: usize, into: bool| {
            actual
                .iter()
                .enumerate()
                .map(|(n, operand)| {
                    let Operand::Variable(variable) = operand else {
                        return Err(site.error("expected a parameter"));
                    };
                    let outside = self.variables[*variable] as u32;
                    let inside = place.variables[first + n] as u32;
                    let bytes = callee.variables[first + n].bytes as u32;
                    let (from, to) = if into { (outside, inside) } else { (inside, outside) };
                    Ok(Move { from, to, bytes })
                })
                .collect::<Result<Vec<Move>>>()
        };
        Ok(Op::Call {
            target: place.first_inst,
            before: moves(parameters, callee.n_results, true)?,
            after: moves(results, 0, false)?,
        })
    }
}

/// Links a kernel of a module.
pub(crate) fn link<'a>(tree: &Tree<'a>, layout: &Layout<'a>, kernel: usize) -> Result<Linked> {
    let functions = reachable(tree, kernel)?;
    let mut rows = Rows0::default();
    let mut memory = Cursors::default();
    let (shared_names, mut places) = (memory.shared_names(tree), BTreeMap::new());
    let mut first_inst = 0;
    for function in &functions {
        let variables = function
            .variables
            .iter()
            .enumerate()
            .map(|(n, it)| memory.place(it, function.is_kernel && n < function.n_parameters));
        let place = Place { first_inst, variables: variables.collect() };
        // One more for the return at the end.
        first_inst += function.body.as_ref().map_or(0, Vec::len) + 1;
        places.insert(function.name, place);
    }
    let dynamic = memory.dynamic_shared();
    let shared: BTreeMap<&str, u64> =
        shared_names.into_iter().map(|(name, at)| (name, at.unwrap_or(dynamic))).collect();
    let mut code = Vec::new();
    for function in &functions {
        let frame = Frame {
            tree,
            function,
            layout,
            variables: places[function.name].variables.clone(),
            first: [rows.n_predicates, rows.n_words, rows.n_doubles],
            first_inst: code.len(),
            others: &places,
            shared: &shared,
        };
        rows.n_predicates += function.n_predicates;
        rows.n_words += function.n_words;
        rows.n_doubles += function.n_doubles;
        let (sums, factors) = (of_products(function, 0), of_products(function, 1));
        for statement in function.body.iter().flatten() {
            let guard =
                statement.guard.map(|(slot, not)| (frame.slot(Class::Predicate, slot), not));
            let mut op = decode(&mut Site::new(statement, &frame, &mut rows))?;
            if !sums.is_empty() && !statement.opcode.starts_with(PRODUCT) {
                let among = |operands: &[Operand<'_>], known: &BTreeSet<Slot>| -> Vec<Slot> {
                    let all = words(operands).into_iter().filter(|it| known.contains(it));
                    all.map(|it| frame.slot(Class::Word, it)).collect()
                };
                let operands = &statement.operands[..];
                let written = &operands[..operands.len().min(1)];
                let (sums, factors) = (among(operands, &sums), among(written, &factors));
                if !sums.is_empty() || !factors.is_empty() {
                    op = Op::Touch(Box::new(op), Touched { sums, factors });
                }
            }
            code.push(Inst { guard, op, place: statement.place });
        }
        code.push(Inst { guard: None, op: Op::Return, place: 0 });
    }
    Ok(Linked {
        code,
        rows,
        parameters: memory.parameters,
        local_bytes: memory.local as u32,
        dynamic_shared: dynamic as u32,
        static_shared_bytes: (memory.shared - SHARED_BASE) as u32,
    })
}

/// Products of warpgroups, which run on while their threads do.
const PRODUCT: &str = "wgmma.mma_async";

/// The registers of a function that are that operand of products: the first are sums, the second
/// factors, if not in shared memory.
fn of_products(function: &Function<'_>, operand: usize) -> BTreeSet<Slot> {
    let products = function.body.iter().flatten().filter(|it| it.opcode.starts_with(PRODUCT));
    products.filter_map(|it| it.operands.get(operand..=operand)).flat_map(words).collect()
}

/// The 32-bit registers in operands.
fn words(operands: &[Operand<'_>]) -> Vec<Slot> {
    let mut found = Vec::new();
    for operand in operands {
        match operand {
            Operand::Register(Class::Word, slot) => found.push(*slot),
            Operand::Vector(inside) | Operand::List(inside) => found.extend(words(inside)),
            Operand::Both(both) => found.extend(words(&[both.0.clone(), both.1.clone()])),
            _ => {}
        }
    }
    found
}

/// The kernel, and what it calls directly or not; callers before callees.
fn reachable<'s, 'a>(tree: &'s Tree<'a>, kernel: usize) -> Result<Vec<&'s Function<'a>>> {
    fn visit<'s, 'a>(
        tree: &'s Tree<'a>,
        function: &'s Function<'a>,
        path: &mut Vec<&'a str>,
        found: &mut Vec<&'s Function<'a>>,
    ) -> Result<()> {
        if !found.iter().any(|it| it.name == function.name) {
            found.push(function);
        }
        path.push(function.name);
        let statements = function.body.iter().flatten();
        for statement in statements.filter(|it| it.opcode.starts_with("call")) {
            let names = statement.operands.iter().filter_map(|it| match it {
                Operand::Symbol(name) => Some(*name),
                _ => None,
            });
            for name in names {
                if path.contains(&name) {
                    return Err(ParseError::new(statement.line, "recursion is not known"));
                }
                let callee = tree.functions.iter().find(|it| it.name == name);
                if let Some(callee) = callee.filter(|it| it.body.is_some()) {
                    visit(tree, callee, path, found)?;
                }
            }
        }
        path.pop();
        Ok(())
    }
    let mut found = Vec::new();
    visit(tree, &tree.functions[kernel], &mut Vec::new(), &mut found)?;
    Ok(found)
}

/// How far each memory is filled.
struct Cursors {
    shared: u64,
    dynamic_align: u64,
    local: u64,
    parameter_bytes: u64,
    parameters: Vec<(u32, u32)>,
}

impl Default for Cursors {
    fn default() -> Self {
        Self {
            shared: SHARED_BASE,
            dynamic_align: 16,
            local: 0,
            parameter_bytes: 0,
            parameters: Vec::new(),
        }
    }
}

impl Cursors {
    /// Addresses of the module's shared variables; none yet for those sized by the launch.
    fn shared_names<'a>(&mut self, tree: &Tree<'a>) -> Vec<(&'a str, Option<u64>)> {
        let shared = tree.variables.iter().filter(|it| it.space == Space::Shared);
        shared
            .map(|it| {
                if it.unsized_ {
                    self.dynamic_align = self.dynamic_align.max(it.align);
                    (it.name, None)
                } else {
                    (it.name, Some(self.place(it, false)))
                }
            })
            .collect()
    }

    fn place(&mut self, variable: &Variable<'_>, kernel_parameter: bool) -> u64 {
        let cursor = match variable.space {
            Space::Shared => &mut self.shared,
            Space::Parameter if kernel_parameter => &mut self.parameter_bytes,
            _ => &mut self.local,
        };
        let at = cursor.next_multiple_of(variable.align.max(1));
        *cursor = at + variable.bytes;
        if kernel_parameter {
            self.parameters.push((at as u32, variable.bytes as u32));
        }
        at
    }

    fn dynamic_shared(&self) -> u64 {
        self.shared.next_multiple_of(self.dynamic_align)
    }
}
