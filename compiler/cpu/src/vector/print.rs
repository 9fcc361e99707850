//! The text of vector code. Records of older releases identify artifacts by it: it must not change.
//!
//! ```text
//! phase tasks v9 in 0..p3
//!   r0 = 0
//!   loop v12 in 0..24
//!     r0 = fma(t0[p4 + 96*v9 + 4*v12].1, t1[64*v12].n, r0)
//! ```
//!
//! A memory access names its entry of the table, its byte offset, and its lane stride: `.1` is
//! uniform, `.n` contiguous, `.+s` strided by `s` bytes. `p3` is the parameter in entry 3.

use std::fmt::{self, Write};

use tvmtune_math::lane::Width;

use super::{
    Address, Base, Count, DataBound, DivOp, LaneStride, Linear, Mask, PrefetchHint, ScalarBits,
    Stmt, Storage, TableEntry, Value, VectorCode,
};

impl fmt::Display for VectorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lanes = match self.width {
            Width::Bits32 => "",
            Width::Bits64 => " in lanes of 64 bits",
        };
        writeln!(f, "kernel {} for {}{lanes}", self.name, self.isa.name())?;
        for (n, entry) in self.table.iter().enumerate() {
            match entry {
                TableEntry::Pointer { tensor, layout: None } => {
                    writeln!(f, "t{n}: tensor {}", tensor.0)?;
                }
                TableEntry::Pointer { tensor, layout: Some(it) } => {
                    writeln!(
                        f,
                        "t{n}: tensor {} split {:?} order {:?}",
                        tensor.0, it.splits, it.order
                    )?;
                }
                TableEntry::Workspace { bytes } => writeln!(f, "t{n}: shared {bytes} bytes")?,
                TableEntry::Param(poly) => writeln!(f, "p{n}: {poly}")?,
                TableEntry::Scalar(scalar, _) => writeln!(f, "s{n}: scalar {}", scalar.0)?,
            }
        }
        if !self.scratch_bytes.is_zero() {
            writeln!(f, "scratch: {} bytes", self.scratch_bytes)?;
        }
        for phase in &self.phases {
            f.write_str("phase")?;
            for (var, count) in &phase.tasks {
                write!(f, " v{} in 0..{count}", var.0)?;
            }
            f.write_char('\n')?;
            block(f, &phase.body, 1)?;
        }
        Ok(())
    }
}

fn block(f: &mut fmt::Formatter<'_>, stmts: &[Stmt], depth: usize) -> fmt::Result {
    for stmt in stmts {
        write!(f, "{:1$}", "", 2 * depth)?;
        match stmt {
            Stmt::Loop { var, count, body } => {
                writeln!(f, "loop v{} in 0..{count}", var.0)?;
                block(f, body, depth + 1)?;
            }
            Stmt::If { value, bound, then, otherwise } => {
                writeln!(f, "if {value} < {bound}")?;
                block(f, then, depth + 1)?;
                if !otherwise.is_empty() {
                    writeln!(f, "{:1$}else", "", 2 * depth)?;
                    block(f, otherwise, depth + 1)?;
                }
            }
            Stmt::IfAny { condition, then } => {
                writeln!(f, "if any {condition}")?;
                block(f, then, depth + 1)?;
            }
            Stmt::Choose { var, value, less, count, body } => {
                write!(f, "choose v{} = {value}", var.0)?;
                if *less != Linear::default() {
                    write!(f, " - ({less})")?;
                }
                writeln!(f, " in 0..{count}")?;
                block(f, body, depth + 1)?;
            }
            Stmt::Between { var, from, to, count, body } => {
                write!(f, "loop v{} in ", var.0)?;
                f.write_str("max(")?;
                for bound in from {
                    data_bound(f, bound)?;
                    f.write_str(", ")?;
                }
                f.write_str("0)..min(")?;
                for bound in to {
                    data_bound(f, bound)?;
                    f.write_str(", ")?;
                }
                writeln!(f, "{count})")?;
                block(f, body, depth + 1)?;
            }
            Stmt::Let { var, op, value, by } => {
                let op = if *op == DivOp::Div { "/" } else { "%" };
                writeln!(f, "v{} = ({value}) {op} {by}", var.0)?;
            }
            Stmt::Set { reg, value, mask } => {
                write!(f, "r{}", reg.0)?;
                masked(f, mask)?;
                writeln!(f, " = {value}")?;
            }
            Stmt::Store { address, lanes, storage, value, mask } => {
                element(f, address, *lanes, *storage)?;
                masked(f, mask)?;
                writeln!(f, " = {value}")?;
            }
            Stmt::Prefetch { address, hint } => {
                let hint = match hint {
                    PrefetchHint::Read => "",
                    PrefetchHint::ReadLater => ":later",
                };
                writeln!(f, "prefetch{hint} {address}")?;
            }
        }
    }
    Ok(())
}

