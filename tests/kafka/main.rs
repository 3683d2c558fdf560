//! Kafka as the queue, with a real broker. `make kafka` runs these tests; `make test` does not build them.

#![expect(unreachable_pub, reason = "nothing is outside of a test binary")]

mod away;
#[path = "../kit/broker.rs"]
mod broker;
mod closings;
mod comings;
mod dead_letters;
#[path = "../it/harness/mod.rs"]
#[expect(dead_code, unused_imports, reason = "the other tests need more of it")]
mod harness;
#[path = "../kit/mod.rs"]
#[expect(dead_code, reason = "the other tests need more of it")]
mod kit;
mod large;
mod secure;
mod site;
mod transactions;
mod votes;
mod whole;
