//! Links a kernel and all functions it calls: one list of instructions with one set of registers.
//!
//! Functions have frames of their own at fixed layouts, in registers and in local memory. That is
//! all recursion would break, so recursion is refused.

use std::collections::{BTreeMap, BTreeSet};

use super::dispatch::decode;
use super::frame::{Frame, FunctionLayout, Layout, check_bytes};
use super::site::{RegisterAllocator, Site};
use crate::code::{Inst, Op, WgmmaRegisters};
use crate::parse::{Function, Operand, ParseError, Result, Space, Tree, Variable};
use crate::registers::{Class, Slot};
use crate::space::SHARED_BASE;

/// A linked kernel.
pub(crate) struct Linked {
    pub(crate) code: Vec<Inst>,
    pub(crate) registers: RegisterAllocator,
    /// Offset and size of each parameter.
    pub(crate) parameters: Vec<(u32, u32)>,
    /// Bytes of local memory of a thread.
    pub(crate) local_bytes: u32,
    /// The address of dynamic shared memory; static shared memory lies before it.
    pub(crate) dynamic_shared: u32,
    pub(crate) static_shared_bytes: u32,
}

/// Links a kernel of a module.
pub(crate) fn link<'a>(tree: &Tree<'a>, layout: &Layout<'a>, kernel: usize) -> Result<Linked> {
    let functions = reachable(tree, kernel)?;
    let mut registers = RegisterAllocator::default();
    let mut memory = AddressAllocator::default();
    let (shared_names, mut layouts) = (memory.shared_names(tree), BTreeMap::new());
    let mut first_inst = 0;
    for function in &functions {
        let variables =
            function.variables.iter().enumerate().map(|(n, it)| {
                memory.allocate(it, function.is_kernel && n < function.n_parameters)
            });
        let laid_out = FunctionLayout { first_inst, variables: variables.collect() };
        // One more for the return at the end.
        first_inst += function.body.as_ref().map_or(0, Vec::len) + 1;
        layouts.insert(function.name, laid_out);
    }
    for bytes in [memory.local, memory.parameter_bytes, memory.shared - SHARED_BASE] {
        check_bytes(bytes)?;
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
            variables: layouts[function.name].variables.clone(),
            first: [registers.n_predicates, registers.n_words, registers.n_doubles],
            first_inst: code.len(),
            others: &layouts,
            shared: &shared,
        };
        reserve(&mut registers, function)?;
        let (accumulators, multiplicands) =
            (wgmma_registers(function, 0), wgmma_registers(function, 1));
        for statement in function.body.iter().flatten() {
            let guard =
                statement.guard.map(|(slot, not)| (frame.slot(Class::Predicate, slot), not));
            let mut op = decode(&mut Site::new(statement, &frame, &mut registers))?;
            if !accumulators.is_empty() && !statement.opcode.starts_with(WGMMA) {
                let among = |operands: &[Operand<'_>], known: &BTreeSet<Slot>| -> Vec<Slot> {
                    let all = words(operands).into_iter().filter(|it| known.contains(it));
                    all.map(|it| frame.slot(Class::Word, it)).collect()
                };
                let operands = &statement.operands[..];
                let written = &operands[..operands.len().min(1)];
                let (accumulators, multiplicands) =
                    (among(operands, &accumulators), among(written, &multiplicands));
                if !accumulators.is_empty() || !multiplicands.is_empty() {
                    op = Op::WgmmaAccess(
                        Box::new(op),
                        WgmmaRegisters { accumulators, multiplicands },
                    );
                }
            }
            code.push(Inst { guard, op, location: statement.location });
        }
        code.push(Inst { guard: None, op: Op::Return, location: 0 });
    }
    Ok(Linked {
        code,
        registers,
        parameters: memory.parameters,
        local_bytes: memory.local as u32,
        dynamic_shared: dynamic as u32,
        static_shared_bytes: (memory.shared - SHARED_BASE) as u32,
    })
}

/// Adds the registers that a function declares.
fn reserve(registers: &mut RegisterAllocator, function: &Function<'_>) -> Result<()> {
    registers.n_predicates += function.n_predicates;
    registers.n_words += function.n_words;
    registers.n_doubles += function.n_doubles;
    if registers.n_predicates.max(registers.n_words).max(registers.n_doubles) > MAX_REGISTERS {
        let message = format!("a kernel with more than {MAX_REGISTERS} registers of a class");
        return Err(ParseError::new(1, message));
    }
    Ok(())
}

/// The most registers of a class in a kernel, with those of all functions that it calls.
const MAX_REGISTERS: u32 = 1 << 18;
/// The longest chain of calls: following it recurses.
const MAX_CALLS: usize = 128;

/// The opcode of asynchronous products of warpgroups.
const WGMMA: &str = "wgmma.mma_async";

/// The registers of a function that are that operand of products: the first are accumulators, the
/// second multiplicands, if not in shared memory.
fn wgmma_registers(function: &Function<'_>, operand: usize) -> BTreeSet<Slot> {
    let products = function.body.iter().flatten().filter(|it| it.opcode.starts_with(WGMMA));
    products.filter_map(|it| it.operands.get(operand..=operand)).flat_map(words).collect()
}

/// Returns the 32-bit registers in operands.
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

/// Returns the kernel and all functions that it calls, directly or not; callers before callees.
fn reachable<'s, 'a>(tree: &'s Tree<'a>, kernel: usize) -> Result<Vec<&'s Function<'a>>> {
    fn visit<'s, 'a>(
        tree: &'s Tree<'a>,
        function: &'s Function<'a>,
        path: &mut Vec<&'a str>,
        found: &mut Vec<&'s Function<'a>>,
    ) -> Result<()> {
        found.push(function);
        path.push(function.name);
        if path.len() > MAX_CALLS {
            let message = format!("calls nested more than {MAX_CALLS} deep");
            return Err(ParseError::new(1, message));
        }
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
                let is_new = |it: &&Function<'_>| {
                    it.body.is_some() && found.iter().all(|known| known.name != it.name)
                };
                let callee = tree.functions.iter().find(|it| it.name == name);
                if let Some(callee) = callee.filter(is_new) {
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

/// Addresses of variables: the end of each state space so far.
struct AddressAllocator {
    shared: u64,
    dynamic_align: u64,
    local: u64,
    parameter_bytes: u64,
    parameters: Vec<(u32, u32)>,
}

impl Default for AddressAllocator {
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

impl AddressAllocator {
    /// Returns the addresses of the module's shared variables; none yet for those sized by the
    /// launch.
    fn shared_names<'a>(&mut self, tree: &Tree<'a>) -> Vec<(&'a str, Option<u64>)> {
        let shared = tree.variables.iter().filter(|it| it.space == Space::Shared);
        shared
            .map(|it| {
                if it.unsized_ {
                    self.dynamic_align = self.dynamic_align.max(it.align);
                    (it.name, None)
                } else {
                    (it.name, Some(self.allocate(it, false)))
                }
            })
            .collect()
    }

    fn allocate(&mut self, variable: &Variable<'_>, kernel_parameter: bool) -> u64 {
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
