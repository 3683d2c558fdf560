//! The OpenAPI document: committed, complete, true, and shown by a page that needs no internet.

mod compatible;
mod document;
mod schemas;

use std::collections::BTreeMap;

use reqwest::{Method, RequestBuilder, Url};
use serde_json::{Value, json};
use standings::domain::event::Origin;
use standings::domain::ids::{EventId, MemberId};
use standings::domain::queued::QueuedEvent;
use standings::domain::time::Timestamp;
use standings::profiles::search::job::NameIndex;
use standings::queue::dead_letters::store::LetterId;

use self::compatible::{breaks, says_so};
use self::schemas::{Document, example_of};
use crate::harness::client::Client;
use crate::harness::committed::assert_committed;
use crate::harness::jobs::ClosePeriods;
use crate::harness::program::Program;
use crate::harness::{Instance, World};

/// The variable with which the tests write the committed files; twice if the examples have changed.
const WRITE: &str = "STANDINGS_WRITE_OPENAPI";

#[test]
fn lint_the_committed_document_is_that_of_the_code() {
    let text = document::text().unwrap() + "\n";
    let mut whole = serde_json::to_value(document::document()).unwrap();
    whole["openapi"] = json!(document::VERSION);
    assert_eq!(Document::of_code().0, whole, "the text leaves nothing out");
    assert_committed("openapi/openapi.json", &text, WRITE);
}

#[test]
fn lint_every_operation_is_described_and_every_error_is_a_problem() {
    let document = Document::of_code();
    let mut ids = Vec::new();
    for (name, operation) in document.operations() {
        let summary = operation["summary"].as_str().unwrap_or_default();
        assert!(
            summary.ends_with('.') && summary.len() < 80,
            "{name}: {summary}"
        );
        ids.push(operation["operationId"].as_str().unwrap().to_owned());
        let parts = name.split('/').filter_map(|part| part.strip_prefix('{'));
        for part in parts.map(|part| part.trim_end_matches('}')) {
            let parameters = operation["parameters"].as_array();
            let is_it = |other: &Value| other["in"] == "path" && other["name"] == part;
            let is_described = parameters.is_some_and(|all| all.iter().any(is_it));
            assert!(is_described, "{name}: {part} is not described");
        }
        let body = &operation["requestBody"]["content"];
        let has_example = body.is_null() || example_of(body).is_object();
        assert!(has_example, "{name} has no example of a request");
        for (status, response) in operation["responses"].as_object().unwrap() {
            let content = response["content"].as_object();
            if status.starts_with(['4', '5']) {
                let schema = &response["content"]["application/problem+json"]["schema"]["$ref"];
                assert_eq!(schema, "#/components/schemas/Problem", "{name} {status}");
            } else if let Some(content) = content {
                let mut content = content.values();
                let has_example = content.all(|content| !content["example"].is_null());
                assert!(has_example, "{name} {status} has no example");
            }
        }
    }
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count, "operation ids are unique");
}

#[test]
fn lint_the_schemas_suit_generated_clients() {
    let document = Document::of_code();
    document.check_rules();
    let schemas = &document.0["components"]["schemas"];
    let codes = schemas["ProblemCode"]["enum"].as_array();
    let kinds = standings::http::problem::KINDS.iter();
    assert!(codes.unwrap().iter().eq(kinds.map(|kind| kind.name)));
}

fn version(document: &Document) -> &str {
    document.0["info"]["version"].as_str().unwrap()
}

/// `STANDINGS_RELEASED` is the file with the document of the last release.
#[test]
#[ignore = "`make compatible` says which release is the last one"]
fn clients_of_the_last_release_do_not_break_unless_the_version_says_so() {
    let released = std::env::var_os("STANDINGS_RELEASED").expect("STANDINGS_RELEASED");
    let released = std::fs::read_to_string(released).unwrap();
    let released = Document(serde_json::from_str(&released).unwrap());
    let document = Document::of_code();
    if !says_so(version(&released), version(&document)) {
        let breaks = breaks(&released, &document);
        assert!(
            breaks.is_empty(),
            "clients break, and the version in Cargo.toml does not say so: {breaks:#?}"
        );
    }
}

