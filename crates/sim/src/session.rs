// SPDX-License-Identifier: MIT OR Apache-2.0
//! A run that pauses, so that a program looks at a flow and sets its rate: learning, a controller of one's own.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use makeway_core::rate::Config;
use makeway_core::units::{Instant, Rate};
use makeway_endpoints::observe::Observation;
use makeway_report::interval::Interval;
use makeway_scenario::model::{Scenario, Source};

use crate::build::{Options, build};
use crate::error::RunError;
use crate::run::{Outcome, conclude};
use crate::trace::Trace;
use crate::world::World;

/// The trace of a run that pauses: none, as of `Off`. A type of its own, as that of a steered run is.
struct Paused;

impl Trace for Paused {
    const ON: bool = false;
}

/// A run in simulated time that goes on to where it is told.
///
/// A flow of kind `media` with `rate = "external"` is controlled: its rate is set while the run pauses, and an [`Observation`] has its last
/// interval as its sender knows it. The same rates at the same times are the same run; a fixed rate gives the flow the figures of a
/// plain run with that rate, as far as the reports of the receiver meet no other traffic.
///
/// ```
/// use std::path::Path;
/// use std::sync::Arc;
///
/// use makeway_core::units::{Duration, Rate};
/// use makeway_sim::{Options, Session};
///
/// const CALL: &str = r#"
/// duration = "10s"
/// [node.phone]
/// [node.friend]
/// [link.line]
/// between = ["phone", "friend"]
/// rate = "1mbit"
/// delay = "20ms"
/// [flow.call]
/// kind = "media"
/// from = "phone"
/// to = "friend"
/// rate = "external"
/// stream = { payload = "1000B" }
/// "#;
///
/// let scenario = makeway_scenario::parse(CALL, "call.toml", Path::new(""), &[])?;
/// let mut session = Session::new(Arc::new(scenario), Options::default())?;
/// let call = session.control("call")?;
/// let mut rate = Rate::from_bps(500_000);
/// while session.now() < session.end() {
///     session.set_rate(call, rate);
///     session.run_until(session.now() + Duration::from_millis(100));
///     let seen = session.observe(call);
///     // Half of the rate once 50 ms wait in the network.
///     if seen.delay.is_some_and(|delay| delay.p95 > Duration::from_millis(50)) {
///         rate = Rate::from_bps(seen.delivery.bps() / 2);
///     }
/// }
/// let report = session.finish()?.report;
/// assert!(report.flows[0].goodput_bps > 400_000.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Session {
    scenario: Arc<Scenario>,
    options: Options,
    interval: Interval,
    world: World<Paused>,
    ended: u64,
}

/// A controlled flow of a [`Session`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Controlled(u32);

impl Session {
    /// `scenario` at time zero.
    ///
    /// # Errors
    /// As [`run`](crate::run).
    pub fn new(scenario: Arc<Scenario>, options: Options) -> Result<Self, RunError> {
        let interval = Interval::new(scenario.warmup, scenario.duration);
        let world = build(&scenario, interval, &options, Paused)?;
        Ok(Self {
            scenario,
            options,
            interval,
            world,
            ended: 0,
        })
    }

    /// The flow of this name, `call` or `call-2`; it is observed from now on.
    ///
    /// # Errors
    /// There is no such flow, or its rate is not set from outside.
    pub fn control(&mut self, name: &str) -> Result<Controlled, ControlError> {
        let flows = &self.scenario.flows;
        let external = || {
            let is_external = |source: &Source| match source {
                Source::Media(media) => matches!(media.rate, Config::External(_)),
                _ => false,
            };
            let flows = flows.iter().filter(|flow| is_external(&flow.source));
            flows.map(|flow| flow.name.clone()).collect::<Vec<_>>()
        };
        let Some(number) = flows.iter().position(|flow| flow.name == name) else {
            return Err(ControlError::Unknown {
                name: name.into(),
                external: external(),
            });
        };
        if self.world.observe(number as u32) {
            return Ok(Controlled(number as u32));
        }
        let flow = &flows[number];
        Err(match &flow.source {
            Source::Media(media) => ControlError::Rate {
                place: flow.place.clone(),
                name: name.into(),
                rate: media.rate.to_string(),
                group: flow.group.clone(),
            },
            other => ControlError::Kind {
                place: flow.place.clone(),
                name: name.into(),
                kind: other.kind(),
                external: external(),
            },
        })
    }

