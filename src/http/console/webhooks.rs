//! Webhooks: the list with the form for a new one; a webhook, what it is to be, its secret, its end, and its deliveries.

use askama::Template;
use axum::http::Method;
use axum::response::Response;
use chrono_tz::Tz;
use serde::Deserialize;
use serde_json::{Value, json};

use super::address::address;
use super::forms::Form;
use super::page::{Frame, Page, carry_out, to};
use super::parts::{PartParams, Parts};
use super::secret;
use super::session::Viewer;
use super::shown::{Clock, done, pretty};
use crate::domain::delivery::DeliveryStatus;
use crate::domain::message::MessageKind;
use crate::http::extract::Path;
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

/// What is filled in.
#[derive(Default)]
struct Wanted {
    url: String,
    events: Vec<MessageKind>,
    boards: String,
}

impl Wanted {
    fn of(form: &Form) -> Self {
        let chosen = form.chosen("event");
        let events = MessageKind::OF_EVENTS.into_iter();
        let events = events.filter(|kind| chosen.contains(&kind.name()));
        Self {
            url: form.field("url").to_owned(),
            events: events.collect(),
            boards: form.field("boards").to_owned(),
        }
    }

    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "templates pass references"
    )]
    fn has(&self, kind: &MessageKind) -> bool {
        self.events.contains(kind)
    }

    /// All that webhooks can be told of.
    #[expect(clippy::unused_self, reason = "templates call it")]
    fn kinds(&self) -> [MessageKind; 4] {
        MessageKind::OF_EVENTS
    }
}

impl From<&WebhookBody> for Wanted {
    fn from(webhook: &WebhookBody) -> Self {
        Self {
            url: webhook.url.clone(),
            events: webhook.events.clone(),
            boards: webhook.boards.patterns().collect::<Vec<_>>().join("\n"),
        }
    }
}

fn own_address(name: &str) -> String {
    address(&["v1", "webhooks", name], &[])
}

/// Makes a webhook as the form wants it, or changes it.
async fn put(viewer: &Viewer, name: &str, form: &Form) -> Result<Put, Problem> {
    let wanted = json!({
        "url": form.field("url").trim(), "events": form.chosen("event"), "boards": form.lines("boards"),
    });
    let put_to = own_address(name);
    viewer.call(Method::PUT, &put_to, Some(&wanted)).await
}

#[derive(Template)]
#[template(path = "console/webhooks.html")]
pub(super) struct ListPage {
    frame: Frame,
    done: Option<&'static str>,
    webhooks: Vec<WebhookBody>,
    parts: Parts,
    name: String,
    wanted: Wanted,
    problem: Option<Problem>,
    curl: String,
}

impl Page for ListPage {
    type Of = ();
    type Params = PartParams;

    async fn read(viewer: &Viewer, (): &(), params: PartParams) -> Result<Self, Problem> {
        let query = [("after", params.after.as_str()), ("limit", WEBHOOKS_MAX)];
        let listed_at = address(&["v1", "webhooks"], &query);
        let found: WebhookList = viewer.read(&listed_at).await?;
        let example = json!({
            "url": "https://app.example/standings", "events": ["period.final"], "boards": ["*"],
        });
        let put_to = own_address("NAME");
        let create = viewer.curl_to(&Method::PUT, &put_to, Some(&example));
        Ok(Self {
            frame: Frame::new(viewer, "Webhooks"),
            done: done(&params.done),
            webhooks: found.webhooks,
            parts: Parts::new(
                "webhooks",
                &["console", "webhooks"],
                &[],
                &params.after,
                found.next.as_deref(),
            ),
            name: String::new(),
            wanted: Wanted::default(),
            problem: None,
            curl: format!("{}\n{create}", viewer.curl(&listed_at)),
        })
    }
}

/// Makes a webhook, and shows its secret. One that is there already has its own page for changes.
pub(super) async fn create(viewer: Viewer, form: Form) -> Result<Response, Problem> {
    let made = async {
        let name = form.required("name")?;
        if viewer.find::<Value>(&own_address(name)).await?.is_some() {
            return shown(&viewer, name, Put { secret: None }, "exists");
        }
        let made = put(&viewer, name, &form).await?;
        shown(&viewer, name, made, "exists")
    };
    let page = ListPage::read(&viewer, &(), PartParams::default());
    carry_out(made, page, |page, problem| {
        form.field("name").clone_into(&mut page.name);
        page.wanted = Wanted::of(&form);
        page.problem = Some(problem);
    })
    .await
}

/// Shows the secret of a webhook if it is new; otherwise its page.
fn shown(viewer: &Viewer, name: &str, put: Put, done: &str) -> Result<Response, Problem> {
    let path = ["console", "webhooks", name];
    let Some(secret) = put.secret else {
        return Ok(to(&path, &[("done", done)]));
    };
    let title = format!("Secret of the webhook {name}");
    secret::show(
        viewer,
        title,
        (&secret, None),
        ABOUT_SECRET,
        address(&path, &[]),
    )
}

