//! A cell in the kernel: its relations, found by exactly (DA, SA, FrameID) and the machines' EtherType, protected and verified by `bpf/cell.bpf.c`.
//!
//! Keys are put in and taken out as in `fieldbus::Relations`, by a [`KeyChange`]. A change is a program too, which control runs:
//! it takes the relation's lock as a frame does, so no Seq is taken twice, and none that frames take meanwhile is lost.
//!
//! Keystream and Poly1305 keys of the next Seqs are made ahead, by a thread of the cell's own ([`Cell::keep_filling`]). A frame whose
//! slot is not ready is computed whole, octet by octet the same.
//!
//! Work for a change: a system call, and some hundred octets moved under the lock. For a frame: a look-up in a hash map, the
//! lock twice, and Poly1305, with ChaCha20 where no keystream is ready. Room: 24 kB a relation for its slots.

mod ahead;
mod layout;
mod passed_on;
mod report;
#[cfg(feature = "slots")]
mod slots;

use std::os::fd::{AsRawFd, OwnedFd};

use aya::maps::{Array, HashMap, Map, MapData};
use fieldbus::relation::Relation;
use fieldbus::{Direction, KeyChange, Mode, RelationSettings, Relations, Settings};
use wire::fieldbus::{CellSuite, HEADER_OCTETS, ICV_OCTETS, Protection};

use crate::error::XdpError;
use crate::programs::{Programs, Unclaimed};
pub use crate::run::Changed;
use crate::run::Ran;
use ahead::Filler;
pub use layout::Report;
pub use passed_on::PassedCell;

/// Object file that a pinned clang makes of `bpf/cell.bpf.c`.
static OBJECT: &[u8] = aya::include_bytes_aligned!("../bpf/cell.bpf.o");
/// The longest payload that the programs take (`MOST_PAYLOAD`).
const MOST_PAYLOAD: usize = 2013;
const PROGRAMS: [&str; 5] = ["outward", "inward", "change", "look", "fill"];
/// `BPF_F_LOCK`.
const UNDER_LOCK: u64 = 4;

/// The programs, loaded once, and the cell that they serve, which may be exchanged for another one while frames pass. Dropping it
/// detaches the programs and frees the maps.
///
/// Each relation that the kernel has stands in a *place* of the maps, which it keeps as long as it stays. Those in shadow mode have
/// none: XDP sends no frame twice, so their frames go to user space. Nor have those whose identification is derived ([`Cell::takes`]).
pub struct Cell {
    programs: Programs,
    room: usize,
    /// By number.
    relations: Vec<Placed>,
    filler: Option<Filler>,
    /// Every frame is the sockets'.
    aside: bool,
}

/// A relation, and its place in the maps.
struct Placed {
    of: RelationSettings,
    place: Option<u32>,
}

impl Cell {
    /// The largest MTU of a protected side.
    pub const MOST_MTU: usize = HEADER_OCTETS + MOST_PAYLOAD + ICV_OCTETS;

    /// Loads the programs, with room for so many relations. This alone needs CAP_PERFMON. There is no relation yet.
    ///
    /// # Errors
    /// If the kernel does not take the programs.
    pub fn load(room: usize) -> Result<Self, XdpError> {
        Self::load_object(OBJECT, room)
    }

    /// [`Cell::load`] with programs that another compiler has made, or that are broken on purpose: for tests.
    ///
    /// # Errors
    /// As [`Cell::load`].
    pub fn load_object(object: &[u8], room: usize) -> Result<Self, XdpError> {
        let room = room.max(1);
        let maps = [
            "outward_table",
            "inward_table",
            "relations",
            "machines",
            "sent",
            "received",
            "jitter",
            "residence_outward",
            "residence_inward",
        ];
        let mut rooms = maps.map(|map| (map, room as u32)).to_vec();
        rooms.push(("slots", room as u32 * 2 * layout::SLOTS));
        let programs = Programs::load(object, &PROGRAMS, &rooms)?;
        Ok(Self { programs, room, relations: Vec::new(), filler: None, aside: false })
    }

