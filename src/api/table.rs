//! The table of routes: the handler of each, and what access it needs. The OpenAPI document and the router follow from it.

use std::sync::Arc;

use axum::Extension;
use axum::http::Method;
use axum::middleware::{from_fn_with_state, map_response};
use axum::routing::get;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::security::SecurityRequirement;
use utoipa::openapi::tag::{self, TagBuilder};
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter, UtoipaMethodRouterExt};
use utoipa_axum::routes;

use crate::access::{Access, Gate};
use crate::audit;
use crate::boards::{self, initial};
use crate::domain::access::Scope;
use crate::domain::access::Scope::{Admin, Configure, Moderate, Read, Write};
use crate::events::{self, quotas};
use crate::http::{App, caching};
use crate::keys;
use crate::leagues::{self, routes::tiers};
use crate::live::{self, Streams};
use crate::moderation::{self, tasks};
use crate::operations::{health, upkeep};
use crate::periods::{results, revisions, rewards};
use crate::profiles;
use crate::queue::{dead_letters, event_status};
use crate::standings;
use crate::webhooks;
use Access as A;

/// A row of the table: the access that a route needs, and its handler. There is no route without its access.
type Row = (Access, UtoipaMethodRouter<Arc<App>>);

/// Where a route is, and what it needs.
#[derive(Clone, Debug)]
pub struct Route {
    pub method: Method,
    /// The path, with its parameters in braces.
    pub path: String,
    pub access: Access,
}

/// A tag of the `OpenAPI` document.
struct Tag {
    name: &'static str,
    description: &'static str,
    rows: fn() -> Vec<Row>,
}

/// The tags, in the order in which the page `/docs` shows them. It shows the routes of a tag in the order of their rows,
/// but groups those of one path.
const TAGS: [Tag; 10] = [
    Tag {
        name: "boards",
        description: "Create, change, list and delete boards, and set initial scores.",
        rows: boards_rows,
    },
    Tag {
        name: "events",
        description: "Submit scores, one event or up to 1,000 in a request. Look up the outcome of an event, and the remaining quotas.",
        rows: events_rows,
    },
    Tag {
        name: "standings",
        description: "Read ranked lists: pages, members, subsets and statistics. Read many in one request, or follow one live.",
        rows: standings_rows,
    },
    Tag {
        name: "members",
        description: "Give members names and pictures, review their names, and erase members.",
        rows: members_rows,
    },
    Tag {
        name: "moderation",
        description: "Hide members of a board, or of all boards, and bring them back. Follow the jobs that work on all boards.",
        rows: moderation_rows,
    },
    Tag {
        name: "results",
        description: "Read who won a period that is over, export it, and claim rewards.",
        rows: results_rows,
    },
    Tag {
        name: "leagues",
        description: "Join and leave leagues, in which members compete in cohorts, each at its own level. The examples need a board `run_league` with a `league` and the window `day`.",
        rows: leagues_rows,
    },
    Tag {
        name: "webhooks",
        description: "Register addresses that are notified of what happens on boards, and look up deliveries.",
        rows: webhooks_rows,
    },
    Tag {
        name: "access",
        description: "Create, rotate and delete API keys, and read the audit log.",
        rows: access_rows,
    },
    Tag {
        name: "operations",
        description: "Check health, read metrics, watch queues, replay dead letters, and spread a board over a cluster.",
        rows: operations_rows,
    },
];

fn boards_rows() -> Vec<Row> {
    vec![
        (A::board(Configure).audited(), routes!(boards::routes::put)),
        (
            A::board(Configure).audited(),
            routes!(boards::routes::patch),
        ),
        (A::board(Configure), routes!(boards::routes::get)),
        (
            A::board(Configure).audited(),
            routes!(boards::routes::delete),
        ),
        (A::all(Configure), routes!(boards::routes::list)),
        (A::public(), routes!(standings::routes::summary::get)),
        (
            A::board(Configure).audited(),
            routes!(initial::routes::patch),
        ),
        (A::board(Configure), routes!(initial::routes::get)),
    ]
}

fn events_rows() -> Vec<Row> {
    vec![
        (
            A::board(Write).for_players(),
            routes!(events::routes::post_one),
        ),
        (
            A::board(Write).for_players(),
            routes!(event_status::routes::get),
        ),
        (
            A::each(Write).for_players(),
            routes!(events::routes::post_many),
        ),
        (A::board(Read), routes!(quotas::routes::get)),
    ]
}

fn standings_rows() -> Vec<Row> {
    vec![
        (A::public(), routes!(standings::routes::page)),
        (A::public(), routes!(standings::routes::member)),
        (A::public(), routes!(standings::routes::subset)),
        (A::board(Read), routes!(standings::routes::query_subset)),
        (A::public(), routes!(standings::routes::at_percentile)),
        (A::public(), routes!(standings::routes::stats)),
        (
            A::each(Read),
            routes!(standings::routes::across::standings_of),
        ),
        (A::each(Read), routes!(standings::routes::queries::query)),
        (A::public().streamed(), routes!(live::stream)),
        (A::each(Read), routes!(live::tokens::make)),
    ]
}

