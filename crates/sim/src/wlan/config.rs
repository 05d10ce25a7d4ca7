// SPDX-License-Identifier: MIT OR Apache-2.0
//! Settings of a cell, and durations of frames on the air (IEEE 802.11-2020).

use makeway_core::units::{Duration, Rate};

/// RTS: frame control, duration, two addresses, check sequence (9.3.1.2).
const RTS: u64 = 20;
/// CTS and ACK: the same with one address (9.3.1.3, 9.3.1.4).
pub(super) const ACK: u64 = 14;
/// Preamble and header of DSSS, long and short (16.2.2).
const LONG: Duration = Duration::from_micros(192);
const SHORT: Duration = Duration::from_micros(96);

/// How bits become a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Phy {
    /// 802.11b: DSSS at 1 and 2 Mbit/s, HR/DSSS at 5.5 and 11 Mbit/s (clauses 15 and 16).
    Dsss {
        /// Preamble and header: 192 us long, 96 us short.
        head: Duration,
    },
    /// 802.11a: OFDM at 6 to 54 Mbit/s in 20 MHz (clause 17).
    Ofdm,
}

impl Phy {
    /// Preamble and header.
    pub fn head(self) -> Duration {
        match self {
            Self::Dsss { head } => head,
            Self::Ofdm => Duration::from_micros(20),
        }
    }

    /// How long `bytes` are on the air at `rate`: TXTIME of 16.3.4 and 17.4.3.
    pub fn time(self, bytes: u64, rate: Rate) -> Duration {
        let bits = 8 * bytes;
        let body = match self {
            // The head tells whole microseconds.
            Self::Dsss { .. } => (bits * 1_000_000).div_ceil(rate.bps()),
            // Symbols of 4 us; 16 bits before, 6 behind.
            Self::Ofdm => 4 * ((bits + 22) * 1_000_000).div_ceil(4 * rate.bps()),
        };
        self.head() + Duration::from_micros(body)
    }
}

/// The distributed coordination function of a cell's stations (clause 10.3), all of them alike.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// How bits become a signal.
    pub phy: Phy,
    /// Rate of data frames.
    pub rate: Rate,
    /// Rate of RTS, CTS and ACK.
    pub basic_rate: Rate,
    /// Backoff's unit.
    pub slot: Duration,
    /// Before an answer.
    pub sifs: Duration,
    /// Idle before a slot is counted, after a frame that was understood.
    pub difs: Duration,
    /// The same after a frame that was not.
    pub eifs: Duration,
    /// CWmin and CWmax: backoff is uniform from 0 to the window. One less than a power of two.
    pub cw: [u32; 2],
    /// From a frame's end until its sender stops waiting for an answer.
    pub timeout: Duration,
    /// Frames longer than this, in bytes with MAC header, ask by RTS first.
    pub rts_threshold: u64,
    /// Number of tries of a frame up to the threshold, and of an RTS.
    pub short_retries: u32,
    /// A frame above it, once there was a CTS.
    pub long_retries: u32,
    /// A frame is understood beside another if its power is at least this many times the other's.
    /// `None`: never.
    pub capture: Option<f64>,
    /// Data frames that their receiver does not understand though nothing disturbs them, of 2^64.
    pub loss: u64,
}

impl Config {
    /// 802.11b with a long or short preamble (table 16-4, 16.3.4): control frames at 2 Mbit/s, or at 1
    /// where data is.
    pub fn b(rate: Rate, short_preamble: bool) -> Self {
        let head = match short_preamble {
            true => SHORT,
            false => LONG,
        };
        let basic = rate.min(Rate::from_bps(2_000_000));
        let [slot, sifs] = [20, 10].map(Duration::from_micros);
        Self::new(Phy::Dsss { head }, rate, basic, slot, sifs, [31, 1023])
    }

    /// 802.11a (table 17-21): control frames at the highest mandatory rate (6, 12, 24) that data has.
    pub fn a(rate: Rate) -> Self {
        let mandatory = [24, 12, 6].map(|mbit| Rate::from_bps(mbit * 1_000_000));
        let basic = mandatory.into_iter().find(|basic| *basic <= rate);
        let basic = basic.unwrap_or(mandatory[2]);
        let [slot, sifs] = [9, 16].map(Duration::from_micros);
        Self::new(Phy::Ofdm, rate, basic, slot, sifs, [15, 1023])
    }

    fn new(
        phy: Phy,
        rate: Rate,
        basic_rate: Rate,
        slot: Duration,
        sifs: Duration,
        cw: [u32; 2],
    ) -> Self {
        let difs = sifs + slot * 2;
        let lowest = Rate::from_bps(match phy {
            Phy::Dsss { .. } => 1_000_000,
            Phy::Ofdm => 6_000_000,
        });
        Self {
            phy,
            rate,
            basic_rate,
            slot,
            sifs,
            difs,
            // 10.3.7
            eifs: sifs + phy.time(ACK, lowest) + difs,
            cw,
            // 10.3.2.11: until the head of an answer must have come.
            timeout: sifs + slot + phy.head(),
            rts_threshold: u64::MAX,
            // dot11ShortRetryLimit, dot11LongRetryLimit
            short_retries: 7,
            long_retries: 4,
            capture: None,
            loss: 0,
        }
    }

    pub(super) fn data_time(&self, bytes: u64) -> Duration {
        self.phy.time(bytes, self.rate)
    }

    /// Transmission time of an ACK or a CTS.
    pub(super) fn answer_time(&self) -> Duration {
        self.phy.time(ACK, self.basic_rate)
    }

    pub(super) fn rts_time(&self) -> Duration {
        self.phy.time(RTS, self.basic_rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mbit(tenths: u64) -> Rate {
        Rate::from_bps(tenths * 100_000)
    }

    #[test]
    fn frames_take_the_time_that_the_standard_gives() {
        let b = Config::b(mbit(110), false);
        let us = Duration::from_micros;
        // 1500 B, 8 of LLC, 28 of MAC: 12288 bits at 11 Mbit/s are 1117.1 us.
        assert_eq!(b.data_time(1536), us(192 + 1118));
        assert_eq!(b.answer_time(), us(192 + 56));
        assert_eq!(b.rts_time(), us(192 + 80));
        assert_eq!((b.difs, b.eifs), (us(50), us(10 + 304 + 50)));
        assert_eq!(b.timeout, us(10 + 20 + 192));
        let short = Config::b(mbit(55), true);
        assert_eq!(short.data_time(1536), us(96 + 2235));
        let one = Config::b(mbit(10), false);
        assert_eq!(one.answer_time(), us(304));
        // 54 Mbit/s are 216 bits a symbol: 12310 bits are 57 of them. 24 Mbit/s: 134 bits are 2 of 96.
        let a = Config::a(mbit(540));
        assert_eq!(a.data_time(1536), us(20 + 228));
        assert_eq!(a.answer_time(), us(28));
        assert_eq!(a.difs, us(34));
        assert_eq!(Config::a(mbit(90)).basic_rate, mbit(60));
    }
}
