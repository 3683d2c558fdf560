//! The audit log: its lines in a stream, their outcomes in a hash, and the pseudonyms of the members that they name. All of
//! it lies in one slot.

use std::fmt;
use std::str::FromStr;

use fred::types::Value;

use super::dispatch::Store;
use super::kinds::SEPARATOR;
use super::reply::{Reply, unknown_code};
use super::script::Script;
use super::stored::to_json;
use super::{StoreError, keys, random, script};
use crate::domain::audit::{Intent, LEFT_OUT, Outcome};
use crate::domain::ids::{BoardId, MemberId};
use crate::domain::time::Timestamp;

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
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct LineId(u64, u64);

impl fmt::Display for LineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.0, self.1)
    }
}

impl FromStr for LineId {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let numbers = text.split_once('-');
        let numbers = numbers.and_then(|(ms, number)| ms.parse().ok().zip(number.parse().ok()));
        // No line has the id 0-0: Redis refuses it.
        let numbers = numbers.filter(|numbers| *numbers != (0, 0));
        numbers
            .map(|(ms, number)| Self(ms, number))
            .ok_or("is not what `next` of the part before says")
    }
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

/// What one call has read.
#[derive(Debug)]
pub struct Part {
    /// The lines that are wanted, the newest first.
    pub lines: Vec<Line>,
    /// The last line that was looked at; `None`: there is none before it.
    pub last: Option<LineId>,
}

/// What one call has dropped.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Trimmed {
    /// Whether there may be more to drop.
    pub is_more: bool,
    /// How many bytes the lines take that are left.
    pub bytes: u64,
}

impl Store {
    /// The pseudonyms of members in the audit log. A member that has none gets one.
    pub async fn audit_pseudonyms(&self, members: &[MemberId]) -> Result<Vec<String>, StoreError> {
        if members.is_empty() {
            return Ok(Vec::new());
        }
        let mut args = vec![Value::from(MEMBERS_KEPT_MAX.to_string())];
        for member in members {
            args.extend([
                member.as_str().into(),
                random::hexadecimal::<PSEUDONYM_BYTES>(PSEUDONYM_PREFIX)?.into(),
            ]);
        }
        let reply = self.audit(&script::AUDIT_MEMBERS, &keys::AUDIT_NAMES, args);
        let mut reply = Reply::new(reply.await?)?;
        members.iter().map(|_| reply.text()).collect()
    }

    /// Forgets which pseudonym a member has in the audit log: nobody can tell any more which lines name it.
    pub async fn forget_in_audit(&self, member: &MemberId) -> Result<(), StoreError> {
        let args = vec![member.as_str().into()];
        let reply = self.audit(&script::AUDIT_FORGET, &keys::AUDIT_NAMES, args);
        match Reply::new(reply.await?)?.text()?.as_str() {
            "OK" => Ok(()),
            other => unknown_code(other),
        }
    }

    /// Writes an intent down. If Redis has no memory left, the line has no body.
    pub async fn begin_audit_line(&self, intent: &Intent) -> Result<LineId, StoreError> {
        let brief = Intent {
            body: LEFT_OUT.into(),
            ..intent.clone()
        };
        let rest = [
            intent.by.clone(),
            separated(&intent.boards),
            separated(&intent.members),
        ];
        let written = self.write_audit(to_json(intent)?, to_json(&brief)?, &rest);
        let id = written.await?.map(|id| id.parse()).transpose();
        let id = id.map_err(|fault: &str| StoreError::Unexpected(fault.to_owned()))?;
        id.ok_or_else(|| StoreError::Unexpected("a new line is gone".to_owned()))
    }

    /// Writes the outcome of a line down, unless the line was dropped. If Redis has no memory left, the outcome does not say
    /// what has changed.
    pub async fn end_audit_line(&self, id: LineId, outcome: &Outcome) -> Result<(), StoreError> {
        let brief = Outcome {
            before: LEFT_OUT.into(),
            after: LEFT_OUT.into(),
            ..outcome.clone()
        };
        let rest = [id.to_string()];
        let written = self.write_audit(to_json(outcome)?, to_json(&brief)?, &rest);
        written.await.map(drop)
    }

