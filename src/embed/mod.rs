//! `/embed/{board}/{window}`: the top members of a public board, as a page that other pages show in a frame.
//!
//! It shows what `/v1` returns without a key, sets no cookie, and works without JavaScript. Nothing in it can be clicked,
//! so a frame around it can't trick a viewer into doing anything.

mod colours;
mod languages;
mod origins;
mod params;

pub(crate) use self::languages::languages;

use std::sync::Arc;

use askama::Template;
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;

use self::colours::Colours;
use self::languages::Language;
pub use self::origins::EmbedOrigins;
use self::params::{Noun, Params};
use crate::core::read::period::find_window;
use crate::core::{Error, LiveBoard};
use crate::domain::face;
use crate::domain::include::Include;
use crate::http::App;
use crate::http::extract::{Path, Query, board_id, bounded};
use crate::http::files::{self, CSS, JAVASCRIPT};
use crate::http::inner::{address, ask, parsed, uri};
use crate::http::observe::HasBody;
use crate::http::problem::{BOARD_NOT_FOUND, Problem};
use crate::http::proxies::Arrival;
use crate::standings::routes::answers::{EntryBody, PageBody};

/// How many members are shown by default.
const SIZE: u64 = 10;
/// The maximum that can be shown.
const SIZE_MAX: u64 = 100;
/// The content security policy of the page, without the hosts of pictures and the origins that may frame it.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'none'; base-uri 'none'";
/// How long a cache keeps a page: as long as a read of a public board.
const BRIEFLY: &str = "public, max-age=1, stale-while-revalidate=5";
const STYLE: &str = include_str!("embed.css");
const MODULE: &str = include_str!("embed.js");

/// The state of the pages.
struct Embed {
    app: Arc<App>,
    /// The routes of `/v1`.
    table: Router,
    policy: HeaderValue,
}

#[derive(Template)]
#[template(path = "embed/standing.html")]
struct StandingPage<'a> {
    title: &'a str,
    language: &'static Language,
    /// The value of `color-scheme`.
    scheme: &'static str,
    /// The stylesheet with the colours that were asked for.
    colours: Option<String>,
    /// The running period in words.
    period: String,
    /// The key of that period; empty if its words stay the same in the next one.
    key: &'a str,
    cohort: &'a str,
    noun: Noun,
    decimals: u8,
    /// Whether pictures are shown.
    has_pictures: bool,
    /// The stream of `/v1` with the changes of the standing.
    stream: &'a str,
    standing: &'a PageBody,
}

#[derive(Template)]
#[template(path = "embed/trouble.html")]
struct TroublePage<'a> {
    problem: &'a Problem,
}

impl StandingPage<'_> {
    fn score(&self, entry: &EntryBody) -> String {
        let text = entry.score.to_string();
        self.language.number(&text, self.decimals)
    }

    /// How many members there are.
    fn total(&self) -> String {
        let Noun(one, many) = &self.noun;
        match self.standing.total {
            0 => self.language.nobody.clone(),
            1 => format!("1 {one}"),
            total => format!("{} {many}", self.language.number(&total.to_string(), 0)),
        }
    }

    /// The address of the member's picture, if it has one that may be shown.
    fn picture<'e>(&self, entry: &'e EntryBody) -> Option<&'e str> {
        let profile = entry.profile.as_ref()?.as_ref()?.profile();
        profile.avatar_url.as_deref().filter(|_| self.has_pictures)
    }
}

impl EntryBody {
    fn name(&self) -> &str {
        let shown = self.profile.as_ref().and_then(Option::as_ref);
        let name = shown.map(|shown| shown.profile().name.as_str());
        name.or(self.member.as_deref()).unwrap_or("–")
    }

    fn initial(&self) -> String {
        face::initial(self.name())
    }

    fn tint(&self) -> u32 {
        face::tint(self.member.as_deref().unwrap_or_default())
    }

    /// The medal of the first three.
    fn medal(&self) -> Option<&'static str> {
        let place = usize::try_from(self.rank?.checked_sub(1)?).ok()?;
        ["gold", "silver", "bronze"].get(place).copied()
    }
}

