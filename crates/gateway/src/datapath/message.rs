// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages of `nfnetlink_queue`: what is read from the kernel and what is written to it.
//!
//! Layouts: `linux/netlink.h`, `linux/netfilter/nfnetlink.h`, `linux/netfilter/nfnetlink_queue.h`.
//! Netlink headers are in the machine's byte order, attributes of nfnetlink in network order.

use super::connection::Translated;

const NLMSG_HEADER: usize = 16;
const GENERIC_HEADER: usize = 4;
const ATTRIBUTE_HEADER: usize = 4;

const NFNL_SUBSYS_QUEUE: u16 = 3;
const MSG_PACKET: u16 = NFNL_SUBSYS_QUEUE << 8;
const MSG_VERDICT: u16 = MSG_PACKET | 1;
const MSG_CONFIG: u16 = MSG_PACKET | 2;
const MSG_VERDICT_BATCH: u16 = MSG_PACKET | 3;
const NLMSG_ERROR: u16 = 2;

const NFQA_PACKET_HDR: u16 = 1;
const NFQA_VERDICT_HDR: u16 = 2;
const NFQA_MARK: u16 = 3;
const NFQA_PAYLOAD: u16 = 10;
const NFQA_CT: u16 = 11;
const NFQA_CT_INFO: u16 = 12;
const NFQA_CAP_LEN: u16 = 13;
/// The upper two bits of an attribute's type are flags (nested, byte order).
const NLA_TYPE_MASK: u16 = 0x3fff;

const NF_DROP: u32 = 0;
const NF_ACCEPT: u32 = 1;

const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;

/// Bytes of one verdict message without a payload.
pub(super) const VERDICT_BYTES: usize = NLMSG_HEADER + GENERIC_HEADER + ATTRIBUTE_HEADER + 8;

/// A message from the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// A packet that waits for its verdict.
    Packet(Queued<'a>),
    /// The answer to a request: zero, or the negated `errno`.
    Answer {
        /// Sequence number of the request.
        sequence: u32,
        /// Zero for success.
        error: i32,
    },
    /// Anything else, including unreadable messages.
    Other,
}

/// A packet in the kernel's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queued<'a> {
    /// The kernel's name for it.
    pub id: u32,
    /// EtherType: 0x0800, 0x86dd.
    pub ethertype: u16,
    /// Length of the packet from its network header on, in bytes.
    pub len: u32,
    /// Its fwmark, 0 without one.
    pub mark: u32,
    /// The translation of its destination, where the kernel knows its connection and translates it.
    pub translated: Option<Translated>,
    /// As much of it as was copied, from the network header on.
    pub headers: &'a [u8],
}

/// Reads one message; any bytes are accepted.
pub fn parse(bytes: &[u8]) -> Message<'_> {
    parse_checked(bytes).unwrap_or(Message::Other)
}

fn parse_checked(bytes: &[u8]) -> Option<Message<'_>> {
    let length = u32::from_ne_bytes(array(bytes, 0)?) as usize;
    let kind = u16::from_ne_bytes(array(bytes, 4)?);
    let sequence = u32::from_ne_bytes(array(bytes, 8)?);
    let message = bytes.get(..length)?;
    if kind == NLMSG_ERROR {
        let error = i32::from_ne_bytes(array(message, NLMSG_HEADER)?);
        return Some(Message::Answer { sequence, error });
    }
    if kind != MSG_PACKET {
        return None;
    }
    let mut rest = message.get(NLMSG_HEADER + GENERIC_HEADER..)?;
    let mut header = None;
    let (mut captured, mut mark) = (None, 0);
    let (mut connection, mut info) = (None, None);
    let mut headers: &[u8] = &[];
    while rest.len() >= ATTRIBUTE_HEADER {
        let length = usize::from(u16::from_ne_bytes(array(rest, 0)?));
        let kind = u16::from_ne_bytes(array(rest, 2)?) & NLA_TYPE_MASK;
        let value = rest.get(ATTRIBUTE_HEADER..length)?;
        match kind {
            NFQA_PACKET_HDR => {
                let id = u32::from_be_bytes(array(value, 0)?);
                let ethertype = u16::from_be_bytes(array(value, 4)?);
                header = Some((id, ethertype));
            }
            NFQA_CAP_LEN => captured = Some(u32::from_be_bytes(array(value, 0)?)),
            NFQA_MARK => mark = u32::from_be_bytes(array(value, 0)?),
            NFQA_PAYLOAD => headers = value,
            NFQA_CT => connection = Some(value),
            NFQA_CT_INFO => info = Some(u32::from_be_bytes(array(value, 0)?)),
            _ => {}
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or(&[]);
    }
    let (id, ethertype) = header?;
    // The kernel names the whole length only where it has cut the copy.
    let len = captured.unwrap_or(headers.len() as u32);
    let translated = connection.zip(info);
    let translated = translated.and_then(|(of, info)| Translated::read(of, info));
    Some(Message::Packet(Queued {
        id,
        ethertype,
        len,
        mark,
        translated,
        headers,
    }))
}

