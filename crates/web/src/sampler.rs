// SPDX-License-Identifier: MIT OR Apache-2.0
//! Last answer of each instance.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use makeway_gateway::control::client;
use makeway_gateway::control::protocol::Status;
use tokio::sync::watch;

use crate::history::History;
use crate::live::{Live, LiveDirection, live};
use crate::{Event, Interface};

/// Time between two questions to an instance, and while the page is open.
const PERIODS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_millis(500));
/// Most events that are kept.
const MOST_EVENTS: usize = 40;
/// Least time of a round after a change, for its effect to be seen.
const SOON: Duration = Duration::from_millis(50);

/// Answers of one round.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Milliseconds since 1970.
    pub at_ms: u64,
    /// Each interface of the file, in its order.
    pub interfaces: Vec<(Interface, Option<Status>)>,
}

/// A round as the server has it.
#[derive(Clone, Debug, Default)]
pub struct Round {
    /// Round for metrics.
    pub snapshot: Snapshot,
    /// Round for the page: [`Live`] in JSON.
    pub live: String,
}

/// Readers have the last round and never wait for an instance.
pub type Latest = watch::Receiver<Arc<Round>>;
/// A reader of the history waits for one transaction at most.
pub type SharedHistory = Arc<Mutex<History>>;

/// Messages to the thread.
#[derive(Debug, Default)]
struct Told {
    interfaces: Vec<Interface>,
    events: VecDeque<Event>,
    ends: bool,
}

impl Told {
    fn add(&mut self, event: Event) {
        if self.events.len() == MOST_EVENTS {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }
}

/// A thread that asks each second.
#[derive(Debug)]
pub struct Sampler {
    told: Arc<Mutex<Told>>,
    latest: Latest,
    history: SharedHistory,
    thread: Option<JoinHandle<()>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Milliseconds since 1970.
pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

impl Sampler {
    pub fn start(interfaces: Vec<Interface>, path: Option<PathBuf>) -> io::Result<Self> {
        let told = Arc::new(Mutex::new(Told {
            interfaces,
            ..Told::default()
        }));
        let history = match path {
            None => History::open(None),
            Some(_) => History::opening(),
        };
        let history = Arc::new(Mutex::new(history.map_err(io::Error::other)?));
        if let Some(path) = path {
            open_apart(path, &history, &told)?;
        }
        let (tell, latest) = watch::channel(Arc::default());
        let (asks, writes) = (Arc::clone(&told), Arc::clone(&history));
        let run = move || {
            let mut before = Snapshot::default();
            loop {
                let began = Instant::now();
                let interfaces = {
                    let told = locked(&asks);
                    if told.ends {
                        return;
                    }
                    told.interfaces.clone()
                };
                // An interface that cannot be asked is down, as one without an instance.
                let ask = |one: Interface| {
                    let status = client::status(&one.name).ok();
                    (one, status)
                };
                let snapshot = Snapshot {
                    interfaces: interfaces.into_iter().map(ask).collect(),
                    at_ms: now_ms(),
                };
                let events = {
                    let mut told = locked(&asks);
                    for event in rate_events(&before, &snapshot) {
                        told.add(event);
                    }
                    told.events.iter().cloned().collect()
                };
                let shown = live(&before, &snapshot, events);
                let dropped = drops_since(&before, &shown);
                let drops_of = |name: &str, one: &LiveDirection| {
                    dropped
                        .get(&(name.to_owned(), one.direction.name()))
                        .copied()
                        .unwrap_or(0)
                };
                let live = serde_json::to_string(&shown).unwrap_or_default();
                // Published first: the history may have to wait for its readers.
                tell.send_replace(Arc::new(Round {
                    snapshot: snapshot.clone(),
                    live,
                }));
                // Rows that could not be written are written with the next.
                let _ = locked(&writes).add(&shown, drops_of);
                before = snapshot;
                // The server has one receiver, each open page another.
                let period = match tell.receiver_count() > 2 {
                    true => PERIODS.1,
                    false => PERIODS.0,
                };
                thread::park_timeout(period.saturating_sub(began.elapsed()).max(SOON));
            }
        };
        let thread = thread::Builder::new().name("sampler".into()).spawn(run)?;
        Ok(Self {
            told,
            latest,
            history,
            thread: Some(thread),
        })
    }

    pub fn latest(&self) -> Latest {
        self.latest.clone()
    }

    pub fn history(&self) -> SharedHistory {
        Arc::clone(&self.history)
    }

    /// Takes the interfaces, and asks at once.
    pub fn follow(&self, interfaces: Vec<Interface>) {
        locked(&self.told).interfaces = interfaces;
        self.wake();
    }

    pub fn tell(&self, event: Event) {
        locked(&self.told).add(event);
    }

