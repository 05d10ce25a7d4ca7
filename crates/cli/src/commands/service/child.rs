// SPDX-License-Identifier: MIT OR Apache-2.0
//! An interface of the file and the `makeway up` that shapes it.

use std::ffi::OsString;
use std::io;
use std::net::IpAddr;
use std::os::unix::net::UnixDatagram;
use std::panic::resume_unwind;
use std::process::{Child, Command};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use makeway_core::framing::{Cells, Framing};
use makeway_core::units::Rate;
use makeway_gateway::control::interface::Interface;
use makeway_gateway::control::{client, protocol::Settings};
use makeway_scenario::service::Shaped;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::text;
use crate::up::queue_limit;

/// Between two starts, at first and at most.
const PAUSE: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));
/// After so long at work the next pause is the first again.
const STEADY: Duration = Duration::from_secs(60);
/// Seconds without a sign of life after which a process stands still: at work, before it is ready, and while it ends.
const SILENT: (u32, u32, u32) = (5, 90, 60);

/// Keeps an interface as the file asks.
pub struct Keeper {
    want: Shaped,
    running: Option<Running>,
    /// No start before, and the pause that led to it.
    next: Instant,
    pause: Duration,
    /// Whether its absence was said.
    told: bool,
    dismissed: bool,
    /// Whether the last process was killed, and may have left what it did.
    left: bool,
    /// Events since the last look.
    news: Vec<String>,
}

/// A process at work.
struct Running {
    child: Child,
    as_asked: Shaped,
    since: Instant,
    /// Number and largest packet of the interface then.
    interface: (u32, u32),
    ending: bool,
    signs: SignsOfLife,
    is_ready: bool,
    /// Seconds since the last sign.
    silent: u32,
    asking: Option<Asking>,
}

/// A change that a process is asked for, on a thread of its own: another qdisc may take some seconds to load.
struct Asking {
    to: Shaped,
    thread: JoinHandle<Result<(), String>>,
}

impl Asking {
    fn start(to: &Shaped, settings: Settings) -> io::Result<Self> {
        let name = to.name.clone();
        let ask = move || {
            let set = client::set(&name, settings);
            set.map(drop).map_err(|error| error.to_string())
        };
        Ok(Self {
            to: to.clone(),
            thread: thread::Builder::new().name("change".into()).spawn(ask)?,
        })
    }
}

/// A socket where a process says that it is ready and alive, as it says it to systemd (sd_notify(3)).
struct SignsOfLife {
    socket: UnixDatagram,
    folder: TempDir,
}

impl SignsOfLife {
    fn new() -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("makeway-").tempdir()?;
        let socket = UnixDatagram::bind(folder.path().join("signs"))?;
        socket.set_nonblocking(true)?;
        Ok(Self { socket, folder })
    }

    /// Whether there was one since the last time.
    fn any(&self) -> bool {
        let mut any = false;
        while self.socket.recv(&mut [0; 64]).is_ok() {
            any = true;
        }
        any
    }
}

impl Keeper {
    pub fn new(want: Shaped) -> Self {
        Self {
            want,
            running: None,
            next: Instant::now(),
            pause: PAUSE.0,
            told: false,
            dismissed: false,
            left: false,
            news: Vec::new(),
        }
    }

    /// The interface as it is to be.
    #[cfg_attr(not(feature = "web"), allow(dead_code))]
    pub fn want(&self) -> &Shaped {
        &self.want
    }

    /// Whether it is about to be let go.
    pub fn is_dismissed(&self) -> bool {
        self.dismissed
    }

    /// Events since the last time.
    pub fn news(&mut self) -> Vec<String> {
        std::mem::take(&mut self.news)
    }

    /// The file asks for something else, or the same again.
    pub fn ask(&mut self, want: Shaped) {
        self.dismissed = false;
        self.want = want;
        let Some(running) = &mut self.running else {
            self.next = Instant::now();
            return;
        };
        // After the change that is under way the next one is looked for.
        if running.as_asked == self.want || running.ending || running.asking.is_some() {
            return;
        }
        let interface = Interface::find(&self.want.name);
        let header = interface.map_or(0, |interface| interface.link_header());
        let Some(settings) = settings(&running.as_asked, &self.want, header) else {
            text::say!("{}: starts anew", self.want.name);
            self.news.push("starts anew".into());
            return running.make_room(&self.want);
        };
        match Asking::start(&self.want, settings) {
            Ok(asking) => running.asking = Some(asking),
            Err(error) => self.refused(&error.to_string()),
        }
    }

