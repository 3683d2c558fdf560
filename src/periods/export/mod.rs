//! Exports the whole standing of a final period, as NDJSON or CSV: a stream that holds no more than a part of it in memory. It
//! goes on after the last entry that it has read, and counts ranks itself.

pub mod routes;
pub mod work;
