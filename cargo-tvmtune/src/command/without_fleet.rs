//! The commands of fleets, where this program was built without them.

/// The answer to each of them.
const ANSWER: &str = "this cargo-tvmtune came without fleets, which bring along a client of NATS; run \
                      `cargo install cargo-tvmtune --features fleet`";

pub(crate) mod worker {
    //! `cargo tvmtune worker`.

    use anyhow::{Result, bail};

    use crate::Exit;
    use crate::cli::Worker;

    pub(crate) fn run(_: &Worker) -> Result<Exit> {
        bail!("{}", super::ANSWER)
    }
}

pub(crate) mod fleet {
    //! `cargo tvmtune fleet`.

    use anyhow::{Result, bail};

    use crate::Exit;
    use crate::cli::FleetCommand;

    pub(crate) fn run(_: &FleetCommand) -> Result<Exit> {
        bail!("{}", super::ANSWER)
    }
}
