//! Events: outcomes, retries, ranks, batches.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Client, World};

const NOW: &str = "2026-11-21T12:00:00Z";

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_returns_the_first_outcome_and_counts_once() {
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
async fn a_header_gives_the_id_of_one_event_but_not_of_a_batch() {
    let world = World::start(NOW).await;
    let client = world.client();
    client.define("b", json!({"windows": ["all"]})).await;
    let event = |id: &str| json!({"board": "b", "id": id, "member": "a", "score": 1});
    let without_id = json!({"board": "b", "member": "a", "score": 1});
    let batch = |events: &[Value]| json!({ "events": events }).to_string();
    for body in [
        batch(&[]),
        batch(std::slice::from_ref(&without_id)),
        batch(&[event("1")]),
        batch(&[event("1"), without_id.clone()]),
        batch(&[event("1"), event("2")]),
        event("1").to_string(),
        String::new(),
    ] {
        for key in ["k", "1", ""] {
            let request = client
                .builder(Method::POST, "/v1/events")
                .header("content-type", "application/json")
                .header("idempotency-key", key);
            let answer = Client::send(request.body(body.clone())).await;
            let detail = answer.expect_problem(422, "validation-failed");
            assert!(detail.contains("Idempotency-Key"), "{body}: {detail}");
            assert!(detail.contains("`id`"), "{body}: {detail}");
        }
    }
    let page = client.get("/v1/boards/b/standings/all").await.expect(200);
    assert_eq!(page["total"], 0);
}

/// The events that were refused, sent again as a batch of their own, count as in the first one.
#[tokio::test(flavor = "multi_thread")]
async fn sending_part_of_a_batch_again_loses_and_doubles_nothing() {
    let world = World::start(NOW).await;
    let client = world.client();
    let quotas = json!([{"name": "q", "by": ["member"], "window": "1s", "max": 1}]);
    let definition = json!({"windows": ["all"], "quotas": quotas});
    client.define("b", definition).await;
    let event = |id: &str, member: &str, score: f64| json!({"board": "b", "id": id, "member": member, "score": score});
    let send = async |events: &[Value]| {
        let answer = client.post("/v1/events", json!({ "events": events })).await;
        let results = answer.expect(200)["results"].take();
        let statuses = results
            .as_array()
            .unwrap()
            .iter()
            .map(|result| result["status"].as_str().unwrap().to_owned());
        statuses.collect::<Vec<_>>()
    };
    let [first, second] = ["1", "2"].map(|id| event(id, "ann", 1.0));
    let (half, last) = (event("3", "bob", 0.5), event("4", "cid", 7.0));
    let batch = [first.clone(), second.clone(), half, last.clone()];
    let statuses = ["applied", "rejected", "rejected", "applied"];
    assert_eq!(send(&batch).await, statuses);
    world.set_time("2026-11-21T12:00:02Z");
    assert_eq!(send(&[second]).await, ["applied"]);
    assert_eq!(send(&[first, last]).await, ["duplicate"; 2]);
    let page = client.get("/v1/boards/b/standings/all").await.expect(200);
    let scores: Vec<_> = page["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| (&entry["member"], &entry["score"]))
        .collect();
    assert_eq!(
        scores,
        [(&json!("cid"), &json!(7)), (&json!("ann"), &json!(2))]
    );
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
async fn bulk_loads_can_leave_out_the_standings() {
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
async fn an_event_in_many_past_standings_returns_its_rank_in_each() {
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

#[tokio::test(flavor = "multi_thread")]
async fn an_event_in_the_future_learns_how_long_to_wait() {
    let world = World::start(NOW).await;
    let client = world.client();
    let definition = json!({"windows": ["all"], "closes_at": "2026-11-21T13:00:00Z"});
    client.define("b", definition).await;
    let path = "/v1/boards/b/events";
    for (at, wait_s) in [
        ("2026-11-21T12:01:00.001Z", 1),
        ("2026-11-21T12:01:04.5Z", 5),
        ("2026-11-21T12:59:59Z", 3_539),
    ] {
        let mut event = json!({"id": at, "member": "a", "score": 1, "at": at});
        let answer = client.post(path, event.clone()).await;
        assert_eq!(answer.headers["retry-after"], wait_s.to_string(), "{at}");
        answer.expect_problem(422, "event-in-future");
        event["board"] = "b".into();
        let batch = json!({"events": [event]});
        let results = client.post("/v1/events", batch).await.expect(200);
        let problem = &results["results"][0]["problem"];
        assert_eq!(problem["retry_after"], wait_s, "{problem}");
    }
    // What waiting does not help is told at once.
    for (at, score, status) in [
        ("2026-11-21T13:00:00Z", 1.0, 409),
        ("2026-11-21T12:30:00Z", 0.5, 422),
    ] {
        let event = json!({"id": "never", "member": "a", "score": score, "at": at});
        let answer = client.post(path, event).await;
        assert_eq!(answer.status, status, "{}", answer.text);
        assert!(!answer.headers.contains_key("retry-after"), "{at}");
    }
    world.set_time("2026-11-21T12:00:05Z");
    let event = json!({"id": "2026-11-21T12:01:04.5Z", "member": "a", "score": 1, "at": "2026-11-21T12:01:04.5Z"});
    let counted = client.post(path, event).await.expect(200);
    assert_eq!(counted["status"], "applied");
}
