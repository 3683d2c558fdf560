//! All kinds of problems that clients can get, with the texts about each, in one table. `http/problem.rs` shows them;
//! errors that only the service itself handles are in `core/error.rs`.

use std::fmt::Display;

use axum::http::StatusCode;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::access::KeyName;
use super::board::FieldError;
use super::document::{self, DocumentError, KNOWN};
use super::hide::HIDDEN_MAX;
use super::ids::{BoardId, MemberId};
use super::message::MessageId;
use super::plan::StandingName;
use super::reward::RuleId;
use super::score::{ScoreError, ShownScore};
use super::time::Timestamp;
use super::webhook::WebhookName;
use super::window::Window;

/// One kind of problem; its name is the end of `type`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Kind {
    /// The name, as in `/problems/{name}`.
    pub name: &'static str,
    /// A title for people.
    pub title: &'static str,
    /// The HTTP status.
    pub status: StatusCode,
    /// The texts of its page.
    pub page: &'static Page,
}

/// The texts of a problem's page.
#[derive(Debug, Eq, PartialEq)]
pub struct Page {
    /// What the problem means.
    pub explanation: &'static str,
    /// What to do about it.
    pub remedy: &'static str,
    /// An example of its `detail`.
    pub example: &'static str,
}

/// One kind per row: its status, name, title, explanation, remedy and an example. After `=>` come the functions of
/// [`Problem`] that make one of the kind, each with its `detail`.
macro_rules! problems {
    ($(
        $ident:ident = $status:ident, $name:literal, $title:literal, $explanation:literal, $remedy:literal, $example:literal
        $(=> $make:ident($($field:ident: $type:ty),*) $detail:literal)*;
    )*) => {
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

        impl Problem {
            $($(
                #[doc = $detail]
                pub fn $make($($field: $type),*) -> Self {
                    Self::new($ident, format!($detail))
                }
            )*)*
        }
    };
}

