//! HTTP: one table of routes, from which the `OpenAPI` document comes too, and the layers around it.

pub mod api_keys;
pub mod auth;
pub mod boards;
mod caching;
pub mod connection;
pub mod cors;
pub mod events;
pub mod extract;
pub mod freshness;
pub mod health;
pub mod initial;
pub mod listener;
mod local;
pub mod memory;
pub mod observe;
pub mod players;
pub mod problem;
pub mod proxies;
pub mod quotas;
pub mod ratelimit;
pub mod rendered;
pub mod shards;
pub mod standings;
pub mod summary;
pub mod table;

use std::sync::Arc;

use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use metrics_exporter_prometheus::PrometheusHandle;
use tokio_util::sync::CancellationToken;
use tower::ServiceBuilder;
use tower_http::compression::CompressionLayer;
use utoipa::openapi::schema::{ObjectBuilder, OneOfBuilder, Schema, Type};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{ContentBuilder, OpenApi, Ref, RefOr, ResponseBuilder};
use utoipa::{Modify, OpenApi as _};
use utoipa_axum::router::OpenApiRouter;
use utoipa_swagger_ui::{Config, SwaggerUi};

use self::auth::{ApiKeys, Gate};
use self::cors::CorsOrigins;
use self::memory::Memory;
use self::observe::Observed;
use self::players::PlayerKeys;
use self::problem::{OVERLOADED, Problem};
use self::proxies::TrustedProxies;
use self::standings::queries::QuerySchemas;
use crate::service::Service;

/// What handlers work with.
pub struct App {
    /// The use cases.
    pub service: Arc<Service>,
    /// What `/metrics` shows; `None` where nobody records.
    pub metrics: Option<PrometheusHandle>,
    /// Whether no API keys are configured.
    pub is_open: bool,
    /// What requests may hold in memory.
    pub memory: Memory,
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
    /// The keys of players' tokens.
    pub players: PlayerKeys,
    /// The proxies that tell the addresses of clients.
    pub proxies: TrustedProxies,
    /// Whether the service is for its own machine: on a loopback address.
    pub is_local: bool,
}

impl Options {
    /// Whether there are no keys, so that everybody may do everything.
    pub fn is_open(&self) -> bool {
        self.keys.is_empty() && self.players.is_empty()
    }
}

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "standings",
        description = "Exact leaderboards and vote rankings over HTTP, on Redis.\n\nA **board** is a definition. A **standing** is one ranked list of a board: one *window* (`day`, `last-7-days`, …) at one *key* (`2026-11-21`). An **event** adds to, or sets, one member's score. A standing is a pure function of the set of accepted events: order, retries and batches never show.\n\nThe examples work as they stand, from the top to the bottom; the last one deletes the board again.\n\nEvery error is `application/problem+json` with a `type` that can be opened. Beside those named at the routes: 400 `malformed-json`, `invalid-parameter`; 401 `unauthenticated` and 403 `forbidden` where API keys are configured; 405; 500 `internal`; 503 `store-unavailable`, `overloaded` and, where Redis refuses to write, `store-full`, with `Retry-After`.",
        license(name = "Apache-2.0", identifier = "Apache-2.0"),
    ),
    tags(
        (name = "define", description = "First a board is defined"),
        (name = "events", description = "Scores come in"),
        (name = "standings", description = "Ranks go out"),
        (name = "keys", description = "API keys are made, and get new secrets"),
        (name = "operations", description = "Is it there, can it work, what has it done"),
        (name = "boards", description = "The boards and API keys that are there: list, read, delete"),
    ),
    security((), ("api_key" = [])),
    modifiers(&ApiKeyScheme),
)]
struct Document;

struct ApiKeyScheme;

impl Modify for ApiKeyScheme {
    fn modify(&self, document: &mut OpenApi) {
        let scheme = HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .description(Some(
                "An API key, where any are configured, or the token of a player. Each operation names the scope that it needs; the scope `admin` stands for all.",
            ));
        if let Some(components) = document.components.as_mut() {
            components.add_security_scheme("api_key", SecurityScheme::Http(scheme.build()));
        }
    }
}

