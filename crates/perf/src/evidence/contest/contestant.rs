//! The contestants, and their start in the boxes.

use std::time::{Duration, Instant};

use crate::bench::BenchError;
use crate::bench::rivals::{Rival, RivalHost, RunningRival, find};
use crate::bench::test_bed::TestBed;
use crate::demo::pair::Choice;
use crate::programs::Programs;
use dataplane::open::Io;
use lab::topology::{PLAIN, PROTECTED};
use lab::{Error, Machine, Shape, Topology};
use suite::CipherSuite;

use super::daemon::{Daemon, RunningDaemon};
use super::kernel::RunningKernel;
use super::one_box::RunningSites;

/// Octets of the machines' MTU, and of the network's: room for the headers of all.
const PLAIN_MTU: u32 = 1500;
const NETWORK_MTU: u32 = 1700;
/// Limit on the time until a tunnel carries frames.
const PATIENCE: Duration = Duration::from_secs(90);
/// A contestant that runs in both boxes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Contestant {
    /// Linux bridges: no protection, no tunnel.
    Bridge,
    /// Our engine's AF_XDP ports with nothing between them.
    BareForwarder,
    /// Our gateways with GCM-AES-128, whose frames go through user space.
    Frameward,
    /// Our gateways with ChaCha20-Poly1305, whose frames stay in the kernel.
    InKernel,
    /// The same, small frames sharing MACsec frames.
    Concatenating,
    /// Our sites: one box for each LAN, over UDP.
    OneBox,
    /// Kernel VXLAN, alone or over WireGuard in user space.
    Tunnel(Rival),
    /// A program that bridges a TAP interface to another one.
    Daemon(Daemon),
    /// The kernel's macsec, in a guest in each box.
    KernelMacsec,
}

impl Contestant {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::Bridge,
        Self::Tunnel(Rival::Vxlan),
        Self::BareForwarder,
        Self::Frameward,
        Self::InKernel,
        Self::Concatenating,
        Self::OneBox,
        Self::Tunnel(Rival::WireguardGo),
        Self::Tunnel(Rival::Boringtun),
        Self::Daemon(Daemon::Fastd),
        Self::Daemon(Daemon::Tinc),
        Self::Daemon(Daemon::OpenVpn),
        Self::Daemon(Daemon::Vpncloud),
        Self::KernelMacsec,
    ];

    /// Its name in figures.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bridge => "Linux bridge, unprotected",
            Self::BareForwarder => "bare AF_XDP forwarder, unprotected",
            Self::Frameward => "Frameward",
            Self::InKernel => "Frameward, in the kernel",
            Self::Concatenating => "Frameward, concatenating",
            Self::OneBox => "Frameward, one box over UDP",
            Self::Tunnel(rival) => rival.name(),
            Self::Daemon(daemon) => daemon.name(),
            Self::KernelMacsec => "kernel macsec in User-Mode Linux",
        }
    }

    /// Its settings, for its best.
    pub const fn setting(self) -> &'static str {
        match self {
            Self::Bridge => "learning off, no snooping",
            Self::BareForwarder => "our ports, nothing done to the frames",
            Self::Frameward => "GCM-AES-128, AF_XDP, one worker",
            Self::InKernel => "ChaCha20-Poly1305 with XPN, in the kernel, keystream ahead",
            Self::Concatenating => "GCM-AES-128, AF_XDP, fragment and concatenate on",
            Self::OneBox => {
                "a site with protect = true: MKA, the suite that it chooses, header encrypted, over UDP"
            }
            Self::Tunnel(Rival::Vxlan) => "MTU 1500 inside, UDP checksums off",
            Self::Tunnel(_) => "ChaCha20-Poly1305, the only cipher there is; MTU 1500 inside",
            Self::Daemon(daemon) => daemon.setting(),
            Self::KernelMacsec => "GCM-AES-128, replay window 64, MTU 1532 below",
        }
    }

    /// Whether it runs in a kernel that is a process, and so is no measure for anybody else.
    pub const fn in_a_guest(self) -> bool {
        matches!(self, Self::KernelMacsec)
    }

    /// Whether a figure is measured of it.
    pub fn has(self, figure: &str) -> bool {
        // The memory of a guest is what its kernel was given.
        !self.in_a_guest() || figure != super::MEMORY
    }

    /// Whether what it carries is encrypted.
    pub const fn protects(self) -> bool {
        !matches!(self, Self::Bridge | Self::BareForwarder | Self::Tunnel(Rival::Vxlan))
    }

    /// Whether it is ours.
    pub const fn ours(self) -> bool {
        matches!(self, Self::Frameward | Self::InKernel | Self::Concatenating | Self::OneBox)
    }

    /// The program that is not installed, if there is one.
    pub fn missing(self) -> Option<&'static str> {
        let own = match self {
            Self::Tunnel(rival) => rival.missing(),
            Self::Daemon(daemon) => daemon.programs().iter().copied().find(|program| find(program).is_none()),
            Self::KernelMacsec => {
                [lab::guest::PROGRAM, "insmod"].into_iter().find(|program| find(program).is_none())
            }
            _ => None,
        };
        own.or_else(|| find("iperf3").is_none().then_some("iperf3"))
    }
}

/// A contestant in its boxes, with a network of its own.
pub struct Running {
    /// Dropped before the namespaces in which it runs.
    inside: Inside,
}

enum Inside {
    TestBed(Box<TestBed>),
    Sites(Box<RunningSites>, Box<Topology>),
    Tunnel(RunningRival, Box<Topology>),
    Daemon(RunningDaemon, Box<Topology>),
    Kernel(RunningKernel, Box<Topology>),
}

