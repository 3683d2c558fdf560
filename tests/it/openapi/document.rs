//! Makes the OpenAPI document: the table of routes in the form that clients are generated from.
//!
//! `api/values.rs` describes the domain's values, `schemas` gives the schemas their forms. The example responses are those of a
//! session that the tests play: `openapi/examples.json`.

mod schemas;

use std::collections::BTreeMap;

use axum::http::Method;
use indexmap::IndexMap;
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::openapi::example::ExampleBuilder;
use utoipa::openapi::header::Header;
use utoipa::openapi::path::{Operation, Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::tag::{Tag, TagBuilder};
use utoipa::openapi::{Components, Content, Info, OpenApi, Ref, RefOr, Response, Server};
use utoipa::{OpenApi as _, PartialSchema};
use utoipa_axum::router::OpenApiRouter;

use standings::access::Access;
use standings::api::table::{self, Route, TAGS};
use standings::boards::templates::TEMPLATES;
use standings::domain::access::Scope;
use standings::domain::ids::BoardId;
use standings::http::observe;
use standings::http::problem::ProblemBody;
use standings::live::message::{EndBody, PeriodBody};

/// The version of `OpenAPI` that the document is written in, which utoipa does not know (`document/schemas/dialect.rs`).
pub const VERSION: &str = "3.0.3";
/// The responses of a session, by the ids of their operations.
const EXAMPLES: &str = include_str!("../../../openapi/examples.json");

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "standings",
        description = "Exact leaderboards and vote rankings over HTTP, on Redis.\n\nA **board** is a definition. A **standing** is one ranked list of a board: one *window* (`day`, `last-7-days`, …) at one *key* (`2026-11-21`). An **event** adds to, or sets, the score of one member. A standing depends only on which events were accepted: late, duplicate or batched events never distort ranks.\n\nThe request examples work as they are, from top to bottom of this page, if you create the board with its example *Days, weeks and rewards*, and leave the `DELETE`s for the end. Those of `leagues` need a board `run_league`, and those of `results` work when the day is over.\n\nEvery error is `application/problem+json` (RFC 9457). Programs should use its `code`; its `type` is the address of a page that explains it, and [/problems](../problems) lists all. In addition to the errors that an operation lists, the service may return 405 `method-not-allowed`, 414 `uri-too-long` and 431 `head-too-large`, and 429 `rate-limited` with `Retry-After` if the API key has a rate.",
        license(name = "Apache-2.0", url = "https://www.apache.org/licenses/LICENSE-2.0"),
    ),
    servers((url = "./", description = "Where this document is.")),
    security((), ("api_key" = [])),
    components(schemas(ProblemBody, PeriodBody, EndBody)),
)]
struct Document;

/// How callers authenticate.
fn add_api_keys(document: &mut OpenApi) {
    let scheme = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some(
            "An API key, if the service has any, or a player's token. Each operation names the scope that it needs; the scope `admin` includes all others.",
        ));
    let components = document.components.as_mut().expect("there are components");
    components.add_security_scheme("api_key", SecurityScheme::Http(scheme.build()));
}

/// Gives an operation its tag, and the scope that it needs.
fn describe(operation: &mut Operation, tag: &table::Tag, access: Access) {
    operation.tags = Some(vec![tag.name.to_owned()]);
    if access.scope.is_none() {
        return;
    }
    let scope = Scope::listed(&access.scopes());
    operation.security = Some(vec![
        SecurityRequirement::default(),
        SecurityRequirement::new("api_key", [] as [&str; 0]),
    ]);
    let callers = if access.is_public {
        "; none on a public board"
    } else if access.is_for_players {
        ", or a player's token"
    } else {
        ""
    };
    let description = operation.description.take();
    let description = description.map_or_else(String::new, |text| text + "\n\n");
    operation.description = Some(format!("{description}Scope: {scope}{callers}."));
}

/// All operations, with their paths and methods.
fn operations(document: &mut OpenApi) -> impl Iterator<Item = (&String, Method, &mut Operation)> {
    document.paths.paths.iter_mut().flat_map(|(path, item)| {
        table::operations(item)
            .into_iter()
            .map(move |(method, operation)| (path, method, operation))
    })
}