#[test]
fn versions_say_whether_clients_break() {
    for (old, new, is_said) in [
        ("0.1.0", "0.1.1", false),
        ("0.1.0", "0.2.0", true),
        ("0.1.0", "1.0.0", true),
        ("1.2.3", "1.3.0", false),
        ("1.2.3", "2.0.0", true),
    ] {
        assert_eq!(says_so(old, new), is_said, "{old} {new}");
    }
}

#[test]
fn what_breaks_clients_is_found() {
    let document = Document::of_code();
    let changed = |pointer: &str, change: Option<Value>| {
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        let mut changed = Document(document.0.clone());
        let parent = changed.0.pointer_mut(parent).unwrap();
        match (parent, change) {
            (Value::Object(fields), Some(value)) => drop(fields.insert(name.to_owned(), value)),
            (Value::Object(fields), None) => drop(fields.remove(name)),
            (Value::Array(items), Some(value)) => items.push(value),
            (Value::Array(items), None) => drop(items.remove(name.parse().unwrap())),
            (other, _) => panic!("{pointer}: {other}"),
        }
        breaks(&document, &changed)
    };
    assert_eq!(breaks(&document, &document), Vec::<String>::new());
    let (text, number) = (json!({"type": "string"}), json!({"type": "integer"}));
    let page = "/paths/~1v1~1boards~1{board}~1standings~1{window}/get";
    let parameter = json!({"name": "x", "in": "query", "required": true, "schema": text});
    let schema = |rest: &str| format!("/components/schemas/{rest}");
    for (pointer, change) in [
        (page.to_owned(), None),
        (format!("{page}/parameters/0"), None),
        (format!("{page}/parameters/-"), Some(parameter)),
        (format!("{page}/responses/304"), None),
        (schema("Event/properties/voter"), None),
        (schema("Event/required/-"), Some(json!("voter"))),
        (schema("Event/properties/voter"), Some(number.clone())),
        (schema("Event/properties/voter/maxLength"), Some(json!(64))),
        (schema("Update/enum/3"), None),
        (schema("Definition/properties/windows"), Some(text.clone())),
        (schema("Page/properties/total"), None),
        (schema("Page/required/0"), None),
        (schema("Page/properties/total/nullable"), Some(json!(true))),
        (schema("Entry/properties/member"), Some(number.clone())),
        (schema("TakenEventStatus/enum/-"), Some(json!("late"))),
        (
            schema("EventResult/discriminator/mapping/late"),
            Some(json!("#/components/schemas/TakenEvent")),
        ),
        (schema("Problem/properties/code"), None),
    ] {
        assert!(!changed(&pointer, change).is_empty(), "{pointer}");
    }
    for (pointer, change) in [
        (schema("Event/properties/note"), Some(text.clone())),
        (schema("Event/properties/voter/maxLength"), Some(json!(256))),
        (
            schema("Event/properties/voter/description"),
            Some(json!("another")),
        ),
        (schema("Page/properties/more"), Some(text)),
        (
            schema("QuotaDefinition/properties/measure/description"),
            None,
        ),
        (schema("Dimension/description"), None),
        ("/paths/~1v1~1new".to_owned(), Some(json!({}))),
    ] {
        assert_eq!(changed(&pointer, change), Vec::<String>::new(), "{pointer}");
    }
}

/// Whether it is the id of a line of the audit log.
fn is_of_line(text: &str) -> bool {
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let ms = text.split_once('-').filter(|(_, number)| is_number(number));
    ms.is_some_and(|(ms, _)| ms.len() == 13 && is_number(ms))
}

/// Whether it is the id of a dead letter.
fn is_of_letter(text: &str) -> bool {
    text.parse::<LetterId>().is_ok()
}

