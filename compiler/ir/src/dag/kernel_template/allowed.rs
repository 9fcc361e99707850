//! The search for values of knobs that satisfy constraints, for an author whose first ones do not.

use super::{Constraint, KernelTemplate, LaunchExpr};

/// The most values of knobs that are tried.
const MAX_TRIED: usize = 1 << 14;

/// The end of a search for values of the knobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Values that satisfy all of the constraints; those listed first where there is a choice.
    Values(Vec<u64>),
    /// No values do.
    Nothing,
    /// There are too many values to know.
    Unknown,
}

impl KernelTemplate {
    /// Searches values of the knobs that satisfy these constraints.
    pub fn find_allowed(&self, constraints: &[Constraint]) -> Found {
        let mut search = Search { template: self, constraints, n_tried: 0, values: Vec::new() };
        match search.extend() {
            Some(true) => Found::Values(search.values),
            Some(false) => Found::Nothing,
            None => Found::Unknown,
        }
    }
}

struct Search<'a> {
    template: &'a KernelTemplate,
    constraints: &'a [Constraint],
    n_tried: usize,
    /// Those of the first knobs.
    values: Vec<u64>,
}

impl Search<'_> {
    /// Finds values of the knobs that have none yet; `None` where there are too many.
    fn extend(&mut self) -> Option<bool> {
        let n_set = self.values.len();
        let decided = |it: &&Constraint| it.n_knobs() == n_set;
        if !self.constraints.iter().filter(decided).all(|it| it.holds(&self.values)) {
            return Some(false);
        }
        let Some(knob) = self.template.knobs.get(n_set) else { return Some(true) };
        for value in &knob.values {
            self.n_tried += 1;
            if self.n_tried > MAX_TRIED {
                return None;
            }
            self.values.push(*value);
            if self.extend()? {
                return Some(true);
            }
            self.values.pop();
        }
        Some(false)
    }
}

impl Constraint {
    /// The number of knobs, from the first one on, whose values decide it.
    fn n_knobs(&self) -> usize {
        n_knobs(&self.left).max(n_knobs(&self.right))
    }
}

fn n_knobs(expr: &LaunchExpr) -> usize {
    match expr {
        LaunchExpr::Knob(n) => *n as usize + 1,
        LaunchExpr::Binary(_, left, right) => n_knobs(left).max(n_knobs(right)),
        LaunchExpr::Int(_) | LaunchExpr::Dim(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dag::CompareOp;
    use crate::dag::kernel_template::{Knob, LaunchOp};

    fn template(n_knobs: usize) -> KernelTemplate {
        let knob = |n| Knob { name: format!("K{n}"), values: vec![8, 4, 2, 1] };
        KernelTemplate {
            file: "f.cu".to_owned(),
            source: "f\n".to_owned(),
            macros: Vec::new(),
            knobs: (0..n_knobs).map(knob).collect(),
            constraints: Vec::new(),
            params: None,
            kernels: Vec::new(),
            reference: None,
        }
    }

    /// `k0 * k1 op most`
    fn product(op: CompareOp, most: i64) -> Constraint {
        let left = LaunchExpr::binary(LaunchOp::Mul, LaunchExpr::Knob(0), LaunchExpr::Knob(1));
        Constraint { op, left, right: LaunchExpr::Int(most) }
    }

    #[test]
    fn the_first_values_that_satisfy_all_constraints_are_found() {
        let found = |constraints: &[Constraint]| template(2).find_allowed(constraints);
        assert_eq!(found(&[]), Found::Values(vec![8, 8]));
        assert_eq!(found(&[product(CompareOp::Le, 16)]), Found::Values(vec![8, 2]));
        let both = [product(CompareOp::Le, 16), product(CompareOp::Lt, 3)];
        assert_eq!(found(&both), Found::Values(vec![2, 1]));
        assert_eq!(found(&[product(CompareOp::Eq, 3)]), Found::Nothing);
        let apart = [product(CompareOp::Le, 2), product(CompareOp::Ge, 4)];
        assert_eq!(found(&apart), Found::Nothing);
    }

    #[test]
    fn a_search_ends_where_there_are_many_values() {
        let mut template = template(16);
        let last =
            Constraint { op: CompareOp::Gt, left: LaunchExpr::Knob(15), right: LaunchExpr::Int(8) };
        assert_eq!(template.find_allowed(std::slice::from_ref(&last)), Found::Unknown);
        template.knobs.truncate(2);
        // It mentions a knob that is none.
        assert_eq!(template.find_allowed(&[last]), Found::Values(vec![8, 8]));
    }
}