    /// Whether the programs do what a cell of these settings wants.
    ///
    /// # Errors
    /// Why not.
    pub const fn suits(protection: Protection, mtu: usize) -> Result<(), XdpError> {
        if !matches!(protection.suite, CellSuite::ChaCha20Poly1305) {
            return Err(XdpError::Suite(protection.suite.name()));
        }
        if mtu > Self::MOST_MTU {
            return Err(XdpError::Mtu { mtu, most: Self::MOST_MTU });
        }
        Ok(())
    }

    /// Whether the programs know the frames of a relation: their identification stands behind the EtherType.
    pub const fn takes(relation: &Relation) -> bool {
        relation.protocol().identification_octets() > 0
    }

    /// Serves a cell whose relations are numbered by their index in `relations`. Those of `stays`, by their numbers here and before, go
    /// on where they are: in their places and sessions without a lost frame, or without a place in user space. No frame of the others
    /// passes before there are keys. What is no more is wiped.
    ///
    /// # Errors
    /// If the cell is none for the kernel; then nothing is changed. Or if a map cannot be written; then no relation is the kernel's.
    pub fn configure(
        &mut self,
        settings: &Settings,
        relations: &[RelationSettings],
        unclaimed: Unclaimed,
        stays: &[(usize, usize)],
    ) -> Result<(), XdpError> {
        Self::suits(settings.protection, settings.mtu)?;
        // The same cells as in user space, and no others.
        Relations::new(*settings, relations).map_err(|_| XdpError::Relations)?;
        let mut in_kernel: Vec<_> =
            relations.iter().map(|of| of.mode == Mode::Protect && Self::takes(&of.relation)).collect();
        stays.iter().for_each(|&(number, there)| in_kernel[number] &= self.has(there));
        let wanted = in_kernel.iter().filter(|is| **is).count();
        if wanted > self.room {
            return Err(XdpError::Room { wanted, room: self.room });
        }
        let changed = self.change_maps(settings, relations, &in_kernel, unclaimed, stays);
        if changed.is_err() {
            self.reset(relations);
        }
        changed
    }

    /// Whether the programs leave every frame to the sockets, as it came: they stand in front of ports, and do nothing there. One write to
    /// a map, which waits for nobody. A frame that has begun goes on as it was.
    ///
    /// # Errors
    /// If a map cannot be written.
    pub fn stand_aside(&mut self, aside: bool) -> Result<(), XdpError> {
        let mut common = self.common()?;
        let mut of_all = common.get(&0, 0)?;
        layout::set_aside(&mut of_all, aside);
        common.set(0, of_all, 0)?;
        self.aside = aside;
        Ok(())
    }

    /// Settings that all relations share.
    fn common(&mut self) -> Result<Array<&mut MapData, [u8; layout::SETTINGS]>, XdpError> {
        Ok(Array::try_from(self.programs.map("settings")?)?)
    }

    /// Writes the maps for [`Cell::configure`].
    fn change_maps(
        &mut self,
        settings: &Settings,
        relations: &[RelationSettings],
        in_kernel: &[bool],
        unclaimed: Unclaimed,
        stays: &[(usize, usize)],
    ) -> Result<(), XdpError> {
        let before = std::mem::take(&mut self.relations);
        let mut placed: Vec<_> = relations.iter().map(|of| Placed { of: *of, place: None }).collect();
        for &(number, there) in stays.iter().filter(|(number, _)| in_kernel[*number]) {
            placed[number].place = before[there].place;
        }
        let mut taken = vec![false; self.room];
        placed.iter().filter_map(|of| of.place).for_each(|place| taken[place as usize] = true);
        for Placed { of, place } in before {
            if let Some(place) = place.filter(|place| !taken[*place as usize]) {
                self.take_out(&of, place)?;
            }
        }
        let of_all = layout::settings(settings, unclaimed.verdict(), self.aside);
        self.common()?.set(0, of_all, 0)?;
        let mut free = (0..).zip(&taken).filter(|(_, taken)| !**taken).map(|(place, _)| place);
        for (Placed { of, place }, _) in placed.iter_mut().zip(in_kernel).filter(|(_, in_kernel)| **in_kernel)
        {
            match *place {
                Some(place) => {
                    self.set_machine(place, settings, of)?;
                    self.command(&layout::watch(place, of))?;
                }
                None => {
                    let new = free.next().ok_or(XdpError::Malformed)?;
                    self.set_machine(new, settings, of)?;
                    self.put_in(of, new)?;
                    *place = Some(new);
                }
            }
        }
        self.relations = placed;
        self.serve();
        Ok(())
    }

