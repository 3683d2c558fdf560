//! The console at `/console`: pages for people, which work without JavaScript.
//!
//! A page asks the routes of `/v1` for what it shows, in memory (`api.rs`), as whoever is signed in: so it shows and does what
//! the key may, by the same checks, with the same limits and the same lines in the audit log. `session.rs` says who is there,
//! `forms.rs` which forms are taken. Each page has a file here, and a template in `templates/console/`.

mod across;
pub(super) mod address;
pub(super) mod api;
pub(super) mod assets;
mod audit;
mod board;
mod boards;
mod chart;
mod define;
mod events;
mod forms;
mod hidden;
mod history;
mod home;
mod initial;
mod jobs;
mod keys;
mod lines;
mod member;
mod members;
mod movement;
mod names;
mod page;
mod parts;
mod periods;
mod profiles;
mod queue;
mod quotas;
mod result;
mod secret;
mod service;
mod session;
mod shown;
mod sign_in;
mod standing;
mod stream;
mod trouble;
mod upkeep;
mod webhooks;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::Method;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};

use self::address::{address, v1, v1_with};
use self::events::EventsPage;
use self::forms::{Form, add};
use self::initial::InitialPage;
use self::keys::KeysPage;
use self::page::{Answer, Frame, Page, carry_out, html, refused, to};
use self::parts::{PartParams, Parts, StatusParams};
use self::queue::QueuePage;
use self::session::{Viewer, Visitor};
use self::upkeep::UpkeepPage;
use self::webhooks::WebhookPage;
use super::auth::Gate;
use super::extract::{Path, Query};
use super::problem::{NOT_FOUND, Problem};
use super::{App, local};

/// What the pages work with.
pub(super) struct Console {
    app: Arc<App>,
    gate: Arc<Gate>,
    /// The routes of `/v1`.
    table: Router,
    /// Whether the service is for its own machine.
    is_local: bool,
}

impl Console {
    /// Pages that ask these routes.
    pub(super) fn new(app: Arc<App>, gate: Arc<Gate>, table: Router, is_local: bool) -> Arc<Self> {
        Arc::new(Self {
            app,
            gate,
            table,
            is_local,
        })
    }
}

/// The routes of the pages, and of what they are made of.
pub(super) fn router(console: Arc<Console>) -> Router {
    let pages = Router::new()
        .route("/", get(home::show))
        .route("/console", get(boards::enter))
        .route("/console/sign-in", get(sign_in::show).post(sign_in::begin))
        .route("/console/sign-out", post(sign_in::end))
        .route("/console/boards", get(boards::list))
        .route("/console/service", get(service::show))
        .route("/console/service/memory", get(service::memory))
        .route("/console/audit", get(audit::list))
        .route("/console/define", get(define::show).post(define::put))
        .route("/console/names", get(names::list))
        .route("/console/members", get(members::list))
        .route(
            "/console/profiles",
            get(profiles::show).post(profiles::store),
        )
        .route("/console/member", get(members::show))
        .route("/console/member/standings", get(across::show))
        .route("/console/member/profile", post(members::put_profile))
        .route(
            "/console/member/delete-profile",
            post(members::delete_profile),
        )
        .route("/console/member/review", post(names::review))
        .route("/console/member/moderate", post(members::moderate))
        .route("/console/member/erase", post(members::erase))
        .route("/console/jobs", get(jobs::list))
        .route("/console/jobs/{id}", get(jobs::show))
        .merge(of_keys())
        .merge(of_webhooks())
        .merge(of_boards())
        .merge(of_results())
        .route("/console/{*rest}", any(nothing))
        .route_layer(from_fn_with_state(console, around));
    pages.route("/console/assets/{file}", get(assets::file))
}

fn of_keys() -> Router {
    let one = |page: &str| format!("/console/keys/{{name}}{page}");
    Router::new()
        .route(
            "/console/keys",
            get(page::show::<KeysPage>).post(keys::create),
        )
        .route(&one(""), get(keys::show))
        .route(&one("/rotate"), post(keys::rotate))
        .route(&one("/delete"), post(keys::delete))
}

fn of_webhooks() -> Router {
    let one = |page: &str| format!("/console/webhooks/{{name}}{page}");
    let all = get(page::show::<webhooks::ListPage>).post(webhooks::create);
    Router::new()
        .route("/console/webhooks", all)
        .route(
            &one(""),
            get(page::show::<WebhookPage>).post(webhooks::change),
        )
        .route(&one("/test"), post(webhooks::test))
        .route(&one("/rotate"), post(webhooks::rotate))
        .route(&one("/retry"), post(webhooks::retry))
        .route(&one("/delete"), post(webhooks::delete))
}

fn of_boards() -> Router {
    let one = |page: &str| format!("/console/boards/{{board}}{page}");
    Router::new()
        .route(&one(""), get(board::show))
        .route(&one("/definition"), get(board::definition))
        .route(&one("/standings/{window}"), get(standing::show))
        .route(&one("/standings/{window}/stream"), get(stream::show))
        .route(&one("/standings/{window}/member"), get(member::show))
        .route(&one("/hidden"), get(hidden::list))
        .route(&one("/hide"), post(hidden::hide))
        .route(&one("/unhide"), post(hidden::unhide))
        .route(&one("/erase"), post(member::erase))
        .route(&one("/tier"), post(member::order_tier))
        .route(&one("/join"), post(member::join))
        .route(&one("/leave"), post(member::leave))
        .route(
            &one("/initial-scores"),
            get(page::show::<InitialPage>).post(initial::set),
        )
        .route(&one("/quotas"), get(quotas::show))
        .route(
            &one("/events"),
            get(page::show::<EventsPage>).post(events::send),
        )
        .route(&one("/queue"), get(page::show::<QueuePage>))
        .route(&one("/replay"), post(queue::replay))
        .route(&one("/discard"), post(queue::discard))
        .route(&one("/upkeep"), get(page::show::<UpkeepPage>))
        .route(&one("/close"), post(upkeep::close))
        .route(&one("/close-period"), post(upkeep::close_period))
        .route(&one("/shards"), post(upkeep::spread))
        .route(&one("/delete"), get(upkeep::last_page).post(upkeep::delete))
}

fn of_results() -> Router {
    let page = |of: &str| format!("/console/boards/{{board}}/standings/{{window}}/periods{of}");
    Router::new()
        .route(&page(""), get(periods::list))
        .route(&page("/{key}"), get(result::show))
        .route(&page("/{key}/claim"), post(result::claim))
        .route(&page("/{key}/export"), get(result::export))
}

async fn nothing() -> Problem {
    Problem::new(NOT_FOUND, "the console has no such page")
}

/// What is around each page: it finds out who is there, and takes only forms that a page of the console has sent.
async fn around(State(console): State<Arc<Console>>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let mut visitor = match Visitor::of(&console, &parts) {
        Ok(visitor) => visitor,
        Err(problem) => return problem.into_response(),
    };
    let entered = async {
        if console.app.is_open && console.is_local {
            local::check_host(&parts)?;
        }
        visitor.recognize().await?;
        if parts.method == Method::POST {
            let form = Form::read(&visitor, &parts, body).await?;
            parts.extensions.insert(form);
        }
        parts.extensions.insert(visitor.clone());
        Ok(Request::from_parts(parts, axum::body::Body::empty()))
    };
    let response = match entered.await {
        Ok(request) => next.run(request).await,
        Err(problem) => Problem::into_response(problem),
    };
    page::finish(&visitor, trouble::explained(&visitor, response))
}
