//! The servers, the keys and the scripts: the only place that knows the client library or the form of a key.
//!
//! A call is one round trip, and what must be atomic is one script. Each room has its own calls, in its `store.rs`; here is
//! what these are made of:
//!
//! ```text
//! a room's store.rs ─▶ call.rs (keys, arguments, type of the reply) ─▶ script.rs (source, SHA) ─▶ dispatch.rs (which server)
//!   ─▶ topology.rs, replicas.rs ─▶ node.rs (turns, limits) ─▶ writer.rs (order) ─▶ connection.rs ─▶ Redis ─▶ decode.rs, reply.rs
//! ```
//!
//! `kinds.rs` declares every kind of data once: slot, expiry, copying, purging, and what an erasure does to it. `keys.rs` makes
//! every key. `protocol.rs` has the numbers that Rust and Lua share. `stored.rs` replaces what is stored as JSON only if it is
//! still what the caller saw, `leases.rs` lets one instance at a time do some work, `format.rs` refuses data of another
//! release. `embedded.rs` runs the private server.
//!
//! What is subtle:
//!
//! - **Servers.** Each server has connections, turns and limits of its own, so that one that is away holds up no other. Writes
//!   of one shard are carried out in the order in which they are made: from the batcher to the queue of the client library no
//!   function is `async`, so no call can wait on that way and be overtaken.
//! - **Clusters.** The client library is used for single servers only. Its support of clusters repeats calls that may have been
//!   carried out, and mixes up replies after `ASK`. A call that is refused because its slot is elsewhere, or moving, has done
//!   nothing: it is sent again for two seconds. `ASK` is never followed, since a script at the target would take keys that have
//!   not arrived for absent ones. With one server, too, a script whose keys are in several slots fails, so that tests find it.
//! - **Replicas.** `replicas.rs` knows an instant whose data a replica has, without comparing clocks. An answer carries it
//!   along (`Dated`), up to the header `Max-Staleness-Ms`. The primary is asked instead if the replica fails, answers `STALE`
//!   or with a standing that is not complete, or if the answer has become too old when the header is written
//!   (`http/freshness.rs`). Instances register how old their answers may be (`staleness.rs`); so whoever hides a member knows
//!   how long to wait until the hide holds everywhere. A replica does not know that a slot of its primary is moving. So it
//!   looks in the registry whether a key is missing, and then answers `STALE`, too.
//! - **Errors.** `failure.rs` alone says what an error means. Three kinds matter to callers: Redis is *away* for a while; it is
//!   *full*, and takes no writes; or it *can't be used* as it is set up, so that waiting does not help. `contact.rs` looks for
//!   the last kind at the start. Which commands the user must be allowed to call follows from the scripts.
//! - **A full Redis must not stop reads.** No connection is opened or tested with a command that a full Redis refuses (`PING`
//!   is one). Scripts that only free memory are marked `flags=allow-oom`. Whether Redis takes writes is asked by a script that
//!   is declared as writing and does nothing (`writable.lua`): Redis' own rules decide, and nothing is guessed from numbers.
//! - **Scripts** load and flush in bulk, and keep members in lists by number: from Lua a call of Redis costs more than most
//!   commands, and a table more than most calls. Records are packed with `struct`, which takes half the time of `MessagePack`.
//!   `script.rs` puts the fragments of `scripts/lib/` before a script in the order of its row, leaves out functions that it
//!   does not call, and writes constants in the places of their names.
//! - **What a standing is in Redis**: the top of `scripts/lib/standing.lua`. All keys of a board, or of a shard of it, share a
//!   hash tag, and so one slot. All keys of a standing are made in one step and expire at one instant, because none of them is
//!   ever empty in between. (When Redis moves a slot, it sends the remaining time of each key; these instants may then differ
//!   by some milliseconds.)
//! - **Keys that expire by themselves** are in no registry, because registering them would make every event more expensive.

mod address;
pub(crate) mod args;
pub(crate) mod call;
pub(crate) mod connection;
mod contact;
pub(crate) mod decode;
pub mod dispatch;
pub mod embedded;
pub mod entry;
pub(crate) mod failure;
pub(crate) mod format;
pub mod keys;
pub mod kinds;
pub mod leases;
pub(crate) mod node;
pub mod protocol;
pub mod random;
mod replicas;
pub(crate) mod reply;
pub mod script;
pub mod staleness;
pub mod stored;
mod tls;
mod topology;
mod writer;

pub use self::address::Address;
pub use self::dispatch::{Freshness, Store};
pub(crate) use fred::types::{FromValue, Value};
pub(crate) use fred::util::sha1_hash;

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
