//! Sections about processes and the system: what is killed, what runs side by side, what is full, or
//! forbidden, or gone.
//!
//! A case has a [`place`] of its own, a small crate with a cache, in which it runs commands of
//! tvmtune as users do. The commands are this program in another [role](roles), so that nothing
//! else must be built. The [`ledger`] says whether records were lost.

pub mod alien; // what only unsafe code can do
pub mod builds; // real builds that are killed
pub mod clocks; // files of the past and the future
pub mod disks; // full and read-only folders, and strange ones
pub mod errand; // what people do in a place
pub mod doctored; // code and records that somebody changed
pub mod kills; // commands that are killed
pub mod launcher; // a process that launches
pub mod launches; // launches under all circumstances
pub mod ledger; // what is recorded
pub mod limits; // little memory, and workers that stop
pub mod neighbors; // processes side by side
pub mod ops; // kernels that are launched
pub mod place; // a crate with a cache
pub mod processes; // who runs in a place
pub mod roles; // what this program is
pub mod shell; // commands in the circumstances that a shell makes
pub mod template; // a place that was tuned