    /// Writes down what is whole, or, if there is no memory for that, what is brief. `None`: the line is gone.
    async fn write_audit(
        &self,
        whole: String,
        brief: String,
        rest: &[String],
    ) -> Result<Option<String>, StoreError> {
        let write = async |script, json: String| {
            let first = [LOG_BYTES_MAX.to_string(), json];
            let args = first.into_iter().chain(rest.iter().cloned());
            let args = args.map(Value::from).collect();
            self.audit(script, &keys::AUDIT_LINES, args).await
        };
        let reply = match write(&script::AUDIT_WRITE, whole).await {
            Err(StoreError::Full(_)) => write(&script::AUDIT_BRIEF, brief).await,
            reply => reply,
        };
        let mut reply = Reply::new(reply?)?;
        match reply.text()?.as_str() {
            "OK" => Ok(Some(reply.text()?)),
            "GONE" => Ok(None),
            other => unknown_code(other),
        }
    }

    /// Looks at some lines, the newest first, or those before one.
    pub async fn audit_lines(
        &self,
        wanted: &Wanted,
        before: Option<LineId>,
    ) -> Result<Part, StoreError> {
        let Wanted { by, board, member } = wanted;
        let args = [
            before.map_or_else(|| "+".to_owned(), |id| format!("({id}")),
            CALL_LINES.to_string(),
            by.clone().unwrap_or_default(),
            board.as_ref().map(ToString::to_string).unwrap_or_default(),
            member.as_ref().map(ToString::to_string).unwrap_or_default(),
        ];
        let [log, outcomes, _] = keys::AUDIT_LINES;
        let [pseudonyms, members, _] = keys::AUDIT_NAMES;
        let keys = [log, outcomes, pseudonyms, members].map(str::to_owned);
        let args = args.map(Value::from).to_vec();
        let reply = self.read(&script::AUDIT_READ, keys.to_vec(), args);
        let mut reply = Reply::new(reply.await?)?;
        let last = reply.text()?;
        let mut lines = Vec::new();
        while !reply.is_empty() {
            lines.push(read_line(reply.list()?)?);
        }
        let last = (!last.is_empty()).then(|| read_id(&last)).transpose()?;
        Ok(Part { lines, last })
    }

    /// Drops some of the lines that are too old by now, and forgets some of the members that no line names any more.
    pub async fn trim_audit(&self, now: Timestamp) -> Result<Trimmed, StoreError> {
        let retention = self.audit_retention;
        let before = retention.map_or(0, |retention| now.saturating_sub(retention).ms().max(0));
        let args = [before.to_string(), CALL_LINES.to_string()];
        let all = [keys::AUDIT_LINES, keys::AUDIT_NAMES].concat();
        let args = args.map(Value::from).to_vec();
        let mut reply = Reply::new(self.audit(&script::AUDIT_TRIM, &all, args).await?)?;
        let (dropped, forgotten) = (reply.count()?, reply.count()?);
        let is_more = dropped.max(forgotten) >= CALL_LINES as u64;
        let bytes = reply.integer()?.try_into().unwrap_or(0);
        Ok(Trimmed { is_more, bytes })
    }

    /// Runs a script on the audit log.
    async fn audit(
        &self,
        script: &'static Script,
        keys: &[&str],
        args: Vec<Value>,
    ) -> Result<Value, StoreError> {
        let keys = keys.iter().copied().map(str::to_owned).collect();
        self.write_at(keys::AUDIT_LINES[0], script, keys, args)
            .await
    }
}

fn read_line(mut reply: Reply) -> Result<Line, StoreError> {
    let id = read_id(&reply.text()?)?;
    let (intent, outcome) = (reply.text()?, reply.text()?);
    let fault = |error: serde_json::Error| {
        StoreError::Unexpected(format!("line {id} of the audit log: {error}"))
    };
    let bytes = intent.len() + outcome.len();
    let intent = serde_json::from_str(&intent).map_err(fault)?;
    let outcome = (!outcome.is_empty()).then(|| serde_json::from_str(&outcome));
    let outcome = outcome.transpose().map_err(fault)?;
    let mut members = Vec::new();
    while !reply.is_empty() {
        let (pseudonym, member) = (reply.text()?, reply.text()?);
        members.push((pseudonym, Some(member).filter(|member| !member.is_empty())));
    }
    Ok(Line {
        id,
        intent,
        outcome,
        members,
        bytes,
    })
}

fn read_id(text: &str) -> Result<LineId, StoreError> {
    let fault = |_| StoreError::Unexpected(format!("{text:?} as the id of a line"));
    text.parse().map_err(fault)
}

/// Names with a separator before and behind each; empty without names.
fn separated(names: &[String]) -> String {
    let mut text = String::new();
    for name in names {
        if text.is_empty() {
            text.push(SEPARATOR);
        }
        text.push_str(name);
        text.push(SEPARATOR);
    }
    text
}
