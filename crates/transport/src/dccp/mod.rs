//! DCCP (RFC 4340) in user space, with CCID 2 (RFC 4341) and CCID 3 (RFC 4342).
//!
//! Bytes come in and go out, time is an argument: who owns a socket or an interface drives a connection.

pub mod option;
mod seq;
pub mod wire;

pub use seq::Seq;
