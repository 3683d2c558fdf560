//! The progress of a topic: the current page, and the last messages about members.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::watch::{self, Receiver};

use super::message::{StreamMessage, WrittenPage, content_of_member};
use crate::core::read::look::Moment;
use crate::domain::edition::Edition;
use crate::domain::ids::MemberId;
use crate::http::problem::Problem;
use crate::standings::routes::answers::EntryBody;

/// The last news of a topic.
#[derive(Clone, Debug, Default)]
pub(super) enum News {
    /// Nothing yet.
    #[default]
    None,
    /// The content of the standing.
    Message(Arc<StreamMessage>),
    /// The end of the topic, and its reason.
    End(Arc<Problem>),
}

/// The progress of a topic. The task that holds it reads the standing for all watchers.
#[derive(Debug, Default)]
pub(super) struct TopicProgress {
    pub(super) shown: Option<ShownPage>,
    pub(super) members: HashMap<MemberId, WatchedMember>,
    /// The members whose entries are to be read, in order.
    pub(super) turns: VecDeque<MemberId>,
}

/// The current page.
#[derive(Debug)]
pub(super) struct ShownPage {
    /// The state of the standing seen before the page was read.
    pub(super) moment: Moment,
    /// The page includes everything acknowledged by then.
    pub(super) as_of: Instant,
    pub(super) read_at: Instant,
    pub(super) generation: u64,
    pub(super) edition: Edition,
    /// Whether moments cover all of its content.
    pub(super) is_told: bool,
    pub(super) key: String,
    /// A hash of its content.
    pub(super) content: u128,
    pub(super) written: WrittenPage,
    pub(super) entries: Vec<EntryBody>,
    /// The ranks in the previous message; empty if that was about another period.
    pub(super) before: Ranks,
}

pub(super) type Ranks = HashMap<Arc<str>, Option<u64>>;

#[derive(Debug, Default)]
pub(super) struct WatchedMember {
    pub(super) news: watch::Sender<News>,
    /// Whether it waits to be read.
    pub(super) waits: bool,
    told: Option<MemberTold>,
}

/// The last message about a member.
#[derive(Debug)]
struct MemberTold {
    key: String,
    /// The hashes of the page and of its entry.
    contents: [u128; 2],
    /// Its rank, now and in the previous message.
    ranks: [Option<u64>; 2],
}

impl TopicProgress {
    /// Subscribes to a member's messages.
    pub(super) fn subscribe(&mut self, member: &MemberId) -> Receiver<News> {
        let known = self.members.entry(member.clone());
        known.or_default().news.subscribe()
    }

    /// Whether the entry of a member must be read before the next message about it.
    pub(super) fn is_behind(&self, member: &MemberId) -> bool {
        let known = self.members.get(member);
        known.is_none_or(|known| known.waits || known.told.is_none())
    }

    /// Removes members without watchers.
    pub(super) fn forget_those_who_left(&mut self) {
        self.members
            .retain(|_, member| member.news.receiver_count() > 0);
    }
}

impl ShownPage {
    /// The entry of a member, if the page has it.
    pub(super) fn entry(&self, member: &str) -> Option<&EntryBody> {
        let is_own = |entry: &&EntryBody| entry.member.as_deref() == Some(member);
        self.entries.iter().find(is_own)
    }

    pub(super) fn ranks(&self) -> Ranks {
        self.entries
            .iter()
            .filter_map(|entry| Some((entry.member.clone()?, entry.rank)))
            .collect()
    }
}

impl WatchedMember {
    /// Sends a page and a member's entry to the member's watchers. `edition`: that of the entry, if it differs from that of
    /// the page.
    pub(super) fn tell(
        &mut self,
        shown: &ShownPage,
        me: Option<EntryBody>,
        edition: Option<&Edition>,
    ) -> Result<(), Problem> {
        let mut me = me.map(|me| EntryBody {
            previous_rank: None,
            ..me
        });
        let contents = [shown.content, content_of_member(me.as_ref())?];
        let rank = me.as_ref().and_then(|me| me.rank);
        let before = self.told.take().filter(|before| before.key == shown.key);
        let (is_same, ranks) = match before {
            Some(before) if before.contents == contents => (true, before.ranks),
            Some(before) => (false, [rank, before.ranks[0]]),
            None => (false, [rank, None]),
        };
        if let Some(me) = &mut me {
            me.previous_rank = Some(ranks[1]);
        }
        let edition = edition.map(ToString::to_string);
        let untold = (!shown.is_told).then_some(contents[1]);
        let message = Arc::new(shown.written.with_member(me.as_ref(), edition, untold)?);
        self.news.send_if_modified(|news| {
            *news = News::Message(message);
            !is_same
        });
        self.waits = false;
        self.told = Some(MemberTold {
            key: shown.key.clone(),
            contents,
            ranks,
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_that_nobody_watches_is_forgotten() {
        let member = |text: &str| MemberId::parse(text).unwrap();
        let mut progress = TopicProgress::default();
        let stays = progress.subscribe(&member("ann"));
        let leaves = [(); 2].map(|()| progress.subscribe(&member("bob")));
        progress.forget_those_who_left();
        assert_eq!(progress.members.len(), 2);
        drop(leaves);
        progress.forget_those_who_left();
        assert!(progress.is_behind(&member("bob")));
        let left: Vec<_> = progress.members.keys().collect();
        assert_eq!(left, [&member("ann")]);
        drop(stays);
        progress.forget_those_who_left();
        assert!(progress.members.is_empty());
    }
}
