//! The barrier of a shard: what was planned before it was raised, by any instance, changes nothing that lies before it.

use serde_json::{Value, json};
use standings::domain::ids::BoardId;
use standings::domain::time::Timestamp;
use standings::engine::Engine;

use crate::harness::{Client, World};

const EVENING: &str = "2026-11-20T23:30:00Z";
const MIDNIGHT: &str = "2026-11-21T00:00:00Z";
const MORNING: &str = "2026-11-21T08:00:00Z";

async fn world(now: &str, definition: Value) -> World {
    let world = World::with_instances(2, now).await;
    world.client().define("b", definition).await;
    world
}

/// Raises the barriers of the board.
async fn close(engine: &Engine, until: &str) {
    let (id, until) = (
        BoardId::parse("b").unwrap(),
        Timestamp::parse(until).unwrap(),
    );
    engine.close_shards(&id, until).await.unwrap();
}

fn event(id: &str, member: &str, at: &str) -> Value {
    json!({"id": id, "member": member, "score": 1, "at": at})
}

async fn send(client: &Client, event: Value) -> Value {
    client.post("/v1/boards/b/events", event).await.expect(200)
}

/// Members and scores of a page.
async fn page(client: &Client, standing: &str) -> Vec<Value> {
    let path = format!("/v1/boards/b/standings/{standing}");
    let page = client.get(&path).await.expect(200);
    let entries = page["entries"].as_array().unwrap().iter();
    entries
        .map(|entry| json!([entry["member"], entry["score"]]))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_lies_before_the_barrier_is_refused_unless_it_was_taken() {
    for shards in [1, 4] {
        let definition = json!({"windows": ["day", "week", "last-2-days"], "shards": shards});
        let world = world(MORNING, definition).await;
        let [client, other] = [0, 1].map(|place| &world.instances[place].client);
        send(client, event("first", "ann", EVENING)).await;
        close(&world.service().engine, MIDNIGHT).await;

        let late = client
            .post("/v1/boards/b/events", event("late", "ann", EVENING))
            .await;
        let detail = late.expect_problem(409, "period-closed");
        assert!(detail.contains("2026-11-21T00:00:00.000Z"), "{detail}");
        let again = send(other, event("first", "ann", EVENING)).await;
        assert_eq!(again["status"], "duplicate");
        assert_eq!(again["standings"][0]["score"], 1);
        let mut reused = event("first", "ann", EVENING);
        reused["score"] = json!(2);
        let reused = other.post("/v1/boards/b/events", reused).await;
        reused.expect_problem(422, "event-id-reused");
        // A closed instant is refused for all windows: the week goes on without it.
        let batch = json!({"events": [
            {"board": "b", "member": "bob", "score": 5, "at": "2026-11-20T23:59:59.999Z"},
            {"board": "b", "member": "bob", "score": 7, "at": MIDNIGHT}]});
        let results = client.post("/v1/events", batch).await.expect(200);
        let first = &results["results"][0];
        assert_eq!(
            (&first["status"], &first["problem"]["code"]),
            (&json!("rejected"), &json!("period-closed"))
        );
        assert_eq!(
            page(client, "week").await,
            [json!(["bob", 7]), json!(["ann", 1])]
        );
        assert_eq!(page(other, "day?key=2026-11-20").await, [json!(["ann", 1])]);
        let rolling = page(other, "last-2-days").await;
        assert_eq!(rolling, [json!(["bob", 7]), json!(["ann", 1])]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_without_at_counts_for_the_first_instant_that_is_open() {
    let quotas = json!([{"name": "once", "by": ["member"], "window": "total", "max": 2}]);
    for (shards, quotas) in [(1, json!([])), (1, quotas.clone()), (4, quotas)] {
        let definition = json!({"windows": ["day"], "shards": shards, "quotas": quotas,
            "closes_at": "2026-11-22T00:00:00Z"});
        // The clock of this instance is behind that of whoever has closed the day.
        let world = world(EVENING, definition).await;
        let client = world.client();
        close(&world.instances[1].service.engine, MIDNIGHT).await;
        let outcome = send(client, json!({"id": "x", "member": "ann", "score": 1})).await;
        assert_eq!(outcome["standings"][0]["key"], "2026-11-21");
        let outcome = client
            .post("/v1/boards/b/events", json!({"member": "ann", "score": 1}))
            .await
            .expect(200);
        assert_eq!(outcome["standings"][0]["score"], 2);
        assert!(page(client, "day?key=2026-11-20").await.is_empty());

        // An event that is refused uses up nothing.
        let refused = json!({"id": "y", "member": "bob", "score": 1, "at": EVENING});
        let refused = client.post("/v1/boards/b/events", refused).await;
        refused.expect_problem(409, "period-closed");
        for id in ["bob-1", "bob-2"] {
            send(client, json!({"id": id, "member": "bob", "score": 1})).await;
        }
        // Behind the end of the board there is no open instant.
        close(&world.instances[1].service.engine, "2026-11-22T00:00:00Z").await;
        for event in [
            json!({"member": "cid", "score": 1}),
            json!({"id": "z", "member": "cid", "score": 1}),
        ] {
            let closed = client.post("/v1/boards/b/events", event).await;
            closed.expect_problem(409, "board-closed");
        }
    }
}
