//! Makes periods final: the job, the requests that can't wait for it, and the route that closes a period early.

pub mod routes;
pub mod store;
pub mod work;
