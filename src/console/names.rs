//! Names and pictures of members: the reviews, and reviewing them.

use askama::Template;
use axum::http::Method;
use serde_json::json;

use super::{Answer, Form, Frame, PartParams, Parts, Query, Viewer, add, address, html, to};
use crate::profiles::routes::{MemberProfile, NameReviews};

/// How many names a part of the list has.
const NAMES_MAX: &str = "25";

#[derive(Template)]
#[template(path = "console/names.html")]
struct NamesPage {
    frame: Frame,
    status: String,
    names: Vec<MemberProfile>,
    parts: Parts,
}

/// The list.
pub(super) async fn list(viewer: Viewer, Query(params): Query<PartParams>) -> Answer {
    let mut frame = Frame::new(&viewer, "Name review").done(&params.done);
    let query = params.of_at_most(NAMES_MAX);
    let found: NameReviews = frame.read(&["name-reviews"], &query).await?;
    let own = address(&["console", "names"], &query[..1]);
    let verdict = json!({"name": "Ann", "status": "approved"});
    let reviewed_by = ["members", "MEMBER", "name-review"];
    frame.example(&Method::PUT, &reviewed_by, Some(&verdict));
    html(&NamesPage {
        frame,
        names: found.reviews,
        parts: Parts::new("names", &own, &params.after, found.next),
        status: params.status,
    })
}

/// Stores the review of a name and a picture: of those that the form has shown.
pub(super) async fn review(viewer: Viewer, form: Form) -> Answer {
    let member = form.field("member");
    let mut verdict = json!({"name": form.field("name"), "status": form.required("verdict")?});
    for name in ["avatar_url", "reason"] {
        add(&mut verdict, name, form.given(name).map(str::trim));
    }
    let reviewed_by = ["members", member, "name-review"];
    viewer
        .order(Method::PUT, &reviewed_by, Some(&verdict))
        .await?;
    let done = ("done", "reviewed");
    Ok(match form.given("list") {
        Some(_) => to(&["names"], &[("status", form.field("status")), done]),
        None => to(&["member"], &[("member", member), done]),
    })
}