problems! {
    MALFORMED_JSON = BAD_REQUEST, "malformed-json", "The body is not JSON",
        "The body is not JSON, or not UTF-8. The request had no effect.",
        "Send valid JSON. `detail` gives the position of the error.",
        "Line 1, column 15: expected `,` or `}`";
    INVALID_PARAMETER = BAD_REQUEST, "invalid-parameter", "A parameter is invalid",
        "Part of the path, the query or a header is invalid. The request had no effect.",
        "Correct the parameter that `detail` names.",
        "size: must be from 1 to 1000, not 5000"
        => invalid_parameter(name: &str, detail: impl Display) "{name}: {detail}";
    MALFORMED_REQUEST = BAD_REQUEST, "malformed-request", "The request is not HTTP",
        "The head of the request is not HTTP, or repeats a header that decides what the client may do. The request had no effect.",
        "Use an HTTP client. If you do, check for a proxy that changes requests, or for a client that speaks TLS to a service without TLS.",
        "the head of the request is not HTTP";
    UNAUTHENTICATED = UNAUTHORIZED, "unauthenticated", "A valid API key or token is needed",
        "The request has neither a valid API key nor a valid player's token. The request had no effect.",
        "Send a valid API key or player's token: `Authorization: Bearer …`. `detail` says what is wrong with the one you sent.",
        "send a valid API key or player's token: `Authorization: Bearer …`";
    FORBIDDEN = FORBIDDEN, "forbidden", "The API key or token does not allow this",
        "The API key or token is valid, but does not allow this. `detail` says why, such as a missing scope, or that it is for other boards. The response is the same whether the board exists or not. The request had no effect.",
        "Use an API key or token with this scope and for this board. With the scope `admin` you can create a key: `PUT /v1/keys/{name}`.",
        "the scope `write` is needed"
        => for_other_boards() "the API key is for other boards"
        => ranks_not_told() "`ranks=true` needs the scope `read` here: the board is not public"
        => own_name() "a name can't be approved by the key that wrote it; use another key";
    FOREIGN_ORIGIN = FORBIDDEN, "foreign-origin", "The host or the origin is not allowed",
        "The service has no API keys, so it answers only its own machine. The request was sent to another host name, or is a write from a page of another origin. The request had no effect.",
        "Call the service as `localhost` or `127.0.0.1`, or configure API keys (`STANDINGS_API_KEYS`) and origins (`STANDINGS_CORS_ORIGINS`).",
        "without API keys pages of other origins can't write. Set STANDINGS_CORS_ORIGINS to allow an origin";
    FORM_REFUSED = FORBIDDEN, "form-refused", "The form does not come from this page",
        "A form of the console was sent from a page of another origin, without the browser's token, or over plain HTTP to another machine. Or the browser refused or lost a cookie, or somebody signed in or out in another tab. The request had no effect.",
        "Reload the page and send the form from there. If that does not help: open the console over HTTPS or as `localhost`; let the proxy pass on the `Host` header unchanged; allow cookies.",
        "the form comes from https://evil.example, and the console is at https://scores.example";
    BOARD_NOT_FOUND = NOT_FOUND, "board-not-found", "The board does not exist",
        "There is no board with this id.",
        "Check the id. `PUT /v1/boards/{board}` creates a board.",
        "there is no board run_hero";
    PROFILE_NOT_FOUND = NOT_FOUND, "profile-not-found", "The member has no profile",
        "The member has no profile.",
        "Check the id. `PUT /v1/members/{member}/profile` gives a member a profile.",
        "999 has no profile"
        => profile_not_found(member: &MemberId) "{member} has no profile";
    KEY_NOT_FOUND = NOT_FOUND, "key-not-found", "The API key does not exist",
        "There is no API key with this name.",
        "Check the name. `GET /v1/keys` lists the API keys, and `PUT /v1/keys/{name}` creates one.",
        "there is no API key site"
        => key_not_found(name: &KeyName) "there is no API key {name}";
    WEBHOOK_NOT_FOUND = NOT_FOUND, "webhook-not-found", "The webhook does not exist",
        "There is no webhook with this name.",
        "Check the name. `GET /v1/webhooks` lists the webhooks, and `PUT /v1/webhooks/{name}` creates one.",
        "there is no webhook site"
        => webhook_not_found(name: &WebhookName) "there is no webhook {name}";
    DELIVERY_NOT_FOUND = NOT_FOUND, "delivery-not-found", "The delivery does not exist",
        "The webhook has no delivery with this id, or the delivery ended more than 30 days ago.",
        "Check the id. `GET /v1/webhooks/{name}/deliveries` lists the deliveries.",
        "there is no delivery msg_5f0c2a9be41d7763c8aa5f0c2a9be41d; deliveries are kept for 30 days after they end"
        => delivery_not_found(id: MessageId) "there is no delivery {id}; deliveries are kept for 30 days after they end";
    WEBHOOK_DISABLED = CONFLICT, "webhook-disabled", "The webhook is disabled",
        "The receiver returned 410, so it wants no more messages and the service sends none. The request had no effect.",
        "Enable the webhook with `PUT /v1/webhooks/{name}`, with the same address or another one.",
        "the webhook site is disabled; PUT it again to enable it"
        => webhook_disabled(name: &WebhookName) "the webhook {name} is disabled; PUT it again to enable it";
    TOO_MANY_WEBHOOKS = CONFLICT, "too-many-webhooks", "There are too many webhooks",
        "The maximum number of webhooks exists already. The request had no effect.",
        "Delete unused webhooks: `DELETE /v1/webhooks/{name}`. One webhook can be for many boards.",
        "there are 100 webhooks already; delete one"
        => too_many_webhooks(max: usize) "there are {max} webhooks already; delete one";
    NOT_HIDDEN = NOT_FOUND, "not-hidden", "The member is not hidden",
        "The member is not hidden on this board.",
        "You need not do anything. `GET /v1/boards/{board}/hidden` lists the hidden members.",
        "\"ann\" is not hidden on board run_hero"
        => not_hidden(board: &BoardId, member: &str) "{member:?} is not hidden on board {board}";
    NAME_SEARCH_OFF = CONFLICT, "name-search-off", "Members can't be found by name",
        "The service does not store an index of names.",
        "Look the member up by its id. Or set `STANDINGS_NAME_SEARCH=true` on all instances.",
        "members can't be found by name: STANDINGS_NAME_SEARCH is not set"
        => name_search_off() "members can't be found by name: STANDINGS_NAME_SEARCH is not set";
    JOB_NOT_FOUND = NOT_FOUND, "job-not-found", "The job does not exist",
        "There is no job with this id, or it ended more than seven days ago.",
        "Check the id: the response that started the job has it, and its `Location` header has the job's address.",
        "there is no job 7"
        => job_not_found(id: &str) "there is no job {id}; a job is kept for seven days after its end";
    TOO_MANY_HIDDEN = CONFLICT, "too-many-hidden", "There are too many hidden members",
        "The board has the maximum number of hidden members. The request had no effect.",
        "Bring back members that need not be hidden any more: `DELETE /v1/boards/{board}/hidden/{member}`.",
        "100000 members of board run_hero are already hidden; bring some back"
        => too_many_hidden(board: &BoardId) "{HIDDEN_MAX} members of board {board} are already hidden; bring some back";
    TOO_MANY_ORDERS = CONFLICT, "too-many-orders", "Too many members are hidden on all boards",
        "The maximum number of members is hidden on all boards. The request had no effect.",
        "Bring back members that need not be hidden any more: `POST /v1/moderation` with `unhide`. `GET /v1/moderation` lists the hidden ones.",
        "10000 members are already hidden on all boards; bring some back"
        => too_many_orders(max: usize) "{max} members are already hidden on all boards; bring some back";
    KEY_EXISTS = CONFLICT, "key-exists", "The API key exists already",
        "An API key with this name exists already, and its secret can't be shown again. The request had no effect.",
        "Choose another name, or give the key a new secret: `POST /v1/keys/{name}/rotate`.",
        "there is an API key site already"
        => key_exists(name: &KeyName) "there is an API key {name} already";
    TOO_MANY_KEYS = CONFLICT, "too-many-keys", "There are too many API keys",
        "The maximum number of API keys exists already. The request had no effect.",
        "Delete unused keys: `GET /v1/keys` returns when each was last used.",
        "there are 1000 API keys already; delete one"
        => too_many_keys(max: usize) "there are {max} API keys already; delete one";
    RATE_LIMITED = TOO_MANY_REQUESTS, "rate-limited", "The client is too fast",
        "The API key has sent more requests than its rate allows. Or reads of past standings that must be built first exceed the limit for one API key, player or address, or the total limit. The request had no effect.",
        "Send the request again after the seconds in the `Retry-After` header.",
        "the API key may send 50/s to each instance";
    TOO_MANY_STREAMS = TOO_MANY_REQUESTS, "too-many-streams", "There are too many streams",
        "The API key, the player or the client's address has the maximum number of streams. The request had no effect.",
        "Close unused streams. Or poll the page, and send the request again after the seconds in the `Retry-After` header.",
        "this address already has 100 streams";
    MEMBER_NOT_FOUND = NOT_FOUND, "member-not-found", "The member is not in the standing",
        "The standing does not list this member: it had no event in the period, or it is hidden.",
        "Show the member without a rank. A member without events appears with its first one.",
        "member 999 is not in this standing";
    PERIOD_NOT_FOUND = NOT_FOUND, "period-not-found", "The period has no data",
        "The period has neither data nor a result, or the window has no results: rolling windows (`last-N-…`) have none.",
        "Check the key. `GET /v1/boards/{board}/standings/{window}/periods` lists the periods that have data.",
        "the standing day 2026-11-20 of board run_hero has no data"
        => period_not_found(board: &BoardId, standing: &StandingName) "the standing {standing} of board {board} has no data"
        => no_periods(board: &BoardId, window: &str) "window {window} of board {board} has no results: rolling windows have none";
    REWARD_NOT_FOUND = NOT_FOUND, "reward-not-found", "The member has not won this",
        "The member has not won this reward in the period, has lost it since, or is hidden.",
        "Grant nothing. `GET /v1/boards/{board}/standings/{window}/periods/{key}/rewards` lists what members have won.",
        "\"999\" has not won crown in the standing week 2026-11-16 of board run_hero"
        => reward_not_found(board: &BoardId, standing: &StandingName, rule: &RuleId, member: &str) "{member:?} has not won {rule} in the standing {standing} of board {board}";
    ALREADY_CLAIMED = CONFLICT, "already-claimed", "The reward was claimed before",
        "The reward was claimed before, under another name: see `claimed_by` and `claimed_at`. The request had no effect.",
        "Grant nothing: the client that claimed the reward grants it.",
        "the reward was claimed by \"grant-87\" at 2026-11-23T00:10:02.000Z";
    REWARD_REVOKED = CONFLICT, "reward-revoked", "The reward was revoked",
        "The reward was claimed, but the member has since lost it, because a member was hidden or brought back. The request had no effect.",
        "Grant nothing. If the reward was granted, decide whether to take it back.",
        "the reward was claimed by \"grant-88\" at 2026-11-23T00:10:02.000Z, and has since been revoked";
    PERIOD_NOT_FINAL = CONFLICT, "period-not-final", "The period is not final",
        "The period has not ended, or late events may still count. A board without `finalize` in its definition has no final periods.",
        "Wait until `state` is `final`, or end the wait with `POST /v1/boards/{board}/standings/{window}/periods/{key}/close`.",
        "the standing day 2026-11-21 of board run_hero is not final"
        => period_not_final(board: &BoardId, standing: &StandingName) "the standing {standing} of board {board} is not final";
    EXPORT_TOO_LARGE = CONFLICT, "export-too-large", "The standing is too large for an export",
        "A standing that is not final is exported from memory, so that the file shows one instant. The standing takes more of it than all exports may (`STANDINGS_EXPORT_MB`).",
        "Read the standing in pages, from score to score (`from_score`), or export the period once it is final. An operator can raise the limit.",
        "the standing takes more than the 256 MiB for exports (STANDINGS_EXPORT_MB); read it in pages, from score to score (`from_score`), or export its period once that is final"
        => export_too_large(mib: u32) "the standing takes more than the {mib} MiB for exports (STANDINGS_EXPORT_MB); read it in pages, from score to score (`from_score`), or export its period once that is final";
    REVISION_UNKNOWN = CONFLICT, "revision-unknown", "The revision is not known",
        "The service can't tell whether the board has the `min_revision` of the request: since then Redis was restarted, another server has taken over, or the board has moved to other shards; or the revision is from another board. The request had no effect.",
        "Read again without `min_revision`, and continue with the `revision` of that response.",
        "the revision is not from board run_hero in its current state: read again without `min_revision`"
        => revision_unknown(board: &BoardId) "the revision is not from board {board} in its current state: read again without `min_revision`";
    REVISION_PENDING = SERVICE_UNAVAILABLE, "revision-pending", "The revision has not arrived yet",
        "The board did not have the `min_revision` of the request within 5 s.",
        "Send the request again after the seconds in the `Retry-After` header.",
        "board run_hero does not have the revision yet; try again"
        => revision_pending(board: &BoardId) "board {board} does not have the revision yet; try again";
    PERIOD_EXPIRED = GONE, "period-expired", "The entries of the period have expired",
        "The `retention` of the period has passed, so its entries were deleted. Its result is kept.",
        "Read the result: `GET /v1/boards/{board}/standings/{window}/periods/{key}`. To keep entries for longer, set `retention`.",
        "the entries of the standing day 2026-11-21 of board run_hero have expired"
        => period_expired(board: &BoardId, standing: &StandingName) "the entries of the standing {standing} of board {board} have expired";
    NOT_FOUND = NOT_FOUND, "not-found", "There is nothing at this address",
        "There is nothing at this address.",
        "`/docs` shows all operations.",
        "there is nothing at this address";
    METHOD_NOT_ALLOWED = METHOD_NOT_ALLOWED, "method-not-allowed", "The address does not support this method",
        "The address exists, but does not support this method.",
        "Use a method that the `Allow` header lists.",
        "POST is not allowed here; use DELETE, GET, PATCH or PUT. To create a board, send PUT";
    REQUEST_TIMEOUT = REQUEST_TIMEOUT, "request-timeout", "The body did not arrive in time",
        "The body did not arrive in time. The request had no effect.",
        "Send the request again.",
        "the body did not arrive in time";
    BOARD_IN_USE = CONFLICT, "board-in-use", "The board is in use",
        "The change would alter stored data of the board, or the board is moving to another number of shards. The request had no effect.",
        "Leave the fields that `errors` names unchanged, or create a new board. If the board is moving, wait until the move is over.",
        "these fields of the board can't change now: `errors` names them and says why"
        => board_in_use() "these fields of the board can't change now: `errors` names them and says why";
    WINDOWS_IN_USE = CONFLICT, "windows-in-use", "The windows are in use",
        "The change would delete windows whose standings can't be rebuilt. The request had no effect.",
        "Keep the windows in the definition. To delete them permanently, name them: `?drop_windows=week,month`.",
        "week,month: the data of these windows would be lost; to delete it, send the request again with ?drop_windows=week,month";
    BOARD_FINAL = CONFLICT, "board-final", "The change would alter final periods",
        "The change would remove a window that has final periods, or move the board's end although periods are final already. The request had no effect.",
        "Leave the fields that `errors` names unchanged, or create a new board.",
        "/closes_at: can't change: the board has ended and its last period is final"
        => board_final() "these fields would change final periods: `errors` names them and says why";
    PERIOD_RUNNING = CONFLICT, "period-running", "The period has not ended",
        "The period has not ended yet, so it can't become final. The request had no effect.",
        "Wait until the period ends. To end the board now, set its `closes_at`.",
        "week 2026-11-16 of board run_hero has not ended: it ends at 2026-11-23T00:00:00.000Z";
    NOT_FINALIZED = CONFLICT, "not-finalized", "The period never gets a result",
        "The board has no `finalize`, or the period had already ended when `finalize` was set. So the period has no result. The request had no effect.",
        "Set `finalize` in the board's definition. It applies to periods that end after that.",
        "board run_hero has no `finalize`";
    BOARD_CLOSED = CONFLICT, "board-closed", "The board does not accept events of this time",
        "The event's `at` is before the board's `opens_at`, or not before its `closes_at`. The event was not accepted.",
        "Do not send the event again: the response would be the same. `GET /v1/boards/{board}/summary` shows when the board is open.",
        "board run_hero accepts events from 2026-11-01T00:00:00.000Z until 2026-12-01T00:00:00.000Z; `at` is 2026-12-01T09:00:00.000Z";
    PERIOD_CLOSED = CONFLICT, "period-closed", "The period of the event is closed",
        "The event's `at` is in a closed period: the period has ended, the board's wait after it (`finalize`) is over, and the result is final. The event was not accepted.",
        "Do not send the event again: the response would be the same. An event without `at` counts for the time at which it is received.",
        "board run_hero has closed its periods up to 2026-11-21T00:00:00.000Z; `at` is 2026-11-20T23:59:00.000Z";
    MEMBER_ERASED = CONFLICT, "member-erased", "The member was erased after this event",
        "The member was erased, and the event's `at` is not after the erasure. The event was not accepted.",
        "Do not send the event again: the response would be the same. Later events of the member count, starting from zero.",
        "the member was erased at 2026-11-21T12:00:00.000Z: its earlier events are refused on board run_hero";
    PRECONDITION_FAILED = PRECONDITION_FAILED, "precondition-failed", "The definition has changed",
        "The board's definition does not match `If-Match` or `If-None-Match`. The request had no effect.",
        "Read the definition again, apply your change to it, and send it with the new `ETag`.",
        "the definition of the board does not match If-Match or If-None-Match"
        => precondition_failed() "the definition of the board does not match If-Match or If-None-Match";
    NAME_CHANGED = PRECONDITION_FAILED, "name-changed", "The name has changed",
        "The member's name or picture is not the one that the request reviews. The request had no effect.",
        "Read the profile again, and review its current name and picture.",
        "the member's name is \"Ann B.\" now, or its picture has changed"
        => name_changed(name: &str) "the member's name is {name:?} now, or its picture has changed";
    PAYLOAD_TOO_LARGE = PAYLOAD_TOO_LARGE, "payload-too-large", "The body is too large",
        "The body has more than 1 MiB. The request had no effect.",
        "Send less in one request.",
        "the body has more than 1048576 bytes";
    URI_TOO_LONG = URI_TOO_LONG, "uri-too-long", "The URL is too long",
        "The URL has more than 65,534 bytes. The request had no effect.",
        "Request less at once.",
        "the address has more than 65534 bytes";
    HEAD_TOO_LARGE = REQUEST_HEADER_FIELDS_TOO_LARGE, "head-too-large", "The head of the request is too large",
        "The head of the request has more than 128 KiB or more than 100 headers. The request had no effect.",
        "Send fewer or shorter headers; the service needs no cookies.",
        "the head of the request has more than 128 KiB";
    UNSUPPORTED_MEDIA_TYPE = UNSUPPORTED_MEDIA_TYPE, "unsupported-media-type", "The body has the wrong type",
        "The body is not sent as JSON, or has a content encoding. The request had no effect.",
        "Send the header `Content-Type: application/json`, and no `Content-Encoding`.",
        "Content-Type is `text/plain`; send `application/json` (curl: `-H 'Content-Type: application/json'`)";
    VALIDATION_FAILED = UNPROCESSABLE_ENTITY, "validation-failed", "The body does not have the expected form",
        "The body is JSON, but does not have the expected form. The request had no effect.",
        "Correct what `errors` lists: `pointer` gives the place in the body, and `detail` says what is wrong there.",
        "/windows/0: \"daily\" is not a window";
    SCORE_OUT_OF_RANGE = UNPROCESSABLE_ENTITY, "score-out-of-range", "The score is out of range",
        "The score has more decimals than the board keeps, or is not within the board's `score_min` and `score_max`. Or the score, or a sum with it, is beyond what every JSON client can represent exactly: ±(2^53 − 1) for whole numbers, 15 digits on boards with decimals. The event was not accepted.",
        "Do not send the event again. Check the score, and the board's `decimals`, `score_min` and `score_max`.",
        "score 900000 is above this board's maximum, 100000";
    EVENT_IN_FUTURE = UNPROCESSABLE_ENTITY, "event-in-future", "The event is in the future",
        "The event's `at` is more than 60 seconds ahead of the service's clock, or, in a league, in a period that has not begun. The event was not accepted.",
        "Send the event again after the seconds in the `Retry-After` header; an event of a batch has them as `retry_after`. If the wait is long, correct the clock of the machine that sends the event, or omit `at`.",
        "`at` is 2026-11-21T12:05:00.000Z, more than 60 s after the current time, 2026-11-21T12:00:00.000Z";
    EVENT_TOO_LATE = UNPROCESSABLE_ENTITY, "event-too-late", "The event is too old",
        "The event's `at` is older than the board's `accept_late` allows. The event was not accepted.",
        "Do not send the event again. To import older events, set the board's `accept_late` to `any`.",
        "`at` is 2026-11-18T12:00:00.000Z, too old for board run_hero, which accepts events up to 48h late (`accept_late`; to import old events, set it to \"any\"); the current time is 2026-11-21T12:00:00.000Z";
    QUOTA_EXCEEDED = TOO_MANY_REQUESTS, "quota-exceeded", "A quota is used up",
        "A quota of the board has too little left for the event. `quota` names it, and `detail` says how much of it is used. `frees_at` is when more will be available, if no other event arrives; it is missing if that is never. The event was not accepted, and used up nothing.",
        "Wait until `frees_at`. If it is missing, do not send the event again.",
        "quota voter-minute of board best_song is used up: 2 of 2 events in 1m; it frees up at 2026-11-21T12:01:00.000Z";
    EVENT_ID_REUSED = UNPROCESSABLE_ENTITY, "event-id-reused", "The event id belongs to another event",
        "The board accepted another event with this id before. This one was not accepted.",
        "Give each event its own id. Send a retry with unchanged content.",
        "an event with this id but other content was accepted before; give each event its own id";
    UNKNOWN_WINDOW = NOT_FOUND, "unknown-window", "The board does not have this window",
        "The board does not have this window; `detail` names the windows that it has. The status is 404 if the path names the window, and 422 if a body or a parameter does.",
        "Read another window, or add this one to the board's definition.",
        "board run_hero has no window \"month\"; it has day, week, all, last-7-days"
        => unknown_window(board: &BoardId, window: &str, known: &str) "board {board} has no window {window:?}; it has {known}";
    NO_LEAGUE = NOT_FOUND, "no-league", "The board is not a league",
        "The request is about a cohort, a tier or a seat, and the board has no `league` in its definition. The request had no effect.",
        "Read the board's standings without a cohort. Only a new board can become a league: create it with the field `league` in its definition.",
        "board run_hero is not a league"
        => no_league(board: &BoardId) "board {board} is not a league";
    LEAGUE_TURNING = CONFLICT, "league-turning", "The league is being turned over",
        "The league's last period has ended, and the member's next tier has not been decided yet: events of that period may still count, or the service has not processed it yet. The request had no effect.",
        "Send the request again after the seconds in the `Retry-After` header; an event of a batch has them as `retry_after`.",
        "the league is turning over its last period; try again in 1 s";
    NOT_SEATED = CONFLICT, "not-seated", "The member has no seat in the period",
        "The board is a league, and the member has no seat in the event's period: the period is over, or the member has left the league. The event was not accepted.",
        "Do not send the event again. To play in the running period, the member has to join: `POST /v1/boards/{board}/league/members`.",
        "the member is not in the league run_league in the period of 2026-11-15T09:00:00.000Z. To join the running period, send POST /v1/boards/run_league/league/members";
    COHORT_REQUIRED = BAD_REQUEST, "cohort-required", "A league is read cohort by cohort",
        "The board is a league: its members compete in cohorts, and no list ranks all of them. The request had no effect.",
        "Read a cohort, or the cohort of a member: `detail` names the routes. `GET /v1/boards/{board}/standings/{window}/tiers` returns the number of cohorts.",
        "board run_league is a league: read a cohort (/v1/boards/run_league/standings/week?cohort={cohort}), the cohort of a member (/v1/boards/run_league/standings/week/members/{member}), or the list of tiers (/v1/boards/run_league/standings/week/tiers)"
        => cohort_required(board: &BoardId, window: Window) "board {board} is a league: read a cohort (/v1/boards/{board}/standings/{window}?cohort={{cohort}}), the cohort of a member \
            (/v1/boards/{board}/standings/{window}/members/{{member}}), or the list of tiers (/v1/boards/{board}/standings/{window}/tiers). Other requests need the parameter `cohort=`";
    COHORT_NOT_FOUND = NOT_FOUND, "cohort-not-found", "There is no such cohort",
        "No such cohort was opened in the period, or the period is no longer kept. The name of a cohort consists of its tier, as named in that period, and its number: `silver-17`.",
        "Check the name and the period. `GET /v1/boards/{board}/standings/{window}/tiers/{tier}/cohorts` lists the cohorts of a tier.",
        "there is no cohort \"silver-17\" in the standing week 2026-11-16 of board run_league"
        => cohort_not_found(board: &BoardId, standing: &StandingName, cohort: &str) "there is no cohort {cohort:?} in the standing {standing} of board {board}";
    UNKNOWN_TIER = NOT_FOUND, "unknown-tier", "The league does not have this tier",
        "The league does not have this tier in the period; `detail` names the tiers that it has.",
        "Read another tier, or add this one to the board's definition: it exists from the next period on.",
        "there is no tier \"steel\" in the standing week 2026-11-16 of board run_league; its tiers are bronze, silver, gold"
        => unknown_tier(board: &BoardId, standing: &StandingName, tier: &str, known: &str) "there is no tier {tier:?} in the standing {standing} of board {board}; its tiers are {known}";
    INTERNAL = INTERNAL_SERVER_ERROR, "internal", "Internal error",
        "The service has a bug, or stored data is damaged.",
        "Give the operator the `request_id`: the service's log has the cause under it. An event may have been accepted: send it again with the same id, and it counts once.",
        "internal error; the service's log has the cause";
    DATA_OF_ANOTHER_VERSION = SERVICE_UNAVAILABLE, "data-of-another-version", "The board's data has another version",
        "The board's data in Redis has a format that this release does not support. The service neither reads nor changes it. Other boards work.",
        "The operator can serve the board with the release that wrote it, or delete its data.",
        "board run_hero has the data format 1, and this release supports 2: use the release that wrote it, or another Redis database";
    STORE_UNAVAILABLE = SERVICE_UNAVAILABLE, "store-unavailable", "The store does not answer",
        "Redis did not answer in time, or refuses the service; then `detail` says why. An event may have been accepted.",
        "Send the request again after the seconds in the `Retry-After` header. With the same id an event counts once.",
        "the store did not answer in time; try again";
    STANDING_PENDING = SERVICE_UNAVAILABLE, "standing-pending", "The standing is being completed",
        "The response depends on work that was not done in time: a rolling window is being summed up, a list without hidden members made, an erased member removed, or a period, its result or its rewards completed. `detail` says which. The work goes on where it stopped. In a batch, some events may have been accepted.",
        "Send the request again after the seconds in the `Retry-After` header. With the same id an event counts once.",
        "last-7-days of board run_hero is still being completed; try again"
        => standing_pending(left: impl Display) "{left}; try again";
    BOARD_CHANGING = SERVICE_UNAVAILABLE, "board-changing", "The board is being changed",
        "The board is moving to another number of shards; or other requests have changed it, or data that the request depends on, at each attempt to carry out the request. In a batch, some events may have been accepted.",
        "Send the request again after the seconds in the `Retry-After` header. With the same id an event counts once. `GET /v1/boards/{board}/shards` shows whether the board moves.",
        "board run_hero is moving to other shards; try again"
        => board_is_moving(board: &BoardId) "board {board} is moving to other shards; try again"
        => board_changes(board: &BoardId) "other requests keep changing board {board}; try again";
    QUOTA_PENDING = SERVICE_UNAVAILABLE, "quota-pending", "Whether a quota is used up is not known yet",
        "Other events have reserved the rest of the quota, and their outcomes are not known yet. Normally they are known at once; after a crash it takes up to 20 seconds. The event was not accepted; in a batch, others may have been.",
        "Send the request again after the seconds in the `Retry-After` header. With the same id an event counts once.",
        "whether a quota of board best_song is used up depends on events whose outcome is not known yet; try again"
        => quota_pending(board: &BoardId) "whether a quota of board {board} is used up depends on events whose outcome is not known yet; try again";
    CONTENTION = SERVICE_UNAVAILABLE, "contention", "Other requests keep changing this",
        "Other requests have changed the same thing at each attempt to carry out this one.",
        "Send the request again after the seconds in the `Retry-After` header.",
        "other requests keep changing this; try again"
        => contention() "other requests keep changing this; try again";
    TIME_UNCERTAIN = SERVICE_UNAVAILABLE, "time-uncertain", "The time is not certain",
        "The clocks of the service and of Redis contradict each other, so the service makes no period final. The request had no effect.",
        "Send the request again after the seconds in the `Retry-After` header. If this continues, the operator sets the clocks of the machines.",
        "no period is made final: the clock of Redis differs from that of this machine by 87 s";
    ANSWER_TIMEOUT = SERVICE_UNAVAILABLE, "answer-timeout", "The request took too long",
        "The service could not carry out the request in time, normally 20 seconds. Some of it may have been done: an event may have been accepted.",
        "Send the request again after the seconds in the `Retry-After` header. With the same id an event counts once.",
        "the request took too long; try again";
    SHUTTING_DOWN = SERVICE_UNAVAILABLE, "shutting-down", "The service is shutting down",
        "This instance is shutting down, and is not ready for further requests.",
        "Send requests to another instance.",
        "the service is shutting down";
    STORE_FULL = SERVICE_UNAVAILABLE, "store-full", "The store is full",
        "Redis refuses writes: its memory is full, it can't write to its disk, too few replicas follow it, or it is a replica itself; `detail` says which. Reads still work.",
        "Send the event again with the same id when Redis takes writes again, and it counts once. If the memory is full, the operator can delete boards or give Redis more memory.",
        "Redis has no memory left";
    DEAD_LETTER_NOT_FOUND = NOT_FOUND, "dead-letter-not-found", "The dead letter does not exist",
        "The board has no dead letter with this id: it was replayed or deleted, it is older than seven days, or the board has since moved to another number of shards, which changes the ids of its dead letters.",
        "List the dead letters again: `GET /v1/boards/{board}/dead-letters`. `GET /v1/boards/{board}/events` returns the status of an event.",
        "there is no dead letter 1795305600123-0_0_1_28080000123456; it may have been replayed, or the board has moved since it was listed"
        => dead_letter_not_found(letter: impl Display) "there is no dead letter {letter}; it may have been replayed, or the board has moved since it was listed";
    NOT_REPLAYABLE = CONFLICT, "not-replayable", "The event can't be queued again",
        "The event would become a dead letter again: it was queued more than 24 hours ago, or is in another shard than its member. `detail` says which. The request had no effect.",
        "Decide whether the event should count. If so, send it as a new event with the `id` and the `at` from the list of dead letters, if `accept_late` allows that. Then delete the dead letter.",
        "the event can't be queued again: it has waited since 2026-11-20T12:00:00.000Z, for longer than 1d"
        => not_replayable(why: &str) "the event can't be queued again: {why}";
    BOARD_MOVING = CONFLICT, "board-moving", "The board is moving",
        "The board is moving to another number of shards. Until that is done it queues no events, no event of a closed period can be corrected, and no events can be revoked. The request had no effect.",
        "Wait until the move is over (`GET /v1/boards/{board}/shards`), and send the request again. To replay dead letters, list them again first, because their ids will have changed.",
        "board run_hero is moving to other shards, and queues no events until that is done; try again"
        => correction_while_moving(board: &BoardId) "board {board} is moving to other shards, and no event of a closed period can be corrected until that is done; try again"
        => revocation_while_moving(board: &BoardId) "board {board} is moving to other shards, and no events can be revoked until that is done; try again"
        => board_moving(board: &BoardId) "board {board} is moving to other shards, and queues no events until that is done; try again";
    QUEUE_FULL = SERVICE_UNAVAILABLE, "queue-full", "The queue is full",
        "Too many events wait to be applied: those of a shard of the board, or of all boards together, use all the memory that queues may take. The event was not accepted.",
        "Send the event again after the seconds in the `Retry-After` header, with the same id. If this continues, events arrive faster than they can be applied.",
        "too many events wait to be applied; try again"
        => queue_full() "too many events wait to be applied; try again";
    LOG_UNAVAILABLE = SERVICE_UNAVAILABLE, "log-unavailable", "The log of queued events does not answer",
        "The service queues events in a log (Kafka), which did not confirm in time. It may have the event.",
        "Send the event again after the seconds in the `Retry-After` header, with the same id, and it counts once.",
        "the log of queued events can't be used: the broker did not confirm in time";
    LOG_TOO_LONG = SERVICE_UNAVAILABLE, "log-too-long", "The event may still be in the log",
        "The service doesn't know the event yet, and the log of queued events has more waiting events than one request searches.",
        "Ask again later, when the service has taken more events from the log.",
        "the event may be in the log of queued events, which has too many waiting events to search; try again"
        => log_too_long() "the event may be in the log of queued events, which has too many waiting events to search; try again";
    REVOCATION_NOT_FOUND = NOT_FOUND, "revocation-not-found", "The revocation does not exist",
        "The board has no revocation with this number, or it is no longer in force, and the board remembers 100 later ones. Or it was a dry run, which can't be restored.",
        "List the revocations: `GET /v1/boards/{board}/revocations`.",
        "board vote has no revocation 7"
        => nothing_revoked(number: u64) "revocation {number} was a dry run: there is nothing to restore"
        => revocation_not_found(board: &BoardId, number: &str) "board {board} has no revocation {number}";
    REVOCATION_RUNNING = CONFLICT, "revocation-running", "A revocation is running",
        "The board is carrying out another revocation. Until that is done it begins no further one, and does not move to other shards. The request had no effect.",
        "Wait until the other revocation is done (`GET /v1/boards/{board}/revocations`), and send the request again.",
        "board vote is carrying out a revocation; try again when it is done"
        => revocation_running(board: &BoardId) "board {board} is carrying out a revocation; try again when it is done";
    TOO_MANY_REVOCATIONS = CONFLICT, "too-many-revocations", "There are too many revocations",
        "The maximum number of revocations of the board is in force. One whose events are all no longer kept does not count. The request had no effect.",
        "Restore a revocation, or revoke what several had named in one: with `events`.",
        "100 revocations of board vote are in force; restore one, or wait until their events are no longer kept"
        => too_many_revocations(board: &BoardId, max: usize) "{max} revocations of board {board} are in force; restore one, or wait until their events are no longer kept";
    HISTORY_OFF = CONFLICT, "history-off", "The board keeps no events",
        "The board keeps no events, so none of them can be corrected. The request had no effect.",
        "Set the board's `history`, such as `{\"history\": \"90d\"}` in `PATCH /v1/boards/{board}`. Events that are accepted from then on can be corrected.",
        "board vote keeps no events; set its `history`, and events that are accepted from then on can be corrected"
        => history_off(board: &BoardId) "board {board} keeps no events; set its `history`, and events that are accepted from then on can be corrected";
    EVENT_NOT_KEPT = NOT_FOUND, "event-not-kept", "The board does not keep the event",
        "The board keeps no event with this id: the id is unknown, or the event was accepted before the board's history begins, or it is no longer kept, or its member was erased. The request had no effect.",
        "Check the id. `GET /v1/boards/{board}/events` lists the events that a board keeps. For an event that a player sent, name the player with `player`.",
        "board vote keeps no event \"run-88231\"; it keeps events that were accepted since 2026-08-23T00:00:00.000Z"
        => event_not_kept(board: &BoardId, id: &str, reach: &str) "board {board} keeps no event {id:?}; it keeps events that were accepted {reach}";
    EVENT_WAITING = CONFLICT, "event-waiting", "The event waits in the queue",
        "The event was queued and has not been applied yet. The request had no effect.",
        "Send the request again after the seconds in the `Retry-After` header.",
        "the event \"run-88231\" has not been applied yet; try again";
    EVENT_OF_SEVERAL = CONFLICT, "event-of-several", "Several members have an event with this id",
        "Events of several members have this id, in different shards of the board. The request had no effect.",
        "Name the member: `?member=`.",
        "events of ann, bob have the id \"run-88231\"; name one of them: `?member=`"
        => event_of_several(id: &str, members: &str) "events of {members} have the id {id:?}; name one of them: `?member=`";
    SCORE_CHANGED = CONFLICT, "score-changed", "The event counts for another score",
        "The event does not count for the score in `from`, perhaps because it was corrected before. The request had no effect.",
        "Read the event again: `GET /v1/boards/{board}/events?member=…`. Then send the score for which it counts now as `from`.",
        "the event counts for 71, not 710"
        => score_changed(own: &ShownScore, from: &ShownScore) "the event counts for {own}, not {from}";
    CORRECTION_BEYOND = CONFLICT, "correction-beyond", "A sum would be out of range",
        "With the correction a score of the member would be greater than the board can store exactly. The request had no effect.",
        "Correct another event of the member first.",
        "with this correction a score of ann would be beyond ±9007199254740991"
        => correction_beyond(member: impl Display, max: &ShownScore) "with this correction a score of {member} would be beyond ±{max}";
    OVERLOADED = SERVICE_UNAVAILABLE, "overloaded", "The service is overloaded",
        "The service has the maximum number of connections, or requests or exports use all the memory that they may take. The request had no effect.",
        "Send the request again after the seconds in the `Retry-After` header.",
        "there are too many connections; try again";
}

