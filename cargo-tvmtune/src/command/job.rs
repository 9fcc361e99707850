//! `cargo tvmtune job`: tunes the kernels that a build script requests on standard input. Internal:
//! build scripts invoke it, users do not.

use anyhow::{Result, anyhow};

use crate::Exit;

pub(crate) fn run() -> Result<Exit> {
    tvmtune_build::tune::session::serve().map_err(|error| anyhow!("{error}"))?;
    Ok(Exit::Done)
}
