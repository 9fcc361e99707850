//! The streams and buckets of a fleet.
//!
//! ```text
//! TVMTUNE_TASKS      stream     tasks that wait or run, until their outcomes are stored; has the settings
//! TVMTUNE_DEAD       stream     tasks that were set aside
//! TVMTUNE_JOBS       bucket     for each task, who tried it
//! TVMTUNE_OUTCOMES   bucket     for each task, its one outcome
//! TVMTUNE_TEXTS      bucket     parts of tasks and outcomes that are longer than a message
//! TVMTUNE_WORKERS    bucket     workers that are there: an entry vanishes unless it is renewed
//! ```
//!
//! Whoever comes first makes them, so that no process of a fleet has to be there before the others.

use std::time::Duration;

use async_nats::Client;
use async_nats::jetstream::consumer::{AckPolicy, Consumer, pull};
use async_nats::jetstream::stream::{self, DiscardPolicy, RetentionPolicy, Stream};
use async_nats::jetstream::{self, Context, kv};
use futures_util::TryStreamExt as _;
use tvmtune_ir::target::DeviceKey;

use super::connect::Server;
use super::error::{Doing, NatsError};
use super::settings::Settings;
use super::subject;

/// The time for which the server knows a task that was sent, even if it is done.
pub(super) const DUPLICATE_WINDOW: Duration = Duration::from_secs(600);
/// The longest part of a text in a message: a quarter of what servers allow by default.
const MAX_PART_BYTES: usize = 256 << 10;
/// The name of the settings among the metadata of the stream of tasks.
const SETTINGS: &str = "tvmtune";
/// The name of the making of streams, in errors.
const SET_UP: &str = "set up the streams of a fleet";

/// A fleet: a connection to its server, and what is kept there.
#[derive(Clone, Debug)]
pub struct Fleet {
    pub(super) client: Client,
    pub(super) context: Context,
    pub(super) settings: Settings,
    pub(super) tasks: Stream,
    pub(super) dead: Stream,
    pub(super) jobs: kv::Store,
    pub(super) outcomes: kv::Store,
    pub(super) texts: kv::Store,
    pub(super) workers: kv::Store,
    /// The longest part of a text in a message.
    pub(super) part_bytes: usize,
}

impl Fleet {
    /// Connects under a name, and makes what is not there yet.
    ///
    /// # Errors
    ///
    /// [`NatsError`], if the server does not answer, is too old, stores nothing, or has no room.
    pub async fn open(server: &Server, name: &str) -> Result<Self, NatsError> {
        let client = server.connect(name).await?;
        let context = jetstream::new(client.clone());
        let settings = match context.get_stream(subject::TASKS).await {
            Ok(tasks) => stored_settings(&tasks),
            Err(_) => Settings::default(),
        };
        Self::with(client, context, settings).await
    }

    /// Connects, and changes the settings of the fleet; workers that are there keep the former ones until they
    /// are started again.
    ///
    /// # Errors
    ///
    /// As those of [`Fleet::open`].
    pub async fn set_up(
        server: &Server,
        name: &str,
        settings: Settings,
    ) -> Result<Self, NatsError> {
        let client = server.connect(name).await?;
        let context = jetstream::new(client.clone());
        for config in [tasks_config(settings), dead_config(settings)] {
            context.create_or_update_stream(config).await.doing(SET_UP)?;
        }
        for bucket in buckets(settings) {
            let config = bucket_config(bucket, settings);
            context.create_or_update_key_value(config).await.doing(SET_UP)?;
        }
        Self::with(client, context, settings).await
    }

    async fn with(client: Client, context: Context, settings: Settings) -> Result<Self, NatsError> {
        let tasks = context.get_or_create_stream(tasks_config(settings)).await.doing(SET_UP)?;
        let dead = context.get_or_create_stream(dead_config(settings)).await.doing(SET_UP)?;
        let [jobs, outcomes, texts, workers] = buckets(settings);
        let jobs = bucket(&context, jobs, settings).await?;
        let outcomes = bucket(&context, outcomes, settings).await?;
        let texts = bucket(&context, texts, settings).await?;
        let workers = bucket(&context, workers, settings).await?;
        // Half is left for the subject, headers and quoting.
        let part_bytes = MAX_PART_BYTES.min(client.server_info().max_payload / 2).max(1);
        Ok(Self {
            client,
            context,
            settings,
            tasks,
            dead,
            jobs,
            outcomes,
            texts,
            workers,
            part_bytes,
        })
    }