/// An error for a client.
#[derive(Clone, Debug)]
pub struct Problem {
    /// Its kind.
    pub kind: Kind,
    /// What happened in this case.
    pub detail: String,
    /// The errors in the body, with their places.
    pub errors: Vec<FieldError>,
    /// Data that only problems of this kind have.
    pub own: Option<Own>,
    /// The cause for the log, if it is not for clients.
    pub cause: Option<Box<String>>,
}

/// Data that only problems of one kind have.
#[derive(Clone, Debug)]
pub enum Own {
    /// The quota that is used up.
    UsedUp(Box<UsedUp>),
    /// The name that claimed the reward, and when.
    Claimed(Box<(String, Timestamp)>),
    /// After how many seconds to try again.
    RetryAfter(u64),
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
    /// When an event like this would be taken if no other came in; `None` for never, or if unknown.
    pub frees_at: Option<Timestamp>,
    /// The seconds until then, rounded up.
    pub wait_s: Option<u64>,
    /// A description for people.
    pub detail: String,
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

    /// Adds places in the body.
    #[must_use]
    pub fn in_fields(self, errors: Vec<FieldError>) -> Self {
        Self { errors, ..self }
    }

    /// Adds data of its kind.
    #[must_use]
    pub fn with(self, own: Own) -> Self {
        Self {
            own: Some(own),
            ..self
        }
    }

