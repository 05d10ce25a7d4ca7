// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scenarios that come with the program, so that it works where its source is not.

use std::path::Path;

use anyhow::Context;
use makeway_scenario::Scenario;

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../../../scenarios/", $name)))),*]
    };
}

/// Names under `scenarios/`, with their text.
pub const FILES: &[(&str, &str)] = &files![
    "call-and-downloads.toml",
    "daily-life.toml",
    "papers/sqf/testbed.toml",
    "papers/sqf/jitter.toml",
    "papers/sqf/streams.toml",
    "papers/sqf/users.toml",
    "papers/sqf/tcp.toml",
    "papers/sqf/upload.toml",
    "papers/ncq/analysis.toml",
    "papers/ncq/ftp.toml",
    "papers/ncq/sensors.toml",
    "papers/ncq/voip.toml",
    "papers/ncq/incremental.toml",
    "papers/ncq/variants.toml",
    "papers/pps/one-hop.toml",
    "papers/pps/multi-hop.toml",
    "papers/pps/unused.toml",
    "papers/pps/bottlenecks.toml",
    "papers/pps/rtt-equal.toml",
    "papers/pps/rtt.toml",
    "papers/pps/diffserv.toml",
    "papers/pps/profiles.toml",
    "papers/pps/datagrams.toml",
    "papers/pps/policing.toml",
    "papers/sbpn/testbed.toml",
    "papers/sbpn/kernel.toml",
    "papers/sbpn/guest.toml",
    "senders/line.toml",
    "senders/access-point.toml",
    "senders/marks.toml",
    "papers/abrc/wlan.toml",
    "rfc8867/5-1.toml",
    "rfc8867/5-2.toml",
    "rfc8867/5-3.toml",
    "rfc8867/5-4.toml",
    "rfc8867/5-5.toml",
    "rfc8867/5-6.toml",
    "rfc8867/5-7.toml",
    "rfc8867/5-8.toml",
    "traces/mpeg2-5m.csv",
    "traces/audio-64k.csv",
    "traces/x264-500k.csv",
];

/// Writes them into `folder`, as they are in the tree.
///
/// # Errors
/// The system's, with the file's name.
pub fn unpack(folder: &Path) -> anyhow::Result<()> {
    for (name, text) in FILES {
        let path = folder.join(name);
        let parent = path.parent().unwrap_or(folder);
        std::fs::create_dir_all(parent)
            .and_then(|()| std::fs::write(&path, text))
            .with_context(|| format!("{} cannot be written", path.display()))?;
    }
    Ok(())
}

/// The text of the scenario `name`; empty if there is none.
pub fn text(name: &str) -> &'static str {
    let found = FILES.iter().find(|(file, _)| *file == name);
    found.map_or("", |(_, text)| text)
}

/// The scenario `name`, with settings put in.
///
/// # Errors
/// No temporary folder can be made, or a setting is refused.
pub fn load(name: &str, set: &[String]) -> anyhow::Result<Scenario> {
    let folder = tempfile::tempdir().context("a temporary folder cannot be made")?;
    unpack(folder.path())?;
    Ok(makeway_scenario::load(&folder.path().join(name), set)?)
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_scenario_that_comes_with_the_program_reads() {
        for (name, _) in super::FILES
            .iter()
            .filter(|(name, _)| name.ends_with(".toml"))
        {
            super::load(name, &[]).unwrap();
        }
    }
}
