// SPDX-License-Identifier: MIT OR Apache-2.0
//! A call over QUIC datagrams in which each frame has a deadline: `cargo run --example deadlines`. Both ends are in this process; `call` is
//! the part that an application of its own takes over (docs/quinn.md shows it).

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use makeway_quinn::send::{AnyPolicy, Config, Event, Frame, FrameId, Outcome, Stats};
use makeway_quinn::{AHEAD, Sender};
use quinn::rustls::RootCertStore;
use quinn::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use quinn::{ClientConfig, Connection, Endpoint, ServerConfig, TransportConfig};
use tokio::time::{Interval, interval, sleep};

/// Any error ends the program.
pub type Fallible<T> = Result<T, Box<dyn Error + Send + Sync>>;

const PATIENCE: Duration = Duration::from_millis(200);

/// Sends what the encoder makes, each picture whole and in time or not at all.
pub async fn call(connection: Connection, encoder: &mut Encoder) -> Fallible<Stats> {
    let sender = Sender::new(connection, Config::default(), AnyPolicy::default())?;
    let mut last: Option<FrameId> = None;
    loop {
        tokio::select! {
            picture = encoder.next() => {
                let Some(picture) = picture else { break };
                let refers_to = last.filter(|_| !picture.is_keyframe);
                let frame = Frame {
                    class: picture.class,
                    deadline: sender.within(PATIENCE),
                    depends_on: refers_to.as_slice(),
                };
                let (id, _) = sender.send_frame(&frame, &picture.datagrams)?;
                if picture.class == VIDEO {
                    last = Some(id);
                }
            }
            event = sender.event() => match event {
                Some(Event::Target(rate)) => encoder.rate = rate.bps(),
                Some(Event::Frame(_, Outcome::Sent { .. })) => {}
                Some(Event::Frame(id, _)) if last == Some(id) => encoder.wants_keyframe = true,
                Some(_) => {}
                None => break, // the connection is closed
            }
        }
    }
    sender.drained().await;
    Ok(sender.stats())
}

/// Class of the audio: the most important.
pub const AUDIO: u8 = 0;
/// Class of the video.
pub const VIDEO: u8 = 1;

/// A picture or a piece of audio, cut into datagrams.
pub struct Picture {
    /// [`AUDIO`] or [`VIDEO`].
    pub class: u8,
    /// It refers to no other.
    pub is_keyframe: bool,
    /// Its parts.
    pub datagrams: Vec<bytes::Bytes>,
}

/// Stands for an encoder: audio of 160 B each 20 ms, video of 25 pictures a second at the rate that it is told. Datagrams begin with their class.
pub struct Encoder {
    /// bit/s of the video, held between the two of `range`.
    pub rate: u64,
    /// The least and the most that it makes.
    pub range: (u64, u64),
    /// The next picture is a keyframe.
    pub wants_keyframe: bool,
    /// Keyframes that were made.
    pub keyframes: u64,
    /// Ticks of 20 ms that are left, and those that were.
    pub ticks: (u32, u32),
    video_is_next: bool,
    clock: Interval,
}

impl Encoder {
    /// One that ends after `length`.
    pub fn new(length: Duration, range: (u64, u64)) -> Self {
        Self {
            rate: range.0,
            range,
            wants_keyframe: true,
            keyframes: 0,
            ticks: ((length.as_millis() / 20) as u32, 0),
            video_is_next: false,
            clock: interval(Duration::from_millis(20)),
        }
    }

    /// The next picture or piece of audio at its time; `None` at the end. May be dropped while it waits.
    pub async fn next(&mut self) -> Option<Picture> {
        if std::mem::take(&mut self.video_is_next) {
            let is_keyframe = std::mem::take(&mut self.wants_keyframe);
            self.keyframes += u64::from(is_keyframe);
            // A keyframe is three times as large.
            let bits = self.rate.clamp(self.range.0, self.range.1) / 25;
            let mut bytes = (bits / 8) as usize * if is_keyframe { 3 } else { 1 };
            let mut datagrams = Vec::new();
            while bytes > 0 {
                let length = bytes.clamp(1, 1100);
                datagrams.push(vec![VIDEO; length].into());
                bytes -= length;
            }
            return Some(Picture {
                class: VIDEO,
                is_keyframe,
                datagrams,
            });
        }
        if self.ticks.0 == 0 {
            return None;
        }
        self.clock.tick().await;
        self.ticks = (self.ticks.0 - 1, self.ticks.1 + 1);
        self.video_is_next = self.ticks.1 % 2 == 1;
        Some(Picture {
            class: AUDIO,
            is_keyframe: true,
            datagrams: vec![vec![AUDIO; 160].into()],
        })
    }
}

/// A receiver on loopback; datagrams that it has received, by class, when its connection ends.
pub fn receiver() -> Fallible<(
    SocketAddr,
    CertificateDer<'static>,
    tokio::task::JoinHandle<[u64; 2]>,
)> {
    let made = rcgen::generate_simple_self_signed(["localhost".into()])?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let certificate = made.cert.der().clone();
    let server = ServerConfig::with_single_cert(vec![certificate.clone()], key.into())?;
    let server = Endpoint::server(server, (Ipv4Addr::LOCALHOST, 0).into())?;
    let address = server.local_addr()?;
    let received = tokio::spawn(async move {
        let mut received = [0; 2];
        let Some(coming) = server.accept().await else {
            return received;
        };
        let Ok(connection) = coming.await else {
            return received;
        };
        while let Ok(datagram) = connection.read_datagram().await {
            received[usize::from(datagram[0] == VIDEO)] += 1;
        }
        received
    });
    Ok((address, certificate, received))
}

/// A connection whose queue holds one packet: the backlog is in the sender.
pub async fn connect(
    address: SocketAddr,
    certificate: CertificateDer<'static>,
) -> Fallible<(Endpoint, Connection)> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate)?;
    let mut client = ClientConfig::with_root_certificates(Arc::new(roots))?;
    let mut transport = TransportConfig::default();
    transport.datagram_send_buffer_size(AHEAD);
    client.transport_config(transport.into());
    let endpoint = Endpoint::client((Ipv4Addr::LOCALHOST, 0).into())?;
    let connection = endpoint.connect_with(client, address, "localhost")?.await?;
    Ok((endpoint, connection))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Fallible<()> {
    let (address, certificate, received) = receiver()?;
    let (endpoint, connection) = connect(address, certificate).await?;
    let mut encoder = Encoder::new(Duration::from_secs(5), (150_000, 1_500_000));
    let stats = call(connection.clone(), &mut encoder).await?;
    // For what quinn still holds.
    sleep(PATIENCE).await;
    connection.close(0u8.into(), b"");
    endpoint.wait_idle().await;
    println!(
        "audio {:?}\nvideo {:?}",
        stats.class(AUDIO),
        stats.class(VIDEO)
    );
    println!("received {:?}", received.await?);
    Ok(())
}
