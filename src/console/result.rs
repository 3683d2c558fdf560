//! A period and its result: the winners, the revisions, and the export.

use super::board::{member_page, standing_page};
use super::prelude::*;
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

#[derive(Template)]
#[template(path = "console/result.html")]
pub(super) struct ResultPage {
    frame: Frame,
    summary: SummaryBody,
    found: ResultBody,
    /// The best members.
    winners: Vec<EntryBody>,
    rewards: RewardsBody,
    revisions: RevisionsBody,
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

    /// The address of a part of the result.
    fn to(&self, part: &str, query: &[(&str, &str)]) -> String {
        let StandingBody {
            board, window, key, ..
        } = &self.found.standing;
        standing_page(board, window, &["periods", key, part], query)
    }

    /// Whether rewards or revisions do not begin with the first one.
    fn is_later(&self) -> bool {
        let mut parts = ["after", "after_revision"].into_iter();
        parts.any(|name| !self.frame.param(name).is_empty())
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

impl Page for ResultPage {
    async fn read(mut frame: Frame) -> Result<Self, Problem> {
        let names = [
            "board",
            "window",
            "key",
            "cohort",
            "after",
            "after_revision",
        ];
        let [board, window, key, cohort, after, after_revision] = frame.params(names)?;
        let cohort = ("cohort", &*cohort);
        frame.path = standing_page(&board, &window, &["periods", &key], &[]);
        let path = period_path(&board, &window, &key, &[]);
        let found: ResultBody = frame.read(&path, &[cohort]).await?;
        // `current` and `previous` may mean another period a moment later.
        let key = &found.standing.key;
        let may_read = frame.visitor.may_on(Scope::Read, &board);
        let (mut rewards, mut revisions) = Default::default();
        // A whole period of a league has neither; its cohorts have.
        if may_read && found.revision.is_some() {
            let at = |what, after: &str, limit| {
                let query = [cohort, ("after", after), ("limit", limit)];
                v1_with(&period_path(&board, &window, key, &[what]), &query)
            };
            rewards = frame
                .visitor
                .read(&at("rewards", &after, REWARDS_MAX))
                .await?;
            revisions = frame
                .visitor
                .read(&at("revisions", &after_revision, REVISIONS_MAX))
                .await?;
        }
        let what = format!("{window} {key}");
        let summary = frame
            .read_window((&board, &window), "Results", &what)
            .await?;
        let mut winners = Vec::new();
        if found.total.is_some_and(|total| total > 0) {
            let best = [
                ("key", key.as_str()),
                cohort,
                ("size", WINNERS_MAX),
                ("include", if may_read { "profile" } else { "" }),
            ];
            let standing_at = v1_with(&["boards", &board, "standings", &window], &best);
            let page: PageBody = frame.visitor.read(&standing_at).await?;
            winners = page.entries;
        }
        Ok(Self {
            frame,
            summary,
            found,
            winners,
            rewards,
            revisions,
        })
    }
}

/// Passes on the export as a stream.
pub(super) async fn export(frame: Frame) -> Answer {
    let names = [
        "board", "window", "key", "format", "cohort", "include", "bom",
    ];
    let [board, window, key, ..] = frame.params(names)?;
    let query: Vec<_> = names[3..]
        .iter()
        .map(|name| (*name, frame.param(name)))
        .collect();
    let exported_at = v1_with(&period_path(&board, &window, &key, &["export"]), &query);
    frame
        .visitor
        .respond(Method::GET, &exported_at, &[], None)
        .await
}
