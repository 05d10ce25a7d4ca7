// SPDX-License-Identifier: MIT OR Apache-2.0
//! Features and their negotiation (RFC 4340 §6).
//!
//! Each feature lies at one end, the other is its remote. Values are agreed upon by Change and Confirm: the server's
//! preference decides (SP), or the end where it lies tells a number (NN).

use super::Seq;
use super::option::{Feature, Opt};
use super::wire::Reset;

/// Congestion control of the data that the end sends at which it lies.
pub const CCID: u8 = 1;
/// Whether the end may use sequence numbers of 24 bits.
pub const ALLOW_SHORT: u8 = 2;
/// How far sequence numbers of the end may be from those expected.
pub const SEQUENCE_WINDOW: u8 = 3;
/// Whether the end cannot read ECN's marks.
pub const ECN_INCAPABLE: u8 = 4;
/// How many data packets of the end an acknowledgement may stand for.
pub const ACK_RATIO: u8 = 5;
/// Whether the end sends Ack Vectors.
pub const SEND_ACK_VECTOR: u8 = 6;
/// Whether the end tells how many packets without data it sent.
pub const SEND_NDP_COUNT: u8 = 7;
/// The least checksum coverage that the end takes.
pub const MINIMUM_COVERAGE: u8 = 8;
/// Whether the end checks Data Checksum options.
pub const CHECK_DATA_CHECKSUM: u8 = 9;
/// Whether the end sends Loss Event Rate options (RFC 4342 §8.4).
pub const SEND_LOSS_EVENT_RATE: u8 = 192;

/// Number, initial value, and the values that this implementation takes, or the length and range of a number.
const KNOWN: [(u8, u64, Rule); 10] = [
    (CCID, 2, Rule::ServerPriority(&[2, 3])),
    (ALLOW_SHORT, 0, Rule::ServerPriority(&[0, 1])),
    (
        SEQUENCE_WINDOW,
        100,
        Rule::NonNegotiable(6, 32, (1 << 46) - 1),
    ),
    (ECN_INCAPABLE, 0, Rule::ServerPriority(&[0, 1])),
    // Zero is Linux's way to say that CCID 3 has no use for it.
    (ACK_RATIO, 2, Rule::NonNegotiable(2, 0, 0xffff)),
    (SEND_ACK_VECTOR, 0, Rule::ServerPriority(&[0, 1])),
    (SEND_NDP_COUNT, 0, Rule::ServerPriority(&[0, 1])),
    (MINIMUM_COVERAGE, 0, Rule::ServerPriority(&[0])),
    (CHECK_DATA_CHECKSUM, 0, Rule::ServerPriority(&[0])),
    (SEND_LOSS_EVENT_RATE, 0, Rule::ServerPriority(&[0, 1])),
];

#[derive(Clone, Copy, Debug)]
enum Rule {
    ServerPriority(&'static [u8]),
    /// Bytes, least, most.
    NonNegotiable(usize, u64, u64),
}

/// Where a feature lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// At this end.
    Local,
    /// At the other.
    Remote,
}

#[derive(Clone, Copy, Debug)]
struct State {
    value: u64,
    /// Value that this end asks for while it waits for a Confirm.
    changing: Option<u64>,
    /// The only value that this end agrees to, where it has asked for one.
    wanted: Option<u64>,
}

/// All features of a connection, at both ends.
#[derive(Clone, Debug)]
pub struct Features {
    server: bool,
    states: [[State; KNOWN.len()]; 2],
    /// Confirm options that wait for a packet.
    confirms: Vec<u8>,
    /// FGSR and FGSS (§6.6.4).
    received: Option<Seq>,
    sent: Option<Seq>,
    /// Whether a Change has not been sent yet.
    fresh: bool,
}

impl Features {
    /// The most that is kept of Confirm options; a Change that finds no room is answered when it comes again.
    const MOST_CONFIRMS: usize = 256;

    /// All have their initial values.
    pub fn new(server: bool) -> Self {
        let states = KNOWN.map(|(_, value, _)| State {
            value,
            changing: None,
            wanted: None,
        });
        Self {
            server,
            states: [states; 2],
            confirms: Vec::new(),
            received: None,
            sent: None,
            fresh: false,
        }
    }

    /// Its value now.
    pub fn value(&self, number: u8, end: End) -> u64 {
        index(number).map_or(0, |at| self.states[end as usize][at].value)
    }

    /// Asks for a value, unless it has it. Of a number (NN) only where the feature lies.
    pub fn want(&mut self, number: u8, end: End, value: u64) {
        let Some(at) = index(number) else { return };
        let state = &mut self.states[end as usize][at];
        state.wanted = Some(value);
        if state.value != value {
            state.changing = Some(value);
            self.fresh = true;
        }
    }

    /// Whether a Change waits for its Confirm.
    pub fn is_changing(&self) -> bool {
        self.states.iter().flatten().any(|s| s.changing.is_some())
    }

    /// Whether there is a Confirm to send.
    pub fn has_confirms(&self) -> bool {
        !self.confirms.is_empty()
    }

