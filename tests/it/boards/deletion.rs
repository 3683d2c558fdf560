//! What is left of boards that were deleted.

use serde_json::{Value, json};
use standings::domain::ids::BoardId;

use crate::harness::jobs::{Moves, Purge, Sweep};
use crate::harness::random::Random;
use crate::harness::{Instance, World, break_off, keys};
use crate::moves::shards::{events, send_to};

const NOW: &str = "2026-11-21T12:00:00Z";

async fn spread(world: &World, definition: &Value, shards: u16) {
    let client = world.client();
    if client.get("/v1/boards/b").await.status == 200 {
        client.spread("b", shards).await;
    } else {
        let mut definition = definition.clone();
        definition["shards"] = json!(shards);
        client.define("b", definition).await;
    }
    world.engine().run(&Moves).await.unwrap();
    let placed = world.client().get("/v1/boards/b/shards").await.expect(200);
    assert_eq!(placed["shards"], shards);
}

/// Unlinks all that the background steps find.
async fn unlink(instance: &Instance) {
    instance.engine.run(&Purge).await.unwrap();
    instance.engine.run(&Sweep).await.unwrap();
}

/// The keys that are left of a board.
async fn left(world: &World) -> Vec<String> {
    world.redis.leftover(&keys::pattern("b")).await
}

async fn delete(world: &World) {
    world.client().delete("/v1/boards/b").await.expect(204);
}

#[tokio::test(flavor = "multi_thread")]
async fn derived_standings_of_shards_empty_at_a_move_are_deleted_with_the_board() {
    let world = World::start(NOW).await;
    for definition in [
        json!({"windows": ["last-2-days"]}),
        json!({"windows": ["day", "last-2-days"], "ranking": "competition", "initial": ["day"], "uniques": "board"}),
        json!({"windows": ["last-2-days"], "ties": "member"}),
    ] {
        let mut random = Random::new(7);
        spread(&world, &definition, 1).await;
        send_to(world.client(), &["b"], &events(&mut random, 2, 1)).await;
        let path = "/v1/boards/b/standings/last-2-days";
        world.client().get(path).await.expect(200);
        spread(&world, &definition, 3).await;
        send_to(world.client(), &["b"], &events(&mut random, 300, 300)).await;
        world.client().get(path).await.expect(200);
        spread(&world, &definition, 2).await;
        delete(&world).await;
        unlink(&world.instances[0]).await;
        assert_eq!(left(&world).await, [""; 0]);
    }
}

/// Each move is broken off after one more wait, and the board deleted and unlinked, before the instance that was moving it
/// goes on.
#[tokio::test(flavor = "multi_thread")]
async fn an_instance_that_keeps_using_a_deleted_board_leaves_nothing_behind() {
    let world = World::with_instances(2, NOW).await;
    let definition =
        json!({"windows": ["day", "last-2-days"], "uniques": "member", "initial": ["day"]});
    let mut random = Random::new(9);
    for waits in (1..160).step_by(3) {
        spread(&world, &definition, 1).await;
        send_to(world.client(), &["b"], &events(&mut random, 6, 12)).await;
        world.client().spread("b", 2).await;
        let engine = &world.engine();
        let moving = engine.run(&Moves);
        tokio::pin!(moving);
        let is_over = break_off(&mut moving, waits).await.is_some();
        let other = &world.instances[1];
        other.client.delete("/v1/boards/b").await.expect(204);
        unlink(other).await;
        if !is_over {
            moving.await.unwrap();
        }
        unlink(other).await;
        assert_eq!(left(&world).await, [""; 0], "after {waits} waits");
    }
}

/// Each purge of shards that the board has moved away from is broken off after one more wait, and goes on when the board was deleted.
#[tokio::test]
async fn a_board_deleted_while_former_shards_are_unlinked_leaves_nothing_behind() {
    let world = World::with_instances(2, NOW).await;
    let definition = json!({"windows": ["day"]});
    let mut random = Random::new(11);
    for waits in 1.. {
        spread(&world, &definition, 2).await;
        send_to(world.client(), &["b"], &events(&mut random, 6, 12)).await;
        spread(&world, &definition, 3).await;
        let engine = &world.engine();
        let purging = engine.run(&Purge);
        tokio::pin!(purging);
        let is_over = break_off(&mut purging, waits).await.is_some();
        let other = &world.instances[1];
        other.client.delete("/v1/boards/b").await.expect(204);
        if !is_over {
            purging.await.unwrap();
        }
        unlink(other).await;
        assert_eq!(left(&world).await, [""; 0], "after {waits} waits");
        if is_over {
            break;
        }
    }
}

