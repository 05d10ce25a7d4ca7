// SPDX-License-Identifier: MIT OR Apache-2.0
//! The distributed coordination function against closed forms, and against what a radio must do.

#![allow(clippy::unwrap_used)] // In a test a failure is a panic.

use makeway_core::packet::Handle;
use makeway_core::theory::bianchi::Dcf;
use makeway_core::units::{Duration, Instant, Rate};
use makeway_sim::wlan::{BROADCAST, Config, Counts, Event, Frame, Medium, Reach};
use proptest::prelude::*;

const MBIT11: Rate = Rate::from_bps(11_000_000);
/// 1500 B, with LLC, MAC header and check sequence.
const BYTES: u32 = 1536;

fn us(us: u64) -> Duration {
    Duration::from_micros(us)
}

/// 802.11b at 11 Mbit/s: 1310 us for 1500 B, 248 us for an ACK.
fn b() -> Config {
    Config::b(MBIT11, false)
}

/// As Bianchi's model has it: after a collision everybody goes on after a DIFS.
fn difs() -> Config {
    let config = b();
    Config {
        eifs: config.difs,
        timeout: config.sifs + config.slot,
        ..config
    }
}

/// Stations that always have a frame of [`BYTES`].
struct Saturated {
    medium: Medium,
    /// For each station whom it sends to.
    to: Vec<Option<u16>>,
    sent: u32,
    /// Events, with their times.
    log: Vec<(Instant, Event)>,
}

impl Saturated {
    fn new(config: Config, reach: Reach, to: &[Option<u16>], seed: u64) -> Self {
        Self {
            medium: Medium::new(config, reach, seed),
            to: to.to_vec(),
            sent: 0,
            log: Vec::new(),
        }
    }

    fn run(mut self, until: Duration) -> Self {
        for station in 0..self.to.len() as u16 {
            self.send(Instant::ZERO, station);
        }
        while let Some(now) = self.medium.next().filter(|at| *at < Instant::ZERO + until) {
            self.medium.advance(now);
            while let Some(event) = self.medium.poll() {
                if let Event::Ready { station } = event {
                    self.send(now, station);
                }
                self.log.push((now, event));
            }
        }
        self
    }

    fn send(&mut self, now: Instant, station: u16) {
        if let Some(to) = self.to[station as usize] {
            let frame = Frame {
                to,
                handle: Handle(self.sent),
                bytes: BYTES,
            };
            self.sent += 1;
            self.medium.send(now, station, frame);
        }
    }

    fn counts(&self) -> Vec<Counts> {
        let stations = 0..self.to.len() as u16;
        stations.map(|s| self.medium.counts(s)).collect()
    }

    fn total(&self, of: impl Fn(&Counts) -> u64) -> u64 {
        self.counts().iter().map(of).sum()
    }
}

/// `senders` and a sink, station 0: a run, and the payload that came in Mbit/s.
fn cell(config: Config, senders: usize, seconds: u64) -> (Saturated, f64) {
    let mut to = vec![Some(0); senders + 1];
    to[0] = None;
    let reach = Reach::everybody(senders + 1);
    let run = Saturated::new(config, reach, &to, 1).run(Duration::from_secs(seconds));
    let mbit = run.medium.counts(0).received as f64 * 12_000.0 / seconds as f64 / 1e6;
    (run, mbit)
}

fn theory(senders: u32, success: f64, collision: f64) -> Dcf {
    Dcf {
        stations: senders,
        window: 32,
        stages: 5,
        slot: 20.0,
        success,
        collision,
        payload: 12_000.0,
    }
}

#[track_caller]
fn near(got: f64, expected: f64, within: f64, what: &str) {
    let off = got / expected - 1.0;
    assert!(off.abs() <= within, "{what}: {got} for {expected}");
}

