//! Shares the cases of a section out to children, kills those that take too long, and goes on behind
//! cases at which a child died.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::child::folder;
use crate::cpu_time;
use crate::protocol::{End, Line, Share};
use crate::report::{Finding, SectionReport};
use crate::section::{Kind, Problem, Section};

/// The bytes of the beginning, and of the end, of a child's standard error stream that a finding has.
const END_BYTES: usize = 1000;

/// How long a child may take to start, and to save the input of a case.
const BETWEEN_CASES: Duration = Duration::from_secs(120);

/// What is asked of a campaign.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The program that children run: this one.
    pub program: PathBuf,
    /// The seed.
    pub seed: u64,
    /// Cases of each section; `None` where time ends it.
    pub cases: Option<u64>,
    /// Time of each section; `None` where the number of cases ends it.
    pub time: Option<Duration>,
    /// The one case to run, instead of all from 0 on.
    pub only: Option<u64>,
    /// Children at a time.
    pub jobs: usize,
    /// Where inputs of findings are saved.
    pub out: PathBuf,
}

/// How a child ended.
enum Ended {
    /// It ran all its cases.
    Finished,
    /// It did not survive a case.
    At(u64, Problem),
}

/// Runs a section; `progress` is called now and then with the number of cases so far.
///
/// # Errors
///
/// Where children cannot be started.
///
/// # Panics
///
/// Never: nothing panics that shares cases out.
pub fn run(
    section: &dyn Section,
    plan: &Plan,
    progress: &(dyn Fn(u64) + Sync),
) -> anyhow::Result<SectionReport> {
    let report = SectionReport { section: section.name().to_owned(), ..SectionReport::default() };
    let report = Mutex::new(report);
    let started = Instant::now();
    let run = Run { section, plan, progress, report: &report, started };
    let jobs = section.n_processes().map_or(plan.jobs, |it| it.min(plan.jobs)).max(1);
    let shares = match plan.only {
        Some(case) => vec![Share { first: case, step: 1, end: Some(case.saturating_add(1)) }],
        None => (0..jobs as u64)
            .map(|first| Share { first, step: jobs as u64, end: plan.cases })
            .collect(),
    };
    thread::scope(|scope| {
        let started = shares.into_iter().map(|it| scope.spawn(move || run.share(it)));
        let started: Vec<_> = started.collect();
        let mut joined = started.into_iter().map(|it| it.join());
        joined.try_for_each(|it| it.expect("sharing out does not panic"))
    })?;
    let mut report = report.into_inner().unwrap_or_else(PoisonError::into_inner);
    report.seconds = started.elapsed().as_secs_f64();
    Ok(report)
}

/// One section at work.
#[derive(Clone, Copy)]
struct Run<'a> {
    section: &'a dyn Section,
    plan: &'a Plan,
    progress: &'a (dyn Fn(u64) + Sync),
    report: &'a Mutex<SectionReport>,
    started: Instant,
}

impl Run<'_> {
    /// Runs all cases of a share, by one child after the other.
    fn share(self, mut share: Share) -> anyhow::Result<()> {
        loop {
            let time = self.plan.time.map(|it| it.saturating_sub(self.started.elapsed()));
            if time.is_some_and(|it| it.is_zero()) || share.cases().next().is_none() {
                return Ok(());
            }
            let child = Spawned::new(&self, share, time, false)?;
            match child.watch(&self, &mut |it| self.add(it))? {
                Ended::Finished => return Ok(()),
                Ended::At(case, problem) => {
                    self.save_input(case)?;
                    self.add(End { case, result: Err(problem), counts: BTreeMap::new() });
                    let Some(next) = case.checked_add(share.step) else { return Ok(()) };
                    share.first = next;
                }
            }
        }
    }

    /// Runs a case again, which does not survive, and has it save its input as it becomes known.
    fn save_input(&self, case: u64) -> anyhow::Result<()> {
        let only = Share { first: case, step: 1, end: Some(case.saturating_add(1)) };
        Spawned::new(self, only, None, true)?.watch(self, &mut |_| ())?;
        Ok(())
    }

    fn add(&self, end: End) {
        let mut report = self.report.lock().unwrap_or_else(PoisonError::into_inner);
        report.add(end, |case, problem| Finding {
            case,
            problem,
            input: folder(&self.plan.out, self.section, case),
            repeat: format!(
                "cargo run --profile campaign -p tvmtune-campaign -- {} --seed {} --case {case}",
                self.section.name(),
                self.plan.seed
            ),
        });
        (self.progress)(report.cases);
    }
}

