//! The settings of a fleet: they are stored on the server, so that all processes agree.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::wire::VERSION;

/// The settings of a fleet.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// The version of the formats.
    pub version: u32,
    /// The time after which a task whose worker says nothing is given to another one, in seconds.
    pub lease_seconds: f64,
    /// The number of workers that may fail at a task before it is set aside.
    pub tries: u32,
    /// The pause before a task is tried again, in seconds.
    pub pause_seconds: f64,
    /// The days for which outcomes and dead letters are kept.
    pub days: u32,
    /// The copies of everything, in a cluster of servers.
    pub replicas: u8,
}

/// Settings with which no fleet works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a lease of 1 s to 1 day, 1 to 100 tries, and 1 to 365 days")]
pub struct SettingsError;

/// The number of workers that may refuse a task before it is set aside.
pub(super) const MAX_REFUSALS: usize = 5;

impl Default for Settings {
    fn default() -> Self {
        Self {
            version: VERSION,
            lease_seconds: 30.0,
            tries: 3,
            pause_seconds: 5.0,
            days: 14,
            replicas: 1,
        }
    }
}

impl Settings {
    /// Checks the numbers.
    ///
    /// # Errors
    ///
    /// [`SettingsError`].
    pub fn check(&self) -> Result<(), SettingsError> {
        let is_fine = (1.0..=86_400.0).contains(&self.lease_seconds)
            && (1..=100).contains(&self.tries)
            && (0.0..=86_400.0).contains(&self.pause_seconds)
            && (1..=365).contains(&self.days)
            && (1..=5).contains(&self.replicas);
        if is_fine { Ok(()) } else { Err(SettingsError) }
    }

    /// Returns the time after which a silent worker loses its task.
    pub(super) fn lease(&self) -> Duration {
        Duration::from_secs_f64(self.lease_seconds)
    }

    /// Returns the time between two signs of life: two of three may be lost.
    pub(super) fn heartbeat(&self) -> Duration {
        self.lease() / 4
    }

    /// Returns the pause before a task is tried again.
    pub(super) fn pause(&self) -> Duration {
        Duration::from_secs_f64(self.pause_seconds)
    }

    /// Returns the time for which outcomes are kept.
    pub(super) fn keep(&self) -> Duration {
        Duration::from_secs(u64::from(self.days) * 86_400)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_cannot_be_are_refused() {
        let good = Settings::default();
        assert_eq!(good.check(), Ok(()));
        for bad in [
            Settings { lease_seconds: f64::NAN, ..good },
            Settings { lease_seconds: 0.0, ..good },
            Settings { tries: 0, ..good },
            Settings { days: 1000, ..good },
            Settings { pause_seconds: -1.0, ..good },
        ] {
            assert_eq!(bad.check(), Err(SettingsError), "{bad:?}");
        }
    }
}
