//! The commands, a file each: what it needs, what it prints, how it ends.

pub(crate) mod accept;
mod accuracy;
pub(crate) mod bench;
mod bench_orders;
pub(crate) mod buckets;
pub(crate) mod check;
pub(crate) mod compile;
pub(crate) mod doctor;
pub(crate) mod emulate;
#[cfg(feature = "fleet")]
pub(crate) mod fleet;
pub(crate) mod gc;
pub(crate) mod job;
pub(crate) mod merge;
pub(crate) mod predict;
pub(crate) mod profile;
pub(crate) mod record;
pub(crate) mod remote;
pub(crate) mod serve;
pub(crate) mod show;
pub(crate) mod status;
pub(crate) mod study;
pub(crate) mod train;
pub(crate) mod tune;
pub(crate) mod upgrade;
pub(crate) mod verify;
mod verify_bits;
pub(crate) mod watch;
#[cfg(feature = "fleet")]
pub(crate) mod worker;
#[cfg(not(feature = "fleet"))]
mod without_fleet;
#[cfg(not(feature = "fleet"))]
pub(crate) use without_fleet::{fleet, worker};
