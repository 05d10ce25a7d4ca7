// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs a program under another Linux kernel than the machine's own: one of Debian's packages, in QEMU.
//!
//! [`Kernel::newest`] and [`Kernel::with_bpf_qdiscs`] find the package by apt, and unpack it without installing it. [`Vm::run`] makes an initramfs of the programs
//! that are wanted, with their libraries and the kernel's modules, boots it, runs a shell command in it, and brings output
//! and exit status back. Nothing is shared with the guest, no disk and no network; it needs no privilege. With [`Vm::disk`] it
//! boots a whole system of Debian's instead ([`system`]).
//!
//! It runs on the processor's own virtual machines where they work, see [`Accelerator`]; else QEMU translates, with which a guest
//! boots in some seconds everywhere.

mod accelerator;
mod again;
mod apt;
mod error;
mod initramfs;
mod kernel;
pub mod system;

use std::ffi::OsString;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

pub use accelerator::Accelerator;
pub use again::{again, again_with};
pub use error::VmError;
pub use kernel::{Kernel, cache};

use initramfs::Initramfs;

/// Result of a command in a guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// The command's exit status, 0 for success.
    pub status: i32,
    /// Its standard output and standard error, the first 16 MiB.
    pub text: String,
    /// Messages of its kernel from the boot to the end: warnings and worse, and stack traces.
    pub console: String,
    /// Boots that failed before this one, each with what its console said last: see [`Vm::run`].
    pub failed_boots: Vec<String>,
}

/// Configuration of a guest.
#[derive(Clone, Debug)]
pub struct Vm<'a> {
    kernel: &'a Kernel,
    modules: Vec<String>,
    programs: Vec<PathBuf>,
    in_place: Vec<PathBuf>,
    files: Vec<(String, Vec<u8>)>,
    memory_mib: u32,
    cpus: u32,
    arguments: Vec<OsString>,
    parameters: String,
    accelerator: Option<Accelerator>,
    stop: Option<&'a AtomicBool>,
    disk: Option<PathBuf>,
    boots: usize,
    boot: Duration,
}

impl<'a> Vm<'a> {
    const MOST_OUTPUT: u64 = 16 << 20;
    /// Boots that are tried. Chosen by us: a kernel that is translated panics early now and then, while it patches its own code.
    const BOOTS: usize = 3;
    /// The part of the host's time by which a guest's clock may be ahead. A kernel that boots while the host stalls takes its counter of
    /// cycles for a slower one: a clock 44 times too fast was seen, and watchdogs that took other processors for stuck.
    const FAST: f64 = 0.25;
    /// The longest that a boot may take: some seconds on a machine that is idle, over a minute beside twenty busy programs.
    const BOOT: Duration = Duration::from_secs(300);

    /// A guest with the kernel's own modules for its console, busybox, two processors and 1 GiB of memory.
    pub fn new(kernel: &'a Kernel) -> Self {
        Self {
            kernel,
            modules: ["virtio_pci", "virtio_console"].map(String::from).to_vec(),
            programs: Vec::new(),
            in_place: Vec::new(),
            files: Vec::new(),
            memory_mib: 1024,
            cpus: 2,
            arguments: Vec::new(),
            parameters: String::new(),
            accelerator: None,
            stop: None,
            disk: None,
            boots: Self::BOOTS,
            boot: Self::BOOT,
        }
    }

    /// Loads a module of the kernel, and those that it needs, before the command runs.
    pub fn module(mut self, name: &str) -> Self {
        self.modules.push(name.into());
        self
    }

    /// Gives the kernel a further parameter, as `quiet`.
    pub fn parameter(mut self, parameter: &str) -> Self {
        self.parameters = format!("{} {parameter}", self.parameters);
        self
    }

    /// Brings a program of this machine into the guest's `/bin`, with the libraries that it is linked to.
    ///
    /// The shell prefers busybox's programs: of those names it takes another by its path alone, as `/bin/tc`.
    pub fn program(mut self, path: &Path) -> Self {
        self.programs.push(path.into());
        self
    }

    /// Brings a file of this machine to the same place in the guest; of a library, those that it is linked to as well.
    pub fn in_place(mut self, path: &Path) -> Self {
        self.in_place.push(path.into());
        self
    }

    /// Brings a file into the guest, whose path `to` is given from the root.
    pub fn file(mut self, to: &str, content: impl Into<Vec<u8>>) -> Self {
        self.files
            .push((to.trim_start_matches('/').into(), content.into()));
        self
    }

    /// Number of processors.
    pub fn cpus(mut self, count: u32) -> Self {
        self.cpus = count;
        self
    }

