//! The overview, and the counts in the side bar.

use chrono::{SecondsFormat, TimeDelta, Utc};
use serde_json::{Value, json};
use standings::core::board::store::board_notes::{self, NotedFor};
use standings::core::jobs::JobKind;
use standings::domain::ids::BoardId;
use standings::worker;

use super::browser::Browser;
use super::{KEYS, SCRIPT};
use crate::harness::World;
use crate::harness::jobs::ClosePeriods;
use crate::harness::receiver::{Manner, Receiver};
use crate::keys::make_key;
use crate::queue::dead_letters::{add_event, event};

async fn run(kind: JobKind, world: &World) {
    worker::run(kind, world.engine()).await.unwrap();
}

/// Takes a sample at this time.
async fn sample(world: &World, now: &str) {
    world.set_time(now);
    world.engine().refresh_boards().await.unwrap();
    run(JobKind::Overview, world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_or_fails_is_listed_with_links_and_counted_on_every_page() {
    // Since when an event waits is of Redis' own clock.
    let now = Utc::now();
    let after = |seconds| {
        let then = now + TimeDelta::seconds(seconds);
        then.to_rfc3339_opts(SecondsFormat::Secs, true)
    };
    let world = World::sending(1, &after(0), KEYS).await;
    let _following = world.instances[0].follow_api_keys();
    let admin = world.client().with_key("an-admin");
    let mut browser = Browser::signed_in(world.client(), "an-admin").await;
    let home = "/console";
    browser.read(home, &["No instance has looked"]).await;
    let definition =
        json!({"title": SCRIPT, "windows": ["day"], "ingest": "async", "finalize": "0s"});
    admin.define("b", definition).await;
    let busy = json!({"windows": ["day"]});
    admin.define("busy", busy).await;
    world.engine().refresh_boards().await.unwrap();
    super::post(&admin, "busy", &[("ann", 1), ("bob", 2)]).await;
    world.engine().run(&ClosePeriods).await.unwrap();
    run(JobKind::Instances, &world).await;
    run(JobKind::EventCounts, &world).await;
    sample(&world, &after(10)).await;
    let parts = [
        "All is well",
        "Periods that close next",
        "Becomes final",
        "/console/boards/busy",
        "<path d=\"M0 24V",
    ];
    let well = browser.read(home, &parts).await;
    let (events, _) = well.split_once("Periods that close next").unwrap();
    assert!(events.contains("<td class=\"number\">2</td>"), "{well}");
    for part in ["class=\"count", "Needs attention"] {
        assert!(!well.contains(part), "{part}: {well}");
    }

    let waiting = json!({"id": "w", "member": "ann", "score": 1});
    admin.post("/v1/boards/b/events", waiting).await.expect(202);
    add_event(&world, &event("d1", &after(0))).await;
    let (engine, board) = (world.engine(), BoardId::parse("b").unwrap());
    let board = engine.board(&board).await.unwrap();
    let noted = board_notes::note(&engine.store, NotedFor::DeadLetters, &board);
    noted.await.unwrap();
    let profile = json!({"name": "Ann"});
    let put = admin.put("/v1/members/ann/profile", profile).await;
    put.expect(200);
    let receiver = Receiver::start(Manner::Status(500)).await;
    let webhook = json!({"url": receiver.url(), "events": ["period.final"], "boards": ["*"]});
    admin.put("/v1/webhooks/site", webhook).await.expect(201);
    admin
        .post("/v1/webhooks/site/test", json!({}))
        .await
        .expect(202);
    run(JobKind::Webhooks, &world).await;
    sample(&world, &after(300)).await;
    let parts = [
        "Webhook <a href=\"/console/webhooks/site\">site</a>",
        "<a href=\"/console/boards/b/queue\">b</a>: 1 event could not be applied.",
        "</a>: 1 event is waiting, the oldest for",
        ": 1 to review.",
    ];
    let page = browser.read(home, &parts).await;
    assert!(!page.contains("All is well"), "{page}");
    let elsewhere = browser.read("/console/boards", &[]).await;
    let counts = |text: &str| {
        [("names", "calm"), ("webhooks", ""), ("queues", "")].map(|(page, class)| {
            let link = text
                .split_once(&format!("href=\"/console/{page}\""))
                .unwrap()
                .1;
            let link = link.split_once("</a>").unwrap().0;
            link.contains(&format!("<span class=\"count {class}\">1</span>"))
        })
    };
    assert_eq!(counts(&elsewhere), [true; 3], "{elsewhere}");
    let late = [
        "1 event of this board is waiting",
        "to be applied, the oldest for",
    ];
    browser.read("/console/boards/b", &late).await;
    let dead = [
        "<span class=\"pill harm\">1</span>",
        "/console/boards/b/queue",
    ];
    browser.read("/console/queues", &dead).await;
    browser.read("/console/names", &["To review · 1<"]).await;

    // Who may follow no link sees none, and who may not know sees nothing.
    let grant = json!({"scopes": ["moderate"], "boards": ["*"]});
    let (_, secret) = make_key(&admin, "moderators", grant).await;
    let mut moderator = Browser::signed_in(world.client(), &secret).await;
    let page = moderator
        .read(home, &["Webhook <b>site</b>", ": 1 to review"])
        .await;
    for link in ["/console/webhooks", "/console/queues", "/queue\""] {
        assert!(!page.contains(&format!("href=\"{link}")), "{link}: {page}");
    }
    let mut reader = Browser::signed_in(world.client(), "a-reader").await;
    assert_eq!(reader.get(home).await.leads_to(), "/console/boards");
    let page = reader.read("/console/boards", &[]).await;
    assert!(
        !page.contains("class=\"count") && !page.contains("Overview"),
        "{page}"
    );

    // A page does not need the sample.
    let damage: [&[u8]; 4] = [b"HSET", b"st:{boards}:overview", b"a", b"b"];
    world.redis.run(&[b"DEL", damage[1]]).await;
    world.redis.run(&damage).await;
    let page = browser.read("/console/boards", &[]).await;
    assert!(!page.contains("class=\"count"), "{page}");
    browser.get(home).await.expect(500);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_audit_log_says_in_words_what_was_done_and_links_to_it() {
    let (world, admin) = super::world().await;
    let hide = json!({"reason": "cheating"});
    let hidden = "/v1/boards/votes/hidden/ann";
    admin.put(hidden, hide).await.expect(200);
    admin.delete(hidden).await.expect(204);
    for action in ["hide", "unhide"] {
        let order = json!({"action": action, "member": "ann", "reason": "x", "boards": ["*"]});
        let order = if action == "hide" {
            order
        } else {
            json!({"action": action, "member": "ann", "boards": ["*"]})
        };
        admin.post("/v1/moderation", order).await.expect(202);
    }
    make_key(
        &admin,
        "agency",
        json!({"scopes": ["read"], "boards": ["*"]}),
    )
    .await;
    let rotated = admin.post("/v1/keys/agency/rotate", json!({})).await;
    rotated.expect(200);
    let mut browser = Browser::signed_in(world.client(), "an-admin").await;
    let parts = [
        "<span class=\"pill warn\">Member hidden</span>",
        "<span class=\"pill good\">Member brought back</span>",
        "<span class=\"pill warn\">Member hidden on many boards</span>",
        "<span class=\"pill good\">Member brought back on many boards</span>",
        "Key created",
        "Key rotated",
        "<a href=\"/console/keys/agency\">agency</a>",
        "<a href=\"/console/boards/votes\">votes</a>",
        "<a href=\"/console/member?member=ann\">ann</a>",
    ];
    let log = browser.read("/console/audit", &parts).await;
    let by = "/console/audit?key=configuration%3Aadmin";
    assert!(log.contains(&format!("href=\"{by}\"")), "{log}");
    let own = admin
        .get("/v1/audit?key=configuration:admin&limit=1000")
        .await;
    let own: Value = own.expect(200);
    let count = own["lines"].as_array().unwrap().len();
    let log = browser.read(by, &["All lines"]).await;
    assert_eq!(
        log.matches("<details><summary class=\"small\">Details")
            .count(),
        count
    );
}
