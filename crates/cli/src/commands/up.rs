// SPDX-License-Identifier: MIT OR Apache-2.0
//! `makeway up`: shapes an interface until it is ended.

mod values;

use std::net::IpAddr;
use std::process::ExitCode;

use anyhow::{anyhow, bail};
use clap::Args;
use makeway_core::flow::Identity;
use makeway_core::framing::{Cells, Framing};
use makeway_core::sched::{Discipline, Limits, Spec};
use makeway_core::ticket::TicketRate;
use makeway_core::units::{Fraction, Rate};
use makeway_gateway::autorate;
use makeway_gateway::control::interface::Interface;
use makeway_gateway::control::{Backend, Instance, UpConfig, client};
use makeway_gateway::datapath::{DatapathConfig, Impairments, Leaving, TagConfig};
use makeway_gateway::limit::Limit;
use makeway_gateway::rules::Direction;
use rustix::process::{Signal, getppid, set_parent_process_death_signal};

use super::describe::directions;
use super::instance::{Domain, secret_seed, started, stay, tickets};
use crate::text;
pub(crate) use values::limit as queue_limit;
use values::{Range, Setting, limit, param, range, rate, setting, settings, weight};

const EXAMPLES: &str = "\
Examples:
  sudo makeway up wan0 --rate 20mbit
      egress of wan0 at 20 Mbit/s: flows that build no queue first, the others in turn
  sudo makeway up ppp0 --rate 9500kbit --down 45mbit --overhead 30 --ptm
      both directions of PPPoE on VDSL2, sync rates of 10 and 50 Mbit/s: 95 % up, 90 % down
  sudo makeway up lan0 --rate 90mbit --discipline hier --users dst-host --weight 192.168.1.7=2
      fair between the hosts of a network, one of them with twice the share
  sudo makeway up wan0 --rate 20mbit --discipline ncq --threshold 0.03
      packets shorter than 130 B go first, as long as they are less than 3 % of all
  sudo makeway up wan0 --rate 20mbit --discipline tred --tickets 900
      drops by the tickets on packets (see makeway tag), and trades them for 900 tickets/s
      of the next hop's
  sudo makeway up wan0 --rate 8mbit --down 40mbit --autorate --down-range 10mbit..90mbit
      rates follow a link that changes, by the delay that it adds
  sudo makeway up wan0 --set rate=15mbit --set limit=100packets --set weight=192.168.1.7=2
      changes the one that runs; packets that wait stay

Rates are bit/s and count link-layer bytes: the IP packet, --overhead, cells. Set them some percent below the
link's own, so that the queue is here and not in the modem.
See it: sudo makeway status, sudo makeway watch. End it: Ctrl-C, or sudo makeway down wan0.";

