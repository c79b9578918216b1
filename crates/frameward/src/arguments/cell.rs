//! `frameward cell`: its arguments, and where its lines go.

use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use diagnosis::learn::proposal::{Learned, Setting};
use diagnosis::learn::{Learner, source};
use frameward::keygen::{self, KeygenError};
use frameward::privilege::{self, GiveError};
use wire::MacAddr;

use super::Owner;
use crate::{Failure, print, tell, told};

#[derive(Subcommand)]
pub(crate) enum Cell {
    /// Listen to a network, and propose the relations of a cell, with the configuration of both boxes
    #[command(after_help = "\
SOURCE is an interface of this box, or a capture (pcap or pcapng; - for standard input). If both
have this name, write ./NAME for the file. Both directions have to pass there: at a mirror port of a
switch, or at a bridge of this box between machines and network, before a gateway runs there. The
command sends nothing and leaves the interface as it is. Listening requires CAP_NET_RAW.

If the controller connects while the command listens, cycles and FrameIDs are those of PROFINET's
Connect. If not, cycles come from the CycleCounter in the frames, or from the time between them.
Stations get their names by DCP. Other fieldbuses are proposed as well, but for Modbus TCP. Frames that
are not cyclic or have no answer are left out, each with the reason.

The result is a proposal: anybody on the network can send what is heard. Compare it with the
engineering tool. The configurations begin in shadow mode, in which nothing is protected yet.

Exit status: 0 relations were found, 1 none was, or the source cannot be read, 2 usage.

Examples:
  sudo frameward cell learn br0 --seconds 60 --dir /tmp
  frameward cell learn cell.pcapng --name cell-4 --local 02:00:00:00:01:01")]
    Learn(Learn),
}

#[derive(Args)]
pub(crate) struct Learn {
    /// An interface, or a capture
    source: PathBuf,
    /// The time to listen at an interface
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// The name of the cell; gateways, link and files are named after it
    #[arg(long, default_value = "cell", value_parser = name)]
    name: String,
    /// The MAC address of a station behind box A; repeatable [default: controllers, or the stations with the most relations]
    #[arg(long, value_name = "MAC", value_parser = station)]
    local: Vec<MacAddr>,
    /// The interface of the boxes towards the machines
    #[arg(long, value_name = "IF", default_value = "enp1s0", value_parser = interface)]
    plain: String,
    /// The interface of the boxes towards the insecure network
    #[arg(long, value_name = "IF", default_value = "enp2s0", value_parser = interface)]
    protected: String,
    /// Also write the configurations to new files here, NAME-a.toml and NAME-b.toml
    #[arg(long, value_name = "DIRECTORY")]
    dir: Option<PathBuf>,
    #[command(flatten)]
    owner: Owner,
}

fn name(text: &str) -> Result<String, &'static str> {
    if config::is_name(text) && config::is_name(&format!("{text}-rest")) {
        Ok(text.to_owned())
    } else {
        Err("use 1 to 27 of a-z, 0-9, _ and -, a letter or digit first")
    }
}

fn station(text: &str) -> Result<MacAddr, String> {
    text.parse().map_err(|error: wire::ParseIdError| error.to_string())
}

fn interface(text: &str) -> Result<String, &'static str> {
    let is_allowed = |octet: u8| octet.is_ascii_graphic() && !matches!(octet, b'/' | b'"' | b'\\' | b':');
    if (1..=15).contains(&text.len()) && text.bytes().all(is_allowed) {
        Ok(text.to_owned())
    } else {
        Err("an interface has 1 to 15 characters, such as enp1s0")
    }
}

impl Cell {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let Self::Learn(learn) = self;
        learn.run()
    }
}

