//! The hidden members of a board; hiding one, and bringing it back.

use askama::Template;
use axum::http::Method;
use axum::response::Response;
use serde_json::json;

use super::address::address;
use super::board::{Heading, Opening};
use super::forms::Form;
use super::page::{Frame, html, to};
use super::parts::{PartParams, Parts};
use super::session::Viewer;
use super::shown::{Clock, done};
use crate::http::extract::{Path, Query};
use crate::http::moderation::{HiddenList, HiddenMember};
use crate::http::problem::Problem;

/// How many members a part of the list has.
const MEMBERS_MAX: &str = "100";

#[derive(Template)]
#[template(path = "console/hidden.html")]
struct HiddenPage {
    frame: Frame,
    heading: Heading,
    clock: Clock,
    hidden: Vec<HiddenMember>,
    parts: Parts,
    done: Option<&'static str>,
    curl: String,
}

/// The list.
pub(super) async fn list(
    viewer: Viewer,
    Path(board): Path<String>,
    Query(params): Query<PartParams>,
) -> Result<Response, Problem> {
    let query = [("after", params.after.as_str()), ("limit", MEMBERS_MAX)];
    let listed_at = address(&["v1", "boards", &board, "hidden"], &query);
    let found: HiddenList = viewer.read(&listed_at).await?;
    let Opening {
        frame,
        heading,
        clock,
    } = Opening::read(&viewer, &board, "Hidden members").await?;
    let path = ["console", "boards", &board, "hidden"];
    let next = found.next.as_deref();
    html(&HiddenPage {
        frame,
        heading,
        clock,
        hidden: found.hidden,
        parts: Parts::new("members", &path, &[], &params.after, next),
        done: done(&params.done),
        curl: viewer.curl(&listed_at),
    })
}

/// Hides a member.
pub(super) async fn hide(
    viewer: Viewer,
    Path(board): Path<String>,
    form: Form,
) -> Result<Response, Problem> {
    let mut hide = json!({"reason": form.field("reason").trim()});
    if let Some(until) = form.instant("until") {
        hide["until"] = until.into();
    }
    let path = ["v1", "boards", &board, "hidden", form.field("member")];
    let hidden_at = address(&path, &[]);
    viewer.order(Method::PUT, &hidden_at, Some(&hide)).await?;
    Ok(back(&board, &form, "hidden"))
}

/// Brings a member back.
pub(super) async fn unhide(
    viewer: Viewer,
    Path(board): Path<String>,
    form: Form,
) -> Result<Response, Problem> {
    let path = ["v1", "boards", &board, "hidden", form.field("member")];
    let hidden_at = address(&path, &[]);
    viewer.order(Method::DELETE, &hidden_at, None).await?;
    Ok(back(&board, &form, "unhidden"))
}

/// The way back to the page that the form stood on.
pub(super) fn back(board: &str, form: &Form, done: &str) -> Response {
    match form.given("window") {
        Some(window) => {
            let path = ["console", "boards", board, "standings", window, "member"];
            let (member, key) = (form.field("member"), form.field("key"));
            to(&path, &[("member", member), ("key", key), ("done", done)])
        }
        None => to(&["console", "boards", board, "hidden"], &[("done", done)]),
    }
}
