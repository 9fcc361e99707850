//! An application that launches from many threads, and has something happen meanwhile.
//!
//! Its arguments are what happens, the number of threads, the launches of each, and a seed. It ends with
//! success if each result was right.

use std::env;
use std::panic::catch_unwind;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use rustix::thread::{CpuSet, sched_setaffinity};
use tvmtune_runtime::{Cpu, Isa, set_threads};
use tvmtune_tuner::random::Random;

use super::alien::{RUST_MODES, in_child, in_modes};
use super::ops::Ops;

/// What happens while kernels are launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happening {
    /// Nothing.
    Nothing,
    /// The number of threads changes.
    Resize,
    /// Callers have other modes of arithmetic, also when the pool starts its threads.
    Modes,
    /// The process forks, and children launch, too.
    Fork,
    /// Callers panic, and launch while they unwind.
    Panic,
    /// The process may use one core.
    OneCore,
}

impl Happening {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Nothing, Self::Resize, Self::Modes, Self::Fork, Self::Panic, Self::OneCore];

    /// Returns the argument of the application.
    pub fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

/// How long a child of the application may take for some launches.
const PATIENCE: Duration = Duration::from_secs(10);

/// Launches of a forked child.
const LAUNCHES_OF_A_CHILD: usize = 20;

/// Runs the application.
pub fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [happening, n_threads, n_launches, seed] = arguments.as_slice() else {
        return ExitCode::from(2);
    };
    let happening = Happening::ALL.into_iter().find(|it| it.name() == *happening);
    let numbers = (n_threads.parse().ok(), n_launches.parse().ok(), seed.parse().ok());
    let (Some(happening), (Some(n_threads), Some(n_launches), Some(seed))) = (happening, numbers)
    else {
        return ExitCode::from(2);
    };
    match run(happening, n_threads, n_launches, &Random::new(seed)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn run(
    happening: Happening,
    threads: usize,
    launches: usize,
    random: &Random,
) -> Result<(), String> {
    if happening == Happening::OneCore {
        let mut one = CpuSet::new();
        one.set(rustix::thread::sched_getcpu());
        sched_setaffinity(None, &one).map_err(|it| it.to_string())?;
    }
    // Without a launch that starts the pool: its threads are to begin under these circumstances.
    Ops::get();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let resizing = (happening == Happening::Resize).then(|| {
            let mut random = random.fork(u64::MAX);
            let is_over = &is_over;
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    set_threads(random.below(9));
                    thread::sleep(Duration::from_micros(random.below(2000) as u64));
                }
            })
        });
        let caller = |n: u64| {
            let mut random = random.fork(n);
            move || (0..launches).try_for_each(|_| launch(happening, &mut random))
        };
        let callers: Vec<_> = (0..threads as u64).map(|n| scope.spawn(caller(n))).collect();
        let results = callers.into_iter().map(|it| it.join());
        let results: Vec<_> =
            results.map(|it| it.unwrap_or_else(|_| Err("a caller panicked".to_owned()))).collect();
        is_over.store(true, Ordering::Relaxed);
        drop(resizing);
        results.into_iter().collect()
    })
}

/// Makes a launch, and what happens around it.
fn launch(happening: Happening, random: &mut Random) -> Result<(), String> {
    let cpu = queue(random);
    match happening {
        Happening::Modes => {
            // Any rounding, any flushing, and now and then exceptions that are not masked.
            let bits = random.bits() as u32;
            let masks = if random.chance(0.8) { RUST_MODES } else { bits & RUST_MODES };
            let modes = masks | bits & (0b111 << 13 | 1 << 6);
            let (result, after) = in_modes(modes, || Ops::get().launch(&cpu, random));
            result.map_err(|it| format!("in modes {modes:#x}: {it}"))?;
            match after == modes {
                true => Ok(()),
                false => Err(format!("a launch leaves modes {after:#x} instead of {modes:#x}")),
            }
        }
        Happening::Fork if random.chance(0.02) => {
            Ops::get().launch(&cpu, random)?;
            let mut of_child = random.fork(1);
            let launches = move || {
                (0..LAUNCHES_OF_A_CHILD)
                    .all(|_| Ops::get().launch(&queue(&mut of_child), &mut of_child).is_ok())
            };
            let child = in_child(launches).map_err(|it| it.to_string())?;
            wait_for(child)
        }
        Happening::Panic if random.chance(0.1) => {
            let mut of_unwinding = random.fork(1);
            let panicking = move || {
                let _launches = LaunchesWhenDropped(of_unwinding.fork(2));
                Ops::get()
                    .launch(&queue(&mut of_unwinding), &mut of_unwinding)
                    .expect("it is right");
                std::panic::resume_unwind(Box::new("as planned"));
            };
            match catch_unwind(panicking) {
                Err(payload) if payload.is::<&str>() => Ok(()),
                _ => Err("a launch of a caller that panics went wrong".to_owned()),
            }
        }
        _ => Ops::get().launch(&cpu, random),
    }
}

/// Draws a queue: most launches are on all threads, by machine code.
fn queue(random: &mut Random) -> Cpu {
    let cpu = Cpu::new();
    match random.below(8) {
        0 => cpu.alone(),
        1 => cpu.at_most(Isa::Portable),
        2 => cpu.at_most(Isa::Avx2),
        _ => cpu,
    }
}

/// Launches when it is dropped, in the midst of a panic.
struct LaunchesWhenDropped(Random);

impl Drop for LaunchesWhenDropped {
    fn drop(&mut self) {
        let result = Ops::get().launch(&queue(&mut self.0), &mut self.0);
        if let Err(why) = result {
            eprintln!("{why}");
            std::process::abort();
        }
    }
}

/// Waits for a forked child.
fn wait_for(child: Pid) -> Result<(), String> {
    let since = Instant::now();
    loop {
        match waitpid(Some(child), WaitOptions::NOHANG) {
            Ok(Some((_, status))) if status.exit_status() == Some(0) => return Ok(()),
            Ok(Some((_, status))) => return Err(format!("a forked process ended: {status:?}")),
            Ok(None) if since.elapsed() > PATIENCE => {
                // It may end just now.
                let _ = kill_process(child, Signal::KILL);
                let _ = waitpid(Some(child), WaitOptions::empty());
                return Err(format!("a forked process hangs: {} s", PATIENCE.as_secs()));
            }
            Ok(None) => thread::sleep(Duration::from_micros(200)),
            Err(error) => return Err(format!("no forked process: {error}")),
        }
    }
}
