//! The end of a period in a league: cohorts are decided once, whoever comes first, and everything else follows from that.

use std::collections::BTreeMap;

use futures::future::join_all;
use serde_json::{Value, json};
use standings::core::board::store::boards;
use standings::core::write::store::seats::{self, PlayerChange, Sitter, Stepped};
use standings::domain::ids::{BoardId, MemberId};
use standings::domain::league::player::{Played, Player, Seat};
use standings::domain::score::Score;
use standings::domain::time::Timestamp;
use standings::periods::turnover::turning;
use standings::webhooks::outbox;

use crate::harness::jobs::{ClosePeriods, Revisions};
use crate::harness::{Client, Instance, World, break_off, interrupt};

/// A Wednesday.
const NOW: &str = "2026-11-18T12:00:00Z";
const WEEK: &str = "2026-11-16";
/// The end of that week.
const END: &str = "2026-11-23T00:00:00Z";
/// More than any step waits for.
const WAITS_MAX: u16 = 2_000;

fn league(more: &Value) -> Value {
    let mut definition = json!({"windows": ["week"], "update": "sum", "score_min": 0, "finalize": "0s", "idempotency": "1h",
        "ties": "first", "league": {"cohort_size": 20, "idle": "demote", "tiers": [
            {"name": "bronze", "promote": 0.3, "demote": 0},
            {"name": "silver", "promote": 0.2, "demote": 0.2},
            {"name": "gold", "promote": 0, "demote": 0.3}],
        "entry_bonus": [{"ranks": [1, 1], "score": 50}, {"ranks": [1, 2], "score": 20}]}});
    for (field, value) in more.as_object().unwrap() {
        if field == "league" {
            for (field, value) in value.as_object().unwrap() {
                definition["league"][field] = value.clone();
            }
        } else {
            definition[field] = value.clone();
        }
    }
    definition
}

async fn world(instances: usize, more: Value) -> World {
    let world = World::with_instances(instances, NOW).await;
    world.client().define("b", league(&more)).await;
    for instance in &world.instances {
        instance.engine.refresh_boards().await.unwrap();
    }
    world
}

fn id() -> BoardId {
    BoardId::parse("b").unwrap()
}

fn member(name: &str) -> MemberId {
    MemberId::parse(name).unwrap()
}

/// Seats members in a cohort of the running week, with scores, as joining and playing would.
async fn sit(world: &World, cohort: &str, scores: &[(&str, i64)]) {
    let engine = world.engine();
    let (board, store) = (engine.board(&id()).await.unwrap(), &engine.store);
    let (now, shards) = (engine.clock.now(), board.shards());
    let period = board.calendar.containing(board.league_unit().unwrap(), now);
    for (name, score) in scores {
        let member = member(name);
        let home = &shards[board.shard_of(&member)];
        let players = seats::players(store, home, std::slice::from_ref(&member));
        let seen = players.await.unwrap().pop().unwrap().unwrap();
        let seat = Seat {
            start: period.start().unwrap(),
            cohort: cohort.parse().unwrap(),
            opening: Score::from_stored(*score),
            joined_at: now,
        };
        let before = seen.as_ref().map(|seen| seen.player.clone());
        let change = PlayerChange {
            member: member.clone(),
            new: before
                .unwrap_or_else(|| Player::new(&period))
                .seated(seat.clone()),
            seen,
            played: None,
        };
        let written = seats::write_players(store, home, &[change]).await.unwrap();
        assert_eq!(written, [Stepped::Done(())]);
        let sitter = Sitter {
            member,
            period,
            at: now,
            joins: true,
            seat,
        };
        let shard = &shards[board.shard_of_cohort(&period, sitter.seat.cohort)];
        seats::seat(store, shard, &[sitter]).await.unwrap();
    }
}

/// Ten members of a cohort, with 100, 90, … 10 points.
async fn ten(world: &World, cohort: &str, prefix: &str) -> Vec<String> {
    let names: Vec<String> = (0..10).map(|index| format!("{prefix}{index}")).collect();
    let scores: Vec<(&str, i64)> = names
        .iter()
        .zip(0_i64..)
        .map(|(name, index)| (name.as_str(), 100 - 10 * index))
        .collect();
    sit(world, cohort, &scores).await;
    names
}

async fn close(instance: &Instance) {
    instance.engine.refresh_boards().await.unwrap();
    instance.engine.run(&ClosePeriods).await.unwrap();
}

async fn player(world: &World, name: &str) -> Option<Player> {
    let engine = world.engine();
    let board = engine.board(&id()).await.unwrap();
    let (member, shards) = (member(name), board.shards());
    let home = &shards[board.shard_of(&member)];
    let mut players = seats::players(&engine.store, home, &[member])
        .await
        .unwrap();
    players.pop().unwrap().unwrap().map(|found| found.player)
}

