//! The form of every key.
//!
//! All keys of a board share the hash tag `{board}`, so that they are in one slot of a cluster and one script can reach
//! them all. The keys of a shard share the tag `{board:16:3}`. The tag is followed by the generation, a stamp that
//! distinguishes a board from a deleted one of that name (`1` in the table), and the code of the kind: [`Kind`] says what
//! each kind is, and how its keys are treated. Periods are written as users see them.
//!
//! | key | kind |
//! | --- | --- |
//! | `st:{b}`, `st:{b:16:3}` | [`Kind::Head`]: hash with `version`, of a board `definition` (JSON), of a deleted one `deleted` (`scripts/core/board/delete.lua`), and `used` once there are events; of its closings `closing_until`, `results_until`, `pinned` (`scripts/periods/decide.lua`), of its erasures `forgetting` (`scripts/periods/begin_forgetting.lua`); of a shard `closed_until`, `final_until`, `queue:mark`, `queue:cut_at`, `queue:ends` (`scripts/periods/close_shard.lua`), `queue:open` (`scripts/lib/queue.lua`), `queue:held` (`scripts/queue/hold_queue.lua`), `names` (`scripts/core/board/forget_names.lua`), `events_from`, `event_chunks` (`scripts/lib/history.lua`), `changed` (`scripts/lib/changed.lua`), `trail` (`scripts/lib/trail.lua`) |
//! | `st:{b:16:3}:counts` | [`Kind::CountsHead`]: `version` |
//! | `st:{b}:1:keys`, `st:{b}:1:quotas` | [`Kind::Registry`], [`Kind::CountsRegistry`] |
//! | `st:{b}:1:s:day:2026-11-21` | [`Kind::Standing`] |
//! | `st:{b}:1:s:base-day:2026-11-21` | [`Kind::Standing`] without what was carried over, for rolling windows |
//! | `st:{b}:1:d:last-7-days:2026-11-21`, `st:{b}:1:d:initial-day:2026-11-21` | [`Kind::Derived`] |
//! | `st:{b}:1:i:initial-scores:all`, `st:{b}:1:past-initial` | [`Kind::InitialScores`], [`Kind::PastInitial`] |
//! | `st:{b}:1:s:raw-day:2026-11-21`, … | like those without `raw-`, without weights |
//! | …`:members`, …`:scores`, …`:total` | [`Kind::Members`], [`Kind::Distinct`], [`Kind::Total`] of a standing |
//! | …`:hidden-list`, …`:hidden-scores`, …`:hidden-state` | [`Kind::HiddenList`], [`Kind::HiddenScores`], [`Kind::HiddenState`] of a standing |
//! | `st:{b}:1:periods:day` | [`Kind::Periods`] of a unit |
//! | `st:{b}:1:hides`, `st:{b}:1:hidden`, `st:{b}:1:hide-journal` | [`Kind::Hides`], [`Kind::Hidden`], [`Kind::HideJournal`] |
//! | `st:{b}:1:erased`, `st:{b}:1:erasing` | [`Kind::Erased`], [`Kind::Erasing`] |
//! | `st:{b}:1:rewards:day:2026-11-21`, `st:{b}:1:reward-index:day:2026-11-21` | [`Kind::Rewards`], [`Kind::RewardIndex`] |
//! | `st:{b}:1:state:last-7-days` | [`Kind::State`] of a derived series |
//! | `st:{b}:1:turnout:day:2026-11-21` | [`Kind::Turnout`] |
//! | `st:{b}:1:voters:day:2026-11-21`, …`␟alice` | [`Kind::Voters`], [`Kind::MemberVoters`] |
//! | `st:{b}:1:e:run-88231`, `st:{b}:1:t:`token, `st:{b}:1:v:`token | [`Kind::EventId`], [`Kind::EventToken`], [`Kind::Void`] |
//! | `st:{b}:1:x:run-88231` | [`Kind::RefusedEvent`] |
//! | `st:{b}:1:events`, `st:{b}:1:event-index:taken`, `st:{b}:1:event-index:member:many:chunks` | [`Kind::Events`], [`Kind::EventIndex`] |
//! | …`:folded` | [`Kind::Folded`] of a standing |
//! | `st:{b}:1:queue`, `st:{b}:1:queue-ids`, `st:{b}:1:queue-state`, `st:{b}:1:dead` | [`Kind::Queue`], [`Kind::QueueIds`], [`Kind::QueueState`], [`Kind::DeadLetters`] |
//! | `st:{b}:1:intake` | [`Kind::Intake`] |
//! | `st:{b}:1:cut-off:day:2026-11-21` | [`Kind::CutOff`] |
//! | `st:{b}:1:q:0:voter-hour:hour:2026-11-21T05:00Z`… | [`Kind::Quota`] |
//! | `st:{b:16:3}:1:reserved`, `st:{b:16:3}:1:reserving` | [`Kind::Reserved`], [`Kind::Reserving`] |
//! | `st:{b}:1:changes`, `st:{b}:1:copied` | [`Kind::Changes`], [`Kind::Copied`] |
//! | `st:{b}:1:results-keys` | [`Kind::ResultsRegistry`] |
//! | `st:{b}:1:results:week`, `st:{b}:1:final-periods:week`, `st:{b}:1:digests:week` | [`Kind::Results`], [`Kind::FinalPeriods`], [`Kind::Digests`] |
//! | `st:{b}:1:revocations` | [`Kind::Revocations`] |
//! | `st:{b}:1:revised`, `st:{b}:1:to-revise`, `st:{b}:1:revised-periods` | [`Kind::Revised`], [`Kind::ToRevise`], [`Kind::RevisedPeriods`] |
//! | `st:{b}:1:h:moderation` | [`Kind::Hold`] |
//! | `st:{b}:1:revisions:week`, `st:{b}:1:revised-members:week` | [`Kind::Revisions`], [`Kind::RevisedMembers`] |
//! | `st:{b}:1:outbox` | [`Kind::Outbox`] |
//! | `st:{b}:1:r:trail` | [`Kind::Trail`] |
//! | `st:{b}:1:scratch`, `st:{b}:1:sketch:3` | [`Kind::Scratch`], [`Kind::Sketch`] |
//!
//! Keys that all boards share have the tag `{boards}`:
//!
//! | key | type | holds |
//! | --- | --- | --- |
//! | `st:{boards}:live` | sorted set | the ids of all boards, all under score 0 |
//! | `st:{boards}:changes` | sorted set | board ids by the sequence number of their last change |
//! | `st:{boards}:sequence`, `st:{boards}:epoch` | integer, string | the last of these numbers; their epoch (`scripts/core/board/announce.lua`) |
//! | `st:{boards}:stamp` | integer | the last stamp given out (`scripts/core/board/begin.lua`) |
//! | `st:{boards}:begun` | sorted set | `board stamp` by stamp: changes that were begun but not announced |
//! | `st:{boards}:erasing` | sorted set | `board stamp` by stamp: erasures that may not have ended |
//! | `st:{boards}:erasure-key` | string | the key of the hashes under which erasures are kept (`scripts/lib/erasures.lua`) |
//! | `st:{boards}:erased` | hash | members erased on all boards, by keyed hashes of their ids: `number instant` of the last such erasure (`scripts/moderation/note_erased.lua`) |
//! | `st:{boards}:moving` | hash | `generation board` of boards that move to other shards, possibly of some that have moved: the name of the note (`core/board/store/board_notes.rs`) |
//! | `st:{boards}:deleted` | set | `generation board` of deleted boards whose remembered events are to be unlinked |
//! | `st:{boards}:leases` | hash | the leases of work for all boards (`scripts/redis/lease.lua`) |
//! | `st:{boards}:api-keys` | hash | API keys by name, JSON (`scripts/access/api_key.lua`) |
//! | `st:{boards}:api-key-uses` | hash | when each was last used, in milliseconds since the epoch |
//! | `st:{boards}:api-key-names`, … | | like `live`, `changes`, `sequence` and `epoch` of boards |
//! | `st:{boards}:audit`, `st:{boards}:audit-outcomes`, `st:{boards}:audit-size` | stream, hash, integer | the lines of the audit log, their outcomes by their ids, their bytes (`scripts/lib/audit.lua`) |
//! | `st:{boards}:audit-pseudonyms`, `st:{boards}:audit-members`, `st:{boards}:audit-seen` | hashes, sorted set | the pseudonyms of members in it, the members by pseudonyms, when each was last named (`scripts/audit/audit_members.lua`) |
//! | `st:{boards}:tasks` | hash | tasks for all boards by their numbers, JSON (`scripts/moderation/begin_task.lua`) |
//! | `st:{boards}:open-tasks`, `st:{boards}:ended-tasks` | sorted set | the numbers of those that have not ended, by number; of the others, by the instant at which they ended |
//! | `st:{boards}:task-number` | integer | the number of the last task |
//! | `st:{boards}:orders` | hash | standing orders by members, or by names of erased ones (`scripts/moderation/forget_order.lua`): the number of the task, and the hide as JSON |
//! | `st:{boards}:order-members`, `st:{boards}:orders-end` | sorted set | these members and names, all under score 0; those whose order has an end, by that instant |
//! | `st:{boards}:hides-end` | sorted set | `end board` by the instant at which hides of that board end |
//! | `st:{boards}:moderated` | hash | like `moving`, of boards on which members were hidden or brought back (`periods/revisions/store.rs`) |
//! | `st:{boards}:outboxes` | hash | like `moving`, of boards whose outbox may have messages (`webhooks/outbox/store.rs`) |
//! | `st:{boards}:queues` | sorted set | `generation tag` of shards whose queue may have events, by the epoch of its listing (`scripts/queue/put.lua`) |
//! | `st:{boards}:dead-letters` | hash | like `moving`, of boards that may have dead letters (`queue/dead_letters/work.rs`) |
//! | `st:{boards}:intake` | sorted set | partitions of the log, `events/3`, by their floors: the offsets assumed for shards without one (`queue/intake/`) |
//! | `st:{boards}:intake-wanted` | set | `generation tag` of shards whose closing waits until they have reached the ends of the log |
//! | `st:{boards}:webhooks` | hash | webhooks by name, JSON (`domain/webhook.rs`) |
//! | `st:{boards}:webhooks-version` | integer | changes with each change of a webhook |
//! | `st:{boards}:webhooks-due` | sorted set | names of webhooks by when they are due |
//! | `st:{boards}:webhook-deliveries:site` | hash | deliveries of a webhook by the ids of their messages, JSON (`domain/delivery.rs`) |
//! | `st:{boards}:webhook-pending:site`, `st:{boards}:webhook-dead:site`, `st:{boards}:webhook-delivered:site` | sorted set | the ids of these by when they are due, died or were delivered (`scripts/lib/deliveries.lua`) |
//! | `st:{boards}:stream-secret` | string | the secret that tokens of streams are signed with (`access/stream_tokens/model.rs`) |
//! | `st:{boards}:session:`digest | string | a session of the console by the SHA-256 of its id, JSON (`domain/session.rs`); it expires |
//! | `st:{boards}:sessions:site` | list | the keys of the sessions of an API key (`scripts/access/begin_session.lua`); a key of the configuration is named by its place there, `configuration:0` |
//! | `st:{boards}:stalenesses` | hash | instances that read from replicas: how far behind these may be, in milliseconds, and until when that is valid (`scripts/redis/staleness.lua`) |
//! | `st:{boards}:instances` | hash | what instances report about themselves, by their ids, JSON (`domain/instance.rs`) |
//! | `st:{boards}:overview` | string | the last sample of what waits or fails, JSON (`operations/overview/`) |
//! | `st:{boards}:accepted:29921760` | hash | `generation board` -> how many of its events were accepted in this minute since the epoch; it expires (`scripts/operations/count_accepted.lua`) |
//! | `st:{boards}:unneeded` | set | `generation board sharding` of data to be unlinked once nothing needs it |
//!
//! Profiles have the tags `{profiles:00}` to `{profiles:15}`, by a hash of the member. No board has such a tag.
//!
//! | key | type | holds |
//! | --- | --- | --- |
//! | `st:{profiles:07}:p:alice` | string | the profile of a member, JSON (`domain/profile.rs`) |
//! | `st:{profiles:07}:pending`, …`:approved`, …`:blocked` | sorted set | members whose name has this review status, by when it got it |
//! | `st:{profiles:07}:words` | sorted set | the words of names, with their members (`scripts/lib/name_words.lua`) |
//! | `st:{profiles:07}:words-state` | string | exists if that does: `filling` with the number of a lease, or `filled` |
//!
//! The name of a window that was removed from a board and added again has its epoch appended: `day@5`.

