// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every discipline does in simulated time what it does in core: of the same arrivals it sends and drops the same packets, at the same times,
//! with the same marks and tags. None is another one in silence.

use std::path::Path;

use makeway_core::packet::{FlowId, Packet, UserId};
use makeway_core::sched::{self, Discipline, Drops, Env, Limits, Scheduler};
use makeway_core::shaper::Shaper;
use makeway_scenario::model::{Egress, Scenario};

use super::*;
use crate::build::{Options, build};
use crate::port::port_number;

/// Three hosts flood a link, one of them with a weight, one with tickets and one with a profile; a call of short packets passes, a
/// download and a stream that understand marks.
const SCENARIO: &str = r#"
duration = "10s"
seed = 5
[node.alice]
[node.bob]
[node.carol]
[node.router]
[node.client]
[link.line]
between = ["router", "client"]
rate = "2mbit"
delay = "7ms"
queue = { at = "router", discipline = "fifo", limit = "40 packets", users = "src-host", weights = { alice = 3 }, csfq = { threshold = "2kB" }, ecn = true }
[link.a]
between = ["alice", "router"]
[link.b]
between = ["bob", "router"]
[link.c]
between = ["carol", "router"]
[flow.a]
kind = "poisson"
from = "alice"
to = "client"
rate = "1.5mbit"
[flow.b]
kind = "poisson"
from = "bob"
to = "client"
rate = "1mbit"
tickets = 300
[flow.c]
kind = "poisson"
from = "carol"
to = "client"
rate = "500kbit"
profile = "300kbit"
[flow.call]
kind = "cbr"
from = "carol"
to = "client"
rate = "64kbit"
payload = "80B"
[flow.download]
kind = "bulk"
from = "bob"
to = "client"
tcp = { ecn = true }
[flow.stream]
kind = "media"
from = "alice"
to = "client"
rate = "300kbit"
ecn = "ect1"
stream = { payload = "700B" }
"#;
/// The first link's end that is at its first node: `router -> client`.
const LINK: usize = 0;
const END: usize = 0;
const RATE: Rate = Rate::from_bps(2_000_000);

fn scenario(discipline: Discipline) -> Scenario {
    let set = [format!("link.line.queue.discipline={discipline}")];
    makeway_scenario::parse(SCENARIO, "users.toml", Path::new(""), &set).unwrap()
}

/// An event at the queue of the link.
struct Seen {
    at: Instant,
    what: What,
    /// Packets that came before this one.
    number: u32,
    packet: Transit,
}

/// Writes down the events at the queue of the link.
#[derive(Default)]
struct Watch {
    /// By handle, the number of the packet that has it.
    numbers: Vec<u32>,
    came: u32,
    seen: Vec<Seen>,
}

impl Trace for Watch {
    const ON: bool = true;

    fn note(&mut self, now: Instant, port: u32, what: What, handle: Handle, packet: &Transit) {
        if port != port_number(LINK, END) || what == What::Received {
            return;
        }
        let slot = handle.0 as usize;
        if what == What::Queued {
            self.numbers.resize(self.numbers.len().max(slot + 1), 0);
            self.numbers[slot] = self.came;
            self.came += 1;
        }
        self.seen.push(Seen {
            at: now,
            what,
            number: self.numbers[slot],
            packet: *packet,
        });
    }
}

fn in_the_world(scenario: &Scenario) -> Vec<Seen> {
    let interval = Interval::new(scenario.warmup, scenario.duration);
    let mut world = build(scenario, interval, &Options::default(), Watch::default()).unwrap();
    let stop = AtomicBool::new(false);
    world.run_until(Instant::from_nanos(interval.to()), &stop);
    world.drain(&stop);
    world.trace.seen
}

