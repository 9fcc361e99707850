//! Statements as CUDA C++.

use super::Printer;
use super::expr::{self, Text, reducer_type};
use crate::grid::{LoopKind, Stmt, WARP};
use tvmtune_ir::dag::{DType, Expr, Reducer, TensorId};
use tvmtune_ir::poly::{Poly, VarId};
use tvmtune_schedule::nest::Guard;

impl Printer<'_> {
    pub(super) fn block(&mut self, body: &[Stmt]) {
        for stmt in body {
            self.stmt(stmt);
        }
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::For { var, name, extent, kind, body } => match (kind, body.as_slice()) {
                (_, body) if self.is_over_tiles(*var) => self.tiles(body),
                (LoopKind::Vectorized, [inner]) if self.vectorized(*var, extent, inner) => {}
                _ => self.for_loop(*var, name, extent, *kind, body),
            },
            Stmt::Thread { .. } => unreachable!("threads were bound"),
            Stmt::If { guards, body } => {
                let condition = self.condition(guards);
                self.open(&format!("if ({condition})"));
                self.block(body);
                self.close();
            }
            Stmt::Store { tensor, index, value }
                if self.asynchronous && self.copies_async(*tensor, index, value) => {}
            Stmt::Store { tensor, index, value } => {
                let (place, value) = (self.element(*tensor, index), self.expr(value).text);
                self.line(&format!("{place} = {value};"));
            }
            Stmt::Update { tensor, index, reducer, value } => {
                self.update(*tensor, index, *reducer, value);
            }
            Stmt::Combine { tensor, index, reducer, range } => {
                let (place, reducer) = (self.element(*tensor, index), reducer_type(*reducer));
                let call = if *range <= WARP {
                    format!("warp_reduce<{reducer}, {range}>({place})")
                } else {
                    let element = super::element_type(self.grid.buffer(*tensor).dtype);
                    let partials = self.kernel.partials.unwrap_or(0);
                    format!(
                        "group_reduce<{reducer}, {range}>({place}, \
                         reinterpret_cast<{element}*>(shared + {partials}))"
                    )
                };
                self.line(&format!("{place} = {call};"));
            }
            Stmt::Async { body } => {
                self.asynchronous = true;
                self.block(body);
                self.asynchronous = false;
            }
            Stmt::LoadFragment { fragment, at, operand } => {
                self.load_fragment(*fragment, at, operand);
            }
            Stmt::Multiply { tensor, index, a, b, dtype } => {
                self.multiply(*tensor, index, a, b, *dtype);
            }
            Stmt::GroupMultiply { accumulators, columns, a, b, dtype } => {
                self.group_multiply(accumulators, *columns, (a, b), *dtype);
            }
            Stmt::Matrices { body } => self.matrices(body),
            Stmt::WaitMatrices { batches, sum } => self.wait_matrices(*batches, *sum),
            Stmt::CopyBox { map, position, coordinates, ring } => {
                self.copy_box(*map, position, coordinates, *ring);
            }
            Stmt::WaitEmpty { ring } => self.wait_empty(*ring),
            Stmt::WaitFull { ring } => self.wait_full(*ring),
            Stmt::Release { ring, before } => self.release(*ring, *before),
            Stmt::Advance { ring } => self.advance(*ring),
            Stmt::FenceAsync => self.line("fence_async();"),
            Stmt::Commit => self.line("copy_async_commit();"),
            Stmt::Wait { groups } => self.line(&format!("copy_async_wait<{groups}>();")),
            Stmt::Sync { range } if *range <= WARP => self.line("__syncwarp();"),
            Stmt::Sync { .. } if !self.kernel.feeder.is_empty() => {
                // The feeder goes its own way.
                self.line(&format!("barrier_wait<1, {}>();", self.kernel.threads));
            }
            Stmt::Sync { .. } => self.line("__syncthreads();"),
        }
    }

    pub(super) fn update(
        &mut self,
        tensor: TensorId,
        index: &[Poly],
        reducer: Reducer,
        value: &Expr,
    ) {
        let (place, value) = (self.element(tensor, index), self.expr(value));
        let dtype = self.grid.buffer(tensor).dtype;
        let small = matches!(dtype, DType::F16 | DType::Bf16);
        debug_assert!(!small, "sums have the type that they are computed in");
        let line = match reducer {
            Reducer::Sum if dtype.is_float() => format!("{place} += {};", value.text),
            Reducer::Prod if dtype.is_float() => format!("{place} *= {};", value.operand()),
            _ => {
                let old = Text::atom(place.clone());
                format!("{place} = {};", expr::binary(reducer.op(), &old, &value, dtype).text)
            }
        };
        self.line(&line);
    }

    fn for_loop(&mut self, var: VarId, name: &str, extent: &Poly, kind: LoopKind, body: &[Stmt]) {
        let count = self.poly(extent).operand();
        if let Some(pragma) = self.pragma(var, extent, kind, body) {
            self.line(&pragma);
        }
        let name = self.names.enter(var, name);
        self.open(&format!("for (Index {name} = 0; {name} < {count}; ++{name})"));
        self.block(body);
        self.close();
        self.names.leave(var);
    }

    pub(super) fn condition(&self, guards: &[Guard]) -> String {
        let guard = |it: &Guard| {
            format!("{} < {}", self.poly(&it.value).operand(), self.poly(&it.bound).operand())
        };
        guards.iter().map(guard).collect::<Vec<_>>().join(" && ")
    }
}
