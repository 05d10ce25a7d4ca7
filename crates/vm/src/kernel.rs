// SPDX-License-Identifier: MIT OR Apache-2.0
//! A kernel of Debian's, found by apt and unpacked, not installed.

use std::fs::File;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use super::apt::Apt;
use super::{VmError, file, find, output};

/// Debian's suites whose kernels have BPF qdiscs: the present release's newer kernels, and the next release.
const SUITES: &str = "trixie-backports sid";
/// The first release with NET_SCH_BPF: upstream has it from 6.16 on, where Debian leaves it out.
const BPF_QDISCS: [u64; 2] = [6, 17];
/// How the packages of kernels, and their folders in the cache, begin.
const IMAGE: &str = "linux-image-";

/// A kernel's image and its modules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    tree: PathBuf,
    release: String,
}

impl Kernel {
    /// The newest kernel among the machine's own packages whose release begins and ends so, as `6.1.` and `-cloud-amd64`.
    ///
    /// It is unpacked below `cache` once. Where apt has none, the newest of the cache is taken.
    pub fn newest(prefix: &str, suffix: &str, cache: &Path) -> Result<Self, VmError> {
        let fits = |release: &str| release.starts_with(prefix) && release.ends_with(suffix);
        let newest = |all: &[String]| Some([all.last()?.clone()]);
        let apt = |_: &Path| Ok(Apt::default());
        let [kernel] = choose(apt, fits, newest, &format!("{prefix}*{suffix}"), cache)?;
        Ok(kernel)
    }

    /// The oldest and the newest of Debian's kernels that load a qdisc written in BPF, in the flavour with the fewest modules.
    ///
    /// They come from newer suites than the machine may have, by the mirror that it has, and are unpacked below `cache` once. Without
    /// a network the oldest and the newest of the cache are taken.
    pub fn with_bpf_qdiscs(cache: &Path) -> Result<[Self; 2], VmError> {
        let fits = |release: &str| {
            release.ends_with("-cloud-amd64") && numbers(release)[..] >= BPF_QDISCS[..]
        };
        let ends = |all: &[String]| Some([all.first()?.clone(), all.last()?.clone()]);
        let apt = |cache: &Path| Apt::with_suites(SUITES, cache);
        choose(apt, fits, ends, "with BPF qdiscs", cache)
    }

    /// Output of `uname -r` in the guest.
    pub fn release(&self) -> &str {
        &self.release
    }

    pub(crate) fn cache(&self) -> &Path {
        self.tree.parent().unwrap_or(&self.tree)
    }

    /// The file that QEMU boots: the kernel's ELF file, or where it could not be unpacked here, the packed one, which unpacks
    /// itself; a translated guest takes some seconds for that.
    pub(crate) fn image(&self) -> PathBuf {
        let elf = self.tree.join("vmlinux");
        if elf.is_file() {
            return elf;
        }
        let packed = self.packed();
        match self.unpack_image(&packed, &elf) {
            Some(()) => elf,
            None => packed,
        }
    }

    fn packed(&self) -> PathBuf {
        let Self { tree, release } = self;
        let packed_alone = tree.join("lib/modules").join(release).join("vmlinuz");
        match packed_alone.is_file() {
            true => packed_alone,
            false => tree.join("boot").join(format!("vmlinuz-{release}")),
        }
    }

    fn unpack_image(&self, packed: &Path, to: &Path) -> Option<()> {
        let image = fs::read(packed).ok()?;
        let Payload { stream, size } = Payload::of(&image)?;
        let unpacks = match stream.get(..4)? {
            b"\x28\xb5\x2f\xfd" => find("zstd", "zstd"),
            b"\x02\x21\x4c\x18" => find("lz4", "lz4"),
            b"\xfd7zX" => find("xz", "xz-utils"),
            _ => return None,
        };
        let place = tempfile::tempdir_in(&self.tree).ok()?;
        let [from, elf] = ["packed", "vmlinux"].map(|name| place.path().join(name));
        fs::write(&from, stream).ok()?;
        let mut unpacks = Command::new(unpacks.ok()?);
        unpacks
            .arg("-dc")
            .arg(&from)
            .stdout(File::create(&elf).ok()?);
        let done = unpacks.stderr(Stdio::null()).status().ok()?.success();
        let is_whole = fs::metadata(&elf).ok()?.len() == size;
        // Whole or not at all, also for another process that does the same.
        (done && is_whole).then(|| fs::rename(&elf, to).ok())?
    }

