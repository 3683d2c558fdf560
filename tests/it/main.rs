//! All integration tests, in one binary: they share one build, and run side by side, each against a Redis
//! server of its own.

#![expect(
    unreachable_pub,
    missing_docs,
    reason = "nothing is outside of a test binary"
)]

mod flights;
mod harness;
mod http;
mod model;
