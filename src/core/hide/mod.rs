//! Who is not shown: members that moderators have hidden, and members that were erased.
//!
//! A hide changes no standing. Sums and walks count hidden members as before, so a member that is brought back stands where its
//! events put it; only reads leave it out. An erasure is in force in one step, too: the member is hidden by it, and what is
//! left of it is removed in bounded steps.
//!
//! Words: the *journal* of a shard says in which order members were hidden and brought back. The *hidden list* of a standing
//! has the entries of its hidden members. To *forget* is to remove what an erased member has left.
//!
//! The way of a hide: `hides.rs` ─▶ `hide.lua` (the hide, a line in the journal, the number `hides` of the head) ─▶ a read
//! finds a list that is behind ─▶ `hidden.rs` has `hidden_list.lua` follow the journal ─▶ the read is asked again. The way of
//! an erasure: `erasures.rs` ─▶ `erase.lua` in all shards that may have the member, its own last ─▶ `forget.lua` until nothing
//! is left.
//!
//! What is subtle about hides (`scripts/lib/hides.lua`, `hidden.lua`, `follow.lua` and `visible.lua` have the data):
//!
//! - A board on which nobody was ever hidden pays nothing: the head has no `hides`, and no script looks further.
//! - Later hides do not matter to a question that was asked before, so a read asks again once for each of its standings. If
//!   Redis takes no writes, the read fails rather than show the member. A replica whose list is behind is not believed.
//! - The list follows from the journal and the entries, so it is never copied; `flush` keeps it right while entries change.
//! - With `keep_top`, the sorted set has a spare for hidden members. The state of a hidden list says how many entries are
//!   surely the best. If half of the spare is used up, a job walks over all members to find more (`widen_list.lua`). A read
//!   that finds too few does so itself, and fails if that takes too long.
//! - In a league hides and erasures are written to all shards, since a member may sit in any of them. A hide is written to the
//!   first shard last, and then once more to all, until the first one says that it was so already (`settle`): so two moderators
//!   at once leave all shards alike. An erasure comes to the home last, and whoever removes what the member has left first
//!   brings it to shards that lack it. Before an erased member is seated again, the first shard gets its hide back
//!   (`hide_again.lua`).
//!
//! What is subtle about erasures (`scripts/lib/erasures.lua`, `nameless.lua`):
//!
//! - An erasure is kept under a keyed hash of the member's id, since the shard is to forget the id. Its line in the journal
//!   comes in the same step, so reads leave the member out at once.
//! - While something may be left, no script writes anything of the member: `apply.lua` and `initial.lua` refuse, and the
//!   service removes it first; `advance.lua` leaves the member out of what it lists. So the walk over the registry meets
//!   everything.
//! - `apply.lua` compares the `at` of an event with the erasure's instant, and of one out of a queue the time of queuing: it
//!   may have been in the log when the queue was searched. A record ends with the number of the erasure before it; so a retry
//!   of an event that was taken before the last erasure is answered without scores, wherever the record is.
//! - A read of results and rewards has the removal finished first.
//! - A final standing keeps the line under an id that nobody can have. It has a character that no id has, so it is decoded as
//!   null, and a tag by which its shard is found. A text before these keeps its place among entries with the same score and
//!   time; where other shards may have such entries, `ties.lua` names the neighbours there. Rewards go with the line, and so
//!   does a past initial score. Rolling sums leave such lines out. A read of a final standing waits for the removal (`ERASING`
//!   of `read.lua`), so that no entry moves for a moment. An erasure notes the barrier of its moment: lines stay of the periods
//!   that were closed by then, however much later the removal comes.
//! - `erase.lua` waits until all results are revised by the hides of the member before it (`BEHIND`): later nothing finds the
//!   member in the standings.
//! - A hide stays with the erasure until the member has data again, also a hide that comes meanwhile. A standing order for an
//!   erased member is kept under the same hash, and puts its hide into all shards of a new board (`keep_hides.lua`), since
//!   nobody knows in which of them the member will be.
//! - Erasures are noted among the keys of all boards before they are made, under their stamps; the note goes when nothing is
//!   left.
//! - A move copies erasures to all new shards, since nobody knows whose they are. Of two lines of one member the later one
//!   stays.

pub mod erasures;
pub mod hidden;
pub mod hides;
pub mod store;