impl Running {
    /// Builds the network, starts the contestant and waits until it carries full frames.
    ///
    /// # Errors
    /// If it does not.
    pub fn start(programs: &Programs, contestant: Contestant) -> Result<Self, BenchError> {
        let shape = Shape {
            plain_mtu: PLAIN_MTU,
            protected_mtu: NETWORK_MTU,
            static_neighbours: true,
            cable: true,
            ..Shape::default()
        };
        let name = contestant.name();
        let gateways =
            |link| TestBed::new(&programs.frameward, name, &shape, &Choice { link, ..Choice::default() });
        let inside = match contestant {
            Contestant::Bridge => Inside::TestBed(TestBed::bridged(name, &shape)?.into()),
            Contestant::BareForwarder => {
                Inside::TestBed(TestBed::forwarded(&programs.lab, name, &shape, Io::AfXdp)?.into())
            }
            Contestant::Frameward => Inside::TestBed(gateways("")?.into()),
            Contestant::InKernel => {
                let choice =
                    Choice { io: "kernel", suite: CipherSuite::ChaCha20Poly1305Xpn, ..Choice::default() };
                Inside::TestBed(TestBed::new(&programs.frameward, name, &shape, &choice)?.into())
            }
            Contestant::OneBox => {
                let topology = addressed(&shape)?;
                let running = RunningSites::start(&programs.frameward, rival_hosts(&topology))?;
                Inside::Sites(running.into(), topology.into())
            }
            Contestant::Concatenating => {
                Inside::TestBed(gateways("fragment = \"on\"\nconcatenate = \"on\"")?.into())
            }
            Contestant::Tunnel(rival) => {
                let topology = addressed(&shape)?;
                let running = rival.start(rival_hosts(&topology), PLAIN_MTU, NETWORK_MTU)?;
                Inside::Tunnel(running, topology.into())
            }
            Contestant::Daemon(daemon) => {
                let topology = addressed(&shape)?;
                let running = daemon.start(rival_hosts(&topology))?;
                Inside::Daemon(running, topology.into())
            }
            Contestant::KernelMacsec => {
                let topology = Topology::build(&shape)?;
                let running = RunningKernel::start(rival_hosts(&topology))?;
                Inside::Kernel(running, topology.into())
            }
        };
        let running = Self { inside };
        running.wait_until_it_carries(name)?;
        Ok(running)
    }

    fn topology(&self) -> &Topology {
        match &self.inside {
            Inside::TestBed(test_bed) => &test_bed.topology,
            Inside::Sites(_, topology)
            | Inside::Tunnel(_, topology)
            | Inside::Daemon(_, topology)
            | Inside::Kernel(_, topology) => topology,
        }
    }

    /// The machines on both sides.
    pub fn machines(&self) -> (&Machine, &Machine) {
        let topology = self.topology();
        (&topology.machine_a, &topology.machine_b)
    }

    /// The processes in the boxes; none where the kernel does all.
    pub fn processes(&self) -> Vec<u32> {
        match &self.inside {
            Inside::TestBed(test_bed) => test_bed.processes(),
            Inside::Sites(running, _) => running.processes(),
            Inside::Tunnel(running, _) => running.processes(),
            Inside::Daemon(running, _) => running.processes(),
            Inside::Kernel(running, _) => running.processes(),
        }
    }

    /// Stops it.
    ///
    /// # Errors
    /// If it does not end.
    pub fn stop(self) -> Result<(), BenchError> {
        match self.inside {
            Inside::TestBed(test_bed) => test_bed.stop(),
            Inside::Sites(running, _topology) => Ok(running.stop()?),
            Inside::Tunnel(running, _topology) => Ok(running.stop()?),
            Inside::Daemon(running, _topology) => Ok(running.stop()?),
            Inside::Kernel(running, _topology) => Ok(running.stop()?),
        }
    }

    /// Full packets that must not be fragmented, both ways.
    fn wait_until_it_carries(&self, name: &str) -> Result<(), BenchError> {
        let (a, b) = self.machines();
        let (target, end) = (b.ipv4.to_string(), Instant::now() + PATIENCE);
        let echo = ["ping", "-c", "3", "-i", "0.05", "-W", "1", "-M", "do", "-s", "1472", "-q", &target];
        while let Err(error) = a.namespace.run(&echo) {
            if Instant::now() > end {
                return Err(Error::Unexpected(format!("{name} carries no full packets: {error}")).into());
            }
        }
        Ok(())
    }
}

/// A network whose boxes have addresses towards each other, and leave no segmentation to the wire.
fn addressed(shape: &Shape) -> Result<Topology, Error> {
    let topology = Topology::build(shape)?;
    for host in rival_hosts(&topology) {
        let address = format!("{}/24", host.address);
        host.namespace.ip(&["addr", "add", &address, "dev", PROTECTED])?;
        host.namespace.run(&["ethtool", "-K", PROTECTED, "tx-udp-segmentation", "off", "tso", "off"])?;
    }
    // vpncloud asks for the way to the internet when it starts, and ends if there is none.
    let [one, two] = rival_hosts(&topology);
    for (own, other) in [(one, two), (two, one)] {
        own.namespace.ip(&["route", "add", "default", "via", &other.address.to_string()])?;
    }
    Ok(topology)
}

fn rival_hosts(topology: &Topology) -> [RivalHost<'_>; 2] {
    [(&topology.gateway_a, 1), (&topology.gateway_b, 2)].map(|(gateway, number)| RivalHost {
        namespace: &gateway.namespace,
        lan: PLAIN,
        address: [10, 78, 0, number].into(),
        number,
    })
}
