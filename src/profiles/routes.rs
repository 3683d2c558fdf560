//! Profiles of members, single and in batches, and the reviews of their names.

use std::borrow::Cow;

use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::store::ReviewPlace;
use super::work::{self, FoundProfile, MemberDraft, PROFILES_MAX, ReviewCounts};
use crate::access::Caller;
use crate::domain::ids::MemberId;
use crate::domain::name::Name;
use crate::domain::profile::{
    Draft, Profile, REASON_CHARS_MAX, Review, ReviewStatus, Verdict, no_attributes,
};
use crate::domain::time::Timestamp;
use crate::http::App;
use crate::http::audited::Audit;
use crate::http::batches::results_of;
use crate::http::extract::{
    Json, JsonBytes, JsonResponse, JsonResult, MemberPath, Query, Shared, State, part_params,
    require_count,
};
use crate::http::memory::Written;
use crate::http::problem::{Problem, ProblemBody, parse_json};

/// A profile to write, with its member.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = MemberProfileInput)]
pub struct MemberProfileBody {
    /// The member.
    #[schema(min_length = 1, max_length = 128, example = "999")]
    member: String,
    /// As in a single profile.
    #[schema(min_length = 1, example = "Ann")]
    name: String,
    /// As in a single profile.
    #[serde(default)]
    avatar_url: Option<String>,
    /// As in a single profile.
    #[serde(default)]
    #[schema(value_type = Option<serde_json::Map<String, serde_json::Value>>)]
    attributes: Option<Box<RawValue>>,
}

/// The profile of a member, with the review of its name.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct MemberProfile {
    /// The member.
    pub member: String,
    /// The member's name.
    pub name: String,
    /// The address of its picture; null if it has none.
    pub avatar_url: Option<String>,
    /// Attributes that the operator's backend has added.
    #[schema(value_type = serde_json::Map<String, serde_json::Value>)]
    pub attributes: Box<RawValue>,
    /// The review of the name and the picture.
    pub review: Review,
    /// Who wrote the name and the picture: the name of an API key, as in `review`; `player:` and the `sub` of a player's
    /// token; null if that is not known. It can't approve them.
    pub written_by: Option<String>,
    /// When the profile last changed.
    pub updated_at: Timestamp,
}

impl From<FoundProfile> for MemberProfile {
    fn from(FoundProfile { member, record }: FoundProfile) -> Self {
        let profile = Profile::clone(&record.profile);
        Self {
            member: member.to_string(),
            name: profile.name.to_string(),
            avatar_url: profile.avatar_url,
            attributes: profile.attributes,
            review: record.review.clone(),
            written_by: Some(record.writer.clone()).filter(|writer| !writer.is_empty()),
            updated_at: record.updated_at,
        }
    }
}

/// Profiles of any members.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ProfileBatch)]
struct ProfilesBody<'a> {
    /// The profiles. Each is written or rejected separately.
    #[serde(borrow)]
    #[schema(value_type = Vec<MemberProfileBody>, min_items = 1, max_items = 1000)]
    profiles: Vec<&'a RawValue>,
}

/// The result of one profile, with its `status`.
#[derive(Debug, Serialize, ToSchema)]
#[serde(tag = "status", rename_all = "lowercase")]
pub enum ProfileResult {
    /// It was written.
    Stored(StoredProfile),
    /// It was not written.
    Rejected(Box<RejectedProfile>),
}

/// A profile that was written.
#[derive(Debug, Serialize, ToSchema)]
pub struct StoredProfile {
    /// The current profile.
    pub profile: MemberProfile,
}

/// A profile that was not written.
#[derive(Debug, Serialize, ToSchema)]
pub struct RejectedProfile {
    /// The member; null if it can't be read.
    pub member: Option<String>,
    /// Why the profile was not written.
    pub problem: ProblemBody,
}

/// The results of many profiles.
#[derive(Debug, Serialize, ToSchema)]
pub struct ProfileResults {
    /// A result for each profile, in the order of the profiles.
    pub results: Vec<ProfileResult>,
}

/// A moderator's review of a name.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NameReview)]
pub struct ReviewBody {
    /// The reviewed name: the text that the moderator saw.
    #[schema(min_length = 1, example = "Ann")]
    name: String,
    /// The address of the picture that was reviewed with it. If missing, the review applies to whatever picture there is.
    #[serde(default)]
    avatar_url: Option<String>,
    /// Whether boards may show the name and the picture.
    #[schema(inline)]
    status: Judgement,
    /// Why, in up to 500 characters.
    #[serde(default)]
    #[schema(max_length = 500, example = "a real name")]
    reason: Option<String>,
}

/// A moderator's decision about a name.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Judgement {
    /// All boards may show it.
    Approved,
    /// No board shows it.
    Blocked,
    /// It has to be reviewed again. This undoes a review.
    Pending,
}

