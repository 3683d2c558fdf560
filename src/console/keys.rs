//! API keys: the list with the form for a new one; a key, its rotation, and its deletion.

use askama::Template;
use axum::http::Method;
use serde::de::IgnoredAny;
use serde_json::json;

use super::{
    Answer, Form, Frame, Page, PartParams, Parts, Path, Viewer, add, carry_out, html, secret, to,
    v1, v1_with,
};
use crate::domain::access::Scope;
use crate::http::problem::Problem;
use crate::keys::routes::{KeyBody, KeyList, KeyWithSecret};

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
}

impl Page for KeysPage {
    type Of = ();
    type Params = PartParams;

    async fn read(mut frame: Frame, (): &(), params: PartParams) -> Result<Self, Problem> {
        let query = params.of_at_most(KEYS_MAX);
        let found: KeyList = frame.read(&["keys"], &query).await?;
        let example = json!({"scopes": ["read"], "boards": ["*"]});
        frame.example(&Method::PUT, &["keys", "NAME"], Some(&example));
        Ok(Self {
            frame: frame.named("API keys").done(&params.done),
            keys: found.keys,
            parts: Parts::new("keys", "/console/keys", &params.after, found.next),
        })
    }
}

/// Creates a key, and shows its secret.
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
    carry_out::<KeysPage>(&viewer, &(), &form, made).await
}

fn show_secret(viewer: &Viewer, name: &str, made: &KeyWithSecret) -> Answer {
    let secret = (made.secret.as_str(), made.warning.as_deref());
    secret::show(viewer, ("key", name), secret, ABOUT_SECRET)
}

#[derive(Template)]
#[template(path = "console/key.html")]
struct KeyPage {
    frame: Frame,
    key: KeyBody,
}

/// A key.
pub(super) async fn show(viewer: Viewer, Path(name): Path<String>) -> Answer {
    let mut frame = Frame::new(&viewer, name.as_str()).under("API keys", "/console/keys");
    let key = frame.read(&["keys", &name], &[]).await?;
    let rotation = json!({"grace": "1h"});
    frame.example(&Method::POST, &["keys", &name, "rotate"], Some(&rotation));
    frame.example(&Method::DELETE, &["keys", &name], None);
    html(&KeyPage { frame, key })
}

/// Gives a key a new secret, and shows it.
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
    let own = v1_with(&["keys", &name], &[("with", form.field("with"))]);
    let IgnoredAny = viewer.call(Method::DELETE, &own, None).await?;
    Ok(to(&["keys"], &[("done", "deleted")]))
}
