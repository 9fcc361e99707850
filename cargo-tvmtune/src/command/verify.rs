//! `cargo tvmtune verify`: whether records still say the truth: they apply, make the code they say, and that is right.

use std::path::Path;

use anyhow::Result;
use serde::Serialize;
use tvmtune_build::op::Op;
use tvmtune_build::tune::session::OpBuckets;
use tvmtune_cuda::codegen;
use tvmtune_ir::artifact::ArtifactId;
use tvmtune_ir::target::{CpuTarget, GpuTarget, Isa, Platform};
use tvmtune_plan::database::{CacheUse, DatabaseError, Files, StoredRecord};
use tvmtune_plan::device;
use tvmtune_plan::embed::cuda::ptx_version;
use tvmtune_plan::record::{Bucket, Entry, Format};
use tvmtune_schedule::{Instruction, Schedule};
use tvmtune_tuner::compile::{Nvrtc, usage};
use tvmtune_tuner::measure::{Measurer, WorkerCommand};
use tvmtune_tuner::tune::{self, Workload};

use super::{accuracy, verify_bits};
use crate::cli::Verify;
use crate::output::println;
use crate::records::{self, PackageRecords};
use crate::render::{Table, count};
use crate::{Exit, workspace};

/// The result of checking a schedule of a record.
#[derive(Serialize)]
struct Line {
    name: String,
    extents: String,
    isa: String,
    record: String,
    artifact: ArtifactId,
    verdict: Verdict,
    /// The reason, or the extent of the check.
    note: String,
}

/// The devices that run schedules.
struct Devices {
    cpu: Measurer,
    /// The GPU of this machine, if a package has code for it.
    gpu: Option<(GpuTarget, Measurer)>,
}

/// The verdict on a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    /// Its code is the recorded one, and computes what the program says. Where the record says so, its time
    /// is that of other code.
    Right,
    /// Its code is the recorded one, and cannot be run here.
    Same,
    /// It makes other code than was recorded.
    Replayed,
    /// It does not apply, its files are damaged, or its code is wrong.
    Bad,
}

pub(crate) fn run(arguments: &Verify) -> Result<Exit> {
    if arguments.bits {
        return verify_bits::run(arguments);
    }
    if arguments.accuracy {
        return accuracy::verify(arguments);
    }
    let packages = workspace::packages(&arguments.selection)?;
    let worker = WorkerCommand::this_executable()?;
    let mut devices = Devices { cpu: Measurer::new(worker.clone()), gpu: None };
    let (mut lines, mut n_unreadable, mut n_untimed) = (Vec::new(), 0, 0);
    for package in &packages {
        let cache = if arguments.shipped { CacheUse::Exclude } else { CacheUse::Include };
        let records = PackageRecords::discover(package, cache);
        if let (Some(gpu), None) = (records.gpu(), &devices.gpu) {
            devices.gpu = Some((gpu, Measurer::on_gpu(worker.clone())));
        }
        for (op, lookup) in records.ops() {
            // Of damaged files the schedules tell that they belong to.
            let is_of_schedule = |it: &&DatabaseError| matches!(it, DatabaseError::Artifact { .. });
            n_unreadable += lookup.warnings.iter().filter(|it| !is_of_schedule(it)).count();
            let workload = OpBuckets::new(op, Vec::new()).workload();
            for found in &lookup.records {
                let entries = found.record.buckets.iter().flat_map(|it| &it.schedules);
                n_untimed += entries.filter(|it| it.is_replayed()).count();
                lines.extend(of_record(op, &workload, found, &mut devices)?);
            }
        }
    }
    let n_refused = lines.iter().filter(|it| it.verdict >= Verdict::Replayed).count();
    match arguments.json {
        true => println!("{}", serde_json::to_string_pretty(&lines)?),
        false => {
            if n_refused > 0 {
                println!("{}", table(&lines));
            }
            let n_run = lines.iter().filter(|it| it.verdict == Verdict::Right).count();
            let (all, refused) = (count(lines.len(), "schedule"), n_refused + n_unreadable);
            let untimed = match n_untimed {
                0 => String::new(),
                n => format!("; {n} replayed, without a time of the code they make by now"),
            };
            println!("{all}: {refused} not as recorded; {n_run} run and right{untimed}");
        }
    }
    Ok(if n_refused + n_unreadable == 0 { Exit::Done } else { Exit::Refused })
}

/// A line for each schedule of a record.
fn of_record(
    op: &Op,
    workload: &Workload,
    found: &StoredRecord,
    devices: &mut Devices,
) -> Result<Vec<Line>> {
    let mut lines = Vec::new();
    for bucket in &found.record.buckets {
        for entry in &bucket.schedules {
            let (verdict, note) = match entry.platform {
                Platform::Cpu(isa) => {
                    on_cpu(op, (workload, bucket), (entry, isa), &mut devices.cpu)?
                }
                Platform::Cuda(arch) => {
                    let gpu = devices.gpu.as_mut().filter(|it| it.0.arch == arch);
                    on_cuda(op, (workload, bucket), (entry, found), gpu)?
                }
            };
            let note = match entry.is_replayed() && verdict < Verdict::Replayed {
                true => format!("{note}; its time is that of other code"),
                false => note,
            };
            lines.push(Line {
                name: op.name().to_owned(),
                extents: records::extents(op, &bucket.dims),
                isa: entry.platform.to_string(),
                record: found.path.display().to_string(),
                artifact: entry.artifact,
                verdict,
                note,
            });
        }
    }
    Ok(lines)
}