    /// Memory in MiB; the guest's files are in it.
    pub fn memory(mut self, mib: u32) -> Self {
        self.memory_mib = mib;
        self
    }

    /// A guest whose clock counts its instructions, one a nanosecond, and skips the time in which it waits: other
    /// load of this machine changes nothing for it. It is translated, and has one processor.
    pub fn counting(self) -> Self {
        self.accelerator(Accelerator::Tcg)
            .cpus(1)
            .qemu(["-icount", "shift=0,sleep=off"])
    }

    /// Gives QEMU further arguments, as `-icount shift=0`, which counts instructions and needs [`Accelerator::Tcg`].
    pub fn qemu<A: Into<OsString>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Runs it so and not otherwise; it is [`Accelerator::best`] where nothing is said.
    pub fn accelerator(mut self, accelerator: Accelerator) -> Self {
        self.accelerator = Some(accelerator);
        self
    }

    /// Boots the system of a disk, an image of [`system::debian`], by its own systemd, and runs the command once all of it has come up. The
    /// disk keeps what is written; programs of this machine are in the command's path there, and take that system's libraries.
    pub fn disk(mut self, image: &Path) -> Self {
        self.disk = Some(image.into());
        self.module("virtio_blk").module("ext4")
    }

    /// Boots once, and no longer than `limit`.
    pub(crate) fn boots_once(mut self, limit: Duration) -> Self {
        (self.boots, self.boot) = (1, limit);
        self
    }

    /// Ends the guest when `flag` is set, from wherever.
    pub fn stop_on(mut self, flag: &'a AtomicBool) -> Self {
        self.stop = Some(flag);
        self
    }

    /// Boots, runs `command` by the guest's shell as root, and stops.
    ///
    /// `limit` is the longest time without a whole line of its output. A boot that ends before the command runs, takes longer than five minutes, or
    /// comes up with a clock that is too fast, is tried again, three times in all ([`Output::failed_boots`]). Errors are of the host and of the boot, see [`VmError`].
    pub fn run(&self, command: &str, limit: Duration) -> Result<Output, VmError> {
        self.follow(command, limit, |_| {})
    }

    /// As [`Self::run`], and gives what the command writes line by line, soon after it did.
    pub fn follow(
        &self,
        command: &str,
        limit: Duration,
        mut line: impl FnMut(&str),
    ) -> Result<Output, VmError> {
        let accelerator = match self.accelerator {
            Some(accelerator) => accelerator,
            None => Accelerator::best(self.kernel)?,
        };
        let qemu = find("qemu-system-x86_64", "qemu-system-x86")?;
        let place = tempfile::tempdir().map_err(|error| file(&env::temp_dir(), error))?;
        let at = |name: &str| place.path().join(name);
        self.archive(command)?.write(&at("initramfs"))?;

        // On a busy host the timer of a translated guest is too late for the kernel's check of it. The tests of its own ciphers are a
        // third of a boot's instructions.
        let mut kernel =
            String::from("console=ttyS0 panic=-1 loglevel=5 no_timer_check cryptomgr.notests=1");
        if self.disk.is_some() {
            // Nobody logs in, and the console is for complaints. Without udev its device is waited for in vain.
            kernel += " systemd.show_status=no systemd.mask=getty-static.service systemd.mask=serial-getty@ttyS0.service";
        }
        kernel += &self.parameters;
        let processor = match accelerator {
            Accelerator::Kvm => "max",
            // Of a processor that has ERMS the kernel clears pages byte by byte, which QEMU translates as it stands.
            Accelerator::Tcg => "max,-erms",
        };
        let mut machine = Command::new(qemu);
        machine
            .args(["-nodefaults", "-display", "none", "-no-reboot"])
            .args(["-accel", accelerator.name(), "-cpu", processor])
            .args(["-smp", &self.cpus.to_string()])
            .args(["-m", &format!("{}M", self.memory_mib)])
            .args(["-kernel".as_ref(), self.kernel.image().as_os_str()])
            .args(["-initrd".as_ref(), at("initramfs").as_os_str()])
            .args(["-append", &kernel])
            .args(["-chardev".into(), saved("console", &at("console"))])
            .args(["-serial", "chardev:console", "-device", "virtio-serial-pci"])
            .args(["-chardev".into(), saved("output", &at("output"))])
            .args(["-device", "virtserialport,chardev=output,name=output"])
            .args(["-chardev".into(), saved("status", &at("status"))])
            .args(["-device", "virtserialport,chardev=status,name=status"])
            .args(self.disk.iter().flat_map(|image| {
                let drive = escaped("if=virtio,format=raw,cache=unsafe,file=", image);
                ["-drive".into(), drive]
            }))
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        let died = || {
            let signal = rustix::process::Signal::KILL;
            Ok(rustix::process::set_parent_process_death_signal(Some(
                signal,
            ))?)
        };
        // SAFETY: between fork and exec only one system call is made, and nothing is allocated.
        unsafe { machine.pre_exec(died) };

        let mut consoles: Vec<String> = Vec::new();
        while consoles.len() < self.boots {
            match self.boot(&mut machine, place.path(), limit, &mut line)? {
                Boot::Ended(output) => {
                    return Ok(Output {
                        failed_boots: consoles.iter().map(|all| why(all)).collect(),
                        ..output
                    });
                }
                Boot::Failed(console) => consoles.push(console),
            }
        }
        Err(VmError::NoBoot { consoles })
    }

