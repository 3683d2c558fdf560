//! Boards that are spread anew: nothing of it shows in any answer.

use serde_json::{Value, json};
use standings::domain::ids::BoardId;

use super::shards::{compare_all_of, events, read_of, send_to};
use crate::harness::World;
use crate::harness::random::Random;

const NOW: &str = "2026-11-21T12:00:00Z";
/// A board that stays as it is, and others that move.
const BOARDS: [&str; 3] = ["stays", "moves", "also"];

async fn define(world: &World, board: &str, definition: &Value, shards: u16) {
    let mut definition = definition.clone();
    definition["shards"] = json!(shards);
    world.client().define(board, definition).await;
}

/// Takes moves to their end.
async fn move_all(world: &World) {
    for board in BOARDS {
        loop {
            world.service().reshard_boards().await.unwrap();
            let id = BoardId::parse(board).unwrap();
            let progress = world.service().reshard_progress(&id).await.unwrap();
            if progress.moving_to.is_none() {
                break;
            }
        }
    }
}

fn with_ids(events: Vec<Value>, from: usize) -> Vec<Value> {
    let with_id = |(index, mut event): (usize, Value)| {
        event["id"] = json!(format!("e-{}", from + index));
        event
    };
    events.into_iter().enumerate().map(with_id).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_board_that_moves_again_and_again_shows_what_one_that_stays_does() {
    let members = 700;
    for (definition, windows) in [
        (
            json!({"windows": ["day", "all", "last-2-days"], "carryover": {"day": 0.5}}),
            ["day", "all", "last-2-days"],
        ),
        (
            json!({"windows": ["hour", "all", "last-3-hours"], "ties": "member", "ranking": "competition",
                "order": "asc", "initial": ["all"], "weight": {"members": {"m1": 5}}}),
            ["hour", "all", "last-3-hours"],
        ),
        (
            json!({"windows": ["day", "week", "all"], "score_min": 1, "keep_top": 100, "ties": "last", "initial": ["day"],
                "retention": {"day": "5d"}}),
            ["day", "week", "all"],
        ),
        (
            json!({"windows": ["day", "month", "all"], "update": "last"}),
            ["day", "month", "all"],
        ),
    ] {
        let mut random = Random::new(11);
        let world = World::with_instances(2, NOW).await;
        for (board, shards) in BOARDS.into_iter().zip([1, 1, 3]) {
            define(&world, board, &definition, shards).await;
        }
        if definition.get("initial").is_some() {
            let scores = json!({"scores": {"m1": 7, "m2": 2, "nobody": 5}});
            for board in BOARDS {
                let path = format!("/v1/boards/{board}/initial");
                world.client().put(&path, scores.clone()).await.expect(200);
            }
        }
        let mut sent: Vec<Value> = Vec::new();
        for (round, shards) in [4, 1, 7, 2].into_iter().enumerate() {
            let fresh = with_ids(events(&mut random, members, 600), sent.len());
            // So few go in one call, and so in their order.
            for some in fresh.chunks(25) {
                send_to(world.client(), &BOARDS, some).await;
            }
            sent.extend(fresh);
            for board in &BOARDS[1..] {
                define(&world, board, &definition, shards).await;
            }
            let fresh = with_ids(events(&mut random, members, 100), sent.len());
            for some in fresh.chunks(25) {
                send_to(&world.instances[1].client, &BOARDS, some).await;
            }
            sent.extend(fresh);
            move_all(&world).await;
            // The other instance has not heard of it yet.
            let known: Vec<Value> = (0..200)
                .map(|_| sent[random.below(sent.len())].clone())
                .collect();
            send_to(&world.instances[1].client, &BOARDS, &known).await;
            for window in windows {
                compare_all_of(&world, &BOARDS, &mut random, members, window).await;
            }
            world.set_time(&format!("2026-11-21T12:{:02}:00Z", 10 * (round + 1)));
        }
        world.set_time("2026-11-22T00:10:00Z");
        for window in windows {
            compare_all_of(&world, &BOARDS, &mut random, members, window).await;
        }
        while world.service().purge_deleted().await.unwrap() {}
        for window in windows {
            read_of(&world, &BOARDS, &mut random, window).await;
        }
        // Of the shards that were left, only their heads are there, and what expires by itself.
        let left = world.redis.keys("st:{also:3:*").await;
        let left = left
            .iter()
            .filter(|key| key.contains("}:") && !key.contains(":e:"));
        assert_eq!(left.count(), 0);
        for board in BOARDS {
            let path = format!("/v1/boards/{board}");
            world.client().delete(&path).await.expect(204);
        }
        while world.service().purge_deleted().await.unwrap() {}
        let left = world.redis.keys("st:{*").await;
        let is_left = |key: &&String| !key.starts_with("st:{boards}") && !key.contains(":e:");
        let left: Vec<&String> = left.iter().filter(is_left).collect();
        assert_eq!(left, [""; 0]);
    }
}
