//! The report of a check: contradictions in words.

use serde::Serialize;

use super::repair::RepairOutcome;
use super::store::{Difference, stored_sign, whole_of};
use crate::domain::board::Board;
use crate::domain::score::ShownScore;
use crate::domain::shard::Shard;
use crate::domain::ties::TieKey;
use crate::domain::time::Timestamp;
use crate::redis::keys;

/// The maximum number of contradictions of one standing that are listed.
const LISTED_MAX: u64 = 20;

#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Place {
    /// The board; `None` for keys that all boards share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub board: Option<String>,
    /// The common part of the shard's keys, if the board has several shards.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shard: Option<String>,
    /// The standing, or another key of the shard.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub standing: Option<String>,
}

impl Place {
    pub fn of_board(id: &impl ToString) -> Self {
        Self {
            board: Some(id.to_string()),
            ..Self::default()
        }
    }

    /// One of its shards, or the board if it has only one.
    pub fn of_shard(shard: &Shard) -> Self {
        Self {
            shard: (!shard.shard_id.of.is_together()).then(|| shard.tag().to_owned()),
            ..Self::of_board(&shard.id)
        }
    }

    pub fn of_key(shard: &Shard, key: &str) -> Self {
        Self {
            standing: Some(keys::short(shard, key).to_owned()),
            ..Self::of_shard(shard)
        }
    }
}

#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Finding {
    #[serde(flatten)]
    pub place: Place,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member: Option<String>,
    /// The kind of contradiction, in one word.
    pub kind: String,
    /// What is stored on each side.
    pub detail: String,
    pub is_mended: bool,
    /// Whether its repair would remove something, and waits for permission.
    pub is_removal: bool,
}

impl Finding {
    fn new(place: &Place, kind: &str, outcome: RepairOutcome, detail: String) -> Self {
        Self {
            place: place.clone(),
            member: None,
            kind: kind.to_owned(),
            detail,
            is_mended: outcome == RepairOutcome::Repaired,
            is_removal: outcome == RepairOutcome::Asked,
        }
    }
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let named = [
            ("board ", &self.place.board),
            ("shard ", &self.place.shard),
            ("", &self.place.standing),
            ("member ", &self.member),
        ];
        let mut separator = "";
        for (what, name) in named {
            if let Some(name) = name {
                write!(f, "{separator}{what}{}", printable(name))?;
                separator = ", ";
            }
        }
        let colon = if separator.is_empty() { "" } else { ": " };
        let mended = match (self.is_mended, self.is_removal) {
            (true, _) => " (repaired)",
            (false, true) => " (to be removed)",
            (false, false) => "",
        };
        write!(f, "{colon}{}{mended}", printable(&self.detail))
    }
}

/// Removes control characters, which would affect a terminal.
fn printable(text: &str) -> String {
    text.replace(char::is_control, "\u{fffd}")
}

/// The result of a check.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Report {
    /// Contradictions; the first few of each standing.
    pub findings: Vec<Finding>,
    /// What could not be checked, and why; other remarks.
    pub notes: Vec<String>,
    /// The number of contradictions, listed or not.
    pub contradictions: u64,
    /// How many of them were repaired.
    pub mended: u64,
    /// How many wait for permission to remove something.
    pub removals: u64,
    /// The number of boards checked.
    pub boards: u64,
    /// The number of standings checked.
    pub standings: u64,
    /// The number of findings at the latest place.
    #[serde(skip)]
    of_place: u64,
    /// The number of totals of the latest board that could not be compared.
    #[serde(skip)]
    pub(super) unsure: u64,
}

impl Report {
    /// Whether no contradiction is left.
    pub fn is_sound(&self) -> bool {
        self.contradictions == self.mended
    }

    /// Whether a finding of this kind was reported for this board or shard.
    pub(super) fn has(&self, kind: &str, place: &Place) -> bool {
        self.findings.iter().any(|found| {
            let Place { board, shard, .. } = &found.place;
            found.kind == kind && (board, shard) == (&place.board, &place.shard)
        })
    }

