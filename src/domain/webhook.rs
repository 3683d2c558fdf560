//! Webhooks: where messages are sent, for which boards, and the secrets that sign them (Standard Webhooks 1.0.0).

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::hmac;
use serde::{Deserialize, Deserializer, Serialize};
use url::{Host, Url};
use utoipa::ToSchema;

use super::access::{Boards, KeyName};
use super::address::is_global_unicast;
use super::board::FieldError;
use super::ids::{self, BoardId, IdError};
use super::message::{MessageId, MessageKind};
use super::texts::checked_text;
use super::time::{Span, Timestamp};

const SECRET_PREFIX: &str = "whsec_";
/// How many random bytes a secret has.
pub const SECRET_BYTES: usize = 32;
/// How long a replaced secret keeps signing.
pub const GRACE: Span = Span::hours(24);
const URL_BYTES_MAX: usize = 2_048;

checked_text! {
    /// The name of a webhook: `[A-Za-z0-9][A-Za-z0-9._-]{0,63}`, like that of a reward rule.
    WebhookName, |text| ids::plain(text, "the name of a webhook"), IdError
}

/// A secret that signs messages: `whsec_` and the Base64 of random bytes. It is stored in clear, since each message needs
/// it.
#[derive(Clone, Eq, PartialEq, Serialize)]
#[serde(transparent)]
pub struct SigningSecret(String);

/// It is never written to the log.
impl fmt::Debug for SigningSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningSecret(…)")
    }
}

impl<'de> Deserialize<'de> for SigningSecret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let secret = Self(String::deserialize(deserializer)?);
        match secret.key() {
            Some(_) => Ok(secret),
            None => Err(serde::de::Error::custom("a secret must begin with whsec_")),
        }
    }
}

impl SigningSecret {
    /// The secret with these bytes.
    pub fn of(bytes: [u8; SECRET_BYTES]) -> Self {
        Self(format!("{SECRET_PREFIX}{}", BASE64.encode(bytes)))
    }

    /// The secret in clear, which is shown only once, to the client that registers the webhook.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    fn key(&self) -> Option<hmac::Key> {
        let bytes = BASE64.decode(self.0.strip_prefix(SECRET_PREFIX)?).ok()?;
        Some(hmac::Key::new(hmac::HMAC_SHA256, &bytes))
    }

    /// The signature of a body sent as this message at this second.
    fn sign(&self, id: &MessageId, second: i64, body: &str) -> Option<String> {
        let signed = format!("{id}.{second}.{body}");
        let tag = hmac::sign(&self.key()?, signed.as_bytes());
        Some(format!("v1,{}", BASE64.encode(tag)))
    }
}

/// The events that webhooks can get.
#[derive(ToSchema)]
#[schema(as = WebhookEvent)]
pub enum WebhookEventSchema {
    /// A period is final.
    #[schema(rename = "period.final")]
    PeriodFinal,
    /// The results of final periods have changed.
    #[schema(rename = "period.revised")]
    PeriodRevised,
    /// A member was hidden. `data` has the id of the `hide`; null if it has ended meanwhile.
    #[schema(rename = "member.hidden")]
    MemberHidden,
    /// A cohort of a league is decided.
    #[schema(rename = "league.turned")]
    LeagueTurned,
    /// An event was retracted. `data` has the time `at` for which it counted.
    #[schema(rename = "event.retracted")]
    EventRetracted,
    /// A retracted event was restored. `data` has the time `at` for which it counts.
    #[schema(rename = "event.restored")]
    EventRestored,
    /// An event counts for another score. `data` has the time `at` for which it counts.
    #[schema(rename = "event.corrected")]
    EventCorrected,
    /// An event was added by an amendment. `data` has the time `at` for which it counts.
    #[schema(rename = "event.amended")]
    EventAmended,
    /// Events were revoked, or a revocation was restored. `data` has the number of the `revocation`, whether it was
    /// `restored`, and the counts of `events` and `members`.
    #[schema(rename = "events.revoked")]
    EventsRevoked,
}

/// The definition of a webhook.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = WebhookDefinition)]
pub struct Wanted {
    /// Where the service sends messages: an `https` URL of up to 2,048 bytes without user, password and fragment.
    #[schema(max_length = 2048, example = "https://app.example/standings")]
    pub url: String,
    /// The events that it gets.
    #[schema(value_type = Vec<WebhookEventSchema>, min_items = 1)]
    pub events: Vec<String>,
    /// The boards whose events it gets: patterns of their ids, where `*` stands for any characters. They must be covered by
    /// the boards of the API key that sends this.
    pub boards: Boards,
}

