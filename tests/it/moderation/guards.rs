//! What keeps hidden members out of sight when stored data is damaged, or Redis takes no writes: compared with a naive model.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use futures::future::join_all;
use serde_json::{Value, json};
use standings::check::{self, Repair, Report};
use standings::domain::ids::BoardId;

use super::hides::{cheating, hidden_path};
use crate::harness::jobs::EndedHides;
use crate::harness::program::Program;
use crate::harness::random::some_of;
use crate::harness::redis::{Reply, run};
use crate::harness::{Client, World};

const NOW: &str = "2026-11-01T00:00:00Z";
/// The first points of the members `m0`, `m1`, …: two of them share a score.
const POINTS: [i64; 12] = [90, 80, 70, 60, 60, 50, 40, 40, 30, 20, 10, 5];
/// The best, the next, one of two with a score, and the last.
const HIDDEN: [usize; 4] = [0, 1, 3, 11];
/// How many entries `keep_top` shows.
const KEPT: usize = 6;

struct Event {
    day: u32,
    member: usize,
    points: i64,
}

/// A board, and all that has happened on it.
struct Game<'a> {
    world: &'a World,
    board: String,
    definition: Value,
    day: u32,
    events: Vec<Event>,
    hidden: BTreeSet<usize>,
}

/// What a standing shows of a member: rank, member, points.
type Line = (u64, String, i64);

fn name(member: usize) -> String {
    format!("m{member}")
}

fn lines_of(entries: &Value) -> Vec<Line> {
    let entries = entries.as_array().unwrap().iter();
    let line = |entry: &Value| {
        let [rank, score] = ["rank", "score"].map(|field| entry[field].as_i64().unwrap());
        let member = entry["member"].as_str().unwrap().to_owned();
        (u64::try_from(rank).unwrap(), member, score)
    };
    entries.map(line).collect()
}

impl<'a> Game<'a> {
    /// A board on which some members were hidden after everything had been read.
    async fn start(world: &'a World, board: String, definition: &Value, day: u32) -> Self {
        let mut game = Self {
            world,
            board,
            definition: definition.clone(),
            day: 0,
            events: Vec::new(),
            hidden: BTreeSet::new(),
        };
        game.begin_day(day);
        world.client().define(&game.board, definition.clone()).await;
        for (member, points) in POINTS.into_iter().enumerate() {
            game.score(member, points).await;
        }
        game.expect_right("at first").await;
        for member in HIDDEN {
            game.hide(member, true).await;
        }
        game
    }

    fn begin_day(&mut self, day: u32) {
        self.day = day;
        let month = ["11", "12"][usize::from(day > 30)];
        let day = if day > 30 { day - 30 } else { day };
        self.world
            .set_time(&format!("2026-{month}-{day:02}T12:00:00Z"));
    }

    async fn score(&mut self, member: usize, points: i64) {
        let path = format!("/v1/boards/{}/events", self.board);
        let event = json!({"member": name(member), "score": points});
        self.world.client().post(&path, event).await.expect(200);
        self.events.push(Event {
            day: self.day,
            member,
            points,
        });
    }

    async fn hide(&mut self, member: usize, is_hidden: bool) {
        let path = hidden_path(&self.board, &name(member));
        if is_hidden {
            self.world.client().put(&path, cheating()).await.expect(200);
            self.hidden.insert(member);
        } else {
            self.world.client().delete(&path).await.expect(204);
            self.hidden.remove(&member);
        }
    }

