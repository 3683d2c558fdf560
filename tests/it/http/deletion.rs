//! What is left of boards that were deleted.

use serde_json::{Value, json};

use super::shards::{events, send_to};
use crate::harness::random::Random;
use crate::harness::{World, break_off, keys};

const NOW: &str = "2026-11-21T12:00:00Z";

async fn spread(world: &World, definition: &Value, shards: u16) {
    let mut definition = definition.clone();
    definition["shards"] = json!(shards);
    world.client().define("b", definition).await;
    world.service().reshard_boards().await.unwrap();
    let placed = world.client().get("/v1/boards/b/shards").await.expect(200);
    assert_eq!(placed["shards"], shards);
}

async fn delete_and_purge(world: &World) {
    world.client().delete("/v1/boards/b").await.expect(204);
    while world.service().purge_deleted().await.unwrap() {}
}

async fn left_behind(world: &World) -> Vec<String> {
    let found = world.redis.expiries(&keys::pattern("b")).await;
    keys::left_behind(&found).into_iter().cloned().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn derived_standings_of_shards_that_were_empty_at_a_move_go_with_their_board() {
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
        delete_and_purge(&world).await;
        assert_eq!(left_behind(&world).await, [""; 0]);
    }
}

/// Each move is broken off after one more wait, and the board deleted and unlinked, before the instance that was moving it
/// goes on.
#[tokio::test(flavor = "multi_thread")]
async fn an_instance_that_goes_on_with_a_board_that_was_deleted_meanwhile_leaves_nothing_behind() {
    let world = World::with_instances(2, NOW).await;
    let definition =
        json!({"windows": ["day", "last-2-days"], "uniques": "member", "initial": ["day"]});
    let mut random = Random::new(9);
    for waits in (1..160).step_by(3) {
        spread(&world, &definition, 1).await;
        send_to(world.client(), &["b"], &events(&mut random, 6, 12)).await;
        let mut wanted = definition.clone();
        wanted["shards"] = json!(2);
        world.client().define("b", wanted).await;
        let service = &world.service();
        let moving = service.reshard_boards();
        tokio::pin!(moving);
        let is_over = break_off(&mut moving, waits).await.is_some();
        let other = &world.instances[1];
        other.client.delete("/v1/boards/b").await.expect(204);
        while other.service.purge_deleted().await.unwrap() {}
        if !is_over {
            moving.await.unwrap();
        }
        while other.service.purge_deleted().await.unwrap() {}
        assert_eq!(left_behind(&world).await, [""; 0], "after {waits} waits");
    }
}
