// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bytes that a link adds to a packet, by the name of the link or one by one.

use makeway_core::framing::{Cells, Framing};

use crate::error::{ScenarioError, list};
use crate::section::Section;

/// Names of framings; those of tc-cake(8) and two of our own for VDSL2.
#[rustfmt::skip]
const PRESETS: [(&str, Framing); 12] = [
    ("ethernet", Framing { overhead: 38, mpu: 84, cells: Cells::None }),
    ("docsis", Framing { overhead: 18, mpu: 64, cells: Cells::None }),
    ("pppoe-vdsl2", Framing { overhead: 30, mpu: 0, cells: Cells::Ptm }),
    ("pppoe-ptm", Framing { overhead: 30, mpu: 0, cells: Cells::Ptm }),
    ("bridged-vdsl2", Framing { overhead: 22, mpu: 0, cells: Cells::Ptm }),
    ("bridged-ptm", Framing { overhead: 22, mpu: 0, cells: Cells::Ptm }),
    ("pppoe-llcsnap", Framing { overhead: 40, mpu: 0, cells: Cells::Atm }),
    ("pppoe-vcmux", Framing { overhead: 32, mpu: 0, cells: Cells::Atm }),
    ("pppoa-llc", Framing { overhead: 14, mpu: 0, cells: Cells::Atm }),
    ("pppoa-vcmux", Framing { overhead: 10, mpu: 0, cells: Cells::Atm }),
    ("conservative", Framing { overhead: 48, mpu: 0, cells: Cells::Atm }),
    ("raw", Framing { overhead: 0, mpu: 0, cells: Cells::None }),
];
/// For the table of keys.
pub const PRESET_NAMES: [&str; PRESETS.len()] = {
    let mut names = [""; PRESETS.len()];
    let mut n = 0;
    while n < names.len() {
        names[n] = PRESETS[n].0;
        n += 1;
    }
    names
};
/// `link`, `overhead`, `mpu`, `cells`; `None`: the device's own header.
pub fn framing(s: &Section<'_>) -> Result<Option<Framing>, ScenarioError> {
    let name = s.choice("link")?;
    let preset = PRESETS.iter().find(|(own, _)| *own == name);
    let overhead: Option<i32> = s.read("overhead")?;
    let mpu: Option<u32> = s.read("mpu")?;
    let cells = match s.choice("cells")? {
        "none" => Some(Cells::None),
        "atm" => Some(Cells::Atm),
        "ptm" => Some(Cells::Ptm),
        _ => None,
    };
    if overhead.is_some_and(|bytes| !(-64..=256).contains(&bytes)) {
        return Err(s.at("overhead").error(format!(
            "`{}` is {}: write a whole number from -64 to 256",
            s.name("overhead"),
            overhead.unwrap_or_default()
        )));
    }
    let mut framing = match (preset, overhead) {
        (Some((_, framing)), _) => *framing,
        (None, Some(_)) => Framing {
            overhead: 0,
            mpu: 0,
            cells: Cells::None,
        },
        (None, None) if mpu.is_none() && cells.is_none() => return Ok(None),
        (None, None) => {
            return Err(s.origin.error(format!(
                "[{}] has `mpu` or `cells` without an overhead: write `overhead = 18`, or `link` with one of {}",
                s.path,
                list(PRESET_NAMES)
            )));
        }
    };
    framing.overhead = overhead.unwrap_or(framing.overhead);
    framing.mpu = mpu.unwrap_or(framing.mpu);
    framing.cells = cells.unwrap_or(framing.cells);
    Ok(Some(framing))
}