    /// Adds the cause for the log.
    #[must_use]
    pub fn because(self, cause: impl Into<String>) -> Self {
        Self {
            cause: Some(Box::new(cause.into())),
            ..self
        }
    }

    /// An invalid body, with its errors.
    pub fn invalid(errors: Vec<FieldError>) -> Self {
        let of = |error: &FieldError, detail: &str| match &*error.pointer {
            "" => detail.to_owned(),
            pointer => format!("{pointer}: {detail}"),
        };
        let detail = match errors.as_slice() {
            [error] => of(error, &error.detail),
            errors => {
                // The errors list what is known, and once is enough.
                let brief = |error: &FieldError| {
                    let (brief, _) = error
                        .detail
                        .split_once(KNOWN)
                        .unwrap_or((&error.detail, ""));
                    of(error, brief.trim_end_matches('.'))
                };
                let all: Vec<_> = errors.iter().map(brief).collect();
                format!("{} errors: {}", errors.len(), all.join("; "))
            }
        };
        Self::new(VALIDATION_FAILED, detail).in_fields(errors)
    }

    /// The same for a value that is at this place in the body.
    #[must_use]
    pub fn within(self, pointer: &str) -> Self {
        let errors = self.errors.into_iter();
        let errors = errors.map(|error| error.within(pointer)).collect();
        if self.kind == VALIDATION_FAILED {
            return Self::invalid(errors);
        }
        Self { errors, ..self }
    }

