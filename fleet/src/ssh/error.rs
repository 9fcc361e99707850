//! Errors of another machine: each says what is wrong there, and what to do.

use std::io;
use std::time::Duration;

use super::probe::Version;

/// The error of another machine.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// The text is no address.
    #[error("`{0}` is not the address of a machine; name it as `ssh` does, such as `user@host`")]
    Address(String),
    /// The client can't be run.
    #[error(
        "cannot run `{program}`: {source}; install OpenSSH's client, or set `TVMTUNE_SSH` to another \
         command"
    )]
    NoClient { program: String, source: io::Error },
    /// Nothing can be kept on this machine.
    #[error("cannot use the temporary folder of this machine: {0}; set `TMPDIR` to another one")]
    Local(io::Error),
    /// There is no connection.
    #[error(
        "cannot connect to `{address}`: {why}; see that `ssh -o BatchMode=yes {address} uname` works, \
         then run this again"
    )]
    Connect { address: String, why: String },
    /// It does not say what machine it is.
    #[error(
        "`{address}` does not say what machine it is: {why}; see that `ssh {address} uname -sm` works, \
         then run this again"
    )]
    Probe { address: String, why: String },
    /// This executable is for another kind of machine.
    #[error(
        "`{address}` is {there}, and this cargo-tvmtune is for {here}: nothing was copied; run `cargo \
         tvmtune tune` there, and `cargo tvmtune merge` here with the records of its cache"
    )]
    OtherPlatform { address: String, there: String, here: String },
    /// This executable needs a newer C library.
    #[error(
        "`{address}` has {}, and this cargo-tvmtune needs glibc {needed}: nothing was copied; build \
         cargo-tvmtune on a system that is as old, or for a target with musl, and run that",
        found.map_or("no glibc".to_owned(), |it| format!("glibc {it}"))
    )]
    OldLibrary { address: String, found: Option<Version>, needed: Version },
    /// The executable could not be copied.
    #[error(
        "cannot copy cargo-tvmtune to `{address}`: {why}; make room in its temporary folder, or set \
         `TMPDIR` there"
    )]
    Copy { address: String, why: String },
    /// The worker does not start.
    #[error(
        "the worker does not start on `{address}`: {why}; see that programs may run in its temporary \
         folder, or set `TMPDIR` there to one where they may"
    )]
    Start { address: String, why: String },
    /// The connection ended.
    #[error(
        "the connection to `{address}` was lost: {why}; what had arrived is kept: run the same command \
         again, it goes on with the rest"
    )]
    Lost { address: String, why: String },
    /// It takes longer than it should.
    #[error(
        "`{address}` did not answer within {} s, which is beyond its budget; what had arrived is kept: \
         run the same command again, it goes on with the rest",
        .waited.as_secs()
    )]
    Silent { address: String, waited: Duration },
    /// It says what no worker of this release says.
    #[error(
        "`{address}` answered what no worker does: {why}; what had arrived is kept: see that its shell \
         prints nothing by itself, then run the same command again"
    )]
    Protocol { address: String, why: String },
}
