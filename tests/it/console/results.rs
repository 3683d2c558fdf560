//! What the console shows of periods: their results, rewards and revisions, and how members have moved.

use serde_json::{Value, json};

use super::browser::Browser;
use super::{KEYS, SCRIPT, encoded};
use crate::harness::jobs::{ClosePeriods, Revisions};
use crate::harness::{Client, World};
use crate::keys::make_key;

const FIRST_DAY: &str = "2026-11-21T12:00:00Z";
const STANDING: &str = "/console/boards/b/standings/day";
const FIRST: &str = "/console/boards/b/standings/day/periods/2026-11-21";

async fn send(admin: &Client, day: &str, scores: &[(&str, i64)]) {
    for (member, score) in scores {
        let (id, at) = (format!("{day}-{member}"), format!("{day}T12:00:00Z"));
        let event = json!({"id": id, "member": member, "score": score, "at": at});
        admin.post("/v1/boards/b/events", event).await.expect(200);
    }
}

async fn close(world: &World) {
    let instance = &world.instances[0];
    instance.engine.run(&ClosePeriods).await.unwrap();
}

/// A board whose first day is final, with a crown for who was first and coins for the first half, and whose second day runs. A
/// member is called as somebody would call it who wants a script to run.
async fn world() -> (World, Client) {
    let world = World::with_keys(1, FIRST_DAY, KEYS).await;
    let admin = world.client().with_key("an-admin");
    let definition = json!({
        "title": "Votes", "windows": ["day", "last-2-days", "all"], "finalize": "10m",
        "rewards": [
            {"id": "crown", "window": "day", "ranks": [1, 1], "reward": {"item": SCRIPT}},
            {"id": "half", "window": "day", "top_percent": 50, "reward": "coin"},
        ],
    });
    admin.define("b", definition).await;
    send(
        &admin,
        "2026-11-21",
        &[(SCRIPT, 30), ("bob", 20), ("cid", 10)],
    )
    .await;
    world.set_time("2026-11-22T00:10:00Z");
    close(&world).await;
    world.set_time("2026-11-22T12:00:00Z");
    let second = [("cid", 90), (SCRIPT, 30), ("bob", 20), ("dan", 5)];
    send(&admin, "2026-11-22", &second).await;
    (world, admin)
}

