//! A backup that is older than erasures is restored: `standings erasures` erases the members again, and nothing else changes.

use std::path::Path;
use std::process::Stdio;

use futures::future::join_all;
use serde_json::json;
use standings::check::{self, Repair};
use standings::domain::ids::{BoardId, MemberId};
use standings::moderation::erasures::file::ErasureFile;
use standings::moderation::erasures::work::{self, Applied, Remark};
use tempfile::TempDir;

use crate::harness::jobs::{ClosePeriods, Tasks};
use crate::harness::program::{Program, without_settings};
use crate::harness::redis::eventually;
use crate::harness::servers::RedisServers;
use crate::harness::{Client, Instance, RedisServer, World, clock_at, interrupt};

const NOW: &str = "2026-11-21T12:00:00Z";
const LATER: &str = "2026-11-21T13:00:00Z";
const EVENTS: &str = "/v1/boards/b/events";

/// The data of all servers as it is now.
fn copy(world: &World) -> Vec<TempDir> {
    let nodes = world.redis.nodes.iter();
    nodes.map(RedisServer::copy_data).collect()
}

/// Has all servers go back to their copies, and the instances find that out as they do by themselves.
async fn restore(world: &World, copies: &[TempDir]) {
    let nodes = world.redis.nodes.iter().zip(copies);
    join_all(nodes.map(|(redis, copy)| redis.go_back(Some(copy)))).await;
    world.redis.wait_until_ready().await;
    let engine = world.engine();
    eventually("redis is there again", async || {
        engine.store.check().await.is_ok() && engine.refresh_boards().await.is_ok()
    })
    .await;
}

/// What an export writes, read again.
async fn export(world: &World) -> ErasureFile {
    let mut text = Vec::new();
    let file = work::export(world.engine(), None).await.unwrap();
    file.write(&mut text).unwrap();
    ErasureFile::read(&*text).unwrap()
}

async fn apply(world: &World, file: &ErasureFile) -> Applied {
    work::apply(world.engine(), file, false).await.unwrap()
}

async fn is_sound(world: &World) -> bool {
    let report = check::run(world.engine(), None, Repair::None).await;
    report.unwrap().is_sound()
}

fn id(text: &str) -> BoardId {
    BoardId::parse(text).unwrap()
}

async fn send(client: &Client, board: &str, member: &str, at: &str) -> u16 {
    let event = json!({"member": member, "score": 5, "at": at});
    let path = format!("/v1/boards/{board}/events");
    client.post(&path, event).await.status.as_u16()
}

/// The members of a page.
async fn members(client: &Client, board: &str, window: &str) -> Vec<String> {
    let path = format!("/v1/boards/{board}/standings/{window}");
    let page = client.get(&path).await.expect(200);
    let entries = page["entries"].as_array().unwrap().iter();
    let mut members: Vec<String> = entries
        .map(|entry| entry["member"].as_str().unwrap_or("nobody").to_owned())
        .collect();
    members.sort_unstable();
    members
}

async fn erase(client: &Client, board: &str, member: &str) {
    let path = format!("/v1/boards/{board}/members/{member}");
    client.delete(&path).await.expect(204);
}

