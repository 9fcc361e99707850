//! Files of the past and the future, and clocks that are wrong, or jump.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::errand::Errand;
use super::ledger::{Ledger, files};
use super::place;
use super::template::{self, io_problem};
use crate::case::Case;
use crate::section::{Problem, Section, Verdict};

/// The section.
pub struct Clocks;

/// Where Debian's libfaketime has its library.
const FAKETIME: [&str; 2] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketime.so.1",
];

/// Clocks of libfaketime: of the past and the future, and one that runs a thousand times too fast.
const CLOCKS: [&str; 5] =
    ["1971-01-01 00:00:00", "@2100-01-01 00:00:00", "-20y", "+400d", "+0 x1000"];

/// Seconds since 1970 that files are dated at, beside those around now.
const DATES: [u64; 5] = [0, 1, 1 << 31, 1 << 32, 4_102_444_800];

impl Section for Clocks {
    fn name(&self) -> &'static str {
        "clocks"
    }

    fn about(&self) -> &'static str {
        "files of the past and the future, wrong clocks: commands go on, nothing lost"
    }

    fn limit(&self) -> Duration {
        Duration::from_secs(150)
    }

    fn cases_of_a_test(&self) -> u64 {
        2
    }

    fn check(&self, case: &mut Case) -> Result<Verdict, Problem> {
        let folder = case.folder().to_owned();
        let place = template::tuned(&folder)?;
        let errand = *case.pick(&Errand::ALL);
        errand.prepare(&place)?;
        for dir in [&place.cache, &place.package, &place.out_dir] {
            date(case, dir)?;
        }
        let before = Ledger::of(&place)?;
        let (mut command, input) = errand.command(&place);
        match FAKETIME.iter().find(|it| Path::new(it).exists()) {
            Some(library) if case.random.chance(0.5) => {
                let clock = *case.pick(&CLOCKS);
                case.count(format!("clock {clock}"));
                command.env("LD_PRELOAD", library).env("FAKETIME", clock);
            }
            Some(_) => case.count("own clock"),
            None => case.count("own clock: libfaketime is absent"),
        }
        case.input("clock.txt", format!("{errand:?}\n"));
        place::run_with(&mut command, &input)?.is_done(&format!("{errand:?}"))?;
        before.is_kept_in(&Ledger::of(&place)?, |_| true)?;
        // With the right clock again, everything is as before.
        Errand::Script.prepare(&place)?;
        Errand::Script.run(&place)?.is_done("the build script afterwards")?;
        Errand::Verify.run(&place)?.is_done("verify afterwards")?;
        Ok(Verdict::Accepted)
    }
}

/// Dates the files of a folder, some of them.
fn date(case: &mut Case, dir: &Path) -> Result<(), Problem> {
    let paths: Vec<PathBuf> = files(dir);
    for path in paths {
        let around_now = Duration::from_secs(case.random.below(200_000) as u64);
        let time = match case.random.below(4) {
            0 => continue,
            1 => SystemTime::now() - around_now,
            2 => SystemTime::now() + around_now,
            _ => SystemTime::UNIX_EPOCH + Duration::from_secs(*case.pick(&DATES)),
        };
        let dated = File::options().append(true).open(&path).and_then(|it| it.set_modified(time));
        dated.map_err(io_problem)?;
    }
    Ok(())
}
