// SPDX-License-Identifier: MIT OR Apache-2.0
use makeway_core::sched::{Discipline, Limits};
use makeway_core::ticket::Scale;
use makeway_core::units::Rate;
use proptest::prelude::*;

use super::super::DatapathConfig;
use super::super::message::Verdict;
use super::super::nfqueue::Verdicts;
use super::super::pipeline::Pipeline;
use super::*;

const ANY: Rule = Rule {
    from: None,
    port: None,
    share: Share::Nothing,
};

fn issued(n: u32) -> TicketRate {
    TicketRate::new(n).unwrap()
}

fn pipeline(tags: TagConfig, rate: Option<Rate>) -> Pipeline {
    let limits = Limits {
        packets: 100,
        bytes: Bytes::new(10_000_000),
        flows: 64,
    };
    let config = DatapathConfig {
        tags,
        ..DatapathConfig::new(1, Discipline::Fifo.spec(), limits, rate)
    };
    Pipeline::new(Instant::ZERO, &config).unwrap()
}

/// A whole TCP segment over atomic IPv4 with 960 bytes of data: 1000 on the wire.
fn segment(host: u8, port: u16, sequence: u32, tag: Tag) -> Vec<u8> {
    let mut bytes = vec![0; 1000];
    bytes[0] = 0x45;
    bytes[2..4].copy_from_slice(&1000u16.to_be_bytes());
    bytes[6] = 0x40;
    bytes[8..10].copy_from_slice(&[64, 6]);
    bytes[12..16].copy_from_slice(&[10, 0, 0, host]);
    bytes[16..20].copy_from_slice(&[10, 0, 1, 1]);
    bytes[20..22].copy_from_slice(&port.to_be_bytes());
    bytes[24..28].copy_from_slice(&sequence.to_be_bytes());
    bytes[32] = 5 << 4;
    bytes[40..].fill(host);
    set_tag(&mut bytes, tag);
    bytes
}

fn queued(id: u32, bytes: &[u8]) -> Queued<'_> {
    Queued {
        id,
        ethertype: 0x0800,
        len: bytes.len() as u32,
        mark: 0,
        translated: None,
        headers: bytes,
    }
}

/// Lets one packet through at `ms`; the tag that it leaves with, and whether it was rewritten.
fn through(pipeline: &mut Pipeline, ms: u64, bytes: &[u8]) -> (Option<Tag>, bool) {
    let mut verdicts = Verdicts::new(1, 4);
    let now = Instant::ZERO + Duration::from_millis(ms);
    pipeline.arrive(now, &queued(7, bytes), &mut verdicts);
    let all: Vec<_> = verdicts.iter().collect();
    let &[(7, Verdict::Accept, payload)] = &all[..] else {
        panic!("{all:?}");
    };
    if let Some(payload) = payload {
        // Nothing but the tag and its checksum.
        assert_eq!(payload.len(), bytes.len());
        assert_eq!(
            (&payload[..4], &payload[6..10]),
            (&bytes[..4], &bytes[6..10])
        );
        assert_eq!(payload[12..], bytes[12..]);
    }
    (tag(payload.unwrap_or(bytes)), payload.is_some())
}

/// Tickets per second of what a source sends at `per_second` segments, of which each `again`-th is sent twice, in the
/// last of ten windows.
fn spent(config: TagConfig, per_second: u64, again: u64) -> f64 {
    let codec = config.codec;
    let mut pipeline = pipeline(config, None);
    let (mut tickets, mut sent) = (0.0, 0);
    for n in 0..per_second * 100 {
        let ms = n * 1000 / per_second;
        let times = if n % again == 0 { 2 } else { 1 };
        for _ in 0..times {
            let bytes = segment(1, 4000, n as u32 * 960, Tag(999));
            let (tag, _) = through(&mut pipeline, ms, &bytes);
            if ms >= 90_000 {
                tickets += codec.decode(tag.unwrap()).as_f64();
                sent += 1;
            }
        }
    }
    assert!(sent > 0);
    tickets / 10.0
}

fn tagging(share: Share) -> TagConfig {
    TagConfig {
        codec: Codec::new(16, Scale::Linear).unwrap(),
        window: Duration::from_secs(10),
        rules: vec![Rule { share, ..ANY }],
        ..TagConfig::default()
    }
}

#[test]
fn a_source_spends_what_it_is_issued() {
    for share in [
        Share::Together(issued(500)),
        Share::Each(issued(500), Identity::FiveTuple),
    ] {
        // 100 segments a second, none twice: five tickets each.
        let spent = spent(tagging(share), 100, u64::MAX);
        assert!((spent / 500.0 - 1.0).abs() < 0.01, "{spent}");
    }
}

#[test]
fn what_is_sent_again_does_not_count_as_through() {
    // A source that counts acknowledged packets puts 500 / 100 tickets on 125 packets a second.
    let tags = tagging(Share::Together(issued(500)));
    let again = spent(tags.clone(), 100, 4);
    assert!((again / 625.0 - 1.0).abs() < 0.01, "{again}");
    // Policed: Out / Avg × Out / Actual settles where its square is 500 × 625.
    let policed = spent(
        TagConfig {
            policing: true,
            ..tags
        },
        100,
        4,
    );
    assert!((policed / 559.0 - 1.0).abs() < 0.01, "{policed}");
}

