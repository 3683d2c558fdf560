//! Who is not shown: members that moderators have hidden, and members that were erased.
//!
//! A hide changes no standing. Sums and walks count hidden members as before, so a member that is brought back is where its
//! events put it; only reads leave it out. An erasure takes effect in one step, too: it hides the member, and the member's
//! data is removed in bounded steps.
//!
//! Words: the *journal* of a shard says in which order members were hidden and brought back. The *hidden list* of a
//! standing has the entries of its hidden members. To *forget* is to remove the remaining data of an erased member.
//!
//! A hide: `hides.rs` ─▶ `hide.lua` (the hide, a line in the journal, the number `hides` in the head) ─▶ a read finds an
//! outdated hidden list ─▶ `hidden.rs` calls `hidden_list.lua`, which follows the journal ─▶ the read is repeated. An
//! erasure: `erasures.rs` ─▶ `erase.lua` in all shards that may have the member, its home last ─▶ `forget.lua` until
//! nothing is left.
//!
//! Notes on hides (the data: `scripts/lib/hides.lua`, `hidden.lua`, `follow.lua` and `visible.lua`):
//!
//! - A board on which nobody was ever hidden pays nothing: the head has no `hides`, and no script looks further.
//! - A read needs only the hides made before it, so it is repeated at most once for each of its standings. If Redis takes
//!   no writes, the read leaves out up to `LEFT_OUT_MAX` members by itself (`scripts/lib/left_out.lua`), and fails rather than
//!   show more. A replica whose list is outdated is not used.
//! - Lists follow from the set of hidden members and the journal, and either alone keeps a member out of sight. `standings
//!   check` compares them with the hides. In doubt a member is hidden.
//! - After a day members that were brought back are removed from the journal (`prune_journal.lua`), once results were revised.
//!   Lists that have not followed their lines are built from scratch.
//! - The hidden list follows from the journal and the entries, so it is never copied; `flush` keeps it current.
//! - With `keep_top`, the sorted set has a spare for hidden members. The state of a hidden list says how many entries are
//!   certainly the best. Once half of the spare is used up, a job walks over all members to find more (`widen_list.lua`). A
//!   read that finds too few does so itself, and fails if that takes too long.
//! - In a league, hides and erasures are written to all shards, since a member may sit in any of them. A hide is written to
//!   the first shard last, and then again to all until the first one says that nothing changed (`settle`), so two
//!   moderators at once leave all shards alike. An erasure is written to the home last; before data is removed, shards that
//!   lack it get it. Before an erased member is seated again, `hide_again.lua` gives the first shard its hide back.
//!
//! Notes on erasures (`scripts/lib/erasures.lua`, `nameless.lua`):
//!
//! - An erasure is kept under a keyed hash of the member's id, since the shard must forget the id. Its line in the journal
//!   is written in the same step, so reads leave the member out at once.
//! - While something may be left, no script writes data of the member: `apply.lua` and `initial.lua` refuse, and the
//!   service removes the rest first; `advance.lua` leaves the member out. So the walk over the registry misses nothing.
//! - `apply.lua` compares the `at` of an event with the erasure's instant; for an event from a queue it compares the time
//!   of queuing, since the event may have been in the log when the queue was searched. A record ends with the number of the
//!   erasure before it, so a retry of an event applied before the last erasure returns no scores, wherever the record is.
//! - A read of results and rewards finishes the removal first.
//! - A final standing keeps the line under an id that nobody can have: a text with a character that no id has, so it is
//!   decoded as null, and a tag that names its shard. A text before these keeps its place among entries with the same score
//!   and time; where other shards may have such entries, `ties.lua` names the neighbours there. Rewards and past initial
//!   scores move to that line. Rolling sums leave such lines out. A read of a final standing waits for the removal
//!   (`ERASING` of `read.lua`), so that no entry moves for a moment. An erasure notes the barrier at that time: lines of
//!   periods that were closed by then stay, however much later the removal comes.
//! - `erase.lua` waits until all results are revised by earlier hides of the member (`BEHIND`): later it can't be found.
//! - A hide, even one made meanwhile, stays with the erasure until the member has data again. A standing order for an
//!   erased member is kept under the same hash, and puts its hide into all shards of a new board (`keep_hides.lua`), since
//!   the hash doesn't say in which of them the member will be.
//! - Erasures are noted among the keys of all boards, under their stamps, from before they are made until nothing is left.
//! - A move copies erasures to all new shards, since their members are unknown. If there are two lines of a member, the later one
//!   stays.

pub mod erasures;
pub mod hidden;
pub mod hides;
pub mod store;
