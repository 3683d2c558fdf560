//! The ranked lists that a board stores, and which of them are sums of others.
//!
//! | list | holds | key |
//! | --- | --- | --- |
//! | [`List::Period`] | the events of a period, with what was carried over into it | `day` |
//! | [`List::Base`] | the same without what was carried over, where a rolling window counts such periods | `base-day` |
//! | [`List::Rolling`] | derived: the last N of those | `last-7-days` |
//! | [`List::Initial`] | derived: a period and the initial scores | `initial-day` |
//! | [`List::InitialScores`] | the initial scores themselves | `initial-scores` |
//!
//! A board with weights stores them on two tracks. What a window shows follows from that: see [`Board::series`].

use super::board::{Board, Ranking, Update};
use super::league::{Cohort, Section};
use super::period::{Period, Unit};
use super::ties::Ties;
use super::window::Window;

/// The track of scores that a standing shows.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Track {
    /// Weighted scores, including initial scores.
    #[default]
    Shown,
    /// The true count, without weights and initial scores.
    Raw,
}

/// One kind of list, of which there is a standing for each period.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum List {
    /// The events of a period, with what was carried over into it.
    Period(Unit),
    /// The events of a period alone, where a rolling window counts a unit that has carryover.
    Base(Unit),
    /// The events of the last N periods.
    Rolling(Window),
    /// [`List::Period`] plus the initial scores.
    Initial(Unit),
    /// The initial scores of a board's members, under the period of all time.
    InitialScores,
}

/// A list on one of the tracks.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Series {
    /// The list.
    pub list: List,
    /// The track.
    pub track: Track,
}

impl Series {
    /// A list on the track `shown`.
    pub const fn shown(list: List) -> Self {
        Self {
            list,
            track: Track::Shown,
        }
    }

    /// The window whose periods and epochs its data shares; `None` for initial scores, which have none.
    pub fn window(self) -> Option<Window> {
        match self.list {
            List::Period(unit) | List::Base(unit) | List::Initial(unit) => {
                Some(Window::Period(unit))
            }
            List::Rolling(window) => Some(window),
            List::InitialScores => None,
        }
    }
}

/// One ranked list: a series at a period, in a league of one cohort.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Standing {
    /// The list.
    pub series: Series,
    /// The period, or for a rolling window the newest one in it.
    pub period: Period,
    /// In a league, the cohort of the period.
    pub cohort: Option<Cohort>,
}

impl Standing {
    /// The standing of a series at this period or cohort.
    pub fn of(series: Series, section: impl Into<Section>) -> Self {
        let Section { period, cohort } = section.into();
        Self {
            series,
            period,
            cohort,
        }
    }

    /// The section that it covers.
    pub fn section(&self) -> Section {
        Section {
            period: self.period,
            cohort: self.cohort,
        }
    }
}

impl Section {
    /// The window that shows it.
    pub fn window(&self) -> Window {
        Window::Period(self.period.unit)
    }
}

/// A series whose standings are sums of other standings.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Derived {
    /// The series.
    pub series: Series,
    /// The window that shows it.
    pub window: Window,
    /// The series whose standings are summed.
    pub base: Series,
    /// How many of its standings are summed: that of the same period, and those before it.
    pub periods: u16,
    /// Whether the initial scores are added, too.
    pub has_initial: bool,
}

/// How the entries of a board's standings are stored, which follows from frozen fields of the definition.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one of a standing's keys"
)]
pub struct Layout {
    /// Sorted-set members begin with a tie key.
    pub prefixed: bool,
    /// A hash holds each member's tie key and score.
    pub hashed: bool,
    /// That hash also has the data of each member's entry. Only if it exists and has tie keys.
    pub data: bool,
    /// A sorted set holds the distinct scores.
    pub dense: bool,
    /// A hash holds the sum of all scores.
    pub summed: bool,
    /// The maximum number of entries in the sorted set, `None` for all.
    pub keep_top: Option<u32>,
}

impl Board {
    /// The distinct tracks of the board.
    pub fn tracks(&self) -> &'static [Track] {
        if self.definition.weight.is_some() {
            &[Track::Shown, Track::Raw]
        } else {
            &[Track::Shown]
        }
    }

    /// How many members of a standing with `total` members are listed.
    pub fn listed(&self, total: u64) -> u64 {
        let keep_top = self.definition.keep_top.map_or(u64::MAX, u64::from);
        total.min(keep_top)
    }

    /// The series that a window shows on a track.
    pub fn series(&self, window: Window, track: Track) -> Series {
        let list = match window {
            Window::Period(unit)
                if track == Track::Shown && self.definition.initial.contains(&unit) =>
            {
                List::Initial(unit)
            }
            Window::Period(unit) => List::Period(unit),
            rolling @ Window::Rolling { .. } => List::Rolling(rolling),
        };
        self.on_track(list, track)
    }

    /// The series that a rolling window over this unit sums up.
    pub fn base(&self, unit: Unit, track: Track) -> Series {
        let list = if self.definition.carryover.contains_key(&unit) {
            List::Base(unit)
        } else {
            List::Period(unit)
        };
        self.on_track(list, track)
    }

    fn on_track(&self, list: List, track: Track) -> Series {
        let has_track = self.tracks().contains(&track);
        Series {
            list,
            track: if has_track { track } else { Track::Shown },
        }
    }

    /// The series that are sums.
    pub fn derived(&self) -> impl Iterator<Item = Derived> {
        self.definition.windows.iter().flat_map(|window| {
            self.tracks()
                .iter()
                .filter_map(|track| self.derived_as(self.series(*window, *track)))
        })
    }

    /// How a series is derived; `None` if it isn't.
    pub fn derived_as(&self, series: Series) -> Option<Derived> {
        let track = series.track;
        let (window, base, periods) = match series.list {
            List::Rolling(window @ Window::Rolling { unit, periods }) => {
                (window, self.base(unit, track), periods)
            }
            List::Initial(unit) => {
                let list = List::Period(unit);
                (Window::Period(unit), self.on_track(list, track), 1)
            }
            _ => return None,
        };
        Some(Derived {
            series,
            window,
            base,
            periods,
            has_initial: matches!(series.list, List::Initial(_)),
        })
    }

    /// The standing of the initial scores.
    pub fn initial_scores(&self) -> Standing {
        let series = Series::shown(List::InitialScores);
        Standing::of(series, Period::endless(Unit::All))
    }

    /// The standings of a period that events are added to. If any of them exists, the first does.
    pub fn recorded_in(&self, period: &Period) -> Vec<Standing> {
        let of_track = |track| {
            let own = self.on_track(List::Period(period.unit), track);
            let base = self.base(period.unit, track);
            let has_base = base != own && self.definition.rolls(period.unit);
            [Some(own), has_base.then_some(base)].into_iter().flatten()
        };
        let series = self.tracks().iter().copied().flat_map(of_track);
        series.map(|series| Standing::of(series, *period)).collect()
    }

    /// How entries are stored.
    pub fn layout(&self) -> Layout {
        let definition = &self.definition;
        let prefixed = definition.ties != Ties::Member;
        // `update: last` needs the time of the stored event. With `keep_top`, only the hash has the unlisted members.
        let hashed = prefixed || definition.update == Update::Last || definition.keep_top.is_some();
        Layout {
            prefixed,
            hashed,
            data: definition.entry_data,
            dense: definition.ranking == Ranking::Dense,
            summed: definition.uniques.is_some(),
            keep_top: definition.keep_top,
        }
    }
}
