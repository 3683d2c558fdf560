//! Events that were taken and can't be applied: dead letters of their board, which the topic for them has, too.

use std::time::{Duration, UNIX_EPOCH};

use rdkafka::Message;
use serde_json::{Value, json};

use crate::harness::Client;
use crate::harness::redis::eventually;
use crate::site::Site;
use crate::votes::{BOARD, Scores, Writer, definition, header, member, read, vote};

/// How long ago an event was queued that is too old.
const LONG_AGO: Duration = Duration::from_hours(25);

async fn letters(client: &Client) -> Vec<Value> {
    let path = format!("/v1/boards/{BOARD}/dead-letters");
    let list = client.get(&path).await.expect(200);
    list["dead_letters"].as_array().unwrap().clone()
}

/// The id of the letter whose event could not be applied.
async fn failed(client: &Client) -> Option<String> {
    let letters = letters(client).await;
    let failed = letters.iter().find(|letter| letter["reason"] == "failed")?;
    Some(failed["id"].as_str().unwrap().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_go_to_their_topic_and_no_queue_waits_for_missing_brokers() {
    let site = Site::start(1).await;
    let program = site.serve().await;
    let client = program.client();
    client.define(BOARD, definition()).await;
    let writer = Writer::new(&site.topic);
    writer.write_all(1..100);
    writer.flush();
    Scores::of(1..100).wait_for(&client).await;
    // One is too old, and one breaks its call off, since the keys of standings are damaged.
    let queued_at = UNIX_EPOCH.elapsed().unwrap().checked_sub(LONG_AGO).unwrap();
    let key = format!("{BOARD}/{}", member(107));
    writer.write(
        &key,
        Some(vote(107).to_string().as_bytes()),
        &[("standings-queued-at", &queued_at.as_micros().to_string())],
    );
    let keys: &[&[u8]] = &[b"KEYS", b"st:{show*}:*:s:*"];
    for key in site.redis.run(keys).await.list() {
        site.redis.run(&[b"SET", key.bytes(), b"x"]).await;
    }
    writer.vote(108);
    writer.flush();
    eventually("both are dead letters", async || {
        letters(&client).await.len() == 2
    })
    .await;
    let mut told = Vec::new();
    eventually("the topic has both", async || {
        read(&site.dead_letters).len() >= 2
    })
    .await;
    for record in read(&site.dead_letters) {
        let value: Value = serde_json::from_slice(record.payload().unwrap()).unwrap();
        let number = if value["id"] == "v-107" { 107 } else { 108 };
        assert_eq!(value, vote(number));
        let key = format!("{BOARD}/{}", member(number));
        assert_eq!(record.key(), Some(key.as_bytes()));
        let header = |name: &str| header(&record, &format!("standings-{name}"));
        assert!(header("dead-queue").unwrap().contains(BOARD));
        assert!(header("dead-entry").is_some() && header("generation").is_some());
        assert!(!header("dead-detail").unwrap().is_empty());
        assert_eq!(header("dead-offset"), None);
        told.push((number, header("dead-reason").unwrap()));
    }
    told.sort_unstable();
    told.dedup();
    let expected =
        [(107, "too-old"), (108, "failed")].map(|(number, reason)| (number, reason.to_owned()));
    assert_eq!(told, expected);
    let before = failed(&client).await.unwrap();
    site.broker.as_ref().unwrap().kill();
    let replay = format!("/v1/boards/{BOARD}/dead-letters/{before}/replay");
    client.post(&replay, json!({})).await.expect(202);
    eventually("it is a dead letter again", async || {
        failed(&client).await.is_some_and(|again| again != before)
    })
    .await;
    let log = program.stop().await;
    assert!(
        log.contains("the topic for dead letters may lack some"),
        "{log}"
    );
}
