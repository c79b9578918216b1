//! Fragmented SDUs through SecYs: plans carried out on plain vectors, and authentic frames of any form.

use secy::fragment::{Plan, Rules, Sdu};
use secy::{
    Delivered, ExpressClasses, Frame, FrameLayout, Incoming, Outgoing, Protection, ReceiveDiscard, SduBuffer,
    SecY, Settings, TransmitDiscard,
};
use suite::{CipherSuite, Nonce, SealJob};
use wire::{EtherType, Instant, SecTag};

use super::{A, Outcome, ROOM, SETTINGS, chunk, key, pn, sdu, xpn};

/// The most SDUs of a burst.
pub const BURST: usize = 64;

/// Settings of stations that have agreed on MF and EXT.
pub const REASSEMBLING: Settings = Settings { reassemble: true, ..SETTINGS };

/// A frame before it is protected: DA, SA and secure data, and its layout.
pub type Assembled = (Vec<u8>, Option<FrameLayout>);

/// Plans `sdus`.
pub fn planned(rules: &Rules, sdus: &[impl AsRef<[u8]>]) -> Plan {
    let mut plan = Plan::new(sdus.len(), rules);
    let described: Vec<_> =
        sdus.iter().map(|sdu| Sdu::of(sdu.as_ref(), &ExpressClasses::default()).expect("a frame")).collect();
    plan.make(rules, &described);
    plan
}

/// Copies SDUs together as planned.
pub fn carry_out(plan: &Plan, sdus: &[Vec<u8>]) -> Vec<Assembled> {
    let assemble = |frame| {
        let parts = plan.fragments(frame);
        let mut octets = sdus[parts[0].sdu][..12].to_vec();
        for part in parts {
            assert_eq!(octets[..12], sdus[part.sdu][..12], "SDUs of a frame share DA and SA");
            octets.extend(&sdus[part.sdu][12..][part.octets.clone()]);
        }
        octets
    };
    plan.frames().iter().map(|frame| (assemble(frame), frame.layout)).collect()
}

/// Protects one burst.
pub fn protect_assembled(secy: &mut SecY, frames: &[Assembled]) -> Vec<Outcome<TransmitDiscard>> {
    // Octets of earlier frames lie behind, where padding is to come.
    let behind =
        |layout: &Option<FrameLayout>| vec![0x77; layout.and_then(|of| of.padding).unwrap_or(0).into()];
    let mut chunks: Vec<_> =
        frames.iter().map(|(octets, layout)| [chunk(octets), behind(layout)].concat()).collect();
    let outgoing = |(chunk, (octets, layout)): (_, &Assembled)| {
        let frame = Frame::new(chunk, ROOM, octets.len()).expect("inside");
        match layout {
            Some(layout) => Outgoing::with_layout(frame, *layout),
            None => Outgoing::new(frame),
        }
    };
    let mut burst: Vec<_> = chunks.iter_mut().map(Vec::as_mut_slice).zip(frames).map(outgoing).collect();
    secy.protect(&mut burst);
    let done = |outgoing: Outgoing<'_>| {
        let octets = outgoing.frame().octets().to_vec();
        outgoing.into_outcome().map_or_else(Outcome::Discarded, |_| Outcome::Passed(octets))
    };
    burst.into_iter().map(done).collect()
}

/// Plans and protects one burst of SDUs, all frames of which pass.
pub fn send(secy: &mut SecY, rules: &Rules, sdus: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let frames = carry_out(&planned(rules, sdus), sdus);
    protect_assembled(secy, &frames).into_iter().map(Outcome::passed).collect()
}

/// A buffer for bursts of any length that a test has.
pub fn buffer(frames: usize) -> SduBuffer {
    SduBuffer::new(frames, 9216 + 14)
}

/// SDUs that one burst delivers, frame by frame.
pub fn verify_fragments(
    secy: &mut SecY,
    now: Instant,
    frames: &[impl AsRef<[u8]>],
    buffer: &mut SduBuffer,
) -> Vec<Result<Vec<Vec<u8>>, ReceiveDiscard>> {
    let mut chunks: Vec<_> = frames.iter().map(|frame| chunk(frame.as_ref())).collect();
    let mut burst: Vec<_> = chunks
        .iter_mut()
        .zip(frames)
        .map(|(chunk, frame)| Incoming::new(Frame::new(chunk, ROOM, frame.as_ref().len()).expect("inside")))
        .collect();
    secy.verify(now, &mut burst, buffer);
    let done = |incoming: Incoming<'_>| {
        let octets = incoming.frame().octets().to_vec();
        Ok(match incoming.into_outcome()? {
            Delivered::Whole(_) => vec![octets],
            Delivered::Separated(numbers, _) => buffer.sdus(numbers).map(<[u8]>::to_vec).collect(),
        })
    };
    burst.into_iter().map(done).collect()
}

/// The SDUs that frames deliver at one moment, in order.
pub fn delivered(secy: &mut SecY, frames: &[impl AsRef<[u8]>]) -> Vec<Vec<u8>> {
    let outcomes = verify_fragments(secy, Instant::START, frames, &mut buffer(frames.len().max(1)));
    outcomes.into_iter().filter_map(Result::ok).flatten().collect()
}

