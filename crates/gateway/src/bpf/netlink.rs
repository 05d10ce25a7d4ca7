// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parts of tc(8) and ip-link(8) used here: qdiscs listed, put on an interface and removed; an ifb device and the filter that redirects to it.
//!
//! All of it is of the network namespace of the calling thread.

use std::io;

use netlink_packet_core::{
    DefaultNla, Emitable, NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REPLACE,
    NLM_F_REQUEST, NetlinkBuffer, NetlinkMessage, NetlinkPayload, Nla,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{InfoKind, LinkAttribute, LinkFlags, LinkInfo, LinkMessage};
use netlink_packet_route::tc::{
    TcAction, TcActionAttribute, TcActionMirror, TcActionMirrorOption, TcActionOption,
    TcActionType, TcAttribute, TcFilterMatchAll, TcFilterMatchAllOption, TcHandle, TcMessage,
    TcMirror, TcMirrorActionType, TcOption, TcStats2,
};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use serde::{Deserialize, Serialize};

/// `TCA_OPTIONS` of <linux/rtnetlink.h>.
const OPTIONS: u16 = 2;
/// `TCA_STATS_PKT64` of <linux/gen_stats.h>: only of more than 2^32 packets.
const STATS_PACKETS64: u16 = 8;
/// The priority of our filter: "MW", behind those that people number.
const PRIORITY: u16 = 0x4d57;
/// `ETH_P_ALL` in the order of the network.
const ALL_PROTOCOLS: u16 = 0x0003_u16.to_be();
/// `RTM_BASE` of <linux/rtnetlink.h>: lower types are of netlink itself.
const FIRST: u16 = 16;
/// The handle that clsact and ingress have.
const CLSACT: u32 = 0xffff_0000;
/// Where a root has its parent.
pub(super) const ROOT: u32 = 0xffff_ffff;

/// A qdisc of an interface, and what it takes to make it again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Found {
    pub kind: String,
    /// 0: the kernel made it by itself.
    pub handle: u32,
    pub parent: u32,
    options: Option<Vec<u8>>,
}

impl Found {
    pub fn new(kind: &str, parent: u32) -> Self {
        Self {
            kind: kind.into(),
            handle: 0,
            parent,
            options: None,
        }
    }

    /// At the root, with options in the form of the kernel.
    pub fn with(kind: &str, handle: u32, options: Vec<u8>) -> Self {
        Self {
            handle,
            options: Some(options),
            ..Self::new(kind, ROOT)
        }
    }

    pub fn is_root(&self) -> bool {
        self.parent == ROOT
    }

    fn read(message: &TcMessage) -> Option<Self> {
        let mut found = Self::new("", message.header.parent.into());
        found.handle = message.header.handle.into();
        for attribute in &message.attributes {
            match attribute {
                TcAttribute::Kind(kind) => found.kind.clone_from(kind),
                TcAttribute::Options(options) => found.options = Some(bytes(options)),
                _ => {}
            }
        }
        (!found.kind.is_empty()).then_some(found)
    }
}

/// The content of `TCA_OPTIONS`. The library keeps it whole where it does not know the kind.
fn bytes(options: &[TcOption]) -> Vec<u8> {
    if let [TcOption::Other(whole)] = options {
        let mut value = vec![0; whole.value_len()];
        whole.emit_value(&mut value);
        return value;
    }
    let mut value = vec![0; options.buffer_len()];
    options.emit(&mut value);
    value
}

/// The qdiscs of an interface that people see, the root first; none while it is down.
pub(super) fn qdiscs(index: u32) -> io::Result<Vec<Found>> {
    let mut found = Vec::new();
    let all = RouteNetlinkMessage::GetQueueDiscipline(TcMessage::default());
    exchange(all, NLM_F_DUMP, index, |answer| {
        if let RouteNetlinkMessage::NewQueueDiscipline(message) = answer {
            found.extend(Found::read(&message));
        }
    })?;
    found.sort_by_key(|one| !one.is_root());
    Ok(found)
}

/// Counters of a qdisc.
#[derive(Clone, Debug, Default)]
pub(super) struct Counted {
    pub options: Vec<u8>,
    pub bytes: u64,
    pub packets: u64,
    pub drops: u32,
    pub backlog_packets: u32,
    pub backlog_bytes: u32,
    /// Counters that only its kind has.
    pub application: Vec<u8>,
}

/// Counters of the qdisc with this kind and handle; `None` if it is not there.
pub(super) fn counted(index: u32, kind: &str, handle: u32) -> io::Result<Option<Counted>> {
    let mut found = None;
    let all = RouteNetlinkMessage::GetQueueDiscipline(TcMessage::default());
    exchange(all, NLM_F_DUMP, index, |answer| {
        if let RouteNetlinkMessage::NewQueueDiscipline(message) = answer
            && Found::read(&message).is_some_and(|one| (&*one.kind, one.handle) == (kind, handle))
        {
            found = Some(counters(&message));
        }
    })?;
    Ok(found)
}