    /// Whether it has this module, as a file or built in.
    pub fn has(&self, module: &str) -> Result<bool, VmError> {
        match self.modules(&[module.to_owned()]) {
            Ok(_) => Ok(true),
            Err(VmError::NoModule { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The files of modules and of those they need, in the order of loading. Built-in ones have none.
    pub(crate) fn modules(&self, names: &[String]) -> Result<Vec<PathBuf>, VmError> {
        let mut paths = Vec::new();
        for name in names {
            let mut modprobe = Command::new(find("modprobe", "kmod")?);
            modprobe.arg("--dirname").arg(&self.tree).args([
                // The machine's own options are for its own modules.
                "--config",
                "/dev/null",
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

/// The compressed kernel in an image for the boot protocol of x86, and its size once it is unpacked
/// (Documentation/arch/x86/boot.rst of Linux: `setup_sects`, `payload_offset`, `payload_length`).
#[derive(Debug, PartialEq, Eq)]
struct Payload<'a> {
    stream: &'a [u8],
    size: u64,
}

impl<'a> Payload<'a> {
    fn of(image: &'a [u8]) -> Option<Self> {
        if image.get(0x202..0x206)? != b"HdrS" {
            return None;
        }
        let number = |at: usize| {
            let bytes = image.get(at..at + 4)?;
            Some(u32::from_le_bytes(bytes.try_into().ok()?))
        };
        // Zero stands for four.
        let sectors = match image.get(0x1f1)? {
            0 => 4,
            &sectors => usize::from(sectors),
        };
        let begin = (sectors + 1) * 512 + number(0x248)? as usize;
        // The last four bytes are the size.
        let end = begin + (number(0x24c)? as usize).checked_sub(4)?;
        Some(Self {
            size: number(end)?.into(),
            stream: image.get(begin..end)?,
        })
    }
}

/// A module as the kernel loads it: Debian's newer packages compress them. Without its signature, which takes a translated processor
/// longer to check than all modules to load; Debian's kernels load one without, unless they are locked down.
pub(crate) fn module(path: &Path) -> Result<Vec<u8>, VmError> {
    let mut content = if path.extension().is_some_and(|extension| extension == "xz") {
        let mut xz = Command::new(find("xz", "xz-utils")?);
        let output = xz.arg("-dc").arg(path).output();
        output.map_err(|error| file(path, error))?.stdout
    } else {
        fs::read(path).map_err(|error| file(path, error))?
    };
    content.truncate(unsigned(&content).unwrap_or(content.len()));
    Ok(content)
}

/// Length of a module without its signature, if it has one: include/linux/module_signature.h of Linux, and the line behind that
/// structure, whose last four bytes are the length of the signature before it.
fn unsigned(module: &[u8]) -> Option<usize> {
    const STRUCTURE: usize = 12;
    let rest = module.strip_suffix(b"~Module signature appended~\n")?;
    let length = u32::from_be_bytes(*rest.last_chunk()?);
    rest.len()
        .checked_sub(STRUCTURE)?
        .checked_sub(length as usize)
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

/// The releases that `pick` takes of those that fit, oldest first: apt's, or else those of the cache.
fn choose<const N: usize>(
    apt: impl Fn(&Path) -> Result<Apt, VmError>,
    fits: impl Fn(&str) -> bool,
    pick: impl Fn(&[String]) -> Option<[String; N]>,
    wanted: &str,
    cache: &Path,
) -> Result<[Kernel; N], VmError> {
    fs::create_dir_all(cache).map_err(|error| file(cache, error))?;
    let lock = cache.join("lock");
    let locked = File::create(&lock).and_then(|lock| lock.lock().map(|()| lock));
    let _until_return = locked.map_err(|error| file(&lock, error))?;
    let picked = |packages: Vec<String>| {
        let releases = packages.iter().filter_map(|name| name.strip_prefix(IMAGE));
        let mut releases: Vec<String> = releases.filter(|r| fits(r)).map(str::to_owned).collect();
        releases.sort_by_key(|release| numbers(release));
        pick(&releases)
    };
    let kernels = |releases: [String; N]| {
        releases.map(|release| Kernel {
            tree: cache.join(format!("{IMAGE}{release}")),
            release,
        })
    };
    let of_apt = || {
        let apt = apt(cache)?;
        let releases = picked(apt.names(&format!("{IMAGE}[0-9].*"))?).ok_or(VmError::NotListed)?;
        for release in &releases {
            unpack(&apt, release, cache)?;
        }
        Ok(kernels(releases))
    };
    of_apt().or_else(|why: VmError| {
        let entries = fs::read_dir(cache).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let cached = picked(names.collect()).map(kernels);
        cached.ok_or_else(|| VmError::NoKernel {
            wanted: wanted.into(),
            why: Box::new(why),
            cache: cache.into(),
        })
    })
}

/// Into a folder of its own first, so that one that is there is whole.
fn unpack(apt: &Apt, release: &str, cache: &Path) -> Result<(), VmError> {
    let to = cache.join(format!("{IMAGE}{release}"));
    if to.is_dir() {
        return Ok(());
    }
    eprintln!("fetching Debian's Linux {release}");
    let place = tempfile::tempdir_in(cache).map_err(|error| file(cache, error))?;
    // From 6.19 on the package of the image only names its parts.
    let parts = ["binary", "modules", "base"].map(|part| format!("linux-{part}-{release}"));
    let pattern = format!("linux-binary-{}", release.replace('+', "[+]"));
    let packages = match apt.names(&pattern)?.is_empty() {
        true => vec![format!("{IMAGE}{release}")],
        false => parts.to_vec(),
    };
    apt.download(&packages, place.path())?;
    let entries = fs::read_dir(place.path()).map_err(|error| file(place.path(), error))?;
    let archives: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    let tree = place.path().join("tree");
    for archive in archives {
        let dpkg = find("dpkg-deb", "dpkg")?;
        output(Command::new(dpkg).arg("--extract").arg(archive).arg(&tree))?;
    }
    // Where /lib is a link, newer packages leave it out.
    if !tree.join("lib").exists() {
        let lib = tree.join("lib");
        symlink("usr/lib", &lib).map_err(|error| file(&lib, error))?;
    }
    let depmod = find("depmod", "kmod")?;
    output(Command::new(depmod).arg("-b").arg(&tree).arg(release))?;
    fs::rename(&tree, &to).map_err(|error| file(&to, error))
}

/// The figures of a name, by which versions are compared.
fn numbers(name: &str) -> Vec<u64> {
    let words = name.split(|c: char| !c.is_ascii_digit());
    words.filter_map(|word| word.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::{Payload, numbers, unsigned};

    #[test]
    fn a_damaged_image_has_no_payload() {
        let mut image = vec![0; 2048];
        image[0x1f1] = 1;
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image[0x248] = 16;
        image[0x24c] = 12;
        image[1024 + 16..1024 + 28].copy_from_slice(b"compress\x07\x01\0\0");
        let found = Payload::of(&image).unwrap();
        assert_eq!((found.stream, found.size), (&b"compress"[..], 263));
        assert_eq!(Payload::of(&image[..1051]), None);
        for (at, value) in [
            (0x202, b'h'),
            (0x248 + 3, 255),
            (0x24c, 3),
            (0x24c + 3, 255),
        ] {
            let mut damaged = image.clone();
            damaged[at] = value;
            assert_eq!(Payload::of(&damaged), None, "{at}");
        }
        assert_eq!(Payload::of(&[]), None);
    }

    #[test]
    fn a_module_ends_before_its_signature() {
        let signed = |length: &[u8]| {
            let line = b"~Module signature appended~\n";
            [b"module", &[1; 9][..], &[0; 8], length, line].concat()
        };
        assert_eq!(unsigned(&signed(&[0, 0, 0, 9])), Some(6));
        assert_eq!(unsigned(&signed(&[0, 0, 0, 16])), None, "damaged");
        assert_eq!(unsigned(b"~Module signature appended~\n"), None, "damaged");
        assert_eq!(unsigned(b"module"), None);
    }

    #[test]
    fn versions_are_compared_figure_by_figure() {
        let older = numbers("6.1.0-9-cloud-amd64");
        assert!(older < numbers("6.1.0-10-cloud-amd64"));
        assert!(older < numbers("6.10.2-cloud-amd64"));
        assert!(numbers("6.17.8+deb13-cloud-amd64")[..] > [6, 17][..]);
        assert!(numbers("6.16.12+deb13-cloud-amd64")[..] < [6, 17][..]);
    }
}
