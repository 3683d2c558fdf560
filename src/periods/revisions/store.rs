//! Stores how results of final periods are revised after members were hidden or brought back.
//!
//! A hide writes a line into the journal of its shard (`scripts/lib/hides.lua`). Lines are noted under the board's own tag,
//! next to the results, until all results cover them. The board is noted (`board_notes.rs`) before and after the hide.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::domain::board::Board;
use crate::domain::ids::MemberId;
use crate::domain::league::Section;
use crate::domain::message::Message;
use crate::domain::shard::{Shard, ShardId};
use crate::domain::time::Timestamp;
use crate::domain::window::Window;
use crate::periods::results::store::{Forgetting, PeriodResult, RecordedResult};
use crate::redis::decode::{Done, Flat, Tail};
use crate::redis::dispatch::Store;
use crate::redis::kinds::{Kind, SEPARATOR};
use crate::redis::reply::require;
use crate::redis::stored::read_json;
use crate::redis::{StoreError, keys, script};

/// How many lines of a journal one call reads.
const CALL_LINES_MAX: usize = 300;
/// How many corrected periods one call reads.
const CALL_CORRECTED_MAX: u32 = 100;
/// How many revisions one call looks at.
const CALL_REVISIONS_MAX: u32 = 1_000;

/// What was done with a member.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Moderation {
    /// It was hidden.
    Hidden,
    /// It was brought back.
    Unhidden,
}

/// A line of a journal for which results must be revised.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct JournalLine {
    pub tag: String,
    pub number: u64,
    /// The member that was hidden or brought back.
    pub member: MemberId,
}

impl JournalLine {
    /// Whether the member was hidden or brought back.
    pub fn says(&self) -> Moderation {
        if self.number % 2 == 1 {
            Moderation::Hidden
        } else {
            Moderation::Unhidden
        }
    }

    /// Whether another line of the same journal is about the same member.
    pub fn is_of_same(&self, other: &Self) -> bool {
        (&self.tag, &self.member) == (&other.tag, &other.member)
    }

    /// The name under which it is noted.
    fn name(&self) -> String {
        format!("{}{SEPARATOR}{}", self.tag, self.member)
    }

    /// Whether a result covers it. `hides`: the last line that the result covers, by tag.
    pub fn is_in(&self, hides: &BTreeMap<String, u64>) -> bool {
        match hides.get(&self.tag) {
            Some(number) => *number >= self.number,
            // If newer tags are there, the board had left that shard before the result was made.
            None => hides.keys().any(|tag| epoch_of(tag) > epoch_of(&self.tag)),
        }
    }
}

/// Some of the lines of a shard's journal.
#[derive(Clone, Debug)]
pub struct JournalPart {
    pub lines: Vec<JournalLine>,
    /// The number of the last line that was read.
    pub up_to: u64,
    /// Whether there may be later lines.
    pub is_more: bool,
}

/// The epoch of the sharding that a tag belongs to.
fn epoch_of(tag: &str) -> Option<u32> {
    ShardId::of_tag(tag).map(|(_, shard)| shard.of.epoch)
}

/// What happened to a member of a standing whose result is revised.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct RevisedMember {
    /// Hidden or brought back.
    pub action: Moderation,
    /// 1 plus the number of better members; ties are not counted.
    pub place: u64,
}

/// What a revision changed in the result of a period.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Revision {
    /// When it was made.
    pub at: Timestamp,
    /// What happened to the members of its lines, in order. Their names are stored separately.
    pub members: Vec<RevisedMember>,
    /// Whether events of the period were corrected.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub corrected: bool,
    /// How many members the standing had before the revision.
    pub total_before: u64,
    /// How many it has after it.
    pub total: u64,
}

/// A revision's number, its changes, and the names of its members, `None` for erased ones.
pub type NamedRevision = (u64, Revision, Vec<Option<String>>);

#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct RevisedPeriod {
    pub window: Window,
    pub key: String,
    /// In a league, the name of the cohort.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cohort: Option<String>,
    pub revision: u64,
}

