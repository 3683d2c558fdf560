//! Leagues as users see them: joining, leaving, tiers, cohorts, and a member's history.
//!
//! A league is a board whose members compete in *cohorts*, each at its own level, a *tier* (`domain/league.rs`; all rules
//! are pure). It has 16 shards. Code that events, reads and closings need is elsewhere: ARCHITECTURE.md says where.

pub mod routes;
pub mod work;
