//! Makes periods final: decides closings, raises the barriers of shards, and lets periods expire. A job does that, and
//! requests that can't wait for it.

pub mod barriers;
pub mod store;
pub mod work;
