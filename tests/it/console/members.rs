//! Members: hiding and erasing them, their profiles and reviews.

use serde_json::{Value, json};
use standings::profiles::search::job::NameIndex;

use super::browser::{Browser, has};
use super::{KEYS, SCRIPT, encoded, world};
use crate::harness::Instance;
use crate::keys::make_key;

#[tokio::test(flavor = "multi_thread")]
async fn a_member_is_hidden_and_unhidden_with_a_reason_and_an_audit_line() {
    let (world, admin) = world().await;
    let _following = world.instances[0].follow_api_keys();
    let grant = json!({"scopes": ["read", "moderate"], "boards": ["votes"]});
    let (_, secret) = make_key(&admin, "moderators", grant).await;
    let mut browser = Browser::signed_in(world.client(), &secret).await;
    let member = "/console/boards/votes/standings/day/member?member=bob&key=2026-11-21";
    let page = browser.get(member).await.expect(200);
    assert!(
        page.contains("1 of 2") && page.contains(">Hide</button>"),
        "{page}"
    );
    let place = [("member", "bob"), ("window", "day"), ("key", "2026-11-21")];
    let hide = "/console/boards/votes/hide";
    let without_reason = browser.submit(hide, &place).await;
    let text = without_reason.expect(422);
    assert!(
        text.contains("Reason: ") && text.contains("role=\"alert\"") && text.contains("1 of 2"),
        "{text}"
    );
    let why = [
        ("reason", "cheating"),
        ("details", "twice"),
        ("until", "2026-11-30T08:30"),
    ];
    let hidden = browser.submit(hide, &[&place[..], &why].concat()).await;
    let to = hidden.leads_to().to_owned();
    assert_eq!(to, format!("{member}&done=hidden"));
    let page = browser.get(&to).await.expect(200);
    assert!(
        page.contains("role=\"status\"") && page.contains("Bring back"),
        "{page}"
    );
    let top = [
        "Hidden on this board",
        ">Moderation · 1</a>",
        " by moderators: cheating: twice.",
        "Undo",
    ];
    has(&page, &top);
    // Only with hidden members it has a rank, and the others have ranks behind it.
    assert!(
        page.contains("The member is hidden") && !page.contains("1 of 2"),
        "{page}"
    );
    let ann = "/console/boards/votes/standings/day/member?member=ann&key=2026-11-21";
    browser
        .read(ann, &["1 of 1", "Show hidden members too"])
        .await;
    let all = "&hidden=include";
    let parts = [
        "2 of 2",
        "Show what everybody sees",
        "?member=bob&#38;key=2026-11-21&#38;hidden=include",
    ];
    browser.read(&format!("{ann}{all}"), &parts).await;
    let parts = [
        "1 of 2",
        "hidden</span>",
        "day?key=2026-11-21&#38;hidden=include",
    ];
    browser.read(&format!("{member}{all}"), &parts).await;
    let standing = "/console/boards/votes/standings/day";
    let page = browser.get(standing).await.expect(200);
    let members = "<dt>Members</dt><dd class=\"figure\">";
    assert!(!page.contains("bob"), "{page}");
    has(&page, &[&format!("{members}1")]);
    let page = browser
        .get(&format!("{standing}?hidden=include"))
        .await
        .expect(200);
    let parts = [
        "member=bob&#38;key=2026-11-21&#38;hidden=include",
        &format!("{members}2"),
        "hidden</span>",
    ];
    has(&page, &parts);
    let mut reader = Browser::signed_in(world.client(), "a-reader").await;
    let public = reader.read(ann, &["1 of 1"]).await;
    assert!(!public.contains("hidden members"), "{public}");
    reader.get(&format!("{ann}{all}")).await.expect(403);
    let page = browser
        .get("/console/boards/votes/hidden")
        .await
        .expect(200);
    let parts = [
        "standings/all/member?member=bob",
        "cheating",
        "moderators",
        "2026-11-30 08:30:00 UTC",
    ];
    has(&page, &parts);
    let back = browser
        .submit("/console/boards/votes/unhide", &[("member", "bob")])
        .await;
    assert_eq!(
        back.leads_to(),
        "/console/boards/votes/hidden?done=unhidden"
    );
    let page = browser.get(back.leads_to()).await.expect(200);
    assert!(page.contains("Nobody is hidden"), "{page}");
    assert!(browser.get(standing).await.expect(200).contains("bob"));
    let mut operator = Browser::signed_in(world.client(), "an-admin").await;
    let log = operator.get("/console/audit?member=bob").await.expect(200);
    for part in [
        "PUT /v1/boards/{board}/hidden/{member}",
        "moderators",
        "validation-failed",
    ] {
        assert!(log.contains(part), "{part}: {log}");
    }
    let service = operator.get("/console/service").await.expect(200);
    assert!(service.contains(env!("CARGO_PKG_VERSION")), "{service}");
    // It says what `/v1` says, by the same name.
    let lines = admin.get("/v1/audit?key=moderators").await.expect(200);
    let told: Vec<Value> = lines["lines"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| {
            json!([
                line["method"],
                line["route"],
                line["outcome"]["status"],
                line["members"][0]["member"]
            ])
        })
        .collect();
    let route = "/v1/boards/{board}/hidden/{member}";
    let expected = [("DELETE", 204), ("PUT", 200), ("PUT", 422)]
        .map(|(method, status)| json!([method, route, status, "bob"]));
    assert_eq!(told, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hidden_member_without_a_standing_can_be_unhidden() {
    let (world, admin) = world().await;
    let mut browser = Browser::signed_in(world.client(), "an-admin").await;
    let member = "/console/boards/votes/standings/day/member?member=nobody";
    let parts = ["Nothing is known of", "Hide it before it has points"];
    let page = browser.read(member, &parts).await;
    assert!(!page.contains("On other boards"), "{page}");
    let place = [("member", "nobody"), ("window", "day")];
    let fields = [&place[..], &[("reason", ""), ("details", "spam & more")]].concat();
    let hidden = browser
        .carry_out("/console/boards/votes/hide", &fields)
        .await;
    assert!(hidden.contains("spam &#38; more") && hidden.contains("Bring back"));
    let hidden_at = "/v1/boards/votes/hidden/nobody";
    let told = admin.get(hidden_at).await.expect(200);
    let list = admin.get("/v1/boards/votes/hidden").await.expect(200);
    assert_eq!((&told, &list["total"]), (&list["hidden"][0], &json!(1)));
    has(&hidden, &["until somebody brings it back"]);
    // What was just done is undone by one click.
    browser
        .carry_out("/console/boards/votes/unhide", &place)
        .await;
    let gone = admin.get(hidden_at).await;
    gone.expect_problem(404, "not-hidden");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_is_erased_from_one_board_or_all_after_its_name_is_typed() {
    let (world, admin) = world().await;
    admin.define("other", json!({"windows": ["day"]})).await;
    super::post(&admin, "other", &[("bob", 1), ("ann", 2)]).await;
    let mut browser = Browser::signed_in(world.client(), "an-admin").await;
    let place = [("member", "bob"), ("window", "day")];
    let member = "/console/boards/votes/standings/day/member?member=bob";
    browser.read(member, &["Erase the member"]).await;
    let erase = "/console/boards/votes/erase";
    let erased = browser.confirm(erase, &place, "bob").await;
    browser
        .read(erased.leads_to(), &["not in this standing"])
        .await;
    let total = async |board: &str| {
        let page = format!("/v1/boards/{board}/standings/day");
        admin.get(&page).await.expect(200)["total"].clone()
    };
    assert_eq!(
        (total("votes").await, total("other").await),
        (json!(1), json!(2))
    );
    let everywhere = browser.read("/console/member?member=ann", &["Erase for good"]);
    everywhere.await;
    let erased = browser
        .confirm("/console/member/erase", &[("member", "ann")], "ann")
        .await;
    let job = erased.leads_to().to_owned();
    let parts = ["Remove what an erased member left", "Boards"];
    browser.read(&job, &parts).await;
    assert_eq!(
        (total("votes").await, total("other").await),
        (json!(0), json!(1))
    );
    let missing = browser.get("/console/jobs/77").await;
    assert!(missing.expect(404).contains("job-not-found"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_is_hidden_and_unhidden_on_all_boards() {
    let (world, admin) = world().await;
    let mut browser = Browser::signed_in(world.client(), "an-admin").await;
    let list = "/console/members";
    browser
        .read(list, &["Nobody is hidden on all boards"])
        .await;
    let order = "/console/member/moderate";
    let hide = [("member", SCRIPT), ("action", "hide")];
    let eve = "/console/member?member=eve";
    browser
        .read(
            eve,
            &["On all boards, including future ones", ">Hide</button>"],
        )
        .await;
    browser
        .refuse(order, &hide, &["Reason: ", "Nothing is known of"])
        .await;
    let why = [("reason", SCRIPT), ("until", "2026-12-24T08:30")];
    let hidden = browser.carry_out(order, &[&hide[..], &why].concat()).await;
    has(&hidden, &["Hidden on all boards", "Undo", "/console/jobs"]);
    let job = "Hide &#60;script&#62;alert(&#39;x&#39;)";
    browser.read("/console/jobs", &[job]).await;
    let orders = async || admin.get("/v1/moderation").await.expect(200)["hidden"].clone();
    let given = orders().await;
    assert_eq!(
        (&given[0]["member"], &given[0]["reason"]),
        (&json!(SCRIPT), &json!(SCRIPT))
    );
    assert_eq!(given[0]["until"], "2026-12-24T08:30:00.000Z");
    let profile = format!("/v1/members/{}/profile", encoded(SCRIPT));
    admin
        .put(&profile, json!({"name": "Eve"}))
        .await
        .expect(200);
    let parts = ["2026-12-24 08:30:00 UTC", "&#60;script&#62;", "<b>Eve</b>"];
    browser.read(list, &parts).await;
    // On a page of a board one chooses where, and either page brings the member back.
    let place = [("member", "bob"), ("window", "day"), ("board", "votes")];
    let everywhere = [("scope", "everywhere"), ("reason", "cheating")];
    let page = "/console/boards/votes/standings/day/member?member=bob";
    browser
        .read(
            page,
            &["On this board", "On all boards, including future ones"],
        )
        .await;
    let fields = [&place[..], &everywhere].concat();
    let hidden = browser
        .carry_out("/console/boards/votes/hide", &fields)
        .await;
    has(
        &hidden,
        &["Hidden on all boards", "Undo", "Bring back on all boards"],
    );
    assert_eq!(orders().await.as_array().unwrap().len(), 2);
    let back = [&place[..], &[("action", "unhide")]].concat();
    let back = browser.submit(order, &back).await;
    let kept = browser.read(back.leads_to(), &["role=\"status\""]).await;
    assert!(!kept.contains("Hidden on all boards"), "{kept}");
    // A list brings back all that are ticked.
    browser
        .carry_out("/console/boards/votes/hide", &fields)
        .await;
    let ticked = [("list", "hidden"), ("ticked", SCRIPT), ("ticked", "bob")];
    let back = browser.carry_out(order, &ticked).await;
    has(&back, &["Nobody is hidden on all boards"]);
    assert_eq!(orders().await, json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_hide_is_a_time_of_the_zone_of_its_board() {
    let (world, admin) = world().await;
    let definition = json!({"windows": ["day"], "timezone": "Asia/Shanghai"});
    admin.define("east", definition).await;
    let mut browser = Browser::signed_in(world.client(), "an-admin").await;
    let place = [("member", "ann"), ("window", "day"), ("board", "east")];
    let until = [("reason", "cheating"), ("until", "2026-11-30T08:30")];
    let fields = [&place[..], &until].concat();
    let page = "/console/boards/east/standings/day/member?member=ann";
    browser.read(page, &["Until <small>(Asia/Shanghai)"]).await;
    browser
        .carry_out("/console/boards/east/hide", &fields)
        .await;
    let hidden = admin.get("/v1/boards/east/hidden/ann").await.expect(200);
    assert_eq!(hidden["until"], "2026-11-30T00:30:00.000Z");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_hidden_members_of_a_board_are_brought_back_at_once() {
    let (world, admin) = world().await;
    let mut browser = Browser::signed_in(world.client(), "an-admin").await;
    for member in ["ann", "bob", "cid"] {
        let hidden_at = format!("/v1/boards/votes/hidden/{member}");
        let hide = json!({"reason": "cheating"});
        admin.put(&hidden_at, hide).await.expect(200);
    }
    let page = "/console/boards/votes/hidden";
    let parts = ["somebody brings it back", "Bring back all ticked"];
    browser.read(page, &parts).await;
    // One that came back meanwhile does not keep the others.
    admin
        .delete("/v1/boards/votes/hidden/ann")
        .await
        .expect(204);
    let unhide = "/console/boards/votes/unhide";
    let ticked = ["ann", "bob"].map(|member| ("ticked", member));
    let left = browser.carry_out(unhide, &ticked).await;
    assert!(
        left.contains("The members are back") && left.contains("cid"),
        "{left}"
    );
    assert!(!left.contains("member=bob"), "{left}");
    let none = browser.carry_out(unhide, &[]).await;
    assert!(none.contains("Nobody was ticked"), "{none}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_is_shown_across_boards() {
    let (world, admin) = world().await;
    let _following = world.instances[0].follow_api_keys();
    admin.define("other", json!({"windows": ["day"]})).await;
    super::post(&admin, "other", &[("ann", 2), ("bob", 7)]).await;
    admin.define("weekly", json!({"windows": ["week"]})).await;
    admin
        .define("empty", json!({"windows": ["month", "day"]}))
        .await;
    super::post(&admin, "weekly", &[("ann", 1_234)]).await;
    let profile = json!({"name": SCRIPT});
    let named = admin.put("/v1/members/ann/profile", profile).await;
    named.expect(200);
    let hide = json!({"reason": "cheating & more"});
    let hidden = admin.put("/v1/boards/other/hidden/ann", hide).await;
    hidden.expect(200);

    // Each board is there, in a window that it has, and how the member is hidden.
    let mut browser = Browser::signed_in(world.client(), "an-admin").await;
    let from = "/console/boards/votes/standings/day/member?member=ann";
    let page = "/console/member?member=ann";
    let parts = [
        "&#60;script&#62;",
        "<b>other</b>",
        "cheating &#38; more",
        "<b>weekly</b>",
        "Week of 16 Nov",
        "1,234",
        "No points on 1 board<",
        "empty/standings/month/member",
        "/v1/members/ann/standings?boards=weekly&#38;window=week",
    ];
    let other = browser.read(from, &[&parts[..], &[page]].concat()).await;
    assert!(!other.contains("<b>Votes</b>"), "{other}");
    let all = ["<b>Votes</b>", "2 of 2", "Profile"];
    let all = browser.read(page, &[&parts[..], &all].concat()).await;
    assert!(!all.contains(SCRIPT), "{all}");

    // A key that may read sees no hide and no form.
    let mut reader = Browser::signed_in(world.client(), "a-reader").await;
    let text = reader.read(page, &[]).await;
    assert!(!text.contains("cheating") && !text.contains("id=\"moderation\""));

    // A key that may read nothing sees no standings.
    let grant = json!({"scopes": ["write"], "boards": ["*"]});
    let (_, key) = make_key(&admin, "writers", grant).await;
    let mut writer = Browser::signed_in(world.client(), &key).await;
    let own = writer.read(page, &["Profile"]).await;
    assert!(!own.contains("Votes"), "{own}");
}

#[tokio::test(flavor = "multi_thread")]
async fn boards_members_and_pages_are_found() {
    let (world, admin) = world().await;
    let _following = world.instances[0].follow_api_keys();
    let definition = json!({"windows": ["day"], "title": "Miles & more", "tags": ["air"]});
    admin.define("flights", definition).await;
    let mut browser = Browser::signed_in(world.client(), "an-admin").await;
    browser
        .read("/console/boards", &["href=\"/console/find\""])
        .await;
    let board = "href=\"/console/boards/flights\"";
    for query in ["fli", "flights", "miles+%26", "AIR"] {
        let found = browser.read(&format!("/console/find?q={query}"), &[]).await;
        let list = found.split_once("id=\"found\"").unwrap().1;
        assert_eq!(list.matches(board).count(), 1, "{query}: {found}");
        assert!(!list.contains("/boards/votes"), "{query}: {found}");
    }
    let found = browser.read("/console/find?q=%3Cb%3E+j", &[]).await;
    has(
        &found,
        &[
            "value=\"&#60;b&#62; j\"",
            "/console/member?member=%3Cb%3E+j",
        ],
    );
    let pages = ["<a href=\"/console/jobs\">Jobs <small>Page", "member=jobs"];
    browser.read("/console/find?q=jobs", &pages).await;
    // With the search of names, members are found by words of their names.
    let profile = json!({"name": "Ann Smith"});
    let named = admin.put("/v1/members/carol/profile", profile).await;
    named.expect(200);
    let found = browser.read("/console/find?q=smi", &[]).await;
    assert!(!found.contains("carol"), "{found}");
    let (url, clock) = (world.redis.url(), world.clock.clone());
    let finding = Instance::start_finding_names(&url, clock, KEYS).await;
    finding.engine.run(&NameIndex).await.unwrap();
    let mut moderator = Browser::signed_in(&finding.client, "an-admin").await;
    let parts = [
        "Ann Smith <small>Member carol",
        "/console/member?member=carol",
    ];
    moderator.read("/console/find?q=smi", &parts).await;
    // Nobody finds what it may not open.
    let grant = json!({"scopes": ["write"], "boards": ["votes"]});
    let (_, key) = make_key(&admin, "writers", grant).await;
    let mut writer = Browser::signed_in(world.client(), &key).await;
    for query in ["flights", "jobs", "audit"] {
        let path = format!("/console/find?q={query}");
        writer.read(&path, &["Nothing is called like this"]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn names_are_reviewed_and_profiles_are_changed() {
    let (world, admin) = world().await;
    let _following = world.instances[0].follow_api_keys();
    let writer = world.client().with_key("an-admin");
    let profile = |member: &str| format!("/v1/members/{}/profile", encoded(member));
    let picture = "https://img.example.com/a.png";
    for (member, name) in [("ann", "Ann"), ("bob", "Bob"), (SCRIPT, SCRIPT)] {
        let put = json!({"name": name, "avatar_url": picture});
        writer.put(&profile(member), put).await.expect(200);
    }
    let grant = json!({"scopes": ["moderate"], "boards": ["*"]});
    let (_, key) = make_key(&admin, "moderators", grant).await;
    let mut browser = Browser::signed_in(world.client(), &key).await;
    let names = "/console/names";
    let parts = [
        "Ann",
        "Bob",
        picture,
        "&#60;script&#62;",
        "configuration:admin",
    ];
    browser.read(names, &parts).await;
    let item = |member: &str, name: &str| {
        json!({"member": member, "name": name, "avatar_url": picture}).to_string()
    };
    let (ann, bob) = (item("ann", "Ann"), item("bob", "Bob"));
    let reason = ("reason", "looked at");
    let fields = [("approved", &*ann), reason];
    let left = browser.submit(names, &fields).await.expect(200);
    has(
        &left,
        &[
            "role=\"status\"",
            "Approved: <b>Ann</b>",
            "Undo",
            "Block all ticked",
        ],
    );
    assert!(
        !left.contains("Approve<span class=\"unseen\"> Ann<"),
        "{left}"
    );
    browser
        .submit(names, &[("blocked", &bob), reason])
        .await
        .expect(200);
    let status = async |member: &str| {
        let found = admin.get(&profile(member)).await.expect(200);
        found["review"]["status"].clone()
    };
    assert_eq!(status("ann").await, "approved");
    assert_eq!(status("bob").await, "blocked");
    let blocked = "/console/names?status=blocked";
    browser
        .read(blocked, &["Bob", "moderators", "looked at"])
        .await;
    // Many are reviewed at once, and the review is undone at once.
    let both = [("ticked", &*ann), ("ticked", &*bob)];
    let judged = async |browser: &mut Browser, verdict| {
        let fields = [&both[..], &[("verdict", verdict)]].concat();
        browser.submit(names, &fields).await.expect(200);
        (status("ann").await, status("bob").await)
    };
    let twice = |status: &str| (json!(status), json!(status));
    for verdict in ["pending", "approved", "pending"] {
        assert_eq!(judged(&mut browser, verdict).await, twice(verdict));
    }
    let none = browser.submit(names, &[("verdict", "approved")]).await;
    assert!(none.expect(200).contains("No name was ticked"));
    // A moderator that has seen another name judges nothing, and is told which one; the others are judged.
    let old = item(SCRIPT, "Old");
    let fields = [("ticked", &*old), ("ticked", &*bob), ("verdict", "blocked")];
    let changed = browser.submit(names, &fields).await.expect(412);
    has(
        &changed,
        &[
            "role=\"alert\"",
            "<b>Old</b>",
            "name-changed",
            "Blocked: <b>Bob</b>",
        ],
    );
    // The key that wrote a name can't approve it: it has no button for that.
    let mut operator = Browser::signed_in(world.client(), "an-admin").await;
    let told = ["Your key wrote it", "Block<span class=\"unseen\"> Ann"];
    let page = operator.read(names, &told).await;
    assert!(
        !page.contains("Approve<span") && !page.contains("name=\"ticked\""),
        "{page}"
    );
    let refused = operator.submit(names, &[("approved", &ann)]).await;
    has(
        &refused.expect(403),
        &["<b>Ann</b> (ann)", "another key", "href=\"/console/names\""],
    );

    // A profile is not for those who only moderate.
    let own = "/console/member?member=bob";
    let text = browser.read(own, &[">Hide</button>"]).await;
    assert!(!text.contains("Store the profile") && !text.contains("Erase"));
    let put = "/console/member/profile";
    let refused = browser.submit(put, &[("member", "bob"), ("name", "Rob")]);
    refused.await.expect(403);

    let grant = json!({"scopes": ["write", "moderate"], "boards": ["*"]});
    let (_, key) = make_key(&admin, "staff", grant).await;
    let mut staff = Browser::signed_in(world.client(), &key).await;
    staff
        .read(own, &["value=\"Bob\"", ">Approve</button>"])
        .await;
    let fields = [
        ("member", "bob"),
        ("ticked", &*bob),
        ("verdict", "approved"),
    ];
    let approved = staff.carry_out("/console/member/review", &fields).await;
    has(&approved, &["The name is approved", "Undo"]);
    let fields = [
        ("member", "bob"),
        ("name", "Rob"),
        ("attributes", "{\"country\": \"NZ\"}"),
    ];
    operator.carry_out(put, &fields).await;
    let found = admin.get(&profile("bob")).await.expect(200);
    assert_eq!(
        (&found["name"], &found["avatar_url"]),
        (&json!("Rob"), &json!(null))
    );
    assert_eq!(found["attributes"], json!({"country": "NZ"}));
    for (attributes, part) in [("{", "is not JSON"), ("[1]", "role=\"alert\"")] {
        let fields = [
            ("member", "bob"),
            ("name", "Kept"),
            ("attributes", attributes),
        ];
        let refused = operator.submit(put, &fields).await;
        assert!([400, 422].contains(&refused.status), "{}", refused.text);
        assert!(refused.text.contains(part) && refused.text.contains("value=\"Kept\""));
    }
    let delete = "/console/member/delete-profile";
    let deleted = operator.confirm(delete, &[("member", "bob")], "bob").await;
    operator
        .read(deleted.leads_to(), &["Give it a profile"])
        .await;
    let gone = admin.get(&profile("bob")).await;
    gone.expect_problem(404, "profile-not-found");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tier_of_a_league_member_can_be_set() {
    let (world, admin) = world().await;
    let league = json!({"tiers": [
        {"name": "bronze", "promote": 0.3, "demote": 0},
        {"name": "silver", "promote": 0, "demote": 0.2},
    ]});
    let definition = json!({"windows": ["week"], "score_min": 0, "league": league});
    admin.define("league", definition).await;
    super::post(&admin, "league", &[("ann", 3)]).await;
    let mut browser = Browser::signed_in(world.client(), "an-admin").await;
    let member = "/console/boards/league/standings/week/member?member=ann";
    browser
        .read(
            member,
            &["bronze-1", "Choose a tier", "<option>silver</option>"],
        )
        .await;
    let to_order = "/console/boards/league/tier";
    let order = |tier| [("member", "ann"), ("window", "week"), ("tier", tier)];
    let unchosen = [&order("")[..], &[("confirm", "ann")]].concat();
    browser.refuse(to_order, &unchosen, &["Tier: "]).await;
    let ordered = browser.confirm(to_order, &order("silver"), "ann").await;
    let ordered = browser.read(ordered.leads_to(), &["role=\"status\""]).await;
    assert!(ordered.contains("Ordered from 2026-11-23 on"), "{ordered}");
    let state = admin
        .get("/v1/boards/league/league/members/ann")
        .await
        .expect(200);
    assert_eq!(state["order"]["tier"], "silver");

    // A member joins and leaves; whoever may not write sees no form for it.
    let member = "/console/boards/league/standings/week/member?member=dan";
    browser.read(member, &["no seat", "/join", "/leave"]).await;
    let place = [("member", "dan"), ("window", "week")];
    let join = "/console/boards/league/join";
    let joined = browser.carry_out(join, &place).await;
    assert!(joined.contains("2 of 2"), "{joined}");
    let left = browser
        .carry_out("/console/boards/league/leave", &place)
        .await;
    assert!(left.contains("from 2026-11-23 on"), "{left}");
    let at = "/v1/boards/league/league/members/dan";
    let state = async || admin.get(at).await.expect(200)["left_from"].clone();
    assert_eq!(state().await, "2026-11-23");
    browser.carry_out(join, &place).await;
    assert_eq!(state().await, Value::Null);
    let mut reader = Browser::signed_in(world.client(), "a-reader").await;
    let page = reader.read(member, &["2 of 2"]).await;
    assert!(!page.contains("/join"), "{page}");
    let other = browser
        .read("/console/boards/votes/standings/day/member?member=ann", &[])
        .await;
    assert!(!other.contains("/join"), "{other}");
}

/// Lines that are filled in, and what is to be done with them.
fn with<'a>(text: &'a str, step: &'a str) -> [(&'a str, &'a str); 2] {
    [("profiles", text), ("step", step)]
}

#[tokio::test(flavor = "multi_thread")]
async fn profiles_are_read_from_lines_and_each_wrong_line_is_reported() {
    let (world, admin) = world().await;
    let mut browser = Browser::signed_in(world.client(), "an-admin").await;
    let page = "/console/profiles";
    browser.read("/console/members", &[page]).await;
    browser.read(page, &["Members and their names"]).await;
    let script = format!("\"{}\",\"{}\"", SCRIPT.replace('"', "\"\""), "Eve");
    let text = format!("member,name\r\nann,Ann the Great\r\n{script}\r\n");
    let preview = browser
        .submit(page, &with(&text, "preview"))
        .await
        .expect(200);
    for part in [
        "2 profiles would be stored",
        "Ann the Great",
        "value=\"save\"",
    ] {
        assert!(preview.contains(part), "{part}: {preview}");
    }
    let name = async |member: &str| {
        let at = format!("/v1/members/{}/profile", encoded(member));
        admin.get(&at).await.json["name"].clone()
    };
    assert_eq!(name("ann").await, Value::Null);
    let stored = browser.carry_out(page, &with(&text, "save")).await;
    assert!(stored.contains("The profiles are stored"), "{stored}");
    let names = (name("ann").await, name(SCRIPT).await);
    assert_eq!(names, (json!("Ann the Great"), json!("Eve")));
    // What can't be read is told, and nothing is done; what the service refuses is told, and the rest is stored.
    let unread = ["Line 2: ", "Line 3: ", "ann,Ann", "aria-invalid"];
    browser
        .refuse(page, &with("ann,Ann\nbob\ncid,Cid,,{", "save"), &unread)
        .await;
    assert_eq!(name("ann").await, "Ann the Great");
    let refused = ["2 profiles are stored", "Line 2: "];
    let text = "ann,Ann\nbob,Bob,http://plain\n\ncid,Cid";
    let page_now = browser.refuse(page, &with(text, "save"), &refused).await;
    assert!(!page_now.contains("Line 1: "), "{page_now}");
    assert_eq!(
        (name("ann").await, name("cid").await),
        (json!("Ann"), json!("Cid"))
    );
    let many: Vec<String> = (0..1_001).map(|number| format!("m{number},M")).collect();
    browser
        .refuse(
            page,
            &with(&many.join("\n"), "save"),
            &["1 to 1000 profiles"],
        )
        .await;
    let mut reader = Browser::signed_in(world.client(), "a-reader").await;
    reader.get(page).await.expect(403);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_use_of_quotas_is_shown() {
    let (world, admin) = world().await;
    let quota = json!({"name": "voter-day", "by": ["voter"], "window": "day", "max": 2});
    let definition = json!({"windows": ["day"], "quotas": [quota]});
    admin.define("poll", definition).await;
    for id in ["1", "2"] {
        let vote = json!({"id": id, "member": "ann", "score": 1, "voter": "v-1"});
        admin.post("/v1/boards/poll/events", vote).await.expect(200);
    }
    let mut browser = Browser::signed_in(world.client(), "an-admin").await;
    let page = "/console/boards/poll/quotas";
    browser.read(page, &["Name a voter", "name=\"ip\""]).await;
    let used = ["voter-day", "used up", "2026-11-22 00:00:00 UTC"];
    browser.read(&format!("{page}?voter=v-1"), &used).await;
    let other = browser
        .read(&format!("{page}?voter=v-2"), &["voter-day"])
        .await;
    assert!(!other.contains("used up"), "{other}");
    let mut reader = Browser::signed_in(world.client(), "a-reader").await;
    let text = reader.read(page, &["name=\"channel\""]).await;
    assert!(!text.contains("name=\"voter\""), "{text}");
    let asked = reader.get(&format!("{page}?voter=v-1")).await;
    asked.expect(403);
}
