//! What has to hold of the keys of boards, whatever has happened to them.

use std::collections::BTreeMap;

use standings::redis::keys::take_apart;
use standings::redis::kinds::{Expiry, Kind};

/// What the keys of a standing end with, beside the first.
const PARTS: [&str; 6] = [
    ":members",
    ":scores",
    ":total",
    ":hidden-list",
    ":hidden-scores",
    ":hidden-state",
];

/// The pattern of all keys of a board and its shards.
pub fn pattern(board: &str) -> String {
    format!("st:{{{board}[:}}]*")
}

/// Whether a key is the head of a deleted board or shard, which proves the deletion until it expires.
pub fn is_proof(key: &str, expires: i64) -> bool {
    let kind = take_apart(key).and_then(|name| name.kind);
    expires > 0 && matches!(kind, Some(Kind::Head | Kind::CountsHead))
}

/// What is wrong with the expiries of a board's keys. Each has to be as its kind says: those of one standing have to end
/// together, and to end at all where its unit is among those that are `retained` for some time, and nowhere else. They
/// may be `slack_ms` apart.
pub fn check_expiries(
    keys: &BTreeMap<String, i64>,
    retained: &[String],
    slack_ms: u64,
) -> Result<(), String> {
    let mut standings: BTreeMap<&str, Vec<(&String, i64)>> = BTreeMap::new();
    for (key, expires) in keys {
        let Some(kind) = take_apart(key).and_then(|name| name.kind) else {
            return Err(format!("{key} is of no kind"));
        };
        let is_right = match kind.expiry() {
            Expiry::WithPeriod => retained.contains(&unit_of(key)) == (*expires > 0),
            // What was taken of a quota in total stays. Some have expired since they were listed.
            Expiry::ByItself => *expires != -1 || kind == Kind::Quota,
            Expiry::Never => *expires <= 0 || is_proof(key, *expires),
            Expiry::WithCall => false,
        };
        if !is_right {
            return Err(format!("{key} expires at {expires}"));
        }
        if kind.expiry() != Expiry::WithPeriod {
            continue;
        }
        let others = standings.entry(standing_of(key)).or_default();
        let is_far = |(_, other): &(&String, i64)| other.abs_diff(*expires) > slack_ms;
        if others.iter().any(is_far) {
            return Err(format!("{key} expires at {expires}, but {others:?}"));
        }
        others.push((key, *expires));
    }
    Ok(())
}

/// The unit, or window, of the period that a key is about.
fn unit_of(key: &str) -> String {
    let (_, own) = key.split_once("}:").unwrap();
    let series = own.split(':').nth(2).unwrap();
    let (series, _) = series.split_once('@').unwrap_or((series, ""));
    let mut unit = series;
    for prefix in ["raw-", "base-"] {
        unit = unit.strip_prefix(prefix).unwrap_or(unit);
    }
    unit.to_owned()
}

/// What all keys of the standing of a key begin with. What is counted in a period, and not in a list, is a standing of its
/// own here.
fn standing_of(key: &str) -> &str {
    let mut standing = key;
    if !key.contains('\u{1f}') {
        for part in PARTS {
            standing = standing.strip_suffix(part).unwrap_or(standing);
        }
    }
    standing
}
