//! Every order in which a few frames arrive, and SAs and fragments go, through the code of reassembly.
//!
//! More frames show nothing new. A step of a chain compares a fragment with the held ones of one neighbouring PN: their SA, their
//! addresses, one flag. It is the same at each place of a chain, which [`a_chain_joins_only_if_each_link_is_right`] shows for all lengths.
//! The end of memory is compared with sums of octets, and the room is small here: the fourth fragment evicts one.

extern crate std;
use alloc::collections::BTreeSet;
use std::vec;

use super::*;
use crate::sdu_buffer::SDU_OCTETS;

/// Octets of a fragment: three are an SDU of the greatest length but one, and four are too long.
const OCTETS: usize = (SDU_OCTETS - size_of::<Addresses>()) / 3;
/// Octets for which there is room: those of three fragments.
const ROOM: usize = 3 * OCTETS + 5;
/// SA that retires while others stay.
const FIRST: An = An::ALL[0];

/// Fragments of a frame by their flags (CF, MF): a head, a middle, a tail; the tail of one SDU and the head of the next.
const KINDS: [&[(bool, bool)]; 4] =
    [&[(false, true)], &[(true, true)], &[(true, false)], &[(true, false), (false, true)]];

/// A group of frames, of which some arrive in some order.
struct Group {
    /// All fragments. The octets of each are its index.
    fragments: Vec<Fragment>,
    /// Frames: their fragments, and how their PN is told from others. Of frames with one PN one arrives.
    frames: Vec<(Range<usize>, (An, u64))>,
    octets: usize,
}

/// Held fragments, oldest first, and PNs that have arrived: all that tells two states apart.
type Print = (Vec<usize>, BTreeSet<(An, u64)>);

struct One {
    reassembler: Reassembler,
    arrived: BTreeSet<(An, u64)>,
}

#[derive(Default)]
struct Search {
    met: BTreeSet<Print>,
    joined: usize,
    evicted: u64,
    too_long: u64,
}

impl Group {
    fn new(base: u64, pns: u64, ans: usize, addresses: u8, octets: usize) -> Self {
        let mut group = Self { fragments: vec![], frames: vec![], octets };
        for (pn, &an) in
            (base..=base + (pns - 1)).flat_map(|pn| An::ALL[..ans].iter().map(move |an| (pn, an)))
        {
            for (kind, of) in KINDS.iter().flat_map(|kind| (0..addresses).map(move |of| (kind, of))) {
                let first = group.fragments.len();
                group.fragments.extend(kind.iter().map(|&(continues, continued)| Fragment {
                    an,
                    pn,
                    addresses: [of; 12],
                    with_addresses: false,
                    continues,
                    continued,
                    at: Instant::START,
                }));
                group.frames.push((first..group.fragments.len(), (an, pn)));
            }
        }
        group
    }

    fn octets(&self, fragment: usize) -> Vec<u8> {
        vec![fragment as u8; self.octets]
    }

    /// Whether fragments are all of one SDU, in their order.
    fn is_whole(&self, chain: &[usize]) -> bool {
        let part = |index: usize| &self.fragments[index];
        let joins = |pair: &[usize]| {
            let (before, behind) = (part(pair[0]), part(pair[1]));
            let same = (before.an, before.addresses) == (behind.an, behind.addresses);
            same && before.pn.checked_add(1) == Some(behind.pn) && before.continued && behind.continues
        };
        chain.windows(2).all(joins) && !part(chain[0]).continues && !part(chain[chain.len() - 1]).continued
    }

