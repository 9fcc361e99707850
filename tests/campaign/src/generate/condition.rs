//! Conditions: comparisons of indices and numbers, and what is made of them.

use super::scope::{Scope, axes_of};
use super::{Flavor, Writer};

impl Writer<'_> {
    /// An expression of type `bool`.
    pub(super) fn condition(&mut self, scope: &Scope, depth: u32) -> String {
        if depth > 0 && self.chance(0.35) {
            let (a, b) = (self.condition(scope, depth - 1), self.condition(scope, depth - 1));
            return match self.random.below(4) {
                0 => format!("!({a})"),
                1..=2 => format!("({a} && {b})"),
                _ => format!("({a} || {b})"),
            };
        }
        let operator = self.pick(&["==", "!=", "<", "<=", ">", ">="]);
        let axes: Vec<String> = axes_of(scope, |_| true).into_iter().map(str::to_owned).collect();
        if !axes.is_empty() && self.chance(0.5) {
            let a = axes[self.random.below(axes.len())].clone();
            let b = axes[self.random.below(axes.len())].clone();
            return match self.random.below(5) {
                0 => format!("{a} {operator} {}", self.random.below(20)),
                // A window at the end of an axis, as of the last tokens.
                3 => {
                    let axis = scope.axes[self.random.below(scope.axes.len())].clone();
                    let (room, end) = (self.random.below(20), self.dims.value(&axis.extent));
                    format!("{} + {room} {operator} {end}", axis.name)
                }
                1 => format!(
                    "{a} % {} {operator} {}",
                    2 + self.random.below(3),
                    self.random.below(3)
                ),
                2 => format!("{a} + {} {operator} {b}", self.random.below(3)),
                _ => format!("{a} {operator} {b}"),
            };
        }
        if self.chance(0.2)
            && let Some(text) = self.element(scope, "bool")
        {
            return text;
        }
        // Comparisons of near numbers differ where these do, so smooth programs compare integers.
        if self.flavor != Flavor::Smooth && self.chance(0.6) {
            let (a, b) = (self.float_leaf(scope, "f32"), self.float_leaf(scope, "f32"));
            return format!("({a}) {operator} ({b})");
        }
        let a = self.integer(scope, "i32", 0);
        let b = self.integer(scope, "i32", 0);
        format!("({a}) {operator} ({b})")
    }
}