    /// Has a thread of the cell's own make keystream ahead from now on, as long as there is the cell. It calls `at_start` first.
    ///
    /// # Errors
    /// If there can be no thread.
    pub fn keep_filling(&mut self, at_start: fn()) -> Result<(), XdpError> {
        if self.filler.is_none() {
            self.filler = Some(Filler::start(self.programs.shared(), at_start)?);
            self.serve();
        }
        Ok(())
    }

    /// Makes what keystream is missing ahead, now, and says how many slots: for tests and benches.
    ///
    /// # Errors
    /// If the kernel does not run the program.
    pub fn fill(&self) -> Result<u32, XdpError> {
        Ok(ahead::fill(&self.programs.shared(), self.end(), || false)?[0])
    }

    /// The places in use are below.
    fn end(&self) -> u32 {
        self.relations.iter().filter_map(|of| of.place).max().map_or(0, |place| place + 1)
    }

    fn serve(&self) {
        if let Some(filler) = &self.filler {
            filler.serve(self.end());
        }
    }

    /// A map could not be written: the kernel has none of these relations. All that it knew is wiped, as far as maps can be written.
    fn reset(&mut self, relations: &[RelationSettings]) {
        self.relations = relations.iter().map(|of| Placed { of: *of, place: None }).collect();
        for name in ["outward_table", "inward_table"] {
            let table = self
                .programs
                .map(name)
                .and_then(|map_of| Ok(HashMap::<_, [u8; layout::ADDRESS], u32>::try_from(map_of)?));
            let Ok(mut table) = table else { continue };
            let addresses: Vec<_> = table.keys().filter_map(Result::ok).collect();
            for address in addresses {
                let _ = table.remove(&address);
            }
        }
        if let Ok(map_of) = self.programs.map("relations") {
            for place in 0..self.room as u32 {
                let _ = set_relation(map_of, place, [0; layout::RELATION]);
            }
        }
        // Keystream goes with its keys.
        for place in 0..self.room as u32 {
            let _ = self.command(&layout::collect(place));
        }
        self.serve();
    }

    /// Serves no cell any more. All keys are wiped, also where that fails in part.
    ///
    /// # Errors
    /// If a map cannot be written.
    pub fn clear(&mut self) -> Result<(), XdpError> {
        let before = std::mem::take(&mut self.relations);
        let mut placed = before.iter().filter_map(|Placed { of, place }| Some((of, (*place)?)));
        let taken_out = placed.try_for_each(|(of, place)| self.take_out(of, place));
        if taken_out.is_err() {
            self.reset(&[]);
        }
        self.serve();
        taken_out
    }

    /// A relation without keys, whose frames are found from here on.
    fn put_in(&mut self, of: &RelationSettings, place: u32) -> Result<(), XdpError> {
        self.clear_counters(place)?;
        set_relation(self.programs.map("relations")?, place, layout::relation(of))?;
        for (name, address) in layout::addresses(of) {
            let map_of = self.programs.map(name)?;
            HashMap::<_, [u8; layout::ADDRESS], u32>::try_from(map_of)?.insert(address, place, 0)?;
        }
        Ok(())
    }

    /// Frames that the machines of a place's relation send, and get.
    fn set_machine(
        &mut self,
        place: u32,
        settings: &Settings,
        of: &RelationSettings,
    ) -> Result<(), XdpError> {
        let map_of = self.programs.map("machines")?;
        let machine = layout::machine(settings, of);
        Ok(Array::<_, [u8; layout::MACHINE]>::try_from(map_of)?.set(place, machine, 0)?)
    }

    /// Frames of a relation are not found any more, and its keys are gone.
    fn take_out(&mut self, of: &RelationSettings, place: u32) -> Result<(), XdpError> {
        for (name, address) in layout::addresses(of) {
            let map_of = self.programs.map(name)?;
            HashMap::<_, [u8; layout::ADDRESS], u32>::try_from(map_of)?.remove(&address)?;
        }
        set_relation(self.programs.map("relations")?, place, [0; layout::RELATION])?;
        // Its keystream goes with its keys.
        self.command(&layout::collect(place))
    }

