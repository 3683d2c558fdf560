//! Players: their tokens, and the events that they may send.
//!
//! A token is a JWT (RFC 7519) signed by the operator's backend. Its algorithm follows from the key, never from the token.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jsonwebtoken::crypto::{CryptoProvider, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, JwkSet, PublicKeyUse};
use jsonwebtoken::signature::{Error as SignatureError, Verifier};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use ring::{hmac, signature};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::domain::access::{Boards, Scope, Scopes};
use crate::domain::board::FieldError;
use crate::domain::event::{KEY_OF_PLAYERS, Origin};
use crate::domain::ids::{EventId, Label, MemberId};
use crate::domain::quota::Network;
use crate::domain::time::Timestamp;
use crate::events::work::IncomingEvent;
use crate::http::problem::{FORBIDDEN, Problem, UNAUTHENTICATED};

/// The maximum length of a token, in bytes.
const TOKEN_BYTES_MAX: usize = 8 << 10;
/// The maximum lifetime of a token, in seconds.
const LIFE_S_MAX: i64 = 24 * 3_600;
/// How far signers' clocks may be ahead, in seconds.
const AHEAD_S_MAX: i64 = 60;
/// The scopes that a token can have.
pub const TOKEN_SCOPES: [&str; 3] = ["read", "play", "vote"];
/// The minimum length of a secret, in bytes (RFC 7518, 3.2).
const SECRET_BYTES_MIN: usize = 32;

/// The keys that sign players' tokens.
#[derive(Clone, Default)]
pub struct PlayerKeys(Arc<KeysByKid>);

#[derive(Default)]
struct KeysByKid {
    /// By `kid`; `None` is for tokens without one.
    keys: HashMap<Option<String>, PlayerKey>,
    audience: String,
}

/// A key and its only algorithm.
struct PlayerKey {
    algorithm: Algorithm,
    key: DecodingKey,
}

impl fmt::Debug for PlayerKeys {
    /// Keys are never written anywhere.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PlayerKeys({})", self.0.keys.len())
    }
}

/// A player, as its token describes it.
#[derive(Clone, Debug)]
pub struct Player {
    sub: MemberId,
    /// Whether it may send its own events.
    plays: bool,
    /// Whether it may send events for other members, as their voter.
    votes: bool,
}

/// What a token allows.
#[derive(Debug)]
pub(crate) struct PlayerToken {
    pub(crate) player: Player,
    pub(crate) scopes: Scopes,
    pub(crate) boards: Boards,
    pub(crate) expires_at: Timestamp,
}

impl PlayerKeys {
    /// Reads the keys of a set (RFC 7517), and a single one without `kid`: a secret, or one key of such a set.
    pub fn read(set: Option<&str>, single: Option<&str>, audience: &str) -> Result<Self, String> {
        // An earlier call may have set it.
        let _ = PROVIDER.install_default();
        let mut keys = HashMap::new();
        if let Some(set) = set {
            let set: JwkSet = serde_json::from_str(set)
                .map_err(|error| format!("it is not a set of keys (RFC 7517): {error}"))?;
            for jwk in &set.keys {
                let kid = jwk.common.key_id.clone();
                let name = kid.clone().unwrap_or_default();
                let key =
                    PlayerKey::of(jwk).map_err(|error| format!("the key {name:?} {error}"))?;
                if keys.insert(kid, key).is_some() {
                    return Err(format!(
                        "two keys have the `kid` {name:?}; each needs its own"
                    ));
                }
            }
            if keys.is_empty() {
                return Err("it has no keys".to_owned());
            }
        }
        if let Some(single) = single {
            let key =
                PlayerKey::single(single).map_err(|error| format!("the single key {error}"))?;
            if keys.insert(None, key).is_some() {
                return Err("two keys have no `kid`; only one may lack it".to_owned());
            }
        }
        let audience = audience.to_owned();
        Ok(Self(Arc::new(KeysByKid { keys, audience })))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.keys.is_empty()
    }