/// Type and value of each attribute, as far as they can be read.
pub(super) fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes(array(rest, 0)?));
        let kind = u16::from_ne_bytes(array(rest, 2)?) & NLA_TYPE_MASK;
        let value = rest.get(ATTRIBUTE_HEADER..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        Some((kind, value))
    })
}

pub(super) fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

/// A configuration request: `attributes` are (type, value) pairs.
pub(super) fn config(sequence: u32, queue: u16, attributes: &[(u16, &[u8])]) -> Vec<u8> {
    let mut out = vec![0; NLMSG_HEADER];
    out.extend([libc::AF_UNSPEC as u8, 0]);
    out.extend(queue.to_be_bytes());
    for (kind, value) in attributes {
        out.extend(((ATTRIBUTE_HEADER + value.len()) as u16).to_ne_bytes());
        out.extend(kind.to_ne_bytes());
        out.extend(*value);
        out.resize(out.len().next_multiple_of(4), 0);
    }
    let length = out.len() as u32;
    out[0..4].copy_from_slice(&length.to_ne_bytes());
    out[4..6].copy_from_slice(&MSG_CONFIG.to_ne_bytes());
    out[6..8].copy_from_slice(&(NLM_F_REQUEST | NLM_F_ACK).to_ne_bytes());
    out[8..12].copy_from_slice(&sequence.to_ne_bytes());
    out
}

/// Verdict on a packet, or on all up to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Accept,
    Drop,
    /// Accepts every packet whose id is not above this one's.
    AcceptUpTo,
}

/// One verdict; without `NLM_F_ACK`, so that only a failure is answered.
pub(super) fn verdict(queue: u16, id: u32, verdict: Verdict) -> [u8; VERDICT_BYTES] {
    let (kind, code) = match verdict {
        Verdict::Accept => (MSG_VERDICT, NF_ACCEPT),
        Verdict::Drop => (MSG_VERDICT, NF_DROP),
        Verdict::AcceptUpTo => (MSG_VERDICT_BATCH, NF_ACCEPT),
    };
    let mut out = [0; VERDICT_BYTES];
    out[0..4].copy_from_slice(&(VERDICT_BYTES as u32).to_ne_bytes());
    out[4..6].copy_from_slice(&kind.to_ne_bytes());
    out[6..8].copy_from_slice(&NLM_F_REQUEST.to_ne_bytes());
    out[18..20].copy_from_slice(&queue.to_be_bytes());
    out[20..22].copy_from_slice(&((ATTRIBUTE_HEADER + 8) as u16).to_ne_bytes());
    out[22..24].copy_from_slice(&NFQA_VERDICT_HDR.to_ne_bytes());
    out[24..28].copy_from_slice(&code.to_be_bytes());
    out[28..32].copy_from_slice(&id.to_be_bytes());
    out
}

/// Appends the verdict that accepts packet `id` with the fwmark `mark`, by which a rule behind the queue knows it.
pub(super) fn marked(queue: u16, id: u32, mark: u32, out: &mut Vec<u8>) {
    const ATTRIBUTE: usize = ATTRIBUTE_HEADER + size_of::<u32>();
    let begin = out.len();
    out.extend(verdict(queue, id, Verdict::Accept));
    out[begin..begin + 4].copy_from_slice(&((VERDICT_BYTES + ATTRIBUTE) as u32).to_ne_bytes());
    out.extend((ATTRIBUTE as u16).to_ne_bytes());
    out.extend(NFQA_MARK.to_ne_bytes());
    out.extend(mark.to_be_bytes());
}

