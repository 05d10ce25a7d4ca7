// SPDX-License-Identifier: MIT OR Apache-2.0
//! A link that fills at will: a veth whose far end takes packets only while the sender sleeps.
//!
//! With segmentation off and GRO on at the far end, packets cross a veth by a ring of 256, which its NAPI empties; when the ring is
//! full the sender's transmit queue stops (Linux 6.16 and newer) and the qdisc holds what comes. That NAPI is a thread here,
//! and on the one processor it waits for a sender with real-time priority.

use std::ffi::CString;
use std::fs;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, ensure};
use makeway_netns::offload::{self, Offload};

use super::guest::call;

/// Bytes of a packet, its Ethernet header included.
const LEN: usize = 200;
/// The destination's port.
const PORT: u16 = 5004;
const FIRST_PORT: u16 = 1024;

pub struct Veth {
    socket: OwnedFd,
    frame: [u8; LEN],
}

/// The end with the qdisc.
pub const NEAR: &str = "near0";
const FAR: &str = "far0";

impl Veth {
    pub fn new() -> anyhow::Result<Self> {
        call("ip", &format!("link add {NEAR} type veth peer name {FAR}"))?;
        fs::write("/proc/sys/kernel/sched_rt_runtime_us", "-1")?;
        offload::set(NEAR, &[(Offload::Tso, false)])?;
        offload::set(FAR, &[(Offload::Gro, true)])?;
        for end in [NEAR, FAR] {
            // Nobody says hello by IPv6 while packets are counted.
            fs::write(format!("/proc/sys/net/ipv6/conf/{end}/disable_ipv6"), "1").ok();
            call("ip", &format!("link set {end} up"))?;
        }
        fs::write(format!("/sys/class/net/{FAR}/threaded"), "1")?;
        Ok(Self {
            socket: open()?,
            frame: frame(),
        })
    }

    /// Sends one packet of `flow`. One that the qdisc drops is no error.
    pub fn send(&mut self, flow: u32) -> io::Result<()> {
        // Ports first, then addresses: flows below 2^24.
        let [_, net, high, low] = flow.to_be_bytes();
        let port = FIRST_PORT + u16::from_be_bytes([high & 0x7f, low]);
        self.frame[34..36].copy_from_slice(&port.to_be_bytes());
        self.frame[28] = net << 1 | high >> 7;
        // SAFETY: the frame is as long as is said, and lives.
        let sent = unsafe {
            let frame = self.frame.as_ptr();
            libc::send(
                self.socket.as_raw_fd(),
                frame.cast(),
                LEN,
                libc::MSG_DONTWAIT,
            )
        };
        match io::Error::last_os_error() {
            error if sent < 0 && error.raw_os_error() != Some(libc::ENOBUFS) => Err(error),
            _ => Ok(()),
        }
    }

    /// Sets the far end `up` or `down`; a packet to one that is down is dropped by the device.
    pub fn set_far(&self, to: &str) -> anyhow::Result<()> {
        call("ip", &format!("link set {FAR} {to}"))
    }

    /// Packets that the far end took, ever.
    pub fn taken(&self) -> anyhow::Result<u64> {
        let path = format!("/sys/class/net/{FAR}/statistics/rx_packets");
        Ok(fs::read_to_string(path)?.trim().parse()?)
    }

    /// Lets the far end take packets until it gets no more.
    pub fn drain(&self) -> anyhow::Result<()> {
        set_real_time(false)?;
        let mut before = None;
        loop {
            sleep(Duration::from_millis(100));
            let taken = Some(self.taken()?);
            if taken == before {
                break;
            }
            before = taken;
        }
        set_real_time(true)
    }
}

/// Instructions that the threads of softirqs have had: the far end's, and those of the transmit queue that it wakes.
pub fn softirqs() -> anyhow::Result<u64> {
    let mut sum = 0;
    for process in fs::read_dir("/proc")?.flatten() {
        let path = process.path();
        let name = fs::read_to_string(path.join("comm")).unwrap_or_default();
        if name.starts_with("napi/") || name.starts_with("ksoftirqd/") {
            let times = fs::read_to_string(path.join("schedstat"))?;
            let time = times.split_whitespace().next();
            sum += time.context("schedstat is empty")?.parse::<u64>()?;
        }
    }
    Ok(sum)
}

fn set_real_time(on: bool) -> anyhow::Result<()> {
    let (policy, sched_priority) = match on {
        true => (libc::SCHED_FIFO, 50),
        false => (libc::SCHED_OTHER, 0),
    };
    let parameter = libc::sched_param { sched_priority };
    // SAFETY: the parameter lives.
    let rc = unsafe { libc::sched_setscheduler(0, policy, &raw const parameter) };
    ensure!(
        rc == 0,
        "sched_setscheduler: {}",
        io::Error::last_os_error()
    );
    Ok(())
}

fn open() -> io::Result<OwnedFd> {
    // Room for every packet that a qdisc may hold.
    static BUFFER: libc::c_int = 1 << 30;
    let name = CString::new(NEAR)?;
    // SAFETY: plain system calls on live values; the descriptor is ours from where it is made.
    unsafe {
        let socket = libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0);
        if socket < 0 {
            return Err(io::Error::last_os_error());
        }
        let socket = OwnedFd::from_raw_fd(socket);
        let mut address: libc::sockaddr_ll = mem::zeroed();
        // 17 and 0x0800, below 2^16.
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = (libc::ETH_P_IP as u16).to_be();
        address.sll_ifindex = libc::if_nametoindex(name.as_ptr()) as i32;
        let size = |n: usize| n as libc::socklen_t;
        let (fd, buffer) = (socket.as_raw_fd(), &raw const BUFFER);
        let (level, option) = (libc::SOL_SOCKET, libc::SO_SNDBUFFORCE);
        let bound = libc::bind(fd, (&raw const address).cast(), size(size_of_val(&address)));
        let sized = libc::setsockopt(fd, level, option, buffer.cast(), size(size_of_val(&BUFFER)));
        match bound < 0 || sized < 0 {
            true => Err(io::Error::last_os_error()),
            false => Ok(socket),
        }
    }
}

/// A UDP packet for nobody: the far end drops it when it sees the address.
fn frame() -> [u8; LEN] {
    let mut frame = [0; LEN];
    frame[..6].copy_from_slice(&[2, 0, 0, 0, 0, 9]);
    frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    frame[12..14].copy_from_slice(&0x0800_u16.to_be_bytes());
    let ip = &mut frame[14..];
    ip[0] = 0x45;
    // 186 and 166, below 2^16.
    ip[2..4].copy_from_slice(&(LEN as u16 - 14).to_be_bytes());
    (ip[8], ip[9]) = (64, 17);
    ip[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    ip[22..24].copy_from_slice(&PORT.to_be_bytes());
    ip[24..26].copy_from_slice(&(LEN as u16 - 34).to_be_bytes());
    frame
}
