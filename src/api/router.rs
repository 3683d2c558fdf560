//! All routes, those of the table and those of pages, and the layers around them.

use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::http::StatusCode;
use axum::middleware::{from_fn, map_response};
use axum::routing::get;
use tower::ServiceBuilder;

use super::docs;
use super::table::{self, Before, Route};
use crate::access::players::PlayerKeys;
use crate::access::{Admitted, ApiKeys, Gate};
use crate::console::{self, Console};
use crate::domain::profile::Rules;
use crate::embed::{self, EmbedOrigins};
use crate::http::compression::Compressed;
use crate::http::cors::CorsOrigins;
use crate::http::observe::Observed;
use crate::http::problem::{OVERLOADED, Problem};
use crate::http::proxies::TrustedProxies;
use crate::http::relative::relative;
use crate::http::{App, caching};
use crate::live::Streams;
use crate::operations::health;

/// The settings of the outer layers.
#[derive(Clone, Debug, Default)]
pub struct Options {
    pub keys: ApiKeys,
    /// The origins that browsers may call from.
    pub cors_origins: CorsOrigins,
    /// The origins whose pages may show public boards in a frame.
    pub embed_origins: EmbedOrigins,
    /// The keys of players' tokens.
    pub players: PlayerKeys,
    /// The proxies trusted to report clients' addresses.
    pub proxies: TrustedProxies,
    pub profile_rules: Rules,
    /// Whether the service only serves its own machine: it listens on a loopback address.
    pub is_local: bool,
}

impl Options {
    /// Whether there are no keys, so that every caller may do everything.
    pub fn is_open(&self) -> bool {
        self.keys.is_empty() && self.players.is_empty()
    }

    fn admitted(&self) -> Admitted {
        Admitted {
            keys: self.keys.clone(),
            players: self.players.clone(),
            cors_origins: self.cors_origins.clone(),
            proxies: self.proxies.clone(),
            is_local: self.is_local,
        }
    }
}

/// The methods of the table for a path.
fn methods_of(path: &str) -> Vec<String> {
    static ROUTES: LazyLock<Vec<Route>> = LazyLock::new(table::routes);
    let of_path = ROUTES.iter().filter(|route| route.path == path);
    of_path.map(|route| route.method.to_string()).collect()
}

/// The routes on connections beyond the bound: monitoring is answered as usual, everything else is asked to try again later.
pub fn reserve(app: Arc<App>) -> Router {
    let timeouts = app.engine.store.timeouts;
    let refuse = || Problem::new(OVERLOADED, "there are too many connections; try again");
    Router::new()
        .route("/livez", get(health::livez))
        .route("/readyz", get(health::readyz))
        .route("/metrics", get(health::metrics))
        .route_layer(map_response(caching::unkept))
        .fallback(async move || refuse())
        .with_state(app)
        .layer(
            ServiceBuilder::new().layer_fn(move |inner| Observed::new(inner, timeouts, methods_of)),
        )
}

/// The whole service over HTTP.
pub fn router(app: Arc<App>, streams: Streams, options: &Options) -> Router {
    let gate = Arc::new(Gate::new(Arc::clone(&app), options.admitted()));
    let before = Before {
        gate: Arc::clone(&gate),
        streams: Arc::new(streams),
    };
    let table = table::router(&before);
    let timeouts = app.engine.store.timeouts;
    let called = table.clone().with_state(Arc::clone(&app));
    let embed = embed::router(Arc::clone(&app), called.clone(), &options.embed_origins);
    let console = Console::new(Arc::clone(&app), gate, called, options.is_local);
    let routed = table
        .merge(docs::router().layer(from_fn(relative)))
        .route("/openapi.json", get(docs::answer_document))
        .fallback(async || StatusCode::NOT_FOUND)
        .with_state(app);
    let routed = match options.cors_origins.layer() {
        Some(cors) => routed.layer(cors),
        None => routed,
    };
    let pages = embed.merge(console::router(console));
    // Pages of other origins must not call the console.
    routed.merge(pages.layer(from_fn(relative))).layer(
        ServiceBuilder::new()
            .layer_fn(Compressed::new)
            .layer_fn(move |inner| Observed::new(inner, timeouts, methods_of)),
    )
}
