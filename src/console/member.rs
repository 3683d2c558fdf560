//! What is known of a member, on a page of a board and on one for all boards: whether it is hidden, its rank and neighbours,
//! its other boards; and the forms that hide it, bring it back, erase it, and seat it in a league.

use askama::Template;
use axum::http::Method;
use serde_json::json;

use super::across::Across;
use super::board::{member_page, standing_page};
use super::case::{Case, Face};
use super::hidden::REASONS;
use super::history::History;
use super::movement::Moved;
use super::names::Item;
use super::shown::{self, pretty};
use super::standing::{float, share};
use super::{
    Answer, Form, Frame, Page, Path, Query, Viewer, address, html, if_there, unless, v1, v1_with,
};
use crate::domain::access::Scope;
use crate::domain::profile::Profile;
use crate::http::problem::{BOARD_CLOSED, MEMBER_NOT_FOUND, NO_LEAGUE, Problem};
use crate::leagues::routes::LeagueMemberState;
use crate::leagues::routes::tiers::{TierBody, TiersBody};
use crate::moderation::routes::{HiddenList, HiddenMember};
use crate::profiles::routes::MemberProfile;
use crate::standings::routes::answers::{EntryBody, MemberBody};
use crate::standings::routes::in_league::SeatBody;
use crate::standings::routes::summary::SummaryBody;

/// How many neighbours on each side are shown.
const AROUND: &str = "4";

/// A neighbour, and how long its bar is in percent.
struct Neighbour {
    entry: EntryBody,
    share: f64,
}

impl Neighbour {
    fn profile(&self) -> Option<&Profile> {
        Some(self.entry.profile.as_ref()?.as_ref()?.profile())
    }
}

/// A member in a standing.
struct Place {
    summary: SummaryBody,
    /// `None` if the member is not in the standing.
    found: Option<MemberBody>,
    around: Vec<Neighbour>,
    history: History,
    /// In a league, what moderators may know about it.
    player: Option<LeagueMemberState>,
    /// The tiers that it can be put into.
    tiers: Vec<TierBody>,
    /// Whether the viewer may let it join and leave a league.
    may_join: bool,
}

#[derive(Template)]
#[template(path = "console/member.html")]
pub(super) struct CasePage {
    frame: Frame,
    case: Case,
    face: Option<Face>,
    place: Option<Place>,
    /// Its hide on the board, and that on all boards, as far as the viewer may know.
    hidden: Option<HiddenMember>,
    hidden_everywhere: Option<HiddenMember>,
    across: Option<Across>,
    profile: Option<MemberProfile>,
    /// The form of the profile.
    filled: Form,
}

impl CasePage {
    /// What the member is called.
    fn called(&self) -> &str {
        self.face
            .as_ref()
            .map_or(&self.case.member, |face| &face.name)
    }

    fn picture(&self) -> Option<&str> {
        self.face.as_ref()?.avatar_url.as_deref()
    }

    /// Whether anything is known of the member, or may be without the viewer knowing.
    fn is_known(&self) -> bool {
        let of_place = |place: &Place| {
            place.found.is_some()
                || !place.history.lines.is_empty()
                || place.player.as_ref().is_some_and(|player| {
                    player.cohort.is_some() || player.order.is_some() || player.left_from.is_some()
                })
        };
        let is_unseen = self.place.is_none() && self.across.is_none();
        is_unseen
            || self.face.is_some()
            || self.hidden.is_some()
            || self.hidden_everywhere.is_some()
            || self.place.as_ref().is_some_and(of_place)
            || self
                .across
                .as_ref()
                .is_some_and(|across| !across.is_empty())
    }

    fn to_standing(&self) -> String {
        let Case {
            board,
            window,
            key,
            hidden,
            ..
        } = &self.case;
        standing_page(board, window, &[], &[("key", key), ("hidden", hidden)])
    }

    /// The address of the page of a member in a period of the window.
    fn to(&self, member: &str, key: &str, hidden: &str) -> String {
        member_page(&self.case.board, &self.case.window, member, key, hidden)
    }

    /// Where a form brings the member back, if it was just hidden.
    fn undo(&self) -> Option<String> {
        match self.case.done.as_str() {
            "hidden" => Some(address(
                &["console", "boards", &self.case.board, "unhide"],
                &[],
            )),
            "hiding" => Some("/console/member/moderate".to_owned()),
            _ => None,
        }
    }

    /// Its hides, each with where it is.
    fn hides(&self) -> Vec<(&HiddenMember, &'static str)> {
        let everywhere = self.hidden_everywhere.as_ref();
        let everywhere = everywhere.map(|hide| (hide, "on all boards"));
        let here = self.hidden.as_ref().map(|hide| (hide, "on this board"));
        everywhere.into_iter().chain(here).collect()
    }

