//! What a check may do about contradictions, and what it did.

use serde::Deserialize;

/// What a check may do about contradictions.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub enum Repair {
    /// Only report them.
    #[default]
    None,
    /// Also write what follows from other data.
    Write,
    /// Also remove what other data shows to be wrong or unneeded, and what is built again when it is needed.
    Remove,
}

impl Repair {
    pub fn writes(self) -> bool {
        self >= Self::Write
    }

    /// The outcome of a repair that only writes.
    pub(super) fn writing(self) -> RepairOutcome {
        match self {
            Self::None => RepairOutcome::Left,
            Self::Write | Self::Remove => RepairOutcome::Repaired,
        }
    }

    /// The outcome of a repair that removes something.
    pub(super) fn removing(self) -> RepairOutcome {
        match self {
            Self::None => RepairOutcome::Left,
            Self::Write => RepairOutcome::Asked,
            Self::Remove => RepairOutcome::Repaired,
        }
    }
}

/// What was done about a contradiction (`scripts/lib/check.lua`).
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(from = "u8")]
pub enum RepairOutcome {
    Left,
    Repaired,
    /// Its repair removes something, which this check may not do.
    Asked,
}

impl From<bool> for RepairOutcome {
    fn from(is_repaired: bool) -> Self {
        if is_repaired {
            Self::Repaired
        } else {
            Self::Left
        }
    }
}

impl From<u8> for RepairOutcome {
    fn from(number: u8) -> Self {
        match number {
            1 => Self::Repaired,
            2 => Self::Asked,
            _ => Self::Left,
        }
    }
}
