//! Checks kept events: their indexes, and that the entries of their members are what they have made of them.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures::FutureExt;

use super::repair::RepairOutcome;
use super::store::Difference;
use super::{Check, Place};
use crate::core::ATTEMPTS_MAX;
use crate::core::write::store::events::{RowArgs, StoredRow, update_name};
use crate::corrections::revocations::revocation::Cover;
use crate::corrections::revocations::store as revocations;
use crate::domain::ids::{EventId, MemberId};
use crate::domain::shard::Shard;
use crate::history::store::{self, PlacedRow, RowRange, Rows};
use crate::moves::store::scan_lines;
use crate::redis::args::LayoutArgs;
use crate::redis::kinds::Kind;
use crate::redis::reply::Reply;
use crate::redis::{StoreError, keys, script};

/// What is walked through: first the parts of the index by members, since a row is added where it is missing.
const WALKS: [&str; 4] = ["many", "few", "taken", "rows"];
/// About how many rows one call compares with their indexes.
const PART: usize = 200;
/// How many rows of a member are compared with its entries at most.
const MEMBER_ROWS_MAX: usize = 2_000;

impl Check<'_> {
    /// Checks the kept events of a shard.
    pub(super) async fn check_events(&mut self, shard: &Shard) -> Result<(), StoreError> {
        for walk in WALKS {
            let mut from = Bytes::new();
            loop {
                let (next, differences) = self.walk_events(shard, walk, from).await?;
                let place = Place::of_key(shard, &keys::single(shard, Kind::Events));
                self.report.add_all(shard, &place, differences);
                if next.is_empty() {
                    break;
                }
                from = next;
            }
        }
        self.check_members(shard).await
    }

    async fn walk_events(
        &self,
        shard: &Shard,
        walk: &str,
        from: Bytes,
    ) -> Result<(Bytes, Vec<Difference>), StoreError> {
        let repair = self.comparer(shard).repair;
        let script = if repair.writes() {
            &script::REPAIR_EVENTS
        } else {
            &script::CHECK_EVENTS
        };
        let call = self
            .store
            .call_version(script, shard)
            .field("layout", LayoutArgs::new(shard))
            .field("repair", repair as u8)
            .field("walk", walk)
            .field("count", PART)
            .arg(from);
        let reply = if repair.writes() {
            call.write_for_reply().await
        } else {
            call.read_for_reply().await
        };
        let mut reply = Reply::answer(reply?)?;
        Ok((reply.bytes()?, reply.all(Reply::read)?))
    }

    /// Compares the entries of all members with their rows, and the rows with revocations.
    async fn check_members(&mut self, shard: &Shard) -> Result<(), StoreError> {
        let covers = revocations::in_force(self.store, shard).boxed().await?;
        let (mut cursor, mut unchecked) = ("0".to_owned(), 0_usize);
        loop {
            let key = store::members_key(shard);
            let (next, members) = scan_lines(self.store, key, &cursor).await?;
            for (member, _) in members {
                if let Ok(member) = MemberId::parse(&member)
                    && !self.check_member(shard, &member, covers.as_deref()).await?
                {
                    unchecked += 1;
                }
            }
            if next == "0" {
                break;
            }
            cursor = next;
        }
        if unchecked > 0 {
            self.report.note(format!(
                "board {}: the entries of {unchecked} members with more than {MEMBER_ROWS_MAX} kept events, or with events that kept arriving, were not compared with these",
                shard.id
            ));
        }
        Ok(())
    }

    /// Compares the entries of a member with its rows. Returns false if it has too many, or they keep changing.
    async fn check_member(
        &mut self,
        shard: &Shard,
        member: &MemberId,
        covers: Option<&[Cover]>,
    ) -> Result<bool, StoreError> {
        for _ in 0..ATTEMPTS_MAX {
            let mut rows = Rows::of(RowRange::Member(member.clone(), [None, None]));
            let mut placed: Vec<PlacedRow> = Vec::new();
            while let Some(part) = rows.next(self.store, shard).await? {
                placed.extend(part);
                if placed.len() > MEMBER_ROWS_MAX {
                    return Ok(false);
                }
            }
            let read = read_rows(shard, &rows.range, &placed)?;
            if let Some(mut differences) = self
                .compare_entries(shard, member, (&rows.range, &placed), &read)
                .await?
            {
                let history = shard.history.as_ref();
                if let Some((history, covers)) = history.zip(covers) {
                    differences.extend(read.iter().filter_map(|(id, row)| {
                        let covered = covers.iter().any(|cover| cover.has(history, id, row));
                        (covered != row.is_revoked).then(|| wrongly_revoked(id, row))
                    }));
                }
                let place = Place::of_key(shard, &keys::single(shard, Kind::Events));
                self.report.add_all(shard, &place, differences);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Compares the entries of a member with its rows; `None` if they change.
    async fn compare_entries(
        &self,
        shard: &Shard,
        member: &MemberId,
        (range, placed): (&RowRange, &[PlacedRow]),
        read: &[(EventId, StoredRow)],
    ) -> Result<Option<Vec<Difference>>, StoreError> {
        let ids: Vec<String> = placed
            .iter()
            .map(|placed| range.event_id(&placed.text).map(|id| id.to_string()))
            .map(Option::unwrap_or_default)
            .collect();
        let now = self.clock.now().ms();
        let mut added: BTreeMap<String, (u8, Vec<RowArgs<'_>>)> = BTreeMap::new();
        for (_, row) in read {
            // The entry that only events made which were retracted is there no more.
            let writes = row.details.writes(shard, row.at);
            let kept = |expires: Option<i64>| expires.is_none_or(|expires| expires > now);
            for write in writes.into_iter().filter(|write| kept(write.expires_at_ms)) {
                let is_old = shard.has_unkept(&write.standing.period);
                let zset = keys::sorted_set(shard, &write.standing);
                let (_, added) = added.entry(zset).or_insert((u8::from(is_old), Vec::new()));
                if !row.is_out() {
                    added.push(row.args(shard, &write));
                }
            }
        }
        let mut keys = keys::head_and_registry(shard);
        let mut standings = Vec::new();
        for (zset, (is_old, added)) in added {
            keys.push(zset);
            standings.push((keys.len(), is_old, added));
        }
        let call = self
            .store
            .call_version(&script::CHECK_ENTRIES, shard)
            .with_keys(keys)
            .field("layout", LayoutArgs::new(shard))
            .field("update", update_name(shard))
            .field("member", member.as_str())
            .field("ids", ids)
            .field("standings", standings)
            .args(placed.iter().map(|placed| placed.row.clone()));
        let mut reply = Reply::new(call.read_for_reply().await?)?;
        match reply.text()?.as_str() {
            "OK" => reply.all(Reply::read).map(Some),
            "STALE" => Err(StoreError::Stale),
            _ => Ok(None),
        }
    }
}

/// Reads the rows that are still shown.
fn read_rows(
    shard: &Shard,
    range: &RowRange,
    placed: &[PlacedRow],
) -> Result<Vec<(EventId, StoredRow)>, StoreError> {
    let mut read = Vec::new();
    for placed in placed.iter().filter(|placed| !placed.row.is_empty()) {
        let row = StoredRow::read(shard, &placed.row)?;
        read.extend(range.event_id(&placed.text).zip(row));
    }
    Ok(read)
}

fn wrongly_revoked(id: &EventId, row: &StoredRow) -> Difference {
    Difference {
        code: "revoked".to_owned(),
        outcome: RepairOutcome::Left,
        stored: vec![id.to_string(), u8::from(row.is_revoked).to_string()],
    }
}
