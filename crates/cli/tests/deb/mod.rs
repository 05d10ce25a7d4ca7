// SPDX-License-Identifier: MIT OR Apache-2.0
//! The Debian package of this build.

use std::path::Path;
use std::process::Command;

pub const MAKEWAY: &str = env!("CARGO_BIN_EXE_makeway");

/// Runs it to its end; its output.
pub fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success(), "{command:?}: {out}{err}");
    out.into_owned()
}

/// Makes it in `folder`; its path.
pub fn package(version: &str, folder: &Path) -> String {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    package_of(Path::new(MAKEWAY), &sources, version, folder)
}

/// Likewise, of another program and of the sources that it was built from.
pub fn package_of(program: &Path, sources: &Path, version: &str, folder: &Path) -> String {
    let mut command = Command::new(sources.join("scripts/package"));
    command.arg(program).arg(folder);
    command
        .env("MAKEWAY_VERSION", version)
        .env("SOURCE_DATE_EPOCH", "1700000000");
    // A quarter of the time.
    command.env("DPKG_DEB_COMPRESSOR_TYPE", "none");
    run(&mut command).trim().to_owned()
}
