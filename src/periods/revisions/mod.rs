//! Revises results after members were hidden or brought back, or events were corrected: the winner, the total, and who gets which reward.
//!
//! A hide writes a line into the journal of its shard. Lines are noted under the board's own tag (`note_lines.lua`), since
//! journals stay behind when a board moves. For each line, every result whose standing has the member gets one revision: a
//! new walk, total and winner. It also covers the later lines that this walk has seen, so they have nothing left to do
//! there. A result stores the last line of each shard that it covers, so any number of instances may repeat steps. When all
//! results cover a line, its messages are posted and it is deleted.
//!
//! - Erasures, and reads of results and claims, revise first, up to the lines that exist when they begin. If a hide
//!   interferes, the erasure makes moderators wait for half a second (`Kind::Hold`). While many lines wait, a request that
//!   hides a member first revises by one of them, so hides can't outpace revisions.
//! - The board is noted as moderated, among the keys of all boards, both before the hide (so that a crash can't lose it)
//!   and after it (in case a run came in between). Results already include lines from before the first note.
//! - Results also follow corrections of events (`corrected.rs`).
//! - A league uses the journal of its first shard, which gets each hide last: so each hide causes one message.

pub(crate) mod corrected;
pub mod job;
pub(crate) mod journals;
pub mod listing;
pub mod routes;
pub mod store;
pub mod work;
