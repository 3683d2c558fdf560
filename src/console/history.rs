//! A member's results in the last periods of a window: in a league from its seats, elsewhere from the standings.

use super::chart::{Chart, Figure, float};
use super::prelude::*;
use crate::domain::league::decision::Move;
use crate::domain::score::ShownScore;
use crate::domain::state::PeriodState;
use crate::http::problem::NO_LEAGUE;
use crate::leagues::routes::tiers::HistoryBody;
use crate::standings::routes::in_league::PlayedBody;
use crate::standings::routes::queries::QueryResult;

/// How many periods it covers.
const PERIODS_MAX: &str = "30";

/// A member's results in periods, newest first.
#[derive(Default)]
pub(super) struct History {
    pub(super) lines: Vec<Line>,
    pub(super) charts: Vec<Chart>,
}

/// A period with the member.
pub(super) struct Line {
    pub(super) key: String,
    is_running: bool,
    /// `None`: it was not in the standing.
    pub(super) entry: Option<PastEntry>,
}

/// Its entry there.
pub(super) struct PastEntry {
    pub(super) rank: Option<u64>,
    pub(super) score: ShownScore,
    pub(super) total: Option<u64>,
    /// In a league, the cohort, and where the member moved from it.
    pub(super) cohort: Option<String>,
    pub(super) moved: Option<Move>,
}

impl History {
    fn of(lines: Vec<Line>) -> Self {
        let played = lines.iter().filter(|line| line.entry.is_some()).count();
        // A single result needs no chart.
        if played < 2 {
            let charts = Vec::new();
            return Self { lines, charts };
        }
        let figures = |of: fn(&PastEntry) -> Option<f64>| -> Vec<Figure> {
            let figure = |line: &Line| Figure {
                name: line.key.clone(),
                key: line.key.clone(),
                value: line.entry.as_ref().and_then(of),
                is_running: line.is_running,
            };
            lines.iter().rev().map(figure).collect()
        };
        let ranks = figures(|entry| entry.rank.map(float));
        let scores = figures(|entry| entry.score.to_string().parse().ok());
        let charts = vec![
            Chart::ranks("ranks", "Rank", &ranks),
            Chart::bars("scores", "Score", &scores),
        ];
        Self { lines, charts }
    }

    /// Whether it is of a league.
    pub(super) fn is_of_league(&self) -> bool {
        let mut entries = self.lines.iter().filter_map(|line| line.entry.as_ref());
        entries.any(|entry| entry.moved.is_some())
    }
}

impl Visitor {
    /// A member's results in the last periods with data, with the page's parameter `hidden`. Empty if the viewer may not
    /// read the board, and for a window without periods.
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
        let played = self.read::<HistoryBody>(&history_at).await;
        if let Some(played) = unless(played, |kind| kind == NO_LEAGUE)? {
            let seats = played.seats.into_iter();
            return Ok(History::of(seats.map(Line::from).collect()));
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
            is_running: listed.period.state == Some(PeriodState::Live),
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
        // A single result is that of the page.
        let history = Some(History::of(lines.collect()));
        let history = history.filter(|history| !history.charts.is_empty());
        Ok(history.unwrap_or_default())
    }
}

impl From<PlayedBody> for Line {
    fn from(seat: PlayedBody) -> Self {
        Self {
            key: seat.key,
            is_running: false,
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
