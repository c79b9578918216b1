//! `frameward init`: its arguments, and the questions for those that are missing.

use std::fmt::Display;
use std::io::{self, BufRead as _, IsTerminal as _};
use std::path::PathBuf;

use clap::{Args, Subcommand};
use frameward::init::{self, Bundle, CellAnswers, InitError, LinkAnswers, Setting, SiteAnswers};
use frameward::privilege;

use super::Owner;
use crate::{Failure, print, tell, told};

#[derive(Subcommand)]
pub(crate) enum Init {
    /// A link between two boxes, whose keys are agreed on by MKA
    #[command(after_help = "\
On the first box the command makes NAME.toml, NAME.cak and NAME.bundle. The bundle holds the CAK:
carry it to the other box over a secret channel, and use it there with --join.

Examples:
  frameward init link --plain enp1s0 --protected enp2s0 --name press
  frameward init link --plain enp1s0 --protected enp2s0 --name press --kernel
  frameward init link --join press.bundle --plain enp1s0 --protected enp2s0")]
    Link {
        #[command(flatten)]
        ports: Ports,
        /// Choose the suite with which the kernel protects and verifies frames; the bundle carries it
        #[arg(long, conflicts_with = "join")]
        kernel: bool,
        #[command(flatten)]
        place: Place,
    },
    /// A fieldbus cell between two boxes, and the link that carries the rest
    #[command(after_help = "\
The command works as `init link`. The bundle also carries the relations: the other box takes the
other stations as its own.

Examples:
  frameward init cell --plain enp1s0 --protected enp2s0 --local 02:00:00:00:01:01 \\
    --relation 02:00:00:00:01:01,02:00:00:00:02:01,0x8001,0x8002,1ms
  frameward init cell --plain enp1s0 --protected enp2s0 --local 02:00:00:00:01:01 \\
    --relation goose,02:00:00:00:01:01,02:00:00:00:02:01,0x0003,2ms,to=01:0c:cd:01:00:01,vlan=4.10 \\
    --relation modbus-tcp,02:00:00:00:01:01,02:00:00:00:02:02,100ms
  frameward init cell --join cell.bundle --plain enp1s0 --protected enp2s0")]
    Cell {
        #[command(flatten)]
        ports: Ports,
        /// The MAC address of a station behind this box; repeatable
        #[arg(long, value_name = "MAC")]
        local: Vec<String>,
        /// Two stations, the ID that each of them sends, and the cycle; repeatable
        ///
        /// PROTOCOL is goose, sampled-values, powerlink, ethercat, sercos, ethernet-ip or modbus-tcp; without
        /// it the relation is PROFINET's. ID is the FrameID, or what the protocol has in its place:
        /// ethernet-ip and modbus-tcp have none. Of one ID the second station sends nothing. Behind the
        /// cycle, ,to=MAC names the group that a station sends to, in the order of the stations, and
        /// ,vlan=PRIORITY.VID or ,vlan=none the tag of delivered frames.
        #[arg(long, value_name = "[PROTOCOL,]MAC,MAC[,ID[,ID]],CYCLE")]
        relation: Vec<String>,
        #[command(flatten)]
        place: Place,
    },
    /// A site, whose LAN is joined with those of other sites over UDP/IP
    #[command(after_help = "\
Without --peer the command makes the site's identity, NAME.key, and NAME.site. Carry NAME.site,
which is no secret, to the other sites. With --peer, once for each other site, it makes NAME.toml.

Examples:
  frameward init site --name dresden --endpoint dresden.example.net:7787
  frameward init site --name berlin --lan enp3s0 --peer dresden.site
  frameward init site --name dresden --lan enp3s0 --peer berlin.site

Without --cak only MACsec frames of stations cross. With --cak, at all sites, the boxes protect the
frames of ordinary machines. Make the CAK once, and carry it to all sites over a secret channel:
  frameward keygen cak --out /etc/frameward/plants.cak
  frameward init site --name berlin --lan enp3s0 --cak plants.cak --peer dresden.site

Sites without an endpoint reach each other through one that has one. That one has --relay:
  frameward init site --name berlin --lan enp3s0 --peer dresden.site --peer celle.site --via dresden
  frameward init site --name celle --lan enp3s0 --peer dresden.site --peer berlin.site --via dresden
  frameward init site --name dresden --lan enp3s0 --peer berlin.site --peer celle.site --relay")]
    Site {
        /// The name of site, gateway and files
        #[arg(long)]
        name: Option<String>,
        /// The interface towards the LAN
        #[arg(long, value_name = "IF")]
        lan: Option<String>,
        /// The address and port for UDP here
        #[arg(long, value_name = "ADDRESS:PORT", default_value = "0.0.0.0:7787")]
        bind: String,
        /// Where the other sites reach this one; omit it if this site connects to them
        #[arg(long, value_name = "HOST:PORT")]
        endpoint: Option<String>,
        /// The .site file of another site; repeatable
        #[arg(long, value_name = "FILE")]
        peer: Vec<PathBuf>,
        /// Protect the LAN with MACsec under this CAK, which all sites have
        #[arg(long, value_name = "FILE")]
        cak: Option<String>,
        /// The peer that relays to all peers without an endpoint
        #[arg(long, value_name = "NAME", requires = "peer")]
        via: Option<String>,
        /// Relay between the peers
        #[arg(long, requires = "peer")]
        relay: bool,
        #[command(flatten)]
        place: Place,
    },
}

