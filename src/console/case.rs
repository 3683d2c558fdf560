//! The page about a member that a link or a form is about, and a member's name and picture.

use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;

use super::board::standing_page;
use super::member::CasePage;
use super::{Answer, Form, Viewer, address, carry_out};
use crate::domain::profile::Profile;
use crate::http::problem::Problem;
use crate::profiles::routes::MemberProfile;
use crate::standings::routes::answers::EntryBody;

/// A page about a member: for a standing of a board, or for all boards.
#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Case {
    pub(super) member: String,
    /// Empty on the page for all boards.
    #[serde(skip)]
    pub(super) board: String,
    #[serde(skip)]
    pub(super) window: String,
    #[serde(default)]
    pub(super) key: String,
    /// `include`: hidden members count for the ranks and totals of the page; empty: they do not.
    #[serde(default)]
    pub(super) hidden: String,
    /// On the page for all boards, the boards begin after this one.
    #[serde(default)]
    pub(super) after: String,
    /// What was done before the page was shown.
    #[serde(default)]
    pub(super) done: String,
}

impl Case {
    /// The page that had this form.
    pub(super) fn of_form(board: &str, form: &Form) -> Self {
        let field = |name: &str| form.field(name).to_owned();
        Self {
            board: board.to_owned(),
            member: field("member"),
            window: field("window"),
            key: field("key"),
            ..Self::default()
        }
    }

    pub(super) fn is_of_board(&self) -> bool {
        !self.board.is_empty()
    }

    /// The address of the page, with what was done; that of the hidden members of the board for a form without a window.
    fn back(&self, done: &str) -> Response {
        let done = ("done", done);
        let member = ("member", self.member.as_str());
        let page = if !self.is_of_board() {
            address(&["console", "member"], &[member, done])
        } else if self.window.is_empty() {
            address(&["console", "boards", &self.board, "hidden"], &[done])
        } else {
            let query = [member, ("key", &self.key), done];
            standing_page(&self.board, &self.window, &["member"], &query)
        };
        Redirect::to(&page).into_response()
    }

    /// Does what a form of the page asks for, and shows the page again.
    pub(super) async fn carry_out(
        &self,
        viewer: &Viewer,
        form: &Form,
        what: impl Future<Output = Result<(), Problem>>,
        done: &str,
    ) -> Answer {
        if self.is_of_board() && self.window.is_empty() {
            what.await?;
            return Ok(self.back(done));
        }
        let what = async {
            what.await?;
            Ok(self.back(done))
        };
        carry_out::<CasePage>(viewer, self, form, what).await
    }
}

/// A name and a picture.
#[derive(Clone)]
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
