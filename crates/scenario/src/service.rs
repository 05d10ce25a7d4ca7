// SPDX-License-Identifier: MIT OR Apache-2.0
//! `makeway.toml`: the interfaces that `makeway service` shapes, read and checked as scenarios are.

mod autorate;
mod backend;
mod link;
mod web;

use std::net::IpAddr;

use makeway_core::flow::Identity;
use makeway_core::framing::Framing;
use makeway_core::sched::{Discipline, Spec};
use makeway_core::units::Rate;

use crate::document::{self, Entry, Value};
use crate::error::{Origin, ScenarioError, list};
use crate::field::{Field, RATE, Values};
use crate::section::{Section, text};

pub use autorate::{AUTORATE, Autorate};
pub use backend::Missing;
pub use web::{LineServer, WEB, Web};

const IDENTITIES: [&str; 5] = ["5-tuple", "src-port", "src-host", "dst-host", "host-pair"];

/// The file itself.
#[rustfmt::skip]
const TOP: &[Field] = &[
    Field::optional("interface", Values::Other("tables `[interface.NAME]`"), "none", "interfaces that are shaped"),
    Field::optional("web", Values::Table(WEB), "no page", "page and metrics"),
];

/// Keys of `[interface.NAME]`.
#[rustfmt::skip]
pub const FIELDS: &[Field] = &[
    Field::optional("upload", RATE, "not shaped", "egress rate, some percent below the link's; as cake's `bandwidth`"),
    Field::optional("download", RATE, "not shaped", "ingress rate"),
    Field::optional("link", Values::OneOf(&link::PRESET_NAMES), "the device's own header", "bytes that the link adds to a packet, and its cells"),
    Field::optional("overhead", Values::Other("a whole number from -64 to 256"), "by `link`", "bytes that the link adds to each IP packet"),
    Field::optional("mpu", Values::Whole(0, 256), "by `link`", "least bytes of a packet on the link, `overhead` included"),
    Field::optional("cells", Values::OneOf(&["none", "atm", "ptm"]), "by `link`", "cells that carry packets"),
    Field::optional("discipline", Values::Other("a discipline (docs/disciplines.md)"), "`makeway`; `cake` with `backend = \"cake\"`", "order of service and drops"),
    Field::optional("parameters", Values::Other("a table: `{ \"codel.target\" = \"10ms\" }`"), "the discipline's", "parameters of the discipline"),
    Field::new("flows", Values::OneOf(&IDENTITIES), "5-tuple", "flow key"),
    Field::optional("users", Values::OneOf(&IDENTITIES), "`src-host` of the upload, `dst-host` of the download", "user key, for disciplines with users"),
    Field::optional("weights", Values::Other("a table: `{ \"192.168.1.7\" = 2 }`"), "1 each", "shares of users, by address; 1 to 65536"),
    Field::optional("limit", Values::Other("`\"100 packets\"` or `\"150kB\"`"), "200 ms of packets", "queue limit"),
    Field::new("backend", Values::OneOf(&["auto", "bpf", "cake", "nfqueue"]), "auto", "holder of the packets: the kernel (`bpf`; its own `cake`), or makeway; `auto`: the kernel where it can"),
    Field::optional("autorate", Values::Table(AUTORATE), "rates stay", "rates follow the link, from `upload` and `download` on (docs/autorate.md)"),
];

/// Contents of the file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Service {
    /// In the order of the file; none in one that is still to be written.
    pub interfaces: Vec<Shaped>,
    /// Page and metrics, if the file has `[web]`.
    pub web: Option<Web>,
}

/// An interface that is shaped.
#[derive(Clone, Debug, PartialEq)]
pub struct Shaped {
    /// Its name.
    pub name: String,
    /// Egress rate; `None`: not shaped.
    pub upload: Option<Rate>,
    /// Ingress rate; `None`: not shaped.
    pub download: Option<Rate>,
    /// Bytes on the link; `None`: the device's own header.
    pub framing: Option<Framing>,
    /// Order of service and drops.
    pub discipline: Discipline,
    /// Parameters of the discipline, as they are written.
    pub parameters: Vec<(String, String)>,
    /// Flow key.
    pub flows: Identity,
    /// User key.
    pub users: Option<Identity>,
    /// Shares of users.
    pub weights: Vec<(IpAddr, u32)>,
    /// Queue limit as it is written.
    pub limit: Option<String>,
    /// `auto`, `bpf`, `cake` or `nfqueue`.
    pub backend: String,
    /// Rates follow the link.
    pub autorate: Option<Autorate>,
}

