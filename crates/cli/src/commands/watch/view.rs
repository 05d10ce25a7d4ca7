// SPDX-License-Identifier: MIT OR Apache-2.0
//! The model on the screen.

use makeway_core::sched::Class;
use makeway_core::units::Rate;
use makeway_gateway::datapath::FlowStats;
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Cell, Paragraph, Row as TableRow, Sparkline, Table};

use super::model::{Model, Row, Turn, View};
use crate::commands::describe;
use crate::text;

const ACCENT: Color = Color::Cyan;
const DIM: Style = Style::new().fg(Color::DarkGray);
/// Two panels are shown one above the other if each has this many lines.
const PANEL: u16 = 13;

/// Draws all of it; any size will do.
pub fn draw(frame: &mut Frame, model: &Model) {
    let [top, middle, bottom] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Fill(1),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(title(model, top.width), top);
    frame.render_widget(keys(model), bottom);
    let Some(first) = model.views.get(model.selected) else {
        return;
    };
    // Both directions of one interface belong together.
    let pair: Vec<(usize, &View)> = model
        .views
        .iter()
        .enumerate()
        .filter(|(_, view)| (&view.interface, view.pid) == (&first.interface, first.pid))
        .collect();
    if pair.len() > 1 && middle.height >= PANEL * pair.len() as u16 {
        let areas = Layout::vertical(pair.iter().map(|_| Constraint::Fill(1))).split(middle);
        for ((index, view), area) in pair.into_iter().zip(areas.iter()) {
            panel(frame, *area, view, model, index == model.selected);
        }
    } else {
        panel(frame, middle, first, model, true);
    }
}

fn title(model: &Model, width: u16) -> Paragraph<'static> {
    let bold = Style::new().fg(ACCENT).add_modifier(Modifier::BOLD);
    let mut line = vec![Span::styled(" makeway ", bold)];
    if let Some(view) = model.views.get(model.selected) {
        let name = Style::new().add_modifier(Modifier::BOLD);
        line.push(Span::styled(view.interface.clone(), name));
        let seconds = text::span(view.status.stats.seconds);
        line.push(Span::styled(format!("  for {seconds}"), DIM));
        let others = model.views.len();
        if others > 1 && width > 60 {
            let place = format!("  {} of {others}", model.selected + 1);
            line.push(Span::styled(place, DIM));
        }
    }
    if model.paused {
        line.push(Span::styled("  paused", Style::new().fg(Color::Yellow)));
    }
    if let Some(why) = &model.trouble {
        line.push(Span::styled(
            format!("  {why}"),
            Style::new().fg(Color::Red),
        ));
    }
    Paragraph::new(Line::from(line))
}

fn keys(model: &Model) -> Paragraph<'static> {
    let mut line = vec![Span::raw(" ")];
    let sort = format!("sort: {}", model.sort.name());
    let pause = if model.paused { "go on" } else { "pause" };
    let keys = [
        ("q", "quit"),
        ("s", &sort),
        ("p", pause),
        ("↑↓", "scroll"),
        ("Tab", "next"),
    ];
    for (key, what) in keys {
        if key == "Tab" && model.views.len() < 2 {
            continue;
        }
        let bold = Style::new().fg(ACCENT).add_modifier(Modifier::BOLD);
        line.push(Span::styled(key, bold));
        line.push(Span::styled(format!(" {what}   "), DIM));
    }
    Paragraph::new(Line::from(line))
}

fn panel(frame: &mut Frame, area: Rect, view: &View, model: &Model, selected: bool) {
    let border = match selected && model.views.len() > 1 {
        true => Style::new().fg(ACCENT),
        false => DIM,
    };
    let block = Block::bordered()
        .border_type(BorderType::Rounded)
        .border_style(border)
        .title(heading(view));
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let spark = match inner.height {
        0..8 => 0,
        8..16 => 2,
        _ => 4,
    };
    let [rate, curve, waiting, sojourn, _, flows] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(spark),
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(u16::from(spark > 0)),
        Constraint::Fill(1),
    ])
    .areas(inner);
    let limit = view.status.stats.rate_bps.unwrap_or(0);
    frame.render_widget(rate_line(view, limit, rate.width), rate);
    frame.render_widget(rate_curve(view, limit, curve.width), curve.inner(margin()));
    frame.render_widget(waiting_line(view, waiting.width), waiting);
    frame.render_widget(sojourn_line(view), sojourn);
    let scroll = if selected { model.scroll } else { 0 };
    frame.render_widget(flow_table(&view.rows(model.sort), scroll, flows), flows);
}

