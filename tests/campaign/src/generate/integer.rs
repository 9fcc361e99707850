//! Expressions of integer types.

use super::scope::{Scope, axes_of};
use super::{Flavor, Writer};

impl Writer<'_> {
    /// An expression of an integer type.
    pub(super) fn integer(&mut self, scope: &Scope, ty: &'static str, depth: u32) -> String {
        if depth == 0 || self.chance(0.2) {
            return self.integer_leaf(scope, ty);
        }
        if scope.reduces
            && self.chance(0.25)
            && let Some(text) = self.reduced_integer(scope, ty)
        {
            return text;
        }
        let (a, b) = (self.integer(scope, ty, depth - 1), self.integer(scope, ty, depth - 1));
        match self.random.below(12) {
            0..=2 => format!("({a} {} {b})", self.pick(&["+", "-", "*"])),
            3 => format!("({a} {} {b})", self.pick(&["/", "%"])),
            4 => format!("{}({a}, {b})", self.pick(&["min", "max"])),
            5 => format!("({a}).clamp(1, 100)"),
            6 => {
                let condition = self.condition(scope, 1);
                format!("(if {condition} {{ {a} }} else {{ {b} }})")
            }
            7 if !matches!(ty, "u8" | "u32") => {
                if self.chance(0.5) {
                    format!("({a}).abs()")
                } else {
                    format!("(-({a}))")
                }
            }
            8..=9 => format!("({a} {} {b})", self.pick(&["&", "|", "^", "<<", ">>"])),
            10 => format!("(!({a}) ^ {b})"),
            _ => {
                let from = self.pick(&["i32", "i8", "u8", "u32", "i64", "i32"]);
                let value = self.integer(scope, from, depth - 1);
                if from == ty { value } else { format!("(({value}) as {ty})") }
            }
        }
    }

    fn integer_leaf(&mut self, scope: &Scope, ty: &'static str) -> String {
        if self.chance(0.8)
            && let Some(text) = self.element(scope, ty)
        {
            return text;
        }
        let axes: Vec<String> = axes_of(scope, |_| true).into_iter().map(str::to_owned).collect();
        let scalars: Vec<String> =
            self.scalars.iter().filter(|it| it.1 == ty).map(|it| it.0.clone()).collect();
        match self.random.below(4) {
            0 if !axes.is_empty() => format!("({} as {ty})", axes[self.random.below(axes.len())]),
            1 if !scalars.is_empty() => scalars[self.random.below(scalars.len())].clone(),
            2 if self.flavor == Flavor::Extreme => {
                format!("{ty}::{}", self.pick(&["MIN", "MAX"]))
            }
            3 if self.flavor == Flavor::Exact && ty == "i32" => {
                let value = self.float_leaf(scope, "f32");
                format!("(({value}) as i32)")
            }
            _ => format!("{}{ty}", self.pick(&["0", "1", "2", "3", "7", "100"])),
        }
    }
}
