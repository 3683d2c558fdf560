//! Leagues: boards whose members compete in cohorts.

use serde_json::{Value, json};
use standings::domain::ids::BoardId;

use crate::harness::World;

const NOW: &str = "2026-11-18T12:00:00Z";

/// A league of weeks with three tiers.
fn league(other: &Value) -> Value {
    let mut fields = json!({"windows": ["week"], "score_min": 0, "league": {"tiers": [
        {"name": "bronze", "promote": 0.3, "demote": 0},
        {"name": "silver", "promote": 0.2, "demote": 0.2},
        {"name": "gold", "promote": 0, "demote": 0.3},
    ]}});
    for (name, value) in other.as_object().unwrap() {
        fields[name] = value.clone();
    }
    fields
}

#[tokio::test]
async fn a_board_can_not_become_a_league_later() {
    let world = World::start(NOW).await;
    let client = world.client();
    let created = client
        .put("/v1/boards/l", league(&json!({})))
        .await
        .expect(201);
    assert_eq!(
        (&created["shards"], &created["finalize"]),
        (&json!(16), &json!("0s"))
    );
    assert_eq!(created["league"]["cohort_size"], 100);
    let read = client.get("/v1/boards/l").await.expect(200);
    assert_eq!(read["league"], created["league"]);
    // What is read can be sent back.
    client.put("/v1/boards/l", read).await.expect(200);

    for wrong in [
        json!({"shards": 4}),
        json!({"keep_top": 3}),
        json!({"score_min": null}),
    ] {
        let answer = client.put("/v1/boards/other", league(&wrong)).await;
        answer.expect_problem(422, "validation-failed");
    }
    let moved = client.put("/v1/boards/l/shards", json!({"count": 4})).await;
    moved.expect_problem(422, "validation-failed");
    client
        .put("/v1/boards/l/shards", json!({"count": 16}))
        .await
        .expect(200);

    let none = client.patch("/v1/boards/l", json!({"league": null})).await;
    none.expect_problem(409, "board-in-use");
    client
        .define(
            "plain",
            json!({"windows": ["week"], "score_min": 0, "shards": 16}),
        )
        .await;
    let settings = league(&json!({}))["league"].clone();
    let late = client
        .patch("/v1/boards/plain", json!({"league": settings}))
        .await;
    late.expect_problem(409, "board-in-use");
}

#[tokio::test]
async fn the_running_period_keeps_replaced_settings() {
    let world = World::start(NOW).await;
    let client = world.client();
    client.define("l", league(&json!({}))).await;
    let change = json!({"league": {"cohort_size": 50}});
    let preview = client
        .patch("/v1/boards/l?dry_run=true", change.clone())
        .await
        .expect(200);
    assert_eq!(preview["preview"]["changes"][0]["field"], "league");
    let changed = client.patch("/v1/boards/l", change).await.expect(200);
    assert_eq!(changed["league"]["cohort_size"], 50);
    assert_eq!(changed["league"]["tiers"].as_array().unwrap().len(), 3);

    let board = world
        .engine()
        .board(&BoardId::parse("l").unwrap())
        .await
        .unwrap();
    let [former] = &board.league_before[..] else {
        panic!("one replaced settings, not {:?}", board.league_before);
    };
    assert_eq!(former.league.cohort_size, 100);
    assert_eq!(former.until.to_string(), "2026-11-23T00:00:00.000Z");
}
