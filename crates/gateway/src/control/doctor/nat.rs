// SPDX-License-Identifier: MIT OR Apache-2.0
//! Check of users behind address translation, where the kernel shapes by BPF qdiscs.

use std::path::Path;

use super::{Finding, State, Wanted};
use crate::control::protocol::Status;
use crate::protocol::{CONNTRACK, NO_CONNECTIONS};

/// Nothing where no user or flow is a host that could be behind a router.
pub(super) fn check(wanted: &Wanted, status: &Status) -> Option<Finding> {
    judge(wanted, status, Path::new(CONNTRACK).exists())
}

/// `has_connections`: the kernel tracks connections now.
fn judge(wanted: &Wanted, status: &Status, has_connections: bool) -> Option<Finding> {
    let each = status.directions.iter();
    let hosts: Vec<_> = each.filter(|one| one.nat.is_some()).collect();
    if hosts.is_empty() {
        return None;
    }
    let Some(why) = hosts.iter().find_map(|one| one.by_outer_address()) else {
        return Some(Finding::good("nat", "users behind NAT: by connections"));
    };
    // A machine without connections translates no addresses.
    if why == NO_CONNECTIONS && !has_connections {
        let found = format!("users are addresses of packets: {NO_CONNECTIONS}");
        return Some(Finding::good("nat", found));
    }
    let why = match why {
        NO_CONNECTIONS => "nf_conntrack was not loaded when makeway started",
        why => why,
    };
    let again = wanted.start_again();
    let repair = match why.contains("CAP_SYS_ADMIN") {
        true => format!("sudo makeway pin-nat, then {again}"),
        false => again,
    };
    Some(Finding::bad(
        "nat",
        State::Warning,
        format!("users behind NAT: by outer address, since {why}"),
        format!("{repair}; or backend = \"nfqueue\""),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::protocol::DirectionStatus;

    #[test]
    fn users_behind_nat_are_a_warning_where_they_could_be_known_and_are_not() {
        let judged = |nats: &[&str], has_connections| {
            let directions = nats.iter().map(|nat| DirectionStatus {
                nat: (!nat.is_empty()).then(|| nat.parse().unwrap()),
                ..DirectionStatus::default()
            });
            let status = Status {
                directions: directions.collect(),
                ..Status::default()
            };
            judge(&Wanted::nothing("wan0"), &status, has_connections)
        };
        let of = |nats: &[&str]| judged(nats, true);
        assert_eq!(of(&[]), None);
        assert_eq!(of(&["", ""]), None);
        for known in [&["connections"][..], &["", "connections"]] {
            assert_eq!(of(known).unwrap().state, State::Good, "{known:?}");
        }
        let without = ["packets: nf_conntrack is not loaded", ""];
        let none = judged(&without, false).unwrap();
        assert_eq!((none.check, none.state), ("nat", State::Good));
        let late = of(&without).unwrap();
        assert_eq!(late.state, State::Warning);
        let repair = "makeway down wan0, then makeway up wan0 again; or backend = \"nfqueue\"";
        assert_eq!(late.repair, repair);
        assert!(late.found.ends_with("was not loaded when makeway started"));
        let bad = of(&["connections", "packets: loading needs CAP_SYS_ADMIN"]).unwrap();
        assert_eq!(bad.state, State::Warning);
        let found = "by outer address, since loading needs CAP_SYS_ADMIN";
        assert!(bad.found.ends_with(found), "{}", bad.found);
        let repair = "sudo makeway pin-nat, then makeway down wan0, then makeway up wan0 again";
        assert!(bad.repair.starts_with(repair), "{}", bad.repair);
    }
}