/// The value, if it is described inline and not by reference.
fn in_place<T>(described: &mut RefOr<T>) -> Option<&mut T> {
    match described {
        RefOr::T(described) => Some(described),
        RefOr::Ref(_) => None,
    }
}

/// The parts of paths that handlers take one by one: the segment before such a part, what it names, and an example.
const PATH_PARTS: [(&str, &str, &str); 8] = [
    ("boards", "board", "run_hero"),
    (
        "dead-letters",
        "letter",
        "1795305600123-0_0_1_28080000123456",
    ),
    (
        "deliveries",
        "delivery",
        "msg_5cfd43ee0cc270910e9864f1c9f46cc2",
    ),
    ("events", "event", "run-88231"),
    ("hidden", "member", "troll-7"),
    ("keys", "key", "site"),
    ("members", "member", "eve"),
    ("webhooks", "webhook", "site"),
];

/// Describes the parts of paths that the routes themselves do not describe. An operation may return 404 for such a name,
/// unless it creates what it names.
fn describe_paths(document: &mut OpenApi) {
    for (path, _, operation) in operations(document) {
        let segments: Vec<&str> = path.split('/').collect();
        let mut parameters = Vec::new();
        for pair in segments.windows(2) {
            let name = pair[1].trim_matches(['{', '}']);
            let part = PATH_PARTS.iter().find(|(before, ..)| *before == pair[0]);
            if let Some((_, what, example)) = part
                && name != pair[1]
                && !names(operation, &ParameterIn::Path, name)
            {
                let (word, schema) = match name {
                    "board" => ("id", BoardId::schema()),
                    "name" => ("name", BoardId::schema()),
                    _ => ("id", String::schema()),
                };
                let parameter = ParameterBuilder::from(Parameter::new(name))
                    .description(Some(format!("The {what}'s {word}")))
                    .schema(Some(schema))
                    .example(Some(Value::from(*example)));
                parameters.push(RefOr::T(parameter.build()));
                let responses = &mut operation.responses.responses;
                if name == "name" && !responses.contains_key("201") {
                    add(responses, &[("404", &format!("`{what}-not-found`"))]);
                }
            }
        }
        if !parameters.is_empty() {
            parameters.append(operation.parameters.get_or_insert_default());
            operation.parameters = Some(parameters);
        }
    }
}

/// Describes the headers of reads. They follow from those that a read takes (`caching.rs`, `freshness.rs`).
fn describe_reads(document: &mut OpenApi) {
    for (_, method, operation) in operations(document) {
        if method == Method::GET && takes(operation, "If-None-Match") {
            let unchanged = RefOr::T(Response::new("Nothing has changed"));
            let responses = &mut operation.responses.responses;
            responses.insert("304".to_owned(), unchanged);
            give_header::<String>(operation, "ETag", "The version of this content");
            let rule = "How long caches may keep it";
            give_header::<String>(operation, "Cache-Control", rule);
        }
        if takes(operation, "Cache-Control") {
            let age = "From a replica: its maximum age in milliseconds";
            give_header::<u64>(operation, "Max-Staleness-Ms", age);
        }
    }
}

fn takes(operation: &Operation, header: &str) -> bool {
    names(operation, &ParameterIn::Header, header)
}

fn names(operation: &Operation, place: &ParameterIn, name: &str) -> bool {
    operation.parameters.iter().flatten().any(|parameter| {
        matches!(parameter, RefOr::T(parameter)
            if parameter.parameter_in == *place && parameter.name == name)
    })
}

/// Gives the response of an operation a header, unless its route describes that.
fn give_header<T: PartialSchema>(operation: &mut Operation, name: &str, description: &str) {
    let mut header = Header::new(T::schema());
    header.description = Some(description.to_owned());
    if let Some(RefOr::T(answer)) = operation.responses.responses.get_mut("200") {
        let headers = &mut answer.headers;
        headers.entry(name.to_owned()).or_insert(RefOr::T(header));
    }
}

