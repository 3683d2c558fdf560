//! How work is done: what knows nothing of boards, Redis or HTTP.
//!
//! - `batcher.rs`: what comes in during a call goes together in the next one. That halves, or more than halves, what a request
//!   costs Redis, and adds nothing to a request that comes alone.
//! - `join.rs`: several futures at a time, of one type for all callers.
//! - `supervise.rs`: background tasks start again when they panic. A task that runs until the process ends returns
//!   `Infallible`.
//! - `throttle.rs`: one line a second for each cause. Every line that each request could repeat goes through it.
//! - `timeouts.rs`: limits of time, and the factor for all of them.

pub mod batcher;
pub(crate) mod join;
pub mod supervise;
pub mod throttle;
pub mod timeouts;
