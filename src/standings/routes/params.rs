//! The request of a read of a standing: path, query and headers.

use std::collections::HashSet;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Uri};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use utoipa::IntoParams;

use crate::access::{Caller, HiddenChoice};
use crate::core::read::reader::ReadSize;
use crate::domain::edition::Edition;
use crate::domain::ids::MemberId;
use crate::domain::include::{Include, Includes};
use crate::domain::score::{Decimals, Score, ShownScore};
use crate::http::App;
use crate::http::extract::{Path, Query, board_id, bounded, choice, invalid, member_id};
use crate::http::problem::Problem;
use crate::http::supply::Takers;
use crate::redis::Freshness;
use crate::standings::member::{AROUND_MAX, MemberView};
use crate::standings::page::{Entries, PAGE_MAX, PAGE_SIZE, PAGE_SIZE_MAX, PageView};
use crate::standings::standing::StandingRequest;
use crate::standings::subset::{SUBSET_MAX, SubsetView};

/// How many decimals a percentile may have.
const PERCENTILE_DECIMALS: u64 = 3;

/// A parsed request to read one standing.
pub struct Read<P> {
    /// The standing, and the required freshness.
    pub request: StandingRequest,
    /// The parameters of the query.
    pub params: P,
    /// The minimum revision that the response must have.
    pub min_revision: Option<Edition>,
    /// The callers that the response's memory is charged to.
    pub by: Takers,
    pub headers: HeaderMap,
    pub uri: Uri,
}

impl<P: ReadParams> FromRequestParts<Arc<App>> for Read<P> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        let Path(StandingPath { board, window }) = Path::from_request_parts(parts, app).await?;
        let Query(params) = Query::<P>::from_request_parts(parts, app).await?;
        let caller = Caller::from_request_parts(parts, app).await?;
        let Ok(freshness) = Freshness::from_request_parts(parts, app).await;
        let named = params.named();
        Ok(Self {
            request: named.request(&board, window, (&caller, freshness))?,
            min_revision: named.min_revision()?,
            params,
            by: caller.takers(),
            headers: std::mem::take(&mut parts.headers),
            uri: std::mem::take(&mut parts.uri),
        })
    }
}

/// The standing that a path names.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub struct StandingPath {
    /// The board's id
    #[param(example = "run_hero", pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")]
    pub(crate) board: String,
    /// One of the board's windows
    #[param(example = "day")]
    pub(crate) window: String,
}

/// The window of a league that a path names.
#[expect(dead_code, reason = "it only describes what `StandingPath` reads")]
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub struct WindowPath {
    /// The board's window
    #[param(example = "day")]
    window: String,
}

/// The tier that a path names.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub struct TierPath {
    /// One of the tiers of the period
    #[param(example = "bronze")]
    pub(crate) tier: String,
}

/// The percentile that a path names.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub struct PercentilePath {
    /// From 0, the last entry, to 100, the first; with up to 3 decimals
    #[param(value_type = f64, minimum = 0, maximum = 100, example = 90)]
    pub(crate) percentile: String,
}

/// How the parameters of a read name a standing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Named<'a> {
    pub key: Option<&'a str>,
    /// An instant in its period.
    pub at: Option<&'a str>,
    /// In a league, the cohort.
    pub cohort: Option<&'a str>,
    /// Whether to read the track `raw`.
    pub is_raw: bool,
    /// What entries should have in addition to scores: words separated by commas.
    pub include: Option<&'a str>,
    /// The minimum revision that it must have.
    pub min_revision: Option<&'a str>,
    /// Whether to exclude or include hidden members.
    pub hidden: Option<HiddenChoice>,
}

impl Named<'_> {
    /// The standing of a window of a board, as this caller may read it.
    pub(crate) fn request(
        self,
        board: &str,
        window: String,
        (caller, freshness): (&Caller, Freshness),
    ) -> Result<StandingRequest, Problem> {
        Ok(StandingRequest {
            includes: includes(self.include, caller)?,
            visibility: caller.visibility(self.hidden)?,
            cohort: self.cohort.map(str::to_owned).into(),
            board: board_id(board)?,
            window,
            choice: choice(self.key, self.at)?,
            track: caller.track(self.is_raw)?,
            freshness,
            size: ReadSize::Small,
            taker: caller.taker_of_past(),
        })
    }

    /// The minimum revision that the standing must have.
    pub(crate) fn min_revision(self) -> Result<Option<Edition>, Problem> {
        let parsed = self.min_revision.map(str::parse).transpose();
        parsed.map_err(|()| invalid("min_revision", "is not a revision"))
    }
}

