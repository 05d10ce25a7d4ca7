// SPDX-License-Identifier: MIT OR Apache-2.0
//! Line charts as inline SVG that follow the page's light or dark colours.

use maud::{Markup, PreEscaped, html};
use plotters::prelude::*;
use serde::Serialize;

/// Width and height of the drawing in SVG units; the page scales it.
const SIZE: (u32, u32) = (560, 300);
/// Stand-ins that the page's style replaces (`html.rs`): text, axes, grid.
const TEXT: RGBColor = RGBColor(1, 1, 1);
const AXIS: RGBColor = RGBColor(2, 2, 2);
const GRID: RGBColor = RGBColor(3, 3, 3);

/// Half the width of a whisker's ends, as a share of the x axis.
const CAP: f64 = 0.007;

/// One curve.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Series {
    /// For the legend; it also chooses the colour, so that a discipline keeps its own on every chart.
    pub name: String,
    /// Points in order of x.
    pub points: Vec<(f64, f64)>,
    /// Mark the points: for measured values at a few x.
    pub marks: bool,
    /// Dashed: for what a paper printed, or an ideal.
    pub dashed: bool,
    /// Points are not joined.
    pub dots: bool,
    /// Half-widths of the points' intervals, in their order; empty: none.
    pub whiskers: Vec<f64>,
}

/// A chart of some curves.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Chart {
    /// Over the drawing.
    pub title: String,
    /// Name and unit of the x axis.
    pub x: String,
    /// Name and unit of the y axis.
    pub y: String,
    /// Top of the y axis at least; the data may raise it.
    pub y_at_least: f64,
    /// Curves, in the order of the legend.
    pub series: Vec<Series>,
}

impl Series {
    /// A plain line.
    pub fn line(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self {
            name: name.into(),
            points,
            marks: false,
            dashed: false,
            dots: false,
            whiskers: Vec::new(),
        }
    }

    /// A line with its points marked.
    pub fn marked(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self {
            marks: true,
            ..Self::line(name, points)
        }
    }

    /// Points that are not joined.
    pub fn dots(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self {
            dots: true,
            ..Self::marked(name, points)
        }
    }

    /// With the interval of each point: half-widths, zero where there is none.
    pub fn with_whiskers(self, whiskers: Vec<f64>) -> Self {
        Self { whiskers, ..self }
    }

    /// A dashed line.
    pub fn dashed(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self {
            dashed: true,
            ..Self::line(name, points)
        }
    }

    /// Values at even steps, each drawn at the end of its step.
    pub fn over_time(name: impl Into<String>, values: &[f64], step_s: f64) -> Self {
        let at = |i: usize| (i + 1) as f64 * step_s;
        Self::line(
            name,
            values
                .iter()
                .enumerate()
                .map(|(i, v)| (at(i), *v))
                .collect(),
        )
    }
}

impl Series {
    /// x, lower and upper end of each whisker. No figure that is drawn is below zero, so none ends there.
    fn intervals(&self) -> impl Iterator<Item = (f64, f64, f64)> {
        let known = self.points.iter().zip(&self.whiskers);
        known
            .filter(|((x, y), half)| x.is_finite() && y.is_finite() && **half > 0.0)
            .map(|((x, y), half)| (*x, (y - half).max(0.0), y + half))
    }
}

impl Chart {
    /// The chart as a figure with title and legend.
    pub fn figure(&self) -> Markup {
        let mut svg = String::new();
        let drawn = self.draw(&mut svg);
        html! {
            figure {
                figcaption { (self.title) }
                @if drawn.is_ok() && self.series.iter().any(|s| !s.points.is_empty()) {
                    (PreEscaped(svg))
                } @else {
                    p.none { "Nothing was measured here." }
                }
                ul.legend {
                    @for (index, series) in self.series.iter().enumerate() {
                        li {
                            span.key.dashed[series.dashed] style={ "border-color:" (css(colour(&series.name, index))) } {}
                            (series.name)
                        }
                    }
                }
            }
        }
    }