/// The problems that every operation under `/v1` can return.
const PROBLEMS: [(&str, &str); 6] = [
    ("400", "`malformed-json`, `invalid-parameter`"),
    ("401", "`unauthenticated`"),
    ("403", "`forbidden`"),
    ("408", "`request-timeout`"),
    ("500", "`internal`"),
    (
        "503",
        "`store-unavailable`, `store-full`, `overloaded`, `answer-timeout`, `board-changing`, `contention`, `standing-pending`, \
         with `Retry-After`",
    ),
];
/// The problems of every operation that has a body.
const PROBLEMS_OF_BODIES: [(&str, &str); 3] = [
    ("413", "`payload-too-large`"),
    ("415", "`unsupported-media-type`"),
    ("422", "`validation-failed`"),
];

/// The problems of every read that can wait for a revision.
const PROBLEMS_OF_REVISIONS: [(&str, &str); 2] = [
    ("409", "`revision-unknown`"),
    ("503", "`revision-pending`, with `Retry-After`"),
];

/// The problem of every operation on a board, except the one that creates it.
const PROBLEMS_OF_BOARDS: [(&str, &str); 1] = [("404", "`board-not-found`")];
/// The problem of every operation on a league.
const PROBLEMS_OF_LEAGUES: [(&str, &str); 1] = [("404", "`board-not-found`, `no-league`")];
/// The problems of every read of one standing of any period.
const PROBLEMS_OF_STANDINGS: [(&str, &str); 2] = [
    (
        "404",
        "`board-not-found`, `unknown-window`, `no-league`, `cohort-not-found`",
    ),
    ("429", "`rate-limited`, with `Retry-After`"),
];
/// The problem of those that name no member, by which the cohort could be found.
const PROBLEMS_OF_COHORTS: [(&str, &str); 1] = [(
    "400",
    "`cohort-required`: a league is read cohort by cohort",
)];

/// Adds the problems that an operation can return in addition to those that its route names; and the body of all of them.
fn add_problems(document: &mut OpenApi) {
    for (path, method, operation) in operations(document) {
        let has = |name| names(operation, &ParameterIn::Query, name);
        let creates_board = method == Method::PUT && path.ends_with("/{board}");
        let is_of_standing = has("at") && has("cohort");
        let problems: [(bool, &[_]); 7] = [
            (is_of_standing, &PROBLEMS_OF_STANDINGS),
            (
                is_of_standing && !path.contains("{member}"),
                &PROBLEMS_OF_COHORTS,
            ),
            (path.contains("/league/"), &PROBLEMS_OF_LEAGUES),
            (
                path.contains("{board}") && !creates_board,
                &PROBLEMS_OF_BOARDS,
            ),
            (path.starts_with("/v1"), &PROBLEMS),
            (has("min_revision"), &PROBLEMS_OF_REVISIONS),
            (operation.request_body.is_some(), &PROBLEMS_OF_BODIES),
        ];
        let responses = &mut operation.responses.responses;
        for (_, problems) in problems.iter().filter(|(is_own, _)| *is_own) {
            add(responses, problems);
        }
        give_bodies(responses);
    }
}

type Responses = BTreeMap<String, RefOr<Response>>;

/// Adds problems, unless the route names them.
fn add(responses: &mut Responses, problems: &[(&str, &str)]) {
    for (status, problems) in problems {
        let response = responses
            .entry((*status).to_owned())
            .or_insert_with(|| RefOr::T(Response::new(*problems)));
        if let RefOr::T(Response { description, .. }) = response
            && !description.contains(problems)
        {
            *description = format!("{description}; {problems}");
        }
    }
}

fn give_bodies(responses: &mut Responses) {
    let is_problem = |status: &str| status.starts_with(['4', '5']);
    for (_, response) in responses
        .iter_mut()
        .filter(|(status, _)| is_problem(status))
    {
        if let RefOr::T(response) = response {
            let body = Content::new(Some(Ref::from_schema_name("Problem")));
            let content = &mut response.content;
            content.insert(observe::PROBLEM_JSON.to_owned(), RefOr::T(body));
        }
    }
}

