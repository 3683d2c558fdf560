//! The page about a member that a link or a form is about, and a member's name and picture.

use axum::response::{IntoResponse, Redirect};

use super::board::standing_page;
use super::member::CasePage;
use super::prelude::*;
use crate::domain::profile::Profile;
use crate::profiles::routes::MemberProfile;
use crate::standings::routes::answers::EntryBody;

/// A page about a member: for a standing of a board, or for all boards.
pub(super) struct Case {
    pub(super) member: String,
    /// Empty on the page for all boards.
    pub(super) board: String,
    pub(super) window: String,
    pub(super) key: String,
    /// `include`: hidden members count for the ranks and totals of the page; empty: they do not.
    pub(super) hidden: String,
    /// On the page for all boards, the boards begin after this one.
    pub(super) after: String,
    /// On the page of a board, the kept events begin after this place of their list.
    pub(super) older: String,
}

impl Case {
    /// The page that was asked for, or the one whose form was refused.
    pub(super) fn of(frame: &Frame) -> Result<Self, Problem> {
        let names = [
            "member", "board", "window", "key", "hidden", "after", "older",
        ];
        let [member, board, window, key, hidden, after, older] = if frame.problem.is_some() {
            names.map(|name| frame.form.field(name).to_owned())
        } else {
            frame.params(names)?
        };
        Ok(Self {
            member,
            board,
            window,
            key,
            hidden,
            after,
            older,
        })
    }

    pub(super) fn is_of_board(&self) -> bool {
        !self.board.is_empty()
    }
}

/// Does what a form of the page asks for, and shows the page again; for a form without a window, the hidden members of the
/// board.
pub(super) async fn carry_out(
    viewer: &Viewer,
    form: &Form,
    what: impl Future<Output = Result<(), Problem>>,
    done: &str,
) -> Answer {
    let [board, window, key, older, member] =
        ["board", "window", "key", "older", "member"].map(|name| form.field(name));
    let (member, done) = (("member", member), ("done", done));
    if !board.is_empty() && window.is_empty() {
        what.await?;
        return Ok(to(&["boards", board, "hidden"], &[done]));
    }
    let what = async {
        what.await?;
        if board.is_empty() {
            return Ok(to(&["member"], &[member, done]));
        }
        let query = [member, ("key", key), ("older", older), done];
        let page = standing_page(board, window, &["member"], &query);
        Ok(Redirect::to(&page).into_response())
    };
    super::page::carry_out::<CasePage>(viewer, form, what).await
}

/// A name and a picture.
pub(super) struct Face {
    pub(super) name: String,
    pub(super) avatar_url: Option<String>,
}

impl Face {
    pub(super) fn of(profile: &Profile) -> Self {
        Self {
            name: profile.name.to_string(),
            avatar_url: profile.avatar_url.clone(),
        }
    }

    pub(super) fn of_member(profile: &MemberProfile) -> Self {
        Self {
            name: profile.name.clone(),
            avatar_url: profile.avatar_url.clone(),
        }
    }

    /// That of an entry with a profile.
    pub(super) fn in_entry(entry: &EntryBody) -> Option<Self> {
        Some(Self::of(entry.profile.as_ref()?.as_ref()?.profile()))
    }
}
