//! What can go wrong, in the words of the domain. `http/problem.rs` is the one place that gives errors a status.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::domain::access::KeyName;
use crate::domain::board::{Board, FieldError};
use crate::domain::event::{FUTURE_MS_MAX, Rejection, Shortage};
use crate::domain::hide::HIDDEN_MAX;
use crate::domain::ids::{BoardId, MemberId};
use crate::domain::message::MessageId;
use crate::domain::name::Name;
use crate::domain::quota::QuotaWindow;
use crate::domain::reward::RuleId;
use crate::domain::score::{Bound, ScoreError};
use crate::domain::time::Timestamp;
use crate::domain::webhook::WebhookName;
use crate::domain::window::Window;
use crate::store::api_keys::API_KEYS_MAX;
use crate::store::boards::Unreadable;
use crate::store::tasks::ORDERS_MAX;
use crate::store::webhooks::WEBHOOKS_MAX;
use crate::store::{StoreError, Versioned};

/// Why a request was not carried out.
#[derive(Clone, Debug, Error)]
pub enum Error {
    /// There is no such board.
    #[error("there is no board {0}")]
    BoardNotFound(BoardId),
    /// There is no such API key.
    #[error("there is no API key {0}")]
    KeyNotFound(KeyName),
    /// There is such an API key already.
    #[error("there is an API key {0} already")]
    KeyExists(KeyName),
    /// There are as many API keys as there may be.
    #[error("there are {API_KEYS_MAX} API keys already; delete one")]
    TooManyKeys,
    /// There is no such webhook.
    #[error("there is no webhook {0}")]
    WebhookNotFound(WebhookName),
    /// There are as many webhooks as there may be.
    #[error("there are {WEBHOOKS_MAX} webhooks already; delete one")]
    TooManyWebhooks,
    /// Nothing is sent to the webhook.
    #[error("the webhook {0} is disabled; PUT it again to enable it")]
    WebhookDisabled(WebhookName),
    /// The webhook has no such delivery.
    #[error("there is no delivery {0}; what is at its end is kept for 30 days")]
    DeliveryNotFound(MessageId),
    /// The caller's key is for other boards than what it is about.
    #[error("the key is for other boards")]
    ForOtherBoards,
    /// The member has no profile.
    #[error("{0} has no profile")]
    ProfileNotFound(MemberId),
    /// The name is not the one that was judged, or the picture is another one.
    #[error("the member is called {:?} by now, or has another picture", .0.as_str())]
    NameChanged(Name),
    /// Who has written a name can't approve it.
    #[error("who has written a name can't approve it; this needs another key")]
    OwnName,
    /// The member is not hidden.
    #[error("{:?} is not hidden on board {board}", member.as_str())]
    NotHidden {
        /// The board.
        board: BoardId,
        /// Who was to be brought back.
        member: MemberId,
    },
    /// As many members of the board are hidden as may be.
    #[error("{HIDDEN_MAX} members of board {0} are hidden already; bring some back")]
    TooManyHidden(BoardId),
    /// Too much of the past was built for who asks, or too many ask for that; try again after this time.
    #[error("so many standings of the past are being built that this one has to wait")]
    TooMuchPast(std::time::Duration),
    /// There are as many standing orders as there may be.
    #[error("there are {ORDERS_MAX} standing orders already; end some")]
    TooManyOrders,
    /// There is no such job.
    #[error("there is no job {0}; a job is kept for seven days after its end")]
    TaskNotFound(String),
    /// The member isn't listed in the standing.
    #[error(
        "{member:?} is not in {}the standing {} of board {board}",
        of_cohort(cohort.as_deref()),
        standing(window, key)
    )]
    MemberNotFound {
        /// The board.
        board: BoardId,
        /// The window.
        window: String,
        /// The period.
        key: String,
        /// In a league the cohort that was asked for.
        cohort: Option<Box<str>>,
        /// Who was asked for.
        member: String,
    },
    /// The period has neither data nor a result.
    #[error("the standing {} of board {board} has no data", standing(window, key))]
    PeriodNotFound {
        /// The board.
        board: BoardId,
        /// The window.
        window: String,
        /// The period.
        key: String,
    },
    /// The window is not made of periods that end one after the other.
    #[error("window {window} of board {board} has no results: only windows of one period have")]
    NoPeriods {
        /// The board.
        board: BoardId,
        /// The window.
        window: String,
    },
    /// The member has not won this, or is hidden.
    #[error(
        "{:?} has not won {rule} in the standing {} of board {board}", member.as_str(),
        standing(window, key)
    )]
    RewardNotFound {
        /// The board.
        board: BoardId,
        /// The window.
        window: String,
        /// The period.
        key: String,
        /// The rule.
        rule: RuleId,
        /// Who was to have won it.
        member: MemberId,
    },
    /// The reward was claimed before, under this name and then.
    #[error("the reward was claimed by {:?} at {}", .0.0, .0.1)]
    AlreadyClaimed((String, Timestamp)),
    /// The same, and the member has not won it any more.
    #[error("the reward was claimed by {:?} at {}, and is not won any more", .0.0, .0.1)]
    RewardRevoked((String, Timestamp)),
    /// Nobody can tell whether the board has this revision.
    #[error("the revision is not one of board {0} as it is now: read again without `min_revision`")]
    RevisionUnknown(BoardId),
    /// The board does not have this revision yet.
    #[error("board {0} does not have the revision yet; try again")]
    RevisionPending(BoardId),
    /// The period is not final.
    #[error("the standing {} of board {board} is not final", standing(window, key))]
    PeriodNotFinal {
        /// The board.
        board: BoardId,
        /// The window.
        window: String,
        /// The period.
        key: String,
    },
    /// The entries of the period are gone; its result stays.
    #[error(
        "the entries of the standing {} of board {board} have expired",
        standing(window, key)
    )]
    PeriodExpired {
        /// The board.
        board: BoardId,
        /// The window.
        window: String,
        /// The period.
        key: String,
    },
    /// The board has no such window.
    #[error("board {board} has no window {window:?}; it has {known}")]
    UnknownWindow {
        /// The board.
        board: BoardId,
        /// What was asked for.
        window: String,
        /// What there is.
        known: String,
    },
    /// The board is no league.
    #[error("board {0} is no league")]
    NoLeague(BoardId),
    /// The last period of a league is being turned over: for so many milliseconds at the least.
    #[error("the last period of the league is being turned over; try again in {} s", .0.div_ceil(1_000).max(1))]
    LeagueTurning(u64),
    /// A league has no standing of a whole period.
    #[error(
        "board {board} is a league: read a cohort (/v1/boards/{board}/standings/{window}?cohort={{cohort}}), the cohort of a member \
         (/v1/boards/{board}/standings/{window}/members/{{member}}), or the list of tiers (/v1/boards/{board}/standings/{window}/tiers). Other requests name it, too: `cohort=`"
    )]
    CohortRequired {
        /// The board.
        board: BoardId,
        /// Its window.
        window: String,
    },
    /// The cohort was never opened, or its period is not kept any more.
    #[error(
        "there is no cohort {cohort:?} in the standing {} of board {board}",
        standing(window, key)
    )]
    CohortNotFound {
        /// The board.
        board: BoardId,
        /// The window.
        window: String,
        /// The period.
        key: String,
        /// What was asked for.
        cohort: String,
    },
    /// The league has no such tier in the period.
    #[error(
        "there is no tier {tier:?} in the standing {} of board {board}; its tiers are {known}",
        standing(window, key)
    )]
    UnknownTier {
        /// The board.
        board: BoardId,
        /// The window.
        window: String,
        /// The period.
        key: String,
        /// What was asked for.
        tier: String,
        /// What there is.
        known: String,
    },
    /// A parameter of the request makes no sense.
    #[error("{name}: {detail}")]
    InvalidParameter {
        /// The parameter.
        name: &'static str,
        /// What is wrong with it.
        detail: String,
    },
    /// The document has errors.
    #[error("the document is not valid")]
    Invalid(Vec<FieldError>),
    /// These fields of the definition can't change now, because the board has events or is moving.
    #[error("these fields of the board can't change now: `errors` names them and says why")]
    BoardInUse(Vec<FieldError>),
    /// These fields of the definition would change what is final.
    #[error("these fields would change periods that are final: `errors` names them and says why")]
    BoardFinal(Vec<FieldError>),
    /// The period has not ended yet.
    #[error("{window} {key} of board {board} has not ended{}", ends_at(*.end))]
    PeriodRunning {
        /// The board.
        board: BoardId,
        /// The window.
        window: Window,
        /// The period.
        key: String,
        /// When it ends, if it does.
        end: Option<Timestamp>,
    },
    /// The board makes no periods final, or not this one.
    #[error("{0}")]
    NotFinalized(String),
    /// The change would take data away in these windows, and was not confirmed.
    #[error("{}", windows_in_use(.0))]
    WindowsInUse(Vec<Window>),
    /// The stored definition can't be read: a newer release may have written it.
    #[error("the stored definition of board {board} can't be read: {detail}")]
    Unreadable {
        /// The board.
        board: BoardId,
        /// What is wrong with it.
        detail: String,
    },
    /// The data of a board has another format than this release works with.
    #[error("{0}")]
    OtherFormat(String),
    /// The definition is not the one that the request is for.
    #[error("the definition of the board is not the one that If-Match or If-None-Match demands")]
    PreconditionFailed,
    /// A score has too many decimals or is too large.
    #[error("score {score} {error}")]
    Score {
        /// The score as it was sent.
        score: String,
        /// What is wrong with it.
        error: ScoreError,
    },
    /// An event is not taken.
    #[error("{detail}")]
    Rejected {
        /// Why.
        rejection: Rejection,
        /// The same for people.
        detail: String,
    },
    /// As many events wait to be applied as may.
    #[error("as many events wait to be applied as may; try again")]
    QueueFull,
    /// The log of queued events does not do what was asked of it.
    #[error("the log of queued events can't be used: {0}")]
    Log(String),
    /// More of the log is to be read than is read for one question.
    #[error("too many events in the log were not taken yet to tell of this one; try again")]
    LogTooLong,
    /// There is no such dead letter.
    #[error(
        "there is no dead letter {0}; it may have been replayed, or the board has moved since it was listed"
    )]
    LetterNotFound(String),
    /// The event of a dead letter can't be queued again.
    #[error("the event can't be queued again: {0}")]
    NotReplayable(String),
    /// The board is moving to other shards.
    #[error("board {0} is moving to other shards, and queues nothing until then; try again")]
    BoardMoving(BoardId),
    /// A quota is used up.
    #[error("{}", .0.detail)]
    QuotaExceeded(Box<UsedUp>),
    /// The time may be wrong by much, so that nothing is done that can't be undone.
    #[error("no period is made final: {0}")]
    ClockDoubted(String),
    /// Others change the same, or have it in hand: it is to be tried again.
    #[error("{0}")]
    Busy(String),
    /// Redis failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn windows_in_use(windows: &[Window]) -> String {
    let names: Vec<String> = windows.iter().map(ToString::to_string).collect();
    let names = names.join(",");
    format!(
        "{names}: has data that would be lost for good; to give it up, send the same with ?drop_windows={names}"
    )
}