    /// One boot, whose files are in `place`.
    fn boot(
        &self,
        machine: &mut Command,
        place: &Path,
        limit: Duration,
        line: &mut impl FnMut(&str),
    ) -> Result<Boot, VmError> {
        let at = |name: &str| place.join(name);
        // A first boot's are not taken for those of the next.
        for name in ["console", "output", "status"] {
            let _ = fs::remove_file(at(name));
        }
        let complaints = fs::File::create(at("complaints")).map_err(|e| file(place, e))?;
        let began = Instant::now();
        let machine = machine.stderr(complaints).spawn();
        let mut machine = machine.map_err(|e| failed("qemu", &e))?;

        let mut end = began + self.boot;
        let mut lines = Lines::of(at("output"));
        let read = |name| {
            let mut bytes = Vec::new();
            // Missing output is output that the guest did not come to write.
            if let Ok(file) = fs::File::open(at(name)) {
                let _ = file.take(Self::MOST_OUTPUT).read_to_end(&mut bytes);
            }
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let stopped = || self.stop.is_some_and(|flag| flag.load(Ordering::Relaxed));
        let mut begun = false;
        let in_time = loop {
            let ended = machine.try_wait().map_err(|e| failed("qemu", &e))?;
            if lines.give(line) && begun {
                end = Instant::now() + limit;
            }
            if let (false, Some(uptime)) = (begun, uptime(&read("status"))) {
                let host = began.elapsed().as_secs_f64();
                if self.keeps_time() && uptime > host * (1.0 + Self::FAST) {
                    let _ = machine.kill();
                    let _ = machine.wait();
                    return Ok(Boot::Failed(format!(
                        "its clock is too fast: at {uptime} s after {host:.1} s"
                    )));
                }
                begun = true;
                end = Instant::now() + limit;
            }
            if ended.is_some() {
                break true;
            }
            if Instant::now() >= end || stopped() {
                // It may have ended this moment, which is as well.
                let _ = machine.kill();
                let _ = machine.wait();
                break false;
            }
            thread::sleep(Duration::from_millis(50));
        };
        let [text, console, status] = ["output", "console", "status"].map(read);
        if stopped() {
            return Err(VmError::Cancelled);
        }
        let last_words = || {
            let all = read("complaints") + &text + &console;
            let lines: Vec<&str> = all.lines().collect();
            lines[lines.len().saturating_sub(20)..].join("\n")
        };
        if !begun {
            return Ok(Boot::Failed(last_words()));
        }
        if !in_time {
            return Err(VmError::TimedOut { limit, said: text });
        }
        match status.lines().nth(1).map(str::parse) {
            Some(Ok(status)) => Ok(Boot::Ended(Output {
                status,
                text,
                console,
                failed_boots: Vec::new(),
            })),
            _ => Err(VmError::Stopped {
                console: last_words(),
            }),
        }
    }

    /// Whether its clock is the host's, and does not count instructions.
    fn keeps_time(&self) -> bool {
        !self.arguments.iter().any(|one| one == "-icount")
    }

    fn archive(&self, command: &str) -> Result<Initramfs, VmError> {
        let mut archive = Initramfs::default();
        archive.add("init", include_bytes!("init.sh").to_vec(), true);
        archive.program(&find("busybox", "busybox-static")?)?;
        for program in &self.programs {
            archive.program(program)?;
        }
        for path in &self.in_place {
            archive.in_place(path)?;
        }
        for (path, content) in &self.files {
            archive.add(path, content.clone(), false);
        }
        if self.disk.is_some() {
            let programs = self.programs.iter().filter_map(|path| path.file_name());
            let names = programs.map(|name| format!("/bin/{}\n", name.to_string_lossy()));
            archive.add("etc/system", Vec::new(), false);
            archive.add("etc/programs", names.collect::<String>().into(), false);
            archive.add("etc/guest.sh", include_bytes!("guest.sh").to_vec(), false);
            let unit = include_bytes!("guest.service").to_vec();
            archive.add("etc/guest.service", unit, false);
        }
        let mut modules = String::new();
        for path in self.kernel.modules(&self.modules)? {
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            let name = format!("lib/modules/{}", name.trim_end_matches(".ko"));
            archive.add(&name, kernel::module(&path)?, false);
            modules += &format!("/{name}\n");
        }
        archive.add("etc/modules", modules.into_bytes(), false);
        archive.add("etc/command", command.as_bytes().to_vec(), false);
        Ok(archive)
    }
}

/// Result of a boot.
enum Boot {
    /// The command has run.
    Ended(Output),
    /// It did not come to run; the console's last lines.
    Failed(String),
}

/// Seconds since its boot that a guest told as its command began.
fn uptime(status: &str) -> Option<f64> {
    let (line, _) = status.split_once('\n')?;
    line.strip_prefix("begun ")?.parse().ok()
}

/// The line of a console that says why a boot failed: that of the panic, or the last.
fn why(console: &str) -> String {
    let panic = console.lines().find(|line| line.contains("panic"));
    panic.or(console.lines().last()).unwrap_or_default().into()
}

/// The whole lines of a file that grows.
struct Lines {
    path: PathBuf,
    given: u64,
}

impl Lines {
    fn of(path: PathBuf) -> Self {
        Self { path, given: 0 }
    }