    /// Starts the process anew, since a change could not be made while it runs.
    fn refused(&mut self, why: &str) {
        eprintln!("makeway: {}: {why}; it starts anew", self.want.name);
        self.news.push(format!("{why}; it starts anew"));
        if let Some(running) = &mut self.running {
            running.make_room(&self.want);
        }
    }

    /// Looks whether the change that is under way has been made.
    fn settle(&mut self) {
        let Some(running) = &mut self.running else {
            return;
        };
        let asking = running.asking.take_if(|one| one.thread.is_finished());
        let Some(Asking { to, thread }) = asking else {
            return;
        };
        match thread.join() {
            Ok(Ok(())) => {
                text::say!("{}", super::described(&to));
                running.as_asked = to;
            }
            // One that ends has refused nothing.
            Ok(Err(_)) if running.ending => {}
            Ok(Err(why)) => self.refused(&why),
            Err(panic) => resume_unwind(panic),
        }
        if !self.dismissed {
            self.ask(self.want.clone());
        }
    }

    /// The file names the interface no more, or the service ends.
    pub fn dismiss(&mut self) {
        self.dismissed = true;
        if let Some(running) = &mut self.running {
            running.end();
        }
    }

    /// Whether nothing is left to do for it.
    pub fn is_done(&self) -> bool {
        self.dismissed && self.running.is_none()
    }

    /// Brings the interface nearer to the file.
    pub fn look(&mut self) {
        self.settle();
        let now = Instant::now();
        let interface = Interface::find(&self.want.name).ok();
        let found = interface.map(|interface| (interface.index, interface.mtu));
        if let Some(running) = &mut self.running {
            match running.child.try_wait() {
                Ok(None) => {
                    // A process whose interface is gone ends by itself; limits in bytes follow the largest packet.
                    if found.is_some_and(|found| found != running.interface) && !running.ending {
                        match found.is_some_and(|(index, _)| index == running.interface.0) {
                            true => running.make_room(&self.want),
                            false => running.end(),
                        }
                    }
                    return;
                }
                ended => {
                    let was_asked = running.ending;
                    let steady = now.duration_since(running.since) > STEADY;
                    let ended = ended.ok().flatten();
                    // One that could not start leaves what was there.
                    match ended {
                        Some(status) if status.success() => self.left = false,
                        Some(status) if status.code().is_none() => self.left = true,
                        _ => {}
                    }
                    self.running = None;
                    self.pause = if steady {
                        PAUSE.0
                    } else {
                        (self.pause * 2).min(PAUSE.1)
                    };
                    if was_asked || found.is_none() {
                        self.pause = PAUSE.0;
                        self.next = now;
                    } else {
                        self.next = now + self.pause;
                        let how = ended.map_or("".into(), |status| status.to_string());
                        let text = format!("ended ({how}), next start in {:?}", self.pause);
                        eprintln!("makeway: {}: {text}", self.want.name);
                        self.news.push(text);
                    }
                }
            }
        }
        if self.dismissed && std::mem::take(&mut self.left) {
            // Remains of a killed process.
            if let Err(error) = client::down(&self.want.name) {
                eprintln!("makeway: {}: {error}", self.want.name);
            }
        }
        match found {
            None if !self.dismissed && !std::mem::replace(&mut self.told, true) => {
                text::say!("{}: is not there yet", self.want.name);
                self.news.push("is not there yet".into());
            }
            Some(found) if !self.dismissed && self.next <= now => {
                self.told = false;
                self.start(found);
            }
            _ => {}
        }
    }

