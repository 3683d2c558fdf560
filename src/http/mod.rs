//! HTTP: one table of routes, from which the `OpenAPI` document comes too, and the layers around it.

pub mod api_keys;
pub mod audit;
pub mod auth;
pub mod boards;
mod caching;
pub mod closings;
mod compression;
pub mod connection;
mod console;
pub mod cors;
pub mod dead_letters;
mod docs;
pub mod document;
pub mod embed;
pub mod erasures;
pub mod event_status;
pub mod events;
pub mod export;
pub mod extract;
pub mod freshness;
pub mod health;
pub mod initial;
pub mod leagues;
pub mod listener;
mod local;
pub mod memory;
mod meters;
pub mod moderation;
pub mod observe;
pub mod players;
pub mod problem;
pub mod profiles;
pub mod proxies;
pub mod quotas;
pub mod ratelimit;
pub mod rendered;
pub mod results;
pub mod rewards;
pub mod standings;
pub mod streams;
pub mod summary;
pub mod supply;
pub mod table;
pub mod tasks;
mod unique_headers;
pub mod upkeep;
pub mod webhooks;

use std::sync::Arc;

use axum::Router;
use axum::http::StatusCode;
use axum::middleware::map_response;
use axum::routing::get;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio_util::sync::CancellationToken;
use tower::ServiceBuilder;
use utoipa_axum::router::OpenApiRouter;

use self::auth::{ApiKeys, Gate};
use self::compression::Compressed;
use self::console::Console;
use self::cors::CorsOrigins;
use self::embed::EmbedOrigins;
use self::memory::Memory;
use self::observe::Observed;
use self::players::PlayerKeys;
use self::problem::{OVERLOADED, Problem};
use self::proxies::TrustedProxies;
use self::streams::Streams;
use crate::domain::profile::Rules;
use crate::service::Service;

pub use self::document::{document, text as document_text};

/// What handlers work with.
pub struct App {
    /// The use cases.
    pub service: Arc<Service>,
    /// What `/metrics` shows; `None` where nobody records.
    pub metrics: Option<PrometheusHandle>,
    /// Whether no API keys are configured.
    pub is_open: bool,
    /// What the operator says of profiles.
    pub profile_rules: Rules,
    /// What requests may hold in memory.
    pub memory: Memory,
    /// Who watches what.
    pub streams: Streams,
    /// Cancelled when the service begins to shut down.
    pub shutdown: CancellationToken,
}

/// How the outer layers are set.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The keys of the configuration.
    pub keys: ApiKeys,
    /// The origins that browsers may call from.
    pub cors_origins: CorsOrigins,
    /// The origins whose pages may show public boards in a frame.
    pub embed_origins: EmbedOrigins,
    /// The keys of players' tokens.
    pub players: PlayerKeys,
    /// The proxies that tell the addresses of clients.
    pub proxies: TrustedProxies,
    /// What the operator says of profiles.
    pub profile_rules: Rules,
    /// Whether the service is for its own machine: on a loopback address.
    pub is_local: bool,
}

impl Options {
    /// Whether there are no keys, so that everybody may do everything.
    pub fn is_open(&self) -> bool {
        self.keys.is_empty() && self.players.is_empty()
    }
}

/// What is answered on connections beyond those that the service may have: whoever watches over it hears the truth, and
/// everybody else is to come again.
pub fn reserve(app: Arc<App>) -> Router {
    let timeouts = app.service.engine.store.timeouts;
    let refuse = || Problem::new(OVERLOADED, "there are too many connections; try again");
    Router::new()
        .route("/livez", get(health::livez))
        .route("/readyz", get(health::readyz))
        .route("/metrics", get(health::metrics))
        .route_layer(map_response(caching::unkept))
        .fallback(async move || refuse())
        .with_state(app)
        .layer(ServiceBuilder::new().layer_fn(move |inner| Observed::new(inner, timeouts)))
}

/// The whole service over HTTP.
pub fn router(app: Arc<App>, options: &Options) -> Router {
    let gate = Arc::new(Gate::new(Arc::clone(&app), options.clone()));
    let (table, _) = table::router(OpenApiRouter::new(), Some(&gate)).split_for_parts();
    let timeouts = app.service.engine.store.timeouts;
    let called = table.clone().with_state(Arc::clone(&app));
    let embed = embed::router(Arc::clone(&app), called.clone(), &options.embed_origins);
    let console = Console::new(Arc::clone(&app), gate, called, options.is_local);
    let routed = table
        .merge(docs::router())
        .route("/openapi.json", get(docs::answer_document))
        .route("/problems", get(problem::list))
        .route("/problems/{name}", get(problem::explain))
        .fallback(async || StatusCode::NOT_FOUND)
        .with_state(app);
    let routed = match options.cors_origins.layer() {
        Some(cors) => routed.layer(cors),
        None => routed,
    };
    // Pages of other origins have nothing to do with those of the console.
    routed.merge(embed).merge(console::router(console)).layer(
        ServiceBuilder::new()
            .layer_fn(Compressed::new)
            .layer_fn(move |inner| Observed::new(inner, timeouts)),
    )
}
