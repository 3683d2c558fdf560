//! The audit log: its lines in a stream, their outcomes in a hash, and the pseudonyms of the members that they name. All of
//! it lies in one slot.

use serde::Deserialize;

use super::model::{Intent, LEFT_OUT, Outcome};
use crate::domain::ids::{BoardId, MemberId};
use crate::domain::part::Part;
use crate::domain::time::Timestamp;
use crate::redis::decode::{Done, Flat, Found, Tail};
use crate::redis::dispatch::Store;
use crate::redis::entry::EntryId;
use crate::redis::kinds::SEPARATOR;
use crate::redis::reply::for_each_of;
use crate::redis::stored::{read_json, to_json};
use crate::redis::{StoreError, keys, random, script};

/// The most bytes that the lines of the log take. Beyond that the oldest are dropped.
pub const LOG_BYTES_MAX: u64 = 256 << 20;
/// The most members that have a pseudonym. Beyond that those are forgotten that were not named for longest.
const MEMBERS_KEPT_MAX: usize = 200_000;
/// How many lines one call looks at, or drops.
const CALL_LINES: usize = 100;
/// What the pseudonym of a member begins with.
const PSEUDONYM_PREFIX: &str = "m-";
/// How many random bytes follow, each as two hexadecimal digits.
const PSEUDONYM_BYTES: usize = 10;

/// The id of a line: when it was written, in milliseconds since the epoch by Redis' clock, and its number in that millisecond.
pub type LineId = EntryId;

/// Reads the id of a line, behind which the next part begins.
///
/// # Errors
/// No line has this id.
pub fn line_id(text: &str) -> Result<LineId, &'static str> {
    // Redis refuses the id 0-0.
    let id = text.parse().ok().filter(|id| *id != LineId::default());
    id.ok_or("is not what `next` of the part before says")
}

/// Which lines are read.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Only those of this caller.
    pub by: Option<String>,
    /// Only those that name this board, or all boards.
    pub board: Option<BoardId>,
    /// Only those that name this member.
    pub member: Option<MemberId>,
}

/// A line of the log.
#[derive(Clone, Debug)]
pub struct Line {
    /// Its id.
    pub id: LineId,
    /// The request.
    pub intent: Intent,
    /// What became of it; `None` if it has not been answered, or if that could not be written down.
    pub outcome: Option<Outcome>,
    /// The members that it names: their pseudonyms, and who they are, as far as that is known.
    pub members: Vec<(String, Option<String>)>,
    /// How many bytes it takes.
    pub bytes: usize,
}

/// What one call has dropped.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Trimmed {
    /// Whether there may be more to drop.
    pub is_more: bool,
    /// How many bytes the lines take that are left.
    pub bytes: u64,
}

/// The pseudonyms of members in the audit log. A member that has none gets one.
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

/// Forgets which pseudonym a member has in the audit log: nobody can tell any more which lines name it.
pub async fn forget_member(store: &Store, member: &MemberId) -> Result<(), StoreError> {
    let forgotten = store
        .call(&script::AUDIT_FORGET, keys::AUDIT_LINES[0])
        .keys(keys::AUDIT_NAMES)
        .arg(member.as_str());
    forgotten.write::<Done>().await.map(drop)
}

/// Writes an intent down. If Redis has no memory left, the line has no body.
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
    let written = write(store, to_json(intent)?, to_json(&brief)?, &rest);
    let id = written.await?;
    id.ok_or_else(|| StoreError::Unexpected("a new line is gone".to_owned()))
}

/// Writes the outcome of a line down, unless the line was dropped. If Redis has no memory left, the outcome does not say
/// what has changed.
pub async fn end_line(store: &Store, id: LineId, outcome: &Outcome) -> Result<(), StoreError> {
    let brief = Outcome {
        before: LEFT_OUT.into(),
        after: LEFT_OUT.into(),
        ..outcome.clone()
    };
    let rest = [id.to_string()];
    let written = write(store, to_json(outcome)?, to_json(&brief)?, &rest);
    written.await.map(drop)
}

/// Writes down what is whole, or, if there is no memory for that, what is brief. `None`: the line is gone.
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
            .write::<Found<LineId>>()
    };
    let written = match write(&script::AUDIT_WRITE, whole).await {
        Err(StoreError::Full(_)) => write(&script::AUDIT_BRIEF, brief).await,
        written => written,
    };
    Ok(written?.into())
}

/// Looks at some lines, the newest first, or those before one. The part has those that are wanted; its `next` is the last line that was
/// looked at, `None` if there is none before it.
pub async fn lines(
    store: &Store,
    wanted: &Wanted,
    before: Option<LineId>,
) -> Result<Part<Line, LineId>, StoreError> {
    let Wanted { by, board, member } = wanted;
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

/// Drops some of the lines that are too old by now, and forgets some of the members that no line names any more.
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

/// A line as audit_read.lua tells it.
#[derive(Deserialize)]
struct StoredLine {
    id: LineId,
    intent: String,
    outcome: Option<String>,
    members: Tail<Flat<(String, Option<String>)>>,
}

impl StoredLine {
    fn read(self) -> Result<Line, StoreError> {
        let Self {
            id,
            intent,
            outcome,
            members: Tail(Flat(members)),
        } = self;
        let what = format!("line {id} of the audit log");
        let bytes = intent.len() + outcome.as_ref().map_or(0, String::len);
        let outcome = outcome.map(|outcome| read_json(&what, &outcome));
        Ok(Line {
            id,
            intent: read_json(&what, &intent)?,
            outcome: outcome.transpose()?,
            members,
            bytes,
        })
    }
}

/// Names with a separator before and behind each; empty without names.
fn separated(names: &[String]) -> String {
    if names.is_empty() {
        return String::new();
    }
    let names = names.join(&SEPARATOR.to_string());
    format!("{SEPARATOR}{names}{SEPARATOR}")
}
