//! A member's public profile, and the review of its name.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};
use url::Url;
use utoipa::ToSchema;
use xxhash_rust::xxh3::xxh3_64;

use super::blocklist::Blocklist;
use super::board::{FieldError, Names};
use super::name::Name;
use super::texts::words;
use super::time::Timestamp;

/// The longest profile, in bytes of JSON without spaces.
pub const PROFILE_BYTES_MAX: usize = 2 << 10;
/// How much larger attributes may be before whitespace is removed.
const SPACES_FACTOR: usize = 4;
/// How deep attributes may be nested: the object itself is 1 deep.
pub const DEPTH_MAX: usize = 8;
/// The longest reason of a review, in characters.
pub const REASON_CHARS_MAX: usize = 500;
/// How many blocked names of a member are remembered.
const BLOCKED_MAX: usize = 32;
/// The reviewer of names that the list of patterns blocks.
pub const BLOCKLIST: &str = "blocklist";

/// A member's name, picture and attributes.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct Profile {
    /// The member's name.
    pub name: Name,
    /// The address of its picture; null if it has none.
    pub avatar_url: Option<String>,
    /// Attributes that the operator's backend has added.
    #[schema(value_type = Map<String, Value>)]
    pub attributes: Box<RawValue>,
}

impl PartialEq for Profile {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
            && self.avatar_url == other.avatar_url
            && self.attributes.get() == other.attributes.get()
    }
}

/// A profile to write.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ProfileInput)]
pub struct Draft {
    /// The member's name: 1 to 64 characters of any script, without control characters and invisible characters.
    #[schema(min_length = 1, example = "Ann")]
    pub name: String,
    /// The address of its picture, which begins with `https://`.
    #[serde(default)]
    #[schema(pattern = "^https://", example = "https://img.example.com/ann.png")]
    pub avatar_url: Option<String>,
    /// Anything that an app displays, nested up to 8 levels deep. Players can't send it.
    // Without them the attributes are unchanged.
    #[serde(default)]
    #[schema(value_type = Option<Map<String, Value>>, example = json!({"country": "NZ"}))]
    pub attributes: Option<Box<RawValue>>,
}

/// The operator's rules for profiles.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// The allowed hosts of pictures.
    pub hosts: Hosts,
    /// The names that are blocked at once.
    pub blocklist: Blocklist,
}

/// The hosts of pictures: any, or a list, with `*.example.com` for all subdomains.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Hosts(Option<Arc<[String]>>);

impl FromStr for Hosts {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names: Vec<String> = text
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty())
            .map(|name| {
                let host = name.strip_prefix("*.").unwrap_or(name);
                let address = Url::parse(&format!("https://{host}/")).ok();
                let parsed = address.as_ref().and_then(Url::host_str);
                let is_sound = parsed.is_some_and(|parsed| parsed.eq_ignore_ascii_case(host));
                let lower = name.to_ascii_lowercase();
                is_sound.then_some(lower).ok_or_else(|| {
                    format!("{name:?} is not a host, such as img.example.com or *.example.com")
                })
            })
            .collect::<Result<_, _>>()?;
        Ok(Self((!names.is_empty()).then(|| names.into())))
    }
}

impl Hosts {
    /// The listed hosts as sources of a content security policy; `None` if any host is allowed.
    pub fn sources(&self) -> Option<String> {
        let names = self.0.as_ref()?;
        let sources: Vec<String> = names.iter().map(|name| format!("https://{name}")).collect();
        Some(sources.join(" "))
    }

    fn allow(&self, host: &str) -> bool {
        let Some(names) = &self.0 else { return true };
        names.iter().any(|name| match name.strip_prefix('*') {
            Some(end) => host.ends_with(end) && host.len() > end.len(),
            None => host == name,
        })
    }
}