/// Leaves members in all kinds of data that name them.
async fn play(client: &Client) {
    for member in ["gone-played", "gone-profile", "stays"] {
        assert_eq!(send(client, "b", member, NOW).await, 200);
    }
    let scores = json!({"scores": {"gone-initial": 3}});
    client
        .patch("/v1/boards/b/initial-scores", scores)
        .await
        .expect(200);
    let hide = json!({"reason": "cheating"});
    client
        .put("/v1/boards/b/hidden/gone-hidden", hide)
        .await
        .expect(200);
    let queued = json!({"member": "gone-queued", "score": 1});
    client.queueing().post(EVENTS, queued).await.expect(202);
    let order =
        json!({"action": "hide", "member": "gone-ordered", "reason": "cheating", "boards": "*"});
    client.post("/v1/moderation", order).await.expect(202);
    for member in ["gone-profile", "stays"] {
        let profile = json!({"name": "Somebody"});
        let path = format!("/v1/members/{member}/profile");
        let put = client.put(&path, profile).await;
        assert!(put.status.is_success(), "{}", put.text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn members_erased_after_a_backup_are_erased_again() {
    let one = json!({"windows": ["day", "last-2-days"], "initial": ["day"], "uniques": "member"});
    let kept = json!({"windows": ["day", "all"], "initial": ["all"], "history": "30d", "shards": 4, "ties": "member"});
    for definition in [one, kept] {
        let world = World::start(NOW).await;
        let client = world.client();
        client.define("b", definition).await;
        play(client).await;
        world.engine().run(&Tasks).await.unwrap();
        members(client, "b", "day").await;
        let copies = copy(&world);

        world.set_time(LATER);
        assert_eq!(send(client, "b", "gone-new", NOW).await, 200);
        for member in [
            "gone-played",
            "gone-initial",
            "gone-hidden",
            "gone-queued",
            "gone-new",
        ] {
            erase(client, "b", member).await;
        }
        for member in ["gone-profile", "gone-ordered"] {
            client
                .delete(&format!("/v1/members/{member}"))
                .await
                .expect(202);
        }
        world.engine().run(&Tasks).await.unwrap();
        let shown = members(client, "b", "day").await;
        assert_eq!(shown, ["stays"]);
        let file = export(&world).await;

        restore(&world, &copies).await;
        assert!(members(client, "b", "day").await.len() > 2, "they are back");
        let trial = work::apply(world.engine(), &file, true).await.unwrap();
        assert_eq!(
            (trial.erased.clone(), trial.everywhere),
            (vec![(id("b"), 6)], 2)
        );
        assert!(
            members(client, "b", "day").await.len() > 2,
            "a trial changes nothing"
        );
        let applied = apply(&world, &file).await;
        assert_eq!(applied, trial);
        assert!(applied.remarks.is_empty(), "{applied:?}");
        assert_eq!(members(client, "b", "day").await, ["stays"]);
        assert!(is_sound(&world).await);
        // The audit log forgets only those that were erased on all boards.
        let mut traces = world.keys_with("st:*", "gone-").await;
        traces.retain(|key| !key.starts_with("st:{boards}:audit"));
        assert!(traces.is_empty(), "{traces:?}");
        for member in ["gone-profile", "gone-ordered"] {
            let traces = world.keys_with("st:*", member).await;
            assert!(traces.is_empty(), "{member}: {traces:?}");
        }
        client.get("/v1/members/stays/profile").await.expect(200);

        // Also of the member that the backup does not know.
        for member in ["gone-played", "gone-new", "gone-profile"] {
            assert_eq!(send(client, "b", member, NOW).await, 409, "{member}");
        }
        // An erasure counts from its own time, not from that of the restore.
        world.set_time("2026-11-21T14:00:00Z");
        for member in ["gone-played", "gone-new", "gone-hidden"] {
            assert_eq!(
                send(client, "b", member, "2026-11-21T13:30:00Z").await,
                200,
                "{member}"
            );
        }
        // The hide outlives the erasure.
        let back = ["gone-new", "gone-played", "stays"];
        assert_eq!(members(client, "b", "day").await, back);
        let again = apply(&world, &file).await;
        assert_eq!((again.members(), again.everywhere), (0, 0));
        assert_eq!(members(client, "b", "day").await, back);
        assert_eq!(export(&world).await.everywhere, file.everywhere);
        assert!(is_sound(&world).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn members_that_had_returned_before_the_backup_stay() {
    let world = World::start(NOW).await;
    let client = world.client();
    client.define("b", json!({"windows": ["day"]})).await;
    for member in ["back", "twice"] {
        assert_eq!(send(client, "b", member, NOW).await, 200);
    }
    client.delete("/v1/members/back").await.expect(202);
    erase(client, "b", "twice").await;
    let first = export(&world).await;
    world.set_time(LATER);
    for member in ["back", "twice"] {
        assert_eq!(send(client, "b", member, LATER).await, 200);
    }
    let profile = json!({"name": "Back"});
    client.put("/v1/members/back/profile", profile).await;
    let copies = copy(&world);
    erase(client, "b", "twice").await;
    let second = export(&world).await;

    restore(&world, &copies).await;
    assert_eq!(apply(&world, &first).await.members(), 0);
    assert_eq!(members(client, "b", "day").await, ["back", "twice"]);
    // Files can be applied one after the other.
    assert_eq!(apply(&world, &second).await.erased, [(id("b"), 1)]);
    assert_eq!(apply(&world, &first).await.members(), 0);
    assert_eq!(members(client, "b", "day").await, ["back"]);
    client.get("/v1/members/back/profile").await.expect(200);
}

/// What an interrupted application has left undone in one shard, the next one does, although the other shards know the erasure.
#[tokio::test(flavor = "multi_thread")]
async fn a_shard_that_an_interrupted_application_did_not_reach_is_finished() {
    let world = World::start(NOW).await;
    let client = world.client();
    let definition = json!({"windows": ["all"], "shards": 4});
    client.define("b", definition).await;
    assert_eq!(send(client, "b", "bob", NOW).await, 200);
    let copies = copy(&world);
    assert_eq!(send(client, "b", "ann", NOW).await, 200);
    erase(client, "b", "ann").await;
    let file = export(&world).await;
    restore(&world, &copies).await;
    assert!(apply(&world, &file).await.erased.is_empty());
    assert_eq!(send(client, "b", "ann", NOW).await, 409);

    let live = world.engine().live_board(&id("b")).await.unwrap();
    let home = live.board.shard_of(&MemberId::parse("ann").unwrap());
    let shard = &live.shards[home].shard;
    let lost = format!("st:{{{}}}:{}:erased", shard.tag(), shard.generation);
    for node in &world.redis.nodes {
        // Of several, the one that has its slot carries it out.
        node.run(&[b"DEL", lost.as_bytes()]).await;
    }
    assert_eq!(send(client, "b", "ann", NOW).await, 200);
    assert_eq!(apply(&world, &file).await.erased, [(id("b"), 1)]);
    assert_eq!(send(client, "b", "ann", NOW).await, 409);
    assert_eq!(members(client, "b", "all").await, ["bob"]);
}

#[tokio::test]
async fn a_member_that_returns_during_the_application_can_be_hidden() {
    let world = World::start(NOW).await;
    let client = world.client();
    client.define("b", json!({"windows": ["day"]})).await;
    for member in ["ann", "bob"] {
        assert_eq!(send(client, "b", member, NOW).await, 200);
    }
    let copies = copy(&world);
    for member in ["ann", "late"] {
        erase(client, "b", member).await;
    }
    let file = export(&world).await;
    world.set_time(LATER);
    for waits in (1..).step_by(4) {
        restore(&world, &copies).await;
        let application = async {
            apply(&world, &file).await;
        };
        let is_interrupted = interrupt(application, waits, async {
            send(client, "b", "late", LATER).await;
        })
        .await;
        let hidden = "/v1/boards/b/hidden/late";
        let hide = json!({"reason": "cheating"});
        client.put(hidden, hide).await.expect(200);
        assert_eq!(
            members(client, "b", "day").await,
            ["bob"],
            "after {waits} waits"
        );
        if !is_interrupted {
            break;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn boards_that_were_deleted_or_created_since_are_named() {
    let world = World::start(NOW).await;
    let client = world.client();
    let definition = json!({"windows": ["day"]});
    for board in ["deleted", "renewed", "whole"] {
        client.define(board, definition.clone()).await;
        for member in ["ann", "bob"] {
            assert_eq!(send(client, board, member, NOW).await, 200);
        }
    }
    let copies = copy(&world);
    world.set_time(LATER);
    for board in ["deleted", "renewed"] {
        client
            .delete(&format!("/v1/boards/{board}"))
            .await
            .expect(204);
    }
    for board in ["renewed", "created"] {
        client.define(board, definition.clone()).await;
        assert_eq!(send(client, board, "bob", LATER).await, 200);
        erase(client, board, "bob").await;
    }
    client.delete("/v1/members/ann").await.expect(202);
    world.engine().run(&Tasks).await.unwrap();
    let file = export(&world).await;

    // A board that was created after an erasure of a board of its name has nothing to do with it.
    client.delete("/v1/boards/created").await.expect(204);
    client.define("created", definition.clone()).await;
    assert_eq!(send(client, "created", "bob", LATER).await, 200);
    let applied = apply(&world, &file).await;
    assert_eq!((applied.members(), &applied.remarks[..]), (0, &[][..]));
    assert_eq!(members(client, "created", "day").await, ["bob"]);

    restore(&world, &copies).await;
    let applied = apply(&world, &file).await;
    let remarks = [
        Remark::Missing(id("created")),
        Remark::Deleted(id("deleted")),
        Remark::Former(id("renewed")),
    ];
    assert_eq!(applied.remarks, remarks);
    assert!(!applied.is_complete());
    // Whoever was erased on all boards is erased there, too.
    let erased = [("deleted", 1), ("renewed", 2), ("whole", 1)];
    assert_eq!(
        applied.erased,
        erased.map(|(board, count)| (id(board), count))
    );
    assert_eq!(members(client, "whole", "day").await, ["bob"]);
    assert_eq!(members(client, "deleted", "day").await, ["bob"]);
    for board in ["deleted", "renewed"] {
        client
            .delete(&format!("/v1/boards/{board}"))
            .await
            .expect(204);
    }
    let applied = apply(&world, &file).await;
    assert_eq!((applied.members(), applied.is_complete()), (0, true));
    assert!(is_sound(&world).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_winner_is_erased_again_and_leaves_a_line() {
    for has_expired in [false, true] {
        let world = World::start(NOW).await;
        let client = world.client();
        let definition = json!({"windows": ["day"], "finalize": "0s"});
        client.define("b", definition).await;
        for (member, score) in [("ann", 7), ("bob", 5)] {
            let event = json!({"member": member, "score": score, "at": NOW});
            client.post(EVENTS, event).await.expect(200);
        }
        world.set_time("2026-11-22T00:00:01Z");
        world.engine().run(&ClosePeriods).await.unwrap();
        let result = "/v1/boards/b/standings/day/periods/2026-11-21";
        let winner = client.get(result).await.expect(200)["winner"].take();
        assert_eq!(winner["member"], "ann");
        if has_expired {
            for key in world.redis.keys("st:{b}:*:s:day:*").await {
                world.redis.run(&[b"UNLINK", key.as_bytes()]).await;
            }
        }
        let copies = copy(&world);
        erase(client, "b", "ann").await;
        let file = export(&world).await;
        restore(&world, &copies).await;
        assert_eq!(apply(&world, &file).await.members(), 1);
        let winner = client.get(result).await.expect(200)["winner"].take();
        assert_eq!(
            (&winner["member"], &winner["score"]),
            (&json!(null), &json!(7))
        );
        assert!(world.keys_with("st:*", "ann").await.is_empty());
        if !has_expired {
            let shown = members(client, "b", "day?key=2026-11-21").await;
            assert_eq!(shown, ["bob", "nobody"]);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn players_of_a_league_are_erased_again() {
    let world = World::start("2026-11-18T12:00:00Z").await;
    let client = world.client();
    let definition = json!({"windows": ["week"], "update": "sum", "score_min": 0, "finalize": "0s",
        "league": {"cohort_size": 20, "tiers": [
            {"name": "bronze", "promote": 0.3, "demote": 0},
            {"name": "gold", "promote": 0, "demote": 0.3}]}});
    client.define("b", definition).await;
    for member in ["gone-one", "gone-two", "stays"] {
        let event = json!({"member": member, "score": 3});
        client.post(EVENTS, event).await.expect(200);
    }
    let copies = copy(&world);
    world.set_time("2026-11-18T13:00:00Z");
    for member in ["gone-one", "gone-two"] {
        erase(client, "b", member).await;
    }
    let file = export(&world).await;
    restore(&world, &copies).await;
    assert_eq!(apply(&world, &file).await.erased, [(id("b"), 2)]);
    assert!(world.keys_with("st:*", "gone-").await.is_empty());
    assert!(is_sound(&world).await);
    let event = json!({"member": "gone-one", "score": 3, "at": "2026-11-18T12:30:00Z"});
    client
        .post(EVENTS, event)
        .await
        .expect_problem(409, "member-erased");
    assert_eq!(apply(&world, &file).await.members(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_of_different_instants_are_exact_once_the_events_are_sent_again() {
    let (redis, clock) = (RedisServers::start_cluster().await, clock_at(NOW));
    let instance = Instance::start(&redis.url(), clock.clone(), "").await;
    let world = World {
        instances: vec![instance],
        clock,
        redis,
    };
    let client = world.client();
    let definition = json!({"windows": ["day"], "update": "sum", "shards": 8});
    client.define("b", definition).await;
    // One event of each member.
    let send = async |round: usize, members: &[usize]| {
        for member in members {
            let event = json!({"id": format!("{round}-{member}"), "member": format!("m{member}"), "score": 1, "at": NOW});
            client.post_until_taken(EVENTS, &event).await;
        }
    };
    let all: Vec<usize> = (0..20).collect();
    let mut copies = Vec::new();
    for (round, node) in world.redis.nodes.iter().enumerate() {
        send(round, &all).await;
        copies.push(node.copy_data());
    }
    send(copies.len(), &all).await;
    erase(client, "b", "m19").await;
    let page = "/v1/boards/b/standings/day?size=100";
    let before = client.get(page).await.expect(200)["entries"].take();
    let file = export(&world).await;

    restore(&world, &copies).await;
    assert_eq!(apply(&world, &file).await.erased, [(id("b"), 1)]);
    for round in 0..=copies.len() {
        send(round, &all[..19]).await;
    }
    assert_eq!(client.get(page).await.expect(200)["entries"], before);
    assert!(is_sound(&world).await);
}

/// What a call of the command prints on both outputs, and its exit status.
async fn run(args: &[&str]) -> (i32, String, String) {
    let mut command = without_settings(&[]);
    command.arg("erasures").args(args).stdin(Stdio::null());
    let output = command.output().await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let status = output.status.code().unwrap();
    (status, text(output.stdout), text(output.stderr))
}

fn copy_folder(from: &Path, to: &Path) {
    let copied = std::process::Command::new("cp")
        .arg("-a")
        .args([from, to])
        .status();
    assert!(copied.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_goes_as_the_page_says() {
    let folder = tempfile::tempdir().unwrap();
    let [data, backup, file] = ["data", "backup", "erasures"].map(|name| folder.path().join(name));
    std::fs::create_dir(&data).unwrap();
    let of_data = ["--data-dir", data.to_str().unwrap()];
    let program = Program::serve(&data).await;
    let client = program.client();
    client.define("b", json!({"windows": ["all"]})).await;
    for member in ["ann", "bob"] {
        let event = json!({"member": member, "score": 5});
        client.post(EVENTS, event).await.expect(200);
    }
    program.stop().await;
    copy_folder(&data, &backup);

    let program = Program::serve(&data).await;
    erase(&program.client(), "b", "ann").await;
    let export = [&["export"][..], &of_data].concat();
    let (status, exported, _) = run(&export).await;
    assert_eq!((status, exported.lines().count()), (0, 4), "{exported}");
    assert!(!exported.contains("ann"), "{exported}");
    let (status, of_board, _) = run(&[&export[..], &["--board", "b"]].concat()).await;
    assert_eq!((status, of_board.lines().count()), (0, 4), "{of_board}");
    let (status, _, error) = run(&[&export[..], &["--board", "other"]].concat()).await;
    assert_eq!(
        (status, error.as_str()),
        (2, "standings: there is no board other\n")
    );
    std::fs::write(&file, &exported).unwrap();
    program.stop().await;

    std::fs::remove_dir_all(&data).unwrap();
    copy_folder(&backup, &data);
    let apply = [&["apply", file.to_str().unwrap()][..], &of_data].concat();
    let (status, out, _) = run(&[&apply[..], &["--dry-run"]].concat()).await;
    let to_be = "board b: 1 members to be erased\n1 boards, 1 members to be erased\n";
    assert_eq!((status, out.as_str()), (1, to_be));
    let (status, out, _) = run(&apply).await;
    let done = "board b: 1 members erased again\n1 boards, 1 members erased again\n";
    assert_eq!((status, out.as_str()), (0, done));
    let check = Program::run_alone(&[&["check"][..], &of_data].concat()).await;
    assert_eq!(check.0, 0, "{}", check.1);
    let program = Program::serve(&data).await;
    assert_eq!(members(&program.client(), "b", "all").await, ["bob"]);
    // Next to a running service.
    let (status, out, _) = run(&apply).await;
    assert_eq!(
        (status, out.as_str()),
        (0, "1 boards, 0 members erased again\n")
    );
    program.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_not_whole_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("erasures");
    let path = file.to_str().unwrap();
    let missing = folder.path().join("data");
    let apply = ["apply", path, "--data-dir", missing.to_str().unwrap()];
    let begin = r#"{"begin":{"format":"standings-erasures-1","keys":["k"],"stamp":9}}"#;
    let newer = begin.replace("-1", "-2");
    let texts = [
        (None, "No such file"),
        (
            Some("member,at\nann,now\n"),
            "this is not a file of `standings erasures export`",
        ),
        (
            Some(begin),
            "its last line is missing: it was cut off. Export again",
        ),
        (Some(&newer), "use the release that wrote it"),
    ];
    for (text, expected) in texts {
        if let Some(text) = text {
            std::fs::write(&file, text).unwrap();
        }
        let (status, out, error) = run(&apply).await;
        assert_eq!((status, out.as_str()), (2, ""));
        assert!(
            error.starts_with(&format!("standings: {path}: ")),
            "{error}"
        );
        assert!(
            error.contains(expected) && error.lines().count() == 1,
            "{error}"
        );
    }
    assert!(!missing.exists());
    let (status, _, error) = run(&["apply"]).await;
    assert!(status != 0 && error.contains("FILE"), "{error}");
}

/// Without a key of its own a database takes that of the file; with another one, nothing is lost of what can be done.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_has_lost_its_key_takes_that_of_the_file() {
    let world = World::start(NOW).await;
    let client = world.client();
    client.define("b", json!({"windows": ["day"]})).await;
    for member in ["ann", "bob"] {
        assert_eq!(send(client, "b", member, NOW).await, 200);
    }
    let copies = copy(&world);
    for member in ["ann", "eve"] {
        erase(client, "b", member).await;
    }
    let file = export(&world).await;
    let key: [&[u8]; 2] = [b"GET", b"st:{boards}:erasure-key"];
    let known = world.redis.run(&key).await.text();
    for lost in [None, Some("another")] {
        restore(&world, &copies).await;
        world.redis.run(&[b"DEL", key[1]]).await;
        if let Some(other) = lost {
            world.redis.run(&[b"SET", key[1], other.as_bytes()]).await;
        }
        let applied = apply(&world, &file).await;
        assert_eq!(applied.members(), 1);
        assert_eq!(members(client, "b", "day").await, ["bob"]);
        let has_file_key = world.redis.run(&key).await.text() == known;
        assert_eq!(has_file_key, lost.is_none());
        let unstored = Remark::Unstored(id("b"), 1);
        let expected: Vec<Remark> = lost.map(|_| unstored).into_iter().collect();
        assert_eq!(applied.remarks, expected);
    }
}
