//! Errors as clients see them: `application/problem+json` (RFC 9457), and the page behind each type.

use std::fmt::Write as _;

use axum::extract::Path;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa::openapi::schema::{Object, ObjectBuilder, Type};

use super::ratelimit;
use crate::domain::board::FieldError;
use crate::domain::event::Rejection;
use crate::domain::time::Timestamp;
use crate::engine::error::UsedUp;
use crate::service::Error;
use crate::store::StoreError;
use crate::throttle;

/// What clients are told to wait after a 503, in seconds.
const RETRY_AFTER_S: u32 = 1;

/// One kind of problem; its name is the end of `type`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Kind {
    /// The name, as in `/problems/{name}`.
    pub name: &'static str,
    /// The same for people.
    pub title: &'static str,
    /// The status that goes with it.
    pub status: StatusCode,
    /// What its page says.
    pub page: &'static Page,
}

/// What the page of a problem says.
#[derive(Debug, Eq, PartialEq)]
pub struct Page {
    /// What the problem means.
    pub explanation: &'static str,
    /// What to do about it.
    pub remedy: &'static str,
    /// A `detail` of such a problem.
    pub example: &'static str,
}

macro_rules! kinds {
    ($($ident:ident = $status:ident, $name:literal, $title:literal, $explanation:literal, $remedy:literal, $example:literal;)*) => {
        $(
            #[doc = $explanation]
            pub const $ident: Kind = Kind {
                name: $name,
                title: $title,
                status: StatusCode::$status,
                page: &Page {
                    explanation: $explanation,
                    remedy: $remedy,
                    example: $example,
                },
            };
        )*
        /// All of them.
        pub const KINDS: &[Kind] = &[$($ident),*];
    };
}

