//! The events of a member on its page, and the form that corrects them.

use serde_json::json;
use standings::access::players::PlayerKeys;
use standings::api::router::Options;

use super::browser::{Browser, has};
use super::{KEYS, NOW, SCRIPT, world};
use crate::access::players::{NOW_S, hs256, token_with};
use crate::harness::{Client, World};
use crate::keys::make_key;

const PAGE: &str = "/console/boards/kept/standings/day/member?member=ann";
const PLACE: [(&str, &str); 2] = [("member", "ann"), ("window", "day")];

async fn send(client: &Client, id: &str, at: &str) {
    let event = json!({"id": id, "member": "ann", "score": 10, "at": at, "channel": "web"});
    let sent = client.post("/v1/boards/kept/events", event).await;
    sent.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_moderator_retracts_restores_and_corrects_an_event() {
    let (world, admin) = world().await;
    let _following = world.instances[0].follow_api_keys();
    let definition = json!({"windows": ["day"], "history": "board", "update": "sum"});
    admin.define("kept", definition).await;
    send(&admin, "first/1", "2026-11-21T10:00:00Z").await;
    send(&admin, SCRIPT, "2026-11-21T11:00:00Z").await;
    let grant = json!({"scopes": ["read", "moderate"], "boards": ["*"]});
    let (_, secret) = make_key(&admin, "moderators", grant).await;
    let mut browser = Browser::signed_in(world.client(), &secret).await;
    let score = async || {
        let entry = "/v1/boards/kept/standings/day/members/ann";
        admin.get(entry).await.json["score"].clone()
    };

    // The latest is first.
    let parts = [
        "<h2>Events</h2>",
        "channel <b>web</b>",
        "2026-11-21 11:00:00 UTC",
        "events/ID/retract",
    ];
    let page = browser.read(PAGE, &parts).await;
    let (_, rest) = page.split_once("alert(&#39;x&#39;)").unwrap();
    has(rest, &["first/1", ">Retract</button>"]);
    assert!(!page.contains("retracted</span>"), "{page}");

    let event = [&PLACE[..], &[("event", "first/1")]].concat();
    let why = [&event[..], &[("reason", "a mistake")]].concat();
    let retract = "/console/boards/kept/retract";
    let page = browser
        .refuse(retract, &event, &["Reason is missing"])
        .await;
    assert_eq!(page.matches("class=\"menu\" open").count(), 1, "{page}");
    assert_eq!(score().await, 20);
    let page = browser.carry_out(retract, &why).await;
    let parts = [
        "The event is retracted",
        "retracted</span>",
        ">Restore</button>",
    ];
    has(&page, &parts);
    assert_eq!(score().await, 10);
    let page = browser
        .carry_out("/console/boards/kept/restore", &why)
        .await;
    assert!(!page.contains("retracted</span>"), "{page}");
    assert_eq!(score().await, 20);

    // One knows which score is to be replaced.
    let correct = "/console/boards/kept/correct";
    let with = |from, to| [&why[..], &[("from", from), ("score", to)]].concat();
    let page = browser.submit(correct, &with("9", "7")).await;
    let parts = [
        "role=\"alert\"",
        "the event counts for 10, not 9",
        "class=\"menu\" open",
        "name=\"from\" value=\"10\"",
        "name=\"score\" value=\"7\"",
        "name=\"reason\" value=\"a mistake\"",
    ];
    has(&page.expect(409), &parts);
    let parts = ["Score is not a number"];
    browser.refuse(correct, &with("10", "x"), &parts).await;
    assert_eq!(score().await, 20);
    let page = browser.carry_out(correct, &with("10", "7")).await;
    has(&page, &["The score of the event is corrected"]);
    assert_eq!(score().await, 17);
    let log = admin.get("/v1/audit?key=moderators&limit=1").await;
    let line = log.expect(200)["lines"][0].clone();
    assert_eq!(
        (&line["body"]["reason"], &line["outcome"]["after"]["score"]),
        (&json!("a mistake"), &json!(7))
    );
    // An id may have signs that no address has.
    let fields = [&PLACE[..], &[("event", SCRIPT), ("reason", "spam")]].concat();
    browser.carry_out(retract, &fields).await;
    assert_eq!(score().await, 7);

    // Who may not moderate sees nothing of them, and can't change them.
    let mut reader = Browser::signed_in(world.client(), "a-reader").await;
    let page = reader.read(PAGE, &["1 of 1"]).await;
    assert!(
        !page.contains("<h2>Events") && !page.contains("first/1"),
        "{page}"
    );
    reader.submit(retract, &why).await.expect(403);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_events_of_a_member_are_listed_in_parts() {
    let (world, admin) = world().await;
    let definition = json!({"windows": ["day"], "history": "board"});
    admin.define("kept", definition).await;
    for second in 10..32 {
        let at = format!("2026-11-21T10:00:{second}Z");
        send(&admin, &format!("event-{second}"), &at).await;
    }
    let mut browser = Browser::signed_in(world.client(), "an-admin").await;
    let page = browser.read(PAGE, &["event-31", "event-12"]).await;
    assert!(!page.contains("event-11"), "{page}");
    let (_, rest) = page.split_once("&#38;older=").unwrap();
    let (older, _) = rest.split_once('"').unwrap();
    let parts = ["event-11", "event-10", ">First events</a>"];
    let page = browser.read(&format!("{PAGE}&older={older}"), &parts).await;
    assert!(!page.contains("event-12"), "{page}");
    // After a form the same part is shown.
    let fields = [("event", "event-10"), ("reason", "spam"), ("older", older)];
    let fields = [&PLACE[..], &fields].concat();
    let page = browser
        .carry_out("/console/boards/kept/retract", &fields)
        .await;
    has(&page, &[">Restore</button>", ">First events</a>"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_board_without_a_history_says_how_to_have_one_to_those_who_can() {
    let (world, admin) = world().await;
    let _following = world.instances[0].follow_api_keys();
    let page = "/console/boards/votes/standings/day/member?member=ann";
    let hint = "This board keeps no events";
    let mut browser = Browser::signed_in(world.client(), "an-admin").await;
    let text = browser
        .read(page, &[hint, "/console/define?board=votes"])
        .await;
    assert!(!text.contains("<h2>Events"), "{text}");
    let grant = json!({"scopes": ["read", "moderate"], "boards": ["*"]});
    let (_, secret) = make_key(&admin, "moderators", grant).await;
    let mut moderator = Browser::signed_in(world.client(), &secret).await;
    let text = moderator.read(page, &[">Hide</button>"]).await;
    assert!(!text.contains(hint) && !text.contains("<h2>Events"));
    // A league can have none.
    let tiers = json!([{"name": "one", "promote": 0.5, "demote": 0}, {"name": "two", "promote": 0, "demote": 0.5}]);
    let league = json!({"tiers": tiers});
    let definition = json!({"windows": ["week"], "score_min": 0, "league": league});
    admin.define("league", definition).await;
    let page = "/console/boards/league/standings/week/member?member=ann";
    let text = browser.read(page, &[]).await;
    assert!(!text.contains(hint), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_of_a_player_is_corrected_as_the_players() {
    let secret = "a secret that is long enough, by far";
    let options = Options {
        keys: KEYS.parse().unwrap(),
        players: PlayerKeys::read(None, Some(secret), "standings").unwrap(),
        ..Options::default()
    };
    let world = World::with_options(NOW, options).await;
    let admin = world.client().with_key("an-admin");
    let definition = json!({"windows": ["day"], "history": "board"});
    admin.define("kept", definition).await;
    let claims = json!({"aud": "standings", "sub": "ann", "iat": NOW_S, "exp": NOW_S + 3_600,
        "boards": ["kept"], "scopes": ["play"]});
    let token = token_with(&json!({"alg": "HS256"}), &claims, &hs256(secret.as_bytes()));
    let player = world.client().with_key(&token);
    let event = json!({"id": "own", "member": "ann", "score": 5});
    let sent = player.post("/v1/boards/kept/events", event).await;
    sent.expect(200);
    let mut browser = Browser::signed_in(world.client(), "an-admin").await;
    let parts = ["name=\"player\" value=\"ann\"", "voter <b>ann</b>"];
    browser.read(PAGE, &parts).await;
    let fields = [("event", "own"), ("reason", "a bot"), ("player", "ann")];
    let fields = [&PLACE[..], &fields].concat();
    let retract = "/console/boards/kept/retract";
    let page = browser.submit(retract, &fields[..4]).await;
    has(&page.expect(404), &["event-not-kept"]);
    browser.carry_out(retract, &fields).await;
    let correct = [&fields[..], &[("from", "5"), ("score", "4")]].concat();
    browser
        .carry_out("/console/boards/kept/correct", &correct)
        .await;
    let kept = admin.get("/v1/boards/kept/events?member=ann").await;
    let event = kept.expect(200)["events"][0].clone();
    assert_eq!(
        (&event["score"], &event["retracted"]),
        (&json!(4), &json!(true))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_moderator_counts_revokes_and_restores_the_votes_of_a_bot() {
    let (world, admin) = world().await;
    let _following = world.instances[0].follow_api_keys();
    let definition = json!({"windows": ["day"], "history": "board", "timezone": "Asia/Tokyo"});
    admin.define("kept", definition).await;
    for (id, voter) in [("1", "bot"), ("2", SCRIPT), ("3", "bot")] {
        let event = json!({"id": id, "member": SCRIPT, "score": 10, "voter": voter});
        admin
            .post("/v1/boards/kept/events", event)
            .await
            .expect(200);
    }
    let grant = json!({"scopes": ["read", "moderate"], "boards": ["*"]});
    let (_, secret) = make_key(&admin, "moderators", grant).await;
    let mut browser = Browser::signed_in(world.client(), &secret).await;
    let total = async || {
        let page = admin.get("/v1/boards/kept/standings/day").await.expect(200);
        page["entries"][0]["score"].clone()
    };

    let path = "/console/boards/kept/revocations";
    let parts = ["No events were revoked on this board.", "Count first"];
    browser.read(path, &parts).await;
    let bot = [("voter", "bot"), ("since", "2026-11-21T09:00")];
    let page = browser.refuse(path, &bot, &["Reason is missing"]).await;
    has(&page, &["value=\"bot\"", "value=\"2026-11-21T09:00\""]);
    let nothing = [("reason", "bots")];
    browser.refuse(path, &nothing, &["needs one of"]).await;
    let why = [&bot[..], &[("reason", "bots")]].concat();
    let count = [&why[..], &[("step", "count")]].concat();
    let page = browser.carry_out(path, &count).await;
    let parts = [
        "Nothing has changed",
        "voter <b>bot</b>",
        "only counted",
        "2 events of 1 member",
        "Would lose most",
        "alert(&#39;x&#39;)",
    ];
    has(&page, &parts);
    assert!(!page.contains(">Restore<"), "{page}");
    assert_eq!(total().await, 30);
    let page = browser.carry_out(path, &why).await;
    has(&page, &["The events are revoked", "in force", ">Restore<"]);
    assert_eq!(total().await, 10);
    let restore = "/console/boards/kept/restore-revocation";
    let second = [("revocation", "2"), ("reason", "a jury")];
    let page = browser.carry_out(restore, &second).await;
    has(&page, &["The events are restored", ">restored<"]);
    assert_eq!(total().await, 30);
}
