// SPDX-License-Identifier: MIT OR Apache-2.0
//! `makeway service`: keeps every interface of a file shaped, each by a `makeway up` of its own.

#[cfg(feature = "web")]
mod change;
mod child;
#[cfg(feature = "web")]
mod page;
#[cfg(not(feature = "web"))]
#[path = "service/page/absent.rs"]
mod page;

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, ensure};
use clap::Args;
use makeway_gateway::events::{LinkEvents, Ready, wait};
use makeway_scenario::service::{self, Service, Shaped};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::pipe;

use super::instance::notify;
use crate::text;
use child::Keeper;
use page::Page;

/// The file, unless another is given.
pub const FILE: &str = "/etc/makeway/makeway.toml";
/// The largest file that is read: 1 MB.
const LARGEST: u64 = 1_000_000;
/// The file and the interfaces are looked at this often, besides the system's news of them.
const LOOK: Duration = Duration::from_secs(1);

/// Shapes the interfaces of a file, and follows the file and the interfaces.
///
/// Each interface has a `makeway up` of its own, which starts when the interface is there, ends when it is gone, and is
/// started again if it dies. SIGHUP, or a change of the file, is a reload: rates, limits, framing, weights, parameters and
/// disciplines change in the running process, and packets that wait stay; a file with an error is refused as a whole.
/// docs/service.md explains the keys.
#[derive(Args)]
#[command(after_help = "Examples:
  makeway service --check makeway.toml
  sudo makeway service
  sudo systemctl enable --now makeway; sudo systemctl reload makeway")]
pub struct ServiceArgs {
    /// The file.
    #[arg(long, value_name = "FILE", default_value = FILE)]
    config: PathBuf,
    /// Checks FILE, prints its settings, and changes nothing. Exit status 1 if it has an error.
    #[arg(long, value_name = "FILE", conflicts_with = "config")]
    check: Option<PathBuf>,
}

/// Runs until SIGTERM or SIGINT. Exit status 1 if the file has an error at the start.
pub fn run(args: &ServiceArgs) -> anyhow::Result<ExitCode> {
    if let Some(file) = &args.check {
        let Service { interfaces, web } = read(file)?;
        if interfaces.is_empty() {
            text::say!(
                "no interface yet: write [interface.wan0], and `upload = \"20mbit\"` below it"
            );
        }
        for interface in &interfaces {
            text::say!("{}", described(interface));
        }
        if let Some(web) = web {
            text::say!("page on http://{}/", web.listen);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let mut signals = Signals::new()?;
    let events = LinkEvents::new().context("cannot hear of interfaces")?;
    let mut file = Watched::new(&args.config)?;
    let mut kept = AllKept::new();
    let mut page = Page::new(signals.wake.try_clone()?);
    keep(&mut kept, &mut page, file.read()?);
    if kept.is_empty() {
        text::say!("{}: names no interface yet", file.path.display());
    }
    notify("READY=1");
    let is_watched = std::env::var_os("WATCHDOG_USEC").is_some();
    let mut is_leaving = false;
    let mut next = Instant::now();
    loop {
        if next <= Instant::now() {
            next = Instant::now() + LOOK;
            if is_watched {
                notify("WATCHDOG=1");
            }
            kept.values_mut().for_each(|one| one.keeper.tick());
            page.look();
            if !is_leaving && file.has_changed() {
                reload(&mut kept, &mut page, &mut file);
            }
        }
        #[cfg(feature = "web")]
        for request in page.requests() {
            change::serve(&mut kept, &mut page, request);
        }
        for (name, one) in &mut kept {
            one.keeper.look();
            for text in one.keeper.news() {
                page.tell(name, &text);
            }
        }
        kept.retain(|_, one| !one.keeper.is_done());
        if is_leaving && kept.is_empty() {
            return Ok(ExitCode::SUCCESS);
        }
        let left = next.saturating_duration_since(Instant::now());
        let Ready { first, second } = wait(signals.pipe.as_fd(), events.as_fd(), left)?;
        if second {
            events.drain();
        }
        if first {
            let signs = signals.take();
            if signs.quit && !std::mem::replace(&mut is_leaving, true) {
                notify("STOPPING=1");
                kept.values_mut().for_each(|one| one.keeper.dismiss());
            }
            if signs.reload && !is_leaving {
                reload(&mut kept, &mut page, &mut file);
            }
        }
    }
}

/// An interface of the file.
struct Kept {
    keeper: Keeper,
    /// As the file has it; a session of the page may have asked for something else.
    #[cfg_attr(not(feature = "web"), allow(dead_code))]
    filed: Shaped,
    /// Settings before each change of a session.
    before: Vec<Shaped>,
}

type AllKept = BTreeMap<String, Kept>;

/// The interface of that name, unless it is about to be let go.
#[cfg(feature = "web")]
fn by_name<'k>(kept: &'k mut AllKept, name: &str) -> Option<&'k mut Kept> {
    kept.get_mut(name).filter(|one| !one.keeper.is_dismissed())
}