use std::fmt::Display;

use xxhash_rust::xxh3::xxh3_64;

use super::kinds::{Form, Kind, SEPARATOR, Slot};
use crate::domain::board::Board;
use crate::domain::delivery::DeliveryStatus;
use crate::domain::ids::{BoardId, EventId};
use crate::domain::league::Section;
use crate::domain::period::{Period, Unit};
use crate::domain::profile::ReviewStatus;
use crate::domain::secret::Digest;
use crate::domain::series::{Layout, List, Series, Standing, Track};
use crate::domain::session::BegunBy;
use crate::domain::shard::{Shard, ShardId, Sharding};
use crate::domain::webhook::WebhookName;
use crate::domain::window::Window;

/// The set of shardings of boards whose data is to be unlinked.
pub const UNNEEDED: &str = "st:{boards}:unneeded";
/// The set of deleted boards that may have left keys which are in no registry.
pub const DELETED: &str = "st:{boards}:deleted";
/// The leases of work for all boards.
pub const LEASES: &str = "st:{boards}:leases";
/// The ids of all boards.
pub const LIVE: &str = "st:{boards}:live";
/// Notes of boards that move to other shards (`core/board/store/board_notes.rs`).
pub const MOVING: &str = "st:{boards}:moving";
/// The short lists (`keep_top`) with many hidden members, by their sorted sets.
pub const NARROW: &str = "st:{boards}:narrow";
/// Board ids by the sequence number of their last change.
pub const CHANGES: &str = "st:{boards}:changes";
/// The last sequence number of a change.
pub const SEQUENCE: &str = "st:{boards}:sequence";
/// The epoch of the sequence numbers.
pub const EPOCH: &str = "st:{boards}:epoch";
/// The format of data that belongs to no board.
pub const FORMAT: &str = "st:{boards}:format";
/// The last stamp.
pub const STAMP: &str = "st:{boards}:stamp";
/// Changes that were begun but not announced.
pub const BEGUN: &str = "st:{boards}:begun";
/// Erasures that may not have ended.
pub const ERASING: &str = "st:{boards}:erasing";
/// The key of the hashes under which erasures are kept.
pub const ERASURE_KEY: &str = "st:{boards}:erasure-key";
/// The members that were erased on all boards, by keyed hashes of their ids.
pub const ERASED: &str = "st:{boards}:erased";
/// The API keys.
pub const API_KEYS: &str = "st:{boards}:api-keys";
/// When the API keys were last used.
pub const API_KEY_USES: &str = "st:{boards}:api-key-uses";
/// The audit log: its lines, their outcomes, and their size in bytes.
pub const AUDIT_LINES: [&str; 3] = [
    "st:{boards}:audit",
    "st:{boards}:audit-outcomes",
    "st:{boards}:audit-size",
];
/// The members in the audit log: pseudonyms by members, members by pseudonyms, and when each was last named.
pub const AUDIT_NAMES: [&str; 3] = [
    "st:{boards}:audit-pseudonyms",
    "st:{boards}:audit-members",
    "st:{boards}:audit-seen",
];
/// The tasks for all boards.
pub const TASKS: &str = "st:{boards}:tasks";
/// The numbers of tasks that have not ended.
pub const OPEN_TASKS: &str = "st:{boards}:open-tasks";
/// The numbers of tasks that have ended.
pub const ENDED_TASKS: &str = "st:{boards}:ended-tasks";
/// The number of the last task.
pub const TASK_NUMBER: &str = "st:{boards}:task-number";
/// The standing orders.
pub const ORDERS: &str = "st:{boards}:orders";
/// The members with a standing order.
pub const ORDER_MEMBERS: &str = "st:{boards}:order-members";
/// The members whose standing order has an end.
pub const ORDERS_END: &str = "st:{boards}:orders-end";
/// When hides of boards end.
pub const HIDES_END: &str = "st:{boards}:hides-end";
/// The boards whose results may have to be revised.
pub const MODERATED: &str = "st:{boards}:moderated";
/// The boards whose outbox may have messages.
pub const OUTBOXES: &str = "st:{boards}:outboxes";
/// The shards whose queue may have events.
pub const QUEUES: &str = "st:{boards}:queues";
/// The boards that may have dead letters.
pub const DEAD_LETTERS: &str = "st:{boards}:dead-letters";
/// The last sample of what waits or fails.
pub const OVERVIEW: &str = "st:{boards}:overview";
/// The partitions of the log, by their floors.
pub const INTAKE: &str = "st:{boards}:intake";
/// The shards that have to reach the ends of the log for a closing.
pub const INTAKE_WANTED: &str = "st:{boards}:intake-wanted";
/// The webhooks.
pub const WEBHOOKS: &str = "st:{boards}:webhooks";
/// The version of the webhooks.
pub const WEBHOOKS_VERSION: &str = "st:{boards}:webhooks-version";
/// The webhooks by when they are due.
pub const WEBHOOKS_DUE: &str = "st:{boards}:webhooks-due";
/// The prefixes of the keys of deliveries, before the name of the webhook: of all, and of pending, dead and delivered ones.
const OF_WEBHOOK: [&str; 4] = [
    "st:{boards}:webhook-deliveries",
    "st:{boards}:webhook-pending",
    "st:{boards}:webhook-dead",
    "st:{boards}:webhook-delivered",
];
/// The secret that signs tokens of streams (`access/stream_tokens/model.rs`).
pub const STREAM_SECRET: &str = "st:{boards}:stream-secret";
/// The prefix of the key of a console session, before the digest of its id.
const SESSION: &str = "st:{boards}:session";
/// The prefix of the key of the list of an API key's sessions.
pub const SESSIONS: &str = "st:{boards}:sessions";
/// What instances report about themselves.
pub const INSTANCES: &str = "st:{boards}:instances";
/// How far behind the replicas may be that instances read from.
pub const STALENESSES: &str = "st:{boards}:stalenesses";
/// The keys for announcing changes (`scripts/lib/announce.lua`): all ids, changes, sequence, and epoch.
pub type Channel = [&'static str; 4];
/// The announcements of boards.
pub const OF_BOARDS: Channel = [LIVE, CHANGES, SEQUENCE, EPOCH];
/// The announcements of API keys.
pub const OF_API_KEYS: Channel = [
    "st:{boards}:api-key-names",
    "st:{boards}:api-key-changes",
    "st:{boards}:api-key-sequence",
    "st:{boards}:api-key-epoch",
];
/// The tag of the keys that all boards share; a board may have it, too.
const SHARED_TAG: &str = "boards";

/// The number of buckets of profiles; it can never change.
const PROFILE_BUCKETS: u64 = 16;

/// The profiles in one slot.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct ProfileBucket(u64);

impl ProfileBucket {
    /// The bucket of a member.
    pub fn of(member: &str) -> Self {
        Self(xxh3_64(member.as_bytes()) % PROFILE_BUCKETS)
    }

    /// All buckets.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..PROFILE_BUCKETS).map(Self)
    }

    /// The tag of its keys.
    pub fn tag(self) -> String {
        format!("profiles:{:02}", self.0)
    }
}

