//! Control's part of a link: its keys, its cell, and its programs in the kernel.

use std::sync::Arc;

use dataplane::link::Link;
use pnstore::UnusedPns;

use crate::cells::CellControl;
use crate::floors::ReceiveFloor;
use crate::gateway::HaltedKeys;
use crate::kernel_link::{KernelLink, LinkPlace, State};
use crate::kernel_ports::{NO_PORTS, PortPrograms, ProgramsOf};
use crate::key_agreement::Agreement;
use crate::static_keys::StaticControl;
use crate::workers::WorkerSlot;

/// Control's part of a link.
pub(crate) struct LinkControl {
    /// None other of this gateway ever has it; 0 while it is being removed.
    identity: u64,
    name: String,
    at: WorkerSlot,
    keys: Keys,
    cell: Option<Box<CellControl>>,
    /// Programs for its SAs, which it keeps for as long as it is there.
    kernel: Option<Box<KernelLink>>,
    /// Reason why it has none.
    why_user_space: String,
    /// Programs in front of its ports, at work or aside; none: the ports' own.
    in_front: Option<ProgramsOf>,
    /// It has ports, or had some. KaY and handshakes wait for the first ones, so that none of their frames is lost. Later they go on
    /// without ports, for their state grows old.
    begun: bool,
}

/// Origin of a link's keys.
pub(crate) enum Keys {
    Static(Box<StaticControl>),
    Agreed(Box<Agreement>),
    /// Nowhere: nothing but a cell's frames passes.
    None,
}

impl LinkControl {
    /// `begun`: it has ports.
    pub(crate) const fn new(identity: u64, name: String, at: WorkerSlot, keys: Keys, begun: bool) -> Self {
        Self {
            identity,
            name,
            at,
            keys,
            cell: None,
            kernel: None,
            why_user_space: String::new(),
            in_front: None,
            begun,
        }
    }

    /// A number that no other link of this gateway ever has, not even one of its name.
    pub(crate) const fn identity(&self) -> u64 {
        self.identity
    }

    /// It is being removed: what of it comes back late is not its own any more.
    pub(crate) const fn leaves(&mut self) {
        self.identity = 0;
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) const fn at(&self) -> WorkerSlot {
        self.at
    }

    pub(crate) const fn keys(&self) -> &Keys {
        &self.keys
    }

    pub(crate) fn static_keys_mut(&mut self) -> Option<&mut StaticControl> {
        match &mut self.keys {
            Keys::Static(keys) => Some(keys),
            Keys::Agreed(_) | Keys::None => None,
        }
    }

    /// Its static keys, and the programs that it may have.
    pub(crate) fn static_parts(&mut self) -> Option<(&mut StaticControl, Option<&mut KernelLink>)> {
        match &mut self.keys {
            Keys::Static(keys) => Some((keys, self.kernel.as_deref_mut())),
            Keys::Agreed(_) | Keys::None => None,
        }
    }

    /// Its key agreement, the programs that it may have, and its name.
    pub(crate) fn agreed_parts(&mut self) -> Option<(&mut Agreement, Option<&mut KernelLink>, &str)> {
        match &mut self.keys {
            Keys::Agreed(agreement) => Some((agreement, self.kernel.as_deref_mut(), &self.name)),
            Keys::Static(_) | Keys::None => None,
        }
    }

    pub(crate) fn agreement_mut(&mut self) -> Option<&mut Agreement> {
        self.agreed_parts().map(|(agreement, ..)| agreement)
    }

    /// Receive SAs whose floors are kept.
    pub(crate) fn floors(&self) -> Arc<[ReceiveFloor]> {
        match &self.keys {
            Keys::Static(keys) => keys.floors(),
            Keys::Agreed(_) | Keys::None => Arc::default(),
        }
    }

    /// Its keys for the next program, as `link` has them, which has left its worker.
    pub(crate) fn halted_keys(&mut self, link: &Link) -> HaltedKeys {
        match &mut self.keys {
            Keys::Static(keys) => {
                let (lease, block) = (keys.transmit_lease(), keys.latest_block());
                HaltedKeys::Static { lease, block, express: keys.express_pns() }
            }
            Keys::Agreed(agreement) => {
                HaltedKeys::Agreed(agreement.pass_on(&link.pipeline().secy).map(Box::new))
            }
            Keys::None => HaltedKeys::None,
        }
    }

