//! Queued events amid moves, closings, erasures and deletions: none is lost, and none counts twice.

use chrono::Utc;
use futures::future::join;
use serde_json::{Value, json};
use standings::check;
use standings::core::hide::store::erasures;
use standings::domain::ids::{BoardId, MemberId};

use super::applying::{
    EVENTS, assert_clean, drain, length, queue, queue_all, run, total, world, world_at,
};
use crate::harness::jobs::{ClosePeriods, Erasures, Moves, Purge, Sweep};
use crate::harness::redis::{Reply, eventually};
use crate::harness::{Client, Instance, World, break_off};

/// More than a move of a small board waits for.
const WAITS: u16 = 1_000;

async fn close_periods(instance: &Instance) {
    let engine = &instance.engine;
    engine.refresh_boards().await.unwrap();
    engine.run(&ClosePeriods).await.unwrap();
}

async fn count_of(world: &World, key: &str) -> Reply {
    world.redis.run(&[b"ZCARD", key.as_bytes()]).await
}

/// Has the next instance take the move over at once.
async fn free_move(world: &World) {
    let words: [&[u8]; 4] = [b"HSET", b"st:{b}", b"move:until", b"0"];
    world.redis.run(&words).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_queued_before_a_move_are_applied_before_it_switches() {
    for (from, to) in [(1, 3), (3, 1), (2, 4)] {
        let world = world(2, json!({ "shards": from })).await;
        queue_all(world.client(), 0..100).await;
        world.client().spread("b", to).await;
        // While the board moves, events are taken at once, also by an instance that has not heard of it.
        for (number, instance) in world.instances.iter().rev().enumerate() {
            let event = json!({"id": format!("s{number}"), "member": "m0", "score": 1});
            let answer = instance.client.post(EVENTS, event).await;
            assert_eq!(answer.expect(200)["status"], "applied");
        }
        // Nobody applies what is queued: the board stays where it is.
        let moving = world.instances[0].engine.run(&Moves);
        assert!(break_off(moving, WAITS).await.is_none());
        assert_eq!(length(&world, "queue").await, 100);
        // A retry of a queued event is taken at once, too, and does not count twice.
        let again = json!({"id": "e1", "member": "m1", "score": 1});
        world.client().post(EVENTS, again).await.expect(200);
        free_move(&world).await;
        let applying = world.instances[1].apply_queues();
        world.instances[0].end_move("b").await;
        assert_eq!(total(world.client()).await, 102, "{from} to {to}");
        drop(applying);
        // Then events are queued again, and those of before are known.
        let again = json!({"id": "e1", "member": "m1", "score": 1});
        let again = world.client().post(EVENTS, again).await.expect(200);
        assert_eq!(again["status"], "duplicate");
        queue_all(world.client(), 100..110).await;
        let drained = drain(&world, &world.instances[0]);
        let also = drain(&world, &world.instances[1]);
        join(drained, also).await;
        assert_eq!(total(world.client()).await, 112, "{from} to {to}");
        assert_clean(&world).await;
        eventually("no queue is listed", async || {
            run(&world.instances[0]).await;
            run(&world.instances[1]).await;
            count_of(&world, "st:{boards}:queues").await == Reply::Integer(0)
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_move_with_their_board() {
    let world = world(1, json!({"shards": 2})).await;
    queue_all(world.client(), 0..30).await;
    world.set_time("2026-11-22T12:00:00.001Z");
    drain(&world, &world.instances[0]).await;
    assert_eq!(length(&world, "dead").await, 30);
    let letters = async |sharding: &str| {
        let mut ids = Vec::new();
        for key in world.redis.keys(&format!("st:{{b:{sharding}:*:dead")).await {
            let all: [&[u8]; 4] = [b"XRANGE", key.as_bytes(), b"-", b"+"];
            let all = world.redis.run(&all).await;
            let fields = all.list().iter().map(|letter| letter.list()[1].list());
            ids.extend(fields.map(|fields| fields[7].text()));
        }
        ids.sort_unstable();
        ids
    };
    let before = letters("2").await;
    assert_eq!(before.len(), 30);
    world.move_to("b", 3).await;
    assert_eq!(letters("3").await, before);
    // They go with the member wherever they are.
    world
        .client()
        .delete("/v1/boards/b/members/m0")
        .await
        .expect(204);
    assert_eq!(letters("3").await.len(), 25);
}

#[tokio::test(flavor = "multi_thread")]
async fn events_during_a_move_count_once_when_processes_die() {
    let world = world(2, json!({"shards": 2})).await;
    let mut sent = 0;
    for (waits, shards) in [(30, 3), (300, 4), (700, 2), (1_500, 5)] {
        queue_all(world.client(), sent..sent + 40).await;
        let sending = async {
            for number in sent + 40..sent + 80 {
                let event = json!({"id": format!("e{number}"), "member": "m1", "score": 1});
                let instance = &world.instances[number % 2];
                let answer = instance.client.post(EVENTS, event).await;
                assert!(answer.status.is_success(), "{}", answer.text);
            }
        };
        let moving = async {
            world.client().spread("b", shards).await;
            break_off(world.instances[0].engine.run(&Moves), waits).await;
            free_move(&world).await;
            let applying = world.instances[0].apply_queues();
            world.instances[1].end_move("b").await;
            drop(applying);
        };
        join(sending, moving).await;
        sent += 80;
        for instance in &world.instances {
            instance.engine.refresh_boards().await.unwrap();
        }
        let drained = drain(&world, &world.instances[0]);
        join(drained, drain(&world, &world.instances[1])).await;
        assert_eq!(total(world.client()).await, i64::try_from(sent).unwrap());
    }
}

fn at(id: &str, member: &str, at: &str) -> Value {
    json!({"id": id, "member": member, "score": 5, "at": at})
}

/// How many have a score in the hour before noon, and its state.
async fn last_hour(client: &Client) -> (Value, Value) {
    let path = "/v1/boards/b/standings/hour?key=2026-11-21T11:00Z";
    let page = client.get(path).await.expect(200);
    (page["total"].clone(), page["state"].clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn events_queued_before_a_closing_count_and_later_ones_are_refused_at_once() {
    for shards in [1, 3] {
        let more = json!({"windows": ["hour"], "finalize": "10m", "shards": shards});
        let world = world_at(1, "2026-11-21T11:59:00Z", more).await;
        let client = world.client();
        for number in 0..20 {
            let member = format!("m{number}");
            queue(client, at(&member, &member, "2026-11-21T11:58:00Z")).await;
        }
        world.set_time("2026-11-21T12:10:00Z");
        close_periods(&world.instances[0]).await;
        assert_eq!(last_hour(client).await, (json!(0), json!("closing")));
        // The mark is set. What lies before the barrier is refused at once, by either way.
        let late = at("late", "late", "2026-11-21T11:59:59.999Z");
        client
            .post(EVENTS, late.clone())
            .await
            .expect_problem(409, "period-closed");
        let definition = json!({"ingest": "sync"});
        client.patch("/v1/boards/b", definition).await.expect(200);
        client
            .post(EVENTS, late)
            .await
            .expect_problem(409, "period-closed");
        let definition = json!({"ingest": "async"});
        client.patch("/v1/boards/b", definition).await.expect(200);
        // What waits already is told so, and what counts for the running hour is queued.
        queue(client, at("m1", "m1", "2026-11-21T11:58:00Z")).await;
        queue(client, at("new", "new", "2026-11-21T12:00:00Z")).await;
        // To close by hand waits, too.
        let path = "/v1/boards/b/standings/hour/periods/2026-11-21T11:00Z/close";
        let applying = world.instances[0].apply_queues();
        client.post(path, json!({})).await.expect(200);
        drop(applying);
        close_periods(&world.instances[0]).await;
        assert_eq!(last_hour(client).await, (json!(20), json!("final")));
        drain(&world, &world.instances[0]).await;
        assert_clean(&world).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_queued_after_the_mark_do_not_delay_the_closing() {
    let more = json!({"windows": ["hour"], "finalize": "10m"});
    let world = world_at(1, "2026-11-21T11:59:00Z", more).await;
    let client = world.client();
    queue(client, at("1", "ann", "2026-11-21T11:58:00Z")).await;
    world.set_time("2026-11-21T12:10:00Z");
    close_periods(&world.instances[0]).await;
    queue(client, at("2", "ann", "2026-11-21T12:01:00Z")).await;
    // Nobody applies the first one: it is taken out by hand, as if it had been applied.
    let queue_key = world.redis.keys("st:{b}:*:queue").await.remove(0);
    let words: [&[u8]; 6] = [b"XTRIM", queue_key.as_bytes(), b"MAXLEN", b"=", b"1", b""];
    world.redis.run(&words[..5]).await;
    assert_eq!(length(&world, "queue").await, 1);
    close_periods(&world.instances[0]).await;
    let final_until = world.redis.run(&[b"HGET", b"st:{b}", b"final_until"]).await;
    let closed_until = world
        .redis
        .run(&[b"HGET", b"st:{b}", b"closed_until"])
        .await;
    assert_eq!(final_until, closed_until);
    drain(&world, &world.instances[0]).await;
}

/// A period of the window `hour`, as it is read and as it is listed.
async fn hour(client: &Client, key: &str) -> Value {
    let path = "/v1/boards/b/standings/hour/periods";
    let period = client.get(&format!("{path}/{key}")).await.expect(200);
    let list = client.get(path).await.expect(200);
    let mut listed = list["periods"].as_array().unwrap().iter();
    let listed = listed.find(|listed| listed["key"] == key).unwrap();
    for field in ["state", "total", "cut_off"] {
        assert_eq!(listed[field], period[field], "{field}");
    }
    period
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closing_past_max_delay_cuts_off_the_rest_and_counts_it() {
    for shards in [1, 3] {
        let more = json!({"windows": ["hour", "day"], "finalize": "10m", "max_delay": "1m", "shards": shards});
        let world = world_at(2, "2026-11-21T11:59:00Z", more).await;
        let client = world.client();
        queue(client, at("in", "in", "2026-11-21T11:58:00Z")).await;
        drain(&world, &world.instances[0]).await;
        for number in 0..20 {
            let member = format!("m{number}");
            queue(client, at(&member, &member, "2026-11-21T11:58:00Z")).await;
        }
        world.set_time("2026-11-21T12:10:00Z");
        close_periods(&world.instances[0]).await;
        // What the closing has pinned counts, and the time since its barriers were raised, whoever closes.
        let definition = json!({"max_delay": "1h"});
        client.patch("/v1/boards/b", definition).await.expect(200);
        world.set_time("2026-11-21T12:10:59.999Z");
        for instance in &world.instances {
            close_periods(instance).await;
        }
        let last = hour(client, "2026-11-21T11:00Z").await;
        assert_eq!(
            (&last["state"], &last["cut_off"]),
            (&json!("closing"), &json!(null))
        );
        world.set_time("2026-11-21T12:11:00Z");
        let [first, second] = [&world.instances[0], &world.instances[1]];
        join(close_periods(first), close_periods(second)).await;
        let last = hour(client, "2026-11-21T11:00Z").await;
        assert_eq!(
            (&last["state"], &last["cut_off"]),
            (&json!("final"), &json!(0))
        );
        // Who is erased takes back what waits: it is not refused.
        client.delete("/v1/boards/b/members/m0").await.expect(204);
        queue(client, at("next", "next", "2026-11-21T12:05:00Z")).await;
        join(drain(&world, first), drain(&world, second)).await;
        let told = client
            .get(&format!("{EVENTS}?id=m1&member=m1"))
            .await
            .expect(200);
        assert_eq!(told["events"][0]["status"], "rejected");
        assert_eq!(told["events"][0]["problem"]["code"], "period-closed");
        let cut_off = async || {
            let last = hour(client, "2026-11-21T11:00Z").await;
            (last["total"].clone(), last["cut_off"].clone())
        };
        assert_eq!(cut_off().await, (json!(1), json!(19)));
        // The counts go along with moves.
        for shards in [4, 1, 2] {
            world.move_to("b", shards).await;
            assert_eq!(cut_off().await, (json!(1), json!(19)), "{shards}");
        }
        assert!(
            check::run(world.engine(), None, check::Repair::None)
                .await
                .unwrap()
                .is_sound()
        );
        // The next closing waits anew, and what comes in time counts.
        world.set_time("2026-11-21T12:50:00Z");
        queue(client, at("2", "ann", "2026-11-21T12:50:00Z")).await;
        world.set_time("2026-11-21T13:10:00Z");
        close_periods(first).await;
        world.set_time("2026-11-21T14:09:59.999Z");
        close_periods(first).await;
        assert_eq!(hour(client, "2026-11-21T12:00Z").await["state"], "closing");
        drain(&world, first).await;
        close_periods(first).await;
        let next = hour(client, "2026-11-21T12:00Z").await;
        assert_eq!(
            [&next["state"], &next["total"], &next["cut_off"]],
            [&json!("final"), &json!(2), &json!(0)]
        );
        // The day was not final when they were refused.
        world.set_time("2026-11-22T00:10:00Z");
        close_periods(first).await;
        let path = "/v1/boards/b/standings/day/periods/2026-11-21";
        let day = client.get(path).await.expect(200);
        assert_eq!(
            (&day["total"], &day["cut_off"]),
            (&json!(3), &json!(0)),
            "{day}"
        );
        assert_clean(&world).await;
        client.delete("/v1/boards/b").await.expect(204);
        eventually("nothing of the board is left", async || {
            first.engine.run(&Purge).await.unwrap();
            world.redis.keys("st:{b*}:*:cut-off:*").await.is_empty()
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_applied_during_a_closing_counts_or_is_cut_off() {
    for (round, shards) in [(0, 1), (1, 3), (2, 2), (3, 1)] {
        let more =
            json!({"windows": ["hour"], "finalize": "0s", "max_delay": "1s", "shards": shards});
        let world = world_at(2, "2026-11-21T11:59:00Z", more).await;
        let client = world.client();
        queue(client, at("in", "in", "2026-11-21T11:58:00Z")).await;
        drain(&world, &world.instances[0]).await;
        let events: Vec<Value> = (0..900)
            .map(|number| {
                let id = format!("e{number}");
                let mut event = at(&id, &id, "2026-11-21T11:58:00Z");
                event["board"] = json!("b");
                event
            })
            .collect();
        let queued = client.post("/v1/events", json!({"events": events})).await;
        queued.expect(200);
        world.set_time("2026-11-21T12:00:00Z");
        close_periods(&world.instances[0]).await;
        world.set_time("2026-11-21T12:00:01Z");
        let [first, second] = [&world.instances[0], &world.instances[1]];
        let closing = async {
            let begun = length(&world, "queue").await - round * 100;
            // At another moment of the work each time.
            eventually("some are applied", async || {
                length(&world, "queue").await <= begun
            })
            .await;
            join(close_periods(first), close_periods(second)).await;
        };
        join(closing, drain(&world, second)).await;
        close_periods(first).await;
        let last = hour(client, "2026-11-21T11:00Z").await;
        assert_eq!(last["state"], "final");
        let sum = last["total"].as_u64().unwrap() + last["cut_off"].as_u64().unwrap();
        assert_eq!(sum, 901, "{last}");
        assert_clean(&world).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erasure_removes_earlier_queued_events_only() {
    for shards in [1, 3] {
        let world = world(1, json!({ "shards": shards })).await;
        let client = world.client();
        for number in 0..400 {
            let member = ["ann", "bob"][number % 2];
            // Also what counts for a later time than that of the erasure.
            let at = "2026-11-21T12:00:30Z";
            let event = json!({"id": format!("e{number}"), "member": member, "score": 1, "at": at});
            queue(client, event).await;
        }
        let erased = client.delete("/v1/boards/b/members/ann").await;
        assert!(erased.status.is_success(), "{}", erased.text);
        assert_eq!(length(&world, "queue").await, 200);
        world.set_time("2026-11-21T12:00:40Z");
        queue(client, json!({"id": "later", "member": "ann", "score": 7})).await;
        drain(&world, &world.instances[0]).await;
        let page = client.get("/v1/boards/b/standings/all").await.expect(200);
        let entries = page["entries"].as_array().unwrap().iter();
        let scores: Vec<_> = entries
            .map(|entry| (entry["member"].as_str().unwrap(), entry["score"].as_i64()))
            .collect();
        assert_eq!(scores, [("bob", Some(200)), ("ann", Some(7))]);
        let told = client.get("/v1/boards/b/events?id=e0&member=ann").await;
        assert_eq!(told.expect(200)["events"], json!([]));
        assert_clean(&world).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_queued_before_an_erasure_are_not_shown_after_it() {
    for shards in [1, 3] {
        let world = world(1, json!({ "shards": shards })).await;
        let client = world.client();
        let event = |id: &str, member: &str| json!({"id": id, "member": member, "score": 1});
        queue(client, event("x", "ann")).await;
        queue(client, event("x", "bob")).await;
        let (board, member) = (
            BoardId::parse("b").unwrap(),
            MemberId::parse("ann").unwrap(),
        );
        let engine = &world.engine();
        let number = erasures::begin(&engine.store, &board).await.unwrap();
        engine.erase(&board, &member, number).await.unwrap();
        assert_eq!(length(&world, "queue").await, 2, "nothing is removed yet");
        let told = async |query: &str| {
            let path = format!("{EVENTS}?{query}");
            let told = client.get(&path).await.expect(200);
            let events = told["events"].as_array().unwrap().iter();
            let members = events.map(|event| event["member"].as_str().unwrap().to_owned());
            members.collect::<Vec<_>>()
        };
        assert_eq!(told("id=x&member=ann").await, [""; 0]);
        assert_eq!(told("id=x").await, ["bob"]);
        assert_eq!(told("id=x&member=bob").await, ["bob"]);
        // What is queued later is told.
        world.set_time("2026-11-21T12:00:40Z");
        queue(client, event("y", "ann")).await;
        assert_eq!(told("id=y").await, ["ann"]);
        drain(&world, &world.instances[0]).await;
        assert_eq!(total(client).await, 2);
        assert_clean(&world).await;
    }
}

/// Removing what an erased member has left may have to wait for a closing, and that for queued events: of the same worker, or of
/// another one.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_waits_for_its_members_erasure_which_waits_for_a_closing() {
    for waits_elsewhere in [false, true] {
        let more = json!({"windows": ["hour"], "finalize": "10m", "shards": 2});
        let world = world_at(1, "2026-11-21T11:59:00Z", more).await;
        let (client, instance) = (world.client(), &world.instances[0]);
        let engine = &instance.engine;
        let board = BoardId::parse("b").unwrap();
        let live = engine.board(&board).await.unwrap();
        let members = |shard: usize| {
            let names = (0..100).map(|number| MemberId::parse(&format!("m{number}")).unwrap());
            let of_shard = names.filter(|name| live.shard_of(name) == shard);
            of_shard.take(2).collect::<Vec<_>>()
        };
        let ([ann, bob], cid) = (&members(0)[..], &members(1)[0]) else {
            panic!("a shard without members");
        };
        queue(client, at("x", ann.as_str(), "2026-11-21T11:58:00Z")).await;
        drain(&world, instance).await;
        // The closing waits for an event that is refused, since its id has been taken, or for one that nobody applies.
        let other = if waits_elsewhere { cid } else { bob };
        queue(client, at("x", other.as_str(), "2026-11-21T11:58:30Z")).await;
        let hold = async |until: &str| {
            let key = "st:{b:2:1}";
            let words = ["HSET", key, "queue:holder", "other", "queue:until", until];
            world.redis.run(&words.map(str::as_bytes)).await;
        };
        if waits_elsewhere {
            hold("9999999999999").await;
        }
        world.set_time("2026-11-21T12:10:00Z");
        close_periods(instance).await;
        let number = erasures::begin(&engine.store, &board).await.unwrap();
        engine.erase(&board, ann, number).await.unwrap();
        world.set_time("2026-11-21T12:10:30Z");
        let vote = json!({"id": "later", "member": ann.as_str(), "score": 7});
        queue(client, vote).await;
        run(instance).await;
        if waits_elsewhere {
            assert_eq!(length(&world, "queue").await, 2);
            assert_eq!(length(&world, "dead").await, 0);
            hold("0").await;
        }
        drain(&world, instance).await;
        assert_eq!(length(&world, "dead").await, 0);
        close_periods(instance).await;
        let (total, state) = last_hour(client).await;
        let left = if waits_elsewhere { 2 } else { 1 };
        assert_eq!((total, state), (json!(left), json!("final")));
        let page = client.get("/v1/boards/b/standings/hour").await.expect(200);
        assert_eq!(page["total"], 1, "{page}");
        assert_eq!(page["entries"][0]["member"], ann.as_str());
        assert_eq!(page["entries"][0]["score"], 7);
        assert_clean(&world).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erasure_interrupted_anywhere_removes_dead_letters() {
    for waits in [3, 6, 10, 20, 40, 80] {
        let world = world(2, json!({})).await;
        let client = world.client();
        for member in ["ann", "bob", "ann"] {
            queue(client, json!({"member": member, "score": 1})).await;
        }
        world.set_time("2026-11-22T12:00:00.001Z");
        drain(&world, &world.instances[0]).await;
        assert_eq!(length(&world, "dead").await, 3);
        for member in ["ann", "bob"] {
            queue(client, json!({"member": member, "score": 1})).await;
        }
        let erasing = client.delete("/v1/boards/b/members/ann");
        break_off(erasing, waits).await;
        eventually("what is left of the member goes", async || {
            world.instances[1].engine.run(&Erasures).await.unwrap();
            // It may not have been begun.
            let answer = client.delete("/v1/boards/b/members/ann").await;
            answer.status.is_success()
        })
        .await;
        assert_eq!(
            (length(&world, "dead").await, length(&world, "queue").await),
            (1, 1)
        );
        drain(&world, &world.instances[0]).await;
        assert_eq!(total(client).await, 1);
        assert_clean(&world).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_board_gets_no_queued_events_of_its_deleted_namesake() {
    for shards in [1, 3] {
        let world = world(2, json!({ "shards": shards })).await;
        let client = world.client();
        queue_all(client, 0..30).await;
        client.delete("/v1/boards/b").await.expect(204);
        let definition = json!({"windows": ["day", "all"], "ingest": "async", "shards": shards});
        client.define("b", definition).await;
        // Also one that has not heard of it puts them where they belong.
        queue_all(&world.instances[1].client, 100..110).await;
        queue_all(client, 0..5).await;
        let applying = world.instances[0].apply_queues();
        eventually("what is queued is applied", async || {
            total(client).await == 15
        })
        .await;
        eventually("the queues of the former board are unlinked", async || {
            world.instances[1].engine.run(&Purge).await.unwrap();
            length(&world, "queue").await == 0
        })
        .await;
        drop(applying);
        assert_eq!(total(client).await, 15);
        eventually("no queue is listed", async || {
            for instance in &world.instances {
                run(instance).await;
            }
            count_of(&world, "st:{boards}:queues").await == Reply::Integer(0)
        })
        .await;
        client.delete("/v1/boards/b").await.expect(204);
        for instance in &world.instances {
            instance.engine.run(&Purge).await.unwrap();
            instance.engine.run(&Sweep).await.unwrap();
        }
        assert_eq!(world.redis.keys("st:{b*}:*:queue*").await, [""; 0]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn quotas_apply_to_queued_events() {
    for window in ["1m", "hour"] {
        let quotas = json!([{"name": "q", "by": ["voter"], "window": window, "max": 1}]);
        let more = json!({"quotas": quotas, "accept_late": "1m"});
        let world = world(1, more).await;
        let client = world.client();
        let vote = |id: &str| json!({"id": id, "member": "ann", "score": 1, "voter": "v"});
        let queued = vote("1");
        // It waits while another one takes all that there is.
        queue(client, queued).await;
        let at_once = json!({"ingest": "sync"});
        client.patch("/v1/boards/b", at_once).await.expect(200);
        let begun = Utc::now().timestamp_millis();
        client.post(EVENTS, vote("2")).await.expect(200);
        if window == "hour" {
            // No test sets the clock by which this count expires. It is an hour until the last event of the hour, which may be a
            // minute late, and wait for a day.
            let counts = world.redis.expiries("st:{b}:*:q:*").await;
            assert_eq!(counts.len(), 1, "{counts:?}");
            let last = begun + (60 + 1 + 24 * 60) * 60_000;
            assert!(counts.values().all(|expires| *expires > last), "{counts:?}");
        }
        // Hours later the count of that time is still there, also after others have dropped what is old.
        world.set_time("2026-11-22T11:00:00Z");
        client.post(EVENTS, vote("3")).await.expect(200);
        drain(&world, &world.instances[0]).await;
        let told = client
            .get("/v1/boards/b/events?id=1&member=ann")
            .await
            .expect(200);
        assert_eq!(told["events"][0]["status"], "rejected", "{window}: {told}");
        assert_eq!(total(client).await, 2);
    }
}

/// The members and scores of a standing.
async fn scores(client: &Client, standing: &str) -> Value {
    let path = format!("/v1/boards/b/standings/{standing}");
    let page = client.get(&path).await.expect(200);
    let entries = page["entries"].as_array().unwrap().iter();
    let scores = entries.map(|entry| json!([entry["member"], entry["score"]]));
    scores.collect()
}

/// What an event counted for.
async fn windows_of(client: &Client, id: &str) -> Vec<Value> {
    let told = client
        .get(&format!("{EVENTS}?id={id}&member=ann"))
        .await
        .expect(200);
    assert_eq!(told["events"][0]["outcome"], "applied", "{told}");
    let standings = told["events"][0]["standings"].as_array().unwrap().iter();
    standings
        .map(|standing| standing["window"].clone())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queued_event_counts_in_the_windows_at_its_application() {
    for shards in [1, 3] {
        let world = world(1, json!({"windows": ["day", "hour"], "shards": shards})).await;
        let client = world.client();
        let event = |id: &str, score: i64| json!({"id": id, "member": "ann", "score": score});
        let definition =
            |windows: Value| json!({"windows": windows, "ingest": "async", "shards": shards});
        queue(client, event("1", 1)).await;
        drain(&world, &world.instances[0]).await;
        assert_eq!(windows_of(client, "1").await, ["day", "hour"]);
        // One that has had events goes, and one comes.
        queue(client, event("2", 10)).await;
        let path = "/v1/boards/b?drop_windows=hour";
        let changed = client.put(path, definition(json!(["day", "week"]))).await;
        changed.expect(200);
        drain(&world, &world.instances[0]).await;
        assert_eq!(windows_of(client, "2").await, ["day", "week"]);
        assert_eq!(scores(client, "day").await, json!([["ann", 11]]));
        assert_eq!(scores(client, "week").await, json!([["ann", 10]]));
        // It comes back, with nothing that was applied before.
        queue(client, event("3", 100)).await;
        let three = definition(json!(["day", "week", "hour"]));
        client.put("/v1/boards/b", three).await.expect(200);
        drain(&world, &world.instances[0]).await;
        assert_eq!(windows_of(client, "3").await, ["day", "week", "hour"]);
        assert_eq!(scores(client, "day").await, json!([["ann", 111]]));
        assert_eq!(scores(client, "week").await, json!([["ann", 110]]));
        assert_eq!(scores(client, "hour").await, json!([["ann", 100]]));
        assert_clean(&world).await;
        assert!(
            check::run(world.engine(), None, check::Repair::None)
                .await
                .unwrap()
                .is_sound()
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queued_event_does_not_recreate_an_expired_standing() {
    for shards in [1, 3] {
        let retention = json!({"hour": "1h"});
        let more = json!({"windows": ["hour", "day"], "retention": retention, "shards": shards});
        let world = world(1, more).await;
        let client = world.client();
        let event = |id: &str, score: i64, at: &str| json!({"id": id, "member": "ann", "score": score, "at": at});
        queue(client, event("1", 1, "2026-11-21T11:30:00Z")).await;
        queue(client, event("2", 10, "2026-11-21T12:00:00Z")).await;
        drain(&world, &world.instances[0]).await;
        queue(client, event("3", 100, "2026-11-21T11:30:00Z")).await;
        queue(client, event("4", 1_000, "2026-11-21T12:00:00Z")).await;
        // By then the hour from eleven on is gone, and the next one is not. (The clock of Redis is not set.)
        world.set_time("2026-11-21T13:30:00Z");
        let keys_of_hour = async || {
            let keys = "st:{b*}:*:hour:2026-11-21T11:00Z*";
            world.redis.keys(keys).await
        };
        let gone = keys_of_hour().await;
        assert!(!gone.is_empty());
        for key in gone {
            world.redis.run(&[b"DEL", key.as_bytes()]).await;
        }
        drain(&world, &world.instances[0]).await;
        assert_eq!(scores(client, "day").await, json!([["ann", 1_111]]));
        assert_eq!(
            scores(client, "hour?key=2026-11-21T12:00Z").await,
            json!([["ann", 1_010]])
        );
        assert_eq!(keys_of_hour().await, [""; 0]);
        assert_clean(&world).await;
        assert!(
            check::run(world.engine(), None, check::Repair::None)
                .await
                .unwrap()
                .is_sound()
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_check_repairs_contradictions_of_a_queue() {
    let world = world(1, json!({"shards": 2})).await;
    queue_all(world.client(), 0..20).await;
    let id = BoardId::parse("b").unwrap();
    let check = async |repair| check::run(world.engine(), Some(&id), repair).await.unwrap();
    assert!(check(check::Repair::None).await.is_sound());
    let of_kind = async |kind: &str| {
        let keys = world.redis.keys(&format!("st:{{b*:{kind}")).await;
        keys.into_iter().next().unwrap()
    };
    let [ids, state] = [of_kind("queue-ids").await, of_kind("queue-state").await];
    let known = world.redis.run(&[b"HKEYS", ids.as_bytes()]).await;
    let first = known.list()[0].text();
    let damages: [(&str, [&str; 4]); 4] = [
        ("queue_bytes", ["HINCRBY", &state, "bytes", "7"]),
        ("queue_id", ["HSET", &ids, "nobody", "1-1"]),
        ("queue_id", ["HDEL", &ids, &first, "nobody"]),
        ("not_indexed", ["DEL", "st:{boards}:queues", "", ""]),
    ];
    for (kind, damage) in damages {
        let words = damage
            .into_iter()
            .map(str::as_bytes)
            .filter(|word| !word.is_empty());
        world.redis.run(&words.collect::<Vec<_>>()).await;
        let found = check(check::Repair::None).await;
        assert!(!found.findings.is_empty(), "{kind}");
        assert!(
            found.findings.iter().all(|finding| finding.kind == kind),
            "{found:?}"
        );
        // Only with permission is it forgotten that an event was in the queue.
        let removes = damage[0] == "HSET";
        let written = check(check::Repair::Write).await;
        assert_eq!(written.is_sound(), !removes, "{kind}: {written:?}");
        assert_eq!(written.removals, u64::from(removes), "{kind}: {written:?}");
        assert!(check(check::Repair::Remove).await.is_sound(), "{kind}");
        assert!(
            check(check::Repair::None).await.findings.is_empty(),
            "{kind}"
        );
    }
    drain(&world, &world.instances[0]).await;
    assert_eq!(total(world.client()).await, 20);
    assert_clean(&world).await;
}
