//! Webhooks: the list with the form for a new one; a webhook, what it is to be, its secret, its end, and its deliveries.

use askama::Template;
use axum::http::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Answer, Form, Frame, Page, PartParams, Parts, Path, StatusParams, Viewer, address, carry_out,
    secret, to, v1,
};
use crate::domain::delivery::DeliveryStatus;
use crate::domain::message::MessageKind;
use crate::http::problem::Problem;
use crate::http::webhooks::{DeliveryBody, DeliveryList, WebhookBody, WebhookList};

/// How many webhooks, and how many deliveries, a part of a list has.
const WEBHOOKS_MAX: &str = "100";
const DELIVERIES_MAX: &str = "25";
/// What a secret is for.
const ABOUT_SECRET: &str =
    "With it the receiver checks the signatures of messages, as Standard Webhooks 1.0.0 says.";

/// A webhook after a change: it has its secret if it is new.
#[derive(Deserialize)]
struct Put {
    secret: Option<String>,
}

/// The form with what a webhook is.
fn filled_in(webhook: &WebhookBody) -> Form {
    let boards = webhook.boards.patterns().collect::<Vec<_>>().join("\n");
    let events = webhook.events.iter();
    [("url", webhook.url.clone()), ("boards", boards)]
        .into_iter()
        .chain(events.map(|kind| ("event", kind.name().to_owned())))
        .collect()
}

/// Makes a webhook as the form wants it, or changes it.
async fn put(viewer: &Viewer, name: &str, form: &Form) -> Result<Put, Problem> {
    let wanted = json!({
        "url": form.field("url").trim(), "events": form.chosen("event"), "boards": form.lines("boards"),
    });
    let put_to = v1(&["webhooks", name]);
    viewer.call(Method::PUT, &put_to, Some(&wanted)).await
}

#[derive(Template)]
#[template(path = "console/webhooks.html")]
pub(super) struct ListPage {
    frame: Frame,
    webhooks: Vec<WebhookBody>,
    parts: Parts,
}

impl Page for ListPage {
    type Of = ();
    type Params = PartParams;

    async fn read(viewer: &Viewer, (): &(), params: PartParams) -> Result<Self, Problem> {
        let listed_at = address(&["v1", "webhooks"], &params.of_at_most(WEBHOOKS_MAX));
        let found: WebhookList = viewer.read(&listed_at).await?;
        let example = json!({
            "url": "https://app.example/standings", "events": ["period.final"], "boards": ["*"],
        });
        let create = viewer.curl_to(&Method::PUT, &v1(&["webhooks", "NAME"]), Some(&example));
        Ok(Self {
            frame: Frame::new(viewer, "Webhooks")
                .done(&params.done)
                .curl([viewer.curl(&listed_at), create]),
            webhooks: found.webhooks,
            parts: Parts::new("webhooks", "/console/webhooks", &params.after, found.next),
        })
    }
}

/// Makes a webhook, and shows its secret. One that is there already has its own page for changes.
pub(super) async fn create(viewer: Viewer, form: Form) -> Answer {
    let made = async {
        let name = form.required("name")?;
        let found: Option<Value> = viewer.find(&v1(&["webhooks", name])).await?;
        let made = match found {
            Some(_) => Put { secret: None },
            None => put(&viewer, name, &form).await?,
        };
        shown(&viewer, name, made, "exists")
    };
    let page = ListPage::read(&viewer, &(), PartParams::default());
    carry_out(&form, made, page, |page| &mut page.frame).await
}

/// Shows the secret of a webhook if it is new; otherwise its page.
fn shown(viewer: &Viewer, name: &str, put: Put, done: &str) -> Answer {
    let Some(secret) = put.secret else {
        return Ok(to(&["webhooks", name], &[("done", done)]));
    };
    let title = format!("Secret of the webhook {name}");
    let next = address(&["console", "webhooks", name], &[]);
    secret::show(viewer, title, (&secret, None), ABOUT_SECRET, next)
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
    type Params = StatusParams;

    async fn read(viewer: &Viewer, name: &String, params: StatusParams) -> Result<Self, Problem> {
        let own = v1(&["webhooks", name]);
        let webhook = viewer.read(&own).await?;
        let status = ("status", params.status.as_str());
        let query = [status, ("after", &params.after), ("limit", DELIVERIES_MAX)];
        let listed_at = address(&["v1", "webhooks", name, "deliveries"], &query);
        let found: DeliveryList = viewer.read(&listed_at).await?;
        let page = address(&["console", "webhooks", name], &[status]);
        let mut frame = Frame::new(viewer, format!("Webhook {name}")).done(&params.done);
        frame.form = filled_in(&webhook);
        Ok(Self {
            frame: frame.curl([
                viewer.curl(&own),
                viewer.curl(&listed_at),
                viewer.curl_to(&Method::POST, &format!("{own}/test"), None),
                viewer.curl_to(&Method::POST, &format!("{own}/rotate"), None),
                viewer.curl_to(&Method::DELETE, &own, None),
            ]),
            webhook,
            deliveries: found.deliveries,
            parts: Parts::new("deliveries", &page, &params.after, found.next),
            status: params.status,
        })
    }
}

/// Changes a webhook, which enables it too.
pub(super) async fn change(viewer: Viewer, Path(name): Path<String>, form: Form) -> Answer {
    let changed = async {
        let put = put(&viewer, &name, &form).await?;
        shown(&viewer, &name, put, "changed")
    };
    let page = WebhookPage::read(&viewer, &name, StatusParams::default());
    carry_out(&form, changed, page, |page| &mut page.frame).await
}

/// Sends a message that says nothing.
pub(super) async fn test(viewer: Viewer, Path(name): Path<String>, _: Form) -> Answer {
    let tested_by = v1(&["webhooks", &name, "test"]);
    viewer.order(Method::POST, &tested_by, None).await?;
    Ok(to(&["webhooks", &name], &[("done", "tested")]))
}

/// Gives a webhook another secret, and shows it.
pub(super) async fn rotate(viewer: Viewer, Path(name): Path<String>, _: Form) -> Answer {
    let rotated_by = v1(&["webhooks", &name, "rotate"]);
    let rotated = viewer.call(Method::POST, &rotated_by, None).await?;
    shown(&viewer, &name, rotated, "")
}

/// Sends a message again.
pub(super) async fn retry(viewer: Viewer, Path(name): Path<String>, form: Form) -> Answer {
    let id = form.required("delivery")?;
    let retried_by = v1(&["webhooks", &name, "deliveries", id, "retry"]);
    viewer.order(Method::POST, &retried_by, None).await?;
    let query = [("status", form.field("status")), ("done", "retried")];
    Ok(to(&["webhooks", &name], &query))
}

/// Deletes a webhook with its deliveries.
pub(super) async fn delete(viewer: Viewer, Path(name): Path<String>, form: Form) -> Answer {
    form.confirm(&name)?;
    let own = v1(&["webhooks", &name]);
    viewer.order(Method::DELETE, &own, None).await?;
    Ok(to(&["webhooks"], &[("done", "deleted")]))
}
