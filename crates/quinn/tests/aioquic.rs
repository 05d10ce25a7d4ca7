// SPDX-License-Identifier: MIT OR Apache-2.0
//! Datagrams over QUIC to a receiver that is not ours: aioquic, in Python.

mod python;
#[path = "quic/relay.rs"]
mod relay;

use std::error::Error;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use makeway_core::send::sbpn2::Sbpn2;
use makeway_core::send::{self, Event, Outcome};
use makeway_core::units::{self, Rate};
use makeway_quinn::{AHEAD, Sender, SetupError};
use quinn::crypto::rustls::QuicClientConfig;
use quinn::rustls;
use relay::{Way, relay};
use rustix::time::{ClockId, clock_gettime};
use tokio::time::{interval, sleep};

type Fallible<T> = Result<T, Box<dyn Error>>;

const SKIPPED: &str = "no Python with aioquic here to receive: `make test` installs it";

const AUDIO: u8 = 0;
const VIDEO: u8 = 1;
/// Sender, class, deadline.
const HEAD: usize = 10;
const PATIENCE: Duration = Duration::from_millis(200);
const LENGTH: Duration = Duration::from_secs(8);

/// A way of 0.8 Mbit/s for a call of 1.3: a queue of 80 ms, and 20 ms of delay each way.
const FORTH: Way = Way {
    rate: Some(Rate::from_bps(800_000)),
    queue: 8_000,
    delay: Duration::from_millis(20),
};
const BACK: Way = Way {
    rate: None,
    ..FORTH
};

/// Python with aioquic: that of `make test`, or the system's.
fn python() -> Option<Command> {
    let python = || {
        let mut python = Command::new("python3");
        let packages = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("aioquic");
        python.env("PYTHONPATH", packages);
        python
    };
    let mut import = python();
    import.args(["-c", "import aioquic"]).stderr(Stdio::null());
    let has_it = import.status().is_ok_and(|status| status.success());
    has_it.then(python)
}

/// Its file: what is called `python3` may be a script that chooses one.
fn program() -> Result<PathBuf, String> {
    let mut python = python().ok_or(SKIPPED)?;
    let told = python
        .args(["-c", "import sys; print(sys.executable)"])
        .output();
    let told = told.map_err(|error| error.to_string())?.stdout;
    Ok(String::from_utf8_lossy(&told).trim().into())
}

/// aioquic, which trusts to a certificate made for it.
struct Receiver {
    process: Child,
    output: BufReader<std::process::ChildStdout>,
    address: SocketAddr,
    client: quinn::ClientConfig,
    _files: tempfile::TempDir,
}

/// Datagrams of one class that came, and those of them in time.
type Came = (u64, u64);

impl Receiver {
    fn start(mut python: Command) -> Fallible<Self> {
        let signed = rcgen::generate_simple_self_signed(["localhost".into()])?;
        let files = tempfile::tempdir()?;
        let [certificate, key] = ["certificate.pem", "key.pem"].map(|name| files.path().join(name));
        fs::write(&certificate, signed.cert.pem())?;
        fs::write(&key, signed.signing_key.serialize_pem())?;
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/quic/receive.py");
        python
            .args([&script, &certificate, &key])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut process = python::start(&mut python, &script)?;
        let mut output = BufReader::new(process.stdout.take().ok_or("no output")?);
        let mut port = String::new();
        output.read_line(&mut port)?;
        let address = (Ipv4Addr::LOCALHOST, port.trim().parse()?).into();

        let mut roots = rustls::RootCertStore::empty();
        roots.add(signed.cert.der().clone())?;
        let mut tls = rustls::ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth();
        tls.alpn_protocols = vec![b"makeway".to_vec()];
        let client = quinn::ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
        Ok(Self {
            process,
            output,
            address,
            client,
            _files: files,
        })
    }

    /// A connection over a limited way of its own.
    async fn connect(
        &self,
        endpoint: &quinn::Endpoint,
        buffer: Option<usize>,
    ) -> Fallible<quinn::Connection> {
        let mut transport = quinn::TransportConfig::default();
        if let Some(buffer) = buffer {
            transport.datagram_send_buffer_size(buffer);
        }
        let mut client = self.client.clone();
        client.transport_config(transport.into());
        let way = relay(self.address, FORTH, BACK)?;
        Ok(endpoint.connect_with(client, way, "localhost")?.await?)
    }