/// Shapes an interface: voice and video go first, bulk shares the rest.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Up {
    /// The interface of the bottleneck.
    interface: String,
    /// Egress rate: 20mbit, 640kbit, 1gbit; unshaped if omitted.
    #[arg(long, value_parser = rate, required_unless_present_any = ["set", "down"])]
    rate: Option<Rate>,
    /// Ingress rate; unshaped if omitted.
    #[arg(long, value_name = "RATE", value_parser = rate)]
    down: Option<Rate>,
    #[arg(long, help = disciplines())]
    discipline: Option<Discipline>,
    /// A parameter of the discipline, as in a scenario's queue: codel.target=10ms, red.max=50. May be repeated.
    #[arg(long, value_name = "KEY=VALUE", value_parser = param)]
    param: Vec<(String, String)>,
    /// Largest share of packets that ncq serves first, 0 to 1 [default: 0.05]: --param ncq.threshold.
    #[arg(long, value_name = "SHARE")]
    threshold: Option<Fraction>,
    /// Flow key: 5-tuple, src-port, src-host, dst-host, host-pair.
    #[arg(long, value_name = "IDENTITY", default_value = "5-tuple")]
    flows: Identity,
    /// User key, for a discipline with users [default: src-host for egress, dst-host for ingress].
    #[arg(long, value_name = "IDENTITY")]
    users: Option<Identity>,
    #[arg(long, value_name = "ADDRESS=N", value_parser = weight, help = weights())]
    weight: Vec<(IpAddr, u32)>,
    /// Queue limit: '100 packets', '150kB', or both by repeating it [default: 200 ms of packets
    /// of 1500 B, but at least 50 and at most 200, and no less than 10 ms].
    #[arg(long, value_parser = limit)]
    limit: Vec<Limit>,
    /// Bytes that the link adds to each IP packet, -64 to 256 [default: the device's own header, 14 on
    /// Ethernet].
    #[arg(long, value_name = "BYTES", allow_negative_numbers = true,
          value_parser = clap::value_parser!(i32).range(-64..=256))]
    overhead: Option<i32>,
    /// Smallest packet on the link in bytes, overhead included, 0 to 256.
    #[arg(long, value_name = "BYTES", default_value_t = 0,
          value_parser = clap::value_parser!(u32).range(0..=256))]
    mpu: u32,
    /// Counts cells of ATM (ADSL): 53 bytes for each 48.
    #[arg(long, conflicts_with = "ptm")]
    atm: bool,
    /// Counts code words of PTM (VDSL2): 65 bytes for each 64.
    #[arg(long)]
    ptm: bool,
    /// Tickets per second that the next hop issues for egress, 1 to 1000000: tags are traded for them.
    #[arg(long, value_name = "N", value_parser = tickets)]
    tickets: Option<TicketRate>,
    /// Datapath: bpf (the kernel, Linux 6.17 or newer; keeps shaping if makeway dies), cake (the kernel's own cake, any
    /// kernel that has it; likewise), nfqueue (makeway; every kernel), auto (bpf where available).
    #[arg(long, default_value = "auto")]
    backend: Backend,
    /// Returns at once and leaves the interface to the kernel, until makeway down. Requires bpf.
    #[arg(long)]
    detach: bool,
    /// Removes tags at egress: the domain ends here.
    #[arg(long, conflicts_with = "tickets")]
    strip_tags: bool,
    /// Follows the rate of a link that changes, by the delay before it; --rate and --down are the first rates.
    #[arg(long)]
    autorate: bool,
    /// Bounds of the egress rate under --autorate [default: a fifth of --rate, and twice].
    #[arg(long, value_name = "LEAST..MOST", value_parser = range, requires_all = ["autorate", "rate"])]
    rate_range: Option<Range>,
    /// Bounds of the ingress rate under --autorate [default: a fifth of --down, and twice].
    #[arg(long, value_name = "LEAST..MOST", value_parser = range, requires_all = ["autorate", "down"])]
    down_range: Option<Range>,
    /// Host to probe by ICMP, with its operator's consent; may be repeated: six are probed at a time, the rest are spares [default: none].
    #[arg(long, value_name = "ADDRESS", requires = "autorate")]
    reflector: Vec<IpAddr>,
    /// Reads no timestamps of TCP connections under --autorate.
    #[arg(long, requires = "autorate")]
    no_tcp: bool,
    /// Reads no receivers' reports of calls (RTP with TWCC or RFC 8888) under --autorate.
    #[arg(long, requires = "autorate")]
    no_calls: bool,
    #[command(flatten)]
    domain: Domain,
    /// Changes the running makeway: rate=20mbit, down=50mbit, discipline=fq, limit=100packets (or default), overhead=38, mpu=84,
    /// cells=ptm, weight=192.168.1.7=2 (1 takes it back), a parameter like codel.target=10ms (empty: the default), tickets=600. May be
    /// repeated: all of it, or nothing.
    #[arg(long, value_name = "KEY=VALUE", value_parser = setting, conflicts_with_all = [
        "rate", "down", "discipline", "param", "threshold", "flows", "users", "weight", "limit", "overhead", "mpu", "atm",
        "ptm", "tickets", "strip_tags", "backend", "detach", "autorate", "tag_bits", "tag_scale", "tag_window", "policing",
    ])]
    set: Vec<Setting>,
}

