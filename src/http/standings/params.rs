//! What a read of a standing asks for: its path, its query and its headers.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::request::Parts;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use utoipa::IntoParams;

use crate::domain::series::Track;
use crate::engine::reader::Size;
use crate::http::App;
use crate::http::auth::Caller;
use crate::http::extract::{Path, Query, board_id, bounded, choice, member_id};
use crate::http::problem::Problem;
use crate::service::member::{AROUND_MAX, MemberView};
use crate::service::page::{PAGE_MAX, PAGE_SIZE, PAGE_SIZE_MAX, PageView};
use crate::service::standing::StandingRequest;
use crate::store::Freshness;

/// A read of one standing, taken apart.
pub struct Read<P> {
    /// Which standing, and how fresh.
    pub request: StandingRequest,
    /// The parameters of the query.
    pub params: P,
    /// The headers.
    pub headers: HeaderMap,
}

impl<P: ReadParams> FromRequestParts<Arc<App>> for Read<P> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        let Path(StandingPath { board, window }) = Path::from_request_parts(parts, app).await?;
        let Query(params) = Query::<P>::from_request_parts(parts, app).await?;
        let caller = Caller::from_request_parts(parts, app).await?;
        let Ok(freshness) = Freshness::from_request_parts(parts, app).await;
        Ok(Self {
            request: standing_request(&board, window, params.which(), (&caller, freshness))?,
            params,
            headers: std::mem::take(&mut parts.headers),
        })
    }
}

/// The standing that a path names.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub struct StandingPath {
    /// The board's id
    #[param(example = "run_hero")]
    board: String,
    /// One of the board's windows
    #[param(example = "day")]
    window: String,
}

/// The member that a path names.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub struct MemberPath {
    /// The member's id
    #[param(example = "999")]
    pub(super) member: String,
}

/// The headers of a read.
#[expect(dead_code, reason = "it only describes them")]
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub struct ReadHeaders {
    /// An `ETag`: 304 if nothing has changed
    #[param(rename = "If-None-Match", nullable)]
    if_none_match: Option<String>,
    /// `no-cache`: not from a replica
    #[param(rename = "Cache-Control", nullable)]
    cache_control: Option<String>,
}

/// Which of a window's standings: `key`, `at` and `track`.
pub(super) type Which<'a> = (Option<&'a str>, Option<&'a str>, Option<Track>);

/// The parameters of a read.
pub trait ReadParams: DeserializeOwned + Send + Sync {
    /// Which standing they name.
    fn which(&self) -> Which<'_>;
}

/// Parameters of a read: these, and those that name the standing.
macro_rules! read_params {
    ($(#[$doc:meta])* $name:ident { $($fields:tt)* }) => {
        $(#[$doc])*
        #[derive(Debug, Deserialize, IntoParams)]
        #[into_params(parameter_in = Query)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $($fields)*
            /// The period, by its key; `current` or `previous`.
            #[param(example = "current")]
            key: Option<String>,
            /// The period that holds this instant; not together with `key`.
            #[param(format = DateTime)]
            at: Option<String>,
            /// `real`: without weights and initial scores; needs the scope `configure`.
            #[param(inline)]
            track: Option<Track>,
        }

        impl ReadParams for $name {
            fn which(&self) -> Which<'_> {
                (self.key.as_deref(), self.at.as_deref(), self.track)
            }
        }
    };
}

read_params! {
    /// Which page, and of which period.
    PageParams {
        /// The page, from 1.
        #[param(minimum = 1, maximum = 1_000_000_000_u64, default = 1)]
        pub(super) page: Option<u64>,
        /// Entries per page.
        #[param(minimum = 1, maximum = 1000, default = 50)]
        pub(super) size: Option<u64>,
        /// A member whose own entry comes along as `me`.
        #[param(max_length = 128)]
        pub(super) member: Option<String>,
    }
}

read_params! {
    /// Which member, and in which period.
    MemberParams {
        /// How many neighbours on each side come along.
        #[param(minimum = 0, maximum = 100, default = 0)]
        pub(super) around: Option<u64>,
    }
}

read_params! {
    /// Which members, and in which period.
    SubsetParams {
        /// 1 to 500 member ids, separated by commas. (A member whose id contains a comma can be read alone.)
        #[param(value_type = Vec<String>, style = Form, explode = false, min_items = 1, max_items = 500, example = json!(["999", "alice"]))]
        pub(super) ids: String,
    }
}

read_params! {
    /// Which period.
    StatsParams {}
}

/// Which standing a request names.
pub(super) fn standing_request(
    board: &str,
    window: String,
    (key, at, track): Which<'_>,
    (caller, freshness): (&Caller, Freshness),
) -> Result<StandingRequest, Problem> {
    Ok(StandingRequest {
        board: board_id(board)?,
        window,
        choice: choice(key, at)?,
        track: caller.track(track)?,
        freshness,
        size: Size::Small,
    })
}

pub(super) fn page_view(
    page: Option<u64>,
    size: Option<u64>,
    member: Option<&str>,
) -> Result<PageView, Problem> {
    Ok(PageView {
        page: bounded("page", page, 1, 1, PAGE_MAX)?,
        size: bounded("size", size, PAGE_SIZE, 1, PAGE_SIZE_MAX)?,
        member: member.map(member_id).transpose()?,
    })
}

pub(super) fn member_view(member: &str, around: Option<u64>) -> Result<MemberView, Problem> {
    let around = around.map(|around| bounded("around", Some(around), 0, 0, AROUND_MAX));
    Ok(MemberView {
        member: member_id(member)?,
        around: around.transpose()?,
    })
}

/// How many entries a page has at the most.
pub(super) fn entries_of_page(size: Option<u64>, member: Option<&str>) -> usize {
    let size = size.unwrap_or(PAGE_SIZE).min(PAGE_SIZE_MAX);
    usize::try_from(size).unwrap_or(usize::MAX) + usize::from(member.is_some())
}

/// How many entries are read with a member: its own, and one neighbour on each side at least.
pub(super) fn entries_of_member(around: Option<u64>) -> usize {
    let around = around.unwrap_or(0).clamp(1, AROUND_MAX);
    1 + 2 * usize::try_from(around).unwrap_or(usize::MAX / 4)
}
