// SPDX-License-Identifier: MIT OR Apache-2.0
//! Datagrams that an application hands to its sender, with their times.

use std::collections::VecDeque;

use makeway_core::random::Rng;
use makeway_core::units::{Duration, Rate};
use rand_distr::{Distribution, StandardNormal, StandardUniform};
use rand_pcg::Pcg64Mcg;

use keyframes::Forced;

use super::stream;
use crate::model::{Media, Scene, Traffic};

mod keyframes;

/// A datagram as the application makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    /// From the start of the flow, in ns.
    pub at: u64,
    /// Place of its class, 0 the most important.
    pub class: u8,
    /// Its size.
    pub bytes: u32,
    /// Number of its frame, counted in its class from 0.
    pub frame: u32,
    /// Datagrams of that frame.
    pub parts: u16,
    /// How many numbers back the frames are that it depends on; 0: none.
    pub refers: [u8; 2],
}

/// Datagrams of an application over time, without end. The random streams depend on seed and flow alone: not on the sender,
/// and on the target that an encoder follows by its scale only.
#[derive(Clone, Debug)]
pub struct Units {
    sources: Vec<Source>,
    /// Places of those that are due at once.
    due: Vec<usize>,
    ready: VecDeque<Unit>,
    rng: Pcg64Mcg,
    /// Order of datagrams due at once.
    order: Rng,
}

/// A class that makes frames at even times.
#[derive(Clone, Debug)]
struct Source {
    class: u8,
    traffic: Traffic,
    /// Ns from one to the next.
    period: u64,
    /// From when to when nothing is made.
    pause: [u64; 2],
    /// Frames so far.
    frames: u32,
    /// Bytes of the next frame.
    bytes: u64,
    /// By which sizes are multiplied.
    scale: f64,
    /// Place of the next frame in a trace, and the place at which it begins.
    place: usize,
    first: usize,
    /// Numbers of the last two frames that are no `B`, the latest first: others depend on them.
    references: [Option<u32>; 2],
    /// Keyframes that the trace does not have.
    forced: Forced,
}

impl Units {
    /// Units of the flow numbered `flow`.
    pub fn new(media: &Media, seed: u64, flow: usize) -> Self {
        let classes = (0..).zip(&media.classes);
        let pause = media.pause.map(|pause| pause.map(Duration::as_nanos));
        let sources = classes
            .filter_map(|(class, of)| Source::new(class, &of.traffic, pause.unwrap_or([0; 2])));
        let mut rng = stream(seed, flow);
        let mut units = Self {
            sources: sources.collect(),
            due: Vec::new(),
            // The datagrams of frames that are due at once; more allocate.
            ready: VecDeque::with_capacity(64),
            order: Rng::new(StandardUniform.sample(&mut rng)),
            rng,
        };
        for source in &mut units.sources {
            source.begin(&mut units.rng);
        }
        // An encoder that follows a target begins with the least.
        units.follow(Rate::default());
        units
    }

    /// When the next one is made, in ns from the start of the flow; `None` where nothing is made by the clock.
    pub fn next_at(&self) -> Option<u64> {
        let ready = self.ready.front().map(|unit| unit.at);
        ready.or_else(|| self.sources.iter().map(Source::at).min())
    }

    /// Encoders that follow `target` share the part left by other classes.
    pub fn follow(&mut self, target: Rate) {
        let (mut followers, mut fixed) = (0.0, 0.0);
        for source in &self.sources {
            match source.bounds() {
                Some(_) => followers += 1.0,
                None => fixed += source.traffic.mean_bps().unwrap_or_default(),
            }
        }
        let each = (target.bps() as f64 - fixed) / followers;
        for source in &mut self.sources {
            if let (Some([least, most]), Some(mean)) = (source.bounds(), source.traffic.mean_bps())
            {
                source.scale = each.clamp(least.bps() as f64, most.bps() as f64) / mean;
            }
        }
    }

    /// The sender has dropped a datagram of `class` that was made at `at`, in ns from the start of the flow.
    pub fn refuse(&mut self, class: u8, at: u64) {
        for source in self.sources.iter_mut().filter(|of| of.class == class) {
            source.forced.refuse(at);
        }
    }

    fn make(&mut self) {
        let Some(at) = self.sources.iter().map(Source::at).min() else {
            return;
        };
        self.due.clear();
        for (place, source) in self.sources.iter_mut().enumerate() {
            if source.at() == at {
                self.due.push(place);
                source.draw(&mut self.rng);
            }
        }
        self.order.shuffle(&mut self.due);
        for place in &self.due {
            self.sources[*place].cut(at, &mut self.ready);
        }
    }
}

impl Iterator for Units {
    type Item = Unit;

