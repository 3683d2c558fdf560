//! Hiding members, bringing them back and erasing them: on one board, on many, or on all.
//!
//! On one board that is a call of `core/hide/`. On all boards it is a *task* (to clients a job: `/v1/jobs`), which a
//! background job carries out board by board. A hide on all boards is also a *standing order*, which applies to boards
//! created later. `ended_hides.rs` ends hides and orders at their `until`.
//!
//! The last order for a member wins: no task begins in the middle of another task's step, and an earlier task detects that
//! it was overtaken.
//!
//! Erasing on all boards also deletes the profile, the pseudonym in the audit log, and the member's id in its standing
//! order, and notes the erasure in case an older backup is restored (`erasures/`). The order is changed first, before the boards are listed, so a board created later finds the order without the
//! id.

pub mod ended_hides;
pub mod erasures;
pub mod orders;
pub mod routes;
pub mod tasks;
pub mod work;
