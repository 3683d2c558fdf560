//! The console at `/console`: pages for people, which work without JavaScript.
//!
//! A page calls the routes of `/v1` for what it shows, in memory (`api.rs`), with the key of the viewer. So it shows and
//! does what that key may, by the same checks, limits and lines in the audit log, and has no rules of its own. Each page
//! has a file here and a template in `templates/console/`.
//!
//! Words: a *visitor* asks for a page; a *viewer* is signed in, or any visitor if there are no keys. A *session* lasts from
//! signing in to signing out.
//!
//! The way of a page: `session.rs` finds out who the visitor is ─▶ the handler takes a `Frame` (`page.rs`; so the visitor is
//! signed in), with what the address names: parts of its path, and parameters ─▶ calls routes with that key ─▶ reads the
//! response as the type that the route has written ─▶ the template, with the frame: menu, heading, the clock of the board's
//! time zone, the notice of what was done, the curl commands of what was read.
//!
//! The way of a form: the handler takes a `Viewer` and a `Form` (`forms.rs`), which comes from a page of the console, with a
//! token. If it is refused, `carry_out` shows its page again with the problem and what was filled in. Most forms order one
//! call of a route: the table in `orders.rs` has them, also those that have to be confirmed.
//!
//! What is subtle:
//!
//! - A cookie is only good for pages of the console, never for `/v1`.
//! - `assets/live.js` reloads the page when the stream of its standing reports a change. That is the stream of `/v1`,
//!   filtered by `stream.rs`: before each message, and every five seconds, it asks Redis whether the session still exists.
//! - A link must only be shown to a viewer that may follow it: ask `Frame::may`. Not checked.

mod across;
pub(crate) mod address;
pub(crate) mod api;
pub(crate) mod assets;
mod audit;
mod board;
mod boards;
mod case;
mod chart;
mod define;
mod embed;
mod events;
mod find;
mod forms;
mod hidden;
mod history;
mod home;
mod initial;
mod jobs;
mod kept;
mod keys;
mod lines;
mod member;
mod members;
mod movement;
mod names;
mod orders;
mod overview;
mod page;
mod parts;
mod periods;
mod place;
mod problems;
mod profiles;
mod queue;
mod quotas;
mod result;
mod revoked;
mod secret;
mod service;
mod session;
mod settings;
#[cfg(debug_assertions)]
mod showcase;
mod shown;
mod sign_in;
mod standing;
mod stream;
mod tiles;
mod trouble;
mod upkeep;
mod webhooks;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};

use self::events::EventsPage;
use self::initial::InitialPage;
use self::keys::{KeyPage, KeysPage};
use self::member::CasePage;
use self::orders::order;
use self::page::show;
use self::prelude::*;
use self::queue::{QueuePage, QueuesPage};
use self::result::ResultPage;
use self::revoked::RevokedPage;
use self::upkeep::{DeletePage, UpkeepPage};
use self::webhooks::{WebhookPage, WebhooksPage};
use crate::access::Gate;
use crate::http::problem::NOT_FOUND;
use crate::http::{App, local};

/// What all pages use.
mod prelude {
    pub(super) use askama::Template;
    pub(super) use axum::http::Method;
    pub(super) use serde_json::{Value, json};

    pub(super) use super::address::{v1, v1_with};
    pub(super) use super::api::{if_there, unless};
    pub(super) use super::forms::{Form, add};
    pub(super) use super::page::{Answer, Frame, Page, carry_out, html, refused, to};
    pub(super) use super::parts::Parts;
    pub(super) use super::session::{Viewer, Visitor};
    pub(super) use crate::domain::access::Scope;
    pub(super) use crate::http::inner::address;
    pub(super) use crate::http::problem::Problem;
}

/// The state of the pages.
pub(crate) struct Console {
    app: Arc<App>,
    gate: Arc<Gate>,
    /// The routes of `/v1`.
    table: Router,
    /// Whether the service only serves its own machine.
    is_local: bool,
}

impl Console {
    /// The console, whose pages call these routes.
    pub(crate) fn new(app: Arc<App>, gate: Arc<Gate>, table: Router, is_local: bool) -> Arc<Self> {
        Arc::new(Self {
            app,
            gate,
            table,
            is_local,
        })
    }
}