/// Starts, says so, and stays until it is ended. Exit status 1 if it could not start or go on.
pub fn run(args: &Up) -> anyhow::Result<ExitCode> {
    if !args.set.is_empty() {
        return set(args);
    }
    end_with_service();
    let mut config = config(args)?;
    if args.detach && args.autorate {
        bail!("--autorate needs a process, and --detach leaves none: choose one of them");
    }
    if !args.detach {
        return stay(config);
    }
    // Nothing else goes on without a process.
    if args.backend == Backend::Auto {
        config.backend = Backend::Bpf;
    }
    let instance = Instance::start(config)?;
    let status = match instance.status() {
        Ok(status) => status,
        Err(why) => {
            instance.stop();
            bail!("{}: {why}", args.interface);
        }
    };
    text::say!("{}", started(&status).trim_end());
    instance.detach();
    Ok(ExitCode::SUCCESS)
}

/// A process that `makeway service` or `makeway tune` has started ends with that one, even if it was killed.
fn end_with_service() {
    let Some(service) = std::env::var_os("MAKEWAY_SERVICE") else {
        return;
    };
    // Without the signal the next service finds the interface taken, and says so.
    let _ = set_parent_process_death_signal(Some(Signal::TERM));
    let parent = getppid().map_or(0, |parent| parent.as_raw_nonzero().get());
    if service != *parent.to_string() {
        std::process::exit(1);
    }
}

fn set(args: &Up) -> anyhow::Result<ExitCode> {
    let status = client::set(&args.interface, settings(&args.set))?;
    text::say!("{} now: {}.", status.interface, directions(&status));
    Ok(ExitCode::SUCCESS)
}

fn config(args: &Up) -> anyhow::Result<UpConfig> {
    let spec = spec(args)?;
    let needs = spec.needs();
    let discipline = discipline(args);
    let backend = match args.backend {
        Backend::Cake if !args.limit.is_empty() => bail!(
            "--limit is not in the kernel's cake, which bounds its memory by the rate: leave it out, or use --backend nfqueue"
        ),
        // The packet queue has limits.
        Backend::Auto if discipline == Discipline::Cake && !args.limit.is_empty() => {
            Backend::Nfqueue
        }
        backend => backend,
    };
    if !args.weight.is_empty() && !needs.weights {
        bail!(
            "--weight needs a discipline with weighted users, and {discipline} has none: use --discipline {}",
            weighted().join(" or ")
        );
    }
    let tags = args.domain.config()?;
    let interface = Interface::find(&args.interface)?;
    let framing = Framing {
        overhead: args.overhead.unwrap_or(interface.link_header() as i32),
        mpu: args.mpu,
        cells: match (args.atm, args.ptm) {
            (true, _) => Cells::Atm,
            (_, true) => Cells::Ptm,
            _ => Cells::None,
        },
    };
    let direction = |direction, rate| {
        let limits = limits(&args.limit, rate, framing, interface.mtu);
        let users = match direction {
            Direction::Egress => Identity::SrcHost,
            Direction::Ingress => Identity::DstHost,
        };
        let config = DatapathConfig {
            queue_num: 0,
            any_queue: true,
            spec: spec.clone(),
            limits,
            rate: Some(rate),
            framing,
            identity: args.flows,
            users: args.users.unwrap_or(users),
            weights: args.weight.clone(),
            tags: TagConfig {
                leaving: match (direction, args.tickets) {
                    (Direction::Egress, Some(rate)) => Leaving::Relabel(rate),
                    (Direction::Egress, None) if args.strip_tags => Leaving::Strip,
                    _ if needs.writes_tags => Leaving::AsScheduled,
                    _ => Leaving::Keep,
                },
                codec: spec.codec(tags.codec),
                ..tags.clone()
            },
            impairments: Impairments::default(),
            seed: secret_seed(),
        };
        (direction, config)
    };
    let egress = args.rate.map(|rate| direction(Direction::Egress, rate));
    let ingress = args.down.map(|rate| direction(Direction::Ingress, rate));
    Ok(UpConfig {
        interface: args.interface.clone(),
        backend,
        directions: egress.into_iter().chain(ingress).collect(),
        autorate: autorate(args)?,
    })
}

