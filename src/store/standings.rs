//! Reading standings: each read is one script call, so that ranks, scores and gaps agree with each other.

use serde::Serialize;

use super::connection::Store;
use super::args::{LayoutArgs, pack, ranking_name, shown_score};
use super::reply::{Reply, unknown_code};
use super::script::Script;
use super::{StoreError, Versioned, keys, script};
use crate::domain::board::{Board, Ranking, Series, Standing};
use crate::domain::ids::MemberId;
use crate::domain::score::Score;
use crate::domain::ties::TieKey;
use crate::domain::time::Timestamp;

/// One line of a standing.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Entry {
    /// From 1, as the board's ranking counts.
    pub rank: u64,
    /// Who.
    pub member: String,
    /// How much.
    pub score: Score,
    /// When that score was reached; `None` on boards with `ties: member`.
    pub reached_at: Option<Timestamp>,
}

/// A part of a standing.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Page {
    /// How many members the standing has.
    pub total: u64,
    /// The part.
    pub entries: Vec<Entry>,
    /// The entry of the member that was asked for, if it is listed.
    pub me: Option<Entry>,
}

/// A member of a standing, and who is around it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Neighbourhood {
    /// How many members the standing has.
    pub total: u64,
    /// The member's place from 1, ties broken: its ordinal rank.
    pub place: u64,
    /// The member and its neighbours on both sides, in order.
    pub entries: Vec<Entry>,
    /// Where in `entries` the member is.
    pub index: usize,
    /// Its rank and score in the standing before.
    pub previous: Option<(u64, Score)>,
}

/// Some members of a standing.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Subset {
    /// How many members the standing has.
    pub total: u64,
    /// For each member that was asked for its ordinal place from 1 and its entry, if it is listed.
    pub entries: Vec<Option<(u64, Entry)>>,
}

/// What a standing says, or that it isn't complete.
#[derive(Debug, PartialEq)]
pub enum Read<T> {
    /// The answer.
    Complete(T),
    /// The rolling standing whose newest period begins here, in milliseconds, has to be completed.
    Incomplete(i64),
}

#[derive(Serialize)]
struct PageArgs<'a> {
    #[serde(flatten)]
    target: TargetArgs,
    offset: u64,
    count: u64,
    member: Option<&'a str>,
}

#[derive(Serialize)]
struct MemberArgs<'a> {
    #[serde(flatten)]
    target: TargetArgs,
    member: &'a str,
    around: u64,
    has_previous: bool,
    previous: i64,
}

#[derive(Serialize)]
struct SubsetArgs<'a> {
    #[serde(flatten)]
    target: TargetArgs,
    members: Vec<&'a str>,
}

#[derive(Serialize)]
struct TargetArgs {
    version: String,
    layout: LayoutArgs,
    ranking: &'static str,
    start: i64,
}

impl TargetArgs {
    fn new(board: &Board, standing: &Standing) -> Self {
        Self {
            version: board.version(),
            layout: LayoutArgs::new(board),
            ranking: ranking_name(board),
            start: rolling_start(standing),
        }
    }
}

/// Where the newest period of a rolling standing begins; 0 for one that isn't rolling.
fn rolling_start(standing: &Standing) -> i64 {
    match standing.series {
        Series::Rolling(_) => standing.period.start_ms,
        Series::Period(_) | Series::Base(_) => 0,
    }
}

impl Store {
    /// Reads `count` entries behind the first `offset`, and the entry of `member`.
    pub async fn page(
        &self,
        board: &Board,
        standing: &Standing,
        offset: u64,
        count: u64,
        member: Option<&MemberId>,
    ) -> Result<Versioned<Read<Page>>, StoreError> {
        let args = PageArgs {
            target: TargetArgs::new(board, standing),
            offset,
            count,
            member: member.map(MemberId::as_str),
        };
        self.read_standing(board, standing, None, &script::PAGE, &args, |reply| {
            let total = reply.count()?;
            let first_rank = reply.count()?;
            let entries = entries(board, offset, first_rank, &mut reply.list()?)?;
            let mut me = reply.list()?;
            let me = if me.is_empty() {
                None
            } else {
                let (rank, score) = (me.count()?, me.integer()?);
                Some(entry(board, rank, score, &me.bytes()?)?)
            };
            Ok(Page { total, entries, me })
        })
        .await
    }

