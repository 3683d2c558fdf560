//! API keys: the list with the form for a new one; a key, what it allows, its rotation, and its deletion.

use askama::Template;
use axum::http::Method;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::{
    Answer, Form, Frame, Page, PartParams, Parts, Path, Viewer, add, carry_out, secret, to, v1,
    v1_with,
};
use crate::domain::access::Scope;
use crate::domain::time::Timestamp;
use crate::http::problem::Problem;
use crate::keys::routes::{KeyBody, KeyList, KeyWithSecret};

/// How many keys a part of the list has.
const KEYS_MAX: &str = "100";
/// What a secret is for.
const ABOUT_SECRET: &str = "Clients send it as `Authorization: Bearer SECRET`. Anyone who has it can do what the key allows.";
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
            frame: frame.named("API keys").done_to(&params.done, &params.name),
            keys: found.keys,
            parts: Parts::new("keys", "/console/keys", &params.after, found.next),
        })
    }
}

/// What a form grants. A field that is left empty is null.
fn wanted(form: &Form) -> Value {
    json!({
        "scopes": form.chosen("scope"), "boards": form.lines("boards"),
        "rate": form.given("rate").map(str::trim), "expires_at": form.instant("expires_at"),
    })
}

/// The form, filled in with a key.
fn filled_in(key: &KeyBody) -> Form {
    let fields = [
        (
            "boards",
            key.boards.patterns().collect::<Vec<_>>().join("\n"),
        ),
        (
            "rate",
            key.rate.map(|rate| rate.to_string()).unwrap_or_default(),
        ),
        (
            "expires_at",
            key.expires_at.map(of_field).unwrap_or_default(),
        ),
    ];
    let scopes = key
        .scopes
        .named()
        .map(|scope| ("scope", scope.name().to_owned()));
    fields.into_iter().chain(scopes).collect()
}

/// An instant as a field of a form has it.
fn of_field(at: Timestamp) -> String {
    at.to_rfc3339_seconds().trim_end_matches('Z').to_owned()
}

impl KeyBody {
    fn has_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }
}

/// Creates a key, and shows its secret.
pub(super) async fn create(viewer: Viewer, form: Form) -> Answer {
    let made = async {
        let name = form.required("name")?;
        let grant = wanted(&form);
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
pub(super) struct KeyPage {
    frame: Frame,
    key: KeyBody,
}

impl Page for KeyPage {
    type Of = String;
    type Params = PartParams;

    async fn read(mut frame: Frame, name: &String, params: PartParams) -> Result<Self, Problem> {
        let own = ["keys", name.as_str()];
        let key: KeyBody = frame.read(&own, &[]).await?;
        frame.example(&Method::PATCH, &own, Some(&json!({"rate": "100/s"})));
        let rotation = json!({"grace": "1h"});
        frame.example(&Method::POST, &["keys", name, "rotate"], Some(&rotation));
        frame.example(&Method::DELETE, &own, None);
        frame.fill_in(filled_in(&key));
        let frame = frame.named(name).under("API keys", "/console/keys");
        Ok(Self {
            frame: frame.done_to(&params.done, name),
            key,
        })
    }
}

/// Changes what a key allows.
pub(super) async fn change(viewer: Viewer, Path(name): Path<String>, form: Form) -> Answer {
    let changed = async {
        let own = ["keys", name.as_str()];
        viewer
            .order(Method::PATCH, &own, Some(&wanted(&form)))
            .await?;
        Ok(to(&own, &[("done", "key-changed")]))
    };
    carry_out::<KeyPage>(&viewer, &name, &form, changed).await
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
    let deleted = async {
        form.confirm(&name)?;
        let own = v1_with(&["keys", &name], &[("with", form.field("with"))]);
        let IgnoredAny = viewer.call(Method::DELETE, &own, None).await?;
        Ok(to(&["keys"], &[("done", "key-deleted"), ("name", &name)]))
    };
    carry_out::<KeyPage>(&viewer, &name, &form, deleted).await
}
