//! A period and its result: who has won what, how the result was revised, and its export.

use askama::Template;
use axum::http::Method;
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use super::address::address;
use super::board::{
    Heading, Opening, member_address, result_address, standing_address, state_name,
};
use super::forms::Form;
use super::page::{Frame, html};
use super::periods::periods_address;
use super::session::Viewer;
use super::shown::Clock;
use crate::domain::access::Scope;
use crate::http::extract::{Path, Query};
use crate::http::problem::Problem;
use crate::http::results::ResultBody;
use crate::http::rewards::{
    RevisedMemberBody, RevisionAction, RevisionsBody, RewardBody, RewardStateBody, RewardsBody,
};
use crate::http::standings::answers::StandingBody;

/// How many rewards, and how many revisions a page has.
const REWARDS_MAX: &str = "100";
const REVISIONS_MAX: &str = "20";

/// Which part of the result.
#[derive(Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Params {
    /// In a league, the cohort.
    cohort: String,
    /// The rewards begin behind this one.
    after: String,
    /// The revisions begin behind this one.
    after_revision: String,
    /// What was done before the page was shown.
    done: String,
}

#[derive(Template)]
#[template(path = "console/result.html")]
struct ResultPage {
    frame: Frame,
    heading: Heading,
    clock: Clock,
    found: ResultBody,
    rewards: RewardsBody,
    revisions: RevisionsBody,
    params: Params,
    /// Whether rewards, revisions and the export are for the viewer.
    may_read: bool,
    may_claim: bool,
    done: Option<&'static str>,
    curl: String,
}

impl RewardBody {
    /// What is won: a text as it is, and anything else as JSON.
    fn thing(&self) -> String {
        match serde_json::to_value(&self.reward).unwrap_or_default() {
            Value::String(text) => text,
            other => other.to_string(),
        }
    }

    fn is_open(&self) -> bool {
        self.state == RewardStateBody::Open
    }
}

impl RevisedMemberBody {
    /// What was done with the member, in words.
    fn act(&self) -> &'static str {
        match self.action {
            RevisionAction::Hidden => "was hidden",
            RevisionAction::Unhidden => "was brought back",
        }
    }
}

impl ResultPage {
    fn state(&self) -> &'static str {
        self.found.standing.state.map_or("", state_name)
    }

    fn to_standing(&self) -> String {
        let StandingBody { window, key, .. } = &self.found.standing;
        let query = [("key", key.as_str()), ("cohort", &self.params.cohort)];
        standing_address(&self.heading.board, window, &query)
    }

    fn to_periods(&self) -> String {
        periods_address(&self.heading.board, &self.found.standing.window, "")
    }

    fn to_member(&self, member: &str) -> String {
        let StandingBody { window, key, .. } = &self.found.standing;
        member_address(&self.heading.board, window, member, (key, ""))
    }

    /// Another part of the same result.
    fn to(&self, more: &[(&str, &str)]) -> String {
        let StandingBody { window, key, .. } = &self.found.standing;
        let same = [("cohort", self.params.cohort.as_str())];
        result_address(&self.heading.board, window, key, &[&same, more].concat())
    }

    fn more_rewards(&self) -> Option<String> {
        let next = self.rewards.next.as_deref()?;
        Some(self.to(&[("after", next)]))
    }

    fn more_revisions(&self) -> Option<String> {
        let next = self.revisions.next?.to_string();
        Some(self.to(&[("after_revision", &next)]))
    }

    fn first_part(&self) -> String {
        self.to(&[])
    }

    fn is_later(&self) -> bool {
        !self.params.after.is_empty() || !self.params.after_revision.is_empty()
    }

    fn export(&self, format: &str) -> String {
        let page = self.to(&[]);
        let (path, _) = page.split_once('?').unwrap_or((&page, ""));
        let query = [("format", format), ("cohort", &self.params.cohort)];
        format!("{path}/export{}", address(&[], &query))
    }

    fn claim(&self) -> String {
        let page = self.to(&[]);
        let (path, _) = page.split_once('?').unwrap_or((&page, ""));
        format!("{path}/claim")
    }
}

/// The place of a period in `/v1`.
fn period_path<'a>(board: &'a str, window: &'a str, key: &'a str) -> [&'a str; 7] {
    ["v1", "boards", board, "standings", window, "periods", key]
}

/// The page.
pub(super) async fn show(
    viewer: Viewer,
    Path((board, window, key)): Path<(String, String, String)>,
    Query(params): Query<Params>,
) -> Result<Response, Problem> {
    let path = period_path(&board, &window, &key);
    let cohort = ("cohort", params.cohort.as_str());
    let read_at = address(&path, &[cohort]);
    let found: ResultBody = viewer.read(&read_at).await?;
    // `current` and `previous` may mean another period a moment later.
    let path = period_path(&board, &window, &found.standing.key);
    let may_read = viewer.may_on(Scope::Read, &board);
    // What belongs to a result. A whole period of a league has none: its cohorts have.
    let belongs = |what: &'static str, query: [(&str, &str); 2]| {
        let is_there = may_read && found.revision.is_some();
        is_there.then(|| {
            address(
                &[&path[..], &[what]].concat(),
                &[&query[..], &[cohort]].concat(),
            )
        })
    };
    let rewards = belongs(
        "rewards",
        [("after", &params.after), ("limit", REWARDS_MAX)],
    );
    let after = params.after_revision.as_str();
    let revisions = belongs("revisions", [("after", after), ("limit", REVISIONS_MAX)]);
    let rewards = match rewards {
        Some(address) => viewer.read(&address).await?,
        None => RewardsBody::default(),
    };
    let revisions = match revisions {
        Some(address) => viewer.read(&address).await?,
        None => RevisionsBody::default(),
    };
    let summary = viewer.summary(&board).await?;
    let title = |name: &str| format!("{window} {}: {name}", found.standing.key);
    let Opening {
        frame,
        heading,
        clock,
    } = Opening::of_standings(&viewer, &summary, title);
    html(&ResultPage {
        frame,
        heading,
        clock,
        found,
        rewards,
        revisions,
        may_read,
        may_claim: viewer.may_on(Scope::Write, &board),
        done: (params.done == "claimed").then_some("The reward is claimed."),
        params,
        curl: viewer.curl(&read_at),
    })
}

/// Claims a reward.
pub(super) async fn claim(
    viewer: Viewer,
    Path((board, window, key)): Path<(String, String, String)>,
    form: Form,
) -> Result<Response, Problem> {
    let (rule, member) = (form.field("rule"), form.field("member"));
    let of_reward = ["rewards", rule, "members", member, "claim"];
    let path = [&period_path(&board, &window, &key)[..], &of_reward].concat();
    let claim = json!({"by": form.field("by").trim()});
    let _: Value = viewer
        .call(Method::PUT, &address(&path, &[]), Some(&claim))
        .await?;
    let back = [
        ("cohort", form.field("cohort")),
        ("after", form.field("after")),
        ("done", "claimed"),
    ];
    Ok(Redirect::to(&result_address(&board, &window, &key, &back)).into_response())
}

/// How a result is exported.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExportParams {
    format: String,
    #[serde(default)]
    cohort: String,
}

/// The export, as it comes.
pub(super) async fn export(
    viewer: Viewer,
    Path((board, window, key)): Path<(String, String, String)>,
    Query(ExportParams { format, cohort }): Query<ExportParams>,
) -> Result<Response, Problem> {
    let path = [&period_path(&board, &window, &key)[..], &["export"]].concat();
    let query = [("format", format.as_str()), ("cohort", &cohort)];
    viewer.pass_on(&address(&path, &query), &[]).await
}
