// SPDX-License-Identifier: MIT OR Apache-2.0

use super::*;

fn at_us(us: u64) -> Instant {
    Instant::from_nanos(1_000_000_000_000 + us * 1000)
}

fn connection(port: u16) -> Connection {
    Connection {
        remote: ("192.0.2.9".parse().unwrap(), 443),
        local: ("10.0.0.1".parse().unwrap(), port),
    }
}

/// A link whose ways take these µs, and a peer that answers at once with a clock of `hertz`.
fn run(tcp: &mut Tcp, hertz: u64, seconds: u64, ways: impl Fn(u64) -> [u64; 2]) -> Vec<Sample> {
    let mut told = Vec::new();
    let steps = seconds * 1_000_000 / 16_000;
    let mut under_way = VecDeque::new();
    for n in 0..steps {
        let us = n * 16_000;
        let [up, down] = ways(us);
        tcp.departed(at_us(us), connection(1), us as u32 / 1000);
        let there = us + up;
        let clock = (there * hertz / 1_000_000) as u32;
        // A clock near its end.
        under_way.push_back((
            there + down,
            clock.wrapping_add(u32::MAX - 500),
            us as u32 / 1000,
        ));
        while under_way.front().is_some_and(|one| one.0 <= us) {
            let (back, clock, echo) = under_way.pop_front().unwrap();
            tcp.arrived(at_us(back), connection(1), clock, echo, false);
        }
        tcp.tick(at_us(us), |one| told.push(one), |_| {});
    }
    told
}

fn rise(told: &[Sample], n: usize) -> f64 {
    let all: Vec<f64> = told
        .iter()
        .filter_map(|one| one.one_way[n])
        .map(Duration::as_millis_f64)
        .collect();
    all[all.len() - 1] - all[0]
}

#[test]
fn each_direction_shows_its_own_delay() {
    let mut tcp = Tcp::new(4);
    // From the third second on the way up is longer by 40 ms.
    let told = run(&mut tcp, 1000, 5, |us| {
        [10_000 + 40_000 * u64::from(us > 3_000_000), 12_000]
    });
    assert!((39.0..=41.0).contains(&rise(&told, 0)), "{told:?}");
    assert!(rise(&told, 1).abs() <= 1.0, "{told:?}");
    let both = |n: usize| told[n].both.unwrap().as_millis_f64();
    // The first is of the time before the clock was known.
    assert!((both(1) - 22.0).abs() < 0.1 && (both(told.len() - 1) - 62.0).abs() < 0.1);
    // A sample in each window, once the clock is known.
    assert!((30..=41).contains(&told.len()), "{}", told.len());
    let mut tcp = Tcp::new(4);
    let told = run(&mut tcp, 1_000_000, 5, |us| {
        [10_000, 12_000 + 40_000 * u64::from(us > 3_000_000)]
    });
    assert!(rise(&told, 0).abs() < 0.1, "{told:?}");
    assert!((39.9..40.1).contains(&rise(&told, 1)), "{told:?}");
}

#[test]
fn a_queue_that_fills_while_the_clock_is_learnt_is_none_of_the_baseline() {
    let mut tcp = Tcp::new(4);
    let told = run(&mut tcp, 1000, 4, |us| {
        [10_000, 12_000 + us.min(1_500_000) / 10]
    });
    // 100 ms of the first second are told as a sample of their own, before the others.
    let all: Vec<f64> = told
        .iter()
        .filter_map(|one| one.one_way[1])
        .map(Duration::as_millis_f64)
        .collect();
    let least = all.iter().copied().fold(f64::INFINITY, f64::min);
    assert_eq!(all[0], least, "{all:?}");
    assert!(rise(&told, 1) > 140.0, "{all:?}");
}

#[test]
fn a_coarse_clock_tells_of_both_directions_together() {
    let mut tcp = Tcp::new(4);
    let told = run(&mut tcp, 100, 3, |_| [10_000, 12_000]);
    assert!(told.len() > 10);
    for one in told {
        assert_eq!(one.one_way, [None; 2]);
        let both = one.both.unwrap().as_millis_f64();
        assert!((21.9..22.1).contains(&both), "{both}");
    }
}

#[test]
fn an_answer_after_a_pause_tells_nothing_of_the_way_up_and_a_silent_one_gives_its_place_up() {
    let mut tcp = Tcp::new(1);
    run(&mut tcp, 1000, 3, |_| [10_000, 12_000]);
    tcp.tick(at_us(3_200_000), |_| {}, |_| {});
    let mut told = Vec::new();
    let us = 4_000_000;
    tcp.departed(at_us(us), connection(1), 4000);
    // The peer thinks for two seconds.
    let clock = 6_010u32.wrapping_add(u32::MAX - 500);
    tcp.arrived(at_us(us + 2_022_000), connection(1), clock, 4000, false);
    tcp.tick(at_us(us + 2_200_000), |one| told.push(one), |_| {});
    let [one] = &told[..] else { panic!("{told:?}") };
    assert!(one.one_way[0].is_none() && one.one_way[1].is_some());
    // No room for another, until the first is silent.
    tcp.departed(at_us(us + 2_290_000), connection(2), 1);
    tcp.arrived(at_us(us + 2_300_000), connection(2), 1, 1, false);
    assert!(tcp.peers[0].as_ref().unwrap().connection == connection(1));
    let mut left = Vec::new();
    tcp.tick(at_us(us + 8_000_000), |_| {}, |place| left.push(place));
    assert_eq!((left, tcp.count()), (vec![0], 0));
    assert!(tcp.waiting.is_empty() && tcp.order.is_empty());
}

