//! One complete answer from many shards.
//!
//! A read finds its standing (`period.rs`), asks every shard that has some of it (`reader.rs`), and merges the answers
//! (`merge.rs`; `search.rs` finds the beginning of a deep page). Whatever is incomplete is completed first.
//! `look.rs` finds out whether a board has changed at all; `scroll.rs` reads a whole standing in parts, `snapshot/` as of one
//! instant; `voters.rs` counts
//! distinct voters after the entries; `past.rs` limits how many past standings are built.
//!
//! Each shard has separate batchers for small and for large queries, so that a small one waits for one large call at most.
//! Queries that come in together share a call, and so a snapshot. Equal queries are asked once. A call begins after its
//! queries have come in, so a read that begins after the response to an event includes that event. It names the answers that
//! were kept (`store/standings/kept.rs`): if nothing has changed since, the script ends at once, and they are given again.
//!
//! **Editions.** Every answer of `read.lua` has the field `changed` of the shard's head (`scripts/lib/changed.lua`), and
//! says which of its standings have entries. From these, the version and the state, `domain/edition.rs` makes the edition,
//! which clients know as `revision`; HTTP makes an entity tag of it and of the request. A request with `If-None-Match` asks
//! the shards only for that (`Question::Changed`), in the calls that reads share. The second half of the tag shows when the
//! content is the same under another edition, as on a board with other windows. The tag covers the content alone where an
//! answer shows what is stored elsewhere: profiles, data, voters, hidden members, leagues. If a shard has changed between
//! the calls of one request, its edition equals no other. The history in `changed` is part of the data, not of the
//! connection, so a promoted server has another history only in what it writes itself. The alternatives fail: a count would
//! repeat after a loss of data; a timestamp needs clocks that never go back; the id of a process stays the same when a
//! primary is demoted and promoted again. (`INFO replication` costs 2 µs in each call that changes something.)
//!
//! **Derived standings** are sums: rolling windows, and windows with initial scores. `rollover.rs` says how they are kept
//! complete. An incomplete one is never shown; a read that finds one completes it.
//!
//! **Leagues** are read cohort by cohort. The standing of a cohort is in one shard, so every kind of read works as on a
//! board with one shard. A member is read with its whole cohort, in one call that all readers of the cohort share, so its
//! rank, neighbours and zone come from one snapshot. Whether a cohort was opened is asked only if no entry is found there.

pub mod look;
pub mod merge;
pub mod past;
pub mod period;
pub mod reader;
pub mod rollover;
pub(crate) mod scroll;
mod search;
pub mod snapshot;
pub mod store;
pub mod voters;
