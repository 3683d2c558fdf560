//! Queued events that could not be applied: listing them over all shards, replaying and discarding them. Discarding also
//! checks the version, so that no letter is removed from a shard that it was copied from.
//!
//! - The id that clients get has the letter's place, shard, sharding and generation, so a letter of a former sharding or a
//!   deleted board is not found.
//! - A replay appends the stored bytes unchanged and removes the letter in one step. The barrier is not checked: the event
//!   is after the mark of a closing, and is judged when it is applied. A letter of the kind `failed` evicts no other: if
//!   there is no room, its event stays in the queue, and `/readyz` reports it.
//! - Redis drops old letters only when new ones arrive, so readers check the age, too.

pub mod routes;
pub mod store;
pub mod work;
