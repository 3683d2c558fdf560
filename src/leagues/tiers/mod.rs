//! The structure of a league: its tiers, the cohorts of each, and a member's past seats.

pub mod routes;
