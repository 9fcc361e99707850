//! Runs a kernel: one cluster after the other, in a cluster one warp at a time until it waits.
//!
//! Each file has one group of instructions, as methods of [`Machine`], beside the state that they
//! need. The machine owns that state; this is why it and its files refer to each other. Among
//! themselves the files do so in one direction.

mod access;
mod atomic;
mod barrier;
mod bulk;
mod collective;
mod cp_async;
mod mbarrier;
mod mma;
mod pending;
mod profile;
mod race_check;
mod register_pool;
mod step;
mod wgmma;
mod warp;

use crate::fault::{Event, Fault, FaultKind};
use crate::kernel::Kernel;
use crate::launch::{Argument, Completion, Launch, Options, Order, Parameters, cluster_of, refuse};
use crate::memory::Memory;
use crate::parse::{LaneMask, Special};
use crate::race::{Race, ReleaseClock, VectorClock};
use crate::random::Random;
use crate::registers::{LANES, Register, Registers};
use crate::report::Report;
use crate::space::SHARED_BASE;
use barrier::CtaBarrier;
use bulk::Transfer;
use mbarrier::MbarrierState;
use pending::Copies;
use profile::Costs;
use std::collections::BTreeMap;
use std::rc::Rc;
use warp::{Split, State, Warp};
use wgmma::Warpgroup;

/// A fault stops the launch.
type Result<T> = std::result::Result<T, Box<Fault>>;

/// See [`Kernel::run`].
pub(crate) fn run(
    kernel: &Kernel,
    launch: &Launch,
    arguments: &[Argument],
    memory: &mut Memory,
    options: &Options,
) -> Result<Report> {
    let bad = |message: String| Fault {
        kind: FaultKind::BadLaunch,
        kernel: kernel.name().to_owned(),
        event: Event { message, ..Event::default() },
        others: Vec::new(),
    };
    if let Some(why) = refuse(kernel, launch) {
        return Err(Box::new(bad(why)));
    }
    let parameters =
        Parameters::new(kernel, arguments, memory).map_err(|why| Box::new(bad(why)))?;
    let mut machine = Machine::new(kernel, launch, parameters, memory, options);
    machine.run()?;
    Ok(Report {
        instructions: machine.instructions,
        barriers: machine.n_barriers,
        accesses: machine.accesses(),
    })
}

/// The position of a warp in the grid.
#[derive(Clone, Copy)]
struct Position {
    /// The CTA's rank in its cluster, and the warp in the CTA.
    cta: usize,
    warp: u32,
    within: [u32; 3],
    cluster: [u32; 3],
}

/// One CTA of the cluster that runs.
struct Cta {
    /// Within the grid.
    index: [u32; 3],
    shared: Vec<u8>,
    /// Registers that warps have given back and none has taken.
    free_registers: u32,
    barriers: [CtaBarrier; 16],
    /// By their offset in shared memory.
    mbarriers: BTreeMap<u32, MbarrierState>,
    /// Arrivals of threads of other CTAs at mbarriers: their slots in vector clocks, and their
    /// epochs.
    remote_arrivals: Vec<(usize, u32)>,
    warpgroups: Vec<Warpgroup>,
}

/// The state of a launch, and of the cluster that runs.
struct Machine<'a> {
    kernel: &'a Kernel,
    launch: &'a Launch,
    options: &'a Options,
    parameters: Parameters,
    memory: &'a mut Memory,
    /// The variables of the module.
    variables: Vec<u8>,
    cluster: [u32; 3],
    ctas: Vec<Cta>,
    warps: Vec<Warp>,
    warp_order_rng: Option<Random>,
    /// Decides which asynchronous copies complete early.
    completion_rng: Option<Random>,
    /// Threads of each warp that have arrived at the cluster barrier in this phase, and those
    /// that have not yet waited for the last one.
    cluster_arrived: Vec<u32>,
    cluster_passed: Vec<u32>,
    /// The clock that arrivals there have released, and that of the last phase.
    cluster_released: ReleaseClock,
    cluster_clock: Rc<VectorClock>,
    race: Option<Race>,
    /// Bulk copies in flight.
    transfers: Vec<Transfer>,
    /// Counts changes of mbarriers.
    mbarrier_events: u64,
    instructions: u64,
    n_barriers: u64,
    costs: Option<Costs>,
    /// The warp that runs, and the index of its instruction: for faults.
    at: (usize, usize),
}

