//! Kafka as the queue: a topic in which events wait, and of which instances take them into the queues of shards.
//!
//! [`settings`] says which topic. `Kafka` is the way to it (`client.rs`). `record.rs` says how an event stands there, `producer.rs` appends, and
//! `reading.rs` has what the engine asks of the log. `consume` takes part in the group of those who take records (`group.rs`). It has a lane for each partition that this
//! instance takes records of (`lane.rs`): a task of its own, so that one partition never holds up another. What is exact of all that lies in
//! Redis (`engine/intake/`): the offsets that are committed to Kafka only inform. All but the settings comes with the feature `kafka`;
//! `without.rs` stands in its place.

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
