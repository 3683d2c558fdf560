//! Dead letters over HTTP: who may see them, what becomes of those that are replayed, and that none of this counts twice.

use std::slice::from_ref;

use futures::future::{join, join_all};
use reqwest::Method;
use serde_json::{Value, json};
use standings::core::hide::store::erasures;
use standings::domain::event::Origin;
use standings::domain::ids::{BoardId, EventId, MemberId};
use standings::domain::queued::QueuedEvent;
use standings::domain::time::Timestamp;
use standings::queue::capacity::QueueBounds;
use standings::queue::dead_letters;
use standings::queue::dead_letters::store::LetterId;

use super::applying::{
    EVENTS, assert_clean, drain, length, queue, queue_all, run, total, world, world_at,
};
use super::letters::Letter;
use crate::harness::client::Answer;
use crate::harness::jobs::{ApplyQueues, ClosePeriods, Erasures, Moves};
use crate::harness::redis::{Reply, eventually};
use crate::harness::{Client, Instance, RedisServer, World, break_off, clock_at};

const LETTERS: &str = "/v1/boards/b/dead-letters";
const TODAY: &str = "day:2026-11-21";

/// The tags of the shards of the board.
fn tags(shards: u16) -> Vec<String> {
    match shards {
        1 => vec!["b".to_owned()],
        shards => (0..shards)
            .map(|index| format!("b:{shards}:{index}"))
            .collect(),
    }
}

/// The keys that the members of a standing have, one in each shard.
async fn keys_of(world: &World, shards: u16, standing: &str) -> Vec<String> {
    let generation = world.generation("b").await;
    let tags = tags(shards).into_iter();
    tags.map(|tag| format!("st:{{{tag}}}:{generation}:s:{standing}:members"))
        .collect()
}

/// Queues events that break their calls off, since a standing of theirs is damaged, and has them become dead letters.
async fn bury_on(world: &World, shards: u16, standing: &str, events: Vec<Value>) {
    let keys = keys_of(world, shards, standing).await;
    for key in &keys {
        world.redis.run(&[b"SET", key.as_bytes(), b"x"]).await;
    }
    let (before, count) = (length(world, "dead").await, events.len());
    for event in events {
        queue(world.client(), event).await;
    }
    drain(world, &world.instances[0]).await;
    let buried = i64::try_from(count).unwrap();
    assert_eq!(length(world, "dead").await, before + buried);
    for key in &keys {
        world.redis.run(&[b"DEL", key.as_bytes()]).await;
    }
}

async fn bury(world: &World, shards: u16, numbers: std::ops::Range<usize>) {
    let event = |number| json!({"id": format!("e{number}"), "member": format!("m{}", number % 7), "score": 1});
    bury_on(world, shards, TODAY, numbers.map(event).collect()).await;
}

/// Adds a dead letter of a shard by hand, and returns its place.
async fn add_to(world: &World, tag: &str, place: &str, fields: &[&[u8]]) -> String {
    let generation = world.generation("b").await;
    let key = format!("st:{{{tag}}}:{generation}:dead");
    let words: [&[u8]; 3] = [b"XADD", key.as_bytes(), place.as_bytes()];
    world.redis.run(&[&words, fields].concat()).await.text()
}

/// The same of a board with one shard; returns its id.
async fn add(world: &World, place: &str, fields: &[&[u8]]) -> String {
    let place = add_to(world, "b", place, fields).await;
    format!("{place}_0_1_{}", world.generation("b").await)
}

/// An event of ann that was queued then.
pub fn event(id: &str, queued_at: &str) -> QueuedEvent {
    let at = Timestamp::parse(queued_at).unwrap();
    QueuedEvent {
        id: EventId::parse(id).unwrap(),
        fingerprint: 77,
        member: MemberId::parse("ann").unwrap(),
        score: "1".to_owned(),
        sent_at: None,
        at,
        queued_at: at,
        origin: Origin::default(),
        data: None,
    }
}

/// Adds a letter by hand whose event was queued behind all that there was, and returns its place.
async fn add_event_to(world: &World, tag: &str, event: &QueuedEvent) -> String {
    let encoded = event.encode();
    let letter = Letter {
        entry: b"9999999999999-0",
        ..Letter::failed(event.id.as_str(), &encoded)
    };
    add_to(world, tag, "*", &letter.fields()).await
}

