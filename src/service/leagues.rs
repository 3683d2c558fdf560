//! Seats in leagues: joining, leaving, ordering tiers, and what is known of a member.

use std::sync::Arc;

use super::{Error, Service};
use crate::domain::ids::{BoardId, MemberId};
use crate::domain::league::Section;
use crate::domain::series::{List, Series, Standing};
use crate::engine::reader::Reader;
use crate::engine::seats::{Reason, TakenSeat};
use crate::store::Freshness;
use crate::store::standings::{Page, Query, Selection};

/// A member that has its seat.
#[derive(Clone, Debug)]
pub struct Joined {
    /// The seat.
    pub taken: TakenSeat,
    /// Its cohort: how many members that has, and, as `me`, where the member stands, unless it is hidden.
    pub cohort: Arc<Page>,
}

impl Service {
    /// Seats a member in the running period of a league, and lists it, unless it is there.
    pub async fn join_league(&self, id: &BoardId, member: &MemberId) -> Result<Joined, Error> {
        let taken = self.engine.seat(id, member, Reason::Join).await?;
        let section = Section {
            period: taken.period,
            cohort: Some(taken.seat.cohort),
        };
        let cohort = self.look_at(id, section, member).await?;
        Ok(Joined { taken, cohort })
    }

    /// Where a member stands in its cohort.
    async fn look_at(
        &self,
        id: &BoardId,
        section: Section,
        member: &MemberId,
    ) -> Result<Arc<Page>, Error> {
        self.engine
            .with_board(id, async |live| {
                let reader = Reader::new(&self.engine, &live, Freshness::Current);
                let series = Series::shown(List::Period(section.period.unit));
                let [shard] = live.shards_of(section) else {
                    panic!("invariant: a cohort lies in one shard");
                };
                let query = Query::Page {
                    standing: Standing::of(series, section),
                    selection: Selection::Behind(0),
                    count: 1,
                    member: Some(member.clone()),
                };
                reader.ask(shard, series, query).await
            })
            .await
    }
}
