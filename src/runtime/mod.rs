//! How work is done, independent of boards, Redis and HTTP.
//!
//! - `batcher.rs`: items that come in during a call share the next one. That at least halves what a request costs Redis, and
//!   adds nothing to a request that comes alone.
//! - `expiring.rs`: what is held for a limited time.
//! - `join.rs`: several futures at once, of one type for all callers.
//! - `supervise.rs`: background tasks restart when they panic. One that runs until the process ends returns `Infallible`.
//! - `throttle.rs`: one log line a second for each cause. Every line that requests could repeat goes through it.
//! - `timeouts.rs`: time limits, and the factor for all of them.

pub mod batcher;
pub(crate) mod expiring;
pub(crate) mod join;
pub mod supervise;
pub mod throttle;
pub mod timeouts;
