//! One statement while it is decoded: its modifiers, its operands, and the rows they become.

use std::collections::BTreeMap;

use super::frame::Frame;
use super::types::Type;
use crate::code::{Address, Flag, Op};
use crate::number::Rounding;
use crate::parse::{Operand, ParseError, Result, Special, Statement};
use crate::registers::{Class, Lane, Lanewise, Register, Slot, binary, quaternary, ternary, unary};

/// An opcode's base and modifiers; decoded modifiers are taken out.
pub(super) struct Opcode<'a> {
    pub(super) base: &'a str,
    parts: Vec<&'a str>,
}

impl<'a> Opcode<'a> {
    fn new(text: &'a str) -> Self {
        let mut parts = text.split('.');
        let base = parts.next().unwrap_or("");
        Self { base, parts: parts.collect() }
    }

    /// Takes a modifier out, if it is there.
    pub(super) fn take(&mut self, part: &str) -> bool {
        let found = self.parts.iter().position(|it| *it == part);
        found.map(|at| self.parts.remove(at)).is_some()
    }

    /// Takes out the first of some modifiers.
    pub(super) fn take_any(&mut self, of: &[&'static str]) -> Option<&'static str> {
        let at = self.parts.iter().position(|it| of.contains(it))?;
        let part = self.parts.remove(at);
        of.iter().copied().find(|it| *it == part)
    }

    /// Takes out the first modifier that begins so.
    pub(super) fn take_prefix(&mut self, prefix: &str) -> Option<&'a str> {
        let at = self.parts.iter().position(|it| it.starts_with(prefix))?;
        Some(self.parts.remove(at))
    }

    /// Drops the remaining modifiers, which are hints.
    pub(super) fn clear(&mut self) {
        self.parts.clear();
    }

    pub(super) fn has(&self, part: &str) -> bool {
        self.parts.contains(&part)
    }

    /// Takes out the next type.
    pub(super) fn take_type(&mut self) -> Option<Type> {
        let at = self.parts.iter().position(|it| Type::parse(it).is_some())?;
        Type::parse(self.parts.remove(at))
    }
}

/// Lanewise of a kernel that no instruction writes: constants, and what the machine sets.
#[derive(Default)]
pub(crate) struct RegisterAllocator {
    pub(crate) constants: BTreeMap<(Class, u64), Slot>,
    pub(crate) specials: BTreeMap<(Special, Class), Slot>,
    carry: Option<Slot>,
    /// Lanewise in each file so far.
    pub(crate) n_predicates: u32,
    pub(crate) n_words: u32,
    pub(crate) n_doubles: u32,
}

impl RegisterAllocator {
    pub(crate) fn allocate(&mut self, class: Class) -> Slot {
        let count = match class {
            Class::Predicate => &mut self.n_predicates,
            Class::Word => &mut self.n_words,
            Class::Double => &mut self.n_doubles,
        };
        *count += 1;
        *count - 1
    }
}

/// A statement that is decoded, in its function's frame.
pub(super) struct Site<'s, 'a> {
    pub(super) opcode: Opcode<'a>,
    pub(super) operands: &'s [Operand<'a>],
    pub(super) frame: &'s Frame<'s, 'a>,
    rows: &'s mut RegisterAllocator,
    statement: &'s Statement<'a>,
}

impl<'s, 'a> Site<'s, 'a> {
    /// Returns the bytes of a load that are used, a bit each, if not all of them.
    pub(super) fn used(&self) -> Option<u32> {
        self.statement.used
    }

    pub(super) fn new(
        statement: &'s Statement<'a>,
        frame: &'s Frame<'s, 'a>,
        rows: &'s mut RegisterAllocator,
    ) -> Self {
        let opcode = Opcode::new(statement.opcode);
        Self { opcode, operands: &statement.operands, frame, rows, statement }
    }

    pub(super) fn error(&self, message: impl std::fmt::Display) -> ParseError {
        ParseError::new(self.statement.line, format!("`{}`: {message}", self.statement.opcode))
    }

    /// After decoding: that no modifier was left out.
    pub(super) fn finish(&self) -> Result<()> {
        match self.opcode.parts.first() {
            None => Ok(()),
            Some(part) => Err(self.error(format!("unknown modifier `.{part}`"))),
        }
    }

