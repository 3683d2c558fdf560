//! A member of a standing: its rank and its neighbours; the forms that hide it, bring it back, have it join or leave a
//! league, order its tier and erase it.

use askama::Template;
use axum::http::Method;
use serde::Deserialize;
use serde_json::json;

use super::across::way_from;
use super::board::{member_page, standing_page};
use super::hidden::back;
use super::history::History;
use super::members::{is_for_people, own_page};
use super::{Answer, Form, Frame, Path, Query, Viewer, html, v1, v1_with};
use crate::domain::access::Scope;
use crate::http::leagues::LeagueMemberState;
use crate::http::moderation::HiddenMember;
use crate::http::problem::{BOARD_CLOSED, MEMBER_NOT_FOUND, NO_LEAGUE, Problem};
use crate::http::standings::answers::MemberBody;
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
    member: String,
    window: String,
    key: String,
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
}

impl MemberPage {
    fn to_standing(&self) -> String {
        let query = [("key", self.key.as_str()), ("hidden", self.sight())];
        standing_page(&self.frame.heading.board, &self.window, &[], &query)
    }

    /// What the parameter `hidden` says.
    fn sight(&self) -> &'static str {
        if self.counts_hidden { "include" } else { "" }
    }

    /// The page of a member in a period of the window.
    fn to(&self, member: &str, key: &str, hidden: &str) -> String {
        member_page(&self.frame.heading.board, &self.window, member, key, hidden)
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
) -> Answer {
    let may_moderate = viewer.may_on(Scope::Moderate, &board);
    let may_read = viewer.may_on(Scope::Read, &board);
    let query = [
        ("key", key.as_str()),
        ("around", AROUND),
        ("hidden", &sight),
        ("include", if may_read { "profile" } else { "" }),
    ];
    let path = ["boards", &board, "standings", &window, "members", &member];
    let read_at = v1_with(&path, &query);
    let found = match viewer.read::<MemberBody>(&read_at).await {
        Ok(found) => Some(found),
        Err(problem) if problem.kind == MEMBER_NOT_FOUND => None,
        Err(problem) => return Err(problem),
    };
    let history = viewer.history(&board, &window, &member, &sight).await?;
    let summary = viewer.summary(&board).await?;
    let own = |part| v1(&["boards", &board, part, &member]);
    let mut curl = vec![viewer.curl(&read_at)];
    let may_write = viewer.may_on(Scope::Write, &board);
    let league = if may_moderate || may_write {
        let tiers_at = v1(&["boards", &board, "standings", &window, "tiers"]);
        viewer.find::<TiersBody>(&tiers_at).await?
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
        let league = |part| v1(&["boards", &board, "league", part]);
        for part in ["members", "leave"] {
            curl.push(viewer.curl_to(&Method::POST, &league(part), Some(&own)));
        }
    }
    let may_erase = viewer.may_on(Scope::Admin, &board);
    if may_erase {
        curl.push(viewer.curl_to(&Method::DELETE, &own("members"), None));
    }
    html(&MemberPage {
        frame: Frame::of_standings(&viewer, &summary, &member)
            .done(&what)
            .curl(curl),
        across: way_from(&viewer, &member, &board, &window),
        everywhere: is_for_people(&viewer).then(|| own_page(&member)),
        member,
        window,
        key,
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
        let played_at = v1(&["boards", board, "league", "members", member]);
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
pub(super) async fn erase(viewer: Viewer, Path(board): Path<String>, form: Form) -> Answer {
    let member = form.field("member");
    form.confirm(member)?;
    let own = v1(&["boards", &board, "members", member]);
    viewer.order(Method::DELETE, &own, None).await?;
    Ok(back(&board, &form, "erased"))
}

/// Orders the tier of the member from the next period on.
pub(super) async fn order_tier(viewer: Viewer, Path(board): Path<String>, form: Form) -> Answer {
    let order = json!({"tier": form.required("tier")?});
    let member = form.field("member");
    let ordered_at = v1(&["boards", &board, "league", "members", member]);
    viewer.order(Method::PUT, &ordered_at, Some(&order)).await?;
    Ok(back(&board, &form, "ordered"))
}

/// Has the member join the league.
pub(super) async fn join(viewer: Viewer, Path(board): Path<String>, form: Form) -> Answer {
    let own = json!({"member": form.field("member")});
    let joined_by = v1(&["boards", &board, "league", "members"]);
    viewer.order(Method::POST, &joined_by, Some(&own)).await?;
    Ok(back(&board, &form, "joined"))
}

/// Has the member leave the league.
pub(super) async fn leave(viewer: Viewer, Path(board): Path<String>, form: Form) -> Answer {
    let own = json!({"member": form.field("member")});
    let left_by = v1(&["boards", &board, "league", "leave"]);
    viewer.order(Method::POST, &left_by, Some(&own)).await?;
    Ok(back(&board, &form, "left"))
}
