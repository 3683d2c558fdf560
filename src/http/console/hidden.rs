//! The hidden members of a board; hiding one, and bringing it back.

use askama::Template;
use axum::http::Method;
use axum::response::{IntoResponse, Redirect, Response};
use chrono_tz::Tz;
use serde::Deserialize;
use serde_json::{Value, json};

use super::address::address;
use super::board::Heading;
use super::forms::Form;
use super::page::{Frame, html};
use super::session::Viewer;
use super::shown::Clock;
use crate::domain::time::Timestamp;
use crate::http::extract::{Path, Query};
use crate::http::problem::Problem;

/// How many members a part of the list has.
const MEMBERS_MAX: &str = "100";

#[derive(Template)]
#[template(path = "console/hidden.html")]
struct HiddenPage {
    frame: Frame,
    heading: Heading,
    clock: Clock,
    hidden: Vec<Hidden>,
    is_later: bool,
    next: Option<String>,
    done: Option<&'static str>,
    curl: String,
}

#[derive(Deserialize)]
struct List {
    hidden: Vec<Hidden>,
    next: Option<String>,
}

#[derive(Deserialize)]
struct Hidden {
    member: String,
    reason: String,
    by: String,
    since: Timestamp,
    until: Option<Timestamp>,
}

/// Which part of the list.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Params {
    after: String,
    /// What was done before the page was shown.
    done: String,
}

/// What a page says after something was done.
pub(super) fn done(what: &str) -> Option<&'static str> {
    match what {
        "hidden" => Some("The member is hidden: no standing of this board shows it."),
        "unhidden" => Some("The member is back in the standings of this board."),
        _ => None,
    }
}

/// The list.
pub(super) async fn list(
    viewer: Viewer,
    Path(board): Path<String>,
    Query(params): Query<Params>,
) -> Result<Response, Problem> {
    let query = [("after", params.after.as_str()), ("limit", MEMBERS_MAX)];
    let listed_at = address(&["v1", "boards", &board, "hidden"], &query);
    let found: List = viewer.read(&listed_at).await?;
    let summary = viewer.summary_if_shown(&board).await?;
    let heading = Heading::new(&viewer, &board, summary.as_ref(), "Hidden members");
    let next = found.next.map(|next| {
        let path = ["console", "boards", &board, "hidden"];
        address(&path, &[("after", &next)])
    });
    html(&HiddenPage {
        frame: Frame::new(&viewer, format!("Hidden members of {}", heading.name())),
        heading,
        clock: Clock(summary.map_or(Tz::UTC, |summary| summary.timezone)),
        hidden: found.hidden,
        is_later: !params.after.is_empty(),
        next,
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
    if let Some(until) = form.given("until") {
        hide["until"] = until_utc(until).into();
    }
    let member = form.field("member");
    let path = ["v1", "boards", &board, "hidden", member];
    let _: Value = viewer
        .call(Method::PUT, &address(&path, &[]), Some(&hide))
        .await?;
    Ok(back(&board, &form, "hidden"))
}

/// Brings a member back.
pub(super) async fn unhide(
    viewer: Viewer,
    Path(board): Path<String>,
    form: Form,
) -> Result<Response, Problem> {
    let path = ["v1", "boards", &board, "hidden", form.field("member")];
    let _: Value = viewer
        .call(Method::DELETE, &address(&path, &[]), None)
        .await?;
    Ok(back(&board, &form, "unhidden"))
}

/// An instant as a form sends it, in UTC: without seconds if these are zero.
fn until_utc(until: &str) -> String {
    let seconds = if until.len() == "2026-11-21T08:30".len() {
        ":00"
    } else {
        ""
    };
    format!("{until}{seconds}Z")
}

/// The way back to the page that the form stood on.
fn back(board: &str, form: &Form, done: &str) -> Response {
    let to = match form.given("window") {
        Some(window) => {
            let path = ["console", "boards", board, "standings", window, "member"];
            let (member, key) = (form.field("member"), form.field("key"));
            address(&path, &[("member", member), ("key", key), ("done", done)])
        }
        None => address(&["console", "boards", board, "hidden"], &[("done", done)]),
    };
    Redirect::to(&to).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_of_a_form_is_one_of_utc() {
        for (sent, read) in [
            ("2026-11-21T08:30", "2026-11-21T08:30:00Z"),
            ("2026-11-21T08:30:15", "2026-11-21T08:30:15Z"),
        ] {
            assert_eq!(until_utc(sent), read);
            assert!(Timestamp::parse(&until_utc(sent)).is_ok());
        }
    }
}
