//! Boards of several shards, on one server and on a cluster of three.
//!
//! All servers share the machine, so that more of them can't be faster here. What is told is how much of Redis' time an
//! event or a read takes, all servers together: what a cluster has to have is a multiple of that.

use std::io::Write;

use crate::boards::{BY_SHARDS, Board};
use crate::kit::servers::{PRIMARIES, RedisServers};
use crate::load::{Load, NODES_MAX, Sample, Watched};
use crate::redis::{self, Redis};
use crate::service::Service;
use crate::session::Extent;
use crate::workload::{Kind, Workload};
use crate::{Options, Result, say};

/// What the boards are loaded with.
const KINDS: [(Kind, &str); 4] = [
    (Kind::BATCH, "events in batches"),
    (Kind::Page, "first pages"),
    (Kind::DeepPage, "pages in the middle"),
    (Kind::Member, "members"),
];

/// Measures all of them, and prints a table.
pub async fn run(options: &Options) -> Result<()> {
    let extent = Extent::new(options)?;
    let mut out = std::io::stdout();
    writeln!(
        out,
        "| servers | shards | what | a second | Redis, µs each |"
    )?;
    writeln!(out, "| --- | --- | --- | --- | --- |")?;
    for count in [1, PRIMARIES] {
        let servers = match count {
            1 => RedisServers::one(redis::start().await),
            _ => redis::start_cluster().await,
        };
        let (url, servers) = (&servers.url, &servers.nodes);
        let service = Service::start_on(&options.service, &servers[0], url).await?;
        for board in &BY_SHARDS {
            say(&format!("{} on {count}", board.name));
            board.prepare(&service, extent.members).await?;
            for (kind, title) in KINDS {
                let sample = load(servers, &service, Workload { board, kind }, &extent).await?;
                let redis_us = sample.cpu.redis.unwrap_or(f64::NAN) * 1e6 / sample.seconds;
                let (rate, each) = (sample.per_second, redis_us / sample.per_second);
                let shards = board.shards;
                writeln!(
                    out,
                    "| {count} | {shards} | {title} | {rate:.0} | {each:.0} |"
                )?;
            }
        }
    }
    Ok(())
}

async fn load(
    servers: &[Redis],
    service: &Service,
    workload: Workload,
    extent: &Extent,
) -> Result<Sample> {
    let mut redis = [None; NODES_MAX];
    for (watched, server) in redis.iter_mut().zip(servers) {
        *watched = Some(server.id());
    }
    let load = Load {
        address: service.address(),
        time: extent.load,
        expected: workload.expected(),
        watched: Watched {
            redis,
            service: Some(service.process().id()),
        },
    };
    let form = workload.form(service).await?;
    let requests = workload.requests(&form, members(workload.board, extent), 0);
    Ok(load.run(requests).await?.times(workload.count()))
}

fn members(board: &Board, extent: &Extent) -> usize {
    board.members(extent.members)
}
