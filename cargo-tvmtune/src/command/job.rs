//! `cargo tvmtune job`: tunes what a build script asks for. Nobody types this.

use anyhow::{Result, anyhow};

use crate::Exit;

pub(crate) fn run() -> Result<Exit> {
    tvmtune_build::tune::session::serve().map_err(|error| anyhow!("{error}"))?;
    Ok(Exit::Done)
}