/// The last noted line of each shard's journal, by tag. A missing shard has no lines that matter.
pub async fn revised(store: &Store, board: &Board) -> Result<BTreeMap<String, u64>, StoreError> {
    store
        .command("HGETALL", [keys::of_board(board, Kind::Revised)])
        .await
}

/// Some lines of a shard's journal after a number, without those of members that are being erased. `is_closed`: accept any
/// version of the shard.
pub async fn journal(
    store: &Store,
    shard: &Shard,
    after: u64,
    is_closed: bool,
) -> Result<JournalPart, StoreError> {
    let version = (!is_closed).then(|| shard.version());
    let read = store
        .call_shard(&script::JOURNAL, shard)
        .arg(version)
        .arg(after)
        .arg(CALL_LINES_MAX);
    let Done::Ok((last, Tail(Flat(said)))) = read
        .read::<Done<(u64, Tail<Flat<(String, u64, String)>>)>>()
        .await?;
    let is_more = said.len() == CALL_LINES_MAX;
    let number = said.last().map_or(after, |(_, number, _)| *number);
    let lines = said
        .into_iter()
        .filter(|(_, _, says)| says != "erasing")
        .map(|(member, number, _)| {
            Ok(JournalLine {
                tag: shard.tag().to_owned(),
                number,
                member: require(
                    MemberId::parse(&member).ok(),
                    "a journal has an invalid member",
                )?,
            })
        });
    Ok(JournalPart {
        up_to: if is_more { number } else { last },
        lines: lines.collect::<Result<_, StoreError>>()?,
        is_more,
    })
}

/// Notes lines of a shard's journal up to `last`, unless another caller has noted lines of it since `known`. Returns the
/// number of the last line noted now.
pub async fn note_lines(
    store: &Store,
    board: &Board,
    tag: &str,
    (known, last): (Option<u64>, u64),
    lines: &[JournalLine],
) -> Result<u64, StoreError> {
    let lines = lines
        .iter()
        .flat_map(|line| [line.member.to_string(), line.number.to_string()]);
    let noted = store
        .call_board(&script::NOTE_LINES, board)
        .keys([Kind::Revised, Kind::ToRevise].map(|kind| keys::of_board(board, kind)))
        .arg(board.generation)
        .arg(tag)
        .arg(known)
        .arg(last)
        .args(lines);
    let Done::Ok(up_to) = noted.write().await?;
    Ok(up_to)
}

/// The first `count` lines for which results must be revised, those of a shard in order.
pub async fn lines_to_revise(
    store: &Store,
    board: &Board,
    count: usize,
) -> Result<Vec<JournalLine>, StoreError> {
    let list = keys::of_board(board, Kind::ToRevise);
    let end = count.saturating_sub(1).to_string();
    let range = [&list, "0", &end, "WITHSCORES"];
    let first: Vec<(String, u64)> = store.command("ZRANGE", range).await?;
    first
        .into_iter()
        .map(|(name, number)| {
            let line = name.split_once(SEPARATOR).and_then(|(tag, member)| {
                Some(JournalLine {
                    tag: tag.to_owned(),
                    number,
                    member: MemberId::parse(member).ok()?,
                })
            });
            require(line, "a noted line lacks its tag or its member")
        })
        .collect()
}

impl RevisedPeriod {
    /// The period of a section, with its new revision.
    pub fn new(board: &Board, section: &Section, revision: u64) -> Self {
        let cohort = |cohort| board.cohort_name(&section.period, cohort);
        Self {
            window: section.window(),
            key: board.calendar.key(&section.period),
            cohort: section.cohort.and_then(cohort),
            revision,
        }
    }
}