    /// A second has passed: a process without a sign of life is killed, and the next look starts another.
    pub fn tick(&mut self) {
        let Some(running) = &mut self.running else {
            return;
        };
        let any = running.signs.any();
        running.is_ready |= any;
        running.silent = if any { 0 } else { running.silent + 1 };
        let most = match (running.ending, running.is_ready) {
            (true, _) => SILENT.2,
            (false, false) => SILENT.1,
            (false, true) => SILENT.0,
        };
        if running.silent > most {
            eprintln!("makeway: {}: stands still, and is killed", self.want.name);
            self.news.push("stands still, and is killed".into());
            // It may have ended a moment ago.
            let _ = running.child.kill();
        }
    }

    fn start(&mut self, interface: (u32, u32)) {
        match Running::start(&self.want, interface) {
            Ok(running) => {
                self.running = Some(running);
                self.news
                    .push(format!("starts: {}", super::settings_of(&self.want)));
            }
            Err(error) => {
                eprintln!("makeway: {}: cannot start: {error}", self.want.name);
                self.news.push(format!("cannot start: {error}"));
                self.pause = (self.pause * 2).min(PAUSE.1);
                self.next = Instant::now() + self.pause;
            }
        }
    }
}

impl Running {
    fn start(want: &Shaped, interface: (u32, u32)) -> io::Result<Self> {
        let signs = SignsOfLife::new()?;
        let child = Command::new(std::env::current_exe()?)
            .args(arguments(want))
            .env("MAKEWAY_SERVICE", std::process::id().to_string())
            // Systemd hears of the service alone.
            .env("NOTIFY_SOCKET", signs.folder.path().join("signs"))
            .env("WATCHDOG_USEC", (SILENT.0 * 1_000_000).to_string())
            .spawn()?;
        Ok(Self {
            child,
            as_asked: want.clone(),
            since: Instant::now(),
            interface,
            ending: false,
            signs,
            is_ready: false,
            silent: 0,
            asking: None,
        })
    }

    /// Ends it for another one. Where the kernel shapes it is killed: the kernel goes on, and the other one takes the packets over; but an
    /// egress that is no longer to be shaped would stay.
    fn make_room(&mut self, to: &Shaped) {
        let has_egress = self.as_asked.upload.is_none() || to.upload.is_some();
        if !has_egress || !client::is_in_the_kernel(&to.name) {
            return self.end();
        }
        self.ending = true;
        self.silent = 0;
        // It may have ended a moment ago.
        let _ = self.child.kill();
    }

    fn end(&mut self) {
        self.ending = true;
        self.silent = 0;
        if let Some(pid) = Pid::from_raw(self.child.id() as i32) {
            // It may have ended a moment ago.
            let _ = kill_process(pid, Signal::TERM);
        }
    }
}

/// The changes between two, if a running process can make them; `header` is that of the device.
fn settings(from: &Shaped, to: &Shaped, header: u32) -> Option<Settings> {
    let alike = Shaped {
        upload: to.upload,
        download: to.download,
        framing: to.framing,
        discipline: to.discipline,
        parameters: to.parameters.clone(),
        weights: to.weights.clone(),
        limit: to.limit.clone(),
        ..from.clone()
    };
    let same_directions = from.upload.is_some() == to.upload.is_some()
        && from.download.is_some() == to.download.is_some();
    if alike != *to || !same_directions {
        return None;
    }
    // A process makes the range that the file leaves open, of its first rate.
    let moves =
        |from: Option<Rate>, to: Option<Rate>, range: Option<_>| from != to && range.is_none();
    let has_another = to.autorate.as_ref().is_some_and(|one| {
        moves(from.upload, to.upload, one.upload) || moves(from.download, to.download, one.download)
    });
    if has_another {
        return None;
    }
    let rate =
        |from: Option<Rate>, to: Option<Rate>| to.filter(|_| from != to).map(|rate| rate.bps());
    let mut settings = Settings {
        rate_bps: rate(from.upload, to.upload),
        down_bps: rate(from.download, to.download),
        discipline: Some(to.discipline).filter(|to| from.discipline != *to),
        ..Settings::default()
    };
    if from.framing != to.framing {
        let own = Framing {
            overhead: header as i32,
            ..Framing::default()
        };
        let framing = to.framing.unwrap_or(own);
        settings.overhead = Some(framing.overhead);
        settings.mpu = Some(framing.mpu);
        settings.cells = Some(framing.cells);
    }
    if from.limit != to.limit {
        let limit = to.limit.as_deref().map(queue_limit).transpose().ok()?;
        settings.limit = Some(limit.unwrap_or_default());
    }
    // A user that is no longer in the file has the weight 1 again.
    let new = to.weights.iter().filter(|one| !from.weights.contains(one));
    let is_gone = |address: &IpAddr| !to.weights.iter().any(|(other, _)| other == address);
    let gone = from.weights.iter().filter(|(address, _)| is_gone(address));
    settings.weights = gone
        .map(|(address, _)| (*address, 1))
        .chain(new.copied())
        .collect();
    // A parameter that is no longer in the file has its default again; another discipline begins with its own.
    let old: &[(String, String)] = match from.discipline == to.discipline {
        true => &from.parameters,
        false => &[],
    };
    let new = to.parameters.iter().filter(|one| !old.contains(one));
    let is_gone = |key: &String| !to.parameters.iter().any(|(other, _)| other == key);
    let gone = old.iter().filter(|(key, _)| is_gone(key));
    settings.parameters = gone
        .map(|(key, _)| (key.clone(), String::new()))
        .chain(new.cloned())
        .collect();
    Some(settings)
}