    /// Reads a member, up to `around` neighbours on each side, and where it stood in `previous`; `None` where
    /// the member is not listed.
    pub async fn member(
        &self,
        board: &Board,
        standing: &Standing,
        previous: Option<&Standing>,
        member: &MemberId,
        around: u64,
    ) -> Result<Versioned<Read<Option<Neighbourhood>>>, StoreError> {
        let args = MemberArgs {
            target: TargetArgs::new(board, standing),
            member: member.as_str(),
            around,
            has_previous: previous.is_some(),
            previous: previous.map_or(0, rolling_start),
        };
        self.read_standing(board, standing, previous, &script::MEMBER, &args, |reply| {
            let total = reply.count()?;
            if reply.is_empty() {
                return Ok(None);
            }
            let (place, _rank, from, first_rank) = (
                reply.count()?,
                reply.count()?,
                reply.count()?,
                reply.count()?,
            );
            let entries = entries(board, from, first_rank, &mut reply.list()?)?;
            let mut previous = reply.list()?;
            let previous = if previous.is_empty() {
                None
            } else {
                Some((previous.count()?, shown_score(board, previous.integer()?)))
            };
            let index = usize::try_from(place.saturating_sub(from)).unwrap_or(usize::MAX);
            if index >= entries.len() {
                return Err(StoreError::Unexpected(
                    "a member outside its neighbourhood".into(),
                ));
            }
            Ok(Some(Neighbourhood {
                total,
                place: place + 1,
                entries,
                index,
                previous,
            }))
        })
        .await
    }

    /// Reads some members.
    pub async fn subset(
        &self,
        board: &Board,
        standing: &Standing,
        members: &[MemberId],
    ) -> Result<Versioned<Read<Subset>>, StoreError> {
        let args = SubsetArgs {
            target: TargetArgs::new(board, standing),
            members: members.iter().map(MemberId::as_str).collect(),
        };
        self.read_standing(board, standing, None, &script::SUBSET, &args, |reply| {
            let total = reply.count()?;
            let mut found = reply.list()?;
            let mut entries = Vec::with_capacity(members.len());
            while !found.is_empty() {
                let mut one = found.list()?;
                entries.push(if one.is_empty() {
                    None
                } else {
                    let (place, rank, score) = (one.count()?, one.count()?, one.integer()?);
                    Some((place + 1, entry(board, rank, score, &one.bytes()?)?))
                });
            }
            Ok(Subset { total, entries })
        })
        .await
    }

    async fn read_standing<T>(
        &self,
        board: &Board,
        standing: &Standing,
        previous: Option<&Standing>,
        script: &'static Script,
        args: &impl Serialize,
        parse: impl FnOnce(&mut Reply) -> Result<T, StoreError>,
    ) -> Result<Versioned<Read<T>>, StoreError> {
        let mut keys = vec![keys::board(&board.id)];
        keys.extend(keys::standing(board, standing));
        keys.push(keys::series(board, standing.series));
        keys.extend(
            previous
                .into_iter()
                .flat_map(|previous| keys::standing(board, previous)),
        );
        let reply = self.read(script, keys, vec![pack(args)?]).await?;
        let (code, mut reply) = match Reply::versioned(reply)? {
            Versioned::Stale => return Ok(Versioned::Stale),
            Versioned::Current(current) => current,
        };
        match code.as_str() {
            "OK" => Ok(Versioned::Current(Read::Complete(parse(&mut reply)?))),
            "INCOMPLETE" => Ok(Versioned::Current(Read::Incomplete(reply.integer()?))),
            other => unknown_code(other),
        }
    }
}

/// Makes an entry of a sorted-set member and its stored score.
fn entry(board: &Board, rank: u64, stored: i64, member: &[u8]) -> Result<Entry, StoreError> {
    let malformed = || StoreError::Unexpected("a malformed member of a standing".into());
    let (tie_key, id) = if board.layout().prefixed {
        let (tie_key, id) = TieKey::split(member).ok_or_else(malformed)?;
        (Some(tie_key), id)
    } else {
        (None, member)
    };
    Ok(Entry {
        rank,
        member: String::from_utf8(id.to_vec()).map_err(|_| malformed())?,
        score: shown_score(board, stored),
        reached_at: tie_key.and_then(|tie_key| tie_key.instant(board.definition.ties)),
    })
}

/// Makes entries of a flat list of members and scores. The ranks behind the first follow from the scores.
fn entries(
    board: &Board,
    offset: u64,
    first_rank: u64,
    flat: &mut Reply,
) -> Result<Vec<Entry>, StoreError> {
    let mut entries: Vec<Entry> = Vec::new();
    for place in offset + 1.. {
        if flat.is_empty() {
            break;
        }
        let member = flat.bytes()?;
        let stored = flat.integer()?;
        let mut entry = entry(board, first_rank, stored, &member)?;
        if let Some(before) = entries.last() {
            let is_tied = before.score == entry.score;
            entry.rank = match board.definition.ranking {
                Ranking::Competition | Ranking::Dense if is_tied => before.rank,
                Ranking::Ordinal | Ranking::Competition => place,
                Ranking::Dense => before.rank + 1,
            };
        }
        entries.push(entry);
    }
    Ok(entries)
}
