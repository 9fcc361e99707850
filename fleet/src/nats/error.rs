//! Errors of a server, with what was being done and the next command.

use std::error::Error;
use std::io;
use std::path::PathBuf;

use tvmtune_plan::printable::one_line;

use super::connect::OLDEST;
use crate::accept::AcceptError;
use crate::wire::WireError;

/// The error of a fleet.
#[derive(Debug, thiserror::Error)]
pub enum NatsError {
    /// No server answers at the address, or it refuses this client.
    #[error(
        "cannot connect to the NATS server `{server}`: {why}; start one by `nats-server --jetstream`, or \
         tune on this machine by `cargo tvmtune tune`"
    )]
    Unreachable { server: String, why: String },
    /// The server does not let this client in.
    #[error(
        "the NATS server `{server}` does not let this client in: {why}; give the credentials that it asks \
         for (`NATS_USER` and `NATS_PASSWORD`, `NATS_TOKEN`, or `--nats-creds`), or tune on this machine by \
         `cargo tvmtune tune`"
    )]
    Refused { server: String, why: String },
    /// Credentials or a certificate can't be read.
    #[error(
        "cannot read `{}`: {source}; name another file of credentials or certificates, or tune on this machine \
         by `cargo tvmtune tune`",
        .path.display()
    )]
    File { path: PathBuf, source: io::Error },
    /// There is no secure connection to the server.
    #[error(
        "cannot connect to the NATS server `{server}` by TLS: {why}; name the certificate of the authority \
         that signed the server's by `--nats-ca`, and this client's own by `--nats-cert` and `--nats-key` if \
         the server asks for one, or tune on this machine by `cargo tvmtune tune`"
    )]
    Insecure { server: String, why: String },
    /// The server is too old.
    #[error(
        "the NATS server `{server}` is version {found}, and {OLDEST} is the oldest that serves; install a \
         newer one"
    )]
    Old { server: String, found: String },
    /// The server stores nothing.
    #[error(
        "the NATS server `{server}` runs without JetStream; start it by `nats-server --jetstream`"
    )]
    NoJetStream { server: String },
    /// The server has no room left.
    #[error(
        "cannot {doing}: the NATS server has no room left ({why}); make room there, or raise `max_file` of \
         its configuration, and run the command again: what was stored stays"
    )]
    Full { doing: &'static str, why: String },
    /// A request failed.
    #[error(
        "cannot {doing}: {why}; look at the server by `cargo tvmtune fleet status`, and run the command \
         again: what was stored stays"
    )]
    Failed { doing: &'static str, why: String },
    /// A text on the server is not what it should be.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// An outcome can't be written to the cache.
    #[error(transparent)]
    Accept(#[from] AcceptError),
}

/// Parts of the server's texts that say that its disk, or its share of it, is full.
const FULL: [&str; 5] = [
    "insufficient resources",
    "insufficient storage",
    "no space left",
    "maximum bytes",
    "resource limits exceeded",
];

impl NatsError {
    /// Returns the error of a request.
    pub(super) fn of(doing: &'static str, error: &(dyn Error + 'static)) -> Self {
        let why = chain(error);
        let lower = why.to_lowercase();
        match FULL.iter().any(|it| lower.contains(it)) {
            true => Self::Full { doing, why },
            false => Self::Failed { doing, why },
        }
    }

    /// Tells if the same request may succeed later.
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Full { .. } | Self::Failed { .. } | Self::Unreachable { .. })
    }
}

/// Returns an error with its causes, on one line.
pub(super) fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(it) = cause {
        let more = it.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = it.source();
    }
    one_line(&text)
}

/// Says of an error what was being done.
pub(super) trait Doing<T> {
    /// Returns the value, or an error that says so.
    fn doing(self, doing: &'static str) -> Result<T, NatsError>;
}

impl<T, E: Error + 'static> Doing<T> for Result<T, E> {
    fn doing(self, doing: &'static str) -> Result<T, NatsError> {
        self.map_err(|it| NatsError::of(doing, &it))
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn a_full_disk_is_told_from_other_errors() {
        let check = |text: &str, is_full: bool| {
            let error = NatsError::of("store it", &io::Error::other(text));
            assert_eq!(matches!(error, NatsError::Full { .. }), is_full, "{error}");
            assert!(error.is_passing() && error.to_string().contains(text), "{error}");
        };
        check("insufficient resources (10023)", true);
        check("JetStream resource limits exceeded for account", true);
        check("timed out", false);
    }
}