impl Shaped {
    /// A setting that its backend does not have; `None` for each interface that [`parse`] returns.
    pub fn missing(&self) -> Option<Missing> {
        backend::missing(self)
    }
}

/// Reads the file's `text`; `file` is its name in errors.
///
/// # Errors
/// The first thing that is wrong, with its line.
pub fn parse(text: &str, file: &str) -> Result<Service, ScenarioError> {
    let root = document::parse(text, file)?;
    let origin = Origin::File(file.into());
    let top = Section::top(&origin, &root, TOP)?;
    let mut interfaces = Vec::new();
    if let Some(item) = top.given("interface")? {
        let Value::Table(table) = &item.value else {
            return Err(item.origin.error(
                "`interface` is not a table: write [interface.wan0], then its keys on lines of their own",
            ));
        };
        for entry in &table.entries {
            interfaces.push(checked(entry)?);
        }
    }
    let web = top
        .inner("web")?
        .map(|section| web::read(&section))
        .transpose()?;
    Ok(Service { interfaces, web })
}

/// An interface whose backend has all that it asks for.
fn checked(entry: &Entry) -> Result<Shaped, ScenarioError> {
    let interface = interface(entry)?;
    let Some(Missing { key, why }) = interface.missing() else {
        return Ok(interface);
    };
    let s = Section::named("interface", entry, &[FIELDS])?;
    Err(s.at(key).error(format!("`{}`: {why}", s.name(key))))
}

fn interface(entry: &Entry) -> Result<Shaped, ScenarioError> {
    let s = Section::named("interface", entry, &[FIELDS])?;
    // IFNAMSIZ of linux/if.h, with its end.
    let is_name = |c: char| !c.is_whitespace() && c != '/' && c != ':';
    if entry.key.is_empty() || entry.key.len() > 15 || !entry.key.chars().all(is_name) {
        return Err(entry.origin.error(format!(
            "`{}` is no name of an interface: write 1 to 15 letters and digits, like wan0",
            entry.key
        )));
    }
    let [upload, download] = ["upload", "download"].map(|key| s.read::<Rate>(key));
    let (upload, download) = (upload?, download?);
    if upload.is_none() && download.is_none() {
        return Err(entry.origin.error(format!(
            "[{}] shapes nothing: write `upload = \"20mbit\"`, `download = \"50mbit\"` or both",
            s.path
        )));
    }
    let backend = s.choice("backend")?;
    let (discipline, at) = match s.string("discipline")? {
        Some((name, origin)) => {
            let parsed = name.parse::<Discipline>();
            (
                parsed.map_err(|error| {
                    origin.error(format!("`{}`: {error}", s.name("discipline")))
                })?,
                origin,
            )
        }
        None if backend == "cake" => (Discipline::Cake, s.origin),
        None => (Discipline::Makeway, s.origin),
    };
    let limit = limit(&s)?;
    let mut spec = discipline.spec();
    let parameters = parameters(&s, &mut spec)?;
    let weights = weights(&s)?;
    if !weights.is_empty() && !spec.needs().weights {
        let weighted = Discipline::ALL.into_iter();
        let weighted = weighted.filter(|one| one.spec().needs().weights);
        return Err(at.error(format!(
            "`{}` needs a discipline with weights, and {discipline} has none: choose among {}",
            s.name("weights"),
            list(weighted.map(Discipline::name))
        )));
    }
    let identity = |key: &str| -> Option<Identity> { s.choice(key).ok()?.parse().ok() };
    s.choice("flows")?;
    s.choice("users")?;
    Ok(Shaped {
        name: entry.key.clone(),
        upload,
        download,
        framing: link::framing(&s)?,
        discipline,
        parameters,
        flows: identity("flows").unwrap_or(Identity::FiveTuple),
        users: identity("users"),
        weights,
        limit,
        backend: backend.into(),
        autorate: s
            .inner("autorate")?
            .map(|section| autorate::read(&section, upload, download))
            .transpose()?,
    })
}

