//! Members on all boards: who is hidden everywhere; of a member its profile, hiding it everywhere, and erasing it.

use askama::Template;
use axum::http::Method;
use axum::response::Response;
use chrono_tz::Tz;
use serde::Deserialize;
use serde_json::{Value, json};

use super::across::way_from;
use super::address::address;
use super::forms::Form;
use super::jobs::to_job;
use super::page::{Frame, carry_out, html, to};
use super::parts::{PartParams, Parts};
use super::session::Viewer;
use super::shown::{Clock, done, pretty};
use crate::domain::access::Scope;
use crate::http::extract::Query;
use crate::http::moderation::{HiddenList, HiddenMember};
use crate::http::problem::{FORBIDDEN, Problem};
use crate::http::profiles::MemberProfile;

/// How many members a part of the list has.
const MEMBERS_MAX: &str = "100";

#[derive(Template)]
#[template(path = "console/members.html")]
struct ListPage {
    frame: Frame,
    clock: Clock,
    done: Option<&'static str>,
    may_write: bool,
    may_moderate: bool,
    hidden: Vec<HiddenMember>,
    parts: Parts,
    curl: String,
}

impl ListPage {
    #[expect(clippy::unused_self, reason = "templates call it")]
    fn to_member(&self, member: &str) -> String {
        own_page(member)
    }
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
pub(super) async fn list(
    viewer: Viewer,
    Query(params): Query<PartParams>,
) -> Result<Response, Problem> {
    require_any(&viewer)?;
    let query = [("after", params.after.as_str()), ("limit", MEMBERS_MAX)];
    let listed_at = address(&["v1", "moderation"], &query);
    let may_moderate = viewer.may(Scope::Moderate);
    let found = if may_moderate {
        viewer.read(&listed_at).await?
    } else {
        HiddenList::default()
    };
    html(&ListPage {
        frame: Frame::new(&viewer, "Members"),
        clock: Clock(Tz::UTC),
        done: done(&params.done),
        may_write: viewer.may(Scope::Write),
        may_moderate,
        hidden: found.hidden,
        parts: Parts::new(
            "members",
            &["console", "members"],
            &[],
            &params.after,
            found.next.as_deref(),
        ),
        curl: viewer.curl(&listed_at),
    })
}

/// What is filled in for a profile.
#[derive(Default)]
struct Filled {
    name: String,
    avatar_url: String,
    attributes: String,
}

impl Filled {
    fn of(form: &Form) -> Self {
        let field = |name: &str| form.field(name).to_owned();
        Self {
            name: field("name"),
            avatar_url: field("avatar_url"),
            attributes: field("attributes"),
        }
    }
}

impl From<&MemberProfile> for Filled {
    fn from(profile: &MemberProfile) -> Self {
        let attributes = Some(pretty(&profile.attributes));
        Self {
            name: profile.name.clone(),
            avatar_url: profile.avatar_url.clone().unwrap_or_default(),
            attributes: attributes.filter(|json| json != "{}").unwrap_or_default(),
        }
    }
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
    clock: Clock,
    done: Option<&'static str>,
    member: String,
    may_write: bool,
    may_moderate: bool,
    may_erase: bool,
    /// Its page with standings, if that is for the viewer.
    across: Option<String>,
    profile: Option<MemberProfile>,
    filled: Filled,
    problem: Option<Problem>,
    curl: String,
}

impl MemberPage {
    async fn read(viewer: &Viewer, member: &str, what: &str) -> Result<Self, Problem> {
        require_any(viewer)?;
        let own = address(&["v1", "members", member], &[]);
        let profile_at = format!("{own}/profile");
        let may_write = viewer.may(Scope::Write);
        let profile = if may_write {
            viewer.find::<MemberProfile>(&profile_at).await?
        } else {
            None
        };
        let filled = profile.as_ref().map(Filled::from).unwrap_or_default();
        let (may_moderate, may_erase) = (viewer.may(Scope::Moderate), viewer.may(Scope::Admin));
        let mut curl = Vec::new();
        if may_write {
            let example = json!({"name": "Ann"});
            curl.push(viewer.curl(&profile_at));
            curl.push(viewer.curl_to(&Method::PUT, &profile_at, Some(&example)));
        }
        if may_moderate {
            let order =
                json!({"action": "hide", "member": member, "reason": "cheating", "boards": "*"});
            curl.push(viewer.curl_to(&Method::POST, "/v1/moderation", Some(&order)));
        }
        if may_erase {
            curl.push(viewer.curl_to(&Method::DELETE, &own, None));
        }
        Ok(Self {
            frame: Frame::new(viewer, member),
            clock: Clock(Tz::UTC),
            done: done(what),
            member: member.to_owned(),
            may_write,
            may_moderate,
            may_erase,
            across: way_from(viewer, member, "", ""),
            profile,
            filled,
            problem: None,
            curl: curl.join("\n"),
        })
    }
}

/// A member.
pub(super) async fn show(
    viewer: Viewer,
    Query(params): Query<Params>,
) -> Result<Response, Problem> {
    html(&MemberPage::read(&viewer, &params.member, &params.done).await?)
}

/// Stores the profile of a member.
pub(super) async fn put_profile(viewer: Viewer, form: Form) -> Result<Response, Problem> {
    let member = form.field("member");
    let stored = async {
        store(&viewer, member, &form).await?;
        Ok(back(member, "stored"))
    };
    let page = MemberPage::read(&viewer, member, "");
    carry_out(stored, page, |page, problem| {
        page.filled = Filled::of(&form);
        page.problem = Some(problem);
    })
    .await
}

async fn store(viewer: &Viewer, member: &str, form: &Form) -> Result<(), Problem> {
    let mut profile = json!({"name": form.field("name")});
    if let Some(picture) = form.given("avatar_url") {
        profile["avatar_url"] = picture.trim().into();
    }
    if let Some(attributes) = form.given("attributes") {
        let wrong = |error| {
            let detail = format!("is not JSON: {error}");
            Problem::invalid_field("/attributes", detail)
        };
        profile["attributes"] = serde_json::from_str::<Value>(attributes).map_err(wrong)?;
    }
    let own = address(&["v1", "members", member, "profile"], &[]);
    viewer.order(Method::PUT, &own, Some(&profile)).await
}

/// Deletes the profile of a member.
pub(super) async fn delete_profile(viewer: Viewer, form: Form) -> Result<Response, Problem> {
    let member = form.field("member");
    form.confirm(member)?;
    let own = address(&["v1", "members", member, "profile"], &[]);
    viewer.order(Method::DELETE, &own, None).await?;
    Ok(back(member, "deleted"))
}

fn back(member: &str, done: &str) -> Response {
    let query = [("member", member), ("done", done)];
    to(&["console", "member"], &query)
}

/// Hides a member on all boards, or brings it back there.
pub(super) async fn moderate(viewer: Viewer, form: Form) -> Result<Response, Problem> {
    let action = form.required("action")?;
    let mut order = json!({"action": action, "member": form.field("member"), "boards": "*"});
    if action == "hide" {
        order["reason"] = form.field("reason").trim().into();
        if let Some(until) = form.instant("until") {
            order["until"] = until.into();
        }
    }
    let begun = viewer.call(Method::POST, "/v1/moderation", Some(&order));
    Ok(to_job(&begun.await?))
}

/// Erases a member of all boards.
pub(super) async fn erase(viewer: Viewer, form: Form) -> Result<Response, Problem> {
    let member = form.field("member");
    form.confirm(member)?;
    let own = address(&["v1", "members", member], &[]);
    Ok(to_job(&viewer.call(Method::DELETE, &own, None).await?))
}
