//! `cargo tvmtune serve`: executes the tasks of another machine, which come on standard input. Internal: that
//! machine copies this program here and starts it, users do not.

use anyhow::Result;

use crate::Exit;
use crate::cli::Serve;

pub(crate) fn run(arguments: &Serve) -> Result<Exit> {
    tvmtune_fleet::ssh::serve::serve(arguments.gpu)?;
    Ok(Exit::Done)
}
