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
async fn ranks_follow_the_ranking_of_the_board() {
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
                .await
                .expect(200);
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

/// Four equal members, and one behind them.
async fn world_of_equals(ranking: &str, shards: u16, keep_top: Option<u32>) -> World {
    let at = "2026-11-21T01:00:00Z";
    let events = [
        ("a", 10, at),
        ("b", 10, at),
        ("c", 10, at),
        ("d", 10, at),
        ("e", 1, at),
    ];
    let definition = json!({
        "windows": ["day"], "ranking": ranking, "shards": shards, "keep_top": keep_top, "score_min": 1,
    });
    world(definition, &events).await
}

#[tokio::test(flavor = "multi_thread")]
async fn equal_ranks_have_equal_percentiles() {
    let one = [100.0, 100.0, 100.0, 100.0, 0.0];
    for (ranking, shards, percentiles) in [
        ("ordinal", 1, [100.0, 75.0, 50.0, 25.0, 0.0]),
        ("competition", 1, one),
        ("competition", 4, one),
        ("dense", 1, one),
    ] {
        let world = world_of_equals(ranking, shards, None).await;
        let get = async |what: &str| {
            let path = format!("/v1/boards/b/standings/day/{what}");
            world.client().get(&path).await.expect(200)
        };
        for (member, percentile) in ["a", "b", "c", "d", "e"].iter().zip(percentiles) {
            let found = get(&format!("members/{member}?around=1")).await;
            assert_eq!(
                found["percentile"], percentile,
                "{ranking} {shards} {member}"
            );
            // It is the last with its percentile, or with more.
            let last = if ranking == "ordinal" || percentile == 0.0 {
                member
            } else {
                &"d"
            };
            let found = get(&format!("at-percentile/{percentile}")).await;
            assert_eq!(
                found["entry"]["member"], *last,
                "{ranking} {shards} {percentile}"
            );
        }
    }
    for (shards, ranking) in [(1, "competition"), (4, "competition"), (1, "dense")] {
        let world = world_of_equals(ranking, shards, Some(3)).await;
        let get = async |what: &str| {
            let path = format!("/v1/boards/b/standings/day/{what}");
            world.client().get(&path).await.expect(200)
        };
        assert_eq!(get("members/c").await["percentile"], 100.0);
        assert_eq!(get("members/d").await["percentile"], Value::Null);
        assert_eq!(get("at-percentile/99").await["entry"]["member"], "c");
        assert_eq!(get("at-percentile/0").await["entry"], Value::Null);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn equal_ranks_have_equal_positions_in_a_subset() {
    for (ranking, shards, positions) in [
        ("ordinal", 1, [1, 2, 3]),
        ("competition", 1, [1, 1, 3]),
        ("competition", 4, [1, 1, 3]),
        ("dense", 1, [1, 1, 2]),
    ] {
        for keep_top in [None, Some(1)] {
            let world = world_of_equals(ranking, shards, keep_top).await;
            let path = "/v1/boards/b/standings/day/members?ids=e,d,b";
            let subset = world.client().get(path).await.expect(200);
            let entries = subset["entries"].as_array().unwrap();
            let found: Vec<&Value> = entries.iter().map(|entry| &entry["position"]).collect();
            assert_eq!(found, positions, "{ranking} {shards}");
        }
    }
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
        {"type": "subset", "board": "b", "window": "day", "ids": ["nobody", "a", "a"]},
        {"type": "stats", "board": "b", "window": "day", "raw": true},
        {"type": "member", "board": "b", "window": "day", "member": "nobody"},
        {"type": "page", "board": "b", "window": "day", "size": 0},
        {"type": "page", "board": "none", "window": "day"},
        {"type": "stats", "board": "b", "window": "week"},
        {"type": "subset", "board": "b", "window": "day", "ids": []}
    ]});
    let client = world.client();
    let answer = client
        .post("/v1/standings/query", queries)
        .await
        .expect(200);
    let results = answer["results"].as_array().unwrap();
    for (result, (kind, path)) in results.iter().zip([
        ("page", "day?size=1&member=a"),
        ("member", "day/members/a"),
        ("subset", "day/members?ids=nobody,a"),
        ("stats", "day/stats"),
    ]) {
        let path = format!("/v1/boards/b/standings/{path}");
        let mut alone = client.get(&path).await.expect(200);
        alone["type"] = json!(kind);
        assert_eq!(*result, alone);
    }
    let problems: Vec<Value> = results[4..]
        .iter()
        .map(|result| {
            json!([
                result["type"],
                result["problem"]["status"],
                result["problem"]["code"]
            ])
        })
        .collect();
    assert_eq!(
        json!(problems),
        json!([
            ["problem", 404, "member-not-found"],
            ["problem", 400, "invalid-parameter"],
            ["problem", 404, "board-not-found"],
            ["problem", 422, "unknown-window"],
            ["problem", 400, "invalid-parameter"],
        ])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn members_whose_ids_contain_commas_are_named_in_a_body() {
    let events = [
        ("a,b", 3, "2026-11-21T01:00:00Z"),
        ("a", 2, "2026-11-21T01:00:00Z"),
    ];
    let world = world(json!({"windows": ["day"]}), &events).await;
    let client = world.client();
    let ask = async |period: &str, ids: Value| {
        let path = format!("/v1/boards/b/standings/day/members/query{period}");
        client.post(&path, json!({"ids": ids})).await
    };
    let found = ask("", json!(["b", "a", "a,b", "b"])).await.expect(200);
    assert_eq!(found["entries"][0]["member"], "a,b");
    assert_eq!(found["entries"][1]["rank"], 2);
    assert_eq!(found["not_found"], json!(["b"]));
    let before = ask("?key=previous", json!(["a"])).await.expect(200);
    assert_eq!(before["not_found"], json!(["a"]));
    let mut many: Vec<String> = (0..500).map(|member| format!("m{member}")).collect();
    ask("", json!(many)).await.expect(200);
    many.push("one more".to_owned());
    for wrong in [json!(many), json!([]), json!([""]), json!("a")] {
        ask("", wrong)
            .await
            .expect_problem(422, "validation-failed");
    }
    let path = "/v1/boards/b/standings/week/members/query";
    let unknown = client.post(path, json!({"ids": ["a"]})).await;
    unknown.expect_problem(404, "unknown-window");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_may_be_named_like_a_path_segment() {
    let at = "2026-11-21T01:00:00Z";
    let world = world(
        json!({"windows": ["day"]}),
        &[("query", 3, at), ("a", 2, at)],
    )
    .await;
    let client = world.client();
    let members = "/v1/boards/b/standings/day/members";
    for name in ["query", "%71uery", "quer%79"] {
        let path = format!("{members}/{name}?around=1");
        let found = client.get(&path).await;
        let tag = found.headers["etag"].to_str().unwrap().to_owned();
        let found = found.expect(200);
        assert_eq!(
            (&found["member"], &found["rank"]),
            (&json!("query"), &json!(1))
        );
        assert_eq!(found["around"].as_array().unwrap().len(), 2);
        assert_eq!(client.get_unless(&path, &tag).await.status, 304);
    }
    let wrong = client.get(&format!("{members}/query?size=1")).await;
    wrong.expect_problem(400, "invalid-parameter");
    let gone = client.get(&format!("{members}/query?key=previous")).await;
    gone.expect_problem(404, "member-not-found");
    let ids = json!({"ids": ["query"]});
    let subset = client
        .post(&format!("{members}/query"), ids)
        .await
        .expect(200);
    assert_eq!(subset["entries"][0]["member"], "query");
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_link_only_to_existing_pages() {
    let events = ["a", "b", "c", "d", "e"].map(|member| (member, 1, "2026-11-21T01:00:00Z"));
    let world = world(
        json!({"windows": ["day"], "keep_top": 3, "score_min": 1}),
        &events,
    )
    .await;
    let client = world.client();
    let mut path = "/v1/boards/b/standings/day?size=2&key=current".to_owned();
    let mut members = Vec::new();
    loop {
        let answer = client.get(&path).await;
        let links = answer.headers["link"].to_str().unwrap().to_owned();
        let page = answer.expect(200);
        assert_eq!((&page["total"], &page["listed"]), (&json!(5), &json!(3)));
        let entries = page["entries"].as_array().unwrap();
        members.extend(entries.iter().map(|entry| entry["member"].clone()));
        let Some(next) = links
            .strip_suffix(">; rel=\"next\"")
            .and_then(|links| links.strip_prefix('<'))
        else {
            assert_eq!(links, "<?size=2&key=current&page=1>; rel=\"prev\"");
            break;
        };
        path = format!("/v1/boards/b/standings/day{next}");
    }
    assert_eq!(members, ["a", "b", "c"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_is_found_on_many_boards() {
    let world = world(
        json!({"windows": ["day"], "decimals": 1}),
        &[
            ("a", 3, "2026-11-21T01:00:00Z"),
            ("b", 9, "2026-11-20T01:00:00Z"),
        ],
    )
    .await;
    let client = world.client();
    client.define("weeks", json!({"windows": ["week"]})).await;
    let ask = async |query: &str| {
        let path = format!("/v1/members/a/standings?{query}");
        client.get(&path).await
    };
    let found = ask("boards=b,none,weeks,b&window=day").await.expect(200);
    assert_eq!(found["member"], "a");
    let one = client.get("/v1/boards/b/standings/day/members?ids=a").await;
    let mut entry = one.expect(200)["entries"][0].clone();
    entry.as_object_mut().unwrap().remove("position");
    let standing = json!({"type": "entry", "board": "b", "window": "day", "key": "2026-11-21", "total": 1,
        "starts_at": "2026-11-21T00:00:00Z", "ends_at": "2026-11-22T00:00:00Z", "state": "live", "entry": entry});
    assert_eq!(found["standings"][0], standing);
    assert_eq!(found["standings"][3], standing);
    for (index, board, status, code) in [
        (1, "none", 404, "board-not-found"),
        (2, "weeks", 422, "unknown-window"),
    ] {
        let result = &found["standings"][index];
        assert_eq!(
            (&result["type"], &result["board"]),
            (&json!("problem"), &json!(board))
        );
        let problem = &result["problem"];
        assert_eq!(
            (&problem["status"], &problem["code"]),
            (&json!(status), &json!(code))
        );
    }
    let before = ask("boards=b&window=day&key=previous").await.expect(200);
    let before = &before["standings"][0];
    assert_eq!(
        (&before["total"], &before["entry"]),
        (&json!(1), &Value::Null)
    );
    let many = ["b"; 101].join(",");
    for wrong in [
        &format!("boards={many}&window=day"),
        "boards=b",
        "window=day",
    ] {
        ask(wrong).await.expect_problem(400, "invalid-parameter");
    }
    ask(&format!("boards={}&window=day", &many[2..]))
        .await
        .expect(200);
}

/// What is found in a standing: members with their ranks, and two numbers.
fn shown(found: &Value, numbers: [&str; 2]) -> Value {
    let entries: Vec<Value> = found["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| json!([entry["rank"], entry["member"]]))
        .collect();
    json!([entries, found[numbers[0]], found[numbers[1]]])
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_are_found_by_their_scores() {
    let events = [
        ("a", 9, "2026-11-21T00:00:00Z"),
        ("b", 5, "2026-11-21T00:00:00Z"),
        ("c", 5, "2026-11-21T01:00:00Z"),
        ("d", 5, "2026-11-21T02:00:00Z"),
        ("e", 2, "2026-11-21T00:00:00Z"),
    ];
    let best_first = json!({"windows": ["day"], "ranking": "dense"});
    let world_of_best = world(best_first, &events).await;
    let definition =
        json!({"windows": ["day"], "order": "asc", "ranking": "competition", "shards": 3});
    let world_of_least = world(definition, &events).await;
    let read = async |world: &World, query: &str| {
        let path = format!("/v1/boards/b/standings/day?{query}");
        world.client().get(&path).await
    };
    let best = async |query: &str| {
        shown(
            &read(&world_of_best, query).await.expect(200),
            ["listed", "page"],
        )
    };
    let least = async |query: &str| {
        shown(
            &read(&world_of_least, query).await.expect(200),
            ["listed", "page"],
        )
    };

    let five = json!([[[2, "b"], [2, "c"], [2, "d"]], 3, 1]);
    assert_eq!(best("from_score=5&to_score=5").await, five);
    assert_eq!(best("from_score=3&to_score=8.00").await, five);
    assert_eq!(
        best("to_score=5&size=2&page=2").await,
        json!([[[2, "d"], [3, "e"]], 4, 2])
    );
    assert_eq!(best("from_score=6").await, json!([[[1, "a"]], 1, 1]));
    assert_eq!(best("from_score=10").await, json!([[], 0, 1]));
    assert_eq!(best("from_score=6&page=2&size=1").await, json!([[], 1, 2]));
    assert_eq!(
        least("from_score=5&size=2&page=2").await,
        json!([[[2, "d"], [5, "a"]], 4, 2])
    );
    assert_eq!(least("to_score=1").await, json!([[], 0, 1]));
    let page = read(&world_of_best, "from_score=5&size=2&member=e&page=2").await;
    let links = "<?from_score=5&size=2&member=e&page=1>; rel=\"prev\"";
    assert_eq!(page.headers["link"], links);
    assert_eq!(
        page.expect(200)["me"]["rank"],
        3,
        "also of who is not among them"
    );

    // In a batch of queries the scores are numbers.
    let query = |scores: Value| {
        let mut query = json!({"type": "page", "board": "b", "window": "day", "size": 2});
        query
            .as_object_mut()
            .unwrap()
            .extend(scores.as_object().unwrap().clone());
        query
    };
    let queries = [
        json!({"from_score": 6}),
        json!({"from_score": 3, "to_score": 8.00}),
        json!({"to_score": 5, "page": 2}),
        json!({"from_score": 6, "to_score": 5}),
    ];
    let queries = json!({"queries": queries.map(query)});
    let client = world_of_best.client();
    let found = client
        .post("/v1/standings/query", queries)
        .await
        .expect(200);
    let pages = [
        "from_score=6&size=2",
        "from_score=3&to_score=8.00&size=2",
        "to_score=5&size=2&page=2",
    ];
    for (index, page) in pages.into_iter().enumerate() {
        let found = shown(&found["results"][index], ["listed", "page"]);
        assert_eq!(found, best(page).await, "{page}");
    }
    assert_eq!(found["results"][3]["problem"]["code"], "invalid-parameter");

    assert_eq!(
        best("around_score=5&size=3").await,
        json!([[[1, "a"], [2, "b"], [2, "c"]], 5, null])
    );
    assert_eq!(
        best("around_score=4&size=2").await,
        json!([[[2, "d"], [3, "e"]], 5, null])
    );
    assert_eq!(
        best("around_score=100&size=2").await,
        json!([[[1, "a"], [2, "b"]], 5, null])
    );
    assert_eq!(
        best("around_score=-1&size=4").await,
        json!([[[2, "d"], [3, "e"]], 5, null])
    );
    assert_eq!(
        least("around_score=5&size=3").await,
        json!([[[1, "e"], [2, "b"], [2, "c"]], 5, null])
    );
    for wrong in [
        "from_score=6&to_score=5",
        "from_score=0.5",
        "to_score=many",
        "around_score=",
        "around_score=1&page=1",
        "around_score=1&to_score=2",
        "around_score=9007199254740992",
    ] {
        read(&world_of_best, wrong)
            .await
            .expect_problem(400, "invalid-parameter");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_entry_at_a_percentile_is_better_than_that_share_of_the_others() {
    let events: Vec<(String, i64)> = (1..=11)
        .map(|number| (format!("m{number}"), number))
        .collect();
    let events: Vec<(&str, i64, &str)> = events
        .iter()
        .map(|(member, score)| (member.as_str(), *score, "2026-11-21T00:00:00Z"))
        .collect();
    for shards in [1, 4] {
        let definition =
            json!({"windows": ["day"], "shards": shards, "keep_top": 8, "score_min": 1});
        let world = world(definition, &events).await;
        let read = async |what: &str| {
            let path = format!("/v1/boards/b/standings/day/at-percentile/{what}");
            world.client().get(&path).await
        };
        for (percentile, member) in [
            ("100", json!("m11")),
            ("99.9", json!("m11")),
            ("90", json!("m10")),
            ("89.999", json!("m10")),
            ("50", json!("m6")),
            ("30", json!("m4")),
            ("29", json!("m4")),
            ("20", Value::Null),
            ("0", Value::Null),
        ] {
            let found = read(percentile).await.expect(200);
            assert_eq!(found["entry"]["member"], member, "{percentile}");
            assert_eq!(found["total"], 11);
            let shown = percentile.parse::<f64>().unwrap();
            assert_eq!(found["percentile"].as_f64(), Some(shown));
        }
        let empty = read("50?key=previous").await.expect(200);
        assert_eq!(
            (&empty["total"], &empty["entry"]),
            (&json!(0), &Value::Null)
        );
        for wrong in ["101", "-1", "x", "0.0001"] {
            read(wrong).await.expect_problem(400, "invalid-parameter");
        }
    }
}
