//! RTP over UDP.
