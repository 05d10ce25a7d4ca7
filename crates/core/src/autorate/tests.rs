// SPDX-License-Identifier: MIT OR Apache-2.0

use proptest::prelude::*;

use super::*;

const MBIT: u64 = 1_000_000;
const STEP: Duration = Duration::from_millis(10);
/// Delay of a probe without a queue, each way.
const PLAIN: Duration = Duration::from_millis(15);

fn bounds(first: u64, least: u64, most: u64) -> Bounds {
    let [first, least, most] = [first, least, most].map(|mbit| Rate::from_bps(mbit * MBIT));
    Bounds { first, least, most }
}

/// A link of a fluid: sources that fill our shaper at once, and a queue where more comes than the link takes.
#[derive(Clone)]
struct Fluid {
    now: Instant,
    autorate: Autorate,
    /// Rates of the link, up and down.
    line: [u64; 2],
    /// Bits before the link.
    queue: [u64; 2],
    busy: [bool; 2],
    /// Percent above our rate that senders send, and our queue drops.
    dropped: u64,
    /// Added to every probe in each direction.
    longer: [Duration; 2],
    probes: bool,
    /// Probes and the time of their return.
    flights: Vec<(Instant, u16, [Duration; 2])>,
    worst: Duration,
    step: u64,
}

impl Fluid {
    fn new(line: u64) -> Self {
        let bounds = bounds(line * 7 / 10, 1, line * 2);
        Self {
            now: Instant::ZERO,
            autorate: Autorate::new(Instant::ZERO, bounds, bounds),
            line: [line * MBIT; 2],
            queue: [0; 2],
            busy: [false; 2],
            dropped: 0,
            longer: [Duration::ZERO; 2],
            probes: true,
            flights: Vec::new(),
            worst: Duration::ZERO,
            step: 0,
        }
    }

    fn rate(&self, direction: Direction) -> f64 {
        let rates = self.autorate.rates();
        let rate = match direction {
            Direction::Up => rates.up,
            Direction::Down => rates.down,
        };
        rate.as_mbit_f64()
    }

    fn wait(&self, n: usize) -> Duration {
        Bytes::new(self.queue[n] / 8) / Rate::from_bps(self.line[n])
    }

    fn run(&mut self, seconds: u64) {
        self.worst = Duration::ZERO;
        self.run_steps(seconds * 100);
    }

    fn run_steps(&mut self, steps: u64) {
        for _ in 0..steps {
            let step = self.step;
            self.step += 1;
            self.now += STEP;
            for (n, direction) in Direction::BOTH.into_iter().enumerate() {
                let rates = self.autorate.rates();
                let rate = [rates.up, rates.down][n].bps();
                let bits = if self.busy[n] { rate / 100 } else { 0 };
                // Upwards our queue is before the link.
                let bits = bits + bits * self.dropped * n as u64 / 100;
                let queued = self.queue[n] + bits;
                let carried = queued.min(self.line[n] / 100);
                self.queue[n] = queued - carried;
                let seen = if n == 0 { bits } else { carried };
                self.autorate.on_bytes(direction, Bytes::new(seen / 8));
                let backlog = if self.busy[n] { 30_000 } else { 0 };
                self.autorate
                    .on_backlog(self.now, direction, Bytes::new(backlog));
                self.worst = self.worst.max(self.wait(n));
            }
            if self.probes && step.is_multiple_of(5) {
                let delays = [0, 1].map(|n| PLAIN + self.longer[n] + self.wait(n));
                let back = self.now + delays[0] + delays[1];
                self.flights.push((back, (step / 5 % 6) as u16, delays));
            }
            let now = self.now;
            let back: Vec<_> = self.flights.extract_if(.., |f| f.0 <= now).collect();
            for (_, path, delays) in back {
                for (n, direction) in Direction::BOTH.into_iter().enumerate() {
                    let way = Way::One(direction);
                    self.autorate.on_delay(now, path, way, delays[n]);
                }
            }
            if step.is_multiple_of(5) {
                self.autorate.tick(now);
            }
        }
    }

    /// Time in `seconds` during which a packet waits for more than 30 ms.
    fn slow(&mut self, direction: Direction, seconds: u64) -> Duration {
        let is_slow = |_: &u64| {
            self.run_steps(1);
            self.wait(direction as usize) > Duration::from_millis(30)
        };
        STEP * (0..seconds * 100).filter(is_slow).count() as u64
    }

