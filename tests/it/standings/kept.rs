//! Answers that are kept: given again without reading Redis for as long as nothing has changed, and never longer.

use serde_json::{Value, json};

use crate::harness::{Client, World};

const PAGE: &str = "/v1/boards/b/standings/day";

async fn world(more: Value) -> World {
    let world = World::with_instances(2, "2026-11-21T12:00:00Z").await;
    let mut definition = json!({"windows": ["day", "last-2-days"]});
    let more = more.as_object().unwrap().clone();
    definition.as_object_mut().unwrap().extend(more);
    world.client().define("b", definition).await;
    world
}

async fn post(client: &Client, event: Value) {
    let answer = client.post("/v1/boards/b/events", event).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
}

/// Changes the best score of a standing, of which no script knows.
async fn falsify(world: &World, standing: &str, score: i64) {
    let keys = world
        .redis
        .keys(&format!("st:{{*:{standing}:2026-11-21"))
        .await;
    assert_eq!(keys.len(), 1, "{keys:?}");
    let script =
        "redis.call('ZADD', KEYS[1], 'XX', ARGV[1], redis.call('ZRANGE', KEYS[1], 0, 0)[1])";
    let score = (-score).to_string();
    let eval = ["EVAL", script, "1", &keys[0], &score].map(str::as_bytes);
    world.redis.run(&eval).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_not_changed_is_not_read_again() {
    let world = world(json!({})).await;
    let (client, other) = (world.client(), &world.instances[1].client);
    for (standing, window) in [("s:day", "day"), ("d:last-2-days", "last-2-days")] {
        post(client, json!({"member": "ann", "score": 2})).await;
        let path = format!("/v1/boards/b/standings/{window}");
        let first = client.get(&path).await.expect(200);
        falsify(&world, standing, 9).await;
        assert_eq!(client.get(&path).await.expect(200), first);
        // Another page is not kept, and asked for in the same call.
        let smaller = format!("{path}?size=1");
        let (page, smaller) = tokio::join!(client.get(&path), client.get(&smaller));
        assert_eq!(page.expect(200), first);
        assert_eq!(smaller.expect(200)["entries"][0]["score"], 9);

        post(other, json!({"member": "bob", "score": 1})).await;
        let second = client.get(&path).await.expect(200);
        assert_eq!(second["total"], 2);
        assert_eq!(second["entries"][0]["score"], 9);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hides_and_expiry_end_what_is_kept() {
    let world = world(json!({})).await;
    let (client, other) = (world.client(), &world.instances[1].client);
    for (member, score) in [("ann", 2), ("bob", 1)] {
        post(client, json!({"member": member, "score": score})).await;
    }
    let members = async || {
        let page = client.get(PAGE).await.expect(200);
        let entries = page["entries"].as_array().unwrap().iter();
        let members = entries.map(|entry| entry["member"].as_str().unwrap().to_owned());
        members.collect::<Vec<_>>()
    };
    assert_eq!(members().await, ["ann", "bob"]);
    let hidden = "/v1/boards/b/hidden/ann";
    other
        .put(hidden, json!({"reason": "test"}))
        .await
        .expect(200);
    assert_eq!(members().await, ["bob"]);
    assert_eq!(other.delete(hidden).await.status, 204);
    assert_eq!(members().await, ["ann", "bob"]);
    // No script notes that something expires.
    for key in world.redis.keys("st:{*:s:day:2026-11-21*").await {
        world.redis.run(&[b"DEL", key.as_bytes()]).await;
    }
    assert!(members().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn profiles_and_voters_are_not_kept() {
    let world = world(json!({"uniques": "member"})).await;
    let (client, other) = (world.client(), &world.instances[1].client);
    let vote = |voter: &str| json!({"member": "ann", "score": 0, "voter": voter});
    post(client, vote("v1")).await;
    let path = format!("{PAGE}?include=profile");
    let shown = async || {
        let page = client.get(&path).await.expect(200);
        let entry = page["entries"][0].clone();
        (entry["profile"]["name"].clone(), entry["voters"].clone())
    };
    for (name, voters) in [("Ann", 1), ("Anna", 2)] {
        post(other, vote(&format!("v{voters}"))).await;
        for name in [name, "Annie"] {
            let profile = json!({"name": name});
            let path = "/v1/members/ann/profile";
            assert!(other.put(path, profile).await.status.is_success());
            assert_eq!(shown().await, (json!(name), json!(voters)));
        }
    }
}
