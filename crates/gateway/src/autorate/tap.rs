// SPDX-License-Identifier: MIT OR Apache-2.0
//! A packet socket on the interface: sees packets as they leave our queue towards the link, and as they arrive before it, with
//! every backend. The kernel stamps them, and passes on those alone that tell of delay.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use super::packet::OPTIONS;

/// One clock in this and one of a sender is looked at: each 16 ms where it counts milliseconds.
pub const SAMPLED: u32 = 16;
/// One packet of media in this and one of a stream is looked at, by its number.
const OF_STREAM: u32 = 4;
/// Bytes of a packet that are read: IPv4 with options, and TCP; of reports on packets all.
const SNAP: usize = 128;
const LONGEST: usize = 1500;
/// Most packets that are read at a time; the socket's buffer bounds those that wait.
const MOST: usize = 512;
const BUFFER: libc::c_int = 256 << 10;

// linux/filter.h
const LOAD_WORD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
const LOAD_HALF: u32 = libc::BPF_LD | libc::BPF_H | libc::BPF_ABS;
const LOAD_BYTE: u32 = libc::BPF_LD | libc::BPF_B | libc::BPF_ABS;
const BEHIND_WORD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_IND;
const BEHIND_HALF: u32 = libc::BPF_LD | libc::BPF_H | libc::BPF_IND;
const BEHIND_BYTE: u32 = libc::BPF_LD | libc::BPF_B | libc::BPF_IND;
const HEADER: u32 = libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH;
const HEADER_IS: u32 = libc::BPF_LDX | libc::BPF_W | libc::BPF_IMM;
const MASK: u32 = libc::BPF_ALU | libc::BPF_AND | libc::BPF_K;
const IS: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const HAS: u32 = libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K;
const RETURN: u32 = libc::BPF_RET | libc::BPF_K;
const PROTOCOL: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_PROTOCOL) as u32;
const WAY: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_PKTTYPE) as u32;
/// Numbers of the last two instructions for segments and probes.
const DROP: u8 = 32;
const TAKE: u8 = 33;
/// Numbers of the last three for media.
const NO_MEDIA: u8 = 21;
const TAKE_MEDIA: u8 = 22;
const TAKE_REPORT: u8 = 23;
/// Packets of RTP that leave, and of RTCP that arrive (RFC 3550): code, operand, and where to go if so, and if not.
const MEDIA: [(u32, u32, u8, u8); 24] = [
    (LOAD_HALF, PROTOCOL, 1, 1),
    (IS, libc::ETH_P_IP as u32, 2, 7),
    // A later fragment has no header.
    (LOAD_HALF, 6, 3, 3),
    (HAS, 0x1fff, NO_MEDIA, 4),
    (HEADER, 0, 5, 5),
    (LOAD_BYTE, 9, 6, 6),
    (IS, libc::IPPROTO_UDP as u32, 11, NO_MEDIA),
    // 7: IPv6 without headers between.
    (IS, libc::ETH_P_IPV6 as u32, 8, NO_MEDIA),
    (HEADER_IS, 40, 9, 9),
    (LOAD_BYTE, 6, 10, 10),
    (IS, libc::IPPROTO_UDP as u32, 11, NO_MEDIA),
    // 11: version 2.
    (BEHIND_BYTE, 8, 12, 12),
    (MASK, 0xc0, 13, 13),
    (IS, 0x80, 14, NO_MEDIA),
    (LOAD_BYTE, WAY, 15, 15),
    (IS, libc::PACKET_OUTGOING as u32, 16, 18),
    // The number in its stream.
    (BEHIND_HALF, 10, 17, 17),
    (HAS, OF_STREAM - 1, NO_MEDIA, TAKE_MEDIA),
    // 18: types 200 to 207.
    (BEHIND_BYTE, 9, 19, 19),
    (MASK, 0xf8, 20, 20),
    (IS, 200, TAKE_REPORT, NO_MEDIA),
    (RETURN, 0, 0, 0),
    (RETURN, SNAP as u32, 0, 0),
    (RETURN, LONGEST as u32, 0, 0),
];

