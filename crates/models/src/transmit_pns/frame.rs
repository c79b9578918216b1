//! A frame's way to its PN.

use super::{FIRST, INSTANCES, Mutant, State, World, behind};

/// Next step of a frame.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Hash, Debug)]
pub(super) enum At {
    // take_ready, without the lock.
    #[default]
    Encoding,
    Instance,
    Next,
    Hold,
    Reserved,
    Last,
    Key,
    Take,
    LookEncoding,
    LookInstance,
    Release,
    Spend,
    SealReady,
    // take_pn, under the lock.
    Lock,
    LockedEncoding,
    LockedNext,
    LockedReserved,
    LockedTake,
    LockedKey,
    Unlock,
    Seal,
    UnlockWithout,
    Done,
}

/// A frame, with what it has read. What is not read yet, or does not matter any more, is 0.
#[derive(Clone, Default, PartialEq, Eq, Hash, Debug)]
pub(super) struct Frame {
    pub at: At,
    instance: u8,
    pn: u8,
    reserved: u8,
    last: u8,
    key: Option<usize>,
}

impl Frame {
    fn go(&mut self, at: At) {
        self.at = at;
    }

    /// Values that were read do not matter any more.
    fn forget(&mut self, at: At) {
        *self = Self { at, ..Self::default() };
    }
}

impl World {
    /// Whether a frame can take a step now.
    pub(super) fn can_go(state: &State, number: usize) -> bool {
        match state.frames[number].at {
            At::Done => false,
            At::Lock => !state.locked,
            _ => true,
        }
    }

    /// Whether a frame's next step finds a slot or not.
    pub(super) fn looks_for_slot(state: &State, number: usize) -> bool {
        state.frames[number].at == At::Hold
    }

    /// A frame's next access to memory. `missed`: its slot is not ready.
    pub(super) fn frame_step(&self, state: &mut State, number: usize, missed: bool) {
        let mut frame = state.frames[number].clone();
        if frame.at < At::Lock {
            self.ready_step(state, &mut frame, missed);
        } else {
            Self::locked_step(state, &mut frame);
        }
        state.frames[number] = frame;
    }

    /// A step of `take_ready`, and of what `outward` does with its slot.
    fn ready_step(&self, state: &mut State, frame: &mut Frame, missed: bool) {
        let slot = (frame.instance, frame.pn);
        match frame.at {
            // u32 an = *(volatile u32 *)&sc->encoding - 1; if (an >= ANS) return 0;
            At::Encoding => frame.go(if state.encoding { At::Instance } else { At::Lock }),
            // u64 instance = *(volatile u64 *)&sa->instance
            At::Instance => (frame.instance, frame.at) = (state.sa.instance, At::Next),
            // pn = *(volatile u64 *)&sa->next; pn ? hold_slot(...) : 0, where instance <= HELD has no slot
            At::Next => {
                frame.pn = state.sa.next;
                if frame.pn == 0 || frame.instance == 0 {
                    frame.forget(At::Lock);
                } else {
                    frame.go(At::Hold);
                }
            }
            // __sync_val_compare_and_swap(&slot->id, instance, HELD)
            At::Hold if missed || state.held.contains(&slot) => frame.forget(At::Lock),
            At::Hold => {
                state.held.push(slot);
                state.held.sort_unstable();
                frame.go(At::Reserved);
            }
            // u64 reserved = *(volatile u64 *)&sa->reserved
            At::Reserved => (frame.reserved, frame.at) = (state.sa.reserved, At::Last),
            // last = *(volatile u64 *)&sa->last
            At::Last => (frame.last, frame.at) = (state.sa.last, At::Key),
            // u32 clear = sa->key.clear; pn > reserved
            At::Key => {
                frame.key = state.sa.key;
                frame.go(if frame.pn > frame.reserved { At::Release } else { At::Take });
            }
            // __sync_val_compare_and_swap(&sa->next, pn, pn == last ? 0 : pn + 1) != pn
            At::Take if state.sa.next != frame.pn && self.mutant != Some(Mutant::Store) => {
                frame.go(At::Release)
            }
            At::Take => {
                state.sa.next = behind(frame.pn, frame.last);
                (frame.reserved, frame.last) = (0, 0);
                frame.go(match self.mutant {
                    Some(Mutant::NoLook) => At::SealReady,
                    Some(Mutant::InstanceAlone | Mutant::InstanceFirst) => At::LookInstance,
                    _ => At::LookEncoding,
                });
            }
            // an = *(volatile u32 *)&sc->encoding - 1; if (an < ANS)
            At::LookEncoding => {
                let is_last = matches!(self.mutant, Some(Mutant::EncodingAlone | Mutant::InstanceFirst));
                let next = if is_last { At::SealReady } else { At::LookInstance };
                frame.go(if state.encoding { next } else { At::Spend });
            }
            // if (*(volatile u64 *)&sc->sas[an].instance == instance) return slot;
            At::LookInstance => {
                let is_first = self.mutant == Some(Mutant::InstanceFirst);
                let next = if is_first { At::LookEncoding } else { At::SealReady };
                frame.go(if state.sa.instance == frame.instance { next } else { At::Spend });
            }
            // release(slot, instance); return 0, or erase(slot); release(slot, 0); return 0
            At::Release | At::Spend => {
                state.held.retain(|held| *held != slot);
                frame.forget(At::Lock);
            }
            // seal_ready(ctx, &job, &slot->ahead), whose keystream is that of the instance; release(slot, 0)
            _ => {
                state.held.retain(|held| *held != slot);
                let key = if frame.instance == INSTANCES[0] { FIRST } else { state.control.key() };
                state.wrong |= frame.key != Some(key);
                state.send(key, frame.pn);
                frame.forget(At::Done);
            }
        }
    }

    /// A step of `take_pn`, and the frame's sealing behind it.
    fn locked_step(state: &mut State, frame: &mut Frame) {
        match frame.at {
            // spin_lock(&sc->lock)
            At::Lock => (state.locked, frame.at) = (true, At::LockedEncoding),
            // u32 an = sc->encoding - 1; if (an < ANS)
            At::LockedEncoding => frame.go(if state.encoding { At::LockedNext } else { At::UnlockWithout }),
            // pn = *(volatile u64 *)&sa->next; if (!pn) break
            At::LockedNext => {
                frame.pn = state.sa.next;
                frame.go(if frame.pn == 0 { At::UnlockWithout } else { At::LockedReserved });
            }
            // pn > sa->reserved
            At::LockedReserved => {
                frame.go(if frame.pn > state.sa.reserved { At::UnlockWithout } else { At::LockedTake });
            }
            // __sync_val_compare_and_swap(&sa->next, pn, pn == sa->last ? 0 : pn + 1) == pn
            At::LockedTake if state.sa.next == frame.pn => {
                state.sa.next = behind(frame.pn, state.sa.last);
                frame.go(At::LockedKey);
            }
            At::LockedTake => frame.go(At::LockedNext),
            // use_key(job, &sa->key, pn)
            At::LockedKey => (frame.key, frame.at) = (state.sa.key, At::Unlock),
            // spin_unlock(&sc->lock)
            At::Unlock => (state.locked, frame.at) = (false, At::Seal),
            At::UnlockWithout => {
                state.locked = false;
                frame.forget(At::Done);
            }
            // seal_ahead(ctx, &job, &sealing): with a slot or without it is the same frame
            _ => {
                match frame.key {
                    Some(key) => state.send(key, frame.pn),
                    None => state.wrong = true,
                }
                frame.forget(At::Done);
            }
        }
    }
}
