//! Webhooks: the list with the form for a new one; a webhook, its settings, its secret, its deletion, and its deliveries.

use askama::Template;
use axum::http::Method;
use serde_json::{Value, json};

use super::{
    Answer, Form, Frame, Page, PartParams, Parts, Path, Viewer, address, carry_out, if_there,
    secret, to, v1,
};
use crate::domain::delivery::DeliveryStatus;
use crate::domain::message::MessageKind;
use crate::http::problem::Problem;
use crate::webhooks::routes::{DeliveryBody, DeliveryList, WebhookBody, WebhookList};

/// How many webhooks, and how many deliveries, a part of a list has.
const WEBHOOKS_MAX: &str = "100";
const DELIVERIES_MAX: &str = "25";
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
    webhooks: Vec<WebhookBody>,
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
            frame: frame.named("Webhooks").done(&params.done),
            webhooks: found.webhooks,
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
        return Ok(to(&["webhooks", name], &[("done", done)]));
    };
    secret::show(viewer, ("webhook", name), (secret, None), ABOUT_SECRET)
}

#[derive(Template)]
#[template(path = "console/webhook.html")]
pub(super) struct WebhookPage {
    frame: Frame,
    webhook: WebhookBody,
    deliveries: Vec<DeliveryBody>,
    status: String,
    parts: Parts,
}

impl Page for WebhookPage {
    type Of = String;
    type Params = PartParams;

    async fn read(mut frame: Frame, name: &String, params: PartParams) -> Result<Self, Problem> {
        let own = ["webhooks", name.as_str()];
        let webhook = frame.read(&own, &[]).await?;
        let query = params.of_at_most(DELIVERIES_MAX);
        let listed = ["webhooks", name, "deliveries"];
        let found: DeliveryList = frame.read(&listed, &query).await?;
        for part in ["test", "rotate"] {
            frame.example(&Method::POST, &["webhooks", name, part], None);
        }
        frame.example(&Method::DELETE, &own, None);
        frame.fill_in(filled_in(&webhook));
        let page = address(&["console", "webhooks", name], &query[..1]);
        Ok(Self {
            frame: frame
                .named(name)
                .under("Webhooks", "/console/webhooks")
                .done(&params.done),
            webhook,
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
        shown(&viewer, &name, &webhook, "changed")
    };
    carry_out::<WebhookPage>(&viewer, &name, &form, changed).await
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
    let id = form.required("delivery")?;
    let retried_by = ["webhooks", &name, "deliveries", id, "retry"];
    viewer.order(Method::POST, &retried_by, None).await?;
    let query = [("status", form.field("status")), ("done", "retried")];
    Ok(to(&["webhooks", &name], &query))
}

/// Deletes a webhook with its deliveries.
pub(super) async fn delete(viewer: Viewer, Path(name): Path<String>, form: Form) -> Answer {
    form.confirm(&name)?;
    let own = ["webhooks", &name];
    viewer.order(Method::DELETE, &own, None).await?;
    Ok(to(&["webhooks"], &[("done", "deleted")]))
}