#[derive(Args)]
pub(crate) struct Ports {
    /// The interface towards the machine
    #[arg(long, value_name = "IF")]
    plain: Option<String>,
    /// The interface towards the insecure network
    #[arg(long, value_name = "IF")]
    protected: Option<String>,
    /// The name of gateway and files [default: that of the bundle, else `link` or `cell`]
    #[arg(long)]
    name: Option<String>,
    /// The bundle that `init` made on the first box
    #[arg(long, value_name = "FILE")]
    join: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct Place {
    /// Where to make the files
    #[arg(long, value_name = "DIRECTORY", default_value = "/etc/frameward")]
    dir: PathBuf,
    /// The gateway's state directory [default: /var/lib/frameward/NAME]
    #[arg(long, value_name = "DIRECTORY")]
    state: Option<PathBuf>,
    #[command(flatten)]
    owner: Owner,
    /// Do not look at this machine's interfaces
    #[arg(long)]
    offline: bool,
}

impl Place {
    fn setting(self) -> Result<Setting, Failure> {
        let Self { dir, state, owner, offline } = self;
        let owner = owner.numbers()?;
        // A gateway runs in another directory than the command that makes its configuration.
        let state = state.as_deref().map(std::path::absolute).transpose();
        let state = state.map_err(|error| told(&error, Failure::Failed))?;
        Ok(Setting { directory: dir, state, owner, offline })
    }
}

impl Init {
    pub(crate) fn run(self) -> Result<(), Failure> {
        privilege::keep_from_being_dumped().map_err(|error| told(&error, Failure::Failed))?;
        let made = match self {
            Self::Link { ports, kernel, place } => {
                let asks = Asks::new("link", place.offline);
                let (name, plain, protected, bundle) = ports.answer(asks)?;
                init::link(
                    &place.setting()?,
                    &LinkAnswers { name, plain, protected, kernel },
                    bundle.as_ref(),
                )
            }
            Self::Cell { ports, local, relation, place } => {
                let mut asks = Asks::new("cell", place.offline);
                let (local, relations) = if ports.join.is_some() {
                    (local, relation)
                } else {
                    let stations =
                        asks.list(local, "--local MAC", "A station behind this box, by its MAC address");
                    let words = "A relation, as [PROTOCOL,]MAC,MAC[,ID[,ID]],CYCLE";
                    let option = "--relation [PROTOCOL,]MAC,MAC[,ID[,ID]],CYCLE";
                    (stations, asks.list(relation, option, words))
                };
                let (name, plain, protected, bundle) = ports.answer(asks)?;
                let answers = CellAnswers { name, plain, protected, local, relations };
                init::cell(&place.setting()?, &answers, bundle.as_ref())
            }
            Self::Site { name, lan, bind, endpoint, peer, cak, via, relay, place } => {
                let mut asks = Asks::new("site", place.offline);
                let name = asks.one(name, "--name NAME", "The site's name");
                let lan = if peer.is_empty() {
                    String::new()
                } else {
                    asks.interface(lan, "--lan IF", "The interface towards the LAN")
                };
                asks.all_answered()?;
                let read = |file: PathBuf| Bundle::read(&file, "site").map_err(InitError::from);
                let peers = peer.into_iter().map(read).collect::<Result<Vec<_>, _>>().map_err(refused)?;
                let setting = place.setting()?;
                let mut answers = SiteAnswers { name, lan, bind, endpoint, cak, via, relay };
                let unreached = init::unreached(&setting, &answers, &peers).map_err(InitError::from);
                answers.via = answers.via.or(asks.relay(&unreached.map_err(refused)?));
                init::site(&setting, &answers, &peers)
            }
        };
        made.map_err(refused)?.iter().try_for_each(|line| print(&format_args!("{line}\n")))
    }
}

impl Ports {
    /// Name, plain and protected interface, and the bundle.
    fn answer(self, mut asks: Asks) -> Result<(String, String, String, Option<Bundle>), Failure> {
        let plain = asks.interface(self.plain, "--plain IF", "The interface towards the machine");
        let words = "The interface towards the insecure network";
        let protected = asks.interface(self.protected, "--protected IF", words);
        let kind = asks.kind;
        asks.all_answered()?;
        let bundle = match self.join {
            Some(file) => Some(Bundle::read(&file, kind).map_err(|error| refused(error.into()))?),
            None => None,
        };
        let name = match (self.name, &bundle) {
            (Some(name), _) => name,
            (None, Some(bundle)) => bundle.name().map_err(|error| refused(error.into()))?.to_owned(),
            (None, None) => kind.to_owned(),
        };
        Ok((name, plain, protected, bundle))
    }
}

fn refused(error: InitError) -> Failure {
    match &error {
        InitError::Refused(_) => told(&error, Failure::Usage),
        other => told(other as &dyn Display, Failure::Failed),
    }
}

/// Asks for what is missing where somebody can answer; elsewhere it is noted, to be told in one line.
struct Asks {
    kind: &'static str,
    /// Interfaces are those of another box.
    offline: bool,
    /// Somebody can answer; false from the end of input on.
    answers: bool,
    missing: Vec<&'static str>,
}

impl Asks {
    fn new(kind: &'static str, offline: bool) -> Self {
        let answers = io::stdin().is_terminal() && io::stderr().is_terminal();
        Self { kind, offline, answers, missing: Vec::new() }
    }

