//! Exports of standings that are not final: each file shows one instant of each shard, whatever changes meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use standings::core::read::snapshot::SnapshotBounds;
use standings::domain::board::Board;
use standings::domain::ids::{BoardId, MemberId};

use crate::harness::client::Answer;
use crate::harness::jobs::ClosePeriods;
use crate::harness::random::{Random, seed};
use crate::harness::servers::RedisServers;
use crate::harness::{Client, Instance, World, clock_at};

const NOON: &str = "2026-11-20T12:00:00Z";
const NDJSON: &str = "all/periods/current/export?format=ndjson";

/// Steps so small that much happens between them.
fn small_steps(step_entries: u64) -> SnapshotBounds {
    SnapshotBounds {
        step_entries,
        ..SnapshotBounds::default()
    }
}

/// A board, and two instances that export it within these bounds.
async fn world(bounds: SnapshotBounds, definition: Value) -> World {
    let (redis, clock) = (RedisServers::start().await, clock_at(NOON));
    let mut instances = Vec::new();
    for _ in 0..2 {
        instances.push(Instance::start_exporting(&redis.url(), clock.clone(), "", bounds).await);
    }
    instances[0].client.define("b", definition).await;
    World {
        instances,
        clock,
        redis,
    }
}

fn path(rest: &str) -> String {
    format!("/v1/boards/b/standings/{rest}")
}

async fn export(client: &Client, rest: &str) -> Answer {
    let answer = client.get(&path(rest)).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer
}

async fn post(client: &Client, member: &str, score: i64) {
    let event = json!({"member": member, "score": score});
    client.post("/v1/boards/b/events", event).await.expect(200);
}

/// Sends scores of these members, many at once.
async fn fill(client: &Client, scores: impl IntoIterator<Item = (String, i64)>) {
    let events: Vec<Value> = scores
        .into_iter()
        .map(|(member, score)| json!({"board": "b", "member": member, "score": score}))
        .collect();
    for events in events.chunks(500) {
        let taken = client.post("/v1/events", json!({"events": events}));
        taken.await.expect(200);
    }
}

