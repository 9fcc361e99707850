//! Inference of extents that nothing declares: an axis that indexes a dimension covers it.

use syn::{Block, Expr as Syntax, Stmt};

use super::signature::{ident, plain_ident};

/// Nesting beyond this is refused later, when the expression is read.
const MAX_NESTING: usize = 250;

/// The use of an axis alone as a subscript.
pub(super) struct AxisUse {
    /// Its position among the axes asked for.
    pub(super) axis: usize,
    pub(super) tensor: String,
    /// The position of the subscript, and how many there are.
    pub(super) position: usize,
    pub(super) rank: usize,
    pub(super) access: Access,
}

/// The access in which a subscript stands.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Access {
    /// `x[[..]]`, which must be in bounds.
    InBounds,
    /// `x.get([..])`.
    Checked,
}

/// Finds every such use in an expression; axes shadowed by an inner name have none there.
pub(super) fn uses(syntax: &Syntax, axes: &[String]) -> Vec<AxisUse> {
    let mut search = Search { axes: axes.to_vec(), found: Vec::new(), depth: 0 };
    search.expr(syntax);
    search.found
}

struct Search {
    /// Names of the axes; emptied while shadowed.
    axes: Vec<String>,
    found: Vec<AxisUse>,
    depth: usize,
}

impl Search {
    fn expr(&mut self, syntax: &Syntax) {
        if self.depth > MAX_NESTING {
            return;
        }
        self.depth += 1;
        self.visit(syntax);
        self.depth -= 1;
    }

    fn visit(&mut self, syntax: &Syntax) {
        match syntax {
            Syntax::Index(it) => self.subscripts(&it.expr, &it.index, Access::InBounds),
            Syntax::MethodCall(it) => {
                match it.args.first() {
                    Some(array) if it.method == "get" => {
                        self.subscripts(&it.receiver, array, Access::Checked);
                    }
                    _ => {
                        self.expr(&it.receiver);
                        it.args.iter().for_each(|it| self.expr(it));
                    }
                };
            }
            Syntax::Call(it) => it.args.iter().for_each(|it| self.expr(it)),
            Syntax::Binary(it) => {
                self.expr(&it.left);
                self.expr(&it.right);
            }
            Syntax::Unary(it) => self.expr(&it.expr),
            Syntax::Paren(it) => self.expr(&it.expr),
            Syntax::Group(it) => self.expr(&it.expr),
            Syntax::Cast(it) => self.expr(&it.expr),
            Syntax::If(it) => {
                self.expr(&it.cond);
                self.block(&it.then_branch);
                if let Some((_, otherwise)) = &it.else_branch {
                    self.expr(otherwise);
                }
            }
            Syntax::Block(it) => self.block(&it.block),
            Syntax::Closure(it) => {
                let outer = self.axes.clone();
                for name in it.inputs.iter().filter_map(plain_ident) {
                    self.shadow(&name.to_string());
                }
                self.expr(&it.body);
                self.axes = outer;
            }
            _ => {}
        }
    }

    fn block(&mut self, block: &Block) {
        let outer = self.axes.clone();
        for statement in &block.stmts {
            match statement {
                Stmt::Local(local) => {
                    if let Some(init) = &local.init {
                        self.expr(&init.expr);
                    }
                    if let Some(name) = plain_ident(&local.pat) {
                        self.shadow(&name.to_string());
                    }
                }
                Stmt::Expr(value, _) => self.expr(value),
                Stmt::Item(_) | Stmt::Macro(_) => {}
            }
        }
        self.axes = outer;
    }

    fn shadow(&mut self, name: &str) {
        for axis in self.axes.iter_mut().filter(|it| *it == name) {
            axis.clear();
        }
    }

    fn subscripts(&mut self, tensor: &Syntax, index: &Syntax, access: Access) {
        let (Some(tensor), Syntax::Array(array)) = (ident(tensor), index) else { return };
        for (position, subscript) in array.elems.iter().enumerate() {
            let axis = ident(subscript).and_then(|it| self.axes.iter().position(|axis| it == axis));
            let (tensor, rank) = (tensor.to_string(), array.elems.len());
            match axis {
                Some(axis) => self.found.push(AxisUse { axis, tensor, position, rank, access }),
                None => self.expr(subscript),
            }
        }
    }
}
