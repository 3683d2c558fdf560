//! Chromium, driven by WebDriver.

use std::net::TcpListener;
use std::process::Command;

use serde_json::{Value, json};
use thirtyfour::prelude::*;
use thirtyfour::{BrowserLogEntry, LoggingPrefsLogLevel};

use crate::harness::repository;
use crate::kit::process::{Process, eventually};

/// Chromium draws to no screen, asks nobody else for anything, and runs as root too.
const ARGUMENTS: [&str; 8] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
];
/// The height of the window.
const HEIGHT: u32 = 900;

/// A browser with one tab. It ends with this value.
pub struct Chromium {
    pub driver: WebDriver,
    _process: Process,
}

/// A program that `tools/browser` has found.
fn program(variable: &str, name: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| name.to_owned())
}

impl Chromium {
    pub async fn start() -> Self {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let mut command = Command::new(program("CHROMEDRIVER", "chromedriver"));
        command.arg(format!("--port={port}")).arg("--log-level=OFF");
        let process = Process::start(&mut command);
        let address = format!("http://127.0.0.1:{port}");
        let status = format!("{address}/status");
        eventually("chromedriver answers", async || {
            reqwest::get(&status).await.is_ok()
        })
        .await;
        let mut wanted = DesiredCapabilities::chrome();
        wanted.set_binary(&program("CHROMIUM", "chromium")).unwrap();
        for argument in ARGUMENTS {
            wanted.add_arg(argument).unwrap();
        }
        wanted
            .set_browser_log_level(LoggingPrefsLogLevel::All)
            .unwrap();
        let driver = WebDriver::new(address, wanted).await.unwrap();
        Self {
            driver,
            _process: process,
        }
    }

    /// Ends it in order.
    pub async fn quit(self) {
        self.driver.quit().await.unwrap();
    }

    async fn order(&self, command: &str, arguments: Value) {
        let done = self.driver.cdp().send_raw(command, arguments).await;
        done.unwrap();
    }

    /// Looks at pages in a window so wide, on a light or a dark ground.
    pub async fn look(&self, width: u32, scheme: &str) {
        let size =
            json!({"width": width, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": false});
        self.order("Emulation.setDeviceMetricsOverride", size).await;
        let feature = json!({"name": "prefers-color-scheme", "value": scheme});
        let media = json!({"features": [feature]});
        self.order("Emulation.setEmulatedMedia", media).await;
    }

    /// Runs no script of a page any more.
    pub async fn stop_scripts(&self) {
        let stop = json!({"value": true});
        self.order("Emulation.setScriptExecutionDisabled", stop)
            .await;
    }

    pub async fn open(&self, address: &str) {
        self.driver.goto(address).await.unwrap();
    }

    /// What a script in the page returns.
    pub async fn run(&self, script: &str) -> Value {
        let returned = self.driver.execute(script, Vec::new()).await.unwrap();
        returned.json().clone()
    }

    /// What the page shows.
    pub async fn text(&self) -> String {
        let body = self.driver.find(By::Tag("body")).await.unwrap();
        body.text().await.unwrap()
    }

    /// Waits until the page shows this.
    pub async fn wait_for(&self, text: &str) {
        eventually(&format!("the page shows {text}"), async || {
            // While the browser goes to another page there is none.
            let Ok(body) = self.driver.find(By::Tag("body")).await else {
                return false;
            };
            body.text().await.is_ok_and(|shown| shown.contains(text))
        })
        .await;
    }

    /// Fills in a field, by its id.
    pub async fn fill_in(&self, id: &str, text: &str) {
        let field = self.driver.find(By::Id(id)).await.unwrap();
        field.send_keys(text).await.unwrap();
    }

    /// Presses a button, by its text.
    pub async fn press(&self, button: &str) {
        let path = format!("//button[normalize-space()='{button}']");
        let button = self.driver.find(By::XPath(path)).await.unwrap();
        button.click().await.unwrap();
    }

    pub async fn sign_in(&self, base: &str, key: &str) {
        self.open(&format!("{base}/console/sign-in")).await;
        self.fill_in("key", key).await;
        self.press("Sign in").await;
        self.wait_for("Sign out").await;
    }

    /// What the browser complains of since it was asked last: faults of scripts, and what a policy has kept back.
    pub async fn complaints(&self) -> Vec<String> {
        let log = self.driver.browser_log().await.unwrap().into_iter();
        // It also gives hints, with other levels.
        let is_complaint =
            |entry: &BrowserLogEntry| ["WARNING", "SEVERE"].contains(&entry.level.as_str());
        let log = log.filter(is_complaint);
        let message = |entry: BrowserLogEntry| format!("{} {}", entry.level, entry.message);
        log.map(message).collect()
    }

    /// What axe finds wrong with the page.
    pub async fn violations(&self) -> Vec<String> {
        let is_there = self.run("return 'axe' in window").await;
        if is_there == json!(false) {
            let path = "tests/browser/node_modules/axe-core/axe.min.js";
            let axe = std::fs::read_to_string(repository().join(path));
            let axe = axe.unwrap_or_else(|error| panic!("{path}: {error}; `make browser` gets it"));
            self.run(&axe).await;
        }
        let check =
            "return axe.run().then(({ violations }) => violations.flatMap(({ id, nodes }) =>
            nodes.map(({ html, failureSummary }) => `${id}: ${html}: ${failureSummary}`)))";
        let found = self.run(check).await;
        serde_json::from_value(found).unwrap()
    }
}