    /// A token with these claims and `aud`, signed with the single key, or else with the HS256 key whose `kid` comes first. `None`
    /// if no key is for HS256: a public key can't sign.
    pub fn sign(&self, mut claims: Value) -> Option<String> {
        let mut keys: Vec<_> = self.0.keys.iter().collect();
        keys.retain(|(_, key)| key.algorithm == Algorithm::HS256);
        keys.sort_by_key(|(kid, _)| *kid);
        let (kid, key) = keys.first()?;
        let mut header = json!({"alg": "HS256", "typ": "JWT"});
        if let Some(kid) = kid {
            header["kid"] = json!(kid);
        }
        claims["aud"] = json!(self.0.audience);
        let parts = [header, claims].map(|part| BASE64_URL_SAFE_NO_PAD.encode(part.to_string()));
        let said = parts.join(".");
        let secret = hmac::Key::new(hmac::HMAC_SHA256, key.key.try_get_as_bytes().ok()?);
        let signature = BASE64_URL_SAFE_NO_PAD.encode(hmac::sign(&secret, said.as_bytes()));
        Some(format!("{said}.{signature}"))
    }

    /// What a token allows, if it is a valid player's token.
    pub(crate) fn verify(&self, token: &str, now: Timestamp) -> Result<PlayerToken, Problem> {
        let verified = self.claims(token).and_then(|claims| {
            let claims = Claims(claims);
            claims.read(&self.0.audience, now.ms().div_euclid(1_000))
        });
        verified.map_err(|fault| Problem::new(UNAUTHENTICATED, format!("the token {fault}")))
    }

    /// The claims of a token with a valid signature.
    fn claims(&self, token: &str) -> Result<Map<String, Value>, String> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(format!("has more than {TOKEN_BYTES_MAX} bytes"));
        }
        let header = decode_header(token)
            .map_err(|_| "is not a JWT signed with `alg` HS256, EdDSA or ES256".to_owned())?;
        if header.crit.is_some() {
            return Err("has a `crit` header, which is not supported".to_owned());
        }
        let key = self
            .0
            .keys
            .get(&header.kid)
            .ok_or_else(|| match &header.kid {
                Some(kid) => format!("has the `kid` {kid:?}, which no configured key has"),
                None => "has no `kid`, but every configured key has one".to_owned(),
            })?;
        let mut validation = Validation::new(key.algorithm);
        // Checked below, by the clock of the service.
        validation.required_spec_claims.clear();
        validation.validate_exp = false;
        validation.validate_aud = false;
        let decoded = decode(token, &key.key, &validation);
        decoded.map(|decoded| decoded.claims).map_err(|error| {
            let fault = match error.kind() {
                ErrorKind::InvalidAlgorithm => "has a different `alg` from its key",
                ErrorKind::InvalidSignature => {
                    "has an invalid signature: it was signed with another key, or changed"
                }
                _ => "can't be read",
            };
            fault.to_owned()
        })
    }
}

impl PlayerKey {
    fn of(jwk: &Jwk) -> Result<Self, String> {
        let algorithm = match &jwk.algorithm {
            AlgorithmParameters::OctetKey(_) => Algorithm::HS256,
            AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P256 => {
                Algorithm::ES256
            }
            AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => {
                Algorithm::EdDSA
            }
            _ => return Err("is not a key for HS256, EdDSA (Ed25519) or ES256 (P-256)".to_owned()),
        };
        let named = jwk.common.key_algorithm.map(|named| named.to_string());
        if named.is_some_and(|named| named != format!("{algorithm:?}")) {
            return Err(format!(
                "must have the `alg` {algorithm:?}, which follows from its type"
            ));
        }
        if jwk.common.public_key_use == Some(PublicKeyUse::Encryption) {
            return Err("has the `use` `enc`; a key for signatures is needed".to_owned());
        }
        let key = DecodingKey::from_jwk(jwk).map_err(|error| error.to_string())?;
        let length = key.try_get_as_bytes().map_or(0, <[u8]>::len);
        let is_sound = match algorithm {
            Algorithm::HS256 => length >= SECRET_BYTES_MIN,
            Algorithm::ES256 => length == 65,
            _ => length == 32,
        };
        let sound = is_sound.then_some(Self { algorithm, key });
        sound.ok_or_else(|| {
            format!("has a wrong length; a secret needs at least {SECRET_BYTES_MIN} bytes")
        })
    }

