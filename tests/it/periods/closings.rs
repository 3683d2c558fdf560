//! Closings: periods become final once, in their order, whoever dies half-way.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::join_all;
use serde_json::{Value, json};
use standings::core::board::store::boards;
use standings::domain::ids::BoardId;
use standings::domain::time::Timestamp;
use standings::periods::closings::{self, barriers};
use standings::periods::results;
use standings::periods::results::store::PeriodResult;

use crate::harness::jobs::{ClosePeriods, Moves, Purge};
use crate::harness::redis::{RedisServer, Reply, eventually};
use crate::harness::replicated::Replicated;
use crate::harness::{Client, Instance, World, break_off, keys, store};

const DAY_MS: i64 = 86_400_000;
/// More than any step waits for, so that work which is broken off there has come to its end.
const WAITS_MAX: u16 = 2_000;

async fn world(instances: usize, now: &str, definition: Value) -> World {
    let world = World::with_instances(instances, now).await;
    world.client().define("b", definition).await;
    world
}

async fn run(instance: &Instance) {
    instance.engine.refresh_boards().await.unwrap();
    instance.engine.run(&ClosePeriods).await.unwrap();
}

fn event(id: &str, member: &str, score: i64, at: &str) -> Value {
    json!({"id": id, "member": member, "score": score, "at": at})
}

async fn send(client: &Client, event: Value) {
    client.post("/v1/boards/b/events", event).await.expect(200);
}

/// Whether an event of that time is refused because its periods are final.
async fn is_closed(client: &Client, at: &str) -> bool {
    let event = event(&format!("late-{at}"), "late", 1, at);
    let answer = client.post("/v1/boards/b/events", event).await;
    if answer.status == 200 {
        return false;
    }
    answer.expect_problem(409, "period-closed");
    true
}

/// An instant that the head of the board has in a field; `None` if it has none.
async fn instant(world: &World, field: &str) -> Option<String> {
    let words = [b"HGET".as_slice(), b"st:{b}", field.as_bytes()];
    let Reply::Text(ms) = world.redis.run(&words).await else {
        return None;
    };
    let ms = String::from_utf8(ms).unwrap().parse().unwrap();
    Some(Timestamp::from_ms(ms).unwrap().to_rfc3339_seconds())
}

fn close_path(window: &str, key: &str) -> String {
    format!("/v1/boards/b/standings/{window}/periods/{key}/close")
}

