// SPDX-License-Identifier: MIT OR Apache-2.0
//! Page and metrics of the service.

use std::time::{Duration, Instant};

use makeway_scenario::service::Web as Asked;
use makeway_web::Web;

use crate::text;

/// Between two tries to have an address.
const PAUSE: Duration = Duration::from_secs(10);

/// Kept as the file asks. The shaping goes on without it.
#[derive(Default)]
pub struct Page {
    asked: Option<Asked>,
    interfaces: Vec<String>,
    running: Option<Web>,
    next: Option<Instant>,
}

impl Page {
    /// The file asks for this, of these interfaces.
    pub fn ask(&mut self, asked: Option<Asked>, interfaces: Vec<String>) {
        self.interfaces = interfaces;
        if self.asked != asked {
            self.asked = asked;
            self.running = None;
            self.next = None;
        }
        match &self.running {
            Some(web) => web.follow(self.interfaces.clone()),
            None => self.look(),
        }
    }

    /// Tries again to have the address, where another program had it.
    pub fn look(&mut self) {
        let Some(asked) = self.asked.filter(|_| self.running.is_none()) else {
            return;
        };
        let now = Instant::now();
        if self.next.is_some_and(|next| now < next) {
            return;
        }
        match Web::start(asked.listen, self.interfaces.clone()) {
            Ok(web) => {
                text::say!("metrics: http://{}/metrics", web.listens_on());
                self.running = Some(web);
            }
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
}
