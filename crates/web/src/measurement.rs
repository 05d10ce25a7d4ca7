// SPDX-License-Identifier: MIT OR Apache-2.0
//! Latency of a link under load, with makeway and, for comparison, without: one measurement at a time.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use makeway_line::{Lifted, Measured, Phase, Plan, address, measure, token};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Bytes of each download and upload at most: four of them make a measurement.
const MOST_BYTES: u64 = 500_000_000;

/// Time limit of a comparison, which takes about 35 s: beyond it the measurement is stopped and makeway's rates are set again.
const MOST: Duration = Duration::from_secs(120);

/// Interface that is measured now, by this page or by an earlier one that a change of the file has ended: one at a time, since a second
/// one would take the rates that the first has set for those of the file. Empty once the rates are back.
static MEASURED: Mutex<Option<String>> = Mutex::new(None);

/// Server of measurements.
#[derive(Clone, Debug)]
pub struct LineServer {
    /// Host, with a port unless it has the usual one.
    pub host: String,
    /// File with its token.
    pub token_file: PathBuf,
}

/// Request for a measurement.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Wanted {
    /// Measures without makeway first: its rates are off for about half a minute.
    pub compare: bool,
}

/// State of a measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// No measurement yet.
    #[default]
    None,
    /// The measurement runs.
    Running,
    /// The measurement has ended, with figures.
    Done,
    /// The measurement has ended, with an error.
    Failed,
}

/// The measurement that runs, or the last one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
pub struct Measurement {
    pub state: State,
    /// The interface.
    pub interface: String,
    /// Whether makeway shapes now; only while the measurement runs.
    pub with_makeway: bool,
    /// Current load; only while the measurement runs.
    pub phase: Phase,
    /// Error of a failed measurement; else empty.
    pub error: String,
    /// Figures with makeway's rates off, if they were asked for.
    pub without: Option<Measured>,
    /// Figures with makeway.
    pub with: Option<Measured>,
}

