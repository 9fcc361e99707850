//! Constants of a crate in `dims(..)`, as users have them: with a build script and without one, read in
//! the sources by script and macro alike, and compared by the compiler.

use std::fs;

use tvmtune_tests::sandbox::{Sandbox, said};

use crate::cargo::{cargo, command};

/// Ops whose extents are constants: of another module, of a type, in a list of types, in an included
/// file, and made by a macro.
const OPS: &str = "
pub mod config;
mod ops {
    use crate::config::{self, Model, WIDTH as N};
    use tvmtune_runtime::autotune;

    #[autotune(dims(M = 1..=config::MAX, N = N), buckets(M = [config::MAX / 2, config::MAX]))]
    pub fn scaled(x: Tensor<f32, M, N>) -> Tensor<f32, M> {
        compute(|i| sum(0..N, |k| x[[i, k]] * 0.5))
    }

    #[autotune(dims(L = Model::LAYERS), types(W in [f32, i8]))]
    pub fn widened(x: Tensor<W, L>) -> Tensor<f32, L> {
        compute(|i| x[[i]] as f32 + 1.0)
    }

    include!(\"more.inc\");
}
pub use ops::*;

macro_rules! made { ($name:ident $extent:expr) => {
    #[tvmtune_runtime::autotune(dims(N = $extent))]
    pub fn $name(x: Tensor<f32, N>) -> Tensor<f32, N> { compute(|n| x[[n]] * 2.0) }
} }
made! { made config::WIDTH }
";

const INCLUDED: &str = "
const LOCAL: usize = N + 1;
#[autotune(dims(T = LOCAL))]
pub fn included(x: Tensor<f32, T>) -> Tensor<f32, T> { compute(|n| x[[n]] * 3.0) }
";

const CONFIG: &str = "
pub const WIDTH: usize = 1 << 5;
pub const MAX: u32 = WIDTH as u32 * 2;
pub struct Model;
impl Model { pub const LAYERS: usize = Self::HALF * 2; const HALF: usize = WIDTH / 4 + 1; }
";

/// Runs each op with lengths that follow from the constants.
const MAIN: &str = "
use constant::config::{MAX, Model, WIDTH};
use tvmtune_runtime::Cpu;
fn main() {
    let cpu = Cpu::new();
    let (mut y, m) = (vec![0.0; MAX as usize], MAX as usize);
    constant::scaled(&cpu, &vec![1.0; m * WIDTH], &mut y).unwrap();
    assert_eq!(y, vec![WIDTH as f32 / 2.0; m]);
    let plan = constant::scaled::plan(constant::scaled::Dims { m: 1 }).unwrap();
    assert_eq!(plan.bucket, [(1, m / 2)]);
    let mut y = vec![0.0; Model::LAYERS];
    constant::widened(&cpu, &[1_i8; Model::LAYERS], &mut y).unwrap();
    let mut y = vec![0.0; WIDTH + 1];
    constant::included(&cpu, &vec![1.0; WIDTH + 1], &mut y).unwrap();
    let mut y = vec![0.0; WIDTH];
    constant::made(&cpu, &vec![1.0; WIDTH], &mut y).unwrap();
}
";

fn package() -> Sandbox {
    let sandbox = Sandbox::new("constant", OPS);
    sandbox.write("src/config.rs", CONFIG);
    sandbox.write("src/more.inc", INCLUDED);
    sandbox.write("src/main.rs", MAIN);
    sandbox
}

#[test]
fn script_and_macro_read_the_same_and_a_change_is_planned_anew() {
    let sandbox = package();
    cargo(&sandbox, "", &["check"]);
    cargo(&sandbox, "", &["run"]);
    let names = |sandbox: &Sandbox| {
        let records = sandbox.records().into_iter();
        let mut names: Vec<String> = records
            .filter_map(|it| Some(it.parent()?.file_name()?.to_string_lossy().into_owned()))
            .collect();
        names.sort();
        names
    };
    // The next build tunes what no source shows.
    assert_eq!(names(&sandbox), ["scaled", "widened_f32", "widened_i8"]);
    let again = cargo(&sandbox, "", &["check"]);
    assert!(!again.err.contains("Checking"), "{again:?}");
    sandbox.write("src/config.rs", &CONFIG.replace("1 << 5", "1 << 6"));
    cargo(&sandbox, "", &["run"]);
    let both = names(&sandbox);
    let count = |name: &str| both.iter().filter(|it| *it == name).count();
    assert_eq!(["scaled", "widened_f32", "widened_i8"].map(count), [2; 3], "{both:?}");
    // A change of the comment around it is none of the program.
    sandbox.write("src/config.rs", &CONFIG.replace("1 << 5", "64"));
    cargo(&sandbox, "", &["run"]);
    assert_eq!(names(&sandbox).iter().filter(|it| *it == "scaled").count(), 2);
}

#[test]
fn without_a_build_script_the_macro_reads_them() {
    let sandbox = package().without_script();
    cargo(&sandbox, "", &["run"]);
    sandbox.write("src/config.rs", &CONFIG.replace("1 << 5", "1 << 6"));
    cargo(&sandbox, "", &["run"]);
}

#[test]
fn features_and_tests_choose_between_constants() {
    let text = "
        #[cfg(test)] const N: usize = 3;
        #[cfg(all(not(test), target_os = \"none\"))] const N: usize = 4;
        #[cfg(all(not(test), not(target_os = \"none\")))] const N: usize = 5;
        #[tvmtune_runtime::autotune(dims(N = N))]
        pub fn op(x: Tensor<f32, N>) -> Tensor<f32, N> { compute(|n| x[[n]] * 5.0) }
        #[test]
        fn runs() { op(&tvmtune_runtime::Cpu::new(), &[1.0; N], &mut [0.0; N]).unwrap() }
    ";
    for sandbox in
        [Sandbox::new("chosen", text), Sandbox::new("chosen_bare", text).without_script()]
    {
        cargo(&sandbox, "", &["check"]);
        cargo(&sandbox, "", &["test", "--lib"]);
    }
}

#[test]
fn a_wrong_reading_does_not_compile() {
    // The name comes from a macro, which no reader of sources sees, and hides the one that is read.
    let text = "
        mod sizes { pub const N: usize = 8; }
        use sizes::*;
        macro_rules! define { () => { const N: usize = 9; } }
        define!();
        #[tvmtune_runtime::autotune(dims(M = N))]
        pub fn op(x: Tensor<f32, M>) -> Tensor<f32, M> { compute(|n| x[[n]] * 5.0) }
    ";
    let sandbox = Sandbox::new("hidden", text);
    let output = said(&mut command(&sandbox, "", &["check"]));
    assert_ne!(output.code, Some(0));
    assert!(output.err.contains("`N` was read as 8 for `op`"), "{output:?}");
    fs::remove_file(sandbox.package().join("build.rs")).expect("it is there");
    let output = said(&mut command(&sandbox, "", &["check"]));
    assert!(output.err.contains("`N` was read as 8 for `op`"), "{output:?}");
}