    /// Ends it; what came of a sender's class.
    fn finish(mut self) -> Fallible<impl Fn(u8, u8) -> Came> {
        python::look(&self.process);
        drop(self.process.stdin.take());
        let mut text = String::new();
        self.output.read_to_string(&mut text)?;
        self.process.wait()?;
        let mut lines = Vec::new();
        for line in text.lines() {
            let numbers: Result<Vec<u64>, _> = line.split(' ').map(str::parse).collect();
            lines.push(numbers?);
        }
        Ok(move |sender: u8, class: u8| {
            let of = |line: &&Vec<u64>| line[..2] == [u64::from(sender), u64::from(class)];
            lines.iter().find(of).map_or((0, 0), |l| (l[2], l[3]))
        })
    }
}

/// Audio of 214 B every 20 ms, video of 25 frames of 6 times 1026 B a second; how many of each were offered.
async fn call<E>(
    mut offer: impl FnMut(u8, Option<u32>, Vec<u8>) -> Result<(), E>,
) -> Result<[u64; 2], E> {
    let mut offered = [0; 2];
    let mut tick = interval(Duration::from_millis(20));
    for n in 0..(LENGTH.as_millis() / 20) as u32 {
        tick.tick().await;
        let mut send = |class: u8, frame, length| {
            offered[usize::from(class)] += 1;
            offer(class, frame, vec![0; length])
        };
        if n % 2 == 0 {
            (0..6).try_for_each(|_| send(VIDEO, Some(n), 1026))?;
        }
        send(AUDIO, None, 214)?;
    }
    Ok(offered)
}

/// aioquic, a connection to it as it is, and one with our sender.
struct Setup {
    receiver: Receiver,
    plain: quinn::Connection,
    connection: quinn::Connection,
    sender: Sender<Sbpn2>,
}

impl Setup {
    /// `None`, with a sentence, where there is no aioquic.
    async fn new() -> Fallible<Option<Self>> {
        let Some(python) = python() else {
            makeway_testing::skip(SKIPPED);
            return Ok(None);
        };
        let receiver = Receiver::start(python)?;
        let endpoint = quinn::Endpoint::client((Ipv4Addr::LOCALHOST, 0).into())?;
        let plain = receiver.connect(&endpoint, None).await?;
        let connection = receiver.connect(&endpoint, Some(AHEAD)).await?;
        let config = send::Config::default();
        Ok(Some(Self {
            sender: Sender::new(connection.clone(), config, Sbpn2::default())?,
            receiver,
            plain,
            connection,
        }))
    }
}

/// Writes sender, class and deadline.
fn stamp(payload: &mut [u8], sender: u8, class: u8) {
    let now = clock_gettime(ClockId::Monotonic);
    let deadline =
        now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64 + PATIENCE.as_nanos() as u64;
    payload[..2].copy_from_slice(&[sender, class]);
    payload[2..HEAD].copy_from_slice(&deadline.to_be_bytes());
}

/// Shares of the offered datagrams that arrived in time: audio, video.
fn shares(came: &impl Fn(u8, u8) -> Came, sender: u8, offered: [u64; 2]) -> [f64; 2] {
    [AUDIO, VIDEO].map(|class| {
        let (_, in_time) = came(sender, class);
        in_time as f64 / offered[usize::from(class)] as f64
    })
}

/// Runs a test that keeps real time, in a guest where this machine stalls too often. One at a time: each loads the machine, and files of a
/// guest are those that Python reads meanwhile.
fn in_real_time(test: &str, run: fn()) {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    makeway_testing::in_real_time_or(run, || {
        let run = python::in_a_guest(test, &program()?, run);
        run.map_err(|why| why.to_string())
    });
}

fn ends_well(test: impl Future<Output = Fallible<()>>) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build();
    let ended = runtime
        .map_err(Box::from)
        .and_then(|runtime| runtime.block_on(test));
    assert!(ended.is_ok(), "{ended:?}");
}

#[test]
fn under_overload_audio_is_in_time_and_late_video_is_never_sent() {
    let test = "under_overload_audio_is_in_time_and_late_video_is_never_sent";
    in_real_time(test, || ends_well(overload()));
}