fn parameters(s: &Section<'_>, spec: &mut Spec) -> Result<Vec<(String, String)>, ScenarioError> {
    let Some(item) = s.given("parameters")? else {
        return Ok(Vec::new());
    };
    let Value::Table(table) = &item.value else {
        return Err(item.origin.error(format!(
            "`{}` is not a table: write {{ \"codel.target\" = \"10ms\" }}",
            s.name("parameters")
        )));
    };
    let mut all = Vec::new();
    for entry in &table.entries {
        let value = text(&entry.item).unwrap_or_default();
        spec.set(&entry.key, &value).map_err(|error| {
            entry
                .origin
                .error(format!("`{}`: {error}", s.name("parameters")))
        })?;
        all.push((entry.key.clone(), value));
    }
    let checked = spec.check();
    checked.map_err(|error| {
        item.origin
            .error(format!("`{}`: {error}", s.name("parameters")))
    })?;
    Ok(all)
}

fn weights(s: &Section<'_>) -> Result<Vec<(IpAddr, u32)>, ScenarioError> {
    let Some(item) = s.given("weights")? else {
        return Ok(Vec::new());
    };
    let wrong = |origin: &Origin| {
        origin.error(format!(
            "`{}` should be addresses with shares from 1 to 65536: write {{ \"192.168.1.7\" = 2 }}",
            s.name("weights")
        ))
    };
    let Value::Table(table) = &item.value else {
        return Err(wrong(&item.origin));
    };
    let one = |entry: &Entry| {
        let address = entry.key.parse().ok()?;
        let share = text(&entry.item)?.parse().ok()?;
        (1..=65_536).contains(&share).then_some((address, share))
    };
    let pairs = table.entries.iter();
    pairs
        .map(|entry| one(entry).ok_or_else(|| wrong(&entry.origin)))
        .collect()
}