    fn clear_counters(&mut self, place: u32) -> Result<(), XdpError> {
        self.programs.set_all("sent", place, [0; layout::SENT])?;
        self.programs.set_all("received", place, [0; layout::RECEIVED])?;
        for histogram in ["jitter", "residence_outward", "residence_inward"] {
            self.programs.set_all(histogram, place, [0; layout::HISTOGRAM])?;
        }
        Ok(())
    }

    /// Maximum number of relations.
    pub const fn room(&self) -> usize {
        self.room
    }

    /// Whether the kernel has this relation.
    pub fn has(&self, relation: usize) -> bool {
        self.relations.get(relation).is_some_and(|of| of.place.is_some())
    }

    /// Takes a relation out, and wipes its keys: its frames are user space's from here on.
    ///
    /// # Errors
    /// If a map cannot be written; then the relation is still the kernel's.
    pub fn release(&mut self, relation: usize) -> Result<(), XdpError> {
        let Some(Placed { of, place: Some(place) }) = self.relations.get(relation) else { return Ok(()) };
        let (of, place) = (*of, *place);
        self.take_out(&of, place)?;
        self.relations[relation].place = None;
        Ok(())
    }

    fn place(&self, relation: usize) -> Result<u32, XdpError> {
        self.relations.get(relation).and_then(|of| of.place).ok_or(XdpError::Malformed)
    }

    /// Says where verified and protected frames leave: interfaces of this network namespace, by their indexes.
    ///
    /// # Errors
    /// If there is no such interface.
    pub fn set_ports(&mut self, plain: u32, protected: u32) -> Result<(), XdpError> {
        self.programs.set_ports(plain, protected)
    }

    /// Has frames of no relation that come to this receive queue of the plain or the protected interface go to a socket.
    ///
    /// # Errors
    /// If it is no AF_XDP socket of that queue.
    pub fn set_socket(&mut self, way: Direction, queue: u32, socket: impl AsRawFd) -> Result<(), XdpError> {
        self.programs.set_socket(way, queue, socket)
    }

    /// The programs, for links of somebody else's: that of the plain interface, and that of the protected one.
    ///
    /// # Errors
    /// If a file descriptor cannot be had.
    pub fn programs(&mut self) -> Result<[OwnedFd; 2], XdpError> {
        self.programs.descriptors()
    }

    /// Changes keys of a relation. What has ended is wiped.
    ///
    /// # Errors
    /// If there is no such relation, or a key is of another suite.
    pub fn change(&mut self, relation: usize, change: &KeyChange) -> Result<Changed, XdpError> {
        let place = self.place(relation)?;
        self.programs.change(layout::command(place, change)?.octets())
    }

    fn command(&self, command: &[u8; layout::COMMAND]) -> Result<(), XdpError> {
        match self.programs.change(command)? {
            Changed::Done => Ok(()),
            Changed::Refused => Err(XdpError::Malformed),
        }
    }

    /// Number of relations.
    pub const fn count(&self) -> usize {
        self.relations.len()
    }

    /// Has a frame of the machine go through the program as if it had come, `repeat` times: for tests and benches. It takes a Seq, and is
    /// counted. At least 14 octets.
    ///
    /// # Errors
    /// If the kernel does not run it.
    pub fn run_outward(&self, frame: &[u8], repeat: u32) -> Result<Ran, XdpError> {
        self.programs.run_frame("outward", frame, repeat)
    }

    /// The same for a frame of the network.
    ///
    /// # Errors
    /// If the kernel does not run it.
    pub fn run_inward(&self, frame: &[u8], repeat: u32) -> Result<Ran, XdpError> {
        self.programs.run_frame("inward", frame, repeat)
    }
}

impl std::fmt::Debug for Cell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cell").field("relations", &self.relations.len()).finish_non_exhaustive()
    }
}

/// Puts a relation into its place, under its lock: a frame that is under way finds all of it or nothing of it, and never a key of which
/// half is zeros.
fn set_relation(relations: &mut Map, place: u32, octets: [u8; layout::RELATION]) -> Result<(), XdpError> {
    Ok(Array::<_, [u8; layout::RELATION]>::try_from(relations)?.set(place, octets, UNDER_LOCK)?)
}

#[cfg(test)]
mod tests;