/// A packet that was seen.
#[derive(Clone, Copy, Debug)]
pub struct Tapped<'a> {
    /// Time of the kernel's stamp, ns of CLOCK_REALTIME.
    pub at: i64,
    pub is_outgoing: bool,
    /// From the network header on, cut.
    pub bytes: &'a [u8],
}

/// Packets of interest.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// TCP with timestamps.
    Segments,
    /// RTP and its receivers' reports.
    Media,
    /// ICMP with this identifier.
    Probes(u16),
}

/// The socket.
#[derive(Debug)]
pub struct Tap(OwnedFd);

impl Tap {
    /// Sees packets of a kind on the interface `index` from now on.
    ///
    /// # Errors
    /// Without CAP_NET_RAW.
    pub fn new(index: u32, kind: Kind) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        // No protocol yet: nothing comes before the filter is there.
        let socket = socket_with(AddressFamily::PACKET, SocketType::DGRAM, flags, None)?;
        let filter = filter(kind);
        let program = libc::sock_fprog {
            len: filter.len() as libc::c_ushort,
            filter: filter.as_ptr().cast_mut(),
        };
        set(&socket, libc::SO_ATTACH_FILTER, &program)?;
        set(&socket, libc::SO_TIMESTAMPNS, &1i32)?;
        set(&socket, libc::SO_RCVBUF, &BUFFER)?;
        // SAFETY: a struct of plain numbers, for which zeros are values.
        let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        address.sll_ifindex = index as i32;
        // SAFETY: pointer and length are those of `address`, which outlives the call.
        let bound = unsafe {
            libc::bind(
                socket.as_raw_fd(),
                (&raw const address).cast(),
                size_of::<libc::sockaddr_ll>() as libc::socklen_t,
            )
        };
        match bound {
            0 => Ok(Self(socket)),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Passes on those that have come.
    pub fn read(&self, mut each: impl FnMut(Tapped<'_>)) {
        let mut bytes = [0u8; LONGEST];
        for _ in 0..MOST {
            // Room for one timestamp, aligned as the kernel's header of it.
            let mut control = [0u64; 8];
            // SAFETY: a struct of plain numbers, for which zeros are values.
            let mut from: libc::sockaddr_ll = unsafe { mem::zeroed() };
            let mut part = libc::iovec {
                iov_base: bytes.as_mut_ptr().cast(),
                iov_len: bytes.len(),
            };
            // SAFETY: a struct of numbers and pointers, for which zeros are values.
            let mut message: libc::msghdr = unsafe { mem::zeroed() };
            message.msg_name = (&raw mut from).cast();
            message.msg_namelen = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
            message.msg_iov = &raw mut part;
            message.msg_iovlen = 1;
            message.msg_control = control.as_mut_ptr().cast();
            message.msg_controllen = size_of_val(&control) as _;
            // SAFETY: every pointer of `message` is to a local that outlives the call, with its length.
            let n = unsafe { libc::recvmsg(self.0.as_raw_fd(), &raw mut message, 0) };
            let Ok(n) = usize::try_from(n) else {
                // None is left, or the interface is down: there may be others later.
                return;
            };
            let Some(at) = stamp(&message) else { continue };
            each(Tapped {
                at,
                is_outgoing: from.sll_pkttype == libc::PACKET_OUTGOING,
                bytes: &bytes[..n.min(LONGEST)],
            });
        }
    }
}

/// The kernel's time of a message.
fn stamp(message: &libc::msghdr) -> Option<i64> {
    // SAFETY: the kernel filled the control buffer of `message` up to its length, and these macros stay inside it.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(message);
        while !header.is_null() {
            if ((*header).cmsg_level, (*header).cmsg_type)
                == (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS)
            {
                let time: libc::timespec = libc::CMSG_DATA(header)
                    .cast::<libc::timespec>()
                    .read_unaligned();
                return Some(time.tv_sec as i64 * 1_000_000_000 + time.tv_nsec as i64);
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
    None
}

/// Sets an option of SOL_SOCKET.
fn set<T>(socket: &OwnedFd, option: libc::c_int, value: &T) -> io::Result<()> {
    crate::socket::set(socket, libc::SOL_SOCKET, option, value)
}

/// Program that keeps the packets that tell of delay. Outgoing segments do so by their own clock, incoming ones by the one
/// that they echo: the second answers the first.
fn filter(kind: Kind) -> Vec<libc::sock_filter> {
    // Places of the first instruction for each protocol, in IPv4 and IPv6.
    let ([tcp, tcp_v6], [icmp, icmp_v6], identifier) = match kind {
        Kind::Media => return assembled(&MEDIA),
        Kind::Segments => ([10, 24], [DROP; 2], 0),
        Kind::Probes(identifier) => ([DROP; 2], [8, 22], u32::from(identifier)),
    };
    let out = libc::PACKET_OUTGOING.into();
    let (v4, v6) = (libc::ETH_P_IP as u32, libc::ETH_P_IPV6 as u32);
    let mask = SAMPLED - 1;
    // Code, operand, and where to go if so, and if not.
    let rules: [(u32, u32, u8, u8); 34] = [
        (LOAD_HALF, PROTOCOL, 1, 1),
        (IS, v4, 2, 18),
        // A later fragment has no header.
        (LOAD_HALF, 6, 3, 3),
        (HAS, 0x1fff, DROP, 4),
        (HEADER, 0, 5, 5),
        (LOAD_BYTE, 9, 6, 6),
        (IS, libc::IPPROTO_TCP as u32, tcp, 7),
        (IS, libc::IPPROTO_ICMP as u32, icmp, DROP),
        (BEHIND_HALF, 4, 9, 9),
        (IS, identifier, TAKE, DROP),
        // 10: TCP over IPv4.
        (BEHIND_WORD, 20, 11, 11),
        (IS, OPTIONS, 12, DROP),
        (LOAD_BYTE, WAY, 13, 13),
        (IS, out, 14, 16),
        (BEHIND_WORD, 24, 15, 15),
        (HAS, mask, DROP, TAKE),
        (BEHIND_WORD, 28, 17, 17),
        (HAS, mask, DROP, TAKE),
        // 18: IPv6 without headers between.
        (IS, v6, 19, DROP),
        (LOAD_BYTE, 6, 20, 20),
        (IS, libc::IPPROTO_TCP as u32, tcp_v6, 21),
        (IS, libc::IPPROTO_ICMPV6 as u32, icmp_v6, DROP),
        (LOAD_HALF, 44, 23, 23),
        (IS, identifier, TAKE, DROP),
        // 24: TCP over IPv6.
        (LOAD_WORD, 60, 25, 25),
        (IS, OPTIONS, 26, DROP),
        (LOAD_BYTE, WAY, 27, 27),
        (IS, out, 28, 30),
        (LOAD_WORD, 64, 29, 29),
        (HAS, mask, DROP, TAKE),
        (LOAD_WORD, 68, 31, 31),
        (HAS, mask, DROP, TAKE),
        (RETURN, 0, 0, 0),
        (RETURN, SNAP as u32, 0, 0),
    ];
    assembled(&rules)
}

/// Program of rules whose jumps name instructions by their numbers.
fn assembled(rules: &[(u32, u32, u8, u8)]) -> Vec<libc::sock_filter> {
    let numbered = rules.iter().copied().enumerate();
    let jump = |n: usize, to: u8| (usize::from(to) - n - 1) as u8;
    numbered
        .map(|(n, (code, k, yes, no))| {
            let (jt, jf) = match code {
                IS | HAS => (jump(n, yes), jump(n, no)),
                _ => (0, 0),
            };
            libc::sock_filter {
                code: code as u16,
                jt,
                jf,
                k,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, UdpSocket};
    use std::process::Command;
    use std::time::{Duration, Instant};

    use rustix::net::{SendFlags, ipproto, sendto};

    use super::super::packet::{self, Seen};
    use super::*;

    const IDENTIFIER: u16 = 0x1234;

    /// A packet to the loopback device; the kernel completes the header.
    fn packet(protocol: u8, rest: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0];
        bytes.extend([127, 0, 0, 2, 127, 0, 0, 1]);
        bytes.extend(rest);
        bytes
    }

    fn protocols(tap: &Tap) -> Vec<u8> {
        let mut seen = Vec::new();
        tap.read(|tapped| seen.push(tapped.bytes[9]));
        seen
    }

    /// Looks after 100 ms, and again while it has seen fewer packets: a busy kernel hands them on late.
    fn until<T>(count: usize, mut look: impl FnMut() -> Vec<T>) -> Vec<T> {
        let end = Instant::now() + Duration::from_secs(20);
        let mut seen = Vec::new();
        while seen.len() < count && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(100));
            seen.extend(look());
        }
        seen
    }

    /// Runs `check` in a network namespace with a loopback device, if the machine allows it.
    fn in_a_namespace(check: impl FnOnce() + Send + 'static) {
        let thread = std::thread::spawn(|| {
            // SAFETY: only this thread's network namespace changes.
            if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
                return makeway_testing::skip("no right to make a network namespace");
            }
            let mut up = Command::new("ip");
            assert!(
                up.args(["link", "set", "lo", "up"])
                    .status()
                    .unwrap()
                    .success()
            );
            let lo = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
            assert!(lo.contains("lo:"), "{lo}");
            check();
        });
        thread.join().unwrap();
    }

    #[test]
    fn media_that_leaves_and_reports_that_arrive_are_seen_over_either_family() {
        in_a_namespace(|| {
            let tap = Tap::new(1, Kind::Media).unwrap();
            // Media with the numbers 8 and 9, a report of one word more than 8, and a long header of QUIC.
            let media = |number: u8| [&[0x90, 96, 0, number][..], &[7; 200]].concat();
            let report = [&[0x8fu8, 205, 0, 9][..], &[5; 1200]].concat();
            let quic = [&[0xc0u8, 0, 0, 0][..], &[7; 200]].concat();
            for any in ["127.0.0.1:0", "[::1]:0"] {
                let [here, there] = [0, 1].map(|_| UdpSocket::bind(any).unwrap());
                let to = there.local_addr().unwrap();
                for datagram in [media(8), media(9), quic.clone(), report.clone()] {
                    here.send_to(&datagram, to).unwrap();
                }
                let seen = until(2, || {
                    let mut seen = Vec::new();
                    tap.read(|tapped| {
                        let read = packet::parse(tapped.bytes, tapped.is_outgoing);
                        let Some(Seen::Udp { payload, .. }) = read else {
                            panic!("{read:?}");
                        };
                        seen.push((tapped.is_outgoing, payload[3], payload.len()));
                    });
                    seen
                });
                let header = if to.is_ipv4() { 28 } else { 48 };
                let all = [(true, 8, SNAP - header), (false, 9, report.len())];
                assert_eq!(seen, all, "{any}");
            }
        });
    }

    #[test]
    fn a_flood_of_segments_hides_no_answer_of_a_reflector() {
        in_a_namespace(|| {
            let [segments, probes] =
                [Kind::Segments, Kind::Probes(IDENTIFIER)].map(|kind| Tap::new(1, kind).unwrap());
            let flags = SocketFlags::CLOEXEC;
            let raw = socket_with(
                AddressFamily::INET,
                SocketType::RAW,
                flags,
                Some(ipproto::RAW),
            );
            let (raw, to) = (raw.unwrap(), SocketAddr::from(([127, 0, 0, 1], 0)));
            let send = |bytes: &[u8]| sendto(&raw, bytes, SendFlags::empty(), &to).unwrap();
            // Clock 1, which is not sampled on its way out, and an echo of 0, which is on its way in.
            let mut segment = vec![
                0, 80, 0, 81, 0, 0, 0, 0, 0, 0, 0, 0, 0x80, 0x10, 0, 0, 0, 0, 0, 0,
            ];
            segment.extend(OPTIONS.to_be_bytes());
            segment.extend([0, 0, 0, 1, 0, 0, 0, 0]);
            for _ in 0..MOST + 100 {
                send(&packet(6, &segment));
            }
            let mut answer = vec![0, 0, 0, 0];
            answer.extend(IDENTIFIER.to_be_bytes());
            answer.extend([0; 2]);
            send(&packet(1, &answer));
            // On its way out and in; the segments came before it.
            assert_eq!(until(2, || protocols(&probes)), [1, 1]);
            assert_eq!(protocols(&segments), [6; MOST]);
        });
    }
}
