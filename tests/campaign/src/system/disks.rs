//! Folders that are full, read-only, of a strange name, no folders at all, or gone in between.
//!
//! Whatever a folder is, a command ends well or with an error that says why; records that were there
//! are there afterwards, and once the folder is as it should be, commands work.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::errand::{Errand, check_directives};
use super::ledger::Ledger;
use super::place::{self, Place};
use super::template::io_problem;
use super::{shell, template};
use crate::case::Case;
use crate::section::{Kind, Problem, Section, Verdict};

/// The section.
pub struct Disks;

/// What is wrong with a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Circumstance {
    Full,
    ReadOnly,
    SmallFiles,
    File,
    BelowFile,
    Dangling,
    Loop,
    NoHome,
    OddName,
    Vanishing,
}

const CIRCUMSTANCES: [Circumstance; 10] = [
    Circumstance::Full,
    Circumstance::ReadOnly,
    Circumstance::SmallFiles,
    Circumstance::File,
    Circumstance::BelowFile,
    Circumstance::Dangling,
    Circumstance::Loop,
    Circumstance::NoHome,
    Circumstance::OddName,
    Circumstance::Vanishing,
];

/// Names that folders may have.
const NAMES: [&[u8]; 10] = [
    b"a b",
    b"line\nbreak",
    b"cargo::rustc-env=EVIL=1\n",
    b"quote\"'`",
    b"\xff\xfe",
    b"\xc3\xa4\xe2\x82\xac",
    b"colon:semi;",
    b"%s%n$(true)",
    b"back\\slash",
    b"-dash",
];

/// Leaves `$KIB` KiB free on a small file system in the place of `$DIR`, with the same files.
const FILL: &str = "set -e
mount -t tmpfs -o size=32m tmpfs \"$SPARE\"
cp -a \"$DIR/.\" \"$SPARE\"
dd if=/dev/zero of=\"$SPARE/fill\" bs=4k 2> /dev/null || true
truncate -s -\"$KIB\"K \"$SPARE/fill\"
mount --bind \"$SPARE\" \"$DIR\"
set +e";

/// Copies what is there afterwards to where it outlives the mount.
const KEEP: &str = "rm -f \"$DIR/fill\"; cp -a \"$DIR/.\" \"$KEPT\"";

const FORBID: &str =
    "mount --bind \"$DIR\" \"$DIR\" && mount -o remount,ro,bind \"$DIR\" || exit 9";

impl Section for Disks {
    fn name(&self) -> &'static str {
        "disks"
    }

    fn about(&self) -> &'static str {
        "full, read-only, strange and vanishing folders: errors, no panics, nothing lost"
    }

    fn limit(&self) -> Duration {
        Duration::from_secs(150)
    }

    fn cases_of_a_test(&self) -> u64 {
        5
    }

    fn check(&self, case: &mut Case) -> Result<Verdict, Problem> {
        let folder = case.folder().to_owned();
        let circumstance = *case.pick(&CIRCUMSTANCES);
        let errand = *case.pick(&Errand::ALL);
        case.count(format!("{circumstance:?}"));
        case.input("disk.txt", format!("{circumstance:?} while {errand:?}\n"));
        let needs_mounts = matches!(circumstance, Circumstance::Full | Circumstance::ReadOnly);
        if needs_mounts && !shell::has_mounts() {
            return Ok(Verdict::Skipped("processes may not have mounts of their own".to_owned()));
        }
        let place = template::tuned(&folder)?;
        let trouble = Trouble { place, folder, errand };
        match circumstance {
            Circumstance::Full | Circumstance::ReadOnly | Circumstance::SmallFiles => {
                trouble.without_room(case, circumstance)
            }
            Circumstance::OddName => trouble.of_odd_names(case),
            Circumstance::Vanishing => trouble.that_vanishes(case),
            _ => trouble.with_no_cache(case, circumstance),
        }
    }
}

/// A command in a place that something happens to.
struct Trouble {
    place: Place,
    folder: PathBuf,
    errand: Errand,
}

impl Trouble {
    /// Runs the command where files can't be written, or not all, or not whole.
    fn without_room(&self, case: &mut Case, what: Circumstance) -> Result<Verdict, Problem> {
        let Self { place, folder, errand } = self;
        errand.prepare(place)?;
        let before = Ledger::of(place)?;
        let dir = (*case.pick(&[&place.cache, &place.shipped(), &place.out_dir])).clone();
        let [spare, kept] = ["spare", "kept"].map(|it| folder.join(it));
        for it in [&dir, &spare, &kept] {
            fs::create_dir_all(it).map_err(io_problem)?;
        }
        let free = case.random.below(16) * 4;
        let size = case.random.below(20);
        let (command, input) = errand.command(place);
        let text = free.to_string();
        let variables: [(&str, &Path); 4] =
            [("DIR", &dir), ("SPARE", &spare), ("KEPT", &kept), ("KIB", Path::new(&text))];
        let mut wrapped = match what {
            Circumstance::Full => shell::among_mounts(place, &command, FILL, KEEP, &variables),
            Circumstance::ReadOnly => shell::among_mounts(place, &command, FORBID, "", &variables),
            // Blocks of 512 bytes; the signal that comes with the error is ignored.
            _ => {
                let limit = format!("trap '' XFSZ; ulimit -f {size}");
                shell::around(place, &command, &limit, "", &[])
            }
        };
        let said = place::run_with(&mut wrapped, &input)?;
        said.is_clear()?;
        if what == Circumstance::Full {
            fs::remove_dir_all(&dir).map_err(io_problem)?;
            template::copy(&kept, &dir).map_err(io_problem)?;
        }
        before.is_kept_in(&Ledger::of(place)?, |_| true)?;
        self.works_again()?;
        Ok(if said.status.success() { Verdict::Accepted } else { Verdict::Rejected })
    }

