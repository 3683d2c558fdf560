//! Seats in leagues: however many join at once, and whoever dies half-way.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::join_all;
use serde_json::{Value, json};
use standings::core::hide::store::erasures::{self, FORGET_KEYS, Forgotten, Places};
use standings::core::write::seats::Reason;
use standings::core::write::store::seats::{self, PlayerChange, Sitter, Stepped, Wish};
use standings::domain::ids::{BoardId, MemberId};
use standings::domain::league::Cohort;
use standings::domain::league::player::{Player, Seat, start_of};
use standings::domain::period::Unit;
use standings::domain::score::Score;

use crate::harness::jobs::ClosePeriods;
use crate::harness::redis::Reply;
use crate::harness::{Client, World, break_off};

const NOW: &str = "2026-11-16T12:00:00Z";
const NEXT_WEEK: &str = "2026-11-23T12:00:00Z";
const JOIN: &str = "/v1/boards/l/league/members";
/// More than any step waits for, so that work which is broken off there has come to its end.
const WAITS_MAX: u16 = 2_000;

/// A league of weeks with three tiers, and these settings.
fn league(settings: &Value) -> Value {
    let mut league = json!({"cohort_size": 10, "tiers": [
        {"name": "bronze", "promote": 0.3, "demote": 0},
        {"name": "silver", "promote": 0.2, "demote": 0.2},
        {"name": "gold", "promote": 0, "demote": 0.3},
    ]});
    for (name, value) in settings.as_object().unwrap() {
        league[name] = value.clone();
    }
    json!({"windows": ["week"], "score_min": 0, "finalize": "0s", "league": league})
}

async fn world(instances: usize, settings: Value) -> World {
    let world = World::with_instances(instances, NOW).await;
    world.client().define("l", league(&settings)).await;
    world
}

/// Joins; returns the status, and the seat.
async fn join(client: &Client, member: &str) -> (u16, Value) {
    let answer = client.post(JOIN, json!({"member": member})).await;
    let status = answer.status.as_u16();
    assert!([200, 201].contains(&status), "{member}: {}", answer.text);
    (status, answer.json)
}

/// Makes all periods final that are over.
async fn close_periods(world: &World) {
    let engine = &world.engine();
    engine.refresh_boards().await.unwrap();
    engine.run(&ClosePeriods).await.unwrap();
}

fn cohort_of(seat: &Value) -> String {
    seat["cohort"].as_str().unwrap().to_owned()
}

/// How many seats of each cohort are taken, as the cohorts themselves have it.
async fn seats(world: &World) -> BTreeMap<String, i64> {
    let mut seats = BTreeMap::new();
    for key in world.redis.keys("st:{l:*:s:*:seats").await {
        let Reply::Integer(count) = world.redis.run(&[b"HLEN", key.as_bytes()]).await else {
            panic!("{key} is no hash");
        };
        let zset = key.strip_suffix(":seats").unwrap();
        let listed = world.redis.run(&[b"ZCARD", zset.as_bytes()]).await;
        assert_eq!(listed, Reply::Integer(count), "{key}");
        let (_, cohort) = zset.rsplit_once('/').unwrap();
        seats.insert(cohort.to_owned(), count);
    }
    seats
}

/// Checks that so many seats lie in as few cohorts of the first tier as can be.
async fn check_packed(world: &World, count: usize, size: usize) {
    let seats = seats(world).await;
    let (full, rest) = (count / size, count % size);
    let expected = (1..=full)
        .map(|number| (format!("0-{number}"), size))
        .chain((rest > 0).then(|| (format!("0-{}", full + 1), rest)))
        .map(|(cohort, count)| (cohort, i64::try_from(count).unwrap()));
    assert_eq!(seats, expected.collect());
}