/// An answer without what differs from session to session.
fn settled(mut answer: Value) -> Value {
    match &mut answer {
        Value::Object(fields) => {
            if fields.contains_key("sampled") {
                // How many bytes keys need is up to the version and the mode of Redis.
                fields.insert("bytes".to_owned(), json!(11_628));
            }
            // The service of the session is open.
            fields.remove("warning");
            for (name, value) in fields {
                *value = match (name.as_str(), value.take()) {
                    ("secret", Value::String(secret)) if secret.starts_with("whsec_") => {
                        json!("whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=")
                    }
                    ("secret", _) => json!(format!("st_{}", "0123456789abcdef".repeat(4))),
                    ("token", _) => {
                        json!("eyJieSI6ImFueWJvZHkiLCJib2FyZCI6InJ1bl9oZXJvIn0.5f0c2a9be41d")
                    }
                    ("version", _) => json!("28080000123456-1"),
                    ("hide", _) => json!("hide_5f0c2a9be41d7763c8aa5f0c2a9be41d"),
                    ("warnings", _) => json!([]),
                    ("request_id", _) => json!("46a904da58227f43"),
                    ("pseudonym", _) => json!("m-5f0c2a9be41d7763c8aa"),
                    (_, Value::String(id)) if is_of_line(&id) => json!("1795305600123-0"),
                    (_, Value::String(id)) if is_of_letter(&id) => json!(LETTER),
                    ("died_at", _) => json!("2026-11-22T00:00:00.123Z"),
                    ("waiting_since", Value::String(_)) => json!("2026-11-22T12:00:00.000Z"),
                    (_, value) => settled(value),
                };
            }
        }
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| *item = settled(item.take())),
        _ => {}
    }
    answer
}

/// The id of a dead letter in the examples.
const LETTER: &str = "1795305600123-0_0_1_28080000123456";

/// Makes a dead letter of the board of the examples, and returns its id.
async fn bury(world: &World) -> String {
    let at = Timestamp::parse("2026-11-21T23:59:58Z").unwrap();
    let event = QueuedEvent {
        id: EventId::parse("run-88231").unwrap(),
        fingerprint: 77,
        member: MemberId::parse("999").unwrap(),
        score: "71".to_owned(),
        sent_at: None,
        at,
        queued_at: at,
        origin: Origin::default(),
        data: None,
    };
    let generation = world.generation("run_hero").await;
    let (key, event) = (format!("st:{{run_hero}}:{generation}:dead"), event.encode());
    let fields = [
        "*",
        "reason",
        "failed",
        "detail",
        "there is no result for an event",
        "entry",
        "1-0",
        "id",
        "run-88231",
        "event",
    ];
    let mut words: Vec<&[u8]> = vec![b"XADD", key.as_bytes()];
    words.extend(fields.iter().map(|field| field.as_bytes()));
    words.push(&event);
    let place = world.redis.run(&words).await.text();
    format!("{place}_0_1_{generation}")
}

/// Defines the board of the examples of leagues.
async fn define_league(client: &Client) {
    let tiers = json!([
        {"name": "bronze", "promote": 0.3, "demote": 0},
        {"name": "silver", "promote": 0.2, "demote": 0.2},
        {"name": "gold", "promote": 0, "demote": 0.3},
    ]);
    let league = json!({"windows": ["day"], "score_min": 0, "league": {"tiers": tiers}});
    client.define("run_league", league).await;
}

