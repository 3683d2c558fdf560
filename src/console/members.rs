//! Members on all boards: which are hidden everywhere; and the forms of the page about one: its profile, and erasing it.

use askama::Template;
use axum::http::Method;
use serde_json::{Value, json};

use super::case::Case;
use super::hidden::{HiddenLine, MEMBERS_MAX, lines_of_all};
use super::member::CasePage;
use super::{
    Answer, Form, Frame, PartParams, Parts, Query, Viewer, Visitor, add, address, carry_out, html,
    to, v1,
};
use crate::domain::access::Scope;
use crate::http::problem::{FORBIDDEN, Problem};
use crate::moderation::routes::HiddenList;
use crate::moderation::tasks::routes::TaskBody;

#[derive(Template)]
#[template(path = "console/members.html")]
struct ListPage {
    frame: Frame,
    hidden: Vec<HiddenLine>,
    parts: Parts,
}

/// The address of the page of a member on all boards.
pub(super) fn own_page(member: &str) -> String {
    address(&["console", "member"], &[("member", member)])
}

impl Visitor {
    /// Whether the visitor may do anything with members on all boards.
    pub(super) fn is_for_people(&self) -> bool {
        self.may(Scope::Write) || self.may(Scope::Moderate)
    }

    /// Refuses the page about a member on all boards.
    pub(super) fn require_member(&self) -> Result<(), Problem> {
        if self.is_for_people() {
            return Ok(());
        }
        self.require_anywhere(Scope::Read)
    }
}

/// The members that are hidden everywhere, and a form to find any member.
pub(super) async fn list(viewer: Viewer, Query(params): Query<PartParams>) -> Answer {
    if !viewer.is_for_people() {
        let detail = "this needs the scope `write` or `moderate` on all boards";
        return Err(Problem::new(FORBIDDEN, detail));
    }
    let mut frame = Frame::new(&viewer, "Members").done(&params.done);
    let query = params.of_at_most(MEMBERS_MAX);
    let found = if viewer.may(Scope::Moderate) {
        frame.read(&["moderation"], &query).await?
    } else {
        HiddenList::default()
    };
    html(&ListPage {
        frame,
        hidden: lines_of_all(&viewer, found.hidden).await,
        parts: Parts::new("members", "/console/members", &params.after, found.next),
    })
}

/// Stores the profile of a member.
pub(super) async fn put_profile(viewer: Viewer, form: Form) -> Answer {
    let stored = async {
        let mut profile = json!({"name": form.field("name")});
        let picture = form.given("avatar_url").map(str::trim);
        add(&mut profile, "avatar_url", picture);
        if let Some(attributes) = form.given("attributes") {
            let wrong = |error| {
                let detail = format!("is not JSON: {error}");
                Problem::invalid_field("/attributes", detail)
            };
            profile["attributes"] = serde_json::from_str::<Value>(attributes).map_err(wrong)?;
        }
        let own = ["members", form.field("member"), "profile"];
        viewer.order(Method::PUT, &own, Some(&profile)).await
    };
    let case = Case::of_form("", &form);
    case.carry_out(&viewer, &form, stored, "stored").await
}

/// Deletes the profile of a member.
pub(super) async fn delete_profile(viewer: Viewer, form: Form) -> Answer {
    let member = form.field("member");
    let own = ["members", member, "profile"];
    let deleted = async {
        form.confirm(member)?;
        viewer.order(Method::DELETE, &own, None).await
    };
    let case = Case::of_form("", &form);
    case.carry_out(&viewer, &form, deleted, "deleted").await
}

/// Erases a member on all boards.
pub(super) async fn erase(viewer: Viewer, form: Form) -> Answer {
    let member = form.field("member");
    let own = v1(&["members", member]);
    let erased = async {
        form.confirm(member)?;
        let job: TaskBody = viewer.call(Method::DELETE, &own, None).await?;
        Ok(to(&["jobs", &job.id], &[]))
    };
    carry_out::<CasePage>(&viewer, &Case::of_form("", &form), &form, erased).await
}