fn limit(s: &Section<'_>) -> Result<Option<String>, ScenarioError> {
    let Some((text, origin)) = s.string("limit")? else {
        return Ok(None);
    };
    let packets = text.strip_suffix("packets").or(text.strip_suffix("packet"));
    let is_some = match packets {
        Some(number) => number.trim().parse::<u32>().is_ok_and(|n| n > 0),
        None => text
            .parse::<makeway_core::units::Bytes>()
            .is_ok_and(|bytes| bytes.get() > 0),
    };
    match is_some {
        true => Ok(Some(text.into())),
        false => Err(origin.error(format!(
            "`{}` is \"{text}\": write \"100 packets\" or \"150kB\"",
            s.name("limit")
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use makeway_core::framing::Cells;

    fn read(text: &str) -> Service {
        parse(text, "makeway.toml").unwrap_or_else(|error| panic!("{error}\n{text}"))
    }

    #[test]
    fn five_lines_are_enough_and_every_key_has_its_effect() {
        let short = read(
            "[interface.wan0]\nupload = \"20mbit\"\ndownload = \"50mbit\"\nlink = \"docsis\"\n",
        );
        let [wan] = &short.interfaces[..] else {
            panic!("{short:?}");
        };
        assert_eq!(wan.upload, Some(Rate::from_bps(20_000_000)));
        assert_eq!(wan.framing.map(|f| (f.overhead, f.mpu)), Some((18, 64)));
        assert_eq!(
            (wan.discipline, wan.backend.as_str()),
            (Discipline::Makeway, "auto")
        );

        let long = read(
            "[interface.ppp0]\nupload = \"9500kbit\"\nlink = \"pppoe-vdsl2\"\noverhead = 26\nmpu = 70\ncells = \"none\"\n\
             discipline = \"hier\"\nflows = \"host-pair\"\nusers = \"src-host\"\nweights = { \"192.168.1.7\" = 2 }\n\
             limit = \"100 packets\"\nbackend = \"nfqueue\"\n[interface.br-lan]\ndownload = \"1gbit\"\n",
        );
        let [ppp, lan] = &long.interfaces[..] else {
            panic!("{long:?}");
        };
        let framing = Framing {
            overhead: 26,
            mpu: 70,
            cells: Cells::None,
        };
        assert_eq!(ppp.framing, Some(framing));
        assert_eq!(
            (ppp.discipline, ppp.flows),
            (Discipline::Hier, Identity::HostPair)
        );
        assert_eq!(ppp.weights, [("192.168.1.7".parse().unwrap(), 2)]);
        assert_eq!(
            (ppp.limit.as_deref(), ppp.backend.as_str()),
            (Some("100 packets"), "nfqueue")
        );
        assert_eq!((lan.upload, lan.framing), (None, None));
        let cake = read("[interface.wan0]\nupload = \"20mbit\"\nbackend = \"cake\"\n");
        assert_eq!(cake.interfaces[0].discipline, Discipline::Cake);
        assert_eq!(read("# [interface.wan0]\n"), Service::default());
        for (text, listen) in [
            ("[web]\n", "127.0.0.1:8480"),
            ("[web]\nlisten = \"[::1]:80\"\n", "[::1]:80"),
            (
                "[web]\nlisten = \"0.0.0.0:80\"\npublic = true\n",
                "0.0.0.0:80",
            ),
        ] {
            assert_eq!(read(text).web.map(|web| web.listen), listen.parse().ok());
        }
        let host = |text: &str| read(text).web.and_then(|web| web.host);
        assert_eq!(host("[web]\n"), None);
        assert_eq!(
            host("[web]\nhost = \"Gateway.lan\"\n").as_deref(),
            Some("gateway.lan")
        );
    }

    #[test]
    fn autorate_needs_a_line_and_takes_bounds_and_sources() {
        let with = |keys: &str| {
            read(&format!(
                "[interface.wan0]\nupload = \"20mbit\"\n[interface.wan0.autorate]\n{keys}"
            ))
            .interfaces[0]
                .autorate
                .clone()
        };
        assert_eq!(
            read("[interface.wan0]\nupload = \"20mbit\"\n").interfaces[0].autorate,
            None
        );
        let bare = with("").unwrap();
        assert_eq!((bare.upload, bare.tcp, bare.calls), (None, true, true));
        assert!(bare.reflectors.is_empty());
        let all = with("upload = [\"4mbit\", \"40mbit\"]\nreflectors = [\"192.0.2.1\", \"2001:db8::1\"]\ntcp = false\ncalls = false\n").unwrap();
        let mbit = |mbit: u64| Rate::from_bps(mbit * 1_000_000);
        assert_eq!(all.upload, Some((mbit(4), mbit(40))));
        assert_eq!(
            (all.reflectors.len(), all.tcp, all.calls),
            (2, false, false)
        );
        assert!(with("reflectors = []\n").unwrap().reflectors.is_empty());
        assert!(with("tcp = false\n").unwrap().calls);
        for (keys, said) in [
            ("reflectors = [\"one\"]\n", "2001:db8::1"),
            (
                "reflectors = []\ntcp = false\ncalls = false\n",
                "no source of delay",
            ),
            (
                "tcp = false\ncalls = false\n",
                "or write `tcp = true` or `calls = true`",
            ),
            ("upload = \"4mbit\"\n", "is not two rates"),
            ("upload = [\"40mbit\", \"4mbit\"]\n", "no range of rates"),
            (
                "upload = [\"30mbit\", \"40mbit\"]\n",
                "does not hold 20mbit",
            ),
            ("download = [\"30mbit\", \"40mbit\"]\n", "not shaped"),
            (
                "uplaod = [\"30mbit\", \"40mbit\"]\n",
                "did you mean `upload`",
            ),
        ] {
            let text =
                format!("[interface.wan0]\nupload = \"20mbit\"\n[interface.wan0.autorate]\n{keys}");
            let error = parse(&text, "makeway.toml").unwrap_err();
            assert!(error.to_string().contains(said), "{error}\n{keys}");
        }
    }

    #[test]
    fn a_wrong_file_is_refused_with_its_line_and_what_would_be_right() {
        for (text, line, said) in [
            (
                "[interface.wan0]\nlink = \"docsis\"\n",
                ":1",
                "upload = \"20mbit\"",
            ),
            (
                "[interface.wan0]\nupload = 20\n",
                ":2",
                "a rate from 1kbit to 1000gbit",
            ),
            (
                "[interface.wan0]\nupload = \"20mbit\"\nlinc = \"docsis\"\n",
                ":3",
                "did you mean `link`",
            ),
            (
                "[interface.wan0]\nupload = \"20mbit\"\nlink = \"docsys\"\n",
                ":3",
                "did you mean `docsis`",
            ),
            (
                "[interface.wan0]\nupload = \"20mbit\"\noverhead = 300\n",
                ":3",
                "-64 to 256",
            ),
            (
                "[interface.wan0]\nupload = \"20mbit\"\ncells = \"atm\"\n",
                ":1",
                "overhead = 18",
            ),
            (
                "[interface.wan0]\nupload = \"20mbit\"\ndiscipline = \"sfq\"\n",
                ":3",
                "fq",
            ),
            (
                "[interface.wan0]\nupload = \"20mbit\"\nweights = { \"10.0.0.1\" = 0 }\n",
                ":3",
                "1 to 65536",
            ),
            (
                "[interface.wan0]\nupload = \"20mbit\"\ndiscipline = \"sqf\"\nweights = { \"10.0.0.1\" = 2 }\n",
                ":3",
                "makeway",
            ),
            (
                "[interface.wan0]\nupload = \"20mbit\"\nlimit = \"0 packets\"\n",
                ":3",
                "100 packets",
            ),
            (
                "[interface.wan0]\nupload = \"20mbit\"\nparameters = { \"red.max\" = 5 }\n",
                ":3",
                "red.max",
            ),
            (
                "[interface.wan0]\nupload = \"20mbit\"\nbackend = \"ebpf\"\n",
                ":3",
                "did you mean `bpf`",
            ),
            (
                "[interface.wan0]\nupload = \"20mbit\"\nbackend = \"cake\"\nlimit = \"100 packets\"\n",
                ":4",
                "not in the kernel's cake",
            ),
            (
                "[interface.wan0]\nupload = \"20mbit\"\nbackend = \"cake\"\ndiscipline = \"makeway\"\n",
                ":4",
                "not in the kernel's cake",
            ),
            ("[web]\nlisten = \"8480\"\n", ":2", "127.0.0.1:8480"),
            ("[web]\nlisten = \"0.0.0.0:8480\"\n", ":2", "public = true"),
            (
                "[web]\nlisten = \"192.168.1.1:80\"\npublic = 1\n",
                ":3",
                "true or false",
            ),
            (
                "[web]\nhost = \"https://gateway.example\"\n",
                ":2",
                "without scheme and port",
            ),
            ("[web]\nhost = \"a..b\"\n", ":2", "no name of a host"),
            ("[web]\nport = 80\n", ":2", "no key `port`"),
            (
                "[web]\nline_server = \"192.0.2.1\"\n",
                ":2",
                "`web.line_token_file`",
            ),
            (
                "[web]\nline_server = \"192.0.2.1\"\nline_token_file = \"token\"\n",
                ":3",
                "/etc/makeway/line-token",
            ),
            ("[interface.\"a/b\"]\nupload = \"20mbit\"\n", ":1", "wan0"),
            ("[wan0]\nupload = \"20mbit\"\n", ":1", "interface"),
            ("[interface.wan0\n", ":1", ""),
        ] {
            let error = parse(text, "makeway.toml").unwrap_err();
            assert!(error.to_string().contains(said), "{error}\n{text}");
            assert!(
                error.place.ends_with(line) || line.is_empty(),
                "{} {text}",
                error.place
            );
        }
    }
}