/// A webhook, as it is stored.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Webhook {
    /// The address that messages are sent to.
    pub url: String,
    /// The kinds of messages to send, in order.
    pub events: Vec<MessageKind>,
    /// The boards whose messages it gets.
    pub boards: Boards,
    /// Signs the messages.
    pub secret: SigningSecret,
    /// The former secret, which also signs for a while.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<PreviousSecret>,
    /// When it was created.
    pub created_at: Timestamp,
    /// The name of the stored API key that created or last changed it; `None` if that was done without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<KeyName>,
    /// Set if nothing is sent, with the time and the reason. Scripts read this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled: Option<Disabled>,
    /// How many times it was tested.
    #[serde(default)]
    pub tests: u32,
}

/// A secret that was replaced.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct PreviousSecret {
    /// The secret.
    pub secret: SigningSecret,
    /// When it stops signing.
    pub until: Timestamp,
}

/// Why nothing is sent to a webhook.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Disabled {
    /// Since when it is disabled.
    pub at: Timestamp,
    /// The reason, for people.
    pub reason: String,
}

impl Wanted {
    /// The kinds of messages, in order; or all errors.
    pub fn check(&self, allows_private: bool) -> Result<Vec<MessageKind>, Vec<FieldError>> {
        let mut errors = Vec::new();
        if let Err(detail) = check_url(&self.url, allows_private) {
            errors.push(FieldError::new("/url", detail));
        }
        let mut kinds = Vec::new();
        for (index, name) in self.events.iter().enumerate() {
            match MessageKind::named(name) {
                Some(kind) if kind != MessageKind::Test => kinds.push(kind),
                _ => {
                    let known = MessageKind::OF_EVENTS.map(MessageKind::name).join(", ");
                    let detail = format!("must be one of {known}");
                    errors.push(FieldError::new(format!("/events/{index}"), detail));
                }
            }
        }
        kinds.sort_unstable();
        kinds.dedup();
        if self.events.is_empty() {
            errors.push(FieldError::new("/events", "must have at least one event"));
        }
        if errors.is_empty() {
            Ok(kinds)
        } else {
            Err(errors)
        }
    }
}