/// The key of the profile of a member.
pub fn profile(member: &str) -> String {
    format!("st:{{{}}}:p:{member}", ProfileBucket::of(member).tag())
}

/// The key of the members of a bucket whose name has this review status.
pub fn reviews(bucket: ProfileBucket, status: ReviewStatus) -> String {
    format!("st:{{{}}}:{}", bucket.tag(), status.name())
}

/// The key of how many events of each board were accepted in a minute since the epoch.
pub fn accepted(minute: i64) -> String {
    format!("st:{{boards}}:accepted:{minute}")
}

/// The index of the words of a bucket's names (`scripts/lib/name_words.lua`).
pub fn name_words(bucket: ProfileBucket) -> String {
    format!("st:{{{}}}:words", bucket.tag())
}

/// Whether that index exists, and has all names.
pub fn name_words_state(bucket: ProfileBucket) -> String {
    format!("st:{{{}}}:words-state", bucket.tag())
}

/// The keys of a webhook, in the order of its scripts (`scripts/lib/deliveries.lua`).
pub fn webhook_keys(name: &WebhookName) -> [String; 7] {
    let of_all = [WEBHOOKS, WEBHOOKS_VERSION, WEBHOOKS_DUE].map(str::to_owned);
    let [webhooks, version, due] = of_all;
    let [all, pending, dead, delivered] = OF_WEBHOOK.map(|key| format!("{key}:{name}"));
    [webhooks, version, due, all, pending, dead, delivered]
}

