//! Scenarios that come with the program, so that it works where its source is not.

use anyhow::Context;
use makeway_scenario::Scenario;

/// File names under `scenarios/`, with their text.
const FILES: [(&str, &str); 3] = [
    (
        "call-and-downloads.toml",
        include_str!("../../../scenarios/call-and-downloads.toml"),
    ),
    (
        "traces/mpeg2-5m.csv",
        include_str!("../../../scenarios/traces/mpeg2-5m.csv"),
    ),
    (
        "traces/audio-64k.csv",
        include_str!("../../../scenarios/traces/audio-64k.csv"),
    ),
];

/// The scenario `name`, with settings put in.
///
/// # Errors
/// No temporary folder can be made, or a setting is refused.
pub fn load(name: &str, set: &[String]) -> anyhow::Result<Scenario> {
    let folder = tempfile::tempdir().context("a temporary folder cannot be made")?;
    for (name, text) in FILES {
        let path = folder.path().join(name);
        let parent = path.parent().unwrap_or(folder.path());
        std::fs::create_dir_all(parent)
            .and_then(|()| std::fs::write(&path, text))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
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
