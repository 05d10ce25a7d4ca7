// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ten seconds of audio and video, each packet with a deadline: `cargo run -p makeway-transport --example call -- HOST:PORT`
use makeway_core::rate::Config;
use makeway_core::send::{AnyPolicy, Event, Outcome};
use makeway_core::units::Duration;
use makeway_transport::rtp::{Call, CallConfig, Ecn, Stream, tfrc};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let to = std::env::args().nth(1).ok_or("usage: call HOST:PORT")?;
    let stream = |class: u8, payload_type, clock_rate| Stream {
        ssrc: u32::from(class) + 1,
        payload_type,
        clock_rate,
        class, // 0, audio, is the most important
    };
    let config = CallConfig {
        streams: vec![stream(0, 111, 48_000), stream(1, 96, 90_000)],
        queue: Default::default(),
        policy: AnyPolicy::default(),
        rate: Config::Tfrc(tfrc()),
        cname: "me@example.org".into(),
        rtx: Default::default(),
        seed: std::process::id().into(),
        ecn: Ecn::default(),
    };
    let mut call = Call::connect(to.parse()?, config)?;
    let mut every = tokio::time::interval(std::time::Duration::from_millis(20));
    for _ in 0..500 {
        every.tick().await;
        call.send(0, Duration::from_millis(150), vec![0; 160]);
        call.send(1, Duration::from_millis(200), vec![0; 1500]);
        while let Some(event) = call.try_event() {
            match event {
                Event::Target(rate) => println!("the encoder may make {rate}"),
                Event::Outcome(id, _, Outcome::Expired) => println!("{} is too late", id.0),
                _ => {}
            }
        }
    }
    for stream in call.close()?.session.streams {
        let (sent, arrived) = (stream.outcomes.sent, stream.arrived);
        println!("{sent} of {} sent, {arrived} arrived", stream.packets);
    }
    Ok(())
}
