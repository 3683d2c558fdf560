//! How a member stood in the last periods of a window: in a league from the seats that it had, elsewhere from the standings.

use serde_json::json;

use super::chart::{Chart, Figure};
use super::{Viewer, v1_with};
use crate::domain::access::Scope;
use crate::domain::league::decision::Move;
use crate::domain::score::ShownScore;
use crate::http::problem::{NO_LEAGUE, Problem};
use crate::http::standings::answers::PlayedBody;
use crate::http::standings::queries::QueryResult;
use crate::http::standings::tiers::HistoryBody;

/// Over how many periods it goes.
const PERIODS_MAX: &str = "30";

/// How a member stood in periods, the newest first.
#[derive(Default)]
pub(super) struct History {
    pub(super) lines: Vec<Line>,
    pub(super) charts: Vec<Chart>,
}

/// A period with the member.
pub(super) struct Line {
    pub(super) key: String,
    /// `None`: it was not in the standing.
    pub(super) entry: Option<PastEntry>,
}

/// How it stood there.
pub(super) struct PastEntry {
    pub(super) rank: Option<u64>,
    pub(super) score: ShownScore,
    pub(super) total: Option<u64>,
    /// In a league, the cohort, and where the member went from it.
    pub(super) cohort: Option<String>,
    pub(super) moved: Option<Move>,
}

impl History {
    fn of(lines: Vec<Line>) -> Self {
        fn figures<T>(lines: &[Line], of: impl Fn(&PastEntry) -> Option<T>) -> Vec<Figure<'_, T>> {
            let lines = lines.iter().rev();
            lines
                .map(|line| (&*line.key, line.entry.as_ref().and_then(&of)))
                .collect()
        }
        let played = lines.iter().filter(|line| line.entry.is_some()).count();
        // One point is told beside the chart.
        if played < 2 {
            return Self::default();
        }
        let ranks = figures(&lines, |entry| entry.rank);
        let scores = figures(&lines, |entry| entry.score.to_string().parse().ok());
        let charts = vec![
            Chart::ranks("ranks", "Rank", &ranks),
            Chart::bars("scores", "Score", &scores),
        ];
        Self { lines, charts }
    }

    /// Whether it is that of a league.
    pub(super) fn is_of_league(&self) -> bool {
        let mut entries = self.lines.iter().filter_map(|line| line.entry.as_ref());
        entries.any(|entry| entry.moved.is_some())
    }
}

impl Viewer {
    /// How a member stood in the last periods with data, with the parameter `hidden` that the page has. It is empty for who may not read the board, and for a window without
    /// periods.
    pub(super) async fn history(
        &self,
        board: &str,
        window: &str,
        member: &str,
        hidden: &str,
    ) -> Result<History, Problem> {
        if !self.may_on(Scope::Read, board) {
            return Ok(History::default());
        }
        let limit = ("limit", PERIODS_MAX);
        let path = ["boards", board, "league", "members", member, "history"];
        let history_at = v1_with(&path, &[limit, ("hidden", hidden)]);
        match self.read::<HistoryBody>(&history_at).await {
            Err(problem) if problem.kind == NO_LEAGUE => {}
            found => {
                let seats = found?.seats.into_iter();
                return Ok(History::of(seats.map(Line::from).collect()));
            }
        }
        let periods = self.periods(board, window, &[limit]).await?;
        if periods.len() < 2 {
            return Ok(History::default());
        }
        let hidden = Some(hidden).filter(|hidden| !hidden.is_empty());
        let query = json!({
            "type": "member", "board": board, "window": window, "member": member, "hidden": hidden,
        });
        let answers = self.ask_each(&periods, &query).await?;
        let lines = periods.into_iter().zip(answers);
        let lines = lines.map(|(listed, answer)| Line {
            key: listed.period.key,
            entry: match answer {
                QueryResult::Member(found) => Some(PastEntry {
                    rank: found.entry.rank,
                    score: found.entry.score,
                    total: Some(found.total),
                    cohort: found.standing.cohort,
                    moved: None,
                }),
                _ => None,
            },
        });
        Ok(History::of(lines.collect()))
    }
}

impl From<PlayedBody> for Line {
    fn from(seat: PlayedBody) -> Self {
        Self {
            key: seat.key,
            entry: Some(PastEntry {
                rank: seat.position,
                score: seat.score,
                total: None,
                cohort: Some(seat.cohort),
                moved: Some(seat.moved),
            }),
        }
    }
}
