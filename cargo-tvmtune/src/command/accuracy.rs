//! Certificates of accuracy: those of records, for `status --accuracy`, and those that `verify --accuracy`
//! measures now, of the code that a build would embed.

use anyhow::Result;
use serde::Serialize;
use tvmtune_build::tune::session::OpBuckets;
use tvmtune_ir::target::{Isa, Target};
use tvmtune_plan::database::Choice;
use tvmtune_plan::record::{Accuracy, Class};
use tvmtune_tuner::measure::WorkerCommand;
use tvmtune_tuner::tune::{self, Bucket};

use crate::cli::Verify;
use crate::device_plan::{for_each_device, variants};
use crate::output::{print, println};
use crate::render::Table;
use crate::{Exit, records};

/// The accuracy of the code of one bucket of a kernel.
#[derive(Serialize)]
pub(super) struct AccuracyRow {
    pub(super) name: String,
    pub(super) extents: String,
    pub(super) isa: String,
    pub(super) tier: &'static str,
    /// None where it was not measured, or exact results are not known.
    pub(super) accuracy: Option<Accuracy>,
    /// The reason why it could not be measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) refusal: Option<String>,
}

/// Returns the accuracy that a record has of a schedule: none where that makes other code by now.
pub(super) fn recorded(choice: &Choice<'_>) -> Option<Accuracy> {
    choice.entry.accuracy.clone().filter(|_| !choice.entry.is_replayed())
}

/// Formats errors, a column for each class of numbers.
pub(super) fn table<'a>(rows: impl IntoIterator<Item = &'a AccuracyRow>) -> Table {
    let mut header = ["kernel", "extents", "isa", "tier", "", "", "", "", "", "", "", "", ""];
    for (name, class) in header[4..].iter_mut().zip(Class::ALL) {
        *name = class.name();
    }
    let mut table = Table::new(header);
    for row in rows {
        let (name, extents, isa) = (row.name.clone(), row.extents.clone(), row.isa.clone());
        let error = |class: Class| match (&row.accuracy, &row.refusal) {
            (Some(accuracy), _) => {
                accuracy.0.get(&class).map_or("-".to_owned(), |it| it.to_string())
            }
            (None, Some(why)) if class == Class::ALL[0] => why.clone(),
            (None, _) => "-".to_owned(),
        };
        let [a, b, c, d, e, f, g, h, i] = Class::ALL.map(error);
        table.row([name, extents, isa, row.tier.to_owned(), a, b, c, d, e, f, g, h, i]);
    }
    table
}

/// The explanation of the numbers of a table.
pub(super) const LEGEND: &str = "the largest error and the median one, in roundings: how far results move if each \
                                 operation rounds once (docs/numerics.md)";

/// Measures the accuracy of the code that a build would embed, on the devices of this machine.
pub(super) fn verify(arguments: &Verify) -> Result<Exit> {
    let worker = WorkerCommand::this_executable()?;
    let mut rows = Vec::new();
    let exit = for_each_device(&arguments.selection, None, |records, _, device| {
        let mut measurer = worker.clone().measurer(&device);
        let isas: Vec<Isa> = match device {
            Target::Cpu(cpu) => vec![cpu.isa],
            Target::Gpu(_) => Vec::new(),
        };
        for (op, lookup) in records.ops() {
            let workload = OpBuckets::new(op, Vec::new()).workload();
            for variant in variants(op, lookup, device, &isas, records.limits()) {
                let bucket = Bucket { workload: &workload, ranges: variant.bucket };
                let measured = match &variant.trace {
                    Ok(Some(trace)) => tune::accuracy(bucket, device, trace, &mut measurer)?,
                    Ok(None) => Err("no code".to_owned()),
                    Err(why) => Err(why.to_string()),
                };
                rows.push(AccuracyRow {
                    name: op.name().to_owned(),
                    extents: records::extents(op, variant.bucket),
                    isa: variant.platform.to_string(),
                    tier: variant.status.name(),
                    accuracy: measured.as_ref().ok().cloned().flatten(),
                    refusal: measured.err(),
                });
            }
        }
        Ok(Exit::Done)
    })?;
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&rows)?);
    } else {
        print!("{}", table(&rows));
        println!("\n{LEGEND}");
    }
    Ok(exit)
}
