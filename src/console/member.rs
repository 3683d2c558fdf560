//! What is known of a member, on a page of a board and on one for all boards: whether it is hidden, its rank and neighbours,
//! its other boards; and the forms that hide it, bring it back, erase it, and seat it in a league.

use askama::Template;
use axum::http::Method;
use serde_json::json;

use super::across::Across;
use super::board::{member_page, standing_page};
use super::case::{Case, Face};
use super::hidden::REASONS;
use super::movement::Moved;
use super::names::Item;
use super::place::Place;
use super::shown::{self, pretty};
use super::{Answer, Form, Frame, Page, Path, Query, Viewer, address, html, if_there, v1, v1_with};
use crate::domain::access::Scope;
use crate::http::problem::Problem;
use crate::moderation::routes::{HiddenList, HiddenMember};
use crate::profiles::routes::MemberProfile;

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
        let is_unseen = self.place.is_none() && self.across.is_none();
        is_unseen
            || self.face.is_some()
            || !self.hides().is_empty()
            || self.place.as_ref().is_some_and(Place::is_known)
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

    /// Whether there is something that the viewer may do.
    fn has_aside(&self) -> bool {
        let has_seat = self.place.as_ref().is_some_and(Place::has_seat);
        self.frame.may(Scope::Moderate) || has_seat
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
        let [hidden, hidden_everywhere] = read_hides(&mut frame, case).await?;
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
        let face = face.or_else(|| place.as_ref()?.face());
        let face = face.or_else(|| across.as_ref()?.face());
        let called = face.as_ref().map_or(member, |face| &face.name);
        Ok(Self {
            frame: framed(frame, case, called),
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

/// The frame, with the title and the pages above.
fn framed(frame: Frame, case: &Case, called: &str) -> Frame {
    let frame = frame.done(&case.done);
    if case.is_of_board() {
        let title = format!("{called}: {}", frame.heading.name());
        let to_window = standing_page(&case.board, &case.window, &[], &[("key", &case.key)]);
        let window = shown::window(&case.window);
        return frame.named(title).under(&window, to_window);
    }
    let frame = frame.named(called);
    if frame.visitor.is_for_people() {
        frame.under("Members", "/console/members")
    } else {
        frame
    }
}

/// The member's hides on the board of the page and on all boards, as far as the viewer may know; with an example of how to
/// hide it on the board, or to bring it back.
async fn read_hides(frame: &mut Frame, case: &Case) -> Result<[Option<HiddenMember>; 2], Problem> {
    let (mut here, mut everywhere) = (None, None);
    if case.is_of_board() && frame.may(Scope::Moderate) {
        let hidden_at = ["boards", &case.board, "hidden", &case.member];
        here = if_there(frame.visitor.read(&v1(&hidden_at)).await)?;
        let why = json!({"reason": REASONS[0]});
        let (method, why) = match here {
            Some(_) => (Method::DELETE, None),
            None => (Method::PUT, Some(&why)),
        };
        frame.example(&method, &hidden_at, why);
    }
    if frame.visitor.may(Scope::Moderate) {
        let asked = v1_with(&["moderation"], &[("member", &case.member)]);
        let mut found: HiddenList = frame.visitor.read(&asked).await?;
        everywhere = found.hidden.pop();
    }
    Ok([here, everywhere])
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
