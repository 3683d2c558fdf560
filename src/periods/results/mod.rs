//! What a board keeps of its final periods for as long as the board exists: the winner, the total, the digest of the
//! export.
//!
//! Results are stored under the board's own tag, so moves don't copy them. They have their own registry, which the purge of
//! a deleted board unlinks.
//!
//! - **State.** `read.lua` returns the barrier with every response, and the reader takes the lowest (`domain/state.rs`). So
//!   a page says `final` only if all of its calls have seen that, whatever the clock shows. A shared page is rendered once
//!   for each state.
//! - **Ranking** of a standing is the one that its closing pinned (`Board::ranking_of`), so `read.lua` takes it per
//!   standing.
//! - **A result** is made by a last read. The shards' counters of hides and erasures are read before and after; if they
//!   differ, the result is made again. `record_result.lua` compares what is stored with what the caller has seen, and
//!   writes the result and its message in one step: the first result stays.
//! - **Names.** Before the name of an erased member is removed from results and revisions, `begin_forgetting.lua` changes
//!   the board's field `forgetting`. Scripts that record names compare it with what the caller saw before reading any, so
//!   no name is recorded after its removal.
//! - **Digests** are made on first request by scrolling the standing. The hash state and the place are kept in Redis, so
//!   any instance can continue; they are stored only if no hide and no erasure came meanwhile.
//! - **Exports** of final periods (`export.rs`) stream the whole standing, one part in memory at a time; those of other standings
//!   (`running.rs`) a snapshot.
//! - **Histories** (`histories.rs`): in a league, a hide is looked for in the sections of the member's seats; if the
//!   history has lost its first lines, also in all earlier sections.

pub mod digests;
pub mod export;
pub(crate) mod histories;
pub mod periods;
pub mod recording;
pub mod routes;
pub mod running;
pub mod store;
pub mod work;