/// The options of `makeway up`.
fn arguments(want: &Shaped) -> Vec<OsString> {
    let mut all: Vec<String> = vec!["up".into()];
    let mut add = |key: &str, value: String| all.push(format!("--{key}={value}"));
    let rates = [("rate", want.upload), ("down", want.download)];
    for (key, rate) in rates {
        if let Some(rate) = rate {
            add(key, format!("{}bit", rate.bps()));
        }
    }
    add("discipline", want.discipline.name().into());
    for (key, value) in &want.parameters {
        add("param", format!("{key}={value}"));
    }
    add("flows", want.flows.to_string());
    if let Some(users) = want.users {
        add("users", users.to_string());
    }
    for (address, share) in &want.weights {
        add("weight", format!("{address}={share}"));
    }
    if let Some(limit) = &want.limit {
        add("limit", limit.clone());
    }
    add("backend", want.backend.clone());
    if let Some(framing) = want.framing {
        add("overhead", framing.overhead.to_string());
        add("mpu", framing.mpu.to_string());
        match framing.cells {
            Cells::Atm => all.push("--atm".into()),
            Cells::Ptm => all.push("--ptm".into()),
            Cells::None => {}
        }
    }
    if let Some(autorate) = &want.autorate {
        let ranges = [
            ("rate-range", autorate.upload),
            ("down-range", autorate.download),
        ];
        for (key, range) in ranges {
            if let Some((least, most)) = range {
                all.push(format!("--{key}={}bit..{}bit", least.bps(), most.bps()));
            }
        }
        all.extend(
            autorate
                .reflectors
                .iter()
                .map(|one| format!("--reflector={one}")),
        );
        all.extend((!autorate.tcp).then(|| "--no-tcp".into()));
        all.extend((!autorate.calls).then(|| "--no-calls".into()));
        all.push("--autorate".into());
    }
    // An interface may be called like an option.
    all.extend(["--".into(), want.name.clone()]);
    all.into_iter().map(OsString::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use makeway_core::sched::Discipline;
    use makeway_gateway::limit::Limit;
    use makeway_scenario::service::parse;

    fn one(keys: &str) -> Shaped {
        let text = format!("[interface.wan0]\nupload = \"20mbit\"\n{keys}\n");
        let service = parse(&text, "makeway.toml").unwrap_or_else(|error| panic!("{error}"));
        service.interfaces[0].clone()
    }

    #[test]
    fn all_but_keys_backend_and_directions_change_while_a_process_runs() {
        let before = one("download = \"50mbit\"");
        let after = Shaped {
            upload: Some(Rate::from_bps(15_000_000)),
            ..before.clone()
        };
        let change = settings(&before, &after, 14).unwrap();
        assert_eq!(
            (change.rate_bps, change.down_bps, change.discipline),
            (Some(15_000_000), None, None)
        );
        assert!(change.is_of_rates());
        let hier = one(
            "download = \"50mbit\"\ndiscipline = \"hier\"\nlink = \"docsis\"\nlimit = \"60 packets\"\n\
             parameters = { \"quantum\" = \"3000B\" }\nweights = { \"10.0.0.1\" = 2, \"10.0.0.2\" = 3 }",
        );
        let change = settings(&before, &hier, 14).unwrap();
        assert_eq!(change.discipline, Some(Discipline::Hier));
        assert_eq!(change.limit.map(|limit| limit.packets), Some(Some(60)));
        assert_eq!((change.overhead, change.mpu), (Some(18), Some(64)));
        assert_eq!(change.parameters["quantum"], "3000B");
        assert_eq!((change.weights.len(), change.rate_bps), (2, None));
        // Those that are gone have their defaults again; what stays is not told.
        let less = one(
            "download = \"50mbit\"\ndiscipline = \"hier\"\nparameters = { \"drop_from\" = \"tail\" }\n\
             weights = { \"10.0.0.2\" = 3 }",
        );
        let change = settings(&hier, &less, 14).unwrap();
        assert_eq!(
            (change.discipline, change.limit),
            (None, Some(Limit::default()))
        );
        assert_eq!((change.overhead, change.mpu), (Some(14), Some(0)));
        let weights: Vec<_> = change.weights.into_iter().collect();
        assert_eq!(weights, [(IpAddr::from([10, 0, 0, 1]), 1)]);
        let parameters: Vec<_> = change.parameters.into_iter().collect();
        assert_eq!(
            parameters,
            [("drop_from", "tail"), ("quantum", "")].map(|(a, b)| (a.to_owned(), b.to_owned()))
        );
        // The parameters of one discipline are none of another's.
        let change = settings(&less, &before, 14).unwrap();
        assert!(change.parameters.is_empty());
        assert_eq!(change.discipline, Some(Discipline::Makeway));
        for other in [
            "",
            "download = \"50mbit\"\nbackend = \"nfqueue\"",
            "download = \"50mbit\"\nflows = \"src-host\"",
            "download = \"50mbit\"\nusers = \"src-host\"",
            "download = \"50mbit\"\n[interface.wan0.autorate]\n",
        ] {
            assert_eq!(settings(&before, &one(other), 14), None, "{other}");
        }
    }

    #[test]
    fn under_autorate_a_rate_without_a_range_in_the_file_takes_a_new_process() {
        for (range, stays) in [("", false), ("upload = [\"9mbit\", \"40mbit\"]", true)] {
            let before = one(&format!("[interface.wan0.autorate]\n{range}"));
            let mut after = before.clone();
            after.upload = Some(Rate::from_bps(30_000_000));
            assert_eq!(settings(&before, &after, 14).is_some(), stays);
        }
    }

    #[test]
    fn up_understands_every_option_that_is_passed_on() {
        #[derive(clap::Parser)]
        struct CommandLine {
            #[command(subcommand)]
            command: Sub,
        }
        #[derive(clap::Subcommand)]
        enum Sub {
            Up(crate::up::Up),
        }
        for keys in [
            "",
            "download = \"50mbit\"\nlink = \"pppoe-vdsl2\"\nlimit = \"60 packets\"\nbackend = \"nfqueue\"",
            "overhead = -4\nmpu = 64\ncells = \"atm\"\ndiscipline = \"codel\"\nparameters = { \"codel.target\" = \"9ms\" }",
            "download = \"50mbit\"\n[interface.wan0.autorate]\ndownload = [\"9mbit\", \"60mbit\"]\nreflectors = [\"192.0.2.1\"]\ntcp = false\ncalls = false",
            "[interface.wan0.autorate]\ntcp = false",
            "discipline = \"hier\"\nusers = \"src-host\"\nweights = { \"2001:db8::1\" = 3 }\nflows = \"host-pair\"",
        ] {
            let line = [OsString::from("makeway")]
                .into_iter()
                .chain(arguments(&one(keys)));
            let parsed = <CommandLine as clap::Parser>::try_parse_from(line);
            assert!(parsed.is_ok(), "{keys}: {:?}", parsed.err());
        }
        let mut down = one("download = \"50mbit\"");
        down.upload = None;
        let line = [OsString::from("makeway")]
            .into_iter()
            .chain(arguments(&down));
        assert!(<CommandLine as clap::Parser>::try_parse_from(line).is_ok());
    }
}
