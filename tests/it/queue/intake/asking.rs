//! Events that requests queue go into the log, and it is told what became of them.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use super::log::{Site, record};

const EVENTS: &str = "/v1/boards/b/events";

async fn site() -> Site {
    let site = Site::start(1).await;
    let definition = json!({"windows": ["all"], "shards": 2, "ingest": "async"});
    site.client().define("b", definition).await;
    site
}

async fn status(site: &Site, id: &str) -> Value {
    let path = format!("{EVENTS}?id={id}&member=ann");
    site.client().get(&path).await.expect(200)["events"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queued_event_is_appended_to_the_log_and_reported_as_queued() {
    let site = site().await;
    let event = json!({"id": "1", "member": "ann", "score": 5});
    let answer = site.client().post(EVENTS, event).await.expect(202);
    assert_eq!(answer["status"], "queued");
    assert_eq!((site.waiting().await, site.log.all().len()), (0, 1));
    let in_log = status(&site, "1").await;
    assert_eq!(in_log[0]["status"], "queued");
    assert_eq!(in_log[0]["queued_at"], "2026-11-21T12:00:00.000Z");
    assert_eq!(status(&site, "2").await, json!([]));
    let without_member = site
        .client()
        .get(&format!("{EVENTS}?id=1"))
        .await
        .expect(200);
    assert_eq!(without_member["events"], in_log);
    for number in 0..super::log::PARTITIONS {
        site.consumer(0, number).await.take_all().await;
    }
    assert_eq!(site.waiting().await, 1);
    assert_eq!(status(&site, "1").await, in_log);
    site.finish().await;
    assert_eq!(status(&site, "1").await[0]["status"], "applied");
    // What is refused by itself is told at once, and what has no id gets one.
    let old = json!({"id": "old", "member": "ann", "score": 5, "at": "2026-11-01T00:00:00Z"});
    site.client()
        .post(EVENTS, old)
        .await
        .expect_problem(422, "event-too-late");
    let without_id = json!({"member": "ann", "score": 5});
    let answer = site.client().post(EVENTS, without_id).await.expect(202);
    let id = answer["id"].as_str().unwrap();
    assert_eq!(status(&site, id).await[0]["status"], "queued");
    // An event of this id by both ways counts once, the sooner one.
    let twice = json!({"id": "twice", "member": "ann", "score": 5});
    site.client().post(EVENTS, twice.clone()).await.expect(202);
    let definition = json!({"ingest": "sync"});
    site.client()
        .patch("/v1/boards/b", definition)
        .await
        .expect(200);
    site.client().post(EVENTS, twice).await.expect(200);
    site.finish().await;
    assert_eq!(site.scores("b").await["ann"], 15);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_acknowledged_without_an_answer_from_the_log() {
    let site = site().await;
    site.client()
        .define("sync", json!({"windows": ["all"]}))
        .await;
    site.log.is_away.store(true, Ordering::Relaxed);
    let event = json!({"id": "1", "member": "ann", "score": 5});
    let once = site.client().once();
    let answer = once.post(EVENTS, event.clone()).await;
    answer.expect_problem(503, "log-unavailable");
    let of = |board: &str| json!({"board": board, "id": "2", "member": "ann", "score": 5});
    let batch = json!({"events": [of("sync"), of("b")]});
    let results = site.client().post("/v1/events", batch).await.expect(200);
    assert_eq!(results["results"][0]["status"], "applied");
    assert_eq!(results["results"][1]["problem"]["code"], "log-unavailable");
    let path = format!("{EVENTS}?id=1&member=ann");
    let answer = once.get(&path).await;
    answer.expect_problem(503, "log-unavailable");
    site.log.is_away.store(false, Ordering::Relaxed);
    site.client().post(EVENTS, event).await.expect(202);
    // Too much is to be read to tell that there is no such event.
    site.log.looks_max.store(3, Ordering::Relaxed);
    for _ in 0..9 {
        site.log.write(0, record("b", None, "ann"));
    }
    assert_eq!(status(&site, "1").await[0]["status"], "queued");
    let path = format!("{EVENTS}?id=none&member=ann");
    once.get(&path).await.expect_problem(503, "log-too-long");
    site.finish().await;
    assert_eq!(status(&site, "none").await, json!([]));
    assert_eq!(site.scores("b").await["ann"], 14);
}
