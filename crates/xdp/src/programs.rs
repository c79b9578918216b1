//! Loaded programs and their maps, as cells and links have them.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;

use aya::maps::{DevMap, Map, MapData, PerCpuArray, PerCpuValues, XskMap};
use aya::programs::xdp::XdpLinkId;
use aya::programs::{Xdp, XdpMode};
use aya::{Ebpf, EbpfLoader};
use fieldbus::Direction;
use netdev::passed_on;
use netdev::shared::SharedWords;
use serde::{Deserialize, Serialize};

use crate::error::XdpError;

const PROTECTED_PORT: u32 = 0;
const PLAIN_PORT: u32 = 1;

/// Descriptors of an object's programs and maps, by their names there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PassedPrograms {
    programs: BTreeMap<String, RawFd>,
    maps: BTreeMap<String, RawFd>,
}

impl PassedPrograms {
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = RawFd> {
        self.programs.values().chain(self.maps.values()).copied()
    }
}

/// Treatment of frames for user space while no socket takes them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unclaimed {
    /// They are dropped: nothing reaches the host's stack.
    Drop,
    /// The host's stack and its packet sockets get them.
    Pass,
}

impl Unclaimed {
    /// The verdict on them.
    pub(crate) const fn verdict(self) -> u32 {
        match self {
            Self::Drop => 1,
            Self::Pass => 2,
        }
    }
}

/// The programs of an object with two ports, `outward` and `inward` among them. Dropping it detaches them and frees the maps.
pub(crate) struct Programs {
    /// Without maps: so a thread can run programs while others change maps.
    loaded: Arc<Loaded>,
    maps: BTreeMap<String, Map>,
    /// Loader of them; none: the program before this one in its process has loaded them.
    ebpf: Option<Ebpf>,
}

/// Programs by their names.
pub(crate) struct Loaded(BTreeMap<String, OwnedFd>);

