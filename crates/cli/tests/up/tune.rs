// SPDX-License-Identifier: MIT OR Apache-2.0
//! `makeway tune` before a modem with a FIFO of 300 ms, with curl as the load.

use super::autorate::{Line, loss_based};
use super::*;

/// A server of HTTP behind the modem: `GET` is a file without end, `POST` is read to its end.
fn serve(line: &Line) {
    let listener = line.at_server(|| TcpListener::bind("10.9.1.2:80").unwrap());
    loss_based(&listener);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                let mut head = [0; 4];
                stream.read_exact(&mut head).unwrap();
                if head == *b"GET " {
                    let begin = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";
                    let sent = stream.write_all(begin);
                    while sent.is_ok() && stream.write_all(&[0; 16_384]).is_ok() {}
                } else {
                    // A client that is told to wait for nothing sends at once.
                    let _ = stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n");
                    while stream.read(&mut [0; 65_536]).is_ok_and(|n| n > 0) {}
                }
            });
        }
    });
}

const LOAD: &str = "--download http://10.9.1.2/ --upload http://10.9.1.2/ --reflector 10.9.1.2 --reflector 10.9.1.3 --reflector 10.9.1.4 --seconds 4";

#[test]
fn a_line_is_measured_and_rates_are_tried_kept_or_undone() {
    if !inside("tune::a_line_is_measured_and_rates_are_tried_kept_or_undone") {
        return;
    }
    let line = Line::new(8, 24);
    serve(&line);
    let (ok, said) = say(&format!("tune near {LOAD} --json"));
    assert!(ok, "{said}");
    let told: Value = serde_json::from_str(&said).unwrap();
    println!("tune: {told}");
    let figure = |direction: &str, key: &str| told[direction][key].as_f64().unwrap();
    for (direction, mbit, share) in [("upload", 8.0, 0.95), ("download", 24.0, 0.9)] {
        let rate = figure(direction, "rate_bps") / 1e6 / mbit;
        assert!((0.9..=1.05).contains(&rate), "{told:#}");
        let proposed = figure(direction, "proposed_bps") / figure(direction, "rate_bps");
        assert!((share - 0.02..=share).contains(&proposed), "{told:#}");
        // The FIFO is deep, and TCP fills it.
        assert!(figure(direction, "added_p95_ms") > 100.0, "{told:#}");
        assert!(
            ["C", "D", "F"].contains(&told[direction]["grade"].as_str().unwrap()),
            "{told:#}"
        );
    }
    let idle = told["idle_ms"].as_f64().unwrap();
    assert!((0.0..10.0).contains(&idle), "{told:#}");
    assert!(!rules(), "it changes nothing");

    // Tried with a makeway of its own, and written into the file.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("makeway.toml");
    std::fs::write(&file, "[web]\n").unwrap();
    let mut keeps = makeway(&format!("tune near {LOAD} --yes"));
    let (ok, said) = ended_after(keeps.arg("--config").arg(&file));
    assert!(ok, "{said}");
    assert!(!rules(), "the trial has ended: {said}");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(
        text.starts_with("[web]\n\n[interface.near]\nupload = \""),
        "{text}"
    );
    // The second measurement is of the shaped line.
    let after: Vec<&str> = said
        .lines()
        .filter(|line| line.starts_with("upload "))
        .collect();
    assert_eq!(after.len(), 2, "{said}");
    assert!(
        after[0].contains("under load") && after[1].contains(": A"),
        "{said}"
    );

    // A makeway that runs has its own rates again after Ctrl-C.
    let _up = Up::start("up near --rate 3mbit --down 4mbit --backend nfqueue");
    let mut tune = makeway(&format!("tune near {LOAD}"));
    let tune = tune.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
    let mut tune = Up(tune.unwrap());
    until("open rates", || {
        (egress("rate_bps") > 1_000_000_000).then_some(())
    });
    tune.signal(libc::SIGINT);
    until("its end", || tune.0.try_wait().unwrap());
    assert_eq!(egress("rate_bps"), 3_000_000);
}

/// As [`ended`], of one that takes longer than others.
fn ended_after(command: &mut Command) -> (bool, String) {
    let told = command.output().unwrap();
    let said = [told.stdout, told.stderr].concat();
    (told.status.success(), String::from_utf8_lossy(&said).into())
}