const fn margin() -> ratatui::layout::Margin {
    ratatui::layout::Margin::new(1, 0)
}

fn heading(view: &View) -> Line<'static> {
    let text = describe::headline(&view.status);
    let (what, rest) = text.split_once(": ").unwrap_or((&text, ""));
    let bold = Style::new().fg(ACCENT).add_modifier(Modifier::BOLD);
    Line::from(vec![
        Span::styled(format!(" {what} "), bold),
        Span::styled(format!("{rest} "), Style::new().fg(Color::Gray)),
    ])
}

fn rate_line(view: &View, limit: u64, width: u16) -> Line<'static> {
    let bps = view.bps();
    let share = if limit == 0 { 0.0 } else { bps / limit as f64 };
    let mut line = label("rate");
    line.push(Span::styled(
        format!("{:<13}", text::rate(bps)),
        Style::new().add_modifier(Modifier::BOLD),
    ));
    if limit > 0 {
        line.extend(bar(share, width, Color::Green));
        let of = format!(" {:>3.0} % of {}", share * 100.0, Rate::from_bps(limit));
        line.push(Span::styled(of, DIM));
    }
    Line::from(line)
}

fn rate_curve(view: &View, limit: u64, width: u16) -> Sparkline<'static> {
    let room = usize::from(width.saturating_sub(2));
    let shown = view.rates.iter().rev().take(room).rev().copied();
    let mut points: Vec<u64> = shown.collect();
    // The newest is at the right edge from the first moment.
    points.splice(..0, vec![0; room.saturating_sub(points.len())]);
    let most = points.iter().copied().max().unwrap_or(0);
    Sparkline::default()
        .style(Style::new().fg(Color::Green))
        .max(limit.max(most).max(1))
        .data(points)
}

fn waiting_line(view: &View, width: u16) -> Line<'static> {
    let stats = &view.status.stats;
    let limit = view.status.limit_packets;
    let share = stats.backlog_packets as f64 / f64::from(limit.max(1));
    let share = share.max(stats.backlog_bytes as f64 / (view.status.limit_bytes as f64).max(1.0));
    let color = match share {
        s if s < 0.5 => Color::Green,
        s if s < 0.9 => Color::Yellow,
        _ => Color::Red,
    };
    let mut line = label("waiting");
    line.push(Span::styled(
        format!("{:<13}", text::size(stats.backlog_bytes)),
        Style::new().add_modifier(Modifier::BOLD),
    ));
    line.extend(bar(share, width, color));
    let of = format!(
        " {} of {}",
        text::count(stats.backlog_packets),
        text::packets(u64::from(limit))
    );
    line.push(Span::styled(of, DIM));
    Line::from(line)
}

fn sojourn_line(view: &View) -> Line<'static> {
    let stats = &view.status.stats;
    let now = stats.sojourn_recent;
    let mut line = label("sojourn");
    line.push(Span::styled("p50 ", DIM));
    line.push(Span::raw(format!("{:<9}", text::millis(now.p50_ms))));
    line.push(Span::styled("p99 ", DIM));
    line.push(Span::raw(format!("{:<9}", text::millis(now.p99_ms))));
    line.extend(label("drops"));
    let color = match stats.dropped() {
        0 => Style::new().fg(Color::Green),
        _ => Style::new().fg(Color::Yellow),
    };
    line.push(Span::styled(describe::drops(&stats.drops), color));
    if view.drop_rate >= 0.5 {
        line.push(Span::styled(format!("  {:.0}/s", view.drop_rate), DIM));
    }
    Line::from(line)
}

fn label(name: &'static str) -> Vec<Span<'static>> {
    vec![Span::styled(format!(" {name:<9}"), DIM)]
}

/// A bar in the room that is left of `width`; none where there is little.
fn bar(share: f64, width: u16, color: Color) -> Vec<Span<'static>> {
    const TEXT: u16 = 50;
    let cells = usize::from(width.saturating_sub(TEXT).min(60));
    if cells < 4 {
        return Vec::new();
    }
    let (full, rest) = blocks(share, cells);
    vec![
        Span::styled(full, Style::new().fg(color)),
        Span::styled("·".repeat(rest), DIM),
    ]
}

/// A bar to the eighth of a cell, and the cells that it leaves.
fn blocks(share: f64, cells: usize) -> (String, usize) {
    const PARTS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
    let eighths = (share.clamp(0.0, 1.0) * cells as f64 * 8.0).round() as usize;
    let mut bar = "█".repeat(eighths / 8);
    if !eighths.is_multiple_of(8) {
        bar.push(PARTS[eighths % 8]);
    }
    let used = eighths.div_ceil(8);
    (bar, cells - used)
}

