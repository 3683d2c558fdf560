//! The kinds of data in Redis. Each is declared here, once: the form of its key, the tag of its key, how it expires, how it
//! is copied when its board moves to other shards, how it is purged when nothing needs it any more, and what an erase does
//! to it.
//!
//! A new kind does not compile until all of this is declared. Other modules follow the declarations:
//!
//! - `keys.rs` makes its keys, and recognises the kind of a key.
//! - Scripts refer to kinds by constants, `KIND_…`, which `script.rs` inserts.
//! - `moves/job.rs` copies by [`Copying`], `purge.rs` and `sweep.rs` unlink by [`Purging`], and `standings check` uses both.

use serde::Serialize;

use crate::domain::texts::words;

/// Precedes a member id in a key, and separates the parts of a captured change. Ids have no control characters.
pub const SEPARATOR: char = '\u{1f}';

/// How the key of a kind is made from its code. `tag` identifies the board or shard, and determines the slot.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Form {
    /// `st:{tag}`, followed by the code if it has one: this key serves all generations of a board.
    Head,
    /// `st:{tag}:generation:code`, one in each shard.
    Single,
    /// `st:{tag}:generation:code:name`.
    Named,
    /// The key of a standing's sorted set, followed by `:code`.
    Part,
    /// The key of the voters of a period, followed by the separator and a member id.
    OfMember,
}

/// The tag under which a kind is stored.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Slot {
    /// The tag of the members' shard; it changes when the board moves.
    Shard,
    /// The tag of the shard that has the counts of a quota, permanently.
    Home,
    /// The tag of the board itself, permanently: it does not change when the board moves.
    Board,
}

/// When a kind expires.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Expiry {
    /// When the retention of its period has passed, all keys of a standing together; never if there is no retention.
    WithPeriod,
    /// Some time after it was written.
    ByItself,
    /// Never: it is unlinked explicitly.
    Never,
    /// At the end of the script call that made it.
    WithCall,
}

/// How a kind is copied to other shards.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Copying {
    /// Member by member, each to the new shard of the member; a later copy replaces an earlier one.
    Members,
    /// Line by line, each to the new shard of its member; a later copy replaces an earlier one.
    Lines,
    /// Line by line, each to the new shard of the member that it names, or to all if it names none; a later copy replaces an
    /// earlier one.
    Rows,
    /// Line by line, each to all new shards, because the member of a line is not known; the later line stays.
    Everywhere,
    /// Whole, to one of the new shards: a hash with a field for each tag that has counted.
    Whole,
    /// Merged into the new shard's: a `HyperLogLog`. That of a member goes to the new shard of the member.
    Merged,
    /// Not copied: it is rebuilt from what is copied.
    Rebuilt,
    /// Not at all.
    Not,
}

/// How a kind is unlinked when nothing needs it any more.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Purging {
    /// Its key is in the registry of its shard.
    Registry,
    /// Its key is in the registry of counts if it never expires; otherwise it is found like [`Purging::Sweep`].
    CountsRegistry,
    /// Its key is in the registry of results, which is purged with the board.
    ResultsRegistry,
    /// It expires soon, and is in no registry: a sweep over all keys finds what deleted boards have left.
    Sweep,
    /// The purge itself unlinks it.
    Purge,
    /// It does not exist between calls.
    Call,
}

words! {
    /// What an erase does to the data that a kind has of a member. docs/privacy.md documents it with these names.
    ///
    /// A registry contains the names of sketches of a member's voters. A definition may give a member a weight, and the id
    /// of a player's event begins with the player. Removing counts of quotas would give votes back. Notes of a move are
    /// removed with the move. An erasure, and the hide that outlives it, are stored under a keyed hash. Sketches and sums
    /// contain no names.
    pub enum Erasing {
        /// It is removed.
        Removed = "removed",
        /// It stays until it expires, or as long as the board exists.
        Stays = "stays",
        /// There is nothing to do: it has no ids of members.
        Nothing = "nothing",
    }
}