/// Events with ids, of more voters than members.
fn voted(random: &mut Random, from: usize) -> Vec<Value> {
    let numbered = |(number, mut event): (usize, Value)| {
        event["id"] = json!(format!("{{e}}:q:{}", from + number));
        event["at"] = json!(NOW);
        event
    };
    let events = events(random, 40, 100).into_iter().enumerate();
    events.map(numbered).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn records_of_events_are_deleted_with_their_board_only() {
    let world = World::start(NOW).await;
    let definition = json!({"windows": ["all"], "idempotency": "366d", "quotas": [
        {"name": "attempts", "by": ["member"], "window": "total", "max": 50},
        {"name": "ever", "by": ["voter"], "window": "total", "max": 90},
        {"name": "month", "by": ["voter"], "window": "month", "max": 80},
        {"name": "hour", "by": ["voter", "member"], "window": "1h", "max": 70}]});
    let others = ["bb", "b.b"];
    for board in others {
        world.client().define(board, definition.clone()).await;
    }
    let mut random = Random::new(13);
    let mut sent = Vec::new();
    for shards in [1, 4, 2] {
        spread(&world, &definition, shards).await;
        let some = voted(&mut random, sent.len());
        send_to(world.client(), &["b"], &some).await;
        sent.extend(some);
    }
    for board in others {
        send_to(world.client(), &[board], &sent).await;
    }
    let of_others = async || {
        let mut keys = Vec::new();
        for board in others {
            keys.extend(
                world
                    .redis
                    .expiries(&keys::pattern(board))
                    .await
                    .into_keys(),
            );
        }
        keys
    };
    let before = of_others().await;
    assert!(left(&world).await.len() > 3 * 100);
    let id = BoardId::parse("b").unwrap();
    let generation = world.engine().board(&id).await.unwrap().generation;
    delete(&world).await;
    // Another one of the same name, with events of the same ids.
    spread(&world, &definition, 2).await;
    send_to(world.client(), &["b"], &sent).await;
    unlink(&world.instances[0]).await;
    let newer = left(&world).await;
    let remembered = newer
        .iter()
        .filter(|key| key.contains("}:") && key.contains(":e:"));
    assert_eq!(remembered.count(), sent.len());
    let of_older = format!("}}:{generation}:");
    let older: Vec<&String> = newer.iter().filter(|key| key.contains(&of_older)).collect();
    assert_eq!(older, [""; 0]);
    assert_eq!(of_others().await, before);
    let again = json!({"events": sent.iter().map(|event| {
        let mut event = event.clone();
        event["board"] = json!("b");
        event
    }).collect::<Vec<_>>()});
    let answer = world.client().post_until_taken("/v1/events", &again).await;
    for result in answer["results"].as_array().unwrap() {
        assert_eq!(result["status"], "duplicate", "{result}");
    }

    for board in ["b", "bb", "b.b"] {
        let path = format!("/v1/boards/{board}");
        world.client().delete(&path).await.expect(204);
    }
    // Nothing of that needs memory, which it is to free.
    world.redis.on_each("CONFIG SET maxmemory 1").await;
    unlink(&world.instances[0]).await;
    let left = world.redis.leftover("st:*").await;
    let left = left.iter().filter(|key| {
        let kept = [
            "live", "changes", "sequence", "epoch", "format", "stamp", "leases",
        ];
        let is_kept = |name: &&str| **key == format!("st:{{boards}}:{name}");
        // The audit log tells who has deleted them.
        !kept.iter().any(is_kept) && !key.starts_with("st:{boards}:audit")
    });
    assert_eq!(left.collect::<Vec<_>>(), [""; 0]);
}
