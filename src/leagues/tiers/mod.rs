//! How a league is split: its tiers, the cohorts of each, and the seats that a member had.

pub mod routes;
