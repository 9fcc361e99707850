//! Workers that are killed, servers that are killed, and connections that are cut.

use std::time::{Duration, Instant};

use tvmtune_fleet::nats::{Ended, Fleet, NatsError, Server, Settings, WorkerOptions, runtime};
use tvmtune_fleet::{Finding, execute};
use tvmtune_tests::nats::Limits;

use crate::hardware::{log, machine, machine_of, other_device, task, task_for};
use crate::party::{Hand, Slow, content, quick, with_party};
use crate::proxy::Proxy;

#[test]
fn a_task_whose_worker_is_killed_is_executed_by_another() {
    with_party(Limits::default(), quick(), async |party| {
        let task = task(0, 1);
        let slow_machine = machine(party.folder.path(), "first");
        let slow = Slow::new(&slow_machine);
        let first = Hand::start(&party.fleet, slow_machine);
        party.fleet.send(&task).await.unwrap();
        first.until("began").await;
        first.kill();
        let clock = Instant::now();
        let second = party.hand("second");
        let submitted = party.tune(std::slice::from_ref(&task)).await;
        println!("a killed worker: its task was done elsewhere after {:.2?}", clock.elapsed());
        assert_eq!(submitted.n_sent, 0);
        let tries = party.fleet.job(task.id()).await.unwrap().unwrap().tries;
        let workers: Vec<&str> = tries.iter().map(|it| it.worker.as_str()).collect();
        assert_eq!(workers, ["first", "second"]);
        let workers = party.fleet.workers().await.unwrap();
        assert!(workers.iter().any(|it| it.name == "second"), "{workers:?}");
        // The entry of the first one vanishes by itself.
        party
            .until("it has vanished", async || party.fleet.workers().await.unwrap().len() == 1)
            .await;
        drop(slow);
        second.end().await;
    });
}

#[test]
fn a_task_that_takes_longer_than_its_lease_stays_with_a_worker_that_works() {
    with_party(Limits::default(), quick(), async |party| {
        let task = task(0, 1);
        let slow_machine = machine(party.folder.path(), "slow");
        let slow = Slow::new(&slow_machine);
        let hand = Hand::start(&party.fleet, slow_machine);
        party.fleet.send(&task).await.unwrap();
        hand.until("began").await;
        let idle = party.hand("idle");
        // Three leases, which are what the test is of.
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(idle.count("began"), 0, "it was given to another worker");
        drop(slow);
        party.tune(std::slice::from_ref(&task)).await;
        assert_eq!((hand.count("began"), idle.count("began")), (1, 0));
        hand.end().await;
        idle.end().await;
    });
}

#[test]
fn a_slow_worker_that_lost_its_lease_finishes_all_the_same_and_does_no_harm() {
    with_party(Limits::default(), quick(), async |party| {
        let (task, proxy) = (task(0, 1), Proxy::to(party.server.port()).await);
        let far = Fleet::open(&Server::at(&proxy.url()), "far").await.unwrap();
        let slow_machine = machine(party.folder.path(), "slow");
        let slow = Slow::new(&slow_machine);
        let late = Hand::start(&far, slow_machine);
        party.fleet.send(&task).await.unwrap();
        late.until("began").await;
        proxy.cut();
        let second = party.hand("second");
        party.tune(std::slice::from_ref(&task)).await;
        let cache = party.folder.path().join("cache");
        let before = content(&cache, std::slice::from_ref(&task));
        proxy.mend();
        drop(slow);
        late.until("ignored").await;
        let outcome = party.fleet.outcome(task.id()).await.unwrap().unwrap();
        assert_eq!(outcome.worker, "second", "the first outcome is never replaced");
        party.tune(std::slice::from_ref(&task)).await;
        assert_eq!(content(&cache, std::slice::from_ref(&task)), before);
        late.end().await;
        second.end().await;
    });
}

#[test]
fn a_server_that_is_killed_and_started_again_loses_nothing() {
    with_party(Limits::default(), quick(), async |mut party| {
        let tasks: Vec<_> = (1..=12).map(|seed| task(seed as usize % 4, seed)).collect();
        let hands = ["one", "two"].map(|it| party.hand(it));
        for task in &tasks {
            party.fleet.send(task).await.unwrap();
        }
        hands[0].until("stored").await;
        party.server.kill();
        party.server.begin(Limits::default());
        let clock = Instant::now();
        party.until("it is back", async || party.fleet.workers().await.is_ok()).await;
        println!("a killed server: the first answer came after {:.2?}", clock.elapsed());
        let submitted = party.tune(&tasks).await;
        println!("a killed server: all was done after {:.2?}", clock.elapsed());
        assert_eq!(submitted.n_sent, 0, "what was queued before is still there");
        for hand in hands {
            hand.end().await;
        }
    });
}

