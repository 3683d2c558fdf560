//! API keys: the list with the form for a new one; a key, what it allows, its rotation, and its deletion.

use super::prelude::*;
use super::secret;
use super::shown::Clock;
use crate::domain::time::Timestamp;
use crate::domain::timezone::Zone;
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
    async fn read(mut frame: Frame) -> Result<Self, Problem> {
        let [after] = frame.params(["after"])?;
        let query = [("after", &*after), ("limit", KEYS_MAX)];
        let found: KeyList = frame.read(&["keys"], &query).await?;
        let example = json!({"scopes": ["read"], "boards": ["*"]});
        frame.example(&Method::PUT, &["keys", "NAME"], Some(&example));
        Ok(Self {
            keys: found.keys,
            parts: Parts::new("keys", &frame, found.next),
            frame: frame.named("API keys"),
        })
    }
}

/// What a form grants. A field that is left empty is null.
fn wanted(form: &Form) -> Result<Value, Problem> {
    Ok(json!({
        "scopes": form.chosen("scope"), "boards": form.lines("boards"),
        "rate": form.given("rate").map(str::trim), "expires_at": form.local("expires_at", Zone::UTC)?,
    }))
}

/// The form, filled in with a key.
fn filled_in(key: &KeyBody) -> Form {
    let boards: Vec<&str> = key.boards.patterns().collect();
    let rate = key.rate.map(|rate| rate.to_string());
    let expires_at = key.expires_at.map(|at| Clock::local_text(Zone::UTC, at));
    let fields = [
        ("boards", boards.join("\n")),
        ("rate", rate.unwrap_or_default()),
        ("expires_at", expires_at.unwrap_or_default()),
    ];
    let scopes = key.scopes.named();
    let scopes = scopes.map(|scope| ("scope", scope.name().to_owned()));
    fields.into_iter().chain(scopes).collect()
}

impl KeyBody {
    fn has_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }
}

/// Creates a key, and shows its secret.
pub(super) async fn create(viewer: Viewer, form: Form) -> Answer {
    let made = async {
        let own = v1(&["keys", form.required("name")?]);
        let grant = wanted(&form)?;
        let made = viewer.call(Method::PUT, &own, Some(&grant)).await?;
        show_secret(&viewer, form.required("name")?, &made).await
    };
    carry_out::<KeysPage>(&viewer, &form, made).await
}

async fn show_secret(viewer: &Viewer, name: &str, made: &KeyWithSecret) -> Answer {
    let secret = (made.secret.as_str(), made.warning.as_deref());
    secret::show(viewer, ("key", name), secret, ABOUT_SECRET).await
}

#[derive(Template)]
#[template(path = "console/key.html")]
pub(super) struct KeyPage {
    frame: Frame,
    key: KeyBody,
}

impl Page for KeyPage {
    async fn read(mut frame: Frame) -> Result<Self, Problem> {
        let [name] = frame.params(["name"])?;
        let own = ["keys", &name];
        let key: KeyBody = frame.read(&own, &[]).await?;
        frame.example(&Method::PATCH, &own, Some(&json!({"rate": "100/s"})));
        let rotation = json!({"grace": "1h"});
        frame.example(&Method::POST, &["keys", &name, "rotate"], Some(&rotation));
        frame.example(&Method::DELETE, &own, None);
        frame.fill_in(filled_in(&key));
        Ok(Self {
            frame: frame.under("API keys", "/console/keys").named(name),
            key,
        })
    }
}

/// Changes what a key allows.
pub(super) async fn change(viewer: Viewer, form: Form) -> Answer {
    let changed = async {
        let own = ["keys", form.field("name")];
        let grant = wanted(&form)?;
        viewer.order(Method::PATCH, &own, Some(&grant)).await?;
        Ok(to(&own, &[("done", "key-changed"), ("name", own[1])]))
    };
    carry_out::<KeyPage>(&viewer, &form, changed).await
}

/// Gives a key a new secret, and shows it.
pub(super) async fn rotate(viewer: Viewer, form: Form) -> Answer {
    let mut rotation = json!({});
    add(&mut rotation, "grace", form.given("grace").map(str::trim));
    let name = form.field("name");
    let rotated_by = v1(&["keys", name, "rotate"]);
    let rotated = viewer
        .call(Method::POST, &rotated_by, Some(&rotation))
        .await?;
    show_secret(&viewer, name, &rotated).await
}
