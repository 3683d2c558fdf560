//! Writes down what requests change, and reads it.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Error, Service};
use crate::domain::audit::{Intent, Outcome, Pseudonyms, boards_of, members_of};
use crate::domain::ids::{BoardId, MemberId};
use crate::domain::part::Part;
use crate::store::audit::{Line, LineId, Wanted};

/// How many calls read for one request at the most.
const CALLS_MAX: usize = 100;
/// About how many bytes of lines one request reads at the most.
const READ_BYTES_MAX: usize = 4 << 20;

/// A request that is about to be carried out, as it was sent.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Who calls, if that is no player.
    pub by: String,
    /// The player that calls.
    pub player: Option<MemberId>,
    /// The method.
    pub method: String,
    /// The route, with its parameters in braces.
    pub route: String,
    /// The board of the path.
    pub board: Option<BoardId>,
    /// The member of the path.
    pub member: Option<MemberId>,
    /// The other parameters of the path.
    pub path: Value,
    /// The parameters of the query.
    pub query: Value,
    /// The body; null if there is none, or if it is no JSON.
    pub body: Value,
    /// Where it comes from.
    pub address: Option<String>,
    /// Its id.
    pub request_id: String,
}

/// What became of a request.
#[derive(Clone, Debug, Default)]
pub struct Ended {
    /// The status of the answer.
    pub status: u16,
    /// The code of the problem, if it is one.
    pub code: Option<String>,
    /// What was there before.
    pub before: Value,
    /// What is there now.
    pub after: Value,
}

/// A line whose request is being carried out.
#[derive(Debug)]
pub struct OpenLine {
    id: LineId,
    pseudonyms: Pseudonyms,
}

impl Service {
    /// Writes down that a request is about to be carried out. If this fails, it may not be.
    pub async fn begin_audit_line(&self, request: Request) -> Result<OpenLine, Error> {
        let store = &self.engine.store;
        let mut members = members_of([&request.query, &request.body]);
        let of_path = [&request.member, &request.player].into_iter().flatten();
        for member in of_path {
            if !members.contains(member) {
                members.push(member.clone());
            }
        }
        let named = store.audit_pseudonyms(&members).await?;
        let of_members = members.iter().map(ToString::to_string).zip(named.clone());
        let pseudonyms = Pseudonyms {
            of_members: of_members.collect(),
            is_about_person: request.member.is_some(),
        };
        let by = match &request.player {
            Some(player) => format!("player:{}", pseudonyms.of_members[player.as_str()]),
            None => request.by,
        };
        let mut boards: BTreeSet<String> = boards_of(&request.body).into_iter().collect();
        boards.extend(request.board.map(|board| board.to_string()));
        let intent = Intent {
            at: Some(self.engine.clock.now()),
            by,
            method: request.method,
            route: request.route,
            boards: boards.into_iter().collect(),
            members: named,
            path: pseudonyms.redact(request.path),
            query: pseudonyms.redact(request.query),
            body: pseudonyms.redact(request.body),
            address: request.address,
            request_id: request.request_id,
        };
        let id = store.begin_audit_line(&intent).await?;
        Ok(OpenLine { id, pseudonyms })
    }

    /// Writes down what became of the request.
    pub async fn end_audit_line(&self, line: OpenLine, ended: Ended) -> Result<(), Error> {
        let OpenLine { id, pseudonyms } = line;
        let outcome = Outcome {
            at: Some(self.engine.clock.now()),
            status: ended.status,
            code: ended.code,
            before: pseudonyms.redact(ended.before),
            after: pseudonyms.redact(ended.after),
        };
        Ok(self.engine.store.end_audit_line(id, &outcome).await?)
    }

    /// Up to `count` lines, the newest first, from before a line on. There may be fewer, though more follow: one request looks
    /// at a bounded part of the log.
    pub async fn audit_lines(
        &self,
        wanted: &Wanted,
        before: Option<LineId>,
        count: usize,
    ) -> Result<Part<Line, LineId>, Error> {
        let mut found = Part {
            items: Vec::<Line>::new(),
            next: before,
        };
        let mut bytes = 0;
        for _ in 0..CALLS_MAX {
            let part = self.engine.store.audit_lines(wanted, found.next).await?;
            for line in part.lines {
                if found.items.len() == count || bytes > READ_BYTES_MAX {
                    found.next = found.items.last().map(|line| line.id);
                    return Ok(found);
                }
                bytes += line.bytes;
                found.items.push(line);
            }
            found.next = part.last;
            if part.last.is_none() || found.items.len() == count {
                break;
            }
        }
        Ok(found)
    }
}
