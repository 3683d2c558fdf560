//! Registries name every key of a board that exists, and forget those that are gone.

use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use standings::redis::keys::{sorted_set_of, take_apart};
use standings::redis::kinds::{Expiry, Kind, Purging};

use crate::harness::jobs::{ClosePeriods, Erasures, Moves, Purge, Registries, Rollover};
use crate::harness::random::{Random, case_count, seed};
use crate::harness::redis::{Reply, eventually};
use crate::harness::{World, break_off, keys};

/// Definitions whose keys expire, are dropped or emptied, by the hour.
fn definitions() -> Vec<Value> {
    [
        json!({"windows": ["hour", "last-2-hours", "all"], "uniques": "member", "retention": {"hour": "2h"}}),
        json!({"windows": ["hour"], "initial": ["hour"], "weight": {"members": {"m1": 3}}}),
        json!({"windows": ["hour"], "uniques": "board", "ranking": "dense"}),
        json!({"windows": ["hour"], "ties": "member", "keep_top": 3, "score_min": 1, "uniques": "member"}),
        json!({"windows": ["hour", "day"], "finalize": "0s", "uniques": "member", "carryover": {"hour": 0.5},
            "rewards": [{"id": "best", "window": "hour", "ranks": [1, 3], "reward": "a medal"}]}),
    ]
    .map(|mut definition| {
        if definition["retention"].is_null() {
            definition["retention"] = json!({"hour": "1h"});
        }
        definition
    })
    .to_vec()
}

/// Checks that every key of the board is registered, and returns the names of keys that are gone, but for those that a
/// registry keeps: of a standing that exists, and of one that is listed as existing but has no members.
async fn obsolete_names(world: &World, what: &str) -> BTreeSet<String> {
    let exists: BTreeSet<String> = world
        .redis
        .keys(&keys::pattern("b"))
        .await
        .into_iter()
        .collect();
    let kind_of = |key: &str| take_apart(key).and_then(|name| name.kind);
    let mut named = BTreeSet::new();
    for registry in exists
        .iter()
        .filter(|key| kind_of(key) == Some(Kind::Registry))
    {
        let members = world.redis.run(&[b"SMEMBERS", registry.as_bytes()]).await;
        named.extend(members.list().iter().map(|name| name.text()));
    }
    for key in &exists {
        let must_be_named = kind_of(key).unwrap().purging() == Purging::Registry;
        assert!(
            !must_be_named || named.contains(key),
            "{key} is not registered: {what}"
        );
    }
    let mut obsolete = BTreeSet::new();
    for name in named.difference(&exists) {
        let (zset, kind) = (sorted_set_of(name), kind_of(name).unwrap());
        let of_derived = kind_of(zset) == Some(Kind::Derived);
        let ends = kind.expiry() == Expiry::WithPeriod || of_derived;
        if ends && !exists.contains(zset) && !(of_derived && is_listed(world, zset).await) {
            obsolete.insert(name.clone());
        }
    }
    obsolete
}

/// Whether the state of its series lists a derived standing.
async fn is_listed(world: &World, zset: &str) -> bool {
    let (shard, series) = zset.split_once(":d:").unwrap();
    let (series, _period) = series.split_once(':').unwrap();
    let state = format!("{shard}:state:{series}");
    let state = world.redis.run(&[b"GET", state.as_bytes()]).await;
    let zset = zset.as_bytes();
    state.bytes().windows(zset.len()).any(|part| part == zset)
}

/// Waits until the keys that expire soon have expired.
async fn wait_for_expiry(world: &World) {
    eventually("what expires soon has expired", async || {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let soon = i64::try_from(now.as_millis()).unwrap() + 60_000;
        let expiries = world.redis.expiries(&keys::pattern("b")).await;
        let mut of_periods = expiries.iter().filter(|(key, _)| {
            let kind = take_apart(key).and_then(|name| name.kind);
            kind.is_some_and(|kind| kind.expiry() == Expiry::WithPeriod)
        });
        of_periods.all(|(_, expires)| !(0..soon).contains(expires))
    })
    .await;
}

