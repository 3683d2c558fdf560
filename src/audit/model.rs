//! What the audit log records of a request: no secrets, no personal data, and members by pseudonyms.
//!
//! Fields are recognised by name. `member` and `player` have the id of a member; `members`, `scores` and `ids` are lists of members, or
//! objects with a field for each.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use url::Url;
use utoipa::ToSchema;

use crate::domain::access::BoardPattern;
use crate::domain::ids::MemberId;
use crate::domain::time::Timestamp;

/// How many members one line names. For longer lists it has only the length.
pub const MEMBERS_MAX: usize = 100;
/// How many bytes a body, or what it has changed, may take in a line. For larger ones it has only the size.
pub const VALUE_BYTES_MAX: usize = 16 << 10;
/// How deep a body, or what it has changed, may be nested in a line. Deeper ones are left out: the line adds levels, and
/// JSON is read up to 127 levels deep.
const DEPTH_MAX: usize = 100;
/// Replaces anything left out.
pub const LEFT_OUT: &str = "…";

/// Fields with the id of a member.
const OF_MEMBER: [&str; 2] = ["member", "player"];
/// Fields that are lists of members, or objects with a field for each.
const OF_MEMBERS: [&str; 3] = ["members", "scores", "ids"];
/// Fields whose names contain one of these are secrets.
const SECRETS: [&str; 4] = ["secret", "password", "token", "authorization"];
/// Fields with the address of somebody whose events are meant.
const ADDRESS: &str = "ip";
/// Fields whose names contain this are URLs, which may have a password.
const URL: &str = "url";
/// Fields about a person, in a request whose path names a member.
const PERSONAL: [&str; 4] = ["name", "avatar_url", "attributes", "data"];

/// A request about to be carried out: the first half of a line.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct Intent {
    /// The time, by the clock of the service.
    pub at: Option<Timestamp>,
    /// The caller's name; for a player its pseudonym.
    pub by: String,
    pub method: String,
    /// The route, with its parameters in braces.
    pub route: String,
    /// The boards that it names; `*` for all.
    pub boards: Vec<String>,
    /// The pseudonyms of the members that it names.
    pub members: Vec<String>,
    /// The other parameters of the path.
    pub path: Value,
    pub query: Value,
    pub body: Value,
    pub address: Option<String>,
    pub request_id: String,
}

/// The outcome of a request.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, ToSchema)]
#[serde(default)]
pub struct AuditOutcome {
    /// When the response was sent.
    pub at: Option<Timestamp>,
    /// The status of the response.
    #[schema(required = true)]
    pub status: u16,
    /// The code of the problem; null if the request was carried out.
    pub code: Option<String>,
    /// The data before the change; null if there was none, or if it is not logged for this request.
    #[schema(required = true)]
    pub before: Value,
    /// The data after the change; null if there is none, or if it is not logged for this request.
    #[schema(required = true)]
    pub after: Value,
}

/// The pseudonyms of the members that a request names.
#[derive(Clone, Debug, Default)]
pub struct Pseudonyms {
    /// By member id.
    pub of_members: BTreeMap<String, String>,
    /// Whether the path names a member, so that the body has personal data.
    pub is_about_person: bool,
}

impl Pseudonyms {
    pub fn redact(&self, mut value: Value) -> Value {
        let mut pseudonym = |member: &str| {
            let known = self.of_members.get(member).map(String::as_str);
            known.unwrap_or(LEFT_OUT).to_owned()
        };
        rename(&mut value, self.is_about_person, &mut pseudonym);
        bounded(value)
    }
}

/// The members named in the values, sorted by id; at most [`MEMBERS_MAX`].
pub fn members_of<'a>(values: impl IntoIterator<Item = &'a Value>) -> Vec<MemberId> {
    let mut found = BTreeSet::new();
    for value in values {
        rename(&mut value.clone(), false, &mut |member| {
            found.extend(MemberId::parse(member).ok());
            String::new()
        });
    }
    found.into_iter().take(MEMBERS_MAX).collect()
}

/// The boards that a body names.
pub fn boards_of(body: &Value) -> Vec<String> {
    let boards = &body["boards"];
    let named = match boards.as_array() {
        Some(items) => items.as_slice(),
        None => std::slice::from_ref(boards),
    };
    named
        .iter()
        .filter_map(Value::as_str)
        .filter(|board| BoardPattern::parse(board).is_ok())
        .take(100)
        .map(ToOwned::to_owned)
        .collect()
}

/// Replaces members by pseudonyms, and removes secrets and, with `is_personal`, personal data.
fn rename(value: &mut Value, is_personal: bool, pseudonym: &mut dyn FnMut(&str) -> String) {
    match value {
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| rename(item, is_personal, pseudonym)),
        Value::Object(fields) => {
            for (name, inner) in fields {
                rename_field(name, inner, is_personal, pseudonym);
            }
        }
        _ => {}
    }
}