kinds! {
    MALFORMED_JSON = BAD_REQUEST, "malformed-json", "The body is not JSON",
        "The body is not JSON, or not UTF-8. The service did nothing.",
        "Send a body that a JSON parser accepts. `detail` says where it ends to be JSON.",
        "expected `,` or `}` at line 1 column 15";
    INVALID_PARAMETER = BAD_REQUEST, "invalid-parameter", "A parameter is invalid",
        "The service does not understand a part of the path, the query or a header. The service did nothing.",
        "Correct what `detail` names.",
        "size: must be from 1 to 1000, not 5000";
    MALFORMED_REQUEST = BAD_REQUEST, "malformed-request", "The request is not HTTP",
        "The head of the request is not HTTP, or has a header twice that decides who may do what. The service did nothing.",
        "Use an HTTP client. If you do, look for a proxy that changes requests, or for a client that speaks TLS to a service without TLS.",
        "the head of the request is not HTTP";
    UNAUTHENTICATED = UNAUTHORIZED, "unauthenticated", "A valid API key is needed",
        "The request has no valid API key, and no valid token of a player. The service did nothing.",
        "Send a valid key: `Authorization: Bearer KEY`. `detail` says what is wrong with the one that was sent.",
        "an API key is needed: `Authorization: Bearer KEY`";
    FORBIDDEN = FORBIDDEN, "forbidden", "The API key does not allow this",
        "The API key is valid, but does not allow this: `detail` names the scope that the key lacks, says that the key is for other boards, or says what else it may not do. The answer is the same whether the board exists or not. The service did nothing.",
        "Use a key with this scope and for this board. Whoever has the scope `admin` creates one with `PUT /v1/keys/{name}`.",
        "the scope `write` is needed";
    FOREIGN_ORIGIN = FORBIDDEN, "foreign-origin", "The host or the origin is foreign",
        "The service has no API keys, and so it is for its own machine only. The request names a host that is not this machine, or it is a write from a page of another origin. The service did nothing.",
        "Call the service as `localhost` or `127.0.0.1`, or configure API keys (`STANDINGS_API_KEYS`) and origins (`STANDINGS_CORS_ORIGINS`).",
        "the origin https://example.com may not write here";
    FORM_REFUSED = FORBIDDEN, "form-refused", "The form does not come from this page",
        "A form of the console was sent from a page of another origin, without the token of the browser, or over plain HTTP to a host that is not this machine. Or the browser has refused or lost a cookie, or somebody has signed in or out in another tab. The service did nothing.",
        "Load the page again and send the form from there. If that does not help: open the console over HTTPS, or as `localhost`; have a proxy pass on the header `Host` as it was sent; allow cookies.",
        "the form comes from https://evil.example, and the console is at https://scores.example";
    BOARD_NOT_FOUND = NOT_FOUND, "board-not-found", "The board does not exist",
        "There is no board with this id.",
        "Check the id. `PUT /v1/boards/{board}` creates a board.",
        "there is no board run_hero";
    PROFILE_NOT_FOUND = NOT_FOUND, "profile-not-found", "The member has no profile",
        "The member has no profile.",
        "Check the id. `PUT /v1/members/{member}/profile` gives a member a profile.",
        "999 has no profile";
    KEY_NOT_FOUND = NOT_FOUND, "key-not-found", "The API key does not exist",
        "There is no API key with this name.",
        "Check the name. `GET /v1/keys` lists the API keys, and `PUT /v1/keys/{name}` creates one.",
        "there is no API key site";
    WEBHOOK_NOT_FOUND = NOT_FOUND, "webhook-not-found", "The webhook does not exist",
        "There is no webhook with this name.",
        "Check the name. `GET /v1/webhooks` lists the webhooks, and `PUT /v1/webhooks/{name}` creates one.",
        "there is no webhook site";
    DELIVERY_NOT_FOUND = NOT_FOUND, "delivery-not-found", "The delivery does not exist",
        "The webhook has no delivery with this id, or it ended more than 30 days ago.",
        "Check the id. `GET /v1/webhooks/{name}/deliveries` lists the deliveries.",
        "there is no delivery msg_5f0c2a9be41d7763c8aa5f0c2a9be41d; what is at its end is kept for 30 days";
    WEBHOOK_DISABLED = CONFLICT, "webhook-disabled", "The webhook is disabled",
        "The receiver has answered 410, which says that it wants no more messages. The service sends it none, and did nothing.",
        "Put the webhook again, with the same address or another one: `PUT /v1/webhooks/{name}` enables it.",
        "the webhook site is disabled; PUT it again to enable it";
    TOO_MANY_WEBHOOKS = CONFLICT, "too-many-webhooks", "There are too many webhooks",
        "There are as many webhooks as there may be. The service did nothing.",
        "Delete webhooks that nobody needs: `DELETE /v1/webhooks/{name}`. One webhook can be for many boards.",
        "there are 100 webhooks already; delete one";
    NOT_HIDDEN = NOT_FOUND, "not-hidden", "The member is not hidden",
        "The member is not hidden on this board, so that there is nothing to take back.",
        "Nothing is to be done. `GET /v1/boards/{board}/hidden` lists who is hidden.",
        "\"ann\" is not hidden on board run_hero";
    JOB_NOT_FOUND = NOT_FOUND, "job-not-found", "The job does not exist",
        "There is no job with this id, or it ended more than seven days ago.",
        "Check the id: the answer that began the job has it, and the header `Location` has the address.",
        "there is no job 7";
    TOO_MANY_HIDDEN = CONFLICT, "too-many-hidden", "There are too many hidden members",
        "As many members of the board are hidden as may be. The service did nothing.",
        "Bring members back that need not be hidden any more: `DELETE /v1/boards/{board}/hidden/{member}`.",
        "100000 members of board run_hero are hidden already";
    TOO_MANY_ORDERS = CONFLICT, "too-many-orders", "There are too many standing orders",
        "As many members are hidden on all boards as may be. The service did nothing.",
        "Bring members back that need not be hidden any more: `POST /v1/moderation` with `unhide`. `GET /v1/moderation` lists them.",
        "there are 10000 standing orders already";
    KEY_EXISTS = CONFLICT, "key-exists", "The API key exists already",
        "There is an API key with this name already, and the service shows its secret to nobody again. The service did nothing.",
        "Choose another name, or give the key a new secret: `POST /v1/keys/{name}/rotate`.",
        "there is an API key site already";
    TOO_MANY_KEYS = CONFLICT, "too-many-keys", "There are too many API keys",
        "There are as many API keys as there may be. The service did nothing.",
        "Delete keys that nobody uses: `GET /v1/keys` tells when each was last used.",
        "there are as many API keys as there may be";
    RATE_LIMITED = TOO_MANY_REQUESTS, "rate-limited", "The client is too fast",
        "The API key has sent more requests than its rate allows; or more standings of the past are to be built for reads than may be for one API key, player or address, or in all. The service did nothing.",
        "Wait for as many seconds as the header `Retry-After` says, and send the request again.",
        "the API key may send 50 requests a second";
    TOO_MANY_STREAMS = TOO_MANY_REQUESTS, "too-many-streams", "There are too many streams",
        "The API key, the player, or the address of the client has as many streams as it may have. The service did nothing.",
        "End streams that nobody looks at. Or wait for as many seconds as the header `Retry-After` says, and send the request again; meanwhile read the page.",
        "there are 100 streams to this address";
    MEMBER_NOT_FOUND = NOT_FOUND, "member-not-found", "The member is not in the standing",
        "The standing does not list this member, because the member had no event in the period.",
        "Show the member without a rank. It appears with its next event.",
        "member 999 is not in this standing";
    PERIOD_NOT_FOUND = NOT_FOUND, "period-not-found", "The period has no data",
        "The period has neither data nor a result, or the window has no results: those of the last N periods have none.",
        "Check the key. `GET /v1/boards/{board}/standings/{window}/periods` lists the periods that have data.",
        "the standing day 2026-11-20 of board run_hero has no data";
    REWARD_NOT_FOUND = NOT_FOUND, "reward-not-found", "The member has not won this",
        "The member has not won this in the period, or not any more, or is hidden.",
        "Grant nothing. `GET /v1/boards/{board}/standings/{window}/periods/{key}/rewards` lists what members have won.",
        "\"999\" has not won crown in the standing week 2026-11-16 of board run_hero";
    ALREADY_CLAIMED = CONFLICT, "already-claimed", "The reward was claimed before",
        "The reward was claimed before under another name: `claimed_by` and `claimed_at` say by whom and when. The service did nothing.",
        "Grant nothing: whoever has claimed the reward grants it.",
        "the reward was claimed by \"grant-87\" at 2026-11-23T00:10:02.000Z";
    REWARD_REVOKED = CONFLICT, "reward-revoked", "The reward was revoked",
        "The reward was claimed, and the member has not won it any more, because somebody was hidden or brought back. The service did nothing.",
        "Grant nothing. If the reward was granted, decide whether to take it back.",
        "the reward was claimed by \"grant-88\" at 2026-11-23T00:10:02.000Z, and is not won any more";
    PERIOD_NOT_FINAL = CONFLICT, "period-not-final", "The period is not final",
        "The period is running, or its events may still count. Without `finalize` in its definition a board has no final periods.",
        "Wait until `state` is `final`, or end the wait with `POST /v1/boards/{board}/standings/{window}/periods/{key}/close`.",
        "the standing day 2026-11-21 of board run_hero is not final";
    REVISION_UNKNOWN = CONFLICT, "revision-unknown", "The revision is not known",
        "The read names a `min_revision`, and nobody can tell whether the board has it: Redis was started again or another server has taken over since, the board has moved to other shards, or it is another board. The service did nothing.",
        "Read again without `min_revision`, and go on with the `revision` of that answer.",
        "the revision is not one of board run_hero as it is now: read again without `min_revision`";
    REVISION_PENDING = SERVICE_UNAVAILABLE, "revision-pending", "The revision is not there yet",
        "The read names a `min_revision`, and the board did not have it within 5 s.",
        "Send the request again after as many seconds as the header `Retry-After` says.",
        "board run_hero does not have the revision yet; try again";
    PERIOD_EXPIRED = GONE, "period-expired", "The entries of the period are gone",
        "The `retention` of the period has passed, so its entries are gone. Its result stays.",
        "Read the result: `GET /v1/boards/{board}/standings/{window}/periods/{key}`. To keep entries for longer, set `retention`.",
        "the entries of the standing day 2026-11-21 of board run_hero have expired";
    NOT_FOUND = NOT_FOUND, "not-found", "There is nothing at this address",
        "There is nothing at this address.",
        "Check the address. `/docs` shows all operations.",
        "there is nothing at this address";
    METHOD_NOT_ALLOWED = METHOD_NOT_ALLOWED, "method-not-allowed", "The address does not take this method",
        "The address exists, but does not take this method.",
        "Use a method that the header `Allow` names.",
        "the address does not take this method";
    REQUEST_TIMEOUT = REQUEST_TIMEOUT, "request-timeout", "The body did not arrive in time",
        "The body did not arrive in time. The service did nothing.",
        "Send the request again.",
        "the body did not arrive in time";
    BOARD_IN_USE = CONFLICT, "board-in-use", "The board is in use",
        "The change would alter data that the board has stored already, or the board is moving to another number of shards. The service did nothing.",
        "Leave the fields as they are that `errors` names, or define a new board. If the board is moving, wait until the move is over.",
        "the board has events, so that some fields can't change";
    WINDOWS_IN_USE = CONFLICT, "windows-in-use", "The windows are in use",
        "The change would delete windows whose standings the service can't build again. The service did nothing.",
        "Keep the windows in the definition. To delete them for good, name them: `?drop_windows=week,month`.",
        "week, month would be deleted with all that they hold";
    BOARD_FINAL = CONFLICT, "board-final", "The change would alter what is final",
        "The change would remove a window that has final periods, or move the end of the board where periods are final already. The service did nothing.",
        "Leave the fields as they are that `errors` names, or define a new board.",
        "/closes_at: has ended the board";
    PERIOD_RUNNING = CONFLICT, "period-running", "The period has not ended",
        "The period has not ended yet, so that it can't become final. The service did nothing.",
        "Wait until the period ends. To end the board now, set its `closes_at`.",
        "week 2026-11-16 of board run_hero has not ended: it ends at 2026-11-23T00:00:00.000Z";
    NOT_FINALIZED = CONFLICT, "not-finalized", "The period does not become final",
        "The board has no `finalize`, or the period had ended when `finalize` was set. So the period has no result. The service did nothing.",
        "Set `finalize` in the board's definition. It holds for periods that end after that.",
        "board run_hero has no `finalize`";
    BOARD_CLOSED = CONFLICT, "board-closed", "The board does not take events of this time",
        "The event's `at` is before the board's `opens_at`, or not before its `closes_at`. The service did not take the event.",
        "Do not send the event again: the answer stays the same. `GET /v1/boards/{board}/summary` tells when the board is open.",
        "the board run_hero takes events from 2026-11-01T00:00:00.000Z to 2026-12-01T00:00:00.000Z";
    PERIOD_CLOSED = CONFLICT, "period-closed", "The period of the event is closed",
        "The event's `at` lies in a period that is closed: the period has ended, the board's wait after that, `finalize`, is over, and the period has its final result. The service did not take the event.",
        "Do not send the event again: the answer stays the same. An event without `at` counts for the time at which it comes in.",
        "board run_hero has closed its periods up to 2026-11-21T00:00:00.000Z; it takes no event of 2026-11-20T23:59:00.000Z any more";
    MEMBER_ERASED = CONFLICT, "member-erased", "The member was erased after this event",
        "The member was erased, and the event's `at` does not lie after that. The service did not take the event.",
        "Do not send the event again: the answer stays the same. Later events of the member count, and begin from nothing.",
        "the member was erased at 2026-11-21T12:00:00.000Z; board run_hero takes no event of it from then or before";
    PRECONDITION_FAILED = PRECONDITION_FAILED, "precondition-failed", "The definition is another one",
        "The board's definition is not the one that `If-Match` or `If-None-Match` demands. The service did nothing.",
        "Read the definition again, repeat your change on it, and send it with its new `ETag`.",
        "the definition is not the one that the request demands";
    NAME_CHANGED = PRECONDITION_FAILED, "name-changed", "The name is another one",
        "The member's name is not the one that the request judges, or its picture is not. The service did nothing.",
        "Read the profile again, and judge what it has by now.",
        "the member is called \"Ann B.\" by now, or has another picture";
    PAYLOAD_TOO_LARGE = PAYLOAD_TOO_LARGE, "payload-too-large", "The body is too large",
        "The body has more than 1 MiB. The service did nothing.",
        "Send less in one request.",
        "the body has more than 1048576 bytes";
    URI_TOO_LONG = URI_TOO_LONG, "uri-too-long", "The address is too long",
        "The address has more than 65,534 bytes. The service did nothing.",
        "Ask for less in one request.",
        "the address has more than 65534 bytes";
    HEAD_TOO_LARGE = REQUEST_HEADER_FIELDS_TOO_LARGE, "head-too-large", "The head of the request is too large",
        "The head of the request has more than 128 KiB or more than 100 headers. The service did nothing.",
        "Send fewer or shorter headers; cookies are of no use here.",
        "the head of the request has more than 128 KiB";
    UNSUPPORTED_MEDIA_TYPE = UNSUPPORTED_MEDIA_TYPE, "unsupported-media-type", "The body has the wrong type",
        "The body is not sent as JSON, or has a content encoding. The service did nothing.",
        "Send the header `Content-Type: application/json`, and no `Content-Encoding`.",
        "the body must be application/json";
    VALIDATION_FAILED = UNPROCESSABLE_ENTITY, "validation-failed", "The body does not have the expected form",
        "The body is JSON, but does not have the expected form. The service did nothing.",
        "Correct what `errors` names: `pointer` says where in the body it is, and `detail` says what is wrong there.",
        "/windows/0: `daily` is no window";
    SCORE_OUT_OF_RANGE = UNPROCESSABLE_ENTITY, "score-out-of-range", "The score is out of range",
        "The score has more decimals than the board keeps, or is not within the board's `score_min` and `score_max`. Or the score, or a sum with it, is beyond what every JSON client holds exactly: ±(2^53 − 1) for whole numbers, 15 digits where the board has decimals. The service did not take the event.",
        "Do not send the event again. Check the score, and the board's `decimals`, `score_min` and `score_max`.",
        "score 12.345 has more digits behind the point (3) than are kept (0)";
    EVENT_IN_FUTURE = UNPROCESSABLE_ENTITY, "event-in-future", "The event is in the future",
        "The event's `at` is more than 60 seconds ahead of the service's clock, or, in a league, in a period that has not begun. The service did not take the event.",
        "Set the clock of the machine that sends the event, or leave out `at`.",
        "the event is more than 60 s ahead of the service's clock";
    EVENT_TOO_LATE = UNPROCESSABLE_ENTITY, "event-too-late", "The event is too old",
        "The event's `at` is older than the board's `accept_late` allows. The service did not take the event.",
        "Do not send the event again. To import older events, set the board's `accept_late` to `any`.",
        "the event is older than 48h";
    QUOTA_EXCEEDED = TOO_MANY_REQUESTS, "quota-exceeded", "A quota is used up",
        "A quota of the board has too little left for the event. `quota` names it, and `detail` says how much is used, and of how much. `frees_at` says when more will be left, if no other event comes in; it is missing if the quota never frees. The service did not take the event, and the event used up nothing.",
        "Wait until `frees_at`. If it is missing, do not send the event again.",
        "quota voter-minute of board best_song is used up: 2 of 2 events in 1m; it is free at 2026-11-21T12:01:00.000Z";
    EVENT_ID_REUSED = UNPROCESSABLE_ENTITY, "event-id-reused", "The event id belongs to another event",
        "The service took another event with this id before. The service did not take this one.",
        "Give each event an id of its own. Send an event again exactly as it was.",
        "the event id run-88231 was used for another event";
    UNKNOWN_WINDOW = NOT_FOUND, "unknown-window", "The board does not have this window",
        "The board does not have this window; `detail` names the windows that it has. The status is 404 where the path names the window, and 422 where a body or a parameter does.",
        "Read another window, or add this one to the board's definition.",
        "the board run_hero has no window month; it has day, week, all, last-7-days";
    NO_LEAGUE = NOT_FOUND, "no-league", "The board is no league",
        "The request is about a cohort, a tier or a seat, and the board has no `league` in its definition. The service did nothing.",
        "Read the board's standings without a cohort. A board becomes a league by the field `league` of its definition, when it is created.",
        "board run_hero is no league";
    LEAGUE_TURNING = CONFLICT, "league-turning", "The league is being turned over",
        "The last period of the league has ended, and it is not decided yet in which tier the member goes on: events of that period may still count, or the service has not come to it. The service did nothing.",
        "Send the request again after as many seconds as the header `Retry-After` says.",
        "the last period of the league is being turned over; try again in 1 s";
    NOT_SEATED = CONFLICT, "not-seated", "The member has no seat in the period",
        "The board is a league, and the member has no seat in the period of the event: the period is over, or the member has left. The service did not take the event.",
        "Do not send the event again. To play in the running period the member joins: `POST /v1/boards/{board}/league/members`.",
        "the member has no seat in the period of 2026-11-15T09:00:00.000Z of board run_league; to have one in the running period, it joins: POST /v1/boards/run_league/league/members";
    COHORT_REQUIRED = BAD_REQUEST, "cohort-required", "A league is read cohort by cohort",
        "The board is a league: its members compete in cohorts, and no list ranks all of them. The service did nothing.",
        "Read a cohort, or the cohort of a member: `detail` names the routes. `GET /v1/boards/{board}/standings/{window}/tiers` tells how many cohorts there are.",
        "board run_league is a league: read a cohort (/v1/boards/run_league/standings/week?cohort={cohort}), the cohort of a member (/v1/boards/run_league/standings/week/members/{member}), or the list of tiers (/v1/boards/run_league/standings/week/tiers)";
    COHORT_NOT_FOUND = NOT_FOUND, "cohort-not-found", "There is no such cohort",
        "No such cohort was opened in the period, or the period is no longer kept. A cohort is called by its tier, as the period's settings name it, and its number: `silver-17`.",
        "Check the name and the period. `GET /v1/boards/{board}/standings/{window}/tiers/{tier}/cohorts` lists the cohorts of a tier.",
        "there is no cohort \"silver-17\" in the standing week 2026-11-16 of board run_league";
    UNKNOWN_TIER = NOT_FOUND, "unknown-tier", "The league does not have this tier",
        "The league does not have this tier in the period; `detail` names the tiers that it has.",
        "Read another tier, or add this one to the board's definition: it is there from the next period on.",
        "there is no tier \"steel\" in the standing week 2026-11-16 of board run_league; its tiers are bronze, silver, gold";
    INTERNAL = INTERNAL_SERVER_ERROR, "internal", "The service has a fault",
        "The service or the stored data has a fault.",
        "Tell the operator the `request_id`: the service's log has the cause under it. The event may have been taken: send it again with the same id, and it counts once.",
        "a fault of the service; its log tells more";
    DATA_OF_ANOTHER_VERSION = SERVICE_UNAVAILABLE, "data-of-another-version", "The board's data is of another version",
        "The board's data in Redis has another format than this release of the service works with. The service neither reads nor changes it. Other boards are served.",
        "The operator has the board served by the release that wrote it, or deletes its data.",
        "board run_hero has the data format 1, and this release works with 2: use the release that wrote it, or another Redis database";
    STORE_UNAVAILABLE = SERVICE_UNAVAILABLE, "store-unavailable", "The store does not answer",
        "Redis did not answer in time. The service may have taken the event.",
        "Send the request again after as many seconds as the header `Retry-After` says. With the same id an event counts once.",
        "the store did not answer in time; try again";
    STORE_FULL = SERVICE_UNAVAILABLE, "store-full", "The store is full",
        "Redis refuses to write, because its memory is full or it can't write to its disk; `detail` says which. Reads go on.",
        "Send the event again with the same id when there is room, and it counts once. If the memory is full, the operator can delete boards or give Redis more memory.",
        "Redis has no memory left";
    DEAD_LETTER_NOT_FOUND = NOT_FOUND, "dead-letter-not-found", "The dead letter does not exist",
        "The board has no dead letter with this id: it was replayed or deleted, it is older than seven days, or the board has moved to another number of shards since, which gives its dead letters other ids.",
        "List the dead letters again: `GET /v1/boards/{board}/dead-letters`. `GET /v1/boards/{board}/events` tells what became of an event.",
        "there is no dead letter 1795305600123-0_0_1_28080000123456; it may have been replayed, or the board has moved since it was listed";
    NOT_REPLAYABLE = CONFLICT, "not-replayable", "The event can't be queued again",
        "The event of the dead letter would be a dead letter again: it was queued more than 24 hours ago, or lies in another shard than its member. `detail` says which. The service did nothing.",
        "Decide whether the event is to count. If so, send it as a new event with its `id` and its `at`, as the list of dead letters has them, where `accept_late` allows that. Then delete the dead letter.",
        "the event can't be queued again: it has waited since 2026-11-20T12:00:00.000Z, for longer than 1d";
    BOARD_MOVING = CONFLICT, "board-moving", "The board is moving",
        "The board is moving to another number of shards, and queues no events until then. The service did nothing.",
        "Wait until the move is over (`GET /v1/boards/{board}/shards`), list the dead letters again, since they have other ids then, and send the request again.",
        "board run_hero is moving to other shards, and queues nothing until then; try again";
    QUEUE_FULL = SERVICE_UNAVAILABLE, "queue-full", "The queue is full",
        "As many events wait to be applied as may: those of a shard of the board, or of all boards together, take as much memory as they may. The service did not take the event.",
        "Send the event again after as many seconds as the header `Retry-After` says, with the same id. If this goes on, events come faster than they can be applied.",
        "as many events wait to be applied as may; try again";
    LOG_UNAVAILABLE = SERVICE_UNAVAILABLE, "log-unavailable", "The log of queued events does not answer",
        "The service queues events in a log, Kafka, and that did not confirm in time. It may have the event.",
        "Send the event again after as many seconds as the header `Retry-After` says, with the same id, and it counts once.",
        "the log of queued events can't be used: the broker did not confirm in time";
    LOG_TOO_LONG = SERVICE_UNAVAILABLE, "log-too-long", "The event may wait in the log",
        "Nothing is known of the event yet, and more events wait in the log of queued events than the service searches for one question.",
        "Ask again later: once the service has taken the events of the log, it can tell.",
        "too many events in the log were not taken yet to tell of this one; try again";
    OVERLOADED = SERVICE_UNAVAILABLE, "overloaded", "The service is overloaded",
        "The service has as many connections as it may have, or requests take as much memory as they may. The service did nothing.",
        "Send the request again after as many seconds as the header `Retry-After` says.",
        "there are too many connections; try again";
}

