//! Boards of several shards, on one server and on a cluster of three.
//!
//! All servers share the machine, so that more of them can't be faster here. What is told is how much of Redis' time an
//! event or a read takes, all servers together: what a cluster has to have is a multiple of that.

use std::io::Write;
use std::time::{Duration, Instant};

use crate::boards::{BY_SHARDS, Board};
use crate::load::{Load, NODES_MAX, Sample, Watched};
use crate::process::Process;
use crate::redis::Redis;
use crate::service::{Service, free_address};
use crate::session::Extent;
use crate::workload::{Kind, Workload};
use crate::{Options, Result, say};

/// How many slots a cluster has.
const SLOTS: usize = 16_384;
/// The longest wait for a cluster to be formed, and the pause between two looks whether it is.
const FORMED_WITHIN: Duration = Duration::from_secs(30);
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
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
    for count in [1, NODES_MAX] {
        let (servers, url) = start_servers(count).await?;
        let service = Service::start_on(&options.service, &servers[0], &url).await?;
        for board in &BY_SHARDS {
            say(&format!("{} on {count}", board.name));
            board.prepare(&service, extent.members).await?;
            for (kind, title) in KINDS {
                let sample = load(&servers, &service, Workload { board, kind }, &extent).await?;
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
    for (place, server) in redis.iter_mut().zip(servers) {
        *place = Some(server.id());
    }
    let load = Load {
        address: service.address(),
        time: extent.load,
        expected: workload.expected(),
        watched: Watched {
            redis,
            service: Some(Process::id(service.process())),
        },
    };
    let form = workload.form(service).await?;
    let requests = workload.requests(&form, members(workload.board, extent), 0);
    Ok(load.run(requests).await?.times(workload.count()))
}

fn members(board: &Board, extent: &Extent) -> usize {
    board.members(extent.members)
}

/// A server, or a cluster of so many, and its address.
async fn start_servers(count: usize) -> Result<(Vec<Redis>, String)> {
    if count == 1 {
        let server = Redis::start().await?;
        let url = format!("unix://{}", server.socket().display());
        return Ok((vec![server], url));
    }
    let mut servers = Vec::new();
    let mut ports = Vec::new();
    for _ in 0..count {
        let [port, bus] = [
            free_address()?.port().to_string(),
            free_address()?.port().to_string(),
        ];
        let network = [
            "--bind",
            "127.0.0.1",
            "--port",
            &port,
            "--cluster-port",
            &bus,
        ];
        let arguments = [&network[..], &["--cluster-enabled", "yes"]].concat();
        servers.push(Redis::start_with(&arguments).await?);
        ports.push([port, bus]);
    }
    let [seed, bus] = &ports[0];
    for (index, server) in servers.iter().enumerate() {
        let [first, behind] = [index, index + 1].map(|index| index * SLOTS / count);
        let [first, last] = [first, behind - 1].map(|slot| slot.to_string());
        server
            .command(&["CLUSTER", "ADDSLOTSRANGE", &first, &last])
            .await?;
        let epoch = (index + 1).to_string();
        server
            .command(&["CLUSTER", "SET-CONFIG-EPOCH", &epoch])
            .await?;
        server
            .command(&["CLUSTER", "MEET", "127.0.0.1", seed, bus])
            .await?;
    }
    for server in &servers {
        let is_well = async || {
            let info = server.command(&["CLUSTER", "INFO"]).await;
            info.is_ok_and(|info| info.contains("cluster_state:ok"))
        };
        let begun = Instant::now();
        while !is_well().await {
            if begun.elapsed() > FORMED_WITHIN {
                return Err("the cluster was not formed in time".into());
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }
    Ok((servers, format!("redis-cluster://127.0.0.1:{seed}")))
}