/// The examples of answers come from a session: the examples of requests, from the top to the bottom of the page.
#[tokio::test(flavor = "multi_thread")]
async fn every_response_follows_its_schema_and_every_request_must() {
    let world = World::start("2026-11-21T12:00:00Z").await;
    let (url, clock) = (world.redis.url(), world.clock.clone());
    let finding = Instance::start_finding_names(&url, clock, "").await;
    finding.engine.run(&NameIndex).await.unwrap();
    let client = &finding.client;
    define_league(client).await;
    // On the page, `standings` come before the profiles that they show.
    let profiles = json!({"profiles": [
        {"member": "999", "name": "Ann", "avatar_url": "https://img.example.com/ann.png", "attributes": {"country": "NZ"}},
        {"member": "alice", "name": "Alice"},
    ]});
    client.post("/v1/profiles", profiles).await.expect(200);
    let document = Document::of_code();
    let mut examples = BTreeMap::new();
    let text = document::text().unwrap();
    for operation in as_shown(&document.0, &text) {
        let (method, path, described) = operation;
        let mut described = described.clone();
        if path.contains("/dead-letters") {
            let letter = json!(bury(&world).await);
            for parameter in described["parameters"].as_array_mut().unwrap() {
                if parameter["example"] == LETTER {
                    parameter["example"] = letter.clone();
                }
            }
        }
        let operation = (method.clone(), path, &described);
        if described["tags"][0] == "results" {
            // The day is over.
            world.set_time("2026-11-22T12:00:00Z");
            world.engine().run(&ClosePeriods).await.unwrap();
        }
        let name = format!("{method} {path}");
        let json_of = |content: &Value| content["application/json"]["schema"].clone();
        let body = &described["requestBody"]["content"];
        let damaged = document.damaged(&json_of(body), example_of(body));
        for damaged in damaged.iter().filter(|_| body.is_object()) {
            let answer = Client::send(request(client, &operation).json(damaged)).await;
            let code = match &answer.json["results"] {
                Value::Array(results) => {
                    let codes = results.iter().map(|result| &result["problem"]["code"]);
                    codes.max_by_key(|code| code.is_string()).unwrap().clone()
                }
                _ => answer.json["code"].clone(),
            };
            assert_eq!(
                code, "validation-failed",
                "{name} {damaged}: {}",
                answer.text
            );
        }
        let answer = Client::send(request(client, &operation)).await;
        assert!(answer.headers.contains_key("cache-control"), "{name}");
        if path == "/metrics" {
            continue;
        }
        assert!(answer.status.is_success(), "{name}: {}", answer.text);
        let content = &described["responses"][answer.status.as_str()]["content"];
        if content.is_object() && content["application/json"].is_null() {
            // An export has examples of its own.
            continue;
        }
        let errors = document.errors(&json_of(content), &answer.json, &name);
        assert!(errors.is_empty(), "{errors:#?}");
        if content.is_object() {
            let id = described["operationId"].as_str().unwrap().to_owned();
            examples.insert(id, settled(answer.json));
        }
    }
    let examples = serde_json::to_string_pretty(&examples).unwrap() + "\n";
    assert_committed("openapi/examples.json", &examples, WRITE);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_is_served_from_the_binary_alone() {
    let world = World::start("2026-11-21T12:00:00Z").await;
    let client = world.client();
    let page = client.get("/docs/").await;
    assert_eq!(page.status, 200);
    assert!(
        !page.text.contains("https://"),
        "the page loads something from elsewhere"
    );
    for file in [
        "swagger-ui.css",
        "docs.css",
        "swagger-ui-bundle.js",
        "docs.js",
    ] {
        assert!(page.text.contains(&format!("docs/{file}\"")), "{file}");
        let answer = client.get(&format!("/docs/{file}")).await;
        assert_eq!(answer.status, 200, "{file}");
        // It is large, and a browser that has it asks only whether it is the same.
        let request = client.builder(Method::GET, &format!("/docs/{file}"));
        let known = request.header("if-none-match", &answer.headers["etag"]);
        assert_eq!(Client::send(known).await.status, 304, "{file}");
    }
    let style = client.get("/docs/swagger-ui.css").await;
    assert!(style.text.starts_with(".swagger-ui"), "it is packed");
    let start = client.get("/docs/docs.js").await;
    for part in ["../openapi.json", "persistAuthorization: true"] {
        assert!(start.text.contains(part), "{}", start.text);
    }
    for part in [
        "<title>API reference · standings</title>",
        "<meta name=\"viewport\" content=\"width=device-width",
        ">Console</a>",
    ] {
        assert!(page.text.contains(part), "{}", page.text);
    }
    client
        .get("/docs/oauth2-redirect.html")
        .await
        .expect_problem(404, "not-found");
    assert_eq!(
        client.get("/openapi.json").await.expect(200)["info"]["title"],
        "standings"
    );
}

/// The operations in the order in which a reader runs them: that of the page, by tags and then as the text has them. What deletes comes last, from
/// the bottom of the page to its top.
fn as_shown<'a>(document: &'a Value, text: &str) -> Vec<(Method, &'a str, &'a Value)> {
    let tags = document["tags"].as_array().unwrap();
    let mut operations = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let method = method.to_uppercase().parse::<Method>().unwrap();
            operations.push((method, path.as_str(), operation));
        }
    }
    let place = |(method, path, operation): &(Method, &str, &Value)| {
        let tag = &operation["tags"][0];
        let tag = tags
            .iter()
            .position(|known| known["name"] == *tag)
            .unwrap_or_else(|| panic!("{path}: its tag is not listed"));
        // What was taken away is brought back.
        let is_restored = operation["operationId"] == "restore_event";
        let id = if is_restored {
            &json!("retract_event")
        } else {
            &operation["operationId"]
        };
        let id = format!("\"operationId\": {id}");
        let place = text.find(&id).unwrap() + usize::from(is_restored);
        let place = i64::try_from(tag * text.len() + place).unwrap();
        let deletes = method == Method::DELETE;
        (deletes, if deletes { -place } else { place })
    };
    operations.sort_by_key(place);
    operations
}

