// SPDX-License-Identifier: MIT OR Apache-2.0
//! The file of `makeway run --sweep`: keys with their values, and replications.

use std::path::Path;

use serde::Deserialize;
use toml::Value;

use crate::error::StoreError;
use crate::plan::{Axis, LARGEST_TEXT};

/// Replications where the file has no number.
const REPLICATIONS: u64 = 10;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    replications: Option<u64>,
    #[serde(default)]
    axis: Vec<Listed>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Listed {
    key: String,
    values: Vec<Value>,
}

/// Axes and replications of the file at `path`.
///
/// # Errors
/// It cannot be read, or is not of this form: the place, and an example.
pub fn load(path: &Path) -> Result<(Vec<Axis>, u64), StoreError> {
    let text = makeway_scenario::text_of(path, LARGEST_TEXT)
        .map_err(|error| StoreError::file(path, error))?;
    parse(&text).map_err(|why| {
        StoreError::refused(format!(
            "{}: {why}\nwrite `replications = 20` and, for each key, `[[axis]]` with `key = \"link.line.rate\"` and `values = [\"1mbit\", \"10mbit\"]`",
            path.display()
        ))
    })
}

fn parse(text: &str) -> Result<(Vec<Axis>, u64), String> {
    let file: File =
        toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())?;
    let as_setting = |value: Value| match value {
        Value::String(text) => text,
        other => other.to_string(),
    };
    let axes = file.axis.into_iter().map(|listed| Axis {
        key: listed.key,
        values: listed.values.into_iter().map(as_setting).collect(),
    });
    Ok((axes.collect(), file.replications.unwrap_or(REPLICATIONS)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::axis;

    #[test]
    fn a_file_without_an_end_is_refused() {
        let refused = load(Path::new("/dev/zero")).unwrap_err().to_string();
        assert!(refused.contains("longer than 1 MB"), "{refused}");
    }

    #[test]
    fn values_are_as_after_set() {
        let text = "replications = 3\n[[axis]]\nkey = \"flow.a.count\"\nvalues = [1, 20]\n[[axis]]\nkey = \"link.line.queue\"\n\
            values = [{ at = \"a\", limit = 5 }, \"x\", true, [\"1mbit\", 2.5]]\n";
        let (axes, replications) = parse(text).unwrap();
        assert_eq!(replications, 3);
        assert_eq!(axes[0], axis("flow.a.count", &["1", "20"]));
        assert_eq!(
            axes[1],
            axis(
                "link.line.queue",
                &["{ at = \"a\", limit = 5 }", "x", "true", "[\"1mbit\", 2.5]"]
            )
        );
        assert_eq!(parse("").unwrap(), (Vec::new(), REPLICATIONS));
    }

    #[test]
    fn a_mistake_has_its_line() {
        for (text, words) in [
            ("replication = 3", "unknown field `replication`"),
            ("[[axis]]\nkey = \"a\"", "missing field `values`"),
            ("[[axis]]\nkey = \"a\"\nvalues = 3", "line 3"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }
}
