//! The command line, for tests.

use std::process::ExitCode;

fn main() -> ExitCode {
    cargo_tvmtune::main()
}