    fn wake(&self) {
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        locked(&self.told).ends = true;
        // The thread may be waiting for an instance that stands still, for seconds; it ends after that.
        self.wake();
    }
}

/// Opens the history on a thread of its own: SQLite waits for another process's lock, and for a slow disk, and the caller keeps the
/// shapers alive.
fn open_apart(
    path: PathBuf,
    history: &SharedHistory,
    told: &Arc<Mutex<Told>>,
) -> io::Result<JoinHandle<()>> {
    let (history, told) = (Arc::clone(history), Arc::clone(told));
    let open = move || {
        let opened = History::open(Some(&path)).map_err(|error| {
            locked(&told).add(Event {
                at_ms: now_ms(),
                interface: String::new(),
                text: format!("history: {}: {error}; it is kept in memory", path.display()),
            });
        });
        locked(&history).opened(opened.ok());
    };
    thread::Builder::new().name("history".into()).spawn(open)
}

/// Changes of rates by autorate since the snapshot before.
fn rate_events(before: &Snapshot, now: &Snapshot) -> Vec<Event> {
    let last = |name: &str, pid: u32| {
        let mut all = before.interfaces.iter();
        let (_, status) = all.find(|(own, _)| own.name == name)?;
        let status = status.as_ref().filter(|status| status.pid == pid)?;
        status
            .autorate
            .as_ref()?
            .events
            .last()
            .map(|last| last.number)
    };
    let mut events = Vec::new();
    for (interface, status) in &now.interfaces {
        let Some(status) = status else { continue };
        let seen = last(&interface.name, status.pid).unwrap_or(0);
        let all = status.autorate.iter().flat_map(|one| &one.events);
        events.extend(all.filter(|event| event.number > seen).map(|event| Event {
            at_ms: event.at_ms,
            interface: interface.name.clone(),
            text: event.to_string(),
        }));
    }
    events
}

/// Packets dropped since the snapshot before, by interface and direction.
fn drops_since(before: &Snapshot, now: &Live) -> HashMap<(String, &'static str), u64> {
    let mut all = HashMap::new();
    for one in &now.interfaces {
        let old = before
            .interfaces
            .iter()
            .find(|(own, _)| own.name == one.asked.name);
        let Some(old) = old.and_then(|(_, status)| status.as_ref()) else {
            continue;
        };
        for direction in one.directions.iter().filter(|one| one.sent_bps.is_some()) {
            let mut others = old.directions.iter();
            let was = others.find(|other| other.direction == direction.direction);
            let dropped = direction
                .dropped
                .saturating_sub(was.map_or(0, |was| was.stats.dropped()));
            all.insert(
                (one.asked.name.clone(), direction.direction.name()),
                dropped,
            );
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use makeway_gateway::autorate::status::{Autorated, RateEvent};

    fn snapshot(pid: u32, numbers: std::ops::RangeInclusive<u64>) -> Snapshot {
        let event = |number| RateEvent {
            number,
            direction: Some(makeway_gateway::rules::Direction::Ingress),
            from_bps: 40_000_000,
            to_bps: 30_000_000,
            why: format!("reason {number}"),
            ..RateEvent::default()
        };
        let status = Status {
            pid,
            autorate: Some(Autorated {
                events: numbers.map(event).collect(),
                ..Autorated::default()
            }),
            ..Status::default()
        };
        let asked = Interface {
            name: "wan0".into(),
            ..Interface::default()
        };
        Snapshot {
            interfaces: vec![(asked, Some(status))],
            ..Snapshot::default()
        }
    }

    #[test]
    fn a_history_whose_file_is_locked_delays_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history.db");
        drop(History::open(Some(&path)).unwrap());
        let holder = rusqlite::Connection::open(&path).unwrap();
        holder.execute_batch("BEGIN IMMEDIATE").unwrap();
        let (done, started) = std::sync::mpsc::channel();
        let file = path.clone();
        thread::spawn(move || done.send(Sampler::start(Vec::new(), Some(file))));
        // SQLite waits for five seconds.
        let sampler = started.recv_timeout(Duration::from_secs(3));
        let sampler = sampler
            .expect("it starts while the file is locked")
            .unwrap();
        holder.execute_batch("ROLLBACK").unwrap();
        drop(holder);
        // By then the file is open.
        let end = Instant::now() + Duration::from_secs(20);
        while locked(&sampler.history).is_opening() && Instant::now() < end {
            thread::sleep(Duration::from_millis(10));
        }
        let told = locked(&sampler.told);
        assert!(!locked(&sampler.history).is_opening() && told.events.is_empty());
    }

    #[test]
    fn each_change_of_a_rate_is_told_once_also_of_another_process() {
        let texts = |before: &Snapshot, now: &Snapshot| -> Vec<String> {
            rate_events(before, now)
                .into_iter()
                .map(|one| one.text)
                .collect()
        };
        let first = snapshot(1, 1..=2);
        let told = texts(&Snapshot::default(), &first);
        assert_eq!(
            told,
            [
                "download 30.0 Mbit/s, was 40.0 Mbit/s: reason 1",
                "download 30.0 Mbit/s, was 40.0 Mbit/s: reason 2"
            ]
        );
        assert!(texts(&first, &first).is_empty());
        assert_eq!(texts(&first, &snapshot(1, 2..=4)).len(), 2);
        assert_eq!(texts(&first, &snapshot(2, 1..=1)).len(), 1);
    }
}
