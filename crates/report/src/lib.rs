//! What a run reports: table, JSON, one self-contained HTML page.

pub mod model;
