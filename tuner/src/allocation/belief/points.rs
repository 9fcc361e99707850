//! Observations of a curve: its last segment, thinned out.

/// Observations at about the same number of trials.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    /// The logarithm of the trials.
    pub(super) ln_x: f64,
    /// The speed, relative to the present one.
    pub(super) speed: f64,
    /// The number of observations.
    pub(super) weight: f64,
}

/// The relative jump of the speed at which another segment begins: something new was found, from which the
/// search goes on.
const JUMP: f64 = 1.2;
/// The number of points that observations are thinned to: a curve with few parameters needs no more.
const MAX_POINTS: usize = 24;

/// Returns the observations since the last jump.
pub(super) fn last_segment(speeds: &[f64]) -> &[f64] {
    let jump = speeds.windows(2).rposition(|it| it[1] > JUMP * it[0]);
    &speeds[jump.map_or(0, |it| it + 1)..]
}

/// Merges observations at neighboring numbers of trials, so that points are evenly spaced by the logarithm.
pub(super) fn thinned(speeds: &[f64]) -> Vec<Point> {
    let n = speeds.len();
    let ratio = (n as f64).powf(1.0 / MAX_POINTS as f64);
    let (mut points, mut from) = (Vec::new(), 0);
    while from < n {
        let to = ((from as f64 * ratio).ceil() as usize).clamp(from + 1, n);
        let weight = (to - from) as f64;
        let speed = speeds[from..to].iter().sum::<f64>() / weight;
        let x = (from + 1 + to) as f64 / 2.0;
        points.push(Point { ln_x: x.ln(), speed, weight });
        from = to;
    }
    points
}