pub trait ReadParams: DeserializeOwned + Send + Sync {
    /// How they name the standing.
    fn named(&self) -> Named<'_>;
}

/// Defines parameters of a read: its own, those that name the standing, and `include` for reads of entries.
macro_rules! read_params {
    ($(#[$doc:meta])* $name:ident $(of a $cohort:ident)? { $($fields:tt)* } $($include:ident)? $(+ $min_revision:ident)?) => {
        $(#[$doc])*
        #[derive(Debug, Deserialize, IntoParams)]
        #[into_params(parameter_in = Query)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $($fields)*
            /// The period, by its key; `current` or `previous`.
            #[param(example = "current")]
            key: Option<String>,
            /// The period that contains this time; not together with `key`.
            #[param(format = DateTime)]
            at: Option<String>,
            $(
                /// In a league, the cohort, by its tier and number, such as `silver-17`. Other boards have no cohorts.
                $cohort: Option<String>,
            )?
            /// `true`: the true count, without weights and initial scores; needs the scope `configure`.
            #[serde(default)]
            #[param(default = false)]
            raw: bool,
            $(
                /// Additional fields of entries, separated by commas: `profile` is the member's name, picture and
                /// attributes; `data` is the data of the event that gave the entry its `reached_at`. On a public board a
                /// request without a key gets those that the board's `public_includes` lists.
                #[param(value_type = Option<Vec<Include>>, required = false, style = Form, explode = false, example = json!(["profile"]))]
                $include: Option<String>,
            )?
            $(
                /// The `revision` of a response or of an accepted event: the service waits up to 5 s until the board has it,
                /// and does not read from a replica.
                $min_revision: Option<String>,
            )?
            /// `include`: hidden members are included, each with `"hidden": true`, and ranks and totals count them; needs
            /// the scope `moderate`.
            #[param(inline)]
            hidden: Option<HiddenChoice>,
        }

        impl ReadParams for $name {
            fn named(&self) -> Named<'_> {
                Named {
                    key: self.key.as_deref(),
                    at: self.at.as_deref(),
                    cohort: None$(.or(self.$cohort.as_deref()))?,
                    is_raw: self.raw,
                    include: None$(.or(self.$include.as_deref()))?,
                    min_revision: None$(.or(self.$min_revision.as_deref()))?,
                    hidden: self.hidden,
                }
            }
        }
    };
}

read_params! {
    /// Which page, and of which period.
    PageParams of a cohort {
        /// The page, from 1.
        #[param(minimum = 1, maximum = 1_000_000_000_u64, default = 1)]
        pub(crate) page: Option<u64>,
        /// The maximum number of entries on a page.
        #[param(minimum = 1, maximum = 1000, default = 50)]
        pub(crate) size: Option<u64>,
        /// A member whose own entry is returned as `me`.
        #[param(max_length = 128)]
        pub(crate) member: Option<String>,
        /// Only entries with at least this score. The pages then consist of these.
        #[param(value_type = Option<f64>)]
        pub(crate) from_score: Option<String>,
        /// Only entries with at most this score.
        #[param(value_type = Option<f64>)]
        pub(crate) to_score: Option<String>,
        /// Entries around this score: half of `size` (rounded down) with better scores, the others with equal or worse ones.
        /// If fewer are better, more of the others follow; near the end of the list there are fewer. Not together with
        /// `page`, `from_score` or `to_score`.
        #[param(value_type = Option<f64>)]
        pub(crate) around_score: Option<String>,
    }
    include + min_revision
}

read_params! {
    /// Which member, and in which period.
    MemberParams of a cohort {
        /// How many neighbours to return on each side.
        #[param(minimum = 0, maximum = 100, default = 0)]
        pub(crate) around: Option<u64>,
    }
    include + min_revision
}

read_params! {
    /// Which members, and in which period.
    SubsetParams of a cohort {
        /// 1 to 500 member ids, separated by commas. `POST …/members/query` takes ids that contain commas.
        #[param(value_type = Vec<String>, style = Form, explode = false, min_items = 1, max_items = 500, example = json!(["999", "alice"]))]
        pub(crate) ids: String,
    }
    include + min_revision
}

read_params! {
    /// Which period.
    PeriodParams of a cohort {}
    + min_revision
}

read_params! {
    /// Of which period the tiers are.
    TiersParams {}
    + min_revision
}

read_params! {
    /// Which cohorts, and of which period.
    CohortsParams {
        /// Only cohorts after this one.
        pub(crate) after: Option<String>,
        /// The maximum number of cohorts to return.
        #[param(minimum = 1, maximum = 100, default = 100)]
        pub(crate) limit: Option<u64>,
    }
}

