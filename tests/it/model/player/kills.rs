//! Servers are killed. What comes in meanwhile is sent until it is taken.

use futures::future::{join, join3};
use parking_lot::Mutex;
use standings::domain::problems::KINDS;

use super::closings::close_periods;
use super::moderation::hide_all;
use super::sending::post;
use super::{Closed, Game, Hiding, Outcome, Request, Sent, expect_equal, without_lists};
use crate::harness::World;
use crate::harness::redis::eventually;
use crate::model::cases::{Batch, Detail, Pick};
use crate::model::naive::{Model, Verdict};

impl Game<'_> {
    /// Kills a server and starts it again. Events that come in meanwhile are sent until they are taken.
    pub(super) async fn kill(
        &mut self,
        server: Pick,
        during: Option<&Batch>,
        closed: Option<Closed>,
        hides: &[Hiding],
    ) -> Result<(), String> {
        let has_quotas = |(_, model): &(String, Model)| !model.board.quotas.is_empty();
        let any_order = !self.needs_order() && !self.boards.iter().any(has_quotas);
        let request = during.map(|batch| self.prepare(batch));
        self.log.push(format!("server {server} is killed"));
        let killed = async {
            self.world.redis.kill_one(server.into()).await;
            without_lists(self.world).await;
            for instance in &self.world.instances {
                eventually("the instance reaches all servers", async || {
                    instance.engine.store.prepare().await.is_ok()
                })
                .await;
            }
        };
        let hidden = hide_all(self.world, server, hides);
        let closing = async {
            if let Some(closed) = &closed {
                close_periods(self.world, server, closed, None).await;
            }
        };
        let disturbed = join3(killed, closing, hidden);
        match request {
            Some(request) if any_order && request.detail != Detail::Ranks => {
                let sent = post_until_taken(self.world, &self.boards, &request);
                let (((), (), hidden), outcomes) = join(disturbed, sent).await;
                let outcomes = outcomes?;
                hidden?;
                self.log.push("meanwhile".to_owned());
                self.log_sent(&request, &outcomes);
                let answered = request.events.into_iter().zip(outcomes);
                self.compare_repeated(answered, closed.as_ref())?;
                self.note_hides_amid(hides, closed.as_ref());
                Ok(())
            }
            request => {
                let ((), (), hidden) = disturbed.await;
                hidden?;
                if let Some(closed) = &closed {
                    self.note_closed(closed);
                }
                self.note_hides_amid(hides, closed.as_ref());
                match request {
                    Some(request) => self.send_request(request).await,
                    None => Ok(()),
                }
            }
        }
    }

    /// Compares what became of events that may have been taken at an earlier try. These periods were closed meanwhile.
    fn compare_repeated(
        &mut self,
        answered: impl Iterator<Item = (Sent, Outcome)>,
        closed: Option<&Closed>,
    ) -> Result<(), String> {
        let (others, known): (Vec<_>, Vec<_>) =
            answered.partition(|(_, outcome)| outcome.problem.is_some());
        let mut moments = vec![self.boards.clone()];
        for (sent, outcome) in known {
            let model = &mut self.boards[sent.board].1;
            let what = format!("{sent:?}, at last {outcome:?}");
            match model.take(&sent.event, self.now, outcome.at) {
                Verdict::Taken => model.remember(outcome.standings),
                Verdict::Duplicate(at, standings) => {
                    expect_equal(&what, &outcome.status.as_str(), &"duplicate")?;
                    expect_equal(&what, &outcome.at, &Some(at))?;
                    expect_equal(&what, &outcome.standings, &standings)?;
                }
                Verdict::Rejected(problem) => return Err(format!("{what}: {problem}")),
            }
            moments.push(self.boards.clone());
        }
        self.compare_refused(&others, moments, closed)
    }
}

/// Sends a batch again and again, or each of its events, as long as a server is missing.
async fn post_until_taken(
    world: &World,
    boards: &[(String, Model)],
    request: &Request,
) -> Result<Vec<Outcome>, String> {
    if !request.is_single {
        return post_one_until_taken(world, boards, request).await;
    }
    let mut outcomes = Vec::new();
    for (sent, body) in request.events.iter().zip(&request.bodies) {
        let one = Request {
            events: vec![sent.clone()],
            bodies: vec![body.clone()],
            ..*request
        };
        outcomes.extend(post_one_until_taken(world, boards, &one).await?);
    }
    Ok(outcomes)
}

async fn post_one_until_taken(
    world: &World,
    boards: &[(String, Model)],
    request: &Request,
) -> Result<Vec<Outcome>, String> {
    let taken: Mutex<Option<Result<Vec<Outcome>, String>>> = Mutex::default();
    eventually("the events are taken", async || {
        let outcomes = post(world, boards, request).await;
        let is_missing = |outcome: &Outcome| {
            let code = outcome
                .problem
                .as_deref()
                .and_then(|kind| kind.strip_prefix("/problems/"));
            code.is_some_and(|code| {
                KINDS
                    .iter()
                    .any(|kind| kind.name == code && kind.status == 503)
            })
        };
        let is_over = !outcomes
            .as_ref()
            .is_ok_and(|outcomes| outcomes.iter().any(is_missing));
        *taken.lock() = Some(outcomes);
        is_over
    })
    .await;
    taken.into_inner().unwrap()
}