/// A child at work, with what it says.
struct Spawned {
    child: Child,
    lines: Receiver<String>,
    errors: thread::JoinHandle<String>,
}

impl Spawned {
    fn new(
        run: &Run<'_>,
        share: Share,
        time: Option<Duration>,
        save_all: bool,
    ) -> anyhow::Result<Self> {
        let plan = run.plan;
        let mut command = Command::new(&plan.program);
        let end = share.end.map_or_else(|| "-".to_owned(), |it| it.to_string());
        command
            .arg(run.section.name())
            .args(["--seed", &plan.seed.to_string()])
            .args(["--child", &format!("{},{},{end}", share.first, share.step)])
            .arg("--out")
            .arg(&plan.out)
            .args(save_all.then_some("--save-all"));
        if let Some(time) = time {
            command.args(["--seconds", &time.as_secs_f64().to_string()]);
        }
        // A group of its own, so that what it starts is killed with it.
        command.process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().context("cannot start a child of the campaign")?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let (to, lines) = mpsc::sync_channel(1000);
        thread::spawn(move || {
            let lines = BufReader::new(stdout.expect("the output is a pipe")).lines();
            lines.map_while(Result::ok).try_for_each(|it| to.send(it))
        });
        let errors = thread::spawn(move || ends(stderr.expect("the errors are a pipe")));
        Ok(Self { child, lines, errors })
    }

    /// Hands each case that ended to `ended`; kills the child where one takes too long.
    fn watch(mut self, run: &Run<'_>, ended: &mut dyn FnMut(End)) -> anyhow::Result<Ended> {
        let limit = run.section.limit();
        let (mut running, mut is_late) = (None, false);
        let mut since = Instant::now();
        // The processor time of the child when it had last said something.
        let mut taken = Duration::ZERO;
        loop {
            let limit = if running.is_some() { limit } else { limit.max(BETWEEN_CASES) };
            match self.lines.recv_timeout(limit.saturating_sub(since.elapsed())) {
                Ok(line) => {
                    match serde_json::from_str(&line) {
                        Ok(Line::Start(case)) => running = Some(case),
                        Ok(Line::End(end)) => {
                            running = None;
                            ended(end);
                        }
                        // Code under test may print, too.
                        Err(_) => continue,
                    }
                    since = Instant::now();
                    taken = cpu_time::of_running(self.child.id()).unwrap_or(taken);
                }
                // Others have the processor.
                Err(RecvTimeoutError::Timeout)
                    if cpu_time::of_running(self.child.id())
                        .is_some_and(|it| it.saturating_sub(taken) < limit / 2) =>
                {
                    since = Instant::now();
                }
                Err(RecvTimeoutError::Timeout) => {
                    is_late = true;
                    self.kill();
                    break;
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let status = self.child.wait().context("cannot wait for a child of the campaign")?;
        // What it started may live on, and hold its standard error stream open.
        self.kill();
        let errors = self.errors.join().unwrap_or_default();
        let problem = |kind, message| Problem { kind, message };
        match running {
            Some(case) if is_late => {
                let message = format!("the case took more than {} s", limit.as_secs_f64());
                Ok(Ended::At(case, problem(Kind::Hang, message)))
            }
            Some(case) => {
                let how = match status.signal() {
                    Some(signal) => format!("the process died of signal {signal}"),
                    None => format!("the process ended: {status}"),
                };
                Ok(Ended::At(case, problem(Kind::Death, format!("{how}\n{errors}"))))
            }
            None if status.success() => Ok(Ended::Finished),
            None => bail!("a child of the campaign ended between cases: {status}\n{errors}"),
        }
    }

    /// Kills the child, and what it started.
    fn kill(&self) {
        let group = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        // It may be gone.
        let _ = group.map(|it| kill_process_group(it, Signal::KILL));
    }
}

/// Reads all that there is; returns the beginning and the end of it.
fn ends(mut from: impl Read) -> String {
    let (mut first, mut last, mut buffer) = (Vec::new(), Vec::new(), [0; 4096]);
    while let Ok(n @ 1..) = from.read(&mut buffer) {
        let room = (END_BYTES - first.len()).min(n);
        first.extend_from_slice(&buffer[..room]);
        last.extend_from_slice(&buffer[room..n]);
        let extra = last.len().saturating_sub(END_BYTES);
        last.drain(..extra);
    }
    format!("{}{}", String::from_utf8_lossy(&first), String::from_utf8_lossy(&last))
}
