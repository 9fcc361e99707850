//! The worker: executes the tasks that come over standard input, and ends with it.
//!
//! In: messages. Out: what this machine is, then the progress and the outcome of each task. A program that
//! is copied to another machine calls [`serve`] there.

use std::io::{self, BufReader, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};
use std::{process, thread};

use tvmtune_build::tune::session::{gpu, provenance};
use tvmtune_ir::target::Target;
use tvmtune_plan::database::Cache;
use tvmtune_plan::device;
use tvmtune_plan::record::GENERATOR;

use super::message::{self, FromWorker, Hello, ToWorker};
use crate::execute::{Machine, Progress, execute};
use crate::task::Task;
use crate::wire::VERSION;

/// The exit code of a worker that is told what it does not understand.
const MISUNDERSTOOD: i32 = 65;

/// Serves tasks until standard input ends; `asks_for_gpu` tells whether the GPU is looked for. The process
/// ends with standard input, whatever it does then.
///
/// # Errors
///
/// If nobody reads standard output.
pub fn serve(asks_for_gpu: bool) -> io::Result<()> {
    let mut output = io::stdout().lock();
    let tasks = listen();
    message::begin(&mut output)?;
    let cpu = device::detect().map(Target::from);
    let (gpu, no_gpu) = match asks_for_gpu.then(gpu) {
        None => (None, None),
        Some(Ok(gpu)) => (Some(Target::from(gpu)), None),
        Some(Err(why)) => (None, Some(why)),
    };
    let about = provenance();
    let hello = Hello {
        version: VERSION,
        tool: about.tool,
        generator: GENERATOR,
        host: about.host,
        cpu: cpu.map(|it| it.key()),
        gpu: gpu.map(|it| it.key()),
        no_gpu,
    };
    message::write(&mut output, &FromWorker::Hello(hello))?;
    let devices: Vec<Target> = cpu.into_iter().chain(gpu).collect();
    for task in tasks {
        answer(&task, &devices, &mut output)?;
    }
    Ok(())
}

/// Executes a task, and writes its progress and its outcome.
fn answer(task: &Task, devices: &[Target], output: &mut impl Write) -> io::Result<()> {
    // A task for a device that is not here is refused by the machine, which says what it has.
    let device = devices.iter().find(|it| it.key() == task.device).or(devices.first());
    let generic = || Target::generic(tvmtune_ir::target::Isa::Avx2);
    let device = device.copied().unwrap_or_else(generic);
    let machine = Machine::this(device, home(), &provenance().host)?;
    let (id, mut written) = (task.id(), Ok(()));
    let outcome = execute(task, &machine, &mut |progress: Progress| {
        let message = FromWorker::Progress { task: id, progress };
        if written.is_ok() {
            written = message::write(output, &message);
        }
    });
    written?;
    message::write(output, &FromWorker::Outcome(Box::new(outcome)))
}

/// Returns the cache whose locks hold between processes of this user: the user's, if there is one. A machine
/// on which nobody tunes has none, and gets none.
fn home() -> Cache {
    let used = Cache::discover().filter(|it| it.locks().is_dir());
    used.unwrap_or_else(|| Cache::new(Path::new(&std::env::temp_dir().join("home"))))
}

/// Receives tasks on a thread of its own, which ends the process with standard input: whoever asked is gone.
fn listen() -> Receiver<Task> {
    let (sender, tasks) = sync_channel(16);
    let read = move || {
        let mut input = BufReader::new(io::stdin());
        loop {
            match message::read(&mut input) {
                Ok(Some(ToWorker::Task(task))) => {
                    if sender.send(*task).is_err() {
                        return;
                    }
                }
                Ok(None) => process::exit(0),
                Err(error) => {
                    eprintln!("{error}");
                    process::exit(MISUNDERSTOOD);
                }
            }
        }
    };
    thread::spawn(read);
    tasks
}
