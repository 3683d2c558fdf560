//! Taking events: one, or up to 1,000 in a request, each with a result of its own.
//!
//! `routes.rs` gives each event a time (`Clock::arrival`): later than all before it in this process, and never a whole
//! millisecond, so that what somebody else gives such a time comes before it. `body.rs` is the one parser of events: of
//! requests, of items of a batch, of records of Kafka, of the import. A score stays text, because only the board knows its
//! decimals. `work.rs` groups events by board, and sends them to the queue (`queue/putting.rs`) or the way of all events
//! (`core/write/submission.rs`).

pub mod body;
pub mod quotas;
pub mod routes;
pub mod work;
