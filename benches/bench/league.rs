//! Leagues: how fast members join, how fast the cohorts of many are turned over when a period ends, and how long others wait for
//! Redis meanwhile.

use std::time::{Duration, Instant};

use chrono::Utc;
use serde_json::json;

use crate::Result;
use crate::boards::{TURNED, settings};
use crate::load::{Load, float};
use crate::requests::{self, Expected, Members, Requests};
use crate::rollover::{IDLE_TIME, idle_waits, waits_during};
use crate::rows::Figures;
use crate::session::Session;

/// How many members join with a request each; the others by events in batches.
const JOINS: usize = 20_000;
/// On how many connections they join.
const CONNECTIONS: usize = 64;
/// How long these joins may take.
const JOINED_WITHIN: Duration = Duration::from_secs(20);
/// How long the first period goes on after that for each thousand members: long enough for their events.
const SEATED_WITHIN: Duration = Duration::from_millis(200);
/// The pause between two looks at the period that ended.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// Has members join a league, and waits for the end of its period and until that is final.
pub async fn measure(session: &Session) -> Result<Figures> {
    let members = session.members(&TURNED);
    let thousands = u32::try_from(members.div_ceil(1_000))?;
    let ends = Utc::now() + IDLE_TIME + JOINED_WITHIN + SEATED_WITHIN * thousands;
    let definition = json!({"windows": ["season"], "season": {"start": ends.to_rfc3339(), "length": "1d"},
        "score_min": 0, "league": settings()});
    session.service.define(TURNED.name, &definition).await?;
    let joins = join_all(session, JOINS.min(members)).await?;
    TURNED.fill(&session.service, members, None).await?;
    let idle = idle_waits(session).await?;
    let left = (ends - Utc::now()).to_std();
    tokio::time::sleep(left.map_err(|_| "the period ended before all had joined")?).await;
    let turn_over = async || {
        while !is_final(session).await? {
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
        Ok(())
    };
    let mut figures = waits_during(session, (TURNED.name, members), &idle, turn_over).await?;
    figures.push(("joins", joins.into()));
    Ok(figures)
}

/// How many joined in a second.
async fn join_all(session: &Session, members: usize) -> Result<f64> {
    let expected = Expected {
        status: 201,
        text: r#""cohort":"#,
        times: 1,
    };
    let load = Load::on(&session.service, &session.redis, JOINED_WITHIN, expected);
    let form = requests::join(TURNED.name);
    let each = Members::each(members);
    let begun = Instant::now();
    load.run_all(Requests::of_connections(&form, &each, 0, CONNECTIONS))
        .await?;
    Ok(float(members as u64) / begun.elapsed().as_secs_f64())
}

/// Whether all cohorts of the period that has ended have their results.
async fn is_final(session: &Session) -> Result<bool> {
    let path = format!(
        "/v1/boards/{}/standings/season/periods/previous",
        TURNED.name
    );
    let period = session.service.read(&path).await?;
    Ok(period["final_at"].is_string())
}
