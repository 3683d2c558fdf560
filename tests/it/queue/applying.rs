//! Queued events are applied once each, whoever dies or wakes up late, and hold up nobody else.

use std::sync::atomic::{AtomicI64, Ordering};

use futures::future::{join, join_all};
use reqwest::Method;
use serde_json::{Value, json};
use standings::core::jobs::Job;
use standings::core::write::store::reservations::{self, Reserved, Token, Wanted};
use standings::domain::event::{Event, Origin};
use standings::domain::ids::{BoardId, EventId, Label, MemberId};
use standings::domain::plan::Routes;
use standings::domain::score::Score;

use crate::harness::client::Answer;
use crate::harness::jobs::{ApplyQueues, ListQueues, SETTLE_ALL};
use crate::harness::redis::{Reply, eventually};
use crate::harness::{Client, Instance, World, break_off, clock_at, interrupt};

const NOW: &str = "2026-11-21T12:00:00Z";
pub(super) const EVENTS: &str = "/v1/boards/b/events";

/// Instances, and a board whose events are queued.
pub(super) async fn world(instances: usize, more: Value) -> World {
    world_at(instances, NOW, more).await
}

/// The same at another time.
pub(super) async fn world_at(instances: usize, now: &str, more: Value) -> World {
    let world = World::with_instances(instances, now).await;
    let mut definition = json!({"windows": ["day", "all"], "ingest": "async", "shards": 1});
    let fields = definition.as_object_mut().unwrap();
    fields.extend(more.as_object().unwrap().clone());
    world.client().define("b", definition).await;
    world
}

pub(super) async fn queue(client: &Client, event: Value) -> Answer {
    let answer = client.post(EVENTS, event).await;
    assert_eq!(answer.status, 202, "{}", answer.text);
    answer
}

/// Queues a point for each number, for one of seven members.
pub(super) async fn queue_all(client: &Client, numbers: std::ops::Range<usize>) {
    for number in numbers {
        let member = format!("m{}", number % 7);
        let event = json!({"id": format!("e{number}"), "member": member, "score": 1});
        queue(client, event).await;
    }
}

/// How many entries the streams of this name have.
pub(super) async fn length(world: &World, name: &str) -> i64 {
    let mut length = 0;
    for key in world.redis.keys(&format!("st:{{b*}}:*:{name}")).await {
        match world.redis.run(&[b"XLEN", key.as_bytes()]).await {
            Reply::Integer(count) => length += count,
            other => panic!("{other:?}"),
        }
    }
    length
}

pub(super) async fn run(instance: &Instance) {
    let run = instance.engine.run(&ApplyQueues).await;
    run.unwrap();
}

pub(super) async fn drain(world: &World, instance: &Instance) {
    eventually("nothing waits", async || {
        run(instance).await;
        length(world, "queue").await == 0
    })
    .await;
}

/// Ends all leases of queues, as if their time were over.
async fn end_leases(world: &World) {
    for head in world.redis.keys("st:{b*}").await {
        if head.ends_with('}') {
            let command: [&[u8]; 4] = [b"HSET", head.as_bytes(), b"queue:until", b"0"];
            world.redis.run(&command).await;
        }
    }
}

/// The sum of all scores.
pub(super) async fn total(client: &Client) -> i64 {
    let page = client
        .get("/v1/boards/b/standings/all?size=1000")
        .await
        .expect(200);
    let entries = page["entries"].as_array().unwrap().iter();
    entries.map(|entry| entry["score"].as_i64().unwrap()).sum()
}