    /// The PNs that its transmit SA has not used; the link has come back from its worker.
    pub(crate) fn unused(&self, link: &Link) -> Option<UnusedPns> {
        match &self.keys {
            Keys::Static(keys) => keys.unused(&link.pipeline().secy),
            Keys::Agreed(_) | Keys::None => None,
        }
    }

    pub(crate) fn cell(&self) -> Option<&CellControl> {
        self.cell.as_deref()
    }

    pub(crate) fn cell_mut(&mut self) -> Option<&mut CellControl> {
        self.cell.as_deref_mut()
    }

    /// Puts a cell in the place of its own, which is handed out.
    pub(crate) const fn replace_cell(&mut self, cell: Option<Box<CellControl>>) -> Option<Box<CellControl>> {
        std::mem::replace(&mut self.cell, cell)
    }

    pub(crate) fn kernel(&self) -> Option<&KernelLink> {
        self.kernel.as_deref()
    }

    pub(crate) fn kernel_mut(&mut self) -> Option<&mut KernelLink> {
        self.kernel.as_deref_mut()
    }

    /// Gives it programs, or takes them away; those that it had are handed out.
    pub(crate) const fn replace_kernel(
        &mut self,
        kernel: Option<Box<KernelLink>>,
    ) -> Option<Box<KernelLink>> {
        std::mem::replace(&mut self.kernel, kernel)
    }

    /// The programs of one of its parts.
    pub(crate) fn programs(&mut self, of: ProgramsOf) -> Option<&mut dyn PortPrograms> {
        match of {
            ProgramsOf::Link => Some(self.kernel_mut()?.programs()),
            ProgramsOf::Cell => self.cell_mut()?.programs(),
        }
    }

    /// Returns the owner of the programs that stand in front of its ports.
    pub(crate) const fn in_front(&self) -> Option<ProgramsOf> {
        self.in_front
    }

    /// Notes whose programs do now; none: it has other ports, or their own programs are there.
    pub(crate) const fn set_in_front(&mut self, of: Option<ProgramsOf>) {
        self.in_front = of;
    }

    /// Tells why it has no programs.
    pub(crate) fn stay_in_user_space(&mut self, why: String) {
        self.why_user_space = why;
    }

    /// Whether its KaY and its handshakes may speak.
    pub(crate) const fn has_begun(&self) -> bool {
        self.begun
    }

    /// Notes that it has ports. False if it had some before.
    pub(crate) const fn begin(&mut self) -> bool {
        !std::mem::replace(&mut self.begun, true)
    }

    /// Returns the place where its frames are protected and verified.
    pub(crate) fn place(&self) -> LinkPlace {
        let Some(kernel) = &self.kernel else { return LinkPlace::UserSpace(self.why_user_space.clone()) };
        let nowhere = match &self.keys {
            Keys::Static(keys) => keys.nowhere(),
            Keys::Agreed(_) | Keys::None => None,
        };
        match (kernel.state(), nowhere) {
            // Express frames go out on the other SC then.
            (_, Some(why)) if kernel.is_express() => LinkPlace::UserSpace(why.into()),
            (_, Some(why)) => LinkPlace::Nowhere(why.into()),
            (State::Idle(why), _) => LinkPlace::UserSpace(why.clone()),
            (State::Unfit(why), _) if kernel.is_place_of_sas() => LinkPlace::Nowhere(why.clone()),
            (State::Unfit(why), _) => LinkPlace::UserSpace(why.clone()),
            (State::NoPorts, _) => LinkPlace::Nowhere(NO_PORTS.into()),
            (State::Attached, _) => match &self.keys {
                Keys::Agreed(agreement) => agreement.link_place(kernel.is_express()),
                Keys::Static(keys) if !keys.is_in_kernel() => {
                    LinkPlace::UserSpace("its keys are changed".into())
                }
                Keys::Static(keys) if keys.is_express_used_up() => LinkPlace::UserSpace(
                    "the packet numbers of its express SC are used up: change the key at both ends".into(),
                ),
                Keys::Static(_) if kernel.is_express() => LinkPlace::Express,
                Keys::Static(_) | Keys::None => LinkPlace::Kernel,
            },
        }
    }
}