/// The results of a window by the keys of their periods, the oldest first.
async fn results(world: &World, window: &str) -> Vec<(String, PeriodResult)> {
    let (engine, id) = (&world.engine(), BoardId::parse("b").unwrap());
    let (board, window) = (engine.board(&id).await.unwrap(), window.parse().unwrap());
    let store = &engine.store;
    let mut keys = results::store::final_periods(store, &board, window, (None, None), 1_000)
        .await
        .unwrap();
    keys.reverse();
    let results = results::store::read_many(store, &board, window, &keys)
        .await
        .unwrap()
        .into_iter()
        .map(|result| result.unwrap().result);
    keys.into_iter().zip(results).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_period_becomes_final_when_its_wait_is_over() {
    for shards in [1, 3] {
        let definition =
            json!({"windows": ["hour", "last-2-days"], "finalize": "10m", "shards": shards});
        let world = world(2, "2026-11-21T11:30:00Z", definition).await;
        let client = world.client();
        send(client, event("1", "ann", 5, "2026-11-21T11:30:00Z")).await;
        world.set_time("2026-11-21T12:09:59.999Z");
        run(&world.instances[0]).await;
        send(client, event("2", "ann", 5, "2026-11-21T11:59:59.999Z")).await;
        world.set_time("2026-11-21T12:10:00Z");
        run(&world.instances[0]).await;
        assert!(is_closed(client, "2026-11-21T11:59:59.999Z").await);
        assert!(!is_closed(&world.instances[1].client, "2026-11-21T12:00:00Z").await);
        let listed = results(&world, "hour").await;
        assert_eq!(listed.len(), 1, "{listed:?}");
        let (key, result) = &listed[0];
        assert_eq!(key, "2026-11-21T11:00Z");
        let winner = result.winner.as_ref().unwrap();
        assert_eq!(
            (winner.member.as_deref(), winner.score.scaled()),
            (Some("ann"), 10)
        );
        // What is final stays so, also without `finalize`.
        client
            .patch("/v1/boards/b", json!({"finalize": null}))
            .await
            .expect(200);
        run(&world.instances[0]).await;
        assert!(is_closed(client, "2026-11-21T11:00:00Z").await);
        world.set_time("2026-11-21T14:00:00Z");
        run(&world.instances[0]).await;
        assert!(!is_closed(client, "2026-11-21T12:00:00Z").await);
    }
}

/// A board with windows of four lengths, and events in some periods of a month.
async fn month(instances: usize) -> World {
    let definition = json!({"windows": ["hour", "day", "week", "month", "all"], "finalize": "1h", "ties": "member",
        "uniques": "member", "retention": {"hour": "60d", "day": "90d"}, "accept_late": "any"});
    let world = world(instances, "2026-10-01T00:30:00Z", definition).await;
    let client = world.client();
    for (index, at) in [
        "2026-10-01T00:30:00Z",
        "2026-10-01T02:15:00Z",
        "2026-10-04T23:59:59Z",
        "2026-10-05T00:00:00Z",
        "2026-10-20T12:00:00Z",
        "2026-10-31T23:59:59Z",
    ]
    .iter()
    .enumerate()
    {
        world.set_time(at);
        for member in ["ann", "bob"] {
            let mut event = event(&format!("{member}-{index}"), member, 1, at);
            event["voter"] = json!(format!("v{index}"));
            send(client, event).await;
        }
    }
    // Every instance holds the board, as those do that follow the changes of definitions.
    for instance in &world.instances {
        instance.engine.refresh_boards().await.unwrap();
    }
    world
}

/// The periods of the month that have results, in the order of their ends.
const OF_MONTH: [(&str, &[&str]); 4] = [
    (
        "hour",
        &[
            "2026-10-01T00:00Z",
            "2026-10-01T02:00Z",
            "2026-10-04T23:00Z",
            "2026-10-05T00:00Z",
            "2026-10-20T12:00Z",
            "2026-10-31T23:00Z",
        ],
    ),
    (
        "day",
        &[
            "2026-10-01",
            "2026-10-04",
            "2026-10-05",
            "2026-10-20",
            "2026-10-31",
        ],
    ),
    ("week", &["2026-09-28", "2026-10-05", "2026-10-19"]),
    ("month", &["2026-10"]),
];

/// Checks that each period of the month that has ended has one result.
async fn check_month(world: &World) {
    for (window, keys) in OF_MONTH {
        let found = results(world, window).await;
        let ended: Vec<&str> = found.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(ended, keys, "{window}");
        for (key, result) in &found {
            assert_eq!((result.revision, result.total), (1, 2), "{key}: {result:?}");
        }
    }
    let found = world.redis.expiries(&keys::pattern("b")).await;
    let retained = ["hour", "day"].map(str::to_owned);
    keys::check_expiries(&found, &retained, world.redis.expiry_slack_ms()).unwrap();
    check_kept_for(
        world,
        &found,
        "hour:2026-10-01T02:00Z",
        "2026-10-01T03:00:00Z",
        60,
    )
    .await;
    check_kept_for(world, &found, "day:2026-10-20", "2026-10-21T00:00:00Z", 90).await;
}

/// Checks that all keys of a period expire so many days after its end, as the clock of the test has it.
async fn check_kept_for(
    world: &World,
    found: &BTreeMap<String, i64>,
    period: &str,
    end: &str,
    days: i64,
) {
    let now = world.redis.run(&[b"TIME"]).await;
    let now_ms = now.list()[0].text().parse::<i64>().unwrap() * 1_000;
    let ahead_ms = now_ms - world.clock.now().ms();
    let expected = Timestamp::parse(end).unwrap().ms() + days * DAY_MS + ahead_ms;
    let of_period: Vec<_> = found
        .iter()
        .filter(|(key, _)| key.contains(&format!(":{period}")))
        .collect();
    // The standing and its total, the turnout, the voters of the period and of two members.
    assert!(of_period.len() >= 6, "{of_period:?}");
    for (key, expires) in of_period {
        // The clock of the test stands while Redis' goes on.
        assert!(
            expires.abs_diff(expected) < 600_000,
            "{key} expires at {expires}, not {expected}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn periods_that_ended_during_a_month_of_downtime_are_closed_in_order() {
    let world = month(1).await;
    let found = world.redis.expiries(&keys::pattern("b")).await;
    let waits = found.iter().filter(|(key, _)| key.contains(":hour:"));
    let now_ms = Timestamp::from_ms(world.clock.now().ms()).unwrap().ms();
    assert!(
        waits
            .clone()
            .all(|(_, expires)| *expires > now_ms + 300 * DAY_MS),
        "they wait for their closing"
    );
    world.set_time("2026-11-01T01:00:00Z");
    run(&world.instances[0]).await;
    assert_eq!(
        instant(&world, "closing_until").await.unwrap(),
        "2026-11-01T00:00:00Z"
    );
    assert_eq!(
        instant(&world, "results_until").await.unwrap(),
        "2026-11-01T00:00:00Z"
    );
    check_month(&world).await;
    assert!(results(&world, "all").await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closing_interrupted_anywhere_is_finished_once_by_others() {
    let world = month(3).await;
    world.set_time("2026-11-01T01:00:00Z");
    // Each time another instance comes some steps further.
    for waits in (1..WAITS_MAX).step_by(7) {
        let instance = &world.instances[usize::from(waits) % 3];
        let run = instance.engine.run(&ClosePeriods);
        if break_off(run, waits).await.is_some() {
            break;
        }
    }
    // All at once, also where nothing is left to do.
    join_all(world.instances.iter().map(run)).await;
    check_month(&world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn three_instances_at_once_close_a_month_once() {
    let world = month(3).await;
    world.set_time("2026-11-01T01:00:00Z");
    join_all(world.instances.iter().map(run)).await;
    check_month(&world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closing_is_finished_once_though_redis_is_killed_repeatedly() {
    let world = month(2).await;
    world.set_time("2026-11-01T01:00:00Z");
    let closing = async {
        while instant_or_none(&world).await.as_deref() != Some("2026-11-01T00:00:00Z") {
            for instance in &world.instances {
                let _ = instance.engine.run(&ClosePeriods).await;
            }
        }
    };
    let killing = async {
        for pause_ms in [3, 7, 20, 5, 11] {
            tokio::time::sleep(Duration::from_millis(pause_ms)).await;
            world.redis.kill();
            world.redis.restart().await;
        }
    };
    tokio::join!(closing, killing);
    for instance in &world.instances {
        eventually("the rest is closed", async || {
            instance.engine.run(&ClosePeriods).await.is_ok()
        })
        .await;
    }
    check_month(&world).await;
}

/// Up to where the results are recorded; `None` also while Redis is away.
async fn instant_or_none(world: &World) -> Option<String> {
    let id = BoardId::parse("b").unwrap();
    let closings = boards::closings(&world.engine().store, &id).await.ok()?;
    closings.results_until.map(Timestamp::to_rfc3339_seconds)
}

#[tokio::test(flavor = "multi_thread")]
async fn closing_a_period_early_closes_those_that_end_no_later() {
    let definition = json!({"windows": ["hour", "day", "last-2-days", "all"], "finalize": "7d"});
    let world = world(2, "2026-11-20T10:30:00Z", definition).await;
    let client = world.client();
    send(client, event("1", "ann", 5, "2026-11-20T10:30:00Z")).await;
    world.set_time("2026-11-21T12:30:00Z");
    send(client, event("2", "ann", 5, "2026-11-21T12:30:00Z")).await;
    let close =
        async |window: &str, key: &str| client.post(&close_path(window, key), json!({})).await;
    for (window, key) in [
        ("day", "2026-11-21"),
        ("hour", "2026-11-21T12:00Z"),
        ("all", "all"),
        ("day", "2027-01-01"),
    ] {
        close(window, key)
            .await
            .expect_problem(409, "period-running");
    }
    close("last-2-days", "2026-11-20")
        .await
        .expect_problem(404, "period-not-found");
    close("day", "20")
        .await
        .expect_problem(400, "invalid-parameter");
    close("week", "2026-11-16")
        .await
        .expect_problem(404, "unknown-window");
    close("day", "2026-11-19")
        .await
        .expect_problem(409, "not-finalized");
    assert!(!is_closed(client, "2026-11-20T09:00:00Z").await);
    for _ in 0..2 {
        let result = close("day", "2026-11-20").await.expect(200);
        assert_eq!(
            (&result["key"], &result["state"], &result["total"]),
            (&json!("2026-11-20"), &json!("final"), &json!(2))
        );
        assert!(is_closed(&world.instances[1].client, "2026-11-20T23:59:59Z").await);
        assert!(!is_closed(client, "2026-11-21T00:00:00Z").await);
        assert_eq!(results(&world, "day").await.len(), 1);
        assert_eq!(
            results(&world, "hour").await.len(),
            1,
            "09:00 ended before it was set"
        );
    }
    // The hour is final with the day.
    let hour = close("hour", "2026-11-20T10:00Z").await.expect(200);
    assert_eq!((&hour["revision"], &hour["total"]), (&json!(1), &json!(1)));
    close("hour", "2026-11-20T12:00Z").await.expect(204);
    client.define("other", json!({"windows": ["day"]})).await;
    let path = "/v1/boards/other/standings/day/periods/2026-11-20/close";
    client
        .post(path, json!({}))
        .await
        .expect_problem(409, "not-finalized");
    let nowhere = client.post(
        "/v1/boards/none/standings/day/periods/2026-11-20/close",
        json!({}),
    );
    nowhere.await.expect_problem(404, "board-not-found");
}

#[tokio::test(flavor = "multi_thread")]
async fn closes_at_ends_the_board_and_is_fixed_afterwards() {
    let season = json!({"start": "2026-11-02T00:00:00Z", "length": "14d"});
    let definition = json!({"windows": ["all", "season", "day"], "season": season, "finalize": "5m",
        "carryover": {"day": 0.5}});
    let world = world(2, "2026-11-21T12:00:00Z", definition.clone()).await;
    let client = world.client();
    send(client, event("1", "ann", 4, "2026-11-21T12:00:00Z")).await;
    let patch = async |closes_at: Value| {
        client
            .patch("/v1/boards/b", json!({"closes_at": closes_at}))
            .await
    };
    patch(json!("2026-11-30T00:00:00Z")).await.expect(200);
    patch(json!("2026-11-21T12:00:30Z")).await.expect(200);
    world.set_time("2026-11-21T12:05:29Z");
    run(&world.instances[0]).await;
    assert!(results(&world, "all").await.is_empty());
    world.set_time("2026-11-21T12:05:30Z");
    run(&world.instances[0]).await;
    for (window, key) in [
        ("all", "all"),
        ("season", "2026-11-16T00:00Z"),
        ("day", "2026-11-21"),
    ] {
        let listed = results(&world, window).await;
        assert_eq!(
            listed.len(),
            1,
            "the next day, which has a share of the scores, never began: {listed:?}"
        );
        assert_eq!((listed[0].0.as_str(), listed[0].1.total), (key, 1));
    }
    assert_eq!(
        instant(&world, "results_until").await.unwrap(),
        "2026-11-21T12:00:30Z"
    );
    for closes_at in [
        json!(null),
        json!("2026-11-30T00:00:00Z"),
        json!("2026-11-01T00:00:00Z"),
    ] {
        patch(closes_at).await.expect_problem(409, "board-final");
    }
    let mut other = definition;
    other["windows"] = json!(["all", "season"]);
    other["carryover"] = json!({});
    other["closes_at"] = json!("2026-11-21T12:00:30Z");
    let preview = client
        .put("/v1/boards/b?dry_run=true&drop_windows=day", other.clone())
        .await;
    preview.expect_problem(409, "board-final");
    client
        .put("/v1/boards/b?drop_windows=day", other)
        .await
        .expect_problem(409, "board-final");
    client
        .patch("/v1/boards/b", json!({"title": "It is over"}))
        .await
        .expect(200);
    // The board has ended, and is done with.
    world.set_time("2027-11-21T12:05:30Z");
    run(&world.instances[1]).await;
    assert_eq!(
        instant(&world, "closing_until").await.unwrap(),
        "2026-11-21T12:00:30Z"
    );
    client.delete("/v1/boards/b").await.expect(204);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_with_final_periods_can_not_be_removed_and_closes_at_must_be_after_them() {
    let definition = json!({"windows": ["hour", "day"], "finalize": "0s"});
    let world = world(1, "2026-11-21T12:30:00Z", definition).await;
    let client = world.client();
    send(client, event("1", "ann", 5, "2026-11-21T12:30:00Z")).await;
    world.set_time("2026-11-21T13:00:00Z");
    run(&world.instances[0]).await;
    let without = async |window: &str, left: Value| {
        let path = format!("/v1/boards/b?drop_windows={window}");
        client.patch(&path, json!({ "windows": left })).await
    };
    without("hour", json!(["day"]))
        .await
        .expect_problem(409, "board-final");
    let early = client
        .patch("/v1/boards/b", json!({"closes_at": "2026-11-21T13:00:00Z"}))
        .await;
    early.expect_problem(409, "board-final");
    without("day", json!(["hour"])).await.expect(200);
    world.set_time("2026-11-21T13:00:01Z");
    let now = client
        .patch("/v1/boards/b", json!({"closes_at": "2026-11-21T13:00:01Z"}))
        .await;
    now.expect(200);
    run(&world.instances[0]).await;
    assert_eq!(
        instant(&world, "closing_until").await.unwrap(),
        "2026-11-21T13:00:01Z"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_during_a_closing_completes_both() {
    for waits in [5, 40, 120, 400, WAITS_MAX] {
        let world = month(2).await;
        let client = world.client();
        client.spread("b", 3).await;
        world.set_time("2026-11-01T01:00:00Z");
        let engines = [0, 1].map(|place| &world.instances[place].engine);
        break_off(engines[0].run(&Moves), waits).await;
        join_all(world.instances.iter().map(run)).await;
        world.instances[1].end_move("b").await;
        run(&world.instances[1]).await;
        assert!(is_closed(client, "2026-10-31T23:59:59Z").await);
        engines[1].run(&Purge).await.unwrap();
        check_month(&world).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_closed_while_the_clock_is_in_doubt() {
    let definition = json!({"windows": ["hour"], "finalize": "10m"});
    let world = world(1, "2026-11-21T12:30:00Z", definition).await;
    let client = world.client();
    send(client, event("1", "ann", 5, "2026-11-21T12:30:00Z")).await;
    // The clock is a month ahead for a minute.
    world.set_time("2026-12-21T12:30:00Z");
    world.clock.set_doubted(true);
    run(&world.instances[0]).await;
    let early = client
        .once()
        .post(&close_path("hour", "2026-11-21T12:00Z"), json!({}))
        .await;
    assert!(early.headers.contains_key("retry-after"));
    let detail = early.expect_problem(503, "time-uncertain");
    assert!(detail.contains("a test doubts it"), "{detail}");
    let ready = client.get("/readyz").await.expect(200);
    assert_eq!(ready["faults"][0]["job"], "closings", "{ready}");
    assert_eq!(instant(&world, "closing_until").await, None);
    world.set_time("2026-11-21T12:31:00Z");
    run(&world.instances[0]).await;
    world.clock.set_doubted(false);
    run(&world.instances[0]).await;
    assert_eq!(instant(&world, "closing_until").await, None);
    assert!(!is_closed(client, "2026-11-21T12:00:00Z").await);
    let ready = client.get("/readyz").await.expect(200);
    assert_eq!(ready["faults"], json!([]));
    world.set_time("2026-11-21T13:10:00Z");
    run(&world.instances[0]).await;
    assert!(is_closed(client, "2026-11-21T12:29:00Z").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn decided_results_are_recorded_though_finalize_is_removed() {
    let world = month(2).await;
    world.set_time("2026-11-01T01:00:00Z");
    let first = &world.instances[0].engine;
    // It is decided, and little more.
    let mut waits = 1;
    while instant(&world, "closing_until").await.is_none() {
        break_off(first.run(&ClosePeriods), waits).await;
        waits += 1;
    }
    let client = &world.instances[1].client;
    client
        .patch("/v1/boards/b", json!({"finalize": null}))
        .await
        .expect(200);
    run(&world.instances[1]).await;
    check_month(&world).await;
    // Set again, it holds for what ends from then on.
    client
        .patch("/v1/boards/b", json!({"finalize": "1h"}))
        .await
        .expect(200);
    world.set_time("2026-11-01T03:00:00Z");
    run(&world.instances[1]).await;
    assert_eq!(
        instant(&world, "results_until").await.unwrap(),
        "2026-11-01T02:00:00Z"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn periods_that_ended_before_finalize_was_set_become_final_with_the_next_one() {
    let world = world(1, "2026-11-21T11:30:00Z", json!({"windows": ["hour"]})).await;
    let client = world.client();
    send(client, event("1", "ann", 5, "2026-11-21T11:30:00Z")).await;
    world.set_time("2026-11-21T12:30:00Z");
    client
        .patch("/v1/boards/b", json!({"finalize": "10m"}))
        .await
        .expect(200);
    run(&world.instances[0]).await;
    assert_eq!(instant(&world, "closing_until").await, None);
    let early = close_path("hour", "2026-11-21T11:00Z");
    let early = client.post(&early, json!({})).await;
    early.expect_problem(409, "not-finalized");
    let page = "/v1/boards/b/standings/hour?key=2026-11-21T11:00Z";
    let state = async || client.get(page).await.expect(200)["state"].clone();
    assert_eq!(state().await, "ended");
    assert!(!is_closed(client, "2026-11-21T11:30:00Z").await);
    world.set_time("2026-11-21T13:10:00Z");
    run(&world.instances[0]).await;
    assert_eq!(state().await, "final");
    assert!(is_closed(client, "2026-11-21T11:31:00Z").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn periods_that_ended_before_finalize_was_set_have_no_result() {
    let world = world(1, "2026-11-21T11:30:00Z", json!({"windows": ["hour"]})).await;
    let client = world.client();
    send(client, event("1", "ann", 5, "2026-11-21T11:30:00Z")).await;
    world.set_time("2026-11-21T12:30:00Z");
    send(client, event("2", "ann", 5, "2026-11-21T12:30:00Z")).await;
    client
        .patch("/v1/boards/b", json!({"finalize": "0s"}))
        .await
        .expect(200);
    world.set_time("2026-11-21T13:30:00Z");
    run(&world.instances[0]).await;
    assert_eq!(
        instant(&world, "results_until").await.unwrap(),
        "2026-11-21T13:00:00Z"
    );
    assert!(is_closed(client, "2026-11-21T11:30:00Z").await);
    let close = async |key: &str| client.post(&close_path("hour", key), json!({})).await;
    close("2026-11-21T12:00Z").await.expect(200);
    let earlier = close("2026-11-21T11:00Z").await.expect(200);
    assert_eq!(
        (&earlier["state"], &earlier["final_at"]),
        (&json!("final"), &json!(null))
    );
    let keys: Vec<String> = results(&world, "hour")
        .await
        .into_iter()
        .map(|(key, _)| key)
        .collect();
    assert_eq!(keys, ["2026-11-21T12:00Z"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn reading_a_result_records_it_if_no_job_has() {
    let definition = json!({"windows": ["hour", "day"], "finalize": "0s"});
    let world = world(2, "2026-11-21T11:30:00Z", definition).await;
    let client = world.client();
    send(client, event("1", "ann", 5, "2026-11-21T11:30:00Z")).await;
    world.set_time("2026-11-21T12:00:00Z");
    let (engine, id) = (&world.instances[1].engine, BoardId::parse("b").unwrap());
    let (board, until) = (engine.board(&id).await.unwrap(), world.clock.now());
    closings::store::decide(&engine.store, &board, until)
        .await
        .unwrap();
    let path = "/v1/boards/b/standings/hour/periods/2026-11-21T11:00Z";
    let result = client.get(path).await.expect(200);
    assert_eq!(
        (&result["state"], &result["revision"]),
        (&json!("closing"), &json!(null))
    );
    barriers::close_shards(engine, &id, until, None)
        .await
        .unwrap();
    let result = client.get(path).await.expect(200);
    assert_eq!(
        (&result["state"], &result["revision"]),
        (&json!("final"), &json!(1))
    );
    let day = client
        .get("/v1/boards/b/standings/day/periods/2026-11-21")
        .await
        .expect(200);
    assert_eq!(
        (&day["state"], &day["revision"]),
        (&json!("live"), &json!(null))
    );
}

/// What a field of the head of the board `d` has.
async fn field(primary: &RedisServer, name: &str) -> Option<String> {
    let words = [b"HGET".as_slice(), b"st:{d}", name.as_bytes()];
    match primary.run(&words).await {
        Reply::Text(text) => Some(String::from_utf8(text).unwrap()),
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_final_before_replicas_have_its_barrier() {
    let set = Replicated::start("2026-11-20T12:00:00Z").await;
    let (engine, client) = (&set.instance.engine, &set.instance.client);
    let id = BoardId::parse("d").unwrap();
    let definition = json!({"windows": ["day"], "finalize": "10m"});
    client.define("d", definition).await;
    let event = json!({"id": "1", "member": "ann", "score": 1});
    client.post("/v1/boards/d/events", event).await.expect(200);
    // It waits for no replica, and knows nothing of what the other one has seen.
    let other = Instance::start_on(store(&set.primary.url()), set.clock.clone(), "").await;
    let state = async |client: &Client| {
        let page = client.get("/v1/boards/d/standings/day?key=2026-11-20");
        page.await.expect(200)["state"].clone()
    };

    set.replica.kill();
    set.clock
        .set(Timestamp::parse("2026-11-21T00:10:00Z").unwrap());
    // A decision that is with the primary alone raises no barrier.
    for _ in 0..2 {
        engine.run(&ClosePeriods).await.unwrap_err();
        assert!(field(&set.primary, "closing_until").await.is_some());
        assert_eq!(field(&set.primary, "closed_until").await, None);
    }
    // And by a barrier that is with the primary alone no read goes.
    let until = Timestamp::parse("2026-11-21T00:00:00Z").unwrap();
    barriers::close_shards(engine, &id, until, None)
        .await
        .unwrap_err();
    assert!(field(&set.primary, "closed_until").await.is_some());
    for client in [client, &other.client] {
        assert_eq!(state(client).await, "closing");
    }

    set.replica.restart().await;
    eventually("the replica has it", async || {
        engine.run(&ClosePeriods).await.is_ok()
    })
    .await;
    for client in [client, &other.client] {
        assert_eq!(state(client).await, "final");
    }
}