part_params! {
    /// Which names are listed.
    ReviewParams {
        /// The status of the reviews: `pending` if there is none yet.
        #[param(value_type = Option<ReviewStatus>, required = false, inline, example = "approved")]
        status: Option<ReviewStatus>,
    }
    limit(default = 100, maximum = 1000)
}

/// A part of the list of names.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct NameReviews {
    /// The profiles with these names, ordered by the `at` of their reviews: those that wait longest come first.
    pub reviews: Vec<MemberProfile>,
    /// The `after` of the next part; null in the last part.
    pub next: Option<String>,
    /// How many names there are by their reviews.
    pub counts: ReviewCounts,
}

/// The identity of a writer, to distinguish it from the reviewer. Without API keys it is unknown.
fn identity(app: &App, caller: &Caller) -> String {
    match caller.player() {
        _ if app.is_open => String::new(),
        Some((player, _)) => format!("player:{}", player.sub()),
        None => caller.name(),
    }
}

/// A profile as the caller may write it. Fields that a player can't set are kept.
fn checked_draft(caller: &Caller, member: &MemberId, mut draft: Draft) -> Result<Draft, Problem> {
    if let Some((player, _)) = caller.player() {
        player.require_own(member)?;
        if draft.attributes.is_some() {
            let detail = "Players can't set `attributes`. Leave it out.";
            return Err(Problem::invalid_field("/attributes", detail));
        }
    } else {
        draft.attributes.get_or_insert_with(no_attributes);
    }
    Ok(draft)
}

/// Give a member a profile.
///
/// It replaces an existing profile. A changed name or picture has to be reviewed again. The name is stored in NFC, trimmed,
/// with single spaces. A player's token writes the profile of its own `sub`, and keeps the attributes.
#[utoipa::path(
    put, path = "/v1/members/{member}/profile", operation_id = "put_profile",
    params(MemberPath),
    request_body(content = Draft, example = json!({"name": "Ann", "avatar_url": "https://img.example.com/ann.png", "attributes": {"country": "NZ"}})),
    responses((status = 200, description = "The current profile", body = MemberProfile))
)]
pub async fn put(
    State(app): Shared,
    member: MemberId,
    caller: Caller,
    Json(draft, _): Json<Draft>,
) -> JsonResult<MemberProfile> {
    let draft = checked_draft(&caller, &member, draft)?;
    let (rules, writer) = (&app.profile_rules, identity(&app, &caller));
    let incoming = [MemberDraft { member, draft }];
    let mut written = work::write(&app.engine, &incoming, rules, &writer).await;
    let found = written.pop().expect("invariant: a result for each profile");
    Ok(JsonResponse(found?.into()))
}

/// Give many members profiles.
///
/// A request has 1 to 1,000 profiles. Each is written or rejected separately. The request is refused as a whole only if it
/// isn't JSON of this form, or if Redis does not answer; then send it again.
#[utoipa::path(
    post, path = "/v1/profiles", operation_id = "put_profiles",
    request_body(content = ProfilesBody, example = json!({"profiles": [
        {"member": "999", "name": "Ann", "avatar_url": "https://img.example.com/ann.png", "attributes": {"country": "NZ"}},
        {"member": "alice", "name": "Alice"}]})),
    responses((status = 200, description = "The result of each profile", body = ProfileResults))
)]
pub async fn post_many(
    State(app): Shared,
    caller: Caller,
    body: JsonBytes,
) -> Result<Written, Problem> {
    let ProfilesBody { profiles } = body.parse()?;
    require_count("a request", "profiles", profiles.len(), PROFILES_MAX)?;
    let by = caller.takers();
    let taken = app.memory.for_profiles(&by, profiles.len()).await?;
    let mut sound = Vec::with_capacity(profiles.len());
    let checked: Vec<Result<(), Problem>> = profiles
        .iter()
        .map(|raw| {
            sound.push(incoming(&caller, raw)?);
            Ok(())
        })
        .collect();
    let (rules, writer) = (&app.profile_rules, identity(&app, &caller));
    let written = work::write(&app.engine, &sound, rules, &writer).await;
    let written = written.into_iter().map(|found| {
        let profile = found?.into();
        Ok(ProfileResult::Stored(StoredProfile { profile }))
    });
    let results = results_of((&profiles, checked), written, rejected)?;
    taken.write(&ProfileResults { results })
}

/// An item of a batch of profiles.
fn incoming(caller: &Caller, raw: &RawValue) -> Result<MemberDraft, Problem> {
    let item: MemberProfileBody = parse_json(raw.get().as_bytes())?;
    let member =
        MemberId::parse(&item.member).map_err(|error| Problem::invalid_field("/member", error))?;
    let draft = Draft {
        name: item.name,
        avatar_url: item.avatar_url,
        attributes: item.attributes,
    };
    let draft = checked_draft(caller, &member, draft)?;
    Ok(MemberDraft { member, draft })
}

