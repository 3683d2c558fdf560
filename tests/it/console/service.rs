//! The service: its instances, what waits in queues, the memory by board, and the jobs for all boards.

use serde_json::{Value, json};
use standings::core::jobs::JobKind;
use standings::worker;

use super::browser::Browser;
use super::{KEYS, NOW, post, world};
use crate::harness::jobs::{ApplyQueues, Tasks};
use crate::harness::{Instance, World};

async fn tell(instance: &Instance) {
    let engine = &instance.engine;
    worker::run(JobKind::Instances, engine).await.unwrap();
}

/// What an instance warns of, wherever it does.
async fn warnings(instance: &Instance, browser: &mut Browser) -> Vec<String> {
    let measured = worker::run(JobKind::QueueSizes, &instance.engine);
    measured.await.unwrap();
    let admin = instance.client.with_key("an-admin");
    let listed = async |path| {
        let mut answer = admin.get(path).await.expect(200);
        let warnings = answer["warnings"].take();
        serde_json::from_value::<Vec<String>>(warnings).unwrap()
    };
    let warnings = listed("/readyz").await;
    assert_eq!(listed("/v1/instances").await, warnings);
    let text = browser.get("/console/service").await.expect(200);
    for warning in &warnings {
        // The page begins it with a capital.
        let (shown, _) = warning[1..].split_once('`').unwrap();
        assert!(text.contains(shown), "{warning}: {text}");
    }
    assert_eq!(text.contains("No warnings."), warnings.is_empty());
    let queues = browser.get("/console/queues").await.expect(200);
    let is_warned = queues.contains("No running instance applies queued events, and");
    assert_eq!(is_warned, !warnings.is_empty(), "{queues}");
    warnings
}

