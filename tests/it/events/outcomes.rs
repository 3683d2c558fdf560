//! Events: outcomes, retries, ranks, batches.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Client, World};

const NOW: &str = "2026-11-21T12:00:00Z";

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_is_answered_with_the_first_outcome_and_counts_once() {
    let world = World::with_instances(2, NOW).await;
    let client = world.client();
    client.define("b", json!({"windows": ["day", "last-7-days"], "accept_late": "1h", "closes_at": "2026-11-21T12:30:00Z"})).await;
    let event = json!({"id": "e", "member": "a", "score": 5});
    let first = client
        .post("/v1/boards/b/events?ranks=true", event.clone())
        .await
        .expect(200);
    assert_eq!(first["status"], "applied");
    assert_eq!(
        first["standings"][0],
        json!({"window": "day", "key": "2026-11-21", "score": 5, "previous_score": null, "rank": 1, "previous_rank": null})
    );
    client
        .post("/v1/boards/b/events", json!({"member": "a", "score": 5}))
        .await
        .expect(200);
    // Much later the event would be too late, and the board is closed; but it was taken.
    world.set_time("2026-11-22T12:00:00Z");
    let again = world.instances[1]
        .client
        .post("/v1/boards/b/events", event)
        .await
        .expect(200);
    assert_eq!(again["status"], "duplicate");
    assert_eq!(again["standings"], first["standings"]);
    let batch = json!({"events": [{"board": "b", "id": "e", "member": "a", "score": 5}]});
    let again = client.post("/v1/events", batch).await.expect(200);
    assert_eq!(again["results"][0]["status"], "duplicate");
    let page = client
        .get("/v1/boards/b/standings/day?key=2026-11-21")
        .await
        .expect(200);
    assert_eq!(page["entries"][0]["score"], 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_header_serves_as_id() {
    let world = World::start(NOW).await;
    let client = world.client();
    client.define("b", json!({"windows": ["all"]})).await;
    let send = |body: Value| {
        let request = client
            .builder(Method::POST, "/v1/boards/b/events")
            .header("idempotency-key", "k");
        Client::send(request.json(&body))
    };
    assert_eq!(
        send(json!({"member": "a", "score": 1})).await.expect(200)["id"],
        "k"
    );
    assert_eq!(
        send(json!({"member": "a", "score": 1})).await.expect(200)["status"],
        "duplicate"
    );
    assert_eq!(
        send(json!({"id": "k", "member": "a", "score": 1}))
            .await
            .expect(200)["status"],
        "duplicate"
    );
    send(json!({"id": "other", "member": "a", "score": 1}))
        .await
        .expect_problem(422, "validation-failed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_header_gives_the_events_of_a_batch_ids() {
    let world = World::start(NOW).await;
    let client = world.client();
    client.define("b", json!({"windows": ["all"]})).await;
    let send = |key: &'static str, body: Value| {
        let request = client
            .builder(Method::POST, "/v1/events")
            .header("idempotency-key", key);
        Client::send(request.json(&body))
    };
    let batch = json!({"events": [
        {"board": "b", "member": "a", "score": 1},
        {"board": "b", "member": "a", "score": "?"},
        {"board": "b", "id": "own", "member": "a", "score": 1},
        {"board": "b", "member": "a", "score": 1}]});
    let first = send("k", batch.clone()).await.expect(200);
    let fields = |results: &Value, field: &str| -> Vec<Value> {
        let results = results["results"].as_array().unwrap();
        results.iter().map(|result| result[field].clone()).collect()
    };
    assert_eq!(
        fields(&first, "id"),
        ["k/0", "", "own", "k/3"].map(|id| {
            if id.is_empty() {
                Value::Null
            } else {
                json!(id)
            }
        })
    );
    let again = send("k", batch.clone()).await.expect(200);
    let statuses = ["duplicate", "rejected", "duplicate", "duplicate"];
    assert_eq!(fields(&again, "status"), statuses.map(Value::from));
    let other = send("l", batch.clone()).await.expect(200);
    let statuses = ["applied", "rejected", "duplicate", "applied"];
    assert_eq!(fields(&other, "status"), statuses.map(Value::from));
    let page = client.get("/v1/boards/b/standings/all").await.expect(200);
    assert_eq!(page["entries"][0]["score"], 5);
    let long = Box::leak("k".repeat(127).into_boxed_str());
    let refused = send(long, batch).await.expect(200);
    let statuses = ["rejected", "rejected", "duplicate", "rejected"];
    assert_eq!(fields(&refused, "status"), statuses.map(Value::from));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_has_a_result_for_each_event_in_order() {
    let world = World::start(NOW).await;
    let client = world.client();
    client
        .define("sum", json!({"windows": ["day"], "decimals": 1}))
        .await;
    client
        .define("max", json!({"windows": ["day"], "update": "max"}))
        .await;
    let batch = json!({"events": [
        {"board": "sum", "id": "1", "member": "a", "score": 1.5},
        {"board": "max", "id": "1", "member": "a", "score": 7},
        {"board": "max", "member": "a", "score": 3},
        {"board": "sum", "id": "1", "member": "a", "score": 1.5},
        {"board": "sum", "member": "a", "score": 0.25},
        {"board": "sum", "member": "a"},
        {"board": "none", "member": "a", "score": 1},
        {"board": "sum", "id": "2", "member": "a", "score": 1},
        17
    ]});
    let answer = client.post("/v1/events", batch).await.expect(200);
    let results = answer["results"].as_array().unwrap();
    let statuses: Vec<&str> = results
        .iter()
        .map(|result| result["status"].as_str().unwrap())
        .collect();
    assert_eq!(
        statuses,
        [
            "applied",
            "applied",
            "unchanged",
            "duplicate",
            "rejected",
            "rejected",
            "rejected",
            "applied",
            "rejected"
        ]
    );
    assert_eq!(
        results[7]["standings"][0],
        json!({"window": "day", "key": "2026-11-21", "score": 2.5, "previous_score": 1.5})
    );
    assert_eq!(
        results[2]["standings"][0],
        json!({"window": "day", "key": "2026-11-21", "score": 7, "previous_score": 7})
    );
    let kinds: Vec<&Value> = [4, 5, 6, 8]
        .map(|index: usize| &results[index]["problem"]["type"])
        .to_vec();
    assert_eq!(
        kinds,
        [
            "/problems/score-out-of-range",
            "/problems/validation-failed",
            "/problems/board-not-found",
            "/problems/validation-failed"
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn bulk_loads_can_do_without_the_standings() {
    let world = World::start(NOW).await;
    let client = world.client();
    client
        .define(
            "b",
            json!({"windows": ["day", "last-7-days"], "accept_late": "any"}),
        )
        .await;
    let event = json!({"id": "e", "member": "a", "score": 5, "at": "2020-01-01T00:00:00Z"});
    let first = client
        .post("/v1/boards/b/events?standings=false", event.clone())
        .await
        .expect(200);
    assert_eq!(
        (&first["status"], &first["standings"]),
        (&json!("applied"), &json!([]))
    );
    let again = client.post("/v1/boards/b/events", event).await.expect(200);
    assert_eq!(
        (&again["status"], &again["standings"]),
        (&json!("duplicate"), &json!([]))
    );
    let page = client
        .get("/v1/boards/b/standings/last-7-days?key=2020-01-07")
        .await
        .expect(200);
    assert_eq!(page["entries"][0]["score"], 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn ranks_in_many_past_standings_at_once_are_told() {
    let world = World::start(NOW).await;
    let client = world.client();
    client
        .define(
            "b",
            json!({"windows": ["last-6-hours"], "accept_late": "any"}),
        )
        .await;
    // More than a window keeps of those that were built for a read.
    let events: Vec<Value> = (10..40)
        .map(|hours| {
            let day = 21 - hours / 24;
            let hour = 23 - hours % 24;
            json!({"board": "b", "member": "a", "score": 1, "at": format!("2026-10-{day:02}T{hour:02}:00:00Z")})
        })
        .collect();
    let answer = client
        .post("/v1/events?ranks=true", json!({"events": events}))
        .await
        .expect(200);
    for result in answer["results"].as_array().unwrap() {
        assert_eq!(result["standings"][0]["rank"], 1, "{result}");
    }
}