/// The key of the deliveries of a webhook that have this status.
pub fn deliveries_with(name: &WebhookName, status: DeliveryStatus) -> String {
    let [.., pending, dead, delivered] = webhook_keys(name);
    match status {
        DeliveryStatus::Pending => pending,
        DeliveryStatus::Dead => dead,
        DeliveryStatus::Delivered => delivered,
    }
}

/// The key of a console session, by the digest of its id.
pub fn session(id: &Digest) -> String {
    format!("{SESSION}:{}", id.hexadecimal())
}

/// The key of the list of an API key's sessions.
pub fn sessions(begun_by: &BegunBy) -> String {
    match begun_by {
        BegunBy::Key(name) => format!("{SESSIONS}:{name}"),
        BegunBy::Configuration(place) => format!("{SESSIONS}:configuration:{place}"),
    }
}

/// The key of a board's definition, or of what a shard knows of it.
pub fn head(tag: &str) -> String {
    format!("st:{{{tag}}}")
}

/// The key of the registry of a board or a shard.
pub fn registry(tag: &str, generation: u64) -> String {
    in_generation(tag, generation, Kind::Registry.code())
}

/// The key of the registry of a shard's counts of quotas that don't expire. It stays in its place when the board moves.
pub fn counts_registry(tag: &str, generation: u64) -> String {
    in_generation(tag, generation, Kind::CountsRegistry.code())
}

/// The key of the registry of what a board has under its own tag: results, and related data.
pub fn results_registry(id: &BoardId, generation: u64) -> String {
    in_generation(id.as_str(), generation, Kind::ResultsRegistry.code())
}

/// The key of a board's messages that were not handed on yet.
pub fn outbox(id: &BoardId, generation: u64) -> String {
    in_generation(id.as_str(), generation, Kind::Outbox.code())
}

/// The key of a kind that a board has one of under its own tag.
pub fn of_board(board: &Board, kind: Kind) -> String {
    debug_assert_eq!(kind.form(), Form::Single, "{kind:?}");
    in_generation(board.id.as_str(), board.generation, kind.code())
}

/// A key of a kind under a board's own tag, for a window with results.
pub fn of_results(board: &Board, kind: Kind, window: Window) -> String {
    debug_assert_eq!(kind.slot(), Slot::Board, "{kind:?}");
    let (id, code) = (board.id.as_str(), kind.code());
    let name = named_since(board.epoch(Some(window)), window);
    in_generation(id, board.generation, format_args!("{code}:{name}"))
}

/// The trail of a shard.
pub fn trail(shard: &Shard) -> String {
    named(shard, Kind::Trail, "trail")
}

/// The key that makes calls that hide members of a board wait.
pub fn moderation_hold(board: &Board) -> String {
    let name = format_args!("{}:moderation", Kind::Hold.code());
    in_generation(board.id.as_str(), board.generation, name)
}

/// The head of a shard that has counts of quotas. It is the shard's own head only if the counts are stored with the board,
/// since they stay in their place when the board moves.
pub fn counts_head(tag: &str, sharding: Sharding) -> String {
    if sharding.is_together() {
        head(tag)
    } else {
        format!("{}:{}", head(tag), Kind::CountsHead.code())
    }
}

/// The key of a kind that a shard has one of.
pub fn single(shard: &Shard, kind: Kind) -> String {
    single_of(shard.tag(), shard.generation, kind)
}

/// Like [`single`], for the tag of a shard.
pub fn single_of(tag: &str, generation: u64, kind: Kind) -> String {
    debug_assert_eq!(kind.form(), Form::Single, "{kind:?}");
    in_generation(tag, generation, kind.code())
}

/// A key of a kind that a shard has several of.
pub fn named(shard: &Shard, kind: Kind, name: impl Display) -> String {
    debug_assert_eq!(kind.form(), Form::Named, "{kind:?}");
    let code = kind.code();
    in_generation(shard.tag(), shard.generation, format_args!("{code}:{name}"))
}

fn in_generation(tag: &str, generation: u64, name: impl Display) -> String {
    format!("st:{{{tag}}}:{generation}:{name}")
}

/// The name of a key of a shard after the generation.
fn name_in<'a>(shard: &Shard, key: &'a str) -> Option<&'a str> {
    key.strip_prefix(&in_generation(shard.tag(), shard.generation, ""))
}

/// The kind of a key of a shard in a registry; `None` for any other key.
pub fn kind_of(shard: &Shard, key: &str) -> Option<Kind> {
    Kind::of_name(name_in(shard, key)?)
}

/// A parsed key.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Name {
    /// Its board.
    pub id: BoardId,
    /// Its shard.
    pub shard: ShardId,
    /// The generation of the board; `None` for keys without one.
    pub generation: Option<u64>,
    /// Its kind; `None` if no kind has such a key.
    pub kind: Option<Kind>,
}

/// Parses a key. `None` for keys that all boards share, and for foreign keys.
pub fn take_apart(key: &str) -> Option<Name> {
    let (tag, rest) = key.strip_prefix("st:{")?.split_once('}')?;
    let (id, shard) = ShardId::of_tag(tag)?;
    let name = |generation, kind| {
        Some(Name {
            id,
            shard,
            generation,
            kind,
        })
    };
    if rest.is_empty() {
        return name(None, Some(Kind::Head));
    }
    let rest = rest.strip_prefix(':')?;
    if rest == Kind::CountsHead.code() {
        return name(None, Some(Kind::CountsHead));
    }
    let parts = rest.split_once(':');
    match parts.and_then(|(generation, name)| Some((generation.parse().ok()?, name))) {
        Some((generation, code)) => name(Some(generation), Kind::of_name(code)),
        // A board may have that name, but then its generation is a number.
        None if tag == SHARED_TAG => None,
        None => name(None, None),
    }
}

/// The list of a series in a key; `None` if it is not one.
fn list_of(series: &str) -> Option<List> {
    let (series, epoch) = series.split_once('@').unwrap_or((series, "0"));
    let _: u64 = epoch.parse().ok()?;
    let list = series.strip_prefix("raw-").unwrap_or(series);
    let unit = |prefix| Unit::named(list.strip_prefix(prefix)?);
    if list == "initial-scores" {
        return Some(List::InitialScores);
    }
    if let Some(unit) = unit("base-") {
        return Some(List::Base(unit));
    }
    if let Some(unit) = unit("initial-") {
        return Some(List::Initial(unit));
    }
    Some(match list.parse().ok()? {
        Window::Period(unit) => List::Period(unit),
        rolling @ Window::Rolling { .. } => List::Rolling(rolling),
    })
}

/// The standing with this sorted set, if the board's calendar knows its period. Its data may be of an earlier epoch.
pub fn standing_of(shard: &Shard, zset: &str) -> Option<Standing> {
    let (_code, name) = name_in(shard, zset)?.split_once(':')?;
    let (series, key) = name.split_once(':')?;
    let list = list_of(series)?;
    let track = if series.starts_with("raw-") {
        Track::Raw
    } else {
        Track::Shown
    };
    let series = Series { list, track };
    let unit = series.window().map_or(Unit::All, Window::unit);
    Some(Standing::of(series, shard.section_named(unit, key)?))
}

