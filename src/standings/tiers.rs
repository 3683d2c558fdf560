//! Reads the structure of a league: its tiers, and the cohorts of each.

use super::standing::{Attempt, View};
use crate::core::Error;
use crate::core::write::store::seats;
use crate::domain::league::{Cohort, League};
use crate::domain::part::Part;
use crate::domain::problems::Problem;
use crate::domain::series::Standing;
use crate::runtime::join::try_join_all;

/// The tiers of a league in a period.
#[derive(Clone, Copy, Debug)]
pub struct TiersView;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FoundTier {
    /// Its index in the settings of the period.
    pub tier: u8,
    /// How many cohorts it has.
    pub cohorts: u64,
    /// How many members have a seat in them.
    pub members: u64,
}

/// Some cohorts of a tier.
#[derive(Clone, Debug)]
pub struct CohortsView {
    pub tier: String,
    /// Only cohorts after the one with this name.
    pub after: Option<String>,
    /// At most this many.
    pub count: usize,
}

/// Some cohorts of a tier in order, with the number of members of each.
pub type FoundCohorts = Part<(Cohort, u64), Cohort>;

impl View for TiersView {
    type Found = Vec<FoundTier>;

    async fn read(&self, attempt: &Attempt<'_>) -> Result<Vec<FoundTier>, Error> {
        attempt.see_shards().await?;
        let league = attempt.league();
        let tiers: Vec<u8> = (0..=league.last_tier()).collect();
        attempt.tiers(&tiers).await
    }
}

impl View for CohortsView {
    type Found = FoundCohorts;

    async fn read(&self, attempt: &Attempt<'_>) -> Result<FoundCohorts, Error> {
        attempt.see_shards().await?;
        let tier = attempt
            .league()
            .tier_named(&self.tier)
            .ok_or_else(|| self.unknown_tier(attempt))?;
        let after = self.after(attempt, tier)?;
        let found = attempt.tiers(&[tier]).await?;
        let opened = found.first().map_or(0, |found| found.cohorts);
        let opened = u32::try_from(opened).unwrap_or(u32::MAX);
        let cohorts = (after.saturating_add(1)..=opened)
            .take(self.count)
            .map(async |number| {
                let cohort = Cohort { tier, number };
                Ok::<_, Error>((cohort, attempt.members_of(cohort).await?))
            });
        let items = try_join_all(cohorts).await?;
        let last = items.last().map(|(last, _)| *last);
        Ok(Part {
            next: last.filter(|last| last.number < opened),
            items,
        })
    }
}

impl CohortsView {
    /// The number of the cohort named by `after`.
    fn after(&self, attempt: &Attempt<'_>, tier: u8) -> Result<u32, Error> {
        let Some(name) = &self.after else {
            return Ok(0);
        };
        match attempt.league().cohort_named(name) {
            Some(cohort) if cohort.tier == tier => Ok(cohort.number),
            _ => {
                let detail = format!("is not a cohort of the tier {}", self.tier);
                Err(Problem::invalid_parameter("after", detail).into())
            }
        }
    }

    fn unknown_tier(&self, attempt: &Attempt<'_>) -> Error {
        let known: Vec<&str> = attempt
            .league()
            .tiers
            .iter()
            .map(|tier| tier.name.as_str())
            .collect();
        let (board, standing) = (&attempt.live.board.id, attempt.target.name());
        let tier: String = self.tier.chars().take(64).collect();
        Problem::unknown_tier(board, &standing, &tier, &known.join(", ")).into()
    }
}

impl Attempt<'_> {
    /// The settings of the period.
    fn league(&self) -> &League {
        let league = self.live.board.league_of(&self.target.standing.period);
        league.expect("invariant: tiers are read of leagues only")
    }

    /// Checks that the definition is still current. If the period has ended, also reads the barriers of all shards, from
    /// which its state follows.
    async fn see_shards(&self) -> Result<(), Error> {
        let standing = self.target.standing;
        if standing.period.end_ms <= self.now.ms() {
            self.reader.amounts(standing, &[]).await?;
        } else {
            // The shard of any cohort knows the definition.
            let (tier, number) = (0, 1);
            self.members_of(Cohort { tier, number }).await?;
        }
        Ok(())
    }

    /// The numbers of cohorts and members of these tiers.
    async fn tiers(&self, tiers: &[u8]) -> Result<Vec<FoundTier>, Error> {
        let (board, period) = (&self.live.board, &self.target.standing.period);
        let size = u64::from(self.league().cohort_size);
        let store = &self.reader.engine.store;
        let seats = seats::tier_seats(store, board, period, tiers).await?;
        Ok(tiers
            .iter()
            .zip(seats)
            .map(|(tier, seats)| FoundTier {
                tier: *tier,
                cohorts: seats.taken.div_ceil(size),
                members: seats.taken.saturating_sub(seats.free),
            })
            .collect())
    }

    /// How many members a cohort has.
    async fn members_of(&self, cohort: Cohort) -> Result<u64, Error> {
        let standing = Standing {
            cohort: Some(cohort),
            ..self.target.standing
        };
        Ok(self.reader.amounts(standing, &[]).await?.members)
    }
}
