//! WGMMA instructions: descriptors, register operands, groups and waits.

use std::collections::BTreeSet;

use super::Printer;
use crate::grid::{Accumulators, FirstOperand, Grid, RegisterOperand, SharedOperand, Stmt};
use tvmtune_ir::dag::{DType, TensorId};
use tvmtune_ir::poly::Poly;
use tvmtune_schedule::nest::Statement;

/// Rows after which a swizzle repeats.
const PERIOD: u64 = 8;

/// Declares the instruction shapes that kernels use.
pub(super) fn declarations(grid: &Grid) -> String {
    let mut shapes = BTreeSet::new();
    for stmt in grid.body.iter().flat_map(|it| &it.body) {
        stmt.walk(&mut |it| {
            if let Stmt::Wgmma { columns, dtype, .. } = it {
                shapes.insert((operand_type(*dtype), *columns));
            }
        });
    }
    let mut text = String::new();
    if !shapes.is_empty() {
        text.push_str("#include \"tvmtune/wgmma.cuh\"\n\n");
    }
    for (element, columns) in shapes {
        text.push_str(&format!("TVMTUNE_WGMMA({element}, {columns})\n"));
    }
    text
}

/// Returns the element type of operands, as instructions name it.
fn operand_type(dtype: DType) -> &'static str {
    if dtype == DType::F32 { "tf32" } else { dtype.name() }
}

impl Printer<'_> {
    pub(super) fn wgmma(
        &mut self,
        accumulators: &Accumulators,
        columns: u32,
        (a, b): (&FirstOperand, &SharedOperand),
        dtype: DType,
    ) {
        let Accumulators { tensor, base, half, pair, eight } = accumulators;
        let sum = self.names.buffer(*tensor);
        let element = super::element_type(self.grid.buffer(*tensor).dtype);
        let base = self.poly(base).text;
        let (first, transposed) = match a {
            FirstOperand::Shared(it) => (self.shared_operand(it), it.transposed),
            FirstOperand::Registers(_) => {
                (self.register_operands.pop_front().unwrap_or_default(), false)
            }
        };
        let second = self.shared_operand(b);
        // Integers have one form.
        let forms = match dtype.bytes() {
            2 => format!("<{}, {}>", u8::from(transposed), u8::from(b.transposed)),
            _ => String::new(),
        };
        let name = operand_type(dtype);
        let count = columns / 2;
        let call = format!(
            "wgmma_{name}{forms}(accumulators<{count}>([&](int n) -> {element}& {{ return {sum}[{base} + \
             n / 4 * {eight} + n / 2 % 2 * {half} + n % 2 * {pair}]; }}),"
        );
        self.line(&call);
        self.line(&format!("  {first},"));
        self.line(&format!("  {second}, true);"));
    }

    /// Prints a group of instructions, between fence and commit.
    pub(super) fn wgmma_group(&mut self, body: &[Stmt]) {
        let parts = self.pack_register_operands(body);
        if let [Stmt::Wgmma { accumulators, .. }, ..] = body {
            let sum = self.names.buffer(accumulators.tensor).to_owned();
            self.line(&format!("wgmma_hold({sum});"));
        }
        self.line("wgmma_fence();");
        self.block(body);
        self.line("wgmma_commit();");
        if let Some(parts) = parts {
            self.close();
            self.names.leave_text(&parts);
        }
    }

    /// Packs the register operands of a group, before its fence. Opens a scope for them, and returns
    /// their name.
    fn pack_register_operands(&mut self, body: &[Stmt]) -> Option<String> {
        let operand = |it: &Stmt| match it {
            Stmt::Wgmma { a, .. } => match &**a {
                FirstOperand::Registers(it) => Some(it.clone()),
                FirstOperand::Shared(_) => None,
            },
            _ => None,
        };
        let mut operands: Vec<RegisterOperand> = Vec::new();
        let mut which = Vec::new();
        for it in body.iter().filter_map(operand) {
            let known = operands.iter().position(|other| *other == it);
            which.push(known.unwrap_or(operands.len()));
            if known.is_none() {
                operands.push(it);
            }
        }
        let name = self.names.buffer(operands.first()?.tensor).to_owned();
        let parts = self.names.enter_text(&format!("{name}_part"));
        self.open("");
        self.line(&format!("u32 {parts}[{}][4];", operands.len()));
        for (n, operand) in operands.iter().enumerate() {
            let RegisterOperand { base, half, far, pair, .. } = operand;
            for register in 0..4 {
                let first = base.clone() + Poly::constant(register % 2 * half + register / 2 * far);
                let [low, high] = [0, *pair].map(|it| {
                    let at = self.poly(&(first.clone() + Poly::constant(it)));
                    format!("{name}[{}]", at.text)
                });
                self.line(&format!("{parts}[{n}][{register}] = pack({low}, {high});"));
            }
        }
        self.line(&format!("wgmma_hold({parts});"));
        self.register_operands = which.into_iter().map(|it| format!("{parts}[{it}]")).collect();
        Some(parts)
    }

    /// Returns the matrix descriptor of an operand.
    fn shared_operand(&self, operand: &SharedOperand) -> String {
        let buffer = self.grid.buffer(operand.tensor);
        let row = u64::from(buffer.scope.swizzle().unwrap_or(128));
        let (name, at) = (self.names.buffer(operand.tensor), self.poly(&operand.base).text);
        let panel = operand.panel * buffer.dtype.bytes() as i64;
        let period = PERIOD * row;
        format!("wgmma_operand(shared_address(&{name}[{at}]), {panel}, {period}, SWIZZLE_{row})")
    }

    pub(super) fn wgmma_wait(&mut self, groups: u32, sum: TensorId) {
        self.line(&format!("wgmma_wait<{groups}>();"));
        if groups == 0 {
            let sum = self.names.buffer(sum).to_owned();
            self.line(&format!("wgmma_hold({sum});"));
        }
    }
}