impl Loaded {
    /// One of them.
    pub(crate) fn program(&self, program: &'static str) -> Result<BorrowedFd<'_>, XdpError> {
        self.0.get(program).map(AsFd::as_fd).ok_or_else(|| missing(program))
    }
}

impl Programs {
    /// Loads an object's programs, with room for so many entries in some of its maps.
    pub(crate) fn load(
        object: &[u8],
        programs: &[&'static str],
        room: &[(&'static str, u32)],
    ) -> Result<Self, XdpError> {
        let mut loader = EbpfLoader::new();
        for &(map, entries) in room {
            loader.map_max_entries(map, entries);
        }
        let mut ebpf = loader.load(object)?;
        let mut loaded = BTreeMap::new();
        for &program in programs {
            let failed = |error| XdpError::program(program, &error);
            let xdp = xdp(&mut ebpf, program)?;
            xdp.load().map_err(failed)?;
            let descriptor = xdp.fd().map_err(failed)?.as_fd().try_clone_to_owned();
            loaded.insert(program.to_owned(), descriptor.map_err(|error| XdpError::run(program, &error))?);
        }
        let names: Vec<_> = ebpf.maps().map(|(name, _)| name.to_owned()).collect();
        let maps = names.into_iter().filter_map(|name| Some((name.clone(), ebpf.take_map(&name)?))).collect();
        Ok(Self { loaded: Arc::new(Loaded(loaded)), maps, ebpf: Some(ebpf) })
    }

    /// Numbers of the descriptors of programs and maps, for the next program of this process.
    pub(crate) fn pass_on(&self) -> Result<PassedPrograms, XdpError> {
        let programs = self.loaded.0.iter().map(|(name, of)| (name.clone(), of.as_raw_fd())).collect();
        let maps =
            self.maps.iter().map(|(name, map)| Ok((name.clone(), data(map)?.fd().as_fd().as_raw_fd())));
        Ok(PassedPrograms { programs, maps: maps.collect::<Result<_, XdpError>>()? })
    }

    /// Programs and maps of the program before this one.
    pub(crate) fn go_on(passed: &PassedPrograms, programs: &[&'static str]) -> Result<Self, XdpError> {
        let take = |number: RawFd| passed_on::take(number).map_err(XdpError::Passed);
        let loaded = passed.programs.iter().map(|(name, number)| Ok((name.clone(), take(*number)?)));
        let loaded = Loaded(loaded.collect::<Result<_, XdpError>>()?);
        programs.iter().try_for_each(|program| loaded.program(program).map(drop))?;
        let map = |number: RawFd| Ok::<_, XdpError>(Map::from_map_data(MapData::from_fd(take(number)?)?)?);
        let maps = passed.maps.iter().map(|(name, number)| Ok((name.clone(), map(*number)?)));
        Ok(Self { loaded: Arc::new(loaded), maps: maps.collect::<Result<_, XdpError>>()?, ebpf: None })
    }

    pub(crate) fn loaded(&self) -> &Loaded {
        &self.loaded
    }

    /// The programs alone, for a thread that runs them.
    pub(crate) fn shared(&self) -> Arc<Loaded> {
        Arc::clone(&self.loaded)
    }

    pub(crate) fn map(&mut self, name: &'static str) -> Result<&mut Map, XdpError> {
        self.maps.get_mut(name).ok_or(XdpError::Malformed)
    }

    /// The same, to be read.
    pub(crate) fn map_ref(&self, name: &str) -> Result<&Map, XdpError> {
        self.maps.get(name).ok_or(XdpError::Malformed)
    }

    /// The map is this caller's from now on: for tests.
    #[cfg(test)]
    pub(crate) fn take_map(&mut self, name: &str) -> Option<Map> {
        self.maps.remove(name)
    }

    pub(crate) fn set_ports(&mut self, plain: u32, protected: u32) -> Result<(), XdpError> {
        let mut ports = DevMap::try_from(self.map("ports")?)?;
        ports.set(PLAIN_PORT, plain, None, 0)?;
        ports.set(PROTECTED_PORT, protected, None, 0)?;
        Ok(())
    }

    pub(crate) fn set_socket(
        &mut self,
        way: Direction,
        queue: u32,
        socket: impl AsRawFd,
    ) -> Result<(), XdpError> {
        let name = match way {
            Direction::Outward => "plain_sockets",
            Direction::Inward => "protected_sockets",
        };
        Ok(XskMap::try_from(self.map(name)?)?.set(queue, socket, 0)?)
    }

    /// The programs of the plain and the protected interface.
    pub(crate) fn descriptors(&self) -> Result<[OwnedFd; 2], XdpError> {
        let descriptor = |program: &'static str| {
            let descriptor = self.loaded.program(program)?.try_clone_to_owned();
            descriptor.map_err(|error| XdpError::run(program, &error))
        };
        Ok([descriptor("outward")?, descriptor("inward")?])
    }

    /// Puts the programs to work on two interfaces of this network namespace, in their drivers, until this is dropped. This
    /// program has loaded them.
    pub(crate) fn attach(&mut self, plain: u32, protected: u32) -> Result<(), XdpError> {
        self.set_ports(plain, protected)?;
        self.attach_one("outward", plain)?;
        self.attach_one("inward", protected).map(drop)
    }

    /// Puts one program to work, as [`Self::attach`].
    pub(crate) fn attach_one(
        &mut self,
        program: &'static str,
        interface: u32,
    ) -> Result<XdpLinkId, XdpError> {
        let loaded = self.ebpf.as_mut().ok_or(XdpError::Malformed)?;
        let attached = xdp(loaded, program)?.attach_to_if_index(interface, XdpMode::Driver);
        attached.map_err(|error| XdpError::program(program, &error))
    }

    /// Ends what [`Self::attach_one`] began. An interface that is gone has ended it already.
    pub(crate) fn detach_one(&mut self, program: &'static str, link: XdpLinkId) {
        if let Some(loaded) = &mut self.ebpf
            && let Ok(program) = xdp(loaded, program)
        {
            let _ = program.detach(link);
        }
    }

    /// Numbers of a place, on all CPUs together.
    pub(crate) fn sum<const N: usize>(&self, name: &'static str, place: u32) -> Result<[u64; N], XdpError> {
        let mut sum = [0_u64; N];
        for of_cpu in self.per_cpu::<N>(name, place)?.iter() {
            sum.iter_mut().zip(of_cpu).for_each(|(sum, value)| *sum = sum.wrapping_add(*value));
        }
        Ok(sum)
    }

    /// Numbers of a place, by CPU.
    pub(crate) fn per_cpu<const N: usize>(
        &self,
        name: &'static str,
        place: u32,
    ) -> Result<PerCpuValues<[u64; N]>, XdpError> {
        Ok(PerCpuArray::<_, [u64; N]>::try_from(self.map_ref(name)?)?.get(&place, 0)?)
    }

    /// Sets the numbers of a place on every CPU.
    pub(crate) fn set_all<const N: usize>(
        &mut self,
        name: &'static str,
        place: u32,
        value: [u64; N],
    ) -> Result<(), XdpError> {
        let cpus = aya::util::nr_cpus().map_err(|(_, error)| XdpError::Cpus(error))?;
        let values = PerCpuValues::try_from(vec![value; cpus]).map_err(XdpError::Cpus)?;
        Ok(PerCpuArray::<_, [u64; N]>::try_from(self.map(name)?)?.set(place, values, 0)?)
    }
}

/// A map of a kind that an object has.
fn data(map: &Map) -> Result<&MapData, XdpError> {
    match map {
        Map::Array(data)
        | Map::PerCpuArray(data)
        | Map::HashMap(data)
        | Map::LruHashMap(data)
        | Map::DevMap(data)
        | Map::XskMap(data)
        | Map::RingBuf(data) => Ok(data),
        _ => Err(XdpError::Malformed),
    }
}

fn missing(program: &'static str) -> XdpError {
    XdpError::Program { program, reason: "it is not there".into() }
}

/// The first words of a map that is made to be shared.
pub(crate) fn shared(map: &Map, words: usize) -> Result<SharedWords, XdpError> {
    let Map::Array(data) = map else { return Err(XdpError::Malformed) };
    SharedWords::map(data.fd().as_fd(), words).map_err(XdpError::Shared)
}

pub(crate) fn program<'e>(ebpf: &'e Ebpf, program: &'static str) -> Result<&'e Xdp, XdpError> {
    ebpf.program(program).and_then(|found| found.try_into().ok()).ok_or_else(|| missing(program))
}

pub(crate) fn xdp<'e>(ebpf: &'e mut Ebpf, program: &'static str) -> Result<&'e mut Xdp, XdpError> {
    ebpf.program_mut(program).and_then(|found| found.try_into().ok()).ok_or_else(|| missing(program))
}

pub(crate) fn map<'e>(ebpf: &'e mut Ebpf, name: &'static str) -> Result<&'e mut aya::maps::Map, XdpError> {
    ebpf.map_mut(name).ok_or(XdpError::Malformed)
}