    /// Runs the command with a cache that is none.
    fn with_no_cache(&self, case: &mut Case, what: Circumstance) -> Result<Verdict, Problem> {
        let Self { place, folder, errand } = self;
        errand.prepare(place)?;
        let other = folder.join("other");
        let linked = |to: &Path| symlink(to, &other).map(|()| other.clone());
        let cache = match what {
            Circumstance::File => fs::write(&other, "text").map(|()| other.clone()),
            Circumstance::BelowFile => fs::write(&other, "text").map(|()| other.join("below")),
            Circumstance::Dangling => linked(Path::new("nowhere/at/all")),
            Circumstance::Loop => linked(&other),
            _ => Ok(PathBuf::new()),
        };
        let (mut command, input) = errand.command(place);
        if what == Circumstance::NoHome {
            let homes: [Option<OsString>; 3] =
                [None, Some(OsString::new()), Some(folder.join("no/home").into_os_string())];
            match case.pick(&homes) {
                Some(home) => command.env("HOME", home),
                None => command.env_remove("HOME"),
            };
            command.env_remove("XDG_CACHE_HOME").env_remove("TVMTUNE_CACHE");
            // Whatever home the system knows instead: nothing there changes.
            if !errand.only_reads() {
                command.env("XDG_CACHE_HOME", folder.join("xdg"));
            }
        } else {
            command.env("TVMTUNE_CACHE", cache.map_err(io_problem)?);
        }
        let before = Ledger::of(place)?;
        let said = place::run_with(&mut command, &input)?;
        said.is_clear()?;
        before.is_kept_in(&Ledger::of(place)?, |_| true)?;
        self.works_again()?;
        Ok(if said.status.success() { Verdict::Accepted } else { Verdict::Rejected })
    }

    /// Runs the command in folders with names that people do not give.
    fn of_odd_names(&self, case: &mut Case) -> Result<Verdict, Problem> {
        let name = |case: &mut Case| OsStr::from_bytes(case.pick::<&[u8]>(&NAMES)).to_owned();
        let mut odd = self.place.clone();
        for part in [&mut odd.package, &mut odd.cache, &mut odd.out_dir] {
            if case.random.chance(0.6) {
                let renamed = self.folder.join("odd").join(name(case));
                *part = renamed.join(part.file_name().unwrap_or_default());
            }
        }
        for (from, to) in [(&self.place.package, &odd.package), (&self.place.cache, &odd.cache)] {
            if from != to {
                template::copy(from, to).map_err(io_problem)?;
            }
        }
        case.input("names.txt", format!("{odd:?}\n"));
        fs::create_dir_all(&odd.out_dir).map_err(io_problem)?;
        // Folders of such names may be refused.
        if let Err(problem) = self.errand.prepare(&odd)
            && matches!(problem.kind, Kind::Panic | Kind::Hang)
        {
            return Err(problem);
        }
        let before = Ledger::of(&odd)?;
        let (mut command, input) = self.errand.command(&odd);
        let said = place::run_with(&mut command, &input)?;
        said.is_clear()?;
        if self.errand == Errand::Script {
            check_directives(&said)?;
        }
        before.is_kept_in(&Ledger::of(&odd)?, |_| true)?;
        Ok(if said.status.success() { Verdict::Accepted } else { Verdict::Rejected })
    }

    /// Runs the command while a folder comes and goes.
    fn that_vanishes(&self, case: &mut Case) -> Result<Verdict, Problem> {
        let Self { place, errand, .. } = self;
        errand.prepare(place)?;
        let records = place.cache.join("v4/records");
        let folders = [
            place.cache.clone(),
            place.cache.join("v1"),
            place.cache.join("v1/locks"),
            records,
            place.shipped(),
            place.out_dir.clone(),
        ];
        let vanishing = case.pick(&folders).clone();
        let pause = Duration::from_micros(case.random.below(20_000) as u64);
        let (mut command, input) = errand.command(place);
        let is_over = AtomicBool::new(false);
        let said = thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    // It may be full again by the time it is to go.
                    let _ = fs::remove_dir_all(&vanishing);
                    thread::sleep(pause);
                }
            });
            let said = place::run_with(&mut command, &input);
            is_over.store(true, Ordering::Relaxed);
            said
        })?;
        said.is_clear()?;
        Ledger::of(place)?;
        self.works_again()?;
        Ok(if said.status.success() { Verdict::Accepted } else { Verdict::Rejected })
    }

    /// Checks that the place is as good as before, once nothing is wrong any more.
    fn works_again(&self) -> Result<(), Problem> {
        let mut command: Command = self.place.tvmtune(["status", "--json"]);
        let said = place::run(&mut command)?;
        said.is_done("status afterwards")
    }
}
