//! Databases of others: files whose names and contents want more than to be records. Whatever they are,
//! a build goes on in its time, and commands write where they should.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tvmtune_ir::name::ProgramName;
use tvmtune_plan::database::Cache;
use tvmtune_plan::printable::is_control;
use tvmtune_plan::record::{Entry, Measured, Record, Source};
use tvmtune_tests::sandbox::{SOURCE, Said, Sandbox, files, said};

const TVMTUNE: &str = env!("CARGO_BIN_EXE_tvmtune");
const SCRIPT: &str = env!("CARGO_BIN_EXE_script");

/// A package, and a folder beside it with one good record of its kernel.
struct Hostile {
    sandbox: Sandbox,
    record: Record,
}

impl Hostile {
    fn new() -> Self {
        let sandbox = Sandbox::new("sandbox", SOURCE);
        let source = SOURCE.split_once("\n\n").expect("a `use`").1;
        let dag = tvmtune_ir::dsl::program(source).expect("a program");
        let text = tvmtune_ir::dag::print::canonical(&dag);
        let record = Record {
            workload: tvmtune_ir::workload::id(&dag),
            name: ProgramName::of("scaled_sum"),
            dag: text,
            buckets: Vec::new(),
            ..tvmtune_tests::sample_record(0)
        };
        Self { sandbox, record }
    }

    /// The folder of the hostile database.
    fn folder(&self) -> PathBuf {
        self.sandbox.package().join("from")
    }

    /// The path that the record should have.
    fn good_path(&self) -> PathBuf {
        let (id, device) = (self.record.workload.0.short(), self.record.device.file_stem());
        self.folder().join("scaled_sum").join(format!("{id}.{device}.toml"))
    }

    /// Writes a text where the record should be.
    fn write(&self, text: &str) -> PathBuf {
        let path = self.good_path();
        fs::create_dir_all(path.parent().expect("a folder")).expect("writable");
        fs::write(&path, text).expect("writable");
        path
    }

    /// Runs the build script with the folder as `TVMTUNE_DB`.
    #[track_caller]
    fn build(&self) -> Said {
        let folder = self.folder().display().to_string();
        let variables = [("TVMTUNE", "use"), ("TVMTUNE_DB", folder.as_str())];
        let output = self.sandbox.build(SCRIPT, "out", &variables);
        assert_eq!((output.code, output.directives("error")), (Some(0), Vec::new()), "{output:?}");
        output
    }

    /// Builds with this text as the record; returns the one warning about it.
    #[track_caller]
    fn refused(&self, text: &str) -> String {
        let path = self.write(text);
        let output = self.build();
        let warnings = output.directives("warning");
        let of_file = warnings.iter().filter(|it| it.contains(path.to_str().expect("text")));
        let of_file: Vec<_> = of_file.collect();
        assert_eq!(of_file.len(), 1, "{output:?}");
        (*of_file[0]).to_string()
    }

    #[track_caller]
    fn command(&self, arguments: &[&str], code: i32) -> Said {
        let said = said(self.sandbox.command(TVMTUNE).args(arguments));
        assert_eq!(said.code, Some(code), "{said:?}");
        said
    }

    /// The record with a schedule of the default trace that took that long, of code that nobody makes.
    fn timed(&self, ns: f64) -> Record {
        let entry = |source, artifact: &str, ns: f64| Entry {
            source,
            artifact: tvmtune_tests::code(artifact),
            trace: Vec::new(),
            measured: Some(Measured {
                median_ns: ns,
                min_ns: ns,
                p10_ns: ns,
                p90_ns: ns,
                samples: 9,
                threads: 1,
                ..Measured::default()
            }),
            ..tvmtune_tests::sample_record(0).buckets[0].schedules[0].clone()
        };
        let mut record = self.record.clone();
        for (lo, hi) in [(1, 8), (9, 64)] {
            let bucket = record.bucket_mut(&[tvmtune_ir::poly::Interval { lo, hi }]);
            bucket.trials = 9;
            bucket.schedules =
                vec![entry(Source::Evolved, "fast", ns), entry(Source::Default, "slow", 1e6)];
        }
        record
    }
}

/// Every file below a folder with its content.
fn snapshot(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    files(folder).into_iter().map(|it| (it.clone(), fs::read(it).expect("readable"))).collect()
}

