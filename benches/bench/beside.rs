//! The service under load, and its reference in turn with it.

use std::time::Duration;

use tokio_util::task::AbortOnDropHandle;

use crate::Result;
use crate::bare::Bare;
use crate::boards::Board;
use crate::http::Connection;
use crate::load::Sample;
use crate::reference::Script;
use crate::requests::{self, Members, Requests};
use crate::rows::Measured;
use crate::service::Kept;
use crate::session::Session;
use crate::workload::Workload;

/// The pause between two events of the writer that keeps a board live.
const WRITER_INTERVAL: Duration = Duration::from_millis(10);

/// A reference, and what it is measured with.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Beside {
    /// H: the same answers without any work.
    Bare,
    /// H, while somebody sends a few events to the board of the service.
    BareWithWriter,
    /// R: a textbook script.
    Script {
        /// The script.
        script: Script,
        /// What an event of the service counts for.
        ours: usize,
        /// What a call of the script counts for.
        theirs: usize,
    },
    /// The service itself, with the same load on another board.
    Board(&'static Board),
}

impl Beside {
    /// A script of which a call does what an event does.
    pub const fn script(script: Script) -> Self {
        Self::Script {
            script,
            ours: 1,
            theirs: 1,
        }
    }
}

impl Session {
    /// Measures a load beside its reference.
    pub async fn beside(&self, workload: Workload, beside: Beside) -> Result<Measured> {
        self.ready(workload.board).await?;
        match beside {
            Beside::Bare => self.beside_bare(workload, false).await,
            Beside::BareWithWriter => self.beside_bare(workload, true).await,
            Beside::Script {
                script,
                ours,
                theirs,
            } => self.beside_script(workload, script, (ours, theirs)).await,
            Beside::Board(board) => self.beside_board(workload, board).await,
        }
    }

    async fn beside_bare(&self, workload: Workload, has_writer: bool) -> Result<Measured> {
        let form = workload.form(&self.service).await?;
        let bare = Bare::start(&self.answer(workload, &form).await?).await?;
        let ours = async || {
            let _writer = has_writer.then(|| self.spawn_writer(workload.board));
            self.load(workload, &form, self.extent.load).await
        };
        let theirs = async || {
            let time = self.extent.reference;
            let target = (bare.address(), bare.process());
            let mut sample = self.load_server(target, workload, &form, time).await?;
            sample.cpu.redis = None;
            Ok(sample)
        };
        self.in_turn(ours, theirs).await
    }

    async fn beside_script(
        &self,
        workload: Workload,
        script: Script,
        (ours_count, theirs_count): (usize, usize),
    ) -> Result<Measured> {
        let textbook = self.textbook().await?;
        let form = workload.form(&self.service).await?;
        let ours = async || {
            let sample = self.load(workload, &form, self.extent.load).await?;
            Ok(sample.times(ours_count))
        };
        let theirs = async || {
            let time = self.extent.reference;
            let sample = textbook.run(&self.redis, script, time).await?;
            Ok(sample.times(theirs_count))
        };
        self.in_turn(ours, theirs).await
    }

    async fn beside_board(&self, workload: Workload, board: &'static Board) -> Result<Measured> {
        let other = Workload { board, ..workload };
        self.ready(board).await?;
        let load = async |workload: Workload| {
            let form = workload.form(&self.service).await?;
            self.load(workload, &form, self.extent.load).await
        };
        self.in_turn(async || load(workload).await, async || load(other).await)
            .await
    }

    /// Both in turn, and the median of each.
    pub async fn in_turn(
        &self,
        ours: impl AsyncFn() -> Result<Sample>,
        theirs: impl AsyncFn() -> Result<Sample>,
    ) -> Result<Measured> {
        in_turn(self.extent.rounds, ours, theirs).await
    }

    /// What the service answers to a request of this form.
    async fn answer(&self, workload: Workload, form: &str) -> Result<Kept> {
        let members = Members::Random(self.members(workload.board));
        let mut requests = Requests::new(form, members, self.take_series(1));
        let request = requests.next().ok_or("no request")?;
        let request = std::str::from_utf8(request)?;
        let status = workload.expected().status;
        self.service.call(request, &[status]).await
    }

    /// Sends an event to the board now and then, until the handle is dropped.
    fn spawn_writer(&self, board: &Board) -> AbortOnDropHandle<Result<()>> {
        let members = Members::Random(self.members(board));
        let series = self.take_series(1);
        let mut requests = Requests::new(&requests::single(board), members, series);
        let address = self.service.address();
        AbortOnDropHandle::new(tokio::spawn(async move {
            let mut connection = Connection::open(address).await?;
            let mut interval = tokio::time::interval(WRITER_INTERVAL);
            while let Some(request) = requests.next() {
                interval.tick().await;
                connection.exchange(request).await?;
            }
            Ok(())
        }))
    }
}

/// Both in turn, so many times, and the median of each.
pub async fn in_turn(
    rounds: usize,
    ours: impl AsyncFn() -> Result<Sample>,
    theirs: impl AsyncFn() -> Result<Sample>,
) -> Result<Measured> {
    let (mut our_samples, mut their_samples) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        our_samples.push(ours().await?);
        their_samples.push(theirs().await?);
    }
    let (load, reference_load) = (median(our_samples), median(their_samples));
    Ok(Measured {
        figure: load.map(|sample| sample.per_second),
        reference: reference_load.map(|sample| sample.per_second),
        load,
        reference_load,
    })
}

/// The sample with the median figure.
pub fn median(mut samples: Vec<Sample>) -> Option<Sample> {
    samples.sort_by(|one, other| one.per_second.total_cmp(&other.per_second));
    samples.get(samples.len() / 2).copied()
}
