//! The Lua scripts: their names and sources. The build joins each with the fragments that it uses (`script/join.rs`).
//!
//! `#!lua` must be the first bytes: it makes a cluster refuse a script that accesses a key of another slot, and makes Redis
//! refuse the whole script, rather than fail half-way, if it can't write (out of memory, disk full, a replica).
//! `flags=no-writes` is for scripts that only read. `flags=allow-oom` is for scripts that are needed to free memory and add
//! a few bytes at most, for those that count voters and immediately free what they add, and for the one that lists hidden
//! members, without which nothing of a board could be read. `allow-cross-slot-keys` is for the one script that works on all
//! slots.

#[cfg(test)]
mod join;
mod words;

use std::collections::{BTreeSet, HashMap};
use std::sync::LazyLock;

use metrics::{Counter, Histogram, counter, histogram};

use self::words::replace_words;
use super::{kinds, protocol};

/// One script.
#[derive(Debug)]
pub struct Script {
    /// Its file name without the extension; a label of metrics.
    pub name: &'static str,
    /// The room that calls it: its folder in `scripts/`.
    pub room: &'static str,
    /// The whole source.
    pub source: LazyLock<String>,
    /// The SHA-1 of the source in hexadecimal, which identifies it in Redis.
    pub sha: LazyLock<String>,
    /// Counts and times its calls.
    pub(crate) meter: LazyLock<Meter>,
}

/// The metrics of a script, from the recorder installed at its first call: looking them up costs more than a microsecond.
#[derive(Debug)]
pub(crate) struct Meter {
    pub(crate) calls: Counter,
    pub(crate) seconds: Histogram,
}

impl Meter {
    fn of(script: &'static str) -> Self {
        Self {
            calls: counter!("standings_script_calls_total", "script" => script),
            seconds: histogram!("standings_script_seconds", "script" => script),
        }
    }
}

/// Replaces the names of the groups' constants by their values. A local variable for each would cost time at every call.
fn with_constants(code: &str, groups: &[&[(&str, &str)]]) -> String {
    let constants: HashMap<_, _> = groups
        .iter()
        .chain([&kinds::LUA, &protocol::entries::LUA])
        .copied()
        .flatten()
        .copied()
        .collect();
    replace_words(code, |word| {
        constants.get(word).map(|&value| value.to_owned())
    })
}