    /// Checks that a body has no errors.
    ///
    /// # Errors
    ///
    /// [`Self::invalid`]
    pub fn require_none(errors: Vec<FieldError>) -> Result<(), Self> {
        if errors.is_empty() {
            Ok(())
        } else {
            Err(Self::invalid(errors))
        }
    }

    /// An invalid body with one error.
    pub fn invalid_field(pointer: impl Into<String>, detail: impl Display) -> Self {
        Self::invalid(vec![FieldError::new(pointer, detail)])
    }

    /// A fault of the service, with its cause for the log.
    pub fn internal(cause: impl Into<String>) -> Self {
        Self::new(INTERNAL, "internal error; the service's log has the cause").because(cause)
    }

    /// A score that has too many decimals or is out of range.
    pub fn score(score: &str, error: &ScoreError) -> Self {
        let detail = format!("score {score} {error}");
        let errors = vec![FieldError::new("/score", &detail)];
        Self::new(SCORE_OUT_OF_RANGE, detail).in_fields(errors)
    }

    /// The member isn't listed in the standing, in a league in this cohort.
    pub fn member_not_found(
        board: &BoardId,
        standing: &StandingName,
        cohort: Option<&str>,
        member: &str,
    ) -> Self {
        let cohort = cohort.map_or_else(String::new, |cohort| format!("the cohort {cohort} of "));
        let detail =
            format!("{member:?} is not in {cohort}the standing {standing} of board {board}");
        Self::new(MEMBER_NOT_FOUND, detail)
    }

