//! A member of a standing: its rank and its neighbours; the forms that hide it, bring it back, have it join or leave a
//! league, order its tier and erase it.

use askama::Template;
use axum::http::Method;
use axum::response::Response;
use serde::Deserialize;
use serde_json::json;

use super::across::way_from;
use super::address::address;
use super::board::{Heading, Opening, member_address, standing_address};
use super::forms::Form;
use super::hidden::back;
use super::history::History;
use super::members::{is_for_people, own_page};
use super::page::{Frame, html};
use super::session::Viewer;
use super::shown::{Clock, done};
use crate::domain::access::Scope;
use crate::http::extract::{Path, Query};
use crate::http::leagues::LeagueMemberState;
use crate::http::moderation::HiddenMember;
use crate::http::problem::{BOARD_CLOSED, MEMBER_NOT_FOUND, NO_LEAGUE, Problem};
use crate::http::standings::answers::{EntryBody, MemberBody, PreviousBody, SeatBody};
use crate::http::standings::tiers::{TierBody, TiersBody};

/// How many neighbours on each side are shown.
const AROUND: &str = "5";

/// Which member, and in which period.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Params {
    member: String,
    #[serde(default)]
    key: String,
    /// `include`: hidden members count, too.
    #[serde(default)]
    hidden: String,
    /// What was done before the page was shown.
    #[serde(default)]
    done: String,
}

#[derive(Template)]
#[template(path = "console/member.html")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each says of the page by itself whether it has a part"
)]
struct MemberPage {
    frame: Frame,
    heading: Heading,
    member: String,
    window: String,
    key: String,
    clock: Clock,
    /// `None` if the member is not in the standing.
    found: Option<MemberBody>,
    history: History,
    may_moderate: bool,
    /// Whether hidden members can count for the ranks and totals of the page.
    may_see_hidden: bool,
    /// Whether they do.
    counts_hidden: bool,
    /// Whether the viewer may erase it.
    may_erase: bool,
    /// How it is hidden, if it is, and the viewer may know.
    hidden: Option<HiddenMember>,
    /// Of a league, what moderators know of it.
    player: Option<LeagueMemberState>,
    /// The tiers that it can be ordered into.
    tiers: Vec<TierBody>,
    /// Whether the viewer may have it join and leave a league.
    may_join: bool,
    /// Its page with standings of many boards, if that is for the viewer.
    across: Option<String>,
    /// Its page for all boards, if there is something for the viewer.
    everywhere: Option<String>,
    done: Option<&'static str>,
    curl: String,
}

impl MemberPage {
    fn to_standing(&self) -> String {
        let query = [("key", self.key.as_str()), ("hidden", self.sight())];
        standing_address(&self.heading.board, &self.window, &query)
    }

    /// What the parameter `hidden` says.
    fn sight(&self) -> &'static str {
        if self.counts_hidden { "include" } else { "" }
    }

    fn to(&self, member: &str, key: &str, hidden: &str) -> String {
        member_address(&self.heading.board, &self.window, member, (key, hidden))
    }

    fn to_member(&self, member: &str) -> String {
        self.to(member, &self.key, self.sight())
    }

    /// The same member in another period.
    fn at(&self, key: &str) -> String {
        self.to(&self.member, key, self.sight())
    }

    /// The same page with hidden members, or without them.
    fn seen(&self, hidden: &str) -> String {
        self.to(&self.member, &self.key, hidden)
    }

    fn is_own(&self, entry: &EntryBody) -> bool {
        entry.member.as_deref() == Some(&self.member)
    }
}

impl MemberBody {
    /// Where the member of a league stands between the zones of its cohort.
    fn seat(&self) -> Option<&SeatBody> {
        self.league.as_ref()?.seat.as_ref()
    }
}

impl SeatBody {
    /// How many points are between it and other zones, in words.
    fn ways(&self) -> Vec<String> {
        let ways = [
            (&self.to_promotion, "to promotion"),
            (&self.to_safety, "to safety"),
            (&self.to_demotion, "ahead of demotion"),
        ];
        let ways = ways.into_iter();
        let ways = ways.filter_map(|(points, way)| Some(format!("{} {way}", points.as_ref()?)));
        ways.collect()
    }
}

impl PreviousBody {
    /// How many ranks were gained or lost, in words.
    fn change(&self) -> String {
        let ranks = |count: u64| format!("{count} {}", if count == 1 { "rank" } else { "ranks" });
        match self.rank_change {
            None => String::new(),
            Some(0) => "same rank".to_owned(),
            Some(change) if change > 0 => format!("up {}", ranks(change.unsigned_abs())),
            Some(change) => format!("down {}", ranks(change.unsigned_abs())),
        }
    }
}