#[test]
fn segments_that_answer_nothing_get_no_place_and_no_say() {
    // A host apart sends as if there were 30 connections; one there is, and it does not know its clock.
    let mut tcp = Tcp::new(32);
    let mut told = Vec::new();
    for ms in 0..5000 {
        let us = u64::from(ms) * 1000;
        tcp.departed(at_us(us), connection(7), ms + 1_000_000);
        for port in 0..30 {
            // A clock of milliseconds that falls behind by 60 ms.
            let held = 60 * u32::from(ms > 3000);
            let value = ms.wrapping_sub(held);
            tcp.arrived(at_us(us), connection(port), value, 0, port % 2 == 0);
        }
        tcp.tick(at_us(us), |one| told.push(one), |_| {});
    }
    assert_eq!((tcp.count(), tcp.samples(), told.len()), (0, 0, 0));
}

#[test]
fn a_clock_of_another_connection_or_of_long_ago_is_no_answer() {
    let mut tcp = Tcp::new(4);
    let local = |address: &str| Connection {
        local: (address.parse().unwrap(), 1),
        ..connection(1)
    };
    tcp.departed(at_us(0), local("10.0.0.1"), 16);
    tcp.arrived(at_us(20_000), local("10.0.0.2"), 1, 16, false);
    tcp.arrived(at_us(20_000), connection(2), 1, 16, false);
    tcp.arrived(at_us(5_001_000), local("10.0.0.1"), 1, 16, false);
    assert_eq!(tcp.count(), 0);
    tcp.arrived(at_us(20_000), local("10.0.0.1"), 1, 16, false);
    assert_eq!(tcp.count(), 1);
}

#[test]
fn one_connection_pushes_no_other_out() {
    let mut tcp = Tcp::new(4);
    tcp.departed(at_us(0), connection(1), 16);
    // A clock of microseconds, whose peer answers nothing.
    for n in 1..10_000 {
        tcp.departed(at_us(n * 200), connection(2), n as u32 * 16);
    }
    assert!(tcp.waiting[&connection(2)].all.len() <= MOST_SENT);
    tcp.arrived(at_us(2_000_000), connection(1), 1, 16, false);
    assert_eq!(tcp.count(), 1);
    // Nor do many that come once one has a place.
    tcp.departed(at_us(2_000_000), connection(1), 32);
    for port in 1000..3000 {
        tcp.departed(at_us(2_000_001), connection(port), 16);
    }
    assert!(tcp.waiting.len() <= MOST_WAITING && tcp.order.len() <= MOST_WAITING);
    tcp.arrived(at_us(2_050_000), connection(1), 51, 32, false);
    let peer = tcp.peers[0].as_ref().unwrap();
    assert_eq!(peer.answered, at_us(2_050_000));
}

#[test]
fn a_round_trip_of_seconds_has_departures_too() {
    let mut sent = Sent::default();
    for n in 0..300 {
        sent.push(at_us(n * 16_000), n as u32 * 16);
    }
    assert!(sent.all.len() <= MOST_SENT, "{}", sent.all.len());
    let now = at_us(300 * 16_000);
    let mut is_there = |n: u32| sent.echoed(now, n * 16).is_some();
    // All of the last half second, and one of each 300 ms of the last two.
    assert!((268..300).all(&mut is_there));
    for from in (175..300).step_by(20) {
        assert!((from..from + 20).any(&mut is_there), "{from}");
    }
}

#[test]
fn a_network_has_one_voice_and_a_quarter_of_the_places() {
    let mut tcp = Tcp::new(32);
    let from = |address: &str| Connection {
        remote: (address.parse().unwrap(), 443),
        ..connection(1)
    };
    let own = (1..=30).map(|n| format!("192.0.2.{n}"));
    let others = [
        "192.0.3.1",
        "2001:db8::1",
        "2001:db8:0:ff::1",
        "2001:db8:0:100::1",
    ];
    let all: Vec<String> = own.chain(others.map(String::from)).collect();
    let mut told = Vec::new();
    for n in 0..100 {
        let us = n * 16_000;
        for address in &all {
            tcp.departed(at_us(us), from(address), n as u32);
            tcp.arrived(
                at_us(us + 9_000),
                from(address),
                us as u32 / 1000,
                n as u32,
                false,
            );
        }
        tcp.tick(at_us(us + 10_000), |one| told.push(one), |_| {});
    }
    assert_eq!(tcp.count(), 8 + 4);
    let voice = |n: u16| {
        told.iter()
            .find(|one| one.path == n)
            .unwrap()
            .voice
            .unwrap()
    };
    let mut voices: Vec<u64> = (0..12).map(voice).collect();
    assert!(
        voices[..8].iter().all(|one| *one == voices[0]),
        "{voices:?}"
    );
    // The second and the third are of one /56.
    assert_eq!(voices[9], voices[10]);
    voices.dedup();
    assert_eq!(voices.len(), 4, "{voices:?}");
    let translated = network("64:ff9b::192.0.2.77".parse().unwrap());
    assert_eq!(translated, voices[0]);
}