/// The routes of the pages, and of their files.
pub(crate) fn router(console: Arc<Console>) -> Router {
    let pages = Router::new()
        .route("/", get(overview::show))
        .route("/sign-in", get(sign_in::show).post(sign_in::begin))
        .route("/sign-out", post(sign_in::end))
        .route("/boards", get(boards::list))
        .nest("/boards/{board}", of_board())
        .route("/service", get(service::show))
        .route("/service/memory", get(service::memory))
        .route("/queues", get(show::<QueuesPage>))
        .route("/embeds", get(embed::list))
        .route("/audit", get(audit::list))
        .route("/define", get(define::show).post(define::put))
        .route("/first-board", post(home::create))
        .route("/find", get(find::show))
        .route("/names", get(names::list).post(names::review_many))
        .route("/members", get(members::list))
        .route("/profiles", get(profiles::show).post(profiles::store))
        .route("/member", get(show::<CasePage>))
        .route("/member/profile", post(members::put_profile))
        .route("/member/delete-profile", post(order::<CasePage>))
        .route("/member/review", post(names::review))
        .route("/member/moderate", post(hidden::moderate))
        .route("/member/erase", post(order::<CasePage>))
        .route("/jobs", get(jobs::list))
        .route("/jobs/{id}", get(jobs::show))
        .nest("/keys", of_keys())
        .nest("/webhooks", of_webhooks())
        .route("/{*rest}", any(nothing));
    #[cfg(debug_assertions)]
    let pages = pages.route("/parts", get(showcase::show));
    Router::new()
        .route("/", get(home::show))
        .nest("/console", pages)
        .route_layer(from_fn_with_state(console, around))
        .route("/console/assets/{file}", get(assets::file))
        .route("/problems", get(problems::list))
        .route("/problems/{name}", get(problems::explain))
}

fn of_keys() -> Router {
    Router::new()
        .route("/", get(show::<KeysPage>).post(keys::create))
        .route("/{name}", get(show::<KeyPage>).post(keys::change))
        .route("/{name}/rotate", post(keys::rotate))
        .route("/{name}/delete", post(order::<KeyPage>))
}

fn of_webhooks() -> Router {
    Router::new()
        .route("/", get(show::<WebhooksPage>).post(webhooks::create))
        .route("/{name}", get(show::<WebhookPage>).post(webhooks::change))
        .route("/{name}/test", post(order::<WebhookPage>))
        .route("/{name}/rotate", post(webhooks::rotate))
        .route("/{name}/enable", post(webhooks::enable))
        .route("/{name}/retry", post(order::<WebhookPage>))
        .route("/{name}/retry-all", post(webhooks::retry_all))
        .route("/{name}/delete", post(order::<WebhookPage>))
}

fn of_board() -> Router {
    let initial = get(show::<InitialPage>).post(initial::set);
    let delete = get(show::<DeletePage>).post(order::<DeletePage>);
    Router::new()
        .route("/", get(board::show))
        .route("/definition", get(board::definition))
        .route("/standings/{window}", get(standing::show))
        .route("/standings/{window}/stream", get(stream::show))
        .route("/standings/{window}/member", get(show::<CasePage>))
        .route("/standings/{window}/charts", get(periods::charts))
        .nest("/standings/{window}/periods", of_results())
        .route("/embed", get(embed::show))
        .route("/hidden", get(hidden::list))
        .route("/hide", post(hidden::hide))
        .route("/unhide", post(hidden::unhide))
        .route(
            "/revocations",
            get(show::<RevokedPage>).post(revoked::revoke),
        )
        .route("/restore-revocation", post(order::<RevokedPage>))
        .route("/erase", post(order::<CasePage>))
        .route("/tier", post(order::<CasePage>))
        .route("/join", post(order::<CasePage>))
        .route("/leave", post(order::<CasePage>))
        .route("/retract", post(order::<CasePage>))
        .route("/restore", post(order::<CasePage>))
        .route("/correct", post(kept::correct))
        .route("/initial-scores", initial)
        .route("/quotas", get(quotas::show))
        .route("/events", get(show::<EventsPage>).post(events::send))
        .route("/queue", get(show::<QueuePage>))
        .route("/replay", post(queue::replay))
        .route("/discard", post(queue::discard))
        .route("/upkeep", get(show::<UpkeepPage>))
        .route("/close", post(upkeep::close))
        .route("/close-period", post(order::<UpkeepPage>))
        .route("/shards", post(upkeep::spread))
        .route("/delete", delete)
}

fn of_results() -> Router {
    Router::new()
        .route("/", get(periods::list))
        .route("/{key}", get(show::<ResultPage>))
        .route("/{key}/claim", post(order::<ResultPage>))
        .route("/{key}/export", get(result::export))
}

async fn nothing() -> Problem {
    Problem::new(NOT_FOUND, "the console has no such page")
}

/// The layer around each page: it finds out who the visitor is, and accepts only forms that a page of the console has sent.
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
    page::finish(&visitor, trouble::explained(&visitor, response).await)
}
