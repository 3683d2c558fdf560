//! The Lua scripts: their sources, joined from fragments, and their names.
//!
//! `#!lua` must be the first bytes: it makes a cluster refuse a script that reaches for a key of another
//! slot, and makes Redis refuse the whole script, rather than fail half-way, when it can't write (out of
//! memory, disk full, a replica). `flags=no-writes` guards those that read. `flags=allow-oom` is for those that are
//! needed to free memory, and add a few bytes at the most; and for those that count voters, whose room is freed at once. One
//! script is not about a slot.

use std::collections::BTreeSet;
use std::sync::LazyLock;

/// One script.
#[derive(Debug)]
pub struct Script {
    /// Its file's name without the ending; a label of metrics.
    pub name: &'static str,
    /// The whole source.
    pub source: &'static str,
    /// The SHA-1 of the source in hexadecimal, by which Redis knows it.
    pub sha: LazyLock<String>,
}

/// What stands before a script: the constants of `kinds.rs`, or a file of `scripts/lib`.
macro_rules! fragment {
    (kinds) => {
        kinds_in_lua!()
    };
    ($name:literal) => {
        include_str!(concat!("../../scripts/lib/", $name, ".lua"))
    };
}

macro_rules! scripts {
    ($($(#[$doc:meta])* $ident:ident = $name:literal, $header:literal, [$($fragment:tt),*];)*) => {
        $(
            $(#[$doc])*
            pub static $ident: Script = {
                const SOURCE: &str = concat!(
                    $header,
                    "\n",
                    $(fragment!($fragment), "\n",)*
                    include_str!(concat!("../../scripts/", $name, ".lua")),
                );
                Script {
                    name: $name,
                    source: SOURCE,
                    sha: LazyLock::new(|| fred::util::sha1_hash(SOURCE)),
                }
            };
        )*
        /// All of them.
        pub static ALL: &[&Script] = &[$(&$ident),*];
    };
}

scripts! {
    /// Carries out the plans of many events.
    APPLY = "apply", "#!lua", ["slot", kinds, "keys", "capture", "standing", "derived", "quota"];
    /// Takes a derived standing a step nearer to complete.
    ADVANCE = "advance", "#!lua", ["slot", "process", "cursor", "members", kinds, "capture", "standing", "derived"];
    /// Sets initial scores.
    INITIAL = "initial", "#!lua", ["slot", kinds, "capture", "standing", "derived"];
    /// Reads pages, members, subsets and amounts.
    READ = "read", "#!lua flags=no-writes", ["process", kinds, "capture", "standing", "derived"];
    /// Counts distinct voters.
    VOTERS = "voters", "#!lua flags=allow-oom", [];
    /// Merges the voters of a shard.
    EXPORT_VOTERS = "export_voters", "#!lua flags=allow-oom", [];
    /// Counts the distinct voters of several shards.
    UNION = "union", "#!lua flags=allow-oom", [];
    /// Reads what was taken of quotas.
    QUOTAS = "quotas", "#!lua flags=no-writes", [kinds, "capture", "standing", "quota"];
    /// Reserves what events would take of quotas.
    RESERVE = "reserve", "#!lua", [kinds, "capture", "standing", "quota"];
    /// Keeps what was reserved, or gives it back.
    SETTLE = "settle", "#!lua flags=allow-oom", ["slot"];
    /// Reads which reservations are open.
    RESERVED = "reserved", "#!lua flags=no-writes", ["process", "cursor"];
    /// Finds out what became of an event with a reservation, once and for all.
    FENCE = "fence", "#!lua", ["generation"];
    /// Stores a definition.
    DEFINE = "define", "#!lua", [];
    /// Tells a shard of a definition.
    SHARD = "shard", "#!lua flags=allow-oom", ["slot"];
    /// Notes that a board has events.
    USE = "use", "#!lua", [];
    /// Gives one instance the lease of some work.
    LEASE = "lease", "#!lua flags=allow-oom", ["generation"];
    /// Reads a part of what a key holds.
    SCAN = "scan", "#!lua flags=no-writes", ["process", "cursor"];
    /// Has a shard note what changes.
    CAPTURE = "capture", "#!lua", ["generation"];
    /// Tells what has changed in a shard.
    CHANGES = "changes", "#!lua", ["slot", "generation", kinds, "keys", "capture", "standing"];
    /// Takes over data from other shards.
    COPY_IN = "copy_in", "#!lua", ["slot", kinds, "capture", "standing"];
    /// Tells what a former shard remembers.
    RECALL = "recall", "#!lua", [];
    /// Takes a definition away.
    DELETE = "delete", "#!lua flags=allow-oom", [];
    /// Begins a change of a board.
    BEGIN = "begin", "#!lua flags=allow-oom", [];
    /// Tells all instances that a definition has changed.
    ANNOUNCE = "announce", "#!lua flags=allow-oom", [];
    /// Reads which definitions have changed.
    NEWS = "news", "#!lua flags=no-writes", [];
    /// Marks data that is to be unlinked.
    UNNEEDED = "unneeded", "#!lua flags=allow-oom", [];
    /// Unlinks the data of a deleted board.
    PURGE = "purge", "#!lua flags=allow-oom", ["slot", "generation"];
    /// Unlinks what deleted boards have left among a server's keys.
    SWEEP = "sweep", "#!lua flags=allow-oom,allow-cross-slot-keys", ["process", "cursor"];
    /// Looks whether the keys of a standing agree.
    CHECK = "check", "#!lua flags=no-writes", ["process", "cursor", kinds, "capture", "standing", "derived", "check"];
    /// The same, and mends it.
    MEND = "check", "#!lua", ["process", "cursor", kinds, "capture", "standing", "derived", "check"];
    /// Looks whether the state of a derived series can be read.
    CHECK_STATE = "check_state", "#!lua flags=no-writes", [kinds, "capture", "standing", "derived", "check"];
    /// The same, and mends it.
    MEND_STATE = "check_state", "#!lua", [kinds, "capture", "standing", "derived", "check"];
    /// Looks whether a standing is what others say.
    CHECK_SUMS = "check_sums", "#!lua flags=no-writes", ["process", "cursor", "members", kinds, "capture", "standing", "derived", "check"];
    /// The same, and mends it.
    MEND_SUMS = "check_sums", "#!lua", ["process", "cursor", "members", kinds, "capture", "standing", "derived", "check"];
    /// Looks whether keys are in their registry.
    CHECK_KEYS = "check_keys", "#!lua flags=no-writes", [];
    /// The same, and puts them in.
    MEND_KEYS = "check_keys", "#!lua", [];
    /// Might write, and so tells whether that is refused.
    WRITABLE = "writable", "#!lua", [];
    /// Tells which commands the user may not use.
    REFUSED = "refused", "#!lua flags=no-writes", [];
}

/// The commands that the scripts call.
pub fn commands() -> BTreeSet<&'static str> {
    let sources = ALL.iter().map(|script| script.source);
    let calls = sources.flat_map(|source| source.split("call('").skip(1));
    calls.filter_map(|call| call.split('\'').next()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_of_scripts_are_found_in_them() {
        let commands = commands();
        for name in ["ZADD", "HRANDFIELD", "PFMERGE", "DECRBY"] {
            assert!(commands.contains(name), "{name}");
        }
        let is_name = |name: &&str| name.bytes().all(|byte| byte.is_ascii_uppercase());
        assert!(commands.iter().all(is_name), "{commands:?}");
    }
}
