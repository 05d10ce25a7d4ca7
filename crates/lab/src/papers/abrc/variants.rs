// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parameters of ABRC and of the sender's timer: as printed, ours, and the changes between them, one after the other and each alone.

/// Parameters of ABRC, and the sender's timer.
#[derive(Clone, Copy, Debug)]
pub struct Variant {
    /// As the cells are named.
    pub name: &'static str,
    /// For the report.
    pub says: &'static str,
    /// Keys of the controller.
    pub keys: &'static str,
    /// Whether the sender's timer is that of 2004, of 10 ms.
    pub ticks: bool,
}

/// Occupancies in packets, no pairs, and a least B_T without the path: as printed.
macro_rules! as_printed {
    ($keys:literal) => {
        concat!(
            $keys,
            ", unit = \"packets\", pair_each = 0, path = \"none\""
        )
    };
}

/// As printed, then one change after the other; the last is the default.
pub const VARIANTS: [Variant; 6] = [
    Variant {
        name: "printed",
        says: "as printed, the sender's timer of 10 ms",
        keys: as_printed!(
            ", t_udp = \"shortest\", acks = 0, leaving = \"received\", granularity = \"10ms\""
        ),
        ticks: true,
    },
    Variant {
        name: "exact",
        says: "as printed, the sender's timer exact",
        keys: as_printed!(", t_udp = \"shortest\", acks = 0, leaving = \"received\""),
        ticks: false,
    },
    Variant {
        name: ALONE,
        says: "and T_UDP the mean between packets that follow one another",
        keys: as_printed!(", acks = 0, leaving = \"received\""),
        ticks: false,
    },
    Variant {
        name: "pairs",
        says: "and departures by sequence numbers",
        keys: as_printed!(", acks = 0"),
        ticks: false,
    },
    Variant {
        name: "acks",
        says: "and acknowledgements count",
        keys: as_printed!(""),
        ticks: false,
    },
    Variant {
        name: "ours",
        says: "and of ten packets two leave at once, the least B_T has the path's packets, occupancies are in bytes",
        keys: "",
        ticks: false,
    },
];
pub const PRINTED: &str = VARIANTS[0].name;
pub const EXACT: &str = VARIANTS[1].name;
/// As printed but for the timer and for T_UDP.
pub const ALONE: &str = "t-udp";
pub const OURS: &str = VARIANTS[5].name;

/// As printed with one change: each leaves one key of the column as printed to its default. Together they are all keys but the timer's, which
/// [`EXACT`] changes.
pub const PRINTED_BUT: [Variant; 6] = [
    printed_but(
        "printed-t-udp",
        "as printed, T_UDP the mean between packets that follow one another",
        as_printed!(", acks = 0, leaving = \"received\", granularity = \"10ms\""),
    ),
    printed_but(
        "printed-numbered",
        "as printed, departures by sequence numbers",
        as_printed!(", t_udp = \"shortest\", acks = 0, granularity = \"10ms\""),
    ),
    printed_but(
        "printed-acks",
        "as printed, acknowledgements count",
        as_printed!(", t_udp = \"shortest\", leaving = \"received\", granularity = \"10ms\""),
    ),
    printed_but(
        "printed-pairs",
        "as printed, of ten packets two leave at once",
        ", t_udp = \"shortest\", acks = 0, leaving = \"received\", granularity = \"10ms\", unit = \"packets\", path = \"none\"",
    ),
    printed_but(
        "printed-path",
        "as printed, the least B_T has the path's packets",
        ", t_udp = \"shortest\", acks = 0, leaving = \"received\", granularity = \"10ms\", unit = \"packets\", pair_each = 0",
    ),
    printed_but(
        IN_BYTES_ALONE,
        "as printed, occupancies in bytes",
        ", t_udp = \"shortest\", acks = 0, leaving = \"received\", granularity = \"10ms\", pair_each = 0, path = \"none\"",
    ),
];
/// As printed but for the unit of occupancies.
pub const IN_BYTES_ALONE: &str = "printed-bytes";

/// Ours with one change: those of the last step of [`VARIANTS`], each alone.
pub const OURS_BUT: [Variant; 3] = [
    Variant {
        name: "ours-no-pairs",
        says: "ours, no packets that leave at once",
        keys: ", pair_each = 0",
        ticks: false,
    },
    Variant {
        name: "ours-no-path",
        says: "ours, the least B_T without the path",
        keys: ", path = \"none\"",
        ticks: false,
    },
    Variant {
        name: "ours-packets",
        says: "ours, occupancies in packets",
        keys: ", unit = \"packets\"",
        ticks: false,
    },
];

const fn printed_but(name: &'static str, says: &'static str, keys: &'static str) -> Variant {
    Variant {
        name,
        says,
        keys,
        ticks: true,
    }
}

/// Rows of the tables of (7): one change after the other, then each alone.
pub fn tried() -> impl Iterator<Item = Variant> {
    VARIANTS.into_iter().chain(PRINTED_BUT).chain(OURS_BUT)
}

/// Both columns, by the names of their cells.
pub const COLUMNS: [Variant; 2] = [VARIANTS[0], VARIANTS[5]];

/// Senders of several streams: both columns, and each with changes.
pub const SENDERS_OF_MANY: [Variant; 16] = [
    VARIANTS[0],
    Variant {
        says: "ours",
        ..VARIANTS[5]
    },
    OURS_BUT[0],
    OURS_BUT[1],
    VARIANTS[1],
    VARIANTS[2],
    Variant {
        name: "printed-pair",
        says: "as printed, two packets at once after each report",
        keys: as_printed!(
            ", t_udp = \"shortest\", acks = 0, leaving = \"received\", granularity = \"10ms\", pair = true"
        ),
        ticks: true,
    },
    Variant {
        name: "ours-ticks",
        says: "ours with a sender's timer of 10 ms",
        keys: ", granularity = \"10ms\"",
        ticks: true,
    },
    Variant {
        name: "ours-pair",
        says: "ours, two packets at once after each report",
        keys: ", pair = true",
        ticks: false,
    },
    Variant {
        name: "ours-shortest",
        says: "ours, T_UDP the shortest time between two packets so far",
        keys: ", t_udp = \"shortest\"",
        ticks: false,
    },
    PRINTED_BUT[0],
    PRINTED_BUT[1],
    PRINTED_BUT[2],
    PRINTED_BUT[3],
    PRINTED_BUT[4],
    PRINTED_BUT[5],
];
