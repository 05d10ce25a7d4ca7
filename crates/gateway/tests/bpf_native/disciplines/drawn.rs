// SPDX-License-Identifier: MIT OR Apache-2.0
//! Links, parameters and operations that are drawn at random.

use super::*;

pub(super) fn link(discipline: Discipline) -> impl Strategy<Value = Link> {
    // Tight in packets, tight in bytes, or neither; backlogs beyond the window of the order, too.
    let limits = prop_oneof![
        (1u32..60, Just(1u64 << 24)),
        (Just(2000), 1000u64..60_000),
        (Just(2000), 300_000u64..3_000_000),
    ];
    let drop_from = prop_oneof![Just(DropFrom::Head), Just(DropFrom::Tail)];
    let rate = prop_oneof![Just(None), (100_000u64..2_000_000_000).prop_map(Some)];
    let weights = prop_oneof![
        Just([0; HOSTS]),
        any::<[u16; HOSTS]>().prop_map(|all| all.map(u32::from)),
        any::<[u8; HOSTS]>().prop_map(|all| all.map(|one| u32::from(one % 4)))
    ];
    let sharing = (drop_from, 64u64..4000, weights);
    let params = (ncq(), tred());
    (limits, sharing, params, rate, (framing(), any::<u64>())).prop_map(
        move |((packets, bytes), (drop_from, quantum, weights), params, rate, (framing, seed))| {
            let (ncq, tred) = params;
            let bytes = Bytes::new(bytes);
            let limits = Limits {
                packets,
                bytes,
                flows: FLOWS,
            };
            let quantum = Bytes::new(quantum);
            let spec = match discipline {
                Discipline::Fq => Spec::Fq(FqParams { quantum, drop_from }),
                Discipline::Hier => Spec::Hier(HierParams { quantum, drop_from }),
                Discipline::Makeway => Spec::Makeway(MakewayParams { quantum }),
                Discipline::Sqf => Spec::Sqf(SqfParams {
                    drop_from,
                    ..SqfParams::default()
                }),
                Discipline::Ncq => Spec::Ncq(ncq),
                Discipline::Tred => Spec::Tred(tred),
                other => other.spec(),
            };
            let given = weights.iter().zip(0..).filter(|&(&weight, _)| weight > 0);
            let env = Env {
                users: USERS,
                weights: given
                    .map(|(&weight, user)| (UserId(user), weight))
                    .collect(),
                rate: rate.map(Rate::from_bps),
                framing,
                seed,
                ..Env::new(limits)
            };
            Link {
                spec,
                env,
                rate: rate.map(Rate::from_bps),
                framing,
                weights,
                flows_by: FIVE_TUPLE,
            }
        },
    )
}

/// The variants that the C has.
fn ncq() -> impl Strategy<Value = NcqParams> {
    let window = prop_oneof![Just(None), (1u32..300).prop_map(Some)];
    let numbers = (40u64..1000, 1u64..=100, window);
    (numbers, any::<[bool; 4]>()).prop_map(|((length, percent, window), variants)| {
        let [probabilistic, control, keep_order, push_out] = variants;
        NcqParams {
            length: Bytes::new(length),
            threshold: Fraction::ratio(percent, 100),
            window,
            probabilistic,
            control,
            keep_order,
            push_out,
            ..NcqParams::default()
        }
    })
}

/// The variants that the C has.
fn tred() -> impl Strategy<Value = TredParams> {
    let red = (1u32..20, 1u32..30, 1u64..=1000, 1u64..=100);
    let own = (101u32..1000, 1u32..=64, 1u64..2000, 1u64..2000);
    (red, own, any::<[bool; 3]>()).prop_map(|(red, own, variants)| {
        let (min, range, weight, percent) = red;
        let (k, exponent, interval, window) = own;
        let [gentle, wait, by_bytes] = variants;
        TredParams {
            red: RedParams {
                min,
                max: min + range,
                weight: Fraction::ratio(weight, 1000),
                max_p: Fraction::ratio(percent, 100),
                gentle,
                wait,
                by_bytes,
                ..RedParams::default()
            },
            k,
            exponent,
            interval: Duration::from_millis(interval),
            window: Duration::from_millis(window),
            spaced: false,
        }
    })
}

pub(super) const FIVE_TUPLE: u32 = layout::identity(Identity::FiveTuple);
pub(super) const SRC_HOST: u32 = layout::identity(Identity::SrcHost);

pub(super) const FLOWS: u32 = 1000;

/// More than there are packets in a run.
pub(super) const USERS: u32 = 2048;

#[derive(Clone, Debug)]
pub(super) enum Do {
    Enqueue {
        flow: u32,
        len: u32,
        kind: u8,
        spoilt: Option<(usize, u8)>,
    },
    EnqueueGso {
        flow: u32,
        headers: u32,
        size: u32,
        segs: u32,
        last: u32,
    },
    Dequeue,
    SetRate(u64),
}

