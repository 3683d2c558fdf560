//! Hiding members of a board, or of all, bringing them back, and the lists of hidden members.

use std::collections::HashMap;

use askama::Template;
use axum::http::{Method, StatusCode};
use serde_json::{Value, json};

use super::board::member_page;
use super::case::{Case, Face};
use super::members::own_page;
use super::{
    Answer, Form, Frame, PartParams, Parts, Path, Query, Viewer, Visitor, add, address, html, to,
    unless, v1, v1_with,
};
use crate::domain::access::Scope;
use crate::http::problem::Problem;
use crate::moderation::routes::{HiddenList, HiddenMember};
use crate::moderation::tasks::routes::TaskBody;
use crate::profiles::routes::MemberProfile;
use crate::runtime::join::join_all;
use crate::standings::routes::answers::SubsetBody;
use crate::standings::routes::summary::SummaryBody;

/// How many members a part of a list has.
pub(super) const MEMBERS_MAX: &str = "50";
/// The usual reasons.
pub(super) const REASONS: [&str; 4] = [
    "cheating",
    "abusive name",
    "duplicate account",
    "asked to be removed",
];

/// A hidden member in a list.
pub(super) struct HiddenLine {
    pub(super) hide: HiddenMember,
    pub(super) face: Option<Face>,
    /// The address of its page.
    pub(super) page: String,
}

#[derive(Template)]
#[template(path = "console/hidden.html")]
struct HiddenPage {
    frame: Frame,
    hidden: Vec<HiddenLine>,
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
    let summary = frame.read_board(&board, "Hidden members").await?;
    let own = address(&["console", "boards", &board, "hidden"], &[]);
    html(&HiddenPage {
        hidden: lines_of_board(&viewer, summary.as_ref(), found.hidden).await?,
        parts: Parts::new("members", &own, &params.after, found.next),
        frame,
    })
}

/// The hidden members of a board, with the names of those that are in its widest standing.
async fn lines_of_board(
    visitor: &Visitor,
    summary: Option<&SummaryBody>,
    hidden: Vec<HiddenMember>,
) -> Result<Vec<HiddenLine>, Problem> {
    let windows = summary.map_or(&[][..], |summary| &summary.windows);
    let windows: Vec<String> = windows.iter().map(|own| own.window.to_string()).collect();
    let window = windows.iter().find(|window| *window == "all");
    let place = summary.zip(window.or(windows.first()));
    let mut faces = HashMap::new();
    if let Some((SummaryBody { board, .. }, window)) = place
        && !hidden.is_empty()
        && visitor.may_on(Scope::Read, board)
    {
        let path = ["boards", board, "standings", window, "members", "query"];
        let asked = v1_with(&path, &[("hidden", "include"), ("include", "profile")]);
        let ids: Vec<&str> = hidden.iter().map(|hide| &*hide.member).collect();
        let ids = json!({"ids": ids});
        let found = visitor.call(Method::POST, &asked, Some(&ids));
        // A standing of a league is that of a cohort.
        let found: Option<SubsetBody> = unless(found.await, |kind| kind.status.is_client_error())?;
        for line in found.into_iter().flat_map(|found| found.entries) {
            if let (Some(face), Some(member)) = (Face::in_entry(&line.entry), line.entry.member) {
                faces.insert(member.to_string(), face);
            }
        }
    }
    let lines = hidden.into_iter().map(|hide| HiddenLine {
        face: faces.remove(&hide.member),
        page: match place {
            Some((SummaryBody { board, .. }, window)) => {
                member_page(board, window, &hide.member, "", "")
            }
            None => own_page(&hide.member),
        },
        hide,
    });
    Ok(lines.collect())
}

/// Members that are hidden on all boards, with their names if the visitor may read profiles.
pub(super) async fn lines_of_all(visitor: &Visitor, hidden: Vec<HiddenMember>) -> Vec<HiddenLine> {
    let lines = hidden.into_iter().map(async |hide| {
        let mut face = None;
        if visitor.may(Scope::Write) {
            let profile_at = v1(&["members", &hide.member, "profile"]);
            let profile = visitor.read::<MemberProfile>(&profile_at).await;
            // The list is useful without names.
            face = profile.ok().as_ref().map(Face::of_member);
        }
        HiddenLine {
            page: own_page(&hide.member),
            face,
            hide,
        }
    });
    join_all(lines).await
}

