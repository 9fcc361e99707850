//! Holding a task while it runs.
//!
//! The server gives a task to another worker if it hears nothing of the first for the time of a lease. So a
//! worker says that it works, again and again, until the lease is dropped.

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::AckKind;
use async_nats::jetstream::message::Acker;
use tokio::task::JoinHandle;
use tokio::time;

/// A task that this worker holds.
pub(super) struct Lease(JoinHandle<()>);

impl Lease {
    /// Holds the task of a message from now on.
    pub(super) fn hold(acker: Arc<Acker>, heartbeat: Duration) -> Self {
        Self(tokio::spawn(async move {
            loop {
                time::sleep(heartbeat).await;
                // A sign of life that is lost is followed by the next one.
                let _ = acker.ack_with(AckKind::Progress).await;
            }
        }))
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.0.abort();
    }
}
