// SPDX-License-Identifier: MIT OR Apache-2.0
//! Qdiscs that an interface had before: which are ours, which can be made again, and how they come back.

use std::io;

use crate::bpf::cake;
use crate::bpf::netlink::{self, Found, ROOT};
use crate::bpf::record::is_ours;

/// Kinds that are made again as they were: without classes, and told with everything that makes them.
const RESTORABLE: [&str; 15] = [
    "bfifo",
    "cake",
    "codel",
    "fq",
    "fq_codel",
    "fq_pie",
    "hhf",
    "mq",
    "netem",
    "noqueue",
    "pfifo",
    "pfifo_fast",
    "pie",
    "sfq",
    "tbf",
];

impl Found {
    pub(super) fn is_ours(&self) -> bool {
        is_ours(&self.kind) || (self.kind == cake::KIND && self.handle == cake::HANDLE)
    }

    /// Whether it is beside the root, for filters.
    pub(super) fn is_aside(&self) -> bool {
        ["clsact", "ingress"].contains(&self.kind.as_str())
    }

    pub(in crate::bpf) fn is_restorable(&self) -> bool {
        // The kernel makes its own again; clsact and ingress stay in place.
        let by_kernel = self.handle == 0;
        by_kernel || self.is_aside() || RESTORABLE.contains(&self.kind.as_str())
    }
}

/// Puts back what was at the root, and below it, if what is there is ours, or if somebody was killed while he did that.
pub(super) fn restore(index: u32, before: &[Found], resumed: bool) -> io::Result<()> {
    let now = netlink::qdiscs(index)?;
    let Some(root) = now.first().filter(|first| first.is_root()) else {
        return Ok(());
    };
    // The kernel makes its own again; clsact and ingress are not below the root.
    let made = |one: &&Found| one.handle != 0 && (one.is_root() || one.parent >> 16 != 0xffff);
    let made: Vec<&Found> = before.iter().filter(made).collect();
    let first = made.first().filter(|first| first.is_root());
    let is_back =
        first.is_some_and(|first| (&first.kind, first.handle) == (&root.kind, root.handle));
    let is_half_done = resumed && is_back;
    if !root.is_ours() && !is_half_done {
        return Ok(());
    }
    match first {
        // Children are listed behind their parents.
        Some(_) => made
            .into_iter()
            .try_for_each(|one| netlink::attach(index, one)),
        _ => netlink::detach(index, ROOT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(kind: &str, handle: u32) -> Found {
        let mut found = Found::new(kind, ROOT);
        found.handle = handle;
        found
    }

    #[test]
    fn ours_are_known_by_their_kind() {
        assert!(found("makeway2", 0x8001_0000).is_ours());
        assert!(!found("makeway_other", 0).is_ours());
        assert!(!found("makeway", 0).is_ours());
        assert!(!found("fq", 0).is_ours());
        assert!(found("cake", cake::HANDLE).is_ours());
        assert!(!found("cake", 0x8001_0000).is_ours());
    }

    #[test]
    fn what_has_classes_is_not_replaced_unless_the_kernel_made_it() {
        assert!(!found("htb", 0x1_0000).is_restorable());
        assert!(found("mq", 0).is_restorable());
        assert!(found("fq_codel", 0x1_0000).is_restorable());
        let mut clsact = found("clsact", 0xffff_0000);
        clsact.parent = 0xffff_fff1;
        assert!(clsact.is_restorable());
    }
}
