// SPDX-License-Identifier: MIT OR Apache-2.0
//! Latency of a line under load, with makeway and, for comparison, without: one measurement at a time.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use makeway_line::{Lifted, Measured, Phase, Plan, address, measure, token};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Bytes of each download and upload at most: four of them make a measurement.
const MOST_BYTES: u64 = 500_000_000;

/// The other end of measurements.
#[derive(Clone, Debug)]
pub struct LineServer {
    /// Host, with a port if it has another than usual.
    pub host: String,
    /// File with its token.
    pub token_file: PathBuf,
}

/// Which measurement is wanted.
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
    /// There was none yet.
    #[default]
    None,
    /// It runs.
    Running,
    /// It has ended, with figures.
    Done,
    /// It has ended, with an error.
    Failed,
}

/// The measurement that runs, or the last one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
pub struct Measurement {
    pub state: State,
    /// The interface.
    pub interface: String,
    /// While it runs: whether makeway shapes now.
    pub with_makeway: bool,
    /// While it runs: the load now.
    pub phase: Phase,
    /// Why it failed; else empty.
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
    stop: Arc<AtomicBool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Measurements {
    pub fn new(server: Option<LineServer>) -> Self {
        Self {
            server,
            now: Arc::default(),
            stop: Arc::default(),
            thread: Mutex::default(),
        }
    }

    /// The other end, if the file names one.
    pub fn host(&self) -> Option<&str> {
        self.server.as_ref().map(|server| server.host.as_str())
    }

    pub fn now(&self) -> Measurement {
        locked(&self.now).clone()
    }

    /// Whether one runs on this interface.
    pub fn is_on(&self, interface: &str) -> bool {
        let now = locked(&self.now);
        now.state == State::Running && now.interface == interface
    }

    /// Begins one; false if another runs, or there is no server.
    pub fn start(&self, interface: &str, wanted: Wanted) -> bool {
        let Some(server) = self.server.clone() else {
            return false;
        };
        let mut thread = locked(&self.thread);
        let mut now = locked(&self.now);
        if now.state == State::Running {
            return false;
        }
        *now = Measurement {
            state: State::Running,
            interface: interface.into(),
            with_makeway: !wanted.compare,
            ..Measurement::default()
        };
        drop(now);
        let (now, stop) = (Arc::clone(&self.now), Arc::clone(&self.stop));
        let name = interface.to_owned();
        let run = move || {
            let done = both(&server, &name, wanted, &now, &stop);
            let mut now = locked(&now);
            now.error = done.as_ref().err().cloned().unwrap_or_default();
            now.state = match done {
                Ok(()) => State::Done,
                Err(_) => State::Failed,
            };
        };
        match thread::Builder::new().name("measurement".into()).spawn(run) {
            Ok(started) => *thread = Some(started),
            Err(error) => {
                let mut now = locked(&self.now);
                now.state = State::Failed;
                now.error = error.to_string();
            }
        }
        true
    }
}

impl Drop for Measurements {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // The rates come back before the service ends.
        if let Some(thread) = locked(&self.thread).take() {
            let _ = thread.join();
        }
    }
}

fn both(
    server: &LineServer,
    interface: &str,
    wanted: Wanted,
    now: &Mutex<Measurement>,
    stop: &AtomicBool,
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
    let one = || measure(&plan, stop, |stage| locked(now).phase = stage.phase).map_err(failed);
    if wanted.compare {
        let lifted = Lifted::new(interface).map_err(|error| error.to_string())?;
        let without = one()?;
        drop(lifted);
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
    use std::time::{Duration, Instant};

    #[test]
    fn one_runs_at_a_time_and_its_failure_is_told() {
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
        // Held, no answer of the thread comes before the second is asked for.
        locked(&one.now).state = State::Running;
        assert!(!one.start("wan0", Wanted { compare: false }));
        locked(&one.now).state = State::Done;
        assert!(one.start("wan0", Wanted { compare: false }));
        let end = Instant::now() + Duration::from_secs(10);
        while one.now().state == State::Running {
            assert!(Instant::now() < end);
            thread::sleep(Duration::from_millis(5));
        }
        let told = one.now();
        assert_eq!(
            (told.state, told.interface.as_str()),
            (State::Failed, "wan0")
        );
        let file = token_file.display().to_string();
        assert!(told.error.contains(&file), "{}", told.error);
    }
}