    /// The last type of the opcode: that of the operands, where there are two.
    pub(super) fn type_(&self) -> Result<Type> {
        let found = self.opcode.parts.iter().rev().find_map(|it| Type::parse(it));
        found.ok_or_else(|| self.error("no type"))
    }

    /// Takes the next type out.
    pub(super) fn take_type(&mut self) -> Result<Type> {
        self.opcode.take_type().ok_or_else(|| self.error("no type"))
    }

    /// Takes the rounding of a floating-point result out.
    pub(super) fn take_rounding(&mut self) -> Option<Rounding> {
        Some(match self.opcode.take_any(&["rn", "rz", "rm", "rp", "rna"])? {
            "rn" => Rounding::Nearest,
            "rz" => Rounding::Zero,
            "rm" => Rounding::Down,
            "rp" => Rounding::Up,
            _ => Rounding::NearestAway,
        })
    }

    /// Takes modifiers out without which no form is known.
    pub(super) fn require(&mut self, parts: &[&str]) -> Result<()> {
        match parts.iter().find(|it| !self.opcode.take(it)) {
            Some(part) => Err(self.error(format!("only the form with `.{part}` is known"))),
            None => Ok(()),
        }
    }

    pub(super) fn operand(&self, n: usize) -> Result<&'s Operand<'a>> {
        self.operands.get(n).ok_or_else(|| self.error(format!("operand {n} is missing")))
    }

    /// The row of a source operand.
    pub(super) fn source(&mut self, class: Class, operand: &Operand<'a>) -> Result<Slot> {
        let value = match operand {
            Operand::Register(found, slot) if *found == class => {
                return Ok(self.frame.slot(class, *slot));
            }
            Operand::Special(special) => return Ok(self.special(*special, class)),
            Operand::Number(value) => *value,
            Operand::Variable(_) | Operand::Symbol(_) => {
                self.frame.address_of(operand).map_err(|it| self.error(it))?
            }
            _ => return Err(self.error(format!("expected a {} operand", name_of(class)))),
        };
        let value = if class == Class::Word { value & 0xFFFF_FFFF } else { value };
        if let Some(slot) = self.rows.constants.get(&(class, value)) {
            return Ok(*slot);
        }
        let slot = self.rows.allocate(class);
        self.rows.constants.insert((class, value), slot);
        Ok(slot)
    }

    fn special(&mut self, special: Special, class: Class) -> Slot {
        if let Some(slot) = self.rows.specials.get(&(special, class)) {
            return *slot;
        }
        let slot = self.rows.allocate(class);
        self.rows.specials.insert((special, class), slot);
        slot
    }

    /// The predicate that carries go through.
    pub(super) fn carry(&mut self) -> Slot {
        if let Some(slot) = self.rows.carry {
            return slot;
        }
        let slot = self.rows.allocate(Class::Predicate);
        self.rows.carry = Some(slot);
        slot
    }

    /// A source operand of whatever file it is in; `class` for numbers.
    pub(super) fn any(&mut self, class: Class, operand: &Operand<'a>) -> Result<Register> {
        let class = match operand {
            Operand::Register(found, _) => *found,
            _ => class,
        };
        Ok(Register { class, slot: self.source(class, operand)? })
    }

    /// The row that a result goes to.
    pub(super) fn destination(&mut self, class: Class, operand: &Operand<'a>) -> Result<Slot> {
        match operand {
            Operand::Register(found, slot) if *found == class => Ok(self.frame.slot(class, *slot)),
            // A row that is never read.
            Operand::Sink => Ok(self.rows.allocate(class)),
            _ => Err(self.error(format!("expected a {} destination", name_of(class)))),
        }
    }

    /// A destination of whatever file it is in.
    pub(super) fn any_destination(&mut self, class: Class, to: &Operand<'a>) -> Result<Register> {
        let class = match to {
            Operand::Register(found, _) => *found,
            _ => class,
        };
        Ok(Register { class, slot: self.destination(class, to)? })
    }

    /// A predicate or a negated one.
    pub(super) fn flag(&mut self, operand: &Operand<'a>) -> Result<Flag> {
        match operand {
            Operand::Not(slot) => {
                Ok(Flag { slot: self.frame.slot(Class::Predicate, *slot), negated: true })
            }
            // 0 and 1 are rows whose lanes all agree.
            Operand::Number(value) => Ok(Flag {
                slot: self.source(Class::Predicate, &Operand::Number(u64::from(*value != 0)))?,
                negated: false,
            }),
            _ => Ok(Flag { slot: self.source(Class::Predicate, operand)?, negated: false }),
        }
    }

