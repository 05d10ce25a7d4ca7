// SPDX-License-Identifier: MIT OR Apache-2.0
//! apt, as the machine has it, or with other suites of Debian's from the mirror that the machine uses.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use super::{VmError, file, find, output};

/// Keys of Debian's suites; where they are missing, only apt's own trusted keys count.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// Lists of packages are asked for again when they are older.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Where packages are looked for.
#[derive(Clone, Debug, Default)]
pub struct Apt {
    options: Vec<OsString>,
}

impl Apt {
    /// Only `suites`, from the mirror of the machine's own sources. Its state lies below `cache`: neither the machine's sources nor
    /// its lists change. apt checks signatures and checksums as it always does.
    pub fn with_suites(suites: &str, cache: &Path) -> Result<Self, VmError> {
        let place = cache.join("apt");
        let sources = place.join("debian.sources");
        for folder in ["lists/partial", "archives/partial"] {
            let folder = place.join(folder);
            fs::create_dir_all(&folder).map_err(|error| file(&folder, error))?;
        }
        let mut text = format!(
            "Types: deb\nURIs: {}\nSuites: {suites}\nComponents: main\nArchitectures: amd64\nTargets: Packages\n",
            mirror()?
        );
        if Path::new(KEYRING).is_file() {
            text += &format!("Signed-By: {KEYRING}\n");
        }
        let updated = place.join("updated");
        if fs::read_to_string(&sources).ok().as_ref() != Some(&text) {
            // Lists of other sources, if there are any, tell nothing.
            let _ = fs::remove_file(&updated);
            fs::write(&sources, text).map_err(|error| file(&sources, error))?;
        }
        let apt = Self {
            options: options(&place, &sources),
        };
        if older(&updated, DAY) {
            eprintln!("asking Debian's mirror for the kernels of {suites}");
            apt.update()?;
            fs::write(&updated, "").map_err(|error| file(&updated, error))?;
        }
        Ok(apt)
    }

    fn update(&self) -> Result<(), VmError> {
        let strict = ["-o", "APT::Update::Error-Mode=any", "update"];
        match output(self.command("apt-get")?.args(strict)) {
            Err(VmError::Failed { said, .. }) => Err(VmError::Unreachable { said }),
            result => result.map(drop),
        }
    }

    /// The packages whose whole name matches a pattern of apt's.
    pub fn names(&self, pattern: &str) -> Result<Vec<String>, VmError> {
        let pattern = format!("^{pattern}$");
        let mut search = self.command("apt-cache")?;
        let listed = output(search.args(["search", "--names-only", &pattern]))?;
        let names = listed
            .lines()
            .filter_map(|line| line.split_whitespace().next());
        Ok(names.map(str::to_owned).collect())
    }

    /// Downloads packages into a folder.
    pub fn download(&self, packages: &[String], into: &Path) -> Result<(), VmError> {
        let mut get = self.command("apt-get")?;
        get.arg("download").args(packages).current_dir(into);
        output(&mut get).map(drop)
    }

    fn command(&self, program: &str) -> Result<Command, VmError> {
        let mut command = Command::new(find(program, "apt")?);
        command.args(&self.options);
        Ok(command)
    }
}

/// Mirror of the suites that the machine's apt has from Debian, in either form of its sources.
pub fn mirror() -> Result<String, VmError> {
    let mut targets = Command::new(find("apt-get", "apt")?);
    targets.args([
        "indextargets",
        "--format",
        "$(REPO_URI)",
        "Identifier: Packages",
        "Origin: Debian",
        "Label: Debian",
    ]);
    let listed = output(&mut targets)?;
    let first = listed.lines().next().ok_or(VmError::NoMirror)?;
    Ok(first.to_owned())
}

fn options(place: &Path, sources: &Path) -> Vec<OsString> {
    let paths: [(&str, PathBuf); 4] = [
        ("Dir::State", place.into()),
        ("Dir::Cache", place.into()),
        ("Dir::Etc::SourceList", sources.into()),
        // No sources beside it.
        ("Dir::Etc::SourceParts", "-".into()),
    ];
    let paths = paths.map(|(name, path)| {
        let mut option = OsString::from(name);
        option.push("=");
        option.push(path);
        option
    });
    let network = ["Acquire::Retries=1", "Acquire::http::Timeout=20"].map(OsString::from);
    let all = paths.into_iter().chain(network);
    all.flat_map(|option| [OsString::from("-o"), option])
        .collect()
}

fn older(path: &Path, than: Duration) -> bool {
    let Ok(modified) = fs::metadata(path).and_then(|data| data.modified()) else {
        return true;
    };
    // One of the future is as new as can be.
    let age = SystemTime::now().duration_since(modified);
    age.is_ok_and(|age| age > than)
}
