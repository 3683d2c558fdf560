//! A member of a standing: its rank and its neighbours; and forms that hide it, bring it back, let it join or leave a
//! league, set its tier and erase it.

use askama::Template;
use axum::http::Method;
use serde::Deserialize;
use serde_json::json;

use super::across::way_from;
use super::board::{member_page, standing_page};
use super::hidden::back;
use super::history::History;
use super::members::own_page;
use super::{Answer, Form, Frame, Path, Query, Viewer, html, if_there, unless, v1};
use crate::domain::access::Scope;
use crate::http::problem::{BOARD_CLOSED, MEMBER_NOT_FOUND, NO_LEAGUE, Problem};
use crate::leagues::routes::LeagueMemberState;
use crate::leagues::routes::tiers::{TierBody, TiersBody};
use crate::moderation::routes::HiddenMember;
use crate::standings::routes::answers::MemberBody;

/// How many neighbours on each side are shown.
const AROUND: &str = "5";

/// Which member, and in which period.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Params {
    member: String,
    #[serde(default)]
    key: String,
    /// `include`: hidden members count for the ranks and totals of the page; empty: they do not.
    #[serde(default)]
    hidden: String,
    /// What was done before the page was shown.
    #[serde(default)]
    done: String,
}

#[derive(Template)]
#[template(path = "console/member.html")]
struct MemberPage {
    frame: Frame,
    params: Params,
    window: String,
    /// `None` if the member is not in the standing.
    found: Option<MemberBody>,
    history: History,
    /// Its hide, if it has one and the viewer may know.
    hidden: Option<HiddenMember>,
    /// In a league, what moderators may know about it.
    player: Option<LeagueMemberState>,
    /// The tiers that it can be put into.
    tiers: Vec<TierBody>,
    /// Whether the viewer may let it join and leave a league.
    may_join: bool,
    /// Its page with standings of many boards, if the viewer may see it.
    across: Option<String>,
    /// Its page for all boards, if the viewer may do anything there.
    everywhere: Option<String>,
}

impl MemberPage {
    fn to_standing(&self) -> String {
        let Params { key, hidden, .. } = &self.params;
        let query = [("key", key.as_str()), ("hidden", hidden)];
        standing_page(&self.frame.heading.board, &self.window, &[], &query)
    }

    /// The address of the page of a member in a period of the window.
    fn to(&self, member: &str, key: &str, hidden: &str) -> String {
        member_page(&self.frame.heading.board, &self.window, member, key, hidden)
    }
}

/// The page.
pub(super) async fn show(
    viewer: Viewer,
    Path((board, window)): Path<(String, String)>,
    Query(params): Query<Params>,
) -> Answer {
    let mut frame = Frame::new(&viewer, "").done(&params.done);
    let (member, hidden) = (params.member.as_str(), params.hidden.as_str());
    let may_moderate = viewer.may_on(Scope::Moderate, &board);
    let may_read = viewer.may_on(Scope::Read, &board);
    let query = [
        ("key", params.key.as_str()),
        ("around", AROUND),
        ("hidden", hidden),
        ("include", if may_read { "profile" } else { "" }),
    ];
    let path = ["boards", &board, "standings", &window, "members", member];
    let found = frame.read(&path, &query).await;
    let found = unless(found, |kind| kind == MEMBER_NOT_FOUND)?;
    let history = viewer.history(&board, &window, member, hidden).await?;
    frame
        .read_window((&board, &window), "Standings", member)
        .await?;
    let may_write = viewer.may_on(Scope::Write, &board);
    let league = if may_moderate || may_write {
        let tiers_at = v1(&["boards", &board, "standings", &window, "tiers"]);
        if_there(viewer.read::<TiersBody>(&tiers_at).await)?
    } else {
        None
    };
    let may_join = may_write && league.is_some();
    let (mut hidden, mut player) = (None, None);
    if may_moderate {
        hidden = read_hide(&mut frame, &viewer, &board, member).await?;
        player = read_player(&mut frame, &viewer, &board, member).await?;
    }
    if may_join {
        let own = json!({"member": member});
        for part in ["members", "leave"] {
            let path = ["boards", &board, "league", part];
            frame.example(&Method::POST, &path, Some(&own));
        }
    }
    if frame.may(Scope::Admin) {
        let own = ["boards", &board, "members", member];
        frame.example(&Method::DELETE, &own, None);
    }
    html(&MemberPage {
        across: way_from(&viewer, member, &board, &window),
        everywhere: viewer.is_for_people().then(|| own_page(member)),
        frame,
        params,
        window,
        found,
        history,
        hidden,
        player,
        tiers: league.map_or_else(Vec::new, |league| league.tiers),
        may_join,
    })
}

/// The member's hide, if it has one; with an example of how to hide it or to bring it back.
async fn read_hide(
    frame: &mut Frame,
    viewer: &Viewer,
    board: &str,
    member: &str,
) -> Result<Option<HiddenMember>, Problem> {
    let hidden_at = ["boards", board, "hidden", member];
    let hidden = if_there(viewer.read(&v1(&hidden_at)).await)?;
    let why = json!({"reason": "cheating"});
    let (method, why) = match hidden {
        Some(_) => (Method::DELETE, None),
        None => (Method::PUT, Some(&why)),
    };
    frame.example(&method, &hidden_at, why);
    Ok(hidden)
}

/// What moderators may know about a member of a league; `None` if the board is no league, or is closed.
async fn read_player(
    frame: &mut Frame,
    viewer: &Viewer,
    board: &str,
    member: &str,
) -> Result<Option<LeagueMemberState>, Problem> {
    let played_at = ["boards", board, "league", "members", member];
    let found = viewer.read(&v1(&played_at)).await;
    let player = unless(found, |kind| [NO_LEAGUE, BOARD_CLOSED].contains(&kind))?;
    if player.is_some() {
        frame.reading(&played_at, &[]);
        frame.example(&Method::PUT, &played_at, Some(&json!({"tier": "TIER"})));
    }
    Ok(player)
}

/// Erases the member of the board.
pub(super) async fn erase(viewer: Viewer, Path(board): Path<String>, form: Form) -> Answer {
    let member = form.field("member");
    form.confirm(member)?;
    let own = ["boards", &board, "members", member];
    viewer.order(Method::DELETE, &own, None).await?;
    Ok(back(&board, &form, "erased"))
}

/// Sets the tier of the member from the next period on.
pub(super) async fn order_tier(viewer: Viewer, Path(board): Path<String>, form: Form) -> Answer {
    let member = form.field("member");
    let order = json!({"tier": form.required("tier")?});
    form.confirm(member)?;
    let ordered_at = ["boards", &board, "league", "members", member];
    viewer.order(Method::PUT, &ordered_at, Some(&order)).await?;
    Ok(back(&board, &form, "ordered"))
}

/// Lets the member join the league.
pub(super) async fn join(viewer: Viewer, Path(board): Path<String>, form: Form) -> Answer {
    let own = json!({"member": form.field("member")});
    let joined_by = ["boards", &board, "league", "members"];
    viewer.order(Method::POST, &joined_by, Some(&own)).await?;
    Ok(back(&board, &form, "joined"))
}

/// Lets the member leave the league.
pub(super) async fn leave(viewer: Viewer, Path(board): Path<String>, form: Form) -> Answer {
    let own = json!({"member": form.field("member")});
    let left_by = ["boards", &board, "league", "leave"];
    viewer.order(Method::POST, &left_by, Some(&own)).await?;
    Ok(back(&board, &form, "left"))
}