#[tokio::test(flavor = "multi_thread")]
async fn joining_gives_a_seat_in_the_open_cohort_before_later_joiners() {
    let world = world(2, json!({"cohort_size": 3})).await;
    for (number, member) in ["zoe", "ann", "bob", "dan", "eve"].iter().enumerate() {
        world.set_time(&format!("2026-11-16T12:00:0{number}Z"));
        let client = &world.instances[number % 2].client;
        let place = number % 3 + 1;
        let expected = json!({"member": member, "tier": "bronze", "cohort": format!("bronze-{}", number / 3 + 1),
            "key": "2026-11-16", "rank": place, "score": 0,
            "joined_at": format!("2026-11-16T12:00:0{number}.000Z"), "size": place});
        assert_eq!(join(client, member).await, (201, expected));
    }
    // To join again changes nothing.
    world.set_time("2026-11-17T12:00:00Z");
    let (status, seat) = join(world.client(), "ann").await;
    assert_eq!(status, 200);
    assert_eq!((&seat["rank"], &seat["size"]), (&json!(2), &json!(3)));
    assert_eq!(seat["joined_at"], "2026-11-16T12:00:01.000Z");
    check_packed(&world, 5, 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn five_hundred_join_at_once_when_three_seats_are_free() {
    let world = world(3, json!({"cohort_size": 100})).await;
    let joins = |range: std::ops::Range<usize>| {
        let joins = range.map(|number| {
            let client = &world.instances[number % 3].client;
            async move { join(client, &format!("m{number}")).await }
        });
        join_all(joins.collect::<Vec<_>>())
    };
    joins(0..97).await;
    check_packed(&world, 97, 100).await;
    let joined = joins(97..597).await;
    assert!(joined.iter().all(|(status, _)| *status == 201));
    let mut cohorts: BTreeMap<String, usize> = BTreeMap::new();
    for (_, seat) in &joined {
        *cohorts.entry(cohort_of(seat)).or_default() += 1;
    }
    assert_eq!(cohorts["bronze-1"], 3);
    check_packed(&world, 597, 100).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_joining_through_all_instances_at_once_has_one_seat() {
    let world = world(3, json!({"cohort_size": 4})).await;
    for round in 0..10 {
        let members: Vec<String> = (0..3).map(|number| format!("m{round}-{number}")).collect();
        let joins = members.iter().flat_map(|member| {
            let instances = world.instances.iter().cycle().take(6);
            instances.map(move |instance| async move {
                let (status, seat) = join(&instance.client, member).await;
                (member.clone(), status, cohort_of(&seat))
            })
        });
        let joined = join_all(joins).await;
        for member in &members {
            let of_member = || joined.iter().filter(|(other, ..)| other == member);
            let cohorts: BTreeSet<&String> = of_member().map(|(.., cohort)| cohort).collect();
            assert_eq!(cohorts.len(), 1, "{member}: {joined:?}");
            let created = of_member().filter(|(_, status, _)| *status == 201);
            assert_eq!(created.count(), 1, "{member}: {joined:?}");
        }
        check_packed(&world, 3 * (round + 1), 4).await;
    }
}

/// Whoever seats a member may stop behind each step; whoever comes next, on another instance, takes it to its end.
#[tokio::test(flavor = "multi_thread")]
async fn seating_interrupted_after_each_step_is_completed() {
    let world = world(2, json!({"cohort_size": 2})).await;
    let engine = &world.engine();
    let id = BoardId::parse("l").unwrap();
    for (number, steps) in [0, 1, 2, 3, 3, 2, 1].into_iter().enumerate() {
        let member = MemberId::parse(&format!("m{number}")).unwrap();
        let board = engine.board(&id).await.unwrap();
        let shards = board.shards();
        let now = world.clock.now();
        let period = board.calendar.containing(Unit::Week, now);
        let home = &shards[board.shard_of(&member)];
        let cohort = |number| Cohort { tier: 0, number };
        let expected = cohort(u32::try_from(number / 2 + 1).unwrap());
        let seat = Seat {
            start: start_of(&period),
            cohort: expected,
            opening: Score::default(),
            joined_at: now,
        };
        if number == 0 {
            // The first seat of a board notes that it is used.
            join(world.client(), "first").await;
            continue;
        }
        if steps >= 1 {
            let wish = Wish {
                period,
                tier: 0,
                member: member.clone(),
                at: now,
            };
            let shard = &shards[board.shard_of_tier(&period, 0)];
            // To ask twice takes no second seat.
            for _ in 0..2 {
                let wishes = std::slice::from_ref(&wish);
                let suggested = seats::suggest_cohorts(&engine.store, shard, wishes).await;
                assert_eq!(suggested.unwrap(), [Stepped::Done(expected.number)]);
            }
        }
        if steps >= 2 {
            let change = PlayerChange {
                member: member.clone(),
                seen: None,
                new: Player::new(&period).seated(seat.clone()),
                played: None,
            };
            let changes = [change.clone(), change];
            let written = seats::write_players(&engine.store, home, &changes).await;
            assert_eq!(written.unwrap(), [Stepped::Done(()), Stepped::Changed]);
        }
        if steps >= 3 {
            let sitter = Sitter {
                member: member.clone(),
                period,
                seat: seat.clone(),
                at: now,
                joins: number % 2 == 1,
            };
            let shard = &shards[board.shard_of_cohort(&period, seat.cohort)];
            seats::seat(&engine.store, shard, &[sitter]).await.unwrap();
        }
        let other = &world.instances[1].client;
        let (status, joined) = join(other, member.as_str()).await;
        assert_eq!(cohort_of(&joined), format!("bronze-{}", expected.number));
        assert_eq!(status == 200, steps >= 3 && number % 2 == 1, "{member}");
        check_packed(&world, number + 1, 2).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn seating_interrupted_anywhere_leaves_consistent_data() {
    let world = world(2, json!({"cohort_size": 3})).await;
    let id = BoardId::parse("l").unwrap();
    let mut joined = 0;
    for waits in (1..).take(60).chain([WAITS_MAX]) {
        let member = MemberId::parse(&format!("m{waits}")).unwrap();
        let reason = if waits % 2 == 0 {
            Reason::Join
        } else {
            Reason::Event(None)
        };
        let engine = &world.instances[0].engine;
        let seated = break_off(engine.seat(&id, &member, reason), waits)
            .await
            .map(Result::unwrap);
        let (_, seat) = join(&world.instances[1].client, member.as_str()).await;
        if let Some(taken) = seated {
            let number = taken.seat.cohort.number;
            assert_eq!(cohort_of(&seat), format!("bronze-{number}"));
        }
        joined += 1;
        check_packed(&world, joined, 3).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn leaving_and_orders_apply_from_the_next_period() {
    let world = world(2, json!({})).await;
    let client = world.client();
    let path = |member: &str| format!("{JOIN}/{member}");
    let state = async |member: &str| {
        let other = &world.instances[1].client;
        other.get(&path(member)).await.expect(200)
    };
    let stranger = json!({"member": "ann", "key": "2026-11-16", "tier": "bronze", "cohort": null, "order": null, "left_from": null});
    assert_eq!(state("ann").await, stranger);
    let wrong = client
        .put(&path("ann"), json!({"tier": "iron"}))
        .await
        .expect_problem(422, "validation-failed");
    assert!(wrong.starts_with("/tier: "), "{wrong}");
    let ordered = client
        .put(&path("ann"), json!({"tier": "gold"}))
        .await
        .expect(200);
    let order = json!({"tier": "gold", "from": "2026-11-23"});
    assert_eq!(
        (&ordered["tier"], &ordered["order"]),
        (&json!("bronze"), &order)
    );
    assert_eq!(state("ann").await, ordered);
    let eve = client.put(&path("eve"), json!({"tier": "gold"})).await;
    assert_eq!(eve.expect(200)["order"], order);
    let leave = async |member: &str| {
        let path = "/v1/boards/l/league/leave";
        client.post(path, json!({"member": member})).await
    };
    for _ in 0..2 {
        let left = leave("bob").await.expect(200);
        assert_eq!(left, json!({"member": "bob", "left_from": "2026-11-23"}));
    }
    // It can be taken back, also in the same period.
    assert_eq!(leave("dan").await.status, 200);
    assert_eq!(join(client, "dan").await.0, 201);
    assert_eq!(state("dan").await["left_from"], Value::Null);
    assert_eq!(state("dan").await["cohort"], "bronze-1");

    world.set_time(NEXT_WEEK);
    let ann = state("ann").await;
    assert_eq!(
        (&ann["tier"], &ann["order"]),
        (&json!("gold"), &Value::Null)
    );
    assert_eq!(cohort_of(&join(client, "ann").await.1), "gold-1");
    assert_eq!(state("bob").await["left_from"], "2026-11-23");
    assert_eq!(join(client, "bob").await.0, 201);
    let bob = state("bob").await;
    assert_eq!(
        (&bob["left_from"], &bob["cohort"]),
        (&Value::Null, &json!("bronze-1"))
    );

    // An order that nobody has used is carried out all the same.
    close_periods(&world).await;
    world.set_time("2026-11-30T12:00:00Z");
    let eve = state("eve").await;
    assert_eq!(
        (&eve["tier"], &eve["order"]),
        (&json!("gold"), &Value::Null)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_running_league_gives_seats() {
    let world = world(1, json!({})).await;
    let client = world.client();
    client.define("plain", json!({"windows": ["week"]})).await;
    let member = json!({"member": "ann"});
    for path in ["members", "leave"] {
        let path = format!("/v1/boards/plain/league/{path}");
        let answer = client.post(&path, member.clone()).await;
        answer.expect_problem(404, "no-league");
    }
    let answer = client.get("/v1/boards/plain/league/members/ann").await;
    answer.expect_problem(404, "no-league");
    let closes = json!({"closes_at": "2026-11-16T13:00:00Z"});
    client.patch("/v1/boards/l", closes).await.expect(200);
    join(client, "ann").await;
    world.set_time("2026-11-16T13:00:00Z");
    let answer = client.post(JOIN, member).await;
    answer.expect_problem(409, "board-closed");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erased_member_can_join_again_and_its_old_seat_is_reused_late_in_the_period() {
    let world = world(2, json!({"cohort_size": 2, "join_until": "1d"})).await;
    let client = world.client();
    for member in ["ann", "bob", "cat"] {
        join(client, member).await;
    }
    world.set_time("2026-11-16T12:01:00Z");
    let erased = client.delete("/v1/boards/l/members/ann").await;
    assert!(erased.status.is_success(), "{}", erased.text);
    // Until then the newest cohort is filled.
    let other = &world.instances[1].client;
    for (member, cohort) in [
        ("dan", "bronze-2"),
        ("eve", "bronze-3"),
        ("ann", "bronze-3"),
        ("fay", "bronze-4"),
    ] {
        let (status, seat) = join(other, member).await;
        assert_eq!((status, cohort_of(&seat)), (201, cohort.to_owned()));
    }
    world.set_time("2026-11-17T12:00:00Z");
    for (member, cohort) in [
        ("gil", "bronze-1"),
        ("hal", "bronze-4"),
        ("ida", "bronze-5"),
    ] {
        assert_eq!(cohort_of(&join(client, member).await.1), cohort);
    }
    let expected = [("0-1", 2), ("0-2", 2), ("0-3", 2), ("0-4", 2), ("0-5", 1)]
        .map(|(cohort, count)| (cohort.to_owned(), count));
    assert_eq!(seats(&world).await, expected.into());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hidden_member_is_seated_hidden_even_after_an_erasure() {
    let world = world(2, json!({})).await;
    let client = world.client();
    let hide = json!({"reason": "cheating"});
    let hidden = client.put("/v1/boards/l/hidden/ann", hide).await;
    hidden.expect(200);
    join(client, "bob").await;
    let out_of_sight = async |client: &Client| {
        let (status, seat) = join(client, "ann").await;
        assert_eq!(
            (&seat["rank"], &seat["score"], &seat["size"]),
            (&Value::Null, &Value::Null, &json!(1))
        );
        status
    };
    assert_eq!(out_of_sight(client).await, 201);
    world.set_time("2026-11-16T12:01:00Z");
    let erased = client.delete("/v1/boards/l/members/ann").await;
    assert!(erased.status.is_success(), "{}", erased.text);
    world.set_time("2026-11-16T12:02:00Z");
    assert_eq!(out_of_sight(&world.instances[1].client).await, 201);
    let listed = client.get("/v1/boards/l/hidden").await.expect(200);
    assert_eq!(listed["hidden"][0]["member"], "ann", "{listed}");
    client.delete("/v1/boards/l/hidden/ann").await;
    let (status, seat) = join(client, "ann").await;
    assert_eq!((status, &seat["rank"]), (200, &json!(2)));
}

/// Whoever removes what a member has left dies before it comes to the home. There the next seat finds something left.
#[tokio::test(flavor = "multi_thread")]
async fn a_half_erased_hidden_member_is_seated_hidden() {
    let world = world(1, json!({"cohort_size": 2})).await;
    let (client, engine) = (world.client(), &world.engine());
    let id = BoardId::parse("l").unwrap();
    let board = engine.board(&id).await.unwrap();
    // Some of them sit at home.
    for number in 0..59 {
        let name = format!("m{number:02}");
        let member = MemberId::parse(&name).unwrap();
        join(client, &name).await;
        let hidden = format!("/v1/boards/l/hidden/{name}");
        let hide = json!({"reason": "cheating"});
        client.put(&hidden, hide).await.expect(200);
        let erasure = erasures::begin(&engine.store, &id).await.unwrap();
        engine.erase(&id, &member, erasure).await.unwrap();
        let shards = board.shards();
        let home = board.shard_of(&member);
        let others = shards
            .iter()
            .enumerate()
            .filter(|(index, _)| *index != home);
        for (_, shard) in others {
            let (places, now) = (Places::default(), engine.clock.now());
            let forget = erasures::forget(&engine.store, shard, &member, &places, FORGET_KEYS, now);
            assert_eq!(forget.await.unwrap(), Forgotten::Done);
        }
        world.set_time(&format!("2026-11-16T12:{number:02}:01Z"));
        let (_, seat) = join(client, &name).await;
        assert_eq!(seat["rank"], Value::Null, "{seat}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_seats_its_member_unless_the_member_has_left() {
    let world = world(2, json!({})).await;
    let client = world.client();
    let event = async |id: &str, member: &str| {
        let event = json!({"id": id, "member": member, "score": 5});
        client.post("/v1/boards/l/events", event).await
    };
    event("1", "ann").await.expect(200);
    let (status, seat) = join(&world.instances[1].client, "ann").await;
    assert_eq!(
        (status, &seat["score"], &seat["rank"]),
        (200, &json!(5), &json!(1))
    );
    let leave = "/v1/boards/l/league/leave";
    client
        .post(leave, json!({"member": "ann"}))
        .await
        .expect(200);
    event("2", "ann").await.expect(200);
    world.set_time(NEXT_WEEK);
    event("3", "ann").await.expect_problem(409, "not-seated");
    event("4", "bob").await.expect(200);
    assert_eq!(join(client, "ann").await.0, 201);
    event("3", "ann").await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn missed_periods_count_if_somebody_was_seated_in_them() {
    for (idle, tier) in [("keep", "gold"), ("demote", "silver")] {
        let world = world(2, json!({"idle": idle})).await;
        let [one, other] = [0, 1].map(|index| &world.instances[index].client);
        let order = json!({"tier": "gold"});
        let ordered = one.put(&format!("{JOIN}/ann"), order).await;
        ordered.expect(200);
        world.set_time(NEXT_WEEK);
        assert_eq!(cohort_of(&join(one, "ann").await.1), "gold-1");
        close_periods(&world).await;
        world.set_time("2026-12-02T12:00:00Z");
        join(other, "bob").await;
        close_periods(&world).await;
        // In the week of 12-07 nobody has a seat.
        world.set_time("2026-12-15T12:00:00Z");
        let known = other.get(&format!("{JOIN}/ann")).await.expect(200);
        assert_eq!(known["tier"], tier, "{idle}");
        let (status, seat) = join(one, "ann").await;
        assert_eq!((status, cohort_of(&seat)), (201, format!("{tier}-1")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn there_is_no_new_seat_before_the_last_period_can_be_decided() {
    let world = World::start(NOW).await;
    let client = world.client();
    let mut definition = league(&json!({}));
    definition["finalize"] = json!("1m");
    client.define("l", definition).await;
    join(client, "ann").await;
    world.set_time("2026-11-23T00:00:30Z");
    let answer = client.post(JOIN, json!({"member": "ann"})).await;
    assert_eq!(answer.headers["retry-after"], "30");
    answer.expect_problem(409, "league-turning");
    let known = client.get(&format!("{JOIN}/ann")).await.expect(200);
    assert_eq!(known["tier"], Value::Null);
    // Who was never here has missed nothing.
    assert_eq!(join(client, "bob").await.0, 201);
    world.set_time("2026-11-23T00:01:00Z");
    let (status, seat) = join(client, "ann").await;
    assert_eq!((status, &seat["key"]), (201, &json!("2026-11-23")));
}
