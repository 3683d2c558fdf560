//! The form of every key.
//!
//! All keys of a board share the hash tag `{board}`, so that they lie in one slot of a cluster and one
//! script can reach them all. Behind it comes the generation, which tells a board from a deleted one of the
//! same name. Periods appear as users read them.
//!
//! | key | type | holds |
//! | --- | --- | --- |
//! | `st:{b}` | hash | `version`, `definition` (JSON), `used` once there are events |
//! | `st:{b}:1:keys` | set | the names of all keys below, except remembered events, for deletion |
//! | `st:{b}:1:day:2026-11-21` | sorted set | a standing (`scripts/lib/standing.lua` says what is in it) |
//! | `st:{b}:1:base-day:2026-11-21` | sorted set | the same without what was carried over, for rolling windows |
//! | `st:{b}:1:last-7-days:2026-11-21` | sorted set | a rolling standing |
//! | …`:members`, …`:scores` | hash, sorted set | a standing's members and its distinct scores, where its layout has them |
//! | `st:{b}:1:last-7-days` | string | which standings of a rolling window are there (`scripts/lib/rolling.lua`) |
//! | `st:{b}:1:e:run-88231` | string | a remembered event id and its outcome; expires |
//! | `st:{b}:1:q:0:voter-hour:hour:2026-11-21T05:00Z`… | string, sorted set | what was taken of a quota (`scripts/lib/quota.lua`); expires where it can |
//! | `st:{boards}:live` | sorted set | the ids of all boards, all under score 0 |
//! | `st:{boards}:changes` | sorted set | board ids by the sequence number of their last change |
//! | `st:{boards}:sequence`, `st:{boards}:generation` | integer | the last numbers given out |
//! | `st:{boards}:deleted` | set | `generation board` of deleted boards whose data is not yet unlinked |
//!
//! A window that was taken from a board and added again has its epoch behind its name: `day@5`.

use crate::domain::board::{Board, Layout, Series, Standing};
use crate::domain::ids::{BoardId, EventId};
use crate::domain::quota::Pool;

/// The set of deleted boards whose data is not yet unlinked.
pub const DELETED: &str = "st:{boards}:deleted";
/// The ids of all boards.
pub const LIVE: &str = "st:{boards}:live";
/// Board ids by the sequence number of their last change.
pub const CHANGES: &str = "st:{boards}:changes";
/// The last sequence number of a change.
pub const SEQUENCE: &str = "st:{boards}:sequence";
/// The last generation of a board.
pub const GENERATION: &str = "st:{boards}:generation";

/// The key of a board's definition.
pub fn board(id: &BoardId) -> String {
    format!("st:{{{id}}}")
}

/// The key of the names of a board's keys.
pub fn registry(id: &BoardId, generation: u64) -> String {
    format!("st:{{{id}}}:{generation}:keys")
}

/// The key of a remembered event id.
pub fn event(board: &Board, id: &EventId) -> String {
    format!("st:{{{}}}:{}:e:{id}", board.id, board.generation)
}

/// The key of what was taken of a quota's pool.
pub fn quota(board: &Board, pool: &Pool) -> String {
    format!("st:{{{}}}:{}:q:{}", board.id, board.generation, pool.name)
}

/// The key of a series: of the state of a rolling window, and the beginning of its standings' keys.
pub fn series(board: &Board, series: Series) -> String {
    let name = match series {
        Series::Period(unit) => unit.to_string(),
        Series::Base(unit) => format!("base-{unit}"),
        Series::Rolling(window) => window.to_string(),
    };
    let epoch = match board.epoch(series) {
        0 => String::new(),
        epoch => format!("@{epoch}"),
    };
    format!("st:{{{}}}:{}:{name}{epoch}", board.id, board.generation)
}

/// How many keys a standing has.
pub fn width(layout: Layout) -> usize {
    1 + usize::from(layout.hashed) + usize::from(layout.dense)
}

/// The keys of a standing, [`width`] of them: its sorted set, its members, its distinct scores.
pub fn standing(board: &Board, standing: &Standing) -> impl Iterator<Item = String> + use<> {
    let layout = board.layout();
    let zset = sorted_set(board, standing);
    let members = layout.hashed.then(|| format!("{zset}:members"));
    let scores = layout.dense.then(|| format!("{zset}:scores"));
    std::iter::once(zset).chain(members).chain(scores)
}

fn sorted_set(board: &Board, standing: &Standing) -> String {
    format!(
        "{}:{}",
        series(board, standing.series),
        board.calendar.key(&standing.period)
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::domain::period::Unit;
    use crate::domain::time::Timestamp;
    use crate::domain::window::Window;

    fn board(json: &str, epochs: &[(Window, u64)]) -> Board {
        let definition = serde_json::from_str(json).unwrap();
        let epochs: BTreeMap<_, _> = epochs.iter().copied().collect();
        Board::new(
            BoardId::parse("run_hero").unwrap(),
            definition,
            7,
            3,
            epochs,
        )
    }

    fn keys(board: &Board, series: Series, at: &str) -> Vec<String> {
        let unit = match series {
            Series::Period(unit) | Series::Base(unit) => unit,
            Series::Rolling(window) => window.unit(),
        };
        let period = board
            .calendar
            .containing(unit, Timestamp::parse(at).unwrap());
        standing(board, &Standing { series, period }).collect()
    }

    #[test]
    fn every_key_is_exactly_so() {
        let rolling: Window = "last-7-days".parse().unwrap();
        let first = board(
            r#"{"windows": ["hour"], "ranking": "dense", "timezone": "Asia/Shanghai"}"#,
            &[],
        );
        assert_eq!(super::board(&first.id), "st:{run_hero}");
        assert_eq!(registry(&first.id, 7), "st:{run_hero}:7:keys");
        assert_eq!(
            event(&first, &EventId::parse("run-88231").unwrap()),
            "st:{run_hero}:7:e:run-88231"
        );
        assert_eq!(
            keys(&first, Series::Period(Unit::Hour), "2026-11-21T00:30:00Z"),
            [
                "st:{run_hero}:7:hour:2026-11-21T00:00Z",
                "st:{run_hero}:7:hour:2026-11-21T00:00Z:members",
                "st:{run_hero}:7:hour:2026-11-21T00:00Z:scores",
            ]
        );
        let plain = board(
            r#"{"windows": ["day"], "ties": "member"}"#,
            &[(Window::Period(Unit::Day), 2), (rolling, 5)],
        );
        let at = "2026-11-21T00:30:00Z";
        assert_eq!(
            keys(&plain, Series::Period(Unit::Day), at),
            ["st:{run_hero}:7:day@2:2026-11-21"]
        );
        assert_eq!(
            keys(&plain, Series::Base(Unit::Day), at),
            ["st:{run_hero}:7:base-day@2:2026-11-21"]
        );
        assert_eq!(
            keys(&plain, Series::Rolling(rolling), at),
            ["st:{run_hero}:7:last-7-days@5:2026-11-21"]
        );
        assert_eq!(
            series(&plain, Series::Rolling(rolling)),
            "st:{run_hero}:7:last-7-days@5"
        );
        assert_eq!(
            keys(&plain, Series::Period(Unit::All), at),
            ["st:{run_hero}:7:all:all"]
        );
        assert_eq!(
            [LIVE, CHANGES, SEQUENCE, GENERATION, DELETED],
            ["live", "changes", "sequence", "generation", "deleted"]
                .map(|name| format!("st:{{boards}}:{name}"))
        );
    }
}
