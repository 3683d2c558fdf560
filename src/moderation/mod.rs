//! Hiding members, bringing them back and erasing them: on one board, on many, or on all.
//!
//! On one board that is a call of `core/hide/`. On all boards it is a *task* (to clients a job: `/v1/jobs`), which a background
//! job carries out board by board, and, for a hide, a *standing order*, which holds on boards that are created later, too.
//! `ended_hides.rs` ends hides and orders at their `until`.
//!
//! The last order for a member counts: no task begins while another one is in the middle of a step, and a later one finds the
//! earlier one overtaken.
//!
//! Erasing on all boards also deletes the profile, the pseudonym in the audit log, and the member's id in its standing order.
//! The order comes first, before the boards are listed: whoever creates a board later finds the order without the id.

pub mod ended_hides;
pub mod erasures;
pub mod orders;
pub mod routes;
pub mod tasks;
pub mod work;
