//! A topic of Kafka as the queue: how fast votes are taken out of it and applied, and how long after its answer a vote is shown.
//!
//! That needs the client of Kafka, so the feature `kafka`, and a broker, which `tools/kafka` gets.

use std::time::Instant;

use crate::boards::QUEUED_VOTE;
use crate::load::float;
use crate::queue::{LOOK_INTERVAL, LOOK_TIME, Probe, ROOMY, Taker, VOTES, WITHIN, lag_ms, pace};
use crate::rows::{Figures, Measured};
use crate::service::Service;
use crate::session::Session;
use crate::{Options, Result, say, table};

/// Measures how fast votes are taken and applied, and how long after its answer a vote is shown.
pub async fn measure(session: &Session, options: &Options) -> Result<Figures> {
    let (_broker, address) = topic().await?;
    let (program, queue) = (&options.service, ("STANDINGS_QUEUE_URL", &*address));
    let taker = Taker::start(session, program, &[queue]).await?;
    let votes = VOTES / options.part();
    QUEUED_VOTE.define(&taker.service).await?;
    taker.put(&QUEUED_VOTE, votes).await?;
    let settings = [ROOMY[0], ROOMY[1], queue];
    let service = Service::start_with(program, &taker.redis, &settings).await?;
    let speed = speed(&service, votes).await?;
    let unqueued = taker.speed_without_queue(&service).await?;

    let time = LOOK_TIME / u32::try_from(options.part())?;
    let probe = Probe::start(&service, session.take_series(1)).await?;
    let half = pace(session, &service, speed / 2.0, time).await?;
    let lags = probe.stop().await?;
    let count = |count: f64| table::number(count.round());
    say(&format!(
        "kafka: {} events/s are taken and applied; at {} the lags of {} events were looked at",
        count(speed),
        count(half),
        lags.len(),
    ));
    Ok(vec![
        ("speed", Measured::beside(speed, unqueued)),
        ("lag", lag_ms(&lags).into()),
    ])
}

/// How many of so many votes, each for a member of its own, are taken and applied in a second, once a tenth is.
async fn speed(service: &Service, votes: usize) -> Result<f64> {
    let applied = async |least: usize| {
        let begun = Instant::now();
        loop {
            let standing = service.standing(QUEUED_VOTE.name, "all", "all").await?;
            if standing.total >= least {
                return Ok::<_, crate::Failure>(standing.total);
            }
            if begun.elapsed() > WITHIN {
                return Err("votes of the topic are never applied".into());
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    };
    let before = applied(votes / 10).await?;
    let begun = Instant::now();
    applied(votes).await?;
    if before == votes {
        return Err("too few votes wait".into());
    }
    Ok(float((votes - before) as u64) / begun.elapsed().as_secs_f64())
}

/// A broker, which ends with this value, and the address of a topic there.
#[cfg(feature = "kafka")]
async fn topic() -> Result<(crate::broker::Broker, String)> {
    use crate::broker::{Broker, Topic};
    /// How many partitions the topic has.
    const PARTITIONS: i32 = 6;
    let broker = Broker::start().await;
    let servers = format!("127.0.0.1:{}", broker.port());
    let topic = Topic::create(&servers, "events", PARTITIONS).await;
    Ok((broker, topic.url()))
}

/// Says that there is none.
#[cfg(not(feature = "kafka"))]
#[expect(clippy::unused_async, reason = "as with Kafka")]
async fn topic() -> Result<((), String)> {
    Err("the rows of Kafka need its client and a broker: make bench KAFKA=1".into())
}
