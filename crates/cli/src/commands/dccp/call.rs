// SPDX-License-Identifier: MIT OR Apache-2.0
//! One call: sender, link and the kernel's socket.

use std::net::Ipv4Addr;
use std::thread;

use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use makeway_core::rate;
use makeway_core::send::Datagram;
use makeway_core::units::{Duration, Instant, Rate};
use makeway_scenario::departures::{Unit, Units};
use makeway_scenario::model::{Media, Scenario, Source};
use makeway_transport::dccp::connection::Config;
use makeway_transport::dccp::driver::{Clock, drive};
use makeway_transport::dccp::kernel::Dccp;
use makeway_transport::dccp::link::{Link, Queue};
use makeway_transport::dccp::tun::Tun;
use makeway_transport::dccp::{Ccid, Connection, Ends, Event};

use super::reno::Downloads;
use super::{Count, DELAY, ip};

const SERVICE: u32 = u32::from_be_bytes(*b"call");
const PORT: u16 = 5004;

/// Header of a datagram: its number among the units, which identifies creation time and class.
const NUMBER: usize = size_of::<u64>();

/// Packets that the link has room for: as guest.toml has it, ...
const ALONE: usize = 10;
/// ... and kernel.toml, where downloads share it.
const SHARED: usize = 20;

/// Sends the scenario's call for a time over a link of `link_rate` to the kernel, beside `tcp` downloads. Returns audio, then video, and the
/// largest delay of a datagram on its way to the sender.
pub fn call(
    scenario: &Scenario,
    link_rate: Rate,
    place: u8,
    seconds: u64,
    tcp: u32,
) -> anyhow::Result<([Count; 2], Duration)> {
    let [Source::Media(media)] = scenario.flows.iter().map(|f| &f.source).collect::<Vec<_>>()[..]
    else {
        bail!("the scenario has a flow that is not of kind `media`");
    };
    let (ours, kernel) = (
        Ipv4Addr::new(10, 77, place, 2),
        Ipv4Addr::new(10, 77, place, 1),
    );
    let clock = Clock::new();
    let tun = interface(&format!("line{place}"), ours, kernel)?;
    let outward = tun.outward();
    let queue = Queue::new(link_rate, if tcp > 0 { SHARED } else { ALONE });
    let mut line = Link::new(tun, clock, DELAY);
    line.there.queue = Some(queue.clone());

    let listener = Dccp::new(SERVICE, 3).context("the kernel has no DCCP")?;
    listener.listen(kernel, PORT)?;
    let receiver = thread::spawn(move || receive(&listener, &clock));

    let rate::Config::Tfrc(params) = media.rate else {
        bail!("CCID 3 is TFRC");
    };
    let ccid = Ccid::Three(params);
    let mut config = Config::new(SERVICE, ccid);
    config.their_ccid = Some(3);
    config.sender = media.queue;
    let ends = Ends {
        local: 40_000 + u16::from(place),
        remote: PORT,
        outward,
    };
    let iss = u64::from(place) << 32;
    let mut connection = Connection::client(config, media.policy, ends, iss, clock.now());

    let patience = clock.now() + Duration::from_secs(10);
    loop {
        drive(&mut connection, &mut line, &clock, patience)?;
        match connection.poll_event() {
            Some(Event::Established) => break,
            Some(Event::Ended(code)) => bail!("the kernel refused with Reset Code {}", code.0),
            _ => ensure!(clock.now() < patience, "the kernel does not answer"),
        }
    }

    let downloads = match tcp {
        0 => None,
        count => Some(Downloads::begin(place, count, clock, queue)?),
    };
    let begin = clock.now();
    let end = seconds * 1_000_000_000;
    let made: Vec<Unit> = Units::new(media, scenario.seed, 0)
        .take_while(|unit| unit.at < end)
        .collect();
    let mut until = |connection: &mut Connection<_>, at: Instant| -> anyhow::Result<()> {
        while clock.now() < at {
            drive(connection, &mut line, &clock, at)?;
            while let Some(event) = connection.poll_event() {
                if let Event::Ended(code) = event {
                    ensure!(code.0 == 1, "the kernel ended with Reset Code {}", code.0);
                }
            }
        }
        Ok(())
    };
    let mut latest = Duration::ZERO;
    for (number, unit) in made.iter().enumerate() {
        let at = begin + Duration::from_nanos(unit.at);
        until(&mut connection, at)?;
        latest = latest.max(clock.now().saturating_since(at));
        let datagram = Datagram {
            class: unit.class,
            len: unit.bytes,
            deadline: at + media.deadline,
            frame: None,
        };
        let mut payload = vec![0; (unit.bytes as usize).max(NUMBER)];
        payload[..NUMBER].copy_from_slice(&number.to_be_bytes());
        connection.enqueue(clock.now(), datagram, Bytes::from(payload))?;
    }
    until(&mut connection, clock.now() + Duration::from_secs(2))?;
    downloads.map_or(Ok(()), Downloads::end)?;
    connection.close(clock.now());
    until(&mut connection, clock.now() + Duration::from_secs(1))?;
    let arrivals = receiver.join().ok().context("the receiver panicked")??;
    Ok((counts(media, scenario, &made, begin, &arrivals), latest))
}

fn interface(name: &str, ours: Ipv4Addr, kernel: Ipv4Addr) -> anyhow::Result<Tun> {
    let tun = Tun::open(name, ours, kernel).context("cannot make a TUN interface")?;
    let address = format!("addr add {kernel}/24 dev {name}");
    ip(&address)?;
    ip(&format!("link set {name} up"))?;
    Ok(tun)
}

/// Numbers and arrival times of the units until the connection ends.
fn receive(listener: &Dccp, clock: &Clock) -> anyhow::Result<Vec<(u64, Instant)>> {
    let socket = listener.accept()?;
    let mut arrivals = Vec::new();
    let mut datagram = [0; 2048];
    loop {
        let length = socket.receive(&mut datagram)?;
        let now = clock.now();
        let Some((number, _)) = datagram[..length].split_first_chunk() else {
            return Ok(arrivals);
        };
        arrivals.push((u64::from_be_bytes(*number), now));
    }
}

fn counts(
    media: &Media,
    scenario: &Scenario,
    made: &[Unit],
    begin: Instant,
    arrivals: &[(u64, Instant)],
) -> [Count; 2] {
    let mut counts = [Count::default(); 2];
    let measured = |unit: &&Unit| unit.at >= scenario.warmup.as_nanos();
    for unit in made.iter().filter(measured) {
        counts[usize::from(unit.class.min(1))].made += 1;
    }
    for (number, came) in arrivals {
        let unit = usize::try_from(*number).ok().and_then(|n| made.get(n));
        if let Some(unit) = unit.filter(measured) {
            let count = &mut counts[usize::from(unit.class.min(1))];
            let deadline = begin + Duration::from_nanos(unit.at) + media.deadline;
            count.received += 1;
            count.on_time += u64::from(*came <= deadline);
        }
    }
    counts
}