/// The history of a member: the tier, where it went, its position and its bonus, the newest line first.
async fn history(world: &World, name: &str) -> Vec<(String, String, Option<u64>, i64)> {
    let engine = world.engine();
    let board = engine.board(&id()).await.unwrap();
    let (member, shards) = (member(name), board.shards());
    let home = &shards[board.shard_of(&member)];
    let played = seats::played(&engine.store, home, &member).await.unwrap();
    let lines = played.iter().map(|line| {
        let moved = serde_json::to_value(line.moved).unwrap();
        let moved = moved.as_str().unwrap().to_owned();
        (
            line.tier.to_string(),
            moved,
            line.position,
            line.bonus.scaled(),
        )
    });
    lines.collect()
}

/// All that is stored of players, of the records of cohorts, and of results.
async fn all_that_is_stored(world: &World) -> BTreeMap<String, BTreeMap<String, String>> {
    let mut all = BTreeMap::new();
    let keys = world.keys_of_boards().await;
    let is_wanted = |key: &String| {
        let ends = [":players", ":played", ":decided", ":results:week"];
        ends.iter().any(|end| key.ends_with(end)) || key.contains(":rewards:")
    };
    for key in keys.into_iter().filter(is_wanted) {
        let reply = world.redis.run(&[b"HGETALL", key.as_bytes()]).await;
        let fields = reply.list().chunks(2).map(|pair| {
            // Walks over rewards have numbers.
            let is_packed = key.contains(":rewards:");
            let value = if is_packed {
                String::new()
            } else {
                pair[1].text()
            };
            (pair[0].text(), value)
        });
        // Each world has a board of another generation.
        let (tag, name) = key.split_once("}:").unwrap();
        let (_, name) = name.split_once(':').unwrap();
        all.insert(format!("{tag} {name}"), fields.collect());
    }
    all
}

fn cohort_path(key: &str, cohort: &str) -> String {
    format!("/v1/boards/b/standings/week/periods/{key}?cohort={cohort}")
}

async fn result(client: &Client, cohort: &str) -> Value {
    client.get(&cohort_path(WEEK, cohort)).await.expect(200)
}

