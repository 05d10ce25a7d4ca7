// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any bytes are a request or an answer of the control socket, or neither; what is read is written and read again as it was.

use makeway_gateway::control::protocol::{Answer, Request};
use makeway_gateway::rules::Direction;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub fn run(input: &[u8]) {
    if let Some(Request::Set(settings)) = again::<Request>(input) {
        for shaped in [Direction::Egress, Direction::Ingress] {
            match settings.rates("wan0", |direction| direction == shaped) {
                Ok(rates) => assert!(rates.iter().all(|(direction, rate)| *direction == shaped && rate.bps() > 0)),
                Err(error) => assert!(!error.contains('\n'), "{error}"),
            }
        }
    }
    again::<Answer>(input);
}

/// The message in `input`, if it is one: it is written as one line, and read back unchanged.
fn again<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(input: &[u8]) -> Option<T> {
    let read: T = serde_json::from_slice(input).ok()?;
    let line = serde_json::to_string(&read).unwrap();
    assert!(!line.contains('\n'));
    assert_eq!(serde_json::from_str::<T>(&line).unwrap(), read);
    Some(read)
}
