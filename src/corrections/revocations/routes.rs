//! Revoking all events that match something.

use std::collections::{BTreeSet, HashMap};

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::revocation::{Criteria, EVENTS_MAX, Failure, Named, Report};
use super::work::{self, Found, State as Reached, WantedRevocation};
use crate::audit;
use crate::core::{Engine, Error};
use crate::corrections::routes::{ExpiredStanding, ReasonBody, require_reason};
use crate::domain::board::{Board, Update};
use crate::domain::ids::{BoardId, EventId, Label, MemberId, RevocationNumber};
use crate::domain::quota::Network;
use crate::domain::score::{Score, ShownScore};
use crate::domain::time::Timestamp;
use crate::http::audited::Audit;
use crate::http::extract::{Json, JsonResponse, JsonResult, PartParams, Query, Shared, State};
use crate::http::problem::{INTERNAL, Problem, ProblemBody};

/// Which events are revoked: those that match all fields. At least one of `voter`, `device`, `ip`, `key`, `channel`, `member`
/// and `events` is needed.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = RevocationRequest)]
pub struct RevocationBody {
    /// The voter.
    #[schema(example = "v-77")]
    voter: Option<String>,
    /// The device.
    device: Option<String>,
    /// The address that was sent with the events as `ip`, or from which players sent them. Of IPv6 addresses the network
    /// (/64) counts, as in quotas.
    ip: Option<String>,
    /// The API key that they were sent with, as the list of kept events shows it.
    key: Option<String>,
    /// The channel.
    channel: Option<String>,
    /// The member.
    member: Option<String>,
    /// The ids of events: up to 10,000. Ids that the board does not keep match nothing. Events that players sent need `voter`
    /// as well: the player.
    #[schema(max_items = 10_000)]
    events: Option<Vec<String>>,
    /// Only events with this `at` or a later one.
    since: Option<Timestamp>,
    /// Only events with an earlier `at`.
    until: Option<Timestamp>,
    /// Why: 1 to 500 characters. The audit log and the revocation keep it.
    #[schema(min_length = 1, max_length = 500, example = "bought votes")]
    reason: String,
    /// `true`: only count which events would be revoked.
    #[serde(default)]
    dry_run: bool,
}

/// A revocation.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct Revocation {
    /// Its number. It covers events that were accepted, or queued, before it began.
    pub number: u64,
    /// Its state.
    #[schema(inline)]
    pub status: RevocationStatus,
    /// Whether it only counts.
    pub dry_run: bool,
    /// Which events it covers.
    pub criteria: RevocationCriteria,
    /// Why it was ordered.
    pub reason: String,
    /// When it was ordered.
    pub ordered_at: Timestamp,
    /// What came of it; null while it is running, and if it was restored before its end.
    pub report: Option<RevocationReport>,
    /// What came of restoring it; null if it was not restored.
    pub restored: Option<RevocationReport>,
}

/// The state of a revocation.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum RevocationStatus {
    /// It is being carried out.
    Running,
    /// It is in force; a dry run has ended.
    Done,
    /// It is being restored.
    Restoring,
    /// It was restored.
    Restored,
    /// The board keeps none of its events any more: restoring it has no effect.
    Over,
}

/// Which events a revocation covers: those that match all of these. Missing fields match all events.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct RevocationCriteria {
    /// The voter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub voter: Option<String>,
    /// The device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub device: Option<String>,
    /// The keyed hash of the address. The address itself is not stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub ip_hash: Option<String>,
    /// The API key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub key: Option<String>,
    /// The channel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub channel: Option<String>,
    /// The member; missing also if it was erased since, or forgotten because no request has named it for long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub member: Option<String>,
    /// How many events it names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = usize, required = false)]
    pub events: Option<usize>,
    /// Events with this `at` or a later one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Timestamp, required = false)]
    pub since: Option<Timestamp>,
    /// Events with an earlier `at`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Timestamp, required = false)]
    pub until: Option<Timestamp>,
}

/// What came of a revocation, or of restoring it.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct RevocationReport {
    /// When it ended.
    pub finished_at: Timestamp,
    /// How many kept events it covers, also those that are out for another reason.
    pub events: u64,
    /// How many members these are of.
    pub members: u64,
    /// Of a dry run: the members that would lose most, up to 10. On boards with `update: sum` by the sum of their scores,
    /// otherwise by how many events.
    pub losses: Vec<MemberLoss>,
    /// The members with events that could not be changed, up to 1,000. To try these again, restore the revocation, or
    /// revoke again.
    pub failed: Vec<FailedRevocation>,
    /// How many members these are in all.
    pub failed_count: u64,
    /// The standings that had expired, up to 1,000. They stay as they were.
    pub expired: Vec<ExpiredStanding>,
}