impl<'a> Machine<'a> {
    fn new(
        kernel: &'a Kernel,
        launch: &'a Launch,
        parameters: Parameters,
        memory: &'a mut Memory,
        options: &'a Options,
    ) -> Self {
        let race = options.check.then(|| Race::new(memory.allocations.len()));
        Self {
            kernel,
            launch,
            options,
            parameters,
            memory,
            variables: kernel.common.variables.clone(),
            cluster: cluster_of(kernel, launch),
            ctas: Vec::new(),
            warps: Vec::new(),
            warp_order_rng: match options.order {
                Order::Random(seed) => Some(Random::new(seed)),
                _ => None,
            },
            completion_rng: match options.completion {
                Completion::Random(seed) => Some(Random::new(seed)),
                _ => None,
            },
            cluster_arrived: Vec::new(),
            cluster_passed: Vec::new(),
            cluster_released: ReleaseClock::default(),
            cluster_clock: Rc::default(),
            race,
            transfers: Vec::new(),
            mbarrier_events: 0,
            instructions: 0,
            n_barriers: 0,
            costs: options.profile.then(Costs::new),
            at: (0, 0),
        }
    }

    fn run(&mut self) -> Result<()> {
        let clusters: [u32; 3] = std::array::from_fn(|n| self.launch.grid[n] / self.cluster[n]);
        for z in 0..clusters[2] {
            for y in 0..clusters[1] {
                for x in 0..clusters[0] {
                    self.start([x, y, z]);
                    self.run_cluster()?;
                }
            }
        }
        Ok(())
    }

    fn n_threads(&self) -> u32 {
        self.launch.block.iter().product()
    }

    fn n_warps(&self) -> u32 {
        self.n_threads().div_ceil(LANES as u32)
    }

    /// Sets up the CTAs and warps of a cluster.
    fn start(&mut self, cluster: [u32; 3]) {
        let n_ctas: u32 = self.cluster.iter().product();
        let linked = &self.kernel.linked;
        let shared_end = linked.dynamic_shared + self.launch.dynamic_shared_bytes;
        self.ctas.clear();
        // Registers are undefined at the start, and constants are never written: they are reused.
        let mut spare: Vec<Registers> = self.warps.drain(..).map(|it| it.registers).collect();
        for rank in 0..n_ctas {
            let within = split_index(rank, self.cluster);
            let index = std::array::from_fn(|n| cluster[n] * self.cluster[n] + within[n]);
            // Uninitialised bytes read as a NaN of every type.
            let shared = vec![0xFF; shared_end as usize - SHARED_BASE as usize];
            self.ctas.push(Cta {
                index,
                shared,
                free_registers: 0,
                barriers: Default::default(),
                mbarriers: BTreeMap::new(),
                remote_arrivals: Vec::new(),
                warpgroups: vec![Warpgroup::default(); self.n_warps().div_ceil(4) as usize],
            });
            for number in 0..self.n_warps() {
                let registers = spare.pop().unwrap_or_else(|| self.kernel.registers());
                let position = Position { cta: rank as usize, warp: number, within, cluster };
                let warp = self.new_warp(position, registers);
                self.warps.push(warp);
            }
        }
        self.cluster_arrived = vec![0; self.warps.len()];
        self.cluster_passed = vec![0; self.warps.len()];
        self.cluster_released = ReleaseClock::default();
        if let Some(race) = &mut self.race {
            let bytes = shared_end as usize - SHARED_BASE as usize;
            race.start(self.ctas.len(), self.warps.len(), bytes);
        }
    }

