//! The OpenAPI document: committed, complete, and shown by a page that needs no internet.

use serde_json::Value;

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
