//! A world for one test: Redis servers of its own, a clock that the test sets, and any number of instances
//! of the service, each behind a real port.

pub mod client;
pub mod committed;
pub mod delay;
pub mod jobs;
pub mod keys;
pub mod program;
pub mod random;
pub mod receiver;
pub mod relative;
pub mod replicated;
pub mod sentinels;
pub mod servers;
pub mod slots;
pub mod streams;
pub mod tls;

use std::future::poll_fn;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use standings::api::router::{Options, reserve, router};
use standings::core::Engine;
use standings::core::jobs::JobKind;
use standings::core::read::snapshot::SnapshotBounds;
use standings::domain::clock::Clock;
use standings::domain::ids::BoardId;
use standings::domain::instance::Part;
use standings::domain::time::Timestamp;
use standings::http::App;
use standings::http::connection::Times;
use standings::http::listener::{self, Limits, Routers};
use standings::http::memory::Memory;
use standings::live::{StreamLimits, Streams};
use standings::moves;
use standings::profiles::search::NameSearch;
use standings::queue::capacity::QueueBounds;
use standings::queue::intake::EventLog;
use standings::redis::{Address, Store};
use standings::runtime::timeouts::TimeoutFactor;
use standings::setup::{self, Setup};
use standings::webhooks::sender::Sender;
use standings::worker;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

pub use self::client::Client;
use self::jobs::Moves;
use self::servers::RedisServers;
pub use crate::kit::redis::{self, RedisServer};

/// The repository's folder.
pub fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The factor of all limits of time, where a test is not about them.
pub const PATIENT: u32 = 15;

/// A clock that stands at this time.
pub fn clock_at(now: &str) -> Clock {
    Clock::set_to(Timestamp::parse(now).unwrap())
}

/// A store with the usual limits of time, for tests in which a server of Redis fails.
pub fn store(redis_url: &str) -> Store {
    Store::connect(&Address::parse(redis_url), TimeoutFactor::default()).unwrap()
}

/// Does some work until it has waited so many times, and drops it there, as if its process were killed.
///
/// A test that counts the places at which it breaks off needs `#[tokio::test]` with one thread: with several, an answer may be there at
/// once, and nothing waits for it.
pub async fn break_off<T>(work: impl Future<Output = T>, waits: u16) -> Option<T> {
    let (mut work, mut left) = (pin!(work), waits);
    poll_fn(|context| {
        let done = work.as_mut().poll(context).map(Some);
        left = left.saturating_sub(1);
        if done.is_pending() && left == 0 {
            return Poll::Ready(None);
        }
        done
    })
    .await
}

/// Does some work, and another one when it has waited so many times. Returns whether it had not ended by then.
pub async fn interrupt(
    work: impl Future<Output = ()>,
    waits: u16,
    other: impl Future<Output = ()>,
) -> bool {
    let mut work = pin!(work);
    let is_over = break_off(work.as_mut(), waits).await.is_some();
    other.await;
    if !is_over {
        work.await;
    }
    !is_over
}

/// One instance of the service. Its background steps run only when a test calls them.
pub struct Instance {
    pub engine: Arc<Engine>,
    pub client: Client,
    /// Cancelled as by a service that is told to stop.
    pub shutdown: CancellationToken,
    _serving: AbortOnDropHandle<()>,
    /// Without it no replica is believed.
    _registering: Option<AbortOnDropHandle<()>>,
}

impl Instance {
    /// Starts it with the patience that a busy machine needs: a 503 would be a fault of the test's machine.
    pub async fn start(redis_url: &str, clock: Clock, keys: &str) -> Self {
        let timeouts = PATIENT.try_into().unwrap();
        let store = Store::connect(&Address::parse(redis_url), timeouts).unwrap();
        Self::start_on(store, clock, keys).await
    }

    /// Starts two of them, each on a store that is set up like this.
    pub async fn start_two(
        redis_url: &str,
        clock: &Clock,
        set_up: impl Fn(Store) -> Store,
    ) -> [Self; 2] {
        let start = async || Self::start_on(set_up(store(redis_url)), clock.clone(), "").await;
        [start().await, start().await]
    }