    /// Returns the settings of the fleet.
    pub fn settings(&self) -> Settings {
        self.settings
    }

    /// Returns the consumer that all workers of a device share.
    pub(super) async fn consumer(
        &self,
        device: &DeviceKey,
    ) -> Result<Consumer<pull::Config>, NatsError> {
        let config = pull::Config {
            durable_name: Some(subject::consumer(device)),
            filter_subject: subject::of_device(device),
            ack_policy: AckPolicy::Explicit,
            ack_wait: self.settings.lease(),
            // Tries are counted where it is known why one ended, in the bucket of jobs.
            max_deliver: -1,
            max_ack_pending: -1,
            ..pull::Config::default()
        };
        self.tasks.create_consumer(config).await.doing("ask for tasks")
    }
}

fn tasks_config(settings: Settings) -> stream::Config {
    let text = serde_json::to_string(&settings).expect("numbers are JSON");
    stream::Config {
        name: subject::TASKS.to_owned(),
        subjects: vec![subject::ALL_TASKS.to_owned()],
        retention: RetentionPolicy::WorkQueue,
        // A task that waits or runs is there once, however long ago it was sent.
        max_messages_per_subject: 1,
        discard: DiscardPolicy::New,
        discard_new_per_subject: true,
        duplicate_window: DUPLICATE_WINDOW,
        num_replicas: settings.replicas.into(),
        metadata: [(SETTINGS.to_owned(), text)].into_iter().collect(),
        ..stream::Config::default()
    }
}

fn dead_config(settings: Settings) -> stream::Config {
    stream::Config {
        name: subject::DEAD.to_owned(),
        subjects: vec![subject::ALL_DEAD.to_owned()],
        max_messages_per_subject: 1,
        max_age: settings.keep(),
        num_replicas: settings.replicas.into(),
        ..stream::Config::default()
    }
}

/// A bucket's name, and the age at which its entries vanish.
type Bucket = (&'static str, Duration);

fn buckets(settings: Settings) -> [Bucket; 4] {
    [
        (subject::JOBS, settings.keep()),
        (subject::OUTCOMES, settings.keep()),
        (subject::TEXTS, settings.keep()),
        (subject::WORKERS, settings.lease()),
    ]
}

fn bucket_config((name, max_age): Bucket, settings: Settings) -> kv::Config {
    kv::Config {
        bucket: name.to_owned(),
        history: 1,
        max_age,
        num_replicas: settings.replicas.into(),
        ..kv::Config::default()
    }
}

/// Opens a bucket, and makes it if it is not there; one that is there stays as it is.
async fn bucket(
    context: &Context,
    bucket: Bucket,
    settings: Settings,
) -> Result<kv::Store, NatsError> {
    if let Ok(store) = context.get_key_value(bucket.0).await {
        return Ok(store);
    }
    match context.create_key_value(bucket_config(bucket, settings)).await {
        Ok(store) => Ok(store),
        // Another process may have been faster, with other settings.
        Err(error) => {
            let there = context.get_key_value(bucket.0).await;
            there.map_err(|_| NatsError::of(SET_UP, &error))
        }
    }
}

/// Reads the settings of a fleet that is there; those that no process works with count as none.
fn stored_settings(tasks: &Stream) -> Settings {
    let text = tasks.cached_info().config.metadata.get(SETTINGS);
    let settings: Option<Settings> = text.and_then(|it| serde_json::from_str(it).ok());
    settings.filter(|it| it.check().is_ok()).unwrap_or_default()
}

/// Returns the keys of a bucket, those of entries that were removed included.
pub(super) async fn keys(store: &kv::Store) -> Result<Vec<String>, NatsError> {
    const DOING: &str = "list what is stored";
    let prefix = format!("$KV.{}.", store.name);
    let subjects = store.stream.info_with_subjects(format!("{prefix}>")).await.doing(DOING)?;
    let subjects: Vec<(String, usize)> = subjects.try_collect().await.doing(DOING)?;
    let key = |(subject, _): (String, usize)| subject.strip_prefix(&prefix).map(str::to_owned);
    Ok(subjects.into_iter().filter_map(key).collect())
}
