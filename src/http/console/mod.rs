//! The console at `/console`: pages for people, which work without JavaScript.
//!
//! A page asks the routes of `/v1` for what it shows, in memory (`api.rs`), as whoever is signed in: so it shows and does what
//! the key may, by the same checks, with the same limits and the same lines in the audit log. `session.rs` says who is there,
//! `forms.rs` which forms are taken. Each page has a file here, and a template in `templates/console/`.

mod address;
mod api;
mod assets;
mod audit;
mod board;
mod boards;
mod define;
mod forms;
mod hidden;
mod home;
mod member;
mod page;
mod service;
mod session;
mod shown;
mod sign_in;
mod standing;
mod trouble;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::Method;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};

use self::forms::Form;
use self::session::Visitor;
use super::auth::Gate;
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
        .route("/console/audit", get(audit::list))
        .route("/console/define", get(define::show).post(define::put))
        .route("/console/boards/{board}", get(board::show))
        .route("/console/boards/{board}/definition", get(board::definition))
        .route("/console/boards/{board}/hidden", get(hidden::list))
        .route("/console/boards/{board}/hide", post(hidden::hide))
        .route("/console/boards/{board}/unhide", post(hidden::unhide))
        .route(
            "/console/boards/{board}/standings/{window}",
            get(standing::show),
        )
        .route(
            "/console/boards/{board}/standings/{window}/member",
            get(member::show),
        )
        .route("/console/{*rest}", any(nothing))
        .route_layer(from_fn_with_state(console, around));
    pages.route("/console/assets/{file}", get(assets::file))
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