fn counters(message: &TcMessage) -> Counted {
    let mut counted = Counted::default();
    for attribute in &message.attributes {
        match attribute {
            TcAttribute::Options(options) => counted.options = bytes(options),
            TcAttribute::Stats2(all) => all.iter().for_each(|one| match one {
                TcStats2::Basic(basic) => {
                    counted.bytes = basic.bytes;
                    counted.packets = counted.packets.max(basic.packets.into());
                }
                TcStats2::Queue(queue) => {
                    counted.drops = queue.drops;
                    counted.backlog_packets = queue.qlen;
                    counted.backlog_bytes = queue.backlog;
                }
                TcStats2::App(own) => {
                    counted.application = vec![0; own.buffer_len()];
                    own.emit(&mut counted.application);
                }
                TcStats2::Other(nla) if nla.kind() == STATS_PACKETS64 => {
                    let mut value = vec![0; nla.value_len()];
                    nla.emit_value(&mut value);
                    let packets = value.try_into().map_or(0, u64::from_ne_bytes);
                    counted.packets = packets;
                }
                _ => {}
            }),
            _ => {}
        }
    }
    counted
}

/// Changes options of the qdisc with the same kind and handle; its packets stay.
pub(super) fn change(index: u32, qdisc: &Found) -> io::Result<()> {
    send(index, qdisc, 0)
}

/// Installs a qdisc, replacing any other there.
pub(super) fn attach(index: u32, qdisc: &Found) -> io::Result<()> {
    send(index, qdisc, NLM_F_CREATE | NLM_F_REPLACE)
}

fn send(index: u32, qdisc: &Found, flags: u16) -> io::Result<()> {
    let mut message = message(index, qdisc.parent, qdisc.handle, Some(&qdisc.kind));
    if let Some(options) = &qdisc.options {
        let whole = DefaultNla::new(OPTIONS, options.clone());
        message.attributes.push(TcAttribute::Other(whole));
    }
    let request = RouteNetlinkMessage::NewQueueDiscipline(message);
    exchange(request, flags, index, |_| {})
}

/// Takes away the qdisc at `parent`; the kernel puts its default there.
pub(super) fn detach(index: u32, parent: u32) -> io::Result<()> {
    let message = message(index, parent, 0, None);
    let request = RouteNetlinkMessage::DelQueueDiscipline(message);
    exchange(request, 0, index, |_| {})
}

/// Makes the device `name` of kind ifb, and brings it up.
pub(super) fn add_ifb(name: &str) -> io::Result<()> {
    let mut message = LinkMessage::default();
    message.header.flags = LinkFlags::Up;
    message.header.change_mask = LinkFlags::Up;
    message.attributes = vec![
        LinkAttribute::IfName(name.into()),
        LinkAttribute::LinkInfo(vec![LinkInfo::Kind(InfoKind::Ifb)]),
    ];
    let request = RouteNetlinkMessage::NewLink(message);
    exchange(request, NLM_F_CREATE | NLM_F_EXCL, 0, |_| {})
}

/// Takes away a device.
pub(super) fn delete_link(index: u32) -> io::Result<()> {
    let mut message = LinkMessage::default();
    message.header.index = index;
    exchange(RouteNetlinkMessage::DelLink(message), 0, 0, |_| {})
}

/// Gives an interface the place where filters see what comes. Of another kind it may be there already.
pub(super) fn add_clsact(index: u32) -> io::Result<()> {
    let message = message(index, TcHandle::CLSACT.into(), CLSACT, Some("clsact"));
    let request = RouteNetlinkMessage::NewQueueDiscipline(message);
    exchange(request, NLM_F_CREATE | NLM_F_EXCL, index, |_| {})
}

/// Takes it away, with all filters.
pub(super) fn delete_clsact(index: u32) -> io::Result<()> {
    detach(index, TcHandle::CLSACT.into())
}

/// Redirects the ingress of one device to the egress of another, and no longer to that of a third.
pub(super) fn redirect(index: u32, to: u32) -> io::Result<()> {
    let mut mirror = TcMirror::default();
    mirror.generic.action = TcActionType::Stolen;
    mirror.eaction = TcMirrorActionType::EgressRedir;
    mirror.ifindex = to;
    let mut action = TcAction::default();
    action.tab = 1;
    action.attributes = vec![
        TcActionAttribute::Kind(TcActionMirror::KIND.into()),
        TcActionAttribute::Options(vec![TcActionOption::Mirror(TcActionMirrorOption::Parms(
            mirror,
        ))]),
    ];
    let mut message = filter(index);
    let options = vec![TcOption::MatchAll(TcFilterMatchAllOption::Action(vec![
        action,
    ]))];
    message.attributes.push(TcAttribute::Options(options));
    let request = RouteNetlinkMessage::NewTrafficFilter(message);
    let made = exchange(request.clone(), NLM_F_CREATE, index, |_| {});
    match made {
        // The kernel replaces no filter of this kind. In between, packets pass.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            stop_redirecting(index)?;
            exchange(request, NLM_F_CREATE, index, |_| {})
        }
        made => made,
    }
}

