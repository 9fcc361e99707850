//! `cargo run --profile campaign -p tvmtune-campaign`: the command line of the campaign.

#![forbid(unsafe_code)]

use std::env;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, bail};
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use rustix::process::{Resource, Rlimit, setrlimit};
use tvmtune_campaign::child::{self, Task};
use tvmtune_campaign::parent::{self, Plan};
use tvmtune_campaign::protocol::Share;
use tvmtune_campaign::report::Report;
use tvmtune_campaign::section::Section;
use tvmtune_campaign::sections::{ALL, MISHAPS};
use tvmtune_campaign::system::roles;

/// Seconds of a section where nothing else ends it.
const SECONDS: f64 = 30.0;

/// Runs random and hostile inputs and circumstances against tvmtune
#[derive(Debug, Parser)]
#[command(name = "campaign")]
struct Cli {
    /// Sections to run; without any, all
    #[arg(value_name = "SECTION")]
    sections: Vec<String>,
    /// Seconds of each section [default: 30, or PROPTEST_CASES cases]
    #[arg(long, conflicts_with = "cases")]
    seconds: Option<f64>,
    /// Cases of each section
    #[arg(long, env = "PROPTEST_CASES", value_name = "N")]
    cases: Option<u64>,
    /// The seed; without one, a fresh one
    #[arg(long, env = "PROPTEST_RNG_SEED")]
    seed: Option<u64>,
    /// Run just this case of one section
    #[arg(long, value_name = "N")]
    case: Option<u64>,
    /// Processes at a time [default: as many as there are cores]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Where inputs of findings are saved
    #[arg(long, value_name = "DIR", default_value = "target/campaign")]
    out: PathBuf,
    /// Write the report to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// List the sections
    #[arg(long)]
    list: bool,
    /// Run cases for a parent
    #[arg(long, hide = true, value_name = "FIRST,STEP,END")]
    child: Option<ShareArg>,
    /// Save each input before anything is done with it
    #[arg(long, hide = true)]
    save_all: bool,
}

fn main() -> anyhow::Result<ExitCode> {
    if let Some(code) = roles::play() {
        return Ok(code);
    }
    let cli = Cli::parse();
    if cli.list {
        for section in ALL {
            println!("{:12} {}", section.name(), section.about());
        }
        return Ok(ExitCode::SUCCESS);
    }
    let sections = selected(&cli.sections)?;
    if let (Some(share), [section]) = (&cli.child, sections.as_slice()) {
        run_child(&cli, *section, share.0)?;
        return Ok(ExitCode::SUCCESS);
    }
    if cli.case.is_some() && sections.len() != 1 {
        bail!("`--case` is of one section: name it, as in `campaign mutants --case 7`");
    }
    let report = campaign(&plan(&cli)?, &sections)?;
    if let Some(path) = &cli.json {
        let text = serde_json::to_string_pretty(&report)?;
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(if report.has_findings() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn selected(names: &[String]) -> anyhow::Result<Vec<&'static dyn Section>> {
    let find = |name: &String| {
        let found = ALL.iter().copied().chain([MISHAPS]).find(|it| it.name() == name);
        found.with_context(|| format!("there is no section `{name}`: `--list` shows all"))
    };
    if names.is_empty() { Ok(ALL.to_vec()) } else { names.iter().map(find).collect() }
}

fn plan(cli: &Cli) -> anyhow::Result<Plan> {
    let now = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let fresh = || now().map_or(0, |it| it.as_nanos() as u64 % 1_000_000_000_000);
    let cases = cli.cases.filter(|_| cli.seconds.is_none());
    let seconds = match cli.seconds {
        None if cases.is_none() && cli.case.is_none() => Some(SECONDS),
        seconds => seconds,
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Ok(Plan {
        program: env::current_exe().context("cannot find this program")?,
        seed: cli.seed.unwrap_or_else(fresh),
        cases,
        time: seconds.map(duration).transpose()?,
        only: cli.case,
        jobs: cli.jobs.unwrap_or(cores),
        out: cli.out.clone(),
    })
}

fn duration(seconds: f64) -> anyhow::Result<Duration> {
    Duration::try_from_secs_f64(seconds).context("`--seconds` is not a time")
}

/// Runs the sections one after the other, and prints what comes of each.
fn campaign(plan: &Plan, sections: &[&dyn Section]) -> anyhow::Result<Report> {
    println!("seed {}", plan.seed);
    let mut report = Report { seed: plan.seed, sections: Vec::new() };
    for section in sections {
        let progress = Progress::new(section.name(), plan);
        let of_section = parent::run(*section, plan, &|n_cases| progress.show(n_cases))?;
        progress.bar.finish_and_clear();
        println!("{of_section}");
        report.sections.push(of_section);
    }
    Ok(report)
}

/// A bar on a terminal; elsewhere a line a minute.
struct Progress {
    name: &'static str,
    bar: ProgressBar,
    last: Mutex<Instant>,
}

impl Progress {
    fn new(name: &'static str, plan: &Plan) -> Self {
        let bar = match (plan.only, plan.cases) {
            (None, Some(cases)) => ProgressBar::new(cases),
            _ => ProgressBar::no_length(),
        };
        let style = ProgressStyle::with_template("{prefix} {human_pos} cases, {elapsed} {bar:30}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_prefix(name);
        Self { name, bar, last: Mutex::new(Instant::now()) }
    }

    fn show(&self, n_cases: u64) {
        self.bar.set_position(n_cases);
        if let Ok(mut last) = self.last.lock()
            && !std::io::stderr().is_terminal()
            && last.elapsed() > Duration::from_secs(60)
        {
            *last = Instant::now();
            eprintln!("{}: {n_cases} cases", self.name);
        }
    }
}

/// Which cases a child runs.
#[derive(Clone, Copy, Debug)]
struct ShareArg(Share);

impl FromStr for ShareArg {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let [first, step, end] = text.split(',').collect::<Vec<_>>()[..] else {
            bail!("expected FIRST,STEP,END");
        };
        let end = if end == "-" { None } else { Some(end.parse()?) };
        Ok(Self(Share { first: first.parse()?, step: step.parse()?, end }))
    }
}

fn run_child(cli: &Cli, section: &dyn Section, share: Share) -> anyhow::Result<()> {
    if let Some(bytes) = section.memory_bytes() {
        let limit = Rlimit { current: Some(bytes), maximum: Some(bytes) };
        setrlimit(Resource::As, limit).context("cannot limit memory")?;
    }
    let task = Task {
        seed: cli.seed.context("a child needs the seed")?,
        share,
        time: cli.seconds.map(duration).transpose()?,
        out: &cli.out,
        save_all: cli.save_all,
    };
    child::run(section, task, &mut std::io::stdout().lock())?;
    Ok(())
}
