//! Points of a space, ranked by the analytic cost model.
//!
//! In: a program, a GPU, and a number of points. Out: the best of them, and the reasons why others
//! were dropped. Nothing is compiled and nothing measured.

use std::collections::{BTreeMap, BTreeSet};
use tvmtune_cuda::grid::{self, Grid, Unplaceable};
use tvmtune_ir::dag::Dag;
use tvmtune_ir::target::GpuTarget;
use tvmtune_schedule::{Schedule, nest};
use tvmtune_space::fits::gpu::{ExceededLimit, fits};

use super::{Estimate, estimate};
use crate::random::Random;
use crate::space::{Point, Space};

/// The points of a space that promise most.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranking {
    /// The best first.
    pub best: Vec<Ranked>,
    /// Number of points looked at.
    pub n_points: usize,
    /// Number of points dropped, by reason.
    pub dropped: BTreeMap<&'static str, usize>,
}

/// A point with its estimate.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranked {
    /// The point.
    pub point: Point,
    /// Its time.
    pub estimate: Estimate,
}

/// Looks at the analytic choice of each sketch and at random points, `n` together, and keeps the
/// `most` best.
pub fn rank(
    dag: &Dag,
    target: &GpuTarget,
    space: &Space,
    n: usize,
    most: usize,
    random: &mut Random,
) -> Ranking {
    let mut ranking = Ranking { best: Vec::new(), n_points: 0, dropped: BTreeMap::new() };
    let mut seen = BTreeSet::new();
    let defaults = space.defaults();
    // A small space gives the same points again and again.
    for draw in 0..n.saturating_mul(4) {
        if ranking.n_points >= n {
            break;
        }
        let point = defaults.get(draw).cloned().unwrap_or_else(|| space.random(random));
        if !seen.insert(point.clone()) {
            continue;
        }
        ranking.n_points += 1;
        match place(dag, target, space, &point) {
            Ok(grid) => {
                let estimate = estimate(&grid, target);
                ranking.best.push(Ranked { point, estimate });
            }
            Err(reasons) => {
                for reason in reasons {
                    *ranking.dropped.entry(reason).or_default() += 1;
                }
            }
        }
    }
    ranking.best.sort_by(|a, b| {
        let by_time = a.estimate.ns.total_cmp(&b.estimate.ns);
        by_time.then_with(|| a.point.cmp(&b.point))
    });
    ranking.best.truncate(most);
    ranking
}

/// Lowers a point to a grid that fits; else returns the kinds of reasons against it.
fn place(
    dag: &Dag,
    target: &GpuTarget,
    space: &Space,
    point: &Point,
) -> Result<Grid, Vec<&'static str>> {
    let schedule =
        Schedule::replay(dag, &space.instructions(point)).map_err(|_| vec!["schedule"])?;
    let grid = grid::place(&nest::lower(&schedule)).map_err(|it| vec![unplaceable(it)])?;
    match fits(&grid, target) {
        Ok(()) => Ok(grid),
        Err(misfits) => Err(misfits.into_iter().map(misfit).collect()),
    }
}

fn unplaceable(reason: Unplaceable) -> &'static str {
    match reason {
        Unplaceable::Threads(_) => "threads",
        Unplaceable::Shared(_) => "shared memory",
        Unplaceable::Registers(_) => "arrays in registers",
        _ => "cannot be placed",
    }
}

fn misfit(reason: ExceededLimit) -> &'static str {
    match reason {
        ExceededLimit::Arch => "architecture",
        ExceededLimit::Threads(_) => "threads",
        ExceededLimit::Shared(_) => "shared memory",
        ExceededLimit::Arrays(_) => "arrays in registers",
        ExceededLimit::Registers(_) => "registers",
        ExceededLimit::Occupancy => "occupancy",
        ExceededLimit::CodeSize(_) => "code size",
    }
}