    /// How it has moved since the previous period.
    fn moved(&self) -> Option<Moved> {
        let found = self.place.as_ref()?.found.as_ref()?;
        Some(Moved::by(found.previous.as_ref()?.rank_change?))
    }

    /// Its seat in the league.
    fn seat(&self) -> Option<&SeatBody> {
        let found = self.place.as_ref()?.found.as_ref()?;
        found.league.as_ref()?.seat.as_ref()
    }

    /// Whether there is something that the viewer may do.
    fn has_aside(&self) -> bool {
        let of_league = |place: &Place| place.player.is_some() || place.may_join;
        self.frame.may(Scope::Moderate) || self.place.as_ref().is_some_and(of_league)
    }

    /// What a review was about that was just stored.
    fn undone_review(&self) -> Option<String> {
        let is_undone = ["approved", "blocked"].contains(&&*self.case.done);
        self.item().filter(|_| is_undone)
    }

    /// What a review of the name is about.
    fn item(&self) -> Option<String> {
        self.profile
            .as_ref()
            .map(|profile| Item::of(profile).text())
    }
}

impl Page for CasePage {
    type Of = Case;
    type Params = ();

    async fn read(mut frame: Frame, case: &Case, (): ()) -> Result<Self, Problem> {
        let viewer = frame.visitor.clone();
        let member = case.member.as_str();
        let place = if case.is_of_board() {
            Some(Place::read(&mut frame, case).await?)
        } else {
            viewer.require_member()?;
            None
        };
        let (mut hidden, mut hidden_everywhere) = (None, None);
        if place.is_some() && frame.may(Scope::Moderate) {
            hidden = read_hide(&mut frame, &case.board, member).await?;
        }
        if viewer.may(Scope::Moderate) {
            let asked = v1_with(&["moderation"], &[("member", member)]);
            let mut found: HiddenList = viewer.read(&asked).await?;
            hidden_everywhere = found.hidden.pop();
        }
        let mut profile = None;
        if viewer.may(Scope::Write) {
            let profile_at = v1(&["members", member, "profile"]);
            profile = if_there(viewer.read::<MemberProfile>(&profile_at).await)?;
        }
        if place.is_none() {
            examples(&mut frame, member);
        }
        // The profile is filled in, unless its own form is shown again.
        let mut filled = frame.form.clone();
        if filled.given("name").is_none() {
            filled = profile.as_ref().map(filled_in).unwrap_or_default();
        }
        let across = Across::read(&mut frame, member, &case.board, &case.after).await?;
        let face = profile.as_ref().map(Face::of_member);
        let in_place = place.as_ref().and_then(|place| place.found.as_ref());
        let in_place = in_place.and_then(|found| Face::in_entry(&found.entry));
        let face = face.or(in_place).or_else(|| across.as_ref()?.face());
        let called = face.as_ref().map_or(member, |face| &face.name);
        let title = match frame.heading.board.is_empty() {
            true => called.to_owned(),
            false => format!("{called}: {}", frame.heading.name()),
        };
        let may_list = viewer.is_for_people() && place.is_none();
        let mut frame = frame.named(title).done(&case.done);
        if place.is_some() {
            let to_window = standing_page(&case.board, &case.window, &[], &[("key", &case.key)]);
            let name = shown::window(&case.window);
            frame = frame.under(&name, to_window);
        } else if may_list {
            frame = frame.under("Members", "/console/members");
        }
        Ok(Self {
            frame,
            case: case.clone(),
            face,
            place,
            hidden,
            hidden_everywhere,
            across,
            profile,
            filled,
        })
    }
}

impl Place {
    async fn read(frame: &mut Frame, case: &Case) -> Result<Self, Problem> {
        let viewer = frame.visitor.clone();
        let Case {
            member,
            board,
            window,
            ..
        } = case;
        let (may_read, may_write) = (
            viewer.may_on(Scope::Read, board),
            viewer.may_on(Scope::Write, board),
        );
        let query = [
            ("key", case.key.as_str()),
            ("around", AROUND),
            ("hidden", &case.hidden),
            ("include", if may_read { "profile" } else { "" }),
        ];
        let path = ["boards", board, "standings", window, "members", member];
        let found = frame.read::<MemberBody>(&path, &query).await;
        let mut found = unless(found, |kind| kind == MEMBER_NOT_FOUND)?;
        let history = viewer.history(board, window, member, &case.hidden).await?;
        let summary = frame
            .read_window((board, window), "Standings", member)
            .await?;
        let may_moderate = viewer.may_on(Scope::Moderate, board);
        let mut league = None;
        if may_moderate || may_write {
            let tiers_at = v1(&["boards", board, "standings", window, "tiers"]);
            league = if_there(viewer.read::<TiersBody>(&tiers_at).await)?;
        }
        let mut player = None;
        if may_moderate {
            player = read_player(frame, board, member).await?;
        }
        let may_join = may_write && league.is_some();
        if may_join {
            let own = json!({"member": member});
            for part in ["members", "leave"] {
                let path = ["boards", board, "league", part];
                frame.example(&Method::POST, &path, Some(&own));
            }
        }
        if frame.may(Scope::Admin) {
            let own = ["boards", board, "members", member];
            frame.example(&Method::DELETE, &own, None);
        }
        let around = found.as_mut().and_then(|found| found.around.take());
        Ok(Self {
            around: neighbours(&summary, around.unwrap_or_default()),
            summary,
            found,
            history,
            player,
            tiers: league.map_or_else(Vec::new, |league| league.tiers),
            may_join,
        })
    }
}

