//! Kafka as the queue: a topic in which events wait, and of which instances take them into the queues of shards.
//!
//! The client is a library in C that builds for a minute, so it is a feature (`kafka`); `without.rs` stands in its place, and
//! no other room asks for the feature. What is exact is none of its work (`queue/intake/`): it brings records in the order of
//! their offsets, and offsets that are committed to Kafka are for people.
//!
//! The way of a record: `producer.rs` appends an event (`record.rs` says how it is written) ─▶ `group.rs` says which partitions
//! this instance takes ─▶ `lane.rs`, a task for each partition, reads and hands over to an `Intake` ─▶ `dead.rs` brings what
//! can't be taken to the topic for dead letters.
//!
//! What is subtle:
//!
//! - **Appending.** An event stands in the topic as an item of `POST /v1/events`, so one parser (`events/body.rs`) reads what
//!   the service and others write. What a request does not say (generation, player, when it was queued) is in headers; the
//!   header holds where brokers write the time of the record themselves. Waiting is bounded (`message.timeout.ms`); what was
//!   not confirmed by then may be there or not, and the answer says so. An idempotent producer that meets a fatal error is
//!   replaced.
//! - **A lane** asks where to begin, has the client seek there, and then splits the queue of its partition off the client's.
//!   The order matters: the client decides where the records of a partition go when it begins to fetch it, and a seek succeeds
//!   only after that and drops what was fetched before. A partition is assigned *paused*, since only its lane knows where it
//!   begins. A seek is never broken off, and the lane of a partition that came again begins only when the one before has ended;
//!   otherwise one would get the other's records, and the position would pass them.
//! - **Back-pressure.** A lane holds one part of records and reads on when it is taken; the client fetches only up to a bound
//!   ahead. The loop of the group goes on meanwhile, so a slow lane does not cost the membership.
//! - **Marks of transactions** are at the end of a log, and no client gets them. A lane that gets nothing before the end reads
//!   the rest with a client next to the group; if there is no record, it moves its position to the end that it asked for
//!   before. So a closing does not wait for what never comes.
//! - **Dead records** are brought to their topic before the position passes them; dead letters of boards before
//!   `end_queued.lua` makes them (`queue/burying.rs`), for at most a second, since a queue's lease lasts five. The list of the
//!   board is what counts.

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