read_params! {
    /// Which period, and what its entries have.
    EntryParams of a cohort {}
    include + min_revision
}

read_params! {
    /// Which boards, and which of their standings.
    AcrossParams {
        /// 1 to 100 boards, separated by commas.
        #[param(value_type = Vec<String>, style = Form, explode = false, min_items = 1, max_items = 100, example = json!(["run_hero"]))]
        pub(crate) boards: String,
        /// The window.
        #[param(example = "day")]
        pub(crate) window: String,
    }
    include
}

/// What the request asks for in addition to scores, if the caller may see it.
pub(crate) fn includes(include: Option<&str>, caller: &Caller) -> Result<Includes, Problem> {
    let includes = include
        .map_or(Ok(Includes::default()), Includes::parse)
        .map_err(|detail| invalid("include", detail))?;
    caller.require_includes(includes)?;
    Ok(includes)
}

pub(crate) fn page_view(
    page: Option<u64>,
    size: Option<u64>,
    member: Option<&str>,
) -> Result<PageView, Problem> {
    Ok(PageView {
        entries: Entries::All,
        page: bounded("page", page, 1, 1, PAGE_MAX)?,
        size: bounded("size", size, PAGE_SIZE, 1, PAGE_SIZE_MAX)?,
        member: member.map(member_id).transpose()?,
    })
}

impl PageParams {
    pub(crate) fn view(&self) -> Result<PageView, Problem> {
        let view = page_view(self.page, self.size, self.member.as_deref())?;
        let between = [self.from_score.clone(), self.to_score.clone()];
        let entries = match &self.around_score {
            Some(_) if between.iter().any(Option::is_some) || self.page.is_some() => {
                let detail = "can't be combined with `page`, `from_score` or `to_score`";
                return Err(invalid("around_score", detail));
            }
            Some(score) => Entries::Around(score.clone()),
            None => Entries::between(between),
        };
        Ok(PageView { entries, ..view })
    }
}

/// The percentile in a path, and how to show its score.
pub(crate) fn percentile_view(text: &str) -> Result<(PageView, ShownScore), Problem> {
    let read = || {
        let decimals = Decimals::try_from(PERCENTILE_DECIMALS).ok()?;
        let percentile = Score::parse(text, decimals).ok()?;
        let thousandths = u64::try_from(percentile.scaled()).ok()?;
        let view = PageView::of_first(Entries::Percentile(thousandths), 1);
        (thousandths <= 100_000).then_some((view, percentile.shown(decimals)))
    };
    let detail = "must be from 0 to 100, with up to 3 decimals";
    read().ok_or_else(|| invalid("percentile", detail))
}

pub(crate) fn member_view(member: &str, around: Option<u64>) -> Result<MemberView, Problem> {
    let around = around.map(|around| bounded("around", Some(around), 0, 0, AROUND_MAX));
    Ok(MemberView {
        member: member_id(member)?,
        around: around.transpose()?,
    })
}

/// Some members without duplicates; the error says what is wrong with their number.
pub(crate) fn subset_view(members: &[MemberId]) -> Result<SubsetView, String> {
    let mut named = HashSet::new();
    let members: Vec<MemberId> = members
        .iter()
        .filter(|member| named.insert(*member))
        .cloned()
        .collect();
    if (1..=SUBSET_MAX).contains(&members.len()) {
        Ok(SubsetView { members })
    } else {
        Err(format!("must be 1 to {SUBSET_MAX} members"))
    }
}

/// The members named in parameters or a query.
pub(crate) fn named_members<'a>(ids: impl Iterator<Item = &'a str>) -> Result<SubsetView, Problem> {
    let members = ids.map(member_id).collect::<Result<Vec<_>, _>>()?;
    subset_view(&members).map_err(|detail| invalid("ids", detail))
}

/// The maximum number of entries on a page.
pub(crate) fn entries_of_page(size: Option<u64>, member: Option<&str>) -> usize {
    let size = size.unwrap_or(PAGE_SIZE).min(PAGE_SIZE_MAX);
    usize::try_from(size).unwrap_or(usize::MAX) + usize::from(member.is_some())
}

/// How many entries a read of a member returns: its own, and at least one neighbour on each side.
pub(crate) fn entries_of_member(around: Option<u64>) -> usize {
    let around = around.unwrap_or(0).clamp(1, AROUND_MAX);
    1 + 2 * usize::try_from(around).unwrap_or(usize::MAX / 4)
}
