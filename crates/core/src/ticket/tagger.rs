// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tickets that a source writes on its packets: its issue divided by the bytes that get through (sections 2.3, 2.8).

use super::{ACK, Codec, Due, TicketRate, Tickets, Tsw};
use crate::packet::Tag;
use crate::units::{Bytes, Duration, Instant};

/// The tagger of one source.
///
/// It is told what has been acknowledged (TCP) or is sent (UDP, section 4), and writes
/// `OutTktRate / AvgRate` tickets on each packet.
///
/// Departure from the paper: its `AvgRate` changes with acknowledgements only, so that a flow whose packets are all
/// lost goes on to say how fast it once was, and loses those as well. Here time that passes in silence counts;
/// [`Tagger::by_acknowledgements`] gives the paper's.
#[derive(Clone, Debug)]
pub struct Tagger {
    out: Due,
    codec: Codec,
    counts_silence: bool,
    /// `AvgRate`.
    through: Tsw,
    /// `ActualTktRate`; kept where the source is policed.
    sent: Option<Tsw>,
}

impl Tagger {
    /// A source that is issued `out`; with `policing` it keeps to that for any loss of its packets.
    pub fn new(out: TicketRate, window: Duration, policing: bool, codec: Codec) -> Self {
        Self {
            out: Due::Issued(out),
            codec,
            counts_silence: true,
            through: Tsw::new(window),
            sent: policing.then(|| Tsw::new(window)),
        }
    }

    /// As the paper has it: `AvgRate` changes when something is acknowledged, and never else.
    #[must_use]
    pub fn by_acknowledgements(mut self) -> Self {
        self.counts_silence = false;
        self
    }

    /// A source whose receiver is issued tickets, and sends them back on acknowledgements (section 2.7).
    pub fn by_receiver(window: Duration, policing: bool, codec: Codec) -> Self {
        Self {
            out: Due::Heard(Tsw::new(window)),
            codec,
            counts_silence: true,
            through: Tsw::new(window),
            sent: policing.then(|| Tsw::new(window)),
        }
    }

    /// An acknowledgement with `tag` has come: `OutTktRate = AckInTktRate`.
    pub fn hear(&mut self, now: Instant, tag: Tag) {
        if let Due::Heard(heard) = &mut self.out {
            heard.count(now, self.codec.decode(tag).of(ACK));
        }
    }

    /// `bytes` on the wire were acknowledged, or are sent by a source that hears of nothing.
    pub fn on_through(&mut self, now: Instant, bytes: Bytes) {
        self.through.count(now, bytes.get());
    }

    /// The tag of the packet of `len` that is sent now.
    pub fn tag(&mut self, now: Instant, len: Bytes) -> Tag {
        let tag = self.codec.encode(self.tickets(now));
        if let Some(sent) = &mut self.sent {
            sent.count(now, self.codec.decode(tag).of(len));
        }
        tag
    }

    /// `OutTkt = OutTktRate / AvgRate`, and with policing `× OutTktRate / ActualTktRate`.
    fn tickets(&self, now: Instant) -> Tickets {
        let out = self.out.in_window(&self.through);
        // Nothing got through: as many as can be said.
        let through = if self.counts_silence {
            self.through.in_window_at(now)
        } else {
            self.through.in_window()
        };
        let Some(tickets) = (out << Tsw::BITS).checked_div(through) else {
            return Tickets::MAX;
        };
        match &self.sent {
            Some(sent) => super::scale(Tickets::from_scaled(tickets), out, sent),
            None => Tickets::from_scaled(tickets),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ticket::Scale;

    const KB: Bytes = Bytes::new(1000);

    /// Tickets per second on what a source of 100 tickets/s sends at `sent` packets a second, of which one in `every`
    /// gets through, over the last of three minutes.
    fn issued(sent: u64, every: u64, policing: bool, codec: Codec) -> f64 {
        let out = TicketRate::new(100).unwrap();
        let mut tagger = Tagger::new(out, Duration::from_secs(10), policing, codec);
        let mut tickets = 0.0;
        for n in 0..sent * 180 {
            let now = Instant::from_nanos(n * 1_000_000_000 / sent);
            let tag = tagger.tag(now, KB);
            if n % every == 0 {
                tagger.on_through(now, KB);
            }
            if n >= sent * 120 {
                tickets += codec.decode(tag).as_f64();
            }
        }
        tickets / 60.0
    }

    #[test]
    fn a_source_spends_what_it_is_issued_whatever_its_rate() {
        let codec = Codec::new(16, Scale::Linear).unwrap();
        for sent in [1, 10, 50] {
            let spent = issued(sent, 1, false, codec);
            // The silence before each packet counts: `gap / WinLength` too much.
            let expected = 100.0 * (1.0 + 0.1 / sent as f64);
            assert!((spent / expected - 1.0).abs() < 0.001, "{sent}: {spent}");
        }
    }

    #[test]
    fn policing_holds_what_is_spent_nearer_to_what_is_issued_where_packets_are_lost() {
        // Half of them get through: twice the tickets without policing. With it Out / Avg × Out / Actual settles
        // where its square is that: the root of 2.
        let codec = Codec::new(16, Scale::Linear).unwrap();
        let free = issued(20, 2, false, codec);
        assert!((free / 200.0 - 1.0).abs() < 0.01, "{free}");
        let policed = issued(20, 2, true, codec);
        assert!((policed / 141.42 - 1.0).abs() < 0.01, "{policed}");
    }

    #[test]
    fn silence_counts_unless_it_is_the_papers_source() {
        // 100 packets a second until the estimate has settled, then nothing for a window of 10 s: half the rate.
        let codec = Codec::new(16, Scale::Linear).unwrap();
        let out = TicketRate::new(100).unwrap();
        let own = Tagger::new(out, Duration::from_secs(10), false, codec);
        for (tagger, tickets) in [(own.clone(), 2.0), (own.by_acknowledgements(), 1.0)] {
            let mut tagger = tagger;
            let mut now = Instant::ZERO;
            for _ in 0..20_000 {
                now += Duration::from_millis(10);
                tagger.on_through(now, KB);
            }
            let tag = tagger.tag(now + Duration::from_secs(10), KB);
            let said = codec.decode(tag).as_f64();
            assert!((said / tickets - 1.0).abs() < 0.01, "{said} {tickets}");
        }
    }

    #[test]
    fn a_source_of_which_nothing_gets_through_says_as_much_as_can_be_said() {
        let codec = Codec::default();
        let mut tagger = Tagger::new(TicketRate::new(1).unwrap(), Tsw::WINDOW, false, codec);
        assert_eq!(tagger.tag(Instant::ZERO, KB), codec.most());
    }

    #[test]
    fn a_source_spends_what_its_receiver_sends_back() {
        // 30 packets a second, each acknowledged with 10/3 tickets: 100 a second.
        let codec = Codec::new(16, Scale::Linear).unwrap();
        let mut tagger = Tagger::by_receiver(Duration::from_secs(10), false, codec);
        let ack = codec.encode(Tickets::from_scaled((10 << Tickets::BITS) / 3));
        let mut tickets = 0.0;
        for n in 0..30 * 180 {
            let now = Instant::from_nanos(n * 1_000_000_000 / 30);
            let tag = tagger.tag(now, KB);
            tagger.on_through(now, KB);
            tagger.hear(now, ack);
            if n >= 30 * 120 {
                tickets += codec.decode(tag).as_f64() / 60.0;
            }
        }
        assert!((tickets / 100.0 - 1.0).abs() < 0.01, "{tickets}");
    }
}
