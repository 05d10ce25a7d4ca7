// SPDX-License-Identifier: MIT OR Apache-2.0
//! Users of the same machine who want root's makeway to do something for them. Takes real root, in a network namespace of its
//! own; elsewhere it says so and is skipped.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use super::*;

/// User ID of `nobody`.
const STRANGER: u32 = 65534;

/// Whether this process is root of the machine and not of a user namespace.
fn is_root() -> bool {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap();
    let whole = map.split_ascii_whitespace().eq(["0", "0", "4294967295"]);
    // SAFETY: no arguments, and it cannot fail.
    let is = whole && unsafe { libc::geteuid() } == 0;
    if !is {
        makeway_testing::skip("it takes root, outside of user namespaces");
    }
    is
}

/// Runs a makeway in a network namespace of its own, with what a stranger left in the folder for temporary files; whether it
/// ended within a minute, and what it said.
fn in_its_namespace(line: &str, script: &str, temporary: &Path) -> (bool, String) {
    let mut command = Command::new("unshare");
    command
        .args([
            "-n",
            "/bin/sh",
            "-c",
            &format!("{script}\n\"$@\""),
            "sh",
            MAKEWAY,
        ])
        .args(line.split(' '))
        .env_remove("XDG_RUNTIME_DIR")
        .env("TMPDIR", temporary);
    ended(command)
}

/// A stranger's folder at the place that an older makeway of root read: files of `lo`, in any namespace.
fn trap() -> (tempfile::TempDir, PathBuf) {
    let temporary = tempfile::tempdir().unwrap();
    fs::set_permissions(&temporary, fs::Permissions::from_mode(0o1777)).unwrap();
    let folder = temporary.path().join("makeway-0");
    fs::create_dir(&folder).unwrap();
    chown(&folder, Some(STRANGER), Some(STRANGER)).unwrap();
    (temporary, folder)
}

/// The shell's word for the namespace that it is in.
const NAMESPACE: &str = "ns=$(stat -L -c %i /proc/self/ns/net)";

#[test]
fn a_link_in_the_place_of_the_lock_writes_to_no_file_of_roots() {
    if !is_root() {
        return;
    }
    let (temporary, folder) = trap();
    let precious = tempfile::NamedTempFile::new().unwrap();
    fs::write(&precious, "keep").unwrap();
    let link = format!(
        "{NAMESPACE}; ln -s {} {}/lo@$ns.lock",
        precious.path().display(),
        folder.display()
    );
    let (ok, said) = in_its_namespace("down lo", &link, temporary.path());
    assert!(ok, "{said}");
    assert_eq!(fs::read_to_string(&precious).unwrap(), "keep");
    assert!(
        fs::read_dir(&folder).unwrap().count() > 0,
        "it cleaned there"
    );
}

#[test]
fn a_forged_socket_is_not_read() {
    if !is_root() {
        return;
    }
    let (temporary, folder) = trap();
    let listener = UnixListener::bind(folder.join("socket")).unwrap();
    let sent = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&sent);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            // An answer without an end.
            while let Ok(n) = stream.write(&[b' '; 65_536]) {
                let all = counter.fetch_add(n as u64, Ordering::Relaxed);
                if all > 50_000_000 {
                    break;
                }
            }
        }
    });
    let folder = folder.display();
    let trap = format!(
        "{NAMESPACE}; ln -s socket {folder}/lo@$ns.sock; : > {folder}/lo@$ns.lock; exec 9< {folder}/lo@$ns.lock; flock 9"
    );
    let (_, said) = in_its_namespace("status lo", &trap, temporary.path());
    assert!(said.contains("no makeway runs on lo"), "{said}");
    assert_eq!(sent.load(Ordering::Relaxed), 0, "it was asked");
}

#[test]
fn a_forged_record_removes_nothing_and_changes_nothing() {
    if !is_root() {
        return;
    }
    let (temporary, folder) = trap();
    // Dots would become something else on the way.
    let precious = tempfile::Builder::new()
        .prefix("precious")
        .tempdir()
        .unwrap();
    let target = precious.path().join("lo-1@");
    // An older one joined the interface's name to its own folder: an absolute one led anywhere.
    let record = format!(
        "{{\"interface\":\"{}/lo\",\"index\":1,\"namespace\":NS,\"started\":0,\"before\":[],\"made_clsact\":false,\"directions\":[]}}",
        precious.path().display()
    );
    let folder = folder.display();
    let trap = format!(
        "{NAMESPACE}; mkdir {}$ns; printf '%s' '{record}' | sed s/NS/$ns/ > {folder}/lo@$ns.qdisc",
        target.display()
    );
    let (ok, said) = in_its_namespace("down lo", &trap, temporary.path());
    assert!(ok, "{said}");
    assert_eq!(fs::read_dir(&precious).unwrap().count(), 1, "{said}");
}

/// A folder with an `nft` that says that it was run, and the file in which it says that.
fn evil_nft() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    let mark = folder.path().join("mark");
    for name in ["nft", "iptables", "iptables-nft", "iptables-legacy"] {
        let path = folder.path().join(name);
        let grep = "grep CapAmb /proc/self/status";
        fs::write(&path, format!("#!/bin/sh\n{grep} >> {}\n", mark.display())).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    (folder, mark)
}

#[test]
fn tools_are_not_looked_for_in_the_callers_path() {
    if !is_root() {
        return;
    }
    let (folder, mark) = evil_nft();
    let path = format!("export PATH={}:$PATH", folder.path().display());
    let (ok, said) = in_its_namespace("down lo", &path, folder.path());
    assert!(ok, "{said}");
    assert!(!mark.exists(), "{}", fs::read_to_string(&mark).unwrap());
}

#[test]
fn capabilities_of_the_file_are_not_for_everybody() {
    if !is_root() {
        return;
    }
    if !Path::new("/usr/bin/setpriv").exists() {
        return makeway_testing::skip("no setpriv: install the package util-linux");
    }
    let (folder, mark) = evil_nft();
    let program = folder.path().join("makeway");
    fs::copy(MAKEWAY, &program).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    // `setcap cap_net_admin,cap_net_raw+ep`: struct vfs_cap_data of <linux/capability.h>, revision 2, effective.
    let words = [0x0200_0001_u32, 1 << 12 | 1 << 13, 0, 0, 0];
    let value: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
    let path = std::ffi::CString::new(program.to_str().unwrap()).unwrap();
    // SAFETY: all of it lives until the call returns.
    let set = unsafe {
        let (name, value_at) = (c"security.capability".as_ptr(), value.as_ptr().cast());
        libc::setxattr(path.as_ptr(), name, value_at, value.len(), 0)
    };
    if set != 0 {
        return makeway_testing::skip(format!("files have no capabilities at {path:?}"));
    }
    let user = STRANGER.to_string();
    // The doctor finds it, too.
    for subcommand in ["down", "doctor"] {
        let mut command = Command::new("unshare");
        command
            .args([
                "-n",
                "setpriv",
                "--reuid",
                &user,
                "--regid",
                &user,
                "--clear-groups",
            ])
            .arg("/usr/bin/env")
            .arg(format!("PATH={}:/usr/bin:/bin", folder.path().display()))
            .arg(&program)
            .args([subcommand, "lo"])
            .env_remove("XDG_RUNTIME_DIR")
            .env("TMPDIR", folder.path());
        let (ok, said) = ended(command);
        assert!(!mark.exists(), "{}", fs::read_to_string(&mark).unwrap());
        assert!(!ok && said.contains("setcap -r"), "{said}");
    }
}
