//! What is known of a member, on a page of a board and on one for all boards: whether it is hidden, its rank and neighbours,
//! its kept events, its other boards; and the forms that hide it, bring it back, erase it, correct its events, and seat it in a
//! league.

use tokio::join;

use super::across::Across;
use super::board::{member_page, standing_page};
use super::case::{Case, Face};
use super::hidden::REASONS;
use super::kept::Kept;
use super::movement::Moved;
use super::names::Item;
use super::place::Place;
use super::prelude::*;
use super::shown::{pretty, window};
use crate::history::routes::KeptEventBody;
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
    kept: Option<Kept>,
    across: Option<Across>,
    profile: Option<MemberProfile>,
    /// The form of the profile.
    filled: Form,
}

impl CasePage {
    /// What the member is called.
    fn called(&self) -> &str {
        let face = self.face.as_ref();
        face.map_or(&self.case.member, |face| &face.name)
    }

    fn picture(&self) -> Option<&str> {
        self.face.as_ref()?.avatar_url.as_deref()
    }

    /// Whether anything is known of the member, or may be without the viewer knowing.
    fn is_known(&self) -> bool {
        let is_unseen = self.place.is_none() && self.across.is_none();
        let has_place = self.place.as_ref().is_some_and(Place::is_known);
        let kept = self.kept.as_ref();
        let across = self.across.as_ref();
        is_unseen
            || self.face.is_some()
            || !self.hides().is_empty()
            || has_place
            || kept.is_some_and(|kept| !kept.events.is_empty())
            || across.is_some_and(|across| !across.is_empty())
    }

    /// Whether the form of this event was refused.
    fn is_refused(&self, event: &KeptEventBody) -> bool {
        let form = &self.frame.form;
        form.field("event") == event.id && form.field("player") == event.player()
    }

    fn to_standing(&self) -> String {
        let query = [("key", &*self.case.key), ("hidden", &self.case.hidden)];
        standing_page(&self.case.board, &self.case.window, &[], &query)
    }

    /// The address of the page of a member in a period of the window.
    fn to(&self, member: &str, key: &str, hidden: &str) -> String {
        member_page(&self.case.board, &self.case.window, member, key, hidden)
    }

    /// Where a form brings the member back, if it was just hidden.
    fn undo(&self) -> Option<String> {
        match self.frame.param("done") {
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
        let everywhere = self.hidden_everywhere.iter();
        let everywhere = everywhere.map(|hide| (hide, "on all boards"));
        let here = self.hidden.iter().map(|hide| (hide, "on this board"));
        everywhere.chain(here).collect()
    }

    /// Whether there is something that the viewer may do.
    fn has_aside(&self) -> bool {
        let has_seat = self.place.as_ref().is_some_and(Place::has_seat);
        self.frame.may(Scope::Moderate) || has_seat
    }

    /// What a review was about that was just stored.
    fn undone_review(&self) -> Option<String> {
        let is_undone = ["approved", "blocked"].contains(&self.frame.param("done"));
        self.item().filter(|_| is_undone)
    }

    /// What a review of the name is about.
    fn item(&self) -> Option<String> {
        let profile = self.profile.as_ref()?;
        Some(Item::of(profile).text())
    }
}

impl Page for CasePage {
    async fn read(mut frame: Frame) -> Result<Self, Problem> {
        let case = Case::of(&frame)?;
        let visitor = &frame.visitor;
        if !case.is_of_board() {
            visitor.require_member()?;
        }
        let (place, hidden, hidden_everywhere, profile, kept, across, _) = join!(
            Place::read(visitor, &case),
            read_hide(visitor, &case),
            read_hide_everywhere(visitor, &case.member),
            read_profile(visitor, &case.member),
            Kept::read(visitor, &case),
            Across::read(visitor, &case),
            frame.look_around(),
        );
        let place = place?;
        let (hidden, hidden_everywhere, profile) = (hidden?, hidden_everywhere?, profile?);
        let (kept, across) = (kept?, across?);
        examples(&mut frame, &case, place.as_ref(), hidden.is_some());
        if let Some(kept) = &kept {
            kept.examples(&mut frame, &case.board);
        }
        let read_across = across.iter().flat_map(|across| &across.curl);
        frame.curl.extend(read_across.cloned());
        // The profile is filled in, unless its own form is shown again.
        let mut filled = frame.form.clone();
        if filled.given("name").is_none() {
            filled = profile.as_ref().map(filled_in).unwrap_or_default();
        }
        let face = profile.as_ref().map(Face::of_member);
        let face = face.or_else(|| place.as_ref()?.face());
        let face = face.or_else(|| across.as_ref()?.face());
        let called = face.as_ref().map_or(&case.member, |face| &face.name);
        Ok(Self {
            frame: framed(frame, &case, called),
            face,
            place,
            hidden,
            hidden_everywhere,
            kept,
            across,
            profile,
            filled,
            case,
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

/// Sets the heading of a page of a board, and adds the commands of what it shows and of what can be done.
fn examples(frame: &mut Frame, case: &Case, place: Option<&Place>, is_hidden: bool) {
    let Case { member, board, .. } = case;
    if let Some(place) = place {
        frame.set_standing(&place.summary, &case.window, "Standings", member);
        place.examples(frame, case);
        if frame.may(Scope::Moderate) {
            let hidden_at = ["boards", board, "hidden", member];
            if is_hidden {
                frame.example(&Method::DELETE, &hidden_at, None);
            } else {
                let why = json!({"reason": REASONS[0]});
                frame.example(&Method::PUT, &hidden_at, Some(&why));
            }
        }
        return;
    }
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

/// The frame, with the title and the pages above.
fn framed(frame: Frame, case: &Case, called: &str) -> Frame {
    if case.is_of_board() {
        let title = format!("{called}: {}", frame.heading.name());
        let to_window = standing_page(&case.board, &case.window, &[], &[("key", &case.key)]);
        return frame.named(title).under(&window(&case.window), to_window);
    }
    let frame = frame.named(called);
    if frame.visitor.is_for_people() {
        frame.under("Members", "/console/members")
    } else {
        frame
    }
}

/// The member's hide on the board of the page, as far as the viewer may know.
async fn read_hide(visitor: &Visitor, case: &Case) -> Result<Option<HiddenMember>, Problem> {
    if !case.is_of_board() || !visitor.may_on(Scope::Moderate, &case.board) {
        return Ok(None);
    }
    let hidden_at = v1(&["boards", &case.board, "hidden", &case.member]);
    if_there(visitor.read(&hidden_at).await)
}

/// Its hide on all boards, as far as the viewer may know.
async fn read_hide_everywhere(
    visitor: &Visitor,
    member: &str,
) -> Result<Option<HiddenMember>, Problem> {
    if !visitor.may(Scope::Moderate) {
        return Ok(None);
    }
    let asked = v1_with(&["moderation"], &[("member", member)]);
    let mut found: HiddenList = visitor.read(&asked).await?;
    Ok(found.hidden.pop())
}

/// Its profile, if the viewer may read it.
async fn read_profile(visitor: &Visitor, member: &str) -> Result<Option<MemberProfile>, Problem> {
    if !visitor.may(Scope::Write) {
        return Ok(None);
    }
    let profile_at = v1(&["members", member, "profile"]);
    if_there(visitor.read(&profile_at).await)
}