/// What a form holds before anybody has typed into it.
fn prefilled(parameter: &Value) -> Option<String> {
    let schema = &parameter["schema"];
    let values = [
        &parameter["example"],
        &schema["example"],
        &schema["default"],
    ];
    let text = |value: &Value| {
        value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned)
    };
    let value = values.into_iter().find(|value| !value.is_null())?;
    Some(match value {
        Value::Array(items) => items.iter().map(text).collect::<Vec<_>>().join(","),
        value => text(value),
    })
}

fn request(client: &Client, (method, path, operation): &(Method, &str, &Value)) -> RequestBuilder {
    let name = format!("{method} {path}");
    let mut path = (*path).to_owned();
    let (mut query, mut headers) = (Vec::new(), Vec::new());
    let none = Vec::new();
    for parameter in operation["parameters"].as_array().unwrap_or(&none) {
        let key = parameter["name"].as_str().unwrap();
        let Some(value) = prefilled(parameter) else {
            assert_ne!(parameter["required"], true, "{name}: {key} has no example");
            continue;
        };
        match parameter["in"].as_str().unwrap() {
            "path" => path = path.replace(&format!("{{{key}}}"), &value),
            "query" => query.push((key, value)),
            "header" => headers.push((key, value)),
            other => panic!("{name}: {key} is in {other}"),
        }
    }
    let query = Url::parse_with_params(&client.base, query).unwrap();
    let path = format!("{path}?{}", query.query().unwrap_or_default());
    let mut request = client.builder(method.clone(), &path);
    for (key, value) in headers {
        request = request.header(key, value);
    }
    if operation["requestBody"].is_object() {
        let body = example_of(&operation["requestBody"]["content"]);
        assert!(body.is_object(), "{name}: the body has no example");
        request = request.json(body);
    }
    request
}

/// Whether some item of an answer was refused.
fn has_problem(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields
            .iter()
            .any(|(name, field)| name == "problem" || has_problem(field)),
        Value::Array(items) => items.iter().any(has_problem),
        _ => false,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_example_works_in_the_order_of_the_page() {
    let folder = tempfile::tempdir().unwrap();
    let program = Program::serve(folder.path()).await;
    let client = program.client();
    let text = client.get("/openapi.json").await.text;
    let document = serde_json::from_str(&text).unwrap();
    // Whoever has come to the end can begin anew.
    for _ in 0..2 {
        define_league(&client).await;
        for operation in as_shown(&document, &text) {
            let answer = Client::send(request(&client, &operation)).await;
            let (method, path, operation) = operation;
            let text = format!("{method} {path}: {} {}", answer.status, answer.text);
            if operation["tags"][0] == "results" && [404, 409].contains(&answer.status.as_u16()) {
                // The day of the examples is not over, or long gone.
                continue;
            }
            if path == "/v1/members" && answer.status == 409 {
                // The search is off unless a setting turns it on.
                continue;
            }
            if path.ends_with("/retry") && answer.status == 404 {
                // Each session has deliveries of its own.
                continue;
            }
            if path.contains("/dead-letters/{id}") && answer.status == 404 {
                // A letter is there once an event can't be applied.
                continue;
            }
            assert!(answer.status.is_success(), "{text}");
            assert!(!has_problem(&answer.json), "{text}");
        }
        client.delete("/v1/boards/run_league").await.expect(204);
        let boards = client.get("/v1/boards").await.expect(200);
        assert_eq!(
            boards["boards"],
            Value::Array(Vec::new()),
            "the last one deletes"
        );
    }
    // Its private server would outlive it.
    program.stop().await;
}
