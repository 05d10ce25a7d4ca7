// SPDX-License-Identifier: MIT OR Apache-2.0
//! Figures of a link, a letter, and the rates that they propose.

use std::fmt;
use std::time::Duration;

use makeway_core::framing::Framing;
use makeway_core::units::{Bytes, Rate};
use serde::{Deserialize, Serialize};

/// Share of the samples that the mean of responsiveness keeps: the highest go, as the draft trims them.
const KEPT: f64 = 0.95;
/// Shares of the measured rate, up and down (docs/guide/which-rate.md).
const SHARES: (f64, f64) = (0.95, 0.90);

/// Load of the link at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum Phase {
    /// No load of ours.
    #[default]
    Idle,
    /// A download.
    Download,
    /// An upload.
    Upload,
}

/// One sample of latency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Probe {
    /// Begin of the probe, in seconds since the measurement began.
    pub at_s: f64,
    /// Load during the probe.
    pub phase: Phase,
    /// Mean of two round trips, the handshake and a request; `None`: no answer within 3 s.
    pub ms: Option<f64>,
}

/// Latency in a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Latency {
    /// Probes that were answered.
    pub answered: u64,
    /// Probes that were lost.
    pub lost: u64,
    /// Median in ms.
    pub p50_ms: f64,
    /// 90th percentile in ms.
    pub p90_ms: f64,
    /// Largest in ms.
    pub max_ms: f64,
    /// Round trips per minute: 60 s over the mean of the lowest 95 % of the samples.
    pub rpm: f64,
}

/// A phase with load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Load {
    /// Payload of TCP that arrived, in bit/s, over the last half of the phase.
    pub payload_bps: f64,
    /// Latency once the load had begun.
    pub latency: Latency,
    /// 90th percentile of the latency, less the idle median.
    pub added_ms: f64,
    /// Grade of that increase.
    pub letter: Letter,
}

/// Grade of the latency that load adds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum Letter {
    /// Below 5 ms.
    #[serde(rename = "A+")]
    Best,
    /// Below 30 ms.
    A,
    /// Below 60 ms.
    B,
    /// Below 200 ms.
    C,
    /// Below 400 ms.
    D,
    /// From 400 ms on.
    #[default]
    F,
}

impl Letter {
    /// Grade of the latency that load adds.
    pub fn of(added_ms: f64) -> Self {
        match added_ms {
            ..5.0 => Self::Best,
            ..30.0 => Self::A,
            ..60.0 => Self::B,
            ..200.0 => Self::C,
            ..400.0 => Self::D,
            _ => Self::F,
        }
    }
}

impl fmt::Display for Letter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Best => "A+",
            Self::A => "A",
            Self::B => "B",
            Self::C => "C",
            Self::D => "D",
            Self::F => "F",
        })
    }
}

/// All figures of a link.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Measured {
    /// Latency without load of ours.
    pub idle: Latency,
    /// Under a download.
    pub download: Load,
    /// Under an upload.
    pub upload: Load,
    /// All samples, in the order of their begin.
    pub probes: Vec<Probe>,
}

/// Latency of a phase.
pub fn latency(probes: &[Probe]) -> Latency {
    let mut answered: Vec<f64> = probes.iter().filter_map(|one| one.ms).collect();
    answered.sort_by(f64::total_cmp);
    let quantile = |q: f64| {
        let rank = (q * answered.len() as f64).ceil() as usize;
        answered.get(rank.max(1) - 1).copied().unwrap_or_default()
    };
    let kept = (KEPT * answered.len() as f64).ceil() as usize;
    let sum: f64 = answered[..kept].iter().sum();
    Latency {
        answered: answered.len() as u64,
        lost: (probes.len() - answered.len()) as u64,
        p50_ms: quantile(0.5),
        p90_ms: quantile(0.9),
        max_ms: quantile(1.0),
        rpm: match sum > 0.0 {
            true => 60_000.0 * kept as f64 / sum,
            false => 0.0,
        },
    }
}

/// Figures of a phase: `probes` are those under load, `idle` the latency without load.
pub fn load(payload_bps: f64, probes: &[Probe], idle: &Latency) -> Load {
    let latency = latency(probes);
    let added_ms = (latency.p90_ms - idle.p50_ms).max(0.0);
    Load {
        payload_bps,
        latency,
        added_ms,
        // Probes that got no answer have no latency, and the link no grade but the last.
        letter: match latency.answered > latency.lost {
            true => Letter::of(added_ms),
            false => Letter::F,
        },
    }
}

/// Rate of payload as bytes arrived, over the last half of the time: `counts` are times since the begin and bytes so far.
pub fn rate_of(counts: &[(Duration, u64)]) -> f64 {
    let Some(&(end, all)) = counts.last() else {
        return 0.0;
    };
    let half = counts.iter().rfind(|(at, _)| *at <= end / 2);
    let (begin, before) = half.copied().unwrap_or_default();
    let seconds = end.saturating_sub(begin).as_secs_f64();
    match seconds > 0.0 {
        true => all.saturating_sub(before) as f64 * 8.0 / seconds,
        false => 0.0,
    }
}

