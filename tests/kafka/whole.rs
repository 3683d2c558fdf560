//! From a request to the topic, and from there to the standing: with any broker (`STANDINGS_TEST_KAFKA`).

use std::collections::BTreeMap;

use rdkafka::Message;
use serde_json::{Value, json};

use crate::harness::Client;
use crate::harness::redis::eventually;
use crate::site::Site;
use crate::votes::{BOARD, Scores, Writer, definition, header, poison, read, send};

async fn status(client: &Client, id: &str) -> Value {
    let path = format!("/v1/boards/{BOARD}/events?id={id}");
    let answer = client.get(&path).await.expect(200);
    answer["events"].clone()
}

async fn wait_for(client: &Client, id: &str, wanted: &str) -> Value {
    eventually("the event has ended", async || {
        status(client, id).await[0]["status"] == wanted
    })
    .await;
    status(client, id).await[0].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn events_go_through_the_topic_and_count_once() {
    let site = Site::start_on_any(3).await;
    let (one, two) = (site.serve().await, site.serve().await);
    let (client, other) = (one.client(), two.client());
    client.define(BOARD, definition()).await;
    let mut at = BTreeMap::new();
    for client in [&client, &other, &client] {
        for result in send(client, 0..300).await {
            let id = result["id"].as_str().unwrap().to_owned();
            at.entry(id).or_insert_with(|| result["at"].clone());
        }
    }
    Scores::of(0..300).wait_for(&other).await;
    let applied = wait_for(&client, "v-7", "applied").await;
    assert_eq!(applied["outcome"], "applied");
    // The service tells the time for which the event counts, and no instance another one.
    let records = read(&site.topic);
    let own: Vec<_> = records
        .iter()
        .filter(|record| header(record, "standings-generation").is_some())
        .collect();
    assert_eq!(own.len(), records.len());
    assert!(records.len() >= 300, "{}", records.len());
    let first = records
        .iter()
        .find(|record| {
            let value: Value = serde_json::from_slice(record.payload().unwrap()).unwrap();
            value["id"] == "v-7" && value.get("at").is_none()
        })
        .unwrap();
    assert_eq!(first.key(), Some(format!("{BOARD}/m49").as_bytes()));
    // One that is sent without queue is the same event.
    let sent = json!({"id": "v-7", "member": "m49", "score": 8, "voter": null});
    let answer = client
        .post(&format!("/v1/boards/{BOARD}/events"), sent)
        .await;
    assert!(
        [200, 202].contains(&answer.status.as_u16()),
        "{}",
        answer.text
    );
    let events = format!("/v1/boards/{BOARD}/events");
    let alone = client
        .post(&events, json!({"member": "zed", "score": 5}))
        .await
        .expect(202);
    let applied = wait_for(&client, alone["id"].as_str().unwrap(), "applied").await;
    assert_eq!(applied["at"], alone["at"]);
    one.stop().await;
    two.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn records_of_other_producers_are_taken_and_invalid_ones_become_dead_letters() {
    let site = Site::start_on_any(2).await;
    let program = site.serve().await;
    let client = program.client();
    client.define(BOARD, definition()).await;
    let league = json!({"windows": ["week"], "score_min": 0, "league": {"tiers": [{"name": "one", "promote": 0, "demote": 0}]}});
    client.define("league", league).await;
    let writer = Writer::new(&site.topic);
    writer.write_all(0..801);
    // Without id it counts as often as it is written, and without a key it is taken, too.
    let anonymous = json!({"board": BOARD, "member": "anon", "score": 2}).to_string();
    for _ in 0..3 {
        writer.write("", Some(anonymous.as_bytes()), &[]);
    }
    // A board of the same name that was deleted.
    let former =
        json!({"board": BOARD, "id": "former", "member": "anon", "score": 100}).to_string();
    writer.write(
        "",
        Some(former.as_bytes()),
        &[("standings-generation", "999999")],
    );
    writer.write(
        "",
        Some(former.as_bytes()),
        &[("standings-generation", "no number")],
    );
    writer.flush();
    let mut expected = Scores::of(0..801);
    expected.0.insert("anon".to_owned(), 6);
    expected.wait_for(&client).await;
    let mut dead = Vec::new();
    eventually("all dead records are told", async || {
        read(&site.dead_letters).len() >= 11
    })
    .await;
    dead.extend(read(&site.dead_letters));
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    for record in &dead {
        *reasons
            .entry(header(record, "standings-dead-reason").unwrap())
            .or_default() += 1;
        assert_eq!(
            header(record, "standings-dead-topic").as_deref(),
            Some(site.topic.name.as_str())
        );
        let number: i32 = header(record, "standings-dead-partition")
            .unwrap()
            .parse()
            .unwrap();
        let offset: i64 = header(record, "standings-dead-offset")
            .unwrap()
            .parse()
            .unwrap();
        let originals = read(&site.topic);
        let original = originals
            .iter()
            .find(|one| one.partition() == number && one.offset() == offset);
        assert_eq!(original.unwrap().payload(), record.payload());
    }
    assert_eq!(poison(600), None);
    let expected: BTreeMap<String, usize> = [
        ("deleted-board", 1),
        ("invalid-header", 1),
        ("league", 1),
        ("malformed-json", 3),
        ("no-value", 1),
        ("unknown-board", 1),
        ("validation-failed", 3),
    ]
    .map(|(reason, count)| (reason.to_owned(), count))
    .into();
    assert_eq!(reasons, expected);
    let metrics = client.get("/metrics").await.text;
    assert!(
        metrics.contains("standings_kafka_records_total{status=\"dead\"} 11"),
        "{metrics}"
    );
    let log = program.stop().await;
    assert!(
        log.contains("a Kafka record was rejected") && !log.contains("no JSON"),
        "{log}"
    );
}
