//! A client that keeps all of an answer: status, headers and JSON.

use std::net::IpAddr;
use std::sync::Once;
use std::time::{Duration, Instant};

use reqwest::header::HeaderMap;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use standings::domain::time::Timestamp;

use super::relative::{resolve_location, resolved};

/// The longest time for which a request that is refused with 503 is sent again, and the longest wait for one answer. They
/// end only what would never end: a busy machine may be slow.
const TAKEN_WITHIN: Duration = Duration::from_mins(3);
/// How long a connection may be idle: less than what the service allows, so that no request is sent while it ends one.
const IDLE: Duration = Duration::from_secs(30);
/// The pause between two tries.
const RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// Both TLS clients take the process' provider; the program's `main` sets it too.
pub fn install_tls_provider() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        rustls::crypto::ring::default_provider()
            .install_default()
            .unwrap();
    });
}

/// Speaks to one instance.
#[derive(Clone)]
pub struct Client {
    pub base: String,
    pub http: reqwest::Client,
    key: Option<String>,
    /// Whether a 503 is an answer, rather than a reason to send the request again.
    takes_503: bool,
    /// Whether its events are to be queued.
    prefers_queues: bool,
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub text: String,
    /// The body; null if it is empty or no JSON. It is without the revisions of standings, which no two runs have in common.
    pub json: Value,
    /// The first of these revisions.
    pub revision: Option<String>,
}

impl Client {
    pub fn new(base: &str) -> Self {
        install_tls_provider();
        Self {
            base: base.to_owned(),
            http: reqwest::Client::builder()
                .timeout(TAKEN_WITHIN)
                .pool_idle_timeout(IDLE)
                .build()
                .unwrap(),
            key: None,
            takes_503: false,
            prefers_queues: false,
        }
    }

    /// The same for a test that waits for a 503.
    pub fn once(&self) -> Self {
        Self {
            takes_503: true,
            ..self.clone()
        }
    }

    /// The same, whose events are queued.
    pub fn queueing(&self) -> Self {
        Self {
            prefers_queues: true,
            ..self.clone()
        }
    }

    /// The same with an API key.
    pub fn with_key(&self, key: &str) -> Self {
        Self {
            key: Some(key.to_owned()),
            ..self.clone()
        }
    }

    /// The same with connections that end with their requests.
    pub fn without_keep_alive(&self) -> Self {
        let http = reqwest::Client::builder().pool_max_idle_per_host(0);
        Self {
            http: http.build().unwrap(),
            ..self.clone()
        }
    }

    /// The same from another address of this machine.
    pub fn at(&self, address: &str) -> Self {
        let http = reqwest::Client::builder().local_address(address.parse::<IpAddr>().unwrap());
        Self {
            http: http.timeout(TAKEN_WITHIN).build().unwrap(),
            ..self.clone()
        }
    }

    pub fn builder(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let mut request = self.http.request(method, format!("{}{path}", self.base));
        if self.prefers_queues {
            request = request.header("prefer", "respond-async");
        }
        match &self.key {
            Some(key) => request.bearer_auth(key),
            None => request,
        }
    }

    pub async fn send(request: reqwest::RequestBuilder) -> Answer {
        Self::try_send(request).await.unwrap()
    }

    /// The same; the server may be killed meanwhile.
    pub async fn try_send(request: reqwest::RequestBuilder) -> reqwest::Result<Answer> {
        let response = request.send().await?;
        let (status, mut headers) = (response.status(), response.headers().clone());
        let address = response.url().clone();
        resolve_location(&mut headers, &address);
        // A stream has no end.
        let is_stream = headers
            .get("content-type")
            .is_some_and(|kind| kind == "text/event-stream");
        let text = if is_stream {
            String::new()
        } else {
            resolved(&response.text().await?, &address)
        };
        let mut json = serde_json::from_str(&text).unwrap_or(Value::Null);
        let revision = take_revisions(&mut json);
        cut_times(&mut json);
        let answer = Answer {
            status,
            headers,
            text,
            json,
            revision,
        };
        answer.check();
        Ok(answer)
    }