/// An error on its way to a client. As a response it has no body yet: the layer that knows the request's
/// id writes it.
#[derive(Clone, Debug)]
pub struct Problem {
    /// What kind.
    pub kind: Kind,
    /// What exactly.
    pub detail: String,
    /// Where in the body.
    pub errors: Vec<FieldError>,
    /// What only problems of this kind tell.
    pub own: Option<Own>,
    /// What the log says of it, where that is not for clients.
    pub cause: Option<Box<Cause>>,
}

/// What only problems of one kind tell.
#[derive(Clone, Debug)]
pub enum Own {
    /// The quota that is used up.
    UsedUp(Box<UsedUp>),
    /// Who has claimed the reward, and when.
    Claimed(Box<(String, Timestamp)>),
    /// After how many seconds to try again.
    RetryAfter(u64),
}

/// What went wrong in the service.
#[derive(Clone, Debug)]
pub struct Cause(String);

/// The body of every response with a status from 400 on (RFC 9457).
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
#[schema(as = Problem)]
pub struct ProblemBody {
    /// What kind of problem: the address of a page that explains it.
    #[serde(rename = "type")]
    #[schema(example = "/problems/score-out-of-range")]
    pub kind: String,
    /// The same for programs: it stays as it is in later releases.
    #[schema(schema_with = codes)]
    pub code: String,
    /// The same for people.
    #[schema(example = "Score out of range")]
    pub title: String,
    /// The HTTP status.
    #[schema(example = 422, minimum = 400, maximum = 599)]
    pub status: u16,
    /// What exactly is wrong.
    #[schema(example = "score 12.345 has more digits behind the point (3) than are kept (0)")]
    pub detail: String,
    /// Where in the body it is wrong, if it is there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldError>,
    /// The name of the quota that is used up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false, example = "voter-minute")]
    pub quota: Option<String>,
    /// When more of that quota will be left; missing if that is never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false, format = DateTime)]
    pub frees_at: Option<Timestamp>,
    /// Under which name the reward was claimed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false, example = "grant-87")]
    pub claimed_by: Option<String>,
    /// When it was claimed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false, format = DateTime)]
    pub claimed_at: Option<Timestamp>,
    /// The request's id, as in the header `X-Request-Id`; missing in the problem of one item of a batch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub request_id: Option<String>,
}

