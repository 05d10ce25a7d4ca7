// SPDX-License-Identifier: MIT OR Apache-2.0
//! Currencies: changes by a link to the tags of the packets that it carries (sections 2.5, 2.8).

use super::{Codec, Due, TicketRate, Tsw, scale};
use crate::packet::Tag;
use crate::units::{Bytes, Duration, Instant};

/// Trades the tickets of a link's packets for those of the next hop.
///
/// It counts departures of the link, not arrivals at its queue: dropped tickets are not traded, and
/// those that leave are all tickets that the next hop issued.
#[derive(Clone, Debug)]
pub struct Relabeller {
    out: Due,
    codec: Codec,
    /// `InTktRate`.
    came: Tsw,
    /// `ActualTktRate`; kept where the link is policed.
    sent: Option<Tsw>,
}

impl Relabeller {
    /// A link that the next hop issues `out`; with `policing` it holds to that where tags cannot say what they should.
    pub fn new(out: TicketRate, window: Duration, policing: bool, codec: Codec) -> Self {
        Self {
            out: Due::Issued(out),
            codec,
            came: Tsw::new(window),
            sent: policing.then(|| Tsw::new(window)),
        }
    }

    /// From now on the next hop issues `out`.
    pub fn issue(&mut self, out: TicketRate) {
        self.out = Due::Issued(out);
    }

    /// A link whose data is relabelled by what its acknowledgements carry, see [`Relabeller::hear`].
    pub fn by_receiver(window: Duration, policing: bool, codec: Codec) -> Self {
        Self {
            out: Due::Heard(Tsw::new(window)),
            codec,
            came: Tsw::new(window),
            sent: policing.then(|| Tsw::new(window)),
        }
    }

    /// `OutTktRate = AckInTktRate`, which `acks` has seen: it relabels the acknowledgements that come the other way.
    pub fn hear(&mut self, acks: &Self) {
        self.out = Due::Heard(acks.came.clone());
    }

    /// The tag that the packet of `len`, or [`super::ACK`], goes on with. Without tickets it stays so.
    pub fn relabel(&mut self, now: Instant, tag: Tag, len: Bytes) -> Tag {
        let came = self.codec.decode(tag);
        self.came.count(now, came.of(len));
        // OutTkt = InTkt × OutTktRate / InTktRate
        let out = self.out.in_window(&self.came);
        if out == 0 {
            // Nothing was heard yet.
            return tag;
        }
        let mut tickets = scale(came, out, &self.came);
        if let Some(sent) = &self.sent {
            tickets = scale(tickets, out, sent);
        }
        let tag = self.codec.encode(tickets);
        if let Some(sent) = &mut self.sent {
            sent.count(now, self.codec.decode(tag).of(len));
        }
        tag
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ticket::{Scale, Tickets};

    const KB: Bytes = Bytes::new(1000);

    fn codec() -> Codec {
        Codec::new(16, Scale::Linear).unwrap()
    }

    /// Tickets per second that leave of each source, whose packets a second and tags are given.
    fn leaves(out: u32, policing: bool, codec: Codec, sources: &[(u64, Tag)]) -> Vec<f64> {
        let out = TicketRate::new(out).unwrap();
        let mut link = Relabeller::new(out, Duration::from_secs(10), policing, codec);
        let mut left = vec![0.0; sources.len()];
        for ms in 0..180_000 {
            for (&(rate, tag), left) in sources.iter().zip(&mut left) {
                if ms * rate / 1000 == (ms + 1) * rate / 1000 {
                    continue;
                }
                let now = Instant::ZERO + Duration::from_millis(ms);
                let tag = link.relabel(now, tag, KB);
                if ms >= 120_000 {
                    *left += codec.decode(tag).as_f64() / 60.0;
                }
            }
        }
        left
    }

    #[test]
    fn tickets_of_figure_2_become_600_and_300() {
        // A and B hold 1000 and 500 of S3's on (S3, S5), which is issued 900 by S5. The rates do not matter.
        let of = |tickets: u32, rate: u64| {
            let tickets = Tickets::from_scaled(u128::from(tickets << 16) / u128::from(rate));
            (rate, codec().encode(tickets))
        };
        let left = leaves(900, false, codec(), &[of(1000, 62), of(500, 25)]);
        for (left, expected) in left.iter().zip([600.0, 300.0]) {
            assert!((left / expected - 1.0).abs() < 0.005, "{left} {expected}");
        }
    }

    #[test]
    fn a_source_that_writes_what_it_likes_takes_from_its_own_link_only() {
        // One alone, that writes the most on each packet: the next hop hears of what the link was issued.
        let most = codec().most();
        let left = leaves(100, false, codec(), &[(50, most)]);
        assert!((left[0] / 100.0 - 1.0).abs() < 0.005, "{left:?}");
        // Beside an honest one of the same rate on the same link it has what it writes.
        let left = leaves(100, false, codec(), &[(50, most), (50, Tag(most.0 / 9))]);
        assert!((left[0] - 90.0).abs() < 0.5 && (left[1] - 10.0).abs() < 0.5);
    }

    #[test]
    fn policing_makes_up_for_what_tags_cannot_say() {
        // 2.4 tickets in whole ones: a sixth too few without policing. With it 3 are written as often as it takes to
        // keep 2.4 × 120 / ActualTktRate near to 2.5, half way between two codes.
        let coarse = Codec::new(8, Scale::Linear).unwrap();
        let free = leaves(120, false, coarse, &[(50, Tag(10))]);
        assert!((free[0] - 100.0).abs() < 0.1, "{free:?}");
        let policed = leaves(120, true, coarse, &[(50, Tag(10))]);
        assert!((policed[0] / 115.2 - 1.0).abs() < 0.02, "{policed:?}");
    }

    #[test]
    fn what_has_no_tickets_is_given_none() {
        let mut link = Relabeller::new(TicketRate::new(9).unwrap(), Tsw::WINDOW, true, codec());
        assert_eq!(link.relabel(Instant::ZERO, Tag(0), KB), Tag(0));
    }

    #[test]
    fn data_is_relabelled_by_the_other_rate_of_its_acknowledgements() {
        // Fig. 3: over (S5, S3), issued 900 by S5, S3 sends acknowledgements with 1000 and 500 of its own; data with
        // 600 and 300 is to leave with as many as that.
        let window = Duration::from_secs(10);
        let issued = TicketRate::new(900).unwrap();
        let mut acks = Relabeller::new(issued, window, false, codec());
        let mut data = Relabeller::by_receiver(window, false, codec());
        let tag = |tickets: u32, rate: u32| {
            codec().encode(Tickets::from_scaled(
                u128::from(tickets << 16) / u128::from(rate),
            ))
        };
        let mut left = [[0.0; 2]; 2];
        for ms in 0..180_000 {
            let now = Instant::ZERO + Duration::from_millis(ms);
            for (flow, rate, ack, sent) in [(0, 50, 1000, 600), (1, 20, 500, 300)] {
                if ms % u64::from(1000 / rate) != 0 {
                    continue;
                }
                let back = acks.relabel(now, tag(ack, rate), crate::ticket::ACK);
                data.hear(&acks);
                let forth = data.relabel(now, tag(sent, rate), KB);
                if ms >= 120_000 {
                    left[0][flow] += codec().decode(back).as_f64() / 60.0;
                    left[1][flow] += codec().decode(forth).as_f64() / 60.0;
                }
            }
        }
        for (left, expected) in left
            .as_flattened()
            .iter()
            .zip([600.0, 300.0, 1000.0, 500.0])
        {
            assert!((left / expected - 1.0).abs() < 0.005, "{left} {expected}");
        }
    }
}
