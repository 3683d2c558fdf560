//! Members on all boards: which are hidden everywhere; and the form for the profile of one.

use super::case;
use super::hidden::{HiddenLine, MEMBERS_MAX, lines_of_all};
use super::prelude::*;
use crate::http::problem::FORBIDDEN;
use crate::moderation::routes::HiddenList;

#[derive(Template)]
#[template(path = "console/members.html")]
struct ListPage {
    frame: Frame,
    hidden: Vec<HiddenLine>,
    parts: Parts,
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
pub(super) async fn list(mut frame: Frame) -> Answer {
    let [after] = frame.params(["after"])?;
    if !frame.visitor.is_for_people() {
        let detail = "this needs the scope `write` or `moderate` on all boards";
        return Err(Problem::new(FORBIDDEN, detail));
    }
    let mut found = HiddenList::default();
    if frame.may(Scope::Moderate) {
        let query = [("after", &*after), ("limit", MEMBERS_MAX)];
        found = frame.read(&["moderation"], &query).await?;
    }
    html(&ListPage {
        hidden: lines_of_all(&frame.visitor, found.hidden).await,
        parts: Parts::new("members", &frame, found.next),
        frame: frame.named("Members"),
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
            profile["attributes"] = serde_json::from_str(attributes).map_err(wrong)?;
        }
        let own = ["members", form.field("member"), "profile"];
        viewer.order(Method::PUT, &own, Some(&profile)).await
    };
    case::carry_out(&viewer, &form, stored, "stored").await
}