pub(super) fn operations() -> impl Strategy<Value = Vec<(u64, Do)>> {
    // Few flows with much and many with little.
    let flow = || prop_oneof![0..3u32, 0..FLOWS];
    let len = prop_oneof![40..1500u32, Just(1500u32), 40..130u32];
    let spoilt = prop_oneof![8 => Just(None), 2 => (0usize..60, any::<u8>()).prop_map(Some)];
    let packet = (flow(), len, 0..5u8, spoilt);
    let gso = (flow(), 28..100u32, 1..1448u32, 2..44u32, 0..1448u32);
    let one = prop_oneof![
        12 => packet.prop_map(|(flow, len, kind, spoilt)| Do::Enqueue { flow, len, kind, spoilt }),
        3 => gso.prop_map(|(flow, headers, size, segs, last)| {
            Do::EnqueueGso { flow, headers, size, segs, last: 1 + last % size }
        }),
        12 => Just(Do::Dequeue),
        1 => prop_oneof![9 => 1000u64..2_000_000_000, 1 => Just(0)].prop_map(Do::SetRate),
    ];
    let later = prop_oneof![4 => 0u64..10_000, 4 => 0u64..2_000_000, 1 => 0u64..200_000_000];
    vec((later, one), 1..1500)
}

/// The first bytes of an IP packet of `len` to a host: TCP or UDP on IPv4 or IPv6, some of them acknowledgements.
pub(super) fn headers(kind: u8, len: u32, spoilt: Option<(usize, u8)>, host: u8) -> [u8; 64] {
    const TCP: u8 = 6;
    const DESTINATION_OPTIONS: u8 = 60;
    let mut bytes = [0; 64];
    let [high, low] = (len as u16).to_be_bytes();
    let tcp = match kind {
        0..=2 => {
            bytes[..10].copy_from_slice(&[0x45, 0, high, low, 0, 0, 0, 0, 64, TCP]);
            20
        }
        3 => {
            let [high, low] = (len as u16 - 40).to_be_bytes();
            bytes[..7].copy_from_slice(&[0x60, 0, 0, 0, high, low, DESTINATION_OPTIONS]);
            bytes[40] = TCP;
            48
        }
        _ => {
            bytes[..10].copy_from_slice(&[0x45, 0, high, low, 0, 0, 0, 0, 64, 17]);
            20
        }
    };
    match tcp {
        20 => bytes[16..20].copy_from_slice(&[10, 0, 0, host]),
        _ => bytes[39] = host,
    }
    // Tag of the packets of a host: none, three of different value, and one that no code of 8 bits has.
    let [high, low] = [0u16, 20, 28, 200, 300][usize::from(host) % 5].to_be_bytes();
    match kind {
        3 => bytes[2..4].copy_from_slice(&[high, low]),
        // A packet that may be fragmented has no room for one.
        _ => bytes[4..7].copy_from_slice(&[high, low, 0x40]),
    }
    // Options as long as the packet is, if they can be: an acknowledgement.
    let offset = len.saturating_sub(tcp as u32) / 4;
    if kind != 1 && tcp + 12 < bytes.len() {
        bytes[tcp + 12] = (offset.min(15) as u8) << 4;
    }
    if let Some((at, byte)) = spoilt {
        bytes[at] = byte;
    }
    bytes
}

/// `later` is nanoseconds after the operation before. Flows have distinct hashes.
pub(super) fn ops(operations: &[(u64, Do)]) -> Vec<Op> {
    let mut now = 1_000_000_000;
    let hash = |flow: u32| (flow + 1).wrapping_mul(0x9e37_79b9);
    let host = |flow: u32| (flow % 5) as u8;
    let each = operations.iter().enumerate().map(|(n, (later, what))| {
        now += later;
        let op = Op {
            now,
            packet: n as u32,
            ..Op::zeroed()
        };
        match *what {
            Do::Enqueue {
                flow,
                len,
                kind,
                spoilt,
            } => Op {
                what: ENQUEUE,
                hash: hash(flow),
                flow,
                len,
                bytes: headers(kind, len, spoilt, host(flow)),
                ..op
            },
            Do::EnqueueGso {
                flow,
                headers,
                size,
                segs,
                last,
            } => Op {
                what: ENQUEUE,
                hash: hash(flow),
                flow,
                len: headers + size * (segs - 1) + last,
                bytes: self::headers(4, headers + size * (segs - 1) + last, None, host(flow)),
                headers,
                gso_size: size,
                gso_segs: segs,
                ..op
            },
            Do::Dequeue => Op {
                what: DEQUEUE,
                ..op
            },
            Do::SetRate(rate) => Op {
                what: SET_RATE,
                rate,
                ..op
            },
        }
    });
    each.collect()
}
