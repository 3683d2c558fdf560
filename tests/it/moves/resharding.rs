//! Boards that are spread anew: nothing of it shows in any answer.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use futures::future::join_all;
use serde_json::{Value, json};
use standings::core::board::store::board_notes::{self, NotedFor};
use standings::core::board::store::boards;
use standings::core::jobs::faults::Subject;
use standings::core::jobs::{Job, JobKind, Progress};
use standings::core::{Engine, Error};
use standings::domain::ids::BoardId;
use standings::moves;
use standings::moves::job::Moving;

use super::shards::{compare_all_of, events, read_of, send_to};
use crate::harness::jobs::{Moves, Purge};
use crate::harness::program::Program;
use crate::harness::random::{Random, seed, some_of};
use crate::harness::redis::eventually;
use crate::harness::{Client, Instance, World, interrupt};

const NOW: &str = "2026-11-21T12:00:00Z";
/// A board that stays as it is, and others that move.
const BOARDS: [&str; 3] = ["stays", "moves", "also"];

async fn define(world: &World, board: &str, definition: &Value, shards: u16) {
    let mut definition = definition.clone();
    definition["shards"] = json!(shards);
    world.client().define(board, definition).await;
}

/// Takes moves to their end.
async fn move_all(world: &World) {
    for board in BOARDS {
        world.instances[0].end_move(board).await;
    }
}

fn with_ids(events: Vec<Value>, from: usize) -> Vec<Value> {
    let with_id = |(index, mut event): (usize, Value)| {
        event["id"] = json!(format!("e-{}", from + index));
        event["voter"] = json!(format!("v-{}", index % 90));
        event
    };
    events.into_iter().enumerate().map(with_id).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_board_that_moves_repeatedly_shows_the_same_as_one_that_stays() {
    let members = 700;
    let boards = [
        (
            json!({"windows": ["day", "all", "last-2-days"], "carryover": {"day": 0.5}, "uniques": "member"}),
            ["day", "all", "last-2-days"],
        ),
        (
            json!({"windows": ["hour", "all", "last-3-hours"], "ties": "member", "ranking": "competition",
                "order": "asc", "initial": ["all"], "weight": {"members": {"m1": 5}}}),
            ["hour", "all", "last-3-hours"],
        ),
        (
            json!({"windows": ["day", "week", "all"], "score_min": 1, "keep_top": 100, "ties": "last", "initial": ["day"],
                "retention": {"day": "5d"}, "uniques": "board"}),
            ["day", "week", "all"],
        ),
        (
            json!({"windows": ["day", "last-2-days", "all"], "quotas": [
                {"name": "attempts", "by": ["member"], "window": "total", "max": 6},
                {"name": "hour", "by": ["member"], "window": "1h", "max": 3},
                {"name": "points", "by": ["member"], "window": "day", "max": 9, "measure": "score"}]}),
            ["day", "last-2-days", "all"],
        ),
        (
            json!({"windows": ["day", "month", "all"], "update": "last"}),
            ["day", "month", "all"],
        ),
    ];
    for (definition, windows) in some_of(boards, 3) {
        let mut random = Random::new(seed(11));
        let world = World::with_instances(2, NOW).await;
        for (board, shards) in BOARDS.into_iter().zip([1, 1, 3]) {
            define(&world, board, &definition, shards).await;
        }
        if definition.get("initial").is_some() {
            let scores = json!({"scores": {"m1": 7, "m2": 2, "nobody": 5}});
            for board in BOARDS {
                let path = format!("/v1/boards/{board}/initial-scores");
                world
                    .client()
                    .patch(&path, scores.clone())
                    .await
                    .expect(200);
            }
        }
        let mut sent: Vec<Value> = Vec::new();
        for (round, shards) in [4, 1, 7, 2].into_iter().enumerate() {
            let fresh = with_ids(events(&mut random, members, 600), sent.len());
            // So few go in one call, and so in their order.
            for some in fresh.chunks(25) {
                send_to(world.client(), &BOARDS, some).await;
            }
            sent.extend(fresh);
            for board in &BOARDS[1..] {
                world.client().spread(board, shards).await;
            }
            let fresh = with_ids(events(&mut random, members, 100), sent.len());
            for some in fresh.chunks(25) {
                send_to(&world.instances[1].client, &BOARDS, some).await;
            }
            sent.extend(fresh);
            move_all(&world).await;
            // The other instance has not heard of it yet.
            let known: Vec<Value> = (0..200)
                .map(|_| sent[random.below(sent.len())].clone())
                .collect();
            send_to(&world.instances[1].client, &BOARDS, &known).await;
            for window in windows {
                compare_all_of(&world, &BOARDS, &mut random, members, window).await;
            }
            world.set_time(&format!("2026-11-21T12:{:02}:00Z", 10 * (round + 1)));
        }
        world.set_time("2026-11-22T00:10:00Z");
        for window in windows {
            compare_all_of(&world, &BOARDS, &mut random, members, window).await;
        }
        world.engine().run(&Purge).await.unwrap();
        for window in windows {
            read_of(&world, &BOARDS, &mut random, window).await;
        }
        // Of the shards that were left, only their heads are there, what expires by itself, and counts of quotas.
        let left = world.redis.keys("st:{also:3:*").await;
        let stays = |key: &String| {
            let (_, name) = key.split_once("}:").unwrap_or_default();
            let (_, name) = name.split_once(':').unwrap_or_default();
            let stays = ["e:", "t:", "q:", "quotas", "reserv"];
            stays.iter().any(|part| name.starts_with(part))
        };
        let left = left
            .iter()
            .filter(|key| key.contains("}:") && !key.ends_with("}:counts") && !stays(key));
        assert_eq!(left.count(), 0);
        for board in BOARDS {
            let path = format!("/v1/boards/{board}");
            world.client().delete(&path).await.expect(204);
        }
        world.engine().run(&Purge).await.unwrap();
        let left = world.redis.leftover("st:{*").await;
        let is_left = |key: &&String| !key.starts_with("st:{boards}") && !stays(key);
        let left: Vec<&String> = left.iter().filter(is_left).collect();
        assert_eq!(left, [""; 0]);
    }
}

/// Sends events, each of them twice, until it is told to stop.
async fn keep_sending(client: &Client, who: usize, acknowledged: &AtomicI64, stop: &AtomicBool) {
    let mut random = Random::new(u64::try_from(who).unwrap());
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) {
        let events: Vec<Value> = (number..number + 10)
            .map(|number| {
                let member = format!("m{}", random.below(200));
                json!({"board": "b", "id": format!("{who}-{number}"), "member": member, "score": 1})
            })
            .collect();
        number += 10;
        let body = json!({"events": events});
        for repeated in 0..2 {
            let answer = client.post_until_taken("/v1/events", &body).await;
            for result in answer["results"].as_array().unwrap() {
                let expected = if repeated == 0 {
                    "applied"
                } else {
                    "duplicate"
                };
                assert_eq!(result["status"], expected, "{result}");
            }
            if repeated == 0 {
                acknowledged.fetch_add(10, Ordering::SeqCst);
            }
        }
    }
}

