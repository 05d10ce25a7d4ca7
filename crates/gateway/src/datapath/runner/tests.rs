// SPDX-License-Identifier: MIT OR Apache-2.0
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

use makeway_core::sched::{Discipline, Limits};
use makeway_core::units::Bytes;
use makeway_testing::{PATIENT, in_real_time_within_or};
use makeway_vm::again;

use super::super::DatapathConfig;
use super::*;

/// A packet of UDP from port `flow`, as the kernel's queue tells of it.
fn message(id: u32, flow: u16) -> Vec<u8> {
    let mut headers = [0; 28];
    headers[0] = 0x45;
    headers[3] = 28;
    headers[9] = 17;
    headers[12..16].copy_from_slice(&[10, 0, 0, 1]);
    headers[16..20].copy_from_slice(&[10, 0, 0, 2]);
    headers[20..22].copy_from_slice(&flow.to_be_bytes());
    let mut message = Vec::new();
    // Length, NFQNL_MSG_PACKET of the queue's subsystem, no flags; the family, version and queue.
    message.extend(64u32.to_ne_bytes());
    message.extend((3u16 << 8).to_ne_bytes());
    message.resize(20, 0);
    // NFQA_PACKET_HDR and NFQA_PAYLOAD.
    message.extend([11u16, 1].map(u16::to_ne_bytes).concat());
    message.extend(id.to_be_bytes());
    message.extend([8, 0, 1, 0]);
    message.extend([32u16, 10].map(u16::to_ne_bytes).concat());
    message.extend(headers);
    message
}

fn pipeline(packets: u32) -> Pipeline {
    let limits = Limits {
        packets,
        bytes: Bytes::new(10_000_000),
        flows: 64,
    };
    let config = DatapathConfig::new(1, Discipline::Fifo.spec(), limits, None);
    Pipeline::new(now(), &config).unwrap()
}

/// The kernel's side, and ours.
fn sockets() -> (UdpSocket, UdpSocket) {
    let [kernel, ours] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    kernel.connect(ours.local_addr().unwrap()).unwrap();
    ours.connect(kernel.local_addr().unwrap()).unwrap();
    let room: libc::c_int = 1 << 20;
    // SAFETY: the value lives until the call returns.
    unsafe {
        libc::setsockopt(
            ours.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVBUF,
            (&raw const room).cast(),
            size_of_val(&room) as u32,
        );
    }
    (kernel, ours)
}

#[test]
fn commands_are_heard_while_every_batch_is_full() {
    let (kernel, ours) = sockets();
    for id in 1..=2 * BATCH as u32 {
        kernel.send(&message(id, 1)).unwrap();
    }
    let (commands, receiver) = mpsc::channel();
    let (to, parts) = mpsc::channel();
    commands.send(Command::Snapshot(to)).unwrap();
    let wake = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
    let queue = Queue::over(ours.into());
    let runner = Runner::new(queue, pipeline(100), receiver, wake, Arc::default());
    let thread = thread::spawn(move || runner.run(None));
    let mut parts = parts.iter();
    assert!(matches!(parts.next(), Some(Part::Flows(flows)) if flows.len() == 1));
    let Some(Part::Rest(_, stats)) = parts.next() else {
        panic!("nothing but flows");
    };
    // One round after the first full batch, not when there is none left.
    assert_eq!(stats.packets_in, BATCH as u64);
    commands.send(Command::Stop).unwrap();
    let stats = thread.join().unwrap().unwrap();
    assert_eq!(stats.packets_in, 2 * BATCH as u64);
    assert_eq!(stats.packets_out, stats.packets_in);
}

#[test]
fn flows_are_told_in_parts_and_the_largest_first() {
    let this = "datapath::runner::tests::flows_are_told_in_parts_and_the_largest_first";
    in_real_time_within_or(PATIENT, flows_are_told_in_parts, || {
        again(&format!("--exact {this}"), &[])
    });
}

fn flows_are_told_in_parts() {
    let (kernel, ours) = sockets();
    let count = 3 * COPIED_FLOWS as u16 / 2;
    let mut pipeline = pipeline(2000);
    let mut verdicts = Verdicts::new(1, 4096);
    for id in 0..count {
        let message = message(u32::from(id), id);
        let Message::Packet(queued) = super::super::message::parse(&message) else {
            panic!("no packet");
        };
        // The later, the larger.
        let queued = super::super::Queued {
            len: 100 + u32::from(id),
            ..queued
        };
        pipeline.arrive(now(), &queued, &mut verdicts);
    }
    let (commands, receiver) = mpsc::channel();
    let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
    let woken = wake.try_clone().unwrap();
    let pulse = Arc::default();
    let runner = Runner::new(
        Queue::over(ours.into()),
        pipeline,
        receiver,
        woken,
        Arc::clone(&pulse),
    );
    let handle = DatapathHandle {
        commands,
        wake,
        pulse,
        thread: Some(thread::spawn(move || runner.run(None))),
        queue_num: 1,
    };
    let all = handle.snapshot().unwrap().flows;
    assert_eq!(all.len(), usize::from(count));
    assert!(all.is_sorted_by_key(|flow| Reverse(flow.bytes_in)));
    let largest = handle.largest(10).unwrap().flows;
    let names = |flows: &[super::super::FlowStats]| -> Vec<String> {
        flows.iter().map(|flow| flow.flow.clone()).collect()
    };
    assert_eq!(names(&largest), names(&all[..10]));
    assert_eq!(handle.largest(0).unwrap().flows, []);
    // With nothing to do it is at work all the same.
    let (first, since) = (handle.beat(), std::time::Instant::now());
    while handle.beat() < first + 3 {
        assert!(
            since.elapsed() < StdDuration::from_secs(30),
            "it stands still"
        );
        thread::sleep(StdDuration::from_millis(10));
    }
    handle.stop().unwrap();
    drop(kernel);
}

#[test]
fn a_flood_leaves_ordinary_work_a_fifth_of_the_processor() {
    // Shares of the processor that it would take, and that it takes.
    for (wanted, most) in [(1.0, 0.81), (0.9, 0.81), (0.6, 0.6)] {
        let (mut time, mut cpu_seconds) = (Instant::ZERO, 0.0);
        let mut stint = Stint {
            since: time,
            cpu_seconds,
        };
        for _ in 0..20_000 {
            time += Duration::from_micros(100);
            cpu_seconds += wanted * 100e-6;
            let Some(rests) = stint.ends(time, || cpu_seconds) else {
                continue;
            };
            if rests {
                time += Duration::from_nanos(PAUSE.as_nanos() as u64);
            }
            stint = Stint {
                since: time,
                cpu_seconds,
            };
        }
        let share = cpu_seconds / time.saturating_since(Instant::ZERO).as_secs_f64();
        assert!(share <= most + 1e-9, "{wanted}: {share}");
        assert!(share >= most * 0.85, "{wanted}: {share}");
    }
}
