// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tags on what passes an interface: `makeway tag`, `makeway up --tickets`.

use std::net::UdpSocket;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

use super::common::{Far, inside_in_real_time, ip};
use super::{MAKEWAY, Up, egress, rules, say, status};

/// Sees every IP packet that comes to an interface of the calling thread's namespace.
struct Tap(OwnedFd);

impl Tap {
    fn new() -> Self {
        // SAFETY: no pointers; the descriptor is fresh and owned by nobody else.
        let socket = unsafe {
            let all = i32::from((libc::ETH_P_ALL as u16).to_be());
            let fd = libc::socket(libc::AF_PACKET, libc::SOCK_DGRAM, all);
            assert!(fd >= 0, "{}", std::io::Error::last_os_error());
            OwnedFd::from_raw_fd(fd)
        };
        Self(socket)
    }

    /// The next UDP packet to port 4000: the field of its header that may hold a tag.
    fn next(&self) -> u32 {
        loop {
            let mut bytes = [0u8; 2048];
            let mut ready = libc::pollfd {
                fd: self.0.as_raw_fd(),
                events: libc::POLLIN,
                revents: 0,
            };
            // SAFETY: one descriptor; then pointer and length are those of `bytes`.
            let n = unsafe {
                assert_eq!(libc::poll(&raw mut ready, 1, 10_000), 1, "no packet came");
                libc::recv(ready.fd, bytes.as_mut_ptr().cast(), bytes.len(), 0)
            };
            let bytes = &bytes[..usize::try_from(n).expect("a packet")];
            let word = |at: usize| u32::from(bytes[at]) << 8 | u32::from(bytes[at + 1]);
            let (header, protocol, tag) = match bytes[0] >> 4 {
                4 => (20, bytes[9], word(4)),
                6 => (40, bytes[6], (word(0) & 0xf) << 16 | word(2)),
                _ => continue,
            };
            if protocol != 17 || word(header + 2) != 4000 {
                continue;
            }
            if header == 20 {
                let sum: u32 = (0..20).step_by(2).map(word).sum();
                assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff, "checksum");
            }
            return tag;
        }
    }
}

/// Sends a UDP packet from `port` to port 4000 that says of itself that it has `tag`.
fn forge(port: u16, tag: u16) {
    let mut bytes = [0u8; 28];
    bytes[0] = 0x45;
    bytes[4..6].copy_from_slice(&tag.to_be_bytes());
    bytes[6] = 0x40;
    bytes[8..10].copy_from_slice(&[64, 17]);
    bytes[12..16].copy_from_slice(&[10, 9, 0, 1]);
    bytes[16..20].copy_from_slice(&[10, 9, 0, 2]);
    bytes[20..22].copy_from_slice(&port.to_be_bytes());
    bytes[22..24].copy_from_slice(&4000u16.to_be_bytes());
    bytes[25] = 8;
    // SAFETY: plain old data, of which zero is a value.
    let mut to: libc::sockaddr_in = unsafe { std::mem::zeroed() };
    to.sin_family = libc::AF_INET as u16;
    to.sin_addr.s_addr = u32::from_ne_bytes([10, 9, 0, 2]);
    // SAFETY: pointers and lengths are those of `bytes` and `to`; the descriptor is fresh.
    let sent = unsafe {
        let socket = OwnedFd::from_raw_fd(libc::socket(
            libc::AF_INET,
            libc::SOCK_RAW,
            libc::IPPROTO_RAW,
        ));
        let length = size_of_val(&to) as u32;
        let to = (&raw const to).cast();
        libc::sendto(socket.as_raw_fd(), bytes.as_ptr().cast(), 28, 0, to, length)
    };
    assert_eq!(sent, 28, "{}", std::io::Error::last_os_error());
}

#[test]
fn tags_are_written_traded_and_taken_off() {
    if !inside_in_real_time(
        "tags::tags_are_written_traded_and_taken_off",
        &[Path::new(MAKEWAY)],
    ) {
        return;
    }
    let far = Far::new();
    ip("addr add fd09::1/64 dev near nodad");
    let tap = far.run(|| {
        ip("addr add fd09::2/64 dev far nodad");
        Tap::new()
    });
    let carries = |port, tag| {
        forge(port, tag);
        tap.next()
    };
    // Without an edge a host may say what it likes.
    assert_eq!(carries(5000, 255), 255);

    let edge = Up::start("tag near --tickets 5000=6 --tickets 5001=1000000 --tag-scale linear");
    assert_eq!(carries(5001, 3), 255);
    assert_eq!(carries(5002, 255), 0);
    let many: Vec<_> = (0..300).map(|_| carries(5000, 255)).collect();
    assert_eq!(many[0], 255);
    // 360 tickets in the 60 s of the window for 8.4 kB, a little less with the time that it took.
    assert!((42..=46).contains(&many[299]), "{}", many[299]);
    let socket = UdpSocket::bind("[fd09::1]:5001").unwrap();
    socket.send_to(&[0; 1000], "[fd09::2]:4000").unwrap();
    assert_eq!(tap.next(), 255);
    let socket = UdpSocket::bind("[fd09::1]:5002").unwrap();
    socket.send_to(&[0; 1000], "[fd09::2]:4000").unwrap();
    assert_eq!(tap.next(), 0);
    assert!(egress("packets_out") > 300);
    let tags = &status()["directions"][0]["tags"];
    assert!(tags["written"].as_u64() >= Some(200), "{tags}");
    let (ok, said) = say("status near");
    assert!(ok && said.contains("rewritten"), "{said}");
    assert!(say("down near").0);
    drop(edge);
    assert_eq!(carries(5000, 255), 255);

    // One that came with 10 tickets and 42 bytes leaves with all that the next hop issues, 7 tickets/s in 60 s.
    let line = Up::start("up near --rate 20mbit --discipline tred --tickets 7 --tag-scale linear");
    assert_eq!(carries(5000, 10), 255);
    assert!(say("up near --set tickets=1").0);
    for _ in 0..50 {
        carries(5000, 10);
    }
    // 60 tickets for 52 packets: 2184 B.
    assert!((27..=29).contains(&carries(5000, 10)));
    assert_eq!(carries(5000, 0), 0);
    assert!(say("down near").0);
    drop(line);

    let mut end = Up::start("up near --rate 20mbit --discipline tred --strip-tags");
    assert_eq!(carries(5000, 10), 0);
    end.signal(libc::SIGINT);
    assert!(end.end().0.success());
    assert!(!rules());
    assert_eq!(carries(5000, 10), 10);
}