fn rename_field(
    name: &str,
    value: &mut Value,
    is_personal: bool,
    pseudonym: &mut dyn FnMut(&str) -> String,
) {
    let name = name.to_ascii_lowercase();
    let is_secret = SECRETS.iter().any(|secret| name.contains(secret));
    let is_left_out =
        is_secret || name == ADDRESS || (is_personal && PERSONAL.contains(&name.as_str()));
    match value {
        Value::Null => {}
        value if is_left_out => *value = LEFT_OUT.into(),
        Value::String(member) if OF_MEMBER.contains(&name.as_str()) => *member = pseudonym(member),
        Value::String(url) if name.contains(URL) => *url = without_password(url),
        // Should be the id of a member, but is not.
        value if OF_MEMBER.contains(&name.as_str()) => *value = LEFT_OUT.into(),
        value if OF_MEMBERS.contains(&name.as_str()) => {
            rename_members(value, is_personal, pseudonym);
        }
        value => rename(value, is_personal, pseudonym),
    }
}

/// A URL without its user and password. Invalid URLs, and those refused for a password, get here too.
fn without_password(text: &str) -> String {
    if let Ok(mut url) = Url::parse(text)
        && url.has_host()
    {
        let is_bare = url.username().is_empty() && url.password().is_none();
        if is_bare {
            return text.to_owned();
        }
        if url.set_username("").is_ok() && url.set_password(None).is_ok() {
            return url.as_str().replacen("://", &format!("://{LEFT_OUT}@"), 1);
        }
    }
    match text.rsplit_once('@') {
        Some((_, host)) => format!("{LEFT_OUT}@{host}"),
        None => text.to_owned(),
    }
}

fn rename_members(value: &mut Value, is_personal: bool, pseudonym: &mut dyn FnMut(&str) -> String) {
    let told = |count: usize| Value::from(format!("{LEFT_OUT} {count} members"));
    match value {
        Value::String(_) => *value = LEFT_OUT.into(),
        Value::Array(items) if items.len() > MEMBERS_MAX => *value = told(items.len()),
        Value::Object(fields) if fields.len() > MEMBERS_MAX => *value = told(fields.len()),
        Value::Array(items) => {
            for item in items {
                match item {
                    Value::String(member) => *member = pseudonym(member),
                    item @ Value::Object(_) => rename(item, is_personal, pseudonym),
                    item => *item = LEFT_OUT.into(),
                }
            }
        }
        Value::Object(fields) => {
            let renamed = std::mem::take(fields).into_iter().map(|(member, mut of)| {
                match &mut of {
                    Value::String(text) => LEFT_OUT.clone_into(text),
                    of => rename(of, is_personal, pseudonym),
                }
                (pseudonym(&member), of)
            });
            *fields = renamed.collect::<Map<_, _>>();
        }
        _ => {}
    }
}

/// The value; or its size if it is too large or nested too deep.
fn bounded(value: Value) -> Value {
    let bytes = value.to_string().len();
    let is_deep = !is_nested_up_to(DEPTH_MAX, &value);
    if bytes <= VALUE_BYTES_MAX && !is_deep {
        return value;
    }
    let told = if is_deep {
        format!("{LEFT_OUT} {bytes} bytes, nested deeper than {DEPTH_MAX} levels")
    } else {
        format!("{LEFT_OUT} {bytes} bytes")
    };
    match value {
        // An object stays an object, as readers expect.
        Value::Object(_) => json!({ LEFT_OUT: told }),
        _ => told.into(),
    }
}

