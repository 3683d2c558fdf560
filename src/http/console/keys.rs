//! API keys: the list with the form for a new one; a key, its rotation, and its end.

use askama::Template;
use axum::http::Method;
use axum::response::Response;
use chrono_tz::Tz;
use serde_json::json;

use super::address::address;
use super::forms::Form;
use super::page::{Frame, Page, carry_out, html, to};
use super::parts::{PartParams, Parts};
use super::secret;
use super::session::Viewer;
use super::shown::{Clock, done};
use crate::domain::access::Scope;
use crate::http::api_keys::{KeyBody, KeyList, KeyWithSecret};
use crate::http::extract::Path;
use crate::http::problem::Problem;

/// How many keys a part of the list has.
const KEYS_MAX: &str = "100";
/// What a secret is for.
const ABOUT_SECRET: &str =
    "Clients send it as `Authorization: Bearer SECRET`. Who has it may do what the key allows.";

/// The scopes that can be chosen, each with what it allows.
const SCOPES: [(Scope, &str); 5] = [
    (Scope::Read, "read standings"),
    (Scope::Write, "send events"),
    (Scope::Moderate, "hide members, review names"),
    (Scope::Configure, "define boards, webhooks"),
    (Scope::Admin, "everything, keys too"),
];

/// What is filled in for a new key.
#[derive(Default)]
struct New {
    name: String,
    scopes: Vec<String>,
    boards: String,
    rate: String,
    expires_at: String,
}

impl New {
    fn of(form: &Form) -> Self {
        let field = |name: &str| form.field(name).to_owned();
        let scopes = form.chosen("scope").into_iter();
        Self {
            name: field("name"),
            scopes: scopes.map(ToOwned::to_owned).collect(),
            boards: field("boards"),
            rate: field("rate"),
            expires_at: field("expires_at"),
        }
    }

    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "templates pass references"
    )]
    fn has(&self, scope: &Scope) -> bool {
        self.scopes.iter().any(|own| own == scope.name())
    }
}

#[derive(Template)]
#[template(path = "console/keys.html")]
pub(super) struct KeysPage {
    frame: Frame,
    clock: Clock,
    done: Option<&'static str>,
    keys: Vec<KeyBody>,
    parts: Parts,
    new: New,
    /// Whether keys protect nothing, since the service is open.
    is_open: bool,
    problem: Option<Problem>,
    curl: String,
}

impl Page for KeysPage {
    type Of = ();
    type Params = PartParams;

    async fn read(viewer: &Viewer, (): &(), params: PartParams) -> Result<Self, Problem> {
        let query = [("after", params.after.as_str()), ("limit", KEYS_MAX)];
        let listed_at = address(&["v1", "keys"], &query);
        let found: KeyList = viewer.read(&listed_at).await?;
        let example = json!({"scopes": ["read"], "boards": ["*"]});
        let put_to = address(&["v1", "keys", "NAME"], &[]);
        let create = viewer.curl_to(&Method::PUT, &put_to, Some(&example));
        Ok(Self {
            frame: Frame::new(viewer, "API keys"),
            clock: Clock(Tz::UTC),
            done: done(&params.done),
            keys: found.keys,
            parts: Parts::new(
                "keys",
                &["console", "keys"],
                &[],
                &params.after,
                found.next.as_deref(),
            ),
            new: New::default(),
            is_open: viewer.is_anybody(),
            problem: None,
            curl: format!("{}\n{create}", viewer.curl(&listed_at)),
        })
    }
}

/// Makes a key, and shows its secret.
pub(super) async fn create(viewer: Viewer, form: Form) -> Result<Response, Problem> {
    let made = async {
        let (name, made) = put(&viewer, &form).await?;
        show_secret(&viewer, name, &made)
    };
    let page = KeysPage::read(&viewer, &(), PartParams::default());
    carry_out(made, page, |page, problem| {
        page.new = New::of(&form);
        page.problem = Some(problem);
    })
    .await
}

async fn put<'a>(viewer: &Viewer, form: &'a Form) -> Result<(&'a str, KeyWithSecret), Problem> {
    let name = form.required("name")?;
    let mut grant = json!({"scopes": form.chosen("scope"), "boards": form.lines("boards")});
    if let Some(rate) = form.given("rate") {
        grant["rate"] = rate.trim().into();
    }
    if let Some(expires_at) = form.instant("expires_at") {
        grant["expires_at"] = expires_at.into();
    }
    let put_to = address(&["v1", "keys", name], &[]);
    let made = viewer.call(Method::PUT, &put_to, Some(&grant)).await?;
    Ok((name, made))
}

fn show_secret(viewer: &Viewer, name: &str, made: &KeyWithSecret) -> Result<Response, Problem> {
    let title = format!("Secret of the key {name}");
    let next = address(&["console", "keys", name], &[]);
    let warning = made.warning.as_deref();
    secret::show(viewer, title, (&made.secret, warning), ABOUT_SECRET, next)
}

#[derive(Template)]
#[template(path = "console/key.html")]
struct KeyPage {
    frame: Frame,
    clock: Clock,
    key: KeyBody,
    curl: String,
}

/// A key.
pub(super) async fn show(viewer: Viewer, Path(name): Path<String>) -> Result<Response, Problem> {
    let own = address(&["v1", "keys", &name], &[]);
    let rotated_by = address(&["v1", "keys", &name, "rotate"], &[]);
    let rotation = json!({"grace": "1h"});
    let curl = [
        viewer.curl(&own),
        viewer.curl_to(&Method::POST, &rotated_by, Some(&rotation)),
        viewer.curl_to(&Method::DELETE, &own, None),
    ];
    html(&KeyPage {
        frame: Frame::new(&viewer, format!("API key {name}")),
        clock: Clock(Tz::UTC),
        key: viewer.read(&own).await?,
        curl: curl.join("\n"),
    })
}

/// Gives a key another secret, and shows it.
pub(super) async fn rotate(
    viewer: Viewer,
    Path(name): Path<String>,
    form: Form,
) -> Result<Response, Problem> {
    let rotation = match form.given("grace") {
        Some(grace) => json!({"grace": grace.trim()}),
        None => json!({}),
    };
    let rotated_by = address(&["v1", "keys", &name, "rotate"], &[]);
    let rotated = viewer.call(Method::POST, &rotated_by, Some(&rotation));
    show_secret(&viewer, &name, &rotated.await?)
}

/// Deletes a key.
pub(super) async fn delete(
    viewer: Viewer,
    Path(name): Path<String>,
    form: Form,
) -> Result<Response, Problem> {
    form.confirm(&name)?;
    let own = address(&["v1", "keys", &name], &[("with", form.field("with"))]);
    viewer.order(Method::DELETE, &own, None).await?;
    Ok(to(&["console", "keys"], &[("done", "deleted")]))
}
