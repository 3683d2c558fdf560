//! A member of a standing: its rank and its neighbours, and for who moderates the forms that hide it and bring it back.

use askama::Template;
use axum::response::Response;
use serde::Deserialize;
use serde_json::Number;

use super::address::address;
use super::board::{Heading, standing_address};
use super::hidden::done;
use super::page::{Frame, html};
use super::session::Viewer;
use super::shown::Clock;
use super::standing::{Entry, Standing};
use crate::domain::access::Scope;
use crate::http::extract::{Path, Query};
use crate::http::problem::{MEMBER_NOT_FOUND, Problem};

/// How many neighbours on each side are shown.
const AROUND: &str = "5";

/// Which member, and in which period.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Params {
    member: String,
    #[serde(default)]
    key: String,
    /// What was done before the page was shown.
    #[serde(default)]
    done: String,
}

/// What is known of the member in the standing.
#[derive(Deserialize)]
struct Found {
    #[serde(flatten)]
    standing: Standing,
    #[serde(flatten)]
    entry: Entry,
    total: u64,
    percentile: Option<f64>,
    #[serde(default)]
    around: Vec<Entry>,
    previous: Option<Previous>,
}

#[derive(Deserialize)]
struct Previous {
    key: String,
    rank: Option<u64>,
    score: Number,
    rank_change: Option<i64>,
}

#[derive(Template)]
#[template(path = "console/member.html")]
struct MemberPage {
    frame: Frame,
    heading: Heading,
    member: String,
    window: String,
    key: String,
    clock: Clock,
    /// `None` if the member is not in the standing.
    found: Option<Found>,
    may_moderate: bool,
    done: Option<&'static str>,
    curl: String,
}

impl MemberPage {
    fn to_standing(&self) -> String {
        let query = [("key", self.key.as_str())];
        standing_address(&self.heading.board, &self.window, &query)
    }

    fn to_member(&self, member: &str) -> String {
        let board = &self.heading.board;
        let path = [
            "console",
            "boards",
            board,
            "standings",
            &self.window,
            "member",
        ];
        address(&path, &[("member", member), ("key", &self.key)])
    }

    fn is_hidden(&self) -> bool {
        self.found.as_ref().is_some_and(|found| found.entry.hidden)
    }

    fn is_own(&self, entry: &Entry) -> bool {
        entry.member.as_deref() == Some(&self.member)
    }
}

impl Previous {
    /// How many ranks were gained or lost, in words.
    fn change(&self) -> String {
        let ranks = |count: u64| format!("{count} {}", if count == 1 { "rank" } else { "ranks" });
        match self.rank_change {
            None => String::new(),
            Some(0) => "same rank".to_owned(),
            Some(change) if change > 0 => format!("up {}", ranks(change.unsigned_abs())),
            Some(change) => format!("down {}", ranks(change.unsigned_abs())),
        }
    }
}

/// The page.
pub(super) async fn show(
    viewer: Viewer,
    Path((board, window)): Path<(String, String)>,
    Query(Params {
        member,
        key,
        done: what,
    }): Query<Params>,
) -> Result<Response, Problem> {
    let may_moderate = viewer.may_on(Scope::Moderate, &board);
    let may_read = viewer.may_on(Scope::Read, &board);
    let query = [
        ("key", key.as_str()),
        ("around", AROUND),
        ("hidden", if may_moderate { "include" } else { "" }),
        ("include", if may_read { "profile" } else { "" }),
    ];
    let path = [
        "v1",
        "boards",
        &board,
        "standings",
        &window,
        "members",
        &member,
    ];
    let read_at = address(&path, &query);
    let found = match viewer.read::<Found>(&read_at).await {
        Ok(found) => Some(found),
        Err(problem) if problem.kind == MEMBER_NOT_FOUND => None,
        Err(problem) => return Err(problem),
    };
    let summary = viewer.summary(&board).await?;
    let heading = Heading::new(&viewer, &board, Some(&summary), "Standings");
    html(&MemberPage {
        frame: Frame::new(&viewer, format!("{member}: {}", heading.name())),
        heading,
        member,
        window,
        key,
        clock: Clock(summary.timezone),
        found,
        may_moderate,
        done: done(&what),
        curl: viewer.curl(&read_at),
    })
}
