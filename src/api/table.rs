//! The table of routes: the handler of each, and what access it needs. The OpenAPI document and the router follow from it.

use std::sync::Arc;

use axum::http::Method;
use axum::middleware::{from_fn_with_state, map_response};
use axum::routing::get;
use axum::{Extension, Router};
use utoipa::openapi::path::{Operation, PathItem};
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter, UtoipaMethodRouterExt};
use utoipa_axum::routes;

use crate::access::{Access, Gate};
use crate::audit;
use crate::boards::{self, initial};
use crate::corrections;
use crate::domain::access::Scope::{Admin, Configure, Moderate, Read, Write};
use crate::events::{self, quotas};
use crate::history;
use crate::http::{App, caching};
use crate::keys;
use crate::leagues::{self, routes::tiers};
use crate::live::{self, Streams};
use crate::moderation::{self, tasks};
use crate::operations::{health, overview, upkeep};
use crate::periods::{results, revisions, rewards};
use crate::profiles;
use crate::queue::dead_letters;
use crate::standings;
use crate::webhooks;
use Access as A;

/// A row of the table: the access that a route needs, and its handler. No route exists without its access.
pub type Row = (Access, UtoipaMethodRouter<Arc<App>>);

/// Where a route is, and what it needs.
#[derive(Clone, Debug)]
pub struct Route {
    pub method: Method,
    /// The path, with its parameters in braces.
    pub path: String,
    pub access: Access,
}

/// A tag of the OpenAPI document, with its routes.
pub struct Tag {
    pub name: &'static str,
    pub description: &'static str,
    pub rows: fn() -> Vec<Row>,
}

/// The table: a tag for each group of routes, in the order in which the page `/docs` shows them, and a row for each route: its
/// access, and its handler. The page shows the routes of a tag in the order of their rows, but groups those of one path.
macro_rules! table {
    ($($tag:literal, $description:literal {
        $($access:expr => $room:ident $(:: $part:ident)*;)*
    })*) => {
        /// All tags.
        pub const TAGS: &[Tag] = &[$(Tag {
            name: $tag,
            description: $description,
            rows: || vec![$(($access, routes!($room $(:: $part)*))),*],
        }),*];
    };
}