fn rejected(raw: &RawValue, problem: &Problem) -> ProfileResult {
    #[derive(Deserialize)]
    struct Named<'a> {
        #[serde(borrow)]
        member: Cow<'a, str>,
    }
    // Whatever can be read of the item shows the client which one it was.
    let named: Option<Named<'_>> = serde_json::from_str(raw.get()).ok();
    ProfileResult::Rejected(Box::new(RejectedProfile {
        member: named.map(|named| named.member.into_owned()),
        problem: problem.item(),
    }))
}

/// Read the profile of a member.
///
/// It has the name, even if that is blocked, and its review.
#[utoipa::path(
    get, path = "/v1/members/{member}/profile", operation_id = "get_profile",
    params(MemberPath),
    responses(
        (status = 200, description = "The profile", body = MemberProfile),
        (status = 404, description = "`profile-not-found`"),
    )
)]
pub async fn get(
    State(app): Shared,
    member: MemberId,
    caller: Caller,
) -> JsonResult<MemberProfile> {
    let member = caller.own_member(member)?;
    let found = work::find(&app.engine, &member).await?;
    Ok(JsonResponse(found.into()))
}

/// Delete the profile of a member.
#[utoipa::path(
    delete, path = "/v1/members/{member}/profile", operation_id = "delete_profile",
    params(MemberPath),
    responses(
        (status = 204, description = "The profile and its review were deleted"),
        (status = 404, description = "`profile-not-found`"),
    )
)]
pub async fn delete(State(app): Shared, member: MemberId) -> Result<StatusCode, Problem> {
    work::delete(&app.engine, &member).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Approve or block the name of a member.
///
/// The review applies to the reviewed name only. If the member has another name by now, nothing changes (412). Nobody can
/// approve a name that they wrote, or undo its review (403).
#[utoipa::path(
    put, path = "/v1/members/{member}/name-review", operation_id = "review_name",
    params(MemberPath),
    request_body(content = ReviewBody, example = json!({"name": "Ann", "status": "approved", "reason": "a real name"})),
    responses(
        (status = 200, description = "The current profile", body = MemberProfile),
        (status = 404, description = "`profile-not-found`"),
        (status = 412, description = "`name-changed`"),
    )
)]
pub async fn put_review(
    State(app): Shared,
    member: MemberId,
    caller: Caller,
    audit: Audit,
    Json(body, _): Json<ReviewBody>,
) -> JsonResult<MemberProfile> {
    let (reviewer, by) = (identity(&app, &caller), caller.name());
    let (verdict, by) = (body.verdict()?, (&*reviewer, &*by));
    let (before, after) = work::review_name(&app.engine, &member, &verdict, by).await?;
    audit.before(&before);
    audit.after(&after.record.review);
    Ok(JsonResponse(after.into()))
}

impl ReviewBody {
    fn verdict(self) -> Result<Verdict, Problem> {
        let name =
            Name::parse(&self.name).map_err(|error| Problem::invalid_field("/name", error))?;
        let is_sound = |reason: &String| {
            let is_short = reason.chars().count() <= REASON_CHARS_MAX;
            is_short && !reason.chars().any(char::is_control)
        };
        if !self.reason.iter().all(is_sound) {
            let detail = format!(
                "must have at most {REASON_CHARS_MAX} characters, and no control characters"
            );
            return Err(Problem::invalid_field("/reason", detail));
        }
        Ok(Verdict {
            name,
            avatar_url: self.avatar_url,
            status: match self.status {
                Judgement::Approved => ReviewStatus::Approved,
                Judgement::Blocked => ReviewStatus::Blocked,
                Judgement::Pending => ReviewStatus::Pending,
            },
            reason: self.reason.filter(|reason| !reason.is_empty()),
        })
    }
}

/// List names by their reviews.
///
/// `status=pending`, the default, lists the names to review.
#[utoipa::path(
    get, path = "/v1/name-reviews", operation_id = "list_name_reviews",
    params(ReviewParams),
    responses((status = 200, description = "The profiles, those with the oldest reviews first", body = NameReviews))
)]
pub async fn list_reviews(
    State(app): Shared,
    Query(params): Query<ReviewParams>,
) -> JsonResult<NameReviews> {
    let (after, limit) = params.part(ReviewPlace::parse)?;
    let status = params.status.unwrap_or(ReviewStatus::Pending);
    let (found, counts) = work::reviewed(&app.engine, status, after.as_ref(), limit).await?;
    let (reviews, next) = found.shown(MemberProfile::from);
    Ok(JsonResponse(NameReviews {
        reviews,
        next,
        counts,
    }))
}
