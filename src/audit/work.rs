//! Records what requests change, and reads it.

use std::collections::BTreeSet;

use super::model::{AuditOutcome, Intent, Pseudonyms, boards_of, members_of};
use super::store::{self, LineFilter, LineId, LoggedRequest};
use crate::core::{Engine, Error};
use crate::domain::ids::{BoardId, MemberId};
use crate::domain::part::Part;

/// How many calls one request to read the log makes at most.
const CALLS_MAX: usize = 100;
/// Roughly how many bytes of lines one request reads at most.
const READ_BYTES_MAX: usize = 4 << 20;

/// A request about to be carried out.
#[derive(Clone, Debug, Default)]
pub struct AuditedRequest {
    /// The request as sent; the time, the boards and the members that it names are added later.
    pub intent: Intent,
    /// The player that calls, if any.
    pub player: Option<MemberId>,
    pub board: Option<BoardId>,
    pub member: Option<MemberId>,
}

/// A line whose request is running.
#[derive(Debug)]
pub struct OpenLine {
    id: LineId,
    pseudonyms: Pseudonyms,
}

/// Records that a request is about to be carried out. If this fails, the request must be refused.
pub async fn begin_line(engine: &Engine, request: AuditedRequest) -> Result<OpenLine, Error> {
    let store = &engine.store;
    let mut intent = request.intent;
    let mut members = members_of([&intent.query, &intent.body]);
    let of_path = [&request.member, &request.player].into_iter().flatten();
    for member in of_path {
        if !members.contains(member) {
            members.push(member.clone());
        }
    }
    let named = store::pseudonyms(store, &members).await?;
    let of_members = members.iter().map(ToString::to_string).zip(named.clone());
    let pseudonyms = Pseudonyms {
        of_members: of_members.collect(),
        // An event has one member.
        is_about_person: request.member.is_some() || intent.path.get("event").is_some(),
    };
    if let Some(player) = &request.player {
        intent.by = format!("player:{}", pseudonyms.of_members[player.as_str()]);
    }
    let mut boards: BTreeSet<String> = boards_of(&intent.body).into_iter().collect();
    let board = request.board.map(|board| board.to_string());
    // A member without a board is one of all boards.
    boards.extend(board.or_else(|| request.member.as_ref().map(|_| "*".to_owned())));
    intent = Intent {
        at: Some(engine.clock.now()),
        boards: boards.into_iter().collect(),
        members: named,
        path: pseudonyms.redact(intent.path),
        query: pseudonyms.redact(intent.query),
        body: pseudonyms.redact(intent.body),
        ..intent
    };
    let id = store::begin_line(store, &intent).await?;
    Ok(OpenLine { id, pseudonyms })
}

/// Records the outcome of the request.
pub async fn end_line(engine: &Engine, line: OpenLine, outcome: AuditOutcome) -> Result<(), Error> {
    let OpenLine { id, pseudonyms } = line;
    let outcome = AuditOutcome {
        at: Some(engine.clock.now()),
        before: pseudonyms.redact(outcome.before),
        after: pseudonyms.redact(outcome.after),
        ..outcome
    };
    Ok(store::end_line(&engine.store, id, &outcome).await?)
}

/// Up to `count` lines, newest first, before a given one. There may be fewer even if more follow: one request reads a
/// bounded part of the log.
pub async fn lines(
    engine: &Engine,
    wanted: &LineFilter,
    before: Option<LineId>,
    count: usize,
) -> Result<Part<LoggedRequest, LineId>, Error> {
    let mut found = Part {
        items: Vec::<LoggedRequest>::new(),
        next: before,
    };
    let mut bytes = 0;
    for _ in 0..CALLS_MAX {
        let part = store::lines(&engine.store, wanted, found.next).await?;
        for line in part.items {
            if found.items.len() == count || bytes > READ_BYTES_MAX {
                found.next = found.items.last().map(|line| line.id);
                return Ok(found);
            }
            bytes += line.bytes;
            found.items.push(line);
        }
        found.next = part.next;
        if part.next.is_none() || found.items.len() == count {
            break;
        }
    }
    Ok(found)
}
