//! Statements as CUDA C++.

use super::Printer;
use super::expr::{self, reducer_type};
use crate::grid::{Stmt, WARP};
use tvmtune_ir::dag::{DType, Expr, Reducer, TensorId};
use tvmtune_ir::poly::{Poly, VarId};
use tvmtune_schedule::LoopKind;
use tvmtune_schedule::nest::Guard;
use tvmtune_schedule::print::Text;

impl Printer<'_> {
    pub(super) fn block(&mut self, body: &[Stmt]) {
        for stmt in body {
            self.stmt(stmt);
        }
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::For { var, name, extent, kind, body } => match (kind, body.as_slice()) {
                (_, body) if self.is_tile_loop(*var) => self.tiles(body),
                (LoopKind::Vectorized, [inner]) if self.vectorized(*var, extent, inner) => {}
                _ => self.for_loop(*var, name, extent, *kind, body),
            },
            Stmt::Thread(none) => match *none {},
            Stmt::If { guards, body } => {
                let condition = self.condition(guards);
                self.open(&format!("if ({condition})"));
                self.block(body);
                self.close();
            }
            Stmt::Store { tensor, index, value }
                if self.in_cp_async && self.cp_async_element(*tensor, index, value) => {}
            Stmt::Store { tensor, index, value } => {
                let (place, value) = (self.element(*tensor, index), self.expr(value).text);
                self.line(&format!("{place} = {value};"));
            }
            Stmt::Update { tensor, index, reducer, value } => {
                self.update(*tensor, index, *reducer, value);
            }
            Stmt::AllReduce { tensor, index, reducer, range } => {
                self.all_reduce(*tensor, index, *reducer, *range);
            }
            Stmt::TransposeQuad { tensor, is_converged, is_ordered } => {
                let row = self.names.buffer(*tensor);
                self.line(&format!("quad_transpose<{is_converged}, {is_ordered}>({row});"));
            }
            Stmt::CpAsync { body } => {
                self.in_cp_async = true;
                self.block(body);
                self.in_cp_async = false;
            }
            Stmt::LoadFragment { fragment, at, operand } => {
                self.load_fragment(*fragment, at, operand);
            }
            Stmt::Mma { tensor, index, a, b, dtype } => {
                self.mma(*tensor, index, a, b, *dtype);
            }
            Stmt::Wgmma { accumulators, columns, a, b, dtype } => {
                self.wgmma(accumulators, *columns, (a, b), *dtype);
            }
            Stmt::WgmmaGroup { body } => self.wgmma_group(body),
            Stmt::WgmmaWait { groups, sum } => self.wgmma_wait(*groups, *sum),
            Stmt::TmaLoad { tensor_map, position, coordinates, pipeline } => {
                self.tma_load(*tensor_map, position, coordinates, *pipeline);
            }
            Stmt::ProducerAcquire { pipeline } => self.producer_acquire(*pipeline),
            Stmt::ConsumerWait { pipeline } => self.consumer_wait(*pipeline),
            Stmt::ConsumerRelease { pipeline, stage } => self.consumer_release(*pipeline, *stage),
            Stmt::AdvanceStage { pipeline } => self.advance_stage(*pipeline),
            Stmt::FenceProxyAsync => self.line("fence_async();"),
            Stmt::CpAsyncCommit => self.line("copy_async_commit();"),
            Stmt::CpAsyncWait { groups } => self.line(&format!("copy_async_wait<{groups}>();")),
            Stmt::Barrier { range } if *range <= WARP => self.line("__syncwarp();"),
            Stmt::Barrier { .. } if !self.kernel.producer.is_empty() => {
                // The producer goes its own way.
                self.line(&format!("barrier_wait<1, {}>();", self.kernel.threads));
            }
            Stmt::Barrier { .. } => self.line("__syncthreads();"),
        }
    }

    fn all_reduce(&mut self, tensor: TensorId, index: &[Poly], reducer: Reducer, range: u32) {
        let (place, reducer) = (self.element(tensor, index), reducer_type(reducer));
        let call = if range <= WARP {
            format!("warp_reduce<{reducer}, {range}>({place})")
        } else {
            let element = super::element_type(self.grid.buffer(tensor).dtype);
            let partials = self.kernel.partials.unwrap_or(0);
            format!(
                "group_reduce<{reducer}, {range}>({place}, \
                 reinterpret_cast<{element}*>(shared + {partials}))"
            )
        };
        self.line(&format!("{place} = {call};"));
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
