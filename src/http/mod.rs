//! What every route needs: reading requests, answers and problems, and the layers around them. It depends on no capability.
//!
//! The path of a request: `listener.rs` accepts a connection ─▶ `connection/` bounds its time ─▶ `compression.rs` ─▶
//! `observe.rs` (id, time limit, metrics, log, the body of problems) ─▶ `cors.rs` ─▶ the guard of the route (`access/`; on
//! an open service it asks `local.rs`) ─▶ `extract.rs` parses, so that every error is a problem ─▶ the handler ─▶
//! `rendered.rs`, with the headers of `caching.rs`, `freshness.rs` and `ratelimit.rs`. Pages for people also pass
//! `relative.rs`.
//!
//! `supply.rs` has one rule for everything that is limited (memory, connections, streams): use is counted by *taker*, an
//! API key, a player or an address, and the taker that has little is served first.
//!
//! What is subtle:
//!
//! - `observe.rs` is one service and not a stack, because each layer would cost a request two allocations.
//! - Before it reads, a request takes memory for its entries (`memory.rs`), from the supply for small or for large
//!   requests. The bytes of an answer hold their memory until their last copy is written; so an answer that many requests
//!   share counts once.
//! - An answer without an end is marked (`connection::Endless`). It may go on while nothing waits to be read; if something
//!   waits, the bounds of all answers apply, and a reader that reads too little is dropped.
//! - Connections beyond the bound get `/livez`, `/readyz` and `/metrics` only, so that monitoring still sees the truth.
//! - Internal errors are logged and never sent.

pub mod audited;
pub(crate) mod batches;
pub(crate) mod caching;
pub(crate) mod compression;
pub mod connection;
pub mod cors;
pub mod extract;
pub(crate) mod files;
pub mod freshness;
pub(crate) mod inner;
pub mod listener;
pub(crate) mod local;
pub mod memory;
mod meters;
pub mod observe;
pub(crate) mod packed;
pub mod problem;
pub mod proxies;
pub mod ratelimit;
pub(crate) mod relative;
pub mod rendered;
pub mod supply;
mod unique_headers;

use std::sync::Arc;

use metrics_exporter_prometheus::PrometheusHandle;
use tokio_util::sync::CancellationToken;

use self::memory::Memory;
use crate::core::Engine;
use crate::domain::profile::Rules;

/// What handlers work with.
pub struct App {
    /// Boards, Redis, the clock: what the work is done with.
    pub engine: Arc<Engine>,
    /// What `/metrics` shows; `None` if no recorder is installed.
    pub metrics: Option<PrometheusHandle>,
    /// Whether no API keys are configured.
    pub is_open: bool,
    pub profile_rules: Rules,
    /// The memory that requests may hold.
    pub memory: Memory,
    /// Cancelled when the service begins to shut down.
    pub shutdown: CancellationToken,
}