fn is_nested_up_to(levels: usize, value: &Value) -> bool {
    let is_inner = |value| levels > 0 && is_nested_up_to(levels - 1, value);
    match value {
        Value::Array(items) => levels > 0 && items.iter().all(is_inner),
        Value::Object(fields) => levels > 0 && fields.values().all(is_inner),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redacted(value: Value, is_about_person: bool) -> Value {
        let of_members = members_of([&value])
            .into_iter()
            .map(|member| (member.to_string(), format!("m-{member}")));
        let pseudonyms = Pseudonyms {
            of_members: of_members.collect(),
            is_about_person,
        };
        pseudonyms.redact(value)
    }

    #[test]
    fn members_have_pseudonyms_wherever_a_request_names_them() {
        let sent = json!({"action": "hide", "member": "ann", "reason": "cheating", "boards": ["a"],
            "weight": {"default": 1, "members": {"bob": 3}}, "results": [{"member": "cy"}],
            "scores": {"di": 1, "ed": null}, "Members": ["flo", {"member": "gil"}]});
        let written = json!({"action": "hide", "member": "m-ann", "reason": "cheating", "boards": ["a"],
            "weight": {"default": 1, "members": {"m-bob": 3}}, "results": [{"member": "m-cy"}],
            "scores": {"m-di": 1, "m-ed": null}, "Members": ["m-flo", {"member": "m-gil"}]});
        assert_eq!(redacted(sent, false), written);
        // Invalid requests, too.
        let sent = json!({"member": ["ann"], "members": ["bob", 7, ["cy"]], "scores": {"di": "ed"}, "ids": {"flo": null}});
        let written = json!({"member": "…", "members": ["m-bob", "…", "…"], "scores": {"m-di": "…"}, "ids": {"m-flo": null}});
        assert_eq!(redacted(sent, false), written);
        let unknown = Pseudonyms::default().redact(json!({"member": "ann", "ids": "ann,bob"}));
        assert_eq!(unknown, json!({"member": "…", "ids": "…"}));
    }

    #[test]
    fn secrets_and_personal_names_are_left_out() {
        let sent =
            json!({"name": "Ann", "Client_Secret": "x", "token": null, "quotas": [{"name": "q"}]});
        assert_eq!(
            redacted(sent.clone(), false),
            json!({"name": "Ann", "Client_Secret": "…", "token": null, "quotas": [{"name": "q"}]})
        );
        assert_eq!(redacted(sent, true)["name"], "…");
        let of_address = redacted(json!({"ip": "192.0.2.7", "voter": "v"}), false);
        assert_eq!(of_address, json!({"ip": "…", "voter": "v"}));
    }

    #[test]
    fn a_url_is_logged_without_its_password_even_if_malformed() {
        for (sent, written) in [
            (
                "https://a.example/hooks?to=a@b.c",
                "https://a.example/hooks?to=a@b.c",
            ),
            ("https://ann:hush@a.example/x", "https://…@a.example/x"),
            ("https://hush@a.example", "https://…@a.example/"),
            ("https:\\\\ann:hush@a.example", "https://…@a.example/"),
            (
                "http://ann:hu%73sh@10.0.0.1:81/@x#y",
                "http://…@10.0.0.1:81/@x#y",
            ),
            ("https://ann:hush@a.example:99999/", "…@a.example:99999/"),
            ("https://ann:hu/sh@a.example", "…@a.example"),
            ("ann:hush@a.example", "…@a.example"),
            ("//ann:hush@a.example", "…@a.example"),
            ("a.example", "a.example"),
        ] {
            assert_eq!(redacted(json!({"url": sent}), false)["url"], written);
        }
        let avatar = redacted(
            json!({"x": [{"Avatar_URL": "https://u:hush@a.example/"}]}),
            false,
        );
        assert_eq!(avatar["x"][0]["Avatar_URL"], "https://…@a.example/");
        // Prose is not a URL.
        let reason = json!({"reason": "see https://a.example, ask a@b.c"});
        assert_eq!(redacted(reason.clone(), false), reason);
    }

    #[test]
    fn values_that_are_too_long_are_logged_by_length() {
        let scores = |count: usize| {
            let scores = (0..count).map(|member| (member.to_string(), json!(1)));
            json!({"scores": scores.collect::<Map<_, _>>()})
        };
        let few = redacted(scores(MEMBERS_MAX), false);
        assert_eq!(few["scores"].as_object().unwrap().len(), MEMBERS_MAX);
        let many = redacted(scores(MEMBERS_MAX + 1), false);
        assert_eq!(many, json!({"scores": "… 101 members"}));
        let text = "x".repeat(VALUE_BYTES_MAX);
        assert_eq!(
            redacted(json!({"title": text}), false),
            json!({"…": "… 16396 bytes"})
        );
        // Members beyond the limit are replaced by a placeholder.
        let events: Vec<Value> = (0..200)
            .map(|member| json!({"member": member.to_string()}))
            .collect();
        let written = redacted(json!({"events": events}), false).to_string();
        assert_eq!(written.matches("m-").count(), MEMBERS_MAX);
        assert_eq!(written.matches(LEFT_OUT).count(), 100);
    }

    #[test]
    fn values_nested_too_deep_are_logged_by_size() {
        let nested = |levels: usize| {
            let text = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
            serde_json::from_str::<Value>(&text).unwrap()
        };
        assert_eq!(redacted(nested(DEPTH_MAX), false), nested(DEPTH_MAX));
        let told = "… 202 bytes, nested deeper than 100 levels";
        assert_eq!(redacted(nested(DEPTH_MAX + 1), false), json!(told));
        assert_eq!(
            redacted(json!({"rewards": nested(126)}), false),
            json!({"…": "… 264 bytes, nested deeper than 100 levels"})
        );
    }

    #[test]
    fn the_boards_of_a_body_are_those_that_it_names() {
        assert_eq!(boards_of(&json!({"boards": "*"})), ["*"]);
        assert_eq!(
            boards_of(&json!({"boards": ["a", "b c", 1, "vote-*"]})),
            ["a", "vote-*"]
        );
        assert!(boards_of(&json!(["boards"])).is_empty());
    }
}
