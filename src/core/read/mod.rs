//! One complete answer from many shards.
//!
//! A read finds its standing (`period.rs`), asks every shard that has a part of it (`reader.rs`), and makes one list of the
//! answers (`merge.rs`). What is not complete is completed first. `look.rs` finds out whether a board has changed at all;
//! `scroll.rs` reads a whole standing, part by part; `voters.rs` counts distinct voters after the entries; `past.rs` bounds
//! what is built of the past.
//!
//! Each shard has batchers for queries, for small and for large requests apart, so that a small one waits behind one large call
//! at most. Queries that come in together are one call, and so one snapshot. Equal queries are asked once. A call begins after
//! its queries have come in: so a read that begins after the answer to an event includes that event.
//!
//! **Editions.** Every answer of `read.lua` comes with the field `changed` of the shard's head (`scripts/lib/changed.lua`), and
//! says which of its standings have entries. Of these, the version and the state `domain/edition.rs` makes the edition, which
//! clients know as `revision`; HTTP makes an entity tag of it and of what was asked. A request with `If-None-Match` asks the
//! shards only for that (`Query::Changed`), in the calls that reads share. If the edition is another one but the content is
//! not, as on a board with other windows, the second half of the tag tells. The tag is of the content alone where an answer
//! shows what is stored elsewhere: profiles, data, voters, hidden members, leagues. If a shard has changed between the calls of
//! one request, its edition is equal to no other. The history in `changed` is part of the data, not of the connection, so a
//! promoted server has another history only in what it writes itself. A count alone would come again after a loss of data; a
//! stamp of time needs clocks that never go back; the id of a process stays the same when a primary is demoted and promoted
//! again. (`INFO replication` costs 2 µs in each call that changes something.)
//!
//! **Derived standings** are sums: rolling windows, and windows with initial scores. `rollover.rs` says how they are kept
//! complete. One that is not complete is never shown; a read that finds one completes it.
//!
//! **Leagues** are read cohort by cohort: the standing of a cohort is in one shard, so every kind of read works there as on a
//! board with one shard. A member is read with its whole cohort, in one call that all readers of the cohort share: so its rank,
//! its neighbours and its zone are of one snapshot. Whether a cohort was opened is only asked for if nobody is found there.

pub mod look;
pub mod merge;
pub mod past;
pub mod period;
pub mod reader;
pub mod rollover;
pub(crate) mod scroll;
pub mod store;
pub mod voters;
