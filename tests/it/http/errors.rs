//! Every error of the contract, by a request that causes it. Bad input never makes a 5xx and writes nothing.

use reqwest::Method;
use serde_json::{Value, json};
use standings::api::table::routes;
use standings::http::observe::CREATED;

use crate::access;
use crate::harness::{Client, World};

const NOW: &str = "2026-11-21T12:00:00Z";

async fn world() -> World {
    let world = World::start(NOW).await;
    world
        .client()
        .define("b", json!({"windows": ["day", "all"], "decimals": 2}))
        .await;
    world
}

/// Checks that the board has no members.
async fn assert_nothing_was_written(client: &Client) {
    let page = client.get("/v1/boards/b/standings/all").await.expect(200);
    assert_eq!(page["total"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_not_json_is_malformed() {
    let world = world().await;
    let client = world.client();
    let bodies: [(&[u8], &str); 7] = [
        (b"", "the body is empty"),
        (b" \n", "the body is empty"),
        (b"{", "Line 1, column 1: the JSON ends too early"),
        (b"nonsense", "Line 1, column 2: expected "),
        (
            b"{\"member\": \"a\xff\", \"score\": 1}",
            "The body is not UTF-8 (byte 13). Send uncompressed UTF-8 JSON.",
        ),
        (b"{} {}", "Line 1, column 4: expected the end"),
        (
            b"{\"member\": \"a\",\n \"score\": 1,}",
            "Line 2, column 13: expected a field name in quotes. A comma too many?",
        ),
    ];
    for (body, expected) in bodies {
        for path in ["/v1/boards/b/events", "/v1/events", "/v1/standings/query"] {
            let answer = client
                .post_text(path, "application/json", body.to_vec())
                .await;
            let detail = answer.expect_problem(400, "malformed-json");
            assert!(detail.starts_with(expected), "{detail}");
        }
    }
    assert_nothing_was_written(client).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_byte_order_mark_before_json_is_skipped() {
    let world = world().await;
    let client = world.client();
    let bodies = [
        ("/v1/boards/b/events", r#"{"member": "a", "score": 1}"#),
        (
            "/v1/events",
            r#"{"events": [{"board": "b", "member": "b", "score": 1}]}"#,
        ),
        ("/v1/boards/b/events", r#"[{"member": "c", "score": 1}]"#),
    ];
    for (path, body) in bodies {
        let marked = format!("\u{feff}{body}").into_bytes();
        let answer = client.post_text(path, "application/json", marked).await;
        if body.starts_with('[') {
            let detail = answer.expect_problem(422, "validation-failed");
            assert!(
                detail.starts_with("Send one event, as an object"),
                "{detail}"
            );
        } else {
            answer.expect(200);
        }
    }
    let page = client.get("/v1/boards/b/standings/all").await.expect(200);
    assert_eq!(page["total"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn all_mistakes_of_a_body_are_reported_at_once() {
    let world = world().await;
    let client = world.client();
    let pointers = |problem: &Value| -> Vec<String> {
        let errors = problem["errors"].as_array().unwrap().iter();
        let pointers = errors.map(|error| error["pointer"].as_str().unwrap().to_owned());
        let mut pointers: Vec<_> = pointers.collect();
        pointers.sort();
        pointers
    };
    let event =
        json!({"member": "x".repeat(129), "at": "2026-02-29T00:00:00Z", "voter": 5, "extra": 1});
    let expected = ["/at", "/extra", "/member", "/score", "/voter"];
    let one = client
        .post("/v1/boards/b/events", event.clone())
        .await
        .expect(422);
    assert_eq!(pointers(&one), expected, "{one}");
    let detail = one["detail"].as_str().unwrap();
    assert!(detail.starts_with("5 errors: "), "{detail}");
    for part in [
        "/extra: unknown field `extra`; ",
        "/at: there is no such day: 2026-02-29",
    ] {
        assert!(detail.contains(part), "{detail}");
    }
    let mut item = event;
    item["board"] = json!("b");
    let batch = client
        .post("/v1/events", json!({"events": [item]}))
        .await
        .expect(200);
    assert_eq!(
        pointers(&batch["results"][0]["problem"]),
        expected,
        "{batch}"
    );

    let board = json!({"titel": "a", "windows": ["dya", "all", "wek"], "decimals": 7, "idempotency": "400d"});
    let refused = client.put("/v1/boards/c", board).await.expect(422);
    assert_eq!(
        pointers(&refused),
        [
            "/decimals",
            "/idempotency",
            "/titel",
            "/windows/0",
            "/windows/2"
        ],
        "{refused}"
    );
    let key = json!({"scope": ["read"], "boards": 1});
    let refused = client.put("/v1/keys/k", key).await.expect(422);
    assert_eq!(
        pointers(&refused),
        ["/boards", "/scope", "/scopes"],
        "{refused}"
    );
    assert_nothing_was_written(client).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_score_beyond_a_bound_names_the_bound() {
    let world = world().await;
    let client = world.client();
    let bounds = json!({"windows": ["all"], "score_min": -5, "score_max": 100_000, "decimals": 1});
    client.define("bounded", bounds).await;
    for (score, expected) in [
        (
            "900000",
            "score 900000 is above this board's maximum, 100000",
        ),
        ("-5.5", "score -5.5 is below this board's minimum, -5"),
    ] {
        for id in ["", r#", "id": "e""#] {
            let event = format!(r#"{{"member": "a", "score": {score}{id}}}"#).into_bytes();
            let path = "/v1/boards/bounded/events";
            let problem = client
                .post_text(path, "application/json", event)
                .await
                .expect(422);
            assert_eq!(problem["detail"], expected);
            assert_eq!(
                problem["errors"],
                json!([{"pointer": "/score", "detail": expected}])
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parameter_that_is_missing_or_was_decoded_says_what_to_send() {
    let world = world().await;
    let client = world.client();
    for (path, expected) in [
        (
            "/v1/boards/b/standings/day/periods/2026-11-20/export",
            "the parameter \"format\" is missing: csv or ndjson",
        ),
        ("/v1/members", "the parameter \"name\" is missing"),
        (
            "/v1/boards/b/standings/day?at=2026-11-21T00:00:00+01:00",
            "at: must be a time in RFC 3339 with an offset, such as `2026-11-21T00:30:00+01:00`. In an address, write `+` as `%2B`",
        ),
        (
            "/v1/boards/b/standings/day?at=2026-02-29T00:00:00Z",
            "at: there is no such day: 2026-02-29",
        ),
        (
            "/v1/boards/b/standings/day?key=2026-02-29",
            "key: there is no such day: 2026-02-29",
        ),
    ] {
        let detail = client
            .get(path)
            .await
            .expect_problem(400, "invalid-parameter");
        assert_eq!(detail, expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_array_instead_of_an_object_gets_a_hint_for_batches() {
    let world = world().await;
    let client = world.client();
    let event = json!({"board": "b", "member": "a", "score": 1});
    let fields = json!(["id", null, "a", 1, null, null, null, null, null]);
    for array in [json!([]), json!([event]), fields] {
        let answer = client.post("/v1/boards/b/events", array.clone()).await;
        let detail = answer.expect_problem(422, "validation-failed");
        assert!(
            detail.contains("For many, send POST /v1/events"),
            "{detail}"
        );

        let answer = client.post("/v1/events", array.clone()).await;
        let detail = answer.expect_problem(422, "validation-failed");
        assert_eq!(
            detail,
            "Send `{\"events\": [...]}`, each event with its `board`"
        );

        let batch = client.post("/v1/events", json!({"events": [array]})).await;
        let result = &batch.expect(200)["results"][0];
        assert_eq!(
            result["problem"]["detail"],
            "must be an object, not an array"
        );
        let answer = client.put("/v1/boards/c", array).await;
        answer.expect_problem(422, "validation-failed");
    }
    assert_nothing_was_written(client).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unexpected_json_is_refused_with_a_pointer() {
    let world = world().await;
    let client = world.client();
    let events = [
        (json!({"member": "a"}), "/score", "is missing"),
        (json!({"score": 1}), "/member", "is missing"),
        (
            json!({"member": "a", "score": "1"}),
            "/score",
            "must be a number",
        ),
        (
            json!({"member": "a", "score": null}),
            "/score",
            "is missing",
        ),
        (
            json!({"member": "", "score": 1}),
            "/member",
            "1 to 128 bytes",
        ),
        (
            json!({"member": "x".repeat(129), "score": 1}),
            "/member",
            "1 to 128 bytes",
        ),
        (
            json!({"member": "a\u{0}b", "score": 1}),
            "/member",
            "control characters",
        ),
        (
            json!({"member": 7, "score": 1}),
            "/member",
            "must be a string, not",
        ),
        (
            json!({"member": "a", "score": 1, "id": ""}),
            "/id",
            "1 to 128 bytes",
        ),
        (
            json!({"member": "a", "score": 1, "at": "yesterday"}),
            "/at",
            "",
        ),
        (
            json!({"member": "a", "score": 1, "at": 5}),
            "/at",
            "must be a string, not",
        ),
        (
            json!({"member": "a", "score": 1, "extra": 1}),
            "/extra",
            "unknown field `extra`. Known fields: `board`, `id`, `member`",
        ),
        (
            json!({"member": "a", "scor": 1}),
            "/scor",
            "unknown field `scor`: did you mean `score`? Known fields: `board`, ",
        ),
        (
            json!({"member": "a", "score": 1, "board": "c"}),
            "/board",
            "must be the board in the path",
        ),
    ];
    for (event, pointer, detail) in events {
        let answer = client.post("/v1/boards/b/events", event.clone()).await;
        let problem = answer.expect(422);
        assert_eq!(problem["type"], "/problems/validation-failed", "{event}");
        let whole = problem["detail"].as_str().unwrap();
        let all = problem["errors"].as_array().unwrap();
        let lists = pointer == "/extra";
        assert_eq!(whole.contains("Known fields: "), lists, "{whole}: {all:?}");
        assert_eq!(
            problem["errors"][0]["pointer"], pointer,
            "{event}: {problem}"
        );
        assert!(
            problem["errors"][0]["detail"]
                .as_str()
                .unwrap()
                .contains(detail),
            "{event}: {problem}"
        );
        let batch = client
            .post("/v1/events", json!({"events": [event]}))
            .await
            .expect(200);
        assert_eq!(batch["results"][0]["status"], "rejected");
        if pointer != "/board" {
            assert_eq!(batch["results"][0]["problem"]["status"], 422);
        }
    }
    let too_many = vec![json!({"board": "b", "member": "a", "score": 1}); 1_001];
    for body in [
        json!({"events": []}),
        json!({"events": too_many}),
        json!({"event": []}),
        json!({}),
    ] {
        client
            .post("/v1/events", body)
            .await
            .expect_problem(422, "validation-failed");
    }
    for body in [
        json!({"queries": []}),
        json!({"queries": [{"type": "other"}]}),
        json!({"queries": [{}]}),
    ] {
        client
            .post("/v1/standings/query", body)
            .await
            .expect_problem(422, "validation-failed");
    }
    assert_nothing_was_written(client).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_is_checked_field_by_field() {
    let world = world().await;
    let client = world.client();
    let definitions = [
        (json!({"windows": null}), "/windows"),
        (json!({"windows": "day"}), "/windows"),
        (json!({"windows": ["decade"]}), "/windows/0"),
        (json!({"windows": ["last-1-days"]}), "/windows/0"),
        (json!({"windows": []}), "/windows"),
        (json!({"windows": ["season"]}), "/season"),
        (
            json!({"windows": ["last-7-days"], "update": "max"}),
            "/windows/0",
        ),
        (json!({"windows": ["day"], "decimals": 7}), "/decimals"),
        (json!({"windows": ["day"], "decimals": -1}), "/decimals"),
        (
            json!({"windows": ["day"], "timezone": "Mars/Olympus"}),
            "/timezone",
        ),
        (
            json!({"windows": ["day"], "week_start": "someday"}),
            "/week_start",
        ),
        (json!({"windows": ["day"], "update": "avg"}), "/update"),
        (
            json!({"windows": ["day"], "accept_late": "2 days"}),
            "/accept_late",
        ),
        (
            json!({"windows": ["day"], "idempotency": "0s"}),
            "/idempotency",
        ),
        (
            json!({"windows": ["day"], "carryover": {"week": 0.5}}),
            "/carryover/week",
        ),
        (
            json!({"windows": ["day"], "carryover": {"day": 1.5}}),
            "/carryover",
        ),
        (
            json!({"windows": ["day"], "retention": {"all": "1d"}}),
            "/retention/all",
        ),
        (
            json!({"windows": ["day"], "opens_at": "2026-01-02T00:00:00Z", "closes_at": "2026-01-01T00:00:00Z"}),
            "/closes_at",
        ),
        (
            json!({"windows": ["day"], "season": {"start": "2026-01-01T00:00:00Z", "length": "1s"}}),
            "/season",
        ),
        (json!({"windows": ["day"], "colour": "red"}), "/colour"),
    ];
    for (definition, pointer) in definitions {
        let problem = client
            .put("/v1/boards/new", definition.clone())
            .await
            .expect(422);
        assert_eq!(
            problem["type"], "/problems/validation-failed",
            "{definition}"
        );
        let found = problem["errors"][0]["pointer"].as_str().unwrap();
        assert_eq!(found, pointer, "{definition}: {problem}");
    }
    client
        .get("/v1/boards/new")
        .await
        .expect_problem(404, "board-not-found");
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_are_checked() {
    let world = world().await;
    let client = world.client();
    let paths = [
        "/v1/boards/-b",
        "/v1/boards/b%20c/standings/day",
        "/v1/boards?limit=0",
        "/v1/boards?limit=x",
        "/v1/boards?nonsense=1",
        "/v1/boards/b/standings/day?page=0",
        "/v1/boards/b/standings/day?size=1001",
        "/v1/boards/b/standings/day?size=-1",
        "/v1/boards/b/standings/day?page=99999999999999999999",
        "/v1/boards/b/standings/day?page=1&page=2",
        "/v1/boards/b/standings/day?key=2026-13-01",
        "/v1/boards/b/standings/day?key=",
        "/v1/boards/b/standings/day?at=now",
        "/v1/boards/b/standings/day?key=2026-11-21&at=2026-11-21T00:00:00Z",
        "/v1/boards/b/standings/day?member=",
        "/v1/boards/b/standings/day?unknown=1",
        "/v1/boards/b/standings/all?key=previous",
        "/v1/boards/b/standings/day/members/a?around=101",
        "/v1/boards/b/standings/day/members?ids=",
        "/v1/boards/b/standings/day/members",
        "/v1/boards/b/standings/day/members/%ff",
    ];
    for path in paths {
        let detail = client
            .get(path)
            .await
            .expect_problem(400, "invalid-parameter");
        assert!(!detail.is_empty(), "{path}");
    }
    for (query, expected) in [
        (
            "size=x",
            "query: size: must be a whole number of at least 0",
        ),
        ("page=99999999999999999999", "query: page: is too large"),
        ("raw=yes", "query: raw: must be `true` or `false`"),
        (
            "sise=9",
            "query: sise: unknown parameter `sise`: did you mean `size`? Known parameters: `page`,",
        ),
    ] {
        let path = format!("/v1/boards/b/standings/day?{query}");
        let answer = client.get(&path).await;
        let detail = answer.expect_problem(400, "invalid-parameter");
        assert!(detail.starts_with(expected), "{detail}");
    }
    let event = json!({"member": "a", "score": 1});
    for path in [
        "/v1/boards/b/events?ranks=maybe",
        "/v1/boards/b/events?ranks=true&standings=false",
    ] {
        client
            .post(path, event.clone())
            .await
            .expect_problem(400, "invalid-parameter");
    }
    assert_nothing_was_written(client).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_things_are_404() {
    let world = world().await;
    let client = world.client();
    client
        .get("/v1/boards/none")
        .await
        .expect_problem(404, "board-not-found");
    client
        .delete("/v1/boards/none")
        .await
        .expect_problem(404, "board-not-found");
    client
        .get("/v1/boards/none/standings/day")
        .await
        .expect_problem(404, "board-not-found");
    let event = json!({"member": "a", "score": 1});
    client
        .post("/v1/boards/none/events", event)
        .await
        .expect_problem(404, "board-not-found");
    for (window, standing) in [("day", "day 2026-11-21"), ("all", "all")] {
        let path = format!("/v1/boards/b/standings/{window}/members/a");
        let detail = client
            .get(&path)
            .await
            .expect_problem(404, "member-not-found");
        assert_eq!(
            detail,
            format!("\"a\" is not in the standing {standing} of board b")
        );
    }
    client
        .get("/v1/boards/b/standings/week")
        .await
        .expect_problem(404, "unknown-window");
    client
        .get("/v1/boards/b/standings/nonsense")
        .await
        .expect_problem(404, "unknown-window");
    for path in [
        "/v1",
        "/v1/nothing",
        "/v1/boards/b/",
        "/problems/none",
        "/v2/boards",
    ] {
        client.get(path).await.expect_problem(404, "not-found");
    }
    let batch = client
        .post(
            "/v1/events",
            json!({"events": [{"board": "none", "member": "a", "score": 1}]}),
        )
        .await
        .expect(200);
    assert_eq!(
        batch["results"][0]["problem"]["type"],
        "/problems/board-not-found"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn methods_types_and_sizes_are_checked() {
    let world = world().await;
    let client = world.client();
    for (method, path, allowed, expected) in [
        (
            Method::POST,
            "/v1/boards/b",
            "PUT,PATCH,GET,HEAD,DELETE",
            "POST is not allowed here; use DELETE, GET, PATCH or PUT. To create a board, send PUT",
        ),
        (
            Method::GET,
            "/v1/events",
            "POST",
            "GET is not allowed here; use POST",
        ),
    ] {
        let answer = Client::send(client.builder(method, path)).await;
        assert_eq!(answer.headers["allow"], allowed);
        assert_eq!(answer.expect_problem(405, "method-not-allowed"), expected);
    }
    // A client that would create something in a list learns the address: of each list that has no `POST` of its own.
    let routes = routes();
    let of = |method: &Method, path: &str| {
        let mut routes = routes.iter();
        routes.any(|route| route.method == *method && route.path == path)
    };
    let puts = routes.iter().filter(|route| route.method == Method::PUT);
    let lists = puts
        .filter_map(|put| Some((put.path.rsplit_once('/')?.0, &put.path)))
        .filter(|(list, _)| of(&Method::GET, list) && !of(&Method::POST, list));
    let mut count = 0;
    for (list, item) in lists.filter(|(list, _)| !list.contains('{')) {
        let answer = Client::send(client.builder(Method::POST, list)).await;
        let detail = answer.expect_problem(405, "method-not-allowed");
        let said = format!(", send PUT {item}");
        assert!(
            detail.starts_with("POST is not allowed here; use GET. To create a ")
                && detail.ends_with(&said),
            "{detail}"
        );
        count += 1;
    }
    assert_eq!(count, CREATED.len());
    let event = r#"{"member": "a", "score": 1}"#;
    let send = "send `application/json` (curl: `-H 'Content-Type: application/json'`)";
    for content_type in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/json-patch+json",
    ] {
        let answer = client
            .post_text("/v1/boards/b/events", content_type, event)
            .await;
        assert_eq!(
            answer.expect_problem(415, "unsupported-media-type"),
            format!("Content-Type is `{content_type}`; {send}")
        );
    }
    let untyped = client
        .builder(Method::POST, "/v1/boards/b/events")
        .body(event);
    assert_eq!(
        Client::send(untyped)
            .await
            .expect_problem(415, "unsupported-media-type"),
        format!("Content-Type is missing; {send}")
    );
    let compressed = client
        .builder(Method::POST, "/v1/boards/b/events")
        .header("content-encoding", "gzip")
        .header("content-type", "application/json")
        .body(event);
    assert_eq!(
        Client::send(compressed)
            .await
            .expect_problem(415, "unsupported-media-type"),
        "Content-Encoding is `gzip`; send the body uncompressed, without this header"
    );
    let large = format!(r#"{{"member": "{}", "score": 1}}"#, "x".repeat(1 << 20));
    let answer = client
        .post_text("/v1/boards/b/events", "application/json", large.clone())
        .await;
    answer.expect_problem(413, "payload-too-large");
    let stream = futures::stream::iter([Ok::<_, std::io::Error>(large)]);
    let chunked = client
        .post_text(
            "/v1/events",
            "application/json",
            reqwest::Body::wrap_stream(stream),
        )
        .await;
    chunked.expect_problem(413, "payload-too-large");
    let parameters = client
        .post_text(
            "/v1/boards/b/events",
            "application/json; charset=utf-8",
            event,
        )
        .await;
    parameters.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn scores_outside_the_bounds_are_refused_unless_accepted_earlier() {
    let world = world().await;
    let client = world.client();
    let event =
        |id: &str, score: &str| format!(r#"{{"id": "{id}", "member": "a", "score": {score}}}"#);
    let send = async |id, score| {
        client
            .post_text(
                "/v1/boards/votes/events",
                "application/json",
                event(id, score),
            )
            .await
    };
    let definition =
        |max: f64| json!({"windows": ["all"], "decimals": 2, "score_min": 0.5, "score_max": max});
    client.define("votes", definition(3.0)).await;
    for (id, score) in [("least", "0.5"), ("most", "3.00")] {
        assert_eq!(send(id, score).await.expect(200)["status"], "applied");
    }
    for score in ["0.49", "3.01", "-1"] {
        let problem = send("other", score).await;
        let detail = problem.expect_problem(422, "score-out-of-range");
        let bound = match score {
            "3.01" => "above this board's maximum, 3",
            _ => "below this board's minimum, 0.5",
        };
        assert_eq!(detail, format!("score {score} is {bound}"));
    }
    client.define("votes", definition(2.0)).await;
    assert_eq!(send("most", "3").await.expect(200)["status"], "duplicate");
    send("new", "3")
        .await
        .expect_problem(422, "score-out-of-range");

    for (bounds, pointer) in [
        (json!({"score_min": 0.001}), "/score_min"),
        (json!({"score_max": "3"}), "/score_max"),
        (json!({"score_min": 2, "score_max": 1}), "/score_max"),
    ] {
        let mut wrong = json!({"windows": ["all"], "decimals": 2});
        let fields = wrong.as_object_mut().unwrap();
        fields.extend(bounds.as_object().unwrap().clone());
        let answer = client.put("/v1/boards/wrong", wrong).await;
        assert_eq!(answer.expect(422)["errors"][0]["pointer"], pointer);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_that_a_board_refuses_name_the_reason() {
    let world = world().await;
    let client = world.client();
    let send = async |event: Value| client.post("/v1/boards/b/events", event).await;
    let out_of_range = [json!(0.001), json!(90_071_992_547_409.92), json!(1e300)];
    for score in out_of_range {
        send(json!({"member": "a", "score": score}))
            .await
            .expect_problem(422, "score-out-of-range");
    }
    send(json!({"member": "a", "score": 1, "at": "2026-11-21T12:01:00.001Z"}))
        .await
        .expect_problem(422, "event-in-future");
    let late = send(json!({"member": "a", "score": 1, "at": "2026-11-19T11:59:59.999Z"})).await;
    let detail = late.expect_problem(422, "event-too-late");
    assert!(
        detail.contains("accepts events up to 48h late (`accept_late`;"),
        "{detail}"
    );
    assert_nothing_was_written(client).await;

    // Written out: a float would not hold it.
    let largest = r#"{"member": "a", "score": 9999999999999.99}"#;
    let answer = client
        .post_text("/v1/boards/b/events", "application/json", largest)
        .await;
    answer.expect(200);
    send(json!({"member": "a", "score": 0.01}))
        .await
        .expect_problem(422, "score-out-of-range");
    send(json!({"id": "one", "member": "b", "score": 1}))
        .await
        .expect(200);
    send(json!({"id": "one", "member": "b", "score": 2}))
        .await
        .expect_problem(422, "event-id-reused");
    let page = client.get("/v1/boards/b/standings/day").await;
    assert!(page.text.contains("9999999999999.99"), "{}", page.text);

    let season = json!({"windows": ["all"], "opens_at": "2026-11-21T11:00:00Z", "closes_at": "2026-11-21T12:00:00Z"});
    client.define("closed", season).await;
    for at in ["2026-11-21T10:59:59Z", "2026-11-21T12:00:00Z"] {
        let answer = client
            .post(
                "/v1/boards/closed/events",
                json!({"member": "a", "score": 1, "at": at}),
            )
            .await;
        answer.expect_problem(409, "board-closed");
    }
    let last = json!({"member": "a", "score": 1, "at": "2026-11-21T11:59:59.999Z"});
    client
        .post("/v1/boards/closed/events", last)
        .await
        .expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_redis_is_503_with_retry_after() {
    let world = world().await;
    world.redis.kill();
    let client = world.client().once();
    let event = json!({"id": "1", "member": "a", "score": 1});
    let answers = [
        client.post("/v1/boards/b/events", event.clone()).await,
        client.get("/v1/boards/b/standings/day").await,
        client.get("/readyz").await,
    ];
    for answer in answers {
        assert_eq!(answer.headers["retry-after"], "1");
        answer.expect_problem(503, "store-unavailable");
    }
    client.get("/livez").await.expect(200);

    world.redis.restart().await;
    world
        .client()
        .post("/v1/boards/b/events", event)
        .await
        .expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_type_of_problem_explains_itself() {
    let world = world().await;
    let client = world.client();
    let list = client.get("/problems").await;
    for kind in standings::http::problem::KINDS {
        let answer = client.get(&format!("/problems/{}", kind.name)).await;
        assert_eq!(answer.status, 200);
        for part in [kind.title, kind.page.explanation, kind.page.remedy] {
            assert!(answer.text.contains(part), "{}", answer.text);
        }
        let code = format!("\"code\": \"{}\"", kind.name);
        assert!(answer.text.contains(&code), "{}", answer.text);
        let line = format!("{}: {}", kind.name, kind.title);
        assert!(list.text.contains(&line), "{}", list.text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_gets_the_problems_as_pages() {
    let world = world().await;
    let client = world.client();
    let browse = async |path: &str| {
        let request = client.builder(Method::GET, path);
        let page = Client::send(request.header("accept", "text/html,*/*;q=0.8")).await;
        assert_eq!(page.status, 200, "{path}");
        assert_eq!(page.headers["content-type"], "text/html; charset=utf-8");
        assert!(
            page.headers
                .get_all("vary")
                .iter()
                .any(|name| name == "Accept")
        );
        let policy = page.headers["content-security-policy"].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'; "), "{policy}");
        page.text
    };
    let list = browse("/problems").await;
    for kind in standings::http::problem::KINDS {
        let page = browse(&format!("/problems/{}", kind.name)).await;
        // Of a text, what is before the first code: it is a part of its own.
        let text = |whole: &'static str| whole.split(['`', '\'']).next().unwrap();
        let parts = [
            kind.name,
            text(kind.page.explanation),
            text(kind.page.remedy),
            "All problems",
            "name=\"viewport\"",
        ];
        for part in parts {
            assert!(page.contains(part), "{}, {part}: {page}", kind.name);
        }
        assert!(list.contains(&format!("problems/{}\"", kind.name)));
        let status = format!("id=\"status-{}\"", kind.status.as_u16());
        assert!(list.contains(&status), "{status}");
    }
    for (path, accept) in [
        ("/problems", "*/*"),
        ("/problems/forbidden", "application/json"),
    ] {
        let request = client.builder(Method::GET, path).header("accept", accept);
        let answer = Client::send(request).await;
        assert_eq!(answer.headers["content-type"], "text/plain; charset=utf-8");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_service_serves_its_own_machine_only() {
    let world = World::start("2026-11-21T12:00:00Z").await;
    let client = world.client();
    client.define("b", json!({"windows": ["day"]})).await;
    let public = json!({"windows": ["day"], "public": true});
    client.define("public", public).await;
    let (page, events) = ("/v1/boards/b/standings/day", "/v1/boards/b/events");
    let with = async |method: Method, path: &str, name: &str, value: &str| {
        let request = client.builder(method, path).header(name, value);
        Client::send(request.json(&json!({"member": "a", "score": 1}))).await
    };
    // A name that leads here (DNS rebinding), and a page of somebody else's (a form, a script).
    for (name, value) in [
        ("host", "evil.example"),
        ("origin", "https://evil.example"),
        ("origin", "null"),
    ] {
        let refused = with(Method::POST, events, name, value).await;
        refused.expect_problem(403, "foreign-origin");
        let refused = with(Method::DELETE, "/v1/boards/b", name, value).await;
        refused.expect_problem(403, "foreign-origin");
    }
    // Reads: under a foreign name a page would read them as its own. Of another origin it can't, unless CORS lets it.
    let query = json!({"queries": [{"type": "page", "board": "b", "window": "day"}]});
    for route in routes() {
        let request = access::routes::request(client, &route, "b");
        let answer = Client::send(request.header("host", "evil.example")).await;
        if route.access.scope.is_some() {
            answer.expect_problem(403, "foreign-origin");
        } else {
            assert_ne!(answer.status, 403, "{}", route.path);
        }
    }
    for origin in ["https://evil.example", "null"] {
        with(Method::GET, page, "origin", origin).await.expect(200);
        let asked = client
            .builder(Method::POST, "/v1/standings/query")
            .header("origin", origin);
        Client::send(asked.json(&query)).await.expect(200);
    }
    // What anybody may read is no secret.
    for path in ["/v1/boards/public/standings/day", "/embed/public/day"] {
        with(Method::GET, path, "host", "evil.example")
            .await
            .expect(200);
    }
    let own = client.base.clone();
    for origin in [own.as_str(), "https://allowed.example"] {
        let taken = with(Method::POST, events, "origin", origin).await;
        taken.expect(200);
    }
    assert_eq!(client.get(page).await.expect(200)["entries"][0]["score"], 2);
}
