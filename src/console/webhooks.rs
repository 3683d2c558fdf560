//! Webhooks: the list with the form for a new one; a webhook, its settings, its secret, its deletion, and its deliveries.

use futures::stream::{self, StreamExt};

use super::prelude::*;
use super::secret;
use crate::domain::delivery::DeliveryStatus;
use crate::domain::message::MessageKind;
use crate::domain::time::Timestamp;
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
async fn put(viewer: &Viewer, form: &Form) -> Result<Value, Problem> {
    let wanted = json!({
        "url": form.field("url").trim(), "events": form.chosen("event"), "boards": form.lines("boards"),
    });
    let put_to = v1(&["webhooks", form.required("name")?]);
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
    async fn read(mut frame: Frame) -> Result<Self, Problem> {
        let [after] = frame.params(["after"])?;
        let query = [("after", &*after), ("limit", WEBHOOKS_MAX)];
        let found: WebhookList = frame.read(&["webhooks"], &query).await?;
        let example = json!({
            "url": "https://app.example/standings", "events": ["period.final"], "boards": ["*"],
        });
        frame.example(&Method::PUT, &["webhooks", "NAME"], Some(&example));
        let known = stream::iter(found.webhooks)
            .map(|webhook| KnownWebhook::of(&frame.visitor, webhook))
            .buffered(STATES_AT_ONCE);
        Ok(Self {
            webhooks: known.collect().await,
            parts: Parts::new("webhooks", &frame, found.next),
            frame: frame.named("Webhooks"),
        })
    }
}

/// Creates a webhook, and shows its secret. One that already exists is changed on its own page.
pub(super) async fn create(viewer: Viewer, form: Form) -> Answer {
    let made = async {
        let own = v1(&["webhooks", form.required("name")?]);
        let made = match if_there(viewer.read(&own).await)? {
            Some(webhook) => webhook,
            None => put(&viewer, &form).await?,
        };
        shown(&viewer, &form, &made, "exists").await
    };
    carry_out::<WebhooksPage>(&viewer, &form, made).await
}

/// Shows the secret of a webhook if it is new; otherwise its page.
async fn shown(viewer: &Viewer, form: &Form, webhook: &Value, done: &str) -> Answer {
    let name = form.required("name")?;
    let Some(secret) = webhook["secret"].as_str() else {
        return Ok(to(&["webhooks", name], &[("done", done), ("name", name)]));
    };
    secret::show(viewer, ("webhook", name), (secret, None), ABOUT_SECRET).await
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
    async fn read(mut frame: Frame) -> Result<Self, Problem> {
        let [name, status, after] = frame.params(["name", "status", "after"])?;
        let own = ["webhooks", &name];
        frame.path = address(&["console", "webhooks", &name], &[]);
        let webhook: WebhookBody = frame.read(&own, &[]).await?;
        let query = [
            ("status", &*status),
            ("after", &after),
            ("limit", DELIVERIES_MAX),
        ];
        let listed = ["webhooks", &name, "deliveries"];
        let found: DeliveryList = frame.read(&listed, &query).await?;
        let failed = v1_with(&listed, &[("status", "dead"), ("limit", "1")]);
        let failed: DeliveryList = frame.visitor.read(&failed).await?;
        for part in ["test", "rotate"] {
            frame.example(&Method::POST, &["webhooks", &name, part], None);
        }
        frame.example(&Method::DELETE, &own, None);
        frame.fill_in(filled_in(&webhook));
        Ok(Self {
            known: KnownWebhook::of(&frame.visitor, webhook).await,
            has_failed: !failed.deliveries.is_empty(),
            deliveries: found.deliveries,
            parts: Parts::new("deliveries", &frame, found.next),
            frame: frame.under("Webhooks", "/console/webhooks").named(name),
            status,
        })
    }
}

/// Changes a webhook, and enables it.
pub(super) async fn change(viewer: Viewer, form: Form) -> Answer {
    let changed = async {
        let webhook = put(&viewer, &form).await?;
        shown(&viewer, &form, &webhook, "webhook-changed").await
    };
    carry_out::<WebhookPage>(&viewer, &form, changed).await
}

/// Enables a webhook as it is.
pub(super) async fn enable(viewer: Viewer, form: Form) -> Answer {
    let own = ["webhooks", form.field("name")];
    let webhook: WebhookBody = viewer.read(&v1(&own)).await?;
    let wanted = json!({"url": webhook.url, "events": webhook.events, "boards": webhook.boards});
    viewer.order(Method::PUT, &own, Some(&wanted)).await?;
    Ok(to(&own, &[("done", "webhook-enabled"), ("name", own[1])]))
}

/// Gives a webhook a new secret, and shows it.
pub(super) async fn rotate(viewer: Viewer, form: Form) -> Answer {
    let rotated_by = v1(&["webhooks", form.field("name"), "rotate"]);
    let rotated = viewer.call(Method::POST, &rotated_by, None).await?;
    shown(&viewer, &form, &rotated, "").await
}

/// Sends the messages again that have failed permanently.
pub(super) async fn retry_all(viewer: Viewer, form: Form) -> Answer {
    let name = form.field("name");
    let query = [("status", "dead"), ("limit", RETRIES_MAX)];
    let failed = v1_with(&["webhooks", name, "deliveries"], &query);
    let failed: DeliveryList = viewer.read(&failed).await?;
    let count = failed.deliveries.len().to_string();
    let sender = &viewer;
    let mut retried = stream::iter(failed.deliveries)
        .map(|delivery| async move {
            let retried_by = ["webhooks", name, "deliveries", &delivery.id, "retry"];
            sender.order(Method::POST, &retried_by, None).await
        })
        .buffer_unordered(RETRIES_AT_ONCE);
    while let Some(retried) = retried.next().await {
        // One may just have been deleted.
        if_there(retried)?;
    }
    Ok(to(
        &["webhooks", name],
        &[("done", "retried"), ("name", &count)],
    ))
}