/// No longer. Where nothing is redirected, as on an interface that is gone, there is nothing to do.
///
/// # Errors
/// If it may still be redirected.
pub(super) fn stop_redirecting(index: u32) -> io::Result<()> {
    let request = RouteNetlinkMessage::DelTrafficFilter(filter(index));
    let deleted = exchange(request, 0, index, |_| {});
    match is_redirected(index)? {
        false => Ok(()),
        true => deleted.and(Err(io::Error::other("its filter is still there"))),
    }
}

/// Whether our filter is there.
fn is_redirected(index: u32) -> io::Result<bool> {
    let parent = CLSACT | u32::from(TcHandle::MIN_INGRESS);
    let mut message = message(index, parent, 0, None);
    // Of our priority alone: what others have the library may not read.
    message.header.info = u32::from(PRIORITY) << 16;
    let mut any = false;
    let request = RouteNetlinkMessage::GetTrafficFilter(message);
    exchange(request, NLM_F_DUMP, index, |answer| {
        any |= matches!(answer, RouteNetlinkMessage::NewTrafficFilter(_));
    })?;
    Ok(any)
}

/// Whether anybody's filters are at clsact.
pub(super) fn has_filters(index: u32) -> io::Result<bool> {
    let mut any = false;
    for minor in [TcHandle::MIN_INGRESS, TcHandle::MIN_EGRESS] {
        let parent = CLSACT | u32::from(minor);
        let request = RouteNetlinkMessage::GetTrafficFilter(message(index, parent, 0, None));
        exchange(request, NLM_F_DUMP, index, |answer| {
            any |= matches!(answer, RouteNetlinkMessage::NewTrafficFilter(_));
        })?;
    }
    Ok(any)
}

fn filter(index: u32) -> TcMessage {
    let parent = CLSACT | u32::from(TcHandle::MIN_INGRESS);
    let mut message = message(index, parent, 1, Some(TcFilterMatchAll::KIND));
    message.header.info = u32::from(PRIORITY) << 16 | u32::from(ALL_PROTOCOLS);
    message
}

fn message(index: u32, parent: u32, handle: u32, kind: Option<&str>) -> TcMessage {
    let mut message = TcMessage::with_index(index.cast_signed());
    message.header.parent = parent.into();
    message.header.handle = handle.into();
    let kind = kind.map(|kind| TcAttribute::Kind(kind.into()));
    message.attributes.extend(kind);
    message
}

/// Asks the kernel, and gives what it answers of the interface `index`. Other interfaces may have what the library
/// cannot read.
fn exchange(
    request: RouteNetlinkMessage,
    flags: u16,
    index: u32,
    mut each: impl FnMut(RouteNetlinkMessage),
) -> io::Result<()> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    let mut request = NetlinkMessage::from(request);
    request.header.flags = NLM_F_REQUEST | flags;
    if flags & NLM_F_DUMP != NLM_F_DUMP {
        request.header.flags |= NLM_F_ACK;
    }
    request.finalize();
    let mut out = vec![0; request.buffer_len()];
    request.serialize(&mut out);
    socket.send(&out, 0)?;
    loop {
        let (datagram, _) = socket.recv_from_full()?;
        let mut rest = datagram.as_slice();
        while let Ok(header) = NetlinkBuffer::new_checked(rest) {
            let length = header.length() as usize;
            let (message, after) = rest.split_at(length.min(rest.len()));
            rest = after
                .get(length.next_multiple_of(4) - length..)
                .unwrap_or(&[]);
            // The header of the message comes first, and in it, after four bytes, the interface.
            let of = message.get(20..24).and_then(|b| b.try_into().ok());
            let of = of.map(u32::from_ne_bytes);
            if header.message_type() >= FIRST && of != Some(index) {
                continue;
            }
            let parsed = NetlinkMessage::<RouteNetlinkMessage>::deserialize(message);
            match parsed.map_err(io::Error::other)?.payload {
                NetlinkPayload::Done(_) => return Ok(()),
                NetlinkPayload::Error(error) => match error.code {
                    None => return Ok(()),
                    Some(_) => return Err(error.to_io()),
                },
                NetlinkPayload::InnerMessage(message) => each(message),
                _ => {}
            }
        }
    }
}