impl Rules {
    /// The profile from a draft, for a member that had these attributes.
    ///
    /// # Errors
    ///
    /// What is wrong with it, with the places.
    pub fn profile(
        &self,
        draft: &Draft,
        attributes: Option<&RawValue>,
    ) -> Result<Profile, Vec<FieldError>> {
        let mut errors = Vec::new();
        let mut refuse = |pointer: &str, detail: &dyn fmt::Display| {
            errors.push(FieldError::new(pointer, detail));
        };
        let name = Name::parse(&draft.name)
            .map_err(|error| refuse("/name", &error))
            .ok();
        let avatar_url = draft
            .avatar_url
            .as_deref()
            .map(|url| self.avatar_url(url))
            .transpose()
            .map_err(|error| refuse("/avatar_url", &error));
        let attributes = match &draft.attributes {
            Some(sent) => self::attributes(sent)
                .map_err(|error| refuse("/attributes", &error))
                .ok(),
            None => Some(attributes.map_or_else(no_attributes, ToOwned::to_owned)),
        };
        let (Some(name), Ok(avatar_url), Some(attributes)) = (name, avatar_url, attributes) else {
            return Err(errors);
        };
        let profile = Profile {
            name,
            avatar_url,
            attributes,
        };
        let bytes = json(&profile).get().len();
        if bytes > PROFILE_BYTES_MAX {
            let detail =
                format!("a profile must have at most {PROFILE_BYTES_MAX} bytes, not {bytes}");
            return Err(vec![FieldError::new("", detail)]);
        }
        Ok(profile)
    }

    /// The address of a picture, normalized as in browsers.
    fn avatar_url(&self, text: &str) -> Result<String, String> {
        if text.len() > PROFILE_BYTES_MAX {
            return Err(format!("must have at most {PROFILE_BYTES_MAX} bytes"));
        }
        let url = Url::parse(text).map_err(|error| format!("is not a URL: {error}"))?;
        if url.scheme() != "https" {
            return Err("must begin with https://".to_owned());
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("must not have a user or a password".to_owned());
        }
        if url.port().is_some() {
            return Err("must not have a port".to_owned());
        }
        let host = url.host_str().unwrap_or_default();
        if !self.hosts.allow(host) {
            return Err(format!(
                "the host {host} is not allowed here (STANDINGS_AVATAR_HOSTS)"
            ));
        }
        Ok(url.into())
    }
}

fn json(value: &impl Serialize) -> Box<RawValue> {
    to_raw_value(value).expect("invariant: a profile is JSON")
}

/// The attributes of a member that has none.
pub fn no_attributes() -> Box<RawValue> {
    json(&Map::new())
}

/// Attributes in canonical form: without whitespace, sorted by name.
fn attributes(sent: &RawValue) -> Result<Box<RawValue>, String> {
    if sent.get().len() > SPACES_FACTOR * PROFILE_BYTES_MAX {
        return Err(format!(
            "a profile must have at most {PROFILE_BYTES_MAX} bytes"
        ));
    }
    let too_deep = || format!("must be nested at most {DEPTH_MAX} deep");
    if depth(sent.get()) > DEPTH_MAX {
        return Err(too_deep());
    }
    let fields: Map<String, Value> =
        serde_json::from_str(sent.get()).map_err(|_| "must be an object".to_owned())?;
    Ok(json(&fields))
}

/// How deep a JSON text is nested.
fn depth(text: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let (mut is_text, mut is_escaped) = (false, false);
    for byte in text.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = is_text,
            b'"' => is_text = !is_text,
            b'{' | b'[' if !is_text => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' if !is_text => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

words! {
    /// The status of a name's review.
    #[derive(Hash, ToSchema)]
    pub enum ReviewStatus {
        /// Nothing yet.
        Pending = "pending",
        /// It may be shown everywhere.
        Approved = "approved",
        /// It is shown nowhere.
        Blocked = "blocked",
    }
}

/// The review of a name.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct Review {
    /// Whether the name may be shown.
    pub status: ReviewStatus,
    /// Why.
    pub reason: Option<String>,
    /// The reviewer: the name of an API key; `configuration:` and the role of a key of the configuration; `anonymous` on a
    /// service without keys; `blocklist` for the operator's list of patterns; null if nobody has reviewed it yet.
    pub by: Option<String>,
    /// When it was reviewed; if nobody has reviewed it yet, when the name was written.
    pub at: Timestamp,
}

/// A moderator's review of a name.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Verdict {
    /// The name that was judged.
    pub name: Name,
    /// The picture reviewed with it, if that matters.
    pub avatar_url: Option<String>,
    /// Whether it may be shown.
    pub status: ReviewStatus,
    /// The reason.
    pub reason: Option<String>,
}

/// What is stored about a member.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// The public profile.
    pub profile: Arc<Profile>,
    /// Who wrote the name and the picture; empty without API keys.
    pub writer: String,
    /// Their review.
    pub review: Review,
    /// When the profile last changed.
    pub updated_at: Timestamp,
    /// Hashes of the likenesses of names that moderators have blocked for this member.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocked: Vec<u64>,
}