#[test]
fn a_source_that_repeats_itself_gains_a_half_at_most_where_it_is_policed() {
    let policed = |share| TagConfig {
        policing: true,
        ..tagging(share)
    };
    let share = Share::Together(issued(500));
    // Each segment twice: 1000 of the 500 that it was issued, and 707 policed.
    let [free, held] = [tagging(share), policed(share)].map(|tags| spent(tags, 100, 1));
    assert!((free / 1000.0 - 1.0).abs() < 0.01, "{free}");
    assert!((held / 707.0 - 1.0).abs() < 0.01, "{held}");

    // Nothing but the first one, again and again: once what it may repeat is used up, no gain.
    let mut pipeline = pipeline(tagging(share), None);
    let codec = tagging(share).codec;
    let mut tickets = 0.0;
    for n in 0..10_000 {
        let bytes = segment(1, 4000, 0, Tag(u16::MAX));
        let (tag, _) = through(&mut pipeline, n * 10, &bytes);
        if n >= 9000 {
            tickets += codec.decode(tag.unwrap()).as_f64() / 10.0;
        }
    }
    assert!((tickets / 500.0 - 1.0).abs() < 0.01, "{tickets}");
}

#[test]
fn the_first_rule_that_fits_counts() {
    let rule = |from: Option<[u8; 4]>, port, share| Rule {
        from: from.map(IpAddr::from),
        port,
        share,
    };
    let tags = TagConfig {
        rules: vec![
            rule(Some([10, 0, 0, 1]), Some(80), Share::Keep),
            rule(Some([10, 0, 0, 1]), None, Share::Nothing),
            rule(None, Some(80), Share::Together(issued(1_000_000))),
        ],
        ..TagConfig::default()
    };
    let mut pipeline = pipeline(tags, None);
    let mut of = |host, port| through(&mut pipeline, 0, &segment(host, port, 0, Tag(9)));
    assert_eq!(of(1, 80), (Some(Tag(9)), false));
    assert_eq!(of(1, 81), (Some(Tag(0)), true));
    assert_eq!(of(2, 80), (Some(Tag(255)), true));
    assert_eq!(of(2, 81), (Some(Tag(9)), false));
}

#[test]
fn each_source_has_its_own_tickets_and_together_they_share() {
    let tags = |share| {
        let config = tagging(share);
        let codec = config.codec;
        let mut pipeline = pipeline(config, None);
        let mut tickets = [0.0; 2];
        for n in 0..100_000 {
            // The second host sends three times as much, by three connections.
            let host = 1 + u8::from(n % 4 > 0);
            let bytes = segment(host, 4000 + n as u16 % 4, n / 4 * 960, Tag(0));
            let (tag, _) = through(&mut pipeline, u64::from(n), &bytes);
            if n >= 90_000 {
                tickets[usize::from(host) - 1] += codec.decode(tag.unwrap()).as_f64() / 10.0;
            }
        }
        tickets
    };
    let close = |[a, b]: [f64; 2], [c, d]: [f64; 2]| {
        assert!(
            (a / c - 1.0).abs() < 0.02 && (b / d - 1.0).abs() < 0.02,
            "{a} {b}"
        );
    };
    close(
        tags(Share::Each(issued(400), Identity::SrcHost)),
        [400.0, 400.0],
    );
    close(
        tags(Share::Each(issued(400), Identity::FiveTuple)),
        [400.0, 1200.0],
    );
    close(tags(Share::Together(issued(400))), [100.0, 300.0]);
}

#[test]
fn a_link_trades_tickets_for_those_of_the_next_hop() {
    let tags = TagConfig {
        codec: Codec::new(8, Scale::Linear).unwrap(),
        window: Duration::from_secs(10),
        leaving: Leaving::Relabel(issued(900)),
        ..TagConfig::default()
    };
    let codec = tags.codec;
    let mut pipeline = pipeline(tags, None);
    // Section 2.5: 1000 and 500 tickets/s that came become 600 and 300.
    let mut left = [0.0; 2];
    for n in 0..10_000u64 {
        let host = (n % 2) as usize;
        let bytes = segment(host as u8, 1, n as u32, Tag([20, 10][host]));
        let (tag, _) = through(&mut pipeline, n * 10, &bytes);
        if n >= 9000 {
            left[host] += codec.decode(tag.unwrap()).as_f64() / 10.0;
        }
    }
    assert_eq!(left.map(|n: f64| (n / 10.0).round()), [60.0, 30.0]);
}