    fn draw(&self, svg: &mut String) -> Result<(), Box<dyn std::error::Error>> {
        let finite = || {
            self.series
                .iter()
                .flat_map(|s| &s.points)
                .filter(|(x, y)| x.is_finite() && y.is_finite())
        };
        let left = finite().map(|p| p.0).fold(f64::INFINITY, f64::min);
        let right = finite().map(|p| p.0).fold(f64::NEG_INFINITY, f64::max);
        let top = finite().map(|p| p.1).fold(self.y_at_least, f64::max);
        let top = self
            .series
            .iter()
            .flat_map(Series::intervals)
            .map(|w| w.2)
            .fold(top, f64::max);
        if left > right {
            return Ok(());
        }
        let right = if right > left { right } else { left + 1.0 };
        let top = if top > 0.0 { top * 1.05 } else { 1.0 };

        let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
        let mut chart = ChartBuilder::on(&root)
            .margin_top(8)
            .margin_right(16)
            .x_label_area_size(42)
            .y_label_area_size(58)
            .build_cartesian_2d(left..right, 0.0..top)?;
        let font = |size: i32| ("sans-serif", size).into_font().color(&TEXT);
        chart
            .configure_mesh()
            .disable_x_mesh()
            .axis_style(AXIS)
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .label_style(font(15))
            .axis_desc_style(font(15))
            .x_desc(&self.x)
            .y_desc(&self.y)
            .x_labels(8)
            .y_labels(6)
            .y_label_formatter(&|y| number(*y))
            .x_label_formatter(&|x| number(*x))
            .draw()?;
        for (index, series) in self.series.iter().enumerate() {
            let style = colour(&series.name, index).stroke_width(2);
            let points = || {
                series
                    .points
                    .iter()
                    .copied()
                    .filter(|(x, y)| x.is_finite() && y.is_finite())
            };
            for (x, low, high) in series.intervals() {
                let cap = (right - left) * CAP;
                for bar in [
                    [(x, low), (x, high)],
                    [(x - cap, low), (x + cap, low)],
                    [(x - cap, high), (x + cap, high)],
                ] {
                    chart.draw_series([PathElement::new(bar, style)])?;
                }
            }
            if series.dots {
                // Only marks.
            } else if series.dashed {
                chart.draw_series(DashedLineSeries::new(points(), 6, 4, style))?;
            } else {
                chart.draw_series(LineSeries::new(points(), style))?;
            }
            if series.marks {
                chart.draw_series(points().map(|p| Circle::new(p, 3, style.filled())))?;
            }
        }
        root.present()?;
        Ok(())
    }
}

/// A tick's text: no more digits than it needs.
fn number(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Disciplines have colours of their own; other names take one by their place.
fn colour(name: &str, index: usize) -> RGBColor {
    const OTHERS: [RGBColor; 6] = [
        RGBColor(0x3b, 0x82, 0xc4),
        RGBColor(0xd9, 0x77, 0x2b),
        RGBColor(0x2a, 0x9d, 0x6f),
        RGBColor(0x9b, 0x6d, 0xc6),
        RGBColor(0xd1, 0x49, 0x5b),
        RGBColor(0x8a, 0x8f, 0x3c),
    ];
    let first = name.split([' ', ',']).next().unwrap_or_default();
    match first.to_uppercase().as_str() {
        "FIFO" => RGBColor(0xd1, 0x49, 0x5b),
        "FQ" => RGBColor(0xd9, 0x8e, 0x2b),
        "PFQ" => RGBColor(0x9b, 0x6d, 0xc6),
        "SQF" => RGBColor(0x1f, 0x9e, 0x89),
        "HIER" => RGBColor(0x3b, 0x82, 0xc4),
        _ => OTHERS[index % OTHERS.len()],
    }
}

fn css(RGBColor(r, g, b): RGBColor) -> String {
    format!("#{r:02x}{g:02x}{b:02x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(points: Vec<(f64, f64)>) -> Chart {
        Chart {
            title: "Loss".into(),
            x: "downloads".into(),
            y: "%".into(),
            y_at_least: 0.0,
            series: vec![Series::marked("SQF", points)],
        }
    }

    #[test]
    fn a_figure_has_its_curve_title_and_legend() {
        let text = chart(vec![(1.0, 0.0), (20.0, 5.0)]).figure().into_string();
        for part in ["<svg", "polyline", "circle", "Loss", "SQF", "#1f9e89"] {
            assert!(
                text.contains(part) || text.contains(&part.to_uppercase()),
                "{part} in {text}"
            );
        }
    }

    #[test]
    fn nothing_measured_is_said_instead_of_drawn() {
        assert!(
            chart(vec![])
                .figure()
                .into_string()
                .contains("Nothing was measured")
        );
    }

    #[test]
    fn a_whisker_is_within_the_axes() {
        let mut chart = chart(vec![(1.0, 2.0), (20.0, 5.0)]);
        let lines = |chart: &Chart| chart.figure().into_string().matches("<polyline").count();
        let before = lines(&chart);
        chart.series[0].whiskers = vec![3.0, 0.0];
        // A bar and two ends; none for the point without an interval.
        assert_eq!(lines(&chart), before + 3);
        let ends: Vec<_> = chart.series[0].intervals().collect();
        assert_eq!(ends, [(1.0, 0.0, 5.0)]);
    }

    #[test]
    fn a_single_point_is_drawn() {
        assert!(
            chart(vec![(3.0, 0.0)])
                .figure()
                .into_string()
                .contains("circle")
        );
    }
}
