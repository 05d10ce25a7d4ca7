//! QUIC datagrams.