fn members_rows() -> Vec<Row> {
    vec![
        (A::all(Write).for_players(), routes!(profiles::routes::put)),
        (A::all(Write).for_players(), routes!(profiles::routes::get)),
        (A::all(Write), routes!(profiles::routes::delete)),
        (A::all(Write), routes!(profiles::routes::post_many)),
        (
            A::all(Moderate).audited(),
            routes!(profiles::routes::put_review),
        ),
        (A::all(Moderate), routes!(profiles::routes::list_reviews)),
        (
            A::board(Admin).audited(),
            routes!(moderation::routes::erase),
        ),
        (
            A::all(Admin).audited(),
            routes!(moderation::routes::erase_everywhere),
        ),
    ]
}

fn moderation_rows() -> Vec<Row> {
    vec![
        (
            A::board(Moderate).audited(),
            routes!(moderation::routes::put),
        ),
        (A::board(Moderate), routes!(moderation::routes::get)),
        (
            A::board(Moderate).audited(),
            routes!(moderation::routes::delete),
        ),
        (A::board(Moderate), routes!(moderation::routes::hidden)),
        (
            A::each(Moderate).audited(),
            routes!(moderation::routes::post),
        ),
        (A::all(Moderate), routes!(moderation::routes::orders)),
        (A::all(Moderate), routes!(tasks::routes::get)),
        (A::all(Moderate), routes!(tasks::routes::list)),
    ]
}

fn results_rows() -> Vec<Row> {
    vec![
        (
            A::board(Configure).audited(),
            routes!(results::routes::close),
        ),
        (A::public(), routes!(results::routes::list)),
        (A::public(), routes!(results::routes::get)),
        (A::board(Read), routes!(results::routes::export::get)),
        (A::board(Read), routes!(rewards::routes::list)),
        (A::board(Write), routes!(rewards::routes::claim)),
        (A::board(Read), routes!(revisions::routes::list)),
    ]
}

fn leagues_rows() -> Vec<Row> {
    vec![
        (
            A::board(Write).for_players(),
            routes!(leagues::routes::join),
        ),
        (A::board(Moderate).audited(), routes!(leagues::routes::put)),
        (A::board(Moderate), routes!(leagues::routes::get)),
        (A::public(), routes!(tiers::list)),
        (A::public(), routes!(tiers::cohorts)),
        (A::public(), routes!(tiers::history)),
        (
            A::board(Write).for_players(),
            routes!(leagues::routes::leave),
        ),
    ]
}

fn webhooks_rows() -> Vec<Row> {
    vec![
        (A::each(Configure).audited(), routes!(webhooks::routes::put)),
        (A::each(Configure), routes!(webhooks::routes::get)),
        (
            A::each(Configure).audited(),
            routes!(webhooks::routes::delete),
        ),
        (A::each(Configure), routes!(webhooks::routes::list)),
        (
            A::each(Configure).audited(),
            routes!(webhooks::routes::test),
        ),
        (A::each(Configure), routes!(webhooks::routes::deliveries)),
        (
            A::each(Configure).audited(),
            routes!(webhooks::routes::retry),
        ),
        (
            A::each(Configure).audited(),
            routes!(webhooks::routes::rotate),
        ),
    ]
}

fn access_rows() -> Vec<Row> {
    vec![
        (A::all(Admin).audited(), routes!(keys::routes::put)),
        (A::all(Admin), routes!(keys::routes::get)),
        (A::all(Admin).audited(), routes!(keys::routes::delete)),
        (A::all(Admin), routes!(keys::routes::list)),
        (A::all(Admin).audited(), routes!(keys::routes::rotate)),
        (A::all(Admin), routes!(audit::routes::list)),
    ]
}

fn operations_rows() -> Vec<Row> {
    vec![
        (A::OPEN, routes!(health::livez)),
        (A::OPEN, routes!(health::readyz)),
        (A::OPEN, routes!(health::metrics)),
        (A::all(Configure), routes!(upkeep::routes::instances)),
        (A::all(Configure), routes!(upkeep::routes::queues)),
        (A::board(Configure), routes!(upkeep::routes::queue)),
        (A::all(Configure), routes!(upkeep::routes::log)),
        (A::board(Configure), routes!(dead_letters::routes::list)),
        (
            A::board(Configure).audited(),
            routes!(dead_letters::routes::replay),
        ),
        (
            A::board(Configure).audited(),
            routes!(dead_letters::routes::delete),
        ),
        (A::board(Configure), routes!(upkeep::routes::memory)),
        (
            A::board(Configure).audited(),
            routes!(upkeep::routes::spread),
        ),
        (A::board(Configure), routes!(upkeep::routes::shards)),
    ]
}