#[test]
fn names_in_a_record_lead_nowhere() {
    let hostile = Hostile::new();
    let victim = hostile.sandbox.package().join("victim");
    fs::create_dir_all(&victim).expect("writable");
    fs::write(victim.join("settings.toml"), "precious").expect("writable");
    let good = hostile.timed(1e5).to_toml();
    let (id, device) = (hostile.record.workload.to_string(), hostile.record.device.to_string());
    let up = "../".repeat(12);
    let at_victim = format!("{up}{}/settings", victim.display());
    let changes = [
        (device.clone(), format!("cpu-avx2/{at_victim}")),
        (device.clone(), format!("{device}/../../../../victim/settings")),
        (device.clone(), at_victim.clone()),
        (device.clone(), "C:\\\\victim".to_owned()),
        (device.clone(), "aux".to_owned()),
        (device, "x\\ncargo::rustc-env=EVIL=1".to_owned()),
        ("\"scaled_sum\"".to_owned(), format!("\"{at_victim}\"")),
        ("\"scaled_sum\"".to_owned(), "\"..\"".to_owned()),
        ("\"scaled_sum\"".to_owned(), "\"a::..::b\"".to_owned()),
        ("\"scaled_sum\"".to_owned(), "\"\"".to_owned()),
        (id.clone(), format!("../../{}", &id[6..])),
        (id, at_victim),
    ];
    for (from, to) in changes {
        let text = good.replacen(&from, &to, 1);
        assert_ne!(text, good);
        hostile.write(&text);
        let before = snapshot(&hostile.sandbox.package());
        let folder = hostile.folder().display().to_string();
        let into = hostile.sandbox.package().join("into").display().to_string();
        hostile.command(&["merge", &folder], 1);
        hostile.command(&["merge", &folder, "--into", &into], 1);
        assert_eq!(snapshot(&hostile.sandbox.package()), before, "{to}");
        assert_eq!(hostile.sandbox.records(), Vec::<PathBuf>::new(), "{to}");
    }
    hostile.write(&good);
    hostile.command(&["merge", &hostile.folder().display().to_string()], 0);
    assert_eq!(hostile.sandbox.records().len(), 1, "a good one is merged");
}

#[test]
fn names_of_files_are_no_directives() {
    let hostile = Hostile::new();
    let good = hostile.write(&hostile.record.to_toml());
    let id = hostile.record.workload.0.short();
    let evil = [
        format!("{id}.a\ncargo::rustc-env=EVIL=1\n.toml"),
        format!("{id}.a\rcargo::rustc-link-arg=-evil\r.toml"),
        format!("{id}.\u{1b}[2J.toml"),
        format!("{id}.a\u{2028}cargo:rustc-env=EVIL=1.toml"),
    ];
    for name in &evil {
        fs::write(good.with_file_name(name), "no record").expect("writable");
    }
    let folder = hostile.folder().join("b\ncargo::rustc-env=EVIL=1\n");
    fs::create_dir(&folder).expect("writable");
    fs::write(folder.join(good.file_name().expect("a name")), "no record").expect("writable");
    let check = |output: &Said| {
        for line in output.out.split(['\n', '\r']) {
            assert!(line.is_empty() || line.starts_with("cargo::"), "{line:?}");
            assert!(!line.starts_with("cargo::rustc-link") && !line.contains("EVIL="), "{line:?}");
            assert!(!line.chars().any(is_control), "{line:?}");
        }
        assert_eq!(output.directives("rustc-env").len(), 1, "the folder of plans");
    };
    check(&hostile.build());
    // The folder of a renamed program is looked for among all of them.
    fs::rename(good.parent().expect("a folder"), hostile.folder().join("renamed")).expect("there");
    check(&hostile.build());
    let said = hostile.command(&["gc"], 0);
    assert!(!said.out.contains('\u{1b}'), "{said:?}");
}

#[test]
fn texts_in_a_record_control_no_terminal() {
    let hostile = Hostile::new();
    let good = hostile.timed(1e5).to_toml();
    for (from, to) in [
        ("tool = \"tests\"", "tool = \"\\u001b]0;evil\\u0007\""),
        ("host = \"\"", "host = \"a\\ncargo::rustc-env=EVIL=1\""),
        ("trials = 9", "\"tri\\u001b[31mals\" = 9"),
        ("isa = \"avx2\"", "isa = \"\\u001b[31m\""),
        ("trace = []", "trace = [\"split\\u001b[31m\"]"),
    ] {
        assert!(good.contains(from), "{from}: {good}");
        let warning = hostile.refused(&good.replacen(from, to, 1));
        assert!(!warning.chars().any(is_control), "{warning:?}");
        let folder = hostile.folder().display().to_string();
        let said = hostile.command(&["merge", &folder], 1);
        let shown = said.err.replace('\n', "");
        assert!(!shown.chars().any(is_control) && !said.err.contains("\ncargo::"), "{said:?}");
    }
}