async fn messages(world: &World) -> Vec<Value> {
    let engine = world.engine();
    let board = engine.board(&id()).await.unwrap();
    let mut found: BTreeMap<String, Value> = BTreeMap::new();
    // They come in no order, some at once.
    for _ in 0..20 {
        let posted = outbox::store::posted(&engine.store, &board.id, board.generation)
            .await
            .unwrap();
        for message in posted {
            found.insert(
                message.id.to_string(),
                serde_json::from_str(&message.body).unwrap(),
            );
        }
    }
    found.into_values().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closing_decides_cohorts_and_turns_the_seats_of_their_members() {
    let world = world(1, json!({})).await;
    let names = ten(&world, "1-1", "m").await;
    sit(&world, "0-1", &[("ann", 5), ("bob", 3)]).await;
    world.set_time(END);
    close(&world.instances[0]).await;
    let moves = join_all(names.iter().map(|name| history(&world, name))).await;
    let expected = [
        "up", "up", "stay", "stay", "stay", "stay", "stay", "stay", "down", "down",
    ];
    for (index, line) in moves.iter().enumerate() {
        let bonus = [70, 20].get(index).copied().unwrap_or(0);
        let place = Some(index as u64 + 1);
        assert_eq!(
            *line,
            [(
                "silver".to_owned(),
                expected[index].to_owned(),
                place,
                bonus
            )]
        );
        let player = player(&world, &names[index]).await.unwrap();
        let tier = match expected[index] {
            "up" => 2,
            "down" => 0,
            _ => 1,
        };
        assert_eq!(
            (player.tier, player.seat, player.bonus.scaled()),
            (tier, None, bonus)
        );
    }
    let client = world.client();
    let body = result(client, "silver-1").await;
    assert_eq!(body["turned"]["counted"], 10, "{body}");
    assert_eq!(
        (&body["turned"]["promoted"], &body["turned"]["demoted"]),
        (&json!(2), &json!(2))
    );
    assert_eq!(
        (&body["key"], &body["cohort"], &body["total"]),
        (&json!(WEEK), &json!("silver-1"), &json!(10))
    );
    assert_eq!(body["winner"]["member"], "m0");
    assert_eq!(body["digest"].as_str().unwrap().len(), 64);
    let list = client
        .get("/v1/boards/b/standings/week/periods")
        .await
        .expect(200);
    let [period] = &list["periods"].as_array().unwrap()[..] else {
        panic!("{list}");
    };
    assert_eq!(
        (&period["key"], &period["cohorts"], &period["state"]),
        (&json!(WEEK), &json!(2), &json!("final"))
    );
    assert_eq!(
        (&period["total"], &period["winner"]),
        (&Value::Null, &Value::Null)
    );
    let whole = client
        .get(&format!("/v1/boards/b/standings/week/periods/{WEEK}"))
        .await
        .expect(200);
    assert_eq!(
        (&whole["cohorts"], &whole["total"], &whole["digest"]),
        (&json!(2), &Value::Null, &Value::Null)
    );
    let messages = messages(&world).await;
    let of = |kind: &str| -> Vec<&Value> {
        messages
            .iter()
            .filter(|message| message["type"] == kind)
            .map(|message| &message["data"])
            .collect()
    };
    let mut turned = of("league.turned");
    turned.sort_by_key(|data| data["cohort"].to_string());
    assert_eq!(turned.len(), 2, "{messages:?}");
    let expected = json!({"board": "b", "window": "week", "key": WEEK, "cohort": "silver-1", "tier": "silver", "counted": 10,
        "promoted": 2, "demoted": 2, "revision": 1});
    assert_eq!(*turned[1], expected);
    let [period] = of("period.final")[..] else {
        panic!("{messages:?}");
    };
    assert_eq!(
        (&period["key"], &period["cohorts"], &period["total"]),
        (&json!(WEEK), &json!(2), &Value::Null)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn seats_can_be_turned_by_anyone_in_any_order() {
    let mut all = Vec::new();
    for way in ["closing", "members", "both"] {
        let world = world(3, json!({})).await;
        let mut names = ten(&world, "1-1", "m").await;
        names.extend(ten(&world, "0-2", "n").await);
        world.set_time(END);
        let turn = async |instance: usize, name: &str| {
            let engine = &world.instances[instance].engine;
            turning::turn_seat(engine, &id(), &member(name))
                .await
                .unwrap();
        };
        match way {
            "members" => {
                for (index, name) in names.iter().rev().enumerate() {
                    turn(index % 3, name).await;
                }
            }
            "both" => {
                let turns = names
                    .iter()
                    .flat_map(|name| (0..3).map(|instance| turn(instance, name)));
                let closings = world.instances.iter().map(close);
                tokio::join!(join_all(turns), join_all(closings));
            }
            _ => {}
        }
        close(&world.instances[1]).await;
        all.push(all_that_is_stored(&world).await);
    }
    assert!(
        all[0].keys().any(|key| key.ends_with(":decided")),
        "{:?}",
        all[0].keys()
    );
    assert_eq!(all[0], all[1]);
    assert_eq!(all[0], all[2]);
}

#[tokio::test]
async fn a_closing_that_dies_at_any_step_is_finished_by_another_instance() {
    let rewards =
        json!({"rewards": [{"id": "crown", "window": "week", "ranks": [1, 1], "reward": 1}]});
    let mut expected = None;
    let mut waits = 1;
    loop {
        let world = world(2, rewards.clone()).await;
        ten(&world, "1-1", "m").await;
        ten(&world, "0-2", "n").await;
        world.set_time(END);
        let first = &world.instances[0].engine;
        let ended = break_off(
            first.run(&ClosePeriods),
            if expected.is_none() { WAITS_MAX } else { waits },
        )
        .await;
        // It has the lease of the rewards, perhaps.
        close(&world.instances[1]).await;
        let stored = all_that_is_stored(&world).await;
        match &expected {
            None => expected = Some(stored),
            Some(expected) => {
                assert_eq!(stored, *expected, "after {waits} waits");
                if ended.is_some() {
                    break;
                }
                waits += 1 + waits / 3;
            }
        }
    }
    assert!(waits > 5, "{waits}");
}

/// How far the results of closings have come by what is stored, if none is missing.
async fn closed_until(world: &World) -> Option<Timestamp> {
    let closings = boards::closings(&world.engine().store, &id())
        .await
        .unwrap();
    closings.results_until.filter(|_| !closings.is_pending())
}

/// A job that meets another instance amid its steps goes on with what is left, and does not wait for the next period.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_carries_out_a_decision_of_another_instance() {
    for waits in 1..8 {
        let world = world(2, json!({})).await;
        sit(&world, "1-1", &[("ann", 5)]).await;
        world.set_time(END);
        for instance in &world.instances {
            instance.engine.refresh_boards().await.unwrap();
        }
        let [one, other] = [0, 1].map(|index| &world.instances[index].engine);
        let run = async || one.run(&ClosePeriods).await.unwrap();
        let turn = async || {
            turning::turn_seat(other, &id(), &member("ann"))
                .await
                .unwrap();
        };
        interrupt(run(), waits, turn()).await;
        assert_eq!(
            closed_until(&world).await,
            Some(Timestamp::parse(END).unwrap()),
            "{waits}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_can_close_concurrently_without_failures() {
    let rewards = json!([{"id": "crown", "window": "week", "ranks": [1, 1], "reward": 1}]);
    for _ in 0..4 {
        let world = world(3, json!({"rewards": rewards})).await;
        let mut names = ten(&world, "1-1", "m").await;
        for number in 2..8 {
            let cohort = format!("0-{number}");
            names.extend(ten(&world, &cohort, &format!("n{number}-")).await);
        }
        world.set_time(END);
        let turns = names.iter().enumerate().map(|(index, name)| {
            let engine = &world.instances[index % 3].engine;
            async move {
                turning::turn_seat(engine, &id(), &member(name))
                    .await
                    .unwrap();
            }
        });
        let closings = world.instances.iter().map(close);
        tokio::join!(join_all(turns), join_all(closings));
        for instance in &world.instances {
            let (faults, _) = instance.engine.faults.list(10);
            assert!(faults.is_empty(), "{faults:?}");
        }
        // The first runs have come to the end.
        assert_eq!(
            closed_until(&world).await,
            Some(Timestamp::parse(END).unwrap())
        );
        assert_eq!(
            result(world.client(), "silver-1").await["rewards"],
            json!(1)
        );
    }
}

/// While results of a closing are missing, no other one can be decided. Nobody has to wait for the job.
#[tokio::test(flavor = "multi_thread")]
async fn joining_finishes_the_previous_closing() {
    let world = world(2, json!({})).await;
    let [one, other] = [0, 1].map(|index| &world.instances[index].client);
    sit(&world, "1-1", &[("ann", 7), ("bob", 5), ("cat", 3)]).await;
    world.set_time("2026-11-24T12:00:00Z");
    assert_eq!(join(one, "ann").await, ("silver".to_owned(), 70));
    let closings = boards::closings(&world.engine().store, &id()).await;
    assert!(closings.unwrap().is_pending());
    world.set_time("2026-12-01T12:00:00Z");
    // They have missed a week, and she has to be turned.
    let joins = [("bob", other), ("cat", one), ("ann", other)];
    let joined = join_all(joins.map(|(name, client)| join(client, name))).await;
    // His bonus has waited for him.
    assert_eq!(joined[0], ("bronze".to_owned(), 20));
    assert_eq!(joined[1], ("bronze".to_owned(), 0));
    assert_eq!(joined[2], ("silver".to_owned(), 70));
    let body = result(one, "silver-1").await;
    assert_eq!(
        (&body["state"], &body["turned"]["counted"]),
        (&json!("final"), &json!(3))
    );
    close(&world.instances[1]).await;
    assert_eq!(history(&world, "ann").await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn closing_a_league_turns_the_seats_that_wait_for_it() {
    const CLOSES: &str = "2026-11-26T12:00:00Z";
    let world = world(2, json!({})).await;
    let client = world.client();
    ten(&world, "1-1", "m").await;
    world.set_time("2026-11-25T12:00:00Z");
    // Nobody has turned them, and some play in the week that the end of the board cuts off.
    sit(&world, "0-1", &[("yan", 7), ("zoe", 3)]).await;
    let closes = json!({"closes_at": CLOSES});
    client.patch("/v1/boards/b", closes).await.expect(200);
    world.set_time("2026-11-26T12:00:01Z");
    let path = "/v1/boards/b/league/members";
    for name in ["m0", "new"] {
        let answer = client.post(path, json!({"member": name})).await;
        answer.expect_problem(409, "board-closed");
    }
    close(&world.instances[1]).await;
    assert_eq!(
        history(&world, "m0").await,
        [("silver".to_owned(), "up".to_owned(), Some(1), 70)]
    );
    assert_eq!(
        history(&world, "yan").await,
        [("bronze".to_owned(), "stay".to_owned(), Some(1), 70)]
    );
    for name in ["m9", "zoe"] {
        assert_eq!(player(&world, name).await.unwrap().seat, None, "{name}");
    }
    let list = client
        .get("/v1/boards/b/standings/week/periods")
        .await
        .expect(200);
    let periods: Vec<_> = list["periods"]
        .as_array()
        .unwrap()
        .iter()
        .map(|period| (&period["key"], &period["state"]))
        .collect();
    let is_final = json!("final");
    assert_eq!(
        periods,
        [(&json!("2026-11-23"), &is_final), (&json!(WEEK), &is_final)]
    );
    assert_eq!(
        closed_until(&world).await,
        Some(Timestamp::parse(CLOSES).unwrap())
    );
}

/// A history keeps 500 lines. What came before has its results all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_hide_revises_results_and_claims_find_rewards_older_than_the_history() {
    let rewards = json!([{"id": "crown", "window": "week", "ranks": [1, 1], "reward": 1}]);
    let world = world(1, json!({"rewards": rewards})).await;
    ten(&world, "1-1", "m").await;
    ten(&world, "1-2", "n").await;
    world.set_time(END);
    close(&world.instances[0]).await;
    play_many(&world, "m0").await;
    let lines = history(&world, "m0").await;
    assert_eq!(lines.len(), 500);
    assert!(lines.iter().all(|line| line.0 == "bronze"));
    let client = world.client();
    let path = |rest: &str| format!("/v1/boards/b/standings/week/periods/{WEEK}/{rest}");
    let won = client.get(&path("rewards?member=m0")).await.expect(200);
    assert_eq!(won["rewards"][0]["rule"], "crown", "{won}");
    let claim = path("rewards/crown/members/m0/claim");
    let by = json!({"by": "grant-1"});
    client.put(&claim, by.clone()).await.expect(201);
    client
        .put("/v1/boards/b/hidden/m0", json!({"reason": "cheating"}))
        .await
        .expect(200);
    let body = result(client, "silver-1").await;
    assert_eq!(
        (&body["revision"], &body["winner"]["member"], &body["total"]),
        (&json!(2), &json!("m1"), &json!(9)),
        "{body}"
    );
    assert_eq!(result(client, "silver-2").await["revision"], 1);
    let other = path("rewards/crown/members/m1/claim");
    client.put(&other, by).await.expect(201);
    client.delete("/v1/boards/b/members/m1").await.expect(204);
    assert_eq!(
        result(client, "silver-1").await["winner"]["member"],
        Value::Null
    );
}

/// Gives a member a history of more lines than are kept.
async fn play_many(world: &World, name: &str) {
    let engine = world.engine();
    let board = engine.board(&id()).await.unwrap();
    let (member, shards) = (member(name), board.shards());
    let home = &shards[board.shard_of(&member)];
    let first = Timestamp::parse(END).unwrap();
    let mut period = board
        .calendar
        .containing(board.league_unit().unwrap(), first);
    for _ in 0..501 {
        let players = seats::players(&engine.store, home, std::slice::from_ref(&member)).await;
        let seen = players.unwrap().pop().unwrap().unwrap().unwrap();
        let line = json!({"start": period.start().unwrap(), "tier": "bronze", "cohort": "0-1", "score": 1, "moved": "stay"});
        let played: Played = serde_json::from_value(line).unwrap();
        let change = PlayerChange {
            member: member.clone(),
            new: Player {
                before: Some(played.clone()),
                ..seen.player.clone()
            },
            seen: Some(seen),
            played: Some(played),
        };
        let written = seats::write_players(&engine.store, home, &[change])
            .await
            .unwrap();
        assert_eq!(written, [Stepped::Done(())]);
        period = board.calendar.next(&period).unwrap();
    }
}

/// Joins, and returns the tier and the score with which the member begins.
async fn join(client: &Client, name: &str) -> (String, i64) {
    let path = "/v1/boards/b/league/members";
    let seat = client.post(path, json!({"member": name})).await.expect(201);
    let tier = seat["tier"].as_str().unwrap().to_owned();
    (tier, seat["score"].as_i64().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn joining_the_next_period_turns_the_seat() {
    let world = world(3, json!({})).await;
    let names = ten(&world, "1-1", "m").await;
    world.set_time(END);
    let joins = names
        .iter()
        .enumerate()
        .map(|(index, name)| join(&world.instances[index % 3].client, name));
    let (joined, ()) = tokio::join!(join_all(joins), close(&world.instances[2]));
    let expected = |index| match index {
        0 => ("gold", 70),
        1 => ("gold", 20),
        8 | 9 => ("bronze", 0),
        _ => ("silver", 0),
    };
    for (index, (tier, score)) in joined.iter().enumerate() {
        assert_eq!((tier.as_str(), *score), expected(index), "{index}");
    }
    close(&world.instances[0]).await;
    for name in &names {
        assert_eq!(history(&world, name).await.len(), 1);
    }
    // The next week is skipped, since nobody plays. The first of gold keep their bonus.
    world.set_time("2026-12-07T12:00:00Z");
    assert_eq!(join(world.client(), "m0").await, ("gold".to_owned(), 70));
    close(&world.instances[0]).await;
    // Who of those that stayed in silver has joined first there went up. Missing this week costs that member the tier, and not the bonus.
    let has_gone_up = async |name: &str| {
        let moves = history(&world, name).await;
        moves.iter().map(|line| line.1.as_str()).eq(["up", "stay"])
    };
    let mut first = Vec::new();
    for name in &names[2..8] {
        if has_gone_up(name).await {
            first.push(name);
        }
    }
    assert_eq!(first.len(), 1, "{first:?}");
    world.set_time("2026-12-14T12:00:00Z");
    let joined = join(world.client(), first[0]).await;
    assert_eq!(joined, ("silver".to_owned(), 70));
    assert!(has_gone_up(first[0]).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_seat_that_was_never_listed_has_no_outcome() {
    let world = world(1, json!({})).await;
    sit(&world, "1-1", &[("ann", 5)]).await;
    // Its home knows the seat, and its cohort does not.
    let engine = world.engine();
    let board = engine.board(&id()).await.unwrap();
    let member = member("bob");
    let home = &board.shards()[board.shard_of(&member)];
    let seat = player(&world, "ann").await.unwrap().seat;
    let period = board
        .calendar
        .containing(board.league_unit().unwrap(), engine.clock.now());
    let new = Player::new(&period).seated(seat.unwrap());
    let change = PlayerChange {
        member: member.clone(),
        seen: None,
        new,
        played: None,
    };
    seats::write_players(&engine.store, home, &[change])
        .await
        .unwrap();
    world.set_time(END);
    turning::turn_seat(engine, &id(), &member).await.unwrap();
    assert_eq!(player(&world, "bob").await.unwrap().seat, None);
    close(&world.instances[0]).await;
    let bob = player(&world, "bob").await.unwrap();
    assert_eq!(
        (bob.seat, bob.before, bob.from),
        (None, None, period.start().unwrap())
    );
    assert_eq!(history(&world, "bob").await, []);
    assert_eq!(history(&world, "ann").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_seat_is_turned_before_the_wait_is_over() {
    let world = world(1, json!({"finalize": "1m"})).await;
    sit(&world, "1-1", &[("ann", 5)]).await;
    let engine = world.engine();
    let turn = async || turning::turn_seat(engine, &id(), &member("ann")).await;
    turn().await.unwrap();
    assert!(
        player(&world, "ann").await.unwrap().seat.is_some(),
        "the period runs"
    );
    world.set_time("2026-11-23T00:00:30Z");
    let error = turn().await.unwrap_err().to_string();
    assert!(error.contains("30 s"), "{error}");
    world.set_time("2026-11-23T00:01:00Z");
    turn().await.unwrap();
    assert_eq!(player(&world, "ann").await.unwrap().seat, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn periods_missed_by_the_service_are_closed_in_order() {
    let world = world(1, json!({})).await;
    ten(&world, "1-1", "m").await;
    // Nobody was seated in the week of 2026-11-23.
    world.set_time("2026-12-01T12:00:00Z");
    sit(&world, "2-1", &[("zoe", 7), ("yan", 3)]).await;
    world.set_time("2026-12-31T12:00:00Z");
    turning::turn_seat(world.engine(), &id(), &member("zoe"))
        .await
        .unwrap();
    close(&world.instances[0]).await;
    let list = world
        .client()
        .get("/v1/boards/b/standings/week/periods")
        .await
        .expect(200);
    let keys: Vec<&str> = list["periods"]
        .as_array()
        .unwrap()
        .iter()
        .map(|period| period["key"].as_str().unwrap())
        .collect();
    assert_eq!(keys, ["2026-11-30", WEEK]);
    let part = world
        .client()
        .get("/v1/boards/b/standings/week/periods?limit=1")
        .await
        .expect(200);
    assert_eq!(part["next"], "2026-11-30", "{part}");
    let rest = world
        .client()
        .get("/v1/boards/b/standings/week/periods?before=2026-11-30")
        .await
        .expect(200);
    assert_eq!(
        (&rest["periods"][0]["key"], &rest["next"]),
        (&json!(WEEK), &Value::Null)
    );
    let newer = world
        .client()
        .get(&format!("/v1/boards/b/standings/week/periods?after={WEEK}"))
        .await
        .expect(200);
    assert_eq!(newer["periods"].as_array().unwrap().len(), 1, "{newer}");
    assert_eq!(
        history(&world, "zoe").await,
        [("gold".to_owned(), "stay".to_owned(), Some(1), 70)]
    );
    assert_eq!(
        history(&world, "m9").await,
        [("silver".to_owned(), "down".to_owned(), Some(10), 0)]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn histories_and_results_outlive_the_standings() {
    let world = world(1, json!({"retention": {"week": "7d"}})).await;
    ten(&world, "1-1", "m").await;
    let tier = format!(":tiers:week:{WEEK}/1");
    let board = world.engine().board(&id()).await.unwrap();
    let now = Timestamp::parse(NOW).unwrap();
    let period = board.calendar.containing(board.league_unit().unwrap(), now);
    let shards = board.shards();
    let shard = &shards[board.shard_of_tier(&period, 1)];
    let tier = format!("st:{{{}}}:{}{tier}", shard.tag(), board.generation);
    world
        .redis
        .run(&[b"HSET", tier.as_bytes(), b"taken", b"10"])
        .await;
    world.set_time(END);
    close(&world.instances[0]).await;
    let mut expires = world.redis.expiries("st:{b*").await;
    expires.retain(|key, _| key.contains(&format!("{WEEK}/1")));
    let kinds = ["/1-1", ":members", ":seats", ":decided", "/1"];
    for kind in kinds {
        assert!(
            expires.iter().any(|(key, _)| key.ends_with(kind)),
            "{kind}: {expires:?}"
        );
    }
    let times: Vec<i64> = expires
        .iter()
        .filter(|(key, _)| key.contains("/1-1"))
        .map(|(_, at)| *at)
        .collect();
    let slack = world.redis.expiry_slack_ms();
    assert!(
        times.iter().all(|at| at.abs_diff(times[0]) <= slack),
        "{expires:?}"
    );
    assert!(expires.values().all(|at| *at > 0), "{expires:?}");
    // As their expiry would.
    for key in expires.keys() {
        world.redis.run(&[b"DEL", key.as_bytes()]).await;
    }
    assert_eq!(history(&world, "m0").await.len(), 1);
    assert_eq!(
        result(world.client(), "silver-1").await["turned"]["counted"],
        10
    );
    let export =
        format!("/v1/boards/b/standings/week/periods/{WEEK}/export?format=csv&cohort=silver-1");
    world
        .client()
        .get(&export)
        .await
        .expect_problem(410, "period-expired");
    // A seat that is not turned by then never counted.
    turning::turn_seat(world.engine(), &id(), &member("m0"))
        .await
        .unwrap();
    assert_eq!(history(&world, "m0").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn rewards_are_decided_per_cohort() {
    let rewards = json!([{"id": "crown", "window": "week", "ranks": [1, 1], "reward": 1},
        {"id": "podium", "window": "week", "ranks": [1, 3], "reward": 2}]);
    let world = world(1, json!({"rewards": rewards, "league": {"min_cohort": 3}})).await;
    ten(&world, "1-1", "m").await;
    ten(&world, "1-2", "n").await;
    sit(&world, "0-1", &[("ann", 5), ("bob", 3)]).await;
    world.set_time(END);
    close(&world.instances[0]).await;
    let client = world.client();
    let path = |rest: &str| format!("/v1/boards/b/standings/week/periods/{WEEK}/{rest}");
    let won = async |query: &str| -> Vec<String> {
        let body = client
            .get(&path(&format!("rewards?{query}")))
            .await
            .expect(200);
        let rewards = body["rewards"].as_array().unwrap().iter();
        rewards
            .map(|won| {
                format!(
                    "{} {}",
                    won["rule"].as_str().unwrap(),
                    won["member"].as_str().unwrap()
                )
            })
            .collect()
    };
    assert_eq!(
        won("cohort=silver-1").await,
        ["crown m0", "podium m0", "podium m1", "podium m2"]
    );
    assert_eq!(
        won("cohort=silver-2").await,
        ["crown n0", "podium n0", "podium n1", "podium n2"]
    );
    assert_eq!(won("member=n0").await, ["crown n0", "podium n0"]);
    assert!(won("member=nobody").await.is_empty());
    assert!(won("cohort=bronze-1").await.is_empty(), "below min_cohort");
    assert_eq!(
        history(&world, "ann").await,
        [("bronze".to_owned(), "stay".to_owned(), Some(1), 0)]
    );
    let claim = |name: &str| path(&format!("rewards/crown/members/{name}/claim"));
    let by = json!({"by": "grant-1"});
    client.put(&claim("n0"), by.clone()).await.expect(201);
    client.put(&claim("n0"), by.clone()).await.expect(200);
    for name in ["n1", "ann", "nobody"] {
        client
            .put(&claim(name), by.clone())
            .await
            .expect_problem(404, "reward-not-found");
    }
    assert_eq!(result(client, "silver-1").await["rewards"], 4);
    for rest in ["rewards", "revisions", "export?format=csv"] {
        client
            .get(&path(rest))
            .await
            .expect_problem(400, "cohort-required");
    }
    for rest in [
        "rewards?cohort=platinum-1",
        "revisions?cohort=silver",
        "rewards?cohort=silver-9",
        "revisions?cohort=silver-9",
        "export?format=csv&cohort=silver-01",
    ] {
        client
            .get(&path(rest))
            .await
            .expect_problem(404, "cohort-not-found");
    }
    client
        .get(&cohort_path(WEEK, "silver-9"))
        .await
        .expect_problem(404, "cohort-not-found");
    let export = client
        .get(&path("export?format=ndjson&cohort=silver-2"))
        .await;
    assert_eq!(export.text.lines().count(), 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_result_of_a_cohort_does_not_wait_for_the_others() {
    let world = world(1, json!({})).await;
    ten(&world, "1-1", "m").await;
    ten(&world, "1-2", "n").await;
    world.set_time(END);
    turning::turn_seat(world.engine(), &id(), &member("m0"))
        .await
        .unwrap();
    let body = result(world.client(), "silver-1").await;
    assert_eq!(
        (&body["state"], &body["turned"]["counted"]),
        (&json!("final"), &json!(10))
    );
    let period = async || {
        let path = format!("/v1/boards/b/standings/week/periods/{WEEK}");
        world.client().get(&path).await.expect(200)
    };
    let whole = period().await;
    assert_eq!(
        (&whole["state"], &whole["cohorts"], &whole["final_cohorts"]),
        (&json!("closing"), &json!(2), &json!(1)),
        "{whole}"
    );
    assert_eq!(whole["final_at"], Value::Null);
    world.set_time("2026-11-23T00:00:30Z");
    close(&world.instances[0]).await;
    let whole = period().await;
    assert_eq!(
        (&whole["state"], &whole["cohorts"], &whole["final_cohorts"]),
        (&json!("final"), &json!(2), &json!(2)),
        "{whole}"
    );
    // It is told once, whoever looks at it, and outlives the standings.
    world.set_time("2026-11-23T00:01:00Z");
    for key in world.redis.keys("st:{b:16:*}:*:s:*").await {
        world.redis.run(&[b"DEL", key.as_bytes()]).await;
    }
    close(&world.instances[0]).await;
    let list = "/v1/boards/b/standings/week/periods";
    let listed = world.client().get(list).await.expect(200)["periods"].clone();
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed}");
    for told in [&listed[0], &period().await] {
        assert_eq!(
            (&told["final_at"], &told["cohorts"], &told["final_cohorts"]),
            (&json!("2026-11-23T00:00:30.000Z"), &json!(2), &json!(2)),
            "{told}"
        );
    }
    let cohort = result(world.client(), "silver-1").await;
    assert_eq!(cohort["final_at"], "2026-11-23T00:00:00.000Z");
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_settings_do_not_apply_to_a_played_period() {
    let world = world(1, json!({})).await;
    ten(&world, "1-1", "m").await;
    ten(&world, "2-1", "n").await;
    // Silver is called iron, and gold is gone; whoever is there plays in the last tier.
    let tiers = json!([{"name": "bronze", "promote": 0.3, "demote": 0}, {"name": "iron", "promote": 0, "demote": 1}]);
    let mut changed = league(&json!({}));
    changed["league"]["tiers"] = tiers;
    world.client().define("b", changed).await;
    world.set_time(END);
    close(&world.instances[0]).await;
    let line = |tier: &str, moved: &str, place, bonus| {
        [(tier.to_owned(), moved.to_owned(), Some(place), bonus)]
    };
    assert_eq!(history(&world, "m0").await, line("silver", "up", 1, 70));
    assert_eq!(history(&world, "m9").await, line("silver", "down", 10, 0));
    assert_eq!(history(&world, "n0").await, line("gold", "stay", 1, 70));
    let tier = async |name: &str| player(&world, name).await.unwrap().tier;
    // Gold has no successor of its name, nor of its index.
    assert_eq!(
        [
            tier("m0").await,
            tier("m5").await,
            tier("m9").await,
            tier("n0").await
        ],
        [1, 1, 0, 1]
    );
    assert_eq!(
        result(world.client(), "gold-1").await["turned"]["demoted"],
        3
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn hides_before_the_decision_count_and_later_ones_revise_ranks_and_rewards() {
    let rewards = json!([{"id": "crown", "window": "week", "ranks": [1, 1], "reward": 1}]);
    let world = world(2, json!({"rewards": rewards})).await;
    ten(&world, "1-1", "m").await;
    let client = world.client();
    world.set_time(END);
    let hide = async |name: &str| {
        let path = format!("/v1/boards/b/hidden/{name}");
        client
            .put(&path, json!({"reason": "cheating"}))
            .await
            .expect(200);
    };
    hide("m0").await;
    close(&world.instances[0]).await;
    let line = |moved: &str, place, bonus| [("silver".to_owned(), moved.to_owned(), place, bonus)];
    assert_eq!(history(&world, "m0").await, line("down", None, 0), "idle");
    assert_eq!(history(&world, "m1").await, line("up", Some(1), 70));
    assert_eq!(history(&world, "m2").await, line("stay", Some(2), 20));
    let body = result(client, "silver-1").await;
    assert_eq!(
        (&body["turned"]["counted"], &body["total"]),
        (&json!(9), &json!(9)),
        "{body}"
    );
    let before = all_that_is_stored(&world).await;
    hide("m1").await;
    client.delete("/v1/boards/b/hidden/m0").await.expect(204);
    for instance in &world.instances {
        instance.engine.run(&Revisions).await.unwrap();
    }
    let after = all_that_is_stored(&world).await;
    for (key, fields) in &before {
        if !key.contains("results:") && !key.contains("rewards:") {
            assert_eq!(fields, &after[key], "a hide moves nobody");
        }
    }
    let body = result(client, "silver-1").await;
    assert_eq!(
        (&body["revision"], &body["total"]),
        (&json!(2), &json!(9)),
        "{body}"
    );
    assert_eq!(body["winner"]["member"], "m0");
    let revisions = format!("/v1/boards/b/standings/week/periods/{WEEK}/revisions?cohort=silver-1");
    let revisions = client.get(&revisions).await.expect(200);
    let revisions = revisions["revisions"].as_array().unwrap();
    let members = revisions
        .iter()
        .map(|one| one["members"].as_array().unwrap().len());
    assert!(members.eq([2]), "{revisions:?}");
    let told = messages(&world).await;
    let revised: Vec<&Value> = told
        .iter()
        .filter(|message| message["type"] == "period.revised")
        .collect();
    assert_eq!(revised.len(), 2, "one for each hide: {told:?}");
    let period = &revised[0]["data"]["periods"][0];
    assert_eq!(
        (&period["key"], &period["cohort"]),
        (&json!(WEEK), &json!("silver-1"))
    );
    let claim = |name: &str| {
        format!("/v1/boards/b/standings/week/periods/{WEEK}/rewards/crown/members/{name}/claim")
    };
    client
        .put(&claim("m1"), json!({"by": "g"}))
        .await
        .expect_problem(404, "reward-not-found");
    client
        .put(&claim("m0"), json!({"by": "g"}))
        .await
        .expect(201);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erased_member_is_in_no_result_and_no_record() {
    let world = world(1, json!({})).await;
    ten(&world, "1-1", "wanda-").await;
    world.set_time(END);
    close(&world.instances[0]).await;
    assert_eq!(
        result(world.client(), "silver-1").await["winner"]["member"],
        "wanda-0"
    );
    world
        .client()
        .delete("/v1/boards/b/members/wanda-0")
        .await
        .expect(204);
    let body = result(world.client(), "silver-1").await;
    assert_eq!(
        (&body["winner"]["member"], &body["total"]),
        (&Value::Null, &json!(10)),
        "{body}"
    );
    // The audit log knows who was erased.
    let mut keys = world.keys_with("st:{b*", "wanda-0").await;
    keys.retain(|key| !key.starts_with("st:{boards}"));
    assert_eq!(keys, Vec::<String>::new());
}