pub fn routes() -> Vec<Route> {
    let of_row = |(access, mut route): Row| {
        let mut found = Vec::new();
        for (path, item) in &mut route.1.paths {
            let methods = operations(item).into_iter();
            found.extend(methods.map(|(method, _)| Route {
                method,
                path: path.clone(),
                access,
            }));
        }
        found
    };
    TAGS.iter()
        .flat_map(|tag| (tag.rows)())
        .flat_map(of_row)
        .collect()
}

/// The tags, as the `OpenAPI` document describes them.
pub(crate) fn tags() -> Vec<tag::Tag> {
    let described = |tag: &Tag| {
        let builder = TagBuilder::new().name(tag.name);
        builder.description(Some(tag.description)).build()
    };
    TAGS.iter().map(described).collect()
}

pub(crate) fn operations(item: &mut PathItem) -> Vec<(Method, &mut Operation)> {
    let operations = [
        (Method::GET, &mut item.get),
        (Method::PUT, &mut item.put),
        (Method::POST, &mut item.post),
        (Method::PATCH, &mut item.patch),
        (Method::DELETE, &mut item.delete),
    ];
    operations
        .into_iter()
        .filter_map(|(method, operation)| Some((method, operation.as_mut()?)))
        .collect()
}

/// What requests pass before they reach a route.
pub(crate) struct Before {
    /// Finds out who calls.
    pub(crate) gate: Arc<Gate>,
    /// The streams and their subscribers, for routes that respond with a stream.
    pub(crate) streams: Arc<Streams>,
}

/// The routes in a router, each behind its guard; with `None`, only to be described.
pub(crate) fn router(
    router: OpenApiRouter<Arc<App>>,
    before: Option<&Before>,
) -> OpenApiRouter<Arc<App>> {
    let gate = before.map(|before| &before.gate);
    let mut router = gate.into_iter().fold(router, members_named_query);
    for tag in &TAGS {
        for (access, mut route) in (tag.rows)() {
            for item in route.1.paths.values_mut() {
                for (_, operation) in operations(item) {
                    describe(operation, tag, access);
                }
            }
            router = router.routes(guarded(route, access, before));
        }
    }
    router
}

/// Gives an operation its tag, and the scope that it needs.
fn describe(operation: &mut Operation, tag: &Tag, access: Access) {
    operation.tags = Some(vec![tag.name.to_owned()]);
    let Some(scope) = access.scope.map(Scope::name) else {
        return;
    };
    operation.security = Some(vec![
        SecurityRequirement::default(),
        SecurityRequirement::new("api_key", [] as [&str; 0]),
    ]);
    let callers = match access {
        Access {
            is_public: true, ..
        } => "; none on a public board",
        Access {
            is_for_players: true,
            ..
        } => ", or a player's token",
        _ => "",
    };
    let description = operation
        .description
        .take()
        .map(|text| text + "\n\n")
        .unwrap_or_default();
    operation.description = Some(format!("{description}Scope: `{scope}`{callers}."));
}

/// A route behind its guard.
fn guarded(
    route: UtoipaMethodRouter<Arc<App>>,
    access: Access,
    before: Option<&Before>,
) -> UtoipaMethodRouter<Arc<App>> {
    if access.scope.is_none() {
        return route.map(|methods| methods.route_layer(map_response(caching::unkept)));
    }
    let Some(Before { gate, streams }) = before else {
        return route;
    };
    route.map(|methods| {
        let methods = if access.is_stream {
            methods.route_layer(Extension(Arc::clone(streams)))
        } else {
            methods
        };
        let methods = if access.is_audited {
            methods.route_layer(from_fn_with_state(
                Arc::clone(gate),
                audit::routes::carry_out,
            ))
        } else {
            methods
        };
        methods.route_layer(gate.guard(access))
    })
}

/// Routes the reads of a member whose id is `query`: their path also takes `POST` with the ids of a subset, and a router
/// prefers a path without a parameter.
fn members_named_query(
    router: OpenApiRouter<Arc<App>>,
    gate: &Arc<Gate>,
) -> OpenApiRouter<Arc<App>> {
    let read = get(standings::routes::member_named_query).route_layer(gate.guard(Access::public()));
    router.route("/v1/boards/{board}/standings/{window}/members/query", read)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::For;

    #[test]
    fn a_route_belongs_to_the_board_in_its_path() {
        for Route {
            method,
            path,
            access,
        } in routes()
        {
            let is_open = access.scope.is_none();
            assert_eq!(is_open, !path.starts_with("/v1/"), "{path}");
            let is_read = method == Method::GET && access.scope == Some(Scope::Read);
            assert!(is_read || !access.is_public, "{path}");
            let is_for_board = access.boards == For::Path;
            assert_eq!(is_for_board, path.contains("{board}"), "{path}");
        }
    }

    #[test]
    fn lint_each_moderating_or_configuring_route_is_audited() {
        for Route {
            method,
            path,
            access,
        } in routes()
        {
            let changes = method != Method::GET && access.scope > Some(Scope::Write);
            assert!(access.is_audited || !changes, "{method} {path}");
            assert!(!access.is_audited || method != Method::GET, "{path}");
        }
    }
}