/// Nothing of a queue is left but its stream and its state, which has no bytes.
pub(super) async fn assert_clean(world: &World) {
    assert_eq!(world.redis.keys("st:*:queue-ids").await, [""; 0]);
    for state in world.redis.keys("st:*:queue-state").await {
        let command: [&[u8]; 3] = [b"HGET", state.as_bytes(), b"bytes"];
        assert_eq!(world.redis.run(&command).await.text(), "0");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn queued_events_are_applied_like_others_and_their_queue_leaves_the_index() {
    for shards in [1, 4] {
        let world = world(1, json!({ "shards": shards })).await;
        queue_all(world.client(), 0..300).await;
        assert_eq!(total(world.client()).await, 0);
        drain(&world, &world.instances[0]).await;
        assert_eq!(total(world.client()).await, 300);
        assert_clean(&world).await;
        let listed = async || {
            let listed = world.redis.run(&[b"ZCARD", b"st:{boards}:queues"]).await;
            listed != Reply::Integer(0)
        };
        assert!(listed().await);
        eventually("no queue is listed", async || {
            run(&world.instances[0]).await;
            !listed().await
        })
        .await;
        // The next event lists it again.
        queue_all(world.client(), 0..301).await;
        drain(&world, &world.instances[0]).await;
        assert_eq!(total(world.client()).await, 301);
    }
}

/// Queues twenty points behind so many others, and, behind the first ones, an event that is refused when it is applied.
async fn queue_more(client: &Client, queued: usize) -> usize {
    queue_all(client, queued..queued + 20).await;
    if queued > 0 {
        queue(client, json!({"id": "e0", "member": "m0", "score": 0})).await;
    }
    queued + 20
}

#[tokio::test]
async fn a_worker_that_dies_anywhere_loses_and_doubles_nothing() {
    let world = world(2, json!({"shards": 2})).await;
    let mut queued = 0;
    for waits in 1.. {
        queued = queue_more(world.client(), queued).await;
        end_leases(&world).await;
        let dying = world.instances[0].engine.run(&ApplyQueues);
        let is_over = break_off(dying, waits).await.is_some();
        end_leases(&world).await;
        drain(&world, &world.instances[1]).await;
        assert_eq!(total(world.client()).await, i64::try_from(queued).unwrap());
        if is_over {
            assert!(waits > 3, "a look, a lease, events: {waits}");
            break;
        }
    }
    assert_clean(&world).await;
}

#[tokio::test]
async fn a_worker_that_lost_its_lease_applies_nothing_twice() {
    let world = world(2, json!({"shards": 2})).await;
    let (mut queued, mut waits) = (0, 1);
    loop {
        queued = queue_more(world.client(), queued).await;
        end_leases(&world).await;
        let left = AtomicI64::new(0);
        let held_up = async { run(&world.instances[0]).await };
        let takeover = async {
            left.store(length(&world, "queue").await, Ordering::Relaxed);
            end_leases(&world).await;
            drain(&world, &world.instances[1]).await;
            assert_eq!(total(world.client()).await, i64::try_from(queued).unwrap());
        };
        let was_held_up = interrupt(held_up, waits, takeover).await;
        assert_eq!(length(&world, "queue").await, 0);
        assert_eq!(total(world.client()).await, i64::try_from(queued).unwrap());
        if was_held_up {
            waits += 1;
        } else if left.into_inner() == 0 {
            break;
        }
        // Otherwise it has paused, since its last lease was lost.
    }
    assert!(waits > 3, "a look, a lease, events: {waits}");
    assert_clean(&world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_event_is_a_dead_letter_and_the_rest_is_applied() {
    let world = world(1, json!({})).await;
    queue_all(world.client(), 0..5).await;
    let queue = world.redis.keys("st:{b}:*:queue").await.remove(0);
    let add = async |fields: &[&[u8]]| {
        let command = [&[b"XADD", queue.as_bytes(), b"*"], fields].concat();
        world.redis.run(&command).await;
    };
    add(&[b"id", b"x", b"event", b"\x93\x01"]).await;
    queue_all(world.client(), 5..10).await;
    add(&[b"other", b"field"]).await;
    add(&[b"id", b"\xff\xfe", b"event", b""]).await;
    queue_all(world.client(), 10..15).await;
    drain(&world, &world.instances[0]).await;
    assert_eq!(total(world.client()).await, 15);
    assert_eq!(length(&world, "dead").await, 3);
    let dead = world.redis.keys("st:{b}:*:dead").await.remove(0);
    let letters = world
        .redis
        .run(&[b"XRANGE", dead.as_bytes(), b"-", b"+"])
        .await;
    let kept = letters.list().iter().map(|letter| letter.list()[1].list());
    let reasons: Vec<String> = kept.clone().map(|fields| fields[1].text()).collect();
    assert_eq!(reasons, ["unreadable"; 3]);
    let others: Vec<&Reply> = kept.map(|fields| fields.last().unwrap()).collect();
    assert_eq!(others[0].bytes(), b"\x93\x01");
    assert_eq!(others[1].bytes(), b"field");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_waited_for_more_than_a_day_is_a_dead_letter() {
    let world = world(1, json!({})).await;
    queue_all(world.client(), 0..3).await;
    world.set_time("2026-11-22T12:00:00.001Z");
    queue_all(world.client(), 3..5).await;
    drain(&world, &world.instances[0]).await;
    assert_eq!(total(world.client()).await, 2);
    assert_eq!(length(&world, "dead").await, 3);
    // At the end of the day it is taken.
    queue_all(world.client(), 5..8).await;
    world.set_time("2026-11-23T12:00:00.001Z");
    drain(&world, &world.instances[0]).await;
    assert_eq!(total(world.client()).await, 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn lateness_and_the_default_at_use_the_time_of_queuing() {
    let world = world(1, json!({"windows": ["hour", "all"], "accept_late": "1h"})).await;
    let client = world.client();
    let late = json!({"id": "late", "member": "ann", "score": 5, "at": "2026-11-21T11:00:00Z"});
    queue(client, late.clone()).await;
    queue(client, json!({"id": "now", "member": "ann", "score": 2})).await;
    world.set_time("2026-11-21T20:00:00Z");
    drain(&world, &world.instances[0]).await;
    let hour = async |key: &str| {
        let path = format!("/v1/boards/b/standings/hour?key={key}");
        let page = client.get(&path).await.expect(200);
        page["entries"][0]["score"].clone()
    };
    assert_eq!(hour("2026-11-21T11:00Z").await, 5);
    assert_eq!(hour("2026-11-21T12:00Z").await, 2);
    // A retry is known by what was sent, whichever way it comes.
    let again = client.post(EVENTS, late).await.expect(200);
    assert_eq!(again["status"], "duplicate");
    let now = json!({"id": "now", "member": "ann", "score": 2});
    let queued = queue(client, now).await;
    assert_eq!(queued.json["status"], "queued");
    drain(&world, &world.instances[0]).await;
    assert_eq!(total(client).await, 7);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_event_keeps_its_problem_for_a_while_and_its_id_is_free() {
    let quota = json!({"name": "one", "by": ["voter"], "window": "total", "max": 1});
    let world = world(1, json!({"quotas": [quota]})).await;
    let client = world.client();
    let vote = |id: &str| json!({"id": id, "member": "ann", "score": 1, "voter": "v"});
    queue(client, vote("x")).await;
    queue(client, vote("y")).await;
    drain(&world, &world.instances[0]).await;
    assert_eq!(total(client).await, 1);
    let became = async |id: &str| {
        let path = format!("{EVENTS}?id={id}&member=ann");
        client.get(&path).await.expect(200)["events"].clone()
    };
    assert_eq!(became("x").await[0]["status"], "applied");
    let refused = became("y").await;
    assert_eq!(refused[0]["status"], "rejected");
    assert_eq!(refused[0]["problem"]["code"], "quota-exceeded");
    // With more to give, the same id is taken.
    let quota = json!({"name": "one", "by": ["voter"], "window": "total", "max": 2});
    client
        .patch("/v1/boards/b", json!({"quotas": [quota]}))
        .await
        .expect(200);
    queue(client, vote("y")).await;
    drain(&world, &world.instances[0]).await;
    assert_eq!(became("y").await[0]["status"], "applied");
    assert_eq!(total(client).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_id_sent_directly_and_queued_at_once_counts_once() {
    let world = world(2, json!({"ingest": "sync"})).await;
    let applying = world.instances[1].apply_queues();
    for number in 0..60 {
        let event = json!({"id": format!("e{number}"), "member": "ann", "score": 1});
        let client = world.client();
        let asynchronous = client
            .builder(Method::POST, EVENTS)
            .header("prefer", "respond-async")
            .json(&event);
        let (queued, taken) = join(Client::send(asynchronous), client.post(EVENTS, event)).await;
        assert_eq!(queued.status, 202, "{}", queued.text);
        let taken = taken.expect(200);
        assert!(taken["status"] == "applied" || taken["status"] == "duplicate");
    }
    eventually("nothing waits", async || length(&world, "queue").await == 0).await;
    drop(applying);
    assert_eq!(total(world.client()).await, 60);
    assert_clean(&world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_id_sent_directly_and_queued_counts_once_however_long_it_waits() {
    let quota = json!({"name": "many", "by": ["voter"], "window": "total", "max": 100});
    for more in [
        json!({"shards": 1}),
        json!({"shards": 3}),
        json!({"shards": 3, "quotas": [quota]}),
    ] {
        let world = world(1, more.clone()).await;
        let client = world.client();
        let vote = |number: usize, score: i64| {
            let id = format!("e{}", number % 10);
            json!({"id": id, "member": "ann", "score": score, "voter": "v"})
        };
        for number in 0..10 {
            queue(client, vote(number, 1)).await;
        }
        // Another event under one of the ids is not the same.
        queue(client, vote(9, 100)).await;
        let at_once = json!({"ingest": "sync"});
        client.patch("/v1/boards/b", at_once).await.expect(200);
        let post = async |number, status: &str| {
            let answer = client.post(EVENTS, vote(number, 1)).await.expect(200);
            assert_eq!(answer["status"], status);
        };
        for number in 0..5 {
            post(number, "applied").await;
        }
        assert_eq!(length(&world, "queue").await, 6, "{more}");
        // One that was taken before is queued, and then recognised.
        let asynchronous = client
            .builder(Method::POST, EVENTS)
            .header("prefer", "respond-async");
        let again = Client::send(asynchronous.json(&vote(0, 1))).await;
        assert_eq!(again.status, 202, "{}", again.text);
        assert_eq!(length(&world, "queue").await, 7, "{more}");
        post(0, "duplicate").await;
        assert_eq!(length(&world, "queue").await, 6, "{more}");
        // The time is over for which ids are remembered.
        for record in world.redis.keys("st:{b*}:*:e:*").await {
            world.redis.run(&[b"DEL", record.as_bytes()]).await;
        }
        drain(&world, &world.instances[0]).await;
        let last = client.get(&format!("{EVENTS}?id=e9&member=ann")).await;
        assert_eq!(last.expect(200)["events"][0]["status"], "applied");
        assert_eq!(total(client).await, 10, "{more}");
        assert_clean(&world).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_aborts_its_call_is_a_dead_letter_and_the_others_count_once() {
    let world = world(1, json!({})).await;
    let client = world.client();
    let generation = world.generation("b").await;
    let key = format!("st:{{b}}:{generation}:s:day:2026-11-20:members");
    world.redis.run(&[b"SET", key.as_bytes(), b"x"]).await;
    queue_all(client, 0..10).await;
    let damaged = json!({"id": "x", "member": "m1", "score": 1, "at": "2026-11-20T12:00:00Z"});
    queue(client, damaged).await;
    queue_all(client, 10..20).await;
    drain(&world, &world.instances[0]).await;
    assert_eq!(total(client).await, 20);
    assert_eq!(length(&world, "dead").await, 1);
    assert_clean(&world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_that_can_not_be_applied_stay_when_there_are_too_many_dead_letters() {
    let world = world(1, json!({})).await;
    let client = world.client();
    let generation = world.generation("b").await;
    queue_all(client, 0..7).await;
    let dead = format!("st:{{b}}:{generation}:dead");
    for _ in 0..999 {
        let add: [&[u8]; 5] = [b"XADD", dead.as_bytes(), b"*", b"reason", b"failed"];
        world.redis.run(&add).await;
    }
    let key = format!("st:{{b}}:{generation}:s:day:2026-11-21:members");
    world.redis.run(&[b"SET", key.as_bytes(), b"x"]).await;
    run(&world.instances[0]).await;
    assert_eq!(length(&world, "dead").await, 1_000);
    assert_eq!(length(&world, "queue").await, 6);
    let faults = async || {
        let ready = client.get("/readyz").await.expect(200);
        ready["faults"].to_string()
    };
    assert!(faults().await.contains("dead letters"));
    // What is fixed goes on by itself, and its fault is over.
    world.redis.run(&[b"DEL", key.as_bytes()]).await;
    drain(&world, &world.instances[0]).await;
    assert_eq!(total(client).await, 6);
    assert_eq!(faults().await, "[]");
    // The same where somebody makes room.
    world.redis.run(&[b"SET", key.as_bytes(), b"x"]).await;
    queue_all(client, 7..8).await;
    run(&world.instances[0]).await;
    assert_eq!(length(&world, "queue").await, 1);
    assert!(faults().await.contains("dead letters"));
    world.redis.run(&[b"DEL", dead.as_bytes()]).await;
    drain(&world, &world.instances[0]).await;
    assert_eq!(length(&world, "dead").await, 1);
    assert_eq!(faults().await, "[]");
}

/// Somebody has damaged the ids of the queue.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_missing_from_the_queue_index_is_a_dead_letter_that_can_be_replayed() {
    let world = world(1, json!({})).await;
    let client = world.client();
    queue_all(client, 0..10).await;
    let ids = world.redis.keys("st:{b}:*:queue-ids").await.remove(0);
    world.redis.run(&[b"HDEL", ids.as_bytes(), b"e2"]).await;
    drain(&world, &world.instances[0]).await;
    assert_eq!(total(client).await, 9);
    let letters = client.get("/v1/boards/b/dead-letters").await.expect(200);
    let letters = letters["dead_letters"].as_array().unwrap();
    assert_eq!(letters.len(), 1, "{letters:?}");
    assert_eq!(letters[0]["reason"], "failed");
    assert_eq!(letters[0]["event"]["id"], "e2");
    assert_clean(&world).await;
    let id = letters[0]["id"].as_str().unwrap();
    let path = format!("/v1/boards/b/dead-letters/{id}/replay");
    client.post(&path, json!({})).await.expect(202);
    drain(&world, &world.instances[0]).await;
    assert_eq!(total(client).await, 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn events_read_while_redis_was_full_come_first_again() {
    let quota = json!({"name": "one", "by": ["voter"], "window": "total", "max": 1});
    let world = world(1, json!({"quotas": [quota]})).await;
    let client = world.client();
    let vote =
        |id: &str, voter: &str| json!({"id": id, "member": "ann", "score": 1, "voter": voter});
    // A worker has the lease, and need not renew it in the next second.
    queue(client, vote("0", "other")).await;
    drain(&world, &world.instances[0]).await;
    queue(client, vote("1", "v")).await;
    world.redis.on_each("CONFIG SET maxmemory 1").await;
    run(&world.instances[0]).await;
    world.redis.on_each("CONFIG SET maxmemory 0").await;
    assert_eq!(length(&world, "queue").await, 1);
    queue(client, vote("2", "v")).await;
    drain(&world, &world.instances[0]).await;
    for (id, status) in [("1", "applied"), ("2", "rejected")] {
        let path = format!("{EVENTS}?id={id}&member=ann");
        let told = client.get(&path).await.expect(200);
        assert_eq!(told["events"][0]["status"], status, "{told}");
    }
}

/// A vote of a voter for one of three members.
fn vote(voter: usize, number: usize) -> Value {
    json!({"id": format!("{voter}-{number}"), "member": format!("m{}", number % 3), "score": 1,
        "voter": format!("v{voter}"), "device": format!("d{}", voter / 2)})
}

fn quotas() -> Value {
    json!([
        {"name": "voter", "by": ["voter"], "window": "total", "max": 3},
        {"name": "device", "by": ["device"], "window": "1h", "max": 6}])
}

#[tokio::test(flavor = "multi_thread")]
async fn quotas_across_shards_are_never_exceeded_when_processes_die() {
    let world = world(
        2,
        json!({"windows": ["all"], "shards": 8, "quotas": quotas()}),
    )
    .await;
    let client = world.client();
    let votes = (0..20).flat_map(|voter| (0..10).map(move |number| (voter, number)));
    let queued = votes.map(|(voter, number)| queue(client, vote(voter, number)));
    join_all(queued).await;
    for waits in (1..60).step_by(4) {
        end_leases(&world).await;
        let dying = world.instances[0].engine.run(&ApplyQueues);
        break_off(dying, waits).await;
    }
    end_leases(&world).await;
    eventually("nothing waits", async || {
        let engine = &world.instances[1].engine;
        engine.run(&SETTLE_ALL).await.unwrap();
        run(&world.instances[1]).await;
        length(&world, "queue").await == 0
    })
    .await;
    assert_eq!(total(client).await, 60);
    eventually("nothing is reserved", async || {
        let engine = &world.instances[1].engine;
        engine.run(&SETTLE_ALL).await.unwrap();
        world.redis.keys("st:*:reserv*").await.is_empty()
    })
    .await;
    assert_clean(&world).await;
}

/// Reserves the only vote of a voter, as somebody does who then dies.
async fn reserve(world: &World, voter: &str) {
    let engine = &world.engine();
    let board = engine.board(&BoardId::parse("b").unwrap()).await.unwrap();
    let event = Event {
        id: Some(EventId::parse("elsewhere").unwrap()),
        member: MemberId::parse("carl").unwrap(),
        score: Score::from_stored(1),
        at: None,
        origin: Origin {
            voter: Some(Label::parse(voter).unwrap()),
            ..Origin::default()
        },
        data: None,
    };
    let now = world.clock.now();
    let plan = Routes::default().plan(&board, event, now);
    let (shards, used) = (board.shards(), &plan.quotas[0]);
    let wanted = Wanted {
        token: Token::random(),
        shard: shards[board.shard_of(&plan.event.member)].clone(),
        id: plan.event.id.clone(),
        at: plan.at,
        uses: vec![used.clone()],
        asks_quotas: false,
    };
    let home = &shards[board.home_of(used)];
    let reserved = reservations::reserve(&engine.store, home, &[vec![wanted]], now).await;
    let open = Reserved::Open(Vec::new());
    assert_eq!(reserved.unwrap(), [open]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_event_delays_only_later_ones_of_its_member() {
    let quota = json!({"name": "voter", "by": ["voter"], "window": "total", "max": 1});
    let world = world(
        1,
        json!({"windows": ["all"], "shards": 2, "quotas": [quota]}),
    )
    .await;
    let client = world.client();
    reserve(&world, "v").await;
    let vote = |id: &str, member: &str, voter: &str| json!({"id": id, "member": member, "score": 1, "voter": voter});
    queue(client, vote("1", "ann", "v")).await;
    queue(client, vote("2", "ann", "w")).await;
    for number in 0..20 {
        let (id, member) = (format!("b{number}"), format!("m{number}"));
        queue(client, vote(&id, &member, &format!("w{number}"))).await;
    }
    let ann = async || {
        let path = "/v1/boards/b/standings/all?size=100";
        let page = client.get(path).await.expect(200);
        let entries = page["entries"].as_array().unwrap().clone();
        let ann = entries.iter().find(|entry| entry["member"] == "ann");
        (entries.len(), ann.cloned())
    };
    eventually("the others are applied", async || {
        run(&world.instances[0]).await;
        ann().await.0 == 20
    })
    .await;
    assert_eq!(ann().await.1, None);
    // Also those that come later are held up.
    queue(client, vote("3", "ann", "x")).await;
    run(&world.instances[0]).await;
    assert_eq!(ann().await.1, None);
    world.engine().run(&SETTLE_ALL).await.unwrap();
    drain(&world, &world.instances[0]).await;
    assert_eq!(total(client).await, 23);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_on_one_board_does_not_stop_others() {
    let world = world(1, json!({})).await;
    let client = world.client();
    let other = json!({"windows": ["all"], "ingest": "async"});
    client.define("c", other).await;
    let batch = |first: usize| {
        let events = (first..first + 1_000)
            .map(|number| json!({"board": "b", "id": format!("e{number}"), "member": format!("m{}", number % 500), "score": 1}));
        json!({"events": events.collect::<Vec<_>>()})
    };
    for first in (0..20_000).step_by(1_000) {
        let answer = client.post("/v1/events", batch(first)).await;
        assert!(answer.status.is_success(), "{}", answer.text);
    }
    let applying = world.instances[0].apply_queues();
    let event = json!({"id": "x", "member": "ann", "score": 1});
    let answer = client.post("/v1/boards/c/events", event).await;
    assert_eq!(answer.status, 202, "{}", answer.text);
    eventually("the other board is served", async || {
        let page = client.get("/v1/boards/c/standings/all").await.expect(200);
        page["entries"].as_array().unwrap().len() == 1
    })
    .await;
    assert!(
        length(&world, "queue").await > 0,
        "the flood is not over yet"
    );
    eventually("nothing waits", async || length(&world, "queue").await == 0).await;
    drop(applying);
    assert_eq!(total(client).await, 20_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn floods_on_more_queues_than_run_at_once_do_not_stop_others() {
    const FLOODS: usize = 20;
    /// Several times what a step applies.
    const EVENTS_OF_FLOOD: usize = 8_000;
    let world = world(1, json!({"windows": ["all"], "shards": FLOODS})).await;
    const { assert!(FLOODS > ApplyQueues::AT_ONCE) };
    let client = world.client();
    let other = json!({"windows": ["all"], "ingest": "async"});
    client.define("c", other).await;
    let batch = async |first: usize| {
        let events = (first..first + 1_000)
            .map(|number| json!({"board": "b", "id": format!("e{number}"), "member": format!("m{}", number % 1_000), "score": 1}));
        let body = json!({"events": events.collect::<Vec<_>>()});
        client.post_until_taken("/v1/events", &body).await
    };
    let sent = FLOODS * EVENTS_OF_FLOOD;
    join_all((0..sent).step_by(1_000).map(batch)).await;
    let sent = i64::try_from(sent).unwrap();
    assert_eq!(length(&world, "queue").await, sent);
    let applying = world.instances[0].apply_queues();
    eventually("floods are worked on", async || {
        length(&world, "queue").await < sent
    })
    .await;
    let event = json!({"id": "x", "member": "ann", "score": 1});
    client.post("/v1/boards/c/events", event).await.expect(202);
    eventually("the other board is served", async || {
        let page = client.get("/v1/boards/c/standings/all").await.expect(200);
        page["entries"].as_array().unwrap().len() == 1
    })
    .await;
    // Nobody has waited for the end of any flood.
    for queue in world.redis.keys("st:{b:*:queue").await {
        let left = world.redis.run(&[b"XLEN", queue.as_bytes()]).await;
        assert_ne!(left, Reply::Integer(0), "{queue}");
    }
    eventually("nothing waits", async || length(&world, "queue").await == 0).await;
    drop(applying);
    assert_eq!(total(client).await, sent);
    assert_clean(&world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_restarted_under_load_loses_and_doubles_no_queued_event() {
    let world = world(2, json!({"shards": 4})).await;
    let applying: Vec<_> = world.instances.iter().map(Instance::apply_queues).collect();
    let clients: Vec<Client> = world
        .instances
        .iter()
        .map(|one| one.client.clone())
        .collect();
    let senders: Vec<_> = (0..8)
        .map(|sender| {
            let client = clients[sender % 2].clone();
            tokio::spawn(async move {
                queue_all(&client, sender * 100..(sender + 1) * 100).await;
            })
        })
        .collect();
    for _ in 0..2 {
        // Wherever the traffic is by then.
        tokio::time::sleep(std::time::Duration::from_millis(60)).await;
        world.redis.kill();
        world.redis.restart().await;
    }
    for sender in senders {
        sender.await.unwrap();
    }
    eventually("nothing waits", async || length(&world, "queue").await == 0).await;
    drop(applying);
    assert_eq!(total(world.client()).await, 800);
    assert_clean(&world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_missing_from_the_index_is_found() {
    let world = world(1, json!({"shards": 3})).await;
    queue_all(world.client(), 0..20).await;
    world.redis.run(&[b"DEL", b"st:{boards}:queues"]).await;
    // An instance that starts reads all boards, and so does every one when Redis has gone back.
    let clock = clock_at(NOW);
    let late = Instance::start(&world.redis.url(), clock, "").await;
    let engine = &late.engine;
    engine.refresh_boards().await.unwrap();
    engine.run(&ListQueues).await.unwrap();
    drain(&world, &late).await;
    assert_eq!(total(world.client()).await, 20);
}

/// As on a cluster where the server of a shard goes back behind the step that took its empty queue out of the index.
#[tokio::test(flavor = "multi_thread")]
async fn an_empty_queue_wrongly_marked_as_indexed_is_indexed_again() {
    let world = world(1, json!({"shards": 3})).await;
    queue_all(world.client(), 0..20).await;
    drain(&world, &world.instances[0]).await;
    for state in world.keys_with("st:{b:*:queue-state", "queue-state").await {
        let indexed = [b"HSET", state.as_bytes(), b"indexed", b"1"];
        world.redis.run(&indexed).await;
    }
    world.redis.run(&[b"DEL", b"st:{boards}:queues"]).await;
    let clock = clock_at(NOW);
    let late = Instance::start(&world.redis.url(), clock, "").await;
    let engine = &late.engine;
    engine.refresh_boards().await.unwrap();
    engine.run(&ListQueues).await.unwrap();
    queue_all(world.client(), 20..40).await;
    drain(&world, &late).await;
    assert_eq!(total(world.client()).await, 40);
}

#[tokio::test(flavor = "multi_thread")]
async fn deleting_a_board_deletes_its_queue() {
    let world = world(1, json!({})).await;
    queue_all(world.client(), 0..10).await;
    world.client().delete("/v1/boards/b").await.expect(204);
    run(&world.instances[0]).await;
    let listed = world.redis.run(&[b"ZCARD", b"st:{boards}:queues"]).await;
    assert_eq!(listed, Reply::Integer(0));
    // A board of the same name does not get what was queued for the other one.
    let definition = json!({"windows": ["all"], "ingest": "async"});
    world.client().define("b", definition).await;
    run(&world.instances[0]).await;
    assert_eq!(total(world.client()).await, 0);
}
