//! Real input: flights, sent in a random order and partly twice, against results that were computed by no
//! code of this project.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;

use flate2::read::GzDecoder;
use futures::stream::{self, StreamExt};
use serde_json::{Value, json};

use crate::harness::random::{Random, case_count, seed};
use crate::harness::{World, repository};

/// After all events.
const NOW: &str = "2014-01-02T00:00:00Z";
/// Events per request.
const BATCH: usize = 1_000;
/// Requests under way at once.
const CONCURRENCY: usize = 4;

fn read_events(path: &Path, board: &str) -> Vec<Value> {
    let mut text = String::new();
    GzDecoder::new(std::fs::File::open(path).unwrap())
        .read_to_string(&mut text)
        .unwrap();
    let rows = text.lines().skip(1).map(|line| {
        let fields: Vec<&str> = line.split(',').collect();
        let score: i64 = fields[2].parse().unwrap();
        json!({"board": board, "id": fields[0], "member": fields[1], "score": score, "at": fields[3]})
    });
    rows.collect()
}

fn read_json(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

async fn send(world: &World, batches: Vec<Value>) {
    let answers = stream::iter(batches.into_iter().enumerate())
        .map(async |(index, batch)| {
            let instance = &world.instances[index % world.instances.len()];
            instance.client.post_until_taken("/v1/events", &batch).await
        })
        .buffer_unordered(CONCURRENCY);
    let bad: Vec<Value> = answers
        .flat_map(|answer| stream::iter(answer["results"].as_array().unwrap().clone()))
        .filter(|result| {
            let is_good = result["status"] == "applied" || result["status"] == "duplicate";
            std::future::ready(!is_good)
        })
        .collect()
        .await;
    assert!(bad.is_empty(), "{}", bad[0]);
}

async fn check(world: &World, expected: &Value) {
    for (index, standing) in expected["standings"].as_array().unwrap().iter().enumerate() {
        let client = &world.instances[index % world.instances.len()].client;
        let (window, key) = (
            standing["period"].as_str().unwrap(),
            standing["key"].as_str().unwrap(),
        );
        let path = format!("/v1/boards/flights/standings/{window}");
        let page = client
            .get(&format!("{path}?key={key}&size=10"))
            .await
            .expect(200);
        assert_eq!(page["total"], standing["total"], "{window} {key}");
        for (entry, wanted) in page["entries"]
            .as_array()
            .unwrap()
            .iter()
            .zip(standing["top"].as_array().unwrap())
        {
            for field in ["rank", "member", "score"] {
                assert_eq!(entry[field], wanted[field], "{window} {key}: {entry}");
            }
            let reached_at = entry["reached_at"].as_str().unwrap().replace(".000Z", "Z");
            assert_eq!(
                reached_at,
                wanted["reached_at"].as_str().unwrap(),
                "{window} {key}: {entry}"
            );
        }
        let middle = &standing["middle"];
        let member = middle["member"].as_str().unwrap();
        let found = client
            .get(&format!("{path}/members/{member}?key={key}"))
            .await
            .expect(200);
        for field in ["rank", "score"] {
            assert_eq!(found[field], middle[field], "{window} {key} {member}");
        }
        for field in ["member", "score"] {
            assert_eq!(
                found["ahead"][field], middle["ahead"][field],
                "{window} {key} {member}"
            );
        }
        let gap = middle["ahead"]["score"].as_i64().unwrap() - middle["score"].as_i64().unwrap();
        assert_eq!(found["ahead"]["gap"], gap, "{window} {key} {member}");
    }
}

async fn replay(events: &Path, expected: &Path, shards_max: usize) {
    let (events, expected) = (read_events(events, "flights"), read_json(expected));
    for case in 0..case_count(1) {
        let mut random = Random::new(seed(case as u64));
        let shards = 1 + random.below(shards_max);
        replay_on(shards, random, events.clone(), &expected).await;
    }
}

async fn replay_on(shards: usize, mut random: Random, mut events: Vec<Value>, expected: &Value) {
    let windows: BTreeSet<&str> = expected["standings"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|one| one["period"].as_str())
        .collect();
    let world = World::with_instances(2, NOW).await;
    let definition = json!({
        "windows": windows, "timezone": expected["timezone"], "week_start": expected["week_start"],
        "ties": expected["ties"], "accept_late": "any", "shards": shards,
    });
    world.client().define("flights", definition).await;

    let repeated: Vec<Value> = events
        .iter()
        .filter(|_| random.below(20) == 0)
        .cloned()
        .collect();
    events.extend(repeated);
    random.shuffle(&mut events);
    let batches = events
        .chunks(BATCH)
        .map(|batch| json!({"events": batch}))
        .collect();
    send(&world, batches).await;
    check(&world, expected).await;
}

/// A month, on a random number of shards.
#[tokio::test(flavor = "multi_thread")]
async fn a_month_of_shuffled_and_repeated_events_is_exact() {
    let fixtures = repository().join("tests/fixtures");
    let events = fixtures.join("flights-2013-03.csv.gz");
    replay(&events, &fixtures.join("flights-2013-03.expected.json"), 16).await;
}

/// The whole year, where its file lies beside the repository.
#[tokio::test(flavor = "multi_thread")]
async fn a_year_of_shuffled_and_repeated_events_is_exact() {
    let data = repository().join("../shared/data");
    let events = data.join("flights-2013.csv.gz");
    if events.exists() {
        replay(&events, &data.join("flights-2013.expected.json"), 8).await;
    }
}
