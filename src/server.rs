//! Putting the service together, running it, and ending it without losing what it has accepted.

use std::future::{Future, IntoFuture};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::serve::ListenerExt;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::config::{ConfigError, ServeArgs};
use crate::http::{App, Options, router};
use crate::service::Service;
use crate::store::embedded::{EmbeddedConfig, EmbeddedError, EmbeddedServer};
use crate::store::{Address, Store, StoreError};
use crate::worker::{self, Step};

/// How long requests that were accepted may take once the service is told to stop.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(25);
/// How long the start waits for Redis before it serves, not ready, without it.
const FIRST_CONTACT_TIME_MAX: Duration = Duration::from_secs(3);
/// The pause between two tries to reach Redis at the start.
const CONTACT_INTERVAL: Duration = Duration::from_millis(100);
/// How often histograms are folded.
const METRICS_INTERVAL: Duration = Duration::from_secs(5);
/// The upper bounds of the latency histograms, in seconds.
const LATENCY_BUCKETS: [f64; 12] = [
    0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1.0, 2.5, 10.0,
];

/// Why the service could not run.
#[derive(Debug, Error)]
pub enum ServerError {
    /// The settings don't go together.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The private server could not be started.
    #[error(transparent)]
    Embedded(#[from] EmbeddedError),
    /// The store can't be set up.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The address can't be served on.
    #[error("can't serve on {address}: {cause}")]
    Listen {
        /// The address.
        address: std::net::SocketAddr,
        /// Why.
        cause: std::io::Error,
    },
    /// Metrics can't be recorded.
    #[error("metrics can't be recorded: {0}")]
    Metrics(#[from] metrics_exporter_prometheus::BuildError),
}

/// Serves until `stop` ends, and then finishes what was accepted.
pub async fn serve(args: ServeArgs, stop: impl Future<Output = ()>) -> Result<(), ServerError> {
    args.check()?;
    let address = args.listen;
    let listening = TcpListener::bind(address).await;
    let listener = listening.map_err(|cause| ServerError::Listen { address, cause })?;
    let metrics = record_metrics()?;
    let mut stop = pin!(stop);
    let embedded = tokio::select! {
        started = start_embedded(&args) => started?,
        () = &mut stop => return Ok(()),
    };
    let served = serve_on(listener, &args, embedded.as_ref(), metrics, stop).await;
    if let Some(server) = embedded {
        server.stop().await;
    }
    tracing::info!("stopped");
    served
}

async fn serve_on(
    listener: TcpListener,
    args: &ServeArgs,
    embedded: Option<&EmbeddedServer>,
    metrics: PrometheusHandle,
    stop: impl Future<Output = ()>,
) -> Result<(), ServerError> {
    let address = match (embedded, args.redis.url()) {
        (Some(server), _) => Address::Socket(server.socket().to_owned()),
        (None, url) => Address::parse(url.ok_or(ConfigError::NoRedis)?),
    };
    let max_staleness = Duration::from_millis(args.max_staleness_ms.into());
    let store = Store::connect(&address)?
        .with_min_replicas(args.min_replicas)
        .with_max_staleness(max_staleness);
    let service = Service::new(store, Clock::system());
    first_contact(&service).await;
    let mut loops = Loops::default();
    loops.repeat(&Step::OF_EVERY_INSTANCE, &service);
    if args.background {
        loops.repeat(&Step::IN_BACKGROUND, &service);
    }
    loops
        .running
        .spawn(fold_metrics(metrics.clone(), loops.stop.clone()));

    let bound = listener.local_addr().unwrap_or(args.listen);
    tracing::info!("serving on http://{bound}; try it at http://{bound}/docs");
    let (stopping, closing) = (CancellationToken::new(), CancellationToken::new());
    let app = App {
        service,
        metrics: Some(metrics),
        is_open: args.api_keys.is_open(),
        shutdown: stopping.clone(),
    };
    let options = Options {
        keys: args.api_keys.clone(),
        // An empty setting is one empty origin.
        cors_origins: args
            .cors_origins
            .iter()
            .filter(|origin| !origin.is_empty())
            .cloned()
            .collect(),
    };
    let listener = listener.tap_io(|connection| {
        if let Err(error) = connection.set_nodelay(true) {
            tracing::debug!(%error, "nodelay could not be set");
        }
    });
    let serving = axum::serve(listener, router(app, &options))
        .with_graceful_shutdown(closing.clone().cancelled_owned())
        .into_future();
    let serving = tokio::spawn(serving);
    stop.await;
    tracing::info!("stopping: requests that were accepted are finished");
    stopping.cancel();
    if embedded.is_none() {
        tokio::time::sleep(Duration::from_secs(args.drain_seconds.into())).await;
    }
    closing.cancel();
    if tokio::time::timeout(DRAIN_TIME_MAX, serving).await.is_err() {
        tracing::warn!("some requests were not finished in time");
    }
    loops.end().await;
    Ok(())
}

/// Does the background work until `stop` ends.
pub async fn work(args: ServeArgs, stop: impl Future<Output = ()>) -> Result<(), ServerError> {
    let url = args.redis.url().ok_or(ConfigError::NoRedis)?;
    let store = Store::connect(&Address::parse(url))?.with_min_replicas(args.min_replicas);
    let service = Service::new(store, Clock::system());
    first_contact(&service).await;
    let mut loops = Loops::default();
    loops.repeat(&Step::OF_EVERY_INSTANCE, &service);
    loops.repeat(&Step::IN_BACKGROUND, &service);
    tracing::info!("doing the background work");
    stop.await;
    loops.end().await;
    Ok(())
}

/// Background loops that are told to stop together.
#[derive(Default)]
struct Loops {
    running: JoinSet<()>,
    stop: CancellationToken,
}

impl Loops {
    fn repeat(&mut self, steps: &[Step], service: &Arc<Service>) {
        for step in steps {
            let stop = self.stop.clone();
            self.running
                .spawn(worker::repeat(*step, Arc::clone(service), stop));
        }
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
    let config = EmbeddedConfig {
        data_dir: args.redis.data_dir.clone(),
        server: args.redis.redis_server.clone(),
    };
    let server = EmbeddedServer::start(config).await?;
    tracing::info!(data_dir = %args.redis.data_dir.display(), "a private redis server is running");
    Ok(Some(server))
}

/// Loads the scripts, the boards and the time, if Redis can be reached at once.
async fn first_contact(service: &Service) {
    let contact = async {
        while let Err(error) = service.store.prepare().await {
            tracing::debug!(%error, "redis can't be reached yet");
            tokio::time::sleep(CONTACT_INTERVAL).await;
        }
        Step::Clock.run(service).await?;
        Step::Boards.run(service).await
    };
    match tokio::time::timeout(FIRST_CONTACT_TIME_MAX, contact).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(%error, "redis can't be reached; trying on"),
        Err(_) => tracing::warn!("redis can't be reached; trying on"),
    }
}

fn record_metrics() -> Result<PrometheusHandle, ServerError> {
    Ok(PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".into()), &LATENCY_BUCKETS)?
        .install_recorder()?)
}

async fn fold_metrics(metrics: PrometheusHandle, stop: CancellationToken) {
    while stop
        .run_until_cancelled(tokio::time::sleep(METRICS_INTERVAL))
        .await
        .is_some()
    {
        metrics.run_upkeep();
    }
}