/// A board is shown as its definition with its id. The definition allows no other field, so that the two
/// can't be composed in the document: the schema is put together here. So is that of a patch, all of whose fields may be
/// left out or null.
struct BoardSchemas;

impl Modify for BoardSchemas {
    fn modify(&self, document: &mut OpenApi) {
        let Some(components) = document.components.as_mut() else {
            return;
        };
        let Some(RefOr::T(Schema::Object(definition))) = components.schemas.get("Definition")
        else {
            return;
        };
        let mut board = definition.clone();
        let id = ObjectBuilder::new()
            .schema_type(Type::String)
            .description(Some("Its id."))
            .pattern(Some("^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"));
        board.description = Some("A board: its id and its definition, with all defaults.".into());
        board.required = board
            .properties
            .keys()
            .cloned()
            .chain(["board".into()])
            .collect();
        board.properties.insert("board".into(), id.into());
        let mut patch = definition.clone();
        patch.description = Some("What changes in a definition: a merge patch (RFC 7396).".into());
        patch.required.clear();
        for property in patch.properties.values_mut() {
            let null = ObjectBuilder::new().schema_type(Type::Null);
            *property = OneOfBuilder::new().item(property.clone()).item(null).into();
        }
        components.schemas.insert("Board".into(), board.into());
        components
            .schemas
            .insert("DefinitionPatch".into(), patch.into());
    }
}

/// The problems that every operation can answer with.
struct CommonProblems;

impl Modify for CommonProblems {
    fn modify(&self, document: &mut OpenApi) {
        const COMMON: [(&str, &str); 6] = [
            ("400", "`malformed-json`, `invalid-parameter`"),
            ("401", "`unauthenticated`"),
            ("403", "`forbidden`"),
            ("408", "`request-timeout`"),
            ("500", "`internal`"),
            (
                "503",
                "`store-unavailable`, `store-full`, `overloaded`, with `Retry-After`",
            ),
        ];
        for (path, item) in &mut document.paths.paths {
            if !path.starts_with("/v1") {
                continue;
            }
            for (_, operation) in table::operations(item) {
                for (status, description) in COMMON {
                    let problem = ContentBuilder::new()
                        .schema(Some(Ref::from_schema_name("Problem")))
                        .build();
                    let response = ResponseBuilder::new()
                        .description(description)
                        .content(observe::PROBLEM_JSON, problem)
                        .build();
                    let responses = &mut operation.responses.responses;
                    responses
                        .entry(status.to_owned())
                        .or_insert_with(|| response.into());
                }
            }
        }
    }
}

/// The OpenAPI document.
pub fn document() -> OpenApi {
    let described = table::router(OpenApiRouter::with_openapi(Document::openapi()), None);
    let mut document = described.into_openapi();
    ApiKeyScheme.modify(&mut document);
    BoardSchemas.modify(&mut document);
    QuerySchemas.modify(&mut document);
    CommonProblems.modify(&mut document);
    document
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
        .fallback(async move || refuse())
        .with_state(app)
        .layer(ServiceBuilder::new().layer_fn(move |inner| Observed::new(inner, timeouts)))
}

/// The whole service over HTTP.
pub fn router(app: Arc<App>, options: &Options) -> Router {
    let gate = Arc::new(Gate::new(Arc::clone(&app), options.clone()));
    let (table, _) = table::router(OpenApiRouter::new(), Some(&gate)).split_for_parts();
    let document = Arc::new(document());
    let timeouts = app.service.engine.store.timeouts;
    let swagger = SwaggerUi::new("/docs").config(Config::from("/openapi.json"));
    let routed = table
        .merge(swagger)
        .route(
            "/openapi.json",
            get(async move || Json(OpenApi::clone(&document))),
        )
        .route("/problems/{name}", get(problem::explain))
        .fallback(async || StatusCode::NOT_FOUND)
        .with_state(app);
    let routed = match options.cors_origins.layer() {
        Some(cors) => routed.layer(cors),
        None => routed,
    };
    routed.layer(
        ServiceBuilder::new()
            .layer(CompressionLayer::new())
            .layer_fn(move |inner| Observed::new(inner, timeouts)),
    )
}
