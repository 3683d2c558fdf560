//! Live boards: what streams say, who may watch, and what they come through.

mod access;
mod crowds;
mod faults;
mod messages;
mod tokens;

use serde_json::{Value, json};

use crate::harness::{Client, World};

const DAY: &str = "/v1/boards/b/standings/day";
const STREAM: &str = "/v1/boards/b/standings/day/stream";
const NOW: &str = "2026-11-21T12:00:00Z";

async fn world(instances: usize) -> World {
    let world = World::with_instances(instances, NOW).await;
    let definition = json!({"windows": ["day", "all"]});
    world.client().define("b", definition).await;
    world
}

async fn send(client: &Client, member: &str, score: i64) {
    let event = json!({"member": member, "score": score});
    client.post("/v1/boards/b/events", event).await.expect(200);
}

/// Whether a message has these members, in this order.
fn has(members: &'static [&'static str]) -> impl Fn(&Value) -> bool {
    move |message| {
        let entries = message["entries"].as_array().unwrap().iter();
        let found = entries.map(|entry| entry["member"].as_str().unwrap());
        found.eq(members.iter().copied())
    }
}