#[cfg(unix)]
#[test]
fn no_kind_of_file_stops_a_build() {
    use std::os::unix::fs::symlink;

    let hostile = Hostile::new();
    let path = hostile.write("");
    let check = |why: &str| {
        let output = hostile.build();
        assert!(output.directives("warning").iter().any(|it| it.contains(why)), "{output:?}");
        fs::remove_file(&path).or_else(|_| fs::remove_dir(&path)).expect("it is there");
    };
    check("line 1");
    let made = std::process::Command::new("mkfifo").arg(&path).status();
    assert!(made.is_ok_and(|it| it.success()), "`mkfifo` is of POSIX");
    check("no regular file");
    fs::File::create(&path).expect("writable").set_len(1 << 30).expect("sparse");
    check("has more than");
    symlink("/dev/zero", &path).expect("writable");
    check("no regular file");
    symlink(&path, &path).expect("writable");
    check("cannot read");
    fs::create_dir(&path).expect("writable");
    check("no regular file");
    fs::write(&path, format!("a = {}", "[".repeat(100_000))).expect("writable");
    check("line 1");
    fs::write(&path, [0xff; 100]).expect("writable");
    check("UTF-8");
}

#[test]
fn a_record_takes_no_longer_than_its_limits() {
    let hostile = Hostile::new();
    let mut record = hostile.timed(1e5);
    record.buckets[0].schedules[0].trace = vec!["inline s0".to_owned(); 1_000_000];
    assert!(hostile.refused(&record.to_toml()).contains("has more than"));
    record.buckets[0].schedules[0].trace.truncate(10_000);
    assert!(hostile.refused(&record.to_toml()).contains("`trace` is not one of a schedule"));
    record.buckets[0].schedules[0].trace.truncate(1);
    record.buckets[0].schedules = vec![record.buckets[0].schedules[1].clone(); 300];
    assert!(hostile.refused(&record.to_toml()).contains("more schedules"));
}

#[test]
fn a_build_opens_the_records_of_its_own_programs() {
    let hostile = Hostile::new();
    let path = hostile.write("no record");
    let (name, device) = (path.file_name().expect("a name"), hostile.record.device.file_stem());
    for n in 0..300 {
        let folder = hostile.folder().join(format!("other_{n}"));
        fs::create_dir(&folder).expect("writable");
        fs::write(folder.join(format!("{n:012x}.{device}.toml")), "no record").expect("writable");
    }
    let n_warned = |output: &Said| output.out.matches("no record").count();
    let first = hostile.build();
    assert_eq!(n_warned(&first), 0, "{first:?}");
    assert!(first.out.contains("line 1") && !first.out.contains("more)"), "{first:?}");
    // A renamed program is found by the names of files alone.
    fs::remove_file(&path).expect("it is there");
    fs::write(hostile.folder().join("other_7").join(name), "no record").expect("writable");
    let renamed = hostile.build();
    assert!(renamed.out.contains("line 1") && !renamed.out.contains("more)"), "{renamed:?}");
    // More devices than anybody has.
    for n in 0..300 {
        let name = format!("{}.cpu-{n}.toml", hostile.record.workload.0.short());
        fs::write(path.with_file_name(name), hostile.record.to_toml()).expect("writable");
    }
    let many = hostile.build();
    assert!(many.out.contains("has more than 256 records of one workload"), "{many:?}");
}

#[test]
fn times_that_cannot_be_are_refused_and_stale_ones_win_nothing() {
    let hostile = Hostile::new();
    for ns in [0.001, 0.9] {
        let why = hostile.refused(&hostile.timed(ns).to_toml());
        assert!(why.contains("less than the program takes"), "{why}");
    }
    let before = hostile.sandbox.plans("out");
    // Plain loops in one thread, of other code than was measured, said to be a thousand times as fast.
    hostile.write(&hostile.timed(1e3).to_toml());
    let output = hostile.build();
    assert!(!output.out.contains("is not used"), "{output:?}");
    let items = |plans: &[(PathBuf, String)]| -> Vec<String> {
        let code = |it: &(PathBuf, String)| {
            let lines = it.1.lines().filter(|it| it.contains(".byte") || it.contains("artifact"));
            lines.collect::<Vec<_>>().join("\n")
        };
        plans.iter().map(code).collect()
    };
    assert_eq!(items(&hostile.sandbox.plans("out")), items(&before), "the default schedule runs");
}