/// The schedule that a record means.
fn replay(op: &Op, bucket: &Bucket, entry: &Entry) -> Result<Schedule, String> {
    if bucket.dims.len() != op.dag.dims.len() {
        return Err("its ranges are not those of the program".to_owned());
    }
    let trace = entry.trace.iter().map(|it| it.parse().map_err(|it| format!("{it}")));
    let trace: Vec<Instruction> = trace.collect::<Result<_, String>>()?;
    Schedule::replay(&op.dag.specialize(&bucket.dims), &trace).map_err(|it| it.to_string())
}

fn on_cpu(
    op: &Op,
    (workload, bucket): (&Workload, &Bucket),
    (entry, isa): (&Entry, Isa),
    measurer: &mut Measurer,
) -> Result<(Verdict, String)> {
    let generated = replay(op, bucket, entry).and_then(|schedule| {
        let generated = tvmtune_cpu::generate(&schedule, isa).map_err(|it| it.to_string())?;
        Ok((schedule, generated.artifact))
    });
    let (schedule, artifact) = match generated {
        Ok(both) => both,
        Err(why) => return Ok((Verdict::Bad, why)),
    };
    let is_same = artifact == entry.artifact;
    if !device::isas().contains(&isa) {
        return Ok(same(is_same, format!("this machine does not run {}", isa.name())));
    }
    let target = CpuTarget::generic(isa);
    let bucket = tune::Bucket { workload, ranges: &bucket.dims };
    let ran = tune::verify(bucket, target.into(), &schedule.trace, measurer)?;
    Ok(match ran {
        Ok(n) if is_same => (Verdict::Right, format!("run at {}", count(n, "place"))),
        Ok(_) => same(false, String::new()),
        Err(why) => (Verdict::Bad, why),
    })
}

/// The verdict about code that is, or is not, the recorded one.
fn same(is_same: bool, note: String) -> (Verdict, String) {
    match is_same {
        true => (Verdict::Same, note),
        false => (
            Verdict::Replayed,
            "its trace makes other code by now; run `cargo tvmtune upgrade`".to_owned(),
        ),
    }
}

fn on_cuda(
    op: &Op,
    (workload, bucket): (&Workload, &Bucket),
    (entry, found): (&Entry, &StoredRecord),
    gpu: Option<&mut (GpuTarget, Measurer)>,
) -> Result<(Verdict, String)> {
    let generated = replay(op, bucket, entry).and_then(|schedule| {
        let generated = tvmtune_cuda::generate(&schedule).map_err(|it| it.to_string())?;
        Ok((schedule, generated))
    });
    let (schedule, generated) = match generated {
        Ok(both) => both,
        Err(why) => return Ok((Verdict::Bad, why)),
    };
    let is_same = generated.artifact == entry.artifact;
    let kernels = if is_same { generated.unit.entries.as_slice() } else { &[] };
    if let Err(why) = images(entry, kernels, found) {
        return Ok((Verdict::Bad, why));
    }
    let images = count(entry.images.len(), "image");
    // The code that is run is compiled here, from the same text.
    let Some((gpu, measurer)) = gpu.filter(|_| is_same && Nvrtc::get().is_ok()) else {
        return Ok(same(is_same, format!("{images} checked, nothing run")));
    };
    let bucket = tune::Bucket { workload, ranges: &bucket.dims };
    Ok(match tune::verify(bucket, (*gpu).into(), &schedule.trace, measurer)? {
        Ok(n) => (Verdict::Right, format!("{images} checked, run at {}", count(n, "place"))),
        Err(why) => (Verdict::Bad, why),
    })
}

/// Returns whether the images of a schedule are there, are what was recorded, and have its kernels.
fn images(entry: &Entry, kernels: &[codegen::Entry], found: &StoredRecord) -> Result<(), String> {
    let (files, damaged) = Files::beside(&found.path, &found.record);
    for image in &entry.images {
        let Some(bytes) = files.get(&image.sha256) else {
            let digits = image.sha256.short();
            let is_about = |it: &&String| it.contains(&digits);
            let damaged: Vec<String> = damaged.iter().map(ToString::to_string).collect();
            return Err(damaged.iter().find(is_about).cloned().unwrap_or_default());
        };
        let missing = |name: &str| match image.format {
            Format::Cubin => usage(bytes).is_ok_and(|it| it.iter().all(|it| it.kernel != name)),
            Format::Ptx => !String::from_utf8_lossy(bytes).contains(&format!(".entry {name}(")),
        };
        if let Some(kernel) = kernels.iter().find(|it| missing(&it.name)) {
            return Err(format!("an image has no kernel `{}`", kernel.name));
        }
        match image.format {
            Format::Cubin => drop(usage(bytes).map_err(|it| it.to_string())?),
            Format::Ptx => {
                let version = std::str::from_utf8(bytes).ok().and_then(ptx_version);
                version.ok_or("an image is no PTX")?;
            }
        }
    }
    Ok(())
}

/// Returns the schedules that are not as recorded.
fn table(lines: &[Line]) -> Table {
    let mut table = Table::new(["kernel", "extents", "isa", "verdict", "note", "record"]);
    for it in lines.iter().filter(|it| it.verdict >= Verdict::Replayed) {
        let file = Path::new(&it.record).file_name().unwrap_or_default();
        table.row([
            it.name.clone(),
            it.extents.clone(),
            it.isa.clone(),
            format!("{:?}", it.verdict).to_lowercase(),
            it.note.clone(),
            file.to_string_lossy().into_owned(),
        ]);
    }
    table
}