impl Record {
    /// The record of a newly written profile. A changed name or picture must be reviewed again, unless it is blocked at
    /// once.
    #[must_use]
    pub fn written(
        profile: Profile,
        before: Option<&Self>,
        rules: &Rules,
        (writer, now): (&str, Timestamp),
    ) -> Self {
        let blocked = before
            .map(|before| before.blocked.clone())
            .unwrap_or_default();
        let same = before.filter(|before| {
            let before = &before.profile;
            before.name == profile.name && before.avatar_url == profile.avatar_url
        });
        if let Some(before) = same {
            let is_same = *before.profile == profile;
            return Self {
                updated_at: if is_same { before.updated_at } else { now },
                profile: profile.into(),
                ..before.clone()
            };
        }
        let by_list = rules.blocklist.matches(&profile.name);
        let (status, reason, by) = if by_list {
            let reason = "the blocklist has a pattern for this name";
            (ReviewStatus::Blocked, Some(reason), Some(BLOCKLIST))
        } else if blocked.contains(&likeness(&profile.name)) {
            let reason = "this name of the member was blocked before";
            (ReviewStatus::Blocked, Some(reason), None)
        } else {
            (ReviewStatus::Pending, None, None)
        };
        Self {
            profile: profile.into(),
            writer: writer.to_owned(),
            review: Review {
                status,
                reason: reason.map(ToOwned::to_owned),
                by: by.map(ToOwned::to_owned),
                at: now,
            },
            updated_at: now,
            blocked,
        }
    }

    /// The record after a review of the name.
    #[must_use]
    pub fn reviewed(&self, verdict: &Verdict, by: &str, now: Timestamp) -> Self {
        let own = likeness(&self.profile.name);
        let mut blocked = self.blocked.clone();
        blocked.retain(|other| *other != own);
        if verdict.status == ReviewStatus::Blocked {
            blocked.push(own);
            let surplus = blocked.len().saturating_sub(BLOCKED_MAX);
            blocked.drain(..surplus);
        }
        Self {
            review: Review {
                status: verdict.status,
                reason: verdict.reason.clone(),
                by: (verdict.status != ReviewStatus::Pending).then(|| by.to_owned()),
                at: now,
            },
            blocked,
            ..self.clone()
        }
    }

    /// Whether the name, and the picture if it was reviewed too, are still those that were reviewed.
    pub fn is_judged_by(&self, verdict: &Verdict) -> bool {
        let avatar_url = verdict.avatar_url.as_ref();
        self.profile.name == verdict.name
            && avatar_url.is_none_or(|url| self.profile.avatar_url.as_ref() == Some(url))
    }
}

/// A profile that a board shows.
#[derive(Clone, Debug, Serialize)]
pub struct ShownProfile(Arc<Profile>);

impl ShownProfile {
    /// The profile of a record that a board shows.
    pub fn of(record: &Record, names: Names) -> Option<Self> {
        let is_shown = match (record.review.status, names) {
            (ReviewStatus::Approved, _) | (ReviewStatus::Pending, Names::Any) => true,
            (ReviewStatus::Pending, Names::Approved) | (ReviewStatus::Blocked, _) => false,
        };
        is_shown.then(|| Self(Arc::clone(&record.profile)))
    }

    /// The profile.
    pub fn profile(&self) -> &Profile {
        &self.0
    }
}

/// Parses a response.
impl<'de> Deserialize<'de> for ShownProfile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Where serde buffers part of a response, raw values aren't available.
        let value = Value::deserialize(deserializer)?;
        let profile = serde_json::from_value(value).map_err(D::Error::custom)?;
        Ok(Self(Arc::new(profile)))
    }
}

fn likeness(name: &Name) -> u64 {
    let likeness = name.likeness();
    // A name without letters only resembles itself.
    let text = if likeness.is_empty() {
        name.as_str()
    } else {
        &likeness
    };
    xxh3_64(text.as_bytes())
}

/// Profiles by member, for members that have one; `None` if they were not requested.
#[derive(Clone, Debug, Default)]
pub struct Profiles(pub Option<Arc<HashMap<Arc<str>, Arc<Record>>>>);

impl Profiles {
    /// The profile of this member.
    pub fn of(&self, member: &str) -> Option<&Arc<Record>> {
        self.0.as_ref()?.get(member)
    }
}
