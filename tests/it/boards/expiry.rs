//! The keys of a standing end together, whatever has happened to it.

use serde_json::{Value, json};

use crate::harness::jobs::{Moves, Purge};
use crate::harness::random::Random;
use crate::harness::{World, keys};
use crate::moves::shards::{events, send_to};

const NOW: &str = "2026-11-21T12:00:00Z";

/// Definitions with every layout of standings.
fn layouts() -> Vec<Value> {
    let mut layouts = Vec::new();
    for ties in ["first", "last", "member"] {
        for more in [
            json!({}),
            json!({"ranking": "dense"}),
            json!({"uniques": "member"}),
            json!({"ranking": "dense", "uniques": "board", "weight": {"members": {"m1": 3}}}),
            json!({"keep_top": 3, "score_min": 1}),
            json!({"keep_top": 3, "score_min": 1, "ranking": "dense", "uniques": "board"}),
            json!({"update": "max"}),
            json!({"update": "last"}),
        ] {
            let mut definition = json!({"windows": ["hour", "day", "all"], "ties": ties,
                "retention": {"hour": "1h", "day": "1d"}});
            definition
                .as_object_mut()
                .unwrap()
                .extend(more.as_object().unwrap().clone());
            layouts.push(definition);
        }
    }
    layouts
}

async fn check(world: &World, what: &str) {
    let found = world.redis.expiries(&keys::pattern("b")).await;
    let retained = ["hour", "day"].map(str::to_owned);
    if let Err(why) = keys::check_expiries(&found, &retained, world.redis.expiry_slack_ms()) {
        panic!("{what}: {why}");
    }
}

async fn delete(world: &World) {
    world.client().delete("/v1/boards/b").await.expect(204);
}

#[tokio::test(flavor = "multi_thread")]
async fn all_keys_of_a_standing_expire_at_once_even_if_rewritten() {
    let world = World::start(NOW).await;
    for definition in layouts() {
        for members in [1, 2, 20] {
            world.client().define("b", definition.clone()).await;
            for second in 0..3 {
                world.set_time(&format!("2026-11-21T12:00:0{second}Z"));
                let some = (0..members).map(|member| {
                    json!({"board": "b", "member": format!("m{member}"), "score": 1 + second, "voter": "v"})
                });
                let some = json!({"events": some.collect::<Vec<_>>()});
                world.client().post("/v1/events", some).await.expect(200);
                let what = format!("{members} members, second {second}, {definition}");
                check(&world, &what).await;
            }
            delete(&world).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sum_of_scores_that_began_with_zero_expires_with_its_standing() {
    let world = World::start(NOW).await;
    let definition = json!({"windows": ["hour"], "uniques": "board", "retention": {"hour": "1h"}});
    world.client().define("b", definition).await;
    for score in [0, 5] {
        let event = json!({"member": "ann", "score": score});
        let sent = world.client().post("/v1/boards/b/events", event).await;
        sent.expect(200);
        check(&world, "a sum").await;
    }
    let stats = world.client().get("/v1/boards/b/standings/hour/stats");
    assert_eq!(stats.await.expect(200)["score_sum"], 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn all_keys_of_a_standing_expire_at_once_after_moves() {
    let mut random = Random::new(3);
    let world = World::start(NOW).await;
    for definition in layouts() {
        if definition["ranking"] == "dense" {
            // Such boards have one shard.
            continue;
        }
        for shards in [1, 3, 2] {
            world.client().define("b", definition.clone()).await;
            world.client().spread("b", shards).await;
            world.engine().run(&Moves).await.unwrap();
            for members in [2, 30] {
                for _ in 0..3 {
                    let some = events(&mut random, members, 12);
                    send_to(world.client(), &["b"], &some).await;
                    check(&world, &definition.to_string()).await;
                }
            }
            world.engine().run(&Moves).await.unwrap();
            check(&world, &definition.to_string()).await;
        }
        delete(&world).await;
    }
    world.engine().run(&Purge).await.unwrap();
}
