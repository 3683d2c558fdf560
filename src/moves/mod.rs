//! Spreading a board over another number of shards, while events and reads go on. `job.rs` draws the way.
//!
//! A definition says how many shards a board should have. Its *placement* (`domain/placement.rs`) says where the data is, and
//! where it moves to. Each *sharding* of a board has tags of its own (`{board:4:0:2}` is shard 0 of 4 in the board's third
//! sharding), so the data of two shardings never meets.
//!
//! Words: to *capture* is to note changes of a shard that is being copied; to *copy in* is to write what was copied into a new
//! shard. A board is *paused* for a moment at the end.
//!
//! What is subtle:
//!
//! - From the start, the old shards note each change in the step that makes it (`lib/capture.lua`), so what changes after it
//!   was copied is copied again. `copy_in.lua` sets entries as they are, never adds: copying twice does no harm. `kinds.rs`
//!   says how each kind is copied.
//! - Derived standings are copied if they are complete. One that is dropped meanwhile is marked, since changes of what is built
//!   in its place are not noted; the new shards build such standings when they are needed.
//! - Pausing is a new version of the definition, and the heads of the old shards get another one, which is made up. So a caller
//!   that goes by the old placement is refused, reads the definition, sees that the board is paused, and waits. The last
//!   version names the new shards.
//! - The mover tells the old shards the version that begins the move first, so that they refuse puts of those who have not
//!   heard of it.
//! - The position of the lease has the cursors of standings that are copied in part. New shards refuse data that was read under
//!   an earlier lease.
//! - Ids of events stay in the old shards until they expire, and the old shards take no more events. So an event is looked up
//!   there first, and an id that is unknown then will never be known there (`core/write/recall.rs`).
//! - The barriers of the new shards are raised to the greatest of the old ones before they are opened, so it does not matter if
//!   only some of them were raised.

pub(crate) mod copier;
pub(crate) mod derived;
pub mod job;
pub mod store;
pub(crate) mod walk;
pub mod work;
