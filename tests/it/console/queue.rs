//! The queue of a board: what waits, dead letters, and what became of an event.

use serde_json::json;

use super::browser::Browser;
use super::{SCRIPT, world};
use crate::harness::jobs::ApplyQueues;
use crate::queue::dead_letters::{add_event, event};

#[tokio::test(flavor = "multi_thread")]
async fn waiting_events_are_shown_and_dead_letters_are_replayed_and_deleted() {
    let (world, admin) = world().await;
    let definition = json!({"windows": ["day"], "ingest": "async"});
    admin.define("b", definition).await;
    let mut browser = Browser::signed_in(world.client(), "an-admin").await;
    let page = "/console/boards/b/queue";
    browser
        .read(page, &["figure\">0</dd>", "None. A queued event that"])
        .await;
    let none = json!({"board": "b", "events": 0, "bytes": 0, "waiting_since": null});
    let queue = async || admin.get("/v1/boards/b/queue").await.expect(200);
    assert_eq!(queue().await, none);
    let queues = async |query: &str| admin.get(&format!("/v1/queues{query}")).await.expect(200);
    assert_eq!(queues("").await, json!({"queues": [], "next": null}));
    for id in ["e1", "e2"] {
        let sent = json!({"id": id, "member": "ann", "score": 1});
        admin.post("/v1/boards/b/events", sent).await.expect(202);
    }
    let waiting = queue().await;
    assert_eq!(waiting["events"], 2);
    assert!(waiting["bytes"].as_u64() > Some(0), "{waiting}");
    assert!(waiting["waiting_since"].is_string(), "{waiting}");
    assert_eq!(queues("").await, json!({"queues": [waiting], "next": null}));
    assert_eq!(queues("?after=b").await["queues"], json!([]));
    browser
        .read(page, &["figure\">2</dd>", "The oldest waits for"])
        .await;

    for id in ["d1", "d2", SCRIPT] {
        add_event(&world, &event(id, "2026-11-21T11:00:00Z")).await;
    }
    let listed = async || admin.get("/v1/boards/b/dead-letters").await.expect(200);
    let letters = listed().await["dead_letters"].clone();
    let id = |index: usize| letters[index]["id"].as_str().unwrap().to_owned();
    let escaped = "&#60;script&#62;alert(&#39;x&#39;)";
    browser
        .read(
            page,
            &["d1", "d2", "Stored data of the board is damaged", escaped],
        )
        .await;
    let replay = "/console/boards/b/replay";
    let (first, second) = (id(0), id(1));
    let replayed = browser.carry_out(replay, &[("letter", &first)]).await;
    assert!(replayed.contains("figure\">3</dd>"), "{replayed}");
    let gone = browser.submit(replay, &[("letter", &first)]).await;
    assert!(gone.expect(404).contains("dead-letter-not-found"));
    let fields = [("letter", second.as_str()), ("name", "d2")];
    let discarded = browser.confirm("/console/boards/b/discard", &fields, "d2");
    let to = discarded.await.leads_to().to_owned();
    browser.read(&to, &["Its event never counts"]).await;
    let left = listed().await["dead_letters"].clone();
    assert_eq!(left.as_array().unwrap().len(), 1, "{left}");
    assert_eq!(left[0]["event"]["id"], SCRIPT);
}

