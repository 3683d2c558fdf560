//! Reading standings: pages, members, subsets, percentiles, totals, and batches of such reads.
//!
//! Each kind of read is a `View` (`standing.rs`): what it reads in one attempt, and what it has *found*. `standing.rs` has
//! the common steps: find the standing (`core/read/period.rs`) and the cohort, read, determine the state and the edition,
//! add profiles. `routes/answers.rs` builds response bodies, `routes/in_league.rs` what a league adds to them; a page is
//! *rendered* once for all clients that share it (`http/rendered.rs`).
//!
//! `summary.rs` reads what a frontend needs to know about a board: the running standing of each window, one by one.
//!
//! To add a kind of read: a file with its `View` here, a handler in `routes.rs`, a row in `api/table.rs`.
//!
//! Hidden members are left out in `scripts/core/read/read.lua`, not here. With `hidden=include` (scope `moderate`) a read sees and
//! marks them; then its edition no longer identifies its whole content.

pub mod league_member;
pub mod member;
pub mod page;
pub mod playing;
pub mod routes;
pub mod standing;
pub mod stats;
pub mod subset;
pub mod summary;
pub mod tiers;
