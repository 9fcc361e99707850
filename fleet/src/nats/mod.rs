//! A fleet of machines that tune, around a queue on a NATS server.
//!
//! ```text
//! submit --> tasks (a work queue, a subject for each device) --> worker --> execute
//!    ^                 |                                            |
//!    |                 +-- after n tries --> dead letters           |  stores, then acknowledges
//!    |                                            |                 v
//!    +--- accept <-------------------------------------------- outcomes (one for each task)
//! ```
//!
//! In: [tasks](crate::Task), and machines that execute them. Out: [outcomes](crate::TaskOutcome), each
//! stored once. Next: [`submit`](submit::submit) accepts them into the user's cache.
//!
//! # Invariants
//!
//! - A task is on the server until its outcome is stored there, or a dead letter that says why there is none:
//!   whoever dies, at whatever time, loses work and no task.
//! - The outcome of a task is created, never replaced: of two workers that finish, the first counts.
//! - Nothing compares the clocks of two machines. A lease ends by the server's clock alone.

mod connect; // to the server
mod error;
mod settings; // what holds for all processes of a fleet
mod open; // streams and buckets
mod subject; // names on the server
mod text; // texts that are longer than a message
mod queue; // sending tasks
mod job; // the tries of a task
mod outcomes; // what was found, once
mod dead; // tasks that are set aside
mod lease; // holding a task while it runs
mod presence; // workers that are there
mod attempt; // one delivery of a task, at a worker
mod worker; // the loop of a worker
mod submit; // from a crate to its cache
mod status; // for people
mod run; // for callers without a runtime

pub use connect::{OLDEST, Server};
pub use dead::DeadLetter;
pub use error::NatsError;
pub use job::{End, Job, Try};
pub use open::Fleet;
pub use outcomes::Kept;
pub use presence::{Running, Worker};
pub use queue::Sent;
pub use run::{runtime, until_signalled};
pub use settings::{Settings, SettingsError};
pub use status::{Queue, Status};
pub use submit::{Ended, Submission, SubmitEvent, Submitted, submit};
pub use worker::{WorkerEvent, WorkerOptions, serve};