/// All codes.
fn codes() -> Object {
    let codes = KINDS.iter().map(|kind| kind.name);
    ObjectBuilder::new()
        .schema_type(Type::String)
        .description(Some(
            "The same for programs: it stays as it is in later releases.",
        ))
        .enum_values(Some(codes))
        .build()
}

impl Problem {
    /// A problem without a place in the body.
    pub fn new(kind: Kind, detail: impl Into<String>) -> Self {
        Self {
            kind,
            detail: detail.into(),
            errors: Vec::new(),
            own: None,
            cause: None,
        }
    }

    /// The same with what only this kind tells.
    fn with(self, own: Own) -> Self {
        Self {
            own: Some(own),
            ..self
        }
    }

    /// What is wrong in the body.
    pub fn invalid(errors: Vec<FieldError>) -> Self {
        let detail = match errors.as_slice() {
            [error] if error.pointer.is_empty() => error.detail.clone(),
            [error] => format!("{}: {}", error.pointer, error.detail),
            errors => format!("{} things are wrong; see errors", errors.len()),
        };
        Self {
            errors,
            ..Self::new(VALIDATION_FAILED, detail)
        }
    }

    /// A fault of the service, and what the log says of it.
    pub fn internal(cause: impl Into<String>) -> Self {
        Self::new(INTERNAL, "a fault of the service; its log tells more").because(cause)
    }