/// Measurements of a service.
#[derive(Debug)]
pub struct Measurements {
    server: Option<LineServer>,
    now: Arc<Mutex<Measurement>>,
    guard: Mutex<Option<Sender<End>>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Measurements {
    pub fn new(server: Option<LineServer>) -> Self {
        Self {
            server,
            now: Arc::default(),
            guard: Mutex::default(),
        }
    }

    /// Host of the server, if the file names one.
    pub fn host(&self) -> Option<&str> {
        self.server.as_ref().map(|server| server.host.as_str())
    }

    pub fn now(&self) -> Measurement {
        locked(&self.now).clone()
    }

    /// Whether a measurement runs on this interface: it sets the rates itself.
    pub fn is_on(&self, interface: &str) -> bool {
        locked(&MEASURED).as_deref() == Some(interface)
    }

    /// Begins a measurement; false if another runs, or there is no server.
    pub fn start(&self, interface: &str, wanted: Wanted) -> bool {
        let Some(server) = self.server.clone() else {
            return false;
        };
        let mut measured = locked(&MEASURED);
        let mut now = locked(&self.now);
        if measured.is_some() || now.state == State::Running {
            return false;
        }
        *measured = Some(interface.into());
        drop(measured);
        let measuring = Measuring;
        *now = Measurement {
            state: State::Running,
            interface: interface.into(),
            with_makeway: !wanted.compare,
            ..Measurement::default()
        };
        drop(now);
        let run = Run::default();
        let late = {
            let now = Arc::clone(&self.now);
            move || {
                let why = format!("it took longer than {MOST:?}; makeway's rates are back");
                end(&now, Err(why));
            }
        };
        let name = interface.to_owned();
        let begun = guard(run.clone(), MOST, late).and_then(|guard| {
            *locked(&self.guard) = Some(guard.clone());
            let now = Arc::clone(&self.now);
            thread::Builder::new()
                .name("measurement".into())
                .spawn(move || {
                    let done = both(&server, &name, wanted, &now, &run);
                    drop(measuring);
                    end(&now, done);
                    // The guard of a measurement that is late has ended.
                    let _ = guard.send(End::Done);
                })
        });
        if let Err(error) = begun {
            end(&self.now, Err(error.to_string()));
        }
        true
    }
}

impl Drop for Measurements {
    /// Does not wait: the caller keeps interfaces, and the network may not answer for long. The guard sets the rates again.
    fn drop(&mut self) {
        if let Some(guard) = locked(&self.guard).take() {
            // The guard of a measurement that has ended is gone.
            let _ = guard.send(End::Stop);
        }
    }
}

/// Result of a measurement, unless the time limit has ended it.
fn end(now: &Mutex<Measurement>, done: Result<(), String>) {
    let mut now = locked(now);
    if now.state == State::Running {
        now.state = match done {
            Ok(()) => State::Done,
            Err(_) => State::Failed,
        };
        now.error = done.err().unwrap_or_default();
    }
}

/// Another measurement may begin when this is dropped.
struct Measuring;

impl Drop for Measuring {
    fn drop(&mut self) {
        *locked(&MEASURED) = None;
    }
}

/// End of a measurement.
#[derive(Debug, PartialEq, Eq)]
enum End {
    Done,
    Stop,
}

/// A running measurement.
struct Run<T> {
    stop: Arc<AtomicBool>,
    /// The interface without rates, while they are off.
    lifted: Arc<Mutex<Option<T>>>,
}

impl<T> Default for Run<T> {
    fn default() -> Self {
        Self {
            stop: Arc::default(),
            lifted: Arc::default(),
        }
    }
}

impl<T> Clone for Run<T> {
    fn clone(&self) -> Self {
        Self {
            stop: Arc::clone(&self.stop),
            lifted: Arc::clone(&self.lifted),
        }
    }
}

/// A thread that stops the run after `most`, or on request, and sets the rates again by itself: the run may hang in the network.
fn guard<T: Send + 'static>(
    run: Run<T>,
    most: Duration,
    late: impl FnOnce() + Send + 'static,
) -> io::Result<Sender<End>> {
    let (tell, told): (_, Receiver<End>) = mpsc::channel();
    let guard = move || {
        let told = told.recv_timeout(most);
        if told == Ok(End::Done) {
            return;
        }
        run.stop.store(true, Ordering::Relaxed);
        drop(locked(&run.lifted).take());
        if let Some(interface) = &mut *locked(&MEASURED) {
            interface.clear();
        }
        if told.is_err() {
            late();
        }
    };
    thread::Builder::new().name("guard".into()).spawn(guard)?;
    Ok(tell)
}

