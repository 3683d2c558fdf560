//! What a request waited for in vain is named: only a Redis that does not answer is told as one.

use futures::future::join3;
use serde_json::json;
use standings::domain::clock::Clock;

use crate::harness::client::Answer;
use crate::harness::{Instance, World, store};

const NOW: &str = "2026-11-21T11:59:00Z";

/// An instance that has nothing in memory yet, and the usual patience.
async fn newcomer(world: &World, clock: Clock) -> Instance {
    Instance::start_on(store(&world.redis.url()), clock, "").await
}

#[track_caller]
fn expect(answer: Answer, code: &str, parts: &[&str]) {
    assert_eq!(answer.headers["retry-after"], "1");
    let detail = answer.expect_problem(503, code);
    for part in parts {
        assert!(detail.contains(part), "{detail}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timed_out_request_says_what_it_waited_for() {
    let world = World::start(NOW).await;
    let client = world.client();
    // A board whose move has stopped at its last step.
    client.define("moves", json!({"windows": ["all"]})).await;
    client.spread("moves", 2).await;
    let words: [&[u8]; 3] = [b"HGET", b"st:{moves}", b"definition"];
    let stored = world.redis.run(&words).await.text();
    let closing = stored.replace("\"is_closing\":false", "\"is_closing\":true");
    assert_ne!(stored, closing);
    let words: [&[u8]; 4] = [b"HSET", b"st:{moves}", b"definition", closing.as_bytes()];
    world.redis.run(&words).await;
    // A period that waits for an event in a queue, which nobody applies.
    let queued = json!({"windows": ["hour"], "finalize": "10m", "ingest": "async"});
    client.define("waits", queued).await;
    let event = json!({"id": "1", "member": "ann", "score": 1});
    let path = "/v1/boards/waits/events";
    client.post(path, event.clone()).await.expect(202);
    world.set_time("2026-11-21T12:10:00Z");

    let instance = newcomer(&world, world.clock.clone()).await;
    let client = instance.client.once();
    let close = "/v1/boards/waits/standings/hour/periods/2026-11-21T11:00Z/close";
    let (event, page, closed) = join3(
        client.post("/v1/boards/moves/events", event),
        client.get("/v1/boards/moves/standings/all"),
        client.post(close, json!({})),
    )
    .await;
    let moves = ["board moves", "moving to other shards", "try again"];
    expect(event, "board-changing", &moves);
    expect(page, "board-changing", &moves);
    let waits = ["periods of board waits", "try again"];
    expect(closed, "standing-pending", &waits);
    instance.client.get("/readyz").await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_that_stops_is_not_ready_and_says_so() {
    let world = World::start(NOW).await;
    world.instances[0].shutdown.cancel();
    let answer = world.client().once().get("/readyz").await;
    expect(answer, "shutting-down", &["shutting down"]);
}