/// The declarations of a kind.
type Declared = (Form, Slot, Expiry, Copying, Purging, Erasing);

/// A row for each kind: after `as` the name of its constant in scripts, if they need one, then its code.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident $(as $constant:ident)? = $code:literal: $declared:expr;)*) => {
        /// The kind of data that a key holds.
        #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
        pub enum Kind {
            $($(#[$doc])* $kind,)*
        }

        impl Kind {
            /// All kinds.
            pub const ALL: &[Self] = &[$(Self::$kind),*];

            /// The text for the kind in keys, in captured changes and in scripts.
            pub const fn code(self) -> &'static str {
                match self {
                    $(Self::$kind => $code,)*
                }
            }

            const fn declared(self) -> Declared {
                use {Copying as C, Erasing as X, Expiry as E, Form as F, Purging as P, Slot as S};
                match self {
                    $(Self::$kind => $declared,)*
                }
            }
        }

        /// The codes as constants of scripts, and the separator: names and values in Lua.
        pub const LUA: &[(&str, &str)] = &[
            ("SEPARATOR", "'\\31'"),
            ("NAMELESS", "'\\30'"),
            $($((concat!("KIND_", stringify!($constant)), concat!("'", $code, "'")),)?)*
        ];
    };
}

kinds! {
    /// What a board or a shard knows of its definition: hash. For a deleted board it proves the deletion, and expires.
    Head = "": (F::Head, S::Shard, E::Never, C::Not, P::Purge, X::Stays);
    /// The head at counts of quotas that are not stored with the board: hash.
    CountsHead = "counts": (F::Head, S::Home, E::Never, C::Not, P::Purge, X::Nothing);
    /// The registry of a shard: the keys that a purge unlinks: set.
    Registry as REGISTRY = "keys": (F::Single, S::Shard, E::Never, C::Not, P::Purge, X::Removed);
    /// The registry of what is stored with the counts of quotas: set.
    CountsRegistry = "quotas": (F::Single, S::Home, E::Never, C::Not, P::Purge, X::Stays);
    /// The registry of what is stored with the board itself: set.
    ResultsRegistry = "results-keys": (F::Single, S::Board, E::Never, C::Not, P::Purge, X::Nothing);

    /// A standing of a period, with or without what was carried over: sorted set (`scripts/lib/standing.lua`).
    Standing as STANDING = "s": (F::Named, S::Shard, E::WithPeriod, C::Members, P::Registry, X::Removed);
    /// A standing that is the sum of others: sorted set. It is copied once it is complete.
    Derived as DERIVED = "d": (F::Named, S::Shard, E::Never, C::Members, P::Registry, X::Removed);
    /// The initial scores of all members of a board that have one: sorted set.
    InitialScores as INITIAL_SCORES = "i": (F::Named, S::Shard, E::Never, C::Members, P::Registry, X::Removed);
    /// What initial scores were when periods were closed: hash, member -> list (`scripts/lib/past_initial.lua`).
    PastInitial as PAST_INITIAL = "past-initial": (F::Single, S::Shard, E::Never, C::Lines, P::Registry, X::Removed);
    /// The members of a standing, with the data of their entries, if its layout has this: hash.
    Members as MEMBERS = "members": (F::Part, S::Shard, E::WithPeriod, C::Rebuilt, P::Registry, X::Removed);
    /// The distinct scores of a standing, if its layout has this: sorted set.
    Distinct as DISTINCT = "scores": (F::Part, S::Shard, E::WithPeriod, C::Rebuilt, P::Registry, X::Removed);
    /// The sum of the scores of a standing, if its layout has this: hash.
    Total as TOTAL = "total": (F::Part, S::Shard, E::WithPeriod, C::Rebuilt, P::Registry, X::Removed);
    /// The existing standings of a derived series: string (`scripts/lib/derived.lua`).
    State as STATE = "state": (F::Named, S::Shard, E::Never, C::Rebuilt, P::Registry, X::Nothing);

    /// The events that a board keeps: hash, id -> row (`scripts/lib/history.lua`).
    Events as EVENTS = "events": (F::Single, S::Shard, E::Never, C::Rows, P::Registry, X::Removed);
    /// The order in which they were accepted, and those of each member by time (`scripts/lib/ordered.lua`).
    EventIndex as EVENT_INDEX = "event-index": (F::Named, S::Shard, E::Never, C::Rebuilt, P::Registry, X::Removed);
    /// What events that are not kept have made of the entries of a standing: hash, member -> entry.
    Folded as FOLDED = "folded": (F::Part, S::Shard, E::WithPeriod, C::Lines, P::Registry, X::Removed);

    /// The events that a member got while a correction reads its rows: string (`scripts/lib/history.lua`).
    Watched as WATCHED = "watched": (F::Single, S::Shard, E::Never, C::Not, P::Registry, X::Stays);
    /// Closed periods with entries that were corrected and whose results may not include that yet: hash, window and key -> which
    /// corrections (`scripts/corrections/correct.lua`). A board moves only without any.
    Corrected as CORRECTED = "corrected": (F::Single, S::Shard, E::Never, C::Not, P::Registry, X::Nothing);

    /// Which periods of a unit have data: sorted set (`scripts/lib/periods.lua`).
    Periods as PERIODS = "periods": (F::Named, S::Shard, E::Never, C::Rebuilt, P::Registry, X::Nothing);

    /// The hides of a shard's members: hash, member -> hide (`scripts/lib/hides.lua`).
    Hides as HIDES = "hides": (F::Single, S::Shard, E::Never, C::Lines, P::Registry, X::Removed);
    /// The hidden members of a shard in the order of their bytes: sorted set.
    Hidden as HIDDEN = "hidden": (F::Single, S::Shard, E::Never, C::Rebuilt, P::Registry, X::Removed);
    /// Which members were hidden or brought back in a shard, in the order in which that was done: sorted set.
    HideJournal as HIDE_JOURNAL = "hide-journal": (F::Single, S::Shard, E::Never, C::Rebuilt, P::Registry, X::Removed);
    /// The hidden list of a standing: sorted set (`scripts/lib/hidden.lua`).
    HiddenList as HIDDEN_LIST = "hidden-list": (F::Part, S::Shard, E::WithPeriod, C::Rebuilt, P::Registry, X::Removed);
    /// The distinct scores of a standing that only hidden members have: sorted set.
    HiddenScores as HIDDEN_SCORES = "hidden-scores": (F::Part, S::Shard, E::WithPeriod, C::Rebuilt, P::Registry, X::Removed);
    /// The last line of the journal that the hidden list of a standing includes: hash.
    HiddenState as HIDDEN_STATE = "hidden-state": (F::Part, S::Shard, E::WithPeriod, C::Rebuilt, P::Registry, X::Removed);

    /// The last erasures of a shard's members: hash, by keyed hashes of their ids (`scripts/lib/erasures.lua`).
    Erased as ERASED = "erased": (F::Single, S::Shard, E::Never, C::Everywhere, P::Registry, X::Stays);
    /// Erased members with remaining data: hash, member -> progress of the removal.
    Erasing as ERASING = "erasing": (F::Single, S::Shard, E::Never, C::Lines, P::Registry, X::Removed);

    /// What members have won in a final period: hash, member -> its line (`scripts/lib/rewards.lua`).
    Rewards as REWARDS = "rewards": (F::Named, S::Shard, E::Never, C::Lines, P::Registry, X::Removed);
    /// The order in which these are listed, and what has changed: sorted set.
    RewardIndex as REWARD_INDEX = "reward-index": (F::Named, S::Shard, E::Never, C::Rebuilt, P::Registry, X::Removed);

    /// What is known about the members of a league: hash, member -> its tier and its seats, as JSON.
    Players as PLAYERS = "players": (F::Single, S::Shard, E::Never, C::Not, P::Registry, X::Removed);
    /// The history of the members of a league: hash, member -> a line of JSON for each of its last seats.
    Played as PLAYED = "played": (F::Single, S::Shard, E::Never, C::Not, P::Registry, X::Removed);
    /// How many seats of a tier were given out for a period, and which were given back: hash.
    Tiers as TIERS = "tiers": (F::Named, S::Shard, E::WithPeriod, C::Not, P::Registry, X::Removed);
    /// Members to whom a cohort of a tier was suggested, until they have their seats: hash, member -> number of the cohort.
    Taking as TAKING = "taking": (F::Named, S::Shard, E::WithPeriod, C::Not, P::Registry, X::Removed);
    /// The seats of a cohort, stored next to its standing: hash, member -> when it joined and its opening score.
    Seats as SEATS = "seats": (F::Part, S::Shard, E::WithPeriod, C::Not, P::Registry, X::Removed);
    /// How a cohort was decided, next to its standing: hash, member -> its place, where it goes and its bonus.
    Decided as DECIDED = "decided": (F::Part, S::Shard, E::WithPeriod, C::Not, P::Registry, X::Removed);

    /// How many events of a period were taken, if voters are counted, by the tag of the shard that took them: hash.
    Turnout as TURNOUT = "turnout": (F::Named, S::Shard, E::WithPeriod, C::Whole, P::Registry, X::Nothing);
    /// The voters of a period: `HyperLogLog`.
    Voters as VOTERS = "voters": (F::Named, S::Shard, E::WithPeriod, C::Merged, P::Registry, X::Nothing);
    /// The voters for a member in a period: `HyperLogLog`.
    MemberVoters as MEMBER_VOTERS = "member-voters":
        (F::OfMember, S::Shard, E::WithPeriod, C::Merged, P::Registry, X::Removed);

    /// A remembered event id and its outcome: string. It is looked up where it was written (`core/write/recall.rs`).
    EventId as EVENT_ID = "e": (F::Named, S::Shard, E::ByItself, C::Not, P::Sweep, X::Stays);
    /// Why a queued event with this id was refused: string (`queue/fate.rs`). It blocks no id.
    RefusedEvent = "x": (F::Named, S::Shard, E::ByItself, C::Not, P::Sweep, X::Stays);
    /// The outcome of an event without id, remembered under the token of its reservation: string.
    EventToken = "t": (F::Named, S::Shard, E::ByItself, C::Not, P::Sweep, X::Nothing);
    /// Voids events with the reservation of this token: string.
    Void = "v": (F::Named, S::Shard, E::ByItself, C::Not, P::Sweep, X::Nothing);

    /// Events that wait to be applied: stream (`scripts/lib/queue.lua`). It is emptied before its board moves.
    Queue as QUEUE = "queue": (F::Single, S::Shard, E::Never, C::Not, P::Registry, X::Removed);
    /// The entries of the queue by event id: hash, id -> entries.
    QueueIds as QUEUE_IDS = "queue-ids": (F::Single, S::Shard, E::Never, C::Not, P::Registry, X::Removed);
    /// The size of the queue in bytes, and whether it is in the index of queues: hash (`scripts/queue/put.lua`).
    QueueState as QUEUE_STATE = "queue-state": (F::Single, S::Shard, E::Never, C::Not, P::Registry, X::Nothing);
    /// Queued events that could not be applied: stream.
    DeadLetters as DEAD_LETTERS = "dead": (F::Single, S::Shard, E::Never, C::Not, P::Registry, X::Removed);

    /// The next offset for each partition of the log: hash (`scripts/lib/intake.lua`).
    Intake as INTAKE = "intake": (F::Single, S::Shard, E::Never, C::Not, P::Registry, X::Nothing);

    /// How many queued events of a period were refused because its closing did not wait for them, by the tag of the shard:
    /// hash.
    CutOff as CUT_OFF = "cut-off": (F::Named, S::Shard, E::Never, C::Whole, P::Registry, X::Nothing);

    /// What was taken from a pool of a quota: string, sorted set (`scripts/lib/quota.lua`). A count in total never expires.
    Quota = "q": (F::Named, S::Home, E::ByItself, C::Not, P::CountsRegistry, X::Stays);
    /// What is reserved of the quotas that have their counts here, by tokens: hash (`scripts/core/write/reserve.lua`).
    Reserved = "reserved": (F::Single, S::Home, E::Never, C::Not, P::CountsRegistry, X::Stays);
    /// The number of open reservations of pools here: hash, pool -> number.
    Reserving = "reserving": (F::Single, S::Home, E::Never, C::Not, P::CountsRegistry, X::Stays);

    /// What has changed in a shard that is being copied: hash (`scripts/lib/capture.lua`).
    Changes = "changes": (F::Single, S::Shard, E::Never, C::Not, P::Registry, X::Stays);
    /// The keys that were copied from it: hash.
    Copied = "copied": (F::Single, S::Shard, E::Never, C::Not, P::Registry, X::Stays);

    /// The results of a window's final periods, by their keys: hash (`scripts/periods/record_result.lua`).
    Results = "results": (F::Named, S::Board, E::Never, C::Not, P::ResultsRegistry, X::Removed);
    /// The keys of these periods, in order: sorted set.
    FinalPeriods = "final-periods": (F::Named, S::Board, E::Never, C::Not, P::ResultsRegistry, X::Nothing);
    /// The digests of a window's final periods, and the progress of those that are being made: hash
    /// (`scripts/periods/note_digest.lua`).
    Digests = "digests": (F::Named, S::Board, E::Never, C::Not, P::ResultsRegistry, X::Nothing);
    /// Up to which line each shard's journal of hides was read for revising results: hash, by tags.
    Revised = "revised": (F::Single, S::Board, E::Never, C::Not, P::ResultsRegistry, X::Nothing);
    /// Lines of these journals for which results have to be revised: sorted set (`scripts/periods/note_lines.lua`).
    ToRevise = "to-revise": (F::Single, S::Board, E::Never, C::Not, P::ResultsRegistry, X::Stays);
    /// The periods revised for such a line so far: hash.
    RevisedPeriods = "revised-periods": (F::Single, S::Board, E::Never, C::Not, P::ResultsRegistry, X::Stays);
    /// While it exists, calls that hide members of the board wait for an erasure: string.
    Hold = "h": (F::Named, S::Board, E::ByItself, C::Not, P::Sweep, X::Nothing);
    /// How the results of a window were revised: hash (`scripts/periods/revise_result.lua`).
    Revisions = "revisions": (F::Named, S::Board, E::Never, C::Not, P::ResultsRegistry, X::Nothing);
    /// The members whose hides were the reason: hash.
    RevisedMembers = "revised-members": (F::Named, S::Board, E::Never, C::Not, P::ResultsRegistry, X::Removed);
    /// Revocations of events: hash, by their names (`src/corrections/revocations/`).
    Revocations = "revocations": (F::Single, S::Board, E::Never, C::Not, P::ResultsRegistry, X::Stays);
    /// Messages for webhooks that were not handed on yet: hash, by their ids (`scripts/lib/outbox.lua`).
    Outbox = "outbox": (F::Single, S::Board, E::Never, C::Not, P::ResultsRegistry, X::Nothing);

    /// What calls have changed of standings of which exports read snapshots: list (`scripts/lib/trail.lua`).
    Trail as TRAIL = "r": (F::Named, S::Shard, E::ByItself, C::Not, P::Sweep, X::Removed);

    /// Scratch space of one script call.
    Scratch as SCRATCH = "scratch": (F::Single, S::Shard, E::WithCall, C::Not, P::Call, X::Nothing);
    /// The voters of one shard, used when those of all shards are counted: `HyperLogLog`.
    Sketch = "sketch": (F::Named, S::Shard, E::WithCall, C::Not, P::Call, X::Nothing);
}

