//! Members on all boards: which are hidden everywhere; for one, its profile, hiding it everywhere, and erasing it.

use askama::Template;
use axum::http::Method;
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json};

use super::across::way_from;
use super::hidden::add_reason;
use super::shown::pretty;
use super::{
    Answer, Form, Frame, Page, PartParams, Parts, Query, Viewer, Visitor, add, address, carry_out,
    html, if_there, to, v1,
};
use crate::domain::access::Scope;
use crate::http::problem::{FORBIDDEN, Problem};
use crate::moderation::routes::{HiddenList, HiddenMember};
use crate::moderation::tasks::routes::TaskBody;
use crate::profiles::routes::MemberProfile;

/// How many members a part of the list has.
const MEMBERS_MAX: &str = "100";

#[derive(Template)]
#[template(path = "console/members.html")]
struct ListPage {
    frame: Frame,
    hidden: Vec<HiddenMember>,
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

    fn require_any(&self) -> Result<(), Problem> {
        if self.is_for_people() {
            return Ok(());
        }
        let detail = "this needs the scope `write` or `moderate` on all boards";
        Err(Problem::new(FORBIDDEN, detail))
    }
}

/// The members that are hidden everywhere, and a form to open any member.
pub(super) async fn list(viewer: Viewer, Query(params): Query<PartParams>) -> Answer {
    viewer.require_any()?;
    let mut frame = Frame::new(&viewer, "Members").done(&params.done);
    let query = params.of_at_most(MEMBERS_MAX);
    let found = if viewer.may(Scope::Moderate) {
        frame.read(&["moderation"], &query).await?
    } else {
        HiddenList::default()
    };
    html(&ListPage {
        frame,
        hidden: found.hidden,
        parts: Parts::new("members", "/console/members", &params.after, found.next),
    })
}

/// The form, filled in with a profile.
fn filled_in(profile: &MemberProfile) -> Form {
    let attributes = Some(pretty(&profile.attributes)).filter(|json| json != "{}");
    let fields = [
        ("name", profile.name.clone()),
        ("avatar_url", profile.avatar_url.clone().unwrap_or_default()),
        ("attributes", attributes.unwrap_or_default()),
    ];
    fields.into_iter().collect()
}

/// Which member.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Params {
    member: String,
    /// What was done before the page was shown.
    #[serde(default)]
    done: String,
}

#[derive(Template)]
#[template(path = "console/everywhere.html")]
struct MemberPage {
    frame: Frame,
    member: String,
    /// Its page with standings, if the viewer may see it.
    across: Option<String>,
    profile: Option<MemberProfile>,
}

impl Page for MemberPage {
    /// The member. It is not in the path, since a member's id can be any text.
    type Of = String;
    /// What was done.
    type Params = String;

    async fn read(mut frame: Frame, member: &String, done: String) -> Result<Self, Problem> {
        frame.visitor.require_any()?;
        let mut profile = None;
        if frame.may(Scope::Write) {
            let path = ["members", member, "profile"];
            profile = if_there(frame.read(&path, &[]).await)?;
            frame.example(&Method::PUT, &path, Some(&json!({"name": "Ann"})));
        }
        frame.fill_in(profile.as_ref().map(filled_in).unwrap_or_default());
        if frame.may(Scope::Moderate) {
            let order =
                json!({"action": "hide", "member": member, "reason": "cheating", "boards": "*"});
            frame.example(&Method::POST, &["moderation"], Some(&order));
        }
        if frame.may(Scope::Admin) {
            frame.example(&Method::DELETE, &["members", member], None);
        }
        Ok(Self {
            across: way_from(&frame.visitor, member, "", ""),
            frame: frame
                .named(member)
                .under("Members", "/console/members")
                .done(&done),
            member: member.clone(),
            profile,
        })
    }
}

/// A member.
pub(super) async fn show(viewer: Viewer, Query(params): Query<Params>) -> Answer {
    let frame = Frame::new(&viewer, "");
    html(&MemberPage::read(frame, &params.member, params.done).await?)
}

/// Stores the profile of a member.
pub(super) async fn put_profile(viewer: Viewer, form: Form) -> Answer {
    let member = form.field("member").to_owned();
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
        let own = ["members", &member, "profile"];
        viewer.order(Method::PUT, &own, Some(&profile)).await?;
        Ok(back(&member, "stored"))
    };
    carry_out::<MemberPage>(&viewer, &member, &form, stored).await
}

/// Deletes the profile of a member.
pub(super) async fn delete_profile(viewer: Viewer, form: Form) -> Answer {
    let member = form.field("member");
    form.confirm(member)?;
    let own = ["members", member, "profile"];
    viewer.order(Method::DELETE, &own, None).await?;
    Ok(back(member, "deleted"))
}

fn back(member: &str, done: &str) -> Response {
    to(&["member"], &[("member", member), ("done", done)])
}

/// Redirects to a job that was started.
fn to_job(job: &TaskBody) -> Response {
    to(&["jobs", &job.id], &[])
}

/// Hides a member on all boards, or brings it back there.
pub(super) async fn moderate(viewer: Viewer, form: Form) -> Answer {
    let action = form.required("action")?;
    let mut order = json!({"action": action, "member": form.field("member"), "boards": "*"});
    if action == "hide" {
        add_reason(&mut order, &form);
    }
    let begun = viewer.call(Method::POST, "/v1/moderation", Some(&order));
    Ok(to_job(&begun.await?))
}

/// Erases a member on all boards.
pub(super) async fn erase(viewer: Viewer, form: Form) -> Answer {
    let member = form.field("member");
    form.confirm(member)?;
    let own = v1(&["members", member]);
    Ok(to_job(&viewer.call(Method::DELETE, &own, None).await?))
}
