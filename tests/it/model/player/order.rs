//! What became of events that were sent together is compared with the model, in the order in which they may have been carried out.

use std::collections::HashSet;

use serde_json::Value;

use super::sending::in_any_order;
use super::{Closed, Game, Outcome, Sent, expect_equal};
use crate::model::answers::{changes, status};
use crate::model::cases::Detail;
use crate::model::naive::{Model, Verdict};

/// How many guesses it may take to find the order in which the events of a batch were carried out.
const TRIES_MAX: usize = 2_000;

/// Looks for the order in which events were carried out.
struct Search {
    now: i64,
    detail: Detail,
    tries: usize,
    /// Which events can't be left at the end: by the law it doesn't matter how it came to that. It does with extra
    /// allowances, but there the order of the batch is right, which is tried first.
    dead_ends: HashSet<Vec<usize>>,
    /// What doesn't fit where the fewest events are left, and how many that are.
    why_not: Option<(usize, String)>,
}

impl Search {
    /// `left` are places in `events`; `moments` the boards after each event so far.
    fn find_order(
        &mut self,
        events: &[(Sent, Outcome)],
        left: &[usize],
        moments: &mut Vec<Vec<(String, Model)>>,
    ) -> bool {
        if self.dead_ends.contains(left) {
            return false;
        }
        let boards = moments[moments.len() - 1].clone();
        let mut difference = None;
        for place in left {
            let (sent, outcome) = &events[*place];
            self.tries = self.tries.saturating_sub(1);
            let (after, expected) = judge(&boards, sent, self.now, self.detail);
            if let Err(why) = expect_equal(&format!("{sent:?}"), outcome, &expected) {
                difference.get_or_insert(why);
            } else if self.tries > 0 {
                let mut next = boards.clone();
                next[sent.board].1 = after;
                moments.push(next);
                let rest: Vec<usize> = left
                    .iter()
                    .copied()
                    .filter(|other| other != place)
                    .collect();
                if self.find_order(events, &rest, moments) {
                    return true;
                }
                moments.pop();
            }
        }
        if let Some(why) = difference
            && self
                .why_not
                .as_ref()
                .is_none_or(|(fewest, _)| left.len() < *fewest)
        {
            self.why_not = Some((left.len(), why));
        }
        if !left.is_empty() {
            self.dead_ends.insert(left.to_vec());
        }
        left.is_empty()
    }
}

impl Game<'_> {
    /// Compares what became of events that were sent together. They may be carried out in any order, so there
    /// has to be one in which those that were taken fit, and each other one fits at some moment of that. These periods were
    /// closed meanwhile.
    pub(super) fn compare(
        &mut self,
        answered: Vec<(Sent, Outcome)>,
        detail: Detail,
        closed: Option<&Closed>,
    ) -> Result<(), String> {
        let answered = answered
            .into_iter()
            .map(|(sent, outcome)| (sent.reported(&outcome), outcome));
        let (taken, others): (Vec<_>, Vec<_>) =
            answered.partition(|(_, outcome)| outcome.is_taken());
        let mut search = Search {
            now: self.now,
            detail,
            tries: TRIES_MAX,
            dead_ends: HashSet::new(),
            why_not: None,
        };
        let mut moments = vec![self.boards.clone()];
        let places: Vec<usize> = (0..taken.len()).collect();
        if !search.find_order(&taken, &places, &mut moments) {
            return Err(search
                .why_not
                .map_or_else(|| "no order was found".to_owned(), |(_, why)| why));
        }
        self.boards.clone_from(&moments[moments.len() - 1]);
        self.compare_refused(&others, moments, closed)
    }

    /// Compares what became of events that were not taken, which has to be right at one of these moments.
    pub(super) fn compare_others(
        &self,
        others: &[(Sent, Outcome)],
        moments: &[Vec<(String, Model)>],
    ) -> Result<(), String> {
        for (sent, outcome) in others {
            let expected = |boards: &Vec<_>| judge(boards, sent, self.now, Detail::Status).1;
            // A quota may have been used up before the id was.
            let is_over = || {
                let mut nameless = sent.clone();
                nameless.event.id = None;
                let judge = |boards| judge(boards, &nameless, self.now, Detail::Status).1;
                outcome.is_over_quota()
                    && (judge(&self.boards) == *outcome
                        || moments.iter().any(|boards| judge(boards) == *outcome))
            };
            if is_over() {
                continue;
            }
            if !moments.iter().any(|boards| expected(boards) == *outcome) {
                expect_equal(&format!("{sent:?}"), outcome, &expected(&self.boards))?;
            }
        }
        Ok(())
    }

    /// The same of events that were not taken, where periods were closed at any of these moments.
    pub(super) fn compare_refused(
        &mut self,
        others: &[(Sent, Outcome)],
        mut moments: Vec<Vec<(String, Model)>>,
        closed: Option<&Closed>,
    ) -> Result<(), String> {
        if let Some(closed) = closed {
            for boards in &mut moments.clone() {
                for (board, until) in &closed.until {
                    boards[*board].1.close(*until);
                }
                moments.push(boards.clone());
            }
            self.note_closed(closed);
        }
        self.compare_others(others, &moments)
    }

    /// Whether it depends on the order of some events which of them are taken.
    pub(super) fn needs_order(&self) -> bool {
        let has_extra = |(_, model): &(String, Model)| {
            let quotas = &model.board.quotas;
            quotas.iter().any(|quota| !quota.extra.is_empty())
        };
        self.has_huge_scores || self.boards.iter().any(has_extra)
    }
}

/// What has to become of an event now, and the model of its board afterwards.
pub(super) fn judge(
    boards: &[(String, Model)],
    sent: &Sent,
    now: i64,
    detail: Detail,
) -> (Model, Outcome) {
    let before = &boards[sent.board].1;
    let mut after = before.clone();
    let outcome = match after.take(&sent.event, now, sent.reported_at) {
        Verdict::Taken => {
            let standings = in_any_order(changes(before, &after, &sent.event, detail));
            after.remember(standings.clone());
            let status = status(before, &after, &sent.event).to_owned();
            Outcome {
                status,
                problem: None,
                at: Some(after.latest_at()),
                standings,
            }
        }
        Verdict::Duplicate(at, standings) => Outcome {
            status: "duplicate".to_owned(),
            problem: None,
            at: Some(at),
            standings,
        },
        Verdict::Rejected(problem) => Outcome {
            status: "rejected".to_owned(),
            problem: Some(format!("/problems/{problem}")),
            at: None,
            standings: Value::Null,
        },
    };
    (after, outcome)
}
