//! Runs the service, and stops it without losing what it has accepted.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use metrics::counter;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::api::router::{Options, reserve, router};
use crate::config::{ConfigError, ServeArgs};
use crate::core::Engine;
use crate::core::hide::store::erasures;
use crate::core::jobs::JobKind;
use crate::descriptors;
use crate::domain::clock::Clock;
use crate::domain::instance::Part;
use crate::domain::profile::Rules;
use crate::http::App;
use crate::http::connection::Times;
use crate::http::listener::{self, Limits, Routers};
use crate::http::memory::Memory;
use crate::http::proxies::TrustedProxies;
use crate::kafka::settings::Settings;
use crate::live::{StreamLimits, Streams};
use crate::queue;
use crate::redis::embedded::{EmbeddedError, EmbeddedServer, ServerState};
use crate::redis::{Address, Store, StoreError};
use crate::runtime::supervise::restarted;
use crate::runtime::throttle;
use crate::setup::Setup;
use crate::webhooks::sender::Sender;
use crate::worker;

/// How long accepted requests may take after the service was asked to stop.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(25);
/// How long the start waits for Redis. After that the service runs without it, but is not ready.
const FIRST_CONTACT_TIME_MAX: Duration = Duration::from_secs(3);
/// The pause between two attempts to reach Redis at the start.
const CONTACT_INTERVAL: Duration = Duration::from_millis(100);
/// How often a lasting outage of Redis is logged.
const OUTAGE_INTERVAL: Duration = Duration::from_mins(1);
/// How often histograms are folded.
const METRICS_INTERVAL: Duration = Duration::from_secs(5);
/// The upper bounds of the latency histograms, in seconds.
const LATENCY_BUCKETS: [f64; 12] = [
    0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1.0, 2.5, 10.0,
];