#[test]
fn saturation_throughput_is_bianchis() {
    // By others, in Mbit/s: DIFS after collisions, then EIFS.
    let oracle = [
        (1, difs(), 50.0, 6.236),
        (5, difs(), 50.0, 6.473),
        (10, difs(), 50.0, 6.177),
        (5, b(), 364.0, 6.382),
        (10, b(), 364.0, 6.027),
    ];
    for (n, config, ifs, mbit) in oracle {
        let (run, got) = cell(config, n, 200);
        let closed = theory(n as u32, 1310.0 + 10.0 + 248.0 + 50.0, 1310.0 + ifs);
        let tried = run.total(|c| c.data) as f64;
        let collided = run.total(|c| c.failures) as f64 / tried;
        let what = format!("n = {n}, {ifs} us after a collision");
        eprintln!(
            "{what}: {got:.3} Mbit/s, closed form {:.3}, others {mbit}; p {collided:.4}, closed form {:.4}",
            closed.throughput(),
            closed.collisions()
        );
        near(got, mbit, 0.015, &what);
        near(got, closed.throughput(), 0.015, &what);
        assert!((collided - closed.collisions()).abs() < 0.005, "{what}");
    }
}

#[test]
fn asking_first_costs_what_it_should_and_makes_collisions_cheap() {
    // As the model has it, an RTS is repeated for ever.
    let asking = |config| Config {
        rts_threshold: 500,
        short_retries: u32::MAX,
        ..config
    };
    for n in [5, 10, 80] {
        let (_, basic) = cell(difs(), n, 50);
        let (run, got) = cell(asking(difs()), n, 50);
        // RTS 272 us, CTS 248 us.
        let success = 272.0 + 10.0 + 248.0 + 10.0 + 1310.0 + 10.0 + 248.0 + 50.0;
        let closed = theory(n as u32, success, 272.0 + 50.0);
        let expected = closed.throughput();
        eprintln!("n = {n}: {got:.3}, closed form {expected:.3}, without RTS {basic:.3}");
        near(got, expected, 0.015, "RTS and CTS");
        let answered = run.medium.counts(0).answers;
        assert_eq!(run.medium.counts(0).received, answered / 2);
        // It pays where there are many stations.
        assert_eq!(got > basic, n == 80, "{got} against {basic}");
    }
}

/// Two stations with a sink between them, which hear as far as `sense` metres: 200 m to the sink.
fn pair(config: Config, sense: f64) -> (Saturated, f64) {
    let places = [[0.0, 0.0], [-200.0, 0.0], [200.0, 0.0]];
    let reach = Reach::two_ray(&places, 250.0, sense);
    let run = Saturated::new(config, reach, &[None, Some(0), Some(0)], 1);
    let run = run.run(Duration::from_secs(60));
    let mbit = run.medium.counts(0).received as f64 * 12_000.0 / 60e6;
    (run, mbit)
}

#[test]
fn a_hidden_pair_collapses_and_asking_first_repairs_it() {
    let rts = Config {
        rts_threshold: 0,
        ..b()
    };
    let (_, heard) = pair(b(), 550.0);
    let (hidden, collapsed) = pair(b(), 300.0);
    let (asked, repaired) = pair(rts, 300.0);
    eprintln!("heard {heard:.3}, hidden {collapsed:.3}, with RTS {repaired:.3} Mbit/s");
    assert!(heard > 6.0);
    // A frame of 1310 us gets through if the other does not begin within 2620 us: windows must grow
    // to hundreds of slots first.
    assert!(collapsed < 0.6 * heard);
    assert!(repaired > 1.15 * collapsed);
    // Data that is answered, of that which is sent.
    let answered =
        |run: &Saturated| run.total(|c| c.acknowledged) as f64 / run.total(|c| c.data) as f64;
    let [without, with] = [&hidden, &asked].map(answered);
    eprintln!("data answered: {without:.3}, with RTS {with:.3}");
    assert!(without < 0.7 && with > 0.98);
}

#[test]
fn the_louder_of_two_gets_through() {
    // 50 and 240 m from the sink: powers differ by more than ten times. Numbers do not matter.
    for (loud, soft) in [(1, 2), (2, 1)] {
        let mut places = [[0.0, 0.0]; 3];
        places[loud][0] = 50.0;
        places[soft][0] = -240.0;
        let both = |capture| {
            let reach = Reach::two_ray(&places, 250.0, 550.0);
            let config = Config { capture, ..b() };
            let run = Saturated::new(config, reach, &[None, Some(0), Some(0)], 1);
            let counts = run.run(Duration::from_secs(60)).counts();
            (counts[loud], counts[soft])
        };
        let (near, far) = both(None);
        let share = near.acknowledged as f64 / far.acknowledged as f64;
        assert!((share - 1.0).abs() < 0.02, "{share}");
        let (loud, soft) = both(Some(10.0));
        assert_eq!(loud.failures, 0);
        assert!(soft.failures > 100);
        assert!(loud.acknowledged > near.acknowledged);
    }
    // Nobody is louder where all are equal.
    let (run, _) = cell(
        Config {
            capture: Some(10.0),
            ..b()
        },
        5,
        10,
    );
    assert!(run.total(|c| c.failures) > 100);
}