#[tokio::test(flavor = "multi_thread")]
async fn listed_dead_letters_are_replayed_or_deleted_at_once() {
    let (world, admin) = world().await;
    let definition = json!({"windows": ["day"], "ingest": "async"});
    admin.define("b", definition).await;
    let mut browser = Browser::signed_in(world.client(), "an-admin").await;
    let listed = async || {
        let found = admin.get("/v1/boards/b/dead-letters").await.expect(200);
        let letters = found["dead_letters"].as_array().unwrap();
        let ids = letters
            .iter()
            .map(|letter| letter["id"].as_str().unwrap().to_owned());
        ids.collect::<Vec<_>>()
    };
    let add = async || {
        for id in ["d1", "d2"] {
            add_event(&world, &event(id, "2026-11-21T11:00:00Z")).await;
        }
        // It was queued more than a day ago.
        add_event(&world, &event("old", "2026-11-20T11:00:00Z")).await;
    };
    add().await;
    let page = browser
        .read(
            "/console/boards/b/queue",
            &["Replay all listed", "Delete all listed"],
        )
        .await;
    let ids = listed().await;
    // Each is in its own form for each of both, and in those for all; the old one is in no form that replays.
    let counts = ids
        .iter()
        .map(|id| page.matches(&format!("value=\"{id}\"")).count());
    assert_eq!(counts.collect::<Vec<_>>(), [4, 4, 2], "{page}");
    let letters: Vec<_> = ids.iter().map(|id| ("letter", id.as_str())).collect();
    let replayed = browser
        .carry_out("/console/boards/b/replay", &letters)
        .await;
    let done = "Events that wait in the queue again: 2.";
    assert!(replayed.contains(done), "{replayed}");
    assert_eq!(listed().await, ids[2..]);
    let refused = browser
        .submit("/console/boards/b/replay", &letters[2..])
        .await;
    assert!(refused.expect(409).contains("/problems/not-replayable"));

    let fields = [("letter", ids[2].as_str()), ("name", "b")];
    let wrong = [&fields[..], &[("confirm", "old")]].concat();
    let discard = "/console/boards/b/discard";
    browser
        .refuse(discard, &wrong, &["Confirm: type b here"])
        .await;
    let typed = [&fields[..], &[("confirm", "b")]].concat();
    let deleted = browser.carry_out(discard, &typed).await;
    assert!(deleted.contains("Dead letters deleted: 1."), "{deleted}");
    assert_eq!(listed().await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_outcome_of_an_event_is_shown_by_its_id() {
    let (world, admin) = world().await;
    let definition = json!({"windows": ["day"], "ingest": "async"});
    admin.define("b", definition).await;
    let mut writer = Browser::signed_in(world.client(), "a-writer").await;
    let votes = "/console/boards/votes/events";
    writer.read("/console/boards/votes", &[votes]).await;
    let page = writer.read(votes, &["Id of an event"]).await;
    assert!(!page.contains("No event of this id"), "{page}");
    let counts = ["It counts", "2026-11-21", ">3<"];
    writer
        .read(&format!("{votes}?id=ann&member=ann"), &counts)
        .await;
    let unknown = ["No event of this id is known", "value=\"other\""];
    writer.read(&format!("{votes}?id=other"), &unknown).await;
    let of_queue = "/console/boards/b/events";
    let sent = json!({"id": "e1", "member": SCRIPT, "score": 1});
    admin.post("/v1/boards/b/events", sent).await.expect(202);
    let waits = ["It waits in the queue", "&#60;script&#62;"];
    writer.read(&format!("{of_queue}?id=e1"), &waits).await;
    add_event(&world, &event("d1", "2026-11-21T11:00:00Z")).await;
    let dead = ["It could not be applied", "failed", "dead letter"];
    let page = writer.read(&format!("{of_queue}?id=d1"), &dead).await;
    assert!(!page.contains("replay or delete it"), "{page}");
    let mut browser = Browser::signed_in(world.client(), "an-admin").await;
    browser
        .read(&format!("{of_queue}?id=d1"), &["replay or delete it"])
        .await;
    // One that is refused when its turn comes.
    let closed = json!({"closes_at": "2026-11-21T11:00:00Z"});
    admin.patch("/v1/boards/b", closed).await.expect(200);
    world.engine().run(&ApplyQueues).await.unwrap();
    let refused = ["It was refused", "/problems/board-closed"];
    browser.read(&format!("{of_queue}?id=e1"), &refused).await;
    // One is sent by hand; whoever sends the form again counts nothing twice.
    let fields = [
        ("id", "by-hand"),
        ("member", "ann"),
        ("score", "-2"),
        ("at", "2026-11-20T10:00"),
    ];
    for _ in 0..2 {
        let sent = writer.carry_out(votes, &fields).await;
        assert!(
            sent.contains("It counts") && sent.contains("2026-11-20"),
            "{sent}"
        );
    }
    let all = admin
        .get("/v1/boards/votes/standings/all/members/ann")
        .await;
    assert_eq!(all.expect(200)["score"], 1);
    let wrong = [("id", "x"), ("member", SCRIPT), ("score", "many")];
    writer
        .refuse(
            votes,
            &wrong,
            &[
                "Score: is not a number",
                "value=\"many\"",
                "&#60;script&#62;",
            ],
        )
        .await;
    let mut reader = Browser::signed_in(world.client(), "a-reader").await;
    reader.get(votes).await.expect(403);
}
