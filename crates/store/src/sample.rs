// SPDX-License-Identifier: MIT OR Apache-2.0
//! A short scenario for tests.

use crate::plan::{Axis, Source};

const TEXT: &str = r#"
title = "A call beside a download"
duration = "2s"
warmup = "500ms"

[node.server]
[node.client]

[link.line]
between = ["server", "client"]
rate = "2mbit"
delay = "10ms"
queue = { at = "server", discipline = "fifo", limit = "50 packets" }

[flow.call]
kind = "poisson"
from = "server"
to = "client"
rate = "80kbit"

[flow.download]
kind = "bulk"
from = "server"
to = "client"
"#;

pub(crate) fn source() -> Source {
    Source {
        file: "sample.toml".into(),
        folder: ".".into(),
        text: TEXT.into(),
        set: Vec::new(),
    }
}

pub(crate) fn axis(key: &str, values: &[&str]) -> Axis {
    Axis {
        key: key.into(),
        values: values.iter().map(|&value| value.to_owned()).collect(),
    }
}