/// Replaces the result of a section by its next revision. Each line that causes it has its member in the revision.
/// [`StoreError::Stale`] if the stored result is not `seen`. `forgetting`: the board's value before the caller looked for
/// the members. A message is in the outbox then.
pub async fn revise_result(
    store: &Store,
    board: &Board,
    section: &Section,
    (seen, result): (&RecordedResult, &PeriodResult),
    (lines, revision, forgetting): (&[&JournalLine], &Revision, &Forgetting),
    message: Option<&Message>,
) -> Result<(), StoreError> {
    let window = section.window();
    let of_window = [Kind::Results, Kind::Revisions, Kind::RevisedMembers];
    let period = RevisedPeriod::new(board, section, result.revision);
    let lines = lines
        .iter()
        .flat_map(|line| [line.name(), line.member.to_string()]);
    let revised = store
        .call_board(&script::REVISE_RESULT, board)
        .keys(of_window.map(|kind| keys::of_results(board, kind, window)))
        .key(keys::of_board(board, Kind::RevisedPeriods))
        .key(keys::outbox(&board.id, board.generation))
        .arg(board.version())
        .arg(board.section_key(section))
        .arg(&seen.json)
        .json(result)
        .arg(result.revision)
        .json(revision)
        .json(&period)
        .arg(forgetting.as_str())
        .arg(message.map(|message| message.id.as_str()))
        .arg(message.map(|message| message.body.as_str()))
        .args(lines);
    revised.write::<Done>().await.map(drop)
}

/// A closed period that was corrected, and whose result may not include that (`scripts/corrections/correct.lua`).
#[derive(Clone, Debug)]
pub struct CorrectedPeriod {
    /// Its title.
    pub title: String,
    /// The note, as stored.
    pub note: String,
    /// The number of the shard's last correction of it.
    pub number: u64,
    /// If the members were hidden, the last line of the journal that says so; otherwise 0.
    pub line: u64,
}

/// Some of the closed periods of a shard that were corrected, or all if there are few.
pub async fn corrected_periods(
    store: &Store,
    shard: &Shard,
) -> Result<Vec<CorrectedPeriod>, StoreError> {
    let key = keys::single(shard, Kind::Corrected);
    let args = [&key, &CALL_CORRECTED_MAX.to_string(), "WITHVALUES"];
    let notes: Vec<(String, String)> = store.command("HRANDFIELD", args).await?;
    let period = |(title, note): (String, String)| {
        let numbers = note
            .split_once(' ')
            .and_then(|(number, line)| Some((number.parse().ok()?, line.parse().ok()?)));
        let (number, line) = require(numbers, "the note of a corrected period is damaged")?;
        Ok(CorrectedPeriod {
            title,
            note,
            number,
            line,
        })
    };
    notes.into_iter().map(period).collect()
}

/// Removes the note of a corrected period, unless it was corrected again.
pub async fn end_corrected(
    store: &Store,
    shard: &Shard,
    period: &CorrectedPeriod,
) -> Result<(), StoreError> {
    let ended = store
        .call(&script::END_CORRECTED, shard.tag())
        .key(keys::single(shard, Kind::Corrected))
        .arg(&period.title)
        .arg(&period.note);
    ended.write::<Done>().await.map(drop)
}

/// The periods that a line revised.
pub async fn revised_periods(
    store: &Store,
    board: &Board,
    line: &JournalLine,
) -> Result<Vec<RevisedPeriod>, StoreError> {
    let field = [keys::of_board(board, Kind::RevisedPeriods), line.name()];
    let periods: Option<String> = store.command("HGET", field).await?;
    periods
        .unwrap_or_default()
        .lines()
        .map(|period| read_json("a revised period", period))
        .collect()
}

/// Makes requests that hide members of a board wait, for at most this long.
pub async fn hold_moderation(
    store: &Store,
    board: &Board,
    time: Duration,
) -> Result<(), StoreError> {
    let key = keys::moderation_hold(board);
    let ms = time.as_millis().max(1).to_string();
    store.command("SET", [&key, "1", "PX", &ms]).await
}

/// Ends that wait.
pub async fn release_moderation(store: &Store, board: &Board) -> Result<(), StoreError> {
    store.command("DEL", [keys::moderation_hold(board)]).await
}

/// Whether requests that hide members of a board must wait.
pub async fn is_moderation_held(store: &Store, board: &Board) -> Result<bool, StoreError> {
    store
        .command("EXISTS", [keys::moderation_hold(board)])
        .await
}

/// How many lines still have to revise results.
pub async fn count_lines_to_revise(store: &Store, board: &Board) -> Result<usize, StoreError> {
    store
        .command("ZCARD", [keys::of_board(board, Kind::ToRevise)])
        .await
}