fn lines(answer: &Answer) -> Vec<Value> {
    answer
        .text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The shards' keys of the trail, and the heads that name one.
async fn traces(world: &World) -> (Vec<String>, usize) {
    let mut named = 0;
    for head in world.redis.keys("st:{b*}").await {
        let field = world
            .redis
            .run(&[b"HEXISTS", head.as_bytes(), b"trail"])
            .await;
        named += usize::from(field == crate::harness::redis::Reply::Integer(1));
    }
    (world.redis.keys("st:{b*:r:trail").await, named)
}

/// What a standing shows: scores of members, and who is hidden.
#[derive(Clone, Debug, Default)]
struct State {
    scores: BTreeMap<String, i64>,
    hidden: BTreeSet<String>,
}

/// A member with its score, and whether it is hidden if hidden members are in the file.
type Line = (String, i64, Option<bool>);

impl State {
    /// Its lines, best first, those of a shard alone.
    fn lines(&self, with_hidden: bool, is_of_shard: impl Fn(&str) -> bool) -> Vec<Line> {
        let scores = self.scores.iter();
        let mut lines: Vec<Line> = scores
            .filter(|(member, _)| is_of_shard(member))
            .map(|(member, score)| (member, score, self.hidden.contains(member)))
            .filter(|(_, _, is_hidden)| with_hidden || !is_hidden)
            .map(|(member, score, is_hidden)| {
                (member.clone(), *score, with_hidden.then_some(is_hidden))
            })
            .collect();
        lines.sort_by_key(|(_, score, _)| -score);
        lines
    }
}

/// What happens while an export runs.
#[derive(Clone, Copy, PartialEq)]
enum Amid {
    Events,
    /// One in so many is a hide, an erasure, or a member that comes back.
    Moderation(usize),
}

/// The history of a board while it is written to: the state after each step.
struct History {
    board: Arc<Board>,
    states: Mutex<Vec<State>>,
    /// How many of them are acknowledged.
    acknowledged: AtomicUsize,
    is_over: AtomicBool,
}

const MEMBERS: usize = 150;

fn member(number: usize) -> String {
    format!("m{number}")
}

impl History {
    /// Fills the board.
    async fn begin(world: &World) -> Self {
        let scores: BTreeMap<String, i64> = (0..MEMBERS)
            .map(|number| (member(number), i64::try_from(number % 40).unwrap()))
            .collect();
        fill(world.client(), scores.clone()).await;
        let id = BoardId::parse("b").unwrap();
        let state = State {
            scores,
            hidden: BTreeSet::new(),
        };
        Self {
            board: world.engine().board(&id).await.unwrap(),
            states: Mutex::new(vec![state]),
            acknowledged: AtomicUsize::new(1),
            is_over: AtomicBool::new(false),
        }
    }

    /// One step after the other, until the exports are there.
    async fn go_on(&self, world: &World, amid: Amid, random: &mut Random) {
        let client = &world.instances[1].client;
        let mut state = self.states.lock()[0].clone();
        let mut seconds = 0;
        for step in 0.. {
            if self.is_over.load(Ordering::Relaxed) {
                break;
            }
            let member = member(random.below(2 * MEMBERS));
            let moderation = match amid {
                Amid::Moderation(one_in) if random.below(one_in) == 0 => 1 + random.below(3),
                _ => 0,
            };
            let score = i64::try_from(random.below(40)).unwrap();
            match moderation {
                0 => drop(state.scores.insert(member.clone(), score)),
                1 => drop(state.hidden.insert(member.clone())),
                2 => drop(state.hidden.remove(&member)),
                _ => drop(state.scores.remove(&member)),
            }
            self.states.lock().push(state.clone());
            match moderation {
                0 => {
                    let id = format!("step-{step}");
                    let event = json!({"id": id, "member": member, "score": score});
                    client.post_until_taken("/v1/boards/b/events", &event).await;
                }
                1 => {
                    let path = format!("/v1/boards/b/hidden/{member}");
                    let hide = client.put(&path, json!({"reason": "cheating"}));
                    hide.await.expect(200);
                }
                2 => {
                    let path = format!("/v1/boards/b/hidden/{member}");
                    let back = client.delete(&path).await;
                    assert!([204, 404].contains(&back.status.as_u16()), "{}", back.text);
                }
                _ => {
                    client
                        .delete(&format!("/v1/boards/b/members/{member}"))
                        .await
                        .expect(204);
                    seconds += 1;
                    world.set_time(&format!(
                        "2026-11-20T12:{:02}:{:02}Z",
                        seconds / 60,
                        seconds % 60
                    ));
                }
            }
            let count = self.states.lock().len();
            self.acknowledged.store(count, Ordering::Relaxed);
        }
    }

    /// Exports once, and looks for the instants that the file shows.
    async fn export(&self, world: &World, with_hidden: bool) {
        let first = self.acknowledged.load(Ordering::Relaxed) - 1;
        let rest = if with_hidden {
            format!("{NDJSON}&hidden=include")
        } else {
            NDJSON.to_owned()
        };
        let read = lines(&export(world.client(), &rest).await);
        let states = self.states.lock()[first..].to_vec();
        let lines: Vec<Line> = read
            .iter()
            .map(|line| {
                let member = line["member"].as_str().unwrap().to_owned();
                (
                    member,
                    line["score"].as_i64().unwrap(),
                    line["hidden"].as_bool(),
                )
            })
            .collect();
        assert!(
            lines.is_sorted_by_key(|(member, score, _)| (-score, member)),
            "{lines:?}"
        );
        assert!(
            read.iter()
                .zip(1..)
                .all(|(line, rank)| line["rank"] == rank)
        );
        for shard in 0..self.board.shards().len() {
            let is_of_shard =
                |member: &str| self.board.shard_of(&MemberId::parse(member).unwrap()) == shard;
            let mut own = lines.clone();
            own.retain(|(member, _, _)| is_of_shard(member));
            let shows = |state: &State| state.lines(with_hidden, is_of_shard) == own;
            assert!(
                states.iter().any(shows),
                "no instant from {first} on: {own:?}"
            );
        }
    }
}

/// Exports amid events, until what else happens is over.
async fn export_amid(
    shards: u16,
    step_entries: u64,
    amid: Amid,
    happens: impl AsyncFnOnce(&World),
) {
    let definition =
        json!({"windows": ["all"], "update": "last", "ties": "member", "shards": shards});
    let world = world(small_steps(step_entries), definition).await;
    let history = History::begin(&world).await;
    let mut random = Random::new(seed(u64::from(shards)));
    let is_over = AtomicBool::new(false);
    let exports = async {
        for number in 0.. {
            history.export(&world, number % 2 == 1).await;
            let events = history.states.lock().len();
            if number >= 6 && events > 20 && is_over.load(Ordering::Relaxed) {
                break;
            }
        }
        history.is_over.store(true, Ordering::Relaxed);
    };
    let happens = async {
        happens(&world).await;
        is_over.store(true, Ordering::Relaxed);
    };
    tokio::join!(exports, happens, history.go_on(&world, amid, &mut random));
    for with_hidden in [false, true] {
        history.export(&world, with_hidden).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_shows_one_instant_of_each_shard_amid_events() {
    for shards in [1, 2, 7] {
        export_amid(shards, 3, Amid::Events, async |_| {}).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_shows_one_instant_amid_hides_and_erasures() {
    for shards in [1, 3] {
        export_amid(shards, 20, Amid::Moderation(25), async |_| {}).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_begins_again_when_its_trail_is_lost() {
    export_amid(1, 3, Amid::Events, async |world| {
        let trail = format!("st:{{b}}:{}:r:trail", world.generation("b").await);
        for _ in 0..20 {
            world.redis.run(&[b"DEL", trail.as_bytes()]).await;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_shows_one_instant_though_redis_is_killed_meanwhile() {
    for shards in [1, 3] {
        export_amid(shards, 3, Amid::Events, async |world| {
            for pause_ms in [10, 40, 5, 100, 20] {
                tokio::time::sleep(Duration::from_millis(pause_ms)).await;
                world.redis.kill();
                world.redis.restart().await;
            }
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_has_what_reads_show_of_every_standing_that_is_not_final() {
    for (ties, ranking, order, shards) in [
        ("first", "ordinal", "desc", 1),
        ("first", "competition", "asc", 3),
        ("last", "dense", "desc", 1),
        ("last", "competition", "asc", 3),
        ("member", "dense", "asc", 1),
        ("member", "competition", "desc", 3),
    ] {
        let definition = json!({"windows": ["day", "hour", "last-2-days", "all"], "ties": ties, "ranking": ranking, "order": order,
            "shards": shards, "initial": ["day"], "decimals": 1, "finalize": "10m"});
        let world = world(small_steps(3), definition).await;
        let client = world.client();
        let scores = (0..60).map(|number| (member(number), i64::try_from(number % 7).unwrap()));
        fill(client, scores).await;
        let initial = json!({"scores": {"m3": 2.5, "new": 100}});
        client
            .patch("/v1/boards/b/initial-scores", initial)
            .await
            .expect(200);
        for hidden in ["m0", "m17", "m59"] {
            let path = format!("/v1/boards/b/hidden/{hidden}");
            let hide = client.put(&path, json!({"reason": "cheating"}));
            hide.await.expect(200);
        }
        world.set_time("2026-11-20T13:05:00Z");
        post(client, "m4", 3).await;
        for (window, key, is_public) in [
            ("day", "current", "key=2026-11-20"),
            ("hour", "previous", "key=previous"),
            ("hour", "current", "key=current"),
            ("last-2-days", "current", "key=current"),
            ("last-2-days", "2026-11-21", "key=2026-11-21"),
            ("all", "all", "key=all"),
        ] {
            let page = client
                .get(&path(&format!("{window}?size=1000&{is_public}")))
                .await;
            // The times of `json` are cut.
            let page: Value = serde_json::from_str(&page.text).unwrap();
            let expected = page["entries"].as_array().unwrap().clone();
            let rest = format!("{window}/periods/{key}/export?format=ndjson");
            for instance in &world.instances {
                let exported = lines(&export(&instance.client, &rest).await);
                assert_eq!(
                    exported, expected,
                    "{window} {key} with {ties}, {ranking}, {order}"
                );
            }
            assert!(!expected.is_empty());
            let page = format!("{window}?size=1000&{is_public}&hidden=include");
            let page = client.get(&path(&page)).await;
            let page: Value = serde_json::from_str(&page.text).unwrap();
            let mut exported = lines(&export(client, &format!("{rest}&hidden=include")).await);
            for line in &mut exported {
                // Lists name only those that are hidden.
                if line["hidden"] == false {
                    line.as_object_mut().unwrap().remove("hidden");
                }
            }
            assert_eq!(json!(exported), page["entries"], "{window} {key}");
        }
    }
}

/// A period that ended before `finalize` was set gets no result. When later ones are final, it is still exported.
#[tokio::test(flavor = "multi_thread")]
async fn a_period_that_is_final_without_a_result_is_exported() {
    let world = world(SnapshotBounds::default(), json!({"windows": ["day"]})).await;
    let client = world.client();
    post(client, "ann", 1).await;
    world.set_time("2026-11-21T12:00:00Z");
    client
        .patch("/v1/boards/b", json!({"finalize": "1h"}))
        .await
        .expect(200);
    world.engine().refresh_boards().await.unwrap();
    post(client, "bob", 1).await;
    world.set_time("2026-11-22T12:00:00Z");
    client
        .post(
            "/v1/boards/b/standings/day/periods/2026-11-21/close",
            json!({}),
        )
        .await;
    let answer = export(client, "day/periods/2026-11-20/export?format=ndjson").await;
    assert_eq!(lines(&answer).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_names_its_instant_and_spreadsheets_can_open_it() {
    let world = world(
        small_steps(3),
        json!({"windows": ["hour", "last-2-hours"], "title": "Ü"}),
    )
    .await;
    let client = world.client();
    let profile = json!({"name": "+Ann", "attributes": {"country": "NZ"}});
    client.put("/v1/members/ann/profile", profile).await;
    fill(
        client,
        ["ann", "bob", "cid", "dan"].map(|member| (member.to_owned(), 5)),
    )
    .await;
    for (window, key) in [("hour", "current"), ("last-2-hours", "2026-11-20T12:00Z")] {
        let rest = format!("{window}/periods/{key}/export?format=csv&include=profile&bom=true");
        let answer = export(client, &rest).await;
        assert_eq!(
            answer.headers["standings-as-of"],
            "2026-11-20T12:00:00.000Z"
        );
        assert!(!answer.headers.contains_key("standings-revision"));
        assert!(!answer.headers.contains_key("trailer"));
        let name = format!(
            "attachment; filename=\"b-{window}-2026-11-20T1200Z-2026-11-20T120000.000Z.csv\""
        );
        assert_eq!(answer.headers["content-disposition"], name.as_str());
        let mut lines = answer.text.lines();
        let header = "\u{feff}rank,member,score,reached_at,name,avatar_url,attributes";
        assert_eq!(lines.next(), Some(header));
        let first = lines.next().unwrap();
        assert!(
            first.starts_with("1,ann,5,2026-11-20T12:00:00.000001Z,'+Ann,,"),
            "{first}"
        );
        assert_eq!(lines.count(), 3);
    }
    let rest = "last-2-hours/periods/current/export?format=ndjson&bom=true";
    client
        .get(&path(rest))
        .await
        .expect_problem(400, "invalid-parameter");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_can_not_be_exported_is_refused_by_name() {
    let bounds = SnapshotBounds {
        bytes: 2 << 10,
        step_entries: 10,
    };
    let world = world(bounds, json!({"windows": ["day", "last-2-days"]})).await;
    let client = world.client();
    let rest = "day/periods/current/export?format=ndjson";
    client
        .get(&path(rest))
        .await
        .expect_problem(404, "period-not-found");
    assert_eq!(
        export(client, "last-2-days/periods/current/export?format=csv")
            .await
            .text,
        "rank,member,score,reached_at\n"
    );
    fill(client, (0..30).map(|number| (member(number), 1))).await;
    assert_eq!(lines(&export(client, rest).await).len(), 30);
    fill(client, (0..300).map(|number| (member(number), 1))).await;
    let detail = client
        .get(&path(rest))
        .await
        .expect_problem(409, "export-too-large");
    assert!(detail.contains("from_score"), "{detail}");
    for (rest, status, problem) in [
        (
            "week/periods/current/export?format=csv",
            404,
            "unknown-window",
        ),
        (
            "day/periods/current/export?format=csv&cohort=gold-1",
            404,
            "no-league",
        ),
        (
            "last-2-days/periods/2030-01-01/export?format=csv",
            400,
            "invalid-parameter",
        ),
        ("last-2-days/periods/current", 404, "period-not-found"),
    ] {
        client
            .get(&path(rest))
            .await
            .expect_problem(status, problem);
    }
    client
        .define(
            "top",
            json!({"windows": ["day"], "keep_top": 10, "update": "max"}),
        )
        .await;
    let event = json!({"member": "ann", "score": 1});
    client
        .post("/v1/boards/top/events", event)
        .await
        .expect(200);
    let rest = "/v1/boards/top/standings/day/periods/current/export?format=csv";
    let detail = client
        .get(rest)
        .await
        .expect_problem(409, "period-not-final");
    assert!(detail.contains("keep_top"), "{detail}");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_keys_with_read_export_even_public_boards() {
    let keys = "admin:admin-key-1,read:reader-key-1,write:writer-key-1";
    let world = World::with_keys(1, NOON, keys).await;
    let admin = world.client().with_key("admin-key-1");
    admin
        .define("b", json!({"windows": ["all"], "public": true}))
        .await;
    post(&admin, "ann", 5).await;
    world.client().get(&path("all")).await.expect(200);
    world
        .client()
        .get(&path(NDJSON))
        .await
        .expect_problem(401, "unauthenticated");
    let reader = world.client().with_key("reader-key-1");
    export(&reader, NDJSON).await;
    reader
        .get(&path(&format!("{NDJSON}&hidden=include")))
        .await
        .expect_problem(403, "forbidden");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_final_period_is_exported_with_hidden_members_as_it_is_now() {
    for keep_top in [json!(null), json!(10)] {
        let definition =
            json!({"windows": ["day"], "finalize": "0s", "update": "max", "keep_top": keep_top});
        let world = world(small_steps(3), definition).await;
        let client = world.client();
        fill(client, [("ann".to_owned(), 3), ("bob".to_owned(), 5)]).await;
        let hide = json!({"reason": "cheating"});
        client
            .put("/v1/boards/b/hidden/bob", hide)
            .await
            .expect(200);
        world.set_time("2026-11-21T12:00:00Z");
        world.engine().run(&ClosePeriods).await.unwrap();
        let rest = "day/periods/2026-11-20/export?format=csv";
        let answer = export(client, rest).await;
        assert_eq!(answer.text.lines().count(), 2, "{}", answer.text);
        let all = format!("{rest}&hidden=include");
        if keep_top.is_null() {
            let answer = export(client, &all).await;
            let lines: Vec<_> = answer.text.lines().collect();
            assert_eq!(lines[0], "rank,member,score,reached_at,hidden");
            assert!(lines[1].starts_with("1,bob,5,") && lines[1].ends_with(",true"));
            assert!(lines[2].starts_with("2,ann,3,") && lines[2].ends_with(",false"));
            assert!(answer.headers.contains_key("standings-as-of"));
            // As their expiry does.
            for key in world.redis.keys("st:{b}:*:2026-11-20*").await {
                world.redis.run(&[b"DEL", key.as_bytes()]).await;
            }
            let expired = client.get(&path(&all)).await;
            expired.expect_problem(410, "period-expired");
        } else {
            let running = "day/periods/current/export?format=csv&hidden=include";
            for refused in [&all, running] {
                let refused = client.get(&path(refused)).await;
                refused.expect_problem(400, "invalid-parameter");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trail_is_left_only_while_a_large_standing_is_exported() {
    let definition = json!({"windows": ["all", "day"], "shards": 2});
    let world = world(small_steps(10), definition).await;
    let client = world.client();
    post(client, "ann", 5).await;
    export(client, NDJSON).await;
    assert_eq!(traces(&world).await, (Vec::new(), 0), "one step reads it");

    fill(client, (0..100).map(|number| (member(number), 1))).await;
    export(client, NDJSON).await;
    let (trails, named) = traces(&world).await;
    assert_eq!((trails.len(), named), (2, 2));
    fill(client, (0..100).map(|number| (member(number), 2))).await;
    for trail in &trails {
        let ttl = world.redis.run(&[b"TTL", trail.as_bytes()]).await;
        assert!(
            matches!(ttl, crate::harness::redis::Reply::Integer(1..=60)),
            "{ttl:?}"
        );
        let length = world.redis.run(&[b"LLEN", trail.as_bytes()]).await;
        assert!(
            matches!(length, crate::harness::redis::Reply::Integer(2..)),
            "{length:?}"
        );
        // As if it had expired.
        world.redis.run(&[b"DEL", trail.as_bytes()]).await;
    }
    fill(client, (0..100).map(|number| (member(number), 3))).await;
    assert_eq!(traces(&world).await, (Vec::new(), 0));

    // An erasure leaves no id in it.
    export(client, NDJSON).await;
    post(client, "erased-one", 4).await;
    let holds_name = async || {
        let mut holds = false;
        for trail in traces(&world).await.0 {
            let records = world
                .redis
                .run(&[b"LRANGE", trail.as_bytes(), b"0", b"-1"])
                .await;
            holds |= records.holds("erased-one");
        }
        holds
    };
    assert!(holds_name().await);
    client
        .delete("/v1/boards/b/members/erased-one")
        .await
        .expect(204);
    assert!(!holds_name().await);
}