impl DeliveryBody {
    fn is_pending(&self) -> bool {
        self.status == DeliveryStatus::Pending
    }

    fn json(&self) -> String {
        pretty(&self.payload)
    }
}

/// Which deliveries.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Params {
    status: String,
    after: String,
    /// What was done before the page was shown.
    done: String,
}

#[derive(Template)]
#[template(path = "console/webhook.html")]
pub(super) struct WebhookPage {
    frame: Frame,
    clock: Clock,
    done: Option<&'static str>,
    webhook: WebhookBody,
    wanted: Wanted,
    deliveries: Vec<DeliveryBody>,
    status: String,
    parts: Parts,
    problem: Option<Problem>,
    curl: String,
}

impl Page for WebhookPage {
    type Of = String;
    type Params = Params;

    async fn read(viewer: &Viewer, name: &String, params: Params) -> Result<Self, Problem> {
        let own = own_address(name);
        let webhook: WebhookBody = viewer.read(&own).await?;
        let query = [
            ("status", params.status.as_str()),
            ("after", &params.after),
            ("limit", DELIVERIES_MAX),
        ];
        let of_webhook = |part| address(&["v1", "webhooks", name, part], &[]);
        let listed_at = address(&["v1", "webhooks", name, "deliveries"], &query);
        let found: DeliveryList = viewer.read(&listed_at).await?;
        let curl = [
            viewer.curl(&own),
            viewer.curl(&listed_at),
            viewer.curl_to(&Method::POST, &of_webhook("test"), None),
            viewer.curl_to(&Method::POST, &of_webhook("rotate"), None),
            viewer.curl_to(&Method::DELETE, &own, None),
        ];
        let parts = Parts::new(
            "deliveries",
            &["console", "webhooks", name],
            &[("status", &params.status)],
            &params.after,
            found.next.as_deref(),
        );
        Ok(Self {
            frame: Frame::new(viewer, format!("Webhook {name}")),
            clock: Clock(Tz::UTC),
            done: done(&params.done),
            wanted: Wanted::from(&webhook),
            webhook,
            deliveries: found.deliveries,
            status: params.status,
            parts,
            problem: None,
            curl: curl.join("\n"),
        })
    }
}

impl WebhookPage {
    fn with_status(&self, status: &str) -> String {
        let path = ["console", "webhooks", &self.webhook.name];
        address(&path, &[("status", status)])
    }
}

/// Changes a webhook, which enables it too.
pub(super) async fn change(
    viewer: Viewer,
    Path(name): Path<String>,
    form: Form,
) -> Result<Response, Problem> {
    let changed = async {
        let put = put(&viewer, &name, &form).await?;
        shown(&viewer, &name, put, "changed")
    };
    let page = WebhookPage::read(&viewer, &name, Params::default());
    carry_out(changed, page, |page, problem| {
        page.wanted = Wanted::of(&form);
        page.problem = Some(problem);
    })
    .await
}

/// Sends a message that says nothing.
pub(super) async fn test(
    viewer: Viewer,
    Path(name): Path<String>,
    _: Form,
) -> Result<Response, Problem> {
    let tested_by = address(&["v1", "webhooks", &name, "test"], &[]);
    viewer.order(Method::POST, &tested_by, None).await?;
    Ok(to(&["console", "webhooks", &name], &[("done", "tested")]))
}

/// Gives a webhook another secret, and shows it.
pub(super) async fn rotate(
    viewer: Viewer,
    Path(name): Path<String>,
    _: Form,
) -> Result<Response, Problem> {
    let rotated_by = address(&["v1", "webhooks", &name, "rotate"], &[]);
    let rotated: Put = viewer.call(Method::POST, &rotated_by, None).await?;
    shown(&viewer, &name, rotated, "")
}

/// Sends a message again.
pub(super) async fn retry(
    viewer: Viewer,
    Path(name): Path<String>,
    form: Form,
) -> Result<Response, Problem> {
    let id = form.required("delivery")?;
    let path = ["v1", "webhooks", &name, "deliveries", id, "retry"];
    let retried_by = address(&path, &[]);
    viewer.order(Method::POST, &retried_by, None).await?;
    let query = [("status", form.field("status")), ("done", "retried")];
    Ok(to(&["console", "webhooks", &name], &query))
}

/// Deletes a webhook with its deliveries.
pub(super) async fn delete(
    viewer: Viewer,
    Path(name): Path<String>,
    form: Form,
) -> Result<Response, Problem> {
    form.confirm(&name)?;
    let own = own_address(&name);
    viewer.order(Method::DELETE, &own, None).await?;
    Ok(to(&["console", "webhooks"], &[("done", "deleted")]))
}