    fn new_warp(&self, position: Position, mut registers: Registers) -> Warp {
        let Position { cta, warp: number, .. } = position;
        let n = (self.n_threads() - number * LANES as u32).min(LANES as u32);
        let live = if n == 32 { u32::MAX } else { (1 << n) - 1 };
        for ((special, class), slot) in &self.kernel.linked.registers.specials {
            for lane in 0..LANES {
                let value = self.special(*special, position, lane as u32);
                let to = Register { class: *class, slot: *slot };
                registers.set(to, lane, u64::from(value));
            }
        }
        Warp {
            cta,
            number,
            registers,
            n_registers: self.launched_registers(),
            local: vec![0xFF; self.kernel.linked.local_bytes as usize * LANES],
            live,
            copies: Copies::default(),
            splits: vec![Split {
                pc: 0,
                mask: live,
                stack: Vec::new(),
                state: State::Ready,
                turns: 0,
            }],
        }
    }

    fn special(&self, special: Special, at: Position, lane: u32) -> u32 {
        let Position { cta, warp, within, cluster } = at;
        let (launch, bit) = (self.launch, 1u32 << lane);
        match special {
            Special::Thread(n) => split_index(warp * LANES as u32 + lane, launch.block)[n],
            Special::Threads(n) => launch.block[n],
            Special::Cta(n) => self.ctas[cta].index[n],
            Special::Ctas(n) => launch.grid[n],
            Special::Cluster(n) => cluster[n],
            Special::Clusters(n) => launch.grid[n] / self.cluster[n],
            Special::CtaInCluster(n) => within[n],
            Special::CtasInCluster(n) => self.cluster[n],
            Special::RankInCluster => cta as u32,
            Special::SizeOfCluster => self.cluster.iter().product(),
            Special::IsExplicitCluster => {
                u32::from(launch.cluster.is_some() || self.kernel.cluster().is_some())
            }
            Special::Lane => lane,
            Special::Warp => warp,
            Special::Warps => self.n_warps(),
            Special::Processor | Special::Grid | Special::Clock => 0,
            Special::Processors => 1,
            Special::LaneMask(LaneMask::Equal) => bit,
            Special::LaneMask(LaneMask::Less) => bit - 1,
            Special::LaneMask(LaneMask::LessEqual) => (bit - 1) | bit,
            Special::LaneMask(LaneMask::Greater) => !((bit - 1) | bit),
            Special::LaneMask(LaneMask::GreaterEqual) => !(bit - 1),
            Special::DynamicSharedBytes => launch.dynamic_shared_bytes,
            Special::TotalSharedBytes => {
                self.kernel.static_shared_bytes() + launch.dynamic_shared_bytes
            }
        }
    }

    /// Runs warps until all have ended.
    fn run_cluster(&mut self) -> Result<()> {
        let mut order: Vec<usize> = (0..self.warps.len()).collect();
        if self.options.order == Order::Descending {
            order.reverse();
        }
        loop {
            if let Some(random) = &mut self.warp_order_rng {
                random.shuffle(&mut order);
            }
            let mut progress = false;
            self.complete_random_copies()?;
            self.complete_random_transfers()?;
            for warp in &order {
                progress |= self.run_warp(*warp)?;
            }
            if self.warps.iter().all(|it| it.live == 0) {
                while self.complete_one_transfer()? {}
                return Ok(());
            }
            // No warp made progress: complete copies that are in flight. Warps that poll may still
            // go on.
            let spins = |it: &Warp| it.splits.iter().any(|it| it.state == State::Ready);
            if !progress
                && !self.complete_copies_of_mbarrier()?
                && !self.complete_one_transfer()?
                && !self.warps.iter().any(spins)
            {
                return Err(self.deadlock());
            }
        }
    }

