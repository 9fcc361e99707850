//! The project as its users see it through cargo: when crates are rebuilt, the files of a package,
//! and that a crate which depends on one gets the kernels that it ships.

use std::fs;
use std::path::Path;
use std::process::Command;

use tvmtune_tests::sandbox::{SOURCE, Said, Sandbox, files, said};

/// Cargo in a package, with a target folder that all tests share: what a crate depends on
/// compiles once. It must succeed. To cargo, packages of one name are one package, so tests that look
/// at what is compiled have packages of names of their own.
#[track_caller]
pub(crate) fn cargo(sandbox: &Sandbox, folder: &str, arguments: &[&str]) -> Said {
    let output = said(&mut command(sandbox, folder, arguments));
    assert_eq!(output.code, Some(0), "{output:?}");
    output
}

/// The command of [`cargo`].
pub(crate) fn command(sandbox: &Sandbox, folder: &str, arguments: &[&str]) -> Command {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sandbox");
    let mut command = sandbox.cargo(folder, &target);
    command.args(arguments);
    command
}

/// Returns whether cargo compiled the package `checked`.
fn is_compiled(output: &Said) -> bool {
    output.err.contains("Compiling checked") || output.err.contains("Checking checked")
}

#[test]
fn cargo_check_never_measures_and_cargo_build_tunes_once() {
    let sandbox = Sandbox::new("checked", SOURCE);
    let step = |command: &str, compiles: bool, n_records: usize| {
        let output = cargo(&sandbox, "", &[command]);
        let seen = (is_compiled(&output), sandbox.records().len());
        assert_eq!(seen, (compiles, n_records), "{output:?}");
        assert!(!output.err.contains("tvmtune:"), "{output:?}");
        assert!(!output.err.contains("Compiling tvmtune"), "{output:?}");
    };
    // This build compiles the dependencies, which no step below may do, whichever test runs first.
    cargo(&Sandbox::new("sandbox", SOURCE), "", &["build"]);
    cargo(&sandbox, "", &["check"]);
    // An untuned kernel makes no check run the script again, and the first build tunes it.
    step("check", false, 0);
    step("build", true, 1);
    step("build", false, 1);
    step("check", false, 1);

    sandbox.write("src/lib.rs", &SOURCE.replace("0.5", "0.25"));
    step("check", true, 1);
    step("build", true, 2);
    step("build", false, 2);
    sandbox.write("src/lib.rs", &SOURCE.replace("0.5", "0.125"));
    step("build", true, 3);
    step("build", false, 3);
}

/// Launches the kernel of the package that it depends on.
const USER: &str = "
fn main() {
    use sandbox::scaled_sum;
    let mut y = [0.0; 3];
    scaled_sum(&tvmtune_runtime::Cpu::new(), &[2.0; 3 * 32], &mut y).expect(\"it runs\");
    let tier = |m| scaled_sum::plan(scaled_sum::Dims { m }).expect(\"in range\").tier;
    println!(\"{y:?} {} {}\", tier(3), tier(64));
}
";

#[test]
fn a_dependent_crate_runs_the_kernels_that_its_dependency_ships() {
    let sandbox = Sandbox::new("sandbox", SOURCE);
    let manifest = fs::read_to_string(sandbox.package().join("Cargo.toml")).expect("readable");
    let dependencies = "[dependencies]\nsandbox = { path = \"..\" }\n";
    let manifest = manifest.replace("\"sandbox\"", "\"user\"");
    sandbox.write("user/Cargo.toml", &manifest.replace("[dependencies]\n", dependencies));
    sandbox.write("user/src/main.rs", USER);
    let run = |expected: &str| {
        let output = cargo(&sandbox, "user", &["run"]);
        assert_eq!(output.out.trim(), format!("[32.0, 32.0, 32.0] {expected}"), "{output:?}");
    };
    // This file marks the content of a package: from here on the crate is somebody else's.
    sandbox.write("Cargo.toml.orig", "");
    run("default default");
    fs::remove_file(sandbox.package().join("Cargo.toml.orig")).expect("it is there");
    cargo(&sandbox, "", &["build"]);
    let records = sandbox.cache().join("v4").join("records");
    fs::rename(records, sandbox.package().join("tvmtune")).expect("both are here");
    fs::remove_dir_all(sandbox.cache()).expect("it is there");
    sandbox.write("Cargo.toml.orig", "");
    // The folder wasn't there to be watched.
    sandbox.write("src/lib.rs", SOURCE);
    run("exact exact");
    assert_eq!(sandbox.records().len(), 0);
}

#[test]
fn packages_hold_sources_records_and_licences_and_nothing_else() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests has a parent");
    let made = ["Cargo.toml", "Cargo.toml.orig", "Cargo.lock", ".cargo_vcs_info.json"];
    let kept = ["README.md", "LICENSE-APACHE", "LICENSE-MIT"];
    let packages = [
        ("tvmtune-math", "math"),
        ("tvmtune-ir", "compiler/ir"),
        ("tvmtune-schedule", "compiler/schedule"),
        ("tvmtune-cpu", "compiler/cpu"),
        ("tvmtune-cuda", "compiler/cuda"),
        ("tvmtune-space", "compiler/space"),
        ("tvmtune-plan", "compiler/plan"),
        ("tvmtune-macros", "tvmtune-macros"),
        ("tvmtune-runtime", "tvmtune-runtime"),
        ("tvmtune-tuner", "tuner"),
        ("tvmtune-build", "tvmtune-build"),
        ("cargo-tvmtune", "cargo-tvmtune"),
        ("tvmtune-kernels", "kernels"),
    ];
    for (name, folder) in packages {
        let mut command = Command::new(env!("CARGO"));
        command.current_dir(root.join(folder));
        let output = said(command.args(["package", "--list", "--allow-dirty", "--offline"]));
        assert_eq!(output.code, Some(0), "{output:?}");
        let listed: Vec<&str> = output.out.lines().collect();
        let is_ours = |it: &str| {
            let of = |folder, ending| it.starts_with(folder) && it.ends_with(ending);
            of("src/", ".rs")
                || of("tvmtune/", ".toml")
                // Headers of C for `bindgen`.
                || of("include/", ".h")
                || ["build.rs", "tvmtune.toml"].contains(&it)
        };
        let stray: Vec<_> = listed
            .iter()
            .filter(|it| !is_ours(it) && !made.contains(it) && !kept.contains(it))
            .collect();
        assert!(stray.is_empty(), "{name}: {stray:?}");
        let records = files(&root.join(folder).join("tvmtune")).into_iter().map(|it| {
            let path = it.strip_prefix(root.join(folder)).expect("below").display().to_string();
            path.replace('\\', "/")
        });
        for needed in kept.map(str::to_owned).into_iter().chain(records) {
            assert!(listed.contains(&needed.as_str()), "{name} lacks {needed}");
        }
    }
}