    /// `[base + offset]`, without coordinates.
    pub(super) fn address(&mut self, operand: &Operand<'a>) -> Result<Address> {
        let Operand::Address(base, offset, coordinates) = operand else {
            return Err(self.error("expected an address"));
        };
        if !coordinates.is_empty() {
            return Err(self.error("coordinates in an address"));
        }
        Ok(Address { base: self.any(Class::Double, base)?, offset: *offset })
    }

    /// The rows of source operands.
    pub(super) fn sources(&mut self, class: Class, from: &[Operand<'a>]) -> Result<Vec<Slot>> {
        from.iter().map(|it| self.source(class, it)).collect()
    }

    /// The rows of destinations.
    pub(super) fn destinations(&mut self, class: Class, to: &[Operand<'a>]) -> Result<Vec<Slot>> {
        to.iter().map(|it| self.destination(class, it)).collect()
    }

    /// Source operands of whatever file each is in.
    pub(super) fn any_of_each(
        &mut self,
        class: Class,
        from: &[Operand<'a>],
    ) -> Result<Vec<Register>> {
        from.iter().map(|it| self.any(class, it)).collect()
    }

    /// Destinations of whatever file each is in.
    pub(super) fn any_destination_of_each(
        &mut self,
        class: Class,
        to: &[Operand<'a>],
    ) -> Result<Vec<Register>> {
        to.iter().map(|it| self.any_destination(class, it)).collect()
    }

    /// The parts of a vector, or the operand itself.
    pub(super) fn parts(operand: &'s Operand<'a>) -> &'s [Operand<'a>] {
        match operand {
            Operand::Vector(parts) => parts,
            _ => std::slice::from_ref(operand),
        }
    }

    /// Lanewise for a destination and operands of given files.
    pub(super) fn rows(&mut self, rows: Lanewise, to: Class, from: &[Class]) -> Result<Op> {
        if self.operands.len() != from.len() + 1 {
            return Err(self.error(format!("expected {} operands", from.len() + 1)));
        }
        let mut slots = [0; 5];
        let operands = self.operands;
        slots[0] = self.destination(to, &operands[0])?;
        for (n, class) in from.iter().enumerate() {
            slots[n + 1] = match class {
                Class::Predicate => self.flag(&operands[n + 1])?.slot,
                _ => self.source(*class, &operands[n + 1])?,
            };
        }
        Ok(Op::Lanewise(rows, slots))
    }

    pub(super) fn unary<A: Lane, R: Lane>(
        &mut self,
        f: impl Fn(A) -> R + Send + Sync + 'static,
    ) -> Result<Op> {
        self.rows(unary(f), R::CLASS, &[A::CLASS])
    }

    pub(super) fn binary<A: Lane, B: Lane, R: Lane>(
        &mut self,
        f: impl Fn(A, B) -> R + Send + Sync + 'static,
    ) -> Result<Op> {
        self.rows(binary(f), R::CLASS, &[A::CLASS, B::CLASS])
    }

    pub(super) fn ternary<A: Lane, B: Lane, C: Lane, R: Lane>(
        &mut self,
        f: impl Fn(A, B, C) -> R + Send + Sync + 'static,
    ) -> Result<Op> {
        self.rows(ternary(f), R::CLASS, &[A::CLASS, B::CLASS, C::CLASS])
    }

    pub(super) fn quaternary<A: Lane, B: Lane, C: Lane, D: Lane, R: Lane>(
        &mut self,
        f: impl Fn(A, B, C, D) -> R + Send + Sync + 'static,
    ) -> Result<Op> {
        self.rows(quaternary(f), R::CLASS, &[A::CLASS, B::CLASS, C::CLASS, D::CLASS])
    }

    /// A number that must be written in the instruction.
    pub(super) fn immediate(&self, n: usize) -> Result<u64> {
        match self.operand(n)? {
            Operand::Number(value) => Ok(*value),
            _ => Err(self.error(format!("operand {n} must be a number"))),
        }
    }
}

fn name_of(class: Class) -> &'static str {
    match class {
        Class::Predicate => "predicate",
        Class::Word => "32-bit",
        Class::Double => "64-bit",
    }
}