    fn one(&mut self, given: Option<String>, option: &'static str, question: &str) -> String {
        self.fitting(given, option, question, |_| None)
    }

    fn interface(&mut self, given: Option<String>, option: &'static str, question: &str) -> String {
        let there = interfaces();
        let question = format!("{question} ({})", listed(&there));
        let offline = self.offline;
        self.fitting(given, option, &question, |answer| {
            let is_there = offline || there.iter().any(|name| name == answer);
            (!is_there).then(|| format!("{answer:?} is not an interface of this box"))
        })
    }

    /// Asked for again until there is an answer to which `refuses` has nothing to say, or the input ends.
    fn fitting(
        &mut self,
        given: Option<String>,
        option: &'static str,
        question: &str,
        refuses: impl Fn(&str) -> Option<String>,
    ) -> String {
        if let Some(given) = given.filter(|text| !text.is_empty()) {
            return given;
        }
        while self.answers {
            let Some(answer) = self.ask(question) else { continue };
            match refuses(&answer) {
                Some(why) => tell(&why),
                None => return answer,
            }
        }
        self.missing.push(option);
        String::new()
    }

    /// The peer that relays to those that are not reached, if there are any. It may be left open.
    fn relay(&mut self, unreached: &[&str]) -> Option<String> {
        if unreached.is_empty() {
            return None;
        }
        let unreached = unreached.join(" and ");
        self.ask(&format!("The peer that relays to {unreached}, which has no endpoint; leave empty for none"))
    }

    /// Asked for again until the answer is empty.
    fn list(&mut self, given: Vec<String>, option: &'static str, question: &str) -> Vec<String> {
        if !given.is_empty() {
            return given;
        }
        let mut answers = Vec::new();
        while let Some(answer) = self.ask(&format!("{question}; leave empty to end the list")) {
            answers.push(answer);
        }
        if answers.is_empty() {
            self.missing.push(option);
        }
        answers
    }

    /// None for an empty answer, and when nobody answers.
    fn ask(&mut self, question: &str) -> Option<String> {
        if !self.answers {
            return None;
        }
        tell(&format_args!("{question}:"));
        // Whatever is typed: octets that are no text are no reason to give up.
        let mut answer = Vec::new();
        self.answers = matches!(io::stdin().lock().read_until(b'\n', &mut answer), Ok(1..));
        Some(String::from_utf8_lossy(&answer).trim().to_owned()).filter(|answer| !answer.is_empty())
    }

    fn all_answered(&self) -> Result<(), Failure> {
        if self.missing.is_empty() {
            return Ok(());
        }
        let missing = self.missing.join(" and ");
        let line = format!("init {}: {missing} missing; this box has {}", self.kind, listed(&interfaces()));
        Err(told(&line, Failure::Usage))
    }
}

/// The interfaces of this box that a gateway could have.
fn interfaces() -> Vec<String> {
    let entries = std::fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.retain(|name| name != "lo");
    names.sort();
    names
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "no interfaces".into() } else { names.join(", ") }
}