/// What a member would lose.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct MemberLoss {
    /// The member; null if it was erased, or forgotten.
    pub member: Option<String>,
    /// How many of its events would count no more.
    pub events: u64,
    /// The sum of their scores, without weights; null unless the board adds scores up.
    pub score: Option<ShownScore>,
}

/// A member with events that could not be changed.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct FailedRevocation {
    /// The member; null if it was erased, or forgotten.
    pub member: Option<String>,
    /// Why.
    pub problem: ProblemBody,
}

/// A part of the list of revocations.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct RevocationList {
    /// The revocations.
    pub revocations: Vec<Revocation>,
    /// The `after` of the next part; null in the last part.
    pub next: Option<String>,
}

/// What the audit log has of a revocation.
#[derive(Serialize)]
struct Audited<'a> {
    revocation: u64,
    criteria: &'a RevocationCriteria,
    dry_run: bool,
    events: Option<u64>,
}

impl RevocationBody {
    fn wanted(self) -> Result<WantedRevocation, Problem> {
        fn read<T, E: std::fmt::Display>(
            place: &str,
            text: Option<&String>,
            parse: impl FnOnce(&str) -> Result<T, E>,
        ) -> Result<Option<T>, Problem> {
            let read = text.map(|text| parse(text)).transpose();
            read.map_err(|error| Problem::invalid_field(place, error))
        }
        require_reason(&self.reason)?;
        let events = self.events.as_ref().map(|events| {
            if events.is_empty() || events.len() > EVENTS_MAX {
                let detail = format!("must name 1 to {EVENTS_MAX} events");
                return Err(Problem::invalid_field("/events", detail));
            }
            let read = events.iter().enumerate().map(|(place, id)| {
                let sent = EventId::parse(id);
                sent.map_err(|error| Problem::invalid_field(format!("/events/{place}"), error))
            });
            let distinct = read.collect::<Result<BTreeSet<_>, _>>();
            distinct.map(Vec::from_iter)
        });
        let wanted = WantedRevocation {
            voter: read("/voter", self.voter.as_ref(), Label::parse)?,
            device: read("/device", self.device.as_ref(), Label::parse)?,
            ip: read("/ip", self.ip.as_ref(), Network::parse)?,
            key: read("/key", self.key.as_ref(), Label::parse)?,
            channel: read("/channel", self.channel.as_ref(), Label::parse)?,
            named: Named {
                member: read("/member", self.member.as_ref(), MemberId::parse)?,
                events: events.transpose()?,
            },
            since: self.since,
            until: self.until,
            reason: self.reason,
            dry_run: self.dry_run,
        };
        if wanted.is_of_all() {
            let detail =
                "needs one of `voter`, `device`, `ip`, `key`, `channel`, `member` and `events`";
            return Err(Problem::invalid_field("", detail));
        }
        Ok(wanted)
    }
}

impl From<Reached> for RevocationStatus {
    fn from(state: Reached) -> Self {
        match state {
            Reached::Running => Self::Running,
            Reached::Done => Self::Done,
            Reached::Restoring => Self::Restoring,
            Reached::Restored => Self::Restored,
            Reached::Over => Self::Over,
        }
    }
}

impl Failure {
    fn problem(self, board: &Board) -> Problem {
        let max = board.definition.decimals.score_max();
        let max = max.shown(board.definition.decimals);
        match self {
            Self::Beyond => Problem::correction_beyond("the member", &max),
            Self::Fault => Problem::new(INTERNAL, "the service's log has the cause".to_owned()),
        }
    }
}

/// The members that pseudonyms stand for.
type Members = HashMap<String, Option<String>>;

