//! Input that nobody should send, and machines that cannot do what they should.

use std::io::Write as _;
use std::net::TcpListener;

use tvmtune_fleet::nats::{Ended, Fleet, NatsError, Sent, Server, Settings, runtime};
use tvmtune_fleet::{Failure, FailureKind, Finding, TaskOutcome, execute};
use tvmtune_tests::nats::Limits;

use crate::hardware::{device, machine, machine_of, other_device, task, task_for};
use crate::party::{Hand, Slow, content, quick, with_party};

#[test]
fn a_task_that_crashes_every_worker_is_set_aside_with_the_reason() {
    let settings = Settings { tries: 2, ..quick() };
    with_party(Limits::default(), settings, async |party| {
        let task = task(0, 1);
        party.fleet.send(&task).await.unwrap();
        let mut slow = Vec::new();
        for name in ["first", "second"] {
            let machine = machine(party.folder.path(), name);
            slow.push(Slow::new(&machine));
            let hand = Hand::start(&party.fleet, machine);
            hand.until("began").await;
            hand.kill();
        }
        let third = party.hand("third");
        third.until("set aside").await;
        assert_eq!(third.count("began"), 0);
        let submitted = party.submit(std::slice::from_ref(&task)).await;
        let Some(Ended::Dead(letter)) = submitted.ended.get(&task.id()) else {
            panic!("{submitted:?}")
        };
        assert_eq!(
            letter.why,
            "2 workers failed at it; the last one: `second` on `a host` did not come back"
        );
        let workers: Vec<&str> = letter.tries.iter().map(|it| it.worker.as_str()).collect();
        assert_eq!(workers, ["first", "second"]);
        assert!(!party.fleet.is_queued(&task).await.unwrap());
        // Whoever mended what was wrong sends it again.
        let again = party.submit_again(std::slice::from_ref(&task), true).await;
        assert!(matches!(again.ended[&task.id()], Ended::Accepted(_)), "{again:?}");
        assert!(party.fleet.dead_tasks().await.unwrap().is_empty());
        third.end().await;
    });
}

#[test]
fn a_task_that_fails_is_tried_again_and_set_aside_with_its_last_error() {
    with_party(Limits::default(), quick(), async |party| {
        // Its folder for scratch files is gone.
        let mut broken = machine(party.folder.path(), "broken");
        broken.scratch = party.folder.path().join("nowhere");
        let (hand, task) = (Hand::start(&party.fleet, broken), task(0, 1));
        let submitted = party.submit(std::slice::from_ref(&task)).await;
        let Some(Ended::Dead(letter)) = submitted.ended.get(&task.id()) else {
            panic!("{submitted:?}")
        };
        assert_eq!(hand.count("failed"), 3);
        assert!(
            letter.why.starts_with("3 workers failed at it")
                && letter.why.contains("no scratch folder"),
            "{letter:?}"
        );
        let status = party.fleet.status().await.unwrap();
        assert_eq!(status.dead, std::slice::from_ref(letter));
        hand.end().await;
    });
}

#[test]
fn a_program_that_nobody_can_tune_is_an_outcome_and_not_tried_again() {
    with_party(Limits::default(), quick(), async |party| {
        let folder = party.folder.path();
        let empty = machine_of(folder, "empty", device(), Default::default());
        let (hand, task) = (Hand::start(&party.fleet, empty), task(0, 1));
        let submitted = party.submit(std::slice::from_ref(&task)).await;
        assert!(
            matches!(&submitted.ended[&task.id()], Ended::Failed { why } if why.contains("not in the log")),
            "{submitted:?}"
        );
        assert_eq!(hand.count("began"), 1);
        hand.end().await;
    });
}

#[test]
fn a_worker_gets_tasks_of_its_device_alone_and_others_wait() {
    with_party(Limits::default(), quick(), async |party| {
        let (own, foreign) = (task(0, 1), task_for(0, 1, other_device()));
        party.fleet.send(&foreign).await.unwrap();
        let hand = party.hand("a worker");
        party.tune(&[own]).await;
        assert!(party.fleet.is_queued(&foreign).await.unwrap());
        let status = party.fleet.status().await.unwrap();
        assert_eq!(status.queues.len(), 1, "{status:?}");
        assert_eq!((status.queues[0].n_tasks, status.queues[0].n_workers), (1, 0));
        hand.end().await;
    });
}

#[test]
fn messages_that_are_no_tasks_are_set_aside_and_named() {
    with_party(Limits::default(), quick(), async |party| {
        // A client that knows nothing of fleets.
        let client = async_nats::connect(party.server.url()).await.unwrap();
        let (task, foreign) = (task(0, 1), task_for(0, 1, other_device()));
        let subject = |id: &str| {
            let device = task.device.to_string().replace(':', "_");
            format!("tvmtune.task.{device}.v1-g{}.{id}", task.generator)
        };
        let mut newer: serde_json::Value = serde_json::from_slice(&task.to_json()).unwrap();
        newer["version"] = 2.into();
        let hostile = [
            (subject("garbage"), b"\x1b[2J not a task".to_vec()),
            (subject(&foreign.id().to_string()), foreign.to_json()),
            (subject("parts"), b"parts 00 9999999".to_vec()),
            (subject("newer"), newer.to_string().into_bytes()),
        ];
        for (subject, text) in hostile {
            client.publish(subject, text.into()).await.unwrap();
        }
        client.flush().await.unwrap();
        let hand = party.hand("a worker");
        party.tune(std::slice::from_ref(&task)).await;
        party
            .until("all are set aside", async || party.fleet.dead_tasks().await.unwrap().len() == 4)
            .await;
        let dead = party.fleet.status().await.unwrap().dead;
        let reasons: Vec<&str> = dead.iter().map(|it| it.why.as_str()).collect();
        for expected in [
            "the task is not one",
            "in the queue of another task",
            "it is in parts",
            "has format 2",
        ] {
            assert!(reasons.iter().any(|it| it.contains(expected)), "{expected}: {reasons:?}");
        }
        assert_eq!(hand.count("began"), 1, "the one that is a task");
        hand.end().await;
    });
}