fn flow_table<'a>(rows: &[Row<'a>], scroll: usize, area: Rect) -> Table<'a> {
    let room = usize::from(area.height.saturating_sub(1));
    let scroll = scroll.min(rows.len().saturating_sub(room));
    let largest = rows
        .iter()
        .map(|row| row.stats.backlog_bytes)
        .max()
        .unwrap_or(0);
    // Narrow terminals keep what matters most.
    let columns: &[Column] = match area.width {
        0..56 => &[Column::Flow, Column::Turn, Column::Rate],
        56..84 => &[
            Column::Flow,
            Column::Turn,
            Column::Rate,
            Column::Backlog,
            Column::Drops,
        ],
        84..110 => &[
            Column::Flow,
            Column::Turn,
            Column::Rate,
            Column::Backlog,
            Column::P50,
            Column::P99,
            Column::Drops,
        ],
        _ => &[
            Column::Flow,
            Column::Turn,
            Column::Rate,
            Column::Backlog,
            Column::Bar,
            Column::P50,
            Column::P99,
            Column::Drops,
        ],
    };
    let are_judged = rows.iter().any(|row| row.stats.standing.is_some());
    // Where flows are judged, that says more than bars.
    let columns: Vec<Column> = match are_judged && area.width >= 130 {
        true => {
            let plain = columns.iter().copied();
            let plain = plain.filter(|one| !matches!(one, Column::Bar | Column::P50));
            plain.chain([Column::Standing]).collect()
        }
        false => columns.to_vec(),
    };
    let header = columns.iter().map(|column| column.header());
    let shown = rows.iter().skip(scroll).take(room);
    let lines = shown.map(|row| {
        let cells = columns.iter().map(|column| column.cell(row, largest));
        TableRow::new(cells).style(match row.turn {
            Turn::Idle(_) => DIM,
            _ => Style::new(),
        })
    });
    Table::new(lines, columns.iter().map(|column| column.width()))
        .header(TableRow::new(header).style(DIM.add_modifier(Modifier::UNDERLINED)))
        .column_spacing(1)
}

#[derive(Clone, Copy)]
enum Column {
    Flow,
    Turn,
    Rate,
    Backlog,
    Bar,
    P50,
    P99,
    Drops,
    Standing,
}

impl Column {
    fn width(self) -> Constraint {
        match self {
            Self::Flow => Constraint::Fill(1),
            Self::Turn => Constraint::Length(10),
            Self::Rate => Constraint::Length(11),
            Self::Backlog => Constraint::Length(8),
            Self::Bar => Constraint::Length(14),
            Self::P50 | Self::P99 => Constraint::Length(9),
            Self::Drops => Constraint::Length(8),
            Self::Standing => Constraint::Length(36),
        }
    }

    fn header(self) -> Cell<'static> {
        let name = match self {
            Self::Flow => " flow",
            Self::Turn => "turn",
            Self::Rate => "rate",
            Self::Backlog => "backlog",
            Self::Bar => "",
            Self::P50 => "p50",
            Self::P99 => "p99",
            Self::Drops => "drops",
            Self::Standing => "standing",
        };
        Cell::new(Line::from(name).alignment(self.alignment()))
    }

    fn alignment(self) -> Alignment {
        match self {
            Self::Flow | Self::Turn | Self::Bar | Self::Standing => Alignment::Left,
            _ => Alignment::Right,
        }
    }

    fn cell<'a>(self, row: &Row<'a>, largest: u64) -> Cell<'a> {
        let stats = row.stats;
        let line = match self {
            Self::Flow => Line::from(format!(" {}", stats.flow)),
            Self::Turn => turn(row.turn),
            Self::Rate => Line::from(text::rate(row.bps)),
            Self::Backlog if stats.backlog_packets == 0 => Line::from("-"),
            Self::Backlog => Line::from(text::size(stats.backlog_bytes)),
            Self::Bar => {
                let share = stats.backlog_bytes as f64 / largest.max(1) as f64;
                let (bar, _) = blocks(share, 14);
                Line::styled(bar, turn_style(row.turn))
            }
            Self::P50 => Line::from(text::millis(stats.sojourn_p50_ms)),
            Self::P99 => Line::from(text::millis(stats.sojourn_p99_ms)),
            Self::Drops => match stats.drops.values().sum() {
                0 => Line::from("-"),
                n => Line::styled(text::count(n), Style::new().fg(Color::Yellow)),
            },
            Self::Standing => standing(stats),
        };
        Cell::new(line.alignment(self.alignment()))
    }
}

