//! Webhooks: the list with the form for a new one; a webhook, its settings, its secret, its deletion, and its deliveries.

use askama::Template;
use axum::http::Method;
use futures::stream::{self, StreamExt};
use serde_json::{Value, json};

use super::{
    Answer, Form, Frame, Page, PartParams, Parts, Path, Viewer, Visitor, address, carry_out,
    if_there, secret, to, v1, v1_with,
};
use crate::domain::delivery::DeliveryStatus;
use crate::domain::message::MessageKind;
use crate::domain::time::Timestamp;
use crate::http::problem::Problem;
use crate::webhooks::routes::{DeliveryBody, DeliveryList, WebhookBody, WebhookList};

/// How many webhooks, and how many deliveries, a part of a list has.
const WEBHOOKS_MAX: &str = "25";
const DELIVERIES_MAX: &str = "25";
/// How many deliveries are looked at for the state of a webhook, and of how many webhooks at a time.
const STATE_MAX: &str = "10";
const STATES_AT_ONCE: usize = 8;
/// How many messages are sent again at once, and how many of them at a time.
const RETRIES_MAX: &str = "100";
const RETRIES_AT_ONCE: usize = 8;
/// What a secret is for.
const ABOUT_SECRET: &str =
    "With it the receiver checks the signatures of messages, as Standard Webhooks 1.0.0 says.";

/// The form, filled in with a webhook.
fn filled_in(webhook: &WebhookBody) -> Form {
    let boards = webhook.boards.patterns().collect::<Vec<_>>().join("\n");
    let events = webhook.events.iter();
    [("url", webhook.url.clone()), ("boards", boards)]
        .into_iter()
        .chain(events.map(|kind| ("event", kind.name().to_owned())))
        .collect()
}

/// A webhook, and whether its messages arrive.
struct KnownWebhook {
    webhook: WebhookBody,
    /// Since when messages wait that it has refused.
    failing_since: Option<Timestamp>,
    /// When a message was last sent.
    last_try_at: Option<Timestamp>,
}

impl KnownWebhook {
    /// Looks at some deliveries. The webhook is shown even if they can't be read.
    async fn of(visitor: &Visitor, webhook: WebhookBody) -> Self {
        let listed = ["webhooks", &webhook.name, "deliveries"];
        let read = async |query: &[(&str, &str)]| {
            let found: Result<DeliveryList, _> = visitor.read(&v1_with(&listed, query)).await;
            found.map(|found| found.deliveries).unwrap_or_default()
        };
        let mut deliveries = read(&[("limit", STATE_MAX)]).await;
        let has_delivered = |delivery: &DeliveryBody| delivery.status == DeliveryStatus::Delivered;
        if !deliveries.is_empty() && !deliveries.iter().any(has_delivered) {
            // Pending and failed ones are listed before them.
            deliveries.extend(read(&[("status", "delivered"), ("limit", "1")]).await);
        }
        let is_refused = |delivery: &&DeliveryBody| {
            delivery.status == DeliveryStatus::Pending && delivery.last_error.is_some()
        };
        let refused = deliveries.iter().filter(is_refused);
        Self {
            failing_since: refused.map(|delivery| delivery.created_at).min(),
            last_try_at: deliveries
                .iter()
                .filter_map(|delivery| delivery.last_try_at)
                .max(),
            webhook,
        }
    }
}

/// Creates or changes a webhook as the form says. The response has its secret if it is new.
async fn put(viewer: &Viewer, name: &str, form: &Form) -> Result<Value, Problem> {
    let wanted = json!({
        "url": form.field("url").trim(), "events": form.chosen("event"), "boards": form.lines("boards"),
    });
    let put_to = v1(&["webhooks", name]);
    viewer.call(Method::PUT, &put_to, Some(&wanted)).await
}

#[derive(Template)]
#[template(path = "console/webhooks.html")]
pub(super) struct WebhooksPage {
    frame: Frame,
    webhooks: Vec<KnownWebhook>,
    parts: Parts,
}

impl Page for WebhooksPage {
    type Of = ();
    type Params = PartParams;

    async fn read(mut frame: Frame, (): &(), params: PartParams) -> Result<Self, Problem> {
        let query = params.of_at_most(WEBHOOKS_MAX);
        let found: WebhookList = frame.read(&["webhooks"], &query).await?;
        let example = json!({
            "url": "https://app.example/standings", "events": ["period.final"], "boards": ["*"],
        });
        frame.example(&Method::PUT, &["webhooks", "NAME"], Some(&example));
        Ok(Self {
            webhooks: stream::iter(found.webhooks)
                .map(|webhook| KnownWebhook::of(&frame.visitor, webhook))
                .buffered(STATES_AT_ONCE)
                .collect()
                .await,
            frame: frame.named("Webhooks").done_to(&params.done, &params.name),
            parts: Parts::new("webhooks", "/console/webhooks", &params.after, found.next),
        })
    }
}

/// Creates a webhook, and shows its secret. One that already exists is changed on its own page.
pub(super) async fn create(viewer: Viewer, form: Form) -> Answer {
    let made = async {
        let name = form.required("name")?;
        let made = match if_there(viewer.read(&v1(&["webhooks", name])).await)? {
            Some(webhook) => webhook,
            None => put(&viewer, name, &form).await?,
        };
        shown(&viewer, name, &made, "exists")
    };
    carry_out::<WebhooksPage>(&viewer, &(), &form, made).await
}

