//! How much memory things take.

use std::time::Duration;

use crate::Result;
use crate::boards::{Board, KEPT, LIVE, ONE, REMEMBERED, ROLLING_MEMBER};
use crate::kit::redis::Reply;
use crate::load::{Load, float};
use crate::redis::{self, Redis};
use crate::requests::{Members, Requests};
use crate::service::Service;
use crate::session::Session;
use crate::workload::{Kind, Workload};

/// The longest that events may take.
const EVENTS_WITHIN: Duration = Duration::from_mins(2);
/// How long Redis is left alone, so that it ends what it does little by little, before its memory is read.
const SETTLE_TIME: Duration = Duration::from_secs(2);

/// The bytes of an entry of a board's standings: of all that the board holds, but the remembered ids.
pub async fn of_entry(session: &Session, board: &Board) -> Result<f64> {
    session.ready(board).await?;
    // Ids begin with an `e` here, as the part before them does; standings and the like do not.
    let pattern = format!("st:{{{}}}:*:[^e]*", board.name);
    let redis = &session.redis;
    let (mut bytes, mut entries) = (0, 0);
    for key in redis.keys(&pattern).await? {
        bytes += redis
            .number(&["MEMORY", "USAGE", &key, "SAMPLES", "0"])
            .await?;
        if redis.call(&["TYPE", &key]).await? == Reply::text_of("zset") {
            entries += redis.number(&["ZCARD", &key]).await?;
        }
    }
    Ok(float(bytes) / float(entries))
}

/// The bytes of a remembered event id with its outcome: what servers of their own need more after each
/// member of a board has had an event with an id.
pub async fn of_id(program: &std::path::Path) -> Result<f64> {
    let (bytes, keys, _) = of_events(program, &REMEMBERED).await?;
    Ok(bytes / keys)
}

/// The bytes of a kept event: likewise.
pub async fn of_kept(program: &std::path::Path) -> Result<f64> {
    let (bytes, _, events) = of_events(program, &KEPT).await?;
    Ok(bytes / events)
}

/// The bytes and keys that servers of their own need more after each member of a board has had an event with an id; and
/// how many these are.
async fn of_events(program: &std::path::Path, board: &'static Board) -> Result<(f64, f64, f64)> {
    let redis = redis::start().await;
    let service = Service::start(program, &redis).await?;
    let workload = Workload {
        board,
        kind: Kind::BATCH,
    };
    let members = board.members(0);
    board.prepare(&service, members).await?;
    let before = state(&redis).await?;
    let load = Load::on(&service, &redis, EVENTS_WITHIN, workload.expected());
    let form = workload.form(&service).await?;
    let each = Members::each(members);
    load.run_all(vec![Requests::new(&form, each, 0)]).await?;
    let after = state(&redis).await?;
    Ok((
        after.0 - before.0,
        after.1 - before.1,
        float(members as u64),
    ))
}

/// The memory that Redis uses, and the number of its keys.
async fn state(redis: &Redis) -> Result<(f64, f64)> {
    let used = used(redis).await?;
    Ok((used, float(redis.number(&["DBSIZE"]).await?)))
}

/// The bytes that Redis uses, once it has been left alone for a moment.
pub async fn used(redis: &Redis) -> Result<f64> {
    tokio::time::sleep(SETTLE_TIME).await;
    let info = redis.call(&["INFO", "memory"]).await?.text();
    let used = info
        .lines()
        .find_map(|line| line.strip_prefix("used_memory:"))
        .ok_or("INFO names no used_memory")?;
    Ok(used.trim().parse()?)
}

/// The most memory that the service had up to now, and under single events, batches and reads all at once.
pub async fn of_service_under_load(session: &Session) -> Result<Option<u64>> {
    let workloads = [
        (&ONE, Kind::Single),
        (&ROLLING_MEMBER, Kind::BATCH),
        (&LIVE, Kind::Page),
    ]
    .map(|(board, kind)| Workload { board, kind });
    let load = async |workload: Workload| {
        session.ready(workload.board).await?;
        let form = workload.form(&session.service).await?;
        session.load(workload, &form, session.extent.load).await
    };
    for workload in workloads {
        session.ready(workload.board).await?;
    }
    let [events, batches, pages] = workloads.map(load);
    tokio::try_join!(events, batches, pages)?;
    Ok(session.service.process().memory().map(|memory| memory.peak))
}