    /// A secret as text, or a JWK.
    fn single(text: &str) -> Result<Self, String> {
        if text.starts_with('{') {
            let jwk: Jwk = serde_json::from_str(text).map_err(|error| {
                // The error may contain parts of the text.
                format!("is not a JWK (RFC 7517): see its line {}", error.line())
            })?;
            return Self::of(&jwk);
        }
        if text.len() < SECRET_BYTES_MIN {
            return Err(format!("has fewer than {SECRET_BYTES_MIN} bytes"));
        }
        Ok(Self {
            algorithm: Algorithm::HS256,
            key: DecodingKey::from_secret(text.as_bytes()),
        })
    }
}

/// The claims of a token. Errors name the claim.
struct Claims(Map<String, Value>);

impl Claims {
    fn read(&self, audience: &str, now_s: i64) -> Result<PlayerToken, String> {
        let aud = self.claim("aud")?;
        let is_among = |all: &Vec<Value>| all.iter().any(|one| one == audience);
        if aud != audience && !aud.as_array().is_some_and(is_among) {
            return Err(format!(
                "has the wrong audience: its `aud` must be or contain {audience:?}"
            ));
        }
        let (iat, exp) = (self.seconds("iat")?, self.seconds("exp")?);
        if iat > now_s + AHEAD_S_MAX {
            return Err("has an `iat` in the future; check the signer's clock".to_owned());
        }
        if exp <= now_s {
            let expired =
                Timestamp::from_ms_clamped(exp.saturating_mul(1_000)).to_rfc3339_seconds();
            return Err(format!("expired at {expired}; send a new one"));
        }
        if exp.saturating_sub(iat) > LIFE_S_MAX {
            return Err(
                "is valid for too long: `exp` may be at most 24 hours after `iat`".to_owned(),
            );
        }
        if self.0.contains_key("nbf") && self.seconds("nbf")? > now_s + AHEAD_S_MAX {
            return Err("is not valid yet: its `nbf` is in the future".to_owned());
        }
        let sub = self.claim("sub")?.as_str().unwrap_or_default();
        let sub = MemberId::parse(sub)
            .map_err(|error| format!("has a `sub` that is not a member id: {error}"))?;
        let boards = Boards::parse(&self.texts("boards")?)
            .map_err(|error| format!("has wrong `boards`: {error}"))?;
        let scopes = self.texts("scopes")?;
        if scopes.is_empty()
            || !scopes
                .iter()
                .all(|scope| TOKEN_SCOPES.contains(&scope.as_str()))
        {
            return Err(
                "has wrong `scopes`: they must be some of `read`, `play` and `vote`".to_owned(),
            );
        }
        let has = |name: &str| scopes.iter().any(|scope| scope == name);
        let player = Player {
            sub,
            plays: has("play"),
            votes: has("vote"),
        };
        Ok(PlayerToken {
            player,
            scopes: has("read").then_some(Scope::Read).into_iter().collect(),
            boards,
            expires_at: Timestamp::from_ms_clamped(exp.saturating_mul(1_000)),
        })
    }

    fn claim(&self, name: &str) -> Result<&Value, String> {
        self.0.get(name).ok_or_else(|| format!("has no `{name}`"))
    }

    /// A time, in whole seconds since the epoch.
    fn seconds(&self, name: &str) -> Result<i64, String> {
        let time = self.claim(name)?;
        let whole = time.as_i64().filter(|seconds| *seconds >= 0);
        whole.ok_or_else(|| {
            format!("has a wrong `{name}`: it must be a time in whole seconds since 1970")
        })
    }

    fn texts(&self, name: &str) -> Result<Vec<String>, String> {
        let texts = Vec::deserialize(self.claim(name)?);
        texts.map_err(|_| format!("has wrong `{name}`: they must be a list of strings"))
    }
}

impl Player {
    /// A player that only reads.
    pub(crate) fn reading(sub: MemberId) -> Self {
        Self {
            sub,
            plays: false,
            votes: false,
        }
    }

    pub(crate) fn sub(&self) -> &MemberId {
        &self.sub
    }

