//! Protocol revisions and the two eras they belong to.

use std::fmt;

/// A protocol revision that Genlock speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProtocolVersion {
    /// 2024-11-05, spoken to old upstreams only.
    V2024_11_05,
    /// 2025-03-26.
    V2025_03_26,
    /// 2025-06-18.
    V2025_06_18,
    /// 2025-11-25, the newest revision with an `initialize` handshake.
    V2025_11_25,
    /// 2026-07-28, the first revision with metadata on every request.
    V2026_07_28,
}

/// How a peer is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Era {
    /// Every request carries its version and capabilities (2026-07-28 and later).
    Modern,
    /// An `initialize` handshake opens a session (up to 2025-11-25).
    Legacy,
}

impl ProtocolVersion {
    /// The newest revision of the modern era.
    pub const MODERN: Self = Self::V2026_07_28;
    /// The newest revision of the legacy era.
    pub const LEGACY: Self = Self::V2025_11_25;
    /// What a client may ask for, newest first.
    pub const SERVED: [Self; 4] = [
        Self::V2026_07_28,
        Self::V2025_11_25,
        Self::V2025_06_18,
        Self::V2025_03_26,
    ];

    const KNOWN: [Self; 5] = [
        Self::V2026_07_28,
        Self::V2025_11_25,
        Self::V2025_06_18,
        Self::V2025_03_26,
        Self::V2024_11_05,
    ];

    /// Reads a revision by its date; `None` for one that is not known.
    pub fn from_date(date: &str) -> Option<Self> {
        Self::KNOWN
            .into_iter()
            .find(|version| version.as_str() == date)
    }

    /// Returns the date that names the revision on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    /// Returns the era of the revision.
    pub fn era(self) -> Era {
        if self >= Self::V2026_07_28 {
            Era::Modern
        } else {
            Era::Legacy
        }
    }

    /// Chooses the answer to an `initialize` that asks for a revision: the same where it is served in the legacy era,
    /// else the newest legacy one.
    pub fn negotiate_legacy(asked: &str) -> Self {
        Self::SERVED
            .into_iter()
            .find(|version| version.era() == Era::Legacy && version.as_str() == asked)
            .unwrap_or(Self::LEGACY)
    }
}

impl fmt::Display for ProtocolVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn initialize_gets_the_revision_it_asks_for_or_the_newest_legacy_one() {
        let table = [
            ("2025-03-26", ProtocolVersion::V2025_03_26),
            ("2025-11-25", ProtocolVersion::V2025_11_25),
            ("2026-07-28", ProtocolVersion::V2025_11_25),
            ("2024-11-05", ProtocolVersion::V2025_11_25),
            ("2099-01-01", ProtocolVersion::V2025_11_25),
        ];
        for (asked, answered) in table {
            assert_eq!(
                ProtocolVersion::negotiate_legacy(asked),
                answered,
                "{asked}"
            );
        }
    }

    #[test]
    fn a_revision_is_read_back_from_its_date() {
        for version in ProtocolVersion::KNOWN {
            assert_eq!(ProtocolVersion::from_date(version.as_str()), Some(version));
        }
        assert_eq!(ProtocolVersion::V2026_07_28.era(), Era::Modern);
        assert_eq!(ProtocolVersion::V2025_11_25.era(), Era::Legacy);
    }
}