/// Adds the responses of a session as examples.
fn add_examples(document: &mut OpenApi) {
    let examples: BTreeMap<String, Value> =
        serde_json::from_str(EXAMPLES).expect("openapi/examples.json is JSON");
    for (.., operation) in operations(document) {
        let id = operation.operation_id.as_deref().unwrap_or_default();
        let contents = operation
            .responses
            .responses
            .iter_mut()
            .filter(|(status, _)| status.starts_with('2'))
            .filter_map(|(_, answer)| in_place(answer))
            .flat_map(|answer| answer.content.values_mut())
            .filter_map(in_place);
        for content in contents {
            let example = content.example.take();
            content.example = example.or_else(|| examples.get(id).cloned());
        }
    }
}

/// Adds a short example of a definition, the first by its name, and the templates. All other examples are of the board of
/// the operation's own example.
fn add_templates(document: &mut OpenApi) {
    let is_put = |operation: &Operation| operation.operation_id.as_deref() == Some("put_board");
    let put = operations(document)
        .map(|(.., operation)| operation)
        .find(|operation| is_put(operation));
    let body = put.and_then(|put| in_place(put.request_body.as_mut()?));
    let contents = body.map(|body| body.content.values_mut());
    for content in contents.into_iter().flatten().filter_map(in_place) {
        let example = |name: &str, about: &str, value: Value| {
            let example = ExampleBuilder::new().summary(name).description(about);
            RefOr::T(example.value(Some(value)).build())
        };
        if let Some(own) = content.example.take() {
            let own = example(
                "Days, weeks and rewards",
                "The board of the other examples.",
                own,
            );
            content.examples.insert("all-kinds".to_owned(), own);
        }
        let short = example(
            "The best score of each member",
            "All other fields have their defaults.",
            json!({"update": "max"}),
        );
        content.examples.insert("a-first-board".to_owned(), short);
        for template in &TEMPLATES {
            let fields = serde_json::from_str(template.fields).expect("invariant: it is JSON");
            let shown = example(template.name, template.about, fields);
            content.examples.insert(template.id.to_owned(), shown);
        }
    }
}

/// The OpenAPI document, in [`VERSION`] but for the field that names it.
pub fn document() -> OpenApi {
    let mut router = OpenApiRouter::with_openapi(Document::openapi());
    let mut tags = Vec::new();
    for tag in TAGS {
        for (access, mut route) in (tag.rows)() {
            for item in route.1.paths.values_mut() {
                for (_, operation) in table::operations(item) {
                    describe(operation, tag, access);
                }
            }
            router = router.routes(route);
        }
        let described = TagBuilder::new().name(tag.name);
        tags.push(described.description(Some(tag.description)).build());
    }
    let mut document = router.into_openapi();
    document.tags = Some(tags);
    add_api_keys(&mut document);
    describe_paths(&mut document);
    describe_reads(&mut document);
    add_problems(&mut document);
    schemas::settle(&mut document);
    add_examples(&mut document);
    add_templates(&mut document);
    document
}

/// The document with its operations in the order of the table of routes.
#[derive(Serialize)]
struct Ordered {
    openapi: &'static str,
    info: Info,
    servers: Option<Vec<Server>>,
    paths: IndexMap<String, IndexMap<String, Operation>>,
    components: Option<Components>,
    security: Option<Vec<SecurityRequirement>>,
    tags: Option<Vec<Tag>>,
}

/// The text of the document. Its operations have the order of the table of routes, so that `/docs` shows those of a tag in
/// this order; utoipa would sort them by path and method.
///
/// # Errors
///
/// Fails if the document can't be written as JSON.
pub fn text() -> serde_json::Result<String> {
    let mut document = document();
    let mut paths = IndexMap::<_, IndexMap<_, _>>::new();
    for Route { method, path, .. } in table::routes() {
        let item = document.paths.paths.get_mut(&path);
        let (_, operation) = item
            .map(table::operations)
            .into_iter()
            .flatten()
            .find(|(other, _)| *other == method)
            .expect("invariant: the document has all routes");
        let operations = paths.entry(path).or_default();
        operations.insert(method.as_str().to_ascii_lowercase(), operation.clone());
    }
    let OpenApi {
        info,
        servers,
        components,
        security,
        tags,
        ..
    } = document;
    serde_json::to_string_pretty(&Ordered {
        openapi: VERSION,
        info,
        servers,
        paths,
        components,
        security,
        tags,
    })
}