/// Sends events of this hour and the two before it, of which the oldest are about to expire, and changes the board in other
/// ways.
async fn act(world: &World, random: &mut Random, definition: &Value, hour: usize) {
    let client = &world.instances[random.below(2)].client;
    let events = (0..30).map(|_| {
        let hour = hour - random.below(3);
        let mut event = json!({"board": "b", "member": format!("m{}", random.below(10)), "score": 1 + random.below(3),
            "at": format!("2026-11-21T{hour:02}:{:02}:00Z", random.below(59))});
        if !definition["uniques"].is_null() {
            event["voter"] = json!(format!("v{}", random.below(5)));
        }
        event
    }).collect::<Vec<_>>();
    client
        .post("/v1/events", json!({ "events": events }))
        .await
        .expect(200);
    let member = format!("m{}", random.below(10));
    match random.below(4) {
        0 => {
            let path = format!("/v1/boards/b/hidden/{member}");
            client
                .put(&path, json!({"reason": "cheating"}))
                .await
                .expect(200);
        }
        1 => {
            let path = format!("/v1/boards/b/members/{member}");
            client.delete(&path).await.expect(204);
        }
        2 if !definition["initial"].is_null() => {
            let scores = json!({"scores": {member: 5}});
            client
                .patch("/v1/boards/b/initial-scores", scores)
                .await
                .expect(200);
        }
        _ => {}
    }
    for window in definition["windows"].as_array().unwrap() {
        let window = window.as_str().unwrap();
        for key in [hour, hour - 1, hour - 2].map(|hour| format!("2026-11-21T{hour:02}:00Z")) {
            let key = if window == "hour" || window == "last-2-hours" {
                format!("?key={key}")
            } else {
                String::new()
            };
            client
                .get(&format!("/v1/boards/b/standings/{window}{key}"))
                .await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn registries_have_every_key_and_drop_expired_ones() {
    let definitions = definitions();
    let (mut forgotten, mut derived) = (0, 0);
    for case in 0..case_count(definitions.len()) {
        let mut random = Random::new(seed(case as u64));
        let definition = &definitions[case % definitions.len()];
        // Such boards have one shard.
        let may_spread = definition["ranking"] != "dense";
        let world = World::with_instances(2, "2026-11-21T05:59:59.800Z").await;
        world.client().define("b", definition.clone()).await;
        for hour in 6..12 {
            let what = format!("case {case}, {hour} h, {definition}");
            // What was recorded two hours ago expires in 200 ms, or one hour ago.
            world.set_time(&format!("2026-11-21T{hour:02}:59:59.800Z"));
            act(&world, &mut random, definition, hour).await;
            let [one, other] = [0, 1].map(|index| &world.instances[index].engine);
            if may_spread && random.below(2) == 0 {
                world
                    .client()
                    .spread("b", 1 + u16::try_from(random.below(4)).unwrap())
                    .await;
                break_off(other.run(&Moves), u16::try_from(random.below(60)).unwrap()).await;
                act(&world, &mut random, definition, hour).await;
            }
            one.run(&ClosePeriods).await.unwrap();
            wait_for_expiry(&world).await;
            world.instances[0].end_move("b").await;
            one.run(&Purge).await.unwrap();
            one.run(&Erasures).await.unwrap();
            one.run(&Rollover).await.unwrap();
            other.refresh_boards().await.unwrap();
            let before = obsolete_names(&world, &what).await;
            forgotten += before.len();
            derived += before.iter().filter(|name| name.contains(":d:")).count();

            break_off(
                other.run(&Registries),
                u16::try_from(random.below(10)).unwrap(),
            )
            .await;
            let (first, second) = tokio::join!(one.run(&Registries), other.run(&Registries));
            first.and(second).unwrap();
            let left = obsolete_names(&world, &what).await;
            assert_eq!(left, BTreeSet::new(), "{what}");
        }
        world.client().delete("/v1/boards/b").await.expect(204);
        world.engine().run(&Purge).await.unwrap();
        let mut left = world.redis.leftover(&keys::pattern("b")).await;
        left.retain(|key| {
            take_apart(key)
                .unwrap()
                .kind
                .is_none_or(|kind| !kind.is_swept())
        });
        assert_eq!(left, [""; 0], "{definition}");
    }
    assert!(
        forgotten > 100 && derived > 0,
        "{forgotten}, of which {derived} derived"
    );
}

/// A registry of so many names that a round takes several steps.
#[tokio::test]
async fn a_round_continues_where_another_instance_stopped_and_begins_hourly() {
    let world = World::with_instances(2, "2026-11-21T12:00:00Z").await;
    world
        .client()
        .define("b", json!({"windows": ["day"]}))
        .await;
    let event = json!({"member": "ann", "score": 1});
    world
        .client()
        .post("/v1/boards/b/events", event)
        .await
        .expect(200);
    let registry = format!("st:{{b}}:{}:keys", world.generation("b").await);
    let prefix = registry.strip_suffix("keys").unwrap();
    let add = async || {
        for part in 0..20 {
            let names: Vec<String> = (0..100)
                .map(|name| format!("{prefix}voters:day:2026-11-01\u{1f}{}", 100 * part + name))
                .collect();
            let mut words = vec![&b"SADD"[..], registry.as_bytes()];
            words.extend(names.iter().map(String::as_bytes));
            world.redis.run(&words).await;
        }
    };
    let count = async || match world.redis.run(&[b"SCARD", registry.as_bytes()]).await {
        Reply::Integer(count) => count,
        reply => panic!("{reply:?}"),
    };
    let own = count().await;
    let [one, other] = [0, 1].map(|index| &world.instances[index].engine);
    other.refresh_boards().await.unwrap();
    add().await;
    let before = count().await;
    // Some steps of a round.
    break_off(one.run(&Registries), 8).await;
    let between = count().await;
    assert!((own + 1..before).contains(&between), "{between}");
    // What is named behind it waits for the next round.
    other.run(&Registries).await.unwrap();
    assert_eq!(count().await, own);
    add().await;
    for engine in [one, other] {
        engine.run(&Registries).await.unwrap();
        assert_eq!(count().await, before);
    }
    world.set_time("2026-11-21T12:59:59Z");
    one.run(&Registries).await.unwrap();
    assert_eq!(count().await, before);
    world.set_time("2026-11-21T13:00:00Z");
    one.run(&Registries).await.unwrap();
    assert_eq!(count().await, own);
}

#[tokio::test(flavor = "multi_thread")]
async fn registries_of_a_league_drop_expired_cohorts_and_seats() {
    let world = World::with_instances(1, "2026-11-20T12:00:00Z").await;
    let (client, engine) = (world.client(), world.engine());
    let definition = json!({"windows": ["day"], "score_min": 0, "retention": {"day": "1d"}, "league":
        {"cohort_size": 3, "tiers": [{"name": "bronze", "promote": 0, "demote": 0}]}});
    client.define("b", definition).await;
    for day in 20..23 {
        world.set_time(&format!("2026-11-{day}T23:59:59.800Z"));
        for member in 0..10 {
            let event = json!({"member": format!("m{member}"), "score": 1});
            client.post("/v1/boards/b/events", event).await.expect(200);
        }
        engine.run(&ClosePeriods).await.unwrap();
        wait_for_expiry(&world).await;
        let before = obsolete_names(&world, "a league").await;
        let parts = ["s:", "tiers:"].map(|kind| {
            before
                .iter()
                .any(|name| name.contains(&format!(":{kind}day:")))
        });
        assert_eq!(parts, [day > 20; 2], "day {day}: {before:?}");
        engine.run(&Registries).await.unwrap();
        assert_eq!(obsolete_names(&world, "a league").await, BTreeSet::new());
    }
}
