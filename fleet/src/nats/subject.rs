//! Names on the server: subjects, streams and buckets.
//!
//! Tasks of one device and one dialect have a subject of their own: a worker is given nothing that it could
//! not execute, and a task for which there is no worker waits.

use std::str::FromStr;

use tvmtune_ir::digest::Digest;
use tvmtune_ir::target::DeviceKey;
use tvmtune_plan::record::GENERATOR;

use crate::task::{Task, TaskId};
use crate::wire::VERSION;

pub(super) const TASKS: &str = "TVMTUNE_TASKS";
pub(super) const DEAD: &str = "TVMTUNE_DEAD";
pub(super) const JOBS: &str = "TVMTUNE_JOBS";
pub(super) const OUTCOMES: &str = "TVMTUNE_OUTCOMES";
pub(super) const WORKERS: &str = "TVMTUNE_WORKERS";
pub(super) const TEXTS: &str = "TVMTUNE_TEXTS";

pub(super) const ALL_TASKS: &str = "tvmtune.task.>";
pub(super) const ALL_DEAD: &str = "tvmtune.dead.*";

/// Returns a device as a part of a subject: colons have no meaning there, but consumers are named after
/// devices, and their names are folders of the server.
pub(super) fn token(device: &DeviceKey) -> String {
    device.file_stem()
}

/// Returns what a worker of this release speaks: the format of tasks, and the code generator.
pub(super) fn dialect() -> String {
    format!("v{VERSION}-g{GENERATOR}")
}

/// Returns the subject of a task.
pub(super) fn of_task(task: &Task, id: TaskId) -> String {
    format!("tvmtune.task.{}.v{}-g{}.{id}", token(&task.device), task.version, task.generator)
}

/// Returns the subjects of a device's tasks that this release executes.
pub(super) fn of_device(device: &DeviceKey) -> String {
    format!("tvmtune.task.{}.{}.*", token(device), dialect())
}

/// Returns the name of the consumer that workers of a device share.
pub(super) fn consumer(device: &DeviceKey) -> String {
    format!("{}_{}", token(device), dialect())
}

/// Returns the subject of a dead letter.
pub(super) fn of_dead(id: TaskId) -> String {
    format!("tvmtune.dead.{id}")
}

/// Returns the task that the last part of a subject or key names.
pub(super) fn task_id(subject: &str) -> Option<TaskId> {
    let last = subject.rsplit('.').next()?;
    Digest::from_str(last).ok().map(TaskId)
}

/// Returns device and dialect of a task's subject, as they are written there.
pub(super) fn queue_of(subject: &str) -> Option<(&str, &str)> {
    let mut parts = subject.strip_prefix("tvmtune.task.")?.split('.');
    Some((parts.next()?, parts.next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_one_part_of_a_subject() {
        let device: DeviceKey = "cpu-avx2-amd:25:1-l1:32-l2:512-t2".parse().unwrap();
        let subject = of_device(&device);
        let expected = "tvmtune.task.cpu-avx2-amd_25_1-l1_32-l2_512-t2.";
        assert!(subject.starts_with(expected), "{subject}");
        assert_eq!(subject.split('.').count(), 5);
        let id = TaskId(Digest::of([b"a task".as_slice()]));
        assert_eq!(task_id(&of_dead(id)), Some(id));
        assert_eq!(task_id("tvmtune.dead.x"), None);
        let queue = queue_of(&subject).unwrap();
        assert_eq!(queue, (token(&device).as_str(), dialect().as_str()));
    }
}
