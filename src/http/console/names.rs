//! Names and pictures of members: what was said of them, and saying it.

use askama::Template;
use axum::http::Method;
use axum::response::Response;
use chrono_tz::Tz;
use serde::Deserialize;
use serde_json::json;

use super::address::address;
use super::forms::Form;
use super::page::{Frame, html, to};
use super::parts::Parts;
use super::session::Viewer;
use super::shown::{Clock, done};
use crate::http::extract::Query;
use crate::http::problem::Problem;
use crate::http::profiles::{MemberProfile, NameReviews};

/// How many names a part of the list has.
const NAMES_MAX: &str = "25";

/// Which names.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Params {
    status: String,
    after: String,
    /// What was done before the page was shown.
    done: String,
}

#[derive(Template)]
#[template(path = "console/names.html")]
struct NamesPage {
    frame: Frame,
    clock: Clock,
    done: Option<&'static str>,
    status: String,
    names: Vec<MemberProfile>,
    parts: Parts,
    curl: String,
}

impl NamesPage {
    #[expect(clippy::unused_self, reason = "templates call it")]
    fn to_member(&self, member: &str) -> String {
        address(&["console", "member"], &[("member", member)])
    }
}

/// The list.
pub(super) async fn list(
    viewer: Viewer,
    Query(params): Query<Params>,
) -> Result<Response, Problem> {
    let query = [
        ("status", params.status.as_str()),
        ("after", &params.after),
        ("limit", NAMES_MAX),
    ];
    let listed_at = address(&["v1", "name-reviews"], &query);
    let found: NameReviews = viewer.read(&listed_at).await?;
    let parts = Parts::new(
        "names",
        &["console", "names"],
        &[("status", &params.status)],
        &params.after,
        found.next.as_deref(),
    );
    let verdict = json!({"name": "Ann", "status": "approved"});
    let reviewed_by = address(&["v1", "members", "MEMBER", "name-review"], &[]);
    let review = viewer.curl_to(&Method::PUT, &reviewed_by, Some(&verdict));
    html(&NamesPage {
        frame: Frame::new(&viewer, "Names"),
        clock: Clock(Tz::UTC),
        done: done(&params.done),
        status: params.status,
        names: found.reviews,
        parts,
        curl: format!("{}\n{review}", viewer.curl(&listed_at)),
    })
}

/// Says whether a name and a picture may be shown: those that the form has shown.
pub(super) async fn review(viewer: Viewer, form: Form) -> Result<Response, Problem> {
    let member = form.field("member");
    let mut verdict = json!({"name": form.field("name"), "status": form.required("verdict")?});
    for name in ["avatar_url", "reason"] {
        if let Some(value) = form.given(name) {
            verdict[name] = value.trim().into();
        }
    }
    let reviewed_by = address(&["v1", "members", member, "name-review"], &[]);
    viewer
        .order(Method::PUT, &reviewed_by, Some(&verdict))
        .await?;
    let done = ("done", "reviewed");
    let status = ("status", form.field("status"));
    Ok(match form.given("list") {
        Some(_) => to(&["console", "names"], &[status, done]),
        None => to(&["console", "member"], &[("member", member), done]),
    })
}
