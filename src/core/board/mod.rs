//! Boards in memory, and how instances learn of changes.
//!
//! A board has a *generation*, which no earlier board had, not even a deleted one of the same name, and a *amendment*, which
//! no other definition of it had. Together they are its version and its `ETag`. An instance holds a copy, which every
//! script call checks (`core/mod.rs`), and reads a list of announced changes a few times a second (`news.rs`).
//!
//! A change: `begin.lua` gives a stamp and notes that a change has begun, `define.lua` compares and sets, `shard.lua`
//! informs the shards, `announce.lua` announces the change and removes the note. A change that would alter stored data is
//! refused once the board has events.
//!
//! Notes:
//!
//! - **Stamps.** Generations and amendments are microseconds of Redis' clock, each greater than the one before. A counter
//!   would give the same numbers again to other definitions if Redis goes back to an older copy of its data, or to none.
//!   Instances must notice that even if they make no call. So the list of changes has an epoch, and each server's data a
//!   replication id (`master_replid`): if either is new, an instance reads all definitions again (`refresh_boards`).
//! - **Two slots.** The list of boards is in another slot than the boards, so no step can both change a definition and
//!   announce it. A change is noted before it is made, under its stamp. A job announces it if its note is left behind.
//! - **Shards** are informed of a change before the request returns. If that fails half-way, so does the request, and the
//!   first call that finds a shard with another version reads the definition again and informs the shard. Before a shard
//!   gets its first event, `use.lua` notes with the definition that the board has events, because no single step sees all
//!   shards.
//! - **Standing orders.** If there are any, a new board is stored as *opening*, so that its calls wait. It is listed before
//!   the orders are read: a task whose order comes later finds it in the list. Then its members are hidden, and the next
//!   version opens it. If its creator dies before that, a job opens it, or a request that has waited too long for it.
//! - **A definition that can't be read** does not affect other boards. What is needed to replace or delete it is read.
//! - **Deletions.** `delete.lua` replaces the definition with a proof: the stamp of the deletion, and what remains to be done.
//!   Then the shards get that stamp as generation, so no script reads or writes the board's data any more, whatever an
//!   instance has in memory; the data is marked as not needed, and the deletion announced. If that fails half-way, a repeated
//!   deletion, the creation of a board of that name, or the job of announcements finishes it (`deletions.rs`). A job unlinks
//!   marked data by the registries of the shards (`purge.rs`), but only if there is the proof, or the board exists and has
//!   moved away: losing a definition loses no data.
//! - **Keys that are in no registry** (remembered ids, outcomes under tokens, counts that expire, marks of void tokens) are
//!   searched for among all keys (`sweep.rs`), once no shard has a head any more, so the walk can't miss new ones.
//! - **Names in registries** stay when their keys expire. A job walks through each registry once an hour and takes out names
//!   whose keys are missing (`registries.rs`). So events need not know which keys have expired.

pub mod announcements;
pub mod boards;
pub mod deletions;
pub mod live;
pub(crate) mod news;
pub mod purge;
pub mod registries;
pub mod store;
pub mod sweep;