    /// Idle, then load in both directions until it is steady.
    fn settled(line: u64) -> Self {
        let mut fluid = Self::new(line);
        fluid.run(5);
        fluid.busy = [true; 2];
        fluid.run(20);
        fluid
    }
}

#[test]
fn the_rate_finds_the_lines_and_stays_near_it() {
    let mut fluid = Fluid::settled(20);
    fluid.run(20);
    for direction in Direction::BOTH {
        let rate = fluid.rate(direction);
        assert!((18.0..22.0).contains(&rate), "{direction:?} {rate}");
    }
    let worst = fluid.worst;
    assert!(worst < Duration::from_millis(30), "{worst}");
}

#[test]
fn a_line_that_slows_down_in_one_direction_costs_the_other_nothing() {
    let mut fluid = Fluid::settled(20);
    fluid.line[0] = 8 * MBIT;
    fluid.run(3);
    let (up, down) = (fluid.rate(Direction::Up), fluid.rate(Direction::Down));
    assert!((6.5..8.8).contains(&up), "{up}");
    assert!((18.0..22.0).contains(&down), "{down}");
    fluid.run(5);
    assert!(fluid.worst < Duration::from_millis(30), "{}", fluid.worst);
}

#[test]
fn a_cut_deepens_while_the_queue_before_it_grows() {
    let mut fluid = Fluid::settled(20);
    fluid.line[0] = 14 * MBIT;
    let slow = fluid.slow(Direction::Up, 4);
    assert!(slow < Duration::from_millis(400), "{slow}");
}

/// Mean rate of an upload of whole packets through a slow link, as a share of the link's: 1 Mbit/s, and 0.6 after 20 s of load.
fn share_of_a_slow_line() -> f64 {
    let [first, least, most] = [700, 100, 2000].map(|kbit| Rate::from_bps(kbit * 1000));
    let bounds = Bounds { first, least, most };
    let mut autorate = Autorate::new(Instant::ZERO, bounds, bounds);
    let packet = Bytes::new(1514);
    let [fast, slow] = [Rate::from_bps(MBIT), Rate::from_bps(MBIT * 6 / 10)];
    let (mut line, mut free, mut bits) = (fast, Instant::ZERO, 0);
    let mut flights: Vec<(Instant, u16, Duration)> = Vec::new();
    let (mut sum, mut count) = (0.0, 0u32);
    for step in 0..4500u64 {
        let now = Instant::ZERO + STEP * (step + 1);
        if step == 2500 {
            line = slow;
            free = now + free.saturating_since(now) * 10 / 6;
        }
        if step >= 500 {
            bits += autorate.rates().up.bps() / 100;
            while bits >= packet.get() * 8 {
                bits -= packet.get() * 8;
                free = free.max(now) + packet / line;
                autorate.on_bytes(Direction::Up, packet);
            }
            autorate.on_backlog(now, Direction::Up, Bytes::new(30_000));
        }
        let wait = free.saturating_since(now);
        if step.is_multiple_of(5) {
            flights.push((now + PLAIN * 2 + wait, (step / 5 % 6) as u16, PLAIN + wait));
        }
        for (_, path, delay) in flights.extract_if(.., |flight| flight.0 <= now) {
            autorate.on_delay(now, path, Way::One(Direction::Up), delay);
        }
        if step.is_multiple_of(5) {
            autorate.tick(now);
        }
        if step >= 1000 {
            sum += (autorate.rates().up.bps() as f64 / line.bps() as f64).min(1.0);
            count += 1;
        }
    }
    sum / f64::from(count)
}

#[test]
fn a_cut_makes_no_packet_longer() {
    let share = share_of_a_slow_line();
    assert!(share > 0.94, "{share}");
}

#[test]
fn a_packet_more_before_a_slow_line_is_no_slower_line() {
    let share = share_of_a_slow_line();
    assert!(share > 0.9, "{share}");
}

#[test]
fn a_short_queue_is_drained_within_a_quarter_of_a_second() {
    let mut fluid = Fluid::settled(20);
    fluid.line[1] = 14 * MBIT;
    let slow = fluid.slow(Direction::Down, 4);
    assert!(slow < Duration::from_millis(260), "{slow}");
}

