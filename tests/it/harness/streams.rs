//! A reader of Server-Sent Events, as browsers have one.

use reqwest::{Method, RequestBuilder};
use serde_json::Value;

use super::Client;
use super::client::{cut_times, take_revisions};

/// A stream that is read.
pub struct Stream {
    response: reqwest::Response,
    /// What has come in of the next event.
    rest: Vec<u8>,
}

/// An event.
#[derive(Clone, Debug)]
pub struct Event {
    pub name: String,
    pub id: Option<String>,
    /// Its data, without revisions.
    pub data: Value,
    pub revision: Option<String>,
}

impl Stream {
    /// Begins to watch; it has to be possible.
    pub async fn open(client: &Client, path: &str) -> Self {
        Self::open_by(client.builder(Method::GET, path)).await
    }

    /// The same if it is possible now.
    pub async fn try_open(client: &Client, path: &str) -> Option<Self> {
        let response = client.builder(Method::GET, path).send().await.unwrap();
        let rest = Vec::new();
        (response.status() == 200).then_some(Self { response, rest })
    }

    /// The same for who has had a message with this id.
    pub async fn open_after(client: &Client, path: &str, id: &str) -> Self {
        let request = client.builder(Method::GET, path);
        Self::open_by(request.header("last-event-id", id)).await
    }

    pub async fn open_by(request: RequestBuilder) -> Self {
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200, "{:?}", response.text().await);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        let caching = response.headers()["cache-control"].to_str().unwrap();
        assert!(caching.ends_with("no-store"), "{caching}");
        let rest = Vec::new();
        Self { response, rest }
    }

    /// The next block of lines, whatever it is; `None` at the end of the stream.
    pub async fn block(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.rest.windows(2).position(|two| two == b"\n\n") {
                let block: Vec<u8> = self.rest.drain(..end + 2).collect();
                return Some(String::from_utf8(block).unwrap());
            }
            self.rest.extend(self.response.chunk().await.unwrap()?);
        }
    }

    /// The next event; `None` at the end of the stream.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = parse(&self.block().await?) {
                return Some(event);
            }
        }
    }

    /// The next event, which has this name.
    #[track_caller]
    pub fn expect(&mut self, name: &'static str) -> impl Future<Output = Event> {
        let caller = std::panic::Location::caller();
        async move {
            let event = self
                .next()
                .await
                .unwrap_or_else(|| panic!("{caller}: the stream ended"));
            assert_eq!(event.name, name, "{caller}: {event:?}");
            event
        }
    }

    /// The next message about the standing that is as wanted. Those before it say something else.
    pub async fn until(&mut self, is_wanted: impl Fn(&Value) -> bool) -> Event {
        loop {
            let event = self.expect("standing").await;
            if is_wanted(&event.data) {
                return event;
            }
        }
    }
}

/// An event, if the lines are one: neither a comment nor a time to wait.
fn parse(block: &str) -> Option<Event> {
    let field = |name: &str| {
        let mut lines = block.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    };
    let name = field("event")?.to_owned();
    let mut data = serde_json::from_str(field("data").unwrap()).unwrap();
    let revision = take_revisions(&mut data);
    cut_times(&mut data);
    let id = field("id").map(ToOwned::to_owned);
    Some(Event {
        name,
        id,
        data,
        revision,
    })
}

/// What a page would say: without ranks of before.
pub fn as_page(message: &Value) -> Value {
    let mut page = message.clone();
    let entries = page["entries"].as_array_mut().unwrap();
    for entry in entries {
        let before = entry.as_object_mut().unwrap().remove("previous_rank");
        assert!(before.is_some(), "{entry}");
    }
    if let Some(me) = page["me"].as_object_mut() {
        assert!(me.remove("previous_rank").is_some());
    }
    page
}

/// Who is in a message, and which rank each had before.
pub fn movement(message: &Value) -> Vec<(String, Option<u64>)> {
    let entries = message["entries"].as_array().unwrap().iter();
    entries
        .map(|entry| {
            let member = entry["member"].as_str().unwrap().to_owned();
            (member, entry["previous_rank"].as_u64())
        })
        .collect()
}
