//! See the library: it holds the program, so that tests can run it.

use std::process::ExitCode;

fn main() -> ExitCode {
    tvmtune_acceptance::main()
}
