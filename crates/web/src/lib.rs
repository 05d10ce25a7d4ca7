// SPDX-License-Identifier: MIT OR Apache-2.0
//! The service over HTTP: metrics of its interfaces.
//!
//! A thread asks each instance for its counters once a second, as `makeway status` does; requests are answered from the last
//! answers, so that any number of them costs the instances nothing.
//!
//! - [`Web`]: the threads;
//! - `sampler`: the last answers;
//! - `metrics`: the same as OpenMetrics;
//! - `server`: paths, and headers against other sites.

mod metrics;
mod sampler;
mod server;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::thread::{self, JoinHandle};

use tokio::sync::oneshot;

use sampler::Sampler;

/// A server; dropped, it ends with all of its connections.
#[derive(Debug)]
pub struct Web {
    sampler: Sampler,
    listens_on: SocketAddr,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Web {
    /// Listens on `address` and asks the instances of `interfaces` from now on.
    ///
    /// # Errors
    /// If the address cannot be had, or a thread cannot be started.
    pub fn start(address: SocketAddr, interfaces: Vec<String>) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let listens_on = listener.local_addr()?;
        let sampler = Sampler::start(interfaces)?;
        let (end, ends) = oneshot::channel::<()>();
        let router = server::router(sampler.latest());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let thread = thread::Builder::new().name("web".into()).spawn(move || {
            runtime.block_on(async {
                let Ok(listener) = tokio::net::TcpListener::from_std(listener) else {
                    return;
                };
                let served = axum::serve(listener, router).into_future();
                // Connections end with the runtime.
                tokio::select! { _ = served => {}, _ = ends => {} }
            });
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
    pub fn follow(&self, interfaces: Vec<String>) {
        self.sampler.follow(interfaces);
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // One that has panicked has ended as well.
            let _ = thread.join();
        }
    }
}
