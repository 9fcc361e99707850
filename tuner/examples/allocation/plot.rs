//! Plots of the latency of recorded networks against the time that was given away, as SVG.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use plotters::prelude::{
    BLACK, ChartBuilder, Color, IntoDrawingArea, LineSeries, Palette, Palette99, PathElement,
    SVGBackend, SeriesLabelPosition, WHITE,
};
use tvmtune_tuner::allocation::replay::SlotLength;
use tvmtune_tuner::allocation::{Scheduler, Settings};
use tvmtune_tuner::statistics::geometric_mean;

use crate::Result;
use crate::arm::{Arm, Case, limits};

const SIZE: (u32, u32) = (900, 540);
const SAMPLES: usize = 120;
/// The share of the time of all trials that is shown: later there is nothing to see.
const SHOWN: f64 = 0.6;
/// The latency up to which curves are shown, relative to the best.
const HIGHEST: f64 = 1.3;

/// The arms of plots.
const ARMS: [Arm; 8] = [
    Arm::LeastArea,
    Arm::OtherSeeds,
    Arm::Scheduler(Scheduler::MeanCurve),
    Arm::Scheduler(Scheduler::DynaTune(Settings::PAPER)),
    Arm::Scheduler(Scheduler::Ansor),
    Arm::Scheduler(Scheduler::RecentGain),
    Arm::Scheduler(Scheduler::RoundRobin),
    Arm::Scheduler(Scheduler::Sequential),
];

/// Writes a plot for each network: the geometric means over its seeds.
pub(crate) fn write(cases: &[Case], slot: SlotLength, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder)?;
    let mut networks: BTreeMap<&str, Vec<&Case>> = BTreeMap::new();
    for case in cases {
        networks.entry(&case.network).or_default().push(case);
    }
    for (name, cases) in networks {
        let curve = |arm: &Arm| (arm.name(), mean_curve(*arm, &cases, slot));
        let curves: Vec<_> = ARMS.iter().map(curve).filter(|it| !it.1.is_empty()).collect();
        let text = chart(name, &curves)?;
        let name: String =
            name.chars().map(|it| if it == ',' || it == ' ' { '-' } else { it }).collect();
        fs::write(folder.join(format!("{}.svg", name.replace("--", "-"))), text)?;
    }
    Ok(())
}

/// Returns the mean latency of an arm after shares of the time, relative to the best.
fn mean_curve(arm: Arm, cases: &[&Case], slot: SlotLength) -> Vec<(f64, f64)> {
    let runs: Option<Vec<_>> =
        cases.iter().map(|it| Some((limits(&it.tasks, slot), arm.replay(it, slot)?))).collect();
    let Some(runs) = runs else { return Vec::new() };
    let at = |share: f64| {
        let each = runs
            .iter()
            .map(|((best, first, end), run)| run.total_after(first + share * (end - first)) / best);
        (share, geometric_mean(&each.collect::<Vec<_>>()))
    };
    (0..=SAMPLES).map(|it| at(SHOWN * it as f64 / SAMPLES as f64)).collect()
}

fn chart(title: &str, arms: &[(String, Vec<(f64, f64)>)]) -> Result<String> {
    let mut text = String::new();
    let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 22))
        .margin(14)
        .x_label_area_size(44)
        .y_label_area_size(70)
        .build_cartesian_2d(0.0..SHOWN, 1.0..HIGHEST)?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .bold_line_style(BLACK.mix(0.12))
        .label_style(("sans-serif", 15))
        .x_desc("time after the first slots, relative to that of all trials")
        .y_desc("latency, relative to the best")
        .draw()?;
    for (n, (name, curve)) in arms.iter().enumerate() {
        let color = Palette99::pick(n).to_rgba();
        let shown = curve.iter().copied().filter(|it| it.1 <= HIGHEST);
        chart
            .draw_series(LineSeries::new(shown, color.stroke_width(2)))?
            .label(name.clone())
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
    drop(chart);
    drop(area);
    Ok(text)
}
