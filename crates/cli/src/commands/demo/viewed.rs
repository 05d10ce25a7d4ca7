// SPDX-License-Identifier: MIT OR Apache-2.0
//! The received picture: stills decoded from the packets that arrived, side by side.

use makeway_core::units::Duration;
use makeway_netns::Outcome;
use makeway_netns::clip::{Clip, FRAME_RATE, MediaError, Viewed};
use makeway_scenario::Scenario;
use maud::{Markup, html};

/// Times of the stills in hundredths of the run: past the warm-up.
const INSTANTS: [u64; 3] = [40, 65, 90];

/// Decodes the received packets of the flow `video`.
pub fn view(clip: &Clip, scenario: &Scenario, outcome: &Outcome) -> Result<Viewed, MediaError> {
    let video = scenario.flows.iter().position(|flow| flow.name == "video");
    let arrivals = video.map(|index| &outcome.arrivals[index]);
    clip.view(
        |n| arrivals.is_some_and(|a| a.has(n as u64)),
        &INSTANTS.map(|percent| picture_at(scenario, percent)),
    )
}

/// The picture due after this part of the run, in display order.
fn picture_at(scenario: &Scenario, percent: u64) -> u32 {
    (scenario.duration.as_nanos() / 100 * percent * FRAME_RATE / Duration::from_secs(1).as_nanos())
        as u32
}

/// In a sentence.
pub fn sentence(label: &str, viewed: &Viewed) -> String {
    format!(
        "Under {label} the viewer saw {} of {} pictures intact; the decoder reported {} errors.",
        viewed.intact, viewed.pictures, viewed.errors
    )
}

/// The stills of all disciplines, a row for each instant; nothing without views.
pub fn section(views: &[(String, Viewed)]) -> Markup {
    let instants = views.first().map_or(0, |(_, viewed)| viewed.stills.len());
    html! {
        @if !views.is_empty() {
            section {
                h2 { "Received picture" }
                p.none { "The same instants of the same clip, decoded by ffmpeg from the packets that arrived." }
                @for instant in 0..instants {
                    div.stills {
                        @for (label, viewed) in views {
                            @let still = &viewed.stills[instant];
                            figure {
                                figcaption { (label) ", at " (format!("{:.1} s", f64::from(still.due) / FRAME_RATE as f64)) }
                                @if still.jpeg.is_empty() {
                                    p.none { "Nothing: no picture could be decoded until here." }
                                } @else {
                                    img src={ "data:image/jpeg;base64," (base64(&still.jpeg)) } alt={ "the picture received under " (label) };
                                }
                                p.none {
                                    @match (still.intact, still.shown) {
                                        (true, _) => "intact",
                                        (false, Some(shown)) if shown < still.due => {
                                            "frozen: picture " (shown) " instead of " (still.due)
                                        }
                                        _ => "damaged",
                                    }
                                }
                            }
                        }
                    }
                }
                div.scroll { table {
                    thead { tr { th {} th { "pictures" } th { "decoded" } th { "intact" } th { "errors of the decoder" } } }
                    tbody {
                        @for (label, v) in views {
                            tr { td { (label) } td { (v.pictures) } td { (v.decoded) } td { (v.intact) } td { (v.errors) } }
                        }
                    }
                } }
            }
        }
    }
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}
