//! `/v1/members`: members by the words of their names.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::work;
use crate::domain::name_words::NameQuery;
use crate::domain::profile::ReviewStatus;
use crate::http::extract::{JsonResponse, JsonResult, Query, Shared, State, invalid, list_limit};
use crate::profiles::work::FoundProfile;

/// Which members are found.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct FindParams {
    /// The beginnings of words of the name, without regard to case and accents: `an smi` finds Ann Smith.
    #[param(min_length = 1, max_length = 64, example = "an")]
    name: String,
    /// The maximum number of members to return.
    #[param(minimum = 1, maximum = 50, default = 20)]
    limit: Option<u64>,
}

/// A member that was found by its name.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct NamedMember {
    /// The member.
    pub member: String,
    /// Its name, even if boards do not show it.
    pub name: String,
    /// The status of the name's review.
    pub status: ReviewStatus,
}

impl From<FoundProfile> for NamedMember {
    fn from(FoundProfile { member, record }: FoundProfile) -> Self {
        Self {
            member: member.to_string(),
            name: record.profile.name.to_string(),
            status: record.review.status,
        }
    }
}

/// The members that were found by name.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct NamedMembers {
    /// The members, ordered by the words that begin like this.
    pub members: Vec<NamedMember>,
    /// Whether there may be more of them.
    pub more: bool,
    /// Whether the search knows all names. After it was turned on, it takes a while until it does.
    pub complete: bool,
}

/// Find members by name.
///
/// It finds members of all boards whose names have words that begin like this, from among the first four words of a name. The
/// service has to run with `STANDINGS_NAME_SEARCH=true`.
#[utoipa::path(
    get, path = "/v1/members", operation_id = "find_members",
    params(FindParams),
    responses(
        (status = 200, description = "The members", body = NamedMembers),
        (status = 409, description = "`name-search-off`"),
    )
)]
pub async fn find(
    State(app): Shared,
    Query(params): Query<FindParams>,
) -> JsonResult<NamedMembers> {
    let query = NameQuery::parse(&params.name).map_err(|error| invalid("name", error))?;
    let count = list_limit(params.limit, 20, 50)?;
    let found = work::find(&app.engine, &query, count).await?;
    Ok(JsonResponse(NamedMembers {
        members: found.members.into_iter().map(NamedMember::from).collect(),
        more: found.is_more,
        complete: found.is_complete,
    }))
}