/// Takes the file as it is now, or says why not.
fn reload(kept: &mut AllKept, page: &mut Page, file: &mut Watched) {
    let path = file.path.display().to_string();
    match file.read() {
        // As a file is while somebody writes it.
        Ok(service) if service.interfaces.is_empty() && !kept.is_empty() => {
            eprintln!("makeway: {path} names no interface; all stays as it was");
            page.tell("", "the file names no interface; all stays as it was");
        }
        Ok(service) => {
            text::say!("{path}: read again");
            page.tell("", "the file was read again");
            keep(kept, page, service);
        }
        Err(error) => {
            eprintln!("makeway: {error:#}; all stays as it was");
            page.tell("", &format!("{error:#}; all stays as it was"));
        }
    }
}

/// Has each of the file's interfaces kept and shown, and no other.
fn keep(kept: &mut AllKept, page: &mut Page, service: Service) {
    for (name, one) in kept.iter_mut() {
        if !service.interfaces.iter().any(|own| own.name == *name) {
            one.keeper.dismiss();
        }
    }
    for interface in service.interfaces {
        match kept.get_mut(&interface.name) {
            // Changes of a session stay, while this part of the file does.
            Some(one) if one.filed == interface && !one.keeper.is_dismissed() => {
                one.keeper.ask(one.keeper.want().clone());
            }
            Some(one) => {
                let text = format!("{}, by the file", settings_of(&interface));
                page.tell(&interface.name, &text);
                one.filed = interface.clone();
                one.before.clear();
                one.keeper.ask(interface);
            }
            None => {
                let one = Kept {
                    keeper: Keeper::new(interface.clone()),
                    filed: interface,
                    before: Vec::new(),
                };
                kept.insert(one.filed.name.clone(), one);
            }
        }
    }
    page.show(kept.values());
    page.ask(service.web);
}

/// Reads the file.
///
/// # Errors
/// If it cannot be read, or has an error; the message names its line.
pub fn read(path: &Path) -> anyhow::Result<Service> {
    let shown = path.display();
    let why = || format!("{shown} cannot be read: write it as docs/service.md explains");
    let length = fs::metadata(path).with_context(why)?.len();
    ensure!(
        length <= LARGEST,
        "{shown} has {length} B, more than {LARGEST}: is it the file?"
    );
    let text = fs::read_to_string(path).with_context(why)?;
    Ok(service::parse(&text, &shown.to_string())?)
}

/// `wan0: upload 20mbit, download 50mbit by makeway`.
fn described(interface: &Shaped) -> String {
    format!("{}: {}", interface.name, settings_of(interface))
}

/// `upload 20mbit, download 50mbit by makeway`, `upload 20mbit by cake in the kernel, download not shaped`.
fn settings_of(interface: &Shaped) -> String {
    let place = match interface.backend.as_str() {
        "bpf" | "cake" => " in the kernel",
        "nfqueue" => " in the packet queue",
        _ => "",
    };
    let by = format!("by {}{place}", interface.discipline);
    let rates = match (interface.upload, interface.download) {
        (Some(upload), Some(download)) => format!("upload {upload}, download {download} {by}"),
        (Some(upload), None) => format!("upload {upload} {by}, download not shaped"),
        (None, Some(download)) => format!("upload not shaped, download {download} {by}"),
        (None, None) => "not shaped".into(),
    };
    format!(
        "{rates}{}",
        interface
            .autorate
            .as_ref()
            .map_or("", |_| ", by autorate from there on")
    )
}

/// The file, and when it was changed last.
struct Watched {
    path: PathBuf,
    seen: Option<(SystemTime, u64)>,
}

impl Watched {
    fn new(path: &Path) -> anyhow::Result<Self> {
        // A folder that is changed to later is not the one that was meant.
        let path = std::path::absolute(path).with_context(|| path.display().to_string())?;
        Ok(Self { path, seen: None })
    }

    fn now(&self) -> Option<(SystemTime, u64)> {
        let file = fs::metadata(&self.path).ok()?;
        Some((file.modified().ok()?, file.len()))
    }

    /// Whether it is another one than was read last. A file that is gone for a moment is one that is being replaced.
    fn has_changed(&self) -> bool {
        self.now().is_some_and(|now| self.seen != Some(now))
    }

    fn read(&mut self) -> anyhow::Result<Service> {
        self.seen = self.now();
        read(&self.path)
    }
}

/// Signals as bytes in a pipe.
struct Signals {
    pipe: UnixStream,
    /// The other end of `pipe`.
    wake: UnixStream,
    quit: UnixStream,
    reload: UnixStream,
}

/// Signals that came.
struct Signs {
    quit: bool,
    reload: bool,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        // Each signal wakes the loop by the first pipe and is told by one of its own.
        let (pipe, wake) = UnixStream::pair()?;
        let (quit, quits) = UnixStream::pair()?;
        let (reload, reloads) = UnixStream::pair()?;
        for stream in [&pipe, &quit, &reload] {
            stream.set_nonblocking(true)?;
        }
        for signal in [SIGINT, SIGTERM] {
            pipe::register(signal, quits.try_clone()?)?;
        }
        pipe::register(SIGHUP, reloads)?;
        for signal in [SIGINT, SIGTERM, SIGHUP, SIGCHLD] {
            pipe::register(signal, wake.try_clone()?)?;
        }
        Ok(Self {
            pipe,
            wake,
            quit,
            reload,
        })
    }

    fn take(&mut self) -> Signs {
        let some = |stream: &mut UnixStream| stream.read(&mut [0; 64]).is_ok_and(|n| n > 0);
        some(&mut self.pipe);
        Signs {
            quit: some(&mut self.quit),
            reload: some(&mut self.reload),
        }
    }
}