#[test]
fn a_server_that_says_nothing_for_longer_than_a_lease_loses_nothing() {
    with_party(Limits::default(), quick(), async |party| {
        let tasks: Vec<_> = (1..=12).map(|seed| task(seed as usize % 4, seed)).collect();
        let hands = ["one", "two"].map(|it| party.hand(it));
        for task in &tasks {
            party.fleet.send(task).await.unwrap();
        }
        hands[0].until("stored").await;
        party.server.signal("-STOP");
        // The test is of this time itself.
        tokio::time::sleep(Duration::from_millis(1500)).await;
        party.server.signal("-CONT");
        let clock = Instant::now();
        party.tune(&tasks).await;
        println!("a silent server: all was done {:.2?} after it went on", clock.elapsed());
        for hand in hands {
            hand.end().await;
        }
    });
}

#[test]
fn a_worker_that_is_asked_to_end_gives_its_task_back_at_once() {
    let patient = Settings { lease_seconds: 600.0, ..quick() };
    with_party(Limits::default(), patient, async |party| {
        let task = task(0, 1);
        let slow_machine = machine(party.folder.path(), "first");
        let _slow = Slow::new(&slow_machine);
        let first = Hand::start(&party.fleet, slow_machine);
        party.fleet.send(&task).await.unwrap();
        first.until("began").await;
        first.end().await;
        let second = party.hand("second");
        // Within seconds, not after a lease of ten minutes.
        party.tune(std::slice::from_ref(&task)).await;
        let job = party.fleet.job(task.id()).await.unwrap().unwrap();
        assert!(job.tries[0].text().contains("gave it back"), "{job:?}");
        second.end().await;
    });
}

#[test]
fn a_worker_serves_several_devices_and_several_tasks_at_once() {
    with_party(Limits::default(), quick(), async |party| {
        let folder = party.folder.path();
        let own = machine(folder, "both");
        let other = machine_of(folder, "both", other_device(), log().clone());
        let slow = Slow::new(&own);
        let both = Hand::with(&party.fleet, vec![own, other], WorkerOptions { slots: 3 });
        let mut tasks: Vec<_> = (1..=3).map(|seed| task(0, seed)).collect();
        tasks.push(task_for(1, 9, other_device()));
        for task in &tasks {
            party.fleet.send(task).await.unwrap();
        }
        party
            .until("three run at once", async || {
                let workers = party.fleet.workers().await.unwrap();
                workers.iter().any(|it| it.running.len() == 3 && it.slots == 3)
            })
            .await;
        let status = party.fleet.status().await.unwrap();
        assert_eq!(status.workers.len(), 2, "a line for each device: {status:?}");
        drop(slow);
        party.tune(&tasks).await;
        both.end().await;
    });
}

#[test]
fn clocks_that_differ_by_an_hour_change_nothing() {
    with_party(Limits::default(), quick(), async |party| {
        // The times of trials are those of the worker's clock; an hour before and after.
        let (folder, tasks) = (party.folder.path(), [task(0, 1), task(1, 1)]);
        let there = machine(folder, "in another hour");
        for (task, hours) in tasks.iter().zip([-1_i64, 1]) {
            let mut outcome = tokio::task::block_in_place(|| execute(task, &there, &mut |_| ()));
            if let Finding::Tuned(tuned) = &mut outcome.finding {
                for line in &mut tuned.trials {
                    let mut trial: serde_json::Value = serde_json::from_str(line).unwrap();
                    let ms = trial["unix_ms"].as_i64().unwrap() + hours * 3_600_000;
                    trial["unix_ms"] = ms.into();
                    *line = trial.to_string();
                }
            }
            party.fleet.keep(&outcome).await.unwrap();
        }
        let submitted = party.tune(&tasks).await;
        assert!(submitted.ended.values().all(|it| matches!(it, Ended::Accepted(_))));
    });
}

#[test]
fn a_server_that_is_not_there_is_an_error_with_the_next_command() {
    let runtime = runtime().unwrap();
    let opened = runtime.block_on(Fleet::open(&Server::at("nats://me:secret@127.0.0.1:1"), "test"));
    let error = opened.unwrap_err();
    assert!(matches!(error, NatsError::Unreachable { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("nats-server --jetstream") && text.contains("tvmtune tune`"), "{text}");
    assert!(!text.contains("secret"), "{text}");
}
