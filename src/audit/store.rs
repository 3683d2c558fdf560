//! Stores the audit log: lines in a stream, outcomes in a hash, and the pseudonyms of the members that they name, all in
//! one slot.

use serde::Deserialize;

use super::model::{AuditOutcome, Intent, LEFT_OUT};
use crate::domain::ids::{BoardId, MemberId};
use crate::domain::part::Part;
use crate::domain::time::Timestamp;
use crate::redis::decode::{Coded, Done, Flat, Tail};
use crate::redis::dispatch::Store;
use crate::redis::entry::EntryId;
use crate::redis::kinds::SEPARATOR;
use crate::redis::reply::for_each_of;
use crate::redis::stored::{read_json, to_json};
use crate::redis::{StoreError, keys, random, script};

/// How many bytes the lines of the log may take. Beyond that the oldest are dropped.
pub const LOG_BYTES_MAX: u64 = 256 << 20;
/// How many members may have a pseudonym. Beyond that the least recently named are removed.
const MEMBERS_KEPT_MAX: usize = 200_000;
/// How many lines one call reads or drops.
const CALL_LINES: usize = 100;
const PSEUDONYM_PREFIX: &str = "m-";
/// How many random bytes follow, each as two hexadecimal digits.
const PSEUDONYM_BYTES: usize = 10;

/// The id of a line: when it was written, in milliseconds since the epoch by Redis' clock, and its number in that millisecond.
pub type LineId = EntryId;

/// Parses the id of a line, after which the next part begins.
///
/// # Errors
/// No line has this id.
pub fn line_id(text: &str) -> Result<LineId, &'static str> {
    // Redis refuses the id 0-0.
    let id = text.parse().ok().filter(|id| *id != LineId::default());
    id.ok_or("is not a `next` of this list")
}

/// A filter of lines.
#[derive(Clone, Debug, Default)]
pub struct LineFilter {
    /// Only those of this caller.
    pub by: Option<String>,
    /// Only those that name this board, or all boards.
    pub board: Option<BoardId>,
    /// Only those that name this member.
    pub member: Option<MemberId>,
}

#[derive(Clone, Debug)]
pub struct LoggedRequest {
    pub id: LineId,
    pub intent: Intent,
    /// The outcome; `None` if the request is not finished, or its outcome could not be recorded.
    pub outcome: Option<AuditOutcome>,
    /// The pseudonyms of the members that it names, with their ids where known.
    pub members: Vec<(String, Option<String>)>,
    /// How many bytes it takes.
    pub bytes: usize,
}

/// The result of one call that drops lines.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Trimmed {
    /// Whether there may be more to drop.
    pub is_more: bool,
    /// How many bytes the remaining lines take.
    pub bytes: u64,
}

/// The pseudonyms of members in the audit log, created where missing.
pub async fn pseudonyms(store: &Store, members: &[MemberId]) -> Result<Vec<String>, StoreError> {
    if members.is_empty() {
        return Ok(Vec::new());
    }
    let mut call = store
        .call(&script::AUDIT_MEMBERS, keys::AUDIT_LINES[0])
        .keys(keys::AUDIT_NAMES)
        .arg(MEMBERS_KEPT_MAX);
    for member in members {
        let pseudonym = random::hexadecimal::<PSEUDONYM_BYTES>(PSEUDONYM_PREFIX)?;
        call = call.arg(member.as_str()).arg(pseudonym);
    }
    for_each_of(call.write().await?, members.len())
}

/// The members with these pseudonyms; `None` for those that were erased or forgotten.
pub async fn members_with(
    store: &Store,
    pseudonyms: &[String],
) -> Result<Vec<Option<String>>, StoreError> {
    if pseudonyms.is_empty() {
        return Ok(Vec::new());
    }
    let [_, members, _] = keys::AUDIT_NAMES;
    let fields = [members]
        .into_iter()
        .chain(pseudonyms.iter().map(String::as_str));
    store.command("HMGET", fields).await
}

/// Deletes the pseudonym of a member, so that nothing shows any more which lines name it.
pub async fn forget_member(store: &Store, member: &MemberId) -> Result<(), StoreError> {
    let forgotten = store
        .call(&script::AUDIT_FORGET, keys::AUDIT_LINES[0])
        .keys(keys::AUDIT_NAMES)
        .arg(member.as_str());
    forgotten.write::<Done>().await.map(drop)
}

