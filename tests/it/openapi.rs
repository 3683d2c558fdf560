//! The OpenAPI document: committed, complete, and shown by a page that needs no internet.

use reqwest::{Method, RequestBuilder, Url};
use serde_json::Value;

use crate::harness::client::Client;
use crate::harness::program::Program;
use crate::harness::{World, repository};

#[test]
fn the_committed_document_is_the_one_of_the_code() {
    let path = repository().join("openapi/openapi.json");
    let document = standings::http::document().to_pretty_json().unwrap() + "\n";
    if std::env::var_os("STANDINGS_WRITE_OPENAPI").is_some() {
        std::fs::write(&path, &document).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == document,
        "openapi/openapi.json has drifted; write it again: STANDINGS_WRITE_OPENAPI=1 cargo test openapi"
    );
}

#[test]
fn every_operation_is_described_and_every_error_is_a_problem() {
    let document = serde_json::to_value(standings::http::document()).unwrap();
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    let mut ids = Vec::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let name = format!("{method} {path}");
            assert!(operation["summary"].is_string(), "{name} has no summary");
            ids.push(operation["operationId"].as_str().unwrap().to_owned());
            for (status, response) in operation["responses"].as_object().unwrap() {
                if status.starts_with(['4', '5']) {
                    let schema = &response["content"]["application/problem+json"]["schema"]["$ref"];
                    assert_eq!(schema, "#/components/schemas/Problem", "{name} {status}");
                }
            }
        }
    }
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count, "operation ids are unique");
    check_references(&document, &document);
}

/// Every `$ref` leads somewhere.
fn check_references(document: &Value, value: &Value) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::String(reference)) = fields.get("$ref") {
                let pointer = reference.strip_prefix('#').unwrap();
                assert!(
                    document.pointer(pointer).is_some(),
                    "{reference} leads nowhere"
                );
            }
            fields
                .values()
                .for_each(|field| check_references(document, field));
        }
        Value::Array(items) => items
            .iter()
            .for_each(|item| check_references(document, item)),
        _ => {}
    }
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
        "swagger-ui-bundle.js",
        "swagger-ui-standalone-preset.js",
        "swagger-initializer.js",
    ] {
        assert!(page.text.contains(file), "{file}");
        assert_eq!(
            client.get(&format!("/docs/{file}")).await.status,
            200,
            "{file}"
        );
    }
    let start = client.get("/docs/swagger-initializer.js").await;
    assert!(start.text.contains("/openapi.json"), "{}", start.text);
    assert_eq!(
        client.get("/openapi.json").await.expect(200)["info"]["title"],
        "standings"
    );
}

/// The operations in the order in which the page shows them: by tag, and then as they stand in the document.
fn as_shown(document: &Value) -> Vec<(Method, &str, &Value)> {
    let tags: Vec<&Value> = document["tags"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tag| &tag["name"])
        .collect();
    let mut operations = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        // Swagger UI keeps the order of the text, which is that of the specification; here it is alphabetical.
        for name in ["get", "put", "post", "delete", "patch"] {
            if let Some(operation) = methods.get(name) {
                let method = name.to_uppercase().parse::<Method>().unwrap();
                operations.push((method, path.as_str(), operation));
            }
        }
        let known = ["get", "put", "post", "delete", "patch"];
        assert!(
            methods
                .as_object()
                .unwrap()
                .keys()
                .all(|name| known.contains(&name.as_str()))
        );
    }
    operations.sort_by_key(|(_, path, operation)| {
        let tag = &operation["tags"][0];
        let place = tags.iter().position(|name| *name == tag);
        place.unwrap_or_else(|| panic!("{path}: the tag {tag} is not listed"))
    });
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
    let value = values.into_iter().find(|value| !value.is_null())?;
    Some(
        value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned),
    )
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
        let body = &operation["requestBody"]["content"]["application/json"]["example"];
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
async fn every_example_works_from_the_top_to_the_bottom_of_the_page() {
    let folder = tempfile::tempdir().unwrap();
    let program = Program::serve(folder.path()).await;
    let client = program.client();
    let document = client.get("/openapi.json").await.expect(200);
    // Whoever has come to the end can begin anew.
    for _ in 0..2 {
        for operation in as_shown(&document) {
            let answer = Client::send(request(&client, &operation)).await;
            let (method, path, _) = operation;
            let text = format!("{method} {path}: {} {}", answer.status, answer.text);
            assert!(answer.status.is_success(), "{text}");
            assert!(!has_problem(&answer.json), "{text}");
        }
        let boards = client.get("/v1/boards").await.expect(200);
        assert_eq!(
            boards["boards"],
            Value::Array(Vec::new()),
            "the last one deletes"
        );
    }
}
