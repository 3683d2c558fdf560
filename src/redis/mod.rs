//! Servers, keys and scripts: the only place that knows the client library and the form of keys.
//!
//! A call is one round trip, and each atomic step is one script. Each room has its own calls, in its `store.rs`; here is
//! what they use:
//!
//! ```text
//! a room's store.rs ─▶ call.rs (keys, arguments, type of the reply) ─▶ script.rs (source, SHA)
//!   ─▶ dispatch.rs (which server) ─▶ topology.rs, replicas.rs ─▶ node.rs (turns, limits) ─▶ writer.rs (order)
//!   ─▶ connection.rs ─▶ Redis ─▶ decode.rs, reply.rs
//! ```
//!
//! `kinds.rs` declares every kind of data once: slot, expiry, copying, purging, and what an erasure does to it. `keys.rs`
//! makes every key. `protocol.rs` has the numbers that Rust and Lua share. `stored.rs` replaces stored JSON only if it is
//! still what the caller read, `leases.rs` lets one instance at a time do some work, `format.rs` refuses data in another
//! format. `embedded.rs` runs the private server. `source.rs` reads from the Redis of another program.
//!
//! What is subtle:
//!
//! - **Servers.** Each server has its own connections, turns and limits, so that an absent one doesn't delay the others. Writes
//!   of one shard are carried out in the order of their calls: from the batcher to the queue of the client library no
//!   function is `async`, so no call can wait on the way and be overtaken. Only one that is refused because its slot moves to
//!   another server comes later than those after it.
//! - **Clusters.** The client library is used for single servers only. Its cluster support repeats calls that may have been
//!   carried out, and mixes up replies after `ASK`. A call that is refused because its slot is elsewhere, or moving, has
//!   done nothing: it is retried for two seconds. `ASK` is never followed, since a script at the target would take keys
//!   that have not arrived for absent ones. Even on a single server, a script whose keys are in several slots fails, so
//!   that tests find it.
//! - **Replicas.** `replicas.rs` determines an instant up to which a replica has all data, without comparing clocks.
//!   Answers carry it (`Dated`), up to the header `Max-Staleness-Ms`. The primary is asked instead if the replica fails,
//!   answers `STALE`, lacks a complete standing, or if the answer has become too old when the header is written
//!   (`http/freshness.rs`). Instances register how old their answers may be (`staleness.rs`), so a hide knows how long to
//!   wait until it holds everywhere. A replica does not know that a slot of its primary is moving. So scripts check in the
//!   registry whether a key is missing, and answer `STALE` then, too.
//! - **Errors.** Only `failure.rs` interprets errors. Three kinds matter to callers: Redis is *away* for a while; it is
//!   *full*, and takes no writes; or it *can't be used* as it is set up, so waiting does not help. `contact.rs` checks for
//!   the last kind at the start. The permissions that the user needs are derived from the scripts.
//! - **A full Redis must not stop reads.** No connection is opened or tested with a command that a full Redis refuses
//!   (`PING` is one). Scripts that only free memory are marked `flags=allow-oom`. A script that is declared as writing and
//!   does nothing (`writable.lua`) tests whether Redis takes writes: Redis' own rules decide, and nothing is guessed from
//!   numbers.
//! - **Scripts** load and flush in bulk, and keep members in lists by number: in Lua the overhead of a Redis call exceeds
//!   the cost of most commands, and a table costs more than most calls. Records are packed with `struct`, which takes half
//!   the time of `MessagePack`. `script.rs` puts the fragments of `scripts/lib/` before a script in the order of its row,
//!   leaves out unused functions, and replaces the names of constants by their values.
//! - **The layout of a standing** is described in `scripts/lib/standing.lua`. All keys of a board, or of one of its shards,
//!   share a hash tag, and so one slot. All keys of a standing are made in one step and expire at one instant, because none
//!   of them is ever empty in between. (When Redis moves a slot, it sends the remaining time of each key; these instants
//!   may then differ by some milliseconds.)
//! - **Keys that expire by themselves** are in no registry, because registering them would make every event more expensive.

#![warn(missing_docs)]

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
pub mod source;
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

/// Why Redis gave no answer, or an invalid one.
#[derive(Clone, Debug, Error)]
pub enum StoreError {
    /// The caller's definition of a board is not the stored one, or the board was deleted: nothing was read or written. The
    /// caller reads the board again and starts over.
    #[error("the board was changed in the meantime")]
    Stale,
    /// Others change what the call depends on faster than it can be repeated. It has done nothing.
    #[error("other requests keep changing this; try again")]
    Contended,
    /// Redis can't be reached, does not answer in time, or refuses work for a while, for example while it loads its data. A
    /// write may or may not have been carried out; sending it again with the same event id is safe.
    #[error("Redis is not available: {0}")]
    Unavailable(String),
    /// Redis refuses writes: its memory or its disk is full, too few replicas follow it, or it is a replica itself. The call
    /// has done nothing; reads still work.
    #[error("Redis refuses writes: {0}")]
    Full(String),
    /// Redis can't be used as it is set up: the password, the database, the release, a permission. Waiting does not help.
    #[error("Redis can't be used: {0}")]
    Unusable(String),
    /// A script failed, or its reply is invalid: a fault of this program.
    #[error("unexpected reply from Redis: {0}")]
    Unexpected(String),
    /// The address is invalid.
    #[error("STANDINGS_REDIS_URL (--redis-url) can't be used: {0}")]
    Url(String),
}

/// An answer with its age.
#[derive(Clone, Debug, PartialEq)]
pub struct Dated<T> {
    /// The answer.
    pub value: T,
    /// It has everything that was acknowledged before this instant; `None`: before the request.
    pub as_of: Option<Instant>,
}