/// Records an intent. If Redis is out of memory, the line has no body.
pub async fn begin_line(store: &Store, intent: &Intent) -> Result<LineId, StoreError> {
    let brief = Intent {
        body: LEFT_OUT.into(),
        ..intent.clone()
    };
    let rest = [
        intent.by.clone(),
        separated(&intent.boards),
        separated(&intent.members),
    ];
    let id = write(store, to_json(intent)?, to_json(&brief)?, &rest).await?;
    id.ok_or_else(|| StoreError::Unexpected("a new line of the audit log has no id".to_owned()))
}

/// Records the outcome of a line, unless the line was dropped. If Redis is out of memory, it doesn't have what changed.
pub async fn end_line(store: &Store, id: LineId, outcome: &AuditOutcome) -> Result<(), StoreError> {
    let brief = AuditOutcome {
        before: LEFT_OUT.into(),
        after: LEFT_OUT.into(),
        ..outcome.clone()
    };
    let rest = [id.to_string()];
    write(store, to_json(outcome)?, to_json(&brief)?, &rest)
        .await
        .map(drop)
}

/// Writes the full version, or the brief one if there is no memory for that. `None`: the line was dropped.
async fn write(
    store: &Store,
    whole: String,
    brief: String,
    rest: &[String],
) -> Result<Option<LineId>, StoreError> {
    let write = |script, json: String| {
        store
            .call(script, keys::AUDIT_LINES[0])
            .keys(keys::AUDIT_LINES)
            .arg(LOG_BYTES_MAX)
            .arg(json)
            .args(rest)
            .write::<Coded<LineId>>()
    };
    let written = match write(&script::AUDIT_WRITE, whole).await {
        Err(StoreError::Full(_)) => write(&script::AUDIT_BRIEF, brief).await,
        written => written,
    };
    written?.after("OK", "GONE")
}

/// Reads some lines, newest first, or those before a given one. The part has those that match; its `next` is the last line
/// read, `None` if there is none before it.
pub async fn lines(
    store: &Store,
    wanted: &LineFilter,
    before: Option<LineId>,
) -> Result<Part<LoggedRequest, LineId>, StoreError> {
    let LineFilter { by, board, member } = wanted;
    let [log, outcomes, _] = keys::AUDIT_LINES;
    let [pseudonyms, members, _] = keys::AUDIT_NAMES;
    let read = store
        .call(&script::AUDIT_READ, log)
        .keys([log, outcomes, pseudonyms, members])
        .arg(before.map_or_else(|| "+".to_owned(), |id| format!("({id}")))
        .arg(CALL_LINES)
        .arg(by.as_ref())
        .arg(board.as_ref().map(BoardId::as_str))
        .arg(member.as_ref().map(MemberId::as_str));
    let (next, Tail(lines)) = read
        .read::<(Option<LineId>, Tail<Vec<StoredLine>>)>()
        .await?;
    let items = lines.into_iter().map(StoredLine::read);
    Ok(Part {
        items: items.collect::<Result<_, _>>()?,
        next,
    })
}

/// Drops some lines that are too old, and removes some members that no line names any more.
pub async fn trim(store: &Store, now: Timestamp) -> Result<Trimmed, StoreError> {
    let retention = store.audit_retention;
    let before = retention.map_or(0, |retention| now.saturating_sub(retention).ms().max(0));
    let trimmed = store
        .call(&script::AUDIT_TRIM, keys::AUDIT_LINES[0])
        .keys(keys::AUDIT_LINES)
        .keys(keys::AUDIT_NAMES)
        .arg(before)
        .arg(CALL_LINES);
    let (dropped, forgotten, bytes) = trimmed.write::<(usize, usize, i64)>().await?;
    Ok(Trimmed {
        is_more: dropped.max(forgotten) >= CALL_LINES,
        bytes: bytes.try_into().unwrap_or(0),
    })
}

/// A line as audit_read.lua returns it.
#[derive(Deserialize)]
struct StoredLine {
    id: LineId,
    intent: String,
    outcome: Option<String>,
    members: Tail<Flat<(String, Option<String>)>>,
}

impl StoredLine {
    fn read(self) -> Result<LoggedRequest, StoreError> {
        let Self {
            id,
            intent,
            outcome,
            members: Tail(Flat(members)),
        } = self;
        let what = format!("line {id} of the audit log");
        let bytes = intent.len() + outcome.as_ref().map_or(0, String::len);
        let outcome = outcome.map(|outcome| read_json(&what, &outcome));
        Ok(LoggedRequest {
            id,
            intent: read_json(&what, &intent)?,
            outcome: outcome.transpose()?,
            members,
            bytes,
        })
    }
}

/// Names, each between separators; empty without names.
fn separated(names: &[String]) -> String {
    if names.is_empty() {
        return String::new();
    }
    let names = names.join(&SEPARATOR.to_string());
    format!("{SEPARATOR}{names}{SEPARATOR}")
}
