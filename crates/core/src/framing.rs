// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bytes of an IP packet on the wire: overhead, smallest packet, cells; as `tc-cake(8)` names them.

use crate::units::Bytes;
use alloc::string::String;
use core::fmt;
use core::str::FromStr;

/// Link-layer compensation, applied to the length of the IP packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Framing {
    /// Bytes added to each packet, -64 to 256.
    pub overhead: i32,
    /// Smallest packet in bytes, overhead included.
    pub mpu: u32,
    /// Cells of ATM, code words of PTM, or neither.
    pub cells: Cells,
}

/// How the link layer cuts what it sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cells {
    /// Not at all.
    #[default]
    None,
    /// ATM: 48 bytes of payload in each cell of 53.
    Atm,
    /// PTM: 65 bytes sent for each 64.
    Ptm,
}

impl Cells {
    /// Every choice, in the order in which they are listed to people.
    pub const ALL: [Self; 3] = [Self::None, Self::Atm, Self::Ptm];

    /// The name in files and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Atm => "atm",
            Self::Ptm => "ptm",
        }
    }
}

impl fmt::Display for Cells {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The name of cells is not one of ours.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no kind of cells: choose none, atm or ptm")]
pub struct ParseCellsError(String);

impl FromStr for Cells {
    type Err = ParseCellsError;
    fn from_str(s: &str) -> Result<Self, ParseCellsError> {
        let mut all = Self::ALL.into_iter();
        all.find(|cells| cells.name() == s)
            .ok_or_else(|| ParseCellsError(s.into()))
    }
}

impl Framing {
    /// An Ethernet line card at its own rate: preamble, header, FCS and gap (38 bytes), 84 at least.
    pub const ETHERNET: Self = Self {
        overhead: 38,
        mpu: 84,
        cells: Cells::None,
    };

    /// Bytes on the wire for an IP packet of `len`; at least 1.
    #[inline]
    pub fn wire(&self, len: Bytes) -> Bytes {
        let framed = len.get().saturating_add_signed(i64::from(self.overhead));
        let framed = framed.max(u64::from(self.mpu)).max(1);
        Bytes::new(match self.cells {
            Cells::None => framed,
            Cells::Atm => framed.div_ceil(48) * 53,
            Cells::Ptm => framed + framed.div_ceil(64),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ethernet_minimum_is_84_bytes() {
        assert_eq!(Framing::ETHERNET.wire(Bytes::new(28)), Bytes::new(84));
        assert_eq!(Framing::ETHERNET.wire(Bytes::new(1500)), Bytes::new(1538));
    }

    #[test]
    fn cells_read_back_as_they_print_and_others_are_refused_with_the_choices() {
        for cells in Cells::ALL {
            assert_eq!(alloc::format!("{cells}").parse(), Ok(cells));
            let error = "xtm".parse::<Cells>().unwrap_err();
            assert!(alloc::format!("{error}").contains(cells.name()));
        }
    }

    #[test]
    fn atm_rounds_up_to_whole_cells() {
        // tc-cake(8): `overhead 32 atm`; 1500 + 32 = 1532 bytes are 32 cells.
        let adsl = Framing {
            overhead: 32,
            mpu: 0,
            cells: Cells::Atm,
        };
        assert_eq!(adsl.wire(Bytes::new(1500)), Bytes::new(32 * 53));
        assert_eq!(adsl.wire(Bytes::new(1505)), Bytes::new(33 * 53));
    }

    #[test]
    fn ptm_adds_a_byte_in_64() {
        let vdsl = Framing {
            overhead: 0,
            mpu: 0,
            cells: Cells::Ptm,
        };
        assert_eq!(vdsl.wire(Bytes::new(1280)), Bytes::new(1300));
    }

    #[test]
    fn a_negative_overhead_never_makes_a_packet_free() {
        let odd = Framing {
            overhead: -64,
            mpu: 0,
            cells: Cells::None,
        };
        assert_eq!(odd.wire(Bytes::new(40)), Bytes::new(1));
    }
}