    fn next(&mut self) -> Option<Unit> {
        if self.ready.is_empty() {
            self.make();
        }
        self.ready.pop_front()
    }
}

impl Source {
    fn new(class: u8, traffic: &Traffic, pause: [u64; 2]) -> Option<Self> {
        let mut source = Self {
            class,
            period: traffic.period()?.as_nanos(),
            traffic: traffic.clone(),
            pause,
            frames: 0,
            bytes: 0,
            scale: 1.0,
            place: 0,
            first: 0,
            references: [None; 2],
            forced: Forced::new(traffic),
        };
        source.skip_pause();
        Some(source)
    }

    /// Begins a trace at one of its keyframes, so that replications differ.
    fn begin(&mut self, rng: &mut Pcg64Mcg) {
        let Traffic::Coded { frames, .. } = &self.traffic else {
            return;
        };
        let places = 0..frames.len();
        let keys: Vec<usize> = places.filter(|at| frames[*at].kind == 'I').collect();
        let chosen: u64 = StandardUniform.sample(rng);
        let chosen = chosen as usize % keys.len().max(1);
        self.first = keys.get(chosen).copied().unwrap_or_default();
        self.place = self.first;
    }

    /// When the next frame is due.
    fn at(&self) -> u64 {
        u64::from(self.frames) * self.period
    }

    /// From which rate to which its encoder follows a target.
    fn bounds(&self) -> Option<[Rate; 2]> {
        match self.traffic {
            Traffic::Frames { follows, .. } | Traffic::Coded { follows, .. } => follows,
            _ => None,
        }
    }

    /// How large the next frame is: one byte at least.
    fn draw(&mut self, rng: &mut Pcg64Mcg) {
        let at = self.at();
        self.bytes = match &self.traffic {
            Traffic::Even { payload, .. } | Traffic::Always { payload } => payload.get(),
            Traffic::Frames { scenes, .. } => {
                let normal: f64 = StandardNormal.sample(rng);
                let Scene {
                    mean, deviation, ..
                } = scene(scenes, at);
                let bytes = mean.get() as f64 + normal * deviation.get() as f64;
                (bytes * self.scale).max(1.0) as u64
            }
            Traffic::Coded { frames, .. } => {
                let frame = frames[self.place];
                let forced = self.forced.next(at, frame.kind);
                let bytes = forced.unwrap_or(frame.bytes.get() as f64);
                (bytes * self.scale).max(1.0) as u64
            }
        };
    }

    /// How many numbers back the frames are that the next one depends on; 0: none.
    fn refer(&mut self) -> [u8; 2] {
        let Traffic::Coded { frames, .. } = &self.traffic else {
            return [0; 2];
        };
        let kind = self.forced.kind(frames[self.place].kind);
        let back = |number: u32| u8::try_from(self.frames - number).unwrap_or(u8::MAX);
        let [latest, other] = self.references.map(|number| number.map_or(0, back));
        if kind != 'B' {
            self.references = [Some(self.frames), self.references[0]];
        }
        match kind {
            'I' => [0; 2],
            'P' => [latest, 0],
            _ => [latest, other],
        }
    }

    /// Makes the datagrams of the next frame ready.
    fn cut(&mut self, at: u64, ready: &mut VecDeque<Unit>) {
        let largest = match &self.traffic {
            Traffic::Frames { largest, .. } | Traffic::Coded { largest, .. } => largest.get(),
            _ => self.bytes,
        };
        let refers = self.refer();
        let parts = self.bytes.div_ceil(largest).min(u64::from(u16::MAX));
        for part in 0..parts {
            ready.push_back(Unit {
                at,
                class: self.class,
                bytes: (self.bytes - part * largest).min(largest) as u32,
                frame: self.frames,
                parts: parts as u16,
                refers,
            });
        }
        self.frames += 1;
        if let Traffic::Coded { frames, .. } = &self.traffic {
            self.place = (self.place + 1) % frames.len();
        }
        self.skip_pause();
    }

    /// Frames of the pause are not made; their numbers are left out. A trace begins anew after it, with a keyframe.
    fn skip_pause(&mut self) {
        let [from, to] = self.pause;
        if (from..to).contains(&self.at()) {
            self.frames = to.div_ceil(self.period) as u32;
            self.place = self.first;
            self.references = [None; 2];
        }
    }
}

/// The scene at `at`; they come again after the last.
fn scene(scenes: &[Scene], at: u64) -> Scene {
    let round: u64 = scenes.iter().map(|scene| scene.length.as_nanos()).sum();
    let mut left = at % round;
    let there = scenes.iter().find(|scene| {
        let is_there = left < scene.length.as_nanos();
        left = left.saturating_sub(scene.length.as_nanos());
        is_there
    });
    *there.unwrap_or(&scenes[0])
}

#[cfg(test)]
mod tests;