    /// Sends a request as clients do: again, while the answer is an honest 503, until it is taken. Whoever sends one that
    /// would count twice gets the 503.
    async fn send_until_taken(&self, request: reqwest::RequestBuilder, is_safe: bool) -> Answer {
        if !is_safe || self.takes_503 {
            return Self::send(request).await;
        }
        let begun = Instant::now();
        loop {
            let answer = Self::send(request.try_clone().unwrap()).await;
            if answer.status != StatusCode::SERVICE_UNAVAILABLE {
                return answer;
            }
            assert!(answer.headers.contains_key("retry-after"));
            assert!(
                begun.elapsed() < TAKEN_WITHIN,
                "the request is never taken: {}",
                answer.text
            );
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send_until_taken(self.builder(Method::GET, path), true)
            .await
    }

    /// The same where an answer with this entity tag is known.
    pub async fn get_unless(&self, path: &str, tag: &str) -> Answer {
        let request = self.builder(Method::GET, path).header("if-none-match", tag);
        self.send_until_taken(request, true).await
    }

    pub async fn put(&self, path: &str, body: Value) -> Answer {
        let request = self.builder(Method::PUT, path).json(&body);
        self.send_until_taken(request, true).await
    }

    pub async fn patch(&self, path: &str, body: Value) -> Answer {
        let request = self.builder(Method::PATCH, path).json(&body);
        self.send_until_taken(request, true).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Answer {
        let is_safe = is_safe_to_repeat(path, &body);
        let request = self.builder(Method::POST, path).json(&body);
        self.send_until_taken(request, is_safe).await
    }

    /// Sends events that have ids, until they are taken.
    pub async fn post_until_taken(&self, path: &str, body: &Value) -> Value {
        assert!(is_safe_to_repeat(path, body), "{body}");
        self.post(path, body.clone()).await.expect(200)
    }

    pub async fn delete(&self, path: &str) -> Answer {
        self.send_until_taken(self.builder(Method::DELETE, path), true)
            .await
    }

    /// Sends a body as it is.
    pub async fn post_text(
        &self,
        path: &str,
        content_type: &str,
        body: impl Into<reqwest::Body>,
    ) -> Answer {
        let body = body.into();
        let json = serde_json::from_slice(body.as_bytes().unwrap_or_default()).unwrap_or_default();
        let is_safe = is_safe_to_repeat(path, &json);
        let request = self
            .builder(Method::POST, path)
            .header("content-type", content_type)
            .body(body);
        self.send_until_taken(request, is_safe).await
    }

    /// Has a board that is there spread over so many shards.
    pub async fn spread(&self, board: &str, shards: u16) {
        let path = format!("/v1/boards/{board}/shards");
        let answer = self.put(&path, json!({ "count": shards })).await;
        assert!(answer.status.is_success(), "{}", answer.text);
    }

    /// Defines a board; it has to work.
    pub async fn define(&self, board: &str, definition: Value) {
        let answer = self.put(&format!("/v1/boards/{board}"), definition).await;
        assert!(answer.status.is_success(), "{}", answer.text);
    }
}

/// Takes the revisions of standings out of an answer; returns the first. (The revision of a result is a number.)
pub fn take_revisions(json: &mut Value) -> Option<String> {
    match json {
        Value::Object(fields) => {
            let is_text = fields.get("revision").is_some_and(Value::is_string);
            let own = is_text.then(|| fields.remove("revision")).flatten();
            let own = own.and_then(|own| own.as_str().map(ToOwned::to_owned));
            let others = fields.values_mut().filter_map(take_revisions);
            own.or(others.collect::<Vec<_>>().into_iter().next())
        }
        Value::Array(parts) => {
            let found: Vec<String> = parts.iter_mut().filter_map(take_revisions).collect();
            found.into_iter().next()
        }
        _ => None,
    }
}

/// Cuts times to whole milliseconds: events without `at` come in some microseconds after the time that a test has set. Whoever is
/// interested in these looks at the text.
pub fn cut_times(json: &mut Value) {
    match json {
        Value::String(text) => {
            let at = Timestamp::parse(text).ok();
            let at = at.filter(|at| !at.is_whole_ms() && at.to_string() == *text);
            if let Some(at) = at {
                *text = at.to_whole_ms().to_string();
            }
        }
        Value::Array(parts) => parts.iter_mut().for_each(cut_times),
        Value::Object(fields) => fields.values_mut().for_each(cut_times),
        _ => {}
    }
}

/// Whether a POST may be sent again: it only reads, its events have ids, or a member joins or leaves a league.
fn is_safe_to_repeat(path: &str, body: &Value) -> bool {
    let has_id = |event: &Value| event["id"].is_string();
    let is_correction = ["/retract", "/restore", "/correct"]
        .iter()
        .any(|action| path.contains(action));
    path.contains("/query")
        || path.contains("/league/")
        || is_correction
        || has_id(&body["event"])
        || match body["events"].as_array() {
            Some(events) => events.iter().all(has_id),
            None => has_id(body),
        }
}

impl Answer {
    /// What is true of every answer: errors are problems, and each has the request's id.
    fn check(&self) {
        assert!(self.headers.contains_key("x-request-id"), "no request id");
        if self.status.is_client_error() || self.status.is_server_error() {
            assert_eq!(
                self.headers["content-type"], "application/problem+json",
                "{}",
                self.text
            );
            assert_eq!(self.json["status"], self.status.as_u16(), "{}", self.text);
            assert_eq!(
                self.json["request_id"],
                self.headers["x-request-id"].to_str().unwrap()
            );
            let code = self.json["code"].as_str().unwrap();
            assert_eq!(self.json["type"], format!("/problems/{code}"));
        }
    }

    /// The answer's JSON; its status has to be this.
    #[track_caller]
    pub fn expect(self, status: u16) -> Value {
        assert_eq!(self.status.as_u16(), status, "{}", self.text);
        self.json
    }

    /// Checks that it is this problem, and returns its detail.
    #[track_caller]
    pub fn expect_problem(self, status: u16, name: &str) -> String {
        let json = self.expect(status);
        assert_eq!(json["type"], format!("/problems/{name}"), "{json}");
        json["detail"].as_str().unwrap().to_owned()
    }
}
