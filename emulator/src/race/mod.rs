//! Race detection by vector clocks, after FastTrack (Flanagan and Freund, 2009).
//!
//! Every thread has a clock, and so has every asynchronous unit: the copies of a thread, the bulk
//! copies that complete on an mbarrier, the `wgmma` of a warpgroup. Shadow memory holds the epoch
//! of each access: its actor, and that actor's clock. The access happens before a later one if the
//! actor of the latter has *seen* the epoch: by passing a barrier that the first one had reached,
//! or by waiting for the copy. Accesses are checked when they are issued, so that no timing hides a
//! race.
//!
//! The asynchronous proxy sees ordinary writes to shared memory only behind a proxy fence.
//! Therefore a vector clock has two components for an actor: up to where its accesses were seen,
//! and up to where they were behind such a fence.

mod access;
mod clock;
mod detector;
mod global;
mod shadow;
mod sync;

pub(crate) use access::{Access, Actor};
pub(crate) use clock::{ReleaseClock, VectorClock};
pub(crate) use detector::Race;
pub(crate) use shadow::{Conflict, ConflictKind};
