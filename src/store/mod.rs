//! What Redis holds, and the only place that names a key or the client library.
//!
//! [`kinds`] declares every kind of data, [`keys`] makes every key, [`script`] has the Lua scripts, [`stored`] reads and
//! replaces what is stored as JSON, and each of
//! [`api_keys`], [`audit`], [`boards`], [`board_notes`], [`events`], [`standings`], [`voters`], [`quotas`], [`reservations`],
//! [`dead_letters`], [`initial`], [`profiles`], [`hidden`], [`hide_ends`], [`erasures`], [`barriers`], [`closings`], [`decisions`], [`seats`], [`tasks`], [`orders`],
//! [`outbox`], [`webhooks`], [`deliveries`], [`sessions`], [`staleness`], [`rollover`], [`moving`], [`reshard`], [`results`], [`revisions`], [`rewards`],
//! [`purge`], [`sweep`], [`leases`] and [`check`] one typed call per script. A call is one round trip; what must be atomic is one
//! script. `call.rs` puts a call together, `decode.rs` reads its reply. [`dispatch`] sends a call to the server of its keys, or to a replica of it. `topology.rs` and `replicas.rs` know
//! these servers, `node.rs` has the connections to each, and `writer.rs` keeps writes in order. `contact.rs` checks a server
//! at the start, `warnings.rs` from time to time. [`entry`] has the ids of entries of streams, [`held`] how an instance has a queued
//! event in hand.

mod address;
pub mod api_keys;
mod args;
pub mod audit;
pub mod barriers;
pub mod board_notes;
pub mod boards;
mod call;
pub mod check;
pub mod closings;
mod connection;
mod contact;
pub mod dead_letters;
pub mod decisions;
mod decode;
mod definitions;
pub mod deliveries;
pub mod dispatch;
pub mod embedded;
pub mod entry;
pub mod erasures;
pub mod events;
mod failure;
pub mod footprint;
mod format;
pub mod held;
pub mod hidden;
pub mod hide_ends;
pub mod initial;
pub mod instances;
pub mod intake;
pub mod keys;
pub mod kinds;
pub mod leases;
pub mod moving;
mod node;
pub mod orders;
pub mod outbox;
pub mod profiles;
pub mod protocol;
pub mod purge;
pub mod queued;
pub mod queues;
pub mod quotas;
pub mod random;
mod replicas;
mod reply;
pub mod reservations;
pub mod reshard;
pub mod results;
pub mod revisions;
pub mod rewards;
pub mod rollover;
pub mod script;
pub mod seats;
pub mod sessions;
pub mod staleness;
pub mod standings;
pub mod stored;
pub mod stream_secret;
pub mod sweep;
pub mod tasks;
mod tls;
mod topology;
pub mod voters;
pub mod warnings;
pub mod webhooks;
mod writer;

pub use address::Address;
pub use dispatch::{Freshness, Store};

use std::time::Instant;

use thiserror::Error;

/// Why Redis gave no answer, or none that makes sense.
#[derive(Clone, Debug, Error)]
pub enum StoreError {
    /// The definition that the caller has of a board is not the stored one, or there is no such board any more: nothing was read or
    /// written. The caller reads the board anew, and begins again.
    #[error("the board was redefined meanwhile")]
    Stale,
    /// Redis can't be reached, does not answer in time, or refuses work for a while, as while it loads its data.
    /// A write may have been carried out or not; to send it again with the same event id is safe.
    #[error("redis is not available: {0}")]
    Unavailable(String),
    /// Redis refuses to write, since its memory or its disk is full. The call has done nothing; reads go on.
    #[error("redis refuses to write: {0}")]
    Full(String),
    /// Redis is there, but can't be used as it is set up: the password, the database, the release, a permission. To wait
    /// does not help.
    #[error("redis can't be used: {0}")]
    Unusable(String),
    /// A script failed or answered what it never should: a fault of this program.
    #[error("redis gave an unexpected reply: {0}")]
    Unexpected(String),
    /// The address makes no sense.
    #[error("STANDINGS_REDIS_URL (--redis-url) can't be used: {0}")]
    Url(String),
}

/// An answer, and how old it may be.
#[derive(Clone, Debug, PartialEq)]
pub struct Dated<T> {
    /// The answer.
    pub value: T,
    /// All that was acknowledged by then is in it; `None`: all that was before the question.
    pub as_of: Option<Instant>,
}