    /// Appends the options of a packet with this number, which must not be Data. A Request has no Confirms: it
    /// acknowledges nothing.
    pub fn write(&mut self, seq: Seq, confirms: bool, out: &mut Vec<u8>) {
        if confirms {
            out.extend(&self.confirms);
        }
        for (end, states) in [End::Local, End::Remote].into_iter().zip(&self.states) {
            for ((number, _, rule), state) in KNOWN.iter().zip(states) {
                let Some(value) = state.changing else {
                    continue;
                };
                let bytes = value.to_be_bytes();
                let length = match rule {
                    Rule::ServerPriority(_) => 1,
                    Rule::NonNegotiable(length, ..) => *length,
                };
                Opt::Change(Feature {
                    at_sender: end == End::Local,
                    number: *number,
                    values: &bytes[8 - length..],
                })
                .write(out);
            }
        }
        if std::mem::take(&mut self.fresh) {
            self.sent = Some(seq);
        }
    }

    /// The Confirms have come to the other end, or will be asked for again.
    pub fn forget_confirms(&mut self) {
        self.confirms.clear();
    }

    /// Takes the Change and Confirm options of one packet with its numbers. The error is a reset with the option's type and
    /// first data.
    pub fn receive<'a>(
        &mut self,
        seq: Seq,
        ack: Option<Seq>,
        options: impl Iterator<Item = (bool, Opt<'a>)>,
    ) -> Result<(), (Reset, [u8; 3])> {
        let reordered = self.received.is_some_and(|last| seq.since(last) <= 0);
        for (mandatory, option) in options {
            let result = match option {
                Opt::Change(_) | Opt::Confirm(_) if reordered => continue,
                Opt::Change(feature) => self.on_change(mandatory, feature),
                Opt::Confirm(feature) => {
                    let old = |ack: Seq| self.sent.is_none_or(|sent| ack.since(sent) < 0);
                    if ack.is_none_or(old) {
                        continue;
                    }
                    self.on_confirm(feature)
                }
                _ => continue,
            };
            self.received = Some(seq);
            result.map_err(|code| {
                let (Opt::Change(f) | Opt::Confirm(f)) = option else {
                    unreachable!("only these have results")
                };
                let first = f.values.first().copied().unwrap_or(0);
                (code, [option.number(), f.number, first])
            })?;
        }
        Ok(())
    }

    fn on_change(&mut self, mandatory: bool, change: Feature<'_>) -> Result<(), Reset> {
        let end = if change.at_sender {
            End::Remote
        } else {
            End::Local
        };
        let agreed = index(change.number).and_then(|at| {
            let state = &self.states[end as usize][at];
            match KNOWN[at].2 {
                Rule::NonNegotiable(length, least, most) => {
                    let value = number(change.values);
                    let fits = change.at_sender && change.values.len() == length;
                    (fits && (least..=most).contains(&value)).then_some((at, value))
                }
                Rule::ServerPriority(known) => {
                    let value = self.reconcile(known, state.wanted, change.values);
                    // Without a shared value it stays as it is (§6.3.1).
                    let value = value.or((!mandatory).then_some(state.value));
                    value.map(|value| (at, value))
                }
            }
        });
        let Some((at, value)) = agreed else {
            if mandatory {
                return Err(Reset::MANDATORY_ERROR);
            }
            self.confirm(end, change.number, &[]);
            return Ok(());
        };
        let state = &mut self.states[end as usize][at];
        state.value = value;
        state.changing = None;
        let wanted = state.wanted;
        match KNOWN[at].2 {
            Rule::NonNegotiable(..) => self.confirm(end, change.number, change.values),
            Rule::ServerPriority(known) => {
                let mut values = vec![value as u8];
                match wanted {
                    Some(wanted) => values.push(wanted as u8),
                    None => values.extend(known),
                }
                self.confirm(end, change.number, &values);
            }
        }
        Ok(())
    }

    /// The first of the server's values that the client has too (§6.3.1).
    fn reconcile(&self, known: &[u8], wanted: Option<u64>, theirs: &[u8]) -> Option<u64> {
        let wanted = wanted.map(|value| value as u8);
        let ours = wanted.as_ref().map_or(known, std::slice::from_ref);
        let (server, client) = if self.server {
            (ours, theirs)
        } else {
            (theirs, ours)
        };
        let shared = server.iter().find(|value| client.contains(value));
        shared.map(|&value| value.into())
    }

    fn confirm(&mut self, end: End, number: u8, values: &[u8]) {
        if self.confirms.len() + values.len() + 3 > Self::MOST_CONFIRMS {
            return;
        }
        Opt::Confirm(Feature {
            at_sender: end == End::Local,
            number,
            values,
        })
        .write(&mut self.confirms);
    }

