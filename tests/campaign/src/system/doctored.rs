//! Code and records that somebody changed: bytes flipped, files cut off, files of other records, and
//! databases of strangers with code in them.
//!
//! Code that a lookup returns has the hash that its record says, in a store whose code may be run; each
//! file that does not is named. Kept code that was changed is named and not run.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tvmtune_ir::artifact::ArtifactId;
use tvmtune_plan::database::{Database, Lookup, Store, StoreKind};
use tvmtune_plan::record::Record;

use super::errand::{Errand, stale_artifact};
use super::ledger::files;
use super::template::{self, io_problem};
use crate::case::Case;
use crate::section::{Problem, Section, Verdict};

/// The section.
pub struct Doctored;

/// The share of cases that run a command on kept code: each takes seconds.
const SHARE_OF_KEPT: f64 = 0.004;

/// The records with code for GPUs that this repository ships.
fn shipped() -> PathBuf {
    let campaign = Path::new(env!("CARGO_MANIFEST_DIR"));
    campaign.ancestors().nth(2).unwrap_or(campaign).join("examples/minilm/tvmtune")
}

impl Section for Doctored {
    fn name(&self) -> &'static str {
        "doctored"
    }

    fn about(&self) -> &'static str {
        "changed code and strangers' code is not used, and named"
    }

    fn limit(&self) -> Duration {
        Duration::from_secs(150)
    }

    fn cases_of_a_test(&self) -> u64 {
        40
    }

    fn check(&self, case: &mut Case) -> Result<Verdict, Problem> {
        if case.random.chance(SHARE_OF_KEPT) { check_kept(case) } else { check_images(case) }
    }
}

/// What a lookup needs to know of a record, and the path of its file.
struct Shipped {
    path: PathBuf,
    record: Record,
}

/// Returns the records with code, of this repository.
fn records() -> Vec<Shipped> {
    let store = Store { kind: StoreKind::Crate, dir: shipped() };
    let database = Database::new(vec![store], None);
    let records = database
        .list()
        .filter_map(|(_, path, record)| Some(Shipped { path, record: record.ok()? }));
    let has_code = |it: &Shipped| {
        it.record.buckets.iter().flat_map(|it| &it.schedules).any(|it| !it.images.is_empty())
    };
    records.filter(has_code).collect()
}

/// Copies a record with its files, changes some of them, and looks the program up.
fn check_images(case: &mut Case) -> Result<Verdict, Problem> {
    let records = records();
    if records.is_empty() {
        return Ok(Verdict::Skipped("no record with code is here".to_owned()));
    }
    let Shipped { path, record } = case.pick(&records);
    let folder = path.parent().unwrap_or(path);
    let name = folder.file_name().unwrap_or_default();
    let dir = case.folder().join("database");
    template::copy(folder, &dir.join(name)).map_err(io_problem)?;
    let code: Vec<PathBuf> = files(&dir).into_iter().filter(|it| is_code(it)).collect();
    let originals = read_all(&code)?;
    let mut doctored = Vec::new();
    for _ in 0..1 + case.random.below(3) {
        let victim = case.pick(&code).clone();
        let bytes = doctor(case, &victim, &code).map_err(io_problem)?;
        fs::write(&victim, bytes).map_err(io_problem)?;
        doctored.push(victim);
    }
    case.input("doctored.txt", format!("{doctored:?}\n"));
    let kinds = [StoreKind::Cache, StoreKind::Crate, StoreKind::Overlay, StoreKind::Workspace];
    let kind = *case.pick(&kinds);
    let database = Database::new(vec![Store { kind, dir }], None);
    let lookup = database.get(&record.workload, &record.name, &record.dag);
    let changed = doctored.into_iter().filter(|it| fs::read(it).ok().as_ref() != originals.get(it));
    check_lookup(&lookup, kind, record, &changed.collect::<Vec<_>>())
}

/// Checks what a lookup returns of code.
fn check_lookup(
    lookup: &Lookup,
    kind: StoreKind,
    record: &Record,
    changed: &[PathBuf],
) -> Result<Verdict, Problem> {
    if lookup.records.is_empty() {
        return Err(Problem::lost("a record whose code was changed is not found any more"));
    }
    for entry in record.buckets.iter().flat_map(|it| &it.schedules) {
        for file in lookup.images.of(entry.platform, &entry.artifact) {
            if !kind.is_trusted() {
                return Err(Problem::wrong(format!("code of a stranger is used: {kind:?}")));
            }
            if ArtifactId::of([file.bytes.as_slice()]).0 != file.image.sha256 {
                return Err(Problem::wrong("code is used whose hash is another than recorded"));
            }
        }
    }
    let warnings: Vec<String> = lookup.warnings.iter().map(ToString::to_string).collect();
    // Files that were not looked at are no concern, such as sources, which are for people.
    for path in changed.iter().filter(|it| lookup.images.paths.contains(it)) {
        if !warnings.iter().any(|it| it.contains(&path.display().to_string())) {
            return Err(Problem::wrong(format!("changed code is not named\n{}", path.display())));
        }
    }
    Ok(if changed.is_empty() { Verdict::Accepted } else { Verdict::Rejected })
}

fn is_code(path: &Path) -> bool {
    path.extension().is_some_and(|it| it == "cubin" || it == "ptx" || it == "cu")
}

fn read_all(paths: &[PathBuf]) -> Result<BTreeMap<PathBuf, Vec<u8>>, Problem> {
    let read = |it: &PathBuf| Ok((it.clone(), fs::read(it).map_err(io_problem)?));
    paths.iter().map(read).collect()
}

/// Returns what is to be in a file instead of what is.
fn doctor(case: &mut Case, path: &Path, others: &[PathBuf]) -> std::io::Result<Vec<u8>> {
    let mut bytes = fs::read(path)?;
    let at = case.random.below(bytes.len().max(1));
    match case.random.below(6) {
        0 => bytes.truncate(at),
        1 => bytes.extend_from_slice(b"more"),
        2 => bytes = fs::read(case.pick(others))?,
        3 => bytes.swap(at, 0),
        4 => bytes.fill(0),
        _ => {
            let bit = case.random.below(8);
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << bit;
            }
        }
    }
    Ok(bytes)
}

/// Has `upgrade` find changed code of an earlier release.
fn check_kept(case: &mut Case) -> Result<Verdict, Problem> {
    let folder = case.folder().to_owned();
    let place = template::tuned(&folder)?;
    Errand::Upgrade.prepare(&place)?;
    let code = files(&place.cache.join("v1/code"));
    case.count("kept code");
    for path in &code {
        let Some(name) = path.file_name().and_then(|it| it.to_str()) else { continue };
        let Some((artifact, cases)) = name.split_once('-') else { continue };
        let artifact = stale_artifact(artifact);
        let target = place.cache.join("v1/code").join(&artifact[..2]);
        fs::create_dir_all(&target).map_err(io_problem)?;
        // Half of the files are as they were written, of another artifact than their name says.
        let bytes =
            if case.random.chance(0.5) { fs::read(path) } else { doctor(case, path, &code) };
        let renamed = target.join(format!("{artifact}-{cases}"));
        fs::write(renamed, bytes.map_err(io_problem)?).map_err(io_problem)?;
    }
    let said = Errand::Upgrade.run(&place)?;
    said.is_done("upgrade beside changed code")?;
    let all = format!("{}\n{}", said.err, said.out);
    match code.is_empty() || all.contains("was damaged") {
        true => Ok(Verdict::Rejected),
        false => {
            Err(Problem::wrong(format!("changed code of a former release is not named\n{all}")))
        }
    }
}
