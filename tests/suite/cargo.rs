//! The project as its users see it through cargo: when crates are rebuilt, the files of a package,
//! and that a crate which depends on one gets the kernels that it ships.

use std::fs;
use std::path::Path;
use std::process::Command;

use tvmtune_ir::dsl;
use tvmtune_tests::sandbox::{SOURCE, Said, Sandbox, files, said};

/// Runs cargo in a package; it succeeds.
#[track_caller]
fn cargo(sandbox: &Sandbox, folder: &str, arguments: &[&str]) -> Said {
    let mut command =
        sandbox.cargo(folder, &Path::new(env!("CARGO_TARGET_TMPDIR")).join("sandbox"));
    command.args(arguments).env("TVMTUNE_COLLECT", sandbox.cache().join("collected"));
    let output = said(&mut command);
    assert_eq!(output.code, Some(0), "{output:?}");
    output
}

/// Returns whether cargo compiled the package, and whether its script found something missing.
fn seen(output: &Said) -> (bool, bool) {
    (
        output.err.contains("Compiling sandbox") || output.err.contains("Checking sandbox"),
        output.err.contains("tvmtune: 1 kernel: 1 default"),
    )
}

#[test]
fn cargo_check_never_measures_and_cargo_build_tunes_once() {
    let sandbox = Sandbox::new("sandbox", SOURCE);
    let check = cargo(&sandbox, "", &["check"]);
    assert_eq!(seen(&check), (true, true), "{check:?}");
    assert_eq!(sandbox.records().len(), 0);

    let first = cargo(&sandbox, "", &["build"]);
    assert_eq!(seen(&first), (true, false), "{first:?}");
    assert_eq!(sandbox.records().len(), 1);

    let second = cargo(&sandbox, "", &["build"]);
    assert_eq!(seen(&second), (false, false), "{second:?}");
    let check = cargo(&sandbox, "", &["check"]);
    assert!(!seen(&check).1, "{check:?}");

    sandbox.write("src/lib.rs", &SOURCE.replace("0.5", "0.25"));
    let changed = cargo(&sandbox, "", &["build"]);
    assert_eq!(seen(&changed), (true, false), "{changed:?}");
    assert!(!changed.err.contains("Compiling tvmtune"), "{changed:?}");
    assert_eq!(sandbox.records().len(), 2);
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
    let records = sandbox.cache().join("v1").join("records");
    fs::rename(records, sandbox.package().join("tvmtune")).expect("both are here");
    fs::remove_dir_all(sandbox.cache()).expect("it is there");
    sandbox.write("Cargo.toml.orig", "");
    // As `cargo tvmtune accept` does it: the folder wasn't there to be watched.
    sandbox.write("src/lib.rs", SOURCE);
    run("exact exact");
    assert_eq!(sandbox.records().len(), 0);
}

#[test]
fn expanded_programs_can_be_collected() {
    let source = "
        macro_rules! kernels { ($($name:ident $by:literal)*) => { $(
            #[tvmtune_runtime::autotune(dims(N = 8))]
            pub fn $name(x: Tensor<f32, N>) -> Tensor<f32, N> { compute(|n| x[[n]] * $by) }
        )* } }
        kernels! { twice 2.0 thrice 3.0 again 3.0 }
    ";
    let sandbox = Sandbox::new("sandbox", source);
    let folder = sandbox.cache().join("collected");
    fs::create_dir_all(&folder).expect("writable");
    cargo(&sandbox, "", &["check"]);
    let texts = files(&folder).into_iter().map(|it| fs::read_to_string(it).expect("readable"));
    let mut names: Vec<String> =
        texts.map(|it| dsl::program(&it).expect("a program").name).collect();
    names.sort();
    // The third computes what the second does.
    assert_eq!(names.len(), 2, "{names:?}");
    assert_eq!(names.last().map(String::as_str), Some("twice"));
}

#[test]
fn packages_hold_sources_records_and_licences_and_nothing_else() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests has a parent");
    let made = ["Cargo.toml", "Cargo.toml.orig", "Cargo.lock", ".cargo_vcs_info.json"];
    let kept = ["README.md", "LICENSE-APACHE", "LICENSE-MIT"];
    let packages = [
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
