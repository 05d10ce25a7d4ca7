// SPDX-License-Identifier: MIT OR Apache-2.0
//! The last answer of each instance.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use makeway_gateway::control::client;
use makeway_gateway::control::protocol::Status;
use tokio::sync::watch;

/// Between two questions to an instance.
const PERIOD: Duration = Duration::from_secs(1);

/// Answers of one round.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Each interface of the file, in its order.
    pub interfaces: Vec<(String, Option<Status>)>,
}

/// Readers have the snapshot and never wait for an instance.
pub type Latest = watch::Receiver<Arc<Snapshot>>;

/// A thread that asks each second.
#[derive(Debug)]
pub struct Sampler {
    names: Arc<Mutex<Vec<String>>>,
    latest: Latest,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Sampler {
    pub fn start(names: Vec<String>) -> io::Result<Self> {
        let names = Arc::new(Mutex::new(names));
        let ends = Arc::new(AtomicBool::new(false));
        let (tell, latest) = watch::channel(Arc::default());
        let (asked, ended) = (Arc::clone(&names), Arc::clone(&ends));
        let run = move || {
            while !ended.load(Ordering::Relaxed) {
                let began = Instant::now();
                let names = asked.lock().unwrap_or_else(PoisonError::into_inner).clone();
                // One that cannot be asked is down, as one that does not run.
                let ask = |name: String| {
                    let status = client::status(&name).ok();
                    (name, status)
                };
                let interfaces = names.into_iter().map(ask).collect();
                tell.send_replace(Arc::new(Snapshot { interfaces }));
                thread::park_timeout(PERIOD.saturating_sub(began.elapsed()));
            }
        };
        let thread = thread::Builder::new().name("sampler".into()).spawn(run)?;
        Ok(Self {
            names,
            latest,
            ends,
            thread: Some(thread),
        })
    }

    pub fn latest(&self) -> Latest {
        self.latest.clone()
    }

    pub fn follow(&self, names: Vec<String>) {
        *self.names.lock().unwrap_or_else(PoisonError::into_inner) = names;
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It may be waiting for an instance that stands still, for seconds; it ends after that.
            drop(thread);
        }
    }
}
