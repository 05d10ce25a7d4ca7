// SPDX-License-Identifier: MIT OR Apache-2.0
//! Senders and receivers together, over a pipe.

mod drops;
mod ns2;
mod pipe;
mod properties;
mod recovery;
mod rules;
mod throughput;