/// The sorted set that a standing's key belongs to.
pub fn sorted_set_of(key: &str) -> &str {
    let part = key
        .rsplit_once(':')
        .filter(|(_, code)| Kind::with(Form::Part, code).is_some());
    part.map_or(key, |(zset, _)| zset)
}

/// The key of the state of the series of the derived standing with this sorted set.
pub fn state_of(shard: &Shard, zset: &str) -> Option<String> {
    let (_code, name) = name_in(shard, zset)?.split_once(':')?;
    let (series, _period) = name.split_once(':')?;
    Some(named(shard, Kind::State, series))
}

/// A key without the common part of the shard's keys. For a standing, or its state, only the series and period.
pub fn short<'a>(shard: &Shard, key: &'a str) -> &'a str {
    let name = name_in(shard, key).unwrap_or(key);
    match (name.split_once(':'), kind_of(shard, sorted_set_of(key))) {
        (Some((_code, name)), Some(kind)) if kind.is_standing() || kind == Kind::State => name,
        _ => name,
    }
}

/// A pattern for the keys of all boards that expire by themselves, and are in no registry.
pub fn swept_pattern() -> String {
    let codes = swept_codes();
    format!("st:{{*}}:*:[{codes}]:*")
}

/// The codes of the swept kinds, a letter each.
pub fn swept_codes() -> String {
    Kind::ALL
        .iter()
        .filter(|kind| kind.is_swept())
        .map(|kind| kind.code())
        .collect()
}

/// A pattern for the keys of a board, or of all boards.
pub fn pattern(id: Option<&BoardId>) -> String {
    // Ids have no characters with a meaning in patterns.
    id.map_or_else(|| "st:{*".to_owned(), |id| format!("st:{{{id}[:}}]*"))
}

/// The corresponding key of another shard of the board.
pub fn moved(name: &str, from: &Shard, to: &Shard) -> Option<String> {
    let name = name_in(from, name)?;
    Some(in_generation(to.tag(), to.generation, name))
}

/// The keys of the standing with this sorted set, [`width`] of them.
pub fn of_sorted_set(zset: String, layout: Layout) -> impl Iterator<Item = String> {
    let parts: Vec<String> = [
        (Kind::Members, layout.hashed),
        (Kind::Distinct, layout.dense),
        (Kind::Total, layout.summed),
    ]
    .into_iter()
    .filter(|(_, is_there)| *is_there)
    .map(|(kind, _)| part(&zset, kind))
    .collect();
    std::iter::once(zset).chain(parts)
}

/// The key of a part of the standing with this sorted set.
pub fn part(zset: &str, kind: Kind) -> String {
    debug_assert_eq!(kind.form(), Form::Part, "{kind:?}");
    format!("{zset}:{}", kind.code())
}

/// The keys of the hidden list of the standing with this sorted set.
pub fn hidden_parts(zset: &str) -> [String; 3] {
    [Kind::HiddenList, Kind::HiddenScores, Kind::HiddenState].map(|kind| part(zset, kind))
}

/// A captured change, parsed (`scripts/lib/capture.lua`).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Captured<'a> {
    /// The kind of the changed key.
    pub kind: Kind,
    /// The changed key; for a standing its sorted set.
    pub key: &'a str,
    /// The member concerned.
    pub member: Option<&'a str>,
}

impl<'a> Captured<'a> {
    /// Parses a captured change; `None` if it is invalid.
    pub fn parse(captured: &'a str) -> Option<Self> {
        let (code, key) = captured.split_once(SEPARATOR)?;
        let kind = Kind::ALL.iter().find(|kind| kind.code() == code)?;
        let (base, member) = match key.split_once(SEPARATOR) {
            Some((base, member)) => (base, Some(member)),
            None => (key, None),
        };
        let key = if kind.is_by_member() { base } else { key };
        Some(Self {
            kind: *kind,
            key,
            member,
        })
    }
}

/// The captured form of a change of a whole key.
pub fn captured(kind: Kind, key: &str) -> String {
    format!("{}{SEPARATOR}{key}", kind.code())
}

/// The keys that most scripts begin with: the head and the registry.
pub fn head_and_registry(shard: &Shard) -> Vec<String> {
    let tag = shard.tag();
    vec![head(tag), registry(tag, shard.generation)]
}

/// The head and the registry of a shard, and the keys of its queue (`scripts/lib/queue.lua`).
pub fn queue(shard: &Shard) -> Vec<String> {
    let mut keys = head_and_registry(shard);
    let of_queue = [Kind::Queue, Kind::QueueIds, Kind::QueueState];
    keys.extend(of_queue.map(|kind| single(shard, kind)));
    keys
}

/// The keys of [`queue`], and that of the offsets that the shard has taken from the log (`scripts/queue/take.lua`).
pub fn intake(shard: &Shard) -> Vec<String> {
    let mut keys = queue(shard);
    keys.push(single(shard, Kind::Intake));
    keys
}

/// The key of a remembered event id.
pub fn event(shard: &Shard, id: &EventId) -> String {
    named(shard, Kind::EventId, id)
}

/// The key of the state of a derived series.
pub fn state(shard: &Shard, series: Series) -> String {
    named(shard, Kind::State, series_name(shard, series))
}

/// The name of a series in its keys.
pub fn series_name(shard: &Shard, series: Series) -> String {
    let track = match series.track {
        Track::Shown => "",
        Track::Raw => "raw-",
    };
    let window = series.window();
    match series.list {
        List::Period(unit) => recorded(shard, window, format_args!("{track}{unit}")),
        List::Base(unit) => recorded(shard, window, format_args!("{track}base-{unit}")),
        List::Rolling(rolling) => recorded(shard, window, format_args!("{track}{rolling}")),
        List::Initial(unit) => recorded(shard, window, format_args!("{track}initial-{unit}")),
        List::InitialScores => recorded(shard, window, format_args!("{track}initial-scores")),
    }
}

/// The name of something that is recorded from the epoch of a window.
fn recorded(shard: &Shard, window: Option<Window>, name: impl Display) -> String {
    named_since(shard.epoch(window), name)
}

fn named_since(epoch: u64, name: impl Display) -> String {
    match epoch {
        0 => name.to_string(),
        epoch => format!("{name}@{epoch}"),
    }
}

/// The key of what members have won in a period.
pub fn rewards(shard: &Shard, section: &Section) -> String {
    let series = of_unit(shard, section.period.unit);
    let section = shard.section_key(section);
    named(shard, Kind::Rewards, format_args!("{series}:{section}"))
}

/// The key of the voters of a period.
pub fn voters(shard: &Shard, period: &Period) -> String {
    of_period(shard, Kind::Voters, period)
}

/// A key of a kind that a shard has one of for each period.
pub fn of_period(shard: &Shard, kind: Kind, period: &Period) -> String {
    let series = of_unit(shard, period.unit);
    let period = shard.calendar.key(period);
    named(shard, kind, format_args!("{series}:{period}"))
}

/// The key of the seats of a cohort.
pub fn seats(shard: &Shard, section: &Section) -> String {
    let series = Series::shown(List::Period(section.period.unit));
    part(
        &sorted_set(shard, &Standing::of(series, *section)),
        Kind::Seats,
    )
}

