//! Plots: how latencies fall with trials and with time, arm by arm, as SVG.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use plotters::prelude::{
    BLACK, ChartBuilder, Color, IntoDrawingArea, LineSeries, Palette, Palette99, PathElement,
    Polygon, SVGBackend, SeriesLabelPosition, WHITE,
};
use tvmtune_tuner::statistics::median;

use super::cell::{Cell, Step};
use super::plan::Study;

/// Samples of a curve.
const SAMPLES: usize = 160;
const SIZE: (u32, u32) = (900, 540);

/// An x axis.
#[derive(Clone, Copy)]
struct Against {
    name: &'static str,
    value: fn(&Step) -> f64,
}

const AGAINST: [Against; 2] = [
    Against { name: "trials", value: |it| it.trials as f64 },
    Against { name: "seconds", value: |it| it.seconds },
];

/// The curves of an arm: one for each seed, and each transfer source.
type Arms<'a> = BTreeMap<&'a str, Vec<&'a [Step]>>;

/// The median and range of several curves at one x.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Band {
    x: f64,
    low: f64,
    middle: f64,
    high: f64,
}

/// Writes a plot for each network and each of its layers, against trials and against time.
///
/// # Errors
///
/// If they can't be written.
pub(super) fn write<'a>(dir: &Path, study: &Study, cells: &[&'a Cell]) -> Result<()> {
    for target in study.targets() {
        let of_target: Vec<&'a Cell> =
            cells.iter().filter(|it| it.key.target == target).copied().collect();
        let whole = |it: &&Cell| it.missing.is_empty();
        let network =
            curves(of_target.iter().filter(|it| whole(it)).map(|it| (*it, &it.curve[..])));
        draw(&dir.join(target), target, study, &network)?;
        let names: BTreeSet<&str> =
            of_target.iter().flat_map(|it| &it.layers).map(|it| it.name.as_str()).collect();
        for name in names {
            let curve = |it: &&'a Cell| Some((*it, &it.layer(name)?.curve[..]));
            let of_layer = of_target.iter().filter_map(curve);
            draw(&dir.join(target).join(file(name)), name, study, &curves(of_layer))?;
        }
    }
    Ok(())
}

/// Curves by arm.
fn curves<'a>(cells: impl Iterator<Item = (&'a Cell, &'a [Step])>) -> Arms<'a> {
    let mut arms = Arms::new();
    for (cell, curve) in cells.filter(|it| !it.1.is_empty()) {
        arms.entry(&cell.key.arm).or_default().push(curve);
    }
    arms
}

/// Replaces characters that file systems may not allow in a name.
pub(super) fn file(name: &str) -> String {
    name.chars().map(|it| if it.is_alphanumeric() { it } else { '_' }).collect()
}

/// Draws both plots of a set of curves; `path` is without the end that says which.
fn draw(path: &Path, title: &str, study: &Study, arms: &Arms<'_>) -> Result<()> {
    for against in AGAINST {
        let bands: Vec<(&str, Vec<Band>)> = study
            .arms
            .iter()
            .filter_map(|it| Some((it.name.as_str(), bands(arms.get(it.name.as_str())?, against))))
            .filter(|it| !it.1.is_empty())
            .collect();
        if bands.is_empty() {
            continue;
        }
        let name = path.file_name().context("a plot has a name")?.to_string_lossy();
        let path = path.with_file_name(format!("{name}_{}.svg", against.name));
        let mut text = String::new();
        chart(&mut text, title, against, &bands).map_err(|it| anyhow!("{it}"))?;
        let written = path.parent().map_or(Ok(()), fs::create_dir_all);
        let written = written.and_then(|()| fs::write(&path, text));
        written.with_context(|| format!("cannot write `{}`", path.display()))?;
    }
    Ok(())
}

/// Computes the bands of several curves, from the last first step to the last step of all.
fn bands(curves: &[&[Step]], against: Against) -> Vec<Band> {
    let value = against.value;
    let begin = curves.iter().filter_map(|it| it.first()).map(value).fold(0.0, f64::max);
    let end = curves.iter().filter_map(|it| it.last()).map(value).fold(0.0, f64::max);
    let x_of = |n: usize| begin + (end - begin) * n as f64 / (SAMPLES - 1) as f64;
    let band = |at: f64| {
        let by_then = |curve: &&[Step]| {
            let n = curve.partition_point(|it| value(it) <= at);
            n.checked_sub(1).map(|n| curve[n].ns)
        };
        let ns: Option<Vec<f64>> = curves.iter().map(by_then).collect();
        let ns = ns?;
        let (low, high) =
            ns.iter().fold((f64::INFINITY, 0.0_f64), |it, ns| (it.0.min(*ns), it.1.max(*ns)));
        Some(Band { x: at, low, middle: median(&ns), high })
    };
    (0..SAMPLES).map(x_of).filter_map(band).collect()
}

fn chart(
    text: &mut String,
    title: &str,
    against: Against,
    arms: &[(&str, Vec<Band>)],
) -> Result<(), Box<dyn std::error::Error>> {
    let all = || arms.iter().flat_map(|it| &it.1);
    let (from, to) = span(all().map(|it| it.x), all().map(|it| it.x));
    let (low, high) = span(all().map(|it| it.low / 1e3), all().map(|it| it.high / 1e3));
    let margin = (high - low) * 0.05;
    let area = SVGBackend::with_string(text, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 22))
        .margin(14)
        .x_label_area_size(44)
        .y_label_area_size(80)
        .build_cartesian_2d(from..to, low - margin..high + margin)?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .bold_line_style(BLACK.mix(0.12))
        .label_style(("sans-serif", 15))
        .x_desc(against.name)
        .y_desc("best latency, us")
        .draw()?;
    for (n, (name, bands)) in arms.iter().enumerate() {
        let color = Palette99::pick(n).to_rgba();
        let low = bands.iter().map(|it| (it.x, it.low / 1e3));
        let high = bands.iter().rev().map(|it| (it.x, it.high / 1e3));
        let outline: Vec<(f64, f64)> = low.chain(high).collect();
        chart.draw_series([Polygon::new(outline, color.mix(0.15).filled())])?;
        let middle = bands.iter().map(|it| (it.x, it.middle / 1e3));
        chart
            .draw_series(LineSeries::new(middle, color.stroke_width(2)))?
            .label(*name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], color.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .label_font(("sans-serif", 14))
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .draw()?;
    area.present()?;
    Ok(())
}

/// From the least to the greatest of some numbers, and never nothing.
fn span(low: impl Iterator<Item = f64>, high: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) = (low.fold(f64::INFINITY, f64::min), high.fold(0.0, f64::max));
    (low, if high > low { high } else { low * 1.01 + 1e-3 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_begin_where_all_curves_have_and_keep_what_was_reached() {
        let steps =
            |it: &[(u64, f64, f64)]| it.iter().map(|it| Step::from(*it)).collect::<Vec<_>>();
        let a = steps(&[(1, 0.5, 100.0), (10, 3.0, 50.0)]);
        let b = steps(&[(2, 0.7, 80.0), (4, 1.0, 60.0)]);
        let bands = bands(&[&a, &b], AGAINST[0]);
        let band = |x, low, middle, high| Band { x, low, middle, high };
        assert_eq!(bands.first(), Some(&band(2.0, 80.0, 90.0, 100.0)));
        assert_eq!(bands.last(), Some(&band(10.0, 50.0, 55.0, 60.0)));
        assert!(bands.windows(2).all(|it| it[1].middle <= it[0].middle));
        assert!(super::bands(&[], AGAINST[0]).iter().all(|it| it.middle.is_nan()));
    }
}