fn data_bound(f: &mut fmt::Formatter<'_>, bound: &DataBound) -> fmt::Result {
    write!(f, "({}", bound.value)?;
    if bound.less != Linear::default() {
        write!(f, " - ({})", bound.less)?;
    }
    f.write_char(')')?;
    if bound.by == 1 { Ok(()) } else { write!(f, " / {}", bound.by) }
}

fn masked(f: &mut fmt::Formatter<'_>, mask: &Option<Mask>) -> fmt::Result {
    match mask {
        None => Ok(()),
        Some(Mask::First(count)) => write!(f, "{{{count}}}"),
        Some(Mask::Where(value)) => write!(f, "{{{value}}}"),
    }
}

fn element(
    f: &mut fmt::Formatter<'_>,
    address: &Address,
    lanes: LaneStride,
    storage: Storage,
) -> fmt::Result {
    write!(f, "{address}")?;
    match lanes {
        LaneStride::Uniform => f.write_str(".1")?,
        LaneStride::Contiguous => f.write_str(".n")?,
        LaneStride::Strided(bytes) => write!(f, ".+{bytes}")?,
    }
    if matches!(storage, Storage::Word | Storage::Long) {
        Ok(())
    } else {
        write!(f, ":{storage:?}")
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Count::Const(value) => write!(f, "{value}"),
            Count::Param(entry) => write!(f, "p{}", entry.0),
        }
    }
}

impl fmt::Display for Linear {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut between = "";
        if let Some(entry) = self.param {
            write!(f, "p{}", entry.0)?;
            between = " + ";
        }
        for (var, stride) in &self.strides {
            f.write_str(between)?;
            match stride {
                Count::Const(1) => {}
                stride => write!(f, "{stride}*")?,
            }
            write!(f, "v{}", var.0)?;
            between = " + ";
        }
        if self.constant != 0 || between.is_empty() {
            write!(f, "{between}{}", self.constant)?;
        }
        Ok(())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.base {
            Base::Table(entry) => write!(f, "t{}[{}]", entry.0, self.offset),
            Base::Scratch => write!(f, "scratch[{}]", self.offset),
        }
    }
}

/// Writes the bits of a splat: as a float where that is readable, else as an integer. Bits beyond the low
/// 32 are those of an `f64`.
fn number(f: &mut fmt::Formatter<'_>, bits: u64) -> fmt::Result {
    let Ok(narrow) = u32::try_from(bits) else {
        let value = f64::from_bits(bits);
        return match (1e-9..1e9).contains(&value.abs()) {
            true => write!(f, "{value:?}"),
            false => write!(f, "{bits:#x}"),
        };
    };
    let value = f32::from_bits(narrow);
    match bits {
        0 => f.write_str("0"),
        _ if value.is_infinite() || (1e-9..1e9).contains(&value.abs()) => write!(f, "{value:?}"),
        _ if bits < 1 << 16 => write!(f, "{bits}"),
        _ => write!(f, "{bits:#x}"),
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Splat(bits) => number(f, *bits),
            Value::Scalar(entry, ScalarBits::Low) => write!(f, "s{}", entry.0),
            Value::Scalar(entry, ScalarBits::HighWord) => write!(f, "high(s{})", entry.0),
            Value::Lanes(bits) => write!(f, "lanes {bits:#b}"),
            Value::Reg(reg) => write!(f, "r{}", reg.0),
            Value::Load { address, lanes, storage, mask } => {
                element(f, address, *lanes, *storage)?;
                masked(f, mask)
            }
            Value::Gather { address, index, mask, .. } => {
                write!(f, "{address}[{index}]")?;
                masked(f, mask)
            }
            Value::LoadAt { address, index, lanes, storage, mask } => {
                element(f, address, *lanes, *storage)?;
                write!(f, "[{index}]")?;
                masked(f, mask)
            }
            Value::Index { base, step } => write!(f, "index({base}, {step})"),
            Value::Unary(op, a) => write!(f, "{op:?}({a})"),
            Value::Binary(op, a, b) => write!(f, "{op:?}({a}, {b})"),
            Value::Fma(a, b, c) => write!(f, "fma({a}, {b}, {c})"),
            Value::Compare(op, a, b) => write!(f, "{op:?}({a}, {b})"),
            Value::Select { condition, then, otherwise } => {
                write!(f, "select({condition}, {then}, {otherwise})")
            }
            Value::Reduce(op, a) => write!(f, "reduce {op:?}({a})"),
        }
    }
}