    /// The time.
    pub fn now(&self) -> Instant {
        Instant::from_nanos(self.ended)
    }

    /// The end of traffic.
    pub fn end(&self) -> Instant {
        Instant::from_nanos(self.interval.to())
    }

    /// When a flow starts, its phase in this replication included.
    pub fn starts(&self, flow: Controlled) -> Instant {
        self.world.flows[flow.0 as usize].start
    }

    /// When a flow stops.
    pub fn stops(&self, flow: Controlled) -> Instant {
        self.world.flows[flow.0 as usize].stop
    }

    /// Goes on until `at`, or the end of traffic: with all that happens before, and nothing of that moment. A time that is over changes
    /// nothing.
    pub fn run_until(&mut self, at: Instant) {
        let stop = &self.options.stop;
        let until = at.as_nanos().min(self.interval.to());
        if until <= self.ended || stop.load(Ordering::Relaxed) {
            return;
        }
        self.world.run_until(Instant::from_nanos(until), stop);
        self.ended = match stop.load(Ordering::Relaxed) {
            true => until.min(self.world.now().as_nanos()),
            false => until,
        };
    }

    /// The rate of a flow from now on, in payload; of zero nothing is sent.
    pub fn set_rate(&mut self, flow: Controlled, rate: Rate) {
        let now = self.now();
        self.world.set_sender_rate(now, flow.0, rate);
    }

    /// The interval from the last call of this to now.
    ///
    /// # Panics
    /// If the flow is that of another session.
    pub fn observe(&mut self, flow: Controlled) -> Observation {
        let now = self.now();
        let seen = self.world.observation(now, flow.0);
        seen.expect("a flow of this session")
    }

    /// Goes on to the end with the rates of now, and reports, as [`run_in_full`](crate::run_in_full).
    ///
    /// # Errors
    /// As [`run`](crate::run).
    pub fn finish(mut self) -> Result<Outcome, RunError> {
        let end = self.end();
        self.run_until(end);
        conclude(
            &self.scenario,
            self.world,
            self.interval,
            &self.options,
            self.ended,
        )
    }
}

/// Why the rate of a flow cannot be set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// No flow has that name.
    #[error("there is no flow `{name}`: {}", choices(external))]
    Unknown {
        /// The request.
        name: String,
        /// Flows whose rate is set from outside.
        external: Vec<String>,
    },
    /// It is not a flow with a sender of its own.
    #[error(
        "{place}: flow `{name}` is of kind {kind}, which has no rate to set: {}",
        choices(external)
    )]
    Kind {
        /// Where it was written.
        place: String,
        /// Its name.
        name: String,
        /// Its kind.
        kind: &'static str,
        /// Flows whose rate is set from outside.
        external: Vec<String>,
    },
    /// It has another controller.
    #[error(
        "{place}: flow `{name}` has the rate `{rate}`: write `rate = \"external\"`, or set `flow.{group}.rate=external`"
    )]
    Rate {
        /// Where it was written.
        place: String,
        /// Its name.
        name: String,
        /// Its controller, or its rate.
        rate: String,
        /// Its name in the file.
        group: String,
    },
}

/// Flows that an error names.
const NAMED: usize = 8;

fn choices(external: &[String]) -> String {
    match external {
        [] => "write `rate = \"external\"` in a flow of kind media".into(),
        [one] => format!("the rate of `{one}` is set from outside"),
        names => {
            let more = match names.len() > NAMED {
                true => " and so on",
                false => "",
            };
            let names = &names[..names.len().min(NAMED)];
            format!("choose {}{more}", names.join(", "))
        }
    }
}
