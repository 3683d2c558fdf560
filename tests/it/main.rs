//! All integration tests, in one binary: they share one build, and run side by side, each against a Redis
//! server of its own.

#![expect(
    unreachable_pub,
    clippy::too_many_lines,
    reason = "nothing is outside of a test binary, and a table of cases is long"
)]

mod barriers;
mod check;
mod closings;
mod connections;
mod docs;
mod faults;
mod flights;
mod harness;
mod hidden;
mod http;
mod intake;
mod kills;
#[path = "../kit/mod.rs"]
mod kit;
mod league_reads;
mod model;
mod openapi;
mod order;
mod own_redis;
mod program;
mod queues;
mod records;
mod redefined;
mod replicas;
mod results;
mod rewards;
mod scripts;
mod seasons;
mod seats;
mod settings;
mod streams;
mod tidy;
mod turning;
