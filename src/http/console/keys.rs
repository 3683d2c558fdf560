//! API keys: the list with the form for a new one; a key, its rotation, and its end.

use askama::Template;
use axum::http::Method;
use serde_json::json;

use super::{
    Answer, Form, Frame, Page, PartParams, Parts, Path, Viewer, add, address, carry_out, html,
    secret, to, v1,
};
use crate::domain::access::Scope;
use crate::http::api_keys::{KeyBody, KeyList, KeyWithSecret};
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

#[derive(Template)]
#[template(path = "console/keys.html")]
pub(super) struct KeysPage {
    frame: Frame,
    keys: Vec<KeyBody>,
    parts: Parts,
    /// Whether keys protect nothing, since the service is open.
    is_open: bool,
}

impl Page for KeysPage {
    type Of = ();
    type Params = PartParams;

    async fn read(viewer: &Viewer, (): &(), params: PartParams) -> Result<Self, Problem> {
        let listed_at = address(&["v1", "keys"], &params.of_at_most(KEYS_MAX));
        let found: KeyList = viewer.read(&listed_at).await?;
        let example = json!({"scopes": ["read"], "boards": ["*"]});
        let create = viewer.curl_to(&Method::PUT, &v1(&["keys", "NAME"]), Some(&example));
        Ok(Self {
            frame: Frame::new(viewer, "API keys")
                .done(&params.done)
                .curl([viewer.curl(&listed_at), create]),
            keys: found.keys,
            parts: Parts::new("keys", "/console/keys", &params.after, found.next),
            is_open: viewer.is_anybody(),
        })
    }
}

/// Makes a key, and shows its secret.
pub(super) async fn create(viewer: Viewer, form: Form) -> Answer {
    let made = async {
        let name = form.required("name")?;
        let mut grant = json!({"scopes": form.chosen("scope"), "boards": form.lines("boards")});
        add(&mut grant, "rate", form.given("rate").map(str::trim));
        add(&mut grant, "expires_at", form.instant("expires_at"));
        let put_to = v1(&["keys", name]);
        let made = viewer.call(Method::PUT, &put_to, Some(&grant));
        show_secret(&viewer, name, &made.await?)
    };
    let page = KeysPage::read(&viewer, &(), PartParams::default());
    carry_out(&form, made, page, |page| &mut page.frame).await
}

fn show_secret(viewer: &Viewer, name: &str, made: &KeyWithSecret) -> Answer {
    let title = format!("Secret of the key {name}");
    let next = address(&["console", "keys", name], &[]);
    let warning = made.warning.as_deref();
    secret::show(viewer, title, (&made.secret, warning), ABOUT_SECRET, next)
}

#[derive(Template)]
#[template(path = "console/key.html")]
struct KeyPage {
    frame: Frame,
    key: KeyBody,
}

/// A key.
pub(super) async fn show(viewer: Viewer, Path(name): Path<String>) -> Answer {
    let own = v1(&["keys", &name]);
    let rotation = json!({"grace": "1h"});
    let rotated_by = v1(&["keys", &name, "rotate"]);
    html(&KeyPage {
        frame: Frame::new(&viewer, format!("API key {name}")).curl([
            viewer.curl(&own),
            viewer.curl_to(&Method::POST, &rotated_by, Some(&rotation)),
            viewer.curl_to(&Method::DELETE, &own, None),
        ]),
        key: viewer.read(&own).await?,
    })
}

/// Gives a key another secret, and shows it.
pub(super) async fn rotate(viewer: Viewer, Path(name): Path<String>, form: Form) -> Answer {
    let mut rotation = json!({});
    add(&mut rotation, "grace", form.given("grace").map(str::trim));
    let rotated_by = v1(&["keys", &name, "rotate"]);
    let rotated = viewer.call(Method::POST, &rotated_by, Some(&rotation));
    show_secret(&viewer, &name, &rotated.await?)
}

/// Deletes a key.
pub(super) async fn delete(viewer: Viewer, Path(name): Path<String>, form: Form) -> Answer {
    form.confirm(&name)?;
    let own = address(&["v1", "keys", &name], &[("with", form.field("with"))]);
    viewer.order(Method::DELETE, &own, None).await?;
    Ok(to(&["keys"], &[("done", "deleted")]))
}
