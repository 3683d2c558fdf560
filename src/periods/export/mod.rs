//! Streams the whole standing of a final period as NDJSON or CSV, one part in memory at a time. Each read continues after
//! the last entry, and ranks are counted here.

pub mod routes;
pub mod work;