#[test]
fn a_frame_that_nobody_answers_is_given_up_after_its_tries() {
    let seconds = 300;
    for (threshold, tries) in [(u64::MAX, 7), (0, 4)] {
        let config = Config {
            loss: u64::MAX,
            rts_threshold: threshold,
            ..b()
        };
        let (run, mbit) = cell(config, 1, seconds);
        let counts = run.medium.counts(1);
        assert_eq!((mbit, counts.acknowledged), (0.0, 0));
        assert_eq!(counts.given_up + 1, counts.taken);
        assert!(counts.data.div_ceil(tries) - counts.given_up <= 1);
        let given_up = run.log.iter().filter_map(|(_, event)| match event {
            Event::GivenUp { frame, .. } => Some(frame.handle.0),
            _ => None,
        });
        assert!(given_up.eq(0..counts.given_up as u32));
        // Windows of 32, 64, ... slots, each with the frame and the wait for its answer; the DIFS ends
        // before that wait does.
        let windows = (0..tries as u32).map(|n| (32u32 << n.min(5)) - 1);
        let slots: u64 = windows.map(u64::from).sum();
        let exchange = match threshold {
            0 => 272 + 10 + 248 + 10,
            _ => 0,
        };
        let each = slots as f64 * 10.0 + (tries * (exchange + 1310 + 222)) as f64;
        let expected = seconds as f64 * 1e6 / each;
        near(counts.given_up as f64, expected, 0.015, "dropped");
    }
}

#[test]
fn lost_frames_are_sent_again_and_cost_what_they_should() {
    // Alone on the channel. Try i has a window of 32 * 2^i slots, 1024 at most, and comes with p^i: an answer costs SIFS,
    // ACK and DIFS, none the wait for it. A frame is dropped with p^7.
    let seconds = 400;
    for p in [0.05, 0.2, 0.5] {
        let config = Config {
            loss: (p * 2f64.powi(64)) as u64,
            ..b()
        };
        let (run, mbit) = cell(config, 1, seconds);
        let tries = (0..7).map(|i| {
            let slots = f64::from((32u32 << i.min(5)) - 1) / 2.0;
            let end = (1.0 - p) * (10.0 + 248.0 + 50.0) + p * 222.0;
            p.powi(i) * (20.0 * slots + 1310.0 + end)
        });
        let (frame, given_up): (f64, f64) = (tries.sum(), p.powi(7));
        let what = format!("p = {p}");
        near(mbit, (1.0 - given_up) * 12_000.0 / frame, 0.01, &what);
        let counts = run.medium.counts(1);
        let share = counts.given_up as f64 / counts.taken as f64;
        // Three standard errors.
        let error = 3.0 * (given_up / counts.taken as f64).sqrt();
        assert!((share - given_up).abs() <= error, "{what}: {share}");
    }
}

#[test]
fn an_exchange_has_the_spaces_of_the_standard() {
    let mut medium = Medium::new(b(), Reach::everybody(3), 1);
    let frame = |n| Frame {
        to: 0,
        handle: Handle(n),
        bytes: BYTES,
    };
    // Idle for long: at once. Busy: after the ACK, a DIFS and whole slots.
    let start = Instant::ZERO + us(1000);
    medium.send(start, 1, frame(0));
    let mut arrivals = Vec::new();
    while let Some(now) = medium.next() {
        medium.advance(now);
        if now == start {
            medium.send(start, 2, frame(1));
        }
        while let Some(event) = medium.poll() {
            if let Event::Received { .. } = event {
                arrivals.push(now);
            }
        }
    }
    assert_eq!(arrivals[0], start + us(1310));
    let ack = arrivals[0] + us(10 + 248);
    let backoff = arrivals[1].saturating_since(ack + us(50 + 1310)).as_nanos();
    assert_eq!(backoff % 20_000, 0);
    assert!(backoff <= 31 * 20_000);
}

