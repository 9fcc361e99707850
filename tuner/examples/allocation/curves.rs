//! The file of recorded curves: a line of JSON for each task, compressed one by one, so that a recording that
//! was interrupted goes on.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use tvmtune_tuner::allocation::replay::RecordedTask;
use tvmtune_tuner::tune::{Recipe, Tolerance, Workload};
use tvmtune_zoo::Layer;

use crate::Result;

/// A task that was recorded.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Curve {
    pub(crate) network: String,
    pub(crate) seed: u64,
    /// The device that measured.
    pub(crate) device: String,
    pub(crate) recipe: Recipe,
    pub(crate) task: RecordedTask,
    /// The schedule of each trial.
    pub(crate) schedules: Vec<Schedule>,
}

/// A schedule: the name of its sketch, and the options of its decisions.
pub(crate) type Schedule = (String, Vec<u16>);

/// The curves of a folder, in files by network and space.
pub(crate) struct Curves {
    folder: PathBuf,
    all: Vec<Curve>,
}

/// A network as it was recorded from one seed.
pub(crate) type Network<'a> = Vec<&'a RecordedTask>;

impl Curves {
    pub(crate) fn read(folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder)?;
        let mut all = Vec::new();
        let mut files: Vec<PathBuf> = fs::read_dir(folder)?
            .map(|it| it.map(|it| it.path()))
            .collect::<std::io::Result<_>>()?;
        files.retain(|it| it.to_string_lossy().ends_with(".jsonl.gz"));
        files.sort();
        for file in files {
            // A line that was cut off is recorded again; whatever follows it cannot be read.
            let lines = BufReader::new(MultiGzDecoder::new(File::open(&file)?)).lines();
            let curves = lines.map_while(std::io::Result::ok);
            all.extend(curves.filter_map(|it| serde_json::from_str::<Curve>(&it).ok()));
        }
        Ok(Self { folder: folder.to_owned(), all })
    }

    /// Tells if a task of a network was recorded; by which device does not matter, as orders of rounds are
    /// compared within a network.
    pub(crate) fn has(&self, network: &str, seed: u64, recipe: &Recipe, task: &str) -> bool {
        let is_it = |it: &Curve| {
            (it.network.as_str(), it.seed, it.task.name.as_str()) == (network, seed, task)
                && it.recipe == *recipe
        };
        self.all.iter().any(is_it)
    }

    pub(crate) fn all(&self) -> &[Curve] {
        &self.all
    }

    pub(crate) fn push(&mut self, curve: Curve) -> Result<()> {
        let space = format!("{:?}", curve.recipe.space).to_lowercase();
        let name = format!("{}-{space}.jsonl.gz", curve.network);
        let file = File::options().create(true).append(true).open(self.folder.join(name))?;
        let mut encoder = GzEncoder::new(file, Compression::best());
        serde_json::to_writer(&mut encoder, &curve)?;
        encoder.write_all(b"\n")?;
        encoder.finish()?.sync_all()?;
        self.all.push(curve);
        Ok(())
    }

    /// Returns the networks, by name with the space, and by seed.
    pub(crate) fn networks(&self) -> BTreeMap<String, BTreeMap<u64, Network<'_>>> {
        let mut networks: BTreeMap<String, BTreeMap<u64, Network<'_>>> = BTreeMap::new();
        for it in &self.all {
            let start = if it.recipe.analytic { ", analytic" } else { "" };
            let name = format!("{}, {:?}{start}", it.network, it.recipe.space).to_lowercase();
            networks.entry(name).or_default().entry(it.seed).or_default().push(&it.task);
        }
        networks
    }
}

/// Returns the workload of a layer; its weight is how often it runs.
pub(crate) fn workload(layer: &Layer) -> Workload {
    let tolerance = layer.program().tolerance();
    let tolerance = Tolerance { rel: tolerance.rel, abs: tolerance.abs };
    let workload = Workload::new(layer.dag(), vec![Vec::new()], tolerance);
    Workload { weight: f64::from(layer.multiplicity), ..workload }
}
