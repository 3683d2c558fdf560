//! Leagues: how fast members join, how fast the cohorts of many are turned over when a period ends, and how long others wait for
//! Redis meanwhile.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use crate::boards::{TURNED, settings};
use crate::http;
use crate::load::{Load, Sample, Watched, float};
use crate::requests::{self, Expected, Members, Requests};
use crate::rollover::Probe;
use crate::session::Session;
use crate::{Result, say, table};

/// How many members join with a request each; the others by events in batches.
const JOINS: usize = 20_000;
/// On how many connections they join.
const CONNECTIONS: u64 = 64;
/// How long these joins may take.
const JOINED_WITHIN: Duration = Duration::from_secs(20);
/// How long the first period goes on after that for each thousand members: long enough for their events.
const SEATED_WITHIN: Duration = Duration::from_millis(200);
/// For how long the probe looks at a server that does nothing.
const IDLE_TIME: Duration = Duration::from_secs(3);
/// The pause between two looks at the period that ended.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// What a league took.
#[derive(Clone, Copy, Debug)]
pub struct League {
    /// How many members joined in a second.
    pub joins: f64,
    /// Members whose cohorts were turned over in a second, how long the probe waited meanwhile, and CPU time.
    pub turned: Sample,
    /// The longest wait of the probe meanwhile.
    pub longest_ms: f64,
    /// The longest wait of the probe while nothing was done.
    pub idle_longest_ms: f64,
}

/// Has members join a league, and waits for the end of its period and until that is final.
pub async fn measure(session: &Session) -> Result<League> {
    if let Some(known) = session.league.get() {
        return Ok(*known);
    }
    let members = session.members(&TURNED);
    let thousands = u32::try_from(members.div_ceil(1_000))?;
    let ends = Utc::now() + IDLE_TIME + JOINED_WITHIN + SEATED_WITHIN * thousands;
    define(session, ends).await?;
    let joins = join_all(session, JOINS.min(members)).await?;
    TURNED.fill(&session.service, members, None).await?;
    let probe = Probe::start(session.redis.socket())?;
    tokio::time::sleep(IDLE_TIME).await;
    let idle = probe.stop()?;
    let left = (ends - Utc::now()).to_std();
    tokio::time::sleep(left.map_err(|_| "the period ended before all had joined")?).await;

    let probe = Probe::start(session.redis.socket())?;
    let watched = session.watched(session.service.process());
    let (begun, before) = (Instant::now(), watched.cpu());
    while !is_final(session).await? {
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
    let seconds = begun.elapsed().as_secs_f64();
    let busy = probe.stop()?;
    let count = table::number(float(members as u64));
    say(&format!(
        "{}: {count} members were turned over in {seconds:.1} s",
        TURNED.name
    ));
    let league = League {
        joins,
        turned: Sample {
            per_second: float(members as u64) / seconds,
            p50_ms: float(busy.value_at_quantile(0.5)) / 1_000.0,
            p99_ms: float(busy.value_at_quantile(0.99)) / 1_000.0,
            seconds,
            cpu: watched.cpu().since(before),
        },
        longest_ms: float(busy.max()) / 1_000.0,
        idle_longest_ms: float(idle.max()) / 1_000.0,
    };
    Ok(*session.league.get_or_init(async || league).await)
}

async fn define(session: &Session, ends: DateTime<Utc>) -> Result<()> {
    let definition = json!({"windows": ["season"], "season": {"start": ends.to_rfc3339(), "length": "1d"},
        "score_min": 0, "league": settings()});
    let path = format!("/v1/boards/{}", TURNED.name);
    let put = http::with_json("PUT", &path, &definition.to_string());
    session.service.call(&put, &[200, 201]).await?;
    Ok(())
}

/// How many joined in a second.
async fn join_all(session: &Session, members: usize) -> Result<f64> {
    let load = Load {
        address: session.service.address(),
        time: JOINED_WITHIN,
        expected: Expected {
            status: 201,
            text: r#""cohort":"#,
            times: 1,
        },
        watched: Watched::default(),
    };
    let form = requests::join(TURNED.name);
    let next = Arc::new(AtomicUsize::new(0));
    let series = (0..CONNECTIONS).map(|connection| {
        let each = Members::Each(Arc::clone(&next), members);
        Requests::new(&form, each, connection)
    });
    let begun = Instant::now();
    load.run_all(series.collect()).await?;
    Ok(float(members as u64) / begun.elapsed().as_secs_f64())
}

/// Whether all cohorts of the period that has ended have their results.
async fn is_final(session: &Session) -> Result<bool> {
    let path = format!(
        "/v1/boards/{}/standings/season/periods/previous",
        TURNED.name
    );
    let answer = session.service.call(&http::get(&path, ""), &[200]).await?;
    let period: Value = serde_json::from_slice(&answer.body)?;
    Ok(period["final_at"].is_string())
}
