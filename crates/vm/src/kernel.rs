//! A kernel of Debian's, found by apt and unpacked, not installed.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use super::{VmError, file, find, output};

/// A kernel's image and its modules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    tree: PathBuf,
    release: String,
}

impl Kernel {
    /// The newest kernel among apt's packages whose name begins with `prefix`, which has `linux-image-` in it, and ends with `suffix`.
    ///
    /// It is unpacked below `cache` once. Where apt has none, the newest of the cache is taken.
    pub fn newest(prefix: &str, suffix: &str, cache: &Path) -> Result<Self, VmError> {
        let matches = |name: &&str| name.starts_with(prefix) && name.ends_with(suffix);
        let pattern = format!("^{prefix}.*{suffix}$");
        let listed = find("apt-cache", "apt")
            .and_then(|apt| output(Command::new(apt).args(["search", "--names-only", &pattern])));
        let listed = listed.unwrap_or_default();
        let names = listed
            .lines()
            .filter_map(|line| line.split_whitespace().next());
        let package = match names.filter(matches).max_by_key(|name| numbers(name)) {
            Some(name) => name.to_owned(),
            None => {
                let entries = fs::read_dir(cache).into_iter().flatten().flatten();
                let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
                let cached = names.filter(|name| matches(&name.as_str()));
                let none = || VmError::NoKernel {
                    prefix: prefix.into(),
                    suffix: suffix.into(),
                };
                cached.max_by_key(|name| numbers(name)).ok_or_else(none)?
            }
        };
        let release = package.trim_start_matches("linux-image-").to_owned();
        let tree = cache.join(&package);
        if !tree.is_dir() {
            unpack(&package, &release, cache)?;
        }
        Ok(Self { tree, release })
    }

    /// What `uname -r` says in the guest.
    pub fn release(&self) -> &str {
        &self.release
    }

    pub(crate) fn image(&self) -> PathBuf {
        self.tree
            .join("boot")
            .join(format!("vmlinuz-{}", self.release))
    }

    /// The files of modules and of those they need, in the order of loading. What is built in has none.
    pub(crate) fn modules(&self, names: &[String]) -> Result<Vec<PathBuf>, VmError> {
        let mut paths = Vec::new();
        for name in names {
            let mut modprobe = Command::new(find("modprobe", "kmod")?);
            modprobe.arg("--dirname").arg(&self.tree).args([
                "--set-version",
                &self.release,
                "--show-depends",
                name,
            ]);
            let shown = output(&mut modprobe).map_err(|_| VmError::NoModule {
                release: self.release.clone(),
                module: name.clone(),
            })?;
            for path in shown
                .lines()
                .filter_map(|line| line.strip_prefix("insmod "))
            {
                let path = PathBuf::from(path.trim());
                if !paths.contains(&path) {
                    paths.push(path);
                }
            }
        }
        Ok(paths)
    }
}

/// A module as the kernel loads it: Debian's newer packages compress them.
pub(crate) fn module(path: &Path) -> Result<Vec<u8>, VmError> {
    if path.extension().is_none_or(|extension| extension != "xz") {
        return fs::read(path).map_err(|error| file(path, error));
    }
    let mut xz = Command::new(find("xz", "xz-utils")?);
    let output = xz.arg("-dc").arg(path).output();
    let output = output.map_err(|error| file(path, error))?;
    Ok(output.stdout)
}

/// Where kernels are kept: `vm` in the `target` folder that the running program lies in, or else in the user's cache.
pub fn cache() -> PathBuf {
    let program = env::current_exe().unwrap_or_default();
    let target = program.ancestors().find(|path| path.ends_with("target"));
    if let Some(target) = target {
        return target.join("vm");
    }
    let home = || PathBuf::from(env::var_os("HOME").unwrap_or_default()).join(".cache");
    let cache = env::var_os("XDG_CACHE_HOME").map_or_else(home, PathBuf::from);
    cache.join("makeway/vm")
}

/// Into a folder of its own first, so that one that is there is whole.
fn unpack(package: &str, release: &str, cache: &Path) -> Result<(), VmError> {
    fs::create_dir_all(cache).map_err(|error| file(cache, error))?;
    let place = tempfile::tempdir_in(cache).map_err(|error| file(cache, error))?;
    let apt = find("apt-get", "apt")?;
    output(
        Command::new(apt)
            .args(["download", package])
            .current_dir(place.path()),
    )?;
    let mut entries = fs::read_dir(place.path())
        .map_err(|error| file(place.path(), error))?
        .flatten();
    let archive = entries.next().map(|entry| entry.path()).unwrap_or_default();
    let tree = place.path().join("tree");
    let dpkg = find("dpkg-deb", "dpkg")?;
    output(Command::new(dpkg).arg("--extract").arg(&archive).arg(&tree))?;
    let depmod = find("depmod", "kmod")?;
    output(Command::new(depmod).arg("-b").arg(&tree).arg(release))?;
    let to = cache.join(package);
    match fs::rename(&tree, &to) {
        // Another process was faster.
        Err(_) if to.is_dir() => Ok(()),
        result => result.map_err(|error| file(&to, error)),
    }
}

/// The figures of a name, by which versions are compared.
fn numbers(name: &str) -> Vec<u64> {
    let words = name.split(|c: char| !c.is_ascii_digit());
    words.filter_map(|word| word.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::numbers;

    #[test]
    fn versions_are_compared_figure_by_figure() {
        let older = numbers("linux-image-6.1.0-9-cloud-amd64");
        assert!(older < numbers("linux-image-6.1.0-10-cloud-amd64"));
        assert!(older < numbers("linux-image-6.10.2-cloud-amd64"));
    }
}
