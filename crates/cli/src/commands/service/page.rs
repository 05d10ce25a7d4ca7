// SPDX-License-Identifier: MIT OR Apache-2.0
//! Page and metrics of the service.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use makeway_gateway::control::secret;
use makeway_scenario::service::Web as Asked;
use makeway_web::{Config, Event, Interface, LineServer, Request, Web};

use super::Kept;
use crate::text;

/// Between two tries to have an address.
const PAUSE: Duration = Duration::from_secs(10);
/// Events that a page shows which begins anew, as after another address.
const EVENTS: usize = 40;

/// Kept as the file asks. The shaping goes on without it.
pub struct Page {
    asked: Option<Asked>,
    interfaces: Vec<Interface>,
    running: Option<Web>,
    next: Option<Instant>,
    events: VecDeque<Event>,
    sender: Sender<Request>,
    requests: Receiver<Request>,
    wake: UnixStream,
}

impl Page {
    /// None yet. Requests of sessions make `wake` readable at its other end.
    pub fn new(wake: UnixStream) -> Self {
        let (sender, requests) = mpsc::channel();
        Self {
            asked: None,
            interfaces: Vec::new(),
            running: None,
            next: None,
            events: VecDeque::new(),
            sender,
            requests,
            wake,
        }
    }

    /// The file asks for this.
    pub fn ask(&mut self, asked: Option<Asked>) {
        if self.asked != asked {
            self.asked = asked;
            self.running = None;
            self.next = None;
        }
        self.look();
    }

    /// Shows these interfaces, but for those about to be let go.
    pub fn show<'k>(&mut self, kept: impl Iterator<Item = &'k Kept>) {
        let stay = kept.filter(|one| !one.keeper.is_dismissed());
        let interfaces: Vec<_> = stay.map(shown).collect();
        if self.interfaces != interfaces {
            self.interfaces = interfaces;
            if let Some(web) = &self.running {
                web.follow(self.interfaces.clone());
            }
        }
    }

    /// Shows an event.
    pub fn tell(&mut self, interface: &str, text: &str) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let event = Event {
            at_ms: since.map_or(0, |since| since.as_millis() as u64),
            interface: interface.into(),
            text: text.into(),
        };
        if let Some(web) = &self.running {
            web.tell(event.clone());
        }
        if self.events.len() == EVENTS {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }

    /// Requests of sessions since the last time.
    pub fn requests(&self) -> Vec<Request> {
        self.requests.try_iter().collect()
    }

    /// Tries again to have the address, where another program had it.
    pub fn look(&mut self) {
        let Some(asked) = self.asked.clone().filter(|_| self.running.is_none()) else {
            return;
        };
        let now = Instant::now();
        if self.next.is_some_and(|next| now < next) {
            return;
        }
        match self.start(&asked) {
            Ok(web) => self.running = Some(web),
            Err(error) => {
                // The first time only: it may take days.
                if self.next.is_none() {
                    eprintln!(
                        "makeway: cannot listen on {}: {error}; name another address by `web.listen`. Tried again each {PAUSE:?}",
                        asked.listen
                    );
                }
                self.next = Some(now + PAUSE);
            }
        }
    }

    fn start(&self, asked: &Asked) -> io::Result<Web> {
        let (file, token) = secret("web-token", makeway_web::secret)?;
        let (sender, wake) = (self.sender.clone(), waker(self.wake.try_clone()?)?);
        let config = Config {
            listen: asked.listen,
            host: asked.host.clone(),
            line: asked.line.as_ref().map(|line| LineServer {
                host: line.host.clone(),
                token_file: line.token_file.clone(),
            }),
            token,
            token_file: file.display().to_string(),
            history: history_file(),
            commands: Box::new(move |request| {
                // A service that ends answers nobody.
                let _ = sender.send(request);
                wake();
            }),
        };
        let web = Web::start(config, self.interfaces.clone())?;
        self.events.iter().for_each(|event| web.tell(event.clone()));
        let address = web.listens_on();
        text::say!("page: http://{address}/, metrics: http://{address}/metrics");
        text::say!("changes on the page take the token in {}", file.display());
        Ok(web)
    }
}

/// Makes the other end readable, and never waits: one that nobody reads is readable already.
fn waker(wake: UnixStream) -> io::Result<impl Fn()> {
    wake.set_nonblocking(true)?;
    Ok(move || {
        let _ = (&wake).write(&[0]);
    })
}

/// In the folder that systemd makes for the service's state (systemd.exec(5)); else there is none.
fn history_file() -> Option<PathBuf> {
    let folders = std::env::var_os("STATE_DIRECTORY")?;
    let first = std::env::split_paths(&folders).next()?;
    Some(first.join("history.db"))
}

fn shown(kept: &Kept) -> Interface {
    let want = kept.keeper.want();
    let weights = want.weights.iter();
    Interface {
        name: want.name.clone(),
        upload_bps: want.upload.map(|rate| rate.bps()),
        download_bps: want.download.map(|rate| rate.bps()),
        discipline: want.discipline.name().into(),
        weights: weights
            .map(|(address, share)| (address.to_string(), *share))
            .collect(),
        differs: *want != kept.filed,
        undo: kept.before.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_does_not_wait_for_a_service_that_is_busy() {
        let (_busy, wake) = UnixStream::pair().unwrap();
        let wake = waker(wake).unwrap();
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || {
            (0..10_000).for_each(|_| wake());
            tell.send(()).unwrap();
        });
        told.recv_timeout(Duration::from_secs(20)).unwrap();
    }
}