    fn because(self, cause: impl Into<String>) -> Self {
        Self {
            cause: Some(Box::new(Cause(cause.into()))),
            ..self
        }
    }

    /// The same where a body or a parameter names the window, not the path.
    #[must_use]
    pub fn beyond_path(mut self) -> Self {
        if self.kind == UNKNOWN_WINDOW {
            self.kind.status = StatusCode::UNPROCESSABLE_ENTITY;
        }
        self
    }

    /// What the log says of it.
    pub fn cause(&self) -> &str {
        self.cause.as_ref().map_or(&self.detail, |cause| &cause.0)
    }

    /// The body for one item of a request that is answered as a whole. A fault of the service is logged here, since the
    /// answer doesn't show it.
    pub fn item(&self) -> ProblemBody {
        if self.kind.status.is_server_error() {
            let (status, cause) = (self.kind.status.as_u16(), self.cause());
            throttle::say(&format!("item: {cause}"), |more| {
                tracing::error!(status, cause, more, "an item of a request failed");
            });
        }
        self.body(None)
    }

    /// The body.
    pub fn body(&self, request_id: Option<&str>) -> ProblemBody {
        let (quota, claim) = match &self.own {
            Some(Own::UsedUp(quota)) => (Some(quota), None),
            Some(Own::Claimed(claim)) => (None, Some(&**claim)),
            Some(Own::RetryAfter(_)) | None => (None, None),
        };
        ProblemBody {
            kind: format!("/problems/{}", self.kind.name),
            code: self.kind.name.to_owned(),
            title: self.kind.title.to_owned(),
            status: self.kind.status.as_u16(),
            detail: self.detail.clone(),
            errors: self.errors.clone(),
            quota: quota.map(|quota| quota.name.clone()),
            frees_at: quota.and_then(|quota| quota.frees_at),
            claimed_by: claim.map(|(by, _)| by.clone()),
            claimed_at: claim.map(|(_, at)| *at),
            request_id: request_id.map(ToOwned::to_owned),
        }
    }

