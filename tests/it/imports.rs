//! `standings import` against a real service: what an export of a standing gave can be imported again.

use std::process::Stdio;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::jobs::ClosePeriods;
use crate::harness::program::without_settings;
use crate::harness::{Client, World};

/// The events of a day, each a second after the one before.
const EVENTS: [(&str, f64); 9] = [
    ("=cid", 5.0),
    ("'x", 3.0),
    ("\u{1f600}", 5.0),
    ("ann", -1.5),
    ("'x", 2.0),
    ("bob, \"b\"", 0.25),
    ("ann", 6.5),
    ("-7", 0.25),
    ("=cid", 0.0),
];

/// Runs an import, and returns its summary.
async fn import(client: &Client, folder: &TempDir, args: &[&str]) -> String {
    let output = without_settings(&[])
        .arg("import")
        .args(args)
        .args(["--url", &client.base])
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap();
    let [said, error] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert!(output.status.success(), "{said}{error}");
    said
}

/// The entries of the day, with profiles.
async fn entries(client: &Client, board: &str) -> Value {
    let path = format!("/v1/boards/{board}/standings/day?key=2026-11-20&include=profile");
    client.get(&path).await.expect(200)["entries"].take()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exported_standing_can_be_imported_again() {
    let world = World::start("2026-11-20T09:00:00Z").await;
    let other = World::start("2026-11-25T12:00:00Z").await;
    let folder = TempDir::new().unwrap();
    let client = world.client();
    let boards: Vec<(String, Value)> = ["first", "last", "member"]
        .into_iter()
        .flat_map(|ties| ["sum", "max", "last", "min"].map(|update| (ties, update)))
        .map(|(ties, update)| {
            let order = if update == "min" { "asc" } else { "desc" };
            let rules = json!({"windows": ["day"], "ties": ties, "update": update, "order": order, "decimals": 2});
            (format!("{ties}-{update}"), rules)
        })
        .collect();
    for (board, rules) in &boards {
        let mut definition = rules.clone();
        definition["finalize"] = json!("0s");
        client.define(board, definition).await;
    }
    world.set_time("2026-11-20T12:00:00Z");
    let profiles = ["=cid", "\u{1f600}", "ann"].map(|member| {
        json!({"member": member, "name": format!("={member}"), "avatar_url": "https://img.example.com/a.png", "attributes": {"n": [1.5, "'"]}})
    });
    let stored = client
        .post("/v1/profiles", json!({"profiles": profiles}))
        .await
        .expect(200);
    assert!(
        stored["results"]
            .as_array()
            .unwrap()
            .iter()
            .all(|result| result["status"] == "stored"),
        "{stored}"
    );
    for (board, _) in &boards {
        let events: Vec<Value> = (0..).zip(EVENTS).map(|(second, (member, score))| {
            json!({"board": board, "member": member, "score": score, "at": format!("2026-11-20T10:00:0{second}.000001Z")})
        }).collect();
        let taken = client
            .post("/v1/events", json!({"events": events}))
            .await
            .expect(200);
        assert!(
            taken["results"]
                .as_array()
                .unwrap()
                .iter()
                .all(|result| result["status"] != "rejected"),
            "{taken}"
        );
    }
    world.set_time("2026-11-21T00:00:01Z");
    world.engine().run(&ClosePeriods).await.unwrap();

    for (board, rules) in &boards {
        let original = entries(client, board).await;
        assert_eq!(original.as_array().unwrap().len(), 6);
        for format in ["csv", "ndjson"] {
            let path = format!(
                "/v1/boards/{board}/standings/day/periods/2026-11-20/export?include=profile&format={format}"
            );
            let export = client.get(&path).await;
            assert_eq!(export.status, 200, "{}", export.text);
            let (file, copy) = (format!("{board}.{format}"), format!("{board}-{format}"));
            std::fs::write(folder.path().join(&file), &export.text).unwrap();
            let mut definition = rules.clone();
            definition["accept_late"] = json!("any");
            other.client().define(&copy, definition).await;
            let args = [
                &file,
                "--board",
                &copy,
                "--from-export",
                "--profiles",
                "--at",
                "2026-11-20T10:00:00Z",
            ];
            let said = import(other.client(), &folder, &args).await;
            assert!(said.contains("rejected              0"), "{said}");
            assert_eq!(entries(other.client(), &copy).await, original, "{copy}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_profile_that_the_service_rejects_is_reported_with_its_row() {
    let world = World::start("2026-11-20T09:00:00Z").await;
    let folder = TempDir::new().unwrap();
    world
        .client()
        .define("b", json!({"windows": ["day"], "accept_late": "any"}))
        .await;
    let rows = "member,score,name,avatar_url\nann,1,Ann,\nbob,2,Bob,http://img/b.png\n";
    std::fs::write(folder.path().join("a.csv"), rows).unwrap();
    let output = without_settings(&[])
        .args([
            "import",
            "a.csv",
            "--board",
            "b",
            "--profiles",
            "--at",
            "2026-11-20T08:00:00Z",
        ])
        .args(["--rejects", "rejects.csv", "--url", &world.client().base])
        .current_dir(folder.path())
        .output()
        .await
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let rejects = std::fs::read_to_string(folder.path().join("rejects.csv")).unwrap();
    let row = "line 3: validation-failed: profile: /avatar_url: must begin with https://,bob,,Bob,http://img/b.png\n";
    assert_eq!(
        rejects,
        format!("rejection,member,score,name,avatar_url\n{row}")
    );

    std::fs::write(
        folder.path().join("fixed.csv"),
        rejects.replace(",http://img", ",https://img"),
    )
    .unwrap();
    import(
        world.client(),
        &folder,
        &["fixed.csv", "--board", "b", "--profiles"],
    )
    .await;
    let entries = entries(world.client(), "b").await;
    let shown: Vec<_> = entries
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| (&entry["score"], &entry["profile"]["name"]))
        .collect();
    assert_eq!(
        shown,
        [(&json!(2), &json!("Bob")), (&json!(1), &json!("Ann"))]
    );
}
