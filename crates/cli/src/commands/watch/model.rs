// SPDX-License-Identifier: MIT OR Apache-2.0
//! The model behind the screen: the last answers, and the rates between them. No terminal and no clock.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use makeway_core::sched::Discipline;
use makeway_gateway::control::protocol::{DirectionStatus, Status};
use makeway_gateway::datapath::FlowStats;

/// Rates are over this long.
const WINDOW: Duration = Duration::from_secs(1);
/// Points of the rate that are kept: the widest terminal.
const POINTS: usize = 512;

/// The order of flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// The largest backlog first, then the highest rate.
    Backlog,
    /// The highest rate first.
    Rate,
    /// The most drops first.
    Drops,
}

impl Sort {
    pub fn next(self) -> Self {
        match self {
            Self::Backlog => Self::Rate,
            Self::Rate => Self::Drops,
            Self::Drops => Self::Backlog,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Backlog => "backlog",
            Self::Rate => "rate",
            Self::Drops => "drops",
        }
    }
}

/// All of it.
pub struct Model {
    pub views: Vec<View>,
    /// Which view is shown first.
    pub selected: usize,
    pub scroll: usize,
    pub sort: Sort,
    pub paused: bool,
    /// Reason why replies stopped.
    pub trouble: Option<String>,
}

/// One direction of one interface.
pub struct View {
    pub interface: String,
    pub pid: u32,
    pub status: DirectionStatus,
    /// Rate at each answer in bit/s, the newest last.
    pub rates: VecDeque<u64>,
    /// Drops in a second.
    pub drop_rate: f64,
    samples: VecDeque<Sample>,
}

struct Sample {
    at: Instant,
    bytes: u64,
    drops: u64,
    flows: HashMap<String, u64>,
}

/// When a flow is served, as far as its discipline tells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Turn {
    /// It sends without a backlog.
    AtOnce,
    /// Its position in the order of service, from 1.
    Place(usize),
    /// It has a backlog; the discipline does not order by backlog.
    Waits,
    /// It has the largest backlog: the next drop is from it.
    Longest,
    /// Seconds since its last packet.
    Idle(f64),
}

/// A flow as it is shown.
pub struct Row<'a> {
    pub stats: &'a FlowStats,
    pub bps: f64,
    pub turn: Turn,
}

impl Model {
    pub fn new() -> Self {
        Self {
            views: Vec::new(),
            selected: 0,
            scroll: 0,
            sort: Sort::Backlog,
            paused: false,
            trouble: None,
        }
    }

    /// Applies a status reply; without one, the screen stays unchanged.
    pub fn update(&mut self, now: Instant, answer: Result<Vec<Status>, String>) {
        let instances = match answer {
            Ok(instances) if instances.is_empty() => {
                self.trouble = Some("it has ended; started again, it is shown again".into());
                return;
            }
            Ok(instances) => instances,
            Err(why) => {
                self.trouble = Some(why);
                return;
            }
        };
        self.trouble = None;
        let mut old = std::mem::take(&mut self.views);
        for instance in instances {
            for status in instance.directions {
                let known = old.iter().position(|view| {
                    view.interface == instance.interface
                        && view.pid == instance.pid
                        && view.status.direction == status.direction
                });
                let mut view = match known {
                    Some(index) => old.swap_remove(index),
                    None => View::new(&instance.interface, instance.pid),
                };
                view.update(now, status);
                self.views.push(view);
            }
        }
        self.selected = self.selected.min(self.views.len().saturating_sub(1));
    }

    /// Goes to the next view, or back.
    pub fn select(&mut self, step: isize) {
        let n = self.views.len() as isize;
        if n > 0 {
            self.selected = (self.selected as isize + step).rem_euclid(n) as usize;
            self.scroll = 0;
        }
    }
}

