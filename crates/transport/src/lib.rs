// SPDX-License-Identifier: MIT OR Apache-2.0
#![doc = include_str!("../README.md")]
//! # Modules
//!
//! - [`rtp`]: RTP over UDP, with feedback by TWCC or RFC 8888;
//! - [`dccp`]: DCCP (RFC 4340) in user space, CCID 2 and 3, over IP or over UDP (RFC 6773);
//! - [`framed`]: frames of media in a stream of bytes, as `makeway send --stdin` reads them.

#[cfg(not(target_os = "linux"))]
compile_error!(
    "makeway-transport runs on Linux only, whose sockets it drives: elsewhere take makeway-quinn, or drive makeway_core::send::Sender over a \
     socket of your own"
);

// Elsewhere nothing but the sentence above.
#[cfg(target_os = "linux")]
pub mod dccp;
#[cfg(target_os = "linux")]
pub mod framed;
#[cfg(target_os = "linux")]
mod network;
#[cfg(target_os = "linux")]
pub mod rtp;