    /// Adds a note, which is not a contradiction.
    pub(super) fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    pub(super) fn push(&mut self, finding: Finding) {
        let last = self.findings.last();
        let is_same = last.is_some_and(|last| last.place == finding.place);
        self.of_place = if is_same { self.of_place + 1 } else { 1 };
        self.contradictions += 1;
        self.mended += u64::from(finding.is_mended);
        self.removals += u64::from(finding.is_removal);
        let left_out = self.of_place.saturating_sub(LISTED_MAX);
        if left_out == 0 {
            self.findings.push(finding);
            return;
        }
        if left_out > 1 {
            self.findings.pop();
        }
        self.findings.push(Finding {
            member: None,
            kind: "more".to_owned(),
            detail: format!("and {left_out} more"),
            is_mended: false,
            is_removal: false,
            ..finding
        });
    }

    pub(super) fn add(
        &mut self,
        place: &Place,
        kind: &str,
        outcome: RepairOutcome,
        detail: impl Into<String>,
    ) {
        self.push(Finding::new(place, kind, outcome, detail.into()));
    }

    /// Reports what a script has found.
    pub(super) fn add_all(
        &mut self,
        shard: &Shard,
        place: &Place,
        differences: impl IntoIterator<Item = Difference>,
    ) {
        for difference in differences {
            let Difference { code, outcome, .. } = &difference;
            let detail = describe(shard, &difference);
            self.push(Finding {
                member: member_of(&difference).map(ToOwned::to_owned),
                ..Finding::new(place, code, *outcome, detail)
            });
        }
    }
}

/// The member concerned. The codes are in the scripts' headers.
fn member_of(difference: &Difference) -> Option<&str> {
    let text = |index: usize| difference.stored.get(index).map_or("", String::as_str);
    match difference.code.as_str() {
        "number" | "no_member" | "unlisted" | "score" | "stray" | "sum" | "data" | "carried"
        | "hides" => Some(text(0)),
        "hidden" | "hidden_total" => Some(text(0)).filter(|member| !member.is_empty()),
        "unreadable" => Some(text(1)),
        _ => None,
    }
}

/// What is stored on each side. The codes are in the scripts' headers.
fn describe(shard: &Shard, difference: &Difference) -> String {
    let Difference { code, stored, .. } = difference;
    let text = |index: usize| stored.get(index).map_or("", String::as_str);
    let [first, second, third] = [0, 1, 2].map(text);
    let key = || keys::short(shard, first);
    let score = |index| shown(shard, text(index));
    let entry = |index| listed(shard, text(index), text(index + 1));
    match code.as_str() {
        "type" => format!("{} is of type {second}, but must be of type {third}", key()),
        "no_state" => "it is missing from its series".to_owned(),
        "expiry" => {
            let [first, last] = [first, second].map(end);
            format!("its keys expire at different times: {first} and {last}")
        }
        "no_expiry" => "it never expires, although the board has a retention".to_owned(),
        "remnant" => format!("it has expired, but still has {first} members"),
        "no_hash" => format!("the hash is missing, and the list has only the best {first} members"),
        "no_member" if shard.definition.entry_data => {
            format!(
                "the sorted set has {}, the hash nothing; its data is lost",
                entry(1)
            )
        }
        "no_member" => format!("the sorted set has {}, the hash nothing", entry(1)),
        "too_long" => format!("it lists {first} members instead of {second}"),
        "number" => format!("the score {second} is not a whole number within the bounds"),
        "unreadable" => format!("its value in {} can't be read", key()),
        "unlisted" => format!("the hash has {}, the sorted set nothing", entry(1)),
        "score" => format!("the hash has {}, the sorted set {}", entry(1), score(3)),
        "stray" => format!("the sorted set has {}, the hash {}", entry(1), entry(3)),
        "undistinct" => format!("the score {} is missing from the distinct scores", score(0)),
        "distinct" => format!("the distinct scores have {}, which no member has", score(1)),
        "hides" => format!("{second} says that it is hidden, {third} does not"),
        "hides_number" => {
            let [head, journal] = [first, second].map(|number| match number {
                "" => "none",
                number => number,
            });
            format!("the number of its last hide: {head}; in the journal: {journal}")
        }
        "hidden_score" => format!(
            "the scores that only hidden members have are wrong for {}",
            score(0)
        ),
        "hidden_total" => {
            "the stored sum of the list of hidden members differs from its entries".to_owned()
        }
        "hidden" if first.is_empty() => "the list of hidden members lacks entries".to_owned(),
        "hidden" => "its entry in the list of hidden members differs from its hide".to_owned(),
        "total" => {
            let whole = |index: usize| {
                let [high, low] = [index, index + 1].map(|index| text(index).parse().unwrap_or(0));
                whole_of(high, low)
            };
            total(shard, whole(0), whole(2))
        }
        "sum" => by_terms(&entry(1), &entry(3)),
        "data" => by_terms(data(second), data(third)),
        "carried" => {
            let [all, own, before] = [1, 2, 3].map(|index| listed(shard, text(index), ""));
            format!("stored: {all}; without carryover: {own}; in the previous period: {before}")
        }
        "queue_bytes" => format!("stored size: {first} bytes; size of its entries: {second} bytes"),
        "queue_id" => {
            let [known, right] = [second, third].map(|entries| match entries {
                "" => "no entry",
                entries => entries,
            });
            format!("the event {first} has the entry {right}, but the index has {known}")
        }
        "unindexed" => format!("the kept event {first} is missing from an index"),
        "dangling" => format!("an index has the event {first}, which is not kept there"),
        "misplaced" => format!("the directory of an index is wrong near the event {first}"),
        "revoked" if second == "1" => {
            format!("the kept event {first} is revoked, but no revocation in force covers it")
        }
        "revoked" => {
            format!("the kept event {first} is not revoked, but a revocation in force covers it")
        }
        "entry" => format!("{}: stored: {second}; made by its events: {third}", key()),
        "unfolded" => format!("{} lacks what events that are not kept have made", key()),
        "state" => format!("the state of the series can't be read: it is of type {first}"),
        other => format!("{other}: {}", stored.join(", ")),
    }
}

