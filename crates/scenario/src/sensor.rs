// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kind = "sensor"`: a station that reports something that moves past it.

use makeway_core::units::{Bytes, Duration};

use crate::context::Context;
use crate::error::ScenarioError;
use crate::model::{Source, Wlan};
use crate::section::{Section, table};
use crate::wlan::{metres, points};

const PHENOMENON: &str = "{ path = [[0, 0], [400, 400]], speed = 10, reach = 75 }";
const PHENOMENON_KEYS: [&str; 3] = ["path", "speed", "reach"];
/// Chosen by us: more times to send than this are a typing error.
const MOST_PULSES: u64 = 10_000_000;

/// Something that goes from point to point, back to the first, and so on.
pub(crate) struct Phenomenon {
    path: Vec<[f64; 2]>,
    /// In m/s.
    speed: f64,
    /// How far sensors notice it, in m.
    reach: f64,
    period: Duration,
    payload: Bytes,
}

impl Phenomenon {
    pub fn read(s: &Section<'_>, payload: Bytes, cx: &Context<'_>) -> Result<Self, ScenarioError> {
        let entry = s.need("phenomenon", PHENOMENON)?;
        let name = s.name("phenomenon");
        let t = table(&entry.item, &name, PHENOMENON)?;
        let p = Section::new(name, &entry.item.origin, t, &PHENOMENON_KEYS)?;
        let path = p.need("path", "[[0, 0], [400, 400]]")?;
        let path = points(&path.item, &p.name("path"))?;
        if path.is_empty() {
            return Err(p.at("path").error(format!(
                "`{}` has no point: write where it goes in m, like [[0, 0], [400, 400]]",
                p.name("path")
            )));
        }
        let speed: f64 = p.read("speed")?.unwrap_or(0.0);
        if !(0.0..=1e6).contains(&speed) {
            return Err(p.at("speed").error(format!(
                "`{}` is {speed}: write a speed in m/s, 0 to a million",
                p.name("speed")
            )));
        }
        p.need("reach", "75")?;
        s.need("period", "\"10ms\"")?;
        let period: Duration = s.read("period")?.unwrap_or_default();
        if period < Duration::from_micros(100)
            || cx.duration.as_nanos() / period.as_nanos() > MOST_PULSES
        {
            return Err(s.at("period").error(format!(
                "`{}` is {period}: write a time from 0.1ms, of which {} has ten million at most",
                s.name("period"),
                cx.duration
            )));
        }
        Ok(Self {
            path,
            speed,
            reach: metres(&p, "reach", 1.0)?,
            period,
            payload,
        })
    }

    /// Packets of a sensor at node `from`: one at each multiple of the period at which it notices.
    pub fn noticed_by(
        &self,
        s: &Section<'_>,
        from: usize,
        cx: &Context<'_>,
        wlans: &[Wlan],
    ) -> Result<Source, ScenarioError> {
        let places = wlans.iter().filter_map(|wlan| {
            let station = wlan.stations.iter().position(|node| *node == from)?;
            Some(wlan.places.as_ref()?[station])
        });
        let Some(place) = places.into_iter().next() else {
            return Err(s.at("from").error(format!(
                "`{}`: `{}` has no place: name a station of a [wlan.NAME] with `places`",
                s.name("from"),
                cx.nodes[from].name
            )));
        };
        let length = self.length();
        let pulses = (0..).map(|n| self.period * n);
        let pulses = pulses.take_while(|at| *at < cx.duration);
        let noticed = |at: &Duration| distance(self.at(*at, length), place) <= self.reach;
        Ok(Source::Sensor {
            payload: self.payload,
            period: self.period,
            pulses: pulses.filter(noticed).collect::<Vec<_>>().into(),
        })
    }

    /// From each point to the next, and from the last to the first.
    fn legs(&self) -> impl Iterator<Item = ([f64; 2], [f64; 2])> + '_ {
        let next = self.path.iter().cycle().skip(1);
        self.path.iter().copied().zip(next.copied())
    }

    fn length(&self) -> f64 {
        self.legs().map(|(a, b)| distance(a, b)).sum()
    }

    /// Where it is.
    fn at(&self, time: Duration, length: f64) -> [f64; 2] {
        let mut left = match length > 0.0 {
            true => self.speed * time.as_secs_f64() % length,
            false => 0.0,
        };
        for (a, b) in self.legs() {
            let leg = distance(a, b);
            if left < leg {
                let part = left / leg;
                return [0, 1].map(|i| a[i] + part * (b[i] - a[i]));
            }
            left -= leg;
        }
        self.path[0]
    }
}

fn distance(a: [f64; 2], b: [f64; 2]) -> f64 {
    let [x, y] = [a[0] - b[0], a[1] - b[1]];
    (x * x + y * y).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_round_at_its_speed() {
        let phenomenon = Phenomenon {
            path: vec![[0.0, 0.0], [30.0, 0.0], [30.0, 40.0]],
            speed: 10.0,
            reach: 1.0,
            period: Duration::from_millis(10),
            payload: Bytes::new(24),
        };
        let length = phenomenon.length();
        assert_eq!(length, 120.0);
        let at = |s| phenomenon.at(Duration::from_secs(s), length);
        assert_eq!(at(2), [20.0, 0.0]);
        assert_eq!(at(5), [30.0, 20.0]);
        // Half of the way back, 50 m long; then again.
        let [x, y] = phenomenon.at(Duration::from_millis(9500), length);
        assert!((x - 15.0).abs() < 1e-9 && (y - 20.0).abs() < 1e-9);
        assert_eq!(at(14), at(2));
    }
}
