//! What a board keeps of its final periods, as long as the board: who won, how many took part, the digest of the export.
//!
//! Results are under the board's own tag, so no move takes them along, with a registry of their own that the purge of a deleted
//! board unlinks.
//!
//! - **State.** `read.lua` tells the barrier with every answer, and the reader takes the least of them (`domain/state.rs`). So
//!   a page says `final` only if all of its calls have seen that, whatever the clock shows. A page that many share is rendered
//!   once for each state.
//! - **Ranking** of a standing is the one that its closing pinned (`Board::ranking_of`), so `read.lua` takes it for each
//!   standing.
//! - **A result** is made by a last read. What the heads say of hides and erasures is read before and after; if it has changed,
//!   the result is made again. `record_result.lua` compares what is stored with what the caller has seen, and writes the result
//!   and its message in one step: the first result stays.
//! - **Names.** Before the name of an erased member is taken out of results and revisions, the field `forgetting` of the board
//!   is changed (`begin_forgetting.lua`). Scripts that record names compare it with what the caller saw before it read any. So
//!   no name is recorded after the removal.
//! - **Digests** are made by a scroll of the standing when first asked for. The state of the hash is kept in Redis with the
//!   place of the scroll, so any instance goes on there; it is noted only if no hide and no erasure came meanwhile.
//! - **Histories** (`histories.rs`): in a league, a hide is looked for in the sections of the member's seats; if the history
//!   has lost its first lines, in all sections before, too.

pub mod answers;
pub mod digests;
pub(crate) mod histories;
pub mod periods;
pub mod routes;
pub mod store;
pub mod work;
