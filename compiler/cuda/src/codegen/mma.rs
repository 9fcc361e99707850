//! MMA instructions of a warp: fragments, their loads, and `mma.sync`.

use super::Printer;
use crate::grid::{Operand, OperandLoad};
use tvmtune_ir::dag::{DType, TensorId};
use tvmtune_ir::poly::Poly;

impl Printer<'_> {
    /// Declares the operands that a thread keeps, and which thread of its warp it is.
    pub(super) fn fragments(&mut self) {
        let kernel = self.kernel;
        if kernel.fragments.is_empty() {
            return;
        }
        self.names.reserve("lane");
        self.line("const Index lane = Index(threadIdx.x) % 32;");
        for fragment in &kernel.fragments {
            let name = self.names.enter_text(&fragment.name);
            self.line(&format!("u32 {name}[{}][{}];", fragment.count, fragment.registers));
            self.fragments.push(name);
        }
    }

    pub(super) fn load_fragment(&mut self, fragment: usize, at: &Poly, operand: &Operand) {
        let to = format!("{}[{}]", self.fragments[fragment], self.poly(at).text);
        match operand.load {
            OperandLoad::Ldmatrix { transposed } => self.ldmatrix(&to, operand, transposed),
            OperandLoad::Elements => self.load_elements(&to, operand),
        }
    }

    /// Each lane gives the address of one row of 16 bytes.
    fn ldmatrix(&mut self, to: &str, operand: &Operand, transposed: bool) {
        let buffer = self.grid.buffer(operand.tensor);
        let per_row = 16 / buffer.dtype.bytes();
        let Operand { row_stride, k_stride, .. } = operand;
        let n = if operand.is_first { 4 } else { 2 };
        let lanes = match (operand.is_first, transposed) {
            (true, false) => format!("{row_stride} * (lane % 16) + {per_row} * (lane / 16)"),
            (true, true) => {
                format!("{k_stride} * (lane % 8 + 8 * (lane / 16)) + 8 * (lane / 8 % 2)")
            }
            (false, false) => format!("{row_stride} * (lane % 8) + {per_row} * (lane / 8 % 2)"),
            (false, true) => format!("{k_stride} * (lane % 16)"),
        };
        let base = self.poly(&operand.base).text;
        let from = self.names.buffer(operand.tensor);
        let form = if transposed { format!("{n}, true") } else { n.to_string() };
        self.line(&format!("load_matrices<{form}>({to}, &{from}[{base} + {lanes}]);"));
        if buffer.dtype == DType::F32 {
            self.line(&format!("round_to_tf32({to});"));
        }
    }

    /// Each lane packs its own elements.
    fn load_elements(&mut self, to: &str, operand: &Operand) {
        let buffer = self.grid.buffer(operand.tensor);
        let per_register = 4 / buffer.dtype.bytes() as i64;
        let Operand { row_stride, k_stride, .. } = operand;
        let from = self.names.buffer(operand.tensor).to_owned();
        let base = self.poly(&operand.base).text;
        let n_registers = if operand.is_first { 4 } else { 2 };
        for register in 0..n_registers {
            let (rows, steps) = match operand.is_first {
                true => (8 * (register % 2), 4 * per_register * (register / 2)),
                false => (0, 4 * per_register * register),
            };
            let element = |n: i64| {
                let row = format!("{row_stride} * (lane / 4 + {rows})");
                let k = format!("{k_stride} * ({per_register} * (lane % 4) + {})", steps + n);
                format!("{from}[{base} + {row} + {k}]")
            };
            let elements: Vec<String> = (0..per_register).map(element).collect();
            let pack = if buffer.dtype == DType::F32 { "to_tf32" } else { "pack" };
            self.line(&format!("{to}[{register}] = {pack}({});", elements.join(", ")));
        }
    }

    pub(super) fn mma(
        &mut self,
        tensor: TensorId,
        index: &[Vec<Poly>; 4],
        a: &(usize, Poly),
        b: &(usize, Poly),
        dtype: DType,
    ) {
        let (name, accumulator) = match dtype {
            DType::Bf16 => ("mma_m16n8k16_bf16", "f32"),
            DType::I8 => ("mma_m16n8k32_i8_i8", "i32"),
            DType::F32 => ("mma_m16n8k8_tf32", "f32"),
            _ => ("mma_m16n8k16_f16", "f32"),
        };
        let places: Vec<String> = index.iter().map(|it| self.element(tensor, it)).collect();
        let operand = |(fragment, at): &(usize, Poly)| {
            format!("{}[{}]", self.fragments[*fragment], self.poly(at).text)
        };
        let (a, b) = (operand(a), operand(b));
        let sum = self.names.enter_text("sum");
        self.open("");
        self.line(&format!("{accumulator} {sum}[4] = {{{}}};", places.join(", ")));
        self.line(&format!("{name}({sum}, {a}, {b});"));
        for (n, place) in places.iter().enumerate() {
            self.line(&format!("{place} = {sum}[{n}];"));
        }
        self.close();
        self.names.leave_text(&sum);
    }
}