    /// A problem for a response of another layer that has none.
    pub fn of_status(status: StatusCode) -> Self {
        let kind = match status {
            StatusCode::REQUEST_TIMEOUT => REQUEST_TIMEOUT,
            StatusCode::METHOD_NOT_ALLOWED => METHOD_NOT_ALLOWED,
            StatusCode::PAYLOAD_TOO_LARGE => PAYLOAD_TOO_LARGE,
            StatusCode::URI_TOO_LONG => URI_TOO_LONG,
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => HEAD_TOO_LARGE,
            StatusCode::UNSUPPORTED_MEDIA_TYPE => UNSUPPORTED_MEDIA_TYPE,
            StatusCode::SERVICE_UNAVAILABLE => STORE_UNAVAILABLE,
            StatusCode::NOT_FOUND => NOT_FOUND,
            status if status.is_server_error() => INTERNAL,
            _ => INVALID_PARAMETER,
        };
        Self::new(kind, kind.page.explanation)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = self.kind.status.into_response();
        let headers = response.headers_mut();
        if self.kind.status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(RETRY_AFTER_S));
        }
        match &self.own {
            Some(Own::RetryAfter(seconds)) => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from(*seconds));
            }
            Some(Own::UsedUp(quota)) => ratelimit::of_used_up(quota, headers),
            Some(Own::Claimed(_)) | None => {}
        }
        if self.kind == MALFORMED_REQUEST {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        if self.kind == UNAUTHENTICATED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response.extensions_mut().insert(self);
        response
    }
}

