//! Matrix instructions of a warpgroup.

use std::collections::BTreeSet;

use super::Printer;
use crate::dag::{DType, TensorId};
use crate::grid::{Accumulators, Grid, SharedOperand, Stmt};

/// Rows after which chunks of a permuted buffer lie as in the first one.
const PERIOD: u64 = 8;

/// What the kernels need before they can be declared: headers, and the shapes they use.
pub(super) fn declarations(grid: &Grid) -> String {
    let mut shapes = BTreeSet::new();
    for stmt in grid.kernels.iter().flat_map(|it| &it.body) {
        stmt.walk(&mut |it| {
            if let Stmt::GroupMultiply { columns, dtype, .. } = it {
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

/// The elements of operands, as the instructions have them.
fn operand_type(dtype: DType) -> &'static str {
    if dtype == DType::F32 { "tf32" } else { dtype.name() }
}

impl Printer<'_> {
    pub(super) fn group_multiply(
        &mut self,
        accumulators: &Accumulators,
        columns: u32,
        operands: &[SharedOperand; 2],
        dtype: DType,
    ) {
        let Accumulators { tensor, base, half, pair, eight } = accumulators;
        let sum = self.names.buffer(*tensor);
        let element = super::element_type(self.grid.buffer(*tensor).dtype);
        let base = self.poly(base).text;
        let [a, b] = [&operands[0], &operands[1]].map(|it| self.shared_operand(it));
        // Integers have one form.
        let forms = match dtype.bytes() {
            2 => {
                let [a, b] = [&operands[0], &operands[1]].map(|it| u8::from(it.transposed));
                format!("<{a}, {b}>")
            }
            _ => String::new(),
        };
        let name = operand_type(dtype);
        let count = columns / 2;
        let call = format!(
            "wgmma_{name}{forms}(accumulators<{count}>([&](int n) -> {element}& {{ return {sum}[{base} + \
             n / 4 * {eight} + n / 2 % 2 * {half} + n % 2 * {pair}]; }}),"
        );
        self.line(&call);
        self.line(&format!("  {a},"));
        self.line(&format!("  {b}, true);"));
    }

    /// A batch of instructions.
    pub(super) fn matrices(&mut self, body: &[Stmt]) {
        if let [Stmt::GroupMultiply { accumulators, .. }, ..] = body {
            let sum = self.names.buffer(accumulators.tensor).to_owned();
            self.line(&format!("wgmma_hold({sum});"));
        }
        self.line("wgmma_fence();");
        self.block(body);
        self.line("wgmma_commit();");
    }

    /// The descriptor of an operand.
    fn shared_operand(&self, operand: &SharedOperand) -> String {
        let buffer = self.grid.buffer(operand.tensor);
        let row = u64::from(buffer.permuted.unwrap_or(128));
        let (name, at) = (self.names.buffer(operand.tensor), self.poly(&operand.base).text);
        let panel = operand.panel * buffer.dtype.bytes() as i64;
        let period = PERIOD * row;
        format!("wgmma_operand(shared_address(&{name}[{at}]), {panel}, {period}, SWIZZLE_{row})")
    }

    pub(super) fn wait_matrices(&mut self, batches: u32, sum: TensorId) {
        self.line(&format!("wgmma_wait<{batches}>();"));
        if batches == 0 {
            let sum = self.names.buffer(sum).to_owned();
            self.line(&format!("wgmma_hold({sum});"));
        }
    }
}
