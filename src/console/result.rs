//! A period and its result: the winners, the revisions, and the export.

use askama::Template;
use axum::http::Method;
use axum::response::{IntoResponse, Redirect};
use serde::Deserialize;
use serde_json::{Value, json};

use super::board::{member_page, standing_page};
use super::{Answer, Form, Frame, Path, Query, Viewer, html, v1_with};
use crate::domain::access::Scope;
use crate::periods::results::routes::ResultBody;
use crate::periods::revisions::routes::RevisionsBody;
use crate::periods::revisions::store::Moderation;
use crate::periods::rewards::routes::RewardsBody;
use crate::periods::rewards::store::RewardState;
use crate::periods::rewards::work::RewardBody;
use crate::standings::routes::answers::{EntryBody, PageBody, StandingBody};
use crate::standings::routes::summary::SummaryBody;

/// How many rewards, and how many revisions a page has.
const REWARDS_MAX: &str = "40";
const REVISIONS_MAX: &str = "20";
/// How many of the best members it has.
const WINNERS_MAX: &str = "3";

/// Which part of the result.
#[derive(Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Params {
    /// In a league, the cohort.
    cohort: String,
    /// The rewards begin after this one.
    after: String,
    /// The revisions begin after this one.
    after_revision: String,
    /// What was done before the page was shown.
    done: String,
}

#[derive(Template)]
#[template(path = "console/result.html")]
struct ResultPage {
    frame: Frame,
    summary: SummaryBody,
    found: ResultBody,
    /// The best members.
    winners: Vec<EntryBody>,
    rewards: RewardsBody,
    revisions: RevisionsBody,
    params: Params,
}

impl RewardBody {
    /// What is won: a text unchanged, anything else as JSON.
    fn thing(&self) -> String {
        match serde_json::to_value(&self.reward).unwrap_or_default() {
            Value::String(text) => text,
            other => other.to_string(),
        }
    }
}

impl ResultPage {
    /// The address of the page of a member.
    fn member(&self, member: &str) -> String {
        let StandingBody {
            board, window, key, ..
        } = &self.found.standing;
        member_page(board, window, member, key, "")
    }

    /// The address of a page about the result: the result itself, or a part of it.
    fn to(&self, part: &[&str], query: &[(&str, &str)]) -> String {
        let StandingBody {
            board, window, key, ..
        } = &self.found.standing;
        let path = [&["periods", key], part].concat();
        standing_page(board, window, &path, query)
    }
}

/// The path of a period in `/v1`, followed by `more`.
pub(super) fn period_path<'a>(
    board: &'a str,
    window: &'a str,
    key: &'a str,
    more: &[&'a str],
) -> Vec<&'a str> {
    let period = ["boards", board, "standings", window, "periods", key];
    [&period, more].concat()
}

/// The page.
pub(super) async fn show(
    viewer: Viewer,
    Path((board, window, key)): Path<(String, String, String)>,
    Query(params): Query<Params>,
) -> Answer {
    let mut frame = Frame::new(&viewer, "").done(&params.done);
    let cohort = ("cohort", params.cohort.as_str());
    let path = period_path(&board, &window, &key, &[]);
    let found: ResultBody = frame.read(&path, &[cohort]).await?;
    // `current` and `previous` may mean another period a moment later.
    let key = &found.standing.key;
    let after = ("after", params.after.as_str());
    let rewards_at = [cohort, after, ("limit", REWARDS_MAX)];
    let after = ("after", params.after_revision.as_str());
    let revisions_at = [cohort, after, ("limit", REVISIONS_MAX)];
    // A whole period of a league has neither; its cohorts have.
    let (rewards, revisions) = if viewer.may_on(Scope::Read, &board) && found.revision.is_some() {
        let at = |what, query: &[_]| v1_with(&period_path(&board, &window, key, &[what]), query);
        (
            viewer.read(&at("rewards", &rewards_at)).await?,
            viewer.read(&at("revisions", &revisions_at)).await?,
        )
    } else {
        Default::default()
    };
    let what = format!("{window} {key}");
    let of_window = (board.as_str(), window.as_str());
    let summary = frame.read_window(of_window, "Results", &what).await?;
    let winners = if found.total.is_some_and(|total| total > 0) {
        let include = if viewer.may_on(Scope::Read, &board) {
            "profile"
        } else {
            ""
        };
        let best = [
            ("key", key.as_str()),
            cohort,
            ("size", WINNERS_MAX),
            ("include", include),
        ];
        let standing_at = v1_with(&["boards", &board, "standings", &window], &best);
        let page: PageBody = viewer.read(&standing_at).await?;
        page.entries
    } else {
        Vec::new()
    };
    html(&ResultPage {
        frame,
        summary,
        found,
        winners,
        rewards,
        revisions,
        params,
    })
}

/// Claims a reward.
pub(super) async fn claim(
    viewer: Viewer,
    Path((board, window, key)): Path<(String, String, String)>,
    form: Form,
) -> Answer {
    let (rule, member) = (form.field("rule"), form.field("member"));
    let of_reward = ["rewards", rule, "members", member, "claim"];
    let claimed_at = period_path(&board, &window, &key, &of_reward);
    let claim = json!({"by": form.field("by").trim()});
    viewer.order(Method::PUT, &claimed_at, Some(&claim)).await?;
    let back = [
        ("cohort", form.field("cohort")),
        ("after", form.field("after")),
        ("done", "claimed"),
    ];
    let result = standing_page(&board, &window, &["periods", &key], &back);
    Ok(Redirect::to(&result).into_response())
}

/// The form of an export, as in `/v1`.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ExportParams {
    format: String,
    cohort: String,
    include: String,
    bom: String,
}

/// Passes on the export as a stream.
pub(super) async fn export(
    viewer: Viewer,
    Path((board, window, key)): Path<(String, String, String)>,
    Query(params): Query<ExportParams>,
) -> Answer {
    let path = period_path(&board, &window, &key, &["export"]);
    let query = [
        ("format", &*params.format),
        ("cohort", &params.cohort),
        ("include", &params.include),
        ("bom", &params.bom),
    ];
    let exported_at = v1_with(&path, &query);
    viewer.respond(Method::GET, &exported_at, &[], None).await
}
