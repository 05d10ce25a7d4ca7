// SPDX-License-Identifier: MIT OR Apache-2.0
//! Status of an instance in words.

use std::collections::BTreeMap;
use std::fmt::Write;

use makeway_core::framing::Cells;
use makeway_core::sched::Discipline;
use makeway_core::units::Rate;
use makeway_gateway::autorate::status::Autorated;
use makeway_gateway::control::protocol::{DirectionStatus, Status};
use makeway_gateway::datapath::FlowStats;
use makeway_gateway::rules::Direction;

use crate::text;

/// `in the kernel (qdisc makeway2 on wan0)`, `in makeway (rules by nft; this kernel has no BPF qdiscs ...)`.
pub fn carrier(status: &Status) -> String {
    if status.backend.is_in_the_kernel() {
        let of = |one: &DirectionStatus| format!("qdisc {} on {}", one.qdisc, one.device);
        let qdiscs: Vec<_> = status.directions.iter().map(of).collect();
        return format!("in the kernel ({})", qdiscs.join(", "));
    }
    match status.why.as_str() {
        "" => format!("in makeway (rules by {})", status.rules),
        why => format!(
            "in makeway (rules by {}) and not in the kernel: {why}",
            status.rules
        ),
    }
}

/// `upload 20mbit by sqf (flows by 5-tuple, limit 166 packets), download unshaped`.
pub fn directions(status: &Status) -> String {
    let each = Direction::BOTH.map(|direction| {
        let mut found = status.directions.iter();
        let found = found.find(|one| one.direction == direction);
        found.map_or(format!("{} unshaped", load(direction)), in_brief)
    });
    each.join(", ")
}

fn in_brief(one: &DirectionStatus) -> String {
    let what = load(one.direction);
    let tags = match one.tags_by.as_str() {
        "" => String::new(),
        tags => format!("; {tags}"),
    };
    match one.stats.rate_bps.map(Rate::from_bps) {
        None => format!("{what} unshaped{tags}"),
        Some(rate) => format!(
            "{what} {rate} by {} ({}, limit {}{tags})",
            discipline(one),
            keys(one),
            text::packets(u64::from(one.limit_packets)),
        ),
    }
}

/// `upload: sqf at 20mbit, flows by 5-tuple, 14 B overhead`.
pub fn headline(one: &DirectionStatus) -> String {
    let mut out = format!("{}: {}", load(one.direction), discipline(one));
    if let Some(bps) = one.stats.rate_bps {
        let _ = write!(out, " at {}", Rate::from_bps(bps));
    }
    let framing = one.framing;
    let _ = write!(out, ", {}, {} B overhead", keys(one), framing.overhead);
    if framing.mpu > 0 {
        let _ = write!(out, ", at least {} B", framing.mpu);
    }
    out += match framing.cells {
        Cells::None => "",
        Cells::Atm => ", atm",
        Cells::Ptm => ", ptm",
    };
    out
}

/// The direction, to the users of a link.
fn load(direction: Direction) -> &'static str {
    match direction {
        Direction::Egress => "upload",
        Direction::Ingress => "download",
    }
}

fn discipline(one: &DirectionStatus) -> &'static str {
    one.stats
        .discipline
        .map_or("no discipline", Discipline::name)
}

/// `flows by 5-tuple, users by src-host`.
fn keys(one: &DirectionStatus) -> String {
    let has_users = |one: Discipline| one.spec().needs().users;
    let users = match one.stats.discipline.is_some_and(has_users) {
        true => format!(", users by {}", one.users_by),
        false => String::new(),
    };
    format!("flows by {}{users}", one.flows_by)
}

/// `users behind NAT: by connections`, or `by outer address` and the reason; for each direction where they differ, and nothing where no
/// user or flow could be such a host.
pub fn nat(directions: &[DirectionStatus]) -> Vec<String> {
    let told = directions.iter().filter(|one| one.nat.is_some());
    let told = told.map(|one| {
        let source = match one.by_outer_address() {
            None => "by connections".into(),
            Some(why) => format!("by outer address, since {why}"),
        };
        (load(one.direction), source)
    });
    let told: Vec<(&str, String)> = told.collect();
    match &told[..] {
        [(_, first), (_, second)] if first == second => vec![format!("users behind NAT: {first}")],
        [(_, only)] => vec![format!("users behind NAT: {only}")],
        all => {
            let each = all.iter();
            each.map(|(what, source)| format!("users behind NAT, {what}: {source}"))
                .collect()
        }
    }
}

