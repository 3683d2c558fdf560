//! Redis goes back behind its last writes, as if it had lost its last second. The queue and the standings go back together, so each event
//! is in one of them, or was lost with its answer; and what is sent again counts once.

use std::ops::Range;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::applying::{EVENTS, assert_clean, drain, length, run, total, world};
use crate::harness::jobs::ListQueues;
use crate::harness::redis::{Reply, eventually};
use crate::harness::{RedisServer, World};
use standings::check;

/// More than one call applies.
const MANY: usize = 600;

/// The data of each server as it is now.
fn copy(world: &World) -> Vec<TempDir> {
    world
        .redis
        .nodes
        .iter()
        .map(RedisServer::copy_data)
        .collect()
}

/// Has servers go back to their copies, and instances find that out as they do by themselves.
async fn go_back(world: &World, copies: &[TempDir], servers: impl IntoIterator<Item = usize>) {
    for server in servers {
        let redis = &world.redis.nodes[server];
        redis.go_back(Some(&copies[server])).await;
    }
    world.redis.wait_until_ready().await;
    for instance in &world.instances {
        let engine = &instance.engine;
        eventually("redis is there again", async || {
            engine.store.check().await.is_ok() && engine.refresh_boards().await.is_ok()
        })
        .await;
        engine.run(&ListQueues).await.unwrap();
    }
}

async fn all_go_back(world: &World, copies: &[TempDir]) {
    go_back(world, copies, 0..copies.len()).await;
}

/// Queues a point for each number, for one of seven members, and is told so.
async fn queue(world: &World, numbers: Range<usize>) {
    let event = |number: usize| json!({"board": "b", "id": format!("e{number}"), "member": format!("m{}", number % 7), "score": 1});
    let events: Vec<Value> = numbers.map(event).collect();
    let body = json!({"events": events});
    let answer = world.client().post_until_taken("/v1/events", &body).await;
    let results = answer["results"].as_array().unwrap();
    assert!(results.iter().all(|result| result["status"] == "queued"));
}

/// What became of an event.
async fn fate(world: &World, number: usize) -> Value {
    let path = format!("{EVENTS}?id=e{number}&member=m{}", number % 7);
    world.client().get(&path).await.expect(200)["events"].clone()
}

/// Has all applied, and compares the sum of all scores with the number of events.
async fn expect_total(world: &World, events: usize) {
    drain(world, &world.instances[0]).await;
    assert_eq!(total(world.client()).await, i64::try_from(events).unwrap());
    assert_clean(world).await;
    assert!(
        check::run(world.engine(), None, check::Repair::None)
            .await
            .unwrap()
            .is_sound()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_event_is_not_found_and_counts_once_if_sent_again() {
    for shards in [1, 3] {
        for waiting in [1, 20] {
            let world = world(1, json!({ "shards": shards })).await;
            queue(&world, 0..waiting).await;
            let copies = copy(&world);
            queue(&world, waiting..waiting + 10).await;
            assert_eq!(fate(&world, waiting).await[0]["status"], "queued");
            all_go_back(&world, &copies).await;
            assert_eq!(fate(&world, waiting).await, json!([]));
            expect_total(&world, waiting).await;
            assert_eq!(fate(&world, waiting).await, json!([]));
            for _ in 0..2 {
                queue(&world, 0..waiting + 10).await;
                expect_total(&world, waiting + 10).await;
                assert_eq!(fate(&world, waiting).await[0]["status"], "applied");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_whose_application_was_lost_waits_again_and_counts_once() {
    for is_amid in [false, true] {
        let world = world(1, json!({"shards": 2})).await;
        let sent = i64::try_from(MANY).unwrap();
        queue(&world, 0..MANY).await;
        let applying = is_amid.then(|| world.instances[0].apply_queues());
        if is_amid {
            eventually("some are applied", async || {
                length(&world, "queue").await < sent
            })
            .await;
        }
        let copies = copy(&world);
        drop(applying);
        expect_total(&world, MANY).await;
        // These are put and applied behind the copy.
        queue(&world, MANY..MANY + 20).await;
        expect_total(&world, MANY + 20).await;
        all_go_back(&world, &copies).await;
        let waiting = length(&world, "queue").await;
        assert_eq!(total(world.client()).await + waiting, sent);
        if !is_amid {
            assert_eq!(waiting, sent);
            assert_eq!(fate(&world, 1).await[0]["status"], "queued");
        }
        expect_total(&world, MANY).await;
        assert_eq!(fate(&world, MANY).await, json!([]));
        for _ in 0..2 {
            queue(&world, 0..MANY + 20).await;
            expect_total(&world, MANY + 20).await;
        }
    }
}

/// Waits until no queue is in the index.
async fn expect_unlisted(world: &World) {
    eventually("no queue is listed", async || {
        run(&world.instances[0]).await;
        let listed: &[&[u8]] = &[b"ZCARD", b"st:{boards}:queues"];
        world.redis.run(listed).await == Reply::Integer(0)
    })
    .await;
}

/// The servers that do not have the index; the only one, if there is one.
async fn without_index(world: &World) -> Vec<usize> {
    let mut servers = Vec::new();
    for (server, redis) in world.redis.nodes.iter().enumerate() {
        let words: &[&[u8]] = &[b"KEYS", b"st:{boards}*"];
        if world.redis.nodes.len() == 1 || redis.run(words).await.list().is_empty() {
            servers.push(server);
        }
    }
    servers
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_left_the_index_is_processed_after_redis_goes_back() {
    for is_used_again in [false, true] {
        let world = world(1, json!({"shards": 4})).await;
        queue(&world, 0..20).await;
        expect_total(&world, 20).await;
        let copies = copy(&world);
        expect_unlisted(&world).await;
        if is_used_again {
            queue(&world, 20..40).await;
            expect_total(&world, 40).await;
        }
        go_back(&world, &copies, without_index(&world).await).await;
        queue(&world, 0..60).await;
        expect_total(&world, 60).await;
        expect_unlisted(&world).await;
        queue(&world, 60..80).await;
        expect_total(&world, 80).await;
    }
}

/// It may be in the index before anything waits in it, and its listing may be lost with what waits.
#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_joined_the_index_is_indexed_again_after_redis_goes_back() {
    let world = world(1, json!({"shards": 4})).await;
    let copies = copy(&world);
    queue(&world, 0..20).await;
    expect_total(&world, 20).await;
    all_go_back(&world, &copies).await;
    assert_eq!(total(world.client()).await, 0);
    for _ in 0..2 {
        queue(&world, 0..40).await;
        expect_total(&world, 40).await;
        expect_unlisted(&world).await;
    }
}