#[test]
fn a_cut_is_made_for_the_queue_that_is_there_by_then() {
    let mut fluid = Fluid::settled(20);
    fluid.line[1] = 8 * MBIT;
    while fluid.autorate.state(Direction::Down) != State::Drain {
        fluid.run_steps(1);
    }
    // The samples tell of 15 ms: a tenth less than the link has. By now 120 ms wait.
    let rate = fluid.rate(Direction::Down);
    assert!(rate < 4.5, "{rate}");
}

#[test]
fn a_cut_is_not_ended_by_a_sample_from_before_it() {
    let mut autorate = Autorate::new(Instant::ZERO, bounds(10, 1, 20), bounds(10, 1, 20));
    let (down, way) = (Direction::Down, Way::One(Direction::Down));
    let mut now = Instant::ZERO;
    for n in 0..196u16 {
        now += TICK;
        if n >= 160 {
            // A link of 2 Mbit/s.
            autorate.on_bytes(down, Bytes::new(12_500));
            autorate.on_backlog(now, down, Bytes::new(30_000));
        }
        // Two samples tell of a queue, the one before them of none, and no more come.
        let queue = Duration::from_millis(if n >= 189 { 13 } else { 0 });
        if n <= 190 {
            autorate.on_delay(now, n % 6, way, PLAIN + queue);
        }
        autorate.tick(now);
        let is_cut = autorate.state(down) == State::Drain;
        assert_eq!(is_cut, n >= 190, "{n}");
    }
}

#[test]
fn a_line_that_is_faster_again_is_found() {
    let mut fluid = Fluid::settled(20);
    fluid.line = [10 * MBIT; 2];
    fluid.run(10);
    fluid.line = [20 * MBIT; 2];
    fluid.run(8);
    for direction in Direction::BOTH {
        assert!(fluid.rate(direction) > 18.0, "{}", fluid.rate(direction));
    }
}

#[test]
fn a_longer_path_is_no_bloat() {
    let mut fluid = Fluid::settled(20);
    fluid.longer = [Duration::from_millis(60), Duration::ZERO];
    fluid.run(4);
    let rate = fluid.rate(Direction::Up);
    assert!(rate > 18.0, "{rate}");
    fluid.run(10);
    assert!(fluid.worst < Duration::from_millis(30), "{}", fluid.worst);
    // A link that slows down on the longer path is noticed as before.
    fluid.line[0] = 10 * MBIT;
    fluid.run(4);
    let rate = fluid.rate(Direction::Up);
    assert!((8.0..11.0).contains(&rate), "{rate}");
}

#[test]
fn without_samples_and_without_load_the_rate_stays() {
    let mut fluid = Fluid::settled(20);
    fluid.probes = false;
    fluid.run(2);
    let rates = fluid.autorate.rates();
    fluid.line = [10 * MBIT; 2];
    fluid.run(30);
    assert_eq!(fluid.autorate.rates(), rates);
    assert_eq!(fluid.autorate.state(Direction::Up), State::Hold);

    let mut idle = Fluid::settled(20);
    idle.busy = [false; 2];
    idle.run(2);
    let rates = idle.autorate.rates();
    idle.run(60);
    assert_eq!(idle.autorate.rates(), rates);
}

#[test]
fn packets_that_our_queue_drops_make_no_longer_path_bloat() {
    let mut fluid = Fluid::settled(20);
    fluid.dropped = 8;
    fluid.run(20);
    fluid.longer = [Duration::ZERO, Duration::from_millis(30)];
    fluid.run(2);
    let rate = fluid.rate(Direction::Down);
    assert!(rate > 16.0, "{rate}");
}

#[test]
fn no_queue_grows_while_there_are_no_samples() {
    let mut settled = Fluid::settled(8);
    for _ in 0..20 {
        settled.run_steps(30);
        let mut fluid = settled.clone();
        fluid.probes = false;
        fluid.run(30);
        let waits = [0, 1].map(|n| fluid.wait(n));
        assert_eq!(waits, [Duration::ZERO; 2]);
    }
}

