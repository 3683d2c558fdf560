//! Messages to other services: each is sent at least once, with a single id, and signed.
//!
//! Words: an *outbox* has the messages of a board that are not handed on yet. A *delivery* is a message for one webhook, a
//! *try* one attempt to send it. A *dead letter* (here) is a delivery that has failed for a day. A webhook's `events` are
//! kinds of messages, not score events.
//!
//! The path of a message: a script writes the message in the same step as the change that it reports (`lib/outbox.lua`) ─▶ its
//! caller notes the board (`core/board/store/board_notes.rs`) ─▶ `outbox/job.rs` queues it for every webhook that wants it, then
//! removes it from the outbox ─▶ `deliveries/job.rs` claims and sends it (`sender.rs`) ─▶ `Delivery::after`
//! (`domain/delivery.rs`) decides what follows: delivered, retried after a growing pause, or dead.
//!
//! What is subtle:
//!
//! - A message's id follows from what happened (`domain/message.rs`), so a repeated step posts no second message.
//! - The note that an outbox is not empty is in another slot. So code that posts notes it afterwards, before it considers
//!   its own work done.
//! - Webhooks and their queues are in one slot: `queue_deliveries.lua` queues only if no webhook has changed since they
//!   were chosen, and no message twice. One index has the webhooks with something due, so idle ones cost nothing.
//! - Instances *claim* deliveries for a while (`claim_delivery.lua`); those not ended by then are due again. So a receiver
//!   may get a message twice, with the same id.
//! - Only `sender.rs` dials addresses that users have named. On each try it checks the addresses that a name resolves to,
//!   and dials only those; it also checks an address in a URL.

pub mod deliveries;
pub mod outbox;
pub mod routes;
pub mod sender;
pub mod store;
pub mod work;
