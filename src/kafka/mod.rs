//! Kafka as the queue: events wait in a topic, from which instances take them into the queues of shards.
//!
//! The client is a C library that takes a minute to build, so it is a feature (`kafka`). Without it `without.rs` is
//! compiled instead; no other room checks the feature. Exactness is ensured in `queue/intake/`: this room only delivers
//! records in the order of their offsets. Offsets committed to Kafka are for people.
//!
//! The path of a record: `producer.rs` appends an event (`record.rs` defines the format) ─▶ `group.rs` assigns partitions to
//! this instance ─▶ `lane.rs`, a task for each partition, reads records and gives them to an `Intake` ─▶ `dead.rs` writes
//! those that can't be taken to the topic for dead letters.
//!
//! What is subtle:
//!
//! - **Appending.** An event has the form of an item of `POST /v1/events`, so one parser (`events/body.rs`) reads what the
//!   service and others write. What a request does not contain (generation, player, when it was queued) is in headers; the
//!   header for the time overrides record times set by brokers. Waiting is bounded (`message.timeout.ms`); an event that
//!   was not confirmed by then may or may not be in the topic, and the response says so. An idempotent producer is replaced
//!   after a fatal error.
//! - **A lane** asks where to begin, makes the client seek there, and then splits the queue of its partition off the
//!   client's. The order matters: the client decides where the records of a partition go when it begins to fetch it; a seek
//!   succeeds only after that, and drops what was fetched before. A partition is assigned *paused*, since only its lane
//!   knows where to begin. A seek is never cancelled, and when a partition is assigned again, its lane begins only after
//!   the former one has ended; otherwise one would get the other's records, and the position would skip them.
//! - **Back-pressure.** A lane holds one batch of records and reads on when it is taken; the client prefetches only up to a
//!   limit. The loop of the group keeps running, so a slow lane does not cost the membership.
//! - **Transaction markers** at the end of a log are never delivered to clients. A lane that gets nothing before the end
//!   reads the rest with a client outside of the group; if there is no record, it moves its position to the end that it
//!   asked for before. So a closing does not wait for records that never come.
//! - **Dead records** are written to their topic before the position passes them, and dead letters of boards before
//!   `end_queued.lua` creates them (`queue/applying.rs`), waiting at most a second, since a queue's lease lasts five. The
//!   list of the board is authoritative.

pub mod settings;

#[cfg(feature = "kafka")]
mod client;
#[cfg(feature = "kafka")]
mod dead;
#[cfg(feature = "kafka")]
mod group;
#[cfg(feature = "kafka")]
mod lane;
#[cfg(feature = "kafka")]
mod producer;
#[cfg(feature = "kafka")]
mod reading;
#[cfg(feature = "kafka")]
mod record;
#[cfg(not(feature = "kafka"))]
mod without;