#[test]
fn data_whose_acknowledgement_is_lost_comes_once() {
    // Stations 1 and 3 are hidden from one another. Their common transmissions are noise at 2, which without an EIFS
    // goes on while 1 waits for its answer.
    let places = [[0.0, 0.0], [240.0, 0.0], [480.0, 0.0], [720.0, 0.0]];
    let reach = Reach::two_ray(&places, 250.0, 250.0);
    let to = [None, Some(0), Some(3), Some(2)];
    // Dropped after a second try, some frames have arrived all the same.
    let config = Config {
        short_retries: 2,
        ..difs()
    };
    let run = Saturated::new(config, reach, &to, 1).run(Duration::from_secs(60));
    let sink = run.medium.counts(0);
    assert!(sink.duplicates > 100, "{sink:?}");
    assert!(run.medium.counts(1).given_up_delivered > 10);
    conserved(&run).unwrap();
}

/// Every frame that was taken is acknowledged, dropped or in hand; every one came once, was dropped,
/// or is in hand.
fn conserved(run: &Saturated) -> Result<(), TestCaseError> {
    let mut ends = vec![0; run.sent as usize];
    for (_, event) in &run.log {
        if let Event::Received { frame, .. } | Event::GivenUp { frame, .. } = event {
            ends[frame.handle.0 as usize] += 1;
        }
    }
    prop_assert!(ends.iter().all(|n| *n <= 1));
    let stations = 0..run.to.len() as u16;
    let in_hand = stations.filter(|s| !run.medium.is_ready(*s)).count() as u64;
    let total = |of: fn(&Counts) -> u64| run.total(of);
    prop_assert_eq!(total(|c| c.taken), u64::from(run.sent));
    prop_assert_eq!(
        total(|c| c.taken),
        total(|c| c.acknowledged + c.given_up) + in_hand
    );
    let lost = ends.iter().filter(|n| **n == 0).count() as u64;
    prop_assert!(lost <= in_hand);
    let over = total(|c| c.received) - total(|c| c.acknowledged + c.given_up_delivered);
    prop_assert!(over + lost == in_hand);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_frame_is_lost_that_no_counter_shows(
        places in prop::collection::vec((0.0..800.0f64, 0.0..800.0f64), 2..8),
        targets in prop::collection::vec(0u16..8, 8),
        (capture, asks, loss) in (any::<bool>(), any::<bool>(), 0u64..u64::MAX / 3),
        (ofdm, seed) in (any::<bool>(), any::<u64>()),
    ) {
        let places: Vec<[f64; 2]> = places.into_iter().map(|(x, y)| [x, y]).collect();
        let n = places.len() as u16;
        let to: Vec<_> = (0..n).zip(targets).map(|(me, to)| Some(to % n).filter(|to| *to != me)).collect();
        let standard = if ofdm { Config::a(Rate::from_bps(54_000_000)) } else { b() };
        let config = Config {
            capture: capture.then_some(10.0),
            rts_threshold: if asks { 0 } else { u64::MAX },
            loss,
            ..standard
        };
        let reach = Reach::two_ray(&places, 250.0, 550.0);
        let run = || Saturated::new(config, reach.clone(), &to, seed).run(Duration::from_secs(1));
        let (one, two) = (run(), run());
        conserved(&one)?;
        prop_assert_eq!(one.log, two.log);
    }
}

/// Runs `medium` until `end` and gives what it told.
fn log(medium: &mut Medium, end: Instant) -> Vec<(Instant, Event)> {
    let mut log = Vec::new();
    while let Some(now) = medium.next().filter(|at| *at < end) {
        medium.advance(now);
        log.extend(std::iter::from_fn(|| medium.poll()).map(|event| (now, event)));
    }
    log
}

fn to_everybody(handle: u32) -> Frame {
    Frame {
        to: BROADCAST,
        handle: Handle(handle),
        bytes: 100,
    }
}

