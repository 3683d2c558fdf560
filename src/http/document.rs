//! The OpenAPI document: what the table of routes says, in the form that clients are generated from.
//!
//! `schemas` gives the schemas their forms. The examples of answers are those of a session, which the tests play:
//! `openapi/examples.json`.

mod schemas;

use std::collections::BTreeMap;

use serde_json::Value;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{ContentBuilder, OpenApi, Ref, RefOr, ResponseBuilder};
use utoipa::{Modify, OpenApi as _};
use utoipa_axum::router::OpenApiRouter;

use super::standings::queries::QuerySchemas;
use super::{observe, table};

/// The answers of a session, by the ids of their operations.
const EXAMPLES: &str = include_str!("../../openapi/examples.json");

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "standings",
        description = "Exact leaderboards and vote rankings over HTTP, on Redis.\n\nA **board** is a definition. A **standing** is one ranked list of a board: one *window* (`day`, `last-7-days`, …) at one *key* (`2026-11-21`). An **event** adds to, or sets, the score of one member. A standing is a pure function of the set of events that the service has accepted: order, retries and batches never show.\n\nThe examples of requests work as they stand, from the top to the bottom of this page; those of `results` once the day is over. The last ones delete what the first ones have made.\n\nEvery error is `application/problem+json` (RFC 9457). Programs go by its `code`; its `type` is the address of a page that explains it, and [/problems](/problems) lists all. Beside the errors that an operation names, the service answers 405 `method-not-allowed`, 414 `uri-too-long` and 431 `head-too-large`, and 429 `rate-limited` with `Retry-After` where an API key has a rate.",
        license(name = "Apache-2.0", identifier = "Apache-2.0"),
    ),
    tags(
        (name = "define", description = "Create and change boards, and set initial scores."),
        (name = "events", description = "Send scores, one or up to 1,000 in a request, and read what is left of quotas."),
        (name = "profiles", description = "Give members names and pictures."),
        (name = "names", description = "Review the names of members."),
        (name = "standings", description = "Read ranked lists: pages, members, subsets and statistics, by themselves or many in one request."),
        (name = "results", description = "See who has won a period that is over."),
        (name = "moderation", description = "Hide members of boards, and bring them back. Erase them."),
        (name = "keys", description = "Create API keys, and give them new secrets."),
        (name = "webhooks", description = "Be told of what happens on boards: register addresses, give them new secrets, and test them."),
        (name = "operations", description = "See whether the service works, read its metrics, and spread a board over a cluster."),
        (name = "boards", description = "List, read and delete boards, API keys and webhooks, and read and delete profiles."),
    ),
    security((), ("api_key" = [])),
    modifiers(&ApiKeyScheme),
)]
struct Document;

struct ApiKeyScheme;

impl Modify for ApiKeyScheme {
    fn modify(&self, document: &mut OpenApi) {
        let scheme = HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .description(Some(
                "An API key, if the service has any, or the token of a player. Each operation names the scope that it needs; the scope `admin` includes all others.",
            ));
        if let Some(components) = document.components.as_mut() {
            components.add_security_scheme("api_key", SecurityScheme::Http(scheme.build()));
        }
    }
}

/// The problems that every operation can answer with.
struct CommonProblems;

impl Modify for CommonProblems {
    fn modify(&self, document: &mut OpenApi) {
        const COMMON: [(&str, &str); 6] = [
            ("400", "`malformed-json`, `invalid-parameter`"),
            ("401", "`unauthenticated`"),
            ("403", "`forbidden`"),
            ("408", "`request-timeout`"),
            ("500", "`internal`"),
            (
                "503",
                "`store-unavailable`, `store-full`, `overloaded`, with `Retry-After`",
            ),
        ];
        for (path, item) in &mut document.paths.paths {
            if !path.starts_with("/v1") {
                continue;
            }
            for (_, operation) in table::operations(item) {
                for (status, description) in COMMON {
                    let problem = ContentBuilder::new()
                        .schema(Some(Ref::from_schema_name("Problem")))
                        .build();
                    let response = ResponseBuilder::new()
                        .description(description)
                        .content(observe::PROBLEM_JSON, problem)
                        .build();
                    let responses = &mut operation.responses.responses;
                    responses
                        .entry(status.to_owned())
                        .or_insert_with(|| response.into());
                }
            }
        }
    }
}

/// The answers of a session, as examples of what operations answer.
struct Examples;

impl Modify for Examples {
    fn modify(&self, document: &mut OpenApi) {
        let examples: BTreeMap<String, Value> =
            serde_json::from_str(EXAMPLES).expect("openapi/examples.json is JSON");
        for item in document.paths.paths.values_mut() {
            for (_, operation) in table::operations(item) {
                let id = operation.operation_id.as_deref().unwrap_or_default();
                let responses = operation.responses.responses.iter_mut();
                let answers = responses.filter(|(status, _)| status.starts_with('2'));
                for (_, response) in answers {
                    if let RefOr::T(response) = response {
                        for content in response.content.values_mut() {
                            if let RefOr::T(content) = content {
                                let example = content.example.take();
                                content.example = example.or_else(|| examples.get(id).cloned());
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The OpenAPI document.
pub fn document() -> OpenApi {
    let described = table::router(OpenApiRouter::with_openapi(Document::openapi()), None);
    let mut document = described.into_openapi();
    ApiKeyScheme.modify(&mut document);
    CommonProblems.modify(&mut document);
    QuerySchemas.modify(&mut document);
    schemas::settle(&mut document);
    Examples.modify(&mut document);
    document
}
