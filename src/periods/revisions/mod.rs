//! Revises results after members were hidden or brought back: who won, how many members there are, and who gets which reward.
//!
//! A hide writes one line into the journal of its shard. Lines are noted under the board's own tag (`note_lines.lua`), since
//! journals stay behind when a board moves. Line after line, each result whose standing has the member gets one revision:
//! another walk, total and winner. It covers the other lines that this walk has seen, so they have nothing left to do there. A
//! result says up to which line of each shard it was revised; so steps may be repeated by any number of instances. When all
//! results were revised by a line, its messages are posted, and it is forgotten.
//!
//! - Erasures, and reads of results and claims, revise first, by the lines that there are when they begin. If a hide came
//!   between, the erasure has moderators wait for half a second (`Kind::Hold`). While many lines wait, whoever hides a member
//!   revises by one of them first: so hides don't come faster than results are revised.
//! - That a board was moderated is noted among the keys of all boards before the hide, so that it is noted at all, and after
//!   it, so that no run has come to it meanwhile. Lines from before the first such note are in all results.
//! - A league goes by the journal of its first shard alone, which is the last to be told of a hide: so there is one message for
//!   each hide.

pub mod store;
pub mod work;