#[test]
fn outcomes_that_cannot_be_true_are_refused_and_named_and_the_task_can_be_sent_again() {
    with_party(Limits::default(), quick(), async |party| {
        let (task, other) = (task(0, 1), task(1, 1));
        let there = machine(party.folder.path(), "a liar");
        let mut outcome = tokio::task::block_in_place(|| execute(&task, &there, &mut |_| ()));
        let Finding::Tuned(tuned) = &mut outcome.finding else { panic!("{outcome:?}") };
        // Faster than any machine.
        tuned.record = tuned.record.replace("median_ns = ", "median_ns = 0.0000");
        tuned.record = tuned.record.replace("_ns = 1", "_ns = 0.0000001");
        tuned.record = tuned.record.replace("trace = [", "trace = [\"inline s9\", ");
        party.fleet.keep(&outcome).await.unwrap();
        let of_other = TaskOutcome {
            task: other.id(),
            finding: Finding::Failed(Failure::new(FailureKind::Impossible, "no\x1b[2J")),
            ..outcome.clone()
        };
        party.fleet.keep(&of_other).await.unwrap();
        let tasks = [task.clone(), other.clone()];
        let submitted = party.submit(&tasks).await;
        let Ended::Refused { why } = &submitted.ended[&task.id()] else { panic!("{submitted:?}") };
        assert!(why.contains("from worker `a liar` on `a host` is not taken"), "{why}");
        let Ended::Failed { why } = &submitted.ended[&other.id()] else { panic!("{submitted:?}") };
        assert!(!why.contains('\x1b'), "{why}");
        assert!(content(&party.folder.path().join("cache"), &tasks).is_empty());
        let hand = party.hand("honest");
        let again = party.submit_again(&tasks, true).await;
        assert!(again.ended.values().all(|it| matches!(it, Ended::Accepted(_))), "{again:?}");
        hand.end().await;
    });
}

#[test]
fn a_full_server_is_a_clear_error_and_nothing_is_lost() {
    let small = Limits { max_file: 60_000, ..Limits::default() };
    with_party(small, quick(), async |mut party| {
        let slow_machine = machine(party.folder.path(), "a worker");
        let slow = Slow::new(&slow_machine);
        let hand = Hand::start(&party.fleet, slow_machine);
        let mut sent = vec![task(0, 1)];
        party.fleet.send(&sent[0]).await.unwrap();
        hand.until("began").await;
        let error = loop {
            let task = task(0, 1 + sent.len() as u64);
            assert!(sent.len() < 200, "it is never full");
            match party.fleet.send(&task).await {
                Ok(it) => {
                    assert_eq!(it, Sent::Queued);
                    sent.push(task);
                }
                Err(error) => break error,
            }
        };
        assert!(matches!(error, NatsError::Full { .. }), "{error}");
        assert!(error.to_string().contains("has no room left"), "{error}");
        assert!(sent.len() > 3, "{}", sent.len());
        sent.truncate(8);
        // The worker's outcome finds no room, and it dies with that in its hands; then somebody makes some.
        drop(slow);
        hand.until("trouble: cannot store an outcome").await;
        hand.kill();
        party.server.kill();
        party.server.begin(Limits::default());
        let hand = party.hand("another worker");
        let submitted = party.tune(&sent).await;
        assert_eq!(submitted.n_sent, 0, "what was sent stayed");
        hand.end().await;
    });
}

#[test]
fn servers_that_do_not_serve_are_named_with_the_reason() {
    let check = |info: &str, expected: &str| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("nats://{}", listener.local_addr().unwrap());
        let info = format!("INFO {info}\r\nPONG\r\n");
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(info.as_bytes()).unwrap();
            // Until the client goes.
            std::io::copy(&mut stream, &mut std::io::sink()).ok();
        });
        let runtime = runtime().unwrap();
        let error = runtime.block_on(Fleet::open(&Server::at(&url), "test")).unwrap_err();
        drop(runtime);
        assert!(error.to_string().contains(expected), "{error}");
        server.join().unwrap();
    };
    let info = |version: &str, jetstream: bool| {
        format!(
            "{{\"server_id\":\"x\",\"server_name\":\"x\",\"version\":\"{version}\",\"go\":\"go1\",\
             \"host\":\"127.0.0.1\",\"port\":4222,\"headers\":true,\"max_payload\":1048576,\
             \"proto\":1,\"jetstream\":{jetstream},\"client_id\":1,\"nonce\":\"\"}}"
        )
    };
    check(&info("2.9.10", true), "is version 2.9.10, and 2.10.0 is the oldest that serves");
    check(&info("2.15.1", false), "runs without JetStream");
}