    /// Starts it on a store that is set up already.
    pub async fn start_on(store: Store, clock: Clock, keys: &str) -> Self {
        Self::start_within(Self::limits(), 256, store, clock, keys).await
    }

    fn limits() -> Limits {
        Limits {
            connections: 1_000,
            times: Times::default(),
        }
    }

    fn options(keys: &str) -> Options {
        Options {
            keys: keys.parse().unwrap(),
            cors_origins: "https://allowed.example".parse().unwrap(),
            is_local: true,
            ..Options::default()
        }
    }

    /// The same with these limits of connections, and so many MiB for requests.
    pub async fn start_within(
        limits: Limits,
        memory_mb: usize,
        store: Store,
        clock: Clock,
        keys: &str,
    ) -> Self {
        let options = Self::options(keys);
        Self::start_set_up(limits, memory_mb, store, clock, options).await
    }

    /// The same, with HTTP that is set up like this.
    pub async fn start_set_up(
        limits: Limits,
        memory_mb: usize,
        store: Store,
        clock: Clock,
        options: Options,
    ) -> Self {
        Self::start_service(limits, memory_mb, setup::engine(store, clock), options).await
    }

    /// Starts one that may have so many streams, and takes patience with its connections.
    pub async fn start_streaming(
        (redis_url, clock): (&str, Clock),
        options: Options,
        limits: Limits,
        streams: StreamLimits,
    ) -> Self {
        let timeouts = PATIENT.try_into().unwrap();
        let store = Store::connect(&Address::parse(redis_url), timeouts).unwrap();
        let engine = setup::engine(store, clock);
        let streams = Streams::new(streams);
        Self::start_whole((limits, 256), engine, options, streams).await
    }

    /// Starts one whose boards pages of these origins may show in a frame.
    pub async fn start_embedding(redis_url: &str, origins: &str) -> Self {
        let options = Options {
            embed_origins: origins.parse().unwrap(),
            ..Self::options("")
        };
        let engine = setup::engine(store(redis_url), Clock::system());
        Self::start_service(Self::limits(), 256, engine, options).await
    }

    /// Starts one whose webhooks may be on this machine.
    pub async fn start_sending(redis_url: &str, clock: Clock, keys: &str) -> Self {
        let timeouts = PATIENT.try_into().unwrap();
        let store = Store::connect(&Address::parse(redis_url), timeouts).unwrap();
        let setup = Setup {
            sender: Sender::new(true),
            ..Setup::default()
        };
        let engine = setup.engine(store, clock);
        let options = Self::options(keys);
        Self::start_service(Self::limits(), 256, engine, options).await
    }

    /// Starts one whose queues may have so many bytes.
    pub async fn start_bounded(redis_url: &str, clock: Clock, queue_bounds: QueueBounds) -> Self {
        let setup = Setup {
            queue_bounds,
            ..Setup::default()
        };
        let engine = setup.engine(store(redis_url), clock);
        Self::start_service(Self::limits(), 256, engine, Self::options("")).await
    }

    /// Starts one whose exports of standings that are not final may take so much.
    pub async fn start_exporting(
        redis_url: &str,
        clock: Clock,
        keys: &str,
        snapshot_bounds: SnapshotBounds,
    ) -> Self {
        let timeouts = PATIENT.try_into().unwrap();
        let store = Store::connect(&Address::parse(redis_url), timeouts).unwrap();
        let setup = Setup {
            snapshot_bounds,
            ..Setup::default()
        };
        let engine = setup.engine(store, clock);
        Self::start_service(Self::limits(), 256, engine, Self::options(keys)).await
    }

    /// Starts one whose moderators find members by name.
    pub async fn start_finding_names(redis_url: &str, clock: Clock, keys: &str) -> Self {
        let setup = Setup {
            name_search: NameSearch { is_on: true },
            ..Setup::default()
        };
        let engine = setup.engine(store(redis_url), clock);
        Self::start_service(Self::limits(), 256, engine, Self::options(keys)).await
    }

    /// Starts one that leaves queued events to others.
    pub async fn start_leaving_queues(redis_url: &str, clock: Clock, keys: &str) -> Self {
        let timeouts = PATIENT.try_into().unwrap();
        let store = Store::connect(&Address::parse(redis_url), timeouts).unwrap();
        let setup = Setup {
            part: Part::WithoutQueues,
            ..Setup::default()
        };
        let engine = setup.engine(store, clock);
        Self::start_service(Self::limits(), 256, engine, Self::options(keys)).await
    }

