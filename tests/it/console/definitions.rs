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
        "name=\"quotas\"",
        "<option>competition</option>",
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
        ("windows", "day\r\nweek\r\n"),
        ("decimals", "1"),
        ("public", "true"),
        (
            "quotas",
            "[{\"name\": \"q\", \"by\": [\"voter\"], \"window\": \"day\", \"max\": 1}]",
        ),
    ];
    let with = |step| [&new[..], &[("step", step)]].concat();
    let preview = browser
        .submit("/console/define", &with("preview"))
        .await
        .expect(200);
    for part in [
        "would be created",
        "2026-11-22T00:00:00Z",
        "-X PUT",
        "value=\"save\"",
    ] {
        assert!(preview.contains(part), "{part}: {preview}");
    }
    admin
        .get("/v1/boards/runs")
        .await
        .expect_problem(404, "board-not-found");
    let saved = browser.submit("/console/define", &with("save")).await;
    assert_eq!(saved.leads_to(), "/console/boards/runs/definition");
    let board = admin.get("/v1/boards/runs").await.expect(200);
    assert_eq!(board["title"], SCRIPT);
    assert_eq!(
        (&board["decimals"], &board["public"]),
        (&json!(1), &json!(true))
    );
    assert_eq!(board["windows"], json!(["day", "week"]));
    assert_eq!(board["quotas"][0]["name"], "q");
    // The same again is no change of a board that is there by now.
    let again = browser
        .submit("/console/define", &with("save"))
        .await
        .expect(422);
    assert!(again.contains("there is a board runs already"), "{again}");

    // What is wrong stands beside its setting, and nothing that was filled in is lost.
    let wrong = [
        ("board", "runs2"),
        ("windows", "daily"),
        ("title", "Kept"),
        ("quotas", "["),
    ];
    let text = browser.submit("/console/define", &wrong).await.expect(422);
    assert!(
        text.contains("is not JSON") && text.contains("value=\"Kept\""),
        "{text}"
    );
    let wrong = [
        ("board", "runs2"),
        ("windows", "daily"),
        ("decimals", "many"),
    ];
    let text = browser.submit("/console/define", &wrong).await.expect(422);
    assert!(
        text.contains("/decimals") && text.contains("aria-invalid"),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_board_changes_only_if_its_definition_was_read() {
    let (world, admin) = world().await;
    let mut browser = Browser::signed_in(world.client(), "an-admin").await;
    let form = browser.get("/console/define?board=votes").await.expect(200);
    let (_, etag) = form.split_once("name=\"etag\" value=\"").unwrap();
    let etag = etag.split_once("\">").unwrap().0.replace("&#34;", "\"");
    let change = |windows, dropped, step| {
        [
            ("board", "votes"),
            ("etag", etag.as_str()),
            ("title", "Votes"),
            ("windows", windows),
            ("accept_late", "any"),
            ("timezone", "UTC"),
            ("idempotency", "1h"),
            ("drop_windows", dropped),
            ("step", step),
        ]
    };
    let preview = browser
        .submit("/console/define", &change("day\nweek\nall", "", "preview"))
        .await
        .expect(200);
    assert!(preview.contains("<code>windows</code>"), "{preview}");
    let refused = browser
        .submit("/console/define", &change("day", "", "save"))
        .await;
    assert!(refused.expect(409).contains("all"));
    let saved = browser
        .submit("/console/define", &change("day", "all", "save"))
        .await;
    saved.leads_to();
    let board = admin.get("/v1/boards/votes").await.expect(200);
    assert_eq!(board["windows"], json!(["day"]));
    let outdated = browser
        .submit("/console/define", &change("day\nall", "", "save"))
        .await;
    outdated.expect(412);
}
