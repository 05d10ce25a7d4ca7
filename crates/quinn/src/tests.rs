// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two ends in this process, over loopback.

use std::net::Ipv4Addr;

use makeway_core::send::Outcome;
use makeway_core::send::fifo::Fifo;
use makeway_core::units::Duration;

use super::*;

/// A connection whose queue of datagrams holds `buffer` bytes, and the end that receives them.
async fn connected(buffer: usize) -> (quinn::Endpoint, Connection, Connection) {
    let made = rcgen::generate_simple_self_signed(["localhost".into()]).unwrap();
    let key = made.signing_key.serialize_der();
    let key = quinn::rustls::pki_types::PrivatePkcs8KeyDer::from(key);
    let certificate = made.cert.der().clone();
    let server = quinn::ServerConfig::with_single_cert(vec![certificate.clone()], key.into());
    let server = quinn::Endpoint::server(server.unwrap(), (Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let mut roots = quinn::rustls::RootCertStore::empty();
    roots.add(certificate).unwrap();
    let mut client = quinn::ClientConfig::with_root_certificates(Arc::new(roots)).unwrap();
    let mut transport = quinn::TransportConfig::default();
    transport.datagram_send_buffer_size(buffer);
    client.transport_config(transport.into());
    let endpoint = quinn::Endpoint::client((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let address = server.local_addr().unwrap();
    let connecting = endpoint.connect_with(client, address, "localhost").unwrap();
    let accepted = async { server.accept().await.unwrap().await.unwrap() };
    let (connection, accepted) = tokio::join!(connecting, accepted);
    (server, connection.unwrap(), accepted)
}

/// Sends datagrams of these lengths, one after the other: their outcomes.
async fn outcomes(sender: &Sender<Fifo>, lengths: &[usize]) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    for length in lengths {
        let deadline = sender.now() + Duration::from_secs(5);
        let id = sender
            .send(0, deadline, None, vec![0; *length].into())
            .unwrap();
        while let Some(event) = sender.event().await {
            if let Event::Outcome(of, _, outcome) = event
                && of == id
            {
                outcomes.push(outcome);
                break;
            }
        }
    }
    outcomes
}

#[tokio::test]
async fn a_datagram_queued_earlier_shrinks_nothing() {
    let (_server, connection, accepted) = connected(AHEAD).await;
    connection.send_datagram(vec![1; 1000].into()).unwrap();
    let sender = Sender::new(connection, Config::default(), Fifo).unwrap();
    let ended = outcomes(&sender, &[1100, 900]).await;
    assert!(
        matches!(ended[..], [Outcome::Sent { .. }, Outcome::Sent { .. }]),
        "{ended:?}"
    );
    for length in [1000, 1100, 900] {
        assert_eq!(accepted.read_datagram().await.unwrap().len(), length);
    }
}

#[tokio::test]
async fn a_queue_of_quinn_that_is_smaller_than_a_packet_bounds_what_is_sent() {
    let (_server, connection, accepted) = connected(600).await;
    let sender = Sender::new(connection, Config::default(), Fifo).unwrap();
    let ended = outcomes(&sender, &[1100, 500, 1000]).await;
    assert!(
        matches!(
            ended[..],
            [Outcome::TooLarge, Outcome::Sent { .. }, Outcome::TooLarge]
        ),
        "{ended:?}"
    );
    assert_eq!(accepted.read_datagram().await.unwrap().len(), 500);
}

/// The second frame has a datagram that no packet carries, and the third depends on it.
#[tokio::test]
async fn frames_are_sent_as_a_whole_or_not_at_all() {
    let (_server, connection, accepted) = connected(AHEAD).await;
    let sender = Sender::new(connection, Config::default(), Fifo).unwrap();
    let deadline = sender.now() + Duration::from_secs(5);
    let mut last = None;
    for lengths in [&[1000, 500][..], &[100, 9000], &[100]] {
        let depends_on: Vec<FrameId> = last.into_iter().collect();
        let frame = Frame {
            class: 0,
            deadline,
            depends_on: &depends_on,
        };
        let datagrams = lengths.iter().map(|length| vec![0; *length].into());
        let datagrams: Vec<Bytes> = datagrams.collect();
        last = Some(sender.send_frame(&frame, &datagrams).unwrap().0);
    }
    let mut ended = [None; 3];
    while ended.contains(&None)
        && let Some(event) = sender.event().await
    {
        if let Event::Frame(id, outcome) = event {
            ended[id.0 as usize] = Some(outcome);
        }
    }
    let sent = |outcome| matches!(outcome, Some(Outcome::Sent { .. }));
    assert!(sent(ended[0]), "{ended:?}");
    assert_eq!(
        ended[1..],
        [Some(Outcome::TooLarge), Some(Outcome::Orphaned)]
    );
    for length in [1000, 500] {
        assert_eq!(accepted.read_datagram().await.unwrap().len(), length);
    }
    let none = FrameId(9);
    let frame = Frame {
        class: 0,
        deadline,
        depends_on: &[none],
    };
    let refused = sender.send_frame(&frame, &[Bytes::from_static(b"x")]);
    assert_eq!(refused, Err(FrameError::Unknown(none).into()));
}