    fn on_confirm(&mut self, confirm: Feature<'_>) -> Result<(), Reset> {
        let end = if confirm.at_sender {
            End::Remote
        } else {
            End::Local
        };
        let Some(at) = index(confirm.number) else {
            return Ok(());
        };
        let state = &mut self.states[end as usize][at];
        let Some(asked) = state.changing else {
            return Ok(());
        };
        let required = matches!(confirm.number, CCID | ALLOW_SHORT | SEQUENCE_WINDOW);
        let value = match (KNOWN[at].2, confirm.values) {
            (_, []) if required => return Err(Reset::OPTION_ERROR),
            // The other end does not know it: the initial value stays (§6.6.7).
            (_, []) => state.value,
            (Rule::ServerPriority(_), [value, ..]) => u64::from(*value),
            (Rule::NonNegotiable(..), values) => number(values),
        };
        // One value was asked for: it is agreed upon, or the old one stays.
        if value != asked && value != state.value {
            return Err(Reset::OPTION_ERROR);
        }
        state.value = value;
        state.changing = None;
        Ok(())
    }
}

fn index(number: u8) -> Option<usize> {
    KNOWN.iter().position(|known| known.0 == number)
}

fn number(bytes: &[u8]) -> u64 {
    let bytes = bytes.iter().take(8);
    bytes.fold(0, |n, &byte| n << 8 | u64::from(byte))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::option::options;
    use super::*;

    /// One packet from `a` to `b`.
    fn packet(
        a: &mut Features,
        b: &mut Features,
        seq: u64,
        ack: u64,
    ) -> Result<(), (Reset, [u8; 3])> {
        let mut bytes = Vec::new();
        a.write(Seq::new(seq), seq > 1, &mut bytes);
        a.forget_confirms();
        b.receive(Seq::new(seq), Some(Seq::new(ack)), options(&bytes))
    }

    #[test]
    fn both_ends_agree_within_a_handshake() {
        let (mut client, mut server) = (Features::new(false), Features::new(true));
        client.want(CCID, End::Local, 3);
        client.want(SEQUENCE_WINDOW, End::Local, 1000);
        client.want(SEND_LOSS_EVENT_RATE, End::Remote, 1);
        server.want(SEND_NDP_COUNT, End::Remote, 1);
        packet(&mut client, &mut server, 1, 0).unwrap();
        packet(&mut server, &mut client, 2, 1).unwrap();
        packet(&mut client, &mut server, 3, 2).unwrap();
        for (number, local, value) in [
            (CCID, End::Local, 3),
            (SEQUENCE_WINDOW, End::Local, 1000),
            (SEND_LOSS_EVENT_RATE, End::Remote, 1),
            (SEND_NDP_COUNT, End::Local, 1),
        ] {
            let remote = if local == End::Local {
                End::Remote
            } else {
                End::Local
            };
            assert_eq!(client.value(number, local), value, "{number}");
            assert_eq!(server.value(number, remote), value, "{number}");
        }
        assert!(!client.is_changing() && !server.is_changing());
    }

    #[test]
    fn the_servers_preference_decides() {
        let server = Features::new(true);
        let client = Features::new(false);
        assert_eq!(server.reconcile(&[2, 3], None, &[3, 2]), Some(2));
        assert_eq!(client.reconcile(&[2, 3], None, &[3, 2]), Some(3));
        assert_eq!(server.reconcile(&[2, 3], Some(3), &[2, 3]), Some(3));
        assert_eq!(server.reconcile(&[2, 3], Some(3), &[2]), None);
    }

    #[test]
    fn what_is_mandatory_and_not_known_resets_and_else_gets_an_empty_confirm() {
        let mut server = Features::new(true);
        let change = Opt::Change(Feature {
            at_sender: true,
            number: 99,
            values: &[1],
        });
        let mut one =
            |mandatory, seq| server.receive(Seq::new(seq), None, [(mandatory, change)].into_iter());
        assert_eq!(one(true, 1), Err((Reset::MANDATORY_ERROR, [32, 99, 1])));
        assert_eq!(one(false, 2), Ok(()));
        assert_eq!(server.confirms, [35, 3, 99]);
    }

    #[test]
    fn an_old_change_changes_nothing() {
        let mut server = Features::new(true);
        let change = |value: u8| {
            let feature = Feature {
                at_sender: true,
                number: SEND_NDP_COUNT,
                values: &[value][..],
            };
            let mut bytes = Vec::new();
            Opt::Change(feature).write(&mut bytes);
            bytes
        };
        server
            .receive(Seq::new(9), None, options(&change(1)))
            .unwrap();
        server
            .receive(Seq::new(8), None, options(&change(0)))
            .unwrap();
        assert_eq!(server.value(SEND_NDP_COUNT, End::Remote), 1);
    }

    proptest! {
        #[test]
        fn hostile_options_never_panic_and_stay_bounded(
            packets in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..60), 1..30),
            server: bool,
        ) {
            let mut features = Features::new(server);
            features.want(CCID, End::Local, 3);
            for (n, bytes) in packets.iter().enumerate() {
                let mut hostile = vec![32 + (n % 4) as u8, 5, 1 + (n % 9) as u8];
                hostile.extend(bytes);
                let _ = features.receive(Seq::new(n as u64), Some(Seq::new(0)), options(&hostile));
                prop_assert!(features.confirms.len() <= Features::MOST_CONFIRMS);
                prop_assert!([2, 3].contains(&features.value(CCID, End::Local)));
            }
        }
    }
}