#[tokio::test(flavor = "multi_thread")]
async fn a_warning_is_shown_if_events_wait_and_no_instance_applies_them() {
    let world = World::with_keys(1, NOW, KEYS).await;
    let (url, clock) = (world.redis.url(), world.clock.clone());
    let leaving = Instance::start_leaving_queues(&url, clock, KEYS).await;
    let admin = leaving.client.with_key("an-admin");
    let mut browser = Browser::signed_in(&leaving.client, "an-admin").await;
    let definition = json!({"windows": ["all"], "ingest": "async"});
    admin.define("b", definition).await;
    tell(&leaving).await;
    let found = warnings(&leaving, &mut browser).await;
    assert_eq!(found, [""; 0], "nothing waits");
    let event = json!({"id": "1", "member": "ann", "score": 1});
    let path = "/v1/boards/b/events";
    admin.post(path, event).await.expect(202);
    let is_warned = |warnings: &[String]| {
        let words = ["no running instance applies", "1 wait", "standings worker"];
        warnings.len() == 1 && words.iter().all(|word| warnings[0].contains(word))
    };
    let found = warnings(&leaving, &mut browser).await;
    assert!(is_warned(&found), "{found:?}");
    let listed = admin.get("/v1/instances").await.expect(200);
    let own = &listed["instances"][0];
    assert_eq!([&own["works"], &own["applies_queues"]], [true, false]);
    let part = "leaves queued events to others";
    browser.read("/console/service", &[part]).await;

    // One that applies them has come, and is not heard of any more.
    tell(&world.instances[0]).await;
    assert_eq!(warnings(&leaving, &mut browser).await, [""; 0]);
    world.set_time("2026-11-21T12:01:01Z");
    tell(&leaving).await;
    let found = warnings(&leaving, &mut browser).await;
    assert!(is_warned(&found), "{found:?}");
    world.instances[0].engine.run(&ApplyQueues).await.unwrap();
    let found = warnings(&leaving, &mut browser).await;
    assert_eq!(found, [""; 0], "nothing waits any more");
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_are_listed_until_they_are_silent() {
    let world = World::with_keys(2, NOW, KEYS).await;
    let admin = world.client().with_key("an-admin");
    let listed = async || {
        let found = admin.get("/v1/instances").await.expect(200);
        found["instances"].as_array().unwrap().clone()
    };
    assert_eq!(listed().await, [] as [Value; 0]);
    for instance in &world.instances {
        tell(instance).await;
    }
    let both = listed().await;
    assert_eq!(both.len(), 2);
    for instance in &both {
        assert_eq!(instance["version"], env!("CARGO_PKG_VERSION"));
        assert_eq!(instance["started_at"], "2026-11-21T12:00:00.000Z");
        let does = (
            &instance["serves"],
            &instance["works"],
            &instance["fault_count"],
        );
        assert_eq!(does, (&json!(true), &json!(true), &json!(0)));
    }
    let mut browser = Browser::signed_in(world.client(), "an-admin").await;
    let id = |index: usize| both[index]["id"].as_str().unwrap();
    let service = "/console/service";
    let text = browser.read(service, &[id(0), id(1)]).await;
    let host = both[0]["host"].as_str().unwrap_or(id(0));
    let queues = ["Nothing waits", "Queued events are applied by", host];
    browser.read("/console/queues", &queues).await;
    assert!(!text.contains("silent") && !text.contains("different versions"));
    world.set_time("2026-11-21T12:05:00Z");
    tell(&world.instances[0]).await;
    let text = browser.read(service, &["silent"]).await;
    assert_eq!(text.matches("silent").count(), 1, "{text}");
    world.set_time("2026-11-21T12:10:00Z");
    let left = listed().await;
    assert_eq!(left.len(), 1);
    assert_eq!(left[0]["seen_at"], "2026-11-21T12:05:00.000Z");
    // What is not listed any more is not kept either.
    tell(&world.instances[0]).await;
    let kept = world.redis.run(&[b"HLEN", b"st:{boards}:instances"]).await;
    assert_eq!(format!("{kept:?}"), "Integer(1)");
    // An instance of another release is told from these, and one that can't be read is left out.
    let other = json!({"version": "9.0.0", "host": null, "part": "working", "fault_count": 3, "more": 1,
        "started_at": "2026-11-21T12:00:00.000Z", "seen_at": "2026-11-21T12:10:00.000Z"});
    for (id, told) in [("other", other.to_string()), ("odd", "{}".to_owned())] {
        let words = ["HSET", "st:{boards}:instances", id, &told].map(str::as_bytes);
        world.redis.run(&words).await;
    }
    assert_eq!(listed().await.len(), 2);
    let parts = ["9.0.0", "different versions", "does background work"];
    browser.read(service, &parts).await;
    // Who may not configure all boards sees what anybody may.
    let mut reader = Browser::signed_in(world.client(), "a-reader").await;
    let text = reader.read(service, &["Background work that fails"]).await;
    assert!(
        !text.contains("9.0.0") && !text.contains("Memory"),
        "{text}"
    );
    reader.get("/console/service/memory").await.expect(403);
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_events_and_memory_are_shown_per_board() {
    let (world, admin) = world().await;
    let definition = json!({"windows": ["day"], "ingest": "async"});
    admin.define("slow", definition).await;
    let event = json!({"id": "1", "member": "ann", "score": 1});
    admin
        .post("/v1/boards/slow/events", event)
        .await
        .expect(202);
    let mut browser = Browser::signed_in(world.client(), "an-admin").await;
    let queue = "/console/boards/slow/queue";
    browser.read("/console/queues", &[queue]).await;
    for shards in [1, 3] {
        let board = format!("of{shards}");
        let definition = json!({"windows": ["day", "all"], "shards": shards});
        admin.define(&board, definition).await;
        let memory_at = format!("/v1/boards/{board}/memory");
        let memory = async || admin.get(&memory_at).await.expect(200);
        let empty = memory().await;
        let members: Vec<String> = (0..50).map(|number| format!("member-{number}")).collect();
        let scores: Vec<(&str, i64)> = members.iter().map(|member| (&**member, 1)).collect();
        post(&admin, &board, &scores).await;
        let filled = memory().await;
        let of = |memory: &Value, field: &str| memory[field].as_u64().unwrap();
        assert!(
            of(&filled, "bytes") > of(&empty, "bytes") + 50 * 16,
            "{filled}"
        );
        assert_eq!(of(&filled, "keys"), of(&filled, "sampled"), "{filled}");
    }
    let parts = ["of1", "of3", "slow", "votes", "KiB"];
    browser.read("/console/service/memory", &parts).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_for_all_boards_are_listed_with_their_failures() {
    let (world, admin) = world().await;
    let mut browser = Browser::signed_in(world.client(), "an-admin").await;
    let jobs = "/console/jobs";
    browser
        .read("/console/service", &[&format!("href=\"{jobs}\"")])
        .await;
    browser.read(jobs, &["Running", "Finished"]).await;
    for board in ["bad", "worse"] {
        admin.define(board, json!({"windows": ["day"]})).await;
        let key = format!("st:{{{board}}}");
        let damage = ["HSET", &key, "definition", "{}", "version", "7-9"];
        world.redis.run(&damage.map(str::as_bytes)).await;
    }
    let order = async |member: &str| {
        let order = json!({"action": "hide", "member": member, "reason": "x", "boards": "*"});
        admin.post("/v1/moderation", order).await.expect(202);
    };
    for (count, now) in [(2, "2026-11-21T12:05:00Z"), (25, "2026-11-21T12:10:00Z")] {
        for number in 0..count {
            order(&format!("m{number}")).await;
        }
        world.set_time(now);
        world.engine().run(&Tasks).await.unwrap();
    }
    order("late").await;
    let parts = [
        "<b>bad</b>",
        "and 1 more",
        "3 of 3",
        "0 of 3",
        "/console/jobs/28",
    ];
    let page = browser.read(jobs, &parts).await;
    assert!(!page.contains("First jobs"), "{page}");
    // The one that ended last is named first, so the first two are left.
    let next = page.split("rel=\"next\"").next().unwrap();
    let next = next.rsplit("href=\"").next().unwrap();
    let next = next.split('"').next().unwrap().replace("&#38;", "&");
    let parts = ["/console/jobs/1\"", "/console/jobs/2\"", "First jobs"];
    let page = browser.read(&next, &parts).await;
    assert!(!page.contains("/console/jobs/3\""), "{page}");
    let parts = [
        "Where it failed",
        "worse",
        "/problems/internal",
        "Hide m0 on all boards",
        "href=\"/console/member?member=m0\"",
        "Ended",
    ];
    let page = browser.read("/console/jobs/1", &parts).await;
    assert!(!page.contains("data-reload"), "{page}");
    let parts = ["data-reload", "Hide late on all boards", "Running"];
    browser.read("/console/jobs/28", &parts).await;
    // An erased member is not named any more.
    admin.delete("/v1/members/m0").await.expect(202);
    let page = browser.read("/console/jobs/1", &["Hide a member"]).await;
    assert!(!page.contains("m0"), "{page}");
    let mut reader = Browser::signed_in(world.client(), "a-reader").await;
    reader.get(jobs).await.expect(403);
    let service = reader.get("/console/service").await.expect(200);
    assert!(!service.contains(jobs), "{service}");
}
