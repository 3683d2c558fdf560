//! A client of WebDriver (<https://www.w3.org/TR/webdriver2/>), with those of its commands that the tests need.

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::harness::client::install_tls_provider;

/// How elements are found.
#[derive(Clone, Copy)]
pub enum By {
    Css,
    XPath,
}

/// An element of a page, by the name that the driver has given it.
pub struct Element(String);

/// The tab of a browser that a driver has started.
pub struct Session {
    http: reqwest::Client,
    /// The address of all its commands.
    address: String,
}

/// Sends a command, and returns its value or its error.
async fn send(request: RequestBuilder) -> Result<Value, String> {
    let response = request.send().await.map_err(|error| error.to_string())?;
    let is_done = response.status().is_success();
    let body: Result<Value, _> = response.json().await;
    let value = body.map_err(|error| error.to_string())?["value"].take();
    if is_done {
        Ok(value)
    } else {
        Err(value.to_string())
    }
}

impl Session {
    /// Whether a driver at this address takes sessions.
    pub async fn is_ready(driver: &str) -> bool {
        install_tls_provider();
        let status = reqwest::Client::new().get(format!("{driver}/status"));
        send(status)
            .await
            .is_ok_and(|status| status["ready"] == true)
    }

    /// Has a driver start a browser with these capabilities.
    pub async fn start(driver: &str, capabilities: Value) -> Self {
        install_tls_provider();
        let http = reqwest::Client::new();
        let wanted = json!({"capabilities": {"alwaysMatch": capabilities}});
        let started = http.post(format!("{driver}/session")).json(&wanted);
        let started = send(started).await.unwrap();
        let id = started["sessionId"].as_str().unwrap();
        Self {
            http,
            address: format!("{driver}/session/{id}"),
        }
    }

    async fn try_call(&self, method: Method, command: &str, body: Value) -> Result<Value, String> {
        let request = self
            .http
            .request(method, format!("{}/{command}", self.address));
        send(request.json(&body)).await
    }

    /// Sends a command that has to work, and returns its value.
    async fn call(&self, command: &str, body: Value) -> Value {
        let called = self.try_call(Method::POST, command, body).await;
        called.unwrap_or_else(|error| panic!("{command}: {error}"))
    }

    /// Closes the browser.
    pub async fn quit(self) {
        send(self.http.delete(&self.address)).await.unwrap();
    }

    /// Opens a page, and waits until it is loaded.
    pub async fn open(&self, address: &str) {
        self.call("url", json!({"url": address})).await;
    }

    /// Runs a script in the page, and returns what it returns, or what the promise that it returns comes to.
    pub async fn run(&self, script: &str) -> Value {
        let body = json!({"script": script, "args": []});
        self.call("execute/sync", body).await
    }

    /// Sends a command of the DevTools protocol, and returns its result.
    pub async fn order(&self, command: &str, parameters: Value) -> Value {
        let body = json!({"cmd": command, "params": parameters});
        self.call("goog/cdp/execute", body).await
    }

    /// The first element that is found like this.
    pub async fn try_find(&self, by: By, what: &str) -> Result<Element, String> {
        let using = match by {
            By::Css => "css selector",
            By::XPath => "xpath",
        };
        let body = json!({"using": using, "value": what});
        let found = self.try_call(Method::POST, "element", body).await?;
        // The key is a constant of the standard, which says of an object that it is an element.
        let names = found.as_object().and_then(|found| found.values().next());
        Ok(Element(names.unwrap().as_str().unwrap().to_owned()))
    }

    /// The first element that is found like this; there has to be one.
    pub async fn find(&self, by: By, what: &str) -> Element {
        let found = self.try_find(by, what).await;
        found.unwrap_or_else(|error| panic!("{what}: {error}"))
    }

    /// What the page shows; an error while the browser goes to another page.
    pub async fn try_text(&self) -> Result<String, String> {
        let Element(body) = self.try_find(By::Css, "body").await?;
        let text = format!("{}/element/{body}/text", self.address);
        let text = send(self.http.get(text)).await?;
        Ok(text.as_str().unwrap().to_owned())
    }

    /// Types into a field.
    pub async fn fill_in(&self, Element(field): &Element, text: &str) {
        let command = format!("element/{field}/value");
        self.call(&command, json!({"text": text})).await;
    }

    /// Clicks on an element.
    pub async fn click(&self, Element(element): &Element) {
        let command = format!("element/{element}/click");
        self.call(&command, json!({})).await;
    }

    /// Presses and releases keys, one after the other, wherever the page is.
    pub async fn type_keys(&self, keys: &str) {
        let press =
            |key: char| ["keyDown", "keyUp"].map(|kind| json!({"type": kind, "value": key}));
        let presses: Vec<Value> = keys.chars().flat_map(press).collect();
        let keyboard = json!({"type": "key", "id": "keyboard", "actions": presses});
        self.call("actions", json!({"actions": [keyboard]})).await;
    }

    /// Goes into the first frame of the page.
    pub async fn enter_frame(&self) {
        self.call("frame", json!({"id": 0})).await;
    }

    /// Goes back to the page itself.
    pub async fn leave_frames(&self) {
        self.call("frame", json!({"id": null})).await;
    }

    /// The cookies that the page has.
    pub async fn cookies(&self) -> Vec<Value> {
        let cookies = send(self.http.get(format!("{}/cookie", self.address)));
        cookies.await.unwrap().as_array().unwrap().clone()
    }

    /// What the browser has logged since it was asked last: the level of each line, and its text.
    pub async fn log(&self) -> Vec<(String, String)> {
        let lines = self.call("se/log", json!({"type": "browser"})).await;
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let line = |line: &Value| (text(&line["level"]), text(&line["message"]));
        lines.as_array().unwrap().iter().map(line).collect()
    }
}