fn neighbours(summary: &SummaryBody, entries: Vec<EntryBody>) -> Vec<Neighbour> {
    let best = entries.first().map_or(0.0, |first| float(&first.score));
    let entries = entries.into_iter().map(|entry| Neighbour {
        share: share(summary.order, best, float(&entry.score)),
        entry,
    });
    entries.collect()
}

/// The form of a profile, filled in.
fn filled_in(profile: &MemberProfile) -> Form {
    let attributes = Some(pretty(&profile.attributes)).filter(|json| json != "{}");
    let fields = [
        ("name", profile.name.clone()),
        ("avatar_url", profile.avatar_url.clone().unwrap_or_default()),
        ("attributes", attributes.unwrap_or_default()),
    ];
    fields.into_iter().collect()
}

/// The commands of the page for all boards.
fn examples(frame: &mut Frame, member: &str) {
    if frame.may(Scope::Write) {
        let path = ["members", member, "profile"];
        frame.reading(&path, &[]);
        frame.example(&Method::PUT, &path, Some(&json!({"name": "Ann"})));
    }
    if frame.may(Scope::Moderate) {
        frame.reading(&["moderation"], &[("member", member)]);
        let order =
            json!({"action": "hide", "member": member, "reason": REASONS[0], "boards": "*"});
        frame.example(&Method::POST, &["moderation"], Some(&order));
    }
    if frame.may(Scope::Admin) {
        frame.example(&Method::DELETE, &["members", member], None);
    }
}

/// The page about a member of a standing.
pub(super) async fn show(
    viewer: Viewer,
    Path((board, window)): Path<(String, String)>,
    Query(case): Query<Case>,
) -> Answer {
    let case = Case {
        board,
        window,
        ..case
    };
    html(&CasePage::read(Frame::new(&viewer, ""), &case, ()).await?)
}

/// The page for all boards.
pub(super) async fn show_everywhere(viewer: Viewer, Query(case): Query<Case>) -> Answer {
    html(&CasePage::read(Frame::new(&viewer, ""), &case, ()).await?)
}

/// The member's hide, if it has one; with an example of how to hide it or to bring it back.
async fn read_hide(
    frame: &mut Frame,
    board: &str,
    member: &str,
) -> Result<Option<HiddenMember>, Problem> {
    let hidden_at = ["boards", board, "hidden", member];
    let hidden = if_there(frame.visitor.read(&v1(&hidden_at)).await)?;
    let why = json!({"reason": REASONS[0]});
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
    board: &str,
    member: &str,
) -> Result<Option<LeagueMemberState>, Problem> {
    let played_at = ["boards", board, "league", "members", member];
    let found = frame.visitor.read(&v1(&played_at)).await;
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
    let own = ["boards", &board, "members", member];
    let erased = async {
        form.confirm(member)?;
        viewer.order(Method::DELETE, &own, None).await
    };
    let case = Case::of_form(&board, &form);
    case.carry_out(&viewer, &form, erased, "erased").await
}

/// Sets the tier of the member from the next period on.
pub(super) async fn order_tier(viewer: Viewer, Path(board): Path<String>, form: Form) -> Answer {
    let member = form.field("member");
    let ordered_at = ["boards", &board, "league", "members", member];
    let ordered = async {
        let order = json!({"tier": form.required("tier")?});
        form.confirm(member)?;
        viewer.order(Method::PUT, &ordered_at, Some(&order)).await
    };
    let case = Case::of_form(&board, &form);
    case.carry_out(&viewer, &form, ordered, "ordered").await
}

/// Lets the member join the league.
pub(super) async fn join(viewer: Viewer, Path(board): Path<String>, form: Form) -> Answer {
    seat(&viewer, &board, &form, "members", "joined").await
}

/// Lets the member leave the league.
pub(super) async fn leave(viewer: Viewer, Path(board): Path<String>, form: Form) -> Answer {
    seat(&viewer, &board, &form, "leave", "left").await
}

async fn seat(viewer: &Viewer, board: &str, form: &Form, part: &str, done: &str) -> Answer {
    let own = json!({"member": form.field("member")});
    let path = ["boards", board, "league", part];
    let seated = viewer.order(Method::POST, &path, Some(&own));
    let case = Case::of_form(board, form);
    case.carry_out(viewer, form, seated, done).await
}