/// Bounds and sources of autorate, if it was asked for.
fn autorate(args: &Up) -> anyhow::Result<Option<autorate::Config>> {
    if !args.autorate {
        return Ok(None);
    }
    let bounds = |first: Option<Rate>, asked: Option<Range>, key: &str| {
        let Some(first) = first else { return Ok(None) };
        let (least, most) = asked.unwrap_or_else(|| default_range(first));
        if !(least..=most).contains(&first) {
            bail!(
                "--{key} {first} is not within {least}..{most}: the first rate is one of the range"
            );
        }
        Ok(Some((least, most)))
    };
    if args.no_tcp && args.no_calls && args.reflector.is_empty() {
        bail!(
            "--no-tcp and --no-calls leave no source of delay: leave one of them out, or name a host to probe, --reflector 192.0.2.1"
        );
    }
    Ok(Some(autorate::Config {
        upload: bounds(args.rate, args.rate_range, "rate")?,
        download: bounds(args.down, args.down_range, "down")?,
        reflectors: args.reflector.clone(),
        tcp: !args.no_tcp,
        calls: !args.no_calls,
    }))
}

/// Bounds of a rate where none are given: a link that changes more has them in its file.
pub fn default_range(first: Rate) -> Range {
    let least = Rate::from_bps((first.bps() / 5).max(1));
    (least, Rate::from_bps(first.bps().saturating_mul(2)))
}

/// The discipline that was asked for; without one, `makeway`, or that of the backend `cake`.
fn discipline(args: &Up) -> Discipline {
    args.discipline.unwrap_or(match args.backend {
        Backend::Cake => Discipline::Cake,
        _ => Discipline::Makeway,
    })
}

/// The discipline with its parameters.
fn spec(args: &Up) -> anyhow::Result<Spec> {
    let discipline = discipline(args);
    let mut spec = discipline.on_a_link();
    if let Some(threshold) = args.threshold {
        if discipline != Discipline::Ncq {
            bail!("--threshold needs --discipline ncq: {discipline} has none");
        }
        spec.set("ncq.threshold", &threshold.to_string())?;
    }
    for (key, value) in &args.param {
        spec.set(key, value)
            .map_err(|error| anyhow!("--param: {error}"))?;
    }
    spec.check()?;
    Ok(spec)
}

/// Names of the disciplines with weighted users.
fn weighted() -> Vec<&'static str> {
    let all = Discipline::ALL.into_iter();
    let weighted = all.filter(|one| one.spec().needs().weights);
    weighted.map(Discipline::name).collect()
}

/// For `--help`.
fn weights() -> String {
    format!(
        "Share of a user of {} (of prio: its level), 1 to 65536; 1 by default. May be repeated",
        weighted().join(", ")
    )
}

/// For `--help`: each discipline in its own words.
fn disciplines() -> String {
    let about = |one: Discipline| format!("{} ({})", one.name(), one.about());
    format!(
        "Order of service: {} [default: makeway; cake with --backend cake]",
        Discipline::ALL.map(about).join(", ")
    )
}