/// The most bytes that one attribute can have: a packet of more cannot be copied whole, nor rewritten.
pub(super) const MOST_PAYLOAD: usize = u16::MAX as usize - ATTRIBUTE_HEADER;

/// Appends the verdict that accepts packet `id` with `payload`, up to [`MOST_PAYLOAD`], in its place.
pub(super) fn rewrite(queue: u16, id: u32, payload: &[u8], out: &mut Vec<u8>) {
    let attribute = ATTRIBUTE_HEADER + payload.len();
    let length = VERDICT_BYTES + attribute.next_multiple_of(4);
    let begin = out.len();
    out.extend(verdict(queue, id, Verdict::Accept));
    out[begin..begin + 4].copy_from_slice(&(length as u32).to_ne_bytes());
    out.extend((attribute as u16).to_ne_bytes());
    out.extend(NFQA_PAYLOAD.to_ne_bytes());
    out.extend(payload);
    out.resize(begin + length, 0);
}

/// Reads what [`verdict`], [`marked`] or [`rewrite`] wrote: the packet, what becomes of it, and what takes its place or is its fwmark.
#[cfg(test)]
pub(super) fn parse_verdict(bytes: &[u8]) -> (u32, Verdict, Option<&[u8]>) {
    let kind = u16::from_ne_bytes(array(bytes, 4).unwrap());
    let code = u32::from_be_bytes(array(bytes, 24).unwrap());
    let verdict = match (kind, code) {
        (MSG_VERDICT, NF_ACCEPT) => Verdict::Accept,
        (MSG_VERDICT, NF_DROP) => Verdict::Drop,
        (MSG_VERDICT_BATCH, NF_ACCEPT) => Verdict::AcceptUpTo,
        other => panic!("not a verdict: {other:?}"),
    };
    let payload = bytes.get(VERDICT_BYTES..).filter(|rest| !rest.is_empty());
    let payload = payload.map(|attribute| {
        let length = u16::from_ne_bytes(array(attribute, 0).unwrap());
        let kind = u16::from_ne_bytes(array(attribute, 2).unwrap());
        assert!(matches!(kind, NFQA_PAYLOAD | NFQA_MARK), "{kind}");
        &attribute[ATTRIBUTE_HEADER..usize::from(length)]
    });
    let id = u32::from_be_bytes(array(bytes, 28).unwrap());
    (id, verdict, payload)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A packet message as the kernel writes it.
    fn packet_message(id: u32, captured: Option<u32>, payload: &[u8]) -> Vec<u8> {
        let mut header = id.to_be_bytes().to_vec();
        header.extend(0x0800u16.to_be_bytes());
        header.push(4);
        let captured = captured.map(u32::to_be_bytes);
        let mut attributes: Vec<(u16, &[u8])> = vec![(NFQA_PACKET_HDR, &header)];
        if let Some(captured) = &captured {
            attributes.push((NFQA_CAP_LEN, captured));
        }
        attributes.push((NFQA_PAYLOAD, payload));
        let mut message = config(0, 7, &attributes);
        message[4..6].copy_from_slice(&MSG_PACKET.to_ne_bytes());
        message
    }

    #[test]
    fn a_cut_packet_keeps_its_whole_length() {
        let message = packet_message(9, Some(1500), &[0x45; 33]);
        let Message::Packet(packet) = parse(&message) else {
            panic!("not a packet");
        };
        assert_eq!((packet.id, packet.len), (9, 1500));
        assert_eq!(packet.headers, &[0x45; 33]);
        assert_eq!(packet.ethertype, 0x0800);
    }

    #[test]
    fn a_short_packet_is_as_long_as_its_copy() {
        let message = packet_message(9, None, &[0x45; 28]);
        let Message::Packet(packet) = parse(&message) else {
            panic!("not a packet");
        };
        assert_eq!(packet.len, 28);
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            parse(&bytes);
        }

        #[test]
        fn no_change_to_a_packet_makes_the_parser_panic(
            changes in proptest::collection::vec((0usize..120, any::<u8>()), 0..8),
            cut in 0usize..120,
        ) {
            let mut message = packet_message(1, Some(1500), &[0; 64]);
            for (at, byte) in changes {
                if let Some(slot) = message.get_mut(at) {
                    *slot = byte;
                }
            }
            message.truncate(cut);
            parse(&message);
        }
    }
}
