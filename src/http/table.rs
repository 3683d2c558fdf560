//! The table of routes: what each is answered by, and what it needs. The `OpenAPI` document and the router come from it.

use std::sync::Arc;

use axum::http::Method;
use axum::middleware::{from_fn_with_state, map_response};
use axum::routing::get;
use utoipa::openapi::path::PathItem;
use utoipa::openapi::security::SecurityRequirement;
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter, UtoipaMethodRouterExt};
use utoipa_axum::routes;

use super::auth::{Access, Gate};
use super::standings::tiers;
use super::{
    App, api_keys, audit, boards, caching, closings, dead_letters, erasures, event_status, events,
    export, footprints, health, initial, instances, leagues, moderation, profiles, queues, quotas,
    results, rewards, shards, standings, streams, summary, tasks, webhooks,
};
use crate::domain::access::Scope;

/// A row of the table. There is no route without its access.
struct Row {
    access: Access,
    route: UtoipaMethodRouter<Arc<App>>,
}

/// What a route needs, and where it is.
#[derive(Clone, Debug)]
pub struct Route {
    /// The method.
    pub method: Method,
    /// The path, with its parameters in braces.
    pub path: String,
    /// What it needs.
    pub access: Access,
}

fn rows() -> Vec<Row> {
    use {Access as A, Scope as S};
    let row = |access, route| Row { access, route };
    vec![
        row(A::board(S::Configure).audited(), routes!(boards::put)),
        row(A::board(S::Configure).audited(), routes!(boards::patch)),
        row(A::board(S::Configure).audited(), routes!(boards::delete)),
        row(A::board(S::Admin).audited(), routes!(erasures::delete)),
        row(
            A::all(S::Admin).audited(),
            routes!(erasures::delete_everywhere),
        ),
        row(A::board(S::Configure).audited(), routes!(shards::put)),
        row(A::board(S::Configure).audited(), routes!(closings::post)),
        row(A::board(S::Configure).audited(), routes!(initial::patch)),
        row(A::board(S::Write).for_players(), routes!(events::post_one)),
        row(A::each(S::Write).for_players(), routes!(events::post_many)),
        row(A::board(S::Write).for_players(), routes!(event_status::get)),
        row(A::board(S::Write).for_players(), routes!(leagues::join)),
        row(A::board(S::Write).for_players(), routes!(leagues::leave)),
        row(A::all(S::Write).for_players(), routes!(profiles::put)),
        row(A::all(S::Write).for_players(), routes!(profiles::get)),
        row(A::all(S::Write), routes!(profiles::delete)),
        row(A::all(S::Write), routes!(profiles::post_many)),
        row(A::all(S::Moderate).audited(), routes!(profiles::put_review)),
        row(A::all(S::Moderate), routes!(profiles::list_reviews)),
        row(A::all(S::Configure), routes!(boards::list)),
        row(A::board(S::Configure), routes!(boards::get)),
        row(A::board(S::Configure), routes!(shards::get)),
        row(A::board(S::Configure), routes!(queues::get)),
        row(A::all(S::Configure), routes!(queues::list)),
        row(A::all(S::Configure), routes!(queues::log)),
        row(A::all(S::Configure), routes!(instances::list)),
        row(A::board(S::Configure), routes!(footprints::get)),
        row(A::board(S::Configure), routes!(dead_letters::list)),
        row(
            A::board(S::Configure).audited(),
            routes!(dead_letters::replay),
        ),
        row(
            A::board(S::Configure).audited(),
            routes!(dead_letters::delete),
        ),
        row(A::board(S::Read), routes!(quotas::get)),
        row(A::board(S::Configure), routes!(initial::get)),
        row(A::public(), routes!(summary::get)),
        row(A::public(), routes!(standings::page)),
        row(A::public().streamed(), routes!(streams::stream)),
        row(A::public(), routes!(standings::subset)),
        row(A::board(S::Read), routes!(standings::query_subset)),
        row(A::public(), routes!(standings::member)),
        row(A::public(), routes!(standings::stats)),
        row(A::public(), routes!(standings::at_percentile)),
        row(A::public(), routes!(tiers::list)),
        row(A::public(), routes!(tiers::cohorts)),
        row(A::public(), routes!(tiers::history)),
        row(A::public(), routes!(results::list)),
        row(A::public(), routes!(results::get)),
        row(A::board(S::Read), routes!(rewards::list)),
        row(A::board(S::Write), routes!(rewards::claim)),
        row(A::board(S::Read), routes!(rewards::revisions)),
        row(A::board(S::Read), routes!(export::get)),
        row(A::each(S::Read), routes!(streams::tokens::make)),
        row(A::each(S::Read), routes!(standings::queries::query)),
        row(A::each(S::Read), routes!(standings::across::standings_of)),
        row(A::board(S::Moderate).audited(), routes!(moderation::put)),
        row(A::each(S::Moderate).audited(), routes!(moderation::post)),
        row(A::all(S::Moderate), routes!(tasks::get)),
        row(A::all(S::Moderate), routes!(tasks::list)),
        row(A::board(S::Moderate), routes!(moderation::hidden)),
        row(A::board(S::Moderate), routes!(moderation::get)),
        row(A::all(S::Moderate), routes!(moderation::orders)),
        row(A::board(S::Moderate).audited(), routes!(leagues::put)),
        row(A::board(S::Moderate), routes!(leagues::get)),
        row(A::board(S::Moderate).audited(), routes!(moderation::delete)),
        row(A::all(S::Admin).audited(), routes!(api_keys::put)),
        row(A::all(S::Admin).audited(), routes!(api_keys::rotate)),
        row(A::all(S::Admin), routes!(api_keys::list)),
        row(A::all(S::Admin), routes!(api_keys::get)),
        row(A::all(S::Admin).audited(), routes!(api_keys::delete)),
        row(A::each(S::Configure).audited(), routes!(webhooks::put)),
        row(A::each(S::Configure).audited(), routes!(webhooks::rotate)),
        row(A::each(S::Configure).audited(), routes!(webhooks::test)),
        row(A::each(S::Configure), routes!(webhooks::list)),
        row(A::each(S::Configure), routes!(webhooks::get)),
        row(A::each(S::Configure).audited(), routes!(webhooks::delete)),
        row(A::each(S::Configure), routes!(webhooks::deliveries)),
        row(A::each(S::Configure).audited(), routes!(webhooks::retry)),
        row(A::all(S::Admin), routes!(audit::list)),
        row(A::OPEN, routes!(health::livez)),
        row(A::OPEN, routes!(health::readyz)),
        row(A::OPEN, routes!(health::metrics)),
    ]
}