impl Revocation {
    /// Revocations of a board as they are shown.
    pub(crate) async fn of(
        engine: &Engine,
        board: &Board,
        found: Vec<Found>,
    ) -> Result<Vec<Self>, Error> {
        let mut pseudonyms: Vec<String> = Vec::new();
        for Found { revocation, .. } in &found {
            pseudonyms.extend(revocation.member.clone());
            for report in [&revocation.report, &revocation.restored]
                .into_iter()
                .flatten()
            {
                pseudonyms.extend(report.losses.iter().map(|loss| loss.member.clone()));
                pseudonyms.extend(report.failed.iter().map(|failed| failed.member.clone()));
            }
        }
        let mut members = Members::new();
        for part in pseudonyms.chunks(1_000) {
            let named = audit::store::members_with(&engine.store, part).await?;
            members.extend(part.iter().cloned().zip(named));
        }
        Ok(found
            .into_iter()
            .map(|one| Self::new(board, one, &members))
            .collect())
    }

    async fn one(engine: &Engine, board: &Board, found: Found) -> Result<Self, Error> {
        let number = found.revocation.number.to_string();
        let shown = Self::of(engine, board, vec![found]).await?.pop();
        Ok(shown.ok_or_else(|| Problem::revocation_not_found(&board.id, &number))?)
    }

    fn new(board: &Board, found: Found, members: &Members) -> Self {
        let Found { revocation, state } = found;
        let report = |report| RevocationReport::new(board, report, members);
        let member = revocation.member.as_ref();
        let member = member.and_then(|pseudonym| members.get(pseudonym).cloned().flatten());
        Self {
            number: revocation.number,
            status: state.into(),
            dry_run: revocation.dry_run,
            criteria: RevocationCriteria::new(revocation.criteria, member),
            reason: revocation.reason,
            ordered_at: revocation.ordered_at,
            report: revocation.report.map(report),
            restored: revocation.restored.map(report),
        }
    }

    fn audited(&self) -> Audited<'_> {
        Audited {
            revocation: self.number,
            criteria: &self.criteria,
            dry_run: self.dry_run,
            events: self.report.as_ref().map(|report| report.events),
        }
    }

    /// The answer to a request that began or continued its work.
    fn answer(self, board: &BoardId) -> Response {
        let location = format!("/v1/boards/{board}/revocations/{}", self.number);
        let location = [(header::LOCATION, location)];
        if !matches!(
            self.status,
            RevocationStatus::Running | RevocationStatus::Restoring
        ) {
            return (location, JsonResponse(self)).into_response();
        }
        (StatusCode::ACCEPTED, location, JsonResponse(self)).into_response()
    }
}

impl RevocationCriteria {
    fn new(criteria: Criteria, member: Option<String>) -> Self {
        let text = |label: Option<Label>| label.map(|label| label.to_string());
        Self {
            voter: text(criteria.voter),
            device: text(criteria.device),
            ip_hash: criteria.ip,
            key: text(criteria.key),
            channel: text(criteria.channel),
            member,
            events: criteria.events,
            since: criteria.since,
            until: criteria.until,
        }
    }
}

impl RevocationReport {
    fn new(board: &Board, report: Report, members: &Members) -> Self {
        let name = |pseudonym: &String| members.get(pseudonym).cloned().flatten();
        let decimals = board.definition.decimals;
        let is_sum = board.definition.update == Update::Sum;
        Self {
            finished_at: report.finished_at,
            events: report.events,
            members: report.members,
            losses: report
                .losses
                .iter()
                .map(|loss| MemberLoss {
                    member: name(&loss.member),
                    events: loss.events,
                    score: is_sum.then(|| Score::from_stored(loss.score).shown(decimals)),
                })
                .collect(),
            failed: report
                .failed
                .iter()
                .map(|failed| FailedRevocation {
                    member: name(&failed.member),
                    problem: failed.failure.problem(board).body(None),
                })
                .collect(),
            failed_count: report.failed_count,
            expired: report
                .expired
                .into_iter()
                .map(|(window, key)| ExpiredStanding { window, key })
                .collect(),
        }
    }
}

