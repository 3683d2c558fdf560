//! Webhooks: registering them, rotating their secrets, testing them, and listing their deliveries.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::deliveries::store::DeliveryMark;
use super::work;
use crate::access::Caller;
use crate::domain::access::Boards;
use crate::domain::delivery::{DeliveryStatus, NamedDelivery};
use crate::domain::message::{MessageId, MessageKind};
use crate::domain::time::Timestamp;
use crate::domain::webhook::{Wanted, Webhook, WebhookEventSchema, WebhookName};
use crate::http::audited::Audit;
use crate::http::extract::{
    Json, JsonResponse, JsonResult, PartParams, Path, Query, Shared, State, part_params,
};
use crate::http::problem::Problem;

/// A webhook.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = Webhook)]
pub struct WebhookBody {
    /// Its name.
    pub name: String,
    /// Where the service sends messages.
    pub url: String,
    /// The events that it gets.
    #[schema(value_type = Vec<WebhookEventSchema>)]
    pub events: Vec<MessageKind>,
    /// The boards whose events it gets.
    pub boards: Boards,
    /// When it was created.
    pub created_at: Timestamp,
    /// Until when messages are also signed with the previous secret; null if they are not.
    pub previous_until: Option<Timestamp>,
    /// Since when the webhook is disabled; null if it is not. `PUT` enables it again.
    pub disabled_at: Option<Timestamp>,
    /// Why the webhook is disabled; null if it is not.
    pub disabled_because: Option<String>,
}

/// A webhook with its secret.
#[derive(Serialize, ToSchema)]
pub struct WebhookWithSecret {
    /// The webhook.
    #[serde(flatten)]
    pub webhook: WebhookBody,
    /// The secret with which the receiver verifies signatures. It is shown only this once.
    #[schema(pattern = "^whsec_[A-Za-z0-9+/]{43}=$")]
    pub secret: String,
}

/// A part of the list of webhooks.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct WebhookList {
    /// The webhooks, ordered by name.
    pub webhooks: Vec<WebhookBody>,
    /// The `after` of the next part; null in the last part.
    pub next: Option<String>,
}

/// A message, as receivers get it.
#[derive(ToSchema)]
#[schema(as = Message)]
#[expect(dead_code, reason = "describes `Message` to the OpenAPI document")]
pub struct MessageSchema {
    /// What it reports.
    r#type: String,
    /// When that happened.
    timestamp: Timestamp,
    /// The details: never members or scores.
    data: serde_json::Value,
}

/// A message on its way to a webhook.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = Delivery)]
pub struct DeliveryBody {
    /// Its id, which is `webhook-id` of each try.
    pub id: String,
    /// What the message reports; null if a newer release wrote it.
    pub event: Option<String>,
    /// Its status.
    pub status: DeliveryStatus,
    /// When it was queued.
    pub created_at: Timestamp,
    /// The number of tries.
    pub tries: u32,
    /// When it will be tried next; null if it won't. During a try, when that was due.
    pub next_try_at: Option<Timestamp>,
    /// When it was last tried; null if it never was.
    pub last_try_at: Option<Timestamp>,
    /// The status of the last response; null if there was none. Nothing else of responses is stored.
    pub last_status: Option<u16>,
    /// Why the last try failed; null if it did not.
    pub last_error: Option<String>,
    /// What the receiver gets.
    #[schema(value_type = MessageSchema)]
    pub payload: Box<RawValue>,
}

#[derive(Debug, Deserialize)]
pub struct DeliveryPath {
    id: MessageId,
}

/// A part of a list of deliveries.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct DeliveryList {
    /// The deliveries: pending ones, dead letters, delivered ones; in each group the newest first.
    pub deliveries: Vec<DeliveryBody>,
    /// The `after` of the next part; null in the last part.
    pub next: Option<String>,
}

part_params! {
    /// Which deliveries.
    DeliveryListParams {
        /// Only deliveries with this status.
        status: Option<DeliveryStatus>,
    }
    limit(default = 100, maximum = 1000)
}

impl WebhookBody {
    fn of(name: &WebhookName, webhook: Webhook) -> Self {
        let (disabled_at, disabled_because) = webhook
            .disabled
            .map(|disabled| (disabled.at, disabled.reason))
            .unzip();
        Self {
            name: name.to_string(),
            url: webhook.url,
            events: webhook.events,
            boards: webhook.boards,
            created_at: webhook.created_at,
            previous_until: webhook.previous.map(|previous| previous.until),
            disabled_at,
            disabled_because,
        }
    }
}

