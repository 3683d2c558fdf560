//! Who may do what: every route with every key, what tokens of players allow, and what senders are
//! told.

mod listed;
pub mod players;
pub mod routes;
mod told;