fn by_terms(stored: &str, of_terms: &str) -> String {
    format!("stored: {stored}; sum of its periods: {of_terms}")
}

/// The data of an entry, or a text saying that there is none.
fn data(stored: &str) -> &str {
    if stored.is_empty() { "no data" } else { stored }
}

/// The stored total, and the sum of the scores.
pub(super) fn total(board: &Board, stored: i128, sum: i128) -> String {
    // Scores, and so their sums, are stored negated if the greatest is first.
    let [stored, sum] = [stored, sum].map(|scaled| shown(board, &scaled.to_string()));
    format!("stored total: {stored}; sum of the scores: {sum}")
}

/// A stored score as users see it, or the raw text if it is not a score.
fn shown(board: &Board, stored: &str) -> String {
    let Ok(scaled) = stored.parse::<i128>() else {
        return stored.to_owned();
    };
    let scaled = i128::from(stored_sign(board)) * scaled;
    ShownScore::sum(scaled, board.definition.decimals).to_string()
}

/// A stored score and its time.
fn listed(board: &Board, stored: &str, time: &str) -> String {
    if stored.is_empty() {
        return "nothing".to_owned();
    }
    let ties = board.definition.ties;
    let time = time.parse().ok().map(TieKey::of_stored_time);
    let score = shown(board, stored);
    match time.and_then(|time| time.instant(ties)) {
        Some(instant) => format!("{score} at {instant}"),
        None => score,
    }
}

/// When a key expires.
fn end(ms: &str) -> String {
    match ms.parse() {
        Ok(ms) if ms >= 0 => Timestamp::from_ms_clamped(ms).to_string(),
        _ => "never".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(standing: &str, number: usize) -> Finding {
        Finding {
            place: Place {
                standing: Some(standing.to_owned()),
                ..Place::of_board(&"b")
            },
            member: Some(format!("m{number}\u{1b}")),
            kind: "score".to_owned(),
            detail: "1 and 2".to_owned(),
            is_mended: number == 0,
            is_removal: number == 1,
        }
    }

    #[test]
    fn the_first_findings_of_a_standing_are_listed_and_the_rest_counted() {
        let mut report = Report::default();
        for number in 0..25 {
            report.push(finding("day", number));
        }
        report.push(finding("week", 1));
        let lines: Vec<String> = report.findings.iter().map(Finding::to_string).collect();
        assert_eq!(lines.len(), 22);
        assert_eq!(
            lines[0],
            "board b, day, member m0\u{fffd}: 1 and 2 (repaired)"
        );
        assert_eq!(lines[20], "board b, day: and 5 more");
        assert_eq!(
            lines[21],
            "board b, week, member m1\u{fffd}: 1 and 2 (to be removed)"
        );
        assert_eq!(
            (report.contradictions, report.mended, report.removals),
            (26, 1, 2)
        );
    }
}
