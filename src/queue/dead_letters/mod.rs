//! Queued events that could not be applied: listing them over all shards, replaying and discarding them. To discard one
//! compares the version as well, so that no letter is removed from a shard that it was copied from.
//!
//! - The id that clients get is the letter's place with its shard, sharding and generation, so a letter of a former sharding or
//!   a deleted board is not found.
//! - A replay appends what is stored, byte by byte, and removes the letter in one step. The barrier is not asked: the event is
//!   after the mark of a closing, and is judged when it is applied. A letter of the kind `failed` pushes out no other: where
//!   there is no room, its event stays, and `/readyz` shows it.
//! - Redis drops old letters only when others come, so readers go by the age, too.

pub mod routes;
pub mod store;
pub mod work;