#[test]
fn a_record_of_the_future_is_watched_like_others() {
    let hostile = Hostile::new();
    let path = hostile.write(&hostile.timed(1e5).to_toml());
    let future = SystemTime::now() + Duration::from_secs(10 * 365 * 24 * 3600);
    fs::File::options().write(true).open(&path).expect("there").set_modified(future).expect("set");
    let watched = |output: &Said| {
        output.directives("rerun-if-changed").iter().any(|it| Path::new(it) == path)
    };
    assert!(watched(&hostile.build()));
    let newer = hostile.timed(1e5).to_toml().replacen("schema = ", "schema = 9", 1);
    fs::write(&path, newer).expect("writable");
    assert!(watched(&hostile.build()), "it is to be used once tvmtune is updated");
}

#[test]
fn what_writers_that_were_killed_left_is_removed() {
    let hostile = Hostile::new();
    let from = hostile.folder().display().to_string();
    hostile.write(&hostile.timed(1e5).to_toml());
    hostile.command(&["merge", &from], 0);
    let cached = hostile.sandbox.records().remove(0);
    let leave = |folder: &Path| {
        fs::create_dir_all(folder).expect("writable");
        // No process has this number.
        let path = folder.join(format!(".a.toml.{}-0.tmp", u32::MAX));
        fs::write(&path, "half of a rec").expect("writable");
        let file = fs::File::options().write(true).open(&path).expect("there");
        file.set_modified(SystemTime::UNIX_EPOCH).expect("set");
        path
    };
    let machines = Cache::new(&hostile.sandbox.cache()).locks().with_file_name("machines");
    let left = [cached.parent().expect("a folder"), &machines].map(leave);
    let shipped = leave(&hostile.sandbox.package().join("tvmtune/scaled_sum"));
    let said = hostile.command(&["gc"], 0);
    assert!(said.out.contains("3 temporary files of writers that were killed"), "{said:?}");
    // The next writer in a folder removes what lies there.
    hostile.write(&hostile.timed(1e4).to_toml());
    hostile.command(&["merge", &from], 0);
    assert_eq!([left[0].exists(), left[1].exists(), shipped.exists()], [false, true, true]);
    hostile.command(&["gc", "--apply"], 0);
    assert!(!left[1].exists() && !shipped.exists() && cached.exists());
}

#[cfg(unix)]
#[test]
fn links_lead_out_of_no_database() {
    let hostile = Hostile::new();
    let from = hostile.folder().display().to_string();
    let good = hostile.write(&hostile.timed(1e5).to_toml());
    let outside = hostile.sandbox.package().join("outside");
    fs::create_dir(&outside).expect("writable");
    let into = hostile.sandbox.package().join("into");
    fs::create_dir(&into).expect("writable");
    std::os::unix::fs::symlink(&outside, into.join("scaled_sum")).expect("writable");
    let said = hostile.command(&["merge", &from, "--into", into.to_str().expect("text")], 1);
    assert!(said.err.contains("is a link"), "{said:?}");
    assert_eq!(files(&outside), Vec::<PathBuf>::new());
    // A file that is a link, or has another name as well, is replaced, and nothing is written through it.
    fs::remove_file(into.join("scaled_sum")).expect("it is there");
    let target = into.join("scaled_sum").join(good.file_name().expect("a name"));
    fs::create_dir(into.join("scaled_sum")).expect("writable");
    let precious = outside.join("precious.toml");
    fs::write(&precious, hostile.timed(1e6).to_toml()).expect("writable");
    for link in [fs::hard_link, |from, to| std::os::unix::fs::symlink(from, to)] {
        link(&precious, &target).expect("writable");
        hostile.command(&["merge", &from, "--into", into.to_str().expect("text")], 0);
        assert_eq!(fs::read_to_string(&precious).expect("there"), hostile.timed(1e6).to_toml());
        fs::remove_file(&target).expect("it is there");
    }
}
