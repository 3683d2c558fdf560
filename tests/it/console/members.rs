//! Members: hiding and erasing them, their profiles and reviews.

use serde_json::{Value, json};

use super::browser::Browser;
use super::{SCRIPT, encoded, world};
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
        page.contains("1 of 2") && page.contains("Why is bob to be hidden?"),
        "{page}"
    );
    let place = [("member", "bob"), ("window", "day"), ("key", "2026-11-21")];
    let hide = "/console/boards/votes/hide";
    let without_reason = browser.submit(hide, &place).await;
    let text = without_reason.expect(422);
    assert!(
        text.contains("/reason") && text.contains("What to do"),
        "{text}"
    );
    let why = [("reason", "cheating"), ("until", "2026-11-30T08:30")];
    let hidden = browser.submit(hide, &[&place[..], &why].concat()).await;
    let to = hidden.leads_to().to_owned();
    assert_eq!(to, format!("{member}&done=hidden"));
    let page = browser.get(&to).await.expect(200);
    assert!(
        page.contains("role=\"status\"") && page.contains("Bring back"),
        "{page}"
    );
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
    assert!(!page.contains("bob") && page.contains("1 member"), "{page}");
    let page = browser
        .get(&format!("{standing}?hidden=include"))
        .await
        .expect(200);
    assert!(
        page.contains("member=bob&#38;key=2026-11-21&#38;hidden=include")
            && page.contains("hidden ones too"),
        "{page}"
    );
    let mut reader = Browser::signed_in(world.client(), "a-reader").await;
    let public = reader.read(ann, &["1 of 1"]).await;
    assert!(!public.contains("hidden members"), "{public}");
    reader.get(&format!("{ann}{all}")).await.expect(403);
    let page = browser
        .get("/console/boards/votes/hidden")
        .await
        .expect(200);
    for part in ["bob", "cheating", "moderators", "2026-11-30 08:30:00 UTC"] {
        assert!(page.contains(part), "{part}: {page}");
    }
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
    let parts = ["not in this standing", "Why is nobody to be hidden?"];
    browser.read(member, &parts).await;
    let place = [("member", "nobody"), ("window", "day")];
    let fields = [&place[..], &[("reason", "spam & more")]].concat();
    let hidden = browser
        .carry_out("/console/boards/votes/hide", &fields)
        .await;
    assert!(hidden.contains("spam &#38; more") && hidden.contains("Bring back"));
    let hidden_at = "/v1/boards/votes/hidden/nobody";
    let told = admin.get(hidden_at).await.expect(200);
    let list = admin.get("/v1/boards/votes/hidden").await.expect(200);
    assert_eq!(told, list["hidden"][0]);
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
    browser
        .read("/console/member?member=eve", &["Hide on all boards"])
        .await;
    browser.refuse(order, &hide, &["/reason"]).await;
    let why = [("reason", SCRIPT), ("until", "2026-12-24T08:30")];
    let hidden = browser.submit(order, &[&hide[..], &why].concat()).await;
    let job = hidden.leads_to().to_owned();
    browser
        .read(&job, &["Hide &#60;script&#62;alert(&#39;x&#39;)"])
        .await;
    let orders = async || admin.get("/v1/moderation").await.expect(200)["hidden"].clone();
    let given = orders().await;
    assert_eq!(
        (&given[0]["member"], &given[0]["reason"]),
        (&json!(SCRIPT), &json!(SCRIPT))
    );
    assert_eq!(given[0]["until"], "2026-12-24T08:30:00.000Z");
    browser
        .read(list, &["2026-12-24 08:30:00 UTC", "&#60;script&#62;"])
        .await;
    let back = [("member", SCRIPT), ("action", "unhide")];
    let back = browser.submit(order, &back).await;
    browser.read(back.leads_to(), &["back on all boards"]).await;
    assert_eq!(orders().await, json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_is_shown_across_boards() {
    let (world, admin) = world().await;
    let _following = world.instances[0].follow_api_keys();
    admin.define("other", json!({"windows": ["day"]})).await;
    super::post(&admin, "other", &[("ann", 2), ("bob", 7)]).await;
    admin.define("weekly", json!({"windows": ["week"]})).await;
    let profile = json!({"name": SCRIPT});
    let named = admin.put("/v1/members/ann/profile", profile).await;
    named.expect(200);
    let hide = json!({"reason": "cheating & more"});
    let hidden = admin.put("/v1/boards/other/hidden/ann", hide).await;
    hidden.expect(200);

    // Who may list boards sees all that have the window, and how the member is hidden.
    let mut browser = Browser::signed_in(world.client(), "an-admin").await;
    let from = "/console/boards/votes/standings/day/member?member=ann";
    let page = "/console/member/standings?member=ann";
    browser
        .read(from, &[&format!("{page}&#38;window=day")])
        .await;
    let parts = [
        "&#60;script&#62;",
        ">votes</a>",
        "2 of 2",
        ">other</a>",
        "none of 1",
        "cheating &#38; more",
        "/v1/members/ann/standings?boards=other%2Cvotes",
    ];
    let all = browser.read(page, &parts).await;
    assert!(!all.contains("weekly") && !all.contains(SCRIPT), "{all}");
    let own = browser.read("/console/member?member=ann", &[page]).await;
    assert!(own.contains("Profile"), "{own}");
    let week = browser
        .read(&format!("{page}&window=week"), &["none of 0"])
        .await;
    assert!(!week.contains(">votes</a>"), "{week}");

    // Who may only read some boards names them, sees no hidden member, and is told where nothing is for it.
    let grant = json!({"scopes": ["read"], "boards": ["votes", "weekly"]});
    let (_, key) = make_key(&admin, "readers", grant).await;
    let mut reader = Browser::signed_in(world.client(), &key).await;
    let to = format!("{page}&#38;boards=votes&#38;window=day");
    reader.read(from, &[&to]).await;
    reader.read(page, &["Name boards and a window"]).await;
    let asked = format!("{page}&boards=votes,+weekly+other&window=day");
    let parts = ["2 of 2", "/problems/unknown-window", "/problems/forbidden"];
    let text = reader.read(&asked, &parts).await;
    assert!(!text.contains("cheating") && !text.contains("/console/members"));
    let mut reader = Browser::signed_in(world.client(), "a-reader").await;
    let asked = format!("{page}&boards=votes,other&window=day");
    let text = reader.read(&asked, &["2 of 2", "none of 1"]).await;
    assert!(!text.contains("cheating"), "{text}");

    // A key that may read nothing has no such page.
    let grant = json!({"scopes": ["write"], "boards": ["*"]});
    let (_, key) = make_key(&admin, "writers", grant).await;
    let mut writer = Browser::signed_in(world.client(), &key).await;
    writer.get(page).await.expect(403);
    let own = writer
        .read("/console/member?member=ann", &["Profile"])
        .await;
    assert!(!own.contains(page), "{own}");
}

#[tokio::test(flavor = "multi_thread")]
async fn names_are_reviewed_and_profiles_are_changed() {
    let (world, admin) = world().await;
    let _following = world.instances[0].follow_api_keys();
    let writer = world.client().with_key("an-admin");
    let profile = |member: &str| format!("/v1/members/{}/profile", encoded(member));
    for (member, name) in [("ann", "Ann"), ("bob", "Bob"), (SCRIPT, SCRIPT)] {
        let put = json!({"name": name, "avatar_url": "https://img.example.com/a.png"});
        writer.put(&profile(member), put).await.expect(200);
    }
    let grant = json!({"scopes": ["moderate"], "boards": ["*"]});
    let (_, key) = make_key(&admin, "moderators", grant).await;
    let mut browser = Browser::signed_in(world.client(), &key).await;
    let names = "/console/names";
    let parts = [
        "Ann",
        "Bob",
        "https://img.example.com/a.png",
        "&#60;script&#62;",
    ];
    browser.read(names, &parts).await;
    let verdict = |member, name, verdict| {
        [
            ("member", member),
            ("name", name),
            ("avatar_url", "https://img.example.com/a.png"),
            ("list", "names"),
            ("status", ""),
            ("verdict", verdict),
            ("reason", "looked at"),
        ]
    };
    let review = "/console/member/review";
    let left = browser
        .carry_out(review, &verdict("ann", "Ann", "approved"))
        .await;
    assert!(!left.contains(">Ann<"), "{left}");
    browser
        .carry_out(review, &verdict("bob", "Bob", "blocked"))
        .await;
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
    // Who has seen another name judges nothing.
    let changed = verdict(SCRIPT, "Old", "approved");
    let changed = browser.submit(review, &changed).await;
    assert!(changed.expect(412).contains("name-changed"));
    // A profile is not for those who only moderate.
    let own = "/console/member?member=bob";
    let text = browser.read(own, &["Hide on all boards"]).await;
    assert!(!text.contains("Store the profile") && !text.contains("Erase"));
    let put = "/console/member/profile";
    let refused = browser.submit(put, &[("member", "bob"), ("name", "Rob")]);
    refused.await.expect(403);

    let mut operator = Browser::signed_in(world.client(), "an-admin").await;
    operator.read(own, &["value=\"Bob\"", "Approve"]).await;
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
    operator.read(deleted.leads_to(), &["has no profile"]).await;
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
    browser.refuse(to_order, &unchosen, &["/tier"]).await;
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
