//! What tasks know together: a cost model that learns from all of them, and schedules that were
//! found for one and may suit another.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use tvmtune_ir::dag::Dag;
use tvmtune_ir::target::Target;
use tvmtune_ir::workload::WorkloadId;
use tvmtune_plan::record::{Ancestor, Source};
use tvmtune_schedule::Instruction;

use super::Options;
use super::recipe::{Recipe, When};
use super::session::{Session, lines};
use crate::cost::learned::Learned;
use crate::cost::model::{CostModel, ModelError};
use crate::outcome::Outcome;
use crate::space::Point;
use crate::transfer::{Donor, Donors, Transfer};
use tvmtune_plan::database::Database;

/// Schedules of other programs that are offered to a task when it begins, and later at once.
const FIRST_OFFER: usize = 32;
const LATER_OFFER: usize = 8;
/// Rounds of a task between two looks at what others found.
const EVERY: u32 = 4;

/// What all tasks of a run share.
pub(super) struct Knowledge {
    recipe: Recipe,
    model: CostModel,
    /// Where the model is kept, if it is.
    file: Option<PathBuf>,
    /// What is wrong with that file.
    trouble: Option<ModelError>,
    donors: Donors,
    n_tasks: usize,
    /// Threads that search.
    pub(super) n_threads: usize,
}

/// How far a task has looked at what others found.
#[derive(Clone, Debug, Default)]
pub(super) struct Visits {
    n_rounds: u32,
    n_donors: usize,
    /// Whose schedules some points of the space are.
    transfers: BTreeMap<Point, Transfer>,
}

impl Knowledge {
    /// What earlier runs on this device left.
    pub(super) fn gather(options: &Options, database: &Database) -> Self {
        let recipe = options.recipe;
        let target = options.device();
        let name = format!("{}.json", target.key().0.replace(':', "_"));
        let file = database.cache().filter(|_| recipe.model).map(|it| it.models().join(name));
        let known = file.as_ref().filter(|it| !options.afresh && it.exists());
        let loaded = known.map(|it| CostModel::load(it));
        let (model, trouble) = match loaded {
            Some(Ok(model)) => (model, None),
            Some(Err(error)) => (CostModel::new(), Some(error)),
            None => (CostModel::new(), None),
        };
        let donors = match recipe.transfer {
            When::Never => Donors::default(),
            When::Once | When::Interleaved => Donors::from_database(database, &target),
        };
        let n_threads = options.n_threads;
        let model = model.with_threads(n_threads);
        Self { recipe, model, file, trouble, donors, n_tasks: 0, n_threads }
    }

    /// Keeps what was learned for the next run.
    pub(super) fn keep(&self) -> Option<String> {
        let file = self.file.as_ref()?;
        let error = self.model.save(file).err()?;
        Some(format!("cannot keep what was learned in `{}`: {error}", file.display()))
    }

    /// Why search starts without what earlier runs learned, if that is not how it should be.
    pub(super) fn trouble(&mut self) -> Option<String> {
        let (error, file) = (self.trouble.take()?, self.file.as_ref()?);
        Some(format!("search starts without `{}`: {error}", file.display()))
    }

    /// The number of a new task.
    pub(super) fn n_tasks(&mut self) -> usize {
        self.n_tasks += 1;
        self.n_tasks - 1
    }

    /// What the model says of a program, if it has anything to say.
    pub(super) fn learned<'a>(&'a self, dag: &'a Dag, target: &'a Target) -> Option<Learned<'a>> {
        let is_asked = self.recipe.model && self.model.is_trained();
        let (model, drafts, n_threads) = (&self.model, self.recipe.draft, self.n_threads);
        is_asked.then_some(Learned { model, dag, target, drafts, n_threads })
    }

    /// Notes what became of a trace.
    pub(super) fn note(&mut self, session: &Session, trace: &[Instruction], outcome: &Outcome) {
        if self.recipe.model
            && let Some(features) = session.task.features(trace)
        {
            let latency_ns = outcome.timing().map(crate::outcome::Timing::min_ns);
            self.model.add(session.number, features, latency_ns);
        }
    }

    /// Learns from what was noted.
    pub(super) fn learn(&mut self) {
        if self.recipe.model {
            self.model.train();
        }
    }

    /// Offers the best schedule of a task to all others.
    pub(super) fn publish(&mut self, session: &Session, workload: &str) {
        let Some(best) = session.good.first() else { return };
        if self.recipe.transfer != When::Interleaved || best.source == Source::Default {
            return;
        }
        let default = session.good.iter().find(|it| it.source == Source::Default);
        self.donors.add(Donor {
            workload: WorkloadId(workload.to_owned()),
            dag: Arc::clone(&session.task.dag),
            bucket: session.task.bucket.clone(),
            trace: lines(&best.trace),
            device: session.task.target().key(),
            platform: session.task.platform(),
            median_ns: best.timing.median_ns(),
            default_ns: default.map(|it| it.timing.median_ns()),
        });
    }
}

impl Session {
    /// Looks at what was found for other programs, if there is anything new.
    pub(super) fn visit(&mut self, knowledge: &Knowledge) {
        let is_first = self.visits.n_rounds == 0;
        let is_due = match self.recipe.transfer {
            When::Never => false,
            When::Once => is_first,
            When::Interleaved => self.visits.n_rounds.is_multiple_of(EVERY),
        };
        self.visits.n_rounds += 1;
        if !is_due || self.visits.n_donors == knowledge.donors.len() {
            return;
        }
        self.visits.n_donors = knowledge.donors.len();
        let limit = if is_first { FIRST_OFFER } else { LATER_OFFER };
        let target = self.task.target();
        let transfers = knowledge.donors.candidates(&self.task.dag, &target, limit);
        let mut points = Vec::new();
        for it in transfers {
            let point = self.space.import_trace(&self.task.dag, &target, &it.trace, "transferred");
            points.push(point.clone());
            self.visits.transfers.entry(point).or_insert(it);
        }
        self.strategy.offer(&points);
    }

    /// Whose schedule a point is, if it is somebody else's.
    pub(super) fn donor_of(&self, point: &Point) -> Option<Ancestor> {
        self.visits.transfers.get(point).map(|it| it.ancestor(&self.task.target().key()))
    }

    /// Tells whoever gave a point how it did.
    pub(super) fn tell_donor(
        &self,
        point: &Point,
        outcome: &Outcome,
        from_ns: f64,
        knowledge: &mut Knowledge,
    ) {
        if let Some(transfer) = self.visits.transfers.get(point) {
            let is_better = outcome.timing().is_some_and(|it| it.min_ns() < from_ns);
            knowledge.donors.tell(transfer, is_better);
        }
    }
}
