//! Messages to other services: each is sent at least once, with one id, and signed.
//!
//! Words: an *outbox* has the messages of a board that are not handed on yet. A *delivery* is a message on its way to one
//! webhook, a *try* one attempt. A *dead letter* (here) is a delivery that has failed for a day. A webhook's `events` are kinds
//! of messages, not score events.
//!
//! The way: a script writes the message in the step that it tells of (`lib/outbox.lua`) ─▶ its caller notes the board
//! (`core/board/store/board_notes.rs`) ─▶ `outbox/job.rs` queues it for every webhook that wants it, and then removes it from
//! the outbox ─▶ `deliveries/job.rs` claims and sends it (`sender.rs`) ─▶ `Delivery::after` (`domain/delivery.rs`) decides what
//! follows: delivered, tried again after a growing pause, or dead.
//!
//! What is subtle:
//!
//! - A message's id follows from what happened (`domain/message.rs`), so a step that is repeated makes no other message.
//! - The note that an outbox has something is in another slot. So whoever posts notes it afterwards, and before it takes its
//!   own work for done.
//! - Webhooks and their queues are in one slot: `queue_deliveries.lua` queues only if no webhook has changed since it was
//!   chosen, and no message twice. One index says for which webhooks something is due, so idle ones cost nothing.
//! - Instances *claim* deliveries for a while (`claim_delivery.lua`); what has not ended by then is due again. So a receiver
//!   may get a message twice, with one id.
//! - `sender.rs` is the only place that dials addresses which users have named. It checks the addresses of a name after the
//!   look-up and dials only those that it has checked, at each try; an address in a URL is checked, too.

pub mod deliveries;
pub mod outbox;
pub mod routes;
pub mod sender;
pub mod store;
pub mod work;
