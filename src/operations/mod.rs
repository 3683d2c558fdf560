//! For operators: whether the service is well, and what needs attention.
//!
//! - `health.rs`: is the process alive, is it ready, and its metrics.
//! - `warnings/`: problems of a service that works, such as a full memory of Redis. A job looks for them; `/readyz` lists
//!   them.
//! - `overview/`: what waits or fails, and how many events boards had. A job samples it; `GET /v1/overview` returns the last
//!   sample.
//! - `upkeep/`: instances, queues, moves, and how much memory a board takes, for `/v1/…` and the console.
//!
//! All of it only reads. What repairs data is in `check/`.

pub mod health;
pub mod overview;
pub mod upkeep;
pub mod warnings;
