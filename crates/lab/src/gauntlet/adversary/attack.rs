// SPDX-License-Identifier: MIT OR Apache-2.0
//! The attack: UDP in a number of flows to a number of hosts, as numbers that a search changes, and the scenario that has it.

use std::ops::RangeInclusive;

use makeway_core::random::Rng;
use makeway_core::sched::Discipline;
use serde::Serialize;

/// Traffic of an attacker. Each property is within [`Attack::RANGES`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Attack {
    pub flows: f64,
    /// Behind the link, to which the flows go in turn.
    pub hosts: f64,
    /// Without headers.
    pub payload_bytes: f64,
    /// Rate of all flows together, while they are on.
    pub rate_kbit: f64,
    pub on_ms: f64,
    /// Below [`Attack::ALWAYS_ON`] it is never off.
    pub off_ms: f64,
    /// 1 if the victims' host is not among its own, below 2; else 2 or more.
    pub elsewhere: f64,
    /// 2 or more: each flow sends all that it has for a time on and off at once. Below 2: evenly while it is on.
    pub at_once: f64,
}

impl Attack {
    const RANGES: [RangeInclusive<f64>; 8] = [
        1.0..=200.0,
        1.0..=4.0,
        24.0..=1400.0,
        100.0..=20_000.0,
        5.0..=5000.0,
        1.0..=5000.0,
        1.0..=4.0,
        1.0..=4.0,
    ];
    /// Times from one burst to the next, ms: a trace for each.
    const PERIODS: [u32; 9] = [10, 20, 50, 100, 200, 500, 1000, 2000, 5000];
    const ALWAYS_ON: f64 = 2.0;
    const HOSTS: [&str; 5] = ["client", "second", "third", "fourth", "fifth"];

    fn properties(&mut self) -> [&mut f64; 8] {
        [
            &mut self.flows,
            &mut self.hosts,
            &mut self.payload_bytes,
            &mut self.rate_kbit,
            &mut self.on_ms,
            &mut self.off_ms,
            &mut self.elsewhere,
            &mut self.at_once,
        ]
    }

    /// Each property drawn evenly in its logarithm.
    pub fn draw(rng: &mut Rng) -> Self {
        let mut attack = Self {
            flows: 1.0,
            hosts: 1.0,
            payload_bytes: 1.0,
            rate_kbit: 1.0,
            on_ms: 1.0,
            off_ms: 1.0,
            elsewhere: 1.0,
            at_once: 1.0,
        };
        for (property, range) in attack.properties().into_iter().zip(Self::RANGES) {
            let [least, most] = [range.start().ln(), range.end().ln()];
            *property = (least + (most - least) * unit(rng)).exp();
        }
        attack
    }

    /// One property up to four times as large or small.
    pub fn changed(mut self, rng: &mut Rng) -> Self {
        let which = rng.below(Self::RANGES.len() as u32) as usize;
        let range = &Self::RANGES[which];
        let factor = 4f64.powf(2.0 * unit(rng) - 1.0);
        let property = self.properties().into_iter().nth(which);
        if let Some(property) = property {
            *property = (*property * factor).clamp(*range.start(), *range.end());
        }
        self
    }

    fn flows(&self) -> u32 {
        self.flows.round() as u32
    }

    pub fn payload(&self) -> u32 {
        self.payload_bytes.round() as u32
    }

    fn is_elsewhere(&self) -> bool {
        self.elsewhere < 2.0
    }

    fn is_at_once(&self) -> bool {
        self.at_once >= 2.0
    }

    /// Bit/s of each flow while it is on.
    fn bps(&self) -> f64 {
        (self.rate_kbit * 1e3 / f64::from(self.flows())).max(100.0)
    }

    /// Bursts at once: ms from one to the next, and packets of each.
    fn bursts(&self) -> (u32, f64) {
        let time = self.on_ms + self.off_ms;
        let longer = Self::PERIODS.into_iter().find(|ms| f64::from(*ms) >= time);
        let period = longer.unwrap_or(5000);
        let bytes = self.bps() * self.on_ms / time * f64::from(period) / 8e3;
        (
            period,
            (bytes / f64::from(self.payload() + 40)).round().max(1.0),
        )
    }

    /// Its hosts, no more than it has flows.
    fn hosts(&self) -> &'static [&'static str] {
        let hosts = (self.hosts.round() as u32).min(self.flows()) as usize;
        let first = usize::from(self.is_elsewhere());
        &Self::HOSTS[first..first + hosts]
    }

    /// In a scenario.
    fn groups(&self) -> String {
        let (hosts, flows) = (self.hosts(), self.flows());
        let mut text = String::new();
        for (n, host) in (0u32..).zip(hosts) {
            // The first ones have one more.
            let count = (flows + hosts.len() as u32 - 1 - n) / hosts.len() as u32;
            let (period, packets) = self.bursts();
            // The trace counts payload. No more of it than fills the packets.
            let at_once = packets * f64::from(self.payload()) * 8e3 / f64::from(period);
            let (kind, bps) = match (self.is_at_once(), self.off_ms < Self::ALWAYS_ON) {
                (true, _) => (
                    format!(
                        "kind = \"rtp\"\ntrace = \"{}\"\npace = \"burst\"",
                        trace_of(period)
                    ),
                    at_once.floor().max(100.0),
                ),
                (false, true) => ("kind = \"cbr\"".into(), self.bps()),
                (false, false) => (
                    format!(
                        "kind = \"on-off\"\non = \"{:.0}ms\"\noff = \"{:.0}ms\"",
                        self.on_ms, self.off_ms
                    ),
                    self.bps(),
                ),
            };
            text += &format!(
                "[flow.attack-{n}]\n{kind}\nfrom = \"web\"\nto = \"{host}\"\nrate = \"{bps:.0}bit\"\npayload = \"{}B\"\ncount = {count}\nstart = \"6s\"\n",
                self.payload()
            );
        }
        text
    }

    pub fn describe(&self) -> String {
        let (period, packets) = self.bursts();
        let times = match (self.is_at_once(), self.off_ms < Self::ALWAYS_ON) {
            (true, _) => format!("of each {packets:.0} packets at once every {period} ms"),
            (false, true) => "always on".into(),
            (false, false) => format!("on {:.0} ms, off {:.0} ms", self.on_ms, self.off_ms),
        };
        let place = match (self.is_elsewhere(), self.hosts().len()) {
            (false, 1) => "the victims' host".into(),
            (false, n) => format!("{n} hosts, the victims' among them"),
            (true, 1) => "another host".into(),
            (true, n) => format!("{n} other hosts"),
        };
        format!(
            "{} flows to {place}, {} B, {:.2} Mbit/s while on; {times}",
            self.flows(),
            self.payload(),
            self.rate_kbit / 1e3
        )
    }
}