/// The text of the row of a table that has this in it.
#[track_caller]
fn row<'a>(page: &'a str, part: &str) -> &'a str {
    let mut rows = page
        .split("<tr")
        .skip(1)
        .map(|row| row.split("</tr>").next().unwrap());
    let row = rows.find(|row| row.contains(part));
    row.unwrap_or_else(|| panic!("no row has {part}: {page}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn periods_are_listed_and_charted_with_states_and_winners() {
    let (world, _) = world().await;
    let mut browser = Browser::signed_in(world.client(), "a-reader").await;
    let standing = browser.get(STANDING).await.expect(200);
    assert!(
        standing.contains(&format!("href=\"{STANDING}/periods\"")),
        "{standing}"
    );
    let page = browser
        .get(&format!("{STANDING}/periods"))
        .await
        .expect(200);
    let running = row(&page, ">Today, Sun 22 Nov<");
    for part in ["Live", "cid", ">90<", ">4<", "Details"] {
        assert!(running.contains(part), "{part}: {running}");
    }
    let first = row(&page, ">Sat 21 Nov<");
    for part in ["Final", "&#60;script&#62;", ">30<", ">3<", "Result", FIRST] {
        assert!(first.contains(part), "{part}: {first}");
    }
    let charts = browser
        .get(&format!("{STANDING}/charts?last=10"))
        .await
        .expect(200);
    for part in [
        "<title id=\"members-title\">Members</title>",
        "From Sat 21 Nov to Today, Sun 22 Nov, between 0 and 4. The last one is running",
        "<rect x=",
        "<rect class=\"running\"",
        "<title>Today, Sun 22 Nov: 4 so far</title>",
        "aria-current=\"true\">Last 10<",
    ] {
        assert!(charts.contains(part), "{part}: {charts}");
    }
    // Only a board that counts voters has more to draw.
    assert!(!charts.contains("voters-title"), "{charts}");
    // A window of its own has no periods.
    assert!(!charts.contains("last-2-days/charts"), "{charts}");

    // All time is one period, and the last two days have none of their own.
    let all = "/console/boards/b/standings/all/periods";
    assert!(browser.get(all).await.expect(200).contains(">100<"));
    let rolling = browser
        .get("/console/boards/b/standings/last-2-days/periods")
        .await;
    assert!(rolling.expect(404).contains("What to do"));
    let page = browser.get("/console/boards/b/standings/last-2-days").await;
    let page = page.expect(200);
    assert!(!page.contains("last-2-days/periods"), "{page}");
    assert!(page.contains(&format!("{STANDING}/periods")), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_public_board_has_a_frame_for_other_sites() {
    let (world, admin) = world().await;
    let mut browser = Browser::signed_in(world.client(), "an-admin").await;
    let embed = "/console/boards/b/embed";
    let page = browser.get(embed).await.expect(200);
    assert!(!page.contains("iframe"), "{page}");
    let change = json!({"public": true, "title": "\"><b>"});
    let changed = admin.patch("/v1/boards/b", change).await;
    changed.expect(200);
    let page = browser.get(embed).await.expect(200);
    // A title is text in the page that shows the line, and in the page that it is put into.
    for part in [
        "/embed/b/day&#34;",
        "title=&#34;&#38;#34;&#38;#62;&#38;#60;b&#38;#62;&#34;",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn periods_are_listed_in_pages() {
    let world = World::with_keys(1, "2026-11-21T12:00:30Z", KEYS).await;
    let admin = world.client().with_key("an-admin");
    let definition = json!({"windows": ["minute"], "accept_late": "any", "uniques": "board"});
    admin.define("b", definition).await;
    for minute in 0..25 {
        let at = format!("2026-11-21T11:{minute:02}:00Z");
        let event =
            json!({"id": minute.to_string(), "member": "ann", "score": 2, "at": at, "voter": "v"});
        admin.post("/v1/boards/b/events", event).await.expect(200);
    }
    let mut browser = Browser::signed_in(world.client(), "a-reader").await;
    let list = "/console/boards/b/standings/minute/periods";
    let page = browser.get(list).await.expect(200);
    assert!(row(&page, ">2026-11-21T11:24Z<").contains("≈ 1<"));
    assert!(!page.contains(">2026-11-21T11:04Z<") && !page.contains("Newest periods"));
    let charts = "/console/boards/b/standings/minute/charts";
    let charts = browser.get(charts).await.expect(200);
    for chart in ["members", "voters", "events", "points"] {
        assert!(
            charts.contains(&format!("{chart}-title")),
            "{chart}: {charts}"
        );
    }
    let (_, rest) = page
        .split_once("href=\"/console/boards/b/standings/minute/periods?")
        .unwrap();
    let (query, _) = rest.split_once('"').unwrap();
    let page = browser.get(&format!("{list}?{query}")).await.expect(200);
    assert!(page.contains(">2026-11-21T11:04Z<") && page.contains(">2026-11-21T11:00Z<"));
    assert!(page.contains("Newest periods") && !page.contains("Older periods"));
    // A key of a minute has a colon.
    let minute = browser
        .get(&format!("{list}/2026-11-21T11%3A24Z"))
        .await
        .expect(200);
    assert!(minute.contains("There is no result"), "{minute}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_shows_what_was_won_and_a_reward_is_claimed_once() {
    let (world, admin) = world().await;
    let mut browser = Browser::signed_in(world.client(), "a-writer").await;
    let page = browser.get(FIRST).await.expect(200);
    let told = admin
        .get("/v1/boards/b/standings/day/periods/2026-11-21")
        .await
        .expect(200);
    let digest = told["digest"].as_str().unwrap();
    for part in [
        "Final",
        "2026-11-22 00:10:00 UTC",
        "<h2>Winners</h2>",
        "medal-1",
        digest,
        "3 rewards were won",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let crown = row(&page, ">crown</td>");
    assert!(
        crown.contains("open") && crown.contains("name=\"by\""),
        "{crown}"
    );
    assert!(crown.contains("&#60;script&#62;alert"), "{crown}");
    let claim = format!("{FIRST}/claim");
    let reward = [("rule", "crown"), ("member", SCRIPT)];
    let unnamed = browser.submit(&claim, &reward).await;
    assert!(unnamed.expect(422).contains("By: "));
    let granted = [&reward[..], &[("by", "grant-1")]].concat();
    let claimed = browser.submit(&claim, &granted).await;
    assert_eq!(claimed.leads_to(), format!("{FIRST}?done=claimed"));
    let page = browser.get(claimed.leads_to()).await.expect(200);
    assert!(page.contains("role=\"status\""), "{page}");
    let crown = row(&page, ">crown</td>");
    assert!(
        crown.contains("grant-1") && !crown.contains("name=\"by\""),
        "{crown}"
    );
    let other = [&reward[..], &[("by", "grant-2")]].concat();
    browser.get(FIRST).await.expect(200);
    let refused = browser.submit(&claim, &other).await;
    assert!(refused.expect(409).contains("already-claimed"));
    let rewards = "/v1/boards/b/standings/day/periods/2026-11-21/rewards";
    let told = admin.get(rewards).await.expect(200);
    assert_eq!(told["rewards"][0]["by"], json!("grant-1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revised_result_says_what_has_changed() {
    let (world, admin) = world().await;
    let mut browser = Browser::signed_in(world.client(), "an-admin").await;
    let page = browser.get(FIRST).await.expect(200);
    assert!(page.contains("The result is as it was recorded"), "{page}");
    let hide = format!("/v1/boards/b/hidden/{}", encoded(SCRIPT));
    admin
        .put(&hide, json!({"reason": "cheating"}))
        .await
        .expect(200);
    world.instances[0].engine.run(&Revisions).await.unwrap();
    let page = browser.get(FIRST).await.expect(200);
    for part in [
        "was hidden, at rank 1",
        "There were 3 members, and then 2.",
        "bob: <code>crown</code> gained",
        "<code>crown</code> lost",
        "<li value=\"2\">",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(row(&page, ">crown</td>").contains("bob"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_goes_through_the_session() {
    let (world, admin) = world().await;
    let mut browser = Browser::signed_in(world.client(), "a-reader").await;
    for (format, kind) in [
        ("csv", "text/csv; charset=utf-8"),
        ("ndjson", "application/x-ndjson"),
    ] {
        let export = format!("/export?format={format}");
        let page = browser.get(FIRST).await.expect(200);
        assert!(page.contains(&format!("{FIRST}{export}")), "{page}");
        let shown = browser.get(&format!("{FIRST}{export}")).await;
        assert_eq!(shown.header("content-type"), kind);
        let name = format!("attachment; filename=\"b-day-2026-11-21.{format}\"");
        assert_eq!(shown.header("content-disposition"), name);
        let rules = shown.headers.get_all("cache-control");
        assert_eq!(rules.iter().collect::<Vec<_>>(), ["private, no-store"]);
        let own = format!("/v1/boards/b/standings/day/periods/2026-11-21{export}");
        assert_eq!(shown.expect(200), admin.get(&own).await.text);
    }
    let with_names = "/export?format=csv&include=profile&bom=true";
    let csv = browser
        .get(&format!("{FIRST}{with_names}"))
        .await
        .expect(200);
    let columns = "\u{feff}rank,member,score,reached_at,name,avatar_url,attributes\n";
    assert!(csv.starts_with(columns), "{csv}");
    let wrong = browser.get(&format!("{FIRST}/export?format=pdf")).await;
    assert!(wrong.expect(400).contains("<h1>"));
    let missing = format!("{STANDING}/periods/2020-01-01/export?format=csv");
    assert!(
        browser
            .get(&missing)
            .await
            .expect(404)
            .contains("period-not-found")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn members_have_moved_since_the_period_before() {
    let (world, admin) = world().await;
    let mut browser = Browser::signed_in(world.client(), "an-admin").await;
    let page = browser.get(STANDING).await.expect(200);
    assert!(
        page.contains("title=\"2026-11-21\">vs yesterday<"),
        "{page}"
    );
    for (member, moved) in [
        ("<b>cid</b>", "up </span>2<"),
        ("%3Cscript", "down </span>1<"),
        ("<b>bob</b>", "down </span>1<"),
        ("<b>dan</b>", ">new<"),
    ] {
        let row = row(&page, member);
        assert!(row.contains(moved), "{member}: {row}");
    }
    // The same by the key of the period, and for the last two days.
    let named = browser.get(&format!("{STANDING}?key=2026-11-22")).await;
    assert!(row(&named.expect(200), "<b>cid</b>").contains("up </span>2<"));
    let rolling = browser.get("/console/boards/b/standings/last-2-days").await;
    assert!(row(&rolling.expect(200), "<b>cid</b>").contains("up </span>2<"));
    // Nothing was before the first day, and all time has nothing before it.
    for path in [
        &format!("{STANDING}?key=2026-11-21"),
        "/console/boards/b/standings/all",
    ] {
        let page = browser.get(path).await.expect(200);
        assert!(
            !page.contains(">vs ") && page.contains("<b>bob</b>"),
            "{page}"
        );
    }
    // A past day is compared with the one before it.
    world.set_time("2026-11-23T12:00:00Z");
    let past = browser
        .get(&format!("{STANDING}?key=2026-11-22"))
        .await
        .expect(200);
    assert!(row(&past, "<b>cid</b>").contains("up </span>2<"), "{past}");
    // Who is hidden counts for those who look at hidden members, only.
    let hide = format!("/v1/boards/b/hidden/{}", encoded(SCRIPT));
    admin
        .put(&hide, json!({"reason": "cheating"}))
        .await
        .expect(200);
    for (query, moved) in [("", "up </span>1<"), ("&hidden=include", "up </span>2<")] {
        let page = browser
            .get(&format!("{STANDING}?key=2026-11-22{query}"))
            .await
            .expect(200);
        assert!(row(&page, "<b>cid</b>").contains(moved), "{query}: {page}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_day_is_shown_even_if_the_previous_day_is_damaged() {
    let (world, _) = world().await;
    for key in world.redis.keys("st:{b}:*:2026-11-21").await {
        world.redis.run(&[b"DEL", key.as_bytes()]).await;
        world.redis.run(&[b"SET", key.as_bytes(), b"x"]).await;
    }
    let mut browser = Browser::signed_in(world.client(), "an-admin").await;
    let before = browser.get(&format!("{STANDING}?key=2026-11-21")).await;
    before.expect(500);
    let page = browser.get(STANDING).await.expect(200);
    let told = ["How members have moved is not known", "<b>cid</b>"];
    assert!(told.iter().all(|part| page.contains(part)), "{page}");
    assert!(!page.contains(">vs "), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_has_a_history_over_periods() {
    let (world, _) = world().await;
    let mut browser = Browser::signed_in(world.client(), "a-reader").await;
    let member = |name: &str| format!("{STANDING}/member?member={}", encoded(name));
    let page = browser.get(&member("cid")).await.expect(200);
    for part in [
        "ranks-title",
        "scores-title",
        "between rank 1 and rank 3",
        "between 0 and 90",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let line = row(&page, "key=2026-11-21\">2026-11-21<");
    assert!(line.contains("3 of 3") && line.contains(">10<"), "{line}");
    let line = row(&page, "key=2026-11-22\">2026-11-22<");
    assert!(line.contains("1 of 4") && line.contains(">90<"), "{line}");
    // One point makes no line.
    let page = browser.get(&member("dan")).await.expect(200);
    assert!(
        !page.contains("ranks-title") && page.contains("4 of 4"),
        "{page}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_league_shows_results_of_cohorts_and_seats_of_members() {
    let world = World::with_keys(1, "2026-11-18T12:00:00Z", KEYS).await;
    let admin = world.client().with_key("an-admin");
    let league = json!({"min_cohort": 2, "tiers": [
        {"name": "bronze", "promote": 0.5, "demote": 0},
        {"name": "gold", "promote": 0, "demote": 0.5},
    ]});
    let definition = json!({
        "windows": ["week"], "score_min": 0, "finalize": "1m", "league": league,
    });
    admin.define("b", definition).await;
    for (day, monday, new) in [
        ("2026-11-18", "2026-11-23T01:00:00Z", "bob"),
        ("2026-11-25", "2026-11-30T01:00:00Z", "eve"),
    ] {
        send(&admin, day, &[("ann", 5), (new, 3)]).await;
        world.set_time(monday);
        close(&world).await;
        world.set_time("2026-11-25T12:00:00Z".max(monday));
    }
    let mut browser = Browser::signed_in(world.client(), "a-reader").await;
    let week = "/console/boards/b/standings/week";
    let periods = browser.get(&format!("{week}/periods")).await.expect(200);
    assert!(periods.contains("With results"), "{periods}");
    let whole = format!("{week}/periods/2026-11-16");
    let page = browser.get(&whole).await.expect(200);
    assert!(page.contains("1 of them with results"), "{page}");
    let cohort = browser
        .get(&format!("{whole}?cohort=bronze-1"))
        .await
        .expect(200);
    for part in [
        "1 up, 0 down, of 2",
        "Winners",
        "export?format=csv&#38;cohort=bronze-1",
    ] {
        assert!(cohort.contains(part), "{part}: {cohort}");
    }
    let csv = browser
        .get(&format!("{whole}/export?format=csv&cohort=bronze-1"))
        .await;
    assert!(csv.expect(200).contains("\n1,ann,5,"));
    let member = browser
        .get(&format!("{week}/member?member=ann"))
        .await
        .expect(200);
    let seat = row(&member, ">bronze-1<");
    assert!(
        seat.contains(">up<") && seat.contains("2026-11-16"),
        "{seat}"
    );
    assert!(member.contains("ranks-title"), "{member}");
    // A single seat is a line, and no chart.
    let member = browser.get(&format!("{week}/member?member=eve")).await;
    let member = member.expect(200);
    let seat = row(&member, ">bronze-1<");
    assert!(seat.contains("2026-11-23"), "{seat}");
    assert!(!member.contains("ranks-title"), "{member}");
    // In the new period nobody has a seat yet.
    assert!(
        member.contains(">none yet<") && !member.contains(">Neighbours<"),
        "{member}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cohort_shows_its_zones_and_leads_back_to_its_tier() {
    let world = World::with_keys(1, "2026-11-18T12:00:00Z", KEYS).await;
    let admin = world.client().with_key("an-admin");
    let league = json!({"tiers": [
        {"name": "bronze", "promote": 0.25, "demote": 0},
        {"name": "gold", "promote": 0, "demote": 0.5},
    ]});
    let definition = json!({"windows": ["week"], "score_min": 0, "league": league});
    admin.define("b", definition).await;
    let scores = [("ann", 9), ("bob", 7), ("cid", 5), ("dan", 3)];
    send(&admin, "2026-11-18", &scores).await;
    let mut browser = Browser::signed_in(world.client(), "a-reader").await;
    let week = "/console/boards/b/standings/week";
    let page = browser
        .get(&format!("{week}?cohort=bronze-1"))
        .await
        .expect(200);
    let ann = row(&page, "data-row=\"ann\"");
    assert!(
        ann.starts_with(" class=\"zone\"") && ann.contains("↑ up"),
        "{ann}"
    );
    let bob = row(&page, "data-row=\"bob\"");
    assert!(!bob.contains("class=\"zone") && !bob.contains("↑"), "{bob}");
    for part in [
        ">All tiers</a>",
        "tier=bronze\">bronze</a>",
        "aria-current=\"page\">bronze-1</a>",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let tier = browser
        .get(&format!("{week}?tier=bronze"))
        .await
        .expect(200);
    assert!(tier.contains(">All tiers</a>"), "{tier}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_poll_shows_its_voters_and_true_counts() {
    let world = World::with_keys(1, FIRST_DAY, KEYS).await;
    let admin = world.client().with_key("an-admin");
    let definition =
        json!({"windows": ["day"], "uniques": "member", "weight": {"members": {"ann": 3}}});
    admin.define("b", definition).await;
    for (id, voter) in [("1", "v"), ("2", "v"), ("3", "w")] {
        let vote = json!({"id": id, "member": "ann", "score": 1, "voter": voter});
        admin.post("/v1/boards/b/events", vote).await.expect(200);
    }
    let mut browser = Browser::signed_in(world.client(), "an-admin").await;
    let page = browser.get(STANDING).await.expect(200);
    let ann = row(&page, "data-row=\"ann\"");
    assert!(ann.contains("≈ 2<") && ann.contains(">9<"), "{ann}");
    for part in [
        "Voters, about</dt><dd class=\"figure\">2<",
        "Events</dt><dd class=\"figure\">3<",
        "raw=true",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let page = browser
        .get(&format!("{STANDING}?raw=true"))
        .await
        .expect(200);
    assert!(
        row(&page, "data-row=\"ann\"").contains(">3<") && page.contains("True count"),
        "{page}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_board_that_opens_later_has_no_live_period() {
    let world = World::with_keys(1, FIRST_DAY, KEYS).await;
    let admin = world.client().with_key("an-admin");
    admin.define("b", json!({"windows": ["day"]})).await;
    send(&admin, "2026-11-21", &[("ann", 1)]).await;
    let opens_at = json!({"opens_at": "2026-11-24T12:00:00Z"});
    admin.patch("/v1/boards/b", opens_at).await.expect(200);
    let mut browser = Browser::signed_in(world.client(), "a-reader").await;
    let page = browser
        .get(&format!("{STANDING}/periods"))
        .await
        .expect(200);
    let today = row(&page, ">Today, Sat 21 Nov<");
    assert!(
        today.contains("Opens in 3 d") && !page.contains(">Live<"),
        "{page}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_needs_the_right_to_read_and_a_claim_the_right_to_write() {
    let (world, admin) = world().await;
    let _following = world.instances[0].follow_api_keys();
    let member = format!("{STANDING}/member?member=bob");
    let list = format!("{STANDING}/periods");
    let export = format!("{FIRST}/export?format=csv");
    for scopes in [
        "read",
        "write",
        "moderate",
        "configure",
        "admin",
        "read write",
    ] {
        for (patterns, is_for_board) in [("b", true), ("*", true), ("o*", false)] {
            let named: Vec<&str> = scopes.split(' ').collect();
            let name = format!("{}.{}", named.join("."), patterns.replace('*', "all"));
            let grant = json!({"scopes": named, "boards": [patterns]});
            let (_, secret) = make_key(&admin, &name, grant).await;
            let mut browser = Browser::signed_in(world.client(), &secret).await;
            let has = |scope: &str| is_for_board && (scopes == "admin" || named.contains(&scope));
            for path in [&list, FIRST, &export, &member] {
                let page = browser.get(path).await;
                let text = page.expect(if has("read") { 200 } else { 403 });
                if !has("read") {
                    assert!(
                        !text.contains("Votes") && !text.contains("cid"),
                        "{name} {path}"
                    );
                }
                let form = text.contains("name=\"by\"");
                assert_eq!(
                    form,
                    path == FIRST && has("read") && has("write"),
                    "{name} {path}"
                );
            }
            browser.get("/console/boards").await.expect(200);
            let fields = [("rule", "half"), ("member", SCRIPT), ("by", "all")];
            let claimed = browser.submit(&format!("{FIRST}/claim"), &fields).await;
            assert_eq!(
                claimed.status,
                if has("write") { 303 } else { 403 },
                "{name}"
            );
        }
    }
    // On a public board everybody sees results, and readers what was won.
    admin
        .define(
            "open",
            json!({"windows": ["day"], "finalize": "1m", "public": true}),
        )
        .await;
    let event = json!({"id": "1", "member": "ann", "score": 1});
    admin
        .post("/v1/boards/open/events", event)
        .await
        .expect(200);
    world.set_time("2026-11-23T01:00:00Z");
    close(&world).await;
    let (_, secret) = make_key(
        &admin,
        "elsewhere",
        json!({"scopes": ["write"], "boards": ["x"]}),
    )
    .await;
    let mut browser = Browser::signed_in(world.client(), &secret).await;
    let result = "/console/boards/open/standings/day/periods/2026-11-22";
    let page = browser.get(result).await.expect(200);
    assert!(
        page.contains("are for keys with the scope") && !page.contains("/export"),
        "{page}"
    );
    let list: Value = admin
        .get("/v1/boards/open/standings/day/periods")
        .await
        .expect(200);
    assert_eq!(list["periods"][0]["winner"]["member"], "ann");
}
