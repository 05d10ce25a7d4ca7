// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files that a package has beside the program: a man page for each subcommand, and completions of shells.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::Makeway;

/// Writes man pages and completions into a folder, for packagers.
#[derive(Args)]
pub struct Pages {
    /// The folder; made if it is not there.
    folder: PathBuf,
}

/// Writes them.
pub fn run(args: &Pages) -> anyhow::Result<ExitCode> {
    let folder = &args.folder;
    let why = || folder.display().to_string();
    fs::create_dir_all(folder).with_context(why)?;
    clap_mangen::generate_to(Makeway::command(), folder).with_context(why)?;
    for shell in [Shell::Bash, Shell::Fish, Shell::Zsh] {
        clap_complete::generate_to(shell, &mut Makeway::command(), "makeway", folder)
            .with_context(why)?;
    }
    Ok(ExitCode::SUCCESS)
}