async fn sum(client: &Client, window: &str) -> i64 {
    let path = format!("/v1/boards/b/standings/{window}?size=1000");
    let page = client.get(&path).await.expect(200);
    let entries = page["entries"].as_array().unwrap().iter();
    entries.map(|entry| entry["score"].as_i64().unwrap()).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_move_under_load_continues_and_no_read_is_wrong() {
    const MEMBERS: i64 = 3_000;
    let world = World::with_instances(2, NOW).await;
    let definition = json!({"windows": ["day", "all", "last-2-days"], "uniques": "board"});
    define(&world, "b", &definition, 1).await;
    let id = BoardId::parse("b").unwrap();
    let history: Vec<Value> = (0..MEMBERS)
        .map(|number| json!({"board": "b", "member": format!("m{number}"), "score": 1, "id": number.to_string()}))
        .collect();
    for events in history.chunks(1_000) {
        let body = json!({"events": events});
        world.client().post_until_taken("/v1/events", &body).await;
    }
    let (acknowledged, stop) = (AtomicI64::new(0), AtomicBool::new(false));
    let senders = (0..4).map(|who| {
        let client = &world.instances[who % 2].client;
        keep_sending(client, who, &acknowledged, &stop)
    });
    let reader = async {
        while !stop.load(Ordering::Relaxed) {
            for instance in &world.instances {
                let told = acknowledged.load(Ordering::SeqCst);
                for window in ["day", "last-2-days"] {
                    let path = format!("/v1/boards/b/standings/{window}/stats");
                    let stats = instance.client.get(&path).await.expect(200);
                    assert_eq!(stats["members"], MEMBERS);
                    // Those to whom events are sent are ahead of the others, and these have a point each.
                    assert!(sum(&instance.client, window).await >= 1_000 + told);
                }
            }
        }
    };
    let mover = async {
        for (round, shards) in [4, 2, 1].into_iter().enumerate() {
            world.client().spread("b", shards).await;
            // It is broken off at some moment, as if the instance were killed.
            let broken = world.instances[1].engine.run(&Moves);
            let _ = tokio::time::timeout(Duration::from_millis(7 << (2 * round)), broken).await;
            eventually("the board has moved", async || {
                world.engine().run(&Moves).await.unwrap();
                let progress = moves::work::progress(world.engine(), &id).await.unwrap();
                progress.moving_to.is_none() && progress.shards == shards
            })
            .await;
        }
        stop.store(true, Ordering::Relaxed);
    };
    tokio::join!(mover, reader, join_all(senders));
    let told = acknowledged.load(Ordering::SeqCst);
    for window in ["day", "all", "last-2-days"] {
        let (mut total, mut page) = (0, 1);
        loop {
            let path = format!("/v1/boards/b/standings/{window}?size=1000&page={page}");
            let answer = world.client().get(&path).await.expect(200);
            let entries = answer["entries"].as_array().unwrap();
            if entries.is_empty() {
                break;
            }
            total += entries
                .iter()
                .map(|entry| entry["score"].as_i64().unwrap())
                .sum::<i64>();
            page += 1;
        }
        assert_eq!(total, MEMBERS + told, "{window}");
        let path = format!("/v1/boards/b/standings/{window}/stats");
        let stats = world.client().get(&path).await.expect(200);
        assert_eq!(stats["events"], MEMBERS + told, "{window}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_can_be_watched_but_not_reversed_half_way() {
    let world = World::start(NOW).await;
    let definition = json!({"windows": ["all"]});
    let client = world.client();
    define(&world, "stays", &definition, 1).await;
    let spread = client.get("/v1/boards/stays/shards").await.expect(200);
    assert_eq!(spread, json!({"shards": 1, "moving_to": null, "copied": 0}));
    send_to(client, &["stays"], &events(&mut Random::new(1), 50, 100)).await;
    let path = "/v1/boards/stays/shards";
    let spread = client.put(path, json!({"count": 5})).await.expect(202);
    assert_eq!(spread["moving_to"], 5);
    let spread = client.get("/v1/boards/stays/shards").await.expect(200);
    assert_eq!(spread, json!({"shards": 1, "moving_to": 5, "copied": 0}));
    let refused = client.put(path, json!({"count": 1})).await;
    refused.expect_problem(409, "board-in-use");
    let again = client.put(path, json!({"count": 5})).await;
    again.expect(202);
    // A definition moves no data.
    for shards in [1, 3] {
        let definition = json!({"windows": ["all"], "shards": shards});
        let refused = client.put("/v1/boards/stays", definition).await;
        refused.expect_problem(409, "board-in-use");
    }
    let kept = client
        .put("/v1/boards/stays", definition.clone())
        .await
        .expect(200);
    assert_eq!(kept["shards"], 5);
    for (count, status) in [(0, 422), (65, 422)] {
        let refused = client.put(path, json!({ "count": count })).await;
        refused.expect_problem(status, "validation-failed");
    }
    // Another change is possible, and holds in the new shards too.
    let other = json!({"windows": ["all"], "shards": 5, "score_max": 3, "title": "moved"});
    client.put("/v1/boards/stays", other).await.expect(200);
    world.engine().run(&Moves).await.unwrap();
    let spread = client.get("/v1/boards/stays/shards").await.expect(200);
    assert_eq!(spread, json!({"shards": 5, "moving_to": null, "copied": 0}));
    let again = client.put(path, json!({"count": 5})).await.expect(200);
    assert_eq!(again, spread);
    let board = client.get("/v1/boards/stays").await.expect(200);
    assert_eq!(
        (&board["title"], &board["shards"]),
        (&json!("moved"), &json!(5))
    );
    let event = json!({"member": "m1", "score": 4});
    let refused = client.post("/v1/boards/stays/events", event).await;
    refused.expect_problem(422, "score-out-of-range");
    client
        .get("/v1/boards/none/shards")
        .await
        .expect_problem(404, "board-not-found");
    // A board that is deleted on its way leaves nothing behind.
    define(&world, "also", &definition, 2).await;
    send_to(client, &["also"], &events(&mut Random::new(1), 50, 100)).await;
    client.spread("also", 3).await;
    for board in ["also", "stays"] {
        client
            .delete(&format!("/v1/boards/{board}"))
            .await
            .expect(204);
    }
    world.engine().run(&Moves).await.unwrap();
    world.engine().run(&Purge).await.unwrap();
    assert_eq!(world.keys_of_boards().await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_waits_until_the_board_has_moved() {
    let directory = tempfile::TempDir::new().unwrap();
    let program = Program::serve(directory.path()).await;
    let client = program.client();
    let definition = json!({"windows": ["day", "last-2-days"], "title": "stays as it is"});
    client.define("b", definition).await;
    let event = json!({"id": "x", "member": "ann", "score": 5});
    client
        .post("/v1/boards/b/events", event.clone())
        .await
        .expect(200);
    for shards in ["6", "6", "1"] {
        let said = program.run(&["reshard", "b", "--shards", shards]).await;
        assert_eq!(said, Ok(format!("b has {shards} shards\n")));
        let spread = client.get("/v1/boards/b/shards").await.expect(200);
        assert_eq!(spread["shards"].to_string(), shards);
        let again = client.post("/v1/boards/b/events", event.clone()).await;
        assert_eq!(again.expect(200)["status"], "duplicate");
        let page = client.get("/v1/boards/b/standings/last-2-days").await;
        assert_eq!(page.expect(200)["entries"][0]["score"], 5);
    }
    let board = client.get("/v1/boards/b").await.expect(200);
    assert_eq!(board["title"], "stays as it is");
    let refused = program.run(&["reshard", "none", "--shards", "2"]).await;
    assert!(refused.unwrap_err().contains("404"));
    program.stop().await;
}

#[tokio::test]
async fn a_move_can_begin_while_the_last_one_is_cleaned_up() {
    let world = World::start(NOW).await;
    define(&world, "b", &json!({"windows": ["all"]}), 1).await;
    let (engine, id) = (world.engine(), BoardId::parse("b").unwrap());
    for (waits, shards) in (1..).zip([2, 1].into_iter().cycle()) {
        // The job has not yet seen that there is nothing left to move.
        let board = engine.board(&id).await.unwrap();
        board_notes::note(&engine.store, NotedFor::Move, &board)
            .await
            .unwrap();
        let mut due = Moves.due(engine).await.unwrap();
        let step = async {
            let _: Progress = Moves.step(engine, &mut due[0]).await.unwrap();
        };
        let spread = world.client().spread("b", shards);
        let is_between = interrupt(step, waits, spread).await;
        engine.run(&Moves).await.unwrap();
        let progress = moves::work::progress(engine, &id).await.unwrap();
        assert_eq!((progress.shards, progress.moving_to), (shards, None));
        if !is_between {
            break;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_board_left_paused_is_resumed_by_a_new_instance() {
    let world = World::start(NOW).await;
    let definition = json!({"windows": ["all", "last-2-days"]});
    define(&world, "b", &definition, 3).await;
    let sent = with_ids(events(&mut Random::new(5), 50, 200), 0);
    send_to(world.client(), &["b"], &sent).await;
    world.client().spread("b", 2).await;
    // The instance that moves it dies right after it has closed the board.
    let store = &world.engine().store;
    let id = BoardId::parse("b").unwrap();
    let board = boards::load(store, &id).await.unwrap().unwrap().unwrap();
    let stamp = boards::begin_change(store, &id).await.unwrap();
    let closed = board.placed(board.placement.closing(), stamp);
    boards::define(store, &closed, Some(&board), None)
        .await
        .unwrap();

    let url = world.redis.url();
    let other = Instance::start(&url, world.clock.clone(), "").await;
    other.engine.run(&Moves).await.unwrap();
    let spread = other.client.get("/v1/boards/b/shards").await.expect(200);
    assert_eq!(
        (&spread["shards"], &spread["moving_to"]),
        (&json!(2), &Value::Null)
    );
    let expected: u64 = sent
        .iter()
        .map(|event| event["score"].as_u64().unwrap())
        .sum();
    for window in ["all", "last-2-days"] {
        let path = format!("/v1/boards/b/standings/{window}?size=1000");
        let page = world.client().get(&path).await.expect(200);
        let entries = page["entries"].as_array().unwrap().iter();
        let sum: u64 = entries.map(|entry| entry["score"].as_u64().unwrap()).sum();
        assert_eq!(sum, expected);
    }
}

/// Moves boards, and notes whose step begins (`None`), and how it ends.
#[derive(Debug, Default)]
struct Noted(Mutex<Vec<(Subject, Option<Progress>)>>);

impl Job for Noted {
    type Item = Moving;
    const KIND: JobKind = JobKind::Reshard;

    fn subject(&self, moving: &Moving) -> Subject {
        Moves.subject(moving)
    }

    async fn due(&self, engine: &Engine) -> Result<Vec<Moving>, Error> {
        Moves.due(engine).await
    }

    async fn step(&self, engine: &Engine, moving: &mut Moving) -> Result<Progress, Error> {
        let own = self.subject(moving);
        let note = |end| self.0.lock().unwrap().push((own.clone(), end));
        note(None);
        let progress = Moves.step(engine, moving).await?;
        note(Some(progress));
        Ok(progress)
    }
}

fn subject(board: &str) -> Subject {
    Subject::board(&BoardId::parse(board).unwrap())
}

/// Defines a board of so many members, and has it begin to move.
async fn begin_move(world: &World, board: &str, members: usize) {
    let definition = json!({"windows": ["all"]});
    define(world, board, &definition, 1).await;
    let event = |number: usize| json!({"board": board, "id": number.to_string(), "member": format!("m{number}"), "score": 1});
    let sent: Vec<Value> = (0..members).map(event).collect();
    for events in sent.chunks(1_000) {
        let body = json!({"events": events});
        world.client().post_until_taken("/v1/events", &body).await;
    }
    world.client().spread(board, 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn large_boards_do_not_hold_up_small_ones() {
    let world = World::start(NOW).await;
    // More large ones than are moved side by side.
    let large = ["a", "b", "c", "d", "e"];
    for board in large {
        begin_move(&world, board, 3_000).await;
    }
    begin_move(&world, "small", 10).await;
    let moves = Noted::default();
    world.engine().run(&moves).await.unwrap();
    let steps = moves.0.into_inner().unwrap();
    for board in large.into_iter().chain(["small"]) {
        let own = subject(board);
        let begin = (own.clone(), None);
        let turns = steps.iter().filter(|step| **step == begin).count();
        assert!(
            turns > if board == "small" { 1 } else { 10 },
            "{board}: {steps:?}"
        );
        // Between two of its steps each of the others begins one, or one more where four are under way.
        let ended = (own, Some(Progress::More));
        for waiting in steps.split(|step| *step == ended).skip(1) {
            let before = waiting.iter().take_while(|step| **step != begin);
            let others = before.filter(|(_, end)| end.is_none()).count();
            let is_last = !waiting.contains(&begin);
            assert!(is_last || others <= large.len() + 4, "{board}: {steps:?}");
        }
        if board != "small" {
            assert_eq!(members_of(&world, board).await, 3_000);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_instance_continues_the_move_of_one_that_died() {
    let world = World::with_instances(2, NOW).await;
    for board in ["whole", "broken"] {
        begin_move(&world, board, 9_000).await;
    }
    let first = &world.engine();
    let steps = async |engine: &Engine, board: &str, count: usize| {
        let mut due = Moves.due(engine).await.unwrap().into_iter();
        let mut moving = due
            .find(|moving| Moves.subject(moving) == subject(board))
            .unwrap();
        for step in 1..=count {
            if Moves.step(engine, &mut moving).await.unwrap() == Progress::Done {
                return step;
            }
        }
        // It notes once a second how far it has come, at the beginning of a step.
        tokio::time::sleep(Duration::from_millis(1_100)).await;
        Moves.step(engine, &mut moving).await.unwrap();
        count + 1
    };
    let whole = steps(first, "whole", usize::MAX).await;
    let broken = steps(first, "broken", whole / 2).await;
    let free = ["HSET", "st:{broken}", "move:until", "0"].map(str::as_bytes);
    world.redis.run(&free).await;
    let rest = steps(&world.instances[1].engine, "broken", usize::MAX).await;
    // A scan of the same members may have some parts more or less.
    assert!(
        whole > 20 && broken + rest < whole + 6,
        "{whole} {broken} {rest}"
    );
    for board in ["whole", "broken"] {
        assert_eq!(members_of(&world, board).await, 9_000);
    }
}

async fn members_of(world: &World, board: &str) -> u64 {
    let path = format!("/v1/boards/{board}/standings/all/stats");
    let stats = world.client().get(&path).await.expect(200);
    let path = format!("/v1/boards/{board}/shards");
    let spread = world.client().get(&path).await.expect(200);
    assert_eq!(
        (&spread["shards"], &spread["moving_to"]),
        (&json!(2), &Value::Null)
    );
    stats["members"].as_u64().unwrap()
}
