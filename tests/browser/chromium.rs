//! Chromium, driven by WebDriver.

use std::net::TcpListener;
use std::process::Command;

use serde_json::{Value, json};

use crate::harness::repository;
use crate::kit::process::{Process, eventually};
use crate::webdriver::{By, Session};

/// Chromium draws to no screen, asks nobody else for anything, and runs as root too.
const ARGUMENTS: [&str; 9] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    // With a narrower window the side bar is a drawer.
    "--window-size=1280,900",
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
    pub session: Session,
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
        let driver = format!("http://127.0.0.1:{port}");
        eventually("chromedriver answers", async || {
            Session::is_ready(&driver).await
        })
        .await;
        let binary = program("CHROMIUM", "chromium");
        let capabilities = json!({
            "browserName": "chrome",
            "goog:chromeOptions": {"binary": binary, "args": ARGUMENTS},
            "goog:loggingPrefs": {"browser": "ALL"},
        });
        Self {
            session: Session::start(&driver, capabilities).await,
            _process: process,
        }
    }

    /// Ends it in order.
    pub async fn quit(self) {
        self.session.quit().await;
    }

    /// Looks at pages in a window so wide, on a light or a dark ground.
    pub async fn look(&self, width: u32, scheme: &str) {
        let size =
            json!({"width": width, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": false});
        self.session
            .order("Emulation.setDeviceMetricsOverride", size)
            .await;
        let feature = json!({"name": "prefers-color-scheme", "value": scheme});
        let media = json!({"features": [feature]});
        self.session
            .order("Emulation.setEmulatedMedia", media)
            .await;
    }

    /// A picture of what the window shows, as WebP in base64.
    pub async fn picture(&self) -> String {
        let format = json!({"format": "webp", "quality": 80});
        let taken = self.session.order("Page.captureScreenshot", format).await;
        taken["data"].as_str().unwrap().to_owned()
    }

    /// Looks at pages as a viewer whose system asks for less motion.
    pub async fn want_no_motion(&self) {
        let feature = json!({"name": "prefers-reduced-motion", "value": "reduce"});
        let media = json!({"features": [feature]});
        self.session
            .order("Emulation.setEmulatedMedia", media)
            .await;
    }

    /// Runs no script of a page any more.
    pub async fn stop_scripts(&self) {
        let stop = json!({"value": true});
        self.session
            .order("Emulation.setScriptExecutionDisabled", stop)
            .await;
    }

    pub async fn open(&self, address: &str) {
        self.session.open(address).await;
    }

    /// What a script in the page returns.
    pub async fn run(&self, script: &str) -> Value {
        self.session.run(script).await
    }

    /// What the page shows.
    pub async fn text(&self) -> String {
        self.session.try_text().await.unwrap()
    }

    /// Waits until the page shows this.
    pub async fn wait_for(&self, text: &str) {
        eventually(&format!("the page shows {text}"), async || {
            // While the browser goes to another page there is none.
            let shown = self.session.try_text().await;
            shown.is_ok_and(|shown| shown.contains(text))
        })
        .await;
    }

    /// Fills in a field, by its id.
    pub async fn fill_in(&self, id: &str, text: &str) {
        let field = self.session.find(By::Css, &format!("#{id}")).await;
        self.session.fill_in(&field, text).await;
    }

    /// Presses a button, by its text.
    pub async fn press(&self, button: &str) {
        let path = format!("//button[normalize-space()='{button}']");
        let button = self.session.find(By::XPath, &path).await;
        self.session.click(&button).await;
    }

    pub async fn sign_in(&self, base: &str, key: &str) {
        self.open(&format!("{base}/console/sign-in")).await;
        self.fill_in("key", key).await;
        self.press("Sign in").await;
        self.wait_for("Sign out").await;
    }

    /// What the browser complains of since it was asked last: faults of scripts, and what a policy has kept back.
    pub async fn complaints(&self) -> Vec<String> {
        let log = self.session.log().await.into_iter();
        // It also gives hints, with other levels.
        let complaints = log
            .filter(|(level, _)| ["WARNING", "SEVERE"].contains(&&**level))
            .map(|(level, text)| format!("{level} {text}"));
        complaints.collect()
    }

    /// What axe finds wrong with the page.
    pub async fn violations(&self) -> Vec<String> {
        let is_there = self.run("return 'axe' in window").await;
        if is_there == json!(false) {
            let path = "tests/browser/node_modules/axe-core/axe.min.js";
            let axe = std::fs::read_to_string(repository().join(path))
                .unwrap_or_else(|error| panic!("{path}: {error}; `make browser` gets it"));
            self.run(&axe).await;
        }
        let check =
            "return axe.run().then(({ violations }) => violations.flatMap(({ id, nodes }) =>
            nodes.map(({ html, failureSummary }) => `${id}: ${html}: ${failureSummary}`)))";
        let found = self.run(check).await;
        serde_json::from_value(found).unwrap()
    }
}
