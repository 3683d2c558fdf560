//! Raises the barriers of a board's shards. Once they are raised, nothing changes what earlier events made of the
//! standings.

pub mod store;
pub mod work;