/// Deletes a line that all results cover.
pub async fn end_line(store: &Store, board: &Board, line: &JournalLine) -> Result<(), StoreError> {
    let ended = store
        .call(&script::END_LINE, board.id.as_str())
        .keys([Kind::ToRevise, Kind::RevisedPeriods].map(|kind| keys::of_board(board, kind)))
        .arg(line.name())
        .arg(line.number);
    ended.write::<Done>().await.map(drop)
}

/// Some revisions of the result of a period, with the names of their members, `None` for erased ones.
pub async fn read(
    store: &Store,
    board: &Board,
    section: &Section,
    revisions: impl Iterator<Item = u64>,
) -> Result<Vec<NamedRevision>, StoreError> {
    let revisions: Vec<u64> = revisions.collect();
    if revisions.is_empty() {
        return Ok(Vec::new());
    }
    let name = board.section_key(section);
    let field = |revision: &u64| format!("{name}{SEPARATOR}{revision}");
    let of = async |kind, fields: Vec<String>| -> Result<Vec<Option<String>>, StoreError> {
        let list = keys::of_results(board, kind, section.window());
        store
            .command("HMGET", [list].into_iter().chain(fields))
            .await
    };
    let changes = of(Kind::Revisions, revisions.iter().map(field).collect()).await?;
    let known: Vec<(u64, Revision)> = revisions
        .into_iter()
        .zip(changes)
        .filter_map(|(revision, change)| Some((revision, change?)))
        .map(|(revision, change)| Ok((revision, read_json("a revision", &change)?)))
        .collect::<Result<_, StoreError>>()?;
    let fields: Vec<String> = known
        .iter()
        .flat_map(|(revision, change)| {
            let indexes = 1..=change.members.len();
            indexes.map(move |index| format!("{}{SEPARATOR}{index}", field(revision)))
        })
        .collect();
    // A revision by corrections has no members.
    let names = if fields.is_empty() {
        Vec::new()
    } else {
        of(Kind::RevisedMembers, fields).await?
    };
    let mut names = names.into_iter();
    Ok(known
        .into_iter()
        .map(|(revision, change)| {
            let own = names.by_ref().take(change.members.len()).collect();
            (revision, change, own)
        })
        .collect())
}

/// Removes the name of an erased member from the revisions of a window.
pub async fn forget_member(
    store: &Store,
    board: &Board,
    window: Window,
    member: &MemberId,
) -> Result<(), StoreError> {
    let list = keys::of_results(board, Kind::RevisedMembers, window);
    let mut cursor = "0".to_owned();
    loop {
        let count = CALL_REVISIONS_MAX.to_string();
        let args = [&list, &cursor, "COUNT", &count];
        let (next, flat): (String, Vec<String>) = store.command("HSCAN", args).await?;
        let named: Vec<String> = flat
            .chunks_exact(2)
            .filter(|pair| pair[1] == member.as_str())
            .map(|pair| pair[0].clone())
            .collect();
        if !named.is_empty() {
            let args = std::iter::once(&list).chain(&named);
            let () = store.command("HDEL", args).await?;
        }
        if next == "0" {
            return Ok(());
        }
        cursor = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(tag: &str, number: u64) -> JournalLine {
        JournalLine {
            tag: tag.to_owned(),
            number,
            member: MemberId::parse("ann").unwrap(),
        }
    }

    #[test]
    fn a_result_includes_lines_up_to_its_numbers_and_all_of_former_shards() {
        let hides = |tags: &[(&str, u64)]| -> BTreeMap<String, u64> {
            tags.iter()
                .map(|(tag, number)| ((*tag).to_owned(), *number))
                .collect()
        };
        let result = hides(&[("b:4:0:1", 3), ("b:4:1:1", 0)]);
        assert!(line("b:4:0:1", 3).is_in(&result));
        assert!(!line("b:4:0:1", 4).is_in(&result));
        assert!(!line("b:4:1:1", 1).is_in(&result));
        assert!(line("b", 9).is_in(&result), "before the move");
        assert!(!line("b:2:0:2", 1).is_in(&result), "after another one");
        assert_eq!(line("b", 1).says(), Moderation::Hidden);
        assert_eq!(line("b", 2).says(), Moderation::Unhidden);
    }
}