/// Checks the address of a receiver. A host name is resolved and its addresses are checked on each try.
pub fn check_url(text: &str, allows_private: bool) -> Result<Url, String> {
    if text.len() > URL_BYTES_MAX {
        return Err(format!("must have at most {URL_BYTES_MAX} bytes"));
    }
    let url = Url::parse(text).map_err(|error| format!("is not a URL: {error}"))?;
    let is_plain = url.scheme() == "http" && allows_private;
    if url.scheme() != "https" && !is_plain {
        return Err("must begin with https://".to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("must not have a user or a password: check the signature instead".to_owned());
    }
    if url.fragment().is_some() {
        return Err("must not have a fragment (#…)".to_owned());
    }
    let address = match url.host() {
        Some(Host::Ipv4(address)) => Some(address.into()),
        Some(Host::Ipv6(address)) => Some(address.into()),
        _ => None,
    };
    if !allows_private && address.is_some_and(|address| !is_global_unicast(address)) {
        return Err("must be a public address, not one of a private or special network".to_owned());
    }
    Ok(url)
}

impl Webhook {
    /// Whether it gets messages of this kind of this board.
    pub fn wants(&self, kind: MessageKind, board: &BoardId) -> bool {
        self.disabled.is_none() && self.events.contains(&kind) && self.boards.has(board)
    }

    /// The header `webhook-signature` of a body sent at this second: one signature per valid secret.
    pub fn signatures(&self, id: &MessageId, second: i64, body: &str) -> String {
        let previous = self
            .previous
            .iter()
            .filter(|previous| second * 1_000 < previous.until.ms());
        [&self.secret]
            .into_iter()
            .chain(previous.map(|previous| &previous.secret))
            .filter_map(|secret| secret.sign(id, second, body))
            .collect::<Vec<_>>()
            .join(" ")
    }
}

#[cfg(test)]
mod tests {
    use standardwebhooks::Webhook as Receiver;

    use super::*;

    fn webhook() -> Webhook {
        Webhook {
            url: "https://app.example/hooks".to_owned(),
            events: vec![MessageKind::PeriodFinal],
            boards: Boards::parse(&["vote-*".to_owned()]).unwrap(),
            secret: SigningSecret::of([7; SECRET_BYTES]),
            previous: None,
            created_at: Timestamp::from_ms_clamped(0),
            key: None,
            disabled: None,
            tests: 0,
        }
    }

    #[test]
    fn signatures_are_those_of_the_standard() {
        // The example of the specification.
        let secret: SigningSecret =
            serde_json::from_str("\"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\"").unwrap();
        let id = MessageId::named("msg_p5jXN8AQM9LWM0D4loKWxJek");
        let signature = secret.sign(&id, 1_614_265_330, r#"{"test": 2432232314}"#);
        let expected = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        assert_eq!(signature.unwrap(), expected);
        assert_eq!(format!("{secret:?}"), "SigningSecret(…)");
        assert!(serde_json::from_str::<SigningSecret>("\"whsec_?\"").is_err());
        assert!(serde_json::from_str::<SigningSecret>("\"st_00\"").is_err());
    }

    #[test]
    fn an_independent_receiver_accepts_the_signature_of_each_valid_secret() {
        let now = std::time::SystemTime::now();
        let second = now.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
        let second = i64::try_from(second).unwrap();
        let (id, body) = (MessageId::named("msg_1"), r#"{"type":"period.final"}"#);
        let old = webhook();
        let mut renewed = Webhook {
            secret: SigningSecret::of([8; SECRET_BYTES]),
            previous: Some(PreviousSecret {
                secret: old.secret.clone(),
                until: Timestamp::from_ms_clamped(second * 1_000 + 1),
            }),
            ..webhook()
        };
        let verifies = |sender: &Webhook, by: &SigningSecret, body: &str| {
            let mut headers = axum::http::HeaderMap::new();
            let signatures = sender.signatures(&id, second, r#"{"type":"period.final"}"#);
            headers.insert("webhook-id", id.as_str().parse().unwrap());
            headers.insert("webhook-timestamp", second.to_string().parse().unwrap());
            headers.insert("webhook-signature", signatures.parse().unwrap());
            let receiver = Receiver::new(by.reveal()).unwrap();
            receiver.verify(body.as_bytes(), &headers).is_ok()
        };
        assert!(verifies(&old, &old.secret, body));
        assert!(!verifies(&old, &old.secret, r#"{"type":"period.finaL"}"#));
        assert!(!verifies(&old, &renewed.secret, body));
        for secret in [&old.secret, &renewed.secret] {
            assert!(verifies(&renewed, secret, body));
        }
        let until = Timestamp::from_ms_clamped(second * 1_000);
        renewed.previous.as_mut().unwrap().until = until;
        assert!(!verifies(&renewed, &old.secret, body));
        assert!(verifies(&renewed, &renewed.secret, body));
    }

    #[test]
    fn messages_go_only_to_https_and_public_addresses() {
        for url in [
            "https://app.example/hooks?x=1",
            "https://app.example:8443",
            "https://1.1.1.1/",
            "https://[2606:4700:4700::1111]/",
        ] {
            assert!(check_url(url, false).is_ok(), "{url}");
        }
        let long = format!("https://app.example/{}", "x".repeat(2_048));
        for url in [
            "",
            "app.example",
            "ftp://app.example",
            "https://ann:secret@app.example/",
            "https://app.example/#x",
            &long,
        ] {
            assert!(check_url(url, true).is_err(), "{url}");
        }
        for url in [
            "http://app.example/hooks",
            "https://127.0.0.1/",
            "https://0x7f.1/",
            "https://2130706433/",
            "https://0/",
            "https://[::1]/",
            "https://[::ffff:10.0.0.1]/",
            "https://169.254.169.254/latest/meta-data",
        ] {
            assert!(check_url(url, false).is_err(), "{url}");
            assert!(check_url(url, true).is_ok(), "{url}");
        }
    }

    #[test]
    fn a_webhook_gets_only_the_messages_it_chose() {
        let wanted: Wanted = serde_json::from_str(
            r#"{"url": "https://app.example", "events": ["member.hidden", "period.final", "period.final"],
                "boards": ["vote-*"]}"#,
        )
        .unwrap();
        let kinds = [MessageKind::PeriodFinal, MessageKind::MemberHidden];
        assert_eq!(wanted.check(false).unwrap(), kinds);
        let wrong = Wanted {
            url: "http://app.example".to_owned(),
            events: vec!["period.final".to_owned(), "webhook.test".to_owned()],
            ..wanted.clone()
        };
        let errors = wrong.check(false).unwrap_err();
        let pointers: Vec<_> = errors.iter().map(|error| error.pointer.as_str()).collect();
        assert_eq!(pointers, ["/url", "/events/1"]);
        let none = Wanted {
            events: Vec::new(),
            ..wanted
        };
        assert_eq!(none.check(false).unwrap_err()[0].pointer, "/events");
        let mut webhook = webhook();
        let board = |id| BoardId::parse(id).unwrap();
        assert!(webhook.wants(MessageKind::PeriodFinal, &board("vote-eu")));
        assert!(!webhook.wants(MessageKind::PeriodFinal, &board("run")));
        assert!(!webhook.wants(MessageKind::MemberHidden, &board("vote-eu")));
        webhook.disabled = Some(Disabled {
            at: webhook.created_at,
            reason: "410".to_owned(),
        });
        assert!(!webhook.wants(MessageKind::PeriodFinal, &board("vote-eu")));
    }
}