/// Rate on the wire of full packets that carry this payload of TCP: `mtu` bytes each, 32 of them TCP's header with timestamps.
pub fn on_the_wire(payload_bps: f64, mtu: u32, is_v6: bool, framing: Framing) -> f64 {
    let headers = 32 + if is_v6 { 40 } else { 20 };
    let payload = mtu.saturating_sub(headers).max(1);
    let wire = framing.wire(Bytes::new(u64::from(mtu)));
    payload_bps * wire.get() as f64 / f64::from(payload)
}

/// Rates to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// Egress.
    pub upload: Rate,
    /// Ingress.
    pub download: Rate,
}

/// 95 % of the measured rate up and 90 % down, each to two digits below its first, since more would pretend accuracy.
/// `None` if a direction carried nothing.
pub fn propose(upload_bps: f64, download_bps: f64) -> Option<Proposal> {
    let share = |bps: f64, share: f64| {
        let wanted = bps * share;
        // Below 1 kbit/s there is no rate.
        let step = 10_f64.powf((wanted.max(1.0).log10()).floor() - 2.0);
        (wanted >= 1000.0).then(|| Rate::from_bps(((wanted / step).floor() * step).round() as u64))
    };
    Some(Proposal {
        upload: share(upload_bps, SHARES.0)?,
        download: share(download_bps, SHARES.1)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probes(all: &[Option<f64>]) -> Vec<Probe> {
        let one = |ms: &Option<f64>| Probe {
            ms: *ms,
            ..Probe::default()
        };
        all.iter().map(one).collect()
    }

    #[test]
    fn latency_has_ranks_and_responsiveness_the_lowest_95_percent() {
        let all: Vec<_> = (1..=20).map(|n| Some(f64::from(n) * 10.0)).collect();
        let told = latency(&probes(&all));
        assert_eq!((told.answered, told.lost), (20, 0));
        assert_eq!(
            (told.p50_ms, told.p90_ms, told.max_ms),
            (100.0, 180.0, 200.0)
        );
        // The mean of 10 to 190 ms is 100 ms: 600 a minute.
        assert!((told.rpm - 600.0).abs() < 1e-9, "{}", told.rpm);
        assert_eq!(latency(&[]), Latency::default());
    }

    #[test]
    fn the_letter_is_that_of_the_90th_percentile_over_the_idle_median() {
        let idle = latency(&probes(&[Some(20.0); 10]));
        for (ms, letter) in [
            (24.9, Letter::Best),
            (25.0, Letter::A),
            (49.9, Letter::A),
            (50.0, Letter::B),
            (80.0, Letter::C),
            (220.0, Letter::D),
            (420.0, Letter::F),
        ] {
            // One in ten higher does not change it.
            let mut all = vec![Some(ms); 9];
            all.push(Some(2000.0));
            let told = load(1e6, &probes(&all), &idle);
            assert_eq!(told.letter, letter, "{ms}");
            assert!((told.added_ms - (ms - 20.0)).abs() < 1e-9);
        }
        let silent = load(1e6, &probes(&[Some(20.0), None, None]), &idle);
        assert_eq!((silent.letter, silent.latency.lost), (Letter::F, 2));
    }

    #[test]
    fn the_rate_is_that_of_the_last_half() {
        let at = |ms, bytes| (Duration::from_millis(ms), bytes);
        let counts = [at(0, 0), at(1000, 0), at(2000, 1000), at(4000, 5000)];
        assert_eq!(rate_of(&counts), 16_000.0);
        assert_eq!(rate_of(&[]), 0.0);
        assert_eq!(rate_of(&[at(0, 0)]), 0.0);
    }

    #[test]
    fn payload_takes_its_headers_on_the_wire() {
        let ethernet = Framing {
            overhead: 14,
            ..Framing::default()
        };
        let wire = on_the_wire(1448e3, 1500, false, ethernet);
        assert!((wire - 1514e3).abs() < 1e-6, "{wire}");
        let wire = on_the_wire(1428e3, 1500, true, ethernet);
        assert!((wire - 1514e3).abs() < 1e-6, "{wire}");
    }

    #[test]
    fn proposed_rates_leave_the_margins_of_the_guide() {
        let told = propose(8e6, 40e6);
        let rates = told.map(|one| (one.upload.bps(), one.download.bps()));
        assert_eq!(rates, Some((7_600_000, 36_000_000)));
        let told = propose(8_123_456.0, 40e6);
        assert_eq!(told.map(|one| one.upload.bps()), Some(7_710_000));
        assert_eq!(propose(0.0, 40e6), None);
    }
}