/// A frame of A under AN 0, in any form: its ICV is right, whatever the octets say.
#[derive(Clone, Debug)]
pub struct Forged {
    pub suite: CipherSuite,
    pub an: u8,
    pub pn: u64,
    /// DA and SA.
    pub addresses: [u8; 12],
    /// E 0x08 and C 0x04.
    pub data_bits: u8,
    /// MF 0x40 and EXT 0x80 of octet 3.
    pub bits: u8,
    /// SL, if not the right one.
    pub short_length: Option<u8>,
    /// Extension headers as they stand.
    pub headers: Vec<u16>,
    /// Secure data.
    pub data: Vec<u8>,
}

/// MF of octet 3.
pub const MF: u8 = 0x40;
/// EXT of octet 3.
pub const EXT: u8 = 0x80;

impl Forged {
    /// `data` in one encrypted segment that begins an SDU and ends it.
    pub fn new(suite: CipherSuite, pn: u64, data: &[u8]) -> Self {
        Self {
            suite,
            an: 0,
            pn,
            addresses: [2, 0, 0, 0, 0, 0xb, 2, 0, 0, 0, 0, 0xa],
            data_bits: 0x0c,
            bits: 0,
            short_length: None,
            headers: Vec::new(),
            data: data.to_vec(),
        }
    }

    /// With these headers, as [`header`] makes them; EXT bits are put where they belong.
    pub fn with_headers(mut self, headers: &[u16]) -> Self {
        let last = headers.len() - 1;
        self.headers = headers.iter().enumerate().map(|(i, h)| h | u16::from(i < last)).collect();
        self.bits |= EXT;
        self
    }

    /// As a piece: CF and MF.
    pub fn piece(self, continues: bool, carry_over: bool) -> Self {
        let mut piece = if continues { self.with_headers(&[header(0, true)]) } else { self };
        piece.bits |= if carry_over { MF } else { 0 };
        piece
    }

    pub fn seal(&self) -> Vec<u8> {
        let right = if self.data.len() < 48 { self.data.len() as u8 } else { 0 };
        let mut frame = self.addresses.to_vec();
        frame.extend(EtherType::MACSEC.0.to_be_bytes());
        frame.extend([0x20 | self.data_bits | self.an, self.bits | self.short_length.unwrap_or(right)]);
        frame.extend((self.pn as u32).to_be_bytes());
        frame.extend(A.octets());
        frame.extend(self.headers.iter().flat_map(|header| header.to_be_bytes()));
        let aad = frame.len() + if self.data_bits & 0x08 == 0 { self.data.len() } else { 0 };
        frame.extend(&self.data);
        let text = frame.len();
        frame.extend([0; 16]);
        let nonce = match xpn(self.suite) {
            Some(xpn) => Nonce::xpn(xpn.ssci, pn(self.pn), &xpn.salt),
            None => Nonce::new(A, pn(self.pn)),
        };
        let (aad, rest) = frame.split_at_mut(aad);
        let (text, icv) = rest.split_at_mut(text - aad.len());
        let icv = icv.first_chunk_mut().expect("16 octets");
        key(self.suite, self.an).seal_each([SealJob { nonce, aad, text, icv }].into_iter());
        frame
    }
}

/// An SDU of these octets behind the addresses of forged frames.
pub fn sdu_of(data: &[u8]) -> Vec<u8> {
    [&Forged::new(CipherSuite::GcmAes128, 1, data).addresses, data].concat()
}

/// The octets of an SDU behind its addresses; no other number has these.
pub fn data(octets: usize, number: u64) -> Vec<u8> {
    sdu(octets, number)[12..].to_vec()
}

/// An SDU, and it in `count` pieces of `octets` octets each, with the PNs from `first` on.
pub fn chain(first: u64, count: usize, octets: usize) -> (Vec<u8>, Vec<Forged>) {
    let whole = data(octets * count, first);
    let piece = |(index, part): (usize, &[u8])| {
        let frame = Forged::new(CipherSuite::GcmAes128, first + index as u64, part);
        frame.piece(index > 0, index + 1 < count)
    };
    (sdu_of(&whole), whole.chunks(octets).enumerate().map(piece).collect())
}

/// An extension header without EXT.
pub const fn header(length: u16, continues: bool) -> u16 {
    length << 5 | (continues as u16) << 1
}

/// The SecTAG of a frame, and the extension headers behind it.
pub fn tags(frame: &[u8]) -> (SecTag, Vec<u16>) {
    let tag = SecTag::parse(&frame[12..]).expect("a valid SecTAG");
    let mut headers = Vec::new();
    let mut more = tag.extended;
    for header in frame[12 + tag.octets()..].chunks_exact(2) {
        if !more {
            break;
        }
        headers.push(u16::from_be_bytes([header[0], header[1]]));
        more = header[1] & 1 != 0;
    }
    (tag, headers)
}

/// Without encryption, so that tests can look into frames.
pub const IN_CLEAR: (Settings, Protection) = (REASSEMBLING, Protection::Integrity);
