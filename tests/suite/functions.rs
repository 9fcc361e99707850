//! Functions of a crate that ops call, as users have them: with a build script and without one, read in the
//! sources by script and macro alike, compared by the compiler, and called from Rust.

use tvmtune_tests::sandbox::{Sandbox, said};

use crate::cargo::{cargo, command};

/// Ops that call functions of their own module, of others by path and by import, in types of a list, and
/// where a macro writes them.
const OPS: &str = "
pub mod act;
mod ops {
    use crate::act::{self, gate};
    use tvmtune_runtime::autotune;

    /// A function beside the op.
    #[autotune::inline]
    fn doubled(x: f32, times: i32) -> f32 { if times > 1 { x + x } else { x } }

    #[autotune(dims(M = 1..=64, N = 40))]
    pub fn gated(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> {
        let h = compute(|i, j| gate(x[[i, j]]));
        compute(|i, j| doubled(h[[i, j]], 2) + act::deep::shifted(1.0))
    }

    #[autotune(dims(N = 40), types(W in [f32, i8]))]
    pub fn of_types(x: Tensor<W, N>) -> Tensor<f32, N> {
        let wide = |v: W| v as f32;
        compute(|i| gate(wide(x[[i]])))
    }
}
pub use ops::*;

macro_rules! made { ($name:ident $f:path) => {
    #[tvmtune_runtime::autotune(dims(N = 40))]
    pub fn $name(x: Tensor<f32, N>) -> Tensor<f32, N> { compute(|n| act::gate(x[[n]])) }
} }
made! { made act::gate }
";

const ACT: &str = "
use tvmtune_runtime::autotune;
use deep::shifted as moved;

/// `x` by how far it is open.
#[autotune::inline]
pub fn gate(x: f32) -> f32 {
    let open = moved(x) * 0.5;
    open.clamp(0.0, 1.0) * x
}

pub mod deep {
    #[tvmtune_runtime::autotune::inline]
    pub fn shifted(v: f32) -> f32 { v + 1.0 }
}
";

/// Compares each op with the functions, which Rust calls.
const MAIN: &str = "
use function::act::{deep::shifted, gate};
use tvmtune_runtime::Cpu;
fn main() {
    let cpu = Cpu::new();
    let x: Vec<f32> = (0..120).map(|it| it as f32 / 40.0 - 1.5).collect();
    let mut y = vec![0.0; 120];
    function::gated(&cpu, &x, &mut y).unwrap();
    for (x, y) in x.iter().zip(&y) {
        assert_eq!(*y, 2.0 * gate(*x) + shifted(1.0), \"{x}\");
    }
    let ints: Vec<i8> = (-20..20).collect();
    let mut y = vec![0.0; 40];
    function::of_types(&cpu, &ints, &mut y).unwrap();
    assert!(ints.iter().zip(&y).all(|(x, y)| *y == gate(*x as f32)));
    function::made(&cpu, &x[..40], &mut y).unwrap();
    assert!(x.iter().zip(&y).all(|(x, y)| *y == gate(*x)));
    println!(\"{}\", gate(3.0));
}
";

fn package() -> Sandbox {
    let sandbox = Sandbox::new("function", OPS);
    sandbox.write("src/act.rs", ACT);
    sandbox.write("src/main.rs", MAIN);
    sandbox
}

/// The workloads of the records, by kernel.
fn records(sandbox: &Sandbox, kernel: &str) -> usize {
    let of = |it: &std::path::PathBuf| it.parent().is_some_and(|it| it.ends_with(kernel));
    sandbox.records().iter().filter(|it| of(it)).count()
}

#[test]
fn script_and_macro_read_the_same_and_a_changed_function_is_planned_anew() {
    let sandbox = package();
    cargo(&sandbox, "", &["check"]);
    assert!(cargo(&sandbox, "", &["run"]).out.contains('3'));
    assert_eq!((records(&sandbox, "gated"), records(&sandbox, "of_types_i8")), (1, 1));
    let again = cargo(&sandbox, "", &["check"]);
    assert!(!again.err.contains("Checking") && !again.err.contains("warning: unused"), "{again:?}");
    // A function that another one calls, in its module.
    sandbox.write("src/act.rs", &ACT.replace("v + 1.0", "v + 1.25"));
    cargo(&sandbox, "", &["run"]);
    assert_eq!((records(&sandbox, "gated"), records(&sandbox, "of_types_i8")), (2, 2));
    // A comment is none of the program.
    sandbox.write("src/act.rs", &ACT.replace("v + 1.0", "v + /* one */ 1.0"));
    cargo(&sandbox, "", &["run"]);
    assert_eq!((records(&sandbox, "gated"), records(&sandbox, "of_types_i8")), (2, 2));
}

#[test]
fn without_a_build_script_the_macro_reads_them() {
    let sandbox = package().without_script();
    cargo(&sandbox, "", &["run"]);
    sandbox.write("src/act.rs", &ACT.replace("v + 1.0", "v + 1.25"));
    cargo(&sandbox, "", &["run"]);
}

#[test]
fn a_wrong_reading_does_not_compile() {
    // The name comes from a macro, which no reader of sources sees, and hides the one that is read.
    let text = "
        mod act { #[tvmtune_runtime::autotune::inline] pub fn f(x: f32) -> f32 { x } }
        use act::*;
        macro_rules! define { () => {
            #[tvmtune_runtime::autotune::inline] fn f(x: f32) -> f32 { -x }
        } }
        define!();
        #[tvmtune_runtime::autotune(dims(M = 8))]
        pub fn op(x: Tensor<f32, M>) -> Tensor<f32, M> { compute(|n| f(x[[n]])) }
    ";
    for sandbox in
        [Sandbox::new("shadow", text), Sandbox::new("shadow_bare", text).without_script()]
    {
        let output = said(&mut command(&sandbox, "", &["check"]));
        assert_ne!(output.code, Some(0));
        assert!(output.err.contains("`f` was read as another function for `op`"), "{output:?}");
    }
}

#[test]
fn mistakes_are_shown_at_the_function_and_at_the_call() {
    let text = "
        use tvmtune_runtime::autotune;
        #[autotune::inline] pub fn wrong(x: f32) -> f32 { x + 1 }
        #[autotune::inline] pub fn relu(x: f32) -> f32 { x }
        #[autotune::inline] pub fn tensors(x: &[f32]) -> f32 { x[0] }
        #[autotune::inline(dims(M = 3))] pub fn options(x: f32) -> f32 { x }
        #[autotune(dims(M = 8))]
        pub fn op(x: Tensor<f32, M>) -> Tensor<f32, M> { compute(|n| wrong(x[[n]])) }
    ";
    let sandbox = Sandbox::new("wrong_functions", text);
    let output = said(&mut command(&sandbox, "", &["check"]));
    for wanted in [
        "expected f32, found an integer: write `1.0`",
        "in `wrong`: expected f32, found an integer: write `1.0`",
        "`relu` is a function of the language: choose another name",
        "a function that is inlined takes and returns numbers",
        "expected nothing here, or `crate = ::path`",
    ] {
        assert!(output.err.contains(wanted), "{wanted}: {output:?}");
    }
}
