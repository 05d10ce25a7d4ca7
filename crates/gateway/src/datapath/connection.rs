// SPDX-License-Identifier: MIT OR Apache-2.0
//! The connection of a packet, as the kernel's packet queue tells of it: the destination behind address translation.
//!
//! Layouts: `linux/netfilter/nfnetlink_conntrack.h`, `linux/netfilter/nf_conntrack_common.h`.

use std::net::IpAddr;

use super::message::{array, attributes};

const CTA_TUPLE_ORIG: u16 = 1;
const CTA_TUPLE_REPLY: u16 = 2;
const CTA_TUPLE_IP: u16 = 1;
const CTA_IP_V4_SRC: u16 = 1;
const CTA_IP_V4_DST: u16 = 2;
const CTA_IP_V6_SRC: u16 = 3;
const CTA_IP_V6_DST: u16 = 4;

/// `IP_CT_IS_REPLY`, and the largest state that a packet of a reply can have.
const REPLIES: std::ops::RangeInclusive<u32> = 3..=5;

/// A destination that address translation replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Translated {
    /// The destination of the connection's packets before, as the router's own address.
    pub from: IpAddr,
    /// The destination after, as the address of a host behind the router.
    pub to: IpAddr,
}

impl Translated {
    /// Reads `NFQA_CT` and `NFQA_CT_INFO`; any bytes are accepted. `None` where nothing is translated.
    ///
    /// Packets of one direction go to the destination of its tuple, and by translation to the source of the other tuple: replies to
    /// that come from there.
    pub(super) fn read(connection: &[u8], info: u32) -> Option<Self> {
        let (mut original, mut reply) = (None, None);
        for (kind, value) in attributes(connection) {
            match kind {
                CTA_TUPLE_ORIG => original = addresses(value),
                CTA_TUPLE_REPLY => reply = addresses(value),
                _ => {}
            }
        }
        let (of_packet, of_answers) = match REPLIES.contains(&info) {
            true => (reply?, original?),
            false => (original?, reply?),
        };
        let ((_, from), (to, _)) = (of_packet, of_answers);
        let is_one_family = from.is_ipv4() == to.is_ipv4();
        (from != to && is_one_family && !from.is_unspecified()).then_some(Self { from, to })
    }
}

/// Source and destination of a tuple.
fn addresses(tuple: &[u8]) -> Option<(IpAddr, IpAddr)> {
    let (_, ip) = attributes(tuple).find(|(kind, _)| *kind == CTA_TUPLE_IP)?;
    let (mut source, mut destination) = (None, None);
    for (kind, value) in attributes(ip) {
        let v4 = || array::<4>(value, 0).map(IpAddr::from);
        let v6 = || array::<16>(value, 0).map(IpAddr::from);
        match kind {
            CTA_IP_V4_SRC => source = v4(),
            CTA_IP_V4_DST => destination = v4(),
            CTA_IP_V6_SRC => source = v6(),
            CTA_IP_V6_DST => destination = v6(),
            _ => {}
        }
    }
    Some((source?, destination?))
}

#[cfg(test)]
pub(super) mod tests {
    use std::net::Ipv4Addr;

    use proptest::prelude::*;

    use super::*;

    const HOST: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 168, 1, 7));
    const ROUTER: IpAddr = IpAddr::V4(Ipv4Addr::new(203, 0, 113, 1));
    const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 9));

    pub fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend((4 + value.len() as u16).to_ne_bytes());
        out.extend(kind.to_ne_bytes());
        out.extend(value);
        out.resize(out.len().next_multiple_of(4), 0);
        out
    }

    fn octets(address: IpAddr) -> Vec<u8> {
        match address {
            IpAddr::V4(v4) => v4.octets().to_vec(),
            IpAddr::V6(v6) => v6.octets().to_vec(),
        }
    }

    /// A connection as the kernel writes it: nested attributes have a flag, and a tuple has its ports too.
    pub fn connection(original: [IpAddr; 2], reply: [IpAddr; 2]) -> Vec<u8> {
        const NESTED: u16 = 1 << 15;
        let tuples = [(CTA_TUPLE_ORIG, original), (CTA_TUPLE_REPLY, reply)];
        let tuples = tuples.map(|(kind, [source, destination])| {
            let first = match source {
                IpAddr::V4(_) => CTA_IP_V4_SRC,
                IpAddr::V6(_) => CTA_IP_V6_SRC,
            };
            let ip = [
                attribute(first, &octets(source)),
                attribute(first + 1, &octets(destination)),
            ];
            let ports = [attribute(1, &[6]), attribute(2, &[1, 187])];
            let tuple = [
                attribute(CTA_TUPLE_IP | NESTED, &ip.concat()),
                attribute(2 | NESTED, &ports.concat()),
            ];
            attribute(kind | NESTED, &tuple.concat())
        });
        // CTA_STATUS behind them.
        [tuples.concat(), attribute(3, &[0, 0, 0, 14])].concat()
    }

    #[test]
    fn an_answer_to_a_masqueraded_host_goes_on_to_it() {
        let connection = connection([HOST, SERVER], [SERVER, ROUTER]);
        let expected = Translated {
            from: ROUTER,
            to: HOST,
        };
        for info in 3..=5 {
            assert_eq!(Translated::read(&connection, info), Some(expected));
        }
        // The host's own packets keep their destination.
        for info in [0, 1, 2, 7] {
            assert_eq!(Translated::read(&connection, info), None);
        }
    }

    #[test]
    fn a_packet_to_a_forwarded_port_goes_on_to_its_host() {
        let connection = connection([SERVER, ROUTER], [HOST, SERVER]);
        let expected = Translated {
            from: ROUTER,
            to: HOST,
        };
        assert_eq!(Translated::read(&connection, 0), Some(expected));
        assert_eq!(Translated::read(&connection, 3), None);
    }

    #[test]
    fn a_connection_that_is_not_translated_changes_nothing() {
        let six: IpAddr = "2001:db8::1".parse().unwrap();
        let seven: IpAddr = "2001:db8::2".parse().unwrap();
        let plain = connection([HOST, SERVER], [SERVER, HOST]);
        let v6 = connection([six, seven], [seven, six]);
        for info in 0..8 {
            assert_eq!(Translated::read(&plain, info), None);
            assert_eq!(Translated::read(&v6, info), None);
        }
        let prefix = connection([six, seven], [seven, "2001:db8::3".parse().unwrap()]);
        let to = Translated::read(&prefix, 3).unwrap().to;
        assert_eq!(to, six);
    }

    #[test]
    fn a_connection_of_two_families_is_none() {
        let [six, seven] = ["2001:db8::1", "2001:db8::2"].map(|one| one.parse().unwrap());
        let mixed = connection([HOST, SERVER], [six, seven]);
        assert_eq!(Translated::read(&mixed, 3), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
            changes in proptest::collection::vec((0usize..150, any::<u8>()), 0..8),
            cut in 0usize..150,
            info: u32,
        ) {
            Translated::read(&bytes, info);
            let mut whole = connection([HOST, SERVER], [SERVER, ROUTER]);
            for (at, byte) in changes {
                if let Some(slot) = whole.get_mut(at) {
                    *slot = byte;
                }
            }
            whole.truncate(cut);
            Translated::read(&whole, info);
        }
    }
}