#[test]
fn a_rate_that_was_given_stays_without_samples() {
    let mut fluid = Fluid::new(20);
    fluid.probes = false;
    fluid.busy = [true; 2];
    fluid.run(5);
    let rates = fluid.autorate.rates();
    assert_eq!(rates.up, Rate::from_bps(14 * MBIT));
    let given = Rate::from_bps(17 * MBIT);
    fluid.autorate.set_rate(Direction::Down, given);
    fluid.run(5);
    let down = given;
    assert_eq!(fluid.autorate.rates(), Rates { down, ..rates });
}

#[test]
fn delay_without_load_of_ours_is_somebody_elses() {
    let mut fluid = Fluid::settled(20);
    fluid.busy = [false; 2];
    fluid.run(5);
    let rates = fluid.autorate.rates();
    fluid.longer = [Duration::from_millis(80); 2];
    fluid.run(10);
    assert_eq!(fluid.autorate.rates(), rates);
}

#[test]
fn one_path_of_several_has_one_say() {
    let mut autorate = Autorate::new(Instant::ZERO, bounds(10, 1, 20), bounds(10, 1, 20));
    let mut now = Instant::ZERO;
    for n in 0..400u64 {
        now += Duration::from_millis(50);
        let longer = if n > 200 && n % 6 == 2 { 100 } else { 0 };
        let delay = PLAIN + Duration::from_millis(longer);
        autorate.on_delay(now, (n % 6) as u16, Way::Both, delay);
        autorate.on_backlog(now, Direction::Up, Bytes::new(30_000));
        autorate.tick(now);
        assert_ne!(autorate.state(Direction::Up), State::Drain, "{n}");
    }
}

#[test]
fn a_new_route_begins_with_new_baselines() {
    let mut fluid = Fluid::settled(20);
    fluid.autorate.on_route_change(None);
    fluid.longer = [Duration::from_millis(60); 2];
    fluid.flights.clear();
    let mut drained = false;
    for _ in 0..3 {
        fluid.run(1);
        drained |= fluid.autorate.rates().up < Rate::from_bps(15 * MBIT);
    }
    assert!(!drained);
}

/// Anything that a caller may pass.
#[derive(Clone, Debug)]
enum Call {
    Delay(u16, u8, u64),
    Bytes(bool, u64),
    Backlog(bool, u64),
    Route(Option<u16>),
    Tick,
}

fn calls() -> impl Strategy<Value = Vec<(u64, Call)>> {
    let edge = prop_oneof![0u64..200_000_000, Just(u64::MAX), Just(0)];
    let call = prop_oneof![
        4 => (0u16..40, 0u8..3, edge.clone()).prop_map(|(p, w, d)| Call::Delay(p, w, d)),
        2 => (any::<bool>(), edge.clone()).prop_map(|(up, b)| Call::Bytes(up, b)),
        2 => (any::<bool>(), edge).prop_map(|(up, b)| Call::Backlog(up, b)),
        1 => proptest::option::of(0u16..40).prop_map(Call::Route),
        4 => Just(Call::Tick),
    ];
    // Time stands still, goes on, or leaps.
    let step = prop_oneof![8 => 0u64..60_000_000, 1 => Just(3_600_000_000_000)];
    proptest::collection::vec((step, call), 1..400)
}

proptest! {
    #[test]
    fn rates_keep_their_bounds_whatever_is_passed(
        calls in calls(), first in 0u64..100, least in 0u64..100, most in 0u64..100,
    ) {
        let bounds = bounds(first, least, most);
        let mut autorate = Autorate::new(Instant::ZERO, bounds, bounds);
        let mut now = Instant::ZERO;
        let side = |up: bool| if up { Direction::Up } else { Direction::Down };
        for (step, call) in calls {
            now += Duration::from_nanos(step);
            match call {
                Call::Delay(path, way, delay) => {
                    let way = [Way::One(Direction::Up), Way::One(Direction::Down), Way::Both][usize::from(way)];
                    autorate.on_delay(now, path, way, Duration::from_nanos(delay));
                }
                Call::Bytes(up, bytes) => autorate.on_bytes(side(up), Bytes::new(bytes)),
                Call::Backlog(up, bytes) => autorate.on_backlog(now, side(up), Bytes::new(bytes)),
                Call::Route(path) => autorate.on_route_change(path),
                Call::Tick => {
                    let rates = autorate.tick(now);
                    for rate in [rates.up, rates.down] {
                        prop_assert!(rate <= bounds.most.max(Rate::from_bps(1)));
                        prop_assert!(rate >= bounds.least.min(bounds.most));
                        prop_assert!(rate > Rate::default());
                    }
                }
            }
        }
    }

    #[test]
    fn idle_noise_alone_moves_no_rate(delays in proptest::collection::vec(0u64..20_000_000, 50..300)) {
        let mut autorate = Autorate::new(Instant::ZERO, bounds(10, 1, 20), bounds(10, 1, 20));
        let mut now = Instant::ZERO;
        let rates = autorate.rates();
        for (n, delay) in delays.into_iter().enumerate() {
            now += TICK;
            autorate.on_delay(now, n as u16 % 6, Way::Both, PLAIN + Duration::from_nanos(delay));
            prop_assert_eq!(autorate.tick(now), rates);
        }
    }
}

