//! Members on all boards: who is hidden everywhere; of a member its profile, hiding it everywhere, and erasing it.

use askama::Template;
use axum::http::Method;
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json};

use super::across::way_from;
use super::hidden::add_reason;
use super::shown::pretty;
use super::{
    Answer, Form, Frame, PartParams, Parts, Query, Viewer, add, address, carry_out, html, to, v1,
};
use crate::domain::access::Scope;
use crate::http::moderation::{HiddenList, HiddenMember};
use crate::http::problem::{FORBIDDEN, Problem};
use crate::http::profiles::MemberProfile;
use crate::http::tasks::TaskBody;

/// How many members a part of the list has.
const MEMBERS_MAX: &str = "100";

#[derive(Template)]
#[template(path = "console/members.html")]
struct ListPage {
    frame: Frame,
    may_write: bool,
    may_moderate: bool,
    hidden: Vec<HiddenMember>,
    parts: Parts,
}

/// The page of a member on all boards.
pub(super) fn own_page(member: &str) -> String {
    address(&["console", "member"], &[("member", member)])
}

/// Whether the viewer may do anything with members on all boards.
pub(super) fn is_for_people(viewer: &Viewer) -> bool {
    viewer.may(Scope::Write) || viewer.may(Scope::Moderate)
}

fn require_any(viewer: &Viewer) -> Result<(), Problem> {
    if is_for_people(viewer) {
        return Ok(());
    }
    let detail = "this needs the scope `write` or `moderate` on all boards";
    Err(Problem::new(FORBIDDEN, detail))
}

/// The list of those who are hidden everywhere, and the way to any member.
pub(super) async fn list(viewer: Viewer, Query(params): Query<PartParams>) -> Answer {
    require_any(&viewer)?;
    let listed_at = address(&["v1", "moderation"], &params.of_at_most(MEMBERS_MAX));
    let may_moderate = viewer.may(Scope::Moderate);
    let found = if may_moderate {
        viewer.read(&listed_at).await?
    } else {
        HiddenList::default()
    };
    html(&ListPage {
        frame: Frame::new(&viewer, "Members")
            .done(&params.done)
            .curl([viewer.curl(&listed_at)]),
        may_write: viewer.may(Scope::Write),
        may_moderate,
        hidden: found.hidden,
        parts: Parts::new("members", "/console/members", &params.after, found.next),
    })
}

/// The form with what a profile has.
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
    may_write: bool,
    may_moderate: bool,
    may_erase: bool,
    /// Its page with standings, if that is for the viewer.
    across: Option<String>,
    profile: Option<MemberProfile>,
}

impl MemberPage {
    async fn read(viewer: &Viewer, member: &str, done: &str) -> Result<Self, Problem> {
        require_any(viewer)?;
        let own = v1(&["members", member]);
        let profile_at = format!("{own}/profile");
        let may_write = viewer.may(Scope::Write);
        let profile: Option<MemberProfile> = if may_write {
            viewer.find(&profile_at).await?
        } else {
            None
        };
        let (may_moderate, may_erase) = (viewer.may(Scope::Moderate), viewer.may(Scope::Admin));
        let mut frame = Frame::new(viewer, member).done(done);
        frame.form = profile.as_ref().map(filled_in).unwrap_or_default();
        if may_write {
            let example = json!({"name": "Ann"});
            frame.curl.push(viewer.curl(&profile_at));
            let put = viewer.curl_to(&Method::PUT, &profile_at, Some(&example));
            frame.curl.push(put);
        }
        if may_moderate {
            let order =
                json!({"action": "hide", "member": member, "reason": "cheating", "boards": "*"});
            let hide = viewer.curl_to(&Method::POST, "/v1/moderation", Some(&order));
            frame.curl.push(hide);
        }
        if may_erase {
            frame.curl.push(viewer.curl_to(&Method::DELETE, &own, None));
        }
        Ok(Self {
            frame,
            member: member.to_owned(),
            may_write,
            may_moderate,
            may_erase,
            across: way_from(viewer, member, "", ""),
            profile,
        })
    }
}

/// A member.
pub(super) async fn show(viewer: Viewer, Query(params): Query<Params>) -> Answer {
    html(&MemberPage::read(&viewer, &params.member, &params.done).await?)
}

/// Stores the profile of a member.
pub(super) async fn put_profile(viewer: Viewer, form: Form) -> Answer {
    let member = form.field("member");
    let stored = async {
        store(&viewer, member, &form).await?;
        Ok(back(member, "stored"))
    };
    let page = MemberPage::read(&viewer, member, "");
    carry_out(&form, stored, page, |page| &mut page.frame).await
}

async fn store(viewer: &Viewer, member: &str, form: &Form) -> Result<(), Problem> {
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
    let own = v1(&["members", member, "profile"]);
    viewer.order(Method::PUT, &own, Some(&profile)).await
}

/// Deletes the profile of a member.
pub(super) async fn delete_profile(viewer: Viewer, form: Form) -> Answer {
    let member = form.field("member");
    form.confirm(member)?;
    let own = v1(&["members", member, "profile"]);
    viewer.order(Method::DELETE, &own, None).await?;
    Ok(back(member, "deleted"))
}

fn back(member: &str, done: &str) -> Response {
    to(&["member"], &[("member", member), ("done", done)])
}

/// Leads to a job that was begun.
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

/// Erases a member of all boards.
pub(super) async fn erase(viewer: Viewer, form: Form) -> Answer {
    let member = form.field("member");
    form.confirm(member)?;
    let own = v1(&["members", member]);
    Ok(to_job(&viewer.call(Method::DELETE, &own, None).await?))
}
