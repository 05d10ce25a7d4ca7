//! RTP over UDP (RFC 3550), with feedback by TWCC or RFC 8888.
//!
//! [`Sending`] is the sender's side, without a socket. Both sides use one port for RTP and RTCP (RFC 5761) and send
//! feedback in packets of its own (RFC 5506).

mod ccfb;
mod extension;
mod feedback;
mod history;
mod receiving;
mod rtcp;
mod sending;

pub use feedback::Rejected;
pub use receiving::{FeedbackKind, Received, Receiving, ReceivingConfig};
pub use rtcp::NtpEpoch;
pub use sending::{ConfigError, Frame, Sending, SendingConfig, Stats, Stream, StreamStats};

#[cfg(test)]
mod tests;