async fn overload() -> Fallible<()> {
    let Some(Setup {
        receiver,
        plain,
        connection,
        sender: ours,
    }) = Setup::new().await?
    else {
        return Ok(());
    };
    let patience = units::Duration::from_nanos(PATIENCE.as_nanos() as u64);
    let ([offered, _], closed) = {
        let queued = call(|class, frame, mut payload| {
            stamp(&mut payload, 0, class);
            let deadline = ours.now() + patience;
            ours.send(class, deadline, frame, payload.into()).map(drop)
        });
        let as_it_is = call(|class, _, mut payload| {
            stamp(&mut payload, 1, class);
            plain.send_datagram(payload.into())
        });
        let both = tokio::join!(queued, as_it_is);
        ours.drained().await;
        // Datagrams in quinn's queue and in flight.
        sleep(Duration::from_millis(500)).await;
        ([both.0?, both.1?], plain.close_reason())
    };
    assert_eq!(closed, None);

    let frames = connection.stats().frame_tx.datagram;
    let came = receiver.finish()?;
    let statistics = ours.stats();
    let [audio, video] = [AUDIO, VIDEO].map(|class| statistics.class(class));
    let [of_ours, of_plain] = [0, 1].map(|sender| shares(&came, sender, offered));
    eprintln!("in time, audio and video: ours {of_ours:.3?}, quinn's queue {of_plain:.3?}");
    eprintln!("audio {audio:?}\nvideo {video:?}");

    // Each datagram has one end, and quinn was given those that were sent, no others.
    for (class, offered) in [(&audio, offered[0]), (&video, offered[1])] {
        let ends = class.sent + class.expired + class.evicted + class.too_large;
        assert_eq!(ends, offered);
    }
    assert_eq!(frames, audio.sent + video.sent);
    // Late datagrams were dropped instead: only with an otherwise empty queue one is sent (SBPN2).
    assert!(video.expired > offered[1] / 4, "{video:?}");
    assert!(
        audio.late + video.late <= frames / 50,
        "{audio:?} {video:?}"
    );
    assert!(of_ours[0] >= 0.95, "{of_ours:?}");
    assert!(of_plain[0] <= 0.25, "{of_plain:?}");
    // Measured 0.47 and 0.04; at most 0.57 fit the way.
    assert!(of_ours[1] >= 0.25, "{of_ours:?}");
    assert!(of_plain[1] <= of_ours[1] / 2.0, "{of_plain:?}");
    Ok(())
}

#[test]
fn what_no_packet_carries_and_what_no_policy_reaches_is_refused() {
    let test = "what_no_packet_carries_and_what_no_policy_reaches_is_refused";
    in_real_time(test, || ends_well(refused()));
}

async fn refused() -> Fallible<()> {
    let Some(Setup {
        receiver,
        plain,
        connection,
        sender,
    }) = Setup::new().await?
    else {
        return Ok(());
    };
    let error = Sender::new(plain, send::Config::default(), Sbpn2::default()).err();
    assert_eq!(error, Some(SetupError::Buffer((1 << 20) - 32)));

    let deadline = sender.now() + units::Duration::from_secs(1);
    let largest = connection.max_datagram_size().ok_or("no datagrams")?;
    let mut fate = Vec::new();
    for length in [largest, largest + 1000] {
        let mut payload = vec![0; length];
        stamp(&mut payload, 0, VIDEO);
        let id = sender.send(VIDEO, deadline, None, payload.into())?;
        while let Some(event) = sender.event().await {
            if let Event::Outcome(of, _, outcome) = event
                && of == id
            {
                fate.push(outcome);
                break;
            }
        }
    }
    assert!(
        matches!(fate[..], [Outcome::Sent { .. }, Outcome::TooLarge]),
        "{fate:?}"
    );
    sleep(Duration::from_millis(200)).await;
    assert_eq!(receiver.finish()?(0, VIDEO), (1, 1));

    // A closed connection takes nothing more, and those who wait learn of it.
    connection.close(0u8.into(), b"");
    assert!(
        sender
            .send(VIDEO, deadline, None, Default::default())
            .is_err()
    );
    sender.drained().await;
    while sender.event().await.is_some() {}
    Ok(())
}