macro_rules! scripts {
    ($($room:literal {$(
        $(#[$doc:meta])*
        $ident:ident = $name:literal, $header:literal $(with [$($group:ident),*])?;
    )*})*) => {
        $($(
            $(#[$doc])*
            pub static $ident: Script = {
                const CODE: &str = concat!(
                    $header,
                    "\n",
                    include_str!(concat!(env!("OUT_DIR"), "/scripts/", $room, "/", $name, ".lua"))
                );
                const GROUPS: &[&[(&str, &str)]] = &[$($(protocol::$group::LUA),*)?];
                Script {
                    name: $name,
                    room: $room,
                    source: LazyLock::new(|| with_constants(CODE, GROUPS)),
                    sha: LazyLock::new(|| fred::util::sha1_hash(&$ident.source)),
                    meter: LazyLock::new(|| Meter::of($name)),
                }
            };
        )*)*
        /// All scripts.
        pub static ALL: &[&Script] = &[$($(&$ident),*),*];
    };
}

scripts! {
    "core/board" {
        /// Stores a definition.
        DEFINE = "define", "#!lua";
        /// Gives a shard the current version of the definition.
        SHARD = "shard", "#!lua flags=allow-oom";
        /// Records that a board has events.
        USE = "use", "#!lua";
        /// Deletes a definition.
        DELETE = "delete", "#!lua flags=allow-oom";
        /// Begins a change of a board.
        BEGIN = "begin", "#!lua flags=allow-oom" with [formats];
        /// Announces to all instances that a definition has changed.
        ANNOUNCE = "announce", "#!lua flags=allow-oom";
        /// Reads what has changed.
        NEWS = "news", "#!lua flags=no-writes";
        /// Marks data that is to be unlinked.
        UNNEEDED = "unneeded", "#!lua flags=allow-oom";
        /// Notes that a board has something for a job.
        NOTE = "note", "#!lua flags=allow-oom";
        /// Removes such a note.
        FORGET_NOTE = "forget_note", "#!lua flags=allow-oom";
        /// Unlinks the data of a deleted board.
        PURGE = "purge", "#!lua flags=allow-oom";
        /// Takes names of keys that no longer exist out of a registry.
        FORGET_NAMES = "forget_names", "#!lua flags=allow-oom";
        /// Unlinks what deleted boards have left, among all keys of a server.
        SWEEP = "sweep", "#!lua flags=allow-oom,allow-cross-slot-keys";
    }
    "core/write" {
        /// Carries out the plans of many events.
        APPLY = "apply", "#!lua" with [results, details, refusals, flags, record, bounds, queues, trails];
        /// Sets initial scores.
        INITIAL = "initial", "#!lua" with [bounds, trails];
        /// Reads what was taken from quotas.
        QUOTAS = "quotas", "#!lua flags=no-writes";
        /// Reserves what events would take from quotas.
        RESERVE = "reserve", "#!lua" with [reservations];
        /// Keeps what was reserved, or gives it back.
        SETTLE = "settle", "#!lua flags=allow-oom";
        /// Reads which reservations are open.
        RESERVED = "reserved", "#!lua flags=no-writes";
        /// Finds out whether an event with a reservation was applied, and voids the token if not.
        VOID = "void", "#!lua";
        /// Reads what a former shard remembers.
        RECALL = "recall", "#!lua" with [results, record];
        /// Reads players of a league.
        PLAYERS = "players", "#!lua flags=no-writes";
        /// Writes players of a league.
        WRITE_PLAYERS = "write_players", "#!lua";
        /// Suggests cohorts to members.
        TAKE_SEAT = "take_seat", "#!lua";
        /// Gives back a seat that was suggested to a member.
        GIVE_BACK = "give_back", "#!lua flags=allow-oom";
        /// Seats members in cohorts.
        SEAT = "seat", "#!lua";
        /// Reads the periods of a league for which members have seats.
        SEATED = "seated", "#!lua flags=no-writes";
    }
    "core/read" {
        /// Brings a derived standing one step closer to complete.
        ADVANCE = "advance", "#!lua" with [trails];
        /// Reads pages, members, subsets and amounts.
        READ = "read", "#!lua flags=no-writes" with [queries];
        /// Names a standing in the trail of its shard.
        BEGIN_TRAIL = "begin_trail", "#!lua";
        /// Reads the next entries of a standing, and what has changed of it.
        SNAPSHOT = "snapshot", "#!lua flags=no-writes" with [trails];
        /// Counts distinct voters.
        VOTERS = "voters", "#!lua flags=allow-oom";
        /// Merges the voters of a shard.
        EXPORT_VOTERS = "export_voters", "#!lua flags=allow-oom";
        /// Counts the distinct voters of several shards.
        UNION = "union", "#!lua flags=allow-oom";
    }
    "core/hide" {
        /// Hides a member, or brings it back.
        HIDE = "hide", "#!lua";
        /// Hides erased members on a new board, as soon as they have data there.
        KEEP_HIDES = "keep_hides", "#!lua";
        /// Gives an erased member its hide back.
        HIDE_AGAIN = "hide_again", "#!lua";
        /// Ends hides of erased members.
        END_KEPT_HIDES = "end_kept_hides", "#!lua";
        /// Reads who is hidden.
        HIDDEN = "hidden", "#!lua flags=no-writes";
        /// Erases a member.
        ERASE = "erase", "#!lua flags=allow-oom" with [queues];
        /// Removes a part of what an erased member has left.
        FORGET = "forget", "#!lua flags=allow-oom" with [queues, record, details, bounds];
        /// Reads which members were erased.
        ERASURES = "erasures", "#!lua flags=no-writes";
        /// Lists the erasures of a shard.
        LIST_ERASURES = "list_erasures", "#!lua flags=no-writes";
        /// Stores erasures that a shard has lost.
        RESTORE_ERASURES = "restore_erasures", "#!lua";
        /// Updates the hidden list of a standing from the hides.
        HIDDEN_LIST = "hidden_list", "#!lua flags=allow-oom";
        /// Forgets members that were brought back.
        PRUNE_JOURNAL = "prune_journal", "#!lua flags=allow-oom";
        /// Finds more members for a short list.
        WIDEN_LIST = "widen_list", "#!lua";
        /// Finds the ids between which a member of another shard would be.
        TIES = "ties", "#!lua flags=no-writes";
        /// Stores when hides of a board end.
        NOTE_END = "note_end", "#!lua";
    }
    "history" {
        /// Reads rows of kept events.
        READ_EVENTS = "read_events", "#!lua flags=no-writes" with [record, details, bounds];
        /// Removes rows of kept events, and folds what they have made of entries.
        FOLD = "fold", "#!lua flags=allow-oom" with [record, flags, details, bounds, queues];
        /// Unlinks folded entries.
        DROP_FOLDED = "drop_folded", "#!lua flags=allow-oom";
    }
    "corrections" {
        /// Begins a correction in a shard.
        WATCH = "watch", "#!lua" with [record, flags, details, bounds];
        /// Ends a correction that changes nothing.
        UNWATCH = "unwatch", "#!lua flags=allow-oom" with [record, flags, details, bounds];
        /// Changes rows of a member, and makes its entries again.
        CORRECT = "correct", "#!lua" with [record, flags, details, bounds, trails];
        /// Writes and removes revocations.
        NOTE_REVOCATION = "note_revocation", "#!lua";
    }
    "queue" {
        /// Puts events into the queue of a shard.
        PUT = "put", "#!lua" with [queues];
        /// Takes records of the log into a queue.
        TAKE = "take", "#!lua" with [queues];
        /// Stops a queue from taking from the log.
        HOLD_QUEUE = "hold_queue", "#!lua";
        /// Ends queued events that are not applied.
        END_QUEUED = "end_queued", "#!lua" with [ends, queues];
        /// Puts the event of a dead letter back into the queue.
        REPLAY = "replay", "#!lua" with [bounds, queues];
        /// Reads the events that wait under an id.
        WAITING = "waiting", "#!lua flags=no-writes" with [queues];
        /// Reads dead letters.
        LETTERS = "letters", "#!lua flags=no-writes" with [queues];
        /// Removes a dead letter.
        DISCARD = "discard", "#!lua flags=allow-oom";
        /// Puts the queue of a shard into the index.
        LIST_QUEUE = "list_queue", "#!lua";
        /// Reports whether a queue is empty and may be removed from the index.
        CLEAR_QUEUE = "clear_queue", "#!lua flags=allow-oom";
        /// Removes the queue of a shard from the index.
        UNLIST_QUEUE = "unlist_queue", "#!lua flags=allow-oom";
        /// Returns the commands that the user may not call.
        REFUSED = "refused", "#!lua flags=no-writes";
    }
    "periods" {
        /// Invalidates results that were read before an erasure.
        BEGIN_FORGETTING = "begin_forgetting", "#!lua flags=allow-oom";
        /// Raises the barrier of a shard.
        CLOSE_SHARD = "close_shard", "#!lua" with [queues];
        /// Reads which members were hidden and brought back.
        JOURNAL = "journal", "#!lua flags=no-writes";
        /// Stores lines of a journal of hides for which results are to be revised.
        NOTE_LINES = "note_lines", "#!lua";
        /// Revises the result of a final period.
        REVISE_RESULT = "revise_result", "#!lua";
        /// Removes the note of a closed period that was corrected.
        END_CORRECTED = "end_corrected", "#!lua flags=allow-oom";
        /// Forgets a line by which results were revised.
        END_LINE = "end_line", "#!lua flags=allow-oom";
        /// Records what members win.
        HAND_OUT = "hand_out", "#!lua";
        /// Takes back what members no longer win.
        TAKE_BACK = "take_back", "#!lua";
        /// Claims what a member has won.
        CLAIM = "claim", "#!lua";
        /// Reads what members have won.
        READ_REWARDS = "read_rewards", "#!lua flags=no-writes";
        /// Records the result of a final period.
        RECORD_RESULT = "record_result", "#!lua";
        /// Stores the digest of a final period.
        NOTE_DIGEST = "note_digest", "#!lua";
        /// Decides a closing.
        DECIDE = "decide", "#!lua";
        /// Records that the results of a closing are stored.
        RESULTS_UNTIL = "results_until", "#!lua";
        /// Records how a cohort was decided.
        DECIDE_COHORT = "decide_cohort", "#!lua";
        /// Sets when the counts of the seats of tiers expire.
        EXPIRE_TIERS = "expire_tiers", "#!lua";
        /// Sets when a period expires.
        EXPIRE = "expire", "#!lua";
        /// Reads which periods have data.
        PERIODS = "periods", "#!lua flags=no-writes";
    }
    "moderation" {
        /// Begins a task for all boards.
        BEGIN_TASK = "begin_task", "#!lua";
        /// Stores the progress of a task for all boards.
        NOTE_TASK = "note_task", "#!lua flags=allow-oom";
        /// Lists tasks for all boards.
        TASKS = "tasks", "#!lua flags=no-writes";
        /// Removes the member's id from its standing order.
        FORGET_ORDER = "forget_order", "#!lua flags=allow-oom";
        /// Ends standing orders that have reached their end.
        END_ORDERS = "end_orders", "#!lua flags=allow-oom";
        /// Notes that members were erased on all boards.
        NOTE_ERASED = "note_erased", "#!lua flags=allow-oom";
        /// Reads some of the names that a key has.
        NAMES = "names", "#!lua flags=no-writes" with [queues];
    }
    "moves" {
        /// Reads a part of a key's content.
        SCAN = "scan", "#!lua flags=no-writes";
        /// Makes a shard record changes.
        CAPTURE = "capture", "#!lua";
        /// Reads the changes of a shard.
        CHANGES = "changes", "#!lua";
        /// Copies in data of other shards.
        COPY_IN = "copy_in", "#!lua" with [record, details, bounds];
    }
    "profiles" {
        /// Writes profiles.
        PROFILES = "profiles", "#!lua";
        /// Deletes profiles.
        DELETE_PROFILES = "profiles", "#!lua flags=allow-oom";
        /// Lists members by the reviews of their names.
        REVIEWS = "reviews", "#!lua flags=no-writes";
        /// Notes that the index of the words of names has all of them.
        FILL_WORDS = "fill_words", "#!lua";
        /// Finds members by a word of their names.
        FIND_NAMES = "find_names", "#!lua flags=no-writes";
    }
    "webhooks" {
        /// Posts messages for webhooks.
        POST = "post", "#!lua";
        /// Creates, changes or deletes a webhook.
        WEBHOOK = "webhook", "#!lua flags=allow-oom";
        /// Queues messages for a webhook.
        QUEUE_DELIVERIES = "queue_deliveries", "#!lua";
        /// Gives an instance a delivery that is due.
        CLAIM_DELIVERY = "claim_delivery", "#!lua";
        /// Stores the outcome of a delivery.
        END_DELIVERY = "end_delivery", "#!lua";
    }
    "access" {
        /// Creates, changes or deletes an API key.
        API_KEY = "api_key", "#!lua flags=allow-oom";
        /// Stores when API keys were last used.
        API_KEY_USES = "api_key_uses", "#!lua";
        /// Begins a session of the console.
        BEGIN_SESSION = "begin_session", "#!lua";
    }
    "audit" {
        /// Writes one half of a line into the audit log.
        AUDIT_WRITE = "audit_write", "#!lua";
        /// Writes it even when Redis is out of memory, so that what frees memory is logged, too.
        AUDIT_BRIEF = "audit_write", "#!lua flags=allow-oom";
        /// Gives members pseudonyms in the audit log.
        AUDIT_MEMBERS = "audit_members", "#!lua flags=allow-oom";
        /// Forgets the pseudonym of a member.
        AUDIT_FORGET = "audit_forget", "#!lua flags=allow-oom";
        /// Drops old lines of the audit log.
        AUDIT_TRIM = "audit_trim", "#!lua flags=allow-oom";
        /// Reads lines of the audit log.
        AUDIT_READ = "audit_read", "#!lua flags=no-writes";
    }
    "operations" {
        /// Does nothing, but fails if Redis refuses writes.
        WRITABLE = "writable", "#!lua";
        /// Counts accepted events of boards.
        COUNT_ACCEPTED = "count_accepted", "#!lua";
    }
    "check" {
        /// Checks whether the keys of a standing agree.
        CHECK = "check", "#!lua flags=no-writes" with [bounds];
        /// Checks and repairs the keys of a standing.
        REPAIR = "check", "#!lua" with [bounds];
        /// Checks whether the keys that say who is hidden agree.
        CHECK_HIDES = "check_hides", "#!lua flags=no-writes" with [bounds];
        /// Checks these keys, and hides every member that one of them hides.
        REPAIR_HIDES = "check_hides", "#!lua" with [bounds];
        /// Checks whether the state of a derived series is readable.
        CHECK_STATE = "check_state", "#!lua flags=no-writes" with [bounds];
        /// Checks and repairs the state of a derived series.
        REPAIR_STATE = "check_state", "#!lua" with [bounds];
        /// Checks whether the keys of a queue agree.
        CHECK_QUEUE = "check_queue", "#!lua flags=no-writes" with [bounds, queues];
        /// Checks and repairs the keys of a queue.
        REPAIR_QUEUE = "check_queue", "#!lua" with [bounds, queues];
        /// Checks whether a standing is the sum of others.
        CHECK_SUMS = "check_sums", "#!lua flags=no-writes" with [bounds];
        /// Checks and repairs a standing that is the sum of others.
        REPAIR_SUMS = "check_sums", "#!lua" with [bounds];
        /// Checks whether the indexes of kept events have them.
        CHECK_EVENTS = "check_events", "#!lua flags=no-writes" with [record, details, bounds];
        /// Checks and repairs these indexes.
        REPAIR_EVENTS = "check_events", "#!lua" with [record, details, bounds];
        /// Checks whether entries are what kept events have made of them.
        CHECK_ENTRIES = "check_entries", "#!lua flags=no-writes" with [record, details, bounds];
        /// Checks whether keys are in their registry.
        CHECK_KEYS = "check_keys", "#!lua flags=no-writes";
        /// Checks whether keys are in their registry, and adds missing ones.
        REPAIR_KEYS = "check_keys", "#!lua";
    }
    "redis" {
        /// Gives one instance the lease of some work.
        LEASE = "lease", "#!lua flags=allow-oom";
        /// Reads the format of data that belongs to no board, or sets it.
        FORMAT = "format", "#!lua flags=allow-oom";
        /// Registers and reads how far behind replicas may be.
        STALENESS = "staleness", "#!lua flags=allow-oom";
    }
}

/// The commands that the scripts call.
pub fn commands() -> BTreeSet<&'static str> {
    ALL.iter()
        .map(|script| script.source.as_str())
        .flat_map(|source| source.split("call('").skip(1))
        .filter_map(|call| call.split('\'').next())
        .collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn constants_replace_their_names() {
        let group: &[(&str, &str)] = &[("TAKEN", "8"), ("FORM", "'>I7'")];
        let code = "local TAKEN_AT = {TAKEN, FORM}\nreturn TAKEN\n";
        let expected = "local TAKEN_AT = {8, '>I7'}\nreturn 8\n";
        assert_eq!(with_constants(code, &[group]), expected);
    }

    /// The upper-case names in code.
    fn names(code: &str) -> impl Iterator<Item = &str> {
        code.split(|byte: char| !(byte.is_ascii_alphanumeric() || byte == '_'))
            .filter(|word| {
                let is_of_name = |byte: u8| byte.is_ascii_uppercase() || byte == b'_';
                word.len() > 1 && word.bytes().all(is_of_name)
            })
    }

    #[test]
    fn lint_no_script_lacks_a_constant() {
        for script in ALL {
            let mut known = BTreeSet::from(["KEYS", "ARGV"]);
            for line in script.source.lines().skip(1) {
                let code = line.split("--").next().unwrap_or("");
                let without_texts: Vec<_> = code.split('\'').step_by(2).collect();
                let code = without_texts.join(" ");
                if let Some(declared) = line.trim_start().strip_prefix("local ") {
                    known.extend(names(declared.split('=').next().unwrap_or("")));
                }
                let unknown: Vec<_> = names(&code).filter(|name| !known.contains(name)).collect();
                assert!(unknown.is_empty(), "{}: {unknown:?}", script.name);
            }
        }
    }

    #[test]
    fn lint_functions_of_a_script_have_distinct_names() {
        for script in ALL {
            let mut names = BTreeSet::new();
            for line in script.source.lines() {
                let name = match line.strip_prefix("loaded.") {
                    Some(made) => made.split_once(" = function(").map(|(name, _)| name),
                    None => join::function_of(line),
                };
                let is_new = name.is_none_or(|name| names.insert(name));
                assert!(is_new, "{}: {line}", script.name);
            }
        }
    }

    #[test]
    fn each_script_names_the_fragments_whose_functions_it_calls() {
        let files = join::read(Path::new("scripts")).unwrap();
        for (name, text) in &files {
            let code: Vec<&str> = text
                .lines()
                .filter_map(|line| line.split("--").next())
                .collect();
            let code = code.join("\n");
            let words: BTreeSet<&str> = code.split(|byte| !words::is_of_word(byte)).collect();
            let named: BTreeSet<&str> = join::uses_of(text).collect();
            for (fragment, functions) in &files {
                if fragment == name || !fragment.starts_with("lib/") {
                    continue;
                }
                let mut functions = functions
                    .lines()
                    .filter_map(join::function_of)
                    .filter(|function| !code.contains(&format!("local function {function}(")));
                if named.contains(fragment.as_str()) {
                    let loader = join::loader_of(&files[fragment]);
                    let is_used = functions.chain(loader).any(|name| words.contains(name));
                    assert!(is_used, "{name} names {fragment}, but does not use it");
                } else {
                    let called = functions
                        .find(|name| words.contains(name) && code.contains(&format!("{name}(")));
                    assert_eq!(called, None, "{name} does not name {fragment}");
                }
            }
        }
    }

    /// Scripts that write, but change nothing that reads of standings show. If a script is not listed here, and does not
    /// record its changes (`scripts/lib/changed.lua`), clients may keep an outdated page.
    const UNSEEN: &[(&str, &[&str])] = &[
        (
            "data next to standings, also of a league",
            &[
                "put",
                "take",
                "hold_queue",
                "end_queued",
                "replay",
                "discard",
                "list_queue",
                "clear_queue",
                "unlist_queue",
                "recall",
                "settle",
                "reserve",
                "void",
                "record_result",
                "note_digest",
                "revise_result",
                "end_line",
                "note_lines",
                "begin_forgetting",
                "hand_out",
                "take_back",
                "claim",
                "use",
                "take_seat",
                "give_back",
                "write_players",
                "decide_cohort",
                "expire_tiers",
                "post",
                "note_end",
                "lease",
                "capture",
                "changes",
                "voters",
                "export_voters",
                "union",
                "check_keys",
                "forget_names",
                "fold",
                "watch",
                "unwatch",
                "end_corrected",
                "note_revocation",
                "drop_folded",
                "begin_trail",
            ],
        ),
        (
            "what is in no shard",
            &[
                "begin",
                "format",
                "announce",
                "api_key",
                "api_key_uses",
                "begin_session",
                "audit_write",
                "audit_members",
                "audit_forget",
                "audit_trim",
                "profiles",
                "fill_words",
                "webhook",
                "queue_deliveries",
                "claim_delivery",
                "end_delivery",
                "begin_task",
                "note_task",
                "forget_order",
                "end_orders",
                "note_erased",
                "staleness",
                "unneeded",
                "note",
                "forget_note",
                "sweep",
                "writable",
                "count_accepted",
            ],
        ),
        (
            "definitions, whose version is a part of an edition",
            &[
                "define",
                "delete",
                "shard",
                "decide",
                "results_until",
                "purge",
            ],
        ),
        (
            "barriers: they decide the state of a period, which is part of its edition",
            &["close_shard"],
        ),
        (
            "when a standing expires: whether it has entries is a part of an edition",
            &["expire"],
        ),
        (
            "a list that reads wait for, and who is hidden where nobody is seen",
            &[
                "hidden_list",
                "keep_hides",
                "restore_erasures",
                "end_kept_hides",
                "prune_journal",
            ],
        ),
    ];

    #[test]
    fn lint_every_writing_script_notes_what_reads_see() {
        let unseen: BTreeSet<&str> = UNSEEN
            .iter()
            .flat_map(|(_, names)| *names)
            .copied()
            .collect();
        // Calls, or their endings, that record a change.
        let noting = [
            "note_change()",
            "flush(",
            "unlink_standing(",
            "drop_entry(",
            "write_line(",
            "set_hide(",
            "flush_last(",
            "return_hide(",
            "differs(",
        ];
        for script in ALL {
            if script.source.starts_with("#!lua flags=no-writes") {
                continue;
            }
            let own =
                std::fs::read_to_string(format!("scripts/{}/{}.lua", script.room, script.name))
                    .unwrap();
            let code = own
                .lines()
                .filter(|line| !line.starts_with("--"))
                .collect::<Vec<_>>()
                .join("\n");
            let is_called = |call: &str| {
                code.match_indices(call)
                    .map(|(place, _)| &code[..place])
                    .any(|before| {
                        !before
                            .ends_with(|last: char| last.is_alphanumeric() || "._".contains(last))
                    })
            };
            let notes = noting.iter().any(|call| is_called(call));
            let (is_unseen, name) = (unseen.contains(script.name), script.name);
            assert_ne!(
                is_unseen, notes,
                "{name} notes what it changes, or is listed as unseen"
            );
            let has_fragment = script.source.contains("lib/changed.lua: ");
            assert!(is_unseen || has_fragment, "{name} lacks lib/changed.lua");
        }
    }

    #[test]
    fn the_commands_that_scripts_call_are_found() {
        let commands = commands();
        for name in ["ZADD", "HRANDFIELD", "PFMERGE", "DECRBY"] {
            assert!(commands.contains(name), "{name}");
        }
        let is_name = |name: &&str| name.bytes().all(|byte| byte.is_ascii_uppercase());
        assert!(commands.iter().all(is_name), "{commands:?}");
    }
}
