//! How members on a page have moved since the previous period.

use std::collections::HashMap;
use std::sync::Arc;

use super::boards::Defined;
use super::prelude::*;
use crate::domain::league::zone::Zone;
use crate::domain::time::Span;
use crate::domain::window::Window;
use crate::standings::routes::answers::{EntryBody, StandingBody, SubsetBody};
use crate::standings::routes::queries::{QueryResult, QueryResults};
use crate::standings::routes::summary::SummaryBody;

/// The ranks of the members of a page in the previous period.
pub(super) struct Movement {
    /// The key of that period.
    pub(super) since: String,
    /// How many members that period has.
    pub(super) total: u64,
    ranks: HashMap<Arc<str>, u64>,
}

/// How a member has moved.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Moved {
    /// By this many ranks.
    Up(u64),
    /// By this many ranks.
    Down(u64),
    /// Not at all.
    Stayed,
    /// It had no rank before.
    New,
}

impl Movement {
    /// How the member of an entry has moved; nothing for an entry without a rank.
    pub(super) fn of(&self, entry: &EntryBody) -> Option<Moved> {
        let (member, rank) = (entry.member.as_deref()?, entry.rank?);
        let Some(before) = self.ranks.get(member) else {
            return Some(Moved::New);
        };
        Some(Moved::by(before.cast_signed() - rank.cast_signed()))
    }
}

impl Moved {
    /// By so many ranks; down if negative.
    pub(super) fn by(change: i64) -> Self {
        match change {
            0 => Self::Stayed,
            1.. => Self::Up(change.unsigned_abs()),
            _ => Self::Down(change.unsigned_abs()),
        }
    }
}

impl Visitor {
    /// The zone of each member of a page of a cohort; none for other standings, and if the viewer may not read the board.
    pub(super) async fn zones(
        &self,
        standing: &StandingBody,
        entries: &[EntryBody],
    ) -> Result<Vec<Option<Zone>>, Problem> {
        let StandingBody { board, window, .. } = standing;
        if standing.cohort.is_none() || entries.is_empty() || !self.may_on(Scope::Read, board) {
            return Ok(Vec::new());
        }
        let queries = entries.iter().map(|entry| {
            let member = entry.member.as_deref().unwrap_or_default();
            json!({
                "type": "member", "board": board, "window": window, "key": standing.key,
                "cohort": standing.cohort, "member": member,
            })
        });
        let results = self.ask_all(queries.collect()).await?;
        let zone = |result| match result {
            QueryResult::Member(found) => found.league?.seat?.zone,
            _ => None,
        };
        Ok(results.into_iter().map(zone).collect())
    }

    /// The results of several queries, in their order.
    pub(super) async fn ask_all(&self, queries: Vec<Value>) -> Result<Vec<QueryResult>, Problem> {
        let queries = json!({"queries": queries});
        let asked = self.call(Method::POST, "/v1/standings/query", Some(&queries));
        let QueryResults { results } = asked.await?;
        Ok(results)
    }

    /// The definition of a board, if the viewer may read it.
    pub(super) async fn defined(&self, board: &str) -> Result<Option<Defined>, Problem> {
        if !self.may_on(Scope::Configure, board) {
            return Ok(None);
        }
        self.read(&v1(&["boards", board])).await.map(Some)
    }

    /// The ranks in the previous period; `None` if the viewer may not read the board, or no such period has members.
    pub(super) async fn movement(
        &self,
        summary: &SummaryBody,
        standing: &StandingBody,
        entries: &[EntryBody],
        hidden: &str,
    ) -> Result<Option<Movement>, Problem> {
        let (board, StandingBody { window, key, .. }) = (summary.board.as_str(), standing);
        let members = entries.iter().filter_map(|entry| entry.member.as_deref());
        let members: Vec<&str> = members.collect();
        // In a league the previous period was played in other cohorts.
        let is_of_league = standing.cohort.is_some();
        if members.is_empty() || is_of_league || !self.may_on(Scope::Read, board) {
            return Ok(None);
        }
        let Some(before) = before(summary, standing) else {
            return Ok(None);
        };
        let path = ["boards", board, "standings", window, "members", "query"];
        let query = [(before.0, before.1.as_str()), ("hidden", hidden)];
        let asked = v1_with(&path, &query);
        let members = json!({"ids": members});
        let found = self.call(Method::POST, &asked, Some(&members)).await;
        // Refused if there was no season before this one.
        let found: Option<SubsetBody> = unless(found, |kind| kind.status.is_client_error())?;
        // A period may have ended since the page was read.
        let found = found.filter(|found| found.total > 0 && found.standing.key != *key);
        Ok(found.map(|found| {
            let ranks = found.entries.into_iter().map(|line| line.entry);
            let ranks = ranks.filter_map(|entry| Some((entry.member?, entry.rank?)));
            Movement {
                since: found.standing.key,
                total: found.total,
                ranks: ranks.collect(),
            }
        }))
    }
}

/// The parameter that names the previous period; nothing if there is none, or if no parameter can name it.
fn before(summary: &SummaryBody, standing: &StandingBody) -> Option<(&'static str, String)> {
    let StandingBody { window, key, .. } = standing;
    let start = standing.starts_at?;
    let mut own = summary.windows.iter();
    if own.any(|own| own.is_running(window, key)) {
        return Some(("key", "previous".to_owned()));
    }
    // A window of the last N periods begins long before the period that names it.
    let is_period = matches!(window.parse(), Ok(Window::Period(_)));
    let end_of_it = start.saturating_sub(Span::seconds(1));
    is_period.then(|| ("at", end_of_it.to_rfc3339_seconds()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_gains_ranks_moves_up() {
        for (change, moved) in [(3, Moved::Up(3)), (-3, Moved::Down(3)), (0, Moved::Stayed)] {
            assert_eq!(Moved::by(change), moved);
        }
    }
}