/// The page.
pub(super) async fn show(
    viewer: Viewer,
    Path((board, window)): Path<(String, String)>,
    Query(Params {
        member,
        key,
        hidden: sight,
        done: what,
    }): Query<Params>,
) -> Result<Response, Problem> {
    let may_moderate = viewer.may_on(Scope::Moderate, &board);
    let may_read = viewer.may_on(Scope::Read, &board);
    let query = [
        ("key", key.as_str()),
        ("around", AROUND),
        ("hidden", &sight),
        ("include", if may_read { "profile" } else { "" }),
    ];
    let path = [
        "v1",
        "boards",
        &board,
        "standings",
        &window,
        "members",
        &member,
    ];
    let read_at = address(&path, &query);
    let found = match viewer.read::<MemberBody>(&read_at).await {
        Ok(found) => Some(found),
        Err(problem) if problem.kind == MEMBER_NOT_FOUND => None,
        Err(problem) => return Err(problem),
    };
    let history = viewer.history(&board, &window, &member, &sight).await?;
    let summary = viewer.summary(&board).await?;
    let own = |part| address(&["v1", "boards", &board, part, &member], &[]);
    let mut curl = vec![viewer.curl(&read_at)];
    let may_write = viewer.may_on(Scope::Write, &board);
    let league = if may_moderate || may_write {
        let path = ["v1", "boards", &board, "standings", &window, "tiers"];
        viewer.find::<TiersBody>(&address(&path, &[])).await?
    } else {
        None
    };
    let may_join = may_write && league.is_some();
    let (mut hidden, mut player) = (None, None);
    if may_moderate {
        let hidden_at = own("hidden");
        hidden = viewer.find::<HiddenMember>(&hidden_at).await?;
        let why = json!({"reason": "cheating"});
        curl.push(match hidden {
            Some(_) => viewer.curl_to(&Method::DELETE, &hidden_at, None),
            None => viewer.curl_to(&Method::PUT, &hidden_at, Some(&why)),
        });
        player = viewer.player(&board, &member, &mut curl).await?;
    }
    if may_join {
        let own = json!({"member": member});
        let league = |part| address(&["v1", "boards", &board, "league", part], &[]);
        for part in ["members", "leave"] {
            curl.push(viewer.curl_to(&Method::POST, &league(part), Some(&own)));
        }
    }
    let may_erase = viewer.may_on(Scope::Admin, &board);
    if may_erase {
        let erased_at = own("members");
        curl.push(viewer.curl_to(&Method::DELETE, &erased_at, None));
    }
    let title = |name: &str| format!("{member}: {name}");
    let Opening {
        frame,
        heading,
        clock,
    } = Opening::of_standings(&viewer, &summary, title);
    html(&MemberPage {
        frame,
        heading,
        across: way_from(&viewer, &member, &board, &window),
        everywhere: is_for_people(&viewer).then(|| own_page(&member)),
        member,
        window,
        key,
        clock,
        found,
        history,
        may_moderate,
        may_see_hidden: may_moderate && may_read,
        counts_hidden: sight == "include",
        may_erase,
        hidden,
        player,
        tiers: league.map_or_else(Vec::new, |league| league.tiers),
        may_join,
        done: done(&what),
        curl: curl.join("\n"),
    })
}

impl Viewer {
    /// What moderators know of a member of a league; `None` where there is no league.
    async fn player(
        &self,
        board: &str,
        member: &str,
        curl: &mut Vec<String>,
    ) -> Result<Option<LeagueMemberState>, Problem> {
        let path = ["v1", "boards", board, "league", "members", member];
        let played_at = address(&path, &[]);
        let player = match self.read(&played_at).await {
            Err(problem) if [NO_LEAGUE, BOARD_CLOSED].contains(&problem.kind) => return Ok(None),
            player => player?,
        };
        curl.push(self.curl(&played_at));
        let order = json!({"tier": "TIER"});
        curl.push(self.curl_to(&Method::PUT, &played_at, Some(&order)));
        Ok(Some(player))
    }
}

/// Erases the member of the board.
pub(super) async fn erase(
    viewer: Viewer,
    Path(board): Path<String>,
    form: Form,
) -> Result<Response, Problem> {
    let member = form.field("member");
    form.confirm(member)?;
    let own = address(&["v1", "boards", &board, "members", member], &[]);
    viewer.order(Method::DELETE, &own, None).await?;
    Ok(back(&board, &form, "erased"))
}

/// Orders the tier of the member from the next period on.
pub(super) async fn order_tier(
    viewer: Viewer,
    Path(board): Path<String>,
    form: Form,
) -> Result<Response, Problem> {
    let path = [
        "v1",
        "boards",
        &board,
        "league",
        "members",
        form.field("member"),
    ];
    let order = json!({"tier": form.required("tier")?});
    let ordered_at = address(&path, &[]);
    viewer.order(Method::PUT, &ordered_at, Some(&order)).await?;
    Ok(back(&board, &form, "ordered"))
}

/// Has the member join the league.
pub(super) async fn join(
    viewer: Viewer,
    Path(board): Path<String>,
    form: Form,
) -> Result<Response, Problem> {
    let own = json!({"member": form.field("member")});
    let joined_by = address(&["v1", "boards", &board, "league", "members"], &[]);
    viewer.order(Method::POST, &joined_by, Some(&own)).await?;
    Ok(back(&board, &form, "joined"))
}

/// Has the member leave the league.
pub(super) async fn leave(
    viewer: Viewer,
    Path(board): Path<String>,
    form: Form,
) -> Result<Response, Problem> {
    let own = json!({"member": form.field("member")});
    let left_by = address(&["v1", "boards", &board, "league", "leave"], &[]);
    viewer.order(Method::POST, &left_by, Some(&own)).await?;
    Ok(back(&board, &form, "left"))
}