fn ends_at(end: Option<Timestamp>) -> String {
    end.map_or_else(String::new, |end| format!(": it ends at {end}"))
}

impl<T> Versioned<T, Error> for Result<T, Error> {
    fn unless_stale(self) -> Result<Option<T>, Error> {
        match self {
            Ok(answer) => Ok(Some(answer)),
            Err(Error::Store(StoreError::Stale)) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl From<Box<Unreadable>> for Error {
    fn from(unreadable: Box<Unreadable>) -> Self {
        if unreadable.is_of_other_format {
            return Self::OtherFormat(unreadable.detail);
        }
        Self::Unreadable {
            board: unreadable.board.id.clone(),
            detail: unreadable.detail,
        }
    }
}

/// A quota that is used up.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct UsedUp {
    /// Its name.
    pub name: String,
    /// How much it allows, in events or points.
    pub max: u64,
    /// How long its window is, in seconds; `None` for all time.
    pub window_s: Option<u64>,
    /// When an event like this would be taken, if nothing else came in; `None` for never, or not told.
    pub frees_at: Option<Timestamp>,
    /// How long that is from now, in seconds, rounded up.
    pub wait_s: Option<u64>,
    /// The same for people.
    pub detail: String,
}

/// A standing, as people call it: of all time there is one only.
fn standing(window: &str, key: &str) -> String {
    if window == key {
        window.to_owned()
    } else {
        format!("{window} {key}")
    }
}

fn of_cohort(cohort: Option<&str>) -> String {
    cohort.map_or_else(String::new, |cohort| format!("the cohort {cohort} of "))
}

impl Error {
    /// Says why a board does not take an event of that instant.
    pub(crate) fn rejected(
        board: &Board,
        rejection: Rejection,
        at: Timestamp,
        now: Timestamp,
    ) -> Self {
        let id = &board.id;
        let detail = match rejection {
            Rejection::InFuture if at.ms() > now.ms().saturating_add(FUTURE_MS_MAX) => {
                format!("at {at} is more than 60 s after now, {now}")
            }
            Rejection::InFuture => {
                format!(
                    "at {at} lies in a period of the league {id} that has not begun; now is {now}"
                )
            }
            Rejection::TooLate => {
                let accept_late =
                    serde_json::to_string(&board.definition.accept_late).unwrap_or_default();
                format!(
                    "at {at} is older than board {id} accepts (accept_late: {accept_late}; for history: \"any\"); now is {now}"
                )
            }
            Rejection::Closed => {
                let (opens, closes) = (board.definition.opens_at, board.definition.closes_at);
                let from = opens.map(|opens| format!(" from {opens}"));
                let until = closes.map(|closes| format!(" until {closes}"));
                format!(
                    "board {id} takes events{}{}, not at {at}",
                    from.unwrap_or_default(),
                    until.unwrap_or_default()
                )
            }
            Rejection::ScoreBounds => {
                let show = |bound: Option<Bound>| {
                    bound.map_or_else(|| "any".to_owned(), |bound| bound.to_string())
                };
                let (min, max) = (board.definition.score_min, board.definition.score_max);
                format!(
                    "board {id} takes scores from {} up to {}",
                    show(min),
                    show(max)
                )
            }
            Rejection::OutOfRange(window) => {
                let max = board.definition.decimals.score_max();
                let max = max.shown(board.definition.decimals);
                format!("the score in {window} would be beyond ±{max}")
            }
            Rejection::Missing(dimension) => {
                let name = dimension.name();
                let detail = format!("is missing, and a quota of board {id} counts by it");
                return Self::Invalid(vec![FieldError::new(format!("/{name}"), detail)]);
            }
            Rejection::Quota(shortage) => return Self::quota_exceeded(board, shortage, at, now),
            Rejection::Erased(erased_at) => format!(
                "the member was erased at {erased_at}; board {id} takes no event of it from then or before"
            ),
            Rejection::PeriodClosed(until) => format!(
                "board {id} has closed its periods up to {until}; it takes no event of {at} any more"
            ),
            Rejection::NotSeated => format!(
                "the member has no seat in the period of {at} of board {id}; to have one in the running period, it joins: POST /v1/boards/{id}/league/members"
            ),
            Rejection::IdReused => "another event with other content had this id".to_owned(),
        };
        Self::Rejected { rejection, detail }
    }

    fn quota_exceeded(board: &Board, shortage: Shortage, at: Timestamp, now: Timestamp) -> Self {
        let Some(quota) = board.definition.quotas.get(shortage.quota) else {
            return StoreError::Unexpected("a quota that is not there".into()).into();
        };
        let frees_at = match quota.window {
            QuotaWindow::Sliding(_) if shortage.frees_at_ms > 0 => {
                Some(Timestamp::from_ms_clamped(shortage.frees_at_ms))
            }
            _ => quota.frees_at(board, at),
        };
        let used = quota.describe(&shortage, board.definition.decimals);
        let frees = frees_at.filter(|_| shortage.amount <= shortage.allowed);
        let frees = frees.map(|frees_at| format!("; it is free at {frees_at}"));
        let (name, max) = (quota.name.clone(), quota.max);
        Self::QuotaExceeded(Box::new(UsedUp {
            detail: format!(
                "quota {name} of board {} {used}{}",
                board.id,
                frees.unwrap_or_default()
            ),
            name,
            max,
            window_s: quota.window_s(board, at),
            frees_at,
            wait_s: frees_at.map(|frees_at| frees_at.seconds_after(now)),
        }))
    }

    /// Whether it is a fault of what was asked about, such as a key of another type, and not a matter of the server or
    /// of the request.
    pub(crate) fn is_fault(&self) -> bool {
        matches!(
            self,
            Self::Unreadable { .. }
                | Self::OtherFormat(_)
                | Self::ClockDoubted(_)
                | Self::Log(_)
                | Self::Store(StoreError::Unexpected(_))
        )
    }

    /// The call was begun anew too often.
    pub(crate) fn busy() -> Self {
        Self::Busy("what is to be changed changes too quickly".to_owned())
    }

    /// Whether nothing is wrong, and others are about to do the same, or something that comes first.
    pub(crate) fn is_turn_of_others(&self) -> bool {
        matches!(self, Self::Busy(_) | Self::LeagueTurning(_))
    }
}