impl Kind {
    /// How its key is made.
    pub const fn form(self) -> Form {
        self.declared().0
    }

    /// The tag under which it is stored.
    pub const fn slot(self) -> Slot {
        self.declared().1
    }

    /// When it expires.
    pub const fn expiry(self) -> Expiry {
        self.declared().2
    }

    /// How it is copied to other shards.
    pub const fn copying(self) -> Copying {
        self.declared().3
    }

    /// How it is unlinked when nothing needs it any more.
    pub const fn purging(self) -> Purging {
        self.declared().4
    }

    /// What an erase does to its data of a member.
    pub const fn erasing(self) -> Erasing {
        self.declared().5
    }

    /// Whether it is the sorted set of a standing, which [`Form::Part`]s may belong to.
    pub const fn is_standing(self) -> bool {
        matches!(self.copying(), Copying::Members)
    }

    /// Whether its changes are captured with the member concerned.
    pub const fn is_by_member(self) -> bool {
        matches!(
            self.copying(),
            Copying::Members | Copying::Lines | Copying::Rows | Copying::Everywhere
        )
    }

    /// Whether it lists all members, whatever the layout of its board says.
    pub const fn lists_all(self) -> bool {
        matches!(self, Self::InitialScores)
    }

    /// Whether a sweep over all keys looks for it.
    pub const fn is_swept(self) -> bool {
        matches!(self.expiry(), Expiry::ByItself)
    }

