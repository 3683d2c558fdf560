//! Accepts events: one, or up to 1,000 in a request, each with its own result.
//!
//! `routes.rs` gives each event a time (`Clock::arrival`): later than all before it in this process, and never a whole
//! millisecond, so an event for which a client gives such a time comes first. `body.rs` is the only parser of events:
//! single requests, batch items, Kafka records, the import. A score stays text, because only the board knows its decimals.
//! `work.rs` groups events by board, and passes them to the queue (`queue/putting.rs`) or applies them
//! (`core/write/submission.rs`).

pub mod body;
pub mod quotas;
pub mod routes;
pub mod work;