#[test]
fn tags_are_taken_off_at_the_end_of_the_domain_but_count_in_it() {
    let tags = TagConfig {
        leaving: Leaving::Strip,
        ..TagConfig::default()
    };
    let mut pipeline = pipeline(tags, None);
    let mut of = |bytes: &[u8]| through(&mut pipeline, 0, bytes);
    assert_eq!(of(&segment(1, 1, 0, Tag(7))), (Some(Tag(0)), true));
    // A packet without a tag is not copied back.
    assert_eq!(of(&segment(1, 1, 0, Tag(0))), (Some(Tag(0)), false));
    // A tag above the largest code is somebody else's, and goes too.
    assert_eq!(of(&segment(1, 1, 0, Tag(256))), (Some(Tag(0)), true));
    let mut fragment = segment(1, 1, 0, Tag(7));
    fragment[6] = 0x20;
    assert_eq!(of(&fragment), (None, false));
    let stats = pipeline.stats(Instant::ZERO).tags;
    let expected = TagStats {
        with_tickets: 1,
        foreign: 1,
        unable: 1,
        written: 2,
    };
    assert_eq!(stats, expected);
}

#[test]
fn what_a_discipline_makes_of_tags_is_written() {
    // csfq at the edge writes the rate that it estimated.
    let limits = Limits {
        packets: 100,
        bytes: Bytes::new(1_000_000),
        flows: 64,
    };
    let rate = Some(Rate::from_bps(8_000_000));
    let config = |discipline: Discipline, leaving| DatapathConfig {
        tags: TagConfig {
            codec: Codec::new(16, Scale::Linear).unwrap(),
            leaving,
            ..TagConfig::default()
        },
        ..DatapathConfig::new(1, discipline.spec(), limits, rate)
    };
    let of = |discipline, leaving| {
        let mut pipeline = Pipeline::new(Instant::ZERO, &config(discipline, leaving)).unwrap();
        let sent =
            (0..50).map(|n| through(&mut pipeline, 10 * n, &segment(1, 1, n as u32, Tag(0))));
        sent.last().unwrap()
    };
    let (label, written) = of(Discipline::Csfq, Leaving::AsScheduled);
    assert!(written && label > Some(Tag(0)), "{label:?}");
    assert_eq!(of(Discipline::Csfq, Leaving::Keep), (Some(Tag(0)), false));
    assert_eq!(
        of(Discipline::Fifo, Leaving::AsScheduled),
        (Some(Tag(0)), false)
    );
}

#[test]
fn room_for_packets_is_used_again() {
    let config = TagConfig {
        leaving: Leaving::Strip,
        ..TagConfig::default()
    };
    let mut tags = Tags::new(&config, 64, 1);
    let bytes = segment(1, 1, 0, Tag(7));
    for id in 0..1000 {
        let len = Bytes::new(1000);
        let (handle, _) = tags.arrive(Instant::ZERO, &queued(id, &bytes), len, false);
        let of = match id % 2 {
            0 => tags.release(handle.0).0,
            _ => tags.forget(handle.0),
        };
        assert_eq!(of, id);
    }
    assert_eq!(tags.held.len(), 1);
}

#[test]
fn a_packet_that_was_not_copied_whole_goes_on_as_it_is() {
    let tags = TagConfig {
        leaving: Leaving::Strip,
        ..TagConfig::default()
    };
    let mut pipeline = pipeline(tags, None);
    let bytes = segment(1, 1, 0, Tag(7));
    let mut verdicts = Verdicts::new(1, 4);
    let cut = Queued {
        len: 70_000,
        ..queued(1, &bytes)
    };
    pipeline.arrive(Instant::ZERO, &cut, &mut verdicts);
    assert_eq!(
        verdicts.iter().collect::<Vec<_>>(),
        [(1, Verdict::Accept, None)]
    );
    assert_eq!(pipeline.stats(Instant::ZERO).tags.unable, 1);
}

proptest! {
    /// For any backlog and any drops: each packet has its verdict once, with its own bytes.
    #[test]
    fn each_packet_leaves_as_itself(
        steps in proptest::collection::vec((0u64..3000, 0u8..4, 0u16..300), 1..300),
    ) {
        let tags = TagConfig {
            rules: vec![Rule { share: Share::Each(issued(100), Identity::SrcHost), ..ANY }],
            leaving: Leaving::Relabel(issued(50)),
            ..TagConfig::default()
        };
        let mut pipeline = pipeline(tags, Some(Rate::from_bps(4_000_000)));
        let mut verdicts = Verdicts::new(1, 4096);
        let mut now = Instant::ZERO;
        let packets: Vec<_> = (0..).zip(&steps).map(|(n, &(_, host, tag))| {
            segment(host, 1, n, Tag(tag))
        }).collect();
        for (id, (us, ..)) in (0..).zip(&steps) {
            now += Duration::from_micros(*us);
            pipeline.arrive(now, &queued(id, &packets[id as usize]), &mut verdicts);
        }
        pipeline.drain(now, &mut verdicts);
        let mut ids: Vec<_> = verdicts.iter().map(|(id, ..)| id).collect();
        for (id, _, payload) in verdicts.iter() {
            let Some(payload) = payload else { continue };
            let mut expected = packets[id as usize].clone();
            set_tag(&mut expected, tag(payload).unwrap());
            prop_assert_eq!(payload, &expected[..]);
        }
        ids.sort_unstable();
        prop_assert_eq!(ids, (0..steps.len() as u32).collect::<Vec<_>>());
    }
}
