//! What a frontend needs to know about a board: its title, and the running standing of each window.

pub mod routes;
pub mod work;