/// Why the service could not run.
#[derive(Debug, Error)]
pub enum ServerError {
    /// The settings can't be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The private server could not be started.
    #[error(transparent)]
    Embedded(#[from] EmbeddedError),
    /// The store can't be set up.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Redis can't be used as it is set up.
    #[error("Redis at {address} can't be used: {reason}{setting}")]
    Redis {
        address: String,
        reason: String,
        /// The setting with its address, in parentheses.
        setting: &'static str,
    },
    /// The address can't be bound.
    #[error("can't serve on {address}: {cause}")]
    Listen {
        address: std::net::SocketAddr,
        cause: std::io::Error,
    },
    /// Metrics can't be recorded.
    #[error("metrics can't be recorded: {0}")]
    Metrics(#[from] metrics_exporter_prometheus::BuildError),
    /// A task that the service needs has ended, and can't be restarted.
    #[error("{0} has ended: a bug in this program")]
    Ended(&'static str),
}

/// Serves until `stop` ends, and then finishes what was accepted.
pub async fn serve(args: ServeArgs, stop: impl Future<Output = ()>) -> Result<(), ServerError> {
    args.check()?;
    let limits = limits(&args);
    let listener = bind(args.listen).await?;
    let metrics = record_metrics()?;
    let mut stop = pin!(stop);
    let embedded = tokio::select! {
        started = start_embedded(&args) => started?,
        () = &mut stop => return Ok(()),
    };
    let served = serve_on(listener, limits, &args, embedded.as_ref(), metrics, stop).await;
    if let Some(server) = embedded {
        server.stop().await;
    }
    if served.is_ok() {
        tracing::info!("stopped");
    }
    served
}

/// Raises the limit of file descriptors, and returns how many connections that allows.
fn limits(args: &ServeArgs) -> Limits {
    Limits {
        connections: descriptors::connections_max(args.max_connections, descriptors::raise_limit()),
        times: Times::default(),
    }
}

async fn bind(address: std::net::SocketAddr) -> Result<TcpListener, ServerError> {
    let listening = TcpListener::bind(address).await;
    listening.map_err(|cause| ServerError::Listen { address, cause })
}

async fn serve_on(
    listener: TcpListener,
    limits: Limits,
    args: &ServeArgs,
    embedded: Option<&EmbeddedServer>,
    metrics: PrometheusHandle,
    stop: impl Future<Output = ()>,
) -> Result<(), ServerError> {
    let address = address_of(args, embedded)?;
    let max_staleness = Duration::from_millis(args.max_staleness_ms.into());
    let store = connect(&address, args)?.with_max_staleness(max_staleness);
    let part = match (args.background, args.apply_queues) {
        (true, true) => Part::Both,
        (true, false) => Part::WithoutQueues,
        (false, _) => Part::Serving,
    };
    let (engine, mut loops) = begin(store, args, part).await?;
    if args.background {
        loops.work(args, &engine);
    }
    loops.fold(&metrics);

    let options = args.options()?;
    let bound = listener.local_addr().unwrap_or(args.listen);
    announce(bound, &options);
    let (stopping, closing) = (CancellationToken::new(), CancellationToken::new());
    let app = Arc::new(App {
        engine: Arc::clone(&engine),
        metrics: Some(metrics),
        is_open: options.is_open(),
        profile_rules: options.profile_rules.clone(),
        memory: Memory::new(usize::from(args.request_memory_mb) << 20),
        shutdown: stopping.clone(),
    });
    let routers = Routers {
        reserve: reserve(Arc::clone(&app)),
        all: router(app, Streams::new(stream_limits(args, limits)), &options),
    };
    let limits = (limits, options.proxies);
    let serving = listener::serve(listener, routers, limits, closing.clone());
    let mut serving = tokio::spawn(serving);
    let ended = tokio::select! {
        () = stop => None,
        () = watcher_ended(embedded) => Some("the watcher of the private Redis server"),
        _ = &mut serving => Some("the HTTP server"),
    };
    if let Some(task) = ended {
        tracing::error!(task, "a task that can't be restarted has ended");
    }
    tracing::info!("stopping; accepted requests are finished first");
    stopping.cancel();
    if embedded.is_none() {
        tokio::time::sleep(Duration::from_secs(args.drain_seconds.into())).await;
    }
    closing.cancel();
    drain(serving).await;
    loops.end().await;
    engine.withdraw().await;
    ended.map_or(Ok(()), |task| Err(ServerError::Ended(task)))
}

/// The address of the Redis server to use: that of the private one, if it runs.
fn address_of(args: &ServeArgs, embedded: Option<&EmbeddedServer>) -> Result<Address, ConfigError> {
    if let Some(server) = embedded {
        return Ok(Address::Socket(server.socket().to_owned()));
    }
    let url = args.redis.url().ok_or(ConfigError::NoRedis)?;
    Ok(Address::parse(url))
}

/// The setting with the address of Redis, for messages; the private server has none.
fn setting_of(args: &ServeArgs) -> &'static str {
    match args.redis.url() {
        Some(_) => " (STANDINGS_REDIS_URL)",
        None => "",
    }
}

fn announce(bound: std::net::SocketAddr, options: &Options) {
    if options.is_open() {
        tracing::warn!(
            "the service is open: STANDINGS_API_KEYS is not set, so anyone who can reach http://{bound} can do everything"
        );
    } else if options.keys.is_empty() {
        tracing::warn!(
            "nobody can define a board: there are keys for players' tokens, but no API keys. Set STANDINGS_API_KEYS=admin:SECRET"
        );
    }
    tracing::info!("serving on http://{bound}; try it at http://{bound}/docs");
}

fn stream_limits(args: &ServeArgs, limits: Limits) -> StreamLimits {
    let count = |count: u32| usize::try_from(count).unwrap_or(usize::MAX);
    StreamLimits {
        all: descriptors::streams_max(args.max_streams, limits.connections),
        per_key: count(args.max_streams_per_key),
        per_address: count(args.max_streams_per_address),
    }
}

/// Waits for a server that was asked to stop, up to [`DRAIN_TIME_MAX`].
async fn drain(serving: JoinHandle<()>) {
    let is_over = async {
        if !serving.is_finished() {
            // How it ended no longer matters.
            let _ = serving.await;
        }
    };
    if tokio::time::timeout(DRAIN_TIME_MAX, is_over).await.is_err() {
        tracing::warn!("some requests did not finish in time");
    }
}

/// Returns when nothing would restart the private server any more.
async fn watcher_ended(server: Option<&EmbeddedServer>) {
    let Some(server) = server else {
        return std::future::pending().await;
    };
    let mut state = server.watch_state();
    // A closed channel means the same.
    let _ = state.wait_for(|state| *state == ServerState::Stopped).await;
}

fn connect(address: &Address, args: &ServeArgs) -> Result<Store, StoreError> {
    let store = Store::connect(address, args.timeout_factor)?.with_min_replicas(args.min_replicas);
    Ok(store.with_audit_retention(args.audit_retention()))
}

/// Creates the service, with the topic that is the queue, if there is one, and starts what every instance does.
async fn begin(
    store: Store,
    args: &ServeArgs,
    part: Part,
) -> Result<(Arc<Engine>, Loops), ServerError> {
    let log = args.kafka()?.map(Settings::connect).transpose();
    let setup = Setup {
        log: log.map_err(ConfigError::Kafka)?,
        part,
        sender: Sender::new(args.webhook_allow_private),
        queue_bounds: args.queue_bounds(),
        name_search: args.name_search(),
        snapshot_bounds: args.snapshot_bounds(),
    };
    let engine = setup.engine(store, Clock::system());
    first_contact(&engine, setting_of(args)).await?;
    let mut loops = Loops::begin();
    loops.watch(&engine, setting_of(args));
    loops.repeat(JobKind::of_every_instance(), &engine);
    Ok((engine, loops))
}

/// Does the background work until `stop` ends.
pub async fn work(args: ServeArgs, stop: impl Future<Output = ()>) -> Result<(), ServerError> {
    let url = args.redis.url().ok_or(ConfigError::NoRedis)?;
    let watched = match args.worker_listen {
        Some(address) => Some((bind(address).await?, record_metrics()?)),
        None => None,
    };
    let store = connect(&Address::parse(url), &args)?;
    let (engine, mut loops) = begin(store, &args, Part::Working).await?;
    loops.repeat(JobKind::in_background(), &engine);
    loops.consume(&engine);
    if let Some((listener, metrics)) = watched {
        loops.fold(&metrics);
        tokio::spawn(tell_watchers(listener, &args, &engine, metrics));
    }
    tracing::info!("running the background jobs");
    stop.await;
    loops.end().await;
    engine.withdraw().await;
    Ok(())
}

/// Serves the monitoring routes of a worker, and nothing else.
fn tell_watchers(
    listener: TcpListener,
    args: &ServeArgs,
    engine: &Arc<Engine>,
    metrics: PrometheusHandle,
) -> impl Future<Output = ()> + Send + use<> {
    let limits = limits(args);
    let app = Arc::new(App {
        engine: Arc::clone(engine),
        metrics: Some(metrics),
        is_open: false,
        profile_rules: Rules::default(),
        memory: Memory::new(usize::from(args.request_memory_mb) << 20),
        shutdown: CancellationToken::new(),
    });
    let routers = Routers {
        reserve: reserve(Arc::clone(&app)),
        all: reserve(app),
    };
    if let Ok(bound) = listener.local_addr() {
        tracing::info!("serving on http://{bound}; only /livez, /readyz and /metrics");
    }
    let limits = (limits, TrustedProxies::default());
    listener::serve(listener, routers, limits, CancellationToken::new())
}

/// Background loops that are stopped together.
#[derive(Default)]
struct Loops {
    running: JoinSet<()>,
    stop: CancellationToken,
}

impl Loops {
    fn begin() -> Self {
        let mut loops = Self::default();
        loops.spawn("throttle", throttle::tell_of_the_rest);
        loops
    }

    fn spawn<F: Future<Output = ()> + Send + 'static>(
        &mut self,
        name: &'static str,
        mut task: impl FnMut(CancellationToken) -> F + Send + 'static,
    ) {
        let stop = self.stop.clone();
        let task = restarted(name, move || task(stop.clone()));
        self.running.spawn(task);
    }

    /// Reports in the log when a server of Redis can't be reached.
    fn watch(&mut self, engine: &Arc<Engine>, setting: &'static str) {
        let engine = Arc::clone(engine);
        self.spawn("outages", move |stop| {
            report_outages(Arc::clone(&engine), setting, stop)
        });
    }

    fn repeat(&mut self, jobs: impl Iterator<Item = JobKind>, engine: &Arc<Engine>) {
        for job in jobs {
            let engine = Arc::clone(engine);
            self.spawn(job.name(), move |stop| {
                worker::repeat(job, Arc::clone(&engine), stop)
            });
        }
    }

    /// Does the background work that the settings leave to an instance that serves.
    fn work(&mut self, args: &ServeArgs, engine: &Arc<Engine>) {
        let jobs =
            JobKind::in_background().filter(|job| *job != JobKind::Queues || args.apply_queues);
        self.repeat(jobs, engine);
        if args.apply_queues {
            self.consume(engine);
        }
    }

    /// Consumes a topic of Kafka, if one is the queue.
    fn consume(&mut self, engine: &Arc<Engine>) {
        if let Some(log) = queue::of(engine).log.clone() {
            let engine = Arc::clone(engine);
            self.spawn("kafka", move |stop| {
                Arc::clone(&log).consume(Arc::clone(&engine), stop)
            });
        }
    }

    fn fold(&mut self, metrics: &PrometheusHandle) {
        let metrics = metrics.clone();
        self.spawn("metrics", move |stop| fold_metrics(metrics.clone(), stop));
    }

    async fn end(mut self) {
        self.stop.cancel();
        while self.running.join_next().await.is_some() {}
    }
}

async fn start_embedded(args: &ServeArgs) -> Result<Option<EmbeddedServer>, ServerError> {
    if args.redis.url().is_some() {
        return Ok(None);
    }
    let server = EmbeddedServer::start(args.redis.embedded()).await?;
    tracing::info!(data_dir = %args.redis.data_dir.display(), "a private Redis server is running");
    Ok(Some(server))
}

/// Loads the scripts, the boards and the time, and creates what erasures need, if Redis can be reached at once. Fails if
/// waiting would not help.
async fn first_contact(engine: &Engine, setting: &'static str) -> Result<(), ServerError> {
    let unusable = |error| match error {
        StoreError::Unusable(reason) => ServerError::Redis {
            address: engine.store.address(),
            reason,
            setting,
        },
        error => error.into(),
    };
    let mut last = None;
    let contact = async {
        while let Err(error) = engine.store.prepare().await {
            if matches!(error, StoreError::Unusable(_)) {
                return Err(error);
            }
            last = Some(error);
            tokio::time::sleep(CONTACT_INTERVAL).await;
        }
        for job in JobKind::of_every_instance() {
            if let Err(error) = worker::run(job, engine).await {
                let job = job.name();
                tracing::warn!(%error, job, "a job failed at the start; it will be tried again");
            }
        }
        if let Err(error) = erasures::create_hash_key(&engine.store).await {
            tracing::warn!(%error, "members can't be erased yet");
        }
        Ok(())
    };
    if let Ok(prepared) = tokio::time::timeout(FIRST_CONTACT_TIME_MAX, contact).await {
        return prepared.map_err(unusable);
    }
    engine.store.check_protocol().await.map_err(unusable)?;
    // If there is no connection, `report_outages` says so.
    if let (Some(error), None) = (last, engine.store.outage()) {
        let address = engine.store.address();
        tracing::warn!("Redis at {address} can't be used yet; trying again{setting}: {error}");
    }
    Ok(())
}

/// Logs when a server of Redis can't be reached: one line when that begins, one a minute while it lasts, and one at its end.
/// Failures that only follow from it are not logged.
async fn report_outages(engine: Arc<Engine>, setting: &'static str, stop: CancellationToken) {
    let mut reported: Option<Instant> = None;
    loop {
        match engine.store.outage() {
            Some(outage) if reported.is_none_or(|at| at.elapsed() >= OUTAGE_INTERVAL) => {
                tracing::warn!("{outage}; trying again{setting}");
                reported = Some(Instant::now());
            }
            None if reported.take().is_some() => {
                tracing::info!("Redis at {} can be reached again", engine.store.address());
            }
            _ => {}
        }
        let pause = tokio::time::sleep(CONTACT_INTERVAL);
        if stop.run_until_cancelled(pause).await.is_none() {
            return;
        }
    }
}

fn record_metrics() -> Result<PrometheusHandle, ServerError> {
    let metrics = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".into()), &LATENCY_BUCKETS)?
        .install_recorder()?;
    counter!("standings_log_lines_lost_total").increment(0);
    counter!("standings_audit_outcomes_lost_total").increment(0);
    Ok(metrics)
}

async fn fold_metrics(metrics: PrometheusHandle, stop: CancellationToken) {
    let pause = || tokio::time::sleep(METRICS_INTERVAL);
    while stop.run_until_cancelled(pause()).await.is_some() {
        metrics.run_upkeep();
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::config::Cli;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_service_ends_if_nothing_would_restart_its_private_server() {
        let directory = tempfile::TempDir::new().unwrap();
        let data = directory.path().to_str().unwrap();
        let args = Cli::parse_from(["standings", "--listen", "127.0.0.1:0", "--data-dir", data]);
        let server = start_embedded(&args.serve).await.unwrap().unwrap();
        let listener = TcpListener::bind(args.serve.listen).await.unwrap();
        let metrics = PrometheusBuilder::new().build_recorder().handle();
        let never = std::future::pending();
        let limits = Limits {
            connections: 10,
            times: Times::default(),
        };
        let serving = serve_on(listener, limits, &args.serve, Some(&server), metrics, never);
        let ended = async {
            server.stop().await;
            std::future::pending::<()>().await;
        };
        tokio::select! {
            outcome = serving => assert!(matches!(outcome, Err(ServerError::Ended(_))), "{outcome:?}"),
            () = ended => {}
        }
    }
}
