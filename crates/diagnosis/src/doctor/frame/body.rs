//! Bodies of messages, behind the head, and their octets.

/// Octets of the longest body.
pub(super) const LONGEST: usize = 58;

/// The VLAN tag that a frame came with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Tag {
    /// None.
    #[default]
    None,
    /// One of VLAN 0: a priority.
    Priority,
    /// One of a VLAN, or two.
    Vlan,
}

/// Purpose of a probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// Does a frame of this entry of [`super::targets::TARGETS`] cross?
    Target(u8),
    /// Does a frame of this length cross? The number tells which attempt it belongs to.
    Size,
    /// One of many: loss, order, copies.
    Stream,
    /// Does a priority tag cross?
    Tag,
}

/// Status of a sender and of its record. 58 octets, in the order of the fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Status {
    /// Stage of its own probing.
    pub stage: Stage,
    /// It has heard that the receiver's probing is finished.
    pub saw_finish: bool,
    /// It hears frames that claim to come from its peer, and whose MAC does not fit.
    pub hears_misfits: bool,
    /// Whether it fragments SDUs; 1 fragment, 2 concatenate.
    pub fragmentation: u8,
    /// Its cipher suite.
    pub suite: [u8; 8],
    /// MTU of its plain side.
    pub plain_mtu: u16,
    /// MTU of its protected side.
    pub protected_mtu: u16,
    /// The largest MTU that its probes crossed with; 0 if not known.
    pub largest: u16,
    /// The targets it has tried, as bits.
    pub tried: u16,
    /// Those that crossed.
    pub crossed: u16,
    /// Fate of priority tags: 0 unknown, 1 kept, 2 taken off, 3 the frame was dropped.
    pub tag_fate: u8,
    /// Stream probes that it has sent; 0 before it has sent all.
    pub sent: u32,
    /// Its record of received frames.
    pub record: ReceiveRecord,
}

/// Counters of a receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReceiveRecord {
    /// Different stream probes.
    pub received: u32,
    /// Stream probes that came before.
    pub duplicates: u32,
    /// Stream probes behind one with a higher number.
    pub reordered: u32,
    /// The most numbers that one of them was behind.
    pub displacement: u32,
    /// Doctor's frames that were damaged.
    pub damaged: u32,
    /// Frames of any purpose that were sent untagged and came with a VLAN tag.
    pub tagged: u32,
    /// Own frames that came back.
    pub looped: u32,
}

/// Stage of a doctor.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Stage {
    /// It waits for the other one.
    #[default]
    Waiting,
    /// It sends probes.
    Probing,
    /// It has sent all of them.
    Finished,
}

/// The three kinds of message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Body {
    /// A heartbeat.
    Status(Status),
    /// A frame whose arrival tells something.
    Probe(Purpose),
    /// A probe has arrived: its purpose, and the tag that it came with.
    Echo(Purpose, Tag),
}

impl Body {
    pub(super) fn encode(&self) -> (u8, Vec<u8>) {
        match self {
            Self::Status(status) => (1, status.encode()),
            Self::Probe(purpose) => (2, purpose.octets().to_vec()),
            Self::Echo(purpose, tag) => {
                let tag = match tag {
                    Tag::None => 0,
                    Tag::Priority => 1,
                    Tag::Vlan => 2,
                };
                (3, [&purpose.octets()[..], &[tag]].concat())
            }
        }
    }

    pub(super) fn parse(kind: u8, mut rest: &[u8]) -> Option<Self> {
        match kind {
            1 => Status::parse(rest).map(Self::Status),
            2 => Purpose::parse(take(&mut rest)?).map(Self::Probe),
            3 => {
                let purpose = Purpose::parse(take(&mut rest)?)?;
                let [tag] = take(&mut rest)?;
                let tag = match tag {
                    0 => Tag::None,
                    1 => Tag::Priority,
                    2 => Tag::Vlan,
                    _ => return None,
                };
                Some(Self::Echo(purpose, tag))
            }
            _ => None,
        }
    }
}

impl Purpose {
    const fn octets(self) -> [u8; 2] {
        match self {
            Self::Target(index) => [1, index],
            Self::Size => [2, 0],
            Self::Stream => [3, 0],
            Self::Tag => [4, 0],
        }
    }

    const fn parse(octets: [u8; 2]) -> Option<Self> {
        match octets {
            [1, index] => Some(Self::Target(index)),
            [2, 0] => Some(Self::Size),
            [3, 0] => Some(Self::Stream),
            [4, 0] => Some(Self::Tag),
            _ => None,
        }
    }
}

impl Status {
    fn encode(&self) -> Vec<u8> {
        let stage = match self.stage {
            Stage::Waiting => 0,
            Stage::Probing => 1,
            Stage::Finished => 2,
        };
        let mut out =
            vec![stage, u8::from(self.saw_finish), u8::from(self.hears_misfits), self.fragmentation];
        out.extend(self.suite);
        for value in [self.plain_mtu, self.protected_mtu, self.largest, self.tried, self.crossed] {
            out.extend(value.to_be_bytes());
        }
        out.extend([self.tag_fate, 0, 0, 0]);
        let ReceiveRecord { received, duplicates, reordered, displacement, damaged, tagged, looped } =
            self.record;
        for value in [self.sent, received, duplicates, reordered, displacement, damaged, tagged, looped] {
            out.extend(value.to_be_bytes());
        }
        debug_assert_eq!(out.len(), LONGEST);
        out
    }

    fn parse(mut rest: &[u8]) -> Option<Self> {
        let rest = &mut rest;
        let [stage, saw_finish, hears_misfits, fragmentation] = take(rest)?;
        let stage = match stage {
            0 => Stage::Waiting,
            1 => Stage::Probing,
            2 => Stage::Finished,
            _ => return None,
        };
        if saw_finish > 1 || hears_misfits > 1 {
            return None;
        }
        let suite = take(rest)?;
        let mut short = || take(rest).map(u16::from_be_bytes);
        let (plain_mtu, protected_mtu) = (short()?, short()?);
        let (largest, tried, crossed) = (short()?, short()?, short()?);
        let [tag_fate, 0, 0, 0] = take(rest)? else { return None };
        let mut long = || take(rest).map(u32::from_be_bytes);
        let sent = long()?;
        let record = ReceiveRecord {
            received: long()?,
            duplicates: long()?,
            reordered: long()?,
            displacement: long()?,
            damaged: long()?,
            tagged: long()?,
            looped: long()?,
        };
        Some(Self {
            stage,
            saw_finish: saw_finish == 1,
            hears_misfits: hears_misfits == 1,
            fragmentation,
            suite,
            plain_mtu,
            protected_mtu,
            largest,
            tried,
            crossed,
            tag_fate,
            sent,
            record,
        })
    }
}

pub(super) fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (head, tail) = rest.split_first_chunk()?;
    *rest = tail;
    Some(*head)
}
