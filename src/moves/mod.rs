//! Moving a board to another number of shards, while events and reads go on. `job.rs` has a drawing.
//!
//! A definition says how many shards a board should have. Its *placement* (`domain/placement.rs`) says where the data is
//! stored, and where it moves to. Each *sharding* of a board has its own tags (`{board:4:0:2}` is shard 0 of 4 in the
//! board's third sharding), so the data of two shardings never meets.
//!
//! Words: to *capture* is to note changes of a shard that is being copied; to *copy in* is to write what was copied into a
//! new shard. A board is *paused* for a moment at the end.
//!
//! What is subtle:
//!
//! - From the start, the old shards record each change in the step that makes it (`lib/capture.lua`), so data that changes
//!   after it was copied is copied again. `copy_in.lua` sets entries as they are, never adds: copying twice does no harm.
//!   `kinds.rs` says how each kind is copied.
//! - Derived standings are copied if they are complete. One that is dropped meanwhile is marked, since changes of its
//!   successor are not recorded; the new shards build such standings when they are needed.
//! - Pausing is a new version of the definition, and the heads of the old shards get a different, made-up version. So a
//!   call made for the old placement is refused; the caller reads the definition, sees that the board is paused, and waits.
//!   The last version names the new shards.
//! - The mover first gives the old shards the version that begins the move, so that they refuse puts made for an earlier
//!   one.
//! - The position in the lease has the cursors of partly copied standings. New shards refuse data that was read under an
//!   earlier lease.
//! - Ids of events stay in the old shards until they expire, and the old shards take no more events. So an event is looked
//!   up there first, and an id that is unknown there stays so (`core/write/recall.rs`).
//! - Before the new shards are opened, their barriers are raised to the greatest of the old ones, so it does not matter if
//!   only some old ones were raised.

pub(crate) mod copier;
pub(crate) mod derived;
pub mod job;
pub mod store;
pub(crate) mod walk;
pub mod work;