impl View {
    fn new(interface: &str, pid: u32) -> Self {
        Self {
            interface: interface.into(),
            pid,
            status: DirectionStatus::default(),
            rates: VecDeque::with_capacity(POINTS),
            drop_rate: 0.0,
            samples: VecDeque::new(),
        }
    }

    fn update(&mut self, now: Instant, status: DirectionStatus) {
        let stats = &status.stats;
        let (bytes, drops) = (stats.bytes_out, stats.dropped());
        if let Some(last) = self.samples.back() {
            let seconds = now
                .saturating_duration_since(last.at)
                .as_secs_f64()
                .max(1e-3);
            let bps = bytes.saturating_sub(last.bytes) as f64 * 8.0 / seconds;
            if self.rates.len() == POINTS {
                self.rates.pop_front();
            }
            self.rates.push_back(bps as u64);
        }
        let flows = stats
            .flows
            .iter()
            .map(|flow| (flow.flow.clone(), flow.bytes_out));
        self.samples.push_back(Sample {
            at: now,
            bytes,
            drops,
            flows: flows.collect(),
        });
        while self.samples.len() > 2 && now.saturating_duration_since(self.samples[1].at) >= WINDOW
        {
            self.samples.pop_front();
        }
        self.drop_rate = self.since(now, |old| drops.saturating_sub(old.drops) as f64);
        self.status = status;
    }

    /// The rate over the last second in bit/s.
    pub fn bps(&self) -> f64 {
        let Some(last) = self.samples.back() else {
            return 0.0;
        };
        self.since(last.at, |old| {
            last.bytes.saturating_sub(old.bytes) as f64 * 8.0
        })
    }

    fn since(&self, now: Instant, of: impl Fn(&Sample) -> f64) -> f64 {
        match self.samples.front() {
            Some(old) if self.samples.len() > 1 => {
                let seconds = now.saturating_duration_since(old.at).as_secs_f64();
                of(old) / seconds.max(1e-3)
            }
            _ => 0.0,
        }
    }

