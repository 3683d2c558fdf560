//! What has to hold of the keys of boards, whatever has happened to them.

use std::collections::BTreeMap;

/// What the keys of a standing end with, beside the first.
const PARTS: [&str; 3] = [":members", ":scores", ":total"];

/// The pattern of all keys of a board and its shards.
pub fn pattern(board: &str) -> String {
    format!("st:{{{board}[:}}]*")
}

/// What is wrong with the expiries of a board's keys: those of one standing have to end together, and to end at all
/// where its unit is among those that are `retained` for some time, and nowhere else. They may be `slack_ms` apart.
pub fn check_expiries(
    keys: &BTreeMap<String, i64>,
    retained: &[String],
    slack_ms: u64,
) -> Result<(), String> {
    let mut standings: BTreeMap<&str, Vec<(&String, i64)>> = BTreeMap::new();
    for (key, expires) in keys {
        let Some((unit, standing)) = standing_of(key) else {
            continue;
        };
        if retained.contains(&unit) != (*expires > 0) {
            return Err(format!("{key} expires at {expires}"));
        }
        let others = standings.entry(standing).or_default();
        let is_far = |(_, other): &(&String, i64)| other.abs_diff(*expires) > slack_ms;
        if others.iter().any(is_far) {
            return Err(format!("{key} expires at {expires}, but {others:?}"));
        }
        others.push((key, *expires));
    }
    Ok(())
}

/// The unit, or window, of the standing that a key belongs to, and what all of its keys begin with. What is counted in a
/// period, and not in a list, is a standing of its own here.
fn standing_of(key: &str) -> Option<(String, &str)> {
    let (_, own) = key.split_once("}:")?;
    let (_, name) = own.split_once(':')?;
    let (series, _) = name.split_once(':')?;
    if ["e", "f", "q", "t", "sketch"].contains(&series) {
        return None;
    }
    let (series, _) = series.split_once('@').unwrap_or((series, ""));
    let mut unit = series;
    for prefix in ["real-", "base-", "events-", "voters-"] {
        unit = unit.strip_prefix(prefix).unwrap_or(unit);
    }
    let mut standing = key;
    if !key.contains('\u{1f}') {
        for part in PARTS {
            standing = standing.strip_suffix(part).unwrap_or(standing);
        }
    }
    Some((unit.to_owned(), standing))
}