/// The keys of the seats of a tier: their number, and the members to whom one was suggested.
pub fn of_tier_seats(shard: &Shard, period: &Period, tier: u8) -> [String; 2] {
    [Kind::Tiers, Kind::Taking].map(|kind| of_tier(shard, kind, period, tier))
}

/// A key of a kind about the seats of a tier for a period.
pub fn of_tier(shard: &Shard, kind: Kind, period: &Period, tier: u8) -> String {
    let period = of_period(shard, kind, period);
    format!("{period}/{tier}")
}

/// The name of a unit in keys of its periods.
pub fn of_unit(shard: &Shard, unit: Unit) -> String {
    recorded(shard, Some(Window::Period(unit)), unit)
}

/// The key of the index of the periods of a unit that have data.
pub fn periods(shard: &Shard, unit: Unit) -> String {
    named(shard, Kind::Periods, of_unit(shard, unit))
}

/// The key of the voters of a member in a period.
pub fn member_voters(voters: &str, member: &str) -> String {
    format!("{voters}{SEPARATOR}{member}")
}

/// The number of keys of a standing.
pub fn width(layout: Layout) -> usize {
    1 + [layout.hashed, layout.dense, layout.summed]
        .map(usize::from)
        .iter()
        .sum::<usize>()
}

/// The keys of a standing, [`width`] of them: sorted set, members, distinct scores, total.
pub fn standing(shard: &Shard, standing: &Standing) -> impl Iterator<Item = String> + use<> {
    of_sorted_set(sorted_set(shard, standing), shard.layout())
}

