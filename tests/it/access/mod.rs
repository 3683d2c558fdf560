//! Who may do what: every route with every key, and what tokens of players allow.

pub mod players;
pub mod routes;
