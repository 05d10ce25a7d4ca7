// SPDX-License-Identifier: MIT OR Apache-2.0
//! Options (RFC 4340 §5.8), and those of CCID 3 (RFC 4342 §8).

use makeway_core::units::Duration;

/// One option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Opt<'a> {
    /// The receiver can hardly keep up (§11.6).
    SlowReceiver,
    /// Proposes a value of a feature (§6.1).
    Change(Feature<'a>),
    /// Settles one (§6.2).
    Confirm(Feature<'a>),
    /// To be sent back by the client (§8.1.4).
    InitCookie(&'a [u8]),
    /// How many packets without data came directly before (§7.7).
    NdpCount(u64),
    /// Which packets came, from the acknowledged one backwards (§11.4).
    AckVector(&'a [u8]),
    /// When it was sent, in 10 us (§13.1).
    Timestamp(u32),
    /// Such a time sent back, and how long it was held (§13.3).
    TimestampEcho(u32, Duration),
    /// From the arrival of the acknowledged packet to now (§13.2).
    ElapsedTime(Duration),
    /// 1/p, rounded up; all ones while nothing was lost (RFC 4342 §8.5).
    LossEventRate(u32),
    /// Loss intervals, the latest first (RFC 4342 §8.6): a skip length, then nine bytes for each.
    LossIntervals(&'a [u8]),
    /// X_recv in byte/s (RFC 4342 §8.3).
    ReceiveRate(u32),
    /// Another, or one whose value makes no sense: its type and data.
    Unknown(u8, &'a [u8]),
    /// `Mandatory` that nothing follows, or another `Mandatory`: an error for the connection (§5.8.2).
    LooseMandatory,
}

/// Content of Change and Confirm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feature<'a> {
    /// Whether the feature lies at the end that sends the option: Change L, Confirm L.
    pub at_sender: bool,
    /// Its number (§6.4).
    pub number: u8,
    /// Its values. A Confirm with none says that the feature is not known.
    pub values: &'a [u8],
}

const UNIT: Duration = Duration::from_micros(10);

impl<'a> Opt<'a> {
    /// Its type.
    pub fn number(&self) -> u8 {
        match self {
            Self::SlowReceiver => 2,
            Self::Change(feature) => 34 - 2 * u8::from(feature.at_sender),
            Self::Confirm(feature) => 35 - 2 * u8::from(feature.at_sender),
            Self::InitCookie(_) => 36,
            Self::NdpCount(_) => 37,
            Self::AckVector(_) => 38,
            Self::Timestamp(_) => 41,
            Self::TimestampEcho(..) => 42,
            Self::ElapsedTime(_) => 43,
            Self::LossEventRate(_) => 192,
            Self::LossIntervals(_) => 193,
            Self::ReceiveRate(_) => 194,
            Self::Unknown(number, _) => *number,
            Self::LooseMandatory => 1,
        }
    }

    /// Whether a Data packet may carry it; on one that carries it all the same it is ignored (§5.8, Table 3).
    pub fn fits_data(&self) -> bool {
        let number = self.number();
        matches!(number, 2 | 37 | 41 | 42 | 44)
    }

    /// Appends it. Lists are at most 252 bytes long.
    pub fn write(&self, out: &mut Vec<u8>) {
        let begin = out.len();
        out.push(self.number());
        if begin_is_all(self.number()) {
            return;
        }
        out.push(0);
        match *self {
            Self::Change(feature) | Self::Confirm(feature) => {
                out.push(feature.number);
                out.extend(feature.values);
            }
            Self::NdpCount(count) => {
                let bytes = count.min((1 << 48) - 1).to_be_bytes();
                let from = bytes.iter().position(|&byte| byte != 0);
                out.extend(&bytes[from.unwrap_or(7)..]);
            }
            Self::Timestamp(word) | Self::LossEventRate(word) | Self::ReceiveRate(word) => {
                out.extend(word.to_be_bytes());
            }
            Self::TimestampEcho(word, held) => {
                out.extend(word.to_be_bytes());
                if held >= UNIT {
                    elapsed(held, out);
                }
            }
            Self::ElapsedTime(time) => elapsed(time, out),
            Self::InitCookie(data)
            | Self::AckVector(data)
            | Self::LossIntervals(data)
            | Self::Unknown(_, data) => out.extend(data),
            Self::SlowReceiver | Self::LooseMandatory => {}
        }
        out[begin + 1] = (out.len() - begin) as u8;
    }

    fn read(number: u8, data: &'a [u8]) -> Self {
        let value = |bytes: &[u8]| bytes.iter().fold(0u64, |n, &byte| n << 8 | u64::from(byte));
        let word = |bytes: &[u8]| value(bytes) as u32;
        let time = |bytes: &[u8]| Duration::from_micros(value(bytes) * 10);
        let feature = || {
            let (&number, values) = data.split_first()?;
            let at_sender = false;
            Some(Feature {
                at_sender,
                number,
                values,
            })
        };
        let located = |at_sender| {
            feature().map(|feature| Feature {
                at_sender,
                ..feature
            })
        };
        let known = match (number, data.len()) {
            (2, 0) => Some(Self::SlowReceiver),
            (32 | 34, 2..) => located(number == 32).map(Self::Change),
            (33 | 35, _) => located(number == 33).map(Self::Confirm),
            (36, 1..) => Some(Self::InitCookie(data)),
            (37, 1..=6) => Some(Self::NdpCount(value(data))),
            // They differ in the nonce of ECN, which this end does not use.
            (38 | 39, _) => Some(Self::AckVector(data)),
            (41, 4) => Some(Self::Timestamp(word(data))),
            (42, 4 | 6 | 8) => Some(Self::TimestampEcho(word(&data[..4]), time(&data[4..]))),
            (43, 2 | 4) => Some(Self::ElapsedTime(time(data))),
            (192, 4) => Some(Self::LossEventRate(word(data))),
            (193, 1..) if data.len() % 9 == 1 => Some(Self::LossIntervals(data)),
            (194, 4) => Some(Self::ReceiveRate(word(data))),
            _ => None,
        };
        known.unwrap_or(Self::Unknown(number, data))
    }
}

/// Options of one byte have no length.
const fn begin_is_all(number: u8) -> bool {
    number < 32
}

/// Below half a second two bytes, else four (§13.2).
fn elapsed(time: Duration, out: &mut Vec<u8>) {
    let units = time.as_nanos() / UNIT.as_nanos();
    if time < Duration::from_millis(500) {
        out.extend((units as u16).to_be_bytes());
    } else {
        let units = u32::try_from(units).unwrap_or(u32::MAX);
        out.extend(units.to_be_bytes());
    }
}

/// The options of a packet in their order, each with whether it is mandatory. It ends at one of nonsensical length (§5.8).
pub fn options(mut bytes: &[u8]) -> impl Iterator<Item = (bool, Opt<'_>)> {
    let mut mandatory = false;
    std::iter::from_fn(move || {
        loop {
            let Some((&number, rest)) = bytes.split_first() else {
                let loose = std::mem::take(&mut mandatory);
                return loose.then_some((true, Opt::LooseMandatory));
            };
            let (option, after) = match number {
                0 => {
                    mandatory = false;
                    bytes = rest;
                    continue;
                }
                1 if mandatory => (Opt::LooseMandatory, &[][..]),
                1 => {
                    mandatory = true;
                    bytes = rest;
                    continue;
                }
                _ if begin_is_all(number) => (Opt::read(number, &[]), rest),
                _ => {
                    let length = rest.first().map_or(0, |&length| usize::from(length));
                    if length < 2 || length > bytes.len() {
                        bytes = &[];
                        continue;
                    }
                    (Opt::read(number, &bytes[2..length]), &bytes[length..])
                }
            };
            bytes = after;
            return Some((std::mem::take(&mut mandatory), option));
        }
    })
}

/// Loss event rate p of the intervals' data lengths (RFC 5348 §5.4). `None` without a loss.
pub fn loss_event_rate(intervals: &[u8]) -> Option<f64> {
    const WEIGHTS: [f64; 8] = [1.0, 1.0, 1.0, 1.0, 0.8, 0.6, 0.4, 0.2];
    let data = intervals.get(1..)?;
    let mut lengths = [0.0; 9];
    let mut count = 0;
    for (length, interval) in lengths.iter_mut().zip(data.chunks_exact(9)) {
        *length = f64::from(u32::from_be_bytes([
            0,
            interval[6],
            interval[7],
            interval[8],
        ]));
        count += 1;
    }
    // The latest is open; what was before the first loss is an interval like any other.
    let weigh = |lengths: &[f64]| {
        let pairs = lengths.iter().zip(WEIGHTS);
        let (sum, weights) = pairs.fold((0.0, 0.0), |(s, w), (l, weight)| {
            (s + l * weight, w + weight)
        });
        if weights > 0.0 { sum / weights } else { 0.0 }
    };
    let lengths = &lengths[..count];
    let mean = weigh(lengths.get(1..)?).max(weigh(&lengths[..count.min(8)]));
    (count > 1 && mean >= 1.0).then(|| 1.0 / mean)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn write(options: &[Opt<'_>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for option in options {
            option.write(&mut bytes);
        }
        bytes
    }

    proptest! {
        #[test]
        fn options_are_read_as_they_were_written(
            (at_sender, number) in any::<(bool, u8)>(),
            list in proptest::collection::vec(any::<u8>(), 1..100),
            (a, b, c, d) in any::<(u32, u32, u32, u32)>(),
            count in 0..1u64 << 48,
            units in 0..1u64 << 32,
            padding in 0..3usize,
        ) {
            let time = Duration::from_micros(units * 10);
            let feature = Feature { at_sender, number, values: &list };
            let mut intervals = vec![3];
            intervals.resize(1 + list.len() % 28 * 9, 5);
            let all = [
                Opt::SlowReceiver, Opt::Change(feature), Opt::Confirm(feature), Opt::InitCookie(&list), Opt::NdpCount(count),
                Opt::AckVector(&list), Opt::Timestamp(a), Opt::TimestampEcho(b, time), Opt::ElapsedTime(time),
                Opt::LossEventRate(c), Opt::ReceiveRate(d), Opt::LossIntervals(&intervals), Opt::Unknown(100, &list),
            ];
            let mut bytes = vec![0; padding];
            bytes.extend(write(&all));
            let read: Vec<_> = options(&bytes).collect();
            prop_assert_eq!(read, all.map(|option| (false, option)).to_vec());
        }

        #[test]
        fn hostile_options_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            for (_, option) in options(&bytes) {
                if let Opt::LossIntervals(intervals) = option {
                    loss_event_rate(intervals);
                }
            }
        }
    }

    #[test]
    fn mandatory_belongs_to_the_next_option() {
        let read = |bytes| {
            options(bytes)
                .map(|(mandatory, o)| (mandatory, o.number()))
                .collect::<Vec<_>>()
        };
        assert_eq!(read(&[1, 2, 2]), [(true, 2), (false, 2)]);
        assert_eq!(read(&[1, 0, 2]), [(false, 2)]);
        assert_eq!(read(&[2, 1]), [(false, 2), (true, 1)]);
        assert_eq!(read(&[1, 1, 2]), [(true, 1)]);
        assert_eq!(read(&[2, 43, 1, 2]), [(false, 2)]);
    }

    /// RFC 4342 §8.6.2.
    #[test]
    fn the_loss_intervals_of_the_rfc() {
        let bytes = [
            193, 39, 2, 0, 0, 10, 128, 0, 1, 0, 0, 10, 0, 0, 8, 0, 0, 5, 0, 0, 10, 0, 0, 8, 0, 0,
            1, 0, 0, 8, 0, 0, 10, 128, 0, 0, 0, 0, 15,
        ];
        let all: Vec<_> = options(&bytes).collect();
        let [(false, Opt::LossIntervals(intervals))] = all[..] else {
            panic!("{all:?}")
        };
        // Closed ones 10, 8 and 15; with the open one 10, 10, 8 and 15.
        assert_eq!(loss_event_rate(intervals), Some(3.0 / 33.0));
    }
}