/// `none`, or `12 longest-queue, 1 too-large`.
pub fn drops(drops: &BTreeMap<String, u64>) -> String {
    let each = drops.iter().filter(|(_, n)| **n > 0);
    let each: Vec<_> = each
        .map(|(why, n)| format!("{} {why}", text::count(*n)))
        .collect();
    match each.is_empty() {
        true => "none".into(),
        false => each.join(", "),
    }
}

/// `bulk for 12 s: standing queue for 1.2 s`; empty under a discipline that does not judge flows.
pub fn standing(flow: &FlowStats) -> String {
    flow.standing.map_or_else(String::new, |class| {
        format!("{class} for {}: {}", text::span(flow.since_s), flow.reason)
    })
}

/// The controller of the rates, in lines.
pub fn autorate(one: &Autorated) -> String {
    let silent = one.reflectors.iter().filter(|one| one.is_silent).count();
    let asked = one.reflectors.len() - silent;
    let last = match one.last_sample_s {
        None => "no sample yet: rates stay".into(),
        Some(s) if s > 2.0 => format!("no sample for {}: rates stay", text::span(s)),
        Some(_) => format!("{} samples", text::count(one.samples)),
    };
    let mut out = format!(
        "{asked} reflectors answer, {silent} do not; {} TCP connections; feedback of {} calls; {last}\n",
        text::count(one.connections),
        text::count(one.calls)
    );
    for side in &one.directions {
        let standing = side.standing_ms.map_or("unknown".into(), text::millis);
        let _ = writeln!(
            out,
            "{} {} of {} to {}: {}, delay before the link {standing}, {} cuts",
            load(side.direction),
            text::rate(side.rate_bps as f64),
            text::rate(side.least_bps as f64),
            text::rate(side.most_bps as f64),
            side.state,
            text::count(side.cuts)
        );
    }
    if let Some(last) = one.events.last() {
        let _ = writeln!(out, "last change: {}", last);
    }
    out
}

/// Cleanup of an ended instance, in words.
pub fn removed(status: &Status) -> &'static str {
    match status.backend.is_in_the_kernel() {
        true => "its qdisc is removed",
        false => "its rules are removed",
    }
}

/// `12 345 packets sent (18.2 MB), 12 dropped`.
pub fn ended(status: &Status) -> String {
    let sum = |of: fn(&DirectionStatus) -> u64| status.directions.iter().map(of).sum::<u64>();
    format!(
        "{} sent ({}), {} dropped",
        text::packets(sum(|one| one.stats.packets_out)),
        text::size(sum(|one| one.stats.bytes_out)),
        text::count(sum(|one| one.stats.dropped())),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_behind_nat_are_told_of_once() {
        let of = |nats: [&str; 2]| {
            let both = Direction::BOTH.into_iter().zip(nats);
            let both = both.map(|(direction, nat)| DirectionStatus {
                direction,
                nat: (!nat.is_empty()).then(|| nat.parse().unwrap()),
                ..DirectionStatus::default()
            });
            nat(&both.collect::<Vec<_>>())
        };
        let outer = "packets: loading needs CAP_SYS_ADMIN";
        assert_eq!(of(["", ""]), [""; 0]);
        assert_eq!(of(["connections"; 2]), ["users behind NAT: by connections"]);
        let told = "users behind NAT: by outer address, since loading needs CAP_SYS_ADMIN";
        assert_eq!(of([outer; 2]), [told]);
        assert_eq!(of(["", outer]), [told]);
        assert_eq!(
            of(["connections", outer]),
            [
                "users behind NAT, upload: by connections",
                "users behind NAT, download: by outer address, since loading needs CAP_SYS_ADMIN"
            ]
        );
    }
}