    /// The board stores no data of entries.
    pub fn no_entry_data(board: &BoardId) -> Self {
        let detail = format!(
            "board {board} does not store data of entries; set its `entry_data` to true, or leave out `data`"
        );
        Self::invalid_field("/data", detail)
    }

    /// The event was queued, and has not been applied yet.
    pub fn event_waiting(id: &str) -> Self {
        let detail = format!("the event {id:?} has not been applied yet; try again");
        Self::new(EVENT_WAITING, detail).with(Own::RetryAfter(1))
    }

    /// The reward was claimed under this name at this time; or it was, and is no longer won.
    pub fn claimed(kind: Kind, (by, at): (String, Timestamp)) -> Self {
        let end = if kind == REWARD_REVOKED {
            ", and has since been revoked"
        } else {
            ""
        };
        let detail = format!("the reward was claimed by {by:?} at {at}{end}");
        Self::new(kind, detail).with(Own::Claimed(Box::new((by, at))))
    }

    /// The period has not ended yet; with its end, if it has one.
    pub fn period_running(
        board: &BoardId,
        standing: &StandingName,
        end: Option<Timestamp>,
    ) -> Self {
        let StandingName { window, key } = standing;
        let end = end.map_or_else(String::new, |end| format!(": it ends at {end}"));
        let detail = format!("{window} {key} of board {board} has not ended{end}");
        Self::new(PERIOD_RUNNING, detail)
    }

