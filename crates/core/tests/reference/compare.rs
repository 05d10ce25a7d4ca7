// SPDX-License-Identifier: MIT OR Apache-2.0
//! Operations on a sender's queue and on its reference, whose events must be the same.

use makeway_core::send::{AnyPolicy, Config, Datagram, Event, Frame, FrameId, Sender};
use makeway_core::units::{Bytes, Duration, Instant, Rate};

use super::{Model, Op, Script};

/// In an order that does not depend on which was dropped first.
fn sorted(mut events: Vec<Event>) -> Vec<Event> {
    events.sort_by_key(|event| match event {
        Event::Outcome(id, ..) => (0, id.0),
        Event::Frame(id, _) => (1, id.0),
        _ => (2, 0),
    });
    events
}

/// Does the same to a sender and to the model. Everything that happens is equal, and every datagram has one outcome in the end.
pub fn check(config: Config, policy: AnyPolicy, ops: &[Op]) {
    let script = Script::default();
    let mut sender = Sender::new(config, script.clone(), policy);
    let mut model = Model::new(config, policy);
    let mut now = Instant::ZERO + Duration::from_secs(1);
    let (mut ended, mut frames) = (Vec::new(), Vec::new());
    assert_eq!(sender.poll_event(), Some(Event::Target(Rate::default())));
    // In the end the whole backlog leaves.
    let far = [Op::Advance(Duration::from_millis(50))];
    let end = std::iter::repeat_n(Op::Transmit, config.packets as usize);
    for op in ops.iter().copied().chain(far).chain(end) {
        match op {
            Op::Enqueue {
                class,
                len,
                lifetime,
                frame,
            } => {
                let datagram = Datagram {
                    class,
                    len,
                    deadline: now + lifetime,
                    frame,
                };
                sender.enqueue(now, datagram, datagram);
                model.enqueue(now, datagram);
            }
            Op::Frame {
                class,
                lens,
                lifetime,
                back,
            } => {
                let lens: Vec<u32> = lens.into_iter().flatten().collect();
                let deadline = now + lifetime;
                let frames = model.wholes.len();
                let back = back.into_iter().flatten();
                let parents = back.filter_map(|back| frames.checked_sub(1 + usize::from(back)));
                let parents: Vec<usize> = parents.collect();
                let depends_on: Vec<FrameId> = parents.iter().map(|p| FrameId(*p as u64)).collect();
                let frame = Frame {
                    class,
                    deadline,
                    depends_on: &depends_on,
                };
                let payload = |len| Datagram {
                    class,
                    len,
                    deadline,
                    frame: None,
                };
                let parts = lens.iter().map(|len| (*len, payload(*len)));
                let taken = sender.enqueue_frame(now, &frame, parts);
                if lens.is_empty() {
                    assert!(taken.is_err());
                } else {
                    let ids = taken.map(|(frame, first)| (frame.0 as usize, first.0));
                    assert_eq!(ids, Ok((frames, model.next)));
                    model.enqueue_frame(now, (class, deadline), &lens, &parents);
                }
            }
            Op::Transmit => {
                script.allow(Some(now));
                let sent = sender.poll_transmit(now);
                script.allow(None);
                assert!(sent.is_none_or(|t| t.datagram == t.payload));
                assert_eq!(sent.map(|t| t.id.0), model.transmit(now), "{policy} {op:?}");
            }
            Op::Peek => {
                script.allow(Some(now));
                let best = sender.peek(now).map(|(said, payload)| {
                    assert_eq!(said, payload);
                    *said
                });
                script.allow(None);
                let id = model.peek(now);
                let expected = model.waiting.iter().find(|held| Some(held.id) == id);
                assert_eq!(best, expected.map(|held| held.datagram), "{policy}");
            }
            Op::Largest(largest) => {
                sender.set_largest(largest);
                model.set_largest(largest);
            }
            Op::Advance(by) => now += by,
            Op::Rtt(rtt) => {
                script.set_rtt(rtt);
                model.set_rtt(rtt);
            }
            Op::Rate(rate) => {
                script.set_rate(rate);
                model.set_rate(rate);
            }
        }
        let events: Vec<Event> = std::iter::from_fn(|| sender.poll_event()).collect();
        ended.extend(events.iter().filter_map(|event| match event {
            Event::Outcome(id, ..) => Some(id.0),
            _ => None,
        }));
        frames.extend(events.iter().filter_map(|event| match event {
            Event::Frame(id, _) => Some(id.0),
            _ => None,
        }));
        let expected = std::mem::take(&mut model.events);
        assert_eq!(sorted(events), sorted(expected), "{policy} {op:?}");
        let held = sender.backlog();
        assert_eq!(held.bytes, Bytes::new(model.bytes()));
        assert_eq!(held.packets as usize, model.waiting.len());
        assert!(held.packets <= config.packets && held.bytes <= config.bytes);
    }
    ended.sort_unstable();
    assert!(
        ended.iter().copied().eq(0..model.next),
        "one outcome for each datagram"
    );
    frames.sort_unstable();
    let whole = model.wholes.len() as u64;
    assert!(
        frames.iter().copied().eq(0..whole),
        "one outcome for each frame"
    );
    let counted = sender.stats().classes().iter();
    let counted = counted.map(|c| c.sent + c.expired + c.evicted + c.too_large + c.orphaned);
    assert_eq!(counted.sum::<u64>(), model.next);
}