/// The same on a board with one shard; returns its id.
pub async fn add_event(world: &World, event: &QueuedEvent) -> String {
    let place = add_event_to(world, "b", event).await;
    format!("{place}_0_1_{}", world.generation("b").await)
}

/// One part of the list, and where the next one begins.
async fn part(client: &Client, query: &str) -> (Vec<Value>, Value) {
    let answer = client.get(&format!("{LETTERS}?{query}")).await;
    assert_eq!(answer.headers["cache-control"], "private, no-store");
    let mut json = answer.expect(200);
    let letters = json["dead_letters"].as_array().unwrap().clone();
    (letters, json["next"].take())
}

async fn listed(client: &Client) -> Vec<Value> {
    let (letters, next) = part(client, "limit=1000").await;
    assert_eq!(next, Value::Null);
    letters
}

fn id_of(letter: &Value) -> String {
    letter["id"].as_str().unwrap().to_owned()
}

async fn ids(client: &Client) -> Vec<String> {
    listed(client).await.iter().map(id_of).collect()
}

async fn replay(client: &Client, id: &str) -> Answer {
    let path = format!("{LETTERS}/{id}/replay");
    Client::send(client.once().builder(Method::POST, &path)).await
}

async fn delete(client: &Client, id: &str) -> Answer {
    client.delete(&format!("{LETTERS}/{id}")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn letters_of_all_shards_are_listed_in_pages_oldest_first() {
    for shards in [1, 3] {
        let world = world(1, json!({ "shards": shards })).await;
        let client = world.client();
        assert_eq!(listed(client).await, [] as [Value; 0]);
        let vote = json!({"id": "first", "member": "ann", "score": 2, "voter": "v", "channel": "web", "ip": "203.0.113.7",
            "at": "2026-11-21T11:59:00Z"});
        bury_on(&world, shards, TODAY, vec![vote]).await;
        bury(&world, shards, 0..11).await;
        let all = listed(client).await;
        assert_eq!(all.len(), 12);
        let died = |letter: &Value| letter["died_at"].as_str().unwrap().to_owned();
        assert!(all.is_sorted_by_key(died), "{all:?}");
        let event = json!({"id": "first", "member": "ann", "score": 2, "at": "2026-11-21T11:59:00.000Z",
            "queued_at": "2026-11-21T12:00:00.000Z", "voter": "v", "channel": "web", "device": null, "data": null});
        assert_eq!(
            (&all[0]["reason"], &all[0]["event"]),
            (&json!("failed"), &event)
        );
        assert!(
            all[0]["detail"].as_str().unwrap().contains("WRONGTYPE"),
            "{}",
            all[0]
        );
        for limit in [1, 4, 5, 12] {
            let (mut parts, mut query) = (Vec::new(), format!("limit={limit}"));
            loop {
                let (letters, next) = part(client, &query).await;
                assert!(letters.len() == limit || next.is_null());
                parts.extend(letters);
                let Value::String(next) = next else { break };
                query = format!("limit={limit}&after={next}");
            }
            assert_eq!(parts, all, "{limit}");
        }
        for (query, name) in [
            ("after=x", "after"),
            ("limit=0", "limit"),
            ("limit=1001", "limit"),
        ] {
            let answer = client.get(&format!("{LETTERS}?{query}")).await;
            let detail = answer.expect_problem(400, "invalid-parameter");
            assert!(detail.contains(name), "{detail}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_replayed_many_times_counts_once_and_unchanged() {
    for shards in [1, 3] {
        let world = world(2, json!({ "shards": shards })).await;
        let client = world.client();
        bury(&world, shards, 0..20).await;
        let queues = async || world.redis.run(&[b"ZCARD", b"st:{boards}:queues"]).await;
        eventually("no queue is listed", async || {
            run(&world.instances[0]).await;
            queues().await == Reply::Integer(0)
        })
        .await;
        // It counts for the day on which it was queued.
        world.set_time("2026-11-22T11:00:00Z");
        let letters = listed(client).await;
        let replays = letters.iter().map(async |letter| {
            let id = id_of(letter);
            let clients = [0, 1, 0, 1].map(|instance: usize| &world.instances[instance].client);
            let answers = join_all(clients.map(|client| replay(client, &id))).await;
            let mut statuses: Vec<u16> = answers.iter().map(|one| one.status.as_u16()).collect();
            let taken = answers.iter().find(|answer| answer.status == 202);
            assert_eq!(taken.expect("one of them is taken").json, *letter);
            statuses.sort_unstable();
            assert_eq!(statuses, [202, 404, 404, 404]);
        });
        join_all(replays).await;
        assert_eq!(ids(client).await, [""; 0]);
        let became = async |id: &str| {
            let events = client.get(&format!("{EVENTS}?id={id}")).await.expect(200);
            events["events"][0].clone()
        };
        let waiting = became("e3").await;
        let now = "2026-11-21T12:00:00.000Z";
        assert_eq!(
            waiting,
            json!({"status": "queued", "id": "e3", "member": "m3", "at": now, "queued_at": now})
        );
        drain(&world, &world.instances[1]).await;
        assert_eq!(total(client).await, 20);
        assert_eq!(became("e3").await["status"], "applied");
        let day = client
            .get("/v1/boards/b/standings/day?key=2026-11-21")
            .await
            .expect(200);
        assert_eq!(day["total"], 7);
        assert_clean(&world).await;
        // What comes later under the id is known.
        let again = json!({"id": "e3", "member": "m3", "score": 1});
        queue(client, again).await;
        drain(&world, &world.instances[0]).await;
        assert_eq!(total(client).await, 20);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replayed_event_that_already_waits_is_not_queued_twice() {
    let world = world(1, json!({})).await;
    let client = world.client();
    bury(&world, 1, 0..1).await;
    queue_all(client, 0..1).await;
    let id = ids(client).await.remove(0);
    replay(client, &id).await.expect(202);
    assert_eq!(
        (length(&world, "queue").await, length(&world, "dead").await),
        (1, 0)
    );
    drain(&world, &world.instances[0]).await;
    assert_eq!(total(client).await, 1);
    assert_clean(&world).await;
}

#[tokio::test]
async fn a_replay_counts_once_wherever_it_or_the_worker_is_interrupted() {
    let world = world(2, json!({"shards": 2})).await;
    let client = world.client();
    let board = BoardId::parse("b").unwrap();
    let mut count = 0;
    for waits in 1.. {
        bury(&world, 2, count..count + 1).await;
        count += 1;
        let id = ids(client).await.remove(0);
        let letter: LetterId = id.parse().unwrap();
        let dying = dead_letters::work::replay(&world.instances[1].engine, &board, &letter);
        let is_over = break_off(dying, waits).await.is_some();
        let worker = world.instances[1].engine.run(&ApplyQueues);
        break_off(worker, waits).await;
        let answer = replay(client, &id).await;
        assert!(
            [202, 404].contains(&answer.status.as_u16()),
            "{}",
            answer.text
        );
        for head in world.redis.keys("st:{b*}").await {
            let words: [&[u8]; 4] = [b"HSET", head.as_bytes(), b"queue:until", b"0"];
            world.redis.run(&words).await;
        }
        drain(&world, &world.instances[0]).await;
        assert_eq!(total(client).await, i64::try_from(count).unwrap());
        assert_eq!(ids(client).await, [""; 0]);
        if is_over {
            break;
        }
    }
    assert_clean(&world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn erased_events_never_come_back_by_replay() {
    for waits in [2, 4, 6, 10, 20, 40, 80] {
        let world = world(2, json!({})).await;
        let client = world.client();
        let of = |id: &str, member: &str| json!({"id": id, "member": member, "score": 1, "at": "2026-11-21T12:00:30Z"});
        let events = vec![of("1", "ann"), of("2", "bob"), of("3", "ann")];
        bury_on(&world, 1, TODAY, events).await;
        let before = ids(client).await;
        let erase = || client.delete("/v1/boards/b/members/ann");
        let erasing = break_off(erase(), waits);
        let replays = join_all(
            before
                .iter()
                .map(|id| replay(&world.instances[1].client, id)),
        );
        let (_, answers) = join(erasing, replays).await;
        for answer in &answers {
            assert!(
                [202, 404].contains(&answer.status.as_u16()),
                "{}",
                answer.text
            );
        }
        assert_eq!(answers[1].status, 202, "bob was not erased");
        eventually("what is left of the member goes", async || {
            let engine = &world.instances[1].engine;
            engine.run(&Erasures).await.unwrap();
            erase().await.status.is_success()
        })
        .await;
        for id in &before {
            replay(client, id)
                .await
                .expect_problem(404, "dead-letter-not-found");
        }
        drain(&world, &world.instances[0]).await;
        assert_eq!(total(client).await, 1, "{waits}");
        // What is queued later is replayed as ever.
        world.set_time("2026-11-21T12:00:40Z");
        let later = json!({"id": "later", "member": "ann", "score": 7});
        bury_on(&world, 1, TODAY, vec![later]).await;
        let id = ids(client).await.remove(0);
        replay(client, &id).await.expect(202);
        drain(&world, &world.instances[0]).await;
        assert_eq!(total(client).await, 8);
        // The clocks of those who queue may differ: what counts is when an event was queued.
        let late = add_event(&world, &event("4", "2026-11-21T12:00:00Z")).await;
        replay(client, &late)
            .await
            .expect_problem(409, "member-erased");
        assert_eq!(ids(client).await, [late]);
        assert_clean(&world).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn letters_of_an_erased_member_are_not_shown_or_replayed() {
    for shards in [1, 3] {
        let world = world(1, json!({ "shards": shards })).await;
        let client = world.client();
        bury(&world, shards, 0..35).await;
        let before = listed(client).await;
        let of_member = |letter: &&Value| letter["event"]["member"] == "m2";
        let (own, others): (Vec<&Value>, Vec<&Value>) = before.iter().partition(of_member);
        assert_eq!((own.len(), others.len()), (5, 30));
        let (board, member) = (BoardId::parse("b").unwrap(), MemberId::parse("m2").unwrap());
        let engine = &world.engine();
        let number = erasures::begin(&engine.store, &board).await.unwrap();
        engine.erase(&board, &member, number).await.unwrap();
        assert_eq!(length(&world, "dead").await, 35, "nothing is removed yet");
        assert_eq!(listed(client).await.iter().collect::<Vec<_>>(), others);
        let lost = own[0]["event"]["id"].as_str().unwrap();
        for query in [format!("id={lost}"), format!("id={lost}&member=m2")] {
            assert_eq!(became(client, &query).await, json!([]));
        }
        let (few, next) = part(client, "limit=7").await;
        assert_eq!(
            (few.iter().collect::<Vec<_>>(), next.is_null()),
            (others[..7].to_vec(), false)
        );
        delete(client, &id_of(own[0]))
            .await
            .expect_problem(404, "dead-letter-not-found");
        replay(client, &id_of(own[1]))
            .await
            .expect_problem(404, "dead-letter-not-found");
        // What was queued later is taken, once nothing is left of before.
        world.set_time("2026-11-21T12:00:40Z");
        let later = QueuedEvent {
            member,
            ..event("later", "2026-11-21T12:00:30Z")
        };
        let index = world
            .engine()
            .board(&board)
            .await
            .unwrap()
            .shard_of(&later.member);
        let later = add_event_to(&world, &tags(shards)[index], &later).await;
        let id = format!("{later}_{index}_{shards}_{}", world.generation("b").await);
        assert_eq!(listed(client).await.len(), 31);
        replay(client, &id).await.expect(202);
        assert_eq!(length(&world, "dead").await, 30);
        engine.run(&Erasures).await.unwrap();
        drain(&world, &world.instances[0]).await;
        assert_eq!(total(client).await, 1);
        assert_clean(&world).await;
    }
}

/// What became of the events under an id.
async fn became(client: &Client, query: &str) -> Value {
    let events = client.get(&format!("{EVENTS}?{query}")).await.expect(200);
    events["events"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_event_is_found_by_its_id_while_its_letter_exists() {
    for shards in [1, 3] {
        let world = world(1, json!({ "shards": shards })).await;
        let client = world.client();
        bury(&world, shards, 0..150).await;
        let letters = listed(client).await;
        let letter_of = |id: &str| {
            let mut letters = letters.iter();
            letters.find(|letter| letter["event"]["id"] == id).unwrap()
        };
        let told = |id: &str| {
            let letter = letter_of(id);
            json!([{"status": "dead", "id": id, "member": letter["event"]["member"], "reason": "failed",
                "at": "2026-11-21T12:00:00.000Z", "died_at": letter["died_at"]}])
        };
        for query in ["id=e149", "id=e149&member=m2"] {
            assert_eq!(became(client, query).await, told("e149"), "{query}");
        }
        // One that waits again, or counts, is told as that.
        queue_all(client, 149..150).await;
        assert_eq!(became(client, "id=e149").await[0]["status"], "queued");
        drain(&world, &world.instances[0]).await;
        let taken = became(client, "id=e149").await;
        assert_eq!(taken[0]["status"], "applied");
        assert_eq!(taken.as_array().unwrap().len(), 1);
        replay(client, &id_of(letter_of("e1"))).await.expect(202);
        let waiting = became(client, "id=e1&member=m1").await;
        assert_eq!(waiting[0]["status"], "queued");
        assert_eq!(waiting.as_array().unwrap().len(), 1);
        delete(client, &id_of(letter_of("e2"))).await.expect(204);
        assert_eq!(became(client, "id=e2").await, json!([]));
        drain(&world, &world.instances[0]).await;
        // Letters go along with moves.
        world.move_to("b", 2).await;
        assert_eq!(became(client, "id=e3").await[0]["status"], "dead");
        client.delete("/v1/boards/b/members/m3").await.expect(204);
        assert_eq!(became(client, "id=e3").await, json!([]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_dead_event_is_found_by_its_id() {
    let world = world(1, json!({})).await;
    let odd = Letter::unreadable("odd", b"\x93\x01");
    add(&world, "*", &odd.fields()).await;
    let told = became(world.client(), "id=odd&member=ann").await;
    let told = &told[0];
    assert_eq!(
        ["status", "id", "member", "at", "reason"].map(|name| &told[name]),
        [
            &json!("dead"),
            &json!("odd"),
            &Value::Null,
            &Value::Null,
            &json!("unreadable")
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_stays_while_its_queue_is_full() {
    let redis = RedisServer::start().await;
    let bounds = QueueBounds {
        queue_bytes: 2_000,
        server_bytes: 1 << 20,
    };
    let now = "2026-11-21T12:00:00Z";
    let instance = Instance::start_bounded(&redis.url(), clock_at(now), bounds).await;
    let client = instance.client.once();
    client
        .define("b", json!({"windows": ["day", "all"], "ingest": "async"}))
        .await;
    let point = |number: usize| json!({"id": format!("x{number}"), "member": "bob", "score": 1});
    let mut queued = 0;
    while client.post(EVENTS, point(queued)).await.status == 202 {
        queued += 1;
    }
    let version = redis.run(&[b"HGET", b"st:{b}", b"version"]).await.text();
    let generation = version.split_once('-').unwrap().0;
    let (key, encoded) = (
        format!("st:{{b}}:{generation}:dead"),
        event("dead", now).encode(),
    );
    let words: [&[u8]; 3] = [b"XADD", key.as_bytes(), b"*"];
    let letter = Letter::failed("dead", &encoded);
    redis.run(&[&words[..], &letter.fields()].concat()).await;
    let id = ids(&client).await.remove(0);
    let refused = replay(&client, &id).await;
    assert_eq!(refused.headers["retry-after"], "1");
    refused.expect_problem(503, "queue-full");
    assert_eq!(ids(&client).await, from_ref(&id));
    eventually("the letter is replayed", async || {
        run(&instance).await;
        replay(&client, &id).await.status == 202
    })
    .await;
    eventually("all of them count", async || {
        run(&instance).await;
        total(&client).await == i64::try_from(queued).unwrap() + 1
    })
    .await;
    assert_eq!(ids(&client).await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_that_waited_too_long_can_be_deleted_but_not_replayed() {
    let world = world(1, json!({})).await;
    let client = world.client();
    bury(&world, 1, 0..3).await;
    let failed = ids(client).await;
    queue_all(client, 3..4).await;
    // At the end of the day it is taken.
    world.set_time("2026-11-22T12:00:00Z");
    replay(client, &failed[0]).await.expect(202);
    world.set_time("2026-11-22T12:00:00.001Z");
    drain(&world, &world.instances[0]).await;
    let letters = listed(client).await;
    let reasons: Vec<&str> = letters
        .iter()
        .map(|one| one["reason"].as_str().unwrap())
        .collect();
    assert_eq!(reasons, ["failed", "failed", "too-old", "too-old"]);
    for letter in &letters {
        let refused = replay(client, &id_of(letter)).await;
        let detail = refused.expect_problem(409, "not-replayable");
        assert!(detail.contains("longer than 1d"), "{detail}");
    }
    assert_eq!(listed(client).await, letters);
    delete(client, &failed[1]).await.expect(204);
    for id in [&failed[0], &failed[1], "x", "1-1_0_1_1"] {
        delete(client, id)
            .await
            .expect_problem(404, "dead-letter-not-found");
        replay(client, id)
            .await
            .expect_problem(404, "dead-letter-not-found");
    }
    assert_eq!(listed(client).await, letters[1..]);
    drain(&world, &world.instances[0]).await;
    assert_eq!(total(client).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_letter_is_listed_and_can_be_replayed() {
    let world = world(1, json!({})).await;
    let client = world.client();
    let now = "2026-11-21T12:00:00Z";
    let encoded = event("newer", now).encode();
    // As an earlier release has left it.
    let newer = Letter::unreadable("newer", &encoded);
    let newer = add(&world, "*", &newer.fields()).await;
    let damaged = Letter {
        reason: b"\xff",
        detail: b"a\xfeb",
        entry: b"\xfd",
        id: [b"\xfc", b"\xfb"],
        event: b"\x93\x01",
    };
    let damaged = add(&world, "*", &damaged.fields()).await;
    let empty = add(&world, "*", &[b"reason", b"failed"]).await;
    let letters = listed(client).await;
    assert_eq!(
        letters.iter().map(id_of).collect::<Vec<_>>(),
        [&newer, &damaged, &empty].map(Clone::clone)
    );
    assert_eq!(letters[0]["event"]["id"], "newer");
    let texts = ["reason", "detail", "event"].map(|name| letters[1][name].clone());
    assert_eq!(texts, [json!("\u{fffd}"), json!("a\u{fffd}b"), Value::Null]);
    assert_eq!(letters[2]["event"], Value::Null);
    replay(client, &empty)
        .await
        .expect_problem(404, "dead-letter-not-found");
    replay(client, &newer).await.expect(202);
    replay(client, &damaged).await.expect(202);
    drain(&world, &world.instances[0]).await;
    assert_eq!(total(client).await, 1);
    assert_clean(&world).await;
    // It lies there as it was.
    let again = listed(client).await;
    assert_eq!(
        (again.len(), &again[1]["reason"]),
        (2, &json!("unreadable"))
    );
    let generation = world.generation("b").await;
    let key = format!("st:{{b}}:{generation}:dead");
    let words: [&[u8]; 6] = [b"XREVRANGE", key.as_bytes(), b"+", b"-", b"COUNT", b"1"];
    let kept = world.redis.run(&words).await;
    let fields: Vec<Vec<u8>> = kept.list()[0].list()[1].list()[6..]
        .iter()
        .map(|field| field.bytes().to_vec())
        .collect();
    assert_eq!(fields, [&b"\xfc"[..], b"\xfb", b"event", b"\x93\x01"]);
    delete(client, &empty).await.expect(204);
    delete(client, &id_of(&again[1])).await.expect(204);
    assert_eq!(ids(client).await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn letters_older_than_seven_days_are_not_shown() {
    let world = world(1, json!({})).await;
    let client = world.client();
    let now_ms = world.clock.redis_now().ms();
    let day_ms = 24 * 60 * 60 * 1_000;
    let fields: [&[u8]; 4] = [b"reason", b"failed", b"id", b"x"];
    let old = add(&world, &format!("{}-0", now_ms - 7 * day_ms - 1), &fields).await;
    let kept = add(&world, &format!("{}-0", now_ms - 6 * day_ms), &fields).await;
    assert_eq!(ids(client).await, from_ref(&kept));
    assert_eq!(part(client, &format!("after={old}")).await.0.len(), 1);
    assert_eq!(part(client, &format!("after={kept}")).await.0.len(), 0);
    replay(client, &old)
        .await
        .expect_problem(404, "dead-letter-not-found");
    delete(client, &old)
        .await
        .expect_problem(404, "dead-letter-not-found");
}

#[tokio::test(flavor = "multi_thread")]
async fn letters_get_new_ids_in_a_move_and_are_not_replayed_during_it() {
    for (from, to) in [(1, 3), (3, 1), (2, 4)] {
        let world = world(2, json!({ "shards": from })).await;
        let client = world.client();
        bury(&world, from, 0..10).await;
        let (first, next) = part(client, "limit=4").await;
        let before = ids(client).await;
        client.spread("b", to).await;
        for instance in world.instances.iter().rev() {
            replay(&instance.client, &before[0])
                .await
                .expect_problem(409, "board-moving");
        }
        // To delete one is possible, wherever the move has come to.
        delete(client, &before[0]).await.expect(204);
        let moving = world.instances[0].engine.run(&Moves);
        break_off(moving, 20).await;
        let free: [&[u8]; 4] = [b"HSET", b"st:{b}", b"move:until", b"0"];
        world.redis.run(&free).await;
        delete(&world.instances[1].client, &before[1])
            .await
            .expect(204);
        world.instances[0].end_move("b").await;
        for instance in &world.instances {
            instance.engine.refresh_boards().await.unwrap();
        }
        replay(client, &before[2])
            .await
            .expect_problem(404, "dead-letter-not-found");
        let after = listed(client).await;
        let event_ids = |letters: &[Value]| {
            let letters = letters.iter();
            let mut ids: Vec<String> = letters.map(|one| one["event"]["id"].to_string()).collect();
            ids.sort_unstable();
            ids.dedup();
            ids
        };
        assert_eq!(event_ids(&after).len(), 8, "{from} to {to}");
        // Who reads part by part misses none.
        let query = format!("after={}", next.as_str().unwrap());
        let rest = part(&world.instances[1].client, &query).await.0;
        let read = [&first[2..], &rest].concat();
        assert_eq!(event_ids(&read), event_ids(&after), "{from} to {to}");
        for letter in &after {
            replay(client, &id_of(letter)).await.expect(202);
        }
        drain(&world, &world.instances[0]).await;
        assert_eq!(total(client).await, 8);
        assert_clean(&world).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_whose_id_is_taken_stays_after_a_move() {
    let world = world(1, json!({})).await;
    let client = world.client();
    let of = |id: &str, score: u64| json!({"id": id, "member": "ann", "score": score});
    bury_on(&world, 1, TODAY, vec![of("same", 1), of("reused", 1)]).await;
    // One was sent again, and applied; the id of the other one was taken by another event.
    for event in [of("same", 1), of("reused", 5)] {
        queue(client, event).await;
    }
    drain(&world, &world.instances[0]).await;
    assert_eq!(total(client).await, 6);
    world.move_to("b", 3).await;
    let letters = listed(client).await;
    let letter_of = |id: &str| {
        let mut letters = letters.iter();
        id_of(letters.find(|letter| letter["event"]["id"] == id).unwrap())
    };
    let reused = replay(client, &letter_of("reused")).await;
    reused.expect_problem(422, "event-id-reused");
    replay(client, &letter_of("same")).await.expect(202);
    drain(&world, &world.instances[0]).await;
    assert_eq!(total(client).await, 6);
    assert_eq!(ids(client).await, [letter_of("reused")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_stored_outside_its_members_shard_stays_there() {
    let world = world(1, json!({"shards": 2})).await;
    let client = world.client();
    bury(&world, 2, 0..7).await;
    // It could not be read when the board moved, and can be now.
    let letters = listed(client).await;
    let of_first = letters
        .iter()
        .find(|letter| id_of(letter).contains("_0_2_"));
    let member = of_first.unwrap()["event"]["member"].as_str().unwrap();
    let misplaced = QueuedEvent {
        member: MemberId::parse(member).unwrap(),
        ..event("misplaced", "2026-11-21T12:00:00Z")
    };
    let place = add_event_to(&world, "b:2:1", &misplaced).await;
    let id = format!("{place}_1_2_{}", world.generation("b").await);
    let detail = replay(client, &id)
        .await
        .expect_problem(409, "not-replayable");
    assert!(detail.contains("another shard"), "{detail}");
    assert_eq!(ids(client).await.len(), 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_board_gets_no_letters_of_its_deleted_namesake() {
    for shards in [1, 3] {
        let world = world(2, json!({ "shards": shards })).await;
        let client = world.client();
        bury(&world, shards, 0..5).await;
        let before = ids(client).await;
        client.delete("/v1/boards/b").await.expect(204);
        let gone = client.get(LETTERS).await;
        gone.expect_problem(404, "board-not-found");
        let definition = json!({"windows": ["day", "all"], "ingest": "async", "shards": shards});
        client.define("b", definition).await;
        for instance in world.instances.iter().rev() {
            assert_eq!(ids(&instance.client).await, [""; 0]);
            for id in &before {
                replay(&instance.client, id)
                    .await
                    .expect_problem(404, "dead-letter-not-found");
                delete(&instance.client, id)
                    .await
                    .expect_problem(404, "dead-letter-not-found");
            }
        }
        assert_eq!(
            part(client, &format!("after={}", before[0])).await.0.len(),
            0
        );
        drain(&world, &world.instances[0]).await;
        assert_eq!(total(client).await, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queued_event_of_a_final_period_is_refused_at_its_application() {
    let more = json!({"windows": ["hour", "all"], "finalize": "10m"});
    let world = world_at(1, "2026-11-21T11:59:00Z", more).await;
    let client = world.client();
    let events = ["1", "2"].map(|id| json!({"id": id, "member": "ann", "score": 5}));
    bury_on(&world, 1, "hour:2026-11-21T11:00Z", events.to_vec()).await;
    let letters = ids(client).await;
    replay(client, &letters[0]).await.expect(202);
    drain(&world, &world.instances[0]).await;
    world.set_time("2026-11-21T12:10:00Z");
    let engine = &world.engine();
    engine.run(&ClosePeriods).await.unwrap();
    replay(client, &letters[1]).await.expect(202);
    drain(&world, &world.instances[0]).await;
    let told = client.get(&format!("{EVENTS}?id=2")).await.expect(200);
    assert_eq!(told["events"][0]["status"], "rejected", "{told}");
    assert_eq!(told["events"][0]["problem"]["code"], "period-closed");
    assert_eq!(total(client).await, 5);
    assert_clean(&world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_audit_log_says_who_replayed_and_deleted_without_naming_members() {
    let keys = "admin:an-admin";
    let world = World::with_keys(1, "2026-11-21T12:00:00Z", keys).await;
    let client = world.client().with_key("an-admin");
    client
        .define("b", json!({"windows": ["day", "all"], "ingest": "async"}))
        .await;
    for (id, method) in [("1", "POST"), ("2", "DELETE")] {
        let letter = add_event(&world, &event(id, "2026-11-21T11:59:00Z")).await;
        let answer = match method {
            "POST" => replay(&client, &letter).await,
            _ => delete(&client, &letter).await,
        };
        assert!(answer.status.is_success(), "{}", answer.text);
        let line = client.get("/v1/audit?limit=1").await.expect(200)["lines"][0].take();
        assert_eq!(
            (&line["method"], &line["path"]["id"]),
            (&json!(method), &json!(letter))
        );
        assert_eq!(
            line["outcome"]["before"]["queued_at"],
            "2026-11-21T11:59:00.000Z"
        );
        assert!(!line.to_string().contains("ann"), "{line}");
    }
}
