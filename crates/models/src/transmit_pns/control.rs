//! An SA moves away, and another one is installed under its AN.

use super::{FIRST, INSTANCES, LAST, State, World};

/// Steps of control, in this order.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Act {
    Lock,
    Unlock,
    /// `__sync_lock_test_and_set(&sc->encoding, ...)`.
    Encode(bool),
    /// The program `look`: `report->numbers[0] = sa->next`.
    Look,
    /// `publish(&sa->instance, ...)`.
    Publish(u8),
    /// `*sa = (struct transmit_sa){}`: four words, in any order.
    Erase,
    /// User space has the SA, and sends its next PN.
    SendElsewhere,
    /// Choice of the SA that comes under the AN.
    Choose,
    /// Key, last, next and reserved of a new SA: four words, in any order.
    Write,
}

const ACTS: [Act; 19] = [
    // DISABLE_TRANSMIT
    Act::Lock,
    Act::Encode(false),
    Act::Unlock,
    // report_transmit_locked
    Act::Lock,
    Act::Look,
    Act::Unlock,
    // RETIRE_TRANSMIT: encoding is 0 already
    Act::Lock,
    Act::Publish(0),
    Act::Erase,
    Act::Unlock,
    Act::SendElsewhere,
    Act::Choose,
    // INSTALL_TRANSMIT
    Act::Lock,
    Act::Write,
    Act::Publish(INSTANCES[1]),
    Act::Unlock,
    // ENABLE_TRANSMIT
    Act::Lock,
    Act::Encode(true),
    Act::Unlock,
];

/// Words of an SA that are written plainly.
const WORDS: u8 = 4;

/// Progress of control. `looked`: the next PN that it was told. `new`: key and next PN of the new SA.
#[derive(Clone, Default, PartialEq, Eq, Hash, Debug)]
pub(super) struct Control {
    done: usize,
    written: u8,
    looked: u8,
    new: (usize, u8),
}

impl Control {
    /// The key of the second SA.
    pub(super) fn key(&self) -> usize {
        self.new.0
    }

    /// SAs that can come: another key with any PN, or the same one behind what user space sent.
    fn choices(&self) -> Vec<(usize, u8)> {
        let back = Some((FIRST, self.looked + 1)).filter(|(_, pn)| self.looked != 0 && *pn <= LAST);
        (1..=LAST).map(|pn| (1, pn)).chain(back).collect()
    }
}

impl World {
    /// Lists the steps that control can take now.
    pub(super) fn control_steps(state: &State) -> Vec<u8> {
        let control = &state.control;
        match ACTS.get(control.done) {
            None => vec![],
            Some(Act::Lock) if state.locked => vec![],
            Some(Act::Erase | Act::Write) => {
                (0..WORDS).filter(|word| control.written & 1 << word == 0).collect()
            }
            Some(Act::Choose) => (0..).take(control.choices().len()).collect(),
            Some(_) => vec![0],
        }
    }

    pub(super) fn control_step(state: &mut State, which: u8) {
        let act = ACTS[state.control.done];
        match act {
            Act::Lock => state.locked = true,
            Act::Unlock => state.locked = false,
            Act::Encode(encoding) => state.encoding = encoding,
            Act::Look => state.control.looked = state.sa.next,
            Act::Publish(instance) => state.sa.instance = instance,
            Act::SendElsewhere => {
                let pn = state.control.looked;
                if pn != 0 {
                    state.send(FIRST, pn);
                    // User space has reserved it, if it was not.
                    state.reserved[FIRST] = state.reserved[FIRST].max(pn);
                }
            }
            Act::Choose => state.control.new = state.control.choices()[usize::from(which)],
            Act::Erase | Act::Write => {
                let (key, pn) = state.control.new;
                let is_new = act == Act::Write;
                if is_new {
                    state.reserved[key] = LAST;
                }
                match which {
                    0 => state.sa.key = is_new.then_some(key),
                    1 => state.sa.last = if is_new { LAST } else { 0 },
                    2 => state.sa.next = if is_new { pn } else { 0 },
                    _ => state.sa.reserved = if is_new { LAST } else { 0 },
                }
                state.control.written |= 1 << which;
                if state.control.written.count_ones() < WORDS.into() {
                    return;
                }
                state.control.written = 0;
            }
        }
        state.control.done += 1;
    }
}
