//! What the response about a member of a league has beyond its entry.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::domain::board::Board;
use crate::domain::league::decision::Move;
use crate::domain::league::player::Played;
use crate::domain::league::zone::{Edges, Zone};
use crate::domain::score::ShownScore;
use crate::standings::league_member::InLeague;
use crate::standings::member::FoundMember;
use crate::standings::standing::FoundIn;

/// A member's place in a league.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = InLeague)]
pub struct InLeagueBody {
    /// The tier in which the member plays, or will play once it has a seat; null while its last cohort is being decided.
    pub tier: Option<String>,
    /// Its seat; null for a member without one.
    pub seat: Option<SeatBody>,
    /// The outcome of its last seat before the period; null if there was none.
    pub last: Option<PlayedBody>,
}

/// A member's seat, and its distance to the promotion and demotion zones in points, assuming that the others gain none.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = SeatInCohort)]
pub struct SeatBody {
    /// The cohort.
    pub cohort: String,
    /// The outcome for the member if the period ended now; once the cohort is decided, its outcome. Null for a hidden
    /// member, which is not counted.
    pub zone: Option<Zone>,
    /// How many points the member needs to enter the promotion zone; null if it is in it, or if the cohort has none.
    #[schema(value_type = Option<f64>, minimum = 0)]
    pub to_promotion: Option<ShownScore>,
    /// How many points the member needs to leave the demotion zone; null if it is not in it, or if nobody can leave it.
    #[schema(value_type = Option<f64>, minimum = 0)]
    pub to_safety: Option<ShownScore>,
    /// How many points the member has more than the first one in the demotion zone; null if it is in the zone itself, or if
    /// the cohort has none.
    #[schema(value_type = Option<f64>, minimum = 0)]
    pub to_demotion: Option<ShownScore>,
}

/// The outcome of a seat.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = PlayedSeat)]
pub struct PlayedBody {
    /// The key of the period.
    pub key: String,
    /// The tier's name at that time.
    pub tier: String,
    /// The cohort.
    pub cohort: String,
    /// The member's place in the cohort when the cohort was decided, from 1; null for a member that was hidden then.
    pub position: Option<u64>,
    /// Its score then.
    pub score: ShownScore,
    /// Whether it was promoted, demoted or kept.
    #[serde(rename = "move")]
    pub moved: Move,
    /// The score with which its next seat starts, or started.
    pub bonus: ShownScore,
}

impl InLeagueBody {
    pub(crate) fn new(found: &FoundIn<FoundMember>, own: &InLeague) -> Self {
        let board = &found.live.board;
        let league = board.league_of(&found.target.standing.period);
        let tier = league.zip(own.tier);
        let cohort = found.target.cohort.clone().filter(|_| own.is_seated);
        Self {
            tier: tier.map(|(league, tier)| league.tier(tier).name.to_string()),
            seat: cohort.map(|cohort| SeatBody::new(board, cohort, own.edges)),
            last: own
                .last
                .as_ref()
                .map(|played| PlayedBody::new(board, played)),
        }
    }
}

impl SeatBody {
    fn new(board: &Board, cohort: String, edges: Option<Edges>) -> Self {
        let decimals = board.definition.decimals;
        let points = |points: i64| ShownScore::sum(points.into(), decimals);
        Self {
            cohort,
            zone: edges.map(|edges| edges.zone),
            to_promotion: edges.and_then(|edges| edges.to_promotion).map(points),
            to_safety: edges.and_then(|edges| edges.to_safety).map(points),
            to_demotion: edges.and_then(|edges| edges.to_demotion).map(points),
        }
    }
}

impl PlayedBody {
    /// A line of a member's history.
    pub(crate) fn new(board: &Board, played: &Played) -> Self {
        let decimals = board.definition.decimals;
        let Played { tier, cohort, .. } = played;
        Self {
            key: board.period_key_at(played.start),
            tier: tier.to_string(),
            cohort: format!("{tier}-{}", cohort.number),
            position: played.position,
            score: played.score.shown(decimals),
            moved: played.moved,
            bonus: played.bonus.shown(decimals),
        }
    }
}
