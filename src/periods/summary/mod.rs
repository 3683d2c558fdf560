//! What a frontend needs to know of a board: what it is called, and where its windows stand.

pub mod routes;
pub mod work;
