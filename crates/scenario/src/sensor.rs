// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kind = "sensor"`: a station that reports something that moves past it.

use makeway_core::units::{Bytes, Duration};

use crate::context::Context;
use crate::error::ScenarioError;
use crate::field::{Field, PAYLOAD, Values};
use crate::model::{Source, Wlan};
use crate::section::Section;
use crate::wlan::{METRES, points};

#[rustfmt::skip]
pub(crate) const FIELDS: &[Field] = &[
    Field::new("payload", PAYLOAD, "24B", "payload of a packet"),
    Field::needed("period", Values::Time(Duration::from_micros(100), Duration::from_secs(3600)), "\"10ms\"", "it sends at multiples of this at which it notices the phenomenon"),
    Field::needed("phenomenon", Values::Table(PHENOMENON), "{ path = [[0, 0], [400, 400]], speed = 10, reach = 75 }", "an object that moves past the sensors"),
];
#[rustfmt::skip]
const PHENOMENON: &[Field] = &[
    Field::needed("path", Values::Other("an array of points in m"), "[[0, 0], [400, 400]]", "points that it goes to, from the last back to the first"),
    Field::new("speed", Values::Number(0.0, 1e6), "0", "speed in m/s"),
    Field::needed("reach", METRES, "75", "distance in m from the sender's position in its `[wlan.NAME]` at which it is noticed"),
];
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
    pub fn read(s: &Section<'_>, cx: &Context<'_>) -> Result<Self, ScenarioError> {
        let period: Duration = s.value("period")?;
        if cx.duration.as_nanos() / period.as_nanos().max(1) > MOST_PULSES {
            return Err(s.at("period").error(format!(
                "`{}` is {period}: {} has more than ten million of them, make it longer",
                s.name("period"),
                cx.duration
            )));
        }
        let Some(p) = s.inner("phenomenon")? else {
            return Err(s.origin.error("no phenomenon"));
        };
        let path = p.given("path")?.map(|item| points(item, &p.name("path")));
        let path = path.transpose()?.unwrap_or_default();
        if path.is_empty() {
            return Err(p.at("path").error(format!(
                "`{}` has no point: write where it goes in m, like [[0, 0], [400, 400]]",
                p.name("path")
            )));
        }
        Ok(Self {
            path,
            speed: p.value("speed")?,
            reach: p.value("reach")?,
            period,
            payload: s.value("payload")?,
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