    /// All visible lines of a window.
    fn right(&self, window: &str) -> Vec<Line> {
        let days = match window {
            "day" => self.day..=self.day,
            "last-2-days" => self.day - 1..=self.day,
            _ => 0..=u32::MAX,
        };
        let mut sums: Vec<(i64, usize, usize)> = Vec::new();
        for (time, event) in self.events.iter().enumerate() {
            if !days.contains(&event.day) || self.hidden.contains(&event.member) {
                continue;
            }
            let time = if self.definition["ties"] == "member" {
                0
            } else {
                time
            };
            match sums.iter_mut().find(|(.., member)| *member == event.member) {
                Some(sum) => (sum.0, sum.1) = (sum.0 + event.points, time),
                None => sums.push((event.points, time, event.member)),
            }
        }
        sums.sort_by_key(|(points, time, member)| (Reverse(*points), *time, name(*member)));
        let rank = |place: usize| {
            let mut better: Vec<i64> = sums[..place]
                .iter()
                .map(|sum| sum.0)
                .filter(|points| *points > sums[place].0)
                .collect();
            match self.definition["ranking"].as_str() {
                Some("dense") => better.dedup(),
                Some("competition") => {}
                _ => return place + 1,
            }
            better.len() + 1
        };
        let places = sums.iter().enumerate();
        places
            .map(|(place, (points, _, member))| (rank(place) as u64, name(*member), *points))
            .collect()
    }

    /// Reads everything in every way, and compares it.
    async fn expect_right(&self, what: &str) {
        let windows = self.definition["windows"].as_array().unwrap();
        for window in windows.iter().map(|window| window.as_str().unwrap()) {
            let what = format!("{what}: {window} of {} {}", self.board, self.definition);
            let right = self.right(window);
            let listed = match self.definition.get("keep_top") {
                Some(_) => &right[..right.len().min(KEPT)],
                None => &right[..],
            };
            let client = self.world.client().once();
            let path = format!("/v1/boards/{}/standings/{window}", self.board);
            let page = client.get(&format!("{path}?size=1000")).await.expect(200);
            assert_eq!(lines_of(&page["entries"]), listed, "{what}");
            assert_eq!(page["total"], right.len(), "{what}");
            let second = client.get(&format!("{path}?size=3&page=2")).await;
            let second = lines_of(&second.expect(200)["entries"]);
            let from = listed.len().min(3);
            assert_eq!(second, listed[from..listed.len().min(6)], "{what}");
            self.expect_members(&client, &path, (listed, right.len()), &what)
                .await;
            let stats = client.get(&format!("{path}/stats")).await.expect(200);
            assert_eq!(stats["members"], right.len(), "{what}");
            if self.definition.get("uniques").is_some() {
                let sum: i64 = right.iter().map(|line| line.2).sum();
                assert_eq!(stats["score_sum"], sum, "{what}");
            }
        }
    }

    async fn expect_members(
        &self,
        client: &Client,
        path: &str,
        (listed, total): (&[Line], usize),
        what: &str,
    ) {
        let all: Vec<String> = (0..POINTS.len()).map(name).collect();
        let subset = client
            .get(&format!("{path}/members?ids={}", all.join(",")))
            .await
            .expect(200);
        let found: BTreeSet<&str> = subset["entries"]
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| entry["member"].as_str().unwrap())
            .collect();
        for member in HIDDEN.iter().filter(|member| self.hidden.contains(member)) {
            let member = name(*member);
            assert!(!found.contains(&*member), "{what}: {member} in {subset}");
            let own = client.get(&format!("{path}/members/{member}")).await;
            own.expect_problem(404, "member-not-found");
        }
        for place in [0, listed.len() / 2, listed.len().saturating_sub(1)] {
            let Some((rank, member, points)) = listed.get(place) else {
                continue;
            };
            let own = client
                .get(&format!("{path}/members/{member}?around=2"))
                .await
                .expect(200);
            assert_eq!(
                (&own["rank"], &own["score"]),
                (&json!(rank), &json!(points)),
                "{what}"
            );
            assert_eq!(own["total"], total, "{what}");
            let around = &listed[place.saturating_sub(2)..listed.len().min(place + 3)];
            assert_eq!(lines_of(&own["around"]), around, "{what}: around {member}");
        }
    }

    /// The beginnings of the names of its shards' keys, each with the head of the shard.
    async fn shards(&self) -> Vec<(String, String)> {
        let pattern = format!("st:{{{}*}}:*:hide-journal", self.board);
        let mut shards = Vec::new();
        for key in self.world.redis.keys(&pattern).await {
            let prefix = key.strip_suffix("hide-journal").unwrap().to_owned();
            let (head, _) = prefix.split_once('}').unwrap();
            shards.push((format!("{head}}}"), prefix));
        }
        shards
    }

    /// Carries out commands on each shard. `HEAD` stands for its head, `:kind` for its key of this kind.
    async fn damage(&self, shards: &[(String, String)], commands: &str) {
        for (head, prefix) in shards {
            for command in commands.split("; ") {
                let words: Vec<String> = command
                    .split(' ')
                    .map(|word| match word.strip_prefix(':') {
                        Some(kind) => format!("{prefix}{kind}"),
                        None if word == "HEAD" => head.clone(),
                        None => word.to_owned(),
                    })
                    .collect();
                let words: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
                let reply = self.world.redis.run(&words).await;
                assert!(!matches!(reply, Reply::Error(_)), "{command}: {reply:?}");
            }
        }
    }

    /// Has the hidden lists of all standings built from scratch.
    async fn drop_lists(&self) {
        let pattern = format!("st:{{{}*}}:*:hidden-state", self.board);
        for key in self.world.redis.keys(&pattern).await {
            self.world.redis.run(&[b"DEL", key.as_bytes()]).await;
        }
    }

    async fn check(&self, repair: Repair) -> Report {
        let id = BoardId::parse(&self.board).unwrap();
        check::run(self.world.engine(), Some(&id), repair)
            .await
            .unwrap()
    }
}

