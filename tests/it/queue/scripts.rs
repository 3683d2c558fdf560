//! The scripts of queues by themselves.

use serde_json::{Value, json};
use standings::redis::script::{self, Script};

use super::letters::Letter;
use crate::harness::RedisServer;
use crate::harness::random::some_of;
use crate::harness::redis::Reply;

const BOARD: &str = "st:{b}";
const REGISTRY: &str = "st:{b}:1:keys";
const QUEUE: &str = "st:{b}:1:queue";
const IDS: &str = "st:{b}:1:queue-ids";
const STATE: &str = "st:{b}:1:queue-state";
const INTAKE: &str = "st:{b}:1:intake";
const LETTERS: &str = "st:{b}:1:dead";
const INDEX: &str = "st:{boards}:queues";
const NAME: &[u8] = b"1 b";

/// What put.lua says of an event.
const PUT: Reply = Reply::Nil;

/// A server with a board, and the connection to it that scripts are run on.
struct Bench {
    redis: RedisServer,
}

/// An event: its id, its fingerprint, and the instant that it counts for.
type Event = (&'static str, u64, i64);

/// What stands in a queue beside the id of an event.
fn encoded((_, fingerprint, at): &Event) -> Vec<u8> {
    rmp_serde::to_vec(&(fingerprint, "ann", "5", None::<i64>, at * 1_000)).unwrap()
}

fn known(event: &Event) -> Reply {
    Reply::List(vec![Reply::text_of("KNOWN"), Reply::Text(encoded(event))])
}

/// A reply of put.lua: it does not tell of the events that it has put.
fn taken(outcomes: &[Reply]) -> Reply {
    let told = (1..)
        .zip(outcomes)
        .filter(|(_, outcome)| **outcome != PUT)
        .flat_map(|(place, outcome)| [Reply::Integer(place), outcome.clone()]);
    done(&told.collect::<Vec<_>>())
}

fn done(answers: &[Reply]) -> Reply {
    let ok = [Reply::text_of("OK")];
    Reply::List([&ok, answers].concat())
}

impl Bench {
    async fn start() -> Self {
        let bench = Self {
            redis: RedisServer::start().await,
        };
        bench.redis.command("HSET st:{b} version 1-1").await;
        bench
    }

    async fn run(&self, script: &Script, keys: &[&str], args: &[&[u8]]) -> Reply {
        let count = keys.len().to_string();
        let mut words: Vec<&[u8]> = vec![b"EVAL", script.source.as_bytes(), count.as_bytes()];
        words.extend(keys.iter().map(|key| key.as_bytes()));
        words.extend(args);
        self.redis.run(&words).await
    }

    /// Puts events with these changes of the arguments.
    async fn put_with(&self, events: &[Event], changes: Value) -> Reply {
        let mut args = json!({
            "version": "1-1", "epoch": "0", "bytes_max": 1_000_000, "room": 1_000_000, "confirm": false, "revocation": 0, "remember": "90000000",
            "ids": events.iter().map(|event| event.0).collect::<Vec<_>>(),
        });
        for (name, value) in changes.as_object().unwrap() {
            args[name] = value.clone();
        }
        let packed = rmp_serde::to_vec_named(&args).unwrap();
        let events: Vec<Vec<u8>> = events.iter().map(encoded).collect();
        let mut args = vec![&packed[..]];
        args.extend(events.iter().map(|event| &event[..]));
        let keys = [BOARD, REGISTRY, QUEUE, IDS, STATE];
        self.run(&script::PUT, &keys, &args).await
    }

    async fn put(&self, events: &[Event]) -> Reply {
        self.put_with(events, json!({})).await
    }

    /// Makes a dead letter of an event, and returns its entry.
    async fn bury(&self, event: &Event) -> String {
        let encoded = encoded(event);
        let letter = Letter::failed(event.0, &encoded);
        let words: [&[u8]; 3] = [b"XADD", LETTERS.as_bytes(), b"*"];
        let words = [&words[..], &letter.fields()].concat();
        self.redis.run(&words).await.text()
    }

    /// Replays a dead letter with these changes of the arguments.
    async fn replay_with(&self, letter: &str, changes: Value) -> Reply {
        let mut args = json!({"version": "1-1", "epoch": "0", "bytes_max": 1_000_000, "room": 1_000_000, "remember": "90000000", "revocation": 0, "letter": letter});
        for (name, value) in changes.as_object().unwrap() {
            args[name] = value.clone();
        }
        let keys = [BOARD, REGISTRY, QUEUE, IDS, STATE, LETTERS];
        let packed = rmp_serde::to_vec_named(&args).unwrap();
        self.run(&script::REPLAY, &keys, &[&packed]).await
    }

    /// Has an event of the queue end like this, where two dead letters are kept.
    async fn end(&self, end: &Value) -> Reply {
        self.words(&["HSET", BOARD, "queue:number", "7"]).await;
        let args =
            json!({"lease": "7", "tag": "b", "letters_max": 2, "kept_ms": 600_000, "ends": [end]});
        let packed = rmp_serde::to_vec_named(&args).unwrap();
        let keys = [BOARD, REGISTRY, QUEUE, IDS, STATE, LETTERS];
        self.run(&script::END_QUEUED, &keys, &[&packed]).await
    }

    /// The first entry of the queue.
    async fn first(&self) -> String {
        let first = self.words(&["XRANGE", QUEUE, "-", "+", "COUNT", "1"]).await;
        first.list()[0].list()[0].text()
    }

    async fn words(&self, words: &[&str]) -> Reply {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        self.redis.run(&words).await
    }

    async fn length(&self) -> i64 {
        self.length_of(QUEUE).await
    }

    async fn letters(&self) -> i64 {
        self.length_of(LETTERS).await
    }

    async fn length_of(&self, stream: &str) -> i64 {
        match self.words(&["XLEN", stream]).await {
            Reply::Integer(length) => length,
            other => panic!("{other:?}"),
        }
    }

    async fn bytes(&self) -> usize {
        let bytes = self.words(&["HGET", STATE, "bytes"]).await;
        bytes.text().parse().unwrap()
    }

    async fn is_listed(&self) -> bool {
        let score: &[&[u8]] = &[b"ZSCORE", INDEX.as_bytes(), NAME];
        self.redis.run(score).await != Reply::Nil
    }

    async fn list(&self, epoch: &str) -> Reply {
        self.run(&script::LIST_QUEUE, &[INDEX], &[NAME, epoch.as_bytes()])
            .await
    }

    async fn clear(&self) -> Reply {
        let keys = [BOARD, REGISTRY, QUEUE, STATE];
        self.run(&script::CLEAR_QUEUE, &keys, &[b"1"]).await
    }

    async fn unlist(&self, epoch: &str) -> Reply {
        self.run(&script::UNLIST_QUEUE, &[INDEX], &[NAME, epoch.as_bytes()])
            .await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_is_queued_once_and_the_counters_follow() {
    let bench = Bench::start().await;
    let [first, other, second] = [("x1", 77, 1000), ("x1", 78, 1000), ("x2", 5, 2000)];
    assert_eq!(bench.put(&[first]).await, taken(&[PUT]));
    let again = bench.put(&[first, other, other, second]).await;
    assert_eq!(again, taken(&[known(&first), PUT, known(&other), PUT]));
    assert_eq!(bench.length().await, 3);
    let texts = [first, other, second].map(|event| encoded(&event).len() + 2 * 2 + 112);
    assert_eq!(bench.bytes().await, texts.iter().sum::<usize>());
    let entries = bench.words(&["XRANGE", QUEUE, "-", "+"]).await;
    let entries: Vec<(String, Reply)> = entries
        .list()
        .iter()
        .map(|entry| (entry.list()[0].text(), entry.list()[1].clone()))
        .collect();
    let expected = [&b"id"[..], b"x1", b"event", &encoded(&first)].map(<[u8]>::to_vec);
    assert_eq!(
        entries[0].1,
        Reply::List(expected.map(Reply::Text).to_vec())
    );
    let of_id = bench.words(&["HGET", IDS, "x1"]).await.text();
    assert_eq!(of_id, format!("{} {}", entries[0].0, entries[1].0));
    let used = bench.words(&["HGET", BOARD, "used"]).await;
    assert_eq!(used, Reply::text_of("1-1"));
    let registered = bench
        .words(&["SMISMEMBER", REGISTRY, QUEUE, IDS, STATE])
        .await;
    assert_eq!(registered, Reply::List(vec![Reply::Integer(1); 3]));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_can_not_be_queued_changes_nothing() {
    let bench = Bench::start().await;
    let event = ("x1", 77, 1000);
    let stale = bench.put_with(&[event], json!({"version": "1-2"})).await;
    assert_eq!(stale, Reply::texts(&["STALE"]));
    let unindexed = bench.put_with(&[event], json!({"epoch": ""})).await;
    assert_eq!(unindexed, Reply::texts(&["UNINDEXED", "0"]));
    assert_eq!(
        bench.words(&["KEYS", "*"]).await.list().len(),
        1,
        "the board"
    );
    assert_eq!(bench.put(&[event]).await, taken(&[PUT]));
    let bytes = bench.bytes().await;
    for full in [
        json!({"bytes_max": 2 * bytes - 1}),
        json!({"bytes_max": 0}),
        json!({"room": bytes - 1}),
    ] {
        let reply = bench.put_with(&[event, ("x2", 77, 1000)], full).await;
        assert_eq!(
            reply,
            taken(&[known(&event), Reply::text_of("NO_ROOM")]),
            "a retry needs no room"
        );
    }
    bench.command_barrier("1001").await;
    let late = bench
        .put(&[event, ("x2", 77, 1000), ("x3", 77, 1001)])
        .await;
    let before_barrier = Reply::text_of("BEFORE_BARRIER");
    assert_eq!(late, taken(&[known(&event), before_barrier, PUT]));
    assert_eq!((bench.length().await, bench.bytes().await), (2, 2 * bytes));
    let room = json!({"bytes_max": 3 * bytes, "room": bytes});
    let last = bench
        .put_with(&[("x4", 77, 1001), ("x5", 77, 1001)], room)
        .await;
    assert_eq!(last, taken(&[PUT, Reply::text_of("NO_ROOM")]));
}

impl Bench {
    async fn command_barrier(&self, until: &str) {
        self.words(&["HSET", BOARD, "closed_until", until]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replayed_letter_is_queued_like_an_event() {
    let bench = Bench::start().await;
    let event = ("x1", 77, 1000);
    let letter = bench.bury(&event).await;
    let bytes = encoded(&event).len() + 2 * 2 + 112;
    let refused = async |changes: Value, code: &[&str]| {
        let reply = bench.replay_with(&letter, changes).await;
        assert_eq!(reply, Reply::texts(code));
        assert_eq!((bench.length().await, bench.letters().await), (0, 1));
    };
    refused(json!({"version": "1-2"}), &["STALE"]).await;
    refused(json!({"epoch": ""}), &["UNINDEXED", "0"]).await;
    refused(json!({"letter": "1-1"}), &["GONE"]).await;
    refused(json!({"bytes_max": bytes - 1}), &["NO_ROOM"]).await;
    refused(json!({"room": bytes - 1}), &["NO_ROOM"]).await;
    let exactly = json!({"bytes_max": bytes, "room": bytes});
    let done_with = |bytes: usize| {
        let bytes = Reply::Integer(i64::try_from(bytes).unwrap());
        Reply::List(vec![Reply::text_of("OK"), bytes])
    };
    assert_eq!(bench.replay_with(&letter, exactly).await, done_with(bytes));
    let again = bench.replay_with(&letter, json!({})).await;
    assert_eq!(again, Reply::texts(&["GONE"]));
    assert_eq!((bench.length().await, bench.letters().await), (1, 0));
    assert_eq!(bench.bytes().await, bytes);
    assert_eq!(bench.put(&[event]).await, taken(&[known(&event)]));
    let used = bench.words(&["HGET", BOARD, "used"]).await;
    assert_eq!(used, Reply::text_of("1-1"));
    // Another one that waits already needs no room.
    let letter = bench.bury(&event).await;
    let none = json!({"bytes_max": 0, "room": 0});
    assert_eq!(bench.replay_with(&letter, none).await, done_with(0));
    assert_eq!((bench.length().await, bench.letters().await), (1, 0));
    // Another content under the id is another event.
    let other = ("x1", 78, 1000);
    let letter = bench.bury(&other).await;
    assert_eq!(
        bench.replay_with(&letter, json!({})).await,
        done_with(bytes)
    );
    assert_eq!(bench.bytes().await, 2 * bytes);
    let both = bench.put(&[event, other]).await;
    assert_eq!(both, taken(&[known(&event), known(&other)]));
}

#[tokio::test(flavor = "multi_thread")]
async fn letters_are_read_and_discarded_under_the_version_of_their_shard() {
    let bench = Bench::start().await;
    let mut places = Vec::new();
    for id in ["x1", "x2", "x3"] {
        places.push(bench.bury(&(id, 77, 1000)).await);
    }
    let read = async |version: &[u8], from: &str, count: &[u8]| {
        let args = [version, from.as_bytes(), count];
        bench
            .run(&script::LETTERS, &[BOARD, REGISTRY, LETTERS], &args)
            .await
    };
    let discard = async |version: &[u8], place: &str| {
        let args = [version, place.as_bytes()];
        bench.run(&script::DISCARD, &[BOARD, LETTERS], &args).await
    };
    assert_eq!(read(b"1-2", "-", b"9").await, Reply::texts(&["STALE"]));
    assert_eq!(discard(b"1-2", &places[0]).await, Reply::texts(&["STALE"]));
    assert_eq!(bench.letters().await, 3);
    let entries = |reply: Reply| {
        let letters = reply.list()[1..].iter();
        letters.map(|one| one.list()[0].text()).collect::<Vec<_>>()
    };
    assert_eq!(entries(read(b"1-1", &places[1], b"9").await), places[1..]);
    assert_eq!(entries(read(b"1-1", "-", b"2").await), places[..2]);
    for told in ["1", "0"] {
        let told = Reply::texts(&["OK", told]);
        assert_eq!(discard(b"1-1", &places[1]).await, told);
    }
    let left = [&places[0], &places[2]].map(Clone::clone);
    assert_eq!(entries(read(b"1-1", "-", b"9").await), left);
}

/// An event that nobody can read keeps no event with its id out, and no call fails by it.
#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_entry_matches_no_event() {
    let bench = Bench::start().await;
    for damaged in ["", "\u{1}", "x"] {
        let add = ["XADD", QUEUE, "*", "id", "x1", "event", damaged];
        let entry = bench.words(&add).await.text();
        bench.words(&["HSET", IDS, "x1", &entry]).await;
        let before = bench.length().await;
        assert_eq!(bench.put(&[("x1", 77, 1000)]).await, taken(&[PUT]));
        assert_eq!(bench.length().await, before + 1, "{damaged:?}");
    }
}

/// What the replicas of a caller have to have is written again.
#[tokio::test(flavor = "multi_thread")]
async fn a_known_event_is_confirmed_by_a_write() {
    let bench = Bench::start().await;
    let event = ("x1", 77, 1000);
    bench.put(&[event]).await;
    for (confirm, written) in [(false, false), (true, true)] {
        let offset = async || {
            let info = bench.redis.command("INFO persistence").await;
            let changes = info
                .lines()
                .find_map(|line| line.strip_prefix("rdb_changes_since_last_save:"));
            changes.unwrap().trim().parse::<u64>().unwrap()
        };
        let before = offset().await;
        bench.put_with(&[event], json!({"confirm": confirm})).await;
        assert_eq!(offset().await > before, written);
    }
}

/// Who takes part in a race for the index.
#[derive(Clone, Copy, Debug)]
enum Actor {
    /// Puts an event: tries, lists the queue, tries again, …
    Putter(usize),
    /// Clears the queue, and then takes it out of the index.
    Clearer(usize),
    /// Removes what is in the queue.
    Drainer,
}

/// How far the actors have come.
#[derive(Default)]
struct Race {
    /// Of each putter, the epoch that it was told, and whether it has listed the queue under it.
    told: [Option<(String, bool)>; 2],
    /// Whether it has put its event.
    has_put: [bool; 2],
    /// The dead letter that the second putter replays, if it puts no new event.
    letter: Option<String>,
    /// Of each clearer, the epoch under which it takes the queue out of the index.
    cleared: [Option<String>; 2],
}

impl Race {
    async fn step(&mut self, bench: &Bench, actor: Actor) {
        match actor {
            Actor::Putter(putter) => self.put(bench, putter).await,
            Actor::Clearer(clearer) => {
                if let Some(epoch) = self.cleared[clearer].take() {
                    assert_eq!(bench.unlist(&epoch).await, Reply::texts(&["OK"]));
                } else {
                    let reply = bench.clear().await;
                    let epoch = reply.list().get(1).map(Reply::text);
                    self.cleared[clearer] = epoch;
                }
            }
            Actor::Drainer => {
                bench.words(&["DEL", QUEUE, IDS]).await;
            }
        }
    }

    async fn put(&mut self, bench: &Bench, putter: usize) {
        if self.has_put[putter] {
            return;
        }
        if let Some((epoch, listed @ false)) = &mut self.told[putter] {
            bench.list(epoch).await;
            *listed = true;
            return;
        }
        let epoch = self.told[putter].as_ref().map_or("", |(epoch, _)| epoch);
        let event = (["x1", "x2"][putter], 77, 1000);
        let epoch = json!({ "epoch": epoch });
        let reply = match &self.letter {
            Some(letter) if putter == 1 => bench.replay_with(letter, epoch).await,
            _ => bench.put_with(&[event], epoch).await,
        };
        if reply.list()[0] == Reply::text_of("OK") {
            self.has_put[putter] = true;
            return;
        }
        assert_eq!(reply.list()[0], Reply::text_of("UNINDEXED"));
        self.told[putter] = Some((reply.list()[1].text(), false));
    }
}

/// All orders of so many steps of each actor.
fn orders(steps: &[(Actor, usize)]) -> Vec<Vec<Actor>> {
    if steps.iter().all(|(_, count)| *count == 0) {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for (index, (actor, count)) in steps.iter().enumerate() {
        if *count == 0 {
            continue;
        }
        let mut rest = steps.to_vec();
        rest[index].1 -= 1;
        let orders = orders(&rest).into_iter();
        all.extend(orders.map(|order| [&[*actor][..], &order].concat()));
    }
    all
}

/// Whatever the order in which those who put and those who clear take their steps, the index names a queue that has events, at
/// every moment; and it names none for ever that has none.
#[tokio::test(flavor = "multi_thread")]
async fn the_index_has_every_queue_with_events_in_every_order_of_steps() {
    use Actor::{Clearer, Drainer, Putter};
    let bench = Bench::start().await;
    let casts: &[&[(Actor, usize)]] = &[
        &[(Putter(0), 5), (Clearer(0), 2), (Clearer(1), 2)],
        &[(Putter(0), 3), (Putter(1), 3), (Clearer(0), 2)],
        &[
            (Putter(0), 3),
            (Drainer, 1),
            (Clearer(0), 2),
            (Putter(1), 2),
        ],
    ];
    for cast in casts {
        let orders = orders(cast);
        let orders = orders
            .iter()
            .flat_map(|order| [(order, false), (order, true)]);
        for (order, replays) in some_of(orders, 5) {
            bench
                .words(&["DEL", QUEUE, IDS, STATE, INDEX, LETTERS])
                .await;
            let mut race = Race::default();
            if replays {
                race.letter = Some(bench.bury(&("x2", 77, 1000)).await);
            }
            for actor in order {
                race.step(&bench, *actor).await;
                let holds = bench.length().await == 0 || bench.is_listed().await;
                assert!(holds, "{order:?} at {actor:?}");
            }
            // Those who are half-way go on.
            for clearer in 0..2 {
                if race.cleared[clearer].is_some() {
                    race.step(&bench, Clearer(clearer)).await;
                }
            }
            for _ in 0..6 {
                race.step(&bench, Putter(0)).await;
            }
            assert!(race.has_put[0], "{order:?}: who goes on alone gets there");
            assert!(
                bench.length().await == 0 || bench.is_listed().await,
                "{order:?}"
            );
            race.step(&bench, Drainer).await;
            race.step(&bench, Clearer(0)).await;
            race.step(&bench, Clearer(0)).await;
            assert!(!bench.is_listed().await, "{order:?}: nothing is left");
        }
    }
}

impl Bench {
    /// Raises the barrier, with the time now and how long it is waited for the queue.
    async fn close(&self, until: &str, now: &str, max_delay: &str) -> String {
        let args = ["1-1", until, "1", now, max_delay, ""].map(str::as_bytes);
        let keys = [BOARD, REGISTRY, QUEUE, INTAKE];
        let reply = self.run(&script::CLOSE_SHARD, &keys, &args).await;
        reply.list()[0].text()
    }

    async fn final_until(&self) -> Reply {
        self.words(&["HGET", BOARD, "final_until"]).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closing_waits_for_the_queue_up_to_its_limit_and_begins_once() {
    let bench = Bench::start().await;
    bench.put(&[("x1", 77, 1000)]).await;
    assert_eq!(bench.close("2000", "", "").await, "QUEUE");
    // It begins to wait with the first who says for how long.
    assert_eq!(bench.close("2000", "100", "50").await, "QUEUE");
    bench.put(&[("x2", 77, 2500)]).await;
    assert_eq!(bench.close("2000", "149", "10").await, "QUEUE");
    assert_eq!(bench.close("2000", "", "").await, "QUEUE");
    assert_eq!(bench.final_until().await, Reply::Nil);
    assert_eq!(bench.close("2000", "150", "90").await, "OK");
    assert_eq!(bench.final_until().await, Reply::text_of("2000"));
    assert_eq!(bench.close("2000", "", "").await, "OK", "it stays");
    // The next one waits anew, also for what the last one did not wait for.
    assert_eq!(bench.close("3000", "200", "50").await, "QUEUE");
    assert_eq!(bench.close("3000", "249", "50").await, "QUEUE");
    assert_eq!(bench.final_until().await, Reply::text_of("2000"));
    assert_eq!(bench.close("3000", "250", "50").await, "OK");
    assert_eq!(bench.final_until().await, Reply::text_of("3000"));
}

/// An event is counted where it is cut off, once, in the step in which it leaves the queue.
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_event_is_counted_in_its_final_periods() {
    let bench = Bench::start().await;
    bench.put(&[("x1", 77, 1000), ("x2", 77, 1000)]).await;
    let entries = bench.words(&["XRANGE", QUEUE, "-", "+"]).await;
    let entries = entries.list().iter().map(|entry| entry.list()[0].text());
    let [counted, replayed] = entries.collect::<Vec<_>>().try_into().unwrap();
    // The second was put in behind the closing, from the dead letters.
    let head = [
        "HSET",
        BOARD,
        "queue:number",
        "7",
        "final_until",
        "2000",
        "queue:mark",
        &counted,
    ];
    bench.words(&head).await;
    let [minute, hour] = ["minute:m", "hour:h"].map(|name| format!("st:{{b}}:1:cut-off:{name}"));
    let end = async |lease: &str, entry: &str| {
        let refused = json!([2, entry, 7, "why", "60000", [[8, 2000], [9, 2001]]]);
        let args = json!({"lease": lease, "tag": "b", "letters_max": 1, "kept_ms": 1000, "ends": [refused]});
        let packed = rmp_serde::to_vec_named(&args).unwrap();
        let [dead, told] = ["st:{b}:1:dead", "st:{b}:1:x:x1"];
        let keys = [
            BOARD, REGISTRY, QUEUE, IDS, STATE, dead, told, &minute, &hour,
        ];
        bench.run(&script::END_QUEUED, &keys, &[&packed]).await
    };
    assert_eq!(end("6", &counted).await, Reply::texts(&["STALE"]));
    for (entry, ended) in [(&counted, "OK"), (&counted, "GONE"), (&replayed, "OK")] {
        assert_eq!(end("7", entry).await, done(&[Reply::text_of(ended)]));
        let counted = bench.words(&["HGETALL", &minute]).await;
        assert_eq!(counted, Reply::texts(&["b", "1"]));
        let registered = bench.words(&["SMISMEMBER", REGISTRY, &minute, &hour]).await;
        assert_eq!(
            registered,
            Reply::List(vec![Reply::Integer(1), Reply::Integer(0)])
        );
    }
    assert_eq!(bench.length().await, 0);
}

/// After a move a shard may have more letters than are kept.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_shard_loses_its_oldest_letter_and_no_more() {
    let bench = Bench::start().await;
    let mut letters = Vec::new();
    for id in ["x1", "x2", "x3"] {
        letters.push(bench.bury(&(id, 77, 1000)).await);
    }
    bench.put(&[("x4", 77, 1000)]).await;
    let ended = bench
        .end(&json!([3, bench.first().await, "unreadable", "why", 0]))
        .await;
    assert_eq!(ended, Reply::texts(&["OK", "OK"]));
    let left: Vec<String> = bench
        .words(&["XRANGE", LETTERS, "-", "+"])
        .await
        .list()
        .iter()
        .map(|one| one.list()[0].text())
        .collect();
    assert_eq!((left.len(), &left[..2]), (3, &letters[1..]));
}

/// Letters that are kept no longer fill no shard, though nothing has taken them out yet.
#[tokio::test(flavor = "multi_thread")]
async fn expired_letters_take_no_room_from_others() {
    let bench = Bench::start().await;
    for place in ["1-1", "1-2", "1-3"] {
        let words = ["XADD", LETTERS, place, "reason", "failed"];
        bench.words(&words).await;
    }
    bench
        .put(&[("x1", 77, 1000), ("x2", 78, 1000), ("x3", 79, 1000)])
        .await;
    // What does not become a letter looks at none.
    let known = bench.end(&json!([1, bench.first().await])).await;
    assert_eq!(known, Reply::texts(&["OK", "OK"]));
    assert_eq!(bench.letters().await, 3);
    let failed = json!([3, bench.first().await, "failed", "why", 1]);
    assert_eq!(bench.end(&failed).await, Reply::texts(&["OK", "OK"]));
    assert_eq!(bench.letters().await, 1);
    // Those that are kept do.
    bench.bury(&("x4", 80, 1000)).await;
    let failed = json!([3, bench.first().await, "failed", "why", 1]);
    assert_eq!(bench.end(&failed).await, Reply::texts(&["OK", "FULL"]));
    assert_eq!((bench.letters().await, bench.length().await), (2, 1));
}

/// An event may have been taken before it is queued. It is known until its turn comes.
#[tokio::test(flavor = "multi_thread")]
async fn the_record_of_a_requeued_event_outlives_its_wait() {
    let bench = Bench::start().await;
    let [queued, other, long] = ["x1", "x2", "x3"].map(|id| format!("st:{{b}}:1:e:{id}"));
    for (record, ms) in [(&queued, "60000"), (&other, "60000"), (&long, "900000000")] {
        bench.words(&["SET", record, "r", "PX", ms]).await;
    }
    let events = [("x1", 77, 1000), ("x3", 77, 1000), ("x4", 77, 1000)];
    assert_eq!(bench.put(&events).await, taken(&[PUT, PUT, PUT]));
    let left = async |record: &str| match bench.words(&["PTTL", record]).await {
        Reply::Integer(ms) => ms,
        other => panic!("{other:?}"),
    };
    assert!((60_001..=90_000_000).contains(&left(&queued).await));
    assert!(left(&other).await <= 60_000);
    assert!(left(&long).await > 90_000_000, "it is not shortened");
    assert_eq!(left("st:{b}:1:e:x4").await, -2, "nothing is known of it");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_an_empty_queue_of_an_existing_board_is_cleared() {
    let bench = Bench::start().await;
    assert_eq!(bench.list("0").await, Reply::texts(&["OK", "1"]));
    assert_eq!(bench.list("0").await, Reply::texts(&["OK", "0"]));
    bench.put(&[("x1", 77, 1000)]).await;
    assert_eq!(bench.clear().await, Reply::texts(&["FULL"]));
    let is_open = async || bench.words(&["HEXISTS", BOARD, "queue:open"]).await;
    assert_eq!(is_open().await, Reply::Integer(1));
    bench.words(&["DEL", QUEUE, IDS]).await;
    assert_eq!(bench.clear().await, Reply::texts(&["OK", "0"]));
    assert_eq!(is_open().await, Reply::Integer(0));
    assert_eq!(bench.clear().await, Reply::texts(&["OK", "1"]));
    bench.words(&["HSET", BOARD, "version", "2-2"]).await;
    assert_eq!(bench.clear().await, Reply::texts(&["STALE"]));
    bench.list("5").await;
    bench.unlist("4").await;
    assert!(bench.is_listed().await);
    bench.unlist("inf").await;
    assert!(!bench.is_listed().await);
}