/// All routes.
pub fn routes() -> Vec<Route> {
    let of_row = |mut row: Row| {
        let mut found = Vec::new();
        for (path, item) in &mut row.route.1.paths {
            let methods = operations(item).into_iter();
            found.extend(methods.map(|(method, _)| Route {
                method,
                path: path.clone(),
                access: row.access,
            }));
        }
        found
    };
    rows().into_iter().flat_map(of_row).collect()
}

/// The operations of a path.
pub(super) fn operations(
    item: &mut PathItem,
) -> Vec<(Method, &mut utoipa::openapi::path::Operation)> {
    let operations = [
        (Method::GET, &mut item.get),
        (Method::PUT, &mut item.put),
        (Method::POST, &mut item.post),
        (Method::PATCH, &mut item.patch),
        (Method::DELETE, &mut item.delete),
    ];
    let is_there = operations.into_iter();
    is_there
        .filter_map(|(method, operation)| Some((method, operation.as_mut()?)))
        .collect()
}

/// The routes in a router, each behind its guard; without a gate they are there to be described only.
pub(super) fn router(
    router: OpenApiRouter<Arc<App>>,
    gate: Option<&Arc<Gate>>,
) -> OpenApiRouter<Arc<App>> {
    let router = gate.into_iter().fold(router, members_named_query);
    rows().into_iter().fold(router, |router, row| {
        let Row { access, mut route } = row;
        let Some(scope) = access.scope else {
            let unkept = map_response(caching::unkept);
            return router.routes(route.map(|methods| methods.route_layer(unkept)));
        };
        for item in route.1.paths.values_mut() {
            for (_, operation) in operations(item) {
                operation.security = Some(vec![
                    SecurityRequirement::default(),
                    SecurityRequirement::new("api_key", [scope.name()]),
                ]);
            }
        }
        router.routes(match gate {
            Some(gate) => route.map(|methods| {
                let methods = if access.is_audited {
                    methods.route_layer(from_fn_with_state(Arc::clone(gate), audit::carry_out))
                } else {
                    methods
                };
                methods.route_layer(gate.guard(access))
            }),
            None => route,
        })
    })
}

/// Routes the reads of a member whose id is `query`: their paths take `POST` with the ids of a subset, too, and a router prefers a
/// path without a parameter.
fn members_named_query(
    router: OpenApiRouter<Arc<App>>,
    gate: &Arc<Gate>,
) -> OpenApiRouter<Arc<App>> {
    let read = get(standings::member_named_query).route_layer(gate.guard(Access::public()));
    router.route("/v1/boards/{board}/standings/{window}/members/query", read)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::auth::For;

    #[test]
    fn a_route_is_for_the_board_of_its_path_if_it_has_one() {
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
    fn each_request_that_moderates_or_configures_has_a_line_in_the_audit_log() {
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