#[test]
fn everybody_who_understands_a_broadcast_has_it_once_and_nobody_answers() {
    let places = [[0.0, 0.0], [200.0, 0.0], [-200.0, 0.0], [400.0, 0.0]];
    let config = Config {
        rts_threshold: 0,
        ..b()
    };
    let mut medium = Medium::new(config, Reach::two_ray(&places, 250.0, 550.0), 1);
    let start = Instant::ZERO + us(1000);
    medium.send(start, 0, to_everybody(7));
    let log = log(&mut medium, start + us(10_000));
    // 800 bits at 2 Mbit/s, the basic rate.
    let end = start + us(192 + 400);
    let received = |station| Event::Received {
        station,
        from: 0,
        frame: to_everybody(7),
    };
    let ready = Event::Ready { station: 0 };
    assert_eq!(log, [received(1), received(2), ready].map(|e| (end, e)));
    let counts = [0, 1, 2, 3].map(|station| medium.counts(station));
    assert_eq!(
        (counts[0].data, counts[0].broadcast, counts[0].rts),
        (1, 1, 0)
    );
    assert_eq!(counts.map(|c| c.answers + c.failures), [0; 4]);
}

#[test]
fn broadcasts_that_collide_are_lost_and_not_repeated() {
    let places = [[0.0, 0.0], [200.0, 0.0], [-200.0, 0.0]];
    let mut medium = Medium::new(b(), Reach::two_ray(&places, 250.0, 300.0), 1);
    let start = Instant::ZERO + us(1000);
    medium.send(start, 1, to_everybody(1));
    medium.send(start, 2, to_everybody(2));
    let log = log(&mut medium, start + us(100_000));
    let ready = log
        .iter()
        .filter(|(_, event)| matches!(event, Event::Ready { .. }));
    assert_eq!((ready.count(), log.len()), (2, 2), "{log:?}");
    assert_eq!(medium.counts(0).garbled, 1);
}

#[test]
fn who_is_off_hears_nothing_and_what_it_sends_is_cut() {
    let frame = |to, n| Frame {
        to,
        handle: Handle(n),
        bytes: BYTES,
    };
    let mut medium = Medium::new(b(), Reach::everybody(3), 1);
    let start = Instant::ZERO + us(1000);
    // In the middle of its frame of 1310 us.
    medium.send(start, 1, frame(0, 0));
    medium.switch_off(1, start + us(600));
    let off = Event::Off {
        station: 1,
        frame: Some(frame(0, 0)),
    };
    let until = start + us(20_000);
    assert_eq!(log(&mut medium, until), [(start + us(600), off)]);
    assert!(medium.is_off(1));
    assert_eq!((medium.counts(0).garbled, medium.counts(2).garbled), (1, 1));
    // Nobody answers for it.
    medium.send(until, 0, frame(1, 1));
    let log = log(&mut medium, until + us(1_000_000));
    assert_eq!(
        log.iter().map(|(_, event)| *event).collect::<Vec<_>>(),
        [
            Event::GivenUp {
                station: 0,
                frame: frame(1, 1)
            },
            Event::Ready { station: 0 }
        ]
    );
    assert_eq!((medium.counts(0).data, medium.counts(1).received), (7, 0));
}

#[test]
fn a_radios_times_are_all_the_time_there_is() {
    let (run, _) = cell(b(), 2, 5);
    let now = Instant::ZERO + Duration::from_secs(5);
    let times = [0, 1, 2].map(|station| run.medium.airtime(station, now));
    let counts = run.counts();
    for (times, counts) in times.iter().zip(&counts) {
        let sum = times.send + times.receive + times.idle;
        assert_eq!(sum, Duration::from_secs(5), "{times:?}");
        // But for what is on the air at the end.
        let sent = us(1310) * counts.data + us(248) * counts.answers;
        let missing = sent.as_nanos().abs_diff(times.send.as_nanos());
        assert!(missing <= 1_310_000, "{times:?} {sent}");
    }
    // The sink hears the others' frames, two at once where they collide.
    let heard = (counts[1].data + counts[2].data) as f64 * 1310e-6;
    let collisions = counts[0].garbled as f64 * 1310e-6;
    near(
        times[0].receive.as_secs_f64(),
        heard - collisions,
        1e-3,
        "heard",
    );
}