    /// Starts one whose queued events go through a log, and whose queues may have so many bytes.
    pub async fn start_logging(
        redis_url: &str,
        clock: Clock,
        log: Arc<dyn EventLog>,
        queue_bounds: QueueBounds,
    ) -> Self {
        let timeouts = PATIENT.try_into().unwrap();
        let store = Store::connect(&Address::parse(redis_url), timeouts).unwrap();
        let setup = Setup {
            log: Some(log),
            queue_bounds,
            ..Setup::default()
        };
        let engine = setup.engine(store, clock);
        Self::start_service(Self::limits(), 256, engine, Self::options("")).await
    }

    async fn start_service(
        limits: Limits,
        memory_mb: usize,
        engine: Arc<Engine>,
        options: Options,
    ) -> Self {
        Self::start_whole(
            (limits, memory_mb),
            engine,
            options,
            Streams::new(StreamLimits::default()),
        )
        .await
    }

    async fn start_whole(
        (limits, memory_mb): (Limits, usize),
        engine: Arc<Engine>,
        options: Options,
        streams: Streams,
    ) -> Self {
        client::install_tls_provider();
        // A failing test shows what was logged.
        let _ = tracing_subscriber::fmt()
            .with_env_filter("info,fred=off")
            .with_test_writer()
            .try_init();
        redis::eventually("the instance reaches redis", async || {
            engine.store.prepare().await.is_ok() && engine.store.check().await.is_ok()
        })
        .await;
        let shutdown = CancellationToken::new();
        let app = Arc::new(App {
            engine: Arc::clone(&engine),
            metrics: None,
            is_open: options.is_open(),
            profile_rules: options.profile_rules.clone(),
            memory: Memory::new(memory_mb << 20),
            shutdown: shutdown.clone(),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = Client::new(&format!("http://{}", listener.local_addr().unwrap()));
        let routers = Routers {
            reserve: reserve(Arc::clone(&app)),
            all: router(app, streams, &options),
        };
        let limits = (limits, options.proxies.clone());
        let serving = listener::serve(listener, routers, limits, CancellationToken::new());
        let serving = tokio::spawn(serving);
        let reads_replicas = engine.store.max_staleness().is_some();
        let registering = reads_replicas.then(|| repeat(JobKind::Staleness, &engine));
        Self {
            engine,
            client,
            shutdown,
            _serving: AbortOnDropHandle::new(serving),
            _registering: registering,
        }
    }
}

/// Does a job again and again, as every instance does, until the value is dropped.
fn repeat(kind: JobKind, engine: &Arc<Engine>) -> AbortOnDropHandle<()> {
    let (engine, stop) = (Arc::clone(engine), CancellationToken::new());
    AbortOnDropHandle::new(tokio::spawn(worker::repeat(kind, engine, stop)))
}

impl Instance {
    /// Takes the move of a board to its end.
    pub async fn end_move(&self, board: &str) {
        let id = BoardId::parse(board).unwrap();
        redis::eventually("the board has moved", async || {
            self.engine.run(&Moves).await.unwrap();
            let progress = moves::work::progress(&self.engine, &id).await.unwrap();
            progress.moving_to.is_none()
        })
        .await;
    }

    /// Has it apply what waits in queues, as an instance with background work does, until the value is dropped.
    pub fn apply_queues(&self) -> AbortOnDropHandle<()> {
        repeat(JobKind::Queues, &self.engine)
    }

    /// Has it do all background work, until the value is dropped. It does not compare the clock, which is the test's own.
    pub fn work(&self) -> Vec<AbortOnDropHandle<()>> {
        let kinds = JobKind::of_every_instance()
            .chain(JobKind::in_background())
            .filter(|kind| *kind != JobKind::Clock);
        kinds.map(|kind| repeat(kind, &self.engine)).collect()
    }

    /// Has it follow the API keys, as every instance does, until the value is dropped.
    pub fn follow_api_keys(&self) -> AbortOnDropHandle<()> {
        repeat(JobKind::ApiKeys, &self.engine)
    }
}

/// Redis, a clock, and instances of the service.
pub struct World {
    pub instances: Vec<Instance>,
    pub clock: Clock,
    pub redis: RedisServers,
}

impl World {
    /// One instance, without API keys.
    pub async fn start(now: &str) -> Self {
        Self::with_instances(1, now).await
    }

    /// The keys of all boards, without the lists of boards, and without what proves deletions.
    pub async fn keys_of_boards(&self) -> Vec<String> {
        let mut keys = self.redis.leftover("st:{*").await;
        keys.retain(|key| !key.starts_with("st:{boards}"));
        keys
    }

    /// The keys that match a pattern and hold this text, in their names or in what they have.
    pub async fn keys_with(&self, pattern: &str, text: &str) -> Vec<String> {
        let mut found = Vec::new();
        for key in self.redis.keys(pattern).await {
            let kind = self.redis.run(&[b"TYPE", key.as_bytes()]).await.text();
            let (command, range) = match kind.as_str() {
                "zset" => ("ZRANGE", &["0", "-1"][..]),
                "stream" => ("XRANGE", &["-", "+"][..]),
                "hash" => ("HGETALL", &[][..]),
                "set" => ("SMEMBERS", &[][..]),
                _ => ("GET", &[][..]),
            };
            let mut words = vec![command.as_bytes(), key.as_bytes()];
            words.extend(range.iter().map(|word| word.as_bytes()));
            if key.contains(text) || self.redis.run(&words).await.holds(text) {
                found.push(key);
            }
        }
        found
    }

    pub async fn with_instances(count: usize, now: &str) -> Self {
        Self::with_keys(count, now, "").await
    }

    /// Instances whose webhooks may be on this machine.
    pub async fn sending(count: usize, now: &str, keys: &str) -> Self {
        let (redis, clock) = (RedisServers::start().await, clock_at(now));
        let mut instances = Vec::new();
        for _ in 0..count {
            instances.push(Instance::start_sending(&redis.url(), clock.clone(), keys).await);
        }
        Self {
            instances,
            clock,
            redis,
        }
    }

    pub async fn with_keys(count: usize, now: &str, keys: &str) -> Self {
        Self::with_clock(count, clock_at(now), keys).await
    }

    /// Instances whose arrivals all have the time that a test has set.
    pub async fn with_stopped_clock(count: usize, now: &str) -> Self {
        let clock = Clock::stopped_at(Timestamp::parse(now).unwrap());
        Self::with_clock(count, clock, "").await
    }

    async fn with_clock(count: usize, clock: Clock, keys: &str) -> Self {
        let redis = RedisServers::start().await;
        let mut instances = Vec::new();
        for _ in 0..count {
            instances.push(Instance::start(&redis.url(), clock.clone(), keys).await);
        }
        Self {
            instances,
            clock,
            redis,
        }
    }

    /// One instance, with HTTP that is set up like this.
    pub async fn with_options(now: &str, options: Options) -> Self {
        let (redis, clock) = (RedisServers::start().await, clock_at(now));
        let timeouts = PATIENT.try_into().unwrap();
        let store = Store::connect(&Address::parse(&redis.url()), timeouts).unwrap();
        let limits = Instance::limits();
        let instance = Instance::start_set_up(limits, 256, store, clock.clone(), options).await;
        Self {
            instances: vec![instance],
            clock,
            redis,
        }
    }

    /// Moves a board to so many shards.
    pub async fn move_to(&self, board: &str, shards: u16) {
        self.client().spread(board, shards).await;
        self.instances[0].end_move(board).await;
    }

    pub fn set_time(&self, now: &str) {
        self.clock.set(Timestamp::parse(now).unwrap());
    }

    /// What tells a board from others of its name, as it stands in the names of its keys.
    pub async fn generation(&self, board: &str) -> String {
        let head = format!("st:{{{board}}}");
        let version = self
            .redis
            .run(&[b"HGET", head.as_bytes(), b"version"])
            .await
            .text();
        version.split_once('-').unwrap().0.to_owned()
    }

    /// The client of the first instance.
    pub fn client(&self) -> &Client {
        &self.instances[0].client
    }

    /// The engine of the first instance.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.instances[0].engine
    }
}