    /// The kind with this form and code.
    pub fn with(form: Form, code: &str) -> Option<Self> {
        let is_it = |kind: &Self| kind.form() == form && kind.code() == code;
        Self::ALL.iter().copied().find(is_it)
    }

    /// The kind of the key with this name after its generation.
    pub fn of_name(name: &str) -> Option<Self> {
        let Some((code, rest)) = name.split_once(':') else {
            return Self::with(Form::Single, name);
        };
        let kind = Self::with(Form::Named, code)?;
        if kind.is_standing() {
            let part = rest
                .rsplit_once(':')
                .and_then(|(_, code)| Self::with(Form::Part, code));
            return Some(part.unwrap_or(kind));
        }
        let is_of_member = kind == Self::Voters && rest.contains(SEPARATOR);
        Some(if is_of_member {
            Self::MemberVoters
        } else {
            kind
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn codes_of_kinds_are_distinct() {
        let codes: BTreeSet<&str> = Kind::ALL.iter().map(|kind| kind.code()).collect();
        assert_eq!(codes.len(), Kind::ALL.len());
        for kind in Kind::ALL {
            // The pattern of a sweep consists of letters.
            assert!(!kind.is_swept() || kind.code().len() == 1, "{kind:?}");
            assert!(!kind.code().contains([':', SEPARATOR]), "{kind:?}");
        }
        assert_eq!(
            LUA[..3],
            [
                ("SEPARATOR", "'\\31'"),
                ("NAMELESS", "'\\30'"),
                ("KIND_REGISTRY", "'keys'")
            ]
        );
        assert_eq!(SEPARATOR, '\u{1f}', "31, as in Lua");
    }

    #[test]
    fn the_declarations_of_a_kind_are_consistent() {
        for kind in Kind::ALL {
            let copying = kind.copying();
            match kind.purging() {
                Purging::Registry => assert_eq!(kind.slot(), Slot::Shard, "{kind:?}"),
                // A purge of the old shards would miss it if it moved with the board.
                Purging::CountsRegistry => assert_eq!(kind.slot(), Slot::Home, "{kind:?}"),
                Purging::ResultsRegistry => assert_eq!(kind.slot(), Slot::Board, "{kind:?}"),
                Purging::Sweep => assert_eq!(kind.expiry(), Expiry::ByItself, "{kind:?}"),
                Purging::Purge => assert_eq!(kind.expiry(), Expiry::Never, "{kind:?}"),
                Purging::Call => assert_eq!(kind.expiry(), Expiry::WithCall, "{kind:?}"),
            }
            let is_registered = kind.purging() == Purging::Registry;
            assert!(is_registered || copying == Copying::Not, "{kind:?}");
            let is_captured = !matches!(copying, Copying::Not | Copying::Rebuilt);
            let code = format!("'{}'", kind.code());
            let is_constant = LUA.iter().any(|(_, value)| *value == code);
            assert!(!is_captured || is_constant, "{kind:?}");
        }
    }
}