impl Learn {
    fn run(self) -> Result<(), Failure> {
        let owner = self.owner.numbers()?;
        let mut learner = Learner::default();
        // Frames that were heard before a capture broke are worth telling.
        let heard = match self.interface() {
            Some(interface) => self.listen(&mut learner, interface),
            None => self.read(&mut learner),
        };
        if heard.is_err() && learner.heard().frames == 0 {
            return heard;
        }
        let Self { name, local, plain, protected, dir, .. } = self;
        let learned = learner.learned(Setting { name, local, plain, protected });
        print(&learned)?;
        for station in unheard(&learned) {
            tell(&format_args!("warning: --local {station} is in no relation; check the address"));
        }
        if learned.relations.is_empty() {
            heard?;
            let line = "cell learn: no relation was found; listen where both directions of the machines' frames pass, and for longer";
            return Err(told(&line, Failure::Failed));
        }
        for (end, what) in ["A", "B"].into_iter().enumerate() {
            let file = format!("{}.toml", learned.gateway(end));
            print(&format_args!("\n# ---- box {what}: {file} ----\n\n{}", learned.configuration(end)))?;
        }
        if let Some(directory) = &dir {
            write(&learned, directory, owner)?;
        }
        heard
    }

    /// The interface that is meant, if one is.
    fn interface(&self) -> Option<&str> {
        let name = self.source.to_str().filter(|name| !name.contains('/') && *name != "-")?;
        Path::new("/sys/class/net").join(name).exists().then_some(name)
    }

    fn listen(&self, learner: &mut Learner, interface: &str) -> Result<(), Failure> {
        tell(&format_args!("cell learn: listening at {interface} for {} s", self.seconds));
        let counters = source::listen(learner, interface, Duration::from_secs(self.seconds))
            .map_err(|error| told(&format_args!("cell learn: {error}"), Failure::Failed))?;
        let lost = counters.rx_kernel_dropped + counters.rx_super_frames + counters.rx_too_long;
        if lost > 0 {
            tell(&format_args!(
                "warning: {lost} frames were not heard: this box is too slow, or merges frames (ethtool -K {interface} gro off lro off)"
            ));
        }
        Ok(())
    }

    fn read(&self, learner: &mut Learner) -> Result<(), Failure> {
        let path = self.source.display();
        let source: Box<dyn Read> = if self.source == Path::new("-") {
            Box::new(io::stdin().lock())
        } else {
            let file = File::open(&self.source).map_err(|error| {
                let line = format!("cell learn: {path} is no interface of this box, and cannot be read: {error}; name an interface or a capture");
                told(&line, Failure::Failed)
            })?;
            Box::new(file)
        };
        source::read(learner, BufReader::with_capacity(1 << 18, source))
            .map_err(|error| told(&format_args!("cell learn: {path} {error}"), Failure::Failed))
    }
}

fn unheard(learned: &Learned) -> impl Iterator<Item = &MacAddr> {
    let known = learned.stations(0);
    learned.setting.local.iter().filter(move |station| !known.contains(station))
}

/// Why a configuration was not written.
#[derive(Debug, thiserror::Error)]
enum WriteError {
    #[error(transparent)]
    Keygen(#[from] KeygenError),
    #[error(transparent)]
    Give(#[from] GiveError),
}

/// Writes both configurations to new files of `owner`, or none.
fn write(learned: &Learned, directory: &Path, owner: Option<(u32, u32)>) -> Result<(), Failure> {
    let failed = |error: WriteError| told(&format_args!("cell learn: {error}"), Failure::Failed);
    let paths = [0, 1].map(|end| directory.join(format!("{}.toml", learned.gateway(end))));
    // One file alone is no cell, and would be in the way of the next try.
    if let Some(path) = paths.iter().find(|path| path.exists()) {
        return Err(failed(KeygenError::Exists(path.clone()).into()));
    }
    let mut made = Vec::new();
    let written = paths.iter().enumerate().try_for_each(|(end, path)| -> Result<(), WriteError> {
        keygen::write_new_text(path, learned.configuration(end).as_bytes())?;
        made.push(path);
        Ok(privilege::give(path, owner)?)
    });
    if let Err(error) = written {
        for path in made {
            let _ = fs::remove_file(path);
        }
        return Err(failed(error));
    }
    for path in &paths {
        tell(&format_args!("cell learn: made {}", path.display()));
    }
    Ok(())
}