    /// A whole SDU among held fragments.
    fn whole_among(&self, held: &[usize]) -> Option<Vec<usize>> {
        let heads = held.iter().filter(|&&index| !self.fragments[index].continues);
        let mut chains: Vec<Vec<usize>> = heads.map(|&head| vec![head]).collect();
        while let Some(chain) = chains.pop() {
            if self.is_whole(&chain) {
                return Some(chain);
            }
            let next = self.fragments[chain[chain.len() - 1]].pn.checked_add(1);
            chains.extend(held.iter().filter(|&&index| Some(self.fragments[index].pn) == next).filter_map(
                |&index| {
                    let longer = [&chain[..], &[index]].concat();
                    let (before, behind) = (&self.fragments[chain[chain.len() - 1]], &self.fragments[index]);
                    let joins = (before.an, before.addresses) == (behind.an, behind.addresses);
                    (joins && before.continued && behind.continues).then_some(longer)
                },
            ));
        }
        None
    }
}

impl One {
    fn new() -> Self {
        let reassembler = Reassembler { held: ArrayVec::new(), octets: Vec::with_capacity(ROOM) };
        Self { reassembler, arrived: BTreeSet::new() }
    }

    fn copy(&self) -> Self {
        let mut copy = Self { arrived: self.arrived.clone(), ..Self::new() };
        for HeldFragment { fragment, octets } in &self.reassembler.held {
            copy.reassembler.held.push(HeldFragment { fragment: *fragment, octets: octets.clone() });
        }
        copy.reassembler.octets.extend_from_slice(&self.reassembler.octets);
        copy
    }

    /// Held fragments by what their octets say, oldest first.
    fn held(&self) -> Vec<usize> {
        (0..self.reassembler.len()).map(|index| self.reassembler.part(index)[0].into()).collect()
    }

    /// Asserts what has to hold of each state.
    fn check(&self, group: &Group) {
        let Reassembler { held, octets } = &self.reassembler;
        assert_eq!(octets.capacity(), ROOM, "NOT SO: memory is bounded: it grew");
        let mut end = 0;
        for (index, one) in held.iter().enumerate() {
            let told = usize::from(self.reassembler.part(index)[0]);
            let (is, was) = (&one.fragment, &group.fragments[told]);
            let same = (is.an, is.pn, is.addresses, is.continues, is.continued)
                == (was.an, was.pn, was.addresses, was.continues, was.continued);
            let whole = self.reassembler.part(index) == group.octets(told) && one.octets.start == end;
            assert!(same && whole, "NOT SO: a held fragment is what arrived: {was:?}");
            end = one.octets.end;
        }
        assert_eq!(octets.len(), end, "NOT SO: memory is bounded: octets without a fragment");
    }
}

impl Search {
    /// A fragment arrives. `held` are those before it.
    fn offer(&mut self, group: &Group, one: &mut One, index: usize) {
        let (before, mut buffer) = (one.held(), SduBuffer::new(1, 1514));
        let age =
            one.reassembler.held.last().map_or(0, |held| held.fragment.at.since(Instant::START).as_millis());
        let at = Instant::after_start(Duration::from_millis(age as u64 + 1));
        let arriving = Fragment { at, ..group.fragments[index] };
        let outcome = one.reassembler.offer(&arriving, &group.octets(index), &mut buffer);
        let after = one.held();
        let what = || std::format!("{:?} to {before:?}, then {after:?}, {outcome:?}", group.fragments[index]);
        let mut expected = [&before[..], &[index]].concat();
        for sdu in buffer.sdus(0..buffer.len()) {
            let chain: Vec<usize> = sdu[12..].chunks(group.octets).map(|part| part[0].into()).collect();
            let parts: Vec<u8> = chain.iter().flat_map(|&part| group.octets(part)).collect();
            assert!(sdu[12..] == parts, "NOT SO: fragments of one SDU join: {}", what());
            assert!(sdu[..12] == arriving.addresses, "NOT SO: fragments of one SDU join: {}", what());
            assert!(group.is_whole(&chain), "NOT SO: fragments of one SDU join: {chain:?}: {}", what());
            assert!(sdu.len() <= SDU_OCTETS, "NOT SO: no SDU is too long: {}", what());
            let count = expected.len();
            expected.retain(|held| !chain.contains(held));
            assert_eq!(count - expected.len(), chain.len(), "NOT SO: none is delivered twice: {}", what());
            self.joined += 1;
        }
        assert_eq!(outcome.reassembled, buffer.len() as u64);
        if outcome.too_long == 1 {
            let chain = group.whole_among(&expected).expect("NOT SO: fragments of one SDU join: too long");
            let octets = size_of::<Addresses>() + chain.len() * group.octets;
            assert!(octets > SDU_OCTETS, "NOT SO: what is whole is delivered: {}", what());
            expected.retain(|held| !chain.contains(held));
        }
        expected.truncate(expected.len() - outcome.mismatched as usize);
        // No more than needed, the oldest first.
        let room = ROOM / group.octets;
        assert_eq!(
            outcome.overrun as usize,
            expected.len().saturating_sub(room),
            "NOT SO: the oldest goes: {}",
            what()
        );
        expected.drain(..outcome.overrun as usize);
        assert_eq!(after, expected, "NOT SO: none is delivered twice: {}", what());
        self.evicted += outcome.overrun;
        self.too_long += outcome.too_long;
    }