    /// The change would delete the data of these windows, and was not confirmed.
    pub fn windows_in_use(windows: &[Window]) -> Self {
        let names: Vec<String> = windows.iter().map(ToString::to_string).collect();
        let names = names.join(",");
        let detail = format!(
            "{names}: the data of these windows would be lost; to delete it, send the request again with ?drop_windows={names}"
        );
        Self::new(WINDOWS_IN_USE, detail)
    }
}

/// Parses a JSON object. Reports invalid JSON and unexpected content differently, with the place: all errors of the content.
pub fn parse_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    let read = |text: &str| document::read(text);
    let parsed = document::read_whole(json_text(bytes)?, read, |_, _| Vec::new());
    Ok(parsed?)
}

impl From<DocumentError> for Problem {
    fn from(error: DocumentError) -> Self {
        match error {
            DocumentError::Malformed(detail) => Self::new(MALFORMED_JSON, detail),
            DocumentError::Unexpected(errors) => Self::invalid(errors),
        }
    }
}

/// The text of a JSON body, without a byte order mark.
pub fn json_text(bytes: &[u8]) -> Result<&str, Problem> {
    let malformed = |detail: String| Problem::new(MALFORMED_JSON, detail);
    let text = str::from_utf8(bytes).map_err(|error| {
        let byte = error.valid_up_to();
        malformed(format!(
            "The body is not UTF-8 (byte {byte}). Send uncompressed UTF-8 JSON."
        ))
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim_ascii().is_empty() {
        return Err(malformed("the body is empty".to_owned()));
    }
    Ok(text)
}
