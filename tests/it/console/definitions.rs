//! Defining boards by the form.

use serde_json::{Value, json};
use standings::boards::templates::{TEMPLATES, Template};

use super::browser::Browser;
use super::{SCRIPT, world};

#[tokio::test(flavor = "multi_thread")]
async fn a_board_is_defined_and_changed_after_a_preview() {
    let (world, admin) = world().await;
    let mut browser = Browser::signed_in(world.client(), "an-admin").await;
    let form = browser.get("/console/define").await.expect(200);
    for part in [
        "name=\"finalize\"",
        "name=\"quotas.0.name\"",
        "1, 2, 2, 4: shared",
        "<option value=\"Europe/Berlin\">",
    ] {
        assert!(form.contains(part), "{part}: {form}");
    }
    assert!(!form.contains("value=\"save\""), "first one looks");
    for Template {
        id, name, fields, ..
    } in TEMPLATES
    {
        let link = format!("href=\"/console/define?template={id}\"");
        assert!(form.contains(&link), "{id}: {form}");
        let path = format!("/console/define?template={id}");
        let filled = browser.get(&path).await.expect(200);
        let fields: Value = serde_json::from_str(fields).unwrap();
        let title = format!("value=\"{}\"", fields["title"].as_str().unwrap());
        let made = admin.put(&format!("/v1/boards/{id}"), fields).await;
        made.expect(201);
        assert!(filled.contains(&title), "{name}: {filled}");
    }
    let new = [
        ("board", "runs"),
        ("etag", ""),
        ("title", SCRIPT),
        ("windows", "week"),
        ("windows.more", "day, last-24-hours"),
        ("timezone", "Europe/Berlin"),
        ("closes_at", "2026-12-24T18:00"),
        ("accept_late", "2"),
        ("accept_late.unit", "d"),
        ("finalize", "10"),
        ("finalize.unit", "m"),
        ("decimals", "1"),
        ("public", "true"),
        ("quotas.0.name", "gone"),
        ("quotas.0.remove", "true"),
        ("quotas.1.name", "q"),
        ("quotas.1.by", "voter"),
        ("quotas.1.by", "channel"),
        ("quotas.1.window", "day"),
        ("quotas.1.max", "1"),
        ("quotas.1.measure", "events"),
        ("quotas.1.extra", "tv, radio: 2"),
        ("quotas.2.measure", "events"),
        ("rewards.0.id", "podium"),
        ("rewards.0.window", "day"),
        ("rewards.0.ranks", "1-3"),
        ("rewards.0.reward", "medal"),
        ("league.idle", "keep"),
    ];
    let with = |step| [&new[..], &[("step", step)]].concat();
    let review = browser
        .submit("/console/define", &with("preview"))
        .await
        .expect(200);
    for part in [
        "will be created",
        "2026-11-22 00:00:00",
        "Europe/Berlin",
        "2026-12-24 18:00",
        "10 minutes",
        "podium, window Day, ranks 1-3, wins medal",
        "q, counts by Voter, Channel, within day, at most 1, of Events, more by channel tv, radio: 2",
        "-X PUT",
        "value=\"save\"",
        "Back to the form",
    ] {
        assert!(review.contains(part), "{part}: {review}");
    }
    assert!(
        !review.contains("gone") && !review.contains("name=\"title\""),
        "{review}"
    );
    admin
        .get("/v1/boards/runs")
        .await
        .expect_problem(404, "board-not-found");
    let saved = browser.submit("/console/define", &with("save")).await;
    assert_eq!(saved.leads_to(), "/console/boards/runs?done=created");
    let next = [
        "role=\"status\"",
        "The board is created",
        "-X POST",
        "/v1/boards/runs/events",
    ];
    browser.read(saved.leads_to(), &next).await;
    let board = admin.get("/v1/boards/runs").await.expect(200);
    assert_eq!(board["title"], SCRIPT);
    assert_eq!(
        (&board["decimals"], &board["public"]),
        (&json!(1), &json!(true))
    );
    assert_eq!(board["windows"], json!(["week", "day", "last-24-hours"]));
    let quota = json!({"name": "q", "by": ["voter", "channel"], "window": "day", "max": 1,
        "measure": "events", "extra": [{"channel": ["tv", "radio"], "max": 2}]});
    assert_eq!(board["quotas"], json!([quota]));
    assert_eq!(board["rewards"][0]["ranks"], json!([1, 3]));
    assert_eq!(board["closes_at"], "2026-12-24T17:00:00.000Z");
    assert_eq!(
        (&board["accept_late"], &board["finalize"]),
        (&json!("2d"), &json!("10m"))
    );
    assert_eq!(board["league"], Value::Null);
    // The same again is no change of a board that is there by now.
    let again = browser
        .submit("/console/define", &with("save"))
        .await
        .expect(422);
    assert!(again.contains("there is a board runs already"), "{again}");

    // What is wrong is said beside its setting, in words, and nothing that was filled in is lost.
    let wrong = [
        ("board", ""),
        ("title", "Kept"),
        ("decimals", "many"),
        ("finalize", "soon"),
        ("finalize.unit", "m"),
        ("opens_at", "tomorrow"),
        ("quotas.0.name", "q"),
        ("rewards.0.ranks", "first"),
    ];
    let said = [
        "value=\"Kept\"",
        "aria-invalid",
        "The id is missing",
        "Decimals is not a number",
        "value=\"many\"",
        "Results become final is not a whole number",
        "Opens is not a date and a time",
        "At most is missing",
        "Ranks must be ranks, such as 1-3",
        "Rewards 1, Ranks: must be",
    ];
    browser.refuse("/console/define", &wrong, &said).await;
    let wrong = [
        ("board", "runs2"),
        ("timezone", "Europe/Atlantis"),
        ("windows.more", "daily"),
    ];
    let said = [
        "Time zone ",
        "is not an IANA time zone",
        "Windows",
        "value=\"daily\" checked",
    ];
    browser.refuse("/console/define", &wrong, &said).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_is_edited_as_json_or_in_the_form_and_never_both() {
    let (world, admin) = world().await;
    let mut browser = Browser::signed_in(world.client(), "an-admin").await;
    browser.get("/console/define").await.expect(200);
    let fields = [
        ("board", "b"),
        ("title", "Runs"),
        ("windows", "day"),
        ("step", "json"),
    ];
    let json = browser.submit("/console/define", &fields).await.expect(200);
    assert!(
        json.contains("name=\"definition\"") && json.contains("&#34;Runs&#34;"),
        "{json}"
    );
    assert!(!json.contains("name=\"title\""), "{json}");
    let with = |text, step| {
        [
            ("board", "b"),
            ("as", "json"),
            ("definition", text),
            ("step", step),
        ]
    };
    let text = "{\"title\": \"Sums\", \"quotas\": [{\"name\": \"q\", \"by\": [\"voter\"], \"window\": \"day\", \"max\": 1}]}";
    let form = browser
        .submit("/console/define", &with(text, "form"))
        .await
        .expect(200);
    for part in [
        "value=\"Sums\"",
        "name=\"quotas.0.name\" value=\"q\"",
        "name=\"quotas.1.name\" value=\"\"",
    ] {
        assert!(form.contains(part), "{part}: {form}");
    }
    assert!(!form.contains("name=\"definition\""), "{form}");
    browser
        .refuse("/console/define", &with("{", "preview"), &["is not JSON"])
        .await;
    let review = browser
        .submit("/console/define", &with(text, "preview"))
        .await
        .expect(200);
    assert!(
        review.contains("value=\"json\""),
        "back to the JSON: {review}"
    );
    let saved = browser.submit("/console/define", &with(text, "save")).await;
    assert_eq!(saved.leads_to(), "/console/boards/b?done=created");
    assert_eq!(admin.get("/v1/boards/b").await.expect(200)["title"], "Sums");
    let page = "/console/boards/b/definition";
    browser
        .read(
            page,
            &[
                "Sums",
                "q, counts by Voter",
                "All scores, added up",
                "48 hours",
            ],
        )
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_change_ends_or_deletes_is_confirmed() {
    let (world, admin) = world().await;
    let mut browser = Browser::signed_in(world.client(), "an-admin").await;
    let etag = admin.get("/v1/boards/votes").await.headers["etag"]
        .to_str()
        .unwrap()
        .to_owned();
    browser.get("/console/define?board=votes").await.expect(200);
    let form = |windows, closes_at| {
        [
            ("board", "votes"),
            ("etag", etag.as_str()),
            ("title", "Votes"),
            ("windows", windows),
            ("accept_late.unit", "any"),
            ("closes_at", closes_at),
            ("finalize", "10"),
            ("finalize.unit", "m"),
        ]
    };
    // The first `finalize` promises nothing to periods that have ended.
    let fields = [
        &form("day", "")[..],
        &[("windows", "all"), ("step", "preview")],
    ]
    .concat();
    let review = browser.submit("/console/define", &fields).await.expect(200);
    assert!(
        review.contains("never get a result") && review.contains("One setting changes"),
        "{review}"
    );
    assert!(
        !review.contains("name=\"confirm\"") && !review.contains("Decimals"),
        "{review}"
    );
    let fields = [&form("day", "")[..], &[("step", "preview")]].concat();
    let review = browser.submit("/console/define", &fields).await.expect(200);
    for part in [
        "All data of all is deleted",
        "Type <code>all</code>",
        "Nothing is saved yet",
    ] {
        assert!(review.contains(part), "{part}: {review}");
    }
    let definition =
        json!({"title": "Votes", "windows": ["day"], "accept_late": "any"}).to_string();
    let saved = [
        ("board", "votes"),
        ("etag", etag.as_str()),
        ("definition", definition.as_str()),
        ("drop_windows", "all"),
        ("must_confirm", "all"),
        ("step", "save"),
    ];
    let saved = browser.confirm("/console/define", &saved, "all").await;
    assert_eq!(
        saved.leads_to(),
        "/console/boards/votes/definition?done=changed"
    );
    let board = admin.get("/v1/boards/votes").await.expect(200);
    assert_eq!(board["windows"], json!(["day"]));
    let outdated = [
        ("board", "votes"),
        ("etag", etag.as_str()),
        ("definition", definition.as_str()),
        ("step", "save"),
    ];
    browser
        .submit("/console/define", &outdated)
        .await
        .expect(412);
    // A time that is over closes the board at once.
    let etag = admin.get("/v1/boards/votes").await.headers["etag"]
        .to_str()
        .unwrap()
        .to_owned();
    let over = json!({"windows": ["day"], "closes_at": "2026-11-21T11:00:00Z"}).to_string();
    let over = [
        ("board", "votes"),
        ("etag", etag.as_str()),
        ("definition", over.as_str()),
        ("step", "preview"),
    ];
    let review = browser.submit("/console/define", &over).await.expect(200);
    for part in ["The board closes at once", "Type <code>votes</code>"] {
        assert!(review.contains(part), "{part}: {review}");
    }
}