    fn visit(&mut self, group: &Group, one: &One) {
        if !self.met.insert((one.held(), one.arrived.clone())) {
            return;
        }
        one.check(group);
        assert_eq!(group.whole_among(&one.held()), None, "NOT SO: what is whole is delivered");
        for (fragments, of) in &group.frames {
            let mut next = one.copy();
            // The replay window lets one frame of a PN through.
            if next.arrived.insert(*of) {
                fragments.clone().for_each(|index| self.offer(group, &mut next, index));
                self.visit(group, &next);
            }
        }
        for (_, (an, pn)) in &group.frames {
            let mut next = one.copy();
            let dropped = next.reassembler.drop_below(*an, *pn);
            assert_eq!(next.held().len() + dropped as usize, one.held().len());
            self.visit(group, &next);
        }
        let mut next = one.copy();
        let (gone, held) = (next.reassembler.retire(FIRST), one.held());
        let left: Vec<usize> =
            held.iter().copied().filter(|&index| group.fragments[index].an != FIRST).collect();
        assert!(
            next.held() == left && gone as usize + left.len() == held.len(),
            "NOT SO: an SA takes its own along"
        );
        self.visit(group, &next);
        if let Some(oldest) = one.reassembler.held.first() {
            let (mut next, mut gone) = (one.copy(), 0);
            let late = oldest.fragment.at + FRAGMENT_TIMEOUT + Duration::from_micros(1);
            next.reassembler.expire(late, |_| gone += 1);
            assert!(gone == 1 && next.held() == one.held()[1..], "NOT SO: the oldest goes: {:?}", one.held());
            self.visit(group, &next);
        }
    }
}

#[test]
fn in_no_order_of_frames_do_fragments_join_that_do_not_belong_together() {
    // Five PNs of one SA; four, the last ones there are; three with two pairs of addresses; two of each of two SAs. One more with `FRAMEWARD_MODELS=deep`.
    let is_deep = std::env::var("FRAMEWARD_MODELS").is_ok_and(|depth| depth == "deep");
    let groups = [
        (1, 5, 1, 1, OCTETS),
        (u64::MAX - 3, 4, 1, 1, OCTETS + 1),
        (u64::from(u32::MAX) - 1, 3 + u64::from(is_deep), 1, 2, OCTETS),
        (1, 2 + u64::from(is_deep), 2, 1, OCTETS),
    ];
    let mut totals = [0; 4];
    for (base, pns, ans, addresses, octets) in groups {
        let (group, mut search) = (Group::new(base, pns, ans, addresses, octets), Search::default());
        search.visit(&group, &One::new());
        let Search { met, joined, evicted, too_long } = search;
        std::println!("{} states, {joined} SDUs, {evicted} evicted, {too_long} too long", met.len());
        for (total, one) in totals.iter_mut().zip([met.len(), joined, evicted as usize, too_long as usize]) {
            *total += one;
        }
    }
    assert!(totals.iter().all(|total| *total > 100), "the search has ended early: {totals:?}");
}

