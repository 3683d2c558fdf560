//! Hiding members of a board, or of all, bringing them back, and the lists of hidden members.

use std::collections::HashMap;

use super::address::member_everywhere;
use super::board::member_page;
use super::case::{self, Face};
use super::prelude::*;
use crate::domain::timezone::Zone;
use crate::moderation::routes::{HiddenList, HiddenMember};
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
pub(super) async fn list(mut frame: Frame) -> Answer {
    let [board, after] = frame.params(["board", "after"])?;
    let query = [("after", &*after), ("limit", MEMBERS_MAX)];
    let found: HiddenList = frame.read(&["boards", &board, "hidden"], &query).await?;
    let summary = frame.read_board(&board, "Hidden members").await?;
    html(&HiddenPage {
        hidden: lines_of_board(&frame, summary.as_ref(), found.hidden).await?,
        parts: Parts::new("members", &frame, found.next),
        frame,
    })
}

/// The hidden members of a board, with the names of those that are in its widest standing.
async fn lines_of_board(
    frame: &Frame,
    summary: Option<&SummaryBody>,
    hidden: Vec<HiddenMember>,
) -> Result<Vec<HiddenLine>, Problem> {
    let windows = summary.map_or(&[][..], |summary| &summary.windows);
    let windows: Vec<String> = windows.iter().map(|own| own.window.to_string()).collect();
    let window = windows
        .iter()
        .find(|window| *window == "all")
        .or(windows.first());
    let place = summary.map(|summary| summary.board.as_str()).zip(window);
    let mut faces = HashMap::new();
    if let Some((board, window)) = place
        && !hidden.is_empty()
        && frame.may(Scope::Read)
    {
        let path = ["boards", board, "standings", window, "members", "query"];
        let asked = v1_with(&path, &[("hidden", "include"), ("include", "profile")]);
        let ids: Vec<&str> = hidden.iter().map(|hide| &*hide.member).collect();
        let ids = json!({"ids": ids});
        let found = frame.visitor.call(Method::POST, &asked, Some(&ids)).await;
        // A standing of a league is that of a cohort.
        let found: Option<SubsetBody> = unless(found, |kind| kind.status.is_client_error())?;
        for line in found.into_iter().flat_map(|found| found.entries) {
            if let (Some(face), Some(member)) = (Face::in_entry(&line.entry), line.entry.member) {
                faces.insert(member.to_string(), face);
            }
        }
    }
    let lines = hidden.into_iter().map(|hide| HiddenLine {
        face: faces.remove(&hide.member),
        page: match place {
            Some((board, window)) => member_page(board, window, &hide.member, "", ""),
            None => member_everywhere(&hide.member),
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
            page: member_everywhere(&hide.member),
            face,
            hide,
        }
    });
    join_all(lines).await
}

/// Hides a member of a board, or of all boards.
pub(super) async fn hide(viewer: Viewer, form: Form) -> Answer {
    if form.field("scope") == "everywhere" {
        return hide_everywhere(&viewer, &form).await;
    }
    let hidden = async {
        let path = [
            "boards",
            form.field("board"),
            "hidden",
            form.field("member"),
        ];
        let hide = wanted(&viewer, &form).await?;
        viewer.order(Method::PUT, &path, Some(&hide)).await
    };
    case::carry_out(&viewer, &form, hidden, "hidden").await
}

/// Brings a member of a board back, or all that were ticked.
pub(super) async fn unhide(viewer: Viewer, form: Form) -> Answer {
    bring_back(&viewer, &form, form.field("board")).await
}

/// Hides a member on all boards, or brings it back there, or all that were ticked.
pub(super) async fn moderate(viewer: Viewer, form: Form) -> Answer {
    if form.field("action") == "hide" {
        return hide_everywhere(&viewer, &form).await;
    }
    bring_back(&viewer, &form, "").await
}

async fn hide_everywhere(viewer: &Viewer, form: &Form) -> Answer {
    let hidden = async {
        let mut order = wanted(viewer, form).await?;
        order["action"] = "hide".into();
        order["member"] = form.field("member").into();
        order["boards"] = "*".into();
        viewer
            .order(Method::POST, &["moderation"], Some(&order))
            .await
    };
    case::carry_out(viewer, form, hidden, "hiding").await
}

/// Brings members back on a board, or on all if it is empty: that of the page, or in a list the one of the button, or those
/// that were ticked.
async fn bring_back(viewer: &Viewer, form: &Form, board: &str) -> Answer {
    let [one, many] = if board.is_empty() {
        ["returning"; 2]
    } else {
        ["unhidden", "all-unhidden"]
    };
    let is_page = form.given("window").is_some() || board.is_empty();
    if is_page && form.given("list").is_none() {
        let back = unhide_one(viewer, board, form.field("member"));
        return case::carry_out(viewer, form, back, one).await;
    }
    let button = form.given("member");
    let members = button.map_or_else(|| form.chosen("ticked"), |member| vec![member]);
    let done = match members.len() {
        0 => "nobody",
        1 => one,
        _ => many,
    };
    let back = members.into_iter();
    let back = back.map(|member| unhide_one(viewer, board, member));
    for back in join_all(back).await {
        // One that was not hidden any more is back, too.
        if_there(back)?;
    }
    let list = ["boards", board, "hidden"];
    let list = if board.is_empty() {
        &["members"][..]
    } else {
        &list
    };
    Ok(to(list, &[("done", done)]))
}

/// Brings a member back on a board, or on all if it is empty.
async fn unhide_one(viewer: &Visitor, board: &str, member: &str) -> Result<(), Problem> {
    if !board.is_empty() {
        let path = ["boards", board, "hidden", member];
        return viewer.order(Method::DELETE, &path, None).await;
    }
    let order = json!({"action": "unhide", "member": member, "boards": "*"});
    viewer
        .order(Method::POST, &["moderation"], Some(&order))
        .await
}

/// Why a member is to be hidden, and until when. The reason is one of the usual ones, the text in the field below it, or both.
async fn wanted(viewer: &Viewer, form: &Form) -> Result<Value, Problem> {
    let reasons = ["reason", "details"].map(|name| form.field(name).trim());
    let reasons = reasons.into_iter().filter(|reason| !reason.is_empty());
    let mut hide = json!({"reason": reasons.collect::<Vec<_>>().join(": ")});
    if form.given("until").is_some() {
        let zone = match form.field("board") {
            "" => Zone::UTC,
            board => viewer.zone(board).await?,
        };
        add(&mut hide, "until", form.local("until", zone)?);
    }
    Ok(hide)
}
