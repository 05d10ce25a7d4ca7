// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks of the machine: what the kernel and the tools can do for the interfaces.

use makeway_core::sched::Discipline;

use super::{Finding, State, Wanted};
use crate::bpf;
use crate::control::protocol::Backend;
use crate::datapath::nfqueue::{Asked, Queue};
use crate::rules;

/// The first number tried: out of the way of people's own small numbers.
const FIRST_QUEUE: u16 = 0x4d57;

impl Wanted {
    /// Discipline whose BPF program the kernel would be asked for, if it would.
    fn program(&self) -> Option<Discipline> {
        let discipline = self.discipline.unwrap_or(Discipline::Makeway);
        match self.backend {
            Backend::Bpf => Some(discipline),
            Backend::Auto => Some(discipline).filter(|one| bpf::has_program(*one)),
            Backend::Cake | Backend::Nfqueue => None,
        }
    }

    /// Whether its packets would wait in a packet queue, or might if the kernel has no cake.
    fn is_for_the_packet_queue(&self) -> bool {
        match self.backend {
            Backend::Auto => self.program().is_none(),
            backend => backend == Backend::Nfqueue,
        }
    }
}

/// Checks the parts of the machine that `all` need; the packet queue, if there are none.
pub(super) fn check(all: &[Wanted]) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut programs: Vec<_> = all.iter().filter_map(Wanted::program).collect();
    programs.dedup();
    let tried = programs.iter().try_for_each(|one| bpf::try_one(*one));
    if !programs.is_empty() {
        // Where nothing else is asked for, the packet queue takes its place.
        let state = match all.iter().any(|one| one.backend == Backend::Bpf) {
            true => State::Fault,
            false => State::Warning,
        };
        found.push(match &tried {
            Ok(()) => Finding::good("qdiscs", "this kernel takes makeway's qdiscs"),
            Err(error) => Finding::of_error("qdiscs", state, error),
        });
    }
    let is_needed = tried.is_err() || all.iter().any(Wanted::is_for_the_packet_queue);
    if !all.is_empty() && !is_needed {
        return found;
    }
    found.push(match Queue::bind_free(FIRST_QUEUE, 1, Asked::default()) {
        Ok(_) => Finding::good("packet-queue", "this kernel has packet queues"),
        Err(error) => Finding::of_error("packet-queue", State::Fault, &error),
    });
    let tools = rules::tool_names();
    found.push(match tools.is_empty() {
        true => Finding::of_error("rules-tool", State::Fault, &rules::RulesError::NoTool),
        false => Finding::good("rules-tool", tools.join(", ")),
    });
    found
}
