//! What the Lua scripts and the code that calls them have to agree on, written once.
//!
//! Each group is a module of constants. Its `LUA` has their names and values for the scripts that use it (`script.rs`).

use crate::domain::event::Detail;
use crate::domain::queued::AGE_MAX;
use crate::domain::score::SCORE_MAX;
use crate::domain::ties::{TIE_KEY_BYTES, TIE_KEY_MAX};
use crate::domain::time::Timestamp;

/// Makes groups of constants.
macro_rules! groups {
    ($(
        $(#[$about:meta])*
        $group:ident { $($(#[$doc:meta])* $name:ident: $type:ty = $value:literal;)* }
    )*) => {
        $(
            $(#[$about])*
            pub mod $group {
                $($(#[$doc])* pub const $name: $type = $value;)*
                /// Their names and values in Lua.
                pub const LUA: &[(&str, &str)] = &[$((stringify!($name), stringify!($value)),)*];
            }
        )*
    };
}

groups! {
    /// What the result of an event begins with, in `apply.lua` and `recall.lua`. A record alone is that of an event which
    /// was taken.
    results {
        /// The id is known. Then: the record.
        DUPLICATE: i64 = 1;
        /// The id was used with another content.
        REUSED: i64 = 2;
        /// The event was refused as the caller said.
        REFUSED: i64 = 3;
        /// A score would pass the bound. Then: the code of the window.
        OUT_OF_RANGE: i64 = 4;
        /// A standing that is a sum is not there, and no history was sent.
        NO_HISTORY: i64 = 5;
        /// A standing whose ranks were asked for is not complete. Then: the code of the window.
        NO_STANDING: i64 = 6;
        /// A quota is used up. Then: its index from 1, and when a sliding window would take the event.
        NO_QUOTA: i64 = 7;
        /// The event was taken. Then: the record, and what remains of each quota.
        TAKEN: i64 = 8;
        /// The reservation of the event is void.
        VOID: i64 = 9;
        /// The event lies before the last erasure of its member. Then: the instant of the erasure, a tie key of `ties: first`.
        ERASED: i64 = 10;
        /// Something may be left of the member, who was erased.
        ERASING: i64 = 11;
        /// The event lies before the barrier of the shard. Then: the barrier, in milliseconds since the epoch, as text.
        CLOSED: i64 = 12;
        /// The member has no seat in the cohort.
        UNSEATED: i64 = 13;
        /// Another cohort may remember the id.
        ELSEWHERE: i64 = 14;
        /// The event is not in the queue, or the lease of the queue has another number.
        GONE: i64 = 15;
        /// The event waits in the queue, and would be refused, or count otherwise, by itself. Then: the instant that it counts for, and
        /// when it was queued, both in microseconds since the epoch, as text.
        WAITING: i64 = 16;
        /// The event has to come behind one of its member, and so in another period. Then: the first instant that it may count for, in
        /// microseconds since the epoch, as text.
        BEHIND: i64 = 17;
    }

    /// What is to be reported of an event: [`Detail::code`].
    details {
        /// Nothing.
        STATUS_ALONE: u8 = 0;
        /// Scores.
        WITH_STANDINGS: u8 = 1;
        /// Scores and ranks.
        WITH_RANKS: u8 = 2;
    }

    /// When an event is refused, whatever the script finds.
    refusals {
        /// It is not.
        NEVER: u8 = 0;
        /// If its id is not known.
        UNLESS_KNOWN: u8 = 1;
        /// If its id is not known, and no score would pass the bound.
        UNLESS_BEYOND: u8 = 2;
    }

    /// Flags of a record. They are added to the detail.
    flags {
        /// The number of details: a flag is a multiple of it.
        DETAIL_COUNT: u8 = 4;
        /// The event changed nothing.
        UNCHANGED: u8 = 4;
        /// Scores are wide.
        WIDE: u8 = 8;
        /// A token is at the end.
        WITH_TOKEN: u8 = 16;
        /// The number of the member's last erasure stands behind the reports and ranks.
        WITH_ERASURE: u8 = 32;
        /// In the code of a report: the member was listed before.
        LISTED_BEFORE: u16 = 4096;
    }

    /// The bounds of numbers.
    #[expect(clippy::unreadable_literal, reason = "Lua reads no separators")]
    bounds {
        /// The greatest score.
        SCORE_MAX: i64 = 9007199254740991;
        /// The greatest tie key.
        TIE_KEY_MAX: u64 = 9007199254740991;
        /// The tie key of the epoch, 1970, with `ties: first`.
        TIE_KEY_OF_EPOCH: u64 = 2208988800000000;
    }

    /// What is stored.
    formats {
        /// The number of its format: see `redis/format.rs`.
        DATA_FORMAT: u64 = 2;
    }

    /// Members of standings (`lib/standing.lua`).
    entries {
        /// The form of a tie key, with which members of sorted sets begin.
        TIE_KEY_FORM: &str = ">I7";
        /// The form of such a member: a tie key, and the id.
        MEMBER_FORM: &str = ">I7c0";
        /// The bytes of a tie key.
        TIE_KEY_BYTES: usize = 7;
        /// The form of a time and a score, with which the fields of hashes begin.
        ENTRY_FORM: &str = ">i7d";
        /// The bytes of a time and a score.
        ENTRY_BYTES: usize = 15;
    }

    /// What a query begins with, in `read.lua`.
    queries {
        /// A page.
        PAGE: u8 = 1;
        /// A member and those around it.
        MEMBER: u8 = 2;
        /// Some members.
        SUBSET: u8 = 3;
        /// What a standing amounts to.
        AMOUNTS: u8 = 4;
        /// Some entries, evenly spread.
        SPREAD: u8 = 5;
        /// Some entries around a mark.
        SLICE: u8 = 6;
        /// How many entries are ahead of marks.
        POSITIONS: u8 = 7;
        /// Entries with scores in a range.
        BETWEEN: u8 = 8;
        /// The entries around a score.
        AROUND: u8 = 9;
        /// The entry at a percentile.
        PERCENTILE: u8 = 10;
        /// A query, with the data of the entries of its answer.
        WITH_DATA: u8 = 11;
        /// Nothing but what every answer comes with.
        CHANGED: u8 = 12;
        /// What an answer begins with where a standing is not complete. Otherwise: the number of members.
        INCOMPLETE: i64 = -1;
        /// What an answer begins with where the hidden list of a standing is behind. Then: whether that is the one before.
        UNLISTED: i64 = -2;
        /// What an answer begins with where too many members of a list that is kept short are hidden. Then: the same.
        SHORT: i64 = -3;
        /// What an answer begins with where something may be left of erased members, and hidden members are shown too.
        ERASING: i64 = -4;
    }

    /// How a queued event ends that is not applied, in `end_queued.lua`.
    ends {
        /// It was taken elsewhere.
        ENDED: u8 = 1;
        /// A rule has refused it.
        REFUSED: u8 = 2;
        /// It is a dead letter.
        DEAD: u8 = 3;
    }

    /// Queues.
    #[expect(clippy::unreadable_literal, reason = "Lua reads no separators")]
    queues {
        /// What an entry of a queue takes in bytes beside its texts, in the stream and in the hash of ids. Redis 7 has used 98 to
        /// 114, and with events of 600 bytes up to 284.
        QUEUE_ENTRY_BYTES: usize = 112;
        /// For how many milliseconds an event may wait: [`AGE_MAX`](crate::domain::queued::AGE_MAX).
        QUEUE_AGE_MS: u64 = 86400000;
    }

    /// What the result of a reservation begins with, in `reserve.lua`.
    reservations {
        /// It is reserved. Then: what remains of each use.
        RESERVED: i64 = 1;
        /// A quota is used up. Then: its index from 1, and when a sliding window would take the event.
        USED_UP: i64 = 2;
        /// Whether a quota is used up depends on open reservations. Then: its index from 1.
        WAITS: i64 = 3;
    }
}

/// Makes the layout of records from the widths of their fields.
macro_rules! record_layout {
    ($fingerprint:literal, $tie_key:literal, $code:literal, $narrow:literal, $wide:literal, $rank:literal) => {
        /// The layout of a record, which is what is remembered of an event; all numbers are big-endian:
        ///
        /// - fingerprint, tie key, and a byte: detail and `flags`;
        /// - for each standing that is reported: code of the window, score, and unless the scores are sums the score before;
        /// - if ranks were asked for, for each of them: rank, and rank before, 0: not listed;
        /// - if the member was erased before, the number of its last erasure;
        /// - the token of the reservation, if the event had one.
        pub mod record {
            /// The bytes of a fingerprint.
            pub const FINGERPRINT_BYTES: usize = $fingerprint;
            /// The bytes of a tie key.
            pub const TIE_KEY_BYTES: usize = $tie_key;
            /// The bytes of the code of a report.
            pub const CODE_BYTES: usize = $code;
            /// The bytes of a score with a sign, where all of the record fit.
            pub const NARROW_SCORE_BYTES: usize = $narrow;
            /// The bytes of a score with a sign otherwise.
            pub const WIDE_SCORE_BYTES: usize = $wide;
            /// The bytes of a rank.
            pub const RANK_BYTES: usize = $rank;
            /// The bytes of the number of an erasure.
            pub const ERASURE_BYTES: usize = 7;
            /// The bytes of a token.
            pub const TOKEN_BYTES: usize = 11;
            /// Forms for Lua's `struct`, and the greatest narrow score.
            pub const LUA: &[(&str, &str)] = &[
                ("FINGERPRINT_FORM", concat!("'>I", $fingerprint, "'")),
                (
                    "HEAD_FORM",
                    concat!("'>I", $fingerprint, "I", $tie_key, "B'"),
                ),
                ("CODE_FORM", concat!("'I", $code, "'")),
                ("NARROW_SCORE_FORM", concat!("'i", $narrow, "'")),
                ("WIDE_SCORE_FORM", concat!("'i", $wide, "'")),
                ("NARROW_MAX", concat!("(2 ^ (8 * ", $narrow, " - 1) - 1)")),
                ("RANKS_FORM", concat!("'>I", $rank, "I", $rank, "'")),
                (
                    "HEAD_BYTES",
                    concat!("(", $fingerprint, " + ", $tie_key, " + 1)"),
                ),
                ("ERASURE_FORM", "'>I7'"),
                ("ERASURE_BYTES", "7"),
                ("TOKEN_BYTES", "11"),
            ];
        }
    };
}

record_layout!(7, 7, 2, 4, 7, 4);

const _: () = {
    assert!(entries::TIE_KEY_BYTES == TIE_KEY_BYTES);
    assert!(record::TIE_KEY_BYTES == TIE_KEY_BYTES);
    assert!(entries::ENTRY_BYTES == TIE_KEY_BYTES + size_of::<f64>());
    assert!(bounds::SCORE_MAX == SCORE_MAX);
    assert!(SCORE_MAX < 1 << (8 * record::WIDE_SCORE_BYTES - 1));
    assert!(details::STATUS_ALONE == Detail::Status.code());
    assert!(details::WITH_STANDINGS == Detail::Standings.code());
    assert!(details::WITH_RANKS == Detail::Ranks.code());
    assert!(details::WITH_RANKS < flags::DETAIL_COUNT);
    assert!(bounds::TIE_KEY_MAX == TIE_KEY_MAX);
    assert!(queues::QUEUE_AGE_MS == AGE_MAX.ms());
    assert!(bounds::TIE_KEY_OF_EPOCH == Timestamp::MIN.us().unsigned_abs());
};
