//! Nothing is done twice: duplicates, two submissions, and what goes on where it was.

use std::collections::BTreeSet;

use tvmtune_fleet::nats::{Ended, Fleet, Kept, Sent, Server};
use tvmtune_fleet::{Accepted, execute};
use tvmtune_ir::digest::Digest;
use tvmtune_tests::nats::Limits;

use crate::hardware::{machine, task};
use crate::party::{content, quick, with_party};

#[test]
fn tasks_are_executed_and_accepted_and_a_second_submission_finds_them_done() {
    with_party(Limits::default(), quick(), async |party| {
        let tasks = [task(0, 1), task(1, 1), task(2, 1)];
        let hand = party.hand("a worker");
        let first = party.tune(&tasks).await;
        assert_eq!((first.n_sent, first.n_open), (3, 0));
        let before = content(&party.folder.path().join("cache"), &tasks);
        assert_eq!(before.len(), 3);
        let again = party.tune(&tasks).await;
        assert_eq!(again.n_sent, 0, "outcomes that are there are taken first");
        let is_nothing_new =
            |it: &Ended| matches!(it, Ended::Accepted(Accepted { n_trials: 0, .. }));
        assert!(again.ended.values().all(is_nothing_new), "{again:?}");
        assert_eq!(content(&party.folder.path().join("cache"), &tasks), before);
        assert_eq!(hand.count("began"), 3);
        hand.end().await;
        assert!(party.fleet.workers().await.unwrap().is_empty(), "it has left");
    });
}

#[test]
fn a_kernel_that_is_as_fast_as_asked_for_is_an_outcome_and_not_tried_again() {
    with_party(Limits::default(), quick(), async |party| {
        let hand = party.hand("a worker");
        let mut asked = task(0, 1);
        party.tune(std::slice::from_ref(&asked)).await;
        let lookup = party.database().get(&asked.workload_id(), &asked.name, &asked.dag);
        asked.target_latency_ns = Some(1e12);
        asked.add_records(lookup.records.iter().map(|it| it.record.clone()).collect());
        let submitted = party.submit(std::slice::from_ref(&asked)).await;
        assert_eq!(submitted.ended[&asked.id()], Ended::GoodEnough);
        assert_eq!((hand.count("began"), hand.count("failed")), (2, 0));
        hand.end().await;
    });
}

#[test]
fn a_task_that_is_sent_again_is_known_while_it_waits_and_after_it_was_done() {
    with_party(Limits::default(), quick(), async |party| {
        let (fleet, task) = (&party.fleet, task(0, 1));
        assert_eq!(fleet.send(&task).await.unwrap(), Sent::Queued);
        assert_eq!(fleet.send(&task).await.unwrap(), Sent::Known);
        assert!(fleet.is_queued(&task).await.unwrap());
        // By a sender of whom the server knows nothing any more: a task waits once all the same.
        let client = async_nats::connect(party.server.url()).await.unwrap();
        let device = task.device.to_string().replace(':', "_");
        let subject = format!("tvmtune.task.{device}.v1-g{}.{}", task.generator, task.id());
        client.publish(subject, task.to_json().into()).await.unwrap();
        client.flush().await.unwrap();
        assert_eq!(fleet.status().await.unwrap().queues[0].n_tasks, 1);
        let hand = party.hand("a worker");
        hand.until("stored").await;
        party.until("it is acknowledged", async || !fleet.is_queued(&task).await.unwrap()).await;
        // By a sender whose first message seemed to be lost.
        assert_eq!(fleet.send(&task).await.unwrap(), Sent::Known);
        assert!(!fleet.is_queued(&task).await.unwrap());
        hand.end().await;
    });
}

#[test]
fn a_message_whose_outcome_is_there_is_acknowledged_and_not_executed() {
    with_party(Limits::default(), quick(), async |party| {
        let (fleet, task) = (&party.fleet, task(0, 1));
        let there = machine(party.folder.path(), "there");
        let outcome = tokio::task::block_in_place(|| execute(&task, &there, &mut |_| ()));
        assert_eq!(fleet.keep(&outcome).await.unwrap(), Kept::First);
        assert_eq!(fleet.keep(&outcome).await.unwrap(), Kept::Ignored);
        // The worker that stored it died before it acknowledged.
        assert_eq!(fleet.send(&task).await.unwrap(), Sent::Queued);
        let hand = party.hand("another worker");
        party.until("it is acknowledged", async || !fleet.is_queued(&task).await.unwrap()).await;
        assert_eq!(hand.count("began"), 0);
        hand.end().await;
    });
}

#[test]
fn a_submission_that_was_interrupted_goes_on() {
    with_party(Limits::default(), quick(), async |party| {
        let tasks: Vec<_> = (1..=6).map(|seed| task(0, seed)).collect();
        // Half of them were sent, and one was done.
        for task in &tasks[..3] {
            party.fleet.send(task).await.unwrap();
        }
        let there = machine(party.folder.path(), "there");
        let outcome = tokio::task::block_in_place(|| execute(&tasks[5], &there, &mut |_| ()));
        party.fleet.keep(&outcome).await.unwrap();
        let hand = party.hand("a worker");
        let submitted = party.tune(&tasks).await;
        assert!(submitted.n_sent <= 3, "{submitted:?}");
        assert_eq!(hand.count("began"), 5);
        hand.end().await;
    });
}

#[test]
fn texts_that_are_longer_than_a_message_travel_in_parts() {
    let limits = Limits { max_payload: 2048, ..Limits::default() };
    with_party(limits, quick(), async |party| {
        let tasks = [task(0, 1), task(1, 2)];
        let hand = party.hand("a worker");
        party.tune(&tasks).await;
        let outcome = party.fleet.outcome(tasks[0].id()).await.unwrap().unwrap();
        let text = outcome.to_json();
        assert!(text.len() > 4096, "it has more than two parts");
        // A part that somebody changed is noticed.
        let client = async_nats::connect(party.server.url()).await.unwrap();
        let subject = format!("$KV.TVMTUNE_TEXTS.{}.0", Digest::of([text.as_slice()]));
        let mut part = text[..1024].to_vec();
        let at = part.windows(4).position(|it| it == b"test").unwrap();
        part[at] = b'T';
        client.publish(subject, part.into()).await.unwrap();
        client.flush().await.unwrap();
        let is_noticed = async || {
            let error = party.fleet.outcome(tasks[0].id()).await.err().map(|it| it.to_string());
            error.is_some_and(|it| it.contains("not those of its hash"))
        };
        party.until("it is noticed", is_noticed).await;
        let submitted = party.submit(&tasks).await;
        assert!(matches!(submitted.ended[&tasks[0].id()], Ended::Refused { .. }), "{submitted:?}");
        hand.end().await;
    });
}

#[test]
fn whoever_comes_first_makes_the_streams_and_all_agree_on_the_settings() {
    with_party(Limits::default(), quick(), async |party| {
        let at = Server::at(&party.server.url());
        let names = ["one", "two", "three"];
        let mut seen = BTreeSet::new();
        for name in names {
            let fleet = Fleet::open(&at, name).await.unwrap();
            seen.insert(format!("{:?}", fleet.settings()));
        }
        assert_eq!(seen, BTreeSet::from([format!("{:?}", quick())]));
        let mut changed = quick();
        changed.tries = 7;
        Fleet::set_up(&at, "four", changed).await.unwrap();
        assert_eq!(Fleet::open(&at, "five").await.unwrap().settings(), changed);
    });
}