/// Least rate in Mbit/s downwards under load while three paths tell of 60 ms that are not there, and six others do not.
fn least_under_lies(voice: Option<u64>) -> f64 {
    let bounds = bounds(10, 1, 20);
    let mut autorate = Autorate::new(Instant::ZERO, bounds, bounds);
    let (down, way) = (Direction::Down, Way::One(Direction::Down));
    let mut least = f64::INFINITY;
    for step in 0..2000 {
        let now = Instant::ZERO + STEP * (step + 1);
        let bytes = autorate.rates().down.bps() / 100 / 8;
        autorate.on_bytes(down, Bytes::new(bytes));
        autorate.on_backlog(now, down, Bytes::new(30_000));
        if step.is_multiple_of(5) {
            autorate.on_delay(now, (step / 5 % 6) as u16, way, PLAIN);
        }
        let lies = Duration::from_millis(60 * u64::from(step > 1000));
        for path in 10..13 {
            if let Some(voice) = voice {
                autorate.set_voice(path, voice);
            }
            autorate.on_delay(now, path, way, PLAIN + lies);
        }
        if step.is_multiple_of(5) {
            autorate.tick(now);
        }
        if step > 1000 {
            least = least.min(autorate.rates().down.as_mbit_f64());
        }
    }
    least
}

#[test]
fn paths_of_one_voice_have_one_say() {
    // The load of a link that has no bound here: the rate has risen to the most.
    let least = least_under_lies(Some(7));
    assert!(least > 19.0, "{least}");
    // Three voices have the majority.
    let least = least_under_lies(None);
    assert!(least < 15.0, "{least}");
}

/// The search ends by a true queue of some ms each few seconds; a voice whose clock is 10 s ahead, and which is nearly always the newest,
/// made each of those cuts the deepest.
#[test]
fn one_voice_does_not_tell_how_deep_a_cut_is() {
    let mut fluid = Fluid::settled(20);
    let way = Way::One(Direction::Up);
    fluid.autorate.set_voice(10, 7);
    fluid.autorate.on_delay(fluid.now, 10, way, PLAIN);
    let (mut cuts, mut sum) = (0, 0.0);
    for _ in 0..2000 {
        let was = fluid.autorate.state(Direction::Up);
        let false_delay = PLAIN + Duration::from_secs(10);
        fluid.autorate.on_delay(fluid.now, 10, way, false_delay);
        fluid.run_steps(1);
        let is = fluid.autorate.state(Direction::Up);
        cuts += u32::from(is == State::Drain && was != State::Drain);
        sum += fluid.rate(Direction::Up).min(20.0);
    }
    assert!(cuts >= 3, "{cuts}");
    assert!(sum / 2000.0 > 17.0, "{}", sum / 2000.0);
}

#[test]
fn a_voice_that_is_alone_of_late_is_heard() {
    let mut fluid = Fluid::new(20);
    (0..6).for_each(|path| fluid.autorate.set_voice(path, 1));
    // One that has spoken once, long ago.
    let way = Way::One(Direction::Down);
    fluid.autorate.on_delay(fluid.now, 9, way, PLAIN);
    fluid.run(5);
    fluid.busy = [true; 2];
    fluid.run(20);
    fluid.line[1] = 8 * MBIT;
    fluid.run(5);
    let down = fluid.rate(Direction::Down);
    assert!((6.5..8.8).contains(&down), "{down}");
}
