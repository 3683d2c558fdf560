//! All integration tests, in one binary: they share one build, and run at the same time, each against servers of its own.
//!
//! `cargo test --locked --test it quotas` runs those with `quotas` in their path; they look for a Redis server on the `PATH`
//! (`PATH=$PWD/.tools:$PATH` after `make setup`).
//!
//! The folders are the rooms of `src/` (ARCHITECTURE.md). Besides them:
//!
//! - `harness/` makes a world for one test: Redis, a clock that the test sets, any number of instances behind real ports.
//! - `model/` tests the law as a property, against a naive model that shares no code with the service; `leagues/seasons/` does so
//!   for leagues. At the end of each case the keys of each standing have to expire at one instant, `standings check` finds
//!   nothing, and when the boards are deleted no key of them is left. `flights.rs` replays real data.
//! - `kills/` and `faults.rs` kill the program and its Redis, move slots, fail over.
//! - `scripts/` runs every script by itself. `openapi/` sends every example of the document, and damaged ones, and compares each
//!   answer with its schema. `docs.rs` runs the sessions of README and docs as they stand. `tidy/` checks what no compiler checks.
//!
//! - Random tests play few cases. `make soak` plays many, with one server and with clusters; `STANDINGS_TEST_DEPTH` and
//!   `STANDINGS_TEST_SEED` say how many and which.
//! - With `STANDINGS_TEST_CLUSTER` the worlds are clusters of three primaries, whose slots move during the whole property test.
//!   `make test` runs the tests that depend on where keys are stored a second time like this (`ON_CLUSTERS` in the Makefile).

#![expect(
    unreachable_pub,
    clippy::too_many_lines,
    reason = "nothing is outside of a test binary, and a table of cases is long"
)]

mod access;
mod audit;
mod boards;
mod check;
mod console;
mod corrections;
mod docs;
mod embed;
mod events;
mod faults;
mod flights;
mod harness;
mod history;
mod http;
mod imports;
mod keys;
mod kills;
#[path = "../kit/mod.rs"]
mod kit;
mod leagues;
mod live;
mod migrating;
mod model;
mod moderation;
mod moves;
mod names;
mod openapi;
mod overview;
mod periods;
mod profiles;
mod program;
mod queue;
mod redis;
mod revocations;
mod scripts;
mod settings;
mod standings;
mod tidy;
mod webhooks;
