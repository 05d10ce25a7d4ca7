// SPDX-License-Identifier: MIT OR Apache-2.0
//! The service over HTTP: its page, metrics of its interfaces, their history.
//!
//! A thread asks each instance for its counters once a second (twice, while the page is open), as `makeway status` does;
//! requests are answered from the last answers, so that any number of them costs the instances nothing.
//!
//! - [`Web`]: the threads;
//! - `sampler`: the last answers, and the rates from two of them (`live`);
//! - `history`: the last hour, day and month;
//! - `measurement`: latency under load of a link, with and without makeway;
//! - `metrics`: the last answers as OpenMetrics;
//! - `connections`: their number, and their time limits;
//! - `server`: paths, and headers against other sites; `api`: answers in JSON; `document`: all of it as OpenAPI; `session`: permission to
//!   change what runs.

mod api;
mod connections;
mod document;
mod history;
mod live;
mod measurement;
mod metrics;
mod sampler;
mod server;
mod session;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use utoipa::ToSchema;

use connections::Limits;
use measurement::Measurements;
use sampler::Sampler;
use session::Sessions;

pub use measurement::LineServer;
pub use session::secret;

/// Configuration of a server.
pub struct Config {
    /// Address of the server.
    pub listen: SocketAddr,
    /// Name by which requests may ask for it, in lower case, beside addresses and `localhost`.
    pub host: Option<String>,
    /// Token that opens a session, which may change what runs.
    pub token: String,
    /// File of the token, for people.
    pub token_file: String,
    /// File of the history; `None`: in memory.
    pub history: Option<PathBuf>,
    /// Server of measurements.
    pub line: Option<LineServer>,
    /// Receiver of the requests of sessions.
    pub commands: Box<dyn Fn(Request) + Send + Sync>,
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("listen", &self.listen)
            .field("history", &self.history)
            .finish_non_exhaustive()
    }
}

/// An interface of the service with its settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
pub struct Interface {
    /// Name of the interface.
    pub name: String,
    /// Rate of the egress direction, if it is shaped.
    pub upload_bps: Option<u64>,
    /// Rate of the ingress direction, if it is shaped.
    pub download_bps: Option<u64>,
    /// Order of service and drops.
    pub discipline: String,
    /// Shares of users, by address.
    pub weights: BTreeMap<String, u32>,
    /// Whether a session has changed it from the file.
    pub differs: bool,
    /// Changes that can be undone.
    pub undo: usize,
}

/// A change that a session asks for; a field of `None` stays.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Change {
    /// Rate of the egress direction in bit/s.
    pub upload_bps: Option<u64>,
    /// Rate of the ingress direction in bit/s.
    pub download_bps: Option<u64>,
    /// Another discipline, with its own parameters.
    pub discipline: Option<String>,
    /// All shares of users.
    pub weights: Option<BTreeMap<String, u32>>,
}

/// A request of a session.
#[derive(Debug)]
pub struct Request {
    /// The interface.
    pub interface: String,
    /// The change; `None` takes the last one back.
    pub change: Option<Change>,
    /// Receiver of the outcome, and of the reason for a refusal.
    pub answer: oneshot::Sender<Result<(), String>>,
}

/// Something that happened to an interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
pub struct Event {
    /// Milliseconds since 1970.
    pub at_ms: u64,
    /// The interface; empty for the service itself.
    pub interface: String,
    /// One line.
    pub text: String,
}

/// A server; dropped, it ends with all of its connections.
#[derive(Debug)]
pub struct Web {
    sampler: Sampler,
    listens_on: SocketAddr,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Web {
    /// Listens, and asks the instances of `interfaces` from now on.
    ///
    /// # Errors
    /// If the address cannot be used, or a thread cannot be started. A history that cannot be opened is an event.
    pub fn start(config: Config, interfaces: Vec<Interface>) -> io::Result<Self> {
        let listener = TcpListener::bind(config.listen)?;
        listener.set_nonblocking(true)?;
        let listens_on = listener.local_addr()?;
        let sampler = Sampler::start(interfaces, config.history)?;
        let (end, ends) = oneshot::channel::<()>();
        let router = server::router(Arc::new(server::Shared {
            host: config.host,
            latest: sampler.latest(),
            history: sampler.history(),
            sessions: Sessions::new(config.token, listens_on.port()),
            commands: config.commands,
            token_file: config.token_file,
            pages: Default::default(),
            told: Default::default(),
            measurements: Measurements::new(config.line),
        }));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(2)
            .build()?;
        let thread = thread::Builder::new().name("web".into()).spawn(move || {
            runtime.block_on(async {
                let Ok(listener) = tokio::net::TcpListener::from_std(listener) else {
                    return;
                };
                let served = connections::serve(listener, router, Limits::default());
                // Connections end with the runtime.
                tokio::select! { () = served => {}, _ = ends => {} }
            });
            // A slow question to the history delays no other request.
            runtime.shutdown_background();
        })?;
        Ok(Self {
            sampler,
            listens_on,
            end: Some(end),
            thread: Some(thread),
        })
    }

    /// The address, with the port that the system chose for port 0.
    pub fn listens_on(&self) -> SocketAddr {
        self.listens_on
    }

    /// Asks the instances of these interfaces, and of no other.
    pub fn follow(&self, interfaces: Vec<Interface>) {
        self.sampler.follow(interfaces);
    }

    /// Shows an event.
    pub fn tell(&self, event: Event) {
        self.sampler.tell(event);
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // A thread that has panicked has ended as well.
            let _ = thread.join();
        }
    }
}