/// Revoke all events that match something.
///
/// All kept events of a voter, a device, an address, an API key, a channel or a member, or some that are named, count no
/// more, as if each had been retracted. Events that are sent later count. What waits in a queue when the request arrives is
/// applied first, and covered. Members change one by one; meanwhile the results of closed periods are `revising`, and
/// their rewards can't be claimed. The answer has the status 202 if the work goes on after it: `GET` the revocation to see
/// when it is done. With `dry_run` nothing changes, and the report says what would.
#[utoipa::path(
    post, path = "/v1/boards/{board}/revocations", operation_id = "revoke_events",
    request_body(content = RevocationBody, example = json!({"voter": "v-77", "reason": "bought votes"})),
    responses(
        (status = 200, description = "The revocation is done", body = Revocation),
        (status = 202, description = "The revocation is running", body = Revocation, headers(("Location", description = "The address of the revocation")), example = json!({"number": 1, "status": "running", "dry_run": false, "criteria": {"voter": "v-77"}, "reason": "bought votes", "ordered_at": "2026-11-21T12:00:00.412Z", "report": null, "restored": null})),
        (status = 404, description = "`board-not-found`"),
        (status = 409, description = "`history-off`, `revocation-running`, `too-many-revocations`, `board-moving`"),
        (status = 503, description = "`log-unavailable`, with `Retry-After`"),
    )
)]
pub async fn revoke(
    State(app): Shared,
    board: BoardId,
    audit: Audit,
    Json(body, _): Json<RevocationBody>,
) -> Result<Response, Problem> {
    let wanted = body.wanted()?;
    let (live, found) = work::revoke(&app.engine, &board, &wanted).await?;
    let shown = Revocation::one(&app.engine, &live.board, found).await?;
    audit.after(&shown.audited());
    Ok(shown.answer(&board))
}

/// Restore a revocation.
///
/// The events that it covers count again, but for those that were retracted, that another revocation covers, or that are
/// no longer kept. If members had failed, a further request tries them again.
#[utoipa::path(
    post, path = "/v1/boards/{board}/revocations/{revocation}/restore", operation_id = "restore_revocation",
    params(("revocation" = u64, Path, description = "The number of the revocation", example = 1)),
    request_body(content = ReasonBody, example = json!({"reason": "the wrong voter"})),
    responses(
        (status = 200, description = "The revocation is restored", body = Revocation),
        (status = 202, description = "The revocation is being restored", body = Revocation, example = json!({"number": 1, "status": "restoring", "dry_run": false, "criteria": {"voter": "v-77"}, "reason": "bought votes", "ordered_at": "2026-11-21T12:00:00.412Z", "report": {"finished_at": "2026-11-21T12:00:00.431Z", "events": 0, "members": 0, "losses": [], "failed": [], "failed_count": 0, "expired": []}, "restored": null})),
        (status = 404, description = "`board-not-found`, `revocation-not-found`"),
        (status = 409, description = "`history-off`, `revocation-running`, `board-moving`"),
    )
)]
pub async fn restore(
    State(app): Shared,
    board: BoardId,
    RevocationNumber(number): RevocationNumber,
    audit: Audit,
    Json(body, _): Json<ReasonBody>,
) -> Result<Response, Problem> {
    require_reason(&body.reason)?;
    let (live, found) = work::restore(&app.engine, &board, number).await?;
    let shown = Revocation::one(&app.engine, &live.board, found).await?;
    audit.after(&shown.audited());
    Ok(shown.answer(&board))
}

/// Read a revocation.
#[utoipa::path(
    get, path = "/v1/boards/{board}/revocations/{revocation}", operation_id = "get_revocation",
    params(("revocation" = u64, Path, description = "The number of the revocation", example = 1)),
    responses(
        (status = 200, description = "The revocation", body = Revocation),
        (status = 404, description = "`board-not-found`, `revocation-not-found`"),
    )
)]
pub async fn get(
    State(app): Shared,
    board: BoardId,
    RevocationNumber(number): RevocationNumber,
) -> JsonResult<Revocation> {
    let (live, found) = work::find(&app.engine, &board, number).await?;
    Ok(JsonResponse(
        Revocation::one(&app.engine, &live.board, found).await?,
    ))
}

/// List the revocations of a board.
///
/// The last one first: all that are in force, and the last 100 others.
#[utoipa::path(
    get, path = "/v1/boards/{board}/revocations", operation_id = "list_revocations",
    params(PartParams),
    responses(
        (status = 200, description = "The revocations", body = RevocationList),
        (status = 404, description = "`board-not-found`"),
    )
)]
pub async fn list(
    State(app): Shared,
    board: BoardId,
    Query(params): Query<PartParams>,
) -> JsonResult<RevocationList> {
    let number = |text: &str| RevocationNumber::parse(text);
    let (after, limit) = params.part(number)?;
    let after = after.map(|RevocationNumber(number)| number);
    let (live, part) = work::list(&app.engine, &board, after, limit).await?;
    let next = part.next.map(|next| next.to_string());
    Ok(JsonResponse(RevocationList {
        revocations: Revocation::of(&app.engine, &live.board, part.items).await?,
        next,
    }))
}
