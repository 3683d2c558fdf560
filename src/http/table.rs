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
    export, health, initial, leagues, moderation, profiles, quotas, results, rewards, standings,
    streams, summary, tasks, upkeep, webhooks,
};
use crate::domain::access::Scope;

/// A row of the table: what a route needs, and what it is answered by. There is no route without its access.
type Row = (Access, UtoipaMethodRouter<Arc<App>>);

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
    use Access as A;
    use Scope::{Admin, Configure, Moderate, Read, Write};
    vec![
        (A::board(Configure).audited(), routes!(boards::put)),
        (A::board(Configure).audited(), routes!(boards::patch)),
        (A::board(Configure).audited(), routes!(boards::delete)),
        (A::board(Admin).audited(), routes!(erasures::delete)),
        (
            A::all(Admin).audited(),
            routes!(erasures::delete_everywhere),
        ),
        (A::board(Configure).audited(), routes!(upkeep::spread)),
        (A::board(Configure).audited(), routes!(closings::post)),
        (A::board(Configure).audited(), routes!(initial::patch)),
        (A::board(Write).for_players(), routes!(events::post_one)),
        (A::each(Write).for_players(), routes!(events::post_many)),
        (A::board(Write).for_players(), routes!(event_status::get)),
        (A::board(Write).for_players(), routes!(leagues::join)),
        (A::board(Write).for_players(), routes!(leagues::leave)),
        (A::all(Write).for_players(), routes!(profiles::put)),
        (A::all(Write).for_players(), routes!(profiles::get)),
        (A::all(Write), routes!(profiles::delete)),
        (A::all(Write), routes!(profiles::post_many)),
        (A::all(Moderate).audited(), routes!(profiles::put_review)),
        (A::all(Moderate), routes!(profiles::list_reviews)),
        (A::all(Configure), routes!(boards::list)),
        (A::board(Configure), routes!(boards::get)),
        (A::board(Configure), routes!(upkeep::shards)),
        (A::board(Configure), routes!(upkeep::queue)),
        (A::all(Configure), routes!(upkeep::queues)),
        (A::all(Configure), routes!(upkeep::log)),
        (A::all(Configure), routes!(upkeep::instances)),
        (A::board(Configure), routes!(upkeep::memory)),
        (A::board(Configure), routes!(dead_letters::list)),
        (A::board(Configure).audited(), routes!(dead_letters::replay)),
        (A::board(Configure).audited(), routes!(dead_letters::delete)),
        (A::board(Read), routes!(quotas::get)),
        (A::board(Configure), routes!(initial::get)),
        (A::public(), routes!(summary::get)),
        (A::public(), routes!(standings::page)),
        (A::public().streamed(), routes!(streams::stream)),
        (A::public(), routes!(standings::subset)),
        (A::board(Read), routes!(standings::query_subset)),
        (A::public(), routes!(standings::member)),
        (A::public(), routes!(standings::stats)),
        (A::public(), routes!(standings::at_percentile)),
        (A::public(), routes!(tiers::list)),
        (A::public(), routes!(tiers::cohorts)),
        (A::public(), routes!(tiers::history)),
        (A::public(), routes!(results::list)),
        (A::public(), routes!(results::get)),
        (A::board(Read), routes!(rewards::list)),
        (A::board(Write), routes!(rewards::claim)),
        (A::board(Read), routes!(rewards::revisions)),
        (A::board(Read), routes!(export::get)),
        (A::each(Read), routes!(streams::tokens::make)),
        (A::each(Read), routes!(standings::queries::query)),
        (A::each(Read), routes!(standings::across::standings_of)),
        (A::board(Moderate).audited(), routes!(moderation::put)),
        (A::each(Moderate).audited(), routes!(moderation::post)),
        (A::all(Moderate), routes!(tasks::get)),
        (A::all(Moderate), routes!(tasks::list)),
        (A::board(Moderate), routes!(moderation::hidden)),
        (A::board(Moderate), routes!(moderation::get)),
        (A::all(Moderate), routes!(moderation::orders)),
        (A::board(Moderate).audited(), routes!(leagues::put)),
        (A::board(Moderate), routes!(leagues::get)),
        (A::board(Moderate).audited(), routes!(moderation::delete)),
        (A::all(Admin).audited(), routes!(api_keys::put)),
        (A::all(Admin).audited(), routes!(api_keys::rotate)),
        (A::all(Admin), routes!(api_keys::list)),
        (A::all(Admin), routes!(api_keys::get)),
        (A::all(Admin).audited(), routes!(api_keys::delete)),
        (A::each(Configure).audited(), routes!(webhooks::put)),
        (A::each(Configure).audited(), routes!(webhooks::rotate)),
        (A::each(Configure).audited(), routes!(webhooks::test)),
        (A::each(Configure), routes!(webhooks::list)),
        (A::each(Configure), routes!(webhooks::get)),
        (A::each(Configure).audited(), routes!(webhooks::delete)),
        (A::each(Configure), routes!(webhooks::deliveries)),
        (A::each(Configure).audited(), routes!(webhooks::retry)),
        (A::all(Admin), routes!(audit::list)),
        (A::OPEN, routes!(health::livez)),
        (A::OPEN, routes!(health::readyz)),
        (A::OPEN, routes!(health::metrics)),
    ]
}

/// All routes.
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
    rows()
        .into_iter()
        .fold(router, |router, (access, mut route)| {
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
