//! The origins that browsers may call from.

use std::str::FromStr;
use std::time::Duration;

use axum::http::{HeaderName, HeaderValue, Method, header};
use thiserror::Error;
use tower_http::cors::{AllowOrigin, CorsLayer};
use url::Url;

use super::{freshness, observe, ratelimit};

/// How long a browser may keep the answer to a preflight. None keeps it for longer than two hours.
const PREFLIGHT_TIME_MAX: Duration = Duration::from_hours(2);

/// The origins of apps whose pages are in the app. (On other systems these frameworks have an origin of `http` or `https`.)
const OF_APPS: [&str; 2] = ["capacitor://localhost", "tauri://localhost"];
/// The origin of pages without one: files, and frames with `sandbox`, which any page can make.
pub const NULL: &str = "null";

/// Origins, separated by commas; or `*` for all. API keys are in a header that pages set themselves, and never in what a
/// browser sends by itself (cookies): so a page of another origin can only do what it has a key for. The pages of the
/// console, which use a cookie, are open to no other origin.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum CorsOrigins {
    /// Only the service's own.
    #[default]
    None,
    Listed(Vec<HeaderValue>),
    All,
}

/// Why a text is not an origin.
#[derive(Debug, Error, PartialEq)]
pub enum OriginError {
    /// It is malformed.
    #[error("{0:?} is not an origin, such as https://app.example or http://localhost:3000")]
    Form(String),
    /// Browsers send it in another form, so the two would never be equal.
    #[error("{given:?} must be written as browsers send it: {sent}")]
    Spelling {
        given: String,
        /// As sent by browsers.
        sent: String,
    },
    /// `*` is listed with others.
    #[error("* allows all origins, so it can't be combined with others")]
    AllAndMore,
}

impl FromStr for CorsOrigins {
    type Err = OriginError;

    fn from_str(text: &str) -> Result<Self, OriginError> {
        let origins: Vec<&str> = text.split(',').map(str::trim).collect();
        match origins.as_slice() {
            [""] => Ok(Self::None),
            ["*"] => Ok(Self::All),
            origins if origins.contains(&"*") => Err(OriginError::AllAndMore),
            origins => {
                let origins = origins.iter().map(|text| origin(text));
                Ok(Self::Listed(origins.collect::<Result<_, _>>()?))
            }
        }
    }
}

fn origin(text: &str) -> Result<HeaderValue, OriginError> {
    let form = || OriginError::Form(text.to_owned());
    if OF_APPS.contains(&text) || text == NULL {
        return HeaderValue::try_from(text).map_err(|_| form());
    }
    let url = Url::parse(text).map_err(|_| form())?;
    let is_web = matches!(url.scheme(), "http" | "https");
    let is_bare = url.username().is_empty()
        && url.password().is_none()
        && url.path() == "/"
        && url.query().is_none()
        && url.fragment().is_none();
    if !is_web || !is_bare || text.contains('*') {
        return Err(form());
    }
    let sent = url.origin().ascii_serialization();
    if sent != text {
        let given = text.to_owned();
        return Err(OriginError::Spelling { given, sent });
    }
    HeaderValue::try_from(sent).map_err(|_| form())
}

impl CorsOrigins {
    /// Whether pages without an origin of their own may call.
    pub fn lists_null(&self) -> bool {
        self.lists(&HeaderValue::from_static(NULL))
    }

    /// Whether this origin is listed. `*` lists none.
    pub(crate) fn lists(&self, origin: &HeaderValue) -> bool {
        matches!(self, Self::Listed(origins) if origins.contains(origin))
    }

    /// The layer that lets browsers call from them; `None` if there are none.
    pub(crate) fn layer(&self) -> Option<CorsLayer> {
        let origins = match self {
            Self::None => return None,
            Self::Listed(origins) => AllowOrigin::list(origins.iter().cloned()),
            Self::All => AllowOrigin::any(),
        };
        let layer = CorsLayer::new()
            .allow_origin(origins)
            .allow_methods([
                Method::GET,
                Method::POST,
                Method::PUT,
                Method::PATCH,
                Method::DELETE,
            ])
            .allow_headers([
                header::AUTHORIZATION,
                header::CACHE_CONTROL,
                header::CONTENT_TYPE,
                header::IF_MATCH,
                header::IF_NONE_MATCH,
                HeaderName::from_static("idempotency-key"),
                HeaderName::from_static("last-event-id"),
                HeaderName::from_static("prefer"),
                observe::REQUEST_ID,
            ])
            .max_age(PREFLIGHT_TIME_MAX)
            .expose_headers([
                header::ETAG,
                header::LINK,
                header::RETRY_AFTER,
                HeaderName::from_static("preference-applied"),
                freshness::MAX_STALENESS_MS,
                ratelimit::RATE_LIMIT,
                ratelimit::RATE_LIMIT_POLICY,
                observe::REQUEST_ID,
            ]);
        Some(layer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_what_browsers_send() {
        let listed = |origins: &[&str]| {
            let origins = origins.iter().map(|text| text.parse().unwrap());
            Ok(CorsOrigins::Listed(origins.collect()))
        };
        let read = |text: &str| text.parse::<CorsOrigins>();
        assert_eq!(read(" "), Ok(CorsOrigins::None));
        assert_eq!(read(" * "), Ok(CorsOrigins::All));
        for origin in [
            "https://a.example",
            "http://localhost:3000",
            "http://127.0.0.1:8080",
            "http://[::1]:8080",
            "https://xn--bcher-kva.example",
            "capacitor://localhost",
            "tauri://localhost",
            "null",
        ] {
            assert_eq!(read(origin), listed(&[origin]));
        }
        let both = ["https://a.example", "http://b.example:81"];
        assert_eq!(
            read("https://a.example, http://b.example:81"),
            listed(&both)
        );
        for wrong in [
            "not a url",
            "a.example",
            "capacitor://localhost/",
            "tauri://a.example",
            "ftp://a.example",
            "file:///",
            "https://",
            "https://*.example",
            "https://u@a.example",
            "https://a.example/path",
            "https://a.example?q",
            "https://a.example,",
            "https://a.example:70000",
        ] {
            assert!(matches!(read(wrong), Err(OriginError::Form(_))), "{wrong}");
        }
        for (given, sent) in [
            ("https://a.example/", "https://a.example"),
            ("HTTPS://A.example", "https://a.example"),
            ("https://a.example:443", "https://a.example"),
            ("http://a.example:80", "http://a.example"),
            ("https://bücher.example", "https://xn--bcher-kva.example"),
        ] {
            let error = OriginError::Spelling {
                given: given.to_owned(),
                sent: sent.to_owned(),
            };
            assert_eq!(read(given), Err(error));
        }
        assert_eq!(read("https://a.example,*"), Err(OriginError::AllAndMore));
    }
}
