//! Fifty workers and a thousand tasks: what comes out is what one machine finds.

use std::path::Path;
use std::time::Instant;

use tvmtune_fleet::nats::{Sent, Settings};
use tvmtune_fleet::{Task, TaskOutcome, accept, execute};
use tvmtune_tests::nats::Limits;
use tvmtune_tuner::measure::Replay;

use crate::hardware::{N_PROGRAMS, database, device, machine, machine_of, task};
use crate::party::{Hand, Party, content, quick, with_party};

const N_WORKERS: usize = 50;
const N_TASKS: u64 = 1000;
/// Tasks of which nothing comes.
const N_EMPTY: u64 = 200;

#[test]
fn fifty_workers_do_a_thousand_tasks_once_each_and_find_what_one_machine_finds() {
    let settings = Settings { lease_seconds: 30.0, ..quick() };
    with_party(Limits::default(), settings, async |party| {
        let tasks: Vec<_> =
            (1..=N_TASKS).map(|seed| task(seed as usize % N_PROGRAMS, seed)).collect();
        let alone = party.folder.path().join("alone");
        let clock = Instant::now();
        tokio::task::block_in_place(|| tune_alone(&party, &tasks, &alone));
        let of_one = clock.elapsed().as_secs_f64();
        let clock = Instant::now();
        let hands: Vec<_> = (0..N_WORKERS).map(|n| party.hand(&format!("worker {n}"))).collect();
        let submitted = party.tune(&tasks).await;
        let of_all = clock.elapsed().as_secs_f64();
        println!(
            "{N_TASKS} tasks: {of_one:.1} s by two threads without a fleet, {of_all:.1} s by {N_WORKERS} workers \
             on the same cores, {:.0} tasks a second",
            N_TASKS as f64 / of_all,
        );
        assert_eq!(submitted.n_sent, tasks.len());
        let began: usize = hands.iter().map(|it| it.count("began")).sum();
        let stored: usize = hands.iter().map(|it| it.count("stored")).sum();
        assert_eq!((began, stored), (tasks.len(), tasks.len()), "each was executed once");
        let programs = &tasks[..N_PROGRAMS];
        let merged = content(&party.folder.path().join("cache"), programs);
        let expected = content(&alone, programs);
        assert_eq!(merged.len(), N_PROGRAMS);
        for (name, expected) in &expected {
            assert_eq!(merged[name].1.len(), expected.1.len(), "{name}: each trial once");
            assert_eq!(&merged[name], expected, "{name}");
        }
        for hand in hands {
            hand.end().await;
        }
        let status = party.fleet.status().await.unwrap();
        assert_eq!((status.n_outcomes, status.queues.len()), (tasks.len(), 0), "{status:?}");
    });
}

/// Executes tasks on one machine, a share on each core, and accepts them in order.
fn tune_alone(party: &Party, tasks: &[Task], cache: &Path) {
    let database = database(cache);
    let half = tasks.len() / 2;
    let run = |tasks: &[Task]| -> Vec<TaskOutcome> {
        let machine = machine(party.folder.path(), "alone");
        tasks.iter().map(|it| execute(it, &machine, &mut |_| ())).collect()
    };
    let outcomes = std::thread::scope(|scope| {
        let first = scope.spawn(|| run(&tasks[..half]));
        let second = run(&tasks[half..]);
        [first.join().unwrap(), second].concat()
    });
    for (task, outcome) in tasks.iter().zip(&outcomes) {
        accept(task, outcome, &database).unwrap();
    }
}

#[test]
fn the_overhead_of_a_task_is_measured() {
    with_party(Limits::default(), quick(), async |party| {
        // Nothing is measured there, so that little else is left.
        let empty = || machine_of(party.folder.path(), "a worker", device(), Replay::default());
        let tasks: Vec<_> = (1..=N_EMPTY).map(|seed| task(0, seed)).collect();
        let clock = Instant::now();
        tokio::task::block_in_place(|| {
            let machine = empty();
            tasks.iter().for_each(|it| drop(execute(it, &machine, &mut |_| ())));
        });
        let alone = clock.elapsed();
        let clock = Instant::now();
        for task in &tasks {
            assert_eq!(party.fleet.send(task).await.unwrap(), Sent::Queued);
        }
        let sent = clock.elapsed();
        let clock = Instant::now();
        let hand = Hand::start(&party.fleet, empty());
        party.until("all are stored", async || hand.count("stored") == tasks.len()).await;
        let ms = |it: std::time::Duration| 1e3 * it.as_secs_f64() / tasks.len() as f64;
        println!(
            "a task: {:.1} ms to send, {:.1} ms to execute, {:.1} ms by a worker",
            ms(sent),
            ms(alone),
            ms(clock.elapsed()),
        );
        assert_eq!((hand.count("began"), hand.count("trouble")), (tasks.len(), 0));
        hand.end().await;
    });
}