/// The limits asked for, or those that the rate gives.
fn limits(asked: &[Limit], rate: Rate, framing: Framing, mtu: u32) -> Limits {
    let asked = asked.iter().copied().fold(Limit::default(), Limit::and);
    asked.on(rate, framing, mtu)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `makeway up lo --rate 20mbit ...`, on the loopback interface, which every machine has.
    fn asked(line: &str) -> anyhow::Result<UpConfig> {
        #[derive(clap::Parser)]
        struct CommandLine {
            #[command(flatten)]
            up: Up,
        }
        let line = format!("up lo --rate 20mbit --down 50mbit {line}");
        let line = <CommandLine as clap::Parser>::try_parse_from(line.split_whitespace())?;
        config(&line.up)
    }

    #[test]
    fn every_discipline_is_told_what_it_needs_or_refuses_what_it_cannot_use() {
        for discipline in Discipline::ALL {
            let needs = discipline.spec().needs();
            let config = asked(&format!("--discipline {discipline}")).unwrap();
            for (_, direction) in &config.directions {
                assert_eq!(direction.spec, discipline.on_a_link());
                let writes = direction.tags.leaving == Leaving::AsScheduled;
                assert_eq!(writes, needs.writes_tags, "{discipline}");
                let codec = direction.spec.codec(TagConfig::default().codec);
                assert_eq!(direction.tags.codec, codec, "{discipline}");
            }
            let weighted = asked(&format!("--discipline {discipline} --weight 10.0.0.1=3"));
            match weighted {
                Ok(config) => assert!(needs.weights && !config.directions[0].1.weights.is_empty()),
                Err(error) => {
                    let said = format!(
                        "--weight needs a discipline with weighted users, and {discipline} has none"
                    );
                    assert!(
                        !needs.weights && error.to_string().starts_with(&said),
                        "{error}"
                    );
                }
            }
            assert!(disciplines().contains(discipline.about()));
        }
    }

    #[test]
    fn a_parameter_is_the_disciplines_or_is_refused_with_those_it_has() {
        let config = asked("--discipline red --param red.max=50 --param ecn=true").unwrap();
        let Spec::Red(red) = &config.directions[0].1.spec else {
            panic!("{config:?}");
        };
        assert_eq!((red.max, red.ecn), (50, true));
        let refused = |line: &str| asked(line).unwrap_err().to_string();
        let unknown = refused("--discipline codel --param red.max=50");
        assert!(unknown.contains("codel has no parameter `red.max`: choose codel.target"));
        let wrong = refused("--discipline red --param red.max=0");
        assert!(
            wrong.contains("`red.max` is 0: write a whole number from 1"),
            "{wrong}"
        );
        let unordered = refused("--discipline red --param red.max=2");
        assert!(unordered.contains("must be below the upper"), "{unordered}");
        let threshold = asked("--discipline ncq --threshold 0.03").unwrap();
        let Spec::Ncq(ncq) = &threshold.directions[0].1.spec else {
            panic!("{threshold:?}");
        };
        assert_eq!(
            (ncq.threshold, ncq.push_out),
            (Fraction::ratio(3, 100), true)
        );
    }

    #[test]
    fn the_kernels_cake_replaces_no_other_discipline_and_ignores_no_limit() {
        let spec = |line: &str| asked(line).unwrap().directions[0].1.spec.clone();
        assert_eq!(spec(""), Discipline::Makeway.on_a_link());
        assert_eq!(spec("--backend cake"), Discipline::Cake.on_a_link());
        // The backend refuses it.
        let makeway = spec("--backend cake --discipline makeway");
        assert_eq!(makeway, Discipline::Makeway.on_a_link());
        let error = asked("--backend cake --limit 64kB").unwrap_err();
        let said = "--limit is not in the kernel's cake";
        assert!(error.to_string().starts_with(said), "{error}");
        let backend = |line: &str| asked(line).unwrap().backend;
        assert_eq!(backend("--discipline cake"), Backend::Auto);
        assert_eq!(backend("--discipline cake --limit 64kB"), Backend::Nfqueue);
    }

    #[test]
    fn autorate_has_bounds_around_the_first_rates() {
        let config = asked("--autorate --down-range 30mbit..60mbit --reflector 192.0.2.1").unwrap();
        let config = config.autorate.unwrap();
        let mbit = |mbit: u64| Rate::from_bps(mbit * 1_000_000);
        assert_eq!(config.upload, Some((mbit(4), mbit(40))));
        assert_eq!(config.download, Some((mbit(30), mbit(60))));
        assert!(config.tcp && config.calls && config.reflectors.len() == 1);
        let config = asked("--autorate --no-tcp").unwrap().autorate.unwrap();
        assert!(!config.tcp && config.calls);
        assert_eq!(asked("").unwrap().autorate, None);
        for (line, said) in [
            (
                "--autorate --down-range 60mbit..90mbit",
                "--down 50mbit is not within 60mbit..90mbit",
            ),
            (
                "--autorate --rate-range 30mbit..20mbit",
                "write 5mbit..40mbit",
            ),
            ("--autorate --rate-range 30mbit", "write 5mbit..40mbit"),
            ("--rate-range 3mbit..30mbit", "--autorate"),
            ("--autorate --no-tcp --no-calls", "--reflector 192.0.2.1"),
            ("--no-calls", "--autorate"),
        ] {
            let error = asked(line).unwrap_err().to_string();
            assert!(error.contains(said), "{line}: {error}");
        }
    }

    /// The reader of the file knows neither the programs nor the maps of the kernel.
    #[cfg(feature = "bpf")]
    #[test]
    fn a_file_may_ask_of_bpf_qdiscs_for_their_disciplines_and_for_limits_that_fit_their_maps() {
        use makeway_gateway::bpf::{Plan, has_program};
        use makeway_scenario::service::parse;

        for discipline in Discipline::ALL {
            let is_there = has_program(discipline);
            assert_eq!(discipline.is_in_the_kernel(), is_there, "{discipline}");
            if is_there {
                let config = asked(&format!("--discipline {discipline}")).unwrap();
                let (direction, config) = &config.directions[0];
                Plan::of(Backend::Bpf, *direction, config).unwrap();
            }
        }
        // 2^17 packets and 16 MiB.
        for (text, fits) in [
            ("11184 packets", true),
            ("11185 packets", false),
            ("8388kB", true),
            ("8389kB", false),
        ] {
            let rate = Rate::from_bps(20_000_000);
            let limits = limits(&[limit(text).unwrap()], rate, Framing::default(), 1500);
            let does_fit = limits.packets <= 1 << 17 && limits.bytes.get() <= 16 << 20;
            assert_eq!(does_fit, fits, "{text}: {limits:?}");
            let file = format!(
                "[interface.wan0]\nupload = \"20mbit\"\nbackend = \"bpf\"\nlimit = \"{text}\"\n"
            );
            assert_eq!(parse(&file, "makeway.toml").is_ok(), fits, "{text}");
        }
    }

    #[cfg(feature = "bpf")]
    #[test]
    fn a_file_may_ask_of_bpf_qdiscs_for_the_parameters_that_their_programs_have() {
        use makeway_gateway::bpf::Plan;
        use makeway_scenario::service::parse;

        let values = [
            "true", "false", "head", "tail", "bytes", "2", "7", "0.02", "3ms", "777B",
        ];
        let (mut accepted, mut refused) = (0, 0);
        for discipline in Discipline::ALL
            .into_iter()
            .filter(|one| one.is_in_the_kernel())
        {
            let default = discipline.spec();
            let mut keys = Vec::new();
            let mut fields = default.clone();
            fields.fields(&mut |key, _, _| keys.push(key.to_owned()));
            for key in keys {
                let changes = |text: &&str| {
                    let mut spec = default.clone();
                    spec.set(&key, text).is_ok() && spec != default && spec.check().is_ok()
                };
                // A parameter that needs another one has no such value.
                let Some(text) = values.into_iter().find(changes) else {
                    continue;
                };
                let config = asked(&format!("--discipline {discipline} --param {key}={text}"));
                let (direction, config) = config.unwrap().directions.remove(0);
                let takes = Plan::of(Backend::Bpf, direction, &config).is_ok();
                let parameters = format!("parameters = {{ \"{key}\" = \"{text}\" }}");
                let discipline = format!("discipline = \"{discipline}\"");
                let file = format!(
                    "[interface.wan0]\nupload = \"20mbit\"\nbackend = \"bpf\"\n{discipline}\n{parameters}\n"
                );
                assert_eq!(parse(&file, "makeway.toml").is_ok(), takes, "{file}");
                accepted += u32::from(takes);
                refused += u32::from(!takes);
            }
        }
        assert!(accepted > 10 && refused > 2, "{accepted} and {refused}");
    }

    #[test]
    fn a_limit_that_is_asked_for_is_the_one_that_counts() {
        let ask =
            |asked: &[Limit]| limits(asked, Rate::from_bps(10_000_000), Framing::default(), 1500);
        let of = |l: Limits| (l.packets, l.bytes.get());
        assert_eq!(of(ask(&[limit("20 packets").unwrap()])), (20, 30_000));
        assert_eq!(of(ask(&[limit("64kB").unwrap()])), (1000, 64_000));
        let both = [limit("64kB").unwrap(), limit("7 packets").unwrap()];
        assert_eq!(of(ask(&both)), (7, 64_000));
    }
}