impl TryFrom<NamedDelivery> for DeliveryBody {
    type Error = Problem;

    fn try_from(NamedDelivery { id, delivery }: NamedDelivery) -> Result<Self, Problem> {
        let event = MessageKind::of_body(&delivery.body).map(|kind| kind.name().to_owned());
        let is_pending = delivery.status == DeliveryStatus::Pending;
        let last = delivery.last.as_ref();
        let payload = RawValue::from_string(delivery.body);
        Ok(Self {
            id: id.to_string(),
            event,
            status: delivery.status,
            created_at: delivery.created_at,
            tries: delivery.tries,
            next_try_at: is_pending.then_some(delivery.at),
            last_try_at: last.map(|last| last.at).filter(|_| delivery.tries > 0),
            last_status: last.and_then(|last| last.status),
            last_error: last.and_then(|last| last.error.clone()),
            payload: payload.map_err(|error| Problem::internal(error.to_string()))?,
        })
    }
}

/// What an audit line stores about a webhook: no secrets.
fn audited(webhook: &Webhook) -> Value {
    json!({
        "url": webhook.url,
        "events": webhook.events,
        "boards": webhook.boards,
        "created_at": webhook.created_at,
        "previous_until": webhook.previous.as_ref().map(|previous| previous.until),
        "disabled_at": webhook.disabled.as_ref().map(|disabled| disabled.at),
    })
}

fn with_secret(name: &WebhookName, webhook: Webhook) -> JsonResponse<WebhookWithSecret> {
    JsonResponse(WebhookWithSecret {
        secret: webhook.secret.reveal().to_owned(),
        webhook: WebhookBody::of(name, webhook),
    })
}

/// Create or change a webhook.
///
/// The service then sends it messages about its boards, signed as Standard Webhooks 1.0.0 specifies. The response that
/// creates a webhook has its secret, which is shown only this once. An existing webhook keeps its secret and its deliveries,
/// and is enabled again if it was disabled.
#[utoipa::path(
    put, path = "/v1/webhooks/{name}", operation_id = "put_webhook",
    request_body(content = Wanted, example = json!({
        "url": "https://app.example/standings", "events": ["period.final", "period.revised"], "boards": ["vote-*"]})),
    responses(
        (status = 201, description = "The webhook was created", body = WebhookWithSecret),
        (status = 200, description = "The webhook was changed", body = WebhookBody),
        (status = 409, description = "`too-many-webhooks`"),
    )
)]
pub async fn put(
    State(app): Shared,
    name: WebhookName,
    caller: Caller,
    audit: Audit,
    Json(wanted, _): Json<Wanted>,
) -> Result<Response, Problem> {
    let by = (caller.boards(), caller.key());
    let (before, after) = work::put(&app.engine, by, &name, wanted).await?;
    audit.before(&before.as_ref().map(audited));
    audit.after(&audited(&after));
    if before.is_some() {
        return Ok(JsonResponse(WebhookBody::of(&name, after)).into_response());
    }
    Ok((StatusCode::CREATED, with_secret(&name, after)).into_response())
}

/// Rotate the secret of a webhook.
///
/// The response has the new secret, which is shown only this once. For 24 hours each message is also signed with the
/// previous secret. Older secrets are no longer used.
#[utoipa::path(
    post, path = "/v1/webhooks/{name}/rotate", operation_id = "rotate_webhook_secret",
    responses((status = 200, description = "The webhook has a new secret", body = WebhookWithSecret))
)]
pub async fn rotate(
    State(app): Shared,
    name: WebhookName,
    caller: Caller,
    audit: Audit,
) -> JsonResult<WebhookWithSecret> {
    let (before, after) = work::rotate(&app.engine, caller.boards(), &name).await?;
    audit.before(&audited(&before));
    audit.after(&audited(&after));
    Ok(with_secret(&name, after))
}

