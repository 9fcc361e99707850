//! `cargo tvmtune worker`: executes tasks of a fleet on the devices of this machine, until it is asked to end.

use anyhow::{Context, Result, bail};
use tvmtune_build::tune::session;
use tvmtune_fleet::nats::{
    Fleet, Kept, WorkerEvent, WorkerOptions, runtime, serve, until_signalled,
};
use tvmtune_fleet::{Finding, Machine};
use tvmtune_ir::target::Target;
use tvmtune_plan::database::Cache;
use tvmtune_plan::device;
use tvmtune_plan::printable::Printable;

use super::fleet::server;
use crate::Exit;
use crate::cli::{Device, Worker};
use crate::output::{eprintln, println};
use crate::render::latency;

pub(crate) fn run(arguments: &Worker) -> Result<Exit> {
    let Some(home) = Cache::discover() else {
        bail!("there is no folder for locks; set `TVMTUNE_CACHE` to one");
    };
    let devices = devices(arguments.target);
    if devices.is_empty() {
        eprintln!("error: this machine has no device to tune on; see `cargo tvmtune doctor`");
        return Ok(Exit::NoDevice);
    }
    let scratch = tempfile::Builder::new().prefix("tvmtune-worker-").tempdir();
    let scratch = scratch.context("cannot make a folder for tasks; set `TMPDIR` to another one")?;
    let name = arguments.name.clone().unwrap_or_else(default_name);
    let mut machines: Vec<Machine> = Vec::new();
    for device in devices {
        let machine = Machine::this(device, home.clone(), &name);
        let machine = machine.context("this program does not know its own file")?;
        // All devices share the cores.
        let executor = machines.first().unwrap_or(&machine).executor.clone();
        machines.push(Machine { scratch: scratch.path().to_owned(), executor, ..machine });
    }
    let runtime = runtime().context("no thread can be started")?;
    let stop = until_signalled(&runtime).context("signals cannot be listened to")?;
    let server = server(&arguments.server);
    let options = WorkerOptions { slots: arguments.tasks.into() };
    let served = runtime.block_on(async {
        let fleet = Fleet::open(&server, &format!("tvmtune worker {name}")).await?;
        for machine in &machines {
            println!("`{name}` serves {} at {}", machine.device.key(), server.shown());
        }
        crate::output::flush();
        serve(&fleet, machines, options, stop, say).await
    });
    // Tasks that were given back still run, on threads that end with this process.
    runtime.shutdown_background();
    served?;
    println!("`{name}` ends; what it had not finished is in the queue again");
    Ok(Exit::Done)
}

/// Returns the devices of this machine, or the one that was asked for.
fn devices(asked: Option<Device>) -> Vec<Target> {
    let cpu = || device::detect().map(Target::from);
    let gpu = || session::gpu().ok().map(Target::from);
    match asked {
        Some(Device::Cpu) => cpu().into_iter().collect(),
        Some(Device::Cuda) => gpu().into_iter().collect(),
        None => cpu().into_iter().chain(gpu()).collect(),
    }
}

/// Returns a name that tells workers of one host apart.
fn default_name() -> String {
    let variable = |name: &str| std::env::var(name).ok().filter(|it| !it.is_empty());
    let host = variable("HOSTNAME").or_else(|| variable("COMPUTERNAME"));
    format!("{}-{}", host.as_deref().unwrap_or("worker"), std::process::id())
}

/// Prints an event.
fn say(event: &WorkerEvent<'_>) {
    match event {
        WorkerEvent::Began { task } => println!("{}: begun", task.name),
        WorkerEvent::Stored { task, kept: Kept::Ignored, .. } => {
            println!("{}: another worker was faster", task.name);
        }
        WorkerEvent::Stored { task, outcome, .. } => match &outcome.finding {
            Finding::Tuned(tuned) => {
                let [default, best] = [tuned.found.default_ns, tuned.found.best_ns].map(latency);
                println!("{}: {default} -> {best}", task.name);
            }
            Finding::Failed(it) => {
                println!("{}: cannot be tuned: {}", task.name, Printable(&it.why));
            }
        },
        WorkerEvent::Failed { task, outcome } => {
            if let Finding::Failed(it) = &outcome.finding {
                eprintln!("warning: {}: {}; it is tried again", task.name, Printable(&it.why));
            }
        }
        WorkerEvent::SetAside { letter } => {
            let name = letter.name.as_deref().unwrap_or("a message");
            eprintln!("warning: {} was set aside: {}", Printable(name), Printable(&letter.why));
        }
        WorkerEvent::Trouble { error } => eprintln!("warning: {error}"),
    }
    crate::output::flush();
}
