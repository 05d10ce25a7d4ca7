// SPDX-License-Identifier: MIT OR Apache-2.0
#![doc = include_str!("../README.md")]
//! # Modules
//!
//! - [`rtp`]: RTP over UDP, with feedback by TWCC or RFC 8888;
//! - [`dccp`]: DCCP (RFC 4340) in user space, CCID 2 and 3, over IP or over UDP (RFC 6773);
//! - [`framed`]: frames of media in a stream of bytes, as `makeway send --stdin` reads them.

pub mod dccp;
pub mod framed;
mod network;
pub mod rtp;
