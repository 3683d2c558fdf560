//! HTTP: one table of routes, from which the `OpenAPI` document comes too, and the layers around it (`router.rs`).

pub mod api_keys;
pub mod audit;
pub mod audited;
pub mod auth;
mod batches;
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
mod files;
pub mod freshness;
pub mod health;
pub mod initial;
mod inner;
pub mod leagues;
pub mod listener;
mod local;
pub mod memory;
mod meters;
pub mod moderation;
pub mod observe;
mod packed;
pub mod players;
pub mod problem;
pub mod profiles;
pub mod proxies;
pub mod quotas;
pub mod ratelimit;
pub mod rendered;
pub mod results;
pub mod rewards;
pub mod router;
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

use metrics_exporter_prometheus::PrometheusHandle;
use tokio_util::sync::CancellationToken;

use self::memory::Memory;
use crate::domain::profile::Rules;
use crate::service::Service;

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
    /// Cancelled when the service begins to shut down.
    pub shutdown: CancellationToken,
}