/// Shows the secret of a webhook if it is new; otherwise its page.
fn shown(viewer: &Viewer, name: &str, webhook: &Value, done: &str) -> Answer {
    let Some(secret) = webhook["secret"].as_str() else {
        let query = [("done", done), ("name", name)];
        return Ok(to(&["webhooks", name], &query));
    };
    secret::show(viewer, ("webhook", name), (secret, None), ABOUT_SECRET)
}

#[derive(Template)]
#[template(path = "console/webhook.html")]
pub(super) struct WebhookPage {
    frame: Frame,
    known: KnownWebhook,
    deliveries: Vec<DeliveryBody>,
    /// Whether a delivery has failed permanently.
    has_failed: bool,
    status: String,
    parts: Parts,
}

impl Page for WebhookPage {
    type Of = String;
    type Params = PartParams;

    async fn read(mut frame: Frame, name: &String, params: PartParams) -> Result<Self, Problem> {
        let own = ["webhooks", name.as_str()];
        let webhook: WebhookBody = frame.read(&own, &[]).await?;
        let query = params.of_at_most(DELIVERIES_MAX);
        let listed = ["webhooks", name, "deliveries"];
        let found: DeliveryList = frame.read(&listed, &query).await?;
        let failed = v1_with(&listed, &[("status", "dead"), ("limit", "1")]);
        let failed: DeliveryList = frame.visitor.read(&failed).await?;
        for part in ["test", "rotate"] {
            frame.example(&Method::POST, &["webhooks", name, part], None);
        }
        frame.example(&Method::DELETE, &own, None);
        frame.fill_in(filled_in(&webhook));
        let page = address(&["console", "webhooks", name], &query[..1]);
        let known = KnownWebhook::of(&frame.visitor, webhook).await;
        Ok(Self {
            frame: frame
                .named(name)
                .under("Webhooks", "/console/webhooks")
                .done_to(&params.done, &params.name),
            known,
            has_failed: !failed.deliveries.is_empty(),
            deliveries: found.deliveries,
            parts: Parts::new("deliveries", &page, &params.after, found.next),
            status: params.status,
        })
    }
}

/// Changes a webhook, and enables it.
pub(super) async fn change(viewer: Viewer, Path(name): Path<String>, form: Form) -> Answer {
    let changed = async {
        let webhook = put(&viewer, &name, &form).await?;
        shown(&viewer, &name, &webhook, "webhook-changed")
    };
    carry_out::<WebhookPage>(&viewer, &name, &form, changed).await
}

/// Enables a webhook as it is.
pub(super) async fn enable(viewer: Viewer, Path(name): Path<String>, _: Form) -> Answer {
    let own = ["webhooks", name.as_str()];
    let webhook: WebhookBody = viewer.read(&v1(&own)).await?;
    let wanted = json!({"url": webhook.url, "events": webhook.events, "boards": webhook.boards});
    viewer.order(Method::PUT, &own, Some(&wanted)).await?;
    Ok(to(&own, &[("done", "webhook-enabled"), ("name", &name)]))
}

/// Sends an empty message.
pub(super) async fn test(viewer: Viewer, Path(name): Path<String>, _: Form) -> Answer {
    let tested_by = ["webhooks", &name, "test"];
    viewer.order(Method::POST, &tested_by, None).await?;
    Ok(to(&["webhooks", &name], &[("done", "tested")]))
}

/// Gives a webhook a new secret, and shows it.
pub(super) async fn rotate(viewer: Viewer, Path(name): Path<String>, _: Form) -> Answer {
    let rotated_by = v1(&["webhooks", &name, "rotate"]);
    let rotated = viewer.call(Method::POST, &rotated_by, None).await?;
    shown(&viewer, &name, &rotated, "")
}

/// Sends a message again.
pub(super) async fn retry(viewer: Viewer, Path(name): Path<String>, form: Form) -> Answer {
    order_retry(&viewer, &name, form.required("delivery")?).await?;
    let status = ("status", form.field("status"));
    Ok(to(
        &["webhooks", &name],
        &[status, ("done", "retried"), ("name", "1")],
    ))
}

/// Sends the messages again that have failed permanently.
pub(super) async fn retry_all(viewer: Viewer, Path(name): Path<String>, _: Form) -> Answer {
    let query = [("status", "dead"), ("limit", RETRIES_MAX)];
    let failed = v1_with(&["webhooks", &name, "deliveries"], &query);
    let failed: DeliveryList = viewer.read(&failed).await?;
    let count = failed.deliveries.len().to_string();
    let (webhook, sender) = (name.as_str(), &viewer);
    let mut retried = stream::iter(failed.deliveries)
        .map(|delivery| async move { order_retry(sender, webhook, &delivery.id).await })
        .buffer_unordered(RETRIES_AT_ONCE);
    while let Some(retried) = retried.next().await {
        // One may just have been deleted.
        if_there(retried)?;
    }
    Ok(to(
        &["webhooks", &name],
        &[("done", "retried"), ("name", &count)],
    ))
}

async fn order_retry(viewer: &Viewer, name: &str, delivery: &str) -> Result<(), Problem> {
    let retried_by = ["webhooks", name, "deliveries", delivery, "retry"];
    viewer.order(Method::POST, &retried_by, None).await
}

/// Deletes a webhook with its deliveries.
pub(super) async fn delete(viewer: Viewer, Path(name): Path<String>, form: Form) -> Answer {
    let deleted = async {
        form.confirm(&name)?;
        viewer
            .order(Method::DELETE, &["webhooks", &name], None)
            .await?;
        Ok(to(
            &["webhooks"],
            &[("done", "webhook-deleted"), ("name", &name)],
        ))
    };
    carry_out::<WebhookPage>(&viewer, &name, &form, deleted).await
}