    /// The flows in the order asked for.
    pub fn rows(&self, sort: Sort) -> Vec<Row<'_>> {
        let flows = &self.status.stats.flows;
        let now = self.samples.back().map(|sample| sample.at);
        let mut waiting: Vec<&FlowStats> = flows
            .iter()
            .filter(|flow| flow.backlog_packets > 0)
            .collect();
        waiting.sort_by_key(|flow| flow.backlog_bytes);
        let by_backlog = self.status.stats.discipline == Some(Discipline::Sqf);
        let turn = |flow: &FlowStats| {
            let place = waiting.iter().position(|other| other.flow == flow.flow);
            match place {
                None if flow.idle_s < 1.0 => Turn::AtOnce,
                None => Turn::Idle(flow.idle_s),
                Some(place) if place > 0 && place + 1 == waiting.len() => {
                    match self.drops_longest() {
                        true => Turn::Longest,
                        false => Turn::Waits,
                    }
                }
                Some(place) if by_backlog => Turn::Place(place + 1),
                Some(_) => Turn::Waits,
            }
        };
        let bps = |flow: &FlowStats| {
            now.map_or(0.0, |now| {
                self.since(now, |old| {
                    let before = old.flows.get(&flow.flow).copied().unwrap_or(0);
                    flow.bytes_out.saturating_sub(before) as f64 * 8.0
                })
            })
        };
        let mut rows: Vec<Row<'_>> = flows
            .iter()
            .map(|stats| Row {
                stats,
                bps: bps(stats),
                turn: turn(stats),
            })
            .collect();
        let drops = |row: &Row<'_>| row.stats.drops.values().sum::<u64>();
        rows.sort_by(|a, b| match sort {
            Sort::Backlog => (b.stats.backlog_bytes.cmp(&a.stats.backlog_bytes))
                .then(b.bps.total_cmp(&a.bps))
                .then(a.stats.idle_s.total_cmp(&b.stats.idle_s)),
            Sort::Rate => b.bps.total_cmp(&a.bps),
            Sort::Drops => drops(b).cmp(&drops(a)),
        });
        rows
    }

    fn drops_longest(&self) -> bool {
        let discipline = self.status.stats.discipline;
        discipline.is_some_and(|one| one.spec().needs().drops_longest)
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use makeway_gateway::datapath::Stats;

    pub fn flow(name: &str, backlog: u64, bytes_out: u64) -> FlowStats {
        FlowStats {
            flow: name.into(),
            backlog_packets: backlog.div_ceil(1500),
            backlog_bytes: backlog,
            bytes_out,
            ..FlowStats::default()
        }
    }

    pub fn status(discipline: Discipline, flows: Vec<FlowStats>) -> Status {
        let stats = Stats {
            discipline: Some(discipline),
            rate_bps: Some(10_000_000),
            bytes_out: flows.iter().map(|flow| flow.bytes_out).sum(),
            backlog_bytes: flows.iter().map(|flow| flow.backlog_bytes).sum(),
            flows,
            ..Stats::default()
        };
        let direction = DirectionStatus {
            limit_packets: 83,
            stats,
            ..DirectionStatus::default()
        };
        Status {
            interface: "wan0".into(),
            directions: vec![direction],
            ..Status::default()
        }
    }

    fn turns(model: &Model) -> Vec<(String, Turn)> {
        let rows = model.views[0].rows(Sort::Backlog);
        rows.iter()
            .map(|row| (row.stats.flow.clone(), row.turn))
            .collect()
    }

    #[test]
    fn the_shortest_queue_is_first_and_the_longest_is_named() {
        let flows = || {
            vec![
                flow("bulk", 60_000, 0),
                flow("call", 0, 0),
                flow("page", 3_000, 0),
            ]
        };
        let mut model = Model::new();
        model.update(Instant::now(), Ok(vec![status(Discipline::Sqf, flows())]));
        let expected = [
            ("bulk".to_string(), Turn::Longest),
            ("page".to_string(), Turn::Place(1)),
            ("call".to_string(), Turn::AtOnce),
        ];
        assert_eq!(turns(&model), expected);
        model.update(Instant::now(), Ok(vec![status(Discipline::Fifo, flows())]));
        assert_eq!(turns(&model)[0].1, Turn::Waits);
    }

    #[test]
    fn the_longest_queue_is_named_where_a_full_buffer_drops_from_it() {
        for discipline in Discipline::ALL {
            let flows = vec![flow("bulk", 60_000, 0), flow("page", 3_000, 0)];
            let mut model = Model::new();
            model.update(Instant::now(), Ok(vec![status(discipline, flows)]));
            let is_named = turns(&model)[0].1 == Turn::Longest;
            let drops_longest = discipline.spec().needs().drops_longest;
            assert_eq!(is_named, drops_longest, "{discipline}");
        }
    }

    #[test]
    fn rates_are_of_the_last_second() {
        let mut model = Model::new();
        let start = Instant::now();
        for n in 0..8 {
            let bytes = n * 250_000;
            let answer = vec![status(Discipline::Sqf, vec![flow("bulk", 0, bytes)])];
            model.update(start + Duration::from_millis(250 * n), Ok(answer));
        }
        let view = &model.views[0];
        assert!((view.bps() - 8e6).abs() < 1.0, "{}", view.bps());
        assert!((view.rows(Sort::Rate)[0].bps - 8e6).abs() < 1.0);
        assert_eq!(view.rates.len(), 7);
    }

    #[test]
    fn what_was_shown_stays_when_there_is_no_answer() {
        let mut model = Model::new();
        model.update(
            Instant::now(),
            Ok(vec![status(Discipline::Sqf, vec![flow("bulk", 0, 1)])]),
        );
        model.update(Instant::now(), Err("gone".into()));
        assert_eq!(model.views.len(), 1);
        assert_eq!(model.trouble.as_deref(), Some("gone"));
    }
}
