//! A browser, as the console sees it: cookies, forms, and what is true of every page.

use std::collections::BTreeMap;

use reqwest::header::{HeaderMap, HeaderValue};
use reqwest::redirect;
use url::form_urlencoded::Serializer;

use crate::harness::Client;
use crate::harness::relative::{resolve_location, resolved};

/// A browser with one tab.
pub struct Browser {
    pub http: reqwest::Client,
    pub base: String,
    /// What it names as the host, and as the origin of the pages.
    pub host: String,
    pub origin: Option<String>,
    pub cookies: BTreeMap<String, String>,
    /// The token of the last page that had one.
    pub token: String,
}

/// What it was answered.
pub struct Page {
    pub status: u16,
    pub headers: HeaderMap,
    pub text: String,
}

impl Page {
    pub fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name).map(HeaderValue::to_str);
        value.transpose().unwrap().unwrap_or_default()
    }

    #[track_caller]
    pub fn expect(self, status: u16) -> String {
        assert_eq!(self.status, status, "{}", self.text);
        self.text
    }

    /// Where it leads.
    #[track_caller]
    pub fn leads_to(&self) -> &str {
        assert_eq!(self.status, 303, "{}", self.text);
        self.header("location")
    }
}

/// A text has all of this.
#[track_caller]
pub fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part}: {text}");
    }
}

impl Browser {
    /// One that comes by this name.
    pub fn at(client: &Client, origin: &str) -> Self {
        let http = reqwest::Client::builder().redirect(redirect::Policy::none());
        let (_, host) = origin.split_once("://").unwrap();
        Self {
            http: http.build().unwrap(),
            base: client.base.clone(),
            host: host.to_owned(),
            origin: Some(origin.to_owned()),
            cookies: BTreeMap::new(),
            token: String::new(),
        }
    }

    pub fn new(client: &Client) -> Self {
        Self::at(client, &client.base)
    }

    pub async fn signed_in(client: &Client, key: &str) -> Self {
        let mut browser = Self::new(client);
        assert_eq!(browser.sign_in(key).await.leads_to(), "/console");
        browser
    }

    pub async fn send(&mut self, request: reqwest::RequestBuilder) -> Page {
        let cookies = self
            .cookies
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect::<Vec<_>>()
            .join("; ");
        let request = request.header("host", &self.host).header("cookie", cookies);
        let response = request.send().await.unwrap();
        let (status, mut headers) = (response.status().as_u16(), response.headers().clone());
        let address = response.url().clone();
        resolve_location(&mut headers, &address);
        for cookie in headers.get_all("set-cookie") {
            let (cookie, _) = cookie.to_str().unwrap().split_once(';').unwrap();
            let (name, value) = cookie.split_once('=').unwrap();
            self.cookies.insert(name.to_owned(), value.to_owned());
        }
        let text = resolved(&response.text().await.unwrap(), &address);
        if let Some((_, rest)) = text.split_once("name=\"token\" value=\"") {
            rest.split_once('"').unwrap().0.clone_into(&mut self.token);
        }
        let page = Page {
            status,
            headers,
            text,
        };
        page.check();
        page
    }

    pub async fn get(&mut self, path: &str) -> Page {
        self.send(self.http.get(format!("{}{path}", self.base)))
            .await
    }

    /// A page that is there, which has all of this.
    pub async fn read(&mut self, path: &str, parts: &[&str]) -> String {
        let text = self.get(path).await.expect(200);
        has(&text, parts);
        text
    }

    /// Sends a form that is taken, and follows to the page with what was done.
    pub async fn carry_out(&mut self, path: &str, fields: &[(&str, &str)]) -> String {
        let done = self.submit(path, fields).await;
        self.read(done.leads_to(), &["role=\"status\""]).await
    }

    /// Sends a form that is refused with 422, and with all of this.
    pub async fn refuse(&mut self, path: &str, fields: &[(&str, &str)], parts: &[&str]) -> String {
        let text = self.submit(path, fields).await.expect(422);
        has(&text, parts);
        text
    }

    /// Sends a form without the name that has to be typed, with others, and then with the name itself.
    pub async fn confirm(&mut self, path: &str, fields: &[(&str, &str)], name: &str) -> Page {
        let shorter = &name[1..];
        for wrong in ["", shorter] {
            let fields = [fields, &[("confirm", wrong)]].concat();
            self.refuse(path, &fields, &["Confirm: type ", " here to confirm"])
                .await;
        }
        self.submit(path, &[fields, &[("confirm", name)]].concat())
            .await
    }

    /// Sends a form with the token of the last page.
    pub async fn submit(&mut self, path: &str, fields: &[(&str, &str)]) -> Page {
        let token = self.token.clone();
        let fields = [&[("token", token.as_str())], fields].concat();
        let body = Serializer::new(String::new()).extend_pairs(fields).finish();
        let mut request = self.http.post(format!("{}{path}", self.base));
        let form = "application/x-www-form-urlencoded";
        request = request.header("content-type", form).body(body);
        if let Some(origin) = &self.origin {
            request = request.header("origin", origin);
        }
        self.send(request).await
    }

    pub async fn sign_in(&mut self, key: &str) -> Page {
        self.get("/console/sign-in").await.expect(200);
        self.submit("/console/sign-in", &[("key", key)]).await
    }

    pub fn session(&self) -> &str {
        &self.cookies["standings-session"]
    }
}

impl Page {
    /// What is true of every page.
    fn check(&self) {
        assert!(self.headers.contains_key("x-request-id"));
        let policy = self.header("content-security-policy");
        for part in ["default-src 'none'", "frame-ancestors 'none'"] {
            assert!(policy.contains(part), "{policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(self.header("cache-control"), "private, no-store");
        assert_eq!(self.header("x-content-type-options"), "nosniff");
        assert_eq!(self.header("referrer-policy"), "same-origin");
        if self.status == 303 {
            return;
        }
        if self.header("content-disposition").starts_with("attachment") {
            return;
        }
        assert_eq!(self.header("content-type"), "text/html; charset=utf-8");
        let text = &self.text;
        for part in [
            "<html lang=\"en\">",
            "<title>",
            "<h1>",
            "id=\"main\"",
            "class=\"skip\"",
        ] {
            assert!(text.contains(part), "{part} is missing: {text}");
        }
        // Nothing that the policy would keep from running, and nothing that somebody has put in.
        for part in [
            "<style",
            " style=",
            "javascript:",
            " onclick=",
            "alert('x')",
        ] {
            assert!(!text.contains(part), "{part}: {text}");
        }
        let scripts = text.matches("<script").count();
        let own = ["console.js", "home.js", "live.js"].map(|name| {
            let own = format!("<script type=\"module\" src=\"/console/assets/{name}\"></script>");
            text.matches(&own).count()
        });
        assert_eq!(scripts, own.iter().sum::<usize>(), "{text}");
    }
}
