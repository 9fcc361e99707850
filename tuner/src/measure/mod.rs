//! Step 8 of 12: runs candidates in a worker, and reports what became of them.
//!
//! ```text
//! ... -> codegen -> compile -> [measure] -> record -> ...
//! ```
//!
//! In: machine code, how to launch it, and the expected results. Out: an [`Outcome`]. Next: search
//! learns from it, and the best becomes a record.
//!
//! `protocol.rs` has the requests to the worker, `worker` their execution, `pool.rs` its supervision.
//! `kept.rs` has the code that later releases run beside theirs.
//!
//! # Invariants
//!
//! - No timing counts unless the results were right: of each candidate on the case where it is
//!   timed, and on non-divisible shapes too if it may become the best.
//! - A candidate can harm nothing but its worker, and responses are validated: a timing is positive,
//!   or it is none.
//! - Timings are taken by the function that launches kernels in the user's program.

mod interface;
mod job;
mod kept;
mod measurer;
pub mod peaks;
mod pool;
mod protocol;
mod replay;
pub mod worker;

pub use interface::{Measure, MeasureError};
pub use job::{CaseSpec, Job};
pub use kept::{KeptCode, KeptError};
pub use measurer::Measurer;
pub use pool::WorkerCommand;
pub use protocol::{Gpu, Policy};
pub use replay::Replay;