fn both(
    server: &LineServer,
    interface: &str,
    wanted: Wanted,
    now: &Mutex<Measurement>,
    run: &Run<Lifted>,
) -> Result<(), String> {
    let failed = |error: makeway_line::LineError| error.to_string();
    let plan = Plan {
        interface: Some(interface.into()),
        most_bytes: MOST_BYTES,
        ..Plan::new(
            address(&server.host).map_err(failed)?,
            token(&server.token_file).map_err(failed)?,
        )
    };
    let one = || measure(&plan, &run.stop, |stage| locked(now).phase = stage.phase).map_err(failed);
    if wanted.compare {
        {
            // The guard waits for this lock, and for nothing after it.
            let mut lifted = locked(&run.lifted);
            if run.stop.load(Ordering::Relaxed) {
                return Err("stopped".into());
            }
            *lifted = Some(Lifted::new(interface).map_err(|error| error.to_string())?);
        }
        let without = one();
        drop(locked(&run.lifted).take());
        let without = without?;
        let mut now = locked(now);
        now.without = Some(without);
        now.with_makeway = true;
    }
    let with = one()?;
    locked(now).with = Some(with);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::time::Instant;

    /// They share the one measurement of the process.
    static ALONE: Mutex<()> = Mutex::new(());

    fn waits_for(done: impl Fn() -> bool) {
        let end = Instant::now() + Duration::from_secs(20);
        while !done() {
            assert!(Instant::now() < end);
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Rates that are off until this is dropped.
    struct Off(Arc<AtomicBool>);

    impl Drop for Off {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    #[test]
    fn rates_come_back_by_the_deadline_though_the_measurement_hangs() {
        let _alone = locked(&ALONE);
        for told in [None, Some(End::Stop), Some(End::Done)] {
            let (back, is_late) = (Arc::default(), Arc::new(AtomicBool::new(false)));
            let run = Run::default();
            *locked(&run.lifted) = Some(Off(Arc::clone(&back)));
            let most = match told {
                None => Duration::from_millis(50),
                Some(_) => Duration::from_secs(3600),
            };
            let late = Arc::clone(&is_late);
            let tell = guard(run.clone(), most, move || {
                late.store(true, Ordering::Relaxed)
            });
            let tell = tell.unwrap_or_else(|error| panic!("{error}"));
            let Some(told) = told else {
                waits_for(|| is_late.load(Ordering::Relaxed));
                assert!(back.load(Ordering::Relaxed) && run.stop.load(Ordering::Relaxed));
                continue;
            };
            let is_stopped = told == End::Stop;
            assert!(tell.send(told).is_ok());
            if is_stopped {
                waits_for(|| back.load(Ordering::Relaxed));
            }
            // The thread of the guard has ended.
            waits_for(|| tell.send(End::Done).is_err());
            assert_eq!(back.load(Ordering::Relaxed), is_stopped);
            assert!(!is_late.load(Ordering::Relaxed));
        }
    }

    #[test]
    fn the_end_of_a_page_does_not_wait_for_a_server_that_does_not_answer() {
        let _alone = locked(&ALONE);
        let silent = TcpListener::bind("127.0.0.1:0").unwrap_or_else(|error| panic!("{error}"));
        let at = silent
            .local_addr()
            .unwrap_or_else(|error| panic!("{error}"));
        let token_file = tempfile::NamedTempFile::new().unwrap_or_else(|error| panic!("{error}"));
        std::fs::write(&token_file, "0123456789abcdef0123456789abcdef\n")
            .unwrap_or_else(|error| panic!("{error}"));
        let server = LineServer {
            host: at.to_string(),
            token_file: token_file.path().into(),
        };
        let one = Measurements::new(Some(server.clone()));
        assert!(one.start("lo", Wanted { compare: false }) && one.is_on("lo"));
        // Until the server has a connection, and the thread hangs.
        let (_held, _) = silent.accept().unwrap_or_else(|error| panic!("{error}"));
        let begin = Instant::now();
        drop(one);
        assert!(begin.elapsed() < Duration::from_secs(2));
        // The next page begins no measurement until that one has ended.
        let next = Measurements::new(Some(server));
        assert!(!next.start("lo", Wanted { compare: true }));
        waits_for(|| !next.is_on("lo"));
        drop(_held);
        waits_for(|| locked(&MEASURED).is_none());
    }

    #[test]
    fn one_runs_at_a_time_and_its_failure_is_told() {
        let _alone = locked(&ALONE);
        let none = Measurements::new(None);
        assert!(!none.start("wan0", Wanted { compare: false }));
        assert_eq!(none.now(), Measurement::default());

        let folder = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
        let token_file = folder.path().join("token");
        let server = LineServer {
            host: "127.0.0.1".into(),
            token_file: token_file.clone(),
        };
        let one = Measurements::new(Some(server));
        // While the lock is held, no answer of the thread comes before the second is asked for.
        locked(&one.now).state = State::Running;
        assert!(!one.start("wan0", Wanted { compare: false }));
        locked(&one.now).state = State::Done;
        assert!(one.start("wan0", Wanted { compare: false }));
        waits_for(|| one.now().state != State::Running);
        let told = one.now();
        assert_eq!(
            (told.state, told.interface.as_str()),
            (State::Failed, "wan0")
        );
        let file = token_file.display().to_string();
        assert!(told.error.contains(&file), "{}", told.error);
    }
}
