//! Raises the barriers of a board's shards. From the moment this is done, nothing changes what earlier events have made of the
//! standings.

pub mod store;
pub mod work;