/// What is told where the store has not answered.
const NO_ANSWER: &str = "the store did not answer in time; try again";

/// The one place that gives the domain's errors a status.
impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let (detail, wait_s) = (error.to_string(), wait_s(&error));
        let kind = match error {
            Error::Invalid(errors) => return Self::invalid(errors),
            Error::BoardInUse(errors) => {
                return Self {
                    errors,
                    ..Self::new(BOARD_IN_USE, detail)
                };
            }
            Error::BoardFinal(errors) => {
                return Self {
                    errors,
                    ..Self::new(BOARD_FINAL, detail)
                };
            }
            Error::ClockDoubted(_) => {
                return Self::new(STORE_UNAVAILABLE, "the time is not certain; try again")
                    .because(detail);
            }
            Error::Score { .. } => {
                let errors = vec![FieldError::new("/score", &detail)];
                return Self {
                    errors,
                    ..Self::new(SCORE_OUT_OF_RANGE, detail)
                };
            }
            Error::QuotaExceeded(quota) => {
                return Self::new(QUOTA_EXCEEDED, detail).with(Own::UsedUp(quota));
            }
            Error::AlreadyClaimed(claim) => {
                return Self::new(ALREADY_CLAIMED, detail).with(Own::Claimed(Box::new(claim)));
            }
            Error::RewardRevoked(claim) => {
                return Self::new(REWARD_REVOKED, detail).with(Own::Claimed(Box::new(claim)));
            }
            Error::Busy(_) | Error::Store(StoreError::Unavailable(_) | StoreError::Stale) => {
                return Self::new(STORE_UNAVAILABLE, NO_ANSWER).because(detail);
            }
            Error::Unreadable { .. } => INTERNAL,
            Error::OtherFormat(_) => DATA_OF_ANOTHER_VERSION,
            Error::WindowsInUse(_) => WINDOWS_IN_USE,
            Error::PeriodRunning { .. } => PERIOD_RUNNING,
            Error::NotFinalized(_) => NOT_FINALIZED,
            Error::Store(StoreError::Full(_)) => STORE_FULL,
            Error::Store(StoreError::Unusable(_)) => STORE_UNAVAILABLE,
            Error::Store(_) => return Self::internal(detail),
            Error::BoardNotFound(_) => BOARD_NOT_FOUND,
            Error::ProfileNotFound(_) => PROFILE_NOT_FOUND,
            Error::NameChanged(_) => NAME_CHANGED,
            Error::OwnName | Error::ForOtherBoards => FORBIDDEN,
            Error::KeyNotFound(_) => KEY_NOT_FOUND,
            Error::KeyExists(_) => KEY_EXISTS,
            Error::TooManyKeys => TOO_MANY_KEYS,
            Error::WebhookNotFound(_) => WEBHOOK_NOT_FOUND,
            Error::TooManyWebhooks => TOO_MANY_WEBHOOKS,
            Error::WebhookDisabled(_) => WEBHOOK_DISABLED,
            Error::DeliveryNotFound(_) => DELIVERY_NOT_FOUND,
            Error::NotHidden { .. } => NOT_HIDDEN,
            Error::TooManyHidden(_) => TOO_MANY_HIDDEN,
            Error::TooMuchPast(_) => RATE_LIMITED,
            Error::LeagueTurning(_) => LEAGUE_TURNING,
            Error::TooManyOrders => TOO_MANY_ORDERS,
            Error::TaskNotFound(_) => JOB_NOT_FOUND,
            Error::MemberNotFound { .. } => MEMBER_NOT_FOUND,
            Error::PeriodNotFound { .. } | Error::NoPeriods { .. } => PERIOD_NOT_FOUND,
            Error::RewardNotFound { .. } => REWARD_NOT_FOUND,
            Error::PeriodNotFinal { .. } => PERIOD_NOT_FINAL,
            Error::RevisionUnknown(_) => REVISION_UNKNOWN,
            Error::RevisionPending(_) => REVISION_PENDING,
            Error::PeriodExpired { .. } => PERIOD_EXPIRED,
            Error::UnknownWindow { .. } => UNKNOWN_WINDOW,
            Error::NoLeague(_) => NO_LEAGUE,
            Error::CohortRequired { .. } => COHORT_REQUIRED,
            Error::CohortNotFound { .. } => COHORT_NOT_FOUND,
            Error::UnknownTier { .. } => UNKNOWN_TIER,
            Error::InvalidParameter { .. } => INVALID_PARAMETER,
            Error::PreconditionFailed => PRECONDITION_FAILED,
            Error::LetterNotFound(_) => DEAD_LETTER_NOT_FOUND,
            Error::NotReplayable(_) => NOT_REPLAYABLE,
            Error::BoardMoving(_) => BOARD_MOVING,
            Error::QueueFull => QUEUE_FULL,
            Error::Log(_) => LOG_UNAVAILABLE,
            Error::LogTooLong => LOG_TOO_LONG,
            Error::Rejected { rejection, .. } => match rejection {
                Rejection::InFuture => EVENT_IN_FUTURE,
                Rejection::TooLate => EVENT_TOO_LATE,
                Rejection::Closed => BOARD_CLOSED,
                Rejection::ScoreBounds | Rejection::OutOfRange(_) => SCORE_OUT_OF_RANGE,
                Rejection::IdReused => EVENT_ID_REUSED,
                Rejection::PeriodClosed(_) => PERIOD_CLOSED,
                Rejection::Erased(_) => MEMBER_ERASED,
                Rejection::NotSeated => NOT_SEATED,
                Rejection::Missing(_) => VALIDATION_FAILED,
                Rejection::Quota(_) => QUOTA_EXCEEDED,
            },
        };
        Self {
            own: wait_s.map(Own::RetryAfter),
            ..Self::new(kind, detail)
        }
    }
}

