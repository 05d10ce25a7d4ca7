// SPDX-License-Identifier: MIT OR Apache-2.0
//! An instance that gives no answer that makes sense, beside one that does.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::net::UnixListener;

use super::*;

/// Files of an instance on `other`, which holds its lock and answers without sense.
fn forged() -> std::fs::File {
    let namespace = std::fs::metadata("/proc/thread-self/ns/net").unwrap();
    let of = |name: &str, kind: &str| format!("{name}@{}.{kind}", namespace.ino());
    let runtime = std::env::var("XDG_RUNTIME_DIR").unwrap_or_default();
    let folders = ["/run/makeway".into(), format!("{runtime}/makeway")];
    let folder = folders
        .iter()
        .map(Path::new)
        .find(|folder| folder.join(of("near", "lock")).exists());
    let folder = folder.expect("of the running one");
    let open = || {
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        options.open(folder.join(of("other", "lock"))).unwrap()
    };
    let lock = open();
    writeln!(&lock, "{}", std::process::id()).unwrap();
    lock.lock().unwrap();
    let listener = UnixListener::bind(folder.join(of("other", "sock"))).unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).unwrap();
            let _ = (&stream).write_all(b"{}\n");
        }
    });
    lock
}

#[test]
fn an_instance_that_answers_without_sense_hides_no_other() {
    if !inside_in_order("silent::an_instance_that_answers_without_sense_hides_no_other") {
        return;
    }
    let _far = Far::new();
    let mut up = Up::start("up near --rate 20mbit --backend nfqueue");
    let lock = forged();
    let (ok, said) = say("status");
    assert!(!ok && said.contains("near: process"), "{said}");
    assert!(
        said.contains("other: the running makeway is of another version"),
        "{said}"
    );
    let (_, said) = say("doctor near");
    assert!(
        said.contains("near: running") && said.contains("backend nfqueue"),
        "{said}"
    );
    drop(lock);
    up.signal(libc::SIGTERM);
    assert!(up.end().0.success());
}
