//! Pages, members and subsets, by example. The property test compares all of them with a model.

use serde_json::{Value, json};

use crate::harness::World;

async fn world(definition: Value, events: &[(&str, i64, &str)]) -> World {
    let world = World::start("2026-11-21T12:00:00Z").await;
    let client = world.client();
    client.define("b", definition).await;
    for (member, score, at) in events {
        let event = json!({"member": member, "score": score, "at": at});
        client.post("/v1/boards/b/events", event).await.expect(200);
    }
    world
}

#[tokio::test(flavor = "multi_thread")]
async fn ranks_count_as_the_board_says() {
    let events = [
        ("d", 1, "2026-11-21T00:00:00Z"),
        ("b", 3, "2026-11-21T02:00:00Z"),
        ("c", 3, "2026-11-21T01:00:00Z"),
        ("a", 5, "2026-11-21T00:00:00Z"),
    ];
    for (ranking, ranks) in [
        ("ordinal", [1, 2, 3, 4]),
        ("competition", [1, 2, 2, 4]),
        ("dense", [1, 2, 2, 3]),
    ] {
        let world = world(json!({"windows": ["day"], "ranking": ranking}), &events).await;
        let client = world.client();
        let page = client.get("/v1/boards/b/standings/day").await.expect(200);
        let found: Vec<(u64, &str)> = page["entries"]
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| {
                (
                    entry["rank"].as_u64().unwrap(),
                    entry["member"].as_str().unwrap(),
                )
            })
            .collect();
        let expected: Vec<(u64, &str)> = ranks.into_iter().zip(["a", "c", "b", "d"]).collect();
        assert_eq!(found, expected, "{ranking}: the tie goes to who came first");
        for (place, (rank, member)) in expected.into_iter().enumerate() {
            let page = client
                .get(&format!(
                    "/v1/boards/b/standings/day?size=1&page={}&member={member}",
                    place + 1
                ))
                .await;
            let page = page.expect(200);
            assert_eq!(page["entries"][0]["rank"], rank);
            assert_eq!(page["me"]["rank"], rank);
            let one = client
                .get(&format!("/v1/boards/b/standings/day/members/{member}"))
                .await
                .expect(200);
            assert_eq!(one["rank"], rank);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_sees_its_neighbours_and_its_last_period() {
    let events = [
        ("x", 9, "2026-11-20T12:00:00Z"),
        ("me", 4, "2026-11-20T12:00:00Z"),
        ("a", 30, "2026-11-21T01:00:00Z"),
        ("me", 20, "2026-11-21T01:00:00Z"),
        ("z", 20, "2026-11-21T02:00:00Z"),
    ];
    let world = world(json!({"windows": ["day", "last-2-days"]}), &events).await;
    let client = world.client();
    let me = client
        .get("/v1/boards/b/standings/day/members/me?around=1")
        .await
        .expect(200);
    assert_eq!(
        (&me["rank"], &me["total"], &me["percentile"]),
        (&json!(2), &json!(3), &json!(50.0))
    );
    assert_eq!(
        me["ahead"],
        json!({"rank": 1, "member": "a", "score": 30, "gap": 10})
    );
    assert_eq!(
        me["behind"],
        json!({"rank": 3, "member": "z", "score": 20, "gap": 0})
    );
    assert_eq!(me["around"].as_array().unwrap().len(), 3);
    assert_eq!(
        me["previous"],
        json!({"key": "2026-11-20", "rank": 2, "score": 4, "rank_change": 0, "score_change": 16})
    );
    let first = client
        .get("/v1/boards/b/standings/day/members/a")
        .await
        .expect(200);
    assert_eq!(
        (&first["ahead"], &first["previous"], &first["percentile"]),
        (&Value::Null, &Value::Null, &json!(100.0))
    );
    assert_eq!(first.get("around"), None);
    let rolling = client
        .get("/v1/boards/b/standings/last-2-days/members/me")
        .await
        .expect(200);
    assert_eq!(
        (&rolling["score"], &rolling["starts_at"]),
        (&json!(24), &json!("2026-11-20T00:00:00Z"))
    );
    assert_eq!(rolling["previous"]["score"], 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn friends_have_a_rank_on_the_board_and_a_position_among_themselves() {
    let events = [
        ("a", 3, "2026-11-21T01:00:00Z"),
        ("b", 2, "2026-11-21T01:00:00Z"),
        ("c", 1, "2026-11-21T01:00:00Z"),
    ];
    let world = world(json!({"windows": ["day"]}), &events).await;
    let subset = world
        .client()
        .get("/v1/boards/b/standings/day/members?ids=c,nobody,a,c")
        .await
        .expect(200);
    let places: Vec<(&Value, &Value, &Value)> = subset["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| (&entry["position"], &entry["rank"], &entry["member"]))
        .collect();
    assert_eq!(
        places,
        [
            (&json!(1), &json!(1), &json!("a")),
            (&json!(2), &json!(3), &json!("c"))
        ]
    );
    assert_eq!(subset["not_found"], json!(["nobody"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn periods_are_chosen_by_key_and_by_instant_and_empty_ones_are_empty() {
    let events = [("a", 3, "2026-11-20T23:30:00Z")];
    let world = world(
        json!({"windows": ["day", "all", "season", "last-2-days"], "timezone": "Asia/Kolkata",
        "season": {"start": "2026-11-01T00:00:00Z", "length": "7d"}}),
        &events,
    )
    .await;
    let client = world.client();
    let total = async |query: &str| {
        let page = client
            .get(&format!("/v1/boards/b/standings/{query}"))
            .await
            .expect(200);
        (
            page["key"].as_str().unwrap().to_owned(),
            page["total"].as_u64().unwrap(),
        )
    };
    assert_eq!(
        total("day").await,
        ("2026-11-21".to_owned(), 1),
        "it is past midnight in Kolkata"
    );
    assert_eq!(
        total("day?key=previous").await,
        ("2026-11-20".to_owned(), 0)
    );
    assert_eq!(
        total("day?at=2026-11-20T18:30:00Z").await,
        ("2026-11-21".to_owned(), 1)
    );
    assert_eq!(
        total("day?at=2026-11-20T18:29:59Z").await,
        ("2026-11-20".to_owned(), 0)
    );
    assert_eq!(
        total("season?key=current").await,
        ("2026-11-15T00:00Z".to_owned(), 1)
    );
    assert_eq!(total("all").await, ("all".to_owned(), 1));
    assert_eq!(
        total("last-2-days?key=2026-11-22").await,
        ("2026-11-22".to_owned(), 1)
    );
    assert_eq!(
        total("last-2-days?key=2019-01-01").await,
        ("2019-01-01".to_owned(), 0)
    );
    assert_eq!(total("day?page=1000000000&size=1000").await.1, 1);
    let late = client
        .get("/v1/boards/b/standings/last-2-days?key=2026-11-23")
        .await;
    late.expect_problem(400, "invalid-parameter");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_standings_are_read_at_once() {
    let events = [("a", 3, "2026-11-21T01:00:00Z")];
    let world = world(json!({"windows": ["day"]}), &events).await;
    let queries = json!({"queries": [
        {"type": "page", "board": "b", "window": "day", "size": 1, "member": "a"},
        {"type": "member", "board": "b", "window": "day", "member": "a"},
        {"type": "member", "board": "b", "window": "day", "member": "nobody"},
        {"type": "page", "board": "b", "window": "day", "size": 0},
        {"type": "page", "board": "none", "window": "day"}
    ]});
    let client = world.client();
    let answer = client
        .post("/v1/standings/query", queries)
        .await
        .expect(200);
    let results = answer["results"].as_array().unwrap();
    let page = client
        .get("/v1/boards/b/standings/day?size=1&member=a")
        .await
        .expect(200);
    let member = client
        .get("/v1/boards/b/standings/day/members/a")
        .await
        .expect(200);
    assert_eq!(
        (&results[0]["page"], &results[1]["member"]),
        (&page, &member)
    );
    let kinds: Vec<&Value> = results[2..]
        .iter()
        .map(|result| &result["problem"]["type"])
        .collect();
    assert_eq!(
        kinds,
        [
            "/problems/member-not-found",
            "/problems/invalid-parameter",
            "/problems/board-not-found"
        ]
    );
}
