//! The memory that a board is said to take is about what its keys take.

use serde_json::{Value, json};
use standings::redis::keys::take_apart;

use crate::harness::jobs::Purge;
use crate::harness::redis::Reply;
use crate::harness::{World, keys};

const NOW: &str = "2026-11-21T12:00:00Z";

/// How many keys the board has that do not expire by themselves, and how many bytes these take.
async fn measured(world: &World) -> (u64, u64) {
    let (mut count, mut bytes) = (0, 0);
    for key in world.redis.keys(&keys::pattern("b")).await {
        let lasts = world.redis.run(&[b"PTTL", key.as_bytes()]).await;
        if take_apart(&key).unwrap().kind.unwrap().is_swept() && lasts != Reply::Integer(-1) {
            continue;
        }
        let size = world
            .redis
            .run(&[b"MEMORY", b"USAGE", key.as_bytes()])
            .await;
        let Reply::Integer(size) = size else {
            panic!("{key}: {size:?}")
        };
        (count, bytes) = (count + 1, bytes + u64::try_from(size).unwrap());
    }
    (count, bytes)
}

/// Checks that the estimate is right up to these factors, in percent.
async fn check(world: &World, percent: u64) -> Value {
    let answer = world.client().get("/v1/boards/b/memory").await.expect(200);
    let (count, bytes) = measured(world).await;
    for (field, right) in [("keys", count), ("bytes", bytes)] {
        let estimate = answer[field].as_u64().unwrap();
        let is_near = estimate * 100 <= right * percent && right * 100 <= estimate * percent;
        assert!(is_near, "{field} are {right}: {answer}");
    }
    let used = world.redis.run(&[b"INFO", b"memory"]).await.text();
    let used = used
        .lines()
        .find_map(|line| line.strip_prefix("used_memory:"));
    let used: u64 = used.unwrap().trim().parse().unwrap();
    assert!(answer["bytes"].as_u64().unwrap() < used, "{used}: {answer}");
    answer
}

/// An event of each of these members on each of these days.
async fn send(world: &World, members: usize, days: impl Iterator<Item = usize>) {
    for day in days {
        let events: Vec<Value> = (0..members).map(|member| {
            json!({"board": "b", "member": format!("member-{member}"), "score": member, "voter": format!("v{day}"),
                "at": format!("2026-{:02}-{:02}T12:00:00Z", 1 + day / 28, 1 + day % 28)})
        }).collect();
        for part in events.chunks(1_000) {
            let body = json!({ "events": part });
            world
                .client()
                .post("/v1/events?standings=false", body)
                .await
                .expect(200);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_few_large_keys_among_many_small_ones_are_measured() {
    let world = World::start(NOW).await;
    for shards in [1, 3] {
        let definition = json!({"windows": ["day", "last-2-days", "all"], "uniques": "member", "shards": shards,
            "accept_late": "any", "quotas": [{"name": "once", "by": ["voter", "member"], "window": "total", "max": 1_000}]});
        world.client().define("b", definition).await;
        // Nothing but what the definition takes: all of it is measured.
        let answer = check(&world, 100).await;
        assert_eq!(answer["keys"], answer["sampled"]);
        send(&world, 3_000, 296..298).await;
        check(&world, 130).await;
        // The keys that count the voters of most members are gone, but not yet their names.
        for key in world.redis.keys("st:{b*:voters:*").await {
            if key.contains('\u{1f}') && !key.ends_with('7') {
                world.redis.run(&[b"UNLINK", key.as_bytes()]).await;
            }
        }
        check(&world, 130).await;
        world.client().delete("/v1/boards/b").await.expect(204);
        world.engine().run(&Purge).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_periods_are_estimated_from_some() {
    let world = World::start(NOW).await;
    let definition = json!({"windows": ["day"], "accept_late": "any", "ties": "member"});
    world.client().define("b", definition).await;
    send(&world, 200, 0..60).await;
    check(&world, 100).await;
    send(&world, 100, 60..290).await;
    let answer = check(&world, 150).await;
    assert!(answer["sampled"].as_u64().unwrap() < 100, "{answer}");
}