fn turn(turn: Turn) -> Line<'static> {
    let text = match turn {
        Turn::AtOnce => "▶ at once".into(),
        Turn::Place(place) => format!("▷ {place}"),
        Turn::Waits => "· waits".into(),
        Turn::Longest => "■ longest".into(),
        Turn::Idle(seconds) => format!("  {}", text::span(seconds)),
    };
    Line::styled(text, turn_style(turn))
}

/// `bulk 12 s, responds to loss`.
fn standing(stats: &FlowStats) -> Line<'static> {
    let Some(class) = stats.standing else {
        return Line::default();
    };
    let style = match class {
        Class::Standing => Style::new().fg(Color::Green),
        Class::New => Style::new().fg(Color::Yellow),
        Class::Bulk | Class::Probation => Style::new().fg(Color::Red),
        _ => Style::new(),
    };
    let since = format!("{class} {}", text::span(stats.since_s));
    let reason = format!(", {}", stats.reason);
    Line::from(vec![Span::styled(since, style), Span::styled(reason, DIM)])
}

fn turn_style(turn: Turn) -> Style {
    match turn {
        Turn::AtOnce => Style::new().fg(Color::Green),
        Turn::Place(1) => Style::new().fg(Color::Green).add_modifier(Modifier::BOLD),
        Turn::Place(_) | Turn::Waits => Style::new().fg(Color::Yellow),
        Turn::Longest => Style::new().fg(Color::Red),
        Turn::Idle(_) => DIM,
    }
}

#[cfg(test)]
mod tests {
    use super::super::model::tests::{flow, status};
    use super::*;
    use makeway_core::sched::Discipline;
    use makeway_gateway::rules::Direction;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use std::time::Instant;

    fn model() -> Model {
        let flows = vec![
            flow("tcp 10.0.0.2:40000 > 10.0.0.1:80", 90_000, 5_000_000),
            flow("udp 10.0.0.3:5004 > 10.0.0.1:5004", 0, 80_000),
            flow("tcp 10.0.0.4:40001 > 10.0.0.1:80", 3_000, 80_000),
        ];
        let mut one = status(Discipline::Sqf, flows);
        let mut other = one.directions[0].clone();
        other.direction = Direction::Ingress;
        one.directions.push(other);
        let mut model = Model::new();
        model.update(Instant::now(), Ok(vec![one.clone()]));
        model.update(Instant::now(), Ok(vec![one]));
        model
    }

    fn screen(model: &Model, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, model)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn flows_and_keys_are_on_the_screen() {
        let text = screen(&model(), 120, 40);
        for part in [
            "upload",
            "download",
            "at once",
            "longest",
            "q quit",
            "10.0.0.2:40000",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }

    #[test]
    fn standing_is_on_the_screen_with_its_reason_where_flows_are_judged() {
        let mut bulk = flow("tcp 10.0.0.2:40000 > 10.0.0.1:80", 90_000, 5_000_000);
        (bulk.standing, bulk.reason, bulk.since_s) =
            (Some(Class::Bulk), "standing queue for 1.2 s".into(), 12.0);
        let mut model = Model::new();
        model.update(
            Instant::now(),
            Ok(vec![status(Discipline::Makeway, vec![bulk])]),
        );
        // Where there is no room for both, the flow's name is shown.
        assert!(screen(&model, 120, 30).contains("10.0.0.2:40000"));
        for width in [132, 160] {
            let text = screen(&model, width, 30);
            assert!(text.contains("10.0.0.2:40000"), "{text}");
            assert!(
                text.contains("bulk 12 s, standing queue for 1.2 s"),
                "{text}"
            );
        }
        assert!(!screen(&self::model(), 140, 30).contains("standing"));
    }

    #[test]
    fn no_terminal_is_too_small() {
        let mut model = model();
        model.scroll = 1_000;
        model.trouble = Some("it has ended".into());
        for width in 1..100 {
            for height in 1..20 {
                screen(&model, width, height);
            }
        }
        screen(&Model::new(), 1, 1);
    }

    #[test]
    fn a_bar_fills_its_cells_and_no_more() {
        for share in [-1.0, 0.0, 0.01, 0.5, 0.999, 1.0, 7.0, f64::NAN] {
            let (bar, rest) = blocks(share, 10);
            assert_eq!(bar.chars().count() + rest, 10, "{share}");
        }
    }
}
