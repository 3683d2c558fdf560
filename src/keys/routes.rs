//! API keys: creating, changing, listing, rotating and deleting them.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::work::{self, FoundKey};
use crate::access::keyring::store::ApiKey;
use crate::domain::access::{Boards, Grant, KeyName, Rate, Scopes};
use crate::domain::time::{Span, Timestamp};
use crate::domain::webhook::WebhookName;
use crate::http::App;
use crate::http::audited::Audit;
use crate::http::extract::{Json, JsonResponse, JsonResult, PartParams, Query, Shared, State};
use crate::http::problem::Problem;

/// A warning to callers that create a key on an open service.
const WARNING: &str = "the service is open: API keys have no effect until STANDINGS_API_KEYS is set, because anyone can do everything without a key";
/// How long a replaced secret may stay valid.
const GRACE_MAX: Span = Span::days(30);

/// An API key.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = Key)]
pub struct KeyBody {
    /// Its name.
    pub name: String,
    /// What its bearer may do.
    pub scopes: Scopes,
    /// The boards that it is for.
    pub boards: Boards,
    /// How many requests it may send; null for no limit.
    pub rate: Option<Rate>,
    /// When it expires; null if it never does.
    pub expires_at: Option<Timestamp>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was last used, by the service's clock; null if it never was. Uses on other instances appear some seconds
    /// later.
    pub last_used: Option<Timestamp>,
    /// Until when the previous secret is also accepted; null if it is not.
    pub previous_until: Option<Timestamp>,
    /// The names of the webhooks that it created or was the last to change. They outlive the key.
    pub webhooks: Vec<String>,
}

/// The webhooks of a deleted API key.
#[derive(Debug, Serialize, ToSchema)]
pub struct KeyDeletion {
    /// The names of its webhooks that were deleted too.
    pub webhooks_deleted: Vec<String>,
    /// The names of its webhooks that are left: they still get messages.
    pub webhooks_left: Vec<String>,
}

/// What goes with an API key.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Belongings {
    /// Its webhooks.
    Webhooks,
}

/// How an API key is deleted.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct KeyDeletionParams {
    /// With `webhooks`, the webhooks that the key created or was the last to change are deleted too.
    #[param(inline)]
    with: Option<Belongings>,
}

/// An API key with its secret.
#[derive(Deserialize, Serialize, ToSchema)]
pub struct KeyWithSecret {
    /// The key.
    #[serde(flatten)]
    pub key: KeyBody,
    /// What clients send as `Authorization: Bearer SECRET`. It is shown only this once; the service stores only its SHA-256.
    #[schema(pattern = "^st_[0-9a-f]{64}$")]
    pub secret: String,
    /// Why the key has no effect yet: the service is open. Otherwise missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub warning: Option<String>,
}

/// A part of the list of API keys.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct KeyList {
    /// The keys, ordered by name.
    pub keys: Vec<KeyBody>,
    /// The `after` of the next part; null in the last part.
    pub next: Option<String>,
}

/// A change of what an API key allows. Missing fields are kept.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = GrantPatch)]
#[serde(deny_unknown_fields)]
#[expect(
    clippy::option_option,
    reason = "a missing field is kept, and null is a value"
)]
pub struct GrantChange {
    /// What its bearer may do; `admin` includes all other scopes.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Scopes, required = false)]
    scopes: Option<Scopes>,
    /// The boards that it is for: patterns of their ids, where `*` stands for any characters.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Boards, required = false)]
    boards: Option<Boards>,
    /// How many requests per second (`s`), minute (`m`) or hour (`h`) it may send to each instance of the service; null for
    /// no limit.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<Rate>, required = false)]
    rate: Option<Option<Rate>>,
    /// When it expires; null for never.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<Timestamp>, required = false)]
    expires_at: Option<Option<Timestamp>>,
}

/// A field that is not missing; so null is a value.
fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(field: D) -> Result<Option<T>, D::Error> {
    T::deserialize(field).map(Some)
}

impl GrantChange {
    fn of(&self, grant: Grant) -> Grant {
        Grant {
            scopes: self.scopes.unwrap_or(grant.scopes),
            boards: self.boards.clone().unwrap_or(grant.boards),
            rate: self.rate.unwrap_or(grant.rate),
            expires_at: self.expires_at.unwrap_or(grant.expires_at),
        }
    }
}

/// How the secret of an API key is rotated.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Rotation {
    /// How long the previous secret is also accepted: a duration up to `30d`. By default not at all.
    #[serde(default)]
    grace: Option<Span>,
}

impl From<FoundKey> for KeyBody {
    fn from(found: FoundKey) -> Self {
        let key = found.key;
        Self {
            name: found.name.to_string(),
            scopes: key.grant.scopes,
            boards: key.grant.boards,
            rate: key.grant.rate,
            expires_at: key.grant.expires_at,
            created_at: key.created_at,
            last_used: found.last_used,
            previous_until: key.previous.map(|previous| previous.until),
            webhooks: names(found.webhooks),
        }
    }
}

fn names(webhooks: Vec<WebhookName>) -> Vec<String> {
    webhooks.into_iter().map(|name| name.to_string()).collect()
}

/// What an audit line stores about an API key: its grant, and when its former secret expires.
#[derive(Serialize)]
struct AuditedKey {
    #[serde(flatten)]
    grant: Grant,
    previous_until: Option<Timestamp>,
    /// The webhooks that were deleted with it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    webhooks: Vec<String>,
}

impl From<&ApiKey> for AuditedKey {
    fn from(key: &ApiKey) -> Self {
        Self {
            grant: key.grant.clone(),
            previous_until: key.previous.as_ref().map(|previous| previous.until),
            webhooks: Vec::new(),
        }
    }
}

