//! A fleet in this process: a server, workers on machines that never were, and a cache to tune for.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use tempfile::TempDir;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tvmtune_fleet::nats::{
    Ended, Fleet, Kept, NatsError, Server, Settings, Submission, SubmitEvent, Submitted,
    WorkerEvent, WorkerOptions, runtime, serve, submit,
};
use tvmtune_fleet::{Machine, Task};
use tvmtune_plan::database::Database;
use tvmtune_plan::record::Record;
use tvmtune_tests::nats::{Limits, NatsServer};
use tvmtune_tuner::executor::{Needs, Stage, TuningJob};
use tvmtune_tuner::tune::{self, Trial, log_file};

use crate::hardware::{PATIENCE, PAUSE, database, device, machine};

/// Settings with which a test loses no time.
pub(crate) fn quick() -> Settings {
    Settings { lease_seconds: 1.0, pause_seconds: 0.05, ..Settings::default() }
}

/// A server with a fleet on it.
pub(crate) struct Party {
    pub(crate) server: NatsServer,
    pub(crate) fleet: Fleet,
    pub(crate) folder: TempDir,
}

/// Runs a test of a fleet with these settings; skips it where there is no server.
pub(crate) fn with_party(limits: Limits, settings: Settings, test: impl AsyncFnOnce(Party)) {
    let Some(server) = NatsServer::start(limits) else { return };
    let at = Server::at(&server.url());
    with_party_at(server, &at, settings, test);
}

/// Runs a test of a fleet on a server that is reached in this way.
pub(crate) fn with_party_at(
    server: NatsServer,
    at: &Server,
    settings: Settings,
    test: impl AsyncFnOnce(Party),
) {
    let runtime = runtime().unwrap();
    runtime.block_on(async {
        let fleet = Fleet::set_up(at, "test", settings).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        test(Party { server, fleet, folder }).await;
    });
    // Threads of workers that were killed may wait for something.
    runtime.shutdown_background();
}

/// A worker in this process.
pub(crate) struct Hand {
    handle: JoinHandle<Result<(), NatsError>>,
    stop: watch::Sender<bool>,
    /// Its events, as text: what happened, and the program.
    pub(crate) events: Arc<Mutex<Vec<String>>>,
}

impl Party {
    /// Starts a worker on a machine of its own.
    pub(crate) fn hand(&self, name: &str) -> Hand {
        Hand::start(&self.fleet, machine(self.folder.path(), name))
    }

    pub(crate) fn database(&self) -> Database {
        database(&self.folder.path().join("cache"))
    }

    /// Sends tasks, and waits until something became of all.
    pub(crate) async fn submit(&self, tasks: &[Task]) -> Submitted {
        self.submit_again(tasks, false).await
    }

    pub(crate) async fn submit_again(&self, tasks: &[Task], retries: bool) -> Submitted {
        let patience = Some(2 * PATIENCE);
        let submission = Submission { tasks: tasks.to_vec(), patience, retries };
        let mut on_event = |event: &SubmitEvent<'_>| {
            if let SubmitEvent::Trouble { error } = event {
                eprintln!("{error}");
            }
        };
        submit(&self.fleet, &submission, &self.database(), &mut on_event).await.unwrap()
    }

    /// Sends tasks, and waits until all are accepted.
    pub(crate) async fn tune(&self, tasks: &[Task]) -> Submitted {
        let submitted = self.submit(tasks).await;
        let accepted = submitted.ended.values().filter(|it| matches!(it, Ended::Accepted(_)));
        assert_eq!(accepted.count(), tasks.len(), "{submitted:?}");
        submitted
    }

    /// Waits until something holds of this fleet.
    pub(crate) async fn until(&self, what: &str, is_so: impl AsyncFn() -> bool) {
        let clock = Instant::now();
        while !is_so().await {
            assert!(clock.elapsed() < PATIENCE, "never: {what}");
            tokio::time::sleep(PAUSE).await;
        }
    }
}

impl Hand {
    pub(crate) fn start(fleet: &Fleet, machine: Machine) -> Self {
        Self::with(fleet, vec![machine], WorkerOptions { slots: 1 })
    }

