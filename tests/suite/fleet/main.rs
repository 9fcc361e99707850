//! A fleet around a real NATS server: a test binary of its own.
#![expect(clippy::unwrap_used, clippy::panic, reason = "what tests call is part of a test")]

mod hardware; // machines that never were
mod party; // a fleet in this process
mod proxy; // a way to the server that can be cut

mod access; // passwords, tokens, certificates
mod bad; // hostile texts, full disks, crashing tasks
mod faults; // workers, servers and connections that fail
mod many; // fifty workers
mod once; // duplicates, and what goes on where it was
mod processes; // the commands
