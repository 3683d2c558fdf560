//! A broker that is away for a while, and a Redis that comes back as it was before.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::redis::eventually;
use crate::site::Site;
use crate::votes::{BOARD, Scores, Writer, definition, vote};

#[tokio::test(flavor = "multi_thread")]
async fn while_the_broker_is_away_events_are_refused_and_then_they_count_once() {
    let site = Site::start(2).await;
    let program = site.serve().await;
    let client = program.client();
    client.define(BOARD, definition()).await;
    let batch = |numbers: std::ops::Range<usize>| {
        let votes: Vec<Value> = numbers.map(vote).collect();
        json!({"events": votes})
    };
    let taken = client.post("/v1/events", batch(0..100)).await.expect(200);
    assert_eq!(taken["results"][99]["status"], "queued");
    Scores::of(0..100).wait_for(&client).await;
    let broker = site.broker.as_ref().unwrap();
    broker.kill();
    // Some of them may be in the topic after all: the same ids count once.
    let refused = client
        .once()
        .post("/v1/events", batch(90..110))
        .await
        .expect(200);
    for result in refused["results"].as_array().unwrap() {
        assert_eq!(result["problem"]["code"], "log-unavailable", "{result}");
    }
    let page = client
        .get(&format!("/v1/boards/{BOARD}/standings/all"))
        .await;
    assert_eq!(page.status, 200);
    assert_eq!(client.get("/readyz").await.status, 200);
    broker.restart().await;
    eventually("events are taken again", async || {
        let answer = client.once().post("/v1/events", batch(90..200)).await;
        let results = answer.json["results"].as_array().unwrap();
        results.iter().all(|result| result["status"] == "queued")
    })
    .await;
    Scores::of(0..200).wait_for(&client).await;
    // What others have written meanwhile is there as well.
    let writer = Writer::new(&site.topic);
    writer.write_all(200..1_000);
    writer.flush();
    Scores::of(0..1_000).wait_for(&client).await;
    program.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_went_back_gets_lost_records_from_the_topic_again() {
    let site = Site::start(3).await;
    let program = site.serve().await;
    let client = program.client();
    client.define(BOARD, definition()).await;
    let writer = Writer::new(&site.topic);
    writer.write_all(0..2_000);
    writer.flush();
    Scores::of(0..2_000).wait_for(&client).await;
    let earlier = site.redis.copy_data();
    writer.write_all(2_000..5_000);
    writer.flush();
    Scores::of(0..5_000).wait_for(&client).await;
    site.redis.go_back(Some(&earlier)).await;
    writer.write_all(5_000..6_000);
    writer.flush();
    Scores::of(0..6_000).wait_for(&client).await;
    // Also while nobody was there to see it.
    program.die().await;
    site.redis.go_back(Some(&earlier)).await;
    let next = site.serve().await;
    Scores::of(0..6_000).wait_for(&next.client()).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(Scores::shown(&next.client()).await, Scores::of(0..6_000));
    next.stop().await;
}