/// Test a webhook.
///
/// The service queues a message whose `type` is `webhook.test`, whatever the webhook's `events`. The list of deliveries
/// shows its outcome.
#[utoipa::path(
    post, path = "/v1/webhooks/{name}/test", operation_id = "test_webhook",
    responses(
        (status = 202, description = "The service will send the message", body = DeliveryBody),
        (status = 409, description = "`webhook-disabled`"),
    )
)]
pub async fn test(
    State(app): Shared,
    name: WebhookName,
    caller: Caller,
) -> Result<(StatusCode, JsonResponse<DeliveryBody>), Problem> {
    let queued = work::queue_test(&app.engine, caller.boards(), &name).await?;
    Ok((StatusCode::ACCEPTED, JsonResponse(queued.try_into()?)))
}

/// List webhooks.
#[utoipa::path(
    get, path = "/v1/webhooks", operation_id = "list_webhooks",
    params(PartParams),
    responses((status = 200, description = "The webhooks of the key's boards, ordered by name, without their secrets", body = WebhookList))
)]
pub async fn list(
    State(app): Shared,
    caller: Caller,
    Query(params): Query<PartParams>,
) -> JsonResult<WebhookList> {
    let (after, limit) = params.part(WebhookName::parse)?;
    let (webhooks, next) = work::list(&app.engine, caller.boards(), after.as_ref(), limit)
        .await?
        .shown(|(name, webhook)| WebhookBody::of(&name, webhook));
    Ok(JsonResponse(WebhookList { webhooks, next }))
}

/// Read a webhook.
#[utoipa::path(
    get, path = "/v1/webhooks/{name}", operation_id = "get_webhook",
    responses((status = 200, description = "The webhook, without its secret", body = WebhookBody))
)]
pub async fn get(State(app): Shared, name: WebhookName, caller: Caller) -> JsonResult<WebhookBody> {
    let webhook = work::find(&app.engine, caller.boards(), &name).await?;
    Ok(JsonResponse(WebhookBody::of(&name, webhook)))
}

/// List deliveries of a webhook.
///
/// Delivered messages and dead letters are kept for 30 days, the last 1,000 and 10,000 of them.
#[utoipa::path(
    get, path = "/v1/webhooks/{name}/deliveries", operation_id = "list_deliveries",
    params(DeliveryListParams),
    responses((status = 200, description = "The deliveries", body = DeliveryList))
)]
pub async fn deliveries(
    State(app): Shared,
    name: WebhookName,
    caller: Caller,
    Query(params): Query<DeliveryListParams>,
) -> JsonResult<DeliveryList> {
    let (after, limit) = params.part(str::parse::<DeliveryMark>)?;
    let may = caller.boards();
    let (deliveries, next) = work::list_deliveries(
        &app.engine,
        may,
        &name,
        params.status,
        after.as_ref(),
        limit,
    )
    .await?
    .shown(DeliveryBody::try_from);
    Ok(JsonResponse(DeliveryList {
        deliveries: deliveries.into_iter().collect::<Result<_, _>>()?,
        next,
    }))
}

/// Send a message again.
///
/// The service sends it at once, whatever its status, under the same `webhook-id`. If that fails, it retries for a day.
#[utoipa::path(
    post, path = "/v1/webhooks/{name}/deliveries/{id}/retry", operation_id = "retry_delivery",
    responses(
        (status = 202, description = "The service will send the message again", body = DeliveryBody),
        (status = 404, description = "`webhook-not-found`, `delivery-not-found`"),
        (status = 409, description = "`webhook-disabled`"),
    )
)]
pub async fn retry(
    State(app): Shared,
    name: WebhookName,
    Path(DeliveryPath { id }): Path<DeliveryPath>,
    caller: Caller,
) -> Result<(StatusCode, JsonResponse<DeliveryBody>), Problem> {
    let engine = &app.engine;
    let retried = work::retry_delivery(engine, caller.boards(), &name, id).await?;
    Ok((StatusCode::ACCEPTED, JsonResponse(retried.try_into()?)))
}

/// Delete a webhook.
///
/// Its deliveries are deleted too. A message in flight may still arrive.
#[utoipa::path(
    delete, path = "/v1/webhooks/{name}", operation_id = "delete_webhook",
    responses((status = 204, description = "The webhook was deleted"))
)]
pub async fn delete(
    State(app): Shared,
    name: WebhookName,
    caller: Caller,
    audit: Audit,
) -> Result<StatusCode, Problem> {
    let before = work::delete(&app.engine, caller.boards(), &name).await?;
    audit.before(&audited(&before));
    Ok(StatusCode::NO_CONTENT)
}