/// 0 to 1.
fn unit(rng: &mut Rng) -> f64 {
    f64::from(rng.next_u32()) / f64::from(u32::MAX)
}

/// The trace of bursts `ms` apart.
fn trace_of(ms: u32) -> String {
    format!("traces/burst-{ms}ms.csv")
}

/// Traces that scenarios of attacks name beside those that are built in: path and text.
pub fn traces() -> impl Iterator<Item = (String, String)> {
    let text = |ms| format!("time_ms,kind,bytes\n0,P,1000\n{ms},P,1000\n");
    let periods = Attack::PERIODS.into_iter();
    periods.map(move |ms| (trace_of(ms), text(ms)))
}

/// Victims and attack, under FIFO until a discipline is set.
pub fn scenario(attack: Option<&Attack>, discipline: Discipline) -> String {
    let attack = attack.map_or_else(String::new, Attack::groups);
    format!(
        r#"title = "An attack on a call, a voice, a page and a download"
duration = "18s"
warmup = "6s"
[node.web]
[node.router]
[node.client]
[node.second]
[node.third]
[node.fourth]
[node.fifth]
[link.web]
between = ["web", "router"]
rate = "100mbit"
delay = "9ms"
[link.bottleneck]
between = ["router", "client"]
rate = "10mbit"
delay = "1ms"
queue = {{ at = "router", discipline = "{discipline}", limit = "100 packets" }}
[link.second]
between = ["client", "second"]
rate = "1gbit"
[link.third]
between = ["client", "third"]
rate = "1gbit"
[link.fourth]
between = ["client", "fourth"]
rate = "1gbit"
[link.fifth]
between = ["client", "fifth"]
rate = "1gbit"
[flow.call]
kind = "rtp"
from = "web"
to = "client"
trace = "traces/mpeg2-5m.csv"
rate = "2mbit"
pace = "frame"
[flow.voice]
kind = "rtp"
from = "web"
to = "client"
trace = "traces/audio-64k.csv"
pace = "burst"
[flow.page]
kind = "bulk"
from = "web"
to = "client"
count = 6
bytes = "40kB"
think = "2s"
start = "1s"
stagger = "300ms"
[flow.download]
kind = "bulk"
from = "web"
to = "client"
{attack}"#
    )
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn attack() -> Attack {
        Attack {
            flows: 5.0,
            hosts: 2.0,
            payload_bytes: 100.0,
            rate_kbit: 1000.0,
            on_ms: 50.0,
            off_ms: 100.0,
            elsewhere: 1.0,
            at_once: 1.0,
        }
    }

    #[test]
    fn every_attack_that_a_search_can_draw_is_a_scenario_with_its_number_of_flows() {
        let folder = tempfile::tempdir().unwrap();
        super::super::unpack(folder.path()).unwrap();
        let mut rng = Rng::new(3);
        let mut attack = Attack::draw(&mut rng);
        for _ in 0..300 {
            let text = scenario(Some(&attack), Discipline::Makeway);
            let read = makeway_scenario::parse(&text, "attack", folder.path(), &[]);
            let read = read.unwrap_or_else(|error| panic!("{error}\n{text}"));
            let flows = read.flows.iter().filter(|f| f.group.starts_with("attack-"));
            assert_eq!(flows.count() as u32, attack.flows());
            attack = attack.changed(&mut rng);
        }
    }

    #[test]
    fn an_attack_at_once_sends_the_bytes_of_its_times_on_in_whole_packets() {
        // 0.2 Mbit/s in a third of the time, of 140 B: 59.5 packets/s.
        let at_once = Attack {
            at_once: 2.0,
            ..attack()
        };
        assert_eq!(at_once.bursts(), (200, 12.0));
        let text = at_once.groups();
        assert!(text.contains("trace = \"traces/burst-200ms.csv\"\npace = \"burst\""));
        assert!(text.contains("rate = \"48000bit\""), "{text}");
        assert!(
            at_once
                .describe()
                .ends_with("of each 12 packets at once every 200 ms")
        );
    }

    #[test]
    fn an_attack_says_where_it_goes() {
        assert_eq!(attack().hosts(), ["second", "third"]);
        let here = Attack {
            elsewhere: 3.0,
            flows: 1.0,
            ..attack()
        };
        assert_eq!(here.hosts(), ["client"]);
        assert!(here.describe().contains("the victims' host, 100 B"));
    }
}