/// Hides a member of a board, or of all boards.
pub(super) async fn hide(viewer: Viewer, Path(board): Path<String>, form: Form) -> Answer {
    let case = Case::of_form(&board, &form);
    if form.field("scope") == "everywhere" {
        return hide_everywhere(&viewer, &case, &form).await;
    }
    let path = ["boards", &board, "hidden", form.field("member")];
    let hide = with_end(json!({"reason": reason(&form)}), &form);
    let hidden = viewer.order(Method::PUT, &path, Some(&hide));
    case.carry_out(&viewer, &form, hidden, "hidden").await
}

/// Brings a member of a board back, or all that were ticked.
pub(super) async fn unhide(viewer: Viewer, Path(board): Path<String>, form: Form) -> Answer {
    let unhide = async |member: &str| {
        let path = ["boards", &board, "hidden", member];
        viewer.order(Method::DELETE, &path, None).await
    };
    if form.given("window").is_some() {
        let member = form.field("member");
        let case = Case::of_form(&board, &form);
        let back = unhide(member);
        return case.carry_out(&viewer, &form, back, "unhidden").await;
    }
    let back = chosen(&form).into_iter().map(unhide);
    let done = all_back(join_all(back).await)?;
    Ok(to(&["boards", &board, "hidden"], &[("done", done)]))
}

/// Hides a member on all boards, or brings it back there, or all that were ticked.
pub(super) async fn moderate(viewer: Viewer, form: Form) -> Answer {
    if form.field("action") == "hide" {
        let case = Case::of_form("", &form);
        return hide_everywhere(&viewer, &case, &form).await;
    }
    let unhide = async |member: &str| {
        let order = json!({"action": "unhide", "member": member, "boards": "*"});
        viewer
            .order(Method::POST, &["moderation"], Some(&order))
            .await
    };
    if form.given("list").is_some() {
        let back = chosen(&form).into_iter().map(unhide);
        all_back(join_all(back).await)?;
        return Ok(to(&["members"], &[("done", "returning")]));
    }
    let back = unhide(form.field("member"));
    let case = Case::of_form(form.field("board"), &form);
    case.carry_out(&viewer, &form, back, "returning").await
}

async fn hide_everywhere(viewer: &Viewer, case: &Case, form: &Form) -> Answer {
    let order = json!({
        "action": "hide", "member": form.field("member"), "reason": reason(form), "boards": "*",
    });
    let order = with_end(order, form);
    let hidden = async {
        let _: TaskBody = viewer
            .call(Method::POST, "/v1/moderation", Some(&order))
            .await?;
        Ok(())
    };
    case.carry_out(viewer, form, hidden, "hiding").await
}

/// The members that a list's form is about: the one of its button, or those that were ticked.
fn chosen(form: &Form) -> Vec<&str> {
    match form.given("member") {
        Some(member) => vec![member],
        None => form.chosen("ticked"),
    }
}

/// The notice after members were brought back. One that was not hidden any more is back, too.
fn all_back(results: Vec<Result<(), Problem>>) -> Result<&'static str, Problem> {
    let count = results.len();
    for result in results {
        unless(result, |kind| kind.status == StatusCode::NOT_FOUND)?;
    }
    Ok(match count {
        0 => "nobody",
        1 => "unhidden",
        _ => "all-unhidden",
    })
}

/// Why a member is to be hidden: one of the usual reasons, the text in the field below it, or both.
fn reason(form: &Form) -> String {
    let parts = ["reason", "details"].map(|name| form.field(name).trim());
    let parts = parts.into_iter().filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join(": ")
}

/// Adds the end to a request that hides a member.
fn with_end(mut hide: Value, form: &Form) -> Value {
    add(&mut hide, "until", form.instant("until"));
    hide
}