/// The routes of the page, and of its files.
pub(crate) fn router(app: Arc<App>, table: Router, origins: &EmbedOrigins) -> Router {
    let pictures = app.profile_rules.hosts.sources();
    let pictures = pictures.map_or_else(String::new, |sources| format!("; img-src {sources}"));
    let policy = format!("{POLICY}{pictures}; frame-ancestors {origins}");
    let policy = HeaderValue::try_from(policy).expect("invariant: origins are header values");
    let embed = Arc::new(Embed { app, table, policy });
    let of_css = |headers: HeaderMap| async move { files::answer(&headers, CSS, STYLE) };
    let of_js = |headers: HeaderMap| async move { files::answer(&headers, JAVASCRIPT, MODULE) };
    Router::new()
        .route("/embed/{board}/{window}", get(show))
        .route("/embed/colours.css", get(colours))
        .route("/embed/embed.css", get(of_css))
        .route("/embed/embed.js", get(of_js))
        .with_state(embed)
}

/// The stylesheet with the colours that a page asks for.
async fn colours(headers: HeaderMap, Query(colours): Query<Colours>) -> Response {
    files::answer(&headers, CSS, &colours.stylesheet())
}

async fn show(
    State(embed): State<Arc<Embed>>,
    Path((board, window)): Path<(String, String)>,
    params: Result<Query<Params>, Problem>,
    request: Request,
) -> Response {
    let arrival = Arrival::of(&request.into_parts().0);
    let page = match params {
        Ok(Query(params)) => embed.page((&board, &window), &params, &arrival).await,
        Err(problem) => Err(problem),
    };
    let mut response = match page {
        Ok(page) => Html(page).into_response(),
        Err(problem) => {
            let Ok(page) = (TroublePage { problem: &problem }).render() else {
                let cause = "an embedded page can't be rendered".to_owned();
                return Problem::internal(cause).into_response();
            };
            let mut response = (problem.kind.status, Html(page)).into_response();
            response.extensions_mut().insert(HasBody);
            // The layer around all routes writes its cause into the log.
            response.extensions_mut().insert(problem);
            response
        }
    };
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, embed.policy.clone());
    for (name, value) in [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, BRIEFLY),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

impl Embed {
    async fn page(
        &self,
        (board, window): (&str, &str),
        params: &Params,
        arrival: &Arrival,
    ) -> Result<String, Problem> {
        let size = bounded("size", params.size, SIZE, 1, SIZE_MAX)?.to_string();
        let live = self.public_board(board).await?;
        let definition = &live.board.definition;
        let has_profiles = definition.public_includes().has(Include::Profile);
        let query = [
            ("size", size.as_str()),
            ("cohort", &params.cohort),
            ("include", if has_profiles { "profile" } else { "" }),
        ];
        let path = ["v1", "boards", board, "standings", window, "stream"];
        let stream = address(&path, &query);
        let [path @ .., _] = path;
        let standing = self.read(&address(&path, &query), arrival).await?;
        let window = find_window(&live.board, window)?;
        let language = params.language.0;
        let shown = &standing.standing;
        let times = (shown.starts_at, shown.ends_at);
        let (one, many) = language.members.clone();
        let title = definition.title.as_str();
        let page = StandingPage {
            title: if title.is_empty() { board } else { title },
            language,
            scheme: params.theme.color_scheme(),
            colours: params.colours.address(),
            period: language.period(window, times, live.board.calendar.tz),
            key: if window.is_rolling() { "" } else { &shown.key },
            cohort: shown.cohort.as_deref().unwrap_or_default(),
            noun: params.noun.clone().unwrap_or(Noun(one, many)),
            decimals: definition.decimals.digits(),
            has_pictures: self.app.profile_rules.hosts.sources().is_some(),
            stream: &stream,
            standing: &standing,
        };
        let page = page.render();
        page.map_err(|error| Problem::internal(format!("embedded page: {error}")))
    }

    /// A board, if it is public. The response must not show whether another one exists.
    async fn public_board(&self, board: &str) -> Result<Arc<LiveBoard>, Problem> {
        match self.app.engine.live_board(&board_id(board)?).await {
            Ok(live) if live.board.definition.public => Ok(live),
            Ok(_) | Err(Error::BoardNotFound(_)) => Err(Problem::new(
                BOARD_NOT_FOUND,
                "there is no public board with this id",
            )),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads a standing without a key.
    async fn read(&self, address: &str, arrival: &Arrival) -> Result<PageBody, Problem> {
        let request = Request::get(uri(address)?)
            .body(Body::empty())
            .map_err(|error| Problem::internal(error.to_string()))?;
        let response = ask(&self.table, arrival, request).await?;
        parsed(response.into_body()).await
    }
}