    pub(crate) fn with(fleet: &Fleet, machines: Vec<Machine>, options: WorkerOptions) -> Self {
        let (stop, stopped) = watch::channel(false);
        let events = Arc::new(Mutex::new(Vec::new()));
        let (fleet, told) = (fleet.clone(), events.clone());
        let handle = tokio::spawn(async move {
            let on_event = move |event: &WorkerEvent<'_>| told.lock().unwrap().push(text(event));
            serve(&fleet, machines, options, stopped, on_event).await
        });
        Self { handle, stop, events }
    }

    /// Kills the worker: nobody hears of it again.
    pub(crate) fn kill(self) {
        self.handle.abort();
        // Without it, the worker might take itself for one that is asked to end.
        std::mem::forget(self.stop);
    }

    /// Asks the worker to end, and waits until it did.
    pub(crate) async fn end(self) {
        self.stop.send(true).unwrap();
        self.handle.await.unwrap().unwrap();
    }

    /// Waits until the worker has told of something, by the beginning of its text.
    pub(crate) async fn until(&self, what: &str) {
        let clock = Instant::now();
        while !self.events.lock().unwrap().iter().any(|it| it.starts_with(what)) {
            assert!(clock.elapsed() < PATIENCE, "never: {what}: {:?}", self.last());
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// The last events.
    fn last(&self) -> Vec<String> {
        let events = self.events.lock().unwrap();
        events[events.len().saturating_sub(5)..].to_vec()
    }

    pub(crate) fn count(&self, what: &str) -> usize {
        self.events.lock().unwrap().iter().filter(|it| it.starts_with(what)).count()
    }
}

fn text(event: &WorkerEvent<'_>) -> String {
    match event {
        WorkerEvent::Began { task } => format!("began {}", task.name),
        WorkerEvent::Stored { task, kept: Kept::First, .. } => format!("stored {}", task.name),
        WorkerEvent::Stored { task, kept: Kept::Ignored, .. } => format!("ignored {}", task.name),
        WorkerEvent::Failed { task, outcome } => format!("failed {}: {outcome:?}", task.name),
        WorkerEvent::SetAside { letter } => format!("set aside {:?}: {}", letter.name, letter.why),
        WorkerEvent::Trouble { error } => format!("trouble: {error}"),
    }
}

/// Lets the tasks of a machine wait until this is dropped: the machine is slow.
pub(crate) struct Slow(Option<std::sync::mpsc::Sender<()>>);

impl Slow {
    pub(crate) fn new(machine: &Machine) -> Self {
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let job: TuningJob<'static> = machine.executor.job(i32::MAX);
        std::thread::spawn(move || {
            let needs = Needs::whole_cpu(2, device().key());
            let permit = job.enter(Stage::Measure, &needs, PATIENCE, &mut |_| ()).unwrap();
            ready.send(()).unwrap();
            // Ends with the owner.
            let _ = receiver.recv();
            drop(permit);
        });
        is_ready.recv().unwrap();
        Self(Some(sender))
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        drop(self.0.take());
    }
}

/// The content of a database, for one of some tasks: records without what depends on clocks and on who
/// measured, and the trials of each log, sorted.
pub(crate) fn content(dir: &Path, tasks: &[Task]) -> BTreeMap<String, (Record, Vec<String>)> {
    let (database, mut found) = (database(dir), BTreeMap::new());
    for task in tasks {
        let lookup = database.get(&task.workload_id(), &task.name, &task.dag);
        for found_record in lookup.records {
            let mut record = found_record.record;
            record.buckets.iter_mut().for_each(|it| it.seconds = 0.0);
            let cache = database.cache().unwrap();
            let log = log_file(cache, task.name.as_str(), &task.workload_id(), &record.device);
            let mut trials: Vec<String> = tune::trials(&log).iter().map(identity).collect();
            trials.sort();
            found.insert(format!("{} {}", task.name, record.device), (record, trials));
        }
    }
    found
}

/// The parts of a trial that do not depend on clocks.
fn identity(it: &Trial) -> String {
    format!("{:?} {:?} {:?} {} {:?}", it.source, it.stage, it.choices, it.artifact, it.outcome)
}
