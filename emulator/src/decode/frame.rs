//! Frames of functions: where their registers, variables and instructions lie in a linked kernel.

use std::collections::BTreeMap;

use crate::code::{Move, Op};
use crate::parse::{Function, MAX_BYTES, Operand, ParseError, Space, Tree};
use crate::registers::{Class, Slot};
use crate::space::MODULE_WINDOW;

/// Addresses of the variables of a module: names with address, and the initial bytes of all.
#[derive(Default)]
pub(crate) struct Layout<'a> {
    addresses: BTreeMap<&'a str, u64>,
    pub(crate) bytes: Vec<u8>,
}

impl<'a> Layout<'a> {
    /// Lays out global and constant variables.
    ///
    /// # Errors
    /// If they have more bytes than an emulator should allocate.
    pub(crate) fn new(tree: &Tree<'a>) -> Result<Self, ParseError> {
        let mut layout = Self::default();
        for variable in &tree.variables {
            if matches!(variable.space, Space::Global | Space::Constant) {
                let at = layout.bytes.len().next_multiple_of(variable.align.max(1) as usize);
                layout.bytes.resize(at, 0);
                layout.bytes.extend(&variable.initial);
                layout.bytes.resize(at + variable.bytes as usize, 0);
                layout.addresses.insert(variable.name, MODULE_WINDOW + at as u64);
            }
            check_bytes(layout.bytes.len() as u64)?;
        }
        Ok(layout)
    }
}

/// Checks the size of a state space.
pub(super) fn check_bytes(bytes: u64) -> Result<(), ParseError> {
    if bytes > MAX_BYTES {
        let message = format!("variables of more than {MAX_BYTES} bytes in one state space");
        return Err(ParseError::new(1, message));
    }
    Ok(())
}

/// A function of a linked kernel: its registers, its variables and its code have fixed places.
pub(super) struct Frame<'s, 'a> {
    pub(super) tree: &'s Tree<'a>,
    pub(super) function: &'s Function<'a>,
    pub(super) layout: &'s Layout<'a>,
    /// The address of each variable in its space.
    pub(super) variables: Vec<u64>,
    /// The first rows of its registers, in the order of [`Class`].
    pub(super) first: [u32; 3],
    pub(super) first_inst: usize,
    pub(super) others: &'s BTreeMap<&'a str, FunctionLayout>,
    pub(super) shared: &'s BTreeMap<&'a str, u64>,
}

/// The code and the variables of a function that can be called.
pub(super) struct FunctionLayout {
    pub(super) first_inst: usize,
    pub(super) variables: Vec<u64>,
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

    /// Returns the address of a name.
    pub(super) fn address_of(&self, operand: &Operand<'_>) -> Result<u64, String> {
        match operand {
            Operand::Variable(n) => Ok(self.variables[*n]),
            Operand::Symbol(name) => {
                let found = self.layout.addresses.get(name).or_else(|| self.shared.get(name));
                found.copied().ok_or_else(|| format!("unknown name `{name}`"))
            }
            _ => Err("expected a name".to_owned()),
        }
    }

    /// Decodes `call (results), function, (parameters)`, with either list left out if empty.
    pub(super) fn call(&self, operands: &[Operand<'a>]) -> Result<Op, String> {
        let (results, name, parameters) = match operands {
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
            _ => return Err("calls of pointers are not known".to_owned()),
        };
        if name == "__assertfail" {
            return Ok(Op::Assert);
        }
        let callee = self.tree.functions.iter().find(|it| it.name == name && it.body.is_some());
        let (Some(callee), Some(target)) = (callee, self.others.get(name)) else {
            return Err(format!("the function `{name}` is not in the module"));
        };
        let moves = |actual: &[Operand<'_>], first: usize, into: bool| {
            actual
                .iter()
                .enumerate()
                .map(|(n, operand)| {
                    let Operand::Variable(variable) = operand else {
                        return Err("expected a parameter".to_owned());
                    };
                    let outside = self.variables[*variable] as u32;
                    let (Some(inside), Some(formal)) =
                        (target.variables.get(first + n), callee.variables.get(first + n))
                    else {
                        return Err(format!("`{name}` has fewer parameters"));
                    };
                    let (inside, bytes) = (*inside as u32, formal.bytes as u32);
                    let (from, to) = if into { (outside, inside) } else { (inside, outside) };
                    Ok(Move { from, to, bytes })
                })
                .collect::<Result<Vec<Move>, String>>()
        };
        Ok(Op::Call {
            target: target.first_inst,
            before: moves(parameters, callee.n_results, true)?,
            after: moves(results, 0, false)?,
        })
    }
}
