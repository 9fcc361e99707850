//! `cargo tvmtune watch`: what builds and commands of this user are tuning now; nothing is measured.

use std::io::IsTerminal;
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail};
use tvmtune_plan::database::Cache;
use tvmtune_plan::printable::Printable;
use tvmtune_tuner::tune::{Phase, Progress, running};

use crate::cli::Watch;
use crate::output::print;
use crate::render::{count, took};
use crate::{Exit, output};

/// The time between two looks.
const PAUSE: Duration = Duration::from_secs(1);

pub(crate) fn run(arguments: &Watch) -> Result<Exit> {
    let Some(cache) = Cache::discover() else {
        bail!("there is no folder for the progress of builds; set `TVMTUNE_CACHE` to one");
    };
    let look = || match arguments.json {
        true => serde_json::to_string_pretty(&running(&cache)).map(|it| it + "\n"),
        false => Ok(text(&running(&cache))),
    };
    if arguments.once {
        print!("{}", look()?);
        return Ok(Exit::Done);
    }
    let is_terminal = std::io::stdout().is_terminal();
    let mut shown = String::new();
    loop {
        let state = look()?;
        if state != shown {
            if is_terminal && !shown.is_empty() {
                // Over the last state.
                print!("\x1b[{}A\x1b[J", shown.lines().count());
            }
            print!("{state}");
            if !output::flush() {
                return Ok(Exit::Done);
            }
            shown = state;
        }
        thread::sleep(PAUSE);
    }
}

/// Formats the progress of runs, up to three lines each.
fn text(runs: &[Progress]) -> String {
    if runs.is_empty() {
        return "nothing is being tuned\n".to_owned();
    }
    let lines = runs.iter().map(|it| {
        let (name, latest) = (Printable(&it.package), Printable(&it.latest));
        let now = Printable(&it.now);
        let budget = Duration::try_from_secs_f64(it.budget_seconds).unwrap_or_default();
        let time = format!("{} of at most {}", took(it.elapsed()), took(budget));
        let state = match it.phase {
            Phase::Waiting => {
                let (process, waited) = (it.process, took(it.elapsed()));
                return format!(
                    "{name} (process {process}): waits for another run on this device; {waited}\n\n"
                );
            }
            Phase::Tuning => format!(
                "{} of {} begun, {} finished, {}",
                it.n_begun,
                count(it.n_tasks, "kernel"),
                it.n_finished,
                count(it.n_trials as usize, "trial"),
            ),
        };
        let details = [now, latest].map(|it| it.to_string()).into_iter();
        let details = details.filter(|it| !it.is_empty()).map(|it| format!("  {it}\n"));
        format!("{name} (process {}): {state}; {time}\n{}", it.process, details.collect::<String>())
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_three_lines() {
        assert_eq!(text(&[]), "nothing is being tuned\n");
        let mut run = Progress {
            process: 7,
            package: "model".to_owned(),
            phase: Phase::Tuning,
            started_unix_ms: u64::MAX,
            updated_unix_ms: 0,
            budget_seconds: 60.0,
            n_tasks: 3,
            n_begun: 2,
            n_finished: 1,
            n_trials: 40,
            latest: "linear avx2: 41.0 us -> 20.5 us".to_owned(),
            now: "mlp avx2: first search".to_owned(),
        };
        assert_eq!(
            text(&[run.clone()]),
            "model (process 7): 2 of 3 kernels begun, 1 finished, 40 trials; 0.0 s of at most 60 s\n  \
             mlp avx2: first search\n  linear avx2: 41.0 us -> 20.5 us\n"
        );
        run.phase = Phase::Waiting;
        assert!(text(&[run]).contains("waits for another run"));
    }
}
