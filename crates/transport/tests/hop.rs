// SPDX-License-Identifier: MIT OR Apache-2.0
//! A call over a router with a link of 1400 B, which says so by ICMP, and which prohibits the call for a while or loses its reports.

#![allow(clippy::unwrap_used)] // In a test a failure is a panic.

mod common;
#[path = "hop/h264.rs"]
mod h264;

use std::net::{SocketAddr, UdpSocket};
use std::process::Command;
use std::thread::sleep;
use std::time::Duration as StdDuration;

use common::config;
use makeway_core::rate::Config;
use makeway_core::units::{Duration, Rate};
use makeway_testing::{in_real_time, in_real_time_or, skip};
use makeway_transport::dccp::driver::Wire;
use makeway_transport::dccp::udp::Udp;
use makeway_transport::rtp::{Call, FeedbackKind, Receiver, ReceiverConfig};
use makeway_vm::again;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/hop.sh");

/// Runs an ignored test of this file behind the router; `name` is that of the test that asks for it.
fn behind_the_router(name: &str, test: &str) {
    in_real_time_or(
        || made_behind_the_router(test),
        || {
            again(
                &format!("--exact {name}"),
                &["/bin/bash".as_ref(), SCRIPT.as_ref()],
            )
        },
    );
}

/// As [`behind_the_router`], of a test whose programs no guest has.
fn only_here_behind_the_router(test: &str) {
    in_real_time(|| made_behind_the_router(test));
}

fn made_behind_the_router(test: &str) {
    let enter = ["--user", "--map-root-user", "--net", "--mount", "bash"];
    let can = Command::new("unshare")
        .args(&enter[..4])
        .arg("true")
        .output();
    if !can.is_ok_and(|output| output.status.success()) {
        return skip("namespaces cannot be made: allow user namespaces, or run as root");
    }
    let this = std::env::current_exe().unwrap();
    let output = Command::new("unshare")
        .args(enter)
        .arg(SCRIPT)
        .arg(this)
        .args(["--exact", test, "--ignored", "--nocapture"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
}

/// Does something with the namespace `far` around it.
fn far<T: Send>(what: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let there = scope.spawn(|| {
            let far = std::fs::File::open("/run/netns/far").unwrap();
            let network = Some(rustix::thread::LinkNameSpaceType::Network);
            rustix::thread::move_into_link_name_space(std::os::fd::AsFd::as_fd(&far), network)
                .unwrap();
            what()
        });
        there.join().unwrap()
    })
}

fn router(rule: &str) {
    let done = Command::new("ip")
        .args(["netns", "exec", "router", "nft", rule])
        .status();
    assert!(done.unwrap().success(), "{rule}");
}

const FAR: [u8; 4] = [10, 9, 2, 2];

#[test]
fn a_call_goes_on_over_a_link_with_a_smaller_mtu_and_after_a_prohibition() {
    behind_the_router(
        "a_call_goes_on_over_a_link_with_a_smaller_mtu_and_after_a_prohibition",
        "a_call_behind_the_router",
    );
}

#[test]
#[ignore = "run behind a router by the test above"]
fn a_call_behind_the_router() {
    let receiver = far(|| {
        let config = ReceiverConfig {
            ssrc: 77,
            cname: "receiver@far".into(),
            rtx: Vec::new(),
            feedback: FeedbackKind::Rfc8888,
            interval: Duration::from_millis(50),
            seed: 2,
        };
        Receiver::bind(SocketAddr::from((FAR, 0)), config, |_, _| {}).unwrap()
    });
    let rate = Config::Fixed(Rate::from_bps(5_000_000));
    let call = Call::connect(receiver.address(), config(rate, "sbpn2")).unwrap();
    let talk = |frames: usize| {
        for _ in 0..frames {
            call.send(1, Duration::from_millis(500), vec![0; 4200])
                .unwrap();
            sleep(StdDuration::from_millis(20));
        }
        sleep(StdDuration::from_millis(100));
        assert!(!call.has_failed(), "the call has ended");
        let sent = call.stats().session.streams[1].outcomes.sent;
        (
            sent,
            receiver
                .streams()
                .first()
                .map_or(0, |s| s.sequence.received()),
        )
    };
    let (sent, received) = talk(50);
    // The first frame is 3 packets of 1460 B, of which the router drops some; the later ones are 4 of 1110.
    assert!((195..=200).contains(&sent), "{sent}");
    assert!(received + 5 >= sent, "{received} of {sent}");
    router(
        "add table ip stop; add chain ip stop forward { type filter hook forward priority 0; }; \
            add rule ip stop forward udp dport != 0 reject with icmp type admin-prohibited",
    );
    let (prohibited, none) = talk(20);
    assert!(none <= received + 2, "{none} {received}");
    router("delete table ip stop");
    let (sent, after) = talk(50);
    assert!(after + 5 >= none + (sent - prohibited), "{after} {none}");
    let stats = call.close().unwrap();
    assert_eq!(stats.session.last_rejected, None);
}

#[test]
fn frames_that_leave_in_one_batch_are_cut_for_a_smaller_mtu() {
    behind_the_router(
        "frames_that_leave_in_one_batch_are_cut_for_a_smaller_mtu",
        "batches_behind_the_router",
    );
}

/// ICMP about the first packet of a batch is the error of the second, which sendmmsg(2) does not tell.
#[test]
#[ignore = "run behind a router by the test above"]
fn batches_behind_the_router() {
    let socket = far(|| UdpSocket::bind(SocketAddr::from((FAR, 0))).unwrap());
    let rate = Config::Fixed(Rate::from_bps(1_000_000_000_000));
    let call = Call::connect(socket.local_addr().unwrap(), config(rate, "sbpn2")).unwrap();
    // The first for the neighbours' addresses.
    for len in [10, 4200, 4200, 4200] {
        call.send(1, Duration::from_millis(500), vec![0; len])
            .unwrap();
        sleep(StdDuration::from_millis(100));
    }
    let largest = call.largest();
    assert!((1300..1400).contains(&largest), "{largest}");
    let sent = call.close().unwrap().session.streams[1].outcomes.sent;
    assert_eq!(sent, 1 + 3 + 4 + 4);
}

#[test]
fn dccp_in_udp_goes_on_over_a_link_with_a_smaller_mtu() {
    behind_the_router(
        "dccp_in_udp_goes_on_over_a_link_with_a_smaller_mtu",
        "dccp_behind_the_router",
    );
}

#[test]
#[ignore = "run behind a router by the test above"]
fn dccp_behind_the_router() {
    let socket = far(|| UdpSocket::bind(SocketAddr::from((FAR, 0))).unwrap());
    let address = socket.local_addr().unwrap();
    let mut wire = Udp::connect("0.0.0.0:0".parse().unwrap(), address).unwrap();
    let mut into = Vec::new();
    for n in 0..20 {
        wire.send(&[n; 1472]).unwrap();
        sleep(StdDuration::from_millis(10));
        assert!(!wire.receive(&mut into).unwrap());
    }
    socket
        .set_read_timeout(Some(StdDuration::from_secs(5)))
        .unwrap();
    let mut last = [0; 2000];
    while last[0] < 19 {
        assert_eq!(socket.recv(&mut last).unwrap(), 1472, "in fragments");
    }
}