table! {
    "boards", "Create, change, list and delete boards, and set initial scores." {
        A::board(Configure).audited() => boards::routes::put;
        A::board(Configure).audited() => boards::routes::patch;
        A::board(Configure) => boards::routes::get;
        A::board(Configure).audited() => boards::routes::delete;
        A::each(Moderate).or_with(&[Read, Configure]) => boards::routes::list;
        A::public() => standings::routes::summary::get;
        A::board(Configure).audited() => initial::routes::patch;
        A::board(Configure) => initial::routes::get;
    }
    "events", "Submit scores, one event or up to 1,000 in a request. Look up the outcome of an event, and the remaining quotas." {
        A::board(Write).for_players() => events::routes::post_one;
        A::board(Write).or_with(&[Moderate, Configure]).for_players() => history::routes::get;
        A::board(Moderate).or_with(&[Configure]) => history::routes::export;
        A::board(Moderate).audited() => corrections::routes::retract;
        A::board(Moderate).audited() => corrections::routes::restore;
        A::board(Moderate).audited() => corrections::routes::correct;
        A::board(Moderate).audited() => corrections::routes::amend;
        A::board(Moderate).audited() => corrections::revocations::routes::revoke;
        A::board(Moderate).or_with(&[Configure]) => corrections::revocations::routes::list;
        A::board(Moderate).or_with(&[Configure]) => corrections::revocations::routes::get;
        A::board(Moderate).audited() => corrections::revocations::routes::restore;
        A::each(Write).for_players() => events::routes::post_many;
        A::board(Read) => quotas::routes::get;
    }
    "standings", "Read ranked lists: pages, members, subsets and statistics. Read many in one request, or follow one live." {
        A::public() => standings::routes::page;
        A::public() => standings::routes::member;
        A::public() => standings::routes::subset;
        A::board(Read) => standings::routes::query_subset;
        A::public() => standings::routes::at_percentile;
        A::public() => standings::routes::stats;
        A::each(Read) => standings::routes::across::standings_of;
        A::each(Read) => standings::routes::queries::query;
        A::public().streamed() => live::stream;
        A::each(Read) => live::tokens::make;
    }
    "members", "Give members names and pictures, review their names, and erase members." {
        A::all(Moderate) => profiles::search::routes::find;
        A::all(Write).for_players() => profiles::routes::put;
        A::all(Write).for_players() => profiles::routes::get;
        A::all(Write) => profiles::routes::delete;
        A::all(Write) => profiles::routes::post_many;
        A::all(Moderate).audited() => profiles::routes::put_review;
        A::all(Moderate) => profiles::routes::list_reviews;
        A::board(Admin).audited() => moderation::routes::erase;
        A::all(Admin).audited() => moderation::routes::erase_everywhere;
    }
    "moderation", "Hide members of a board, or of all boards, and bring them back. Follow the jobs that work on all boards." {
        A::board(Moderate).audited() => moderation::routes::put;
        A::board(Moderate) => moderation::routes::get;
        A::board(Moderate).audited() => moderation::routes::delete;
        A::board(Moderate) => moderation::routes::hidden;
        A::each(Moderate).audited() => moderation::routes::post;
        A::all(Moderate) => moderation::routes::orders;
        A::all(Moderate) => tasks::routes::get;
        A::all(Moderate) => tasks::routes::list;
    }
    "results", "Read who won a period that is over, export standings, and claim rewards." {
        A::board(Configure).audited() => results::routes::close;
        A::public() => results::routes::list;
        A::public() => results::routes::get;
        A::board(Read) => results::routes::export::get;
        A::board(Read) => rewards::routes::list;
        A::board(Write) => rewards::routes::claim;
        A::board(Read) => revisions::routes::list;
    }
    "leagues", "Join and leave leagues, in which members compete in cohorts, each at its own level. The examples need a board `run_league` with a `league` and the window `day`." {
        A::board(Write).for_players() => leagues::routes::join;
        A::board(Moderate).audited() => leagues::routes::put;
        A::board(Moderate) => leagues::routes::get;
        A::public() => tiers::list;
        A::public() => tiers::cohorts;
        A::public() => tiers::history;
        A::board(Write).for_players() => leagues::routes::leave;
    }
    "webhooks", "Register addresses that are notified of what happens on boards, and look up deliveries." {
        A::each(Configure).audited() => webhooks::routes::put;
        A::each(Configure) => webhooks::routes::get;
        A::each(Configure).audited() => webhooks::routes::delete;
        A::each(Configure) => webhooks::routes::list;
        A::each(Configure).audited() => webhooks::routes::test;
        A::each(Configure) => webhooks::routes::deliveries;
        A::each(Configure).audited() => webhooks::routes::retry;
        A::each(Configure).audited() => webhooks::routes::rotate;
    }
    "access", "Create, rotate and delete API keys, and read the audit log." {
        A::all(Admin).audited() => keys::routes::put;
        A::all(Admin).audited() => keys::routes::patch;
        A::all(Admin) => keys::routes::get;
        A::all(Admin).audited() => keys::routes::delete;
        A::all(Admin) => keys::routes::list;
        A::all(Admin).audited() => keys::routes::rotate;
        A::all(Admin) => audit::routes::list;
    }
    "operations", "Check health, see what waits or fails, read metrics, watch queues, replay dead letters, and spread a board over a cluster." {
        A::OPEN => health::livez;
        A::OPEN => health::readyz;
        A::OPEN => health::metrics;
        A::all(Moderate).or_with(&[Configure]) => overview::routes::get;
        A::all(Configure) => upkeep::routes::instances;
        A::all(Configure) => upkeep::routes::queues;
        A::board(Configure) => upkeep::routes::queue;
        A::all(Configure) => upkeep::routes::log;
        A::board(Configure) => dead_letters::routes::list;
        A::board(Configure).audited() => dead_letters::routes::replay;
        A::board(Configure).audited() => dead_letters::routes::delete;
        A::board(Configure) => upkeep::routes::memory;
        A::board(Configure).audited() => upkeep::routes::spread;
        A::board(Configure) => upkeep::routes::shards;
    }
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

/// The operations of a path, with their methods.
pub fn operations(item: &mut PathItem) -> Vec<(Method, &mut Operation)> {
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

/// All routes, each behind its guard.
pub(crate) fn router(before: &Before) -> Router<Arc<App>> {
    let mut router = members_named_query(OpenApiRouter::new(), &before.gate);
    for (access, route) in TAGS.iter().flat_map(|tag| (tag.rows)()) {
        router = router.routes(guarded(route, access, before));
    }
    router.into()
}

/// A route behind its guard.
fn guarded(
    route: UtoipaMethodRouter<Arc<App>>,
    access: Access,
    Before { gate, streams }: &Before,
) -> UtoipaMethodRouter<Arc<App>> {
    route.map(|mut methods| {
        if access.scope.is_none() {
            return methods.route_layer(map_response(caching::unkept));
        }
        if access.is_stream {
            methods = methods.route_layer(Extension(Arc::clone(streams)));
        }
        if access.is_audited {
            let carry_out = audit::routes::carry_out;
            methods = methods.route_layer(from_fn_with_state(Arc::clone(gate), carry_out));
        }
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
            let is_read = method == Method::GET && access.scope == Some(Read);
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
            let changes = method != Method::GET && access.scope > Some(Write);
            assert!(access.is_audited || !changes, "{method} {path}");
            assert!(!access.is_audited || method != Method::GET, "{path}");
        }
    }
}
