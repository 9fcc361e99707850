//! Tiles of a block: by its number, by the persistent tile loop, or by its stream-K work units.

use super::Printer;
use crate::grid::{BlockVar, Stmt, StreamK, Tiles, WorkUnit};
use tvmtune_ir::poly::{Poly, VarId};

impl Printer<'_> {
    /// Declares the variables of loops over blocks.
    pub(super) fn blocks(&mut self) {
        let kernel = self.kernel;
        self.delinearize("Index(blockIdx.x)", &kernel.blocks);
    }

    /// Declares the variables of loops by delinearizing a number.
    fn delinearize(&mut self, number: &str, vars: &[BlockVar]) {
        let names: Vec<String> = vars.iter().map(|it| self.names.enter(it.var, &it.name)).collect();
        for (n, name) in names.iter().enumerate() {
            if vars[n].extent.as_constant() == Some(1) {
                self.line(&format!("const Index {name} = 0;"));
                continue;
            }
            let mut text = number.to_owned();
            let inner = vars[n + 1..].iter().fold(Poly::constant(1), |n, it| n * it.extent.clone());
            if inner.as_constant() != Some(1) {
                text = format!("{text} / {}", self.poly(&inner).operand());
            }
            if n > 0 {
                text = format!("{text} % {}", self.poly(&vars[n].extent).operand());
            }
            if vars[n].is_reversed {
                let last = self.poly(&(vars[n].extent.clone() - Poly::constant(1))).text;
                text = format!("{last} - {text}");
            }
            self.line(&format!("const Index {name} = {text};"));
        }
    }

    /// Returns whether a loop is the persistent tile loop.
    pub(super) fn is_tile_loop(&self, var: VarId) -> bool {
        self.kernel.tiles.as_ref().is_some_and(|it| it.tile_loop == var)
    }

    /// Prints the persistent tile loop.
    pub(super) fn tiles(&mut self, body: &[Stmt]) {
        let Some(tiles) = &self.kernel.tiles else { return };
        let names = match &tiles.stream_k {
            None => self.open_tiles(tiles),
            Some(stream_k) => self.open_work_units(tiles, stream_k),
        };
        self.delinearize(&names[0], &tiles.vars);
        self.block(body);
        self.close();
        let work_unit_vars = tiles.work_unit_vars().into_iter().map(|it| it.0);
        let vars = tiles.vars.iter().map(|it| it.var).chain(work_unit_vars);
        vars.for_each(|it| self.names.leave(it));
        names.iter().for_each(|it| self.names.leave_text(it));
    }

    /// Opens a loop over tiles; returns the names it declares, that of the tile first.
    fn open_tiles(&mut self, tiles: &Tiles) -> Vec<String> {
        let name = self.names.enter_text("tile");
        let first = self.poly(&Poly::var(tiles.block)).text;
        let count = self.poly(&tiles.count()).operand();
        let stride = tiles.stride;
        self.open(&format!("for (Index {name} = {first}; {name} < {count}; {name} += {stride})"));
        vec![name]
    }

    /// Opens a loop over work units, or the tile to be fixed up; returns the names declared, that of
    /// the tile first.
    fn open_work_units(&mut self, tiles: &Tiles, stream_k: &StreamK) -> Vec<String> {
        let tile = self.names.enter_text("tile");
        let all = self.names.enter_text("work_units");
        let polys = [Poly::var(tiles.block), tiles.count(), stream_k.iterations.clone()];
        let [block, count, depth] = polys.map(|it| self.poly(&it).text);
        let stride = tiles.stride;
        self.line(&format!("const Shares<Index> {all}({block}, {stride}, {count}, {depth});"));
        match stream_k.work_unit {
            WorkUnit::PartialSums { first, end, .. } => {
                let part = self.names.enter_text("unit");
                let limit = format!("{all}.parts()");
                self.open(&format!("for (Index {part} = 0; {part} < {limit}; ++{part})"));
                self.line(&format!("const Index {tile} = {all}.tile({part});"));
                for (var, name) in [(first, "first"), (end, "end")] {
                    let variable = self.names.enter(var, name);
                    self.line(&format!("const Index {variable} = {all}.{name}({part});"));
                }
                vec![tile, all, part]
            }
            WorkUnit::FixUp { count } => {
                let parts = self.names.enter(count, "parts");
                self.open(&format!("if (const Index {parts} = {all}.joined())"));
                self.line(&format!("const Index {tile} = {all}.begun();"));
                vec![tile, all]
            }
        }
    }
}