/// Faults of one link of a chain: the fragment behind it is of another SDU, or missing. The last entry is no fault.
const FAULTS: [fn(&mut Fragment); 6] = [
    |behind| behind.pn += 1_000,
    |behind| behind.an = An::ALL[1],
    |behind| behind.addresses = [9; 12],
    |behind| behind.with_addresses = true,
    |behind| behind.continues = false,
    |_| (),
];

#[test]
fn a_chain_joins_only_if_each_link_is_right() {
    let mut buffer = SduBuffer::new(1, 1514);
    for (len, last) in (2..=MAX_FRAGMENTS + 1).flat_map(|len| (0..len).map(move |last| (len, last))) {
        for (fault, link) in (0..FAULTS.len()).flat_map(|fault| (1..len).map(move |link| (fault, link))) {
            // Links without a fault are all alike.
            if fault + 1 == FAULTS.len() && link > 1 {
                break;
            }
            let mut parts: Vec<(usize, Fragment)> = (0..len)
                .map(|index| {
                    let (continues, continued) = (index > 0, index + 1 < len);
                    let (pn, at) = (7 + index as u64, Instant::START);
                    (
                        index,
                        Fragment {
                            an: FIRST,
                            pn,
                            addresses: [1; 12],
                            with_addresses: false,
                            continues,
                            continued,
                            at,
                        },
                    )
                })
                .collect();
            FAULTS[fault](&mut parts[link].1);
            let arriving = parts.remove(last);
            if link % 2 == 0 {
                parts.reverse();
            }
            // Held before it as they are: offered, the end of a broken chain would be joined already.
            let mut reassembler = Reassembler::new(true);
            for (index, fragment) in &parts {
                let start = reassembler.octets.len();
                reassembler.octets.push(*index as u8);
                reassembler.held.push(HeldFragment { fragment: *fragment, octets: start..start + 1 });
            }
            buffer.clear();
            reassembler.offer(&arriving.1, &[arriving.0 as u8], &mut buffer);
            let whole: Vec<u8> = (0..len as u8).collect();
            let joined = buffer.sdus(0..buffer.len()).next().map(|sdu| sdu[12..].to_vec());
            let right = fault + 1 == FAULTS.len();
            // Whoever has lost its CF begins an SDU of its own.
            let own = (fault == 4 && last >= link).then(|| whole[link..].to_vec());
            let expected = if right { Some(whole) } else { own };
            assert_eq!(joined, expected, "NOT SO: fragments of one SDU join: {len}, {last}, {fault}, {link}");
        }
    }
}

#[test]
fn no_more_fragments_are_held_than_there_is_room_for() {
    let (mut reassembler, mut buffer) = (Reassembler::new(true), SduBuffer::new(1, 1514));
    for pn in 0..3 * MAX_FRAGMENTS as u64 {
        let fragment = Fragment {
            an: FIRST,
            pn: 2 * pn,
            addresses: [1; 12],
            with_addresses: false,
            continues: false,
            continued: true,
            at: Instant::START,
        };
        let outcome = reassembler.offer(&fragment, &[pn as u8], &mut buffer);
        let evicted = u64::from(pn >= MAX_FRAGMENTS as u64);
        assert_eq!(
            outcome,
            Outcome { overrun: evicted, ..Outcome::default() },
            "NOT SO: the oldest goes: {pn}"
        );
        let oldest = (pn + 1).saturating_sub(MAX_FRAGMENTS as u64);
        assert_eq!(reassembler.part(0), [oldest as u8], "NOT SO: the oldest goes: {pn}");
    }
    assert_eq!((reassembler.len(), reassembler.octets.capacity()), (MAX_FRAGMENTS, MAX_FRAGMENT_OCTETS));
}