fn with_secret(app: &App, key: FoundKey, secret: String) -> JsonResponse<KeyWithSecret> {
    JsonResponse(KeyWithSecret {
        key: key.into(),
        secret,
        warning: app.is_open.then(|| WARNING.to_owned()),
    })
}

/// Create an API key.
///
/// The response has the secret of the key, which is shown only this once. If you lose the response, delete the key and
/// create it again. All instances accept the key within a second. A service without keys in its configuration is open: anyone can
/// do everything, with or without a key, and the response says so in `warning`.
#[utoipa::path(
    put, path = "/v1/keys/{name}", operation_id = "create_key",
    request_body(content = Grant, example = json!({
        "scopes": ["read", "write"], "boards": ["run_*"], "rate": "50/s", "expires_at": null})),
    responses(
        (status = 201, description = "The API key was created", body = KeyWithSecret),
        (status = 409, description = "`key-exists`, `too-many-keys`"),
    )
)]
pub async fn put(
    State(app): Shared,
    name: KeyName,
    audit: Audit,
    Json(grant, _): Json<Grant>,
) -> Result<(StatusCode, JsonResponse<KeyWithSecret>), Problem> {
    let (made, secret) = work::create(&app.engine, &name, grant).await?;
    audit.after(&AuditedKey::from(&made.key));
    Ok((StatusCode::CREATED, with_secret(&app, made, secret)))
}

/// Change what an API key allows.
///
/// The key keeps its secret. All instances apply the change within a second, and so do sessions in the console.
#[utoipa::path(
    patch, path = "/v1/keys/{name}", operation_id = "update_key",
    request_body(content = GrantChange, example = json!({"rate": "100/s"})),
    responses((status = 200, description = "The API key was changed", body = KeyBody))
)]
pub async fn patch(
    State(app): Shared,
    name: KeyName,
    audit: Audit,
    Json(change, _): Json<GrantChange>,
) -> JsonResult<KeyBody> {
    let changed = work::change_grant(&app.engine, &name, |grant| change.of(grant));
    let (before, after) = changed.await?;
    audit.before(&AuditedKey::from(&before));
    audit.after(&AuditedKey::from(&after.key));
    Ok(JsonResponse(after.into()))
}

/// Rotate the secret of an API key.
///
/// The response has the new secret, which is shown only this once. With `grace` the service also accepts the previous secret
/// for a while, so that clients can switch. Older secrets are no longer accepted.
#[utoipa::path(
    post, path = "/v1/keys/{name}/rotate", operation_id = "rotate_key",
    request_body(content = Rotation, example = json!({"grace": "1h"})),
    responses((status = 200, description = "The API key has a new secret", body = KeyWithSecret))
)]
pub async fn rotate(
    State(app): Shared,
    name: KeyName,
    audit: Audit,
    Json(Rotation { grace }, _): Json<Rotation>,
) -> JsonResult<KeyWithSecret> {
    let grace = grace.unwrap_or(Span::seconds(0));
    if grace > GRACE_MAX {
        return Err(Problem::invalid_field("/grace", "must be at most 30d"));
    }
    let (before, after, secret) = work::rotate(&app.engine, &name, grace).await?;
    audit.before(&AuditedKey::from(&before));
    audit.after(&AuditedKey::from(&after.key));
    Ok(with_secret(&app, after, secret))
}

/// List API keys.
#[utoipa::path(
    get, path = "/v1/keys", operation_id = "list_keys",
    params(PartParams),
    responses((status = 200, description = "The API keys, ordered by name, without their secrets", body = KeyList))
)]
pub async fn list(State(app): Shared, Query(params): Query<PartParams>) -> JsonResult<KeyList> {
    let (after, limit) = params.part(KeyName::parse)?;
    let listed = work::list(&app.engine, after.as_ref(), limit).await?;
    let (keys, next) = listed.shown(KeyBody::from);
    Ok(JsonResponse(KeyList { keys, next }))
}

/// Read what an API key allows.
#[utoipa::path(
    get, path = "/v1/keys/{name}", operation_id = "get_key",
    responses((status = 200, description = "The API key, without its secret", body = KeyBody))
)]
pub async fn get(State(app): Shared, name: KeyName) -> JsonResult<KeyBody> {
    let key = work::find(&app.engine, &name).await?;
    Ok(JsonResponse(key.into()))
}

/// Delete an API key.
///
/// Within a second no instance accepts it any more. Its webhooks are kept, unless the request has `with=webhooks`.
#[utoipa::path(
    delete, path = "/v1/keys/{name}", operation_id = "delete_key",
    params(KeyDeletionParams),
    responses(
        (status = 200, description = "The API key was deleted; it had webhooks", body = KeyDeletion, example = json!({
            "webhooks_deleted": [], "webhooks_left": ["site"]})),
        (status = 204, description = "The API key was deleted; it had no webhooks"),
    )
)]
pub async fn delete(
    State(app): Shared,
    name: KeyName,
    Query(KeyDeletionParams { with }): Query<KeyDeletionParams>,
    audit: Audit,
) -> Result<Response, Problem> {
    let with_webhooks = matches!(with, Some(Belongings::Webhooks));
    let (key, webhooks) = work::delete(&app.engine, &name, with_webhooks).await?;
    let [webhooks_deleted, webhooks_left] = webhooks.map(names);
    let body = KeyDeletion {
        webhooks_deleted,
        webhooks_left,
    };
    audit.before(&key.as_ref().map(|key| AuditedKey {
        webhooks: body.webhooks_deleted.clone(),
        ..AuditedKey::from(key)
    }));
    if body.webhooks_deleted.is_empty() && body.webhooks_left.is_empty() {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    Ok(JsonResponse(body).into_response())
}