/// How long a client is to wait, in seconds, where an error tells.
fn wait_s(error: &Error) -> Option<u64> {
    match error {
        Error::LeagueTurning(wait_ms) => Some(wait_ms.div_ceil(1_000).max(1)),
        Error::TooMuchPast(wait) => Some(wait.as_secs() + 1),
        _ => None,
    }
}

/// The page that lists all problems.
pub async fn list() -> Response {
    let mut text = String::from(
        "The problems that the service answers with. Each has a page of its own: /problems/{code}.\n",
    );
    for kind in KINDS {
        let Kind { name, title, .. } = kind;
        let _ = write!(text, "\n{:3} {name}: {title}", kind.status.as_u16());
    }
    plain(text + "\n")
}

/// The page behind a problem's `type`.
pub async fn explain(Path(name): Path<String>) -> Result<Response, Problem> {
    let kind = KINDS.iter().find(|kind| kind.name == name);
    let kind = kind.ok_or_else(|| Problem::new(NOT_FOUND, "there is no problem of that name"))?;
    let Kind {
        title,
        status,
        page: Page {
            explanation,
            remedy,
            ..
        },
        ..
    } = kind;
    let example = serde_json::to_string_pretty(&kind.example()).unwrap_or_default();
    Ok(plain(format!(
        "{title} ({status})\n\n{explanation}\n\nWhat to do: {remedy}\n\nAn example:\n\n{example}\n\nAll problems: /problems\n"
    )))
}

fn plain(text: String) -> Response {
    ([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response()
}

impl Kind {
    /// A problem of this kind.
    fn example(&self) -> ProblemBody {
        let pointer = match self.name {
            "validation-failed" => Some("/windows/0"),
            "score-out-of-range" => Some("/score"),
            "board-in-use" => Some("/timezone"),
            _ => None,
        };
        let detail = self.page.example;
        let detail_there = detail.split_once(": ").map_or(detail, |(_, there)| there);
        let errors = pointer.map(|pointer| FieldError::new(pointer, detail_there));
        let problem = Problem {
            errors: errors.into_iter().collect(),
            ..Problem::new(*self, detail)
        };
        let mut body = problem.body(Some("0f3b1c9a-27"));
        if [ALREADY_CLAIMED, REWARD_REVOKED].contains(self) {
            let by = if *self == ALREADY_CLAIMED {
                "grant-87"
            } else {
                "grant-88"
            };
            body.claimed_by = Some(by.to_owned());
            body.claimed_at = Timestamp::parse("2026-11-23T00:10:02Z").ok();
        }
        if *self == QUOTA_EXCEEDED {
            body.quota = Some("voter-minute".to_owned());
            body.frees_at = Timestamp::parse("2026-11-21T12:01:00Z").ok();
        }
        body
    }
}
