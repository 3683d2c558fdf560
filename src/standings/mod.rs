//! Reading standings: pages, members, subsets, percentiles, totals, and many of them in one request.
//!
//! Each kind of read is a `View` (`standing.rs`): it says what it reads in one attempt, and what it has *found*. `standing.rs`
//! does what all have in common: it finds the standing (`core/read/period.rs`) and the cohort, reads, tells the state and the
//! edition, adds profiles. `routes/answers.rs` makes bodies of what was found; a page is *rendered* once for all who share it
//! (`http/rendered.rs`).
//!
//! To add a kind of read: a file with its `View` here, a handler in `routes.rs`, a row in `api/table.rs`.
//!
//! A hidden member is left out in `scripts/read.lua`, not here. With `hidden=include` (scope `moderate`) a read sees everybody,
//! and marks who is hidden; then its edition does not tell all that it shows.

pub mod league_member;
pub mod member;
pub mod page;
pub mod playing;
pub mod routes;
pub mod standing;
pub mod stats;
pub mod subset;
pub mod tiers;
