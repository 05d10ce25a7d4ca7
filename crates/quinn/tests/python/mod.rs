// SPDX-License-Identifier: MIT OR Apache-2.0
//! Python programs of this machine, and the same in a guest: with the files that they read here.

#![allow(clippy::unwrap_used)] // In a test a failure is a panic.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Mutex;

use makeway_vm::{VmError, again_with};

/// Files that were seen, while somebody looks.
static SEEN: Mutex<Option<BTreeSet<PathBuf>>> = Mutex::new(None);

/// Starts `script` under the Python of `command`.
pub fn start(command: &mut Command, script: &Path) -> std::io::Result<Child> {
    if let Some(seen) = SEEN.lock().unwrap().as_mut() {
        seen.insert(script.into());
        // It names on its standard error each file that it imports.
        let said = File::create(imports()).unwrap();
        command.env("PYTHONVERBOSE", "1").stderr(said);
    }
    command.spawn()
}

fn imports() -> PathBuf {
    std::env::temp_dir().join(format!("makeway-imports-{}", std::process::id()))
}

/// To be called before the program ends: takes down what it has read so far.
pub fn look(child: &Child) {
    let mut seen = SEEN.lock().unwrap();
    let Some(seen) = seen.as_mut() else { return };
    // The last of a line of the map is the file.
    let maps = fs::read_to_string(format!("/proc/{}/maps", child.id())).unwrap_or_default();
    let mapped = maps
        .lines()
        .filter_map(|line| line.find('/').map(|at| &line[at..]));
    let said = fs::read(imports()).unwrap_or_default();
    let said = String::from_utf8_lossy(&said).into_owned();
    let words = said.split(|c: char| c.is_whitespace() || "'\"".contains(c));
    let imported = words.filter(|word| word.ends_with(".py") || word.ends_with(".so"));
    let files = mapped.chain(imported).map(PathBuf::from);
    seen.extend(files.filter(|path| path.is_absolute() && path.is_file()));
}

/// Runs the named test in a guest, where Python has the files that it reads when `run` is run here, however that ends.
pub fn in_a_guest(test: &str, python: &Path, run: impl FnOnce()) -> Result<(), VmError> {
    *SEEN.lock().unwrap() = Some(BTreeSet::new());
    let _ = catch_unwind(AssertUnwindSafe(run));
    let seen = SEEN.lock().unwrap().take().unwrap_or_default();
    let _ = fs::remove_file(imports());
    again_with(&format!("--exact {test} --nocapture"), &[python], &seen)
}