    /// The scopes of its token, which has `read` or not.
    pub(crate) fn scopes(&self, reads: bool) -> Vec<&'static str> {
        let scopes = [(reads, "read"), (self.plays, "play"), (self.votes, "vote")];
        scopes
            .into_iter()
            .filter(|(has, _)| *has)
            .map(|(_, name)| name)
            .collect()
    }

    /// Whether it may send events at all.
    pub(crate) fn sends(&self) -> bool {
        self.plays || self.votes
    }

    /// Checks that the player may act for a member: for itself, with `play`.
    pub(crate) fn require_own(&self, member: &MemberId) -> Result<(), Problem> {
        if self.plays && self.sub == *member {
            return Ok(());
        }
        let detail = "this needs a token with the scope `play` whose `sub` is the member";
        Err(Problem::new(FORBIDDEN, detail))
    }

    /// Whether this is the name of someone else.
    pub(crate) fn is_other(&self, name: &str) -> bool {
        name != self.sub.as_str()
    }

    /// The origin that quotas count it by.
    pub(crate) fn origin(&self, ip: Option<IpAddr>) -> Origin {
        Origin {
            voter: Label::parse(self.sub.as_str()).ok(),
            channel: None,
            device: None,
            ip: ip.map(Network::from),
            key: Label::parse(KEY_OF_PLAYERS).ok(),
        }
    }

    /// An event as this player may send it, from this address.
    pub(crate) fn send(
        &self,
        event: IncomingEvent,
        ip: Option<IpAddr>,
    ) -> Result<IncomingEvent, Problem> {
        let IncomingEvent { at, origin, .. } = &event;
        let mut errors = Vec::new();
        for (pointer, is_there) in [
            ("/at", at.is_some()),
            ("/channel", origin.channel.is_some()),
            ("/device", origin.device.is_some()),
            ("/ip", origin.ip.is_some()),
        ] {
            if is_there {
                let detail = format!("Players can't set `{}`. Leave it out.", &pointer[1..]);
                errors.push(FieldError::new(pointer, detail));
            }
        }
        let voter = origin.voter.as_ref();
        if voter.is_some_and(|voter| self.is_other(voter.as_str())) {
            errors.push(FieldError::new(
                "/voter",
                "must be the `sub` of the token, or left out",
            ));
        }
        let is_own = !self.is_other(event.member.as_str());
        if event.data.is_some() && !is_own {
            errors.push(FieldError::new(
                "/data",
                "Only the member itself can set `data`. Leave it out.",
            ));
        }
        if !errors.is_empty() {
            return Err(Problem::invalid(errors));
        }
        if !(self.votes || self.plays && is_own) {
            let detail = "with the scope `play`, `member` must be the `sub` of the token; for other members the token needs the scope `vote`";
            return Err(Problem::new(FORBIDDEN, detail));
        }
        Ok(IncomingEvent {
            id: event.id.map(|id| EventId::of_player(&self.sub, &id)),
            origin: self.origin(ip),
            ..event
        })
    }
}

/// Verifies signatures with the cryptography that the service uses anyway.
static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: |_, _| Err(ErrorKind::UnsupportedAlgorithm.into()),
    verifier_factory: |algorithm, key| {
        let (algorithm, key) = (*algorithm, key.try_get_as_bytes()?.to_vec());
        Ok(Box::new(Signed { algorithm, key }))
    },
    key_utils: KeyUtils::new_unimplemented(),
};

/// Verifies what was signed with a key.
struct Signed {
    algorithm: Algorithm,
    key: Vec<u8>,
}

impl Verifier<Vec<u8>> for Signed {
    fn verify(&self, message: &[u8], signed: &Vec<u8>) -> Result<(), SignatureError> {
        let verify = |algorithm: &'static dyn signature::VerificationAlgorithm| {
            signature::UnparsedPublicKey::new(algorithm, &self.key).verify(message, signed)
        };
        let verified = match self.algorithm {
            Algorithm::HS256 => {
                let key = hmac::Key::new(hmac::HMAC_SHA256, &self.key);
                hmac::verify(&key, message, signed)
            }
            Algorithm::ES256 => verify(&signature::ECDSA_P256_SHA256_FIXED),
            Algorithm::EdDSA => verify(&signature::ED25519),
            _ => Err(ring::error::Unspecified),
        };
        verified.map_err(|_| SignatureError::new())
    }
}

impl JwtVerifier for Signed {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}