/// The key of a standing's sorted set.
pub fn sorted_set(shard: &Shard, standing: &Standing) -> String {
    let kind = match standing.series.list {
        List::Period(_) | List::Base(_) => Kind::Standing,
        List::Rolling(_) | List::Initial(_) => Kind::Derived,
        List::InitialScores => Kind::InitialScores,
    };
    let series = series_name(shard, standing.series);
    let section = shard.section_key(&standing.section());
    named(shard, kind, format_args!("{series}:{section}"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::kinds::Slot;
    use super::*;
    use crate::core::write::store::reservations::Token;
    use crate::domain::time::Timestamp;
    use crate::domain::window::Window;

    fn board(json: &str, epochs: &[(Window, u64)]) -> Board {
        let definition = serde_json::from_str(json).unwrap();
        let id = BoardId::parse("run_hero").unwrap();
        Board::new(id, definition, 7, 3, epochs.iter().copied().collect())
    }

    /// The only shard of a board, or its last one.
    fn shard(json: &str, epochs: &[(Window, u64)]) -> Shard {
        Arc::new(board(json, epochs)).shards().pop().unwrap()
    }

    fn shown(list: List) -> Series {
        Series::shown(list)
    }

    fn keys(shard: &Shard, series: Series, at: &str) -> Vec<String> {
        let unit = series.window().map_or(Unit::All, Window::unit);
        let period = shard
            .calendar
            .containing(unit, Timestamp::parse(at).unwrap());
        standing(shard, &Standing::of(series, period)).collect()
    }

    #[test]
    fn profiles_are_in_slots_that_no_board_has() {
        let bucket = ProfileBucket::of("alice");
        let (key, tag) = (profile("alice"), bucket.tag());
        assert_eq!(key, format!("st:{{{tag}}}:p:alice"));
        assert_eq!(
            reviews(bucket, ReviewStatus::Pending),
            format!("st:{{{tag}}}:pending")
        );
        let buckets: Vec<_> = ProfileBucket::all().collect();
        assert_eq!(buckets.len(), 16);
        for bucket in buckets {
            assert_eq!(ShardId::of_tag(&bucket.tag()), None, "{bucket:?}");
        }
        for member in ["alice", "}:1:e:x", "a:b"] {
            assert_eq!(take_apart(&profile(member)), None, "{member}");
            let words = name_words(ProfileBucket::of(member));
            assert_eq!(take_apart(&words), None, "{member}");
        }
    }

    #[test]
    fn every_key_has_exactly_this_name() {
        let rolling: Window = "last-7-days".parse().unwrap();
        let first = shard(
            r#"{"windows": ["hour"], "ranking": "dense", "timezone": "Asia/Shanghai"}"#,
            &[],
        );
        assert_eq!(head(first.tag()), "st:{run_hero}");
        assert_eq!(registry(first.tag(), 7), "st:{run_hero}:7:keys");
        assert_eq!(
            event(&first, &EventId::parse("run-88231").unwrap()),
            "st:{run_hero}:7:e:run-88231"
        );
        assert_eq!(
            keys(
                &first,
                shown(List::Period(Unit::Hour)),
                "2026-11-21T00:30:00Z"
            ),
            [
                "st:{run_hero}:7:s:hour:2026-11-21T00:00Z",
                "st:{run_hero}:7:s:hour:2026-11-21T00:00Z:members",
                "st:{run_hero}:7:s:hour:2026-11-21T00:00Z:scores",
            ]
        );
        let plain = shard(
            r#"{"windows": ["day"], "ties": "member"}"#,
            &[(Window::Period(Unit::Day), 2), (rolling, 5)],
        );
        let at = "2026-11-21T00:30:00Z";
        assert_eq!(
            keys(&plain, shown(List::Period(Unit::Day)), at),
            ["st:{run_hero}:7:s:day@2:2026-11-21"]
        );
        assert_eq!(
            keys(&plain, shown(List::Base(Unit::Day)), at),
            ["st:{run_hero}:7:s:base-day@2:2026-11-21"]
        );
        assert_eq!(
            keys(&plain, shown(List::Rolling(rolling)), at),
            ["st:{run_hero}:7:d:last-7-days@5:2026-11-21"]
        );
        assert_eq!(
            state(&plain, shown(List::Rolling(rolling))),
            "st:{run_hero}:7:state:last-7-days@5"
        );
        assert_eq!(
            keys(&plain, shown(List::Period(Unit::All)), at),
            ["st:{run_hero}:7:s:all:all"]
        );
        let vote = shard(
            r#"{"windows": ["day"], "ties": "member", "weight": {}, "initial": ["day"], "uniques": "member"}"#,
            &[(Window::Period(Unit::Day), 2)],
        );
        assert_eq!(
            keys(&vote, shown(List::Initial(Unit::Day)), at),
            [
                "st:{run_hero}:7:d:initial-day@2:2026-11-21",
                "st:{run_hero}:7:d:initial-day@2:2026-11-21:total",
            ]
        );
        assert_eq!(
            keys(
                &vote,
                vote.series(Window::Period(Unit::Day), Track::Raw),
                at
            )[0],
            "st:{run_hero}:7:s:raw-day@2:2026-11-21"
        );
        assert_eq!(
            standing(&vote, &vote.initial_scores()).next().unwrap(),
            "st:{run_hero}:7:i:initial-scores:all"
        );
        let shard = &shard(
            r#"{"windows": ["day"], "shards": 4, "ties": "member"}"#,
            &[],
        );
        assert_eq!(head(shard.tag()), "st:{run_hero:4:3}");
        assert_eq!(
            keys(shard, shown(List::Period(Unit::Day)), at),
            ["st:{run_hero:4:3}:7:s:day:2026-11-21"]
        );
        let period = vote
            .calendar
            .containing(Unit::Day, Timestamp::parse(at).unwrap());
        assert_eq!(
            of_period(&vote, Kind::Turnout, &period),
            "st:{run_hero}:7:turnout:day@2:2026-11-21"
        );
        assert_eq!(
            member_voters(&voters(&vote, &period), "a"),
            "st:{run_hero}:7:voters:day@2:2026-11-21\u{1f}a"
        );
    }

    #[test]
    fn keys_shared_by_all_boards_are_distinct() {
        assert_eq!(
            [
                LIVE,
                CHANGES,
                SEQUENCE,
                EPOCH,
                FORMAT,
                STAMP,
                BEGUN,
                ERASING,
                ERASURE_KEY,
                MOVING,
                UNNEEDED,
                DELETED,
                LEASES,
                NARROW,
                QUEUES,
                DEAD_LETTERS,
                OVERVIEW,
                INTAKE,
                INTAKE_WANTED,
                STREAM_SECRET
            ],
            [
                "live",
                "changes",
                "sequence",
                "epoch",
                "format",
                "stamp",
                "begun",
                "erasing",
                "erasure-key",
                "moving",
                "unneeded",
                "deleted",
                "leases",
                "narrow",
                "queues",
                "dead-letters",
                "overview",
                "intake",
                "intake-wanted",
                "stream-secret"
            ]
            .map(|name| format!("st:{{boards}}:{name}"))
        );
        let webhook = WebhookName::parse("7").unwrap();
        for key in webhook_keys(&webhook) {
            assert_eq!(take_apart(&key), None, "{key} has no board");
        }
        let session = session(&Digest::of("id"));
        assert_eq!(take_apart(&session), None, "{session} has no board");
        let sessions = sessions(&BegunBy::Configuration(0));
        assert_eq!(take_apart(&sessions), None, "{sessions} has no board");
        let of_api_keys = [API_KEYS, API_KEY_USES].into_iter().chain(OF_API_KEYS);
        for key in of_api_keys {
            assert!(key.starts_with("st:{boards}:api-key"), "{key}");
            assert_eq!(take_apart(key), None, "it has no board");
        }
    }

    fn keys_of(shard: &Shard, kind: Kind) -> Vec<String> {
        let day = shard
            .calendar
            .containing(Unit::Day, Timestamp::parse("2026-11-21T00:30:00Z").unwrap());
        let zset = |list| sorted_set(shard, &Standing::of(Series::shown(list), day));
        let rolling = "last-7-days".parse().unwrap();
        let derived = || [List::Rolling(rolling), List::Initial(Unit::Day)].map(zset);
        let cohort = || {
            let (period, cohort) = (day, "1-17".parse().ok());
            let series = Series::shown(List::Period(Unit::Day));
            sorted_set(shard, &Standing::of(series, Section { period, cohort }))
        };
        let recorded = || {
            let [period, base] = [List::Period(Unit::Day), List::Base(Unit::Day)].map(zset);
            [period, base, cohort()]
        };
        let initial = || sorted_set(shard, &shard.initial_scores());
        let token = Token::from_bits(0x12_34ab);
        match kind {
            Kind::Head => vec![head(shard.tag())],
            Kind::CountsHead => vec![counts_head(shard.tag(), Sharding::first(16))],
            Kind::Registry => vec![registry(shard.tag(), shard.generation)],
            Kind::CountsRegistry => vec![counts_registry(shard.tag(), shard.generation)],
            Kind::ResultsRegistry => vec![results_registry(&shard.id, shard.generation)],
            Kind::Revised | Kind::ToRevise | Kind::RevisedPeriods | Kind::Revocations => {
                vec![of_board(shard, kind)]
            }
            Kind::Hold => vec![moderation_hold(shard)],
            Kind::Results
            | Kind::FinalPeriods
            | Kind::Digests
            | Kind::Revisions
            | Kind::RevisedMembers => {
                vec![of_results(shard, kind, Window::Period(Unit::Day))]
            }
            Kind::Outbox => vec![outbox(&shard.id, shard.generation)],
            Kind::Standing => recorded().to_vec(),
            Kind::Derived => derived().to_vec(),
            Kind::InitialScores => vec![initial()],
            Kind::Members
            | Kind::Distinct
            | Kind::Total
            | Kind::Folded
            | Kind::HiddenList
            | Kind::HiddenScores
            | Kind::HiddenState
            | Kind::Seats
            | Kind::Decided => recorded()
                .into_iter()
                .chain(derived())
                .chain([initial()])
                .map(|zset| part(&zset, kind))
                .collect(),
            Kind::State => vec![state(shard, Series::shown(List::Rolling(rolling)))],
            Kind::Periods => vec![periods(shard, Unit::Day)],
            Kind::Turnout | Kind::CutOff | Kind::RewardIndex => vec![of_period(shard, kind, &day)],
            Kind::Voters => vec![voters(shard, &day)],
            Kind::Tiers | Kind::Taking => vec![of_tier(shard, kind, &day, 1)],
            Kind::Rewards => vec![rewards(shard, &day.into())],
            Kind::MemberVoters => ["a", "a:b", ":members"]
                .map(|member| member_voters(&voters(shard, &day), member))
                .to_vec(),
            Kind::EventId => ["x1", "é}:x", "s:day:members"]
                .map(|id| event(shard, &EventId::parse(id).unwrap()))
                .to_vec(),
            Kind::RefusedEvent => vec![named(shard, kind, "x1")],
            Kind::Trail => vec![trail(shard)],
            Kind::EventToken | Kind::Void => vec![named(shard, kind, token)],
            Kind::Quota => vec![named(shard, kind, "0:once:total")],
            Kind::EventIndex => ["taken", "member:many:chunks"]
                .map(|name| named(shard, kind, name))
                .to_vec(),
            Kind::Sketch => vec![named(shard, kind, 3)],
            Kind::Reserved
            | Kind::Reserving
            | Kind::Changes
            | Kind::Copied
            | Kind::Scratch
            | Kind::Corrected
            | Kind::Watched
            | Kind::PastInitial
            | Kind::Events
            | Kind::Hides
            | Kind::Erased
            | Kind::Erasing
            | Kind::Hidden
            | Kind::HideJournal
            | Kind::Players
            | Kind::Played
            | Kind::Queue
            | Kind::QueueIds
            | Kind::QueueState
            | Kind::Intake
            | Kind::DeadLetters => vec![single(shard, kind)],
        }
    }

    #[test]
    fn every_kind_is_recognised_by_its_keys() {
        let json = r#"{"windows": ["day", "last-7-days"], "initial": ["day"], "shards": 4}"#;
        let mut sharded = board(json, &[(Window::Period(Unit::Day), 2)]);
        sharded.placement = sharded.placement.towards(2).closing();
        let sharded = Arc::new(sharded);
        let [from, to] = [
            &sharded.shards()[3],
            &sharded.shards_of(sharded.placement.next.unwrap().to)[1],
        ];
        for kind in Kind::ALL {
            for key in keys_of(from, *kind) {
                let name = take_apart(&key).unwrap();
                assert_eq!(name.kind, Some(*kind), "{key}");
                if kind.slot() == Slot::Board {
                    assert!(name.shard.of.is_together(), "{key} stays with the board");
                    continue;
                }
                assert_eq!(name.shard, from.shard_id, "{key}");
                if kind.form() == Form::Head {
                    continue;
                }
                assert_eq!(name.generation, Some(7), "{key}");
                assert_eq!(kind_of(from, &key), Some(*kind), "{key}");
                let there = moved(&key, from, to).unwrap();
                assert!(keys_of(to, *kind).contains(&there), "{there}");
                assert_eq!(kind_of(from, &there), None, "of another shard");
                let is_letter = swept_codes().contains(kind.code());
                assert_eq!(
                    is_letter && kind.code().len() == 1,
                    kind.is_swept(),
                    "{kind:?}"
                );
            }
        }
        assert_eq!(swept_pattern(), "st:{*}:*:[extvqhr]:*");
    }

    #[test]
    fn a_captured_key_is_recognised_by_its_kind() {
        let shard = shard(r#"{"windows": ["day"]}"#, &[]);
        for kind in Kind::ALL {
            for key in keys_of(&shard, *kind) {
                let member = key.split_once(SEPARATOR).map(|(_, member)| member);
                let change = captured(*kind, &key);
                let told = Captured::parse(&change);
                let key = key.as_str();
                let kind = *kind;
                assert_eq!(told, Some(Captured { kind, key, member }));
            }
        }
        let [zset] = &keys_of(&shard, Kind::Standing)[..1] else {
            panic!("no standing")
        };
        let change = format!("s\u{1f}{zset}\u{1f}a:members");
        let told = Captured {
            kind: Kind::Standing,
            key: zset,
            member: Some("a:members"),
        };
        assert_eq!(Captured::parse(&change), Some(told));
        assert_eq!(Captured::parse("unknown\u{1f}key"), None);
    }

    #[test]
    fn a_key_names_its_board_and_purpose() {
        let id = BoardId::parse("run_hero").unwrap();
        let [whole, part] = [(1, 0), (16, 3)].map(|(shards, index)| ShardId {
            index,
            of: Sharding::first(shards),
        });
        let data = Some(Kind::Standing);
        for (key, of, generation, kind) in [
            ("st:{run_hero}", whole, None, Some(Kind::Head)),
            ("st:{run_hero:16:3}", part, None, Some(Kind::Head)),
            (
                "st:{run_hero:16:3}:counts",
                part,
                None,
                Some(Kind::CountsHead),
            ),
            ("st:{run_hero}:other", whole, None, None),
            ("st:{run_hero}:", whole, None, None),
            ("st:{run_hero}:7:s:day:2026-11-21", whole, Some(7), data),
            ("st:{run_hero}:x:s:day:2026-11-21", whole, None, None),
            ("st:{run_hero}:7:days", whole, Some(7), None),
            ("st:{run_hero}:7:day:2026-11-21", whole, Some(7), None),
            ("st:{run_hero}:7:keys:more", whole, Some(7), None),
        ] {
            let name = Name {
                id: id.clone(),
                shard: of,
                generation,
                kind,
            };
            assert_eq!(take_apart(key), Some(name), "{key}");
        }
        for other in ["other", "st:{boards}:live", "st:{run_hero:16:99}", LIVE] {
            assert_eq!(take_apart(other), None, "{other}");
        }
        let named = take_apart("st:{boards}:3:keys").unwrap();
        assert_eq!(named.id.as_str(), "boards");
        let shard = &shard(r#"{"windows": ["day"], "shards": 4}"#, &[]);
        let zset = "st:{run_hero:4:3}:7:d:last-2-hours@5:2026-11-21T00:00Z";
        assert_eq!(sorted_set_of(&format!("{zset}:total")), zset);
        let state = "st:{run_hero:4:3}:7:state:last-2-hours@5";
        assert_eq!(state_of(shard, zset).as_deref(), Some(state));
        for (key, expected) in [
            (zset, "last-2-hours@5:2026-11-21T00:00Z"),
            (
                &format!("{zset}:total"),
                "last-2-hours@5:2026-11-21T00:00Z:total",
            ),
            (state, "last-2-hours@5"),
            (
                "st:{run_hero:4:3}:7:voters:day:2026-11-21",
                "voters:day:2026-11-21",
            ),
            ("st:{run_hero:4:3}:7:keys", "keys"),
            ("other", "other"),
        ] {
            assert_eq!(short(shard, key), expected);
        }
    }

    #[test]
    fn the_standing_of_a_key_is_parsed_back() {
        let vote = shard(
            r#"{"windows": ["day", "hour", "last-7-days"], "weight": {}, "initial": ["day"],
                "carryover": {"day": 0.5}, "timezone": "Asia/Shanghai"}"#,
            &[(Window::Period(Unit::Day), 2)],
        );
        let at = Timestamp::parse("2026-11-21T00:30:00Z").unwrap();
        let rolling = "last-7-days".parse().unwrap();
        for list in [
            List::Period(Unit::Day),
            List::Period(Unit::Hour),
            List::Base(Unit::Day),
            List::Rolling(rolling),
            List::Initial(Unit::Day),
        ] {
            for track in [Track::Shown, Track::Raw] {
                let series = Series { list, track };
                let unit = series.window().unwrap().unit();
                let period = vote.calendar.containing(unit, at);
                let standing = Standing::of(series, period);
                let key = sorted_set(&vote, &standing);
                assert_eq!(standing_of(&vote, &key), Some(standing), "{key}");
            }
        }
        let league = shard(
            r#"{"windows": ["week"], "score_min": 0, "finalize": "0s", "shards": 16,
                "league": {"tiers": [{"name": "bronze", "promote": 0, "demote": 0}]}}"#,
            &[],
        );
        let period = league.calendar.containing(Unit::Week, at);
        let series = Series::shown(List::Period(Unit::Week));
        let cohort = "1-17".parse().ok();
        let standing = Standing::of(series, Section { period, cohort });
        let key = sorted_set(&league, &standing);
        let expected = "st:{run_hero:16:15}:7:s:week:2026-11-16/1-17";
        assert_eq!(key, expected);
        assert_eq!(standing_of(&league, &key), Some(standing));
        let scores = vote.initial_scores();
        let key = sorted_set(&vote, &scores);
        assert_eq!(standing_of(&vote, &key), Some(scores));
    }

    #[test]
    fn reservations_have_distinct_keys() {
        let shard = &shard(r#"{"windows": ["day"], "shards": 4}"#, &[]);
        let token = Token::from_bits(0x12_34ab);
        assert_eq!(
            [
                single(shard, Kind::Reserved),
                single(shard, Kind::Reserving),
                named(shard, Kind::EventToken, token),
                named(shard, Kind::Void, token)
            ],
            ["reserved", "reserving", "t:rSjEAAAAAAA", "v:rSjEAAAAAAA"]
                .map(|name| format!("st:{{run_hero:4:3}}:7:{name}"))
        );
    }
}
