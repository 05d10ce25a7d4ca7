// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks of the machine: what the kernel and the tools can do for the interfaces.

use std::fs;
use std::path::Path;

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

/// Whether the kernel whose files are below `root` has a module, loaded or to be loaded; `None`: its list of modules is not there, as in a
/// container.
fn has_module(root: &Path, name: &str) -> Option<bool> {
    if root.join("sys/module").join(name).exists() {
        return Some(true);
    }
    let release = fs::read_to_string(root.join("proc/sys/kernel/osrelease")).ok()?;
    let folder = root.join("lib/modules").join(release.trim());
    // Lines of modules.dep(5): `kernel/net/sched/sch_cake.ko.xz: ...`; a module that is built in has one in the other file alone.
    let [built_in, loadable] =
        ["modules.builtin", "modules.dep"].map(|list| fs::read_to_string(folder.join(list)));
    let lists = [built_in.unwrap_or_default(), loadable.ok()?];
    let file = format!("/{name}.ko");
    let is_it = |line: &str| {
        let path = line.split(':').next().unwrap_or_default();
        path.split_once(&file)
            .is_some_and(|(_, end)| end.is_empty() || end.starts_with('.'))
    };
    Some(lists.iter().any(|list| list.lines().any(is_it)))
}

/// Checks the modules that the kernel's cake, and downloads in the kernel, take.
fn check_modules(root: &Path, all: &[Wanted], has_qdiscs: bool) -> Vec<Finding> {
    let is_cake = |one: &&Wanted| one.backend == Backend::Cake;
    let in_the_kernel = |one: &&Wanted| match one.backend {
        Backend::Bpf | Backend::Cake => true,
        Backend::Auto => has_qdiscs && one.program().is_some(),
        Backend::Nfqueue => false,
    };
    let cakes: Vec<_> = all.iter().filter(is_cake).collect();
    let kernels = all.iter().filter(in_the_kernel);
    let downloads: Vec<_> = kernels.filter(|one| one.download.is_some()).collect();
    let mut found = Vec::new();
    for (check, module, option, wanted, what) in [
        ("cake", "sch_cake", "CONFIG_NET_SCH_CAKE", cakes, "cake"),
        (
            "ifb",
            "ifb",
            "CONFIG_IFB",
            downloads,
            "ifb devices, where downloads wait",
        ),
    ] {
        if wanted.is_empty() {
            continue;
        }
        // `auto` takes the packet queue.
        let state = match wanted.iter().all(|one| one.backend == Backend::Auto) {
            true => State::Warning,
            false => State::Fault,
        };
        match has_module(root, module) {
            Some(true) => found.push(Finding::good(check, format!("this kernel has {what}"))),
            Some(false) => found.push(Finding::bad(
                check,
                state,
                format!("this kernel has no {what}"),
                format!("a kernel with {option}, `modprobe {module}`; or backend = \"nfqueue\""),
            )),
            None => {}
        }
    }
    found
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
    found.extend(check_modules(Path::new("/"), all, tried.is_ok()));
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

#[cfg(test)]
mod tests {
    use makeway_core::units::Rate;

    use super::*;

    #[test]
    fn a_module_is_loaded_built_in_to_be_loaded_missing_or_nothing_tells() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        assert_eq!(has_module(root, "ifb"), None);
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("proc/sys/kernel/osrelease", "6.1.0-9\n");
        assert_eq!(has_module(root, "ifb"), None);
        write(
            "lib/modules/6.1.0-9/modules.dep",
            "kernel/net/sched/sch_cake.ko.xz: kernel/net/x.ko.xz\nkernel/drivers/net/ifb.ko:\nkernel/net/sched/sch_htb2.ko: kernel/sch_htb.ko\n",
        );
        assert_eq!(has_module(root, "sch_cake"), Some(true));
        assert_eq!(has_module(root, "ifb"), Some(true));
        assert_eq!(has_module(root, "sch_htb"), Some(false));
        write("lib/modules/6.1.0-9/modules.builtin", "kernel/sch_htb.ko\n");
        assert_eq!(has_module(root, "sch_htb"), Some(true));
        write("sys/module/sch_tbf/refcnt", "0\n");
        assert_eq!(has_module(root, "sch_tbf"), Some(true));
    }

    #[test]
    fn cake_and_ifb_are_looked_for_where_packets_would_wait_in_them() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        for (path, text) in [
            ("proc/sys/kernel/osrelease", "6.1.0-9\n"),
            ("lib/modules/6.1.0-9/modules.dep", ""),
        ] {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let of = |backend, download: bool, has_qdiscs| {
            let wanted = Wanted {
                backend,
                download: download.then(|| Rate::from_bps(9_000_000)),
                ..Wanted::nothing("wan0")
            };
            let found = check_modules(root, &[wanted], has_qdiscs);
            let each = found.iter().map(|one| (one.check, one.state));
            each.collect::<Vec<_>>()
        };
        let fault = State::Fault;
        assert_eq!(of(Backend::Cake, false, false), [("cake", fault)]);
        assert_eq!(
            of(Backend::Cake, true, false),
            [("cake", fault), ("ifb", fault)]
        );
        assert_eq!(of(Backend::Bpf, true, true), [("ifb", fault)]);
        assert!(of(Backend::Nfqueue, true, true).is_empty());
        // It takes the packet queue without them.
        assert!(of(Backend::Auto, true, false).is_empty());
        if bpf::has_program(Discipline::Makeway) {
            assert_eq!(of(Backend::Auto, true, true), [("ifb", State::Warning)]);
        }
        let wanted = Wanted {
            backend: Backend::Cake,
            ..Wanted::nothing("wan0")
        };
        let found = &check_modules(root, &[wanted], false)[0];
        assert_eq!(found.found, "this kernel has no cake");
        assert!(
            found.repair.contains("`modprobe sch_cake`"),
            "{}",
            found.repair
        );
    }
}
