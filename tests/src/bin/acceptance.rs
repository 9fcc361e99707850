//! The acceptance of GPUs, for tests

fn main() -> std::process::ExitCode {
    tvmtune_acceptance::main()
}
