//! What the Lua scripts and their callers have to agree on, defined once.
//!
//! Each group is a module of constants. Its `LUA` has their names and values for the scripts that use it (`script.rs`).

use crate::domain::event::Detail;
use crate::domain::queued::AGE_MAX;
use crate::domain::score::SCORE_MAX;
use crate::domain::ties::{TIE_KEY_BYTES, TIE_KEY_MAX};
use crate::domain::time::Timestamp;

/// Defines groups of constants.
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
    /// Codes of an event's result in `apply.lua` and `recall.lua`. An accepted event may have its record alone, without a
    /// code.
    results {
        /// The id is known. Followed by the record.
        DUPLICATE: i64 = 1;
        /// The id was used with another content.
        REUSED: i64 = 2;
        /// The event was refused for the reason that the caller gave.
        REFUSED: i64 = 3;
        /// A score would exceed the bound. Followed by the code of the window.
        OUT_OF_RANGE: i64 = 4;
        /// A standing that is a sum does not exist, and no history was sent.
        NO_HISTORY: i64 = 5;
        /// A standing whose ranks were asked for is not complete. Followed by the code of the window.
        NO_STANDING: i64 = 6;
        /// A quota is used up. Followed by its index from 1, and when a sliding window would take the event.
        NO_QUOTA: i64 = 7;
        /// The event was taken. Followed by the record, and what remains of each quota.
        TAKEN: i64 = 8;
        /// The reservation of the event is void.
        VOID: i64 = 9;
        /// The event is before its member's last erasure. Followed by the instant of that, a tie key of `ties: first`.
        ERASED: i64 = 10;
        /// The member was erased, and some data may not be removed yet.
        ERASING: i64 = 11;
        /// The event is before the barrier of the shard. Followed by the barrier, in milliseconds since the epoch, as text.
        CLOSED: i64 = 12;
        /// The member has no seat in the cohort.
        UNSEATED: i64 = 13;
        /// Another cohort may remember the id.
        ELSEWHERE: i64 = 14;
        /// The event is not in the queue, or the lease of the queue has another number.
        GONE: i64 = 15;
        /// The event waits in the queue, and this call would refuse it, or count it otherwise. Followed by the instant that
        /// it counts for, and when it was queued, both in microseconds since the epoch, as text.
        WAITING: i64 = 16;
        /// The event has to come after one of its member, and so in another period. Followed by the first instant that it
        /// may count for, in microseconds since the epoch, as text.
        BEHIND: i64 = 17;
    }

    /// What to report about an event: [`Detail::code`].
    details {
        /// Nothing.
        STATUS_ALONE: u8 = 0;
        /// Scores.
        WITH_STANDINGS: u8 = 1;
        /// Scores and ranks.
        WITH_RANKS: u8 = 2;
    }

    /// When to refuse an event, regardless of what the script finds.
    refusals {
        /// Never.
        NEVER: u8 = 0;
        /// If its id is not known.
        UNLESS_KNOWN: u8 = 1;
        /// If its id is not known, and no score would exceed the bound.
        UNLESS_BEYOND: u8 = 2;
    }

    /// Flags of a record. They are added to the detail.
    flags {
        /// The number of details: a flag is a multiple of it.
        DETAIL_COUNT: u8 = 4;
        /// The event changed nothing.
        UNCHANGED: u8 = 4;
        /// It has wide scores.
        WIDE: u8 = 8;
        /// It ends with a token.
        WITH_TOKEN: u8 = 16;
        /// The reports and ranks are followed by the number of the member's last erasure.
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

    /// Formats of stored data.
    formats {
        /// The current format: see `redis/format.rs`.
        DATA_FORMAT: u64 = 2;
        /// The format of boards that keep events: earlier releases don't work with these.
        HISTORY_FORMAT: u64 = 3;
    }

    /// Members of standings (`lib/standing.lua`).
    entries {
        /// The format of a tie key, with which members of sorted sets begin.
        TIE_KEY_FORM: &str = ">I7";
        /// The format of such a member: a tie key, and the id.
        MEMBER_FORM: &str = ">I7c0";
        /// The length of a tie key in bytes.
        TIE_KEY_BYTES: usize = 7;
        /// The format of a time and a score, with which the fields of hashes begin.
        ENTRY_FORM: &str = ">i7d";
        /// The length of a time and a score in bytes.
        ENTRY_BYTES: usize = 15;
    }

    /// Codes of queries in `read.lua`.
    queries {
        /// A page.
        PAGE: u8 = 1;
        /// A member and its neighbours.
        MEMBER: u8 = 2;
        /// Some members.
        SUBSET: u8 = 3;
        /// The totals of a standing.
        AMOUNTS: u8 = 4;
        /// Some entries, evenly spread.
        SPREAD: u8 = 5;
        /// Some entries around a mark.
        SLICE: u8 = 6;
        /// The number of entries ahead of marks.
        POSITIONS: u8 = 7;
        /// Entries with scores in a range.
        BETWEEN: u8 = 8;
        /// The entries around a score.
        AROUND: u8 = 9;
        /// The entry at a percentile.
        PERCENTILE: u8 = 10;
        /// Another query, with the data of the entries in its answer.
        WITH_DATA: u8 = 11;
        /// Code of an answer: the standing is not complete. Other answers begin with the number of members.
        INCOMPLETE: i64 = -1;
        /// Code of an answer: a hidden list is behind. Followed by whether it is that of the standing before.
        UNLISTED: i64 = -2;
        /// Code of an answer: too many members of a short list are hidden. Followed by the same.
        SHORT: i64 = -3;
        /// Code of an answer: erased members may not be removed yet, and hidden members are shown, too.
        ERASING: i64 = -4;
    }

    /// Trails.
    trails {
        /// The most links that a call reads. A trail keeps up to twice as many.
        LINKS_MAX: u32 = 256;
        /// The most bytes of a link. A longer one is not left.
        LINK_BYTES_MAX: u32 = 65536;
    }

    /// The outcome of a queued event that is not applied, for `end_queued.lua`.
    ends {
        /// It was taken elsewhere.
        ENDED: u8 = 1;
        /// It is rejected.
        REFUSED: u8 = 2;
        /// It becomes a dead letter.
        DEAD: u8 = 3;
    }

    /// Queues.
    #[expect(clippy::unreadable_literal, reason = "Lua reads no separators")]
    queues {
        /// The overhead of a queue's entry in bytes, in the stream and in the hash of ids, without its texts. Measured with
        /// Redis 7: 98 to 114, and up to 284 with events of 600 bytes.
        QUEUE_ENTRY_BYTES: usize = 112;
        /// For how many milliseconds an event may wait: [`AGE_MAX`](crate::domain::queued::AGE_MAX).
        QUEUE_AGE_MS: u64 = 86400000;
    }

    /// Codes of the result of a reservation in `reserve.lua`.
    reservations {
        /// It is reserved. Followed by what remains of each use.
        RESERVED: i64 = 1;
        /// A quota is used up. Followed by its index from 1, and when a sliding window would take the event.
        USED_UP: i64 = 2;
        /// Whether a quota is used up depends on open reservations. Followed by its index from 1.
        WAITS: i64 = 3;
    }

    /// The layout of a record: what is remembered of an event. All numbers are big-endian:
    ///
    /// - fingerprint, tie key, and a byte: detail and `flags`;
    /// - for each reported standing: code of the window, score, and unless the scores are sums the score before;
    /// - if ranks were asked for, for each of them: rank, and rank before (0: not listed);
    /// - if the member was erased before, the number of its last erasure;
    /// - the token of the reservation, if the event had one.
    #[expect(clippy::unreadable_literal, reason = "Lua reads no separators")]
    record {
        /// The length of a fingerprint.
        FINGERPRINT_BYTES: usize = 7;
        /// The format of a fingerprint.
        FINGERPRINT_FORM: &str = ">I7";
        /// The length of a tie key.
        TIE_KEY_BYTES: usize = 7;
        /// The length of what every record begins with.
        HEAD_BYTES: usize = 15;
        /// The format of that.
        HEAD_FORM: &str = ">I7I7B";
        /// The length of the code of a report.
        CODE_BYTES: usize = 2;
        /// The format of that code, after `>`.
        CODE_FORM: &str = "I2";
        /// The length of a signed score, if all of the record fit.
        NARROW_SCORE_BYTES: usize = 4;
        /// The format of such a score, after `>`.
        NARROW_SCORE_FORM: &str = "i4";
        /// The greatest such score.
        NARROW_MAX: i64 = 2147483647;
        /// The length of a signed score otherwise.
        WIDE_SCORE_BYTES: usize = 7;
        /// The format of such a score, after `>`.
        WIDE_SCORE_FORM: &str = "i7";
        /// The length of a rank.
        RANK_BYTES: usize = 4;
        /// The format of two ranks.
        RANKS_FORM: &str = ">I4I4";
        /// The length of an erasure's number.
        ERASURE_BYTES: usize = 7;
        /// The format of that number.
        ERASURE_FORM: &str = ">I7";
        /// The length of a token.
        TOKEN_BYTES: usize = 11;
    }
}

const _: () = {
    assert!(entries::TIE_KEY_BYTES == TIE_KEY_BYTES);
    assert!(record::TIE_KEY_BYTES == TIE_KEY_BYTES);
    assert!(record::HEAD_BYTES == record::FINGERPRINT_BYTES + record::TIE_KEY_BYTES + 1);
    assert!(record::NARROW_MAX == (1 << (8 * record::NARROW_SCORE_BYTES - 1)) - 1);
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
