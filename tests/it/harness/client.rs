//! A client that keeps all of an answer: status, headers and JSON.

use std::sync::Once;
use std::time::{Duration, Instant};

use reqwest::header::HeaderMap;
use reqwest::{Method, StatusCode};
use serde_json::Value;

/// The longest time for which a request that is refused with 503 is sent again.
const TAKEN_WITHIN: Duration = Duration::from_mins(1);
/// The longest time after which something may fail.
const FAILED_WITHIN: Duration = Duration::from_secs(8);
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
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub text: String,
    /// The body; null if it is empty or no JSON.
    pub json: Value,
}

impl Client {
    pub fn new(base: &str) -> Self {
        install_tls_provider();
        Self {
            base: base.to_owned(),
            http: reqwest::Client::new(),
            key: None,
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

    pub fn builder(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.base));
        match &self.key {
            Some(key) => request.bearer_auth(key),
            None => request,
        }
    }

    pub async fn send(request: reqwest::RequestBuilder) -> Answer {
        let response = request.send().await.unwrap();
        let (status, headers) = (response.status(), response.headers().clone());
        let text = response.text().await.unwrap();
        let json = serde_json::from_str(&text).unwrap_or(Value::Null);
        let answer = Answer {
            status,
            headers,
            text,
            json,
        };
        answer.check();
        answer
    }

    pub async fn get(&self, path: &str) -> Answer {
        Self::send(self.builder(Method::GET, path)).await
    }

    pub async fn put(&self, path: &str, body: Value) -> Answer {
        Self::send(self.builder(Method::PUT, path).json(&body)).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Answer {
        Self::send(self.builder(Method::POST, path).json(&body)).await
    }

    /// Sends the same again while the answer is an honest 503, as clients do: events with ids count once. What fails says
    /// so within a bounded time.
    pub async fn post_until_taken(&self, path: &str, body: &Value) -> Value {
        let begun = Instant::now();
        loop {
            let sent = Instant::now();
            let answer = self.post(path, body.clone()).await;
            let took = sent.elapsed();
            if answer.status == StatusCode::OK {
                return answer.json;
            }
            assert!(took < FAILED_WITHIN, "a 503 took {took:?}");
            assert_eq!(answer.headers["retry-after"], "1");
            let detail = answer.expect_problem(503, "store-unavailable");
            assert!(
                begun.elapsed() < TAKEN_WITHIN,
                "the request is never taken: {detail}"
            );
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
    }

    pub async fn delete(&self, path: &str) -> Answer {
        Self::send(self.builder(Method::DELETE, path)).await
    }

    /// Sends a body as it is.
    pub async fn post_text(
        &self,
        path: &str,
        content_type: &str,
        body: impl Into<reqwest::Body>,
    ) -> Answer {
        Self::send(
            self.builder(Method::POST, path)
                .header("content-type", content_type)
                .body(body),
        )
        .await
    }

    /// Defines a board; it has to work.
    pub async fn define(&self, board: &str, definition: Value) {
        let answer = self.put(&format!("/v1/boards/{board}"), definition).await;
        assert!(answer.status.is_success(), "{}", answer.text);
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
            assert!(
                self.json["type"]
                    .as_str()
                    .unwrap()
                    .starts_with("/problems/")
            );
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
