//! See the library: it holds the program, so that tests can run it.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    cargo_tvmtune::main()
}