    /// Returns a fault of a lane of the warp that runs.
    fn fault(&self, kind: FaultKind, lane: usize, message: impl Into<String>) -> Box<Fault> {
        let (warp, pc) = self.at;
        let event = self.event(warp, lane, pc, message.into());
        Box::new(Fault { kind, kernel: self.kernel.name().to_owned(), event, others: Vec::new() })
    }

    fn event(&self, warp: usize, lane: usize, pc: usize, message: String) -> Event {
        let location = self.kernel.code().get(pc).map_or(0, |it| it.location);
        self.event_at(warp, lane, location, message)
    }

    fn event_at(&self, warp: usize, lane: usize, location: u32, message: String) -> Event {
        let warp = &self.warps[warp];
        let thread = split_index(warp.number * LANES as u32 + lane as u32, self.launch.block);
        Event {
            cta: Some(self.ctas[warp.cta].index),
            thread: Some(thread),
            message,
            location: self.kernel.common.source.location(location),
        }
    }

    /// Returns the deadlock, with the wait of each split.
    fn deadlock(&self) -> Box<Fault> {
        let mut events = Vec::new();
        let mut kind = FaultKind::Deadlock;
        for (n, warp) in self.warps.iter().enumerate() {
            for split in &warp.splits {
                let message = match split.state {
                    State::Collective => {
                        kind = FaultKind::DivergentCollective;
                        format!(
                            "{} of the {} threads of a warp wait for the others",
                            split.mask.count_ones(),
                            warp.live.count_ones(),
                        )
                    }
                    _ => self.waiting(warp, split),
                };
                let lane = split.mask.trailing_zeros() as usize;
                // Some states are those of the previous instruction.
                let behind = matches!(split.state, State::Barrier(_) | State::Warpgroup);
                let event = self.event(n, lane, split.pc - usize::from(behind), message);
                events.push((split.state != State::Collective, event));
            }
        }
        // Divergent threads come first: they are the cause.
        events.sort_by_key(|(later, _)| *later);
        let mut events = events.into_iter().map(|(_, event)| event);
        let event = events.next().unwrap_or_default();
        let others = events.take(4).collect();
        Box::new(Fault { kind, kernel: self.kernel.name().to_owned(), event, others })
    }

    fn waiting(&self, warp: &Warp, split: &Split) -> String {
        match split.state {
            State::Ready => "a wait that never ends".to_owned(),
            State::Collective => "a wait for the rest of the warp".to_owned(),
            State::Barrier(id) => {
                let barrier = &self.ctas[warp.cta].barriers[id as usize];
                let own = self.warps.iter().filter(|it| it.cta == warp.cta);
                let ended = self.n_threads() - own.map(|it| it.live.count_ones()).sum::<u32>();
                let ended =
                    if ended > 0 { format!(" ({ended} have ended)") } else { String::new() };
                format!(
                    "a wait at barrier {id} with {} of {} threads{ended}",
                    barrier.n_arrived(),
                    barrier.expected(self.n_threads()),
                )
            }
            State::Cluster => "a wait at the cluster's barrier".to_owned(),
            State::Mbarrier(cta, address, parity, _) => {
                let offset = address - SHARED_BASE as u32;
                let missing =
                    self.ctas[cta].mbarriers.get(&offset).map(MbarrierState::describe_missing);
                let parity = u32::from(parity);
                format!(
                    "a wait for parity {parity} of the mbarrier at shared+{offset}, where {} missing,",
                    missing.unwrap_or_default()
                )
            }
            State::Registers(wanted) => format!(
                "a wait for {wanted} registers, where each thread has {} and the block has {} left",
                warp.n_registers, self.ctas[warp.cta].free_registers
            ),
            State::Warpgroup => "a wait for the other warps of the warpgroup".to_owned(),
        }
    }
}

/// Splits a linear index into three dimensions.
fn split_index(index: u32, extents: [u32; 3]) -> [u32; 3] {
    [index % extents[0], index / extents[0] % extents[1], index / extents[0] / extents[1]]
}