    /// Gives those that are new; whether there was any.
    fn give(&mut self, line: &mut impl FnMut(&str)) -> bool {
        let mut more = Vec::new();
        // Missing output can be read later, or is not there.
        let opened = fs::File::open(&self.path).and_then(|mut file| {
            file.seek(SeekFrom::Start(self.given))?;
            file.take(Vm::MOST_OUTPUT).read_to_end(&mut more)
        });
        let whole = more.iter().rposition(|byte| *byte == b'\n');
        if let (Ok(_), Some(last)) = (opened, whole) {
            let text = String::from_utf8_lossy(&more[..=last]);
            text.lines().for_each(line);
            self.given += last as u64 + 1;
            return true;
        }
        false
    }
}

/// A file that QEMU writes, as an option.
fn saved(id: &str, path: &Path) -> OsString {
    escaped(&format!("file,id={id},path="), path)
}

/// The end of an option, in which a comma of the path is doubled.
fn escaped(begin: &str, path: &Path) -> OsString {
    let mut argument = begin.as_bytes().to_vec();
    for &byte in path.as_os_str().as_bytes() {
        argument.extend([byte; 2].iter().take(1 + usize::from(byte == b',')));
    }
    OsString::from_vec(argument)
}

/// A program in PATH, or where root's programs are.
pub fn find(program: &str, package: &'static str) -> Result<PathBuf, VmError> {
    let path = env::var_os("PATH").unwrap_or_default();
    let more = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    let places = env::split_paths(&path).chain(more);
    let mut found = places.map(|place| place.join(program));
    found.find(|path| path.is_file()).ok_or(VmError::Missing {
        program: program.into(),
        package,
    })
}

/// Runs a program of the host; what it printed.
fn output(command: &mut Command) -> Result<String, VmError> {
    let shown = format!("{command:?}");
    let output = command.output().map_err(|e| failed(&shown, &e))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(failed(&shown, &said.trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn failed(command: &str, said: &dyn std::fmt::Display) -> VmError {
    VmError::Failed {
        command: command.into(),
        said: said.to_string(),
    }
}

fn file(path: &Path, error: io::Error) -> VmError {
    VmError::File {
        path: path.into(),
        error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn qemu_writes_to_a_folder_with_commas_in_its_name() {
        let Ok(qemu) = find("qemu-system-x86_64", "qemu-system-x86") else {
            return makeway_testing::skip("no QEMU");
        };
        let folder = tempfile::Builder::new().prefix("a,b,,c").tempdir().unwrap();
        let file = folder.path().join("console");
        let mut machine = Command::new(qemu)
            .args(["-nodefaults", "-display", "none", "-machine", "none", "-S"])
            .args(["-chardev".into(), saved("console", &file)])
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let end = Instant::now() + Duration::from_secs(60);
        let ended = loop {
            let ended = machine.try_wait().unwrap();
            if ended.is_some() || file.exists() || Instant::now() > end {
                break ended;
            }
            thread::sleep(Duration::from_millis(10));
        };
        let _ = machine.kill();
        machine.wait().unwrap();
        assert!(file.exists(), "{ended:?}");
    }
}