/// Damage of the keys that say who is hidden, and whether reads notice it.
const DAMAGE: [(&str, bool); 13] = [
    ("DEL :hide-journal", true),
    ("ZADD :hide-journal XX INCR 1 m0", true),
    ("ZREM :hide-journal m0", true),
    ("DEL :hides", true),
    ("HDEL :hides m0", true),
    ("DEL :hidden", true),
    ("ZREM :hidden m0", true),
    ("DEL :hides :hidden", true),
    ("DEL :hides :hide-journal", true),
    ("HSET HEAD hides 1", true),
    ("DEL :hidden :hide-journal", false),
    ("HDEL HEAD hides", false),
    ("HDEL HEAD hides; DEL :hide-journal", false),
];

#[tokio::test(flavor = "multi_thread")]
async fn no_hidden_member_is_shown_whichever_key_is_lost() {
    for definition in some_of(definitions(), 2) {
        let world = World::start(NOW).await;
        // The clock never goes back.
        for (day, (commands, is_noticed)) in (2..).step_by(2).zip(DAMAGE) {
            let mut game = Game::start(&world, format!("b{day}"), &definition, day).await;
            game.expect_right("before").await;
            let shards = game.shards().await;
            game.damage(&shards, commands).await;
            if is_noticed {
                game.expect_right(&format!("{commands}, lists are there"))
                    .await;
                game.score(3, 200).await;
                game.expect_right(&format!("{commands}, a hidden member scores"))
                    .await;
                game.drop_lists().await;
                game.expect_right(&format!("{commands}, lists are made from scratch"))
                    .await;
                game.begin_day(day + 1);
                game.score(0, 7).await;
                game.score(5, 3).await;
                game.expect_right(&format!("{commands}, a new day")).await;
            }
            let found = game.check(Repair::None).await;
            let is_of_hides = |kind: &str| kind.starts_with("hides");
            let found_any = found.findings.iter().any(|found| is_of_hides(&found.kind));
            assert!(found_any, "{commands}: {found:?}");
            let mended = game.check(Repair::Remove).await;
            assert!(mended.is_sound(), "{commands}: {mended:?}");
            game.expect_right(&format!("{commands}, repaired")).await;
            assert_eq!(game.check(Repair::None).await.findings, [], "{commands}");
            game.drop_lists().await;
            game.score(1, 4).await;
            game.expect_right(&format!("{commands}, repaired, from scratch"))
                .await;
            game.hide(0, false).await;
            game.expect_right(&format!("{commands}, repaired, one is back"))
                .await;
            game.hide(5, true).await;
            game.expect_right(&format!("{commands}, repaired, another is hidden"))
                .await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_can_be_unhidden_and_hidden_again_before_lost_keys_are_repaired() {
    let world = World::start(NOW).await;
    let definition = &definitions()[1];
    let lost = DAMAGE
        .iter()
        .filter(|(damage, _)| !damage.contains(":hides") && !damage.contains("HEAD"));
    for (day, (commands, _)) in (2..).step_by(2).zip(lost) {
        let mut game = Game::start(&world, format!("b{day}"), definition, day).await;
        game.expect_right("before").await;
        let shards = game.shards().await;
        game.damage(&shards, commands).await;
        for is_hidden in [false, true, false] {
            game.hide(0, is_hidden).await;
            game.expect_right(&format!("{commands}, hidden: {is_hidden}"))
                .await;
        }
    }
}

fn definitions() -> [Value; 4] {
    [
        json!({"windows": ["day", "all", "last-2-days"], "shards": 3, "ranking": "competition"}),
        json!({"windows": ["day", "all"], "ties": "member", "uniques": "board"}),
        json!({"windows": ["day", "last-2-days"], "ranking": "dense", "uniques": "board"}),
        json!({"windows": ["day", "all"], "score_min": 1, "keep_top": KEPT, "ranking": "dense"}),
    ]
}

/// A full memory, no writes for want of replicas, and a server that has become a replica (no node of a cluster does by this
/// command); and how it ends.
const REFUSED: [[&str; 2]; 3] = [
    ["CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0"],
    [
        "CONFIG SET min-replicas-to-write 9",
        "CONFIG SET min-replicas-to-write 0",
    ],
    ["REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE"],
];

#[tokio::test(flavor = "multi_thread")]
async fn reads_leave_out_hidden_members_though_redis_refuses_writes() {
    for definition in definitions() {
        let world = World::start(NOW).await;
        for (day, [begin, end]) in (2..).step_by(2).zip(REFUSED) {
            let mut game = Game::start(&world, format!("b{day}"), &definition, day).await;
            world.redis.on_each(begin).await;
            game.expect_right(&format!("{begin}: lists are behind"))
                .await;
            world.redis.on_each(end).await;
            game.expect_right(&format!("{begin}: it is over")).await;
            game.begin_day(day + 1);
            game.score(3, 9).await;
            game.score(6, 50).await;
            game.score(7, 1).await;
            game.hide(0, false).await;
            game.hide(7, true).await;
            // Sums have to be there.
            game.expect_right(&format!("{begin}: another day")).await;
            game.drop_lists().await;
            world.redis.on_each(begin).await;
            game.expect_right(&format!("{begin}: lists are missing"))
                .await;
            world.redis.on_each(end).await;
            game.expect_right(&format!("{begin}: it is over again"))
                .await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_fails_if_redis_refuses_writes_and_too_many_are_hidden() {
    const COUNT: usize = 1_010;
    let world = World::start(NOW).await;
    let client = &world.client().once();
    client.define("b", json!({"windows": ["all"]})).await;
    for from in (0..COUNT).step_by(505) {
        let event = |member| json!({"board": "b", "member": name(member), "score": COUNT - member});
        let events: Vec<Value> = (from..from + 505).map(event).collect();
        let sent = client.post("/v1/events?standings=false", json!({"events": events}));
        sent.await.expect(200);
    }
    let members: Vec<usize> = (0..=1_000).collect();
    for some in members.chunks(100) {
        let hide = async |member: &usize| {
            let path = hidden_path("b", &name(*member));
            client.put(&path, cheating()).await.expect(200)
        };
        join_all(some.iter().map(hide)).await;
    }
    let page = "/v1/boards/b/standings/all";
    let right = |from: usize| -> Vec<Line> {
        let visible = (from..COUNT).zip(1..);
        visible
            .map(|(member, rank)| (rank, name(member), i64::try_from(COUNT - member).unwrap()))
            .collect()
    };
    let [[full, roomy], [begin, end], _] = REFUSED;
    world.redis.on_each(begin).await;
    client.get(page).await.expect_problem(503, "store-full");
    world.redis.on_each(end).await;
    client.delete(&hidden_path("b", "m1000")).await.expect(204);
    world.redis.on_each(begin).await;
    let shown = client.get(page).await.expect(200);
    assert_eq!(lines_of(&shown["entries"]), right(1_000));
    world.redis.on_each(end).await;
    client
        .put(&hidden_path("b", "m1000"), cheating())
        .await
        .expect(200);
    // With full memory the list is stored, however long it is.
    world.redis.on_each(full).await;
    let shown = client.get(page).await.expect(200);
    assert_eq!(lines_of(&shown["entries"]), right(1_001));
    world.redis.on_each(roomy).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_can_be_erased_and_others_read_while_memory_is_full() {
    let world = World::start(NOW).await;
    let definition = json!({"windows": ["day", "all"], "shards": 2});
    let mut game = Game::start(&world, "b".to_owned(), &definition, 5).await;
    game.expect_right("before").await;
    let erased = world.client().delete("/v1/boards/b/members/m2").await;
    erased.expect(204);
    game.events.retain(|event| event.member != 2);
    world.redis.on_each(REFUSED[0][0]).await;
    let erased = world
        .client()
        .once()
        .delete("/v1/boards/b/members/m4")
        .await;
    erased.expect(204);
    game.events.retain(|event| event.member != 4);
    game.expect_right("erased").await;
    world.redis.on_each(REFUSED[0][1]).await;
    game.expect_right("afterwards").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_erasure_ever_works_while_memory_is_full() {
    let directory = tempfile::tempdir().unwrap();
    let program = Program::serve(directory.path()).await;
    let client = program.client();
    client.define("b", json!({"windows": ["all"]})).await;
    for (member, score) in [("ann", 2), ("bob", 1)] {
        let event = json!({"member": member, "score": score});
        client.post("/v1/boards/b/events", event).await.expect(200);
    }
    let socket = directory.path().join("redis.sock");
    let limit = run(&socket, &[b"CONFIG", b"SET", b"maxmemory", b"1"]).await;
    assert_eq!(limit, Reply::text_of("OK"));
    client.delete("/v1/boards/b/members/ann").await.expect(204);
    let page = client.get("/v1/boards/b/standings/all").await.expect(200);
    assert_eq!(lines_of(&page["entries"]), [(1, "bob".to_owned(), 1)]);
    program.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unhidden_members_leave_the_journal_after_a_day() {
    for shards in [1, 3] {
        let world = World::start(NOW).await;
        let definition = json!({"windows": ["day", "all"], "shards": shards});
        let mut game = Game::start(&world, "b".to_owned(), &definition, 5).await;
        game.expect_right("hidden").await;
        let shards = game.shards().await;
        let known = async || {
            let mut known = BTreeSet::new();
            for (_, prefix) in &shards {
                let key = format!("{prefix}hide-journal");
                let journal = world
                    .redis
                    .run(&[b"ZRANGE", key.as_bytes(), b"0", b"-1"])
                    .await;
                known.extend(journal.list().iter().map(Reply::text));
            }
            known
        };
        let names =
            |members: &[usize]| -> BTreeSet<String> { members.iter().map(|m| name(*m)).collect() };
        for member in [0, 3] {
            game.hide(member, false).await;
        }
        let work = async || world.engine().run(&EndedHides).await.unwrap();
        work().await;
        assert_eq!(known().await, names(&HIDDEN));
        game.expect_right("brought back").await;
        game.hide(3, true).await;
        game.drop_lists().await;
        game.expect_right("hidden again").await;
        game.hide(1, false).await;
        game.begin_day(6);
        work().await;
        assert_eq!(known().await, names(&[3, 11]));
        // The lists are behind what was forgotten.
        game.score(1, 1).await;
        game.expect_right("forgotten").await;
        assert_eq!(game.check(Repair::None).await.findings, []);
    }
}