/// Service of the packets: departures in their order with mark and tag, and drops, of which those of one moment have no order.
#[derive(Debug, Default, PartialEq)]
struct Service {
    sent: Vec<(Instant, u32, Ecn, Tag)>,
    dropped: Vec<(Instant, u32, &'static str)>,
}

impl Service {
    fn of(seen: &[Seen]) -> Self {
        let mut service = Self::default();
        for one in seen {
            let (at, number) = (one.at, one.number);
            match one.what {
                What::Sent => {
                    let packet = &one.packet;
                    service.sent.push((at, number, packet.ecn, packet.tag));
                }
                What::Dropped(why) => service.dropped.push((at, number, why)),
                What::Queued | What::Received => {}
            }
        }
        service.dropped.sort_unstable();
        service
    }
}

/// The discipline on a link of core.
struct Link {
    shaper: Shaper,
    /// When it may send next.
    due: Option<Instant>,
    /// Tag of each packet as it came, by its number.
    tags: Vec<Tag>,
    drops: Drops,
    service: Service,
}

impl Link {
    fn new(scenario: &Scenario, egress: &Egress) -> Self {
        let alice = scenario.nodes.iter().position(|node| node.name == "alice");
        // Each flow has two directions, which are flows at a queue; users are hosts.
        let ids = scenario.nodes.len().max(2 * scenario.flows.len());
        let env = Env {
            weights: vec![(UserId(alice.unwrap() as u32), 3)],
            rate: Some(RATE),
            framing: egress.framing,
            codec: scenario.tags.codec,
            seed: 5 + u64::from(port_number(LINK, END)),
            ..Env::new(Limits {
                packets: 40,
                bytes: egress.queue.limits.bytes,
                flows: ids as u32,
            })
        };
        let scheduler = sched::build(&egress.queue.spec, &env).unwrap();
        Self {
            shaper: Shaper::new(Some(RATE), scheduler),
            due: None,
            tags: Vec::new(),
            drops: Drops::default(),
            service: Service::default(),
        }
    }

    fn enqueue(&mut self, now: Instant, packet: Packet) {
        self.tags.push(packet.tag());
        self.shaper.enqueue(now, packet, &mut self.drops);
        if self.due.is_none() {
            self.serve(now);
        }
        self.give_up(now);
    }

    fn serve(&mut self, now: Instant) {
        while let Some(packet) = self.shaper.dequeue(now, &mut self.drops) {
            let number = packet.handle.0;
            // A packet that is given no tag keeps its own.
            let tag = match packet.tag() {
                Tag(0) => self.tags[number as usize],
                tag => tag,
            };
            self.service.sent.push((now, number, packet.ecn(), tag));
        }
        self.give_up(now);
        self.due = self.shaper.next_departure();
    }

    fn give_up(&mut self, now: Instant) {
        for (packet, why) in self.drops.drain() {
            let dropped = (now, packet.handle.0, why.name());
            self.service.dropped.push(dropped);
        }
    }
}

/// The same arrivals at a link of core, which asks the discipline whenever it may send.
fn in_core(scenario: &Scenario, seen: &[Seen]) -> Service {
    let egress = &scenario.links[LINK].egress[END];
    let mut link = Link::new(scenario, egress);
    for one in seen {
        // Of an arrival and a departure at one time the first is the one that was first there.
        let is_arrival = one.what == What::Queued;
        let is_due = |at: &Instant| *at < one.at || (*at == one.at && !is_arrival);
        while let Some(at) = link.due.filter(is_due) {
            link.serve(at);
        }
        if is_arrival {
            let Transit {
                flow,
                len,
                ecn,
                tag,
                body,
                ..
            } = one.packet;
            assert!(!body.is_back(), "only data comes this way");
            let wire = egress.framing.wire(Bytes::new(len.into()));
            let user = UserId(scenario.flows[flow as usize].from as u32);
            let packet = Packet::new(one.at, Handle(one.number), FlowId(2 * flow), user, wire);
            link.enqueue(one.at, packet.with_ecn(ecn).with_tag(tag));
        }
    }
    while let Some(at) = link.due {
        link.serve(at);
    }
    link.service.dropped.sort_unstable();
    link.service
}

#[test]
fn every_discipline_does_in_simulated_time_what_it_does_in_core() {
    let mut all: Vec<(Discipline, Service)> = Vec::new();
    let (mut marks, mut tags) = (0, 0);
    for discipline in Discipline::ALL {
        let scenario = scenario(discipline);
        let seen = in_the_world(&scenario);
        let [found, expected] = [Service::of(&seen), in_core(&scenario, &seen)];
        let mut pairs = found.sent.iter().zip(&expected.sent);
        let differs = pairs.find(|(found, expected)| found != expected);
        assert_eq!(differs, None, "{discipline}");
        assert_eq!(found.sent.len(), expected.sent.len(), "{discipline}");
        assert_eq!(found.dropped, expected.dropped, "{discipline}");
        assert!(found.dropped.len() > 100, "{discipline}");
        marks += found.sent.iter().filter(|one| one.2 == Ecn::Marked).count();
        tags += seen
            .iter()
            .filter(|one| one.what == What::Queued && one.packet.tag != Tag(0))
            .count();
        for (other, service) in &all {
            assert_ne!(*service, found, "{discipline} does what {other} does");
        }
        all.push((discipline, found));
    }
    assert!(marks > 0 && tags > 0, "{marks} {tags}");
}
