//! One other machine, reached by the system's `ssh`: tasks are executed there, outcomes come back.
//!
//! ```text
//! connect -> probe -> copy the worker -> hello -> (task -> progress.. -> outcome).. -> remove
//! ```
//!
//! In: an address, and an executable that [serves](serve::serve). Out: outcomes, one after the other. Next:
//! [`accept`](crate::accept::accept).
//!
//! `shell.rs` runs commands there over one connection, `probe.rs` asks what machine it is, `worker.rs`
//! copies, starts and removes the worker, `remote.rs` executes tasks by it, `serve.rs` is the worker, and
//! `message.rs` what both say.
//!
//! # Invariants
//!
//! - Nothing is copied to a machine that could not run it.
//! - Whatever ends, the connection, this process, the worker: the shell that started the worker there
//!   removes the folder, which holds all that was written.
//! - No wait is longer than a task's budget and a grace.

mod error;
mod master;
mod message;
mod probe;
mod remote;
pub mod serve;
mod shell;
mod worker;

pub use error::RemoteError;
pub use message::Hello;
pub use probe::{Version, WorkerFile};
pub use remote::Remote;
