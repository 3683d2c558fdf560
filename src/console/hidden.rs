//! The hidden members of a board; hiding one, and bringing it back.

use askama::Template;
use axum::http::Method;
use axum::response::Response;
use serde_json::{Value, json};

use super::{Answer, Form, Frame, PartParams, Parts, Path, Query, Viewer, add, address, html, to};
use crate::moderation::routes::{HiddenList, HiddenMember};

/// How many members a part of the list has.
const MEMBERS_MAX: &str = "100";

#[derive(Template)]
#[template(path = "console/hidden.html")]
struct HiddenPage {
    frame: Frame,
    hidden: Vec<HiddenMember>,
    parts: Parts,
}

/// The list.
pub(super) async fn list(
    viewer: Viewer,
    Path(board): Path<String>,
    Query(params): Query<PartParams>,
) -> Answer {
    let mut frame = Frame::new(&viewer, "").done(&params.done);
    let (path, query) = (["boards", &board, "hidden"], params.of_at_most(MEMBERS_MAX));
    let found: HiddenList = frame.read(&path, &query).await?;
    frame.read_board(&board, "Hidden members").await?;
    let own = address(&["console", "boards", &board, "hidden"], &[]);
    html(&HiddenPage {
        frame,
        hidden: found.hidden,
        parts: Parts::new("members", &own, &params.after, found.next),
    })
}

/// Hides a member.
pub(super) async fn hide(viewer: Viewer, Path(board): Path<String>, form: Form) -> Answer {
    let mut hide = json!({});
    add_reason(&mut hide, &form);
    let hidden_at = ["boards", &board, "hidden", form.field("member")];
    viewer.order(Method::PUT, &hidden_at, Some(&hide)).await?;
    Ok(back(&board, &form, "hidden"))
}

/// Adds the reason and the end to a request that hides a member.
pub(super) fn add_reason(hide: &mut Value, form: &Form) {
    hide["reason"] = form.field("reason").trim().into();
    add(hide, "until", form.instant("until"));
}

/// Brings a member back.
pub(super) async fn unhide(viewer: Viewer, Path(board): Path<String>, form: Form) -> Answer {
    let hidden_at = ["boards", &board, "hidden", form.field("member")];
    viewer.order(Method::DELETE, &hidden_at, None).await?;
    Ok(back(&board, &form, "unhidden"))
}

/// Redirects to the page that had the form.
pub(super) fn back(board: &str, form: &Form, done: &str) -> Response {
    let done = ("done", done);
    match form.given("window") {
        Some(window) => {
            let path = ["boards", board, "standings", window, "member"];
            let (member, key) = (form.field("member"), form.field("key"));
            to(&path, &[("member", member), ("key", key), done])
        }
        None => to(&["boards", board, "hidden"], &[done]),
    }
}
