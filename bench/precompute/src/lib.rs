//! Ordinary ciphers beside antedated ones, row by row (paper section VI): the same code on a microcontroller, where a
//! [`Meter`] counts instructions, and on a host, where it takes the time.
//!
//! A row holds, for one message: what the ordinary computation costs, what its preparation costs, and what is left to do
//! when the data is there. The data begins with the template; nonces and AAD are those of DTLS 1.2 with AES-CCM-8.
#![no_std]

#[cfg(not(target_os = "none"))]
pub mod host;

use core::hint::black_box;

use aes::Aes128;
use aes::cipher::{BlockCipherEncrypt as _, KeyInit as _};
use antedate::cbc_mac::CbcMac;
use antedate::dtls::RecordNumbering;
use antedate::keystream::Keystream;
use antedate::sender::Numbering as _;
use antedate::template::goose;
use antedate::{CacheHit, Ccm, Expected, Gcm, Sender, TagLength};
use arrayvec::ArrayVec;
use ccm::aead::AeadInOut as _;

/// Messages that are measured together.
pub const BATCH: usize = 8;
/// The longest payload.
pub const LONGEST: usize = 1000;
/// Payloads that are measured, in octets; those of the paper's text and figures are among them.
pub const PAYLOADS: [usize; 17] =
    [16, 32, 48, 64, 80, 96, 112, 128, 200, 224, 288, 304, 464, 496, 608, 800, 1000];
/// Templates that are measured, in octets.
pub const TEMPLATES: [usize; 5] = [0, 16, 32, 48, 96];
/// Octets of the longest template that is prepared.
const LONGEST_TEMPLATE: usize = 96;

/// A GOOSE message, from behind the EtherType: eight switches' states.
pub const GOOSE: [u8; 117] = *b"\
    \x00\x01\x00\x75\x00\x00\x00\x00\x61\x6b\
    \x80\x14IED1LD0/LLN0$GO$gcb1\x81\x02\x07\xd0\x82\x13IED1LD0/LLN0$status\x83\x04gcb1\
    \x84\x08\x5b\x00\x11\x22\x33\x44\x55\x0a\x85\x01\x03\x86\x01\x05\x87\x01\x00\x88\x01\x01\x89\x01\x00\x8a\x01\x08\
    \xab\x18\x83\x01\x00\x83\x01\x00\x83\x01\x00\x83\x01\x00\x83\x01\x00\x83\x01\x00\x83\x01\x00\x83\x01\x00";

/// The measured operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// Counter mode alone.
    Encryption,
    /// CBC-MAC of CCM alone: B_0, AAD and data.
    Mac,
    /// CCM.
    Both,
    /// GCM, which knows no templates.
    Gcm,
    /// One block of AES by itself: `online` is it, `ordinary` one of many that are encrypted together.
    Block,
    /// CCM by crate ccm: `ordinary` alone is meant.
    OrdinaryCrate,
    /// CCM of [`GOOSE`] messages that announce changes: known up to their time.
    GooseChange,
    /// CCM of [`GOOSE`] messages that repeat a state: known as a whole, with their `sqNum`.
    GooseRepetition,
}

impl What {
    /// All.
    pub const ALL: [Self; 8] = [
        Self::Encryption,
        Self::Mac,
        Self::Both,
        Self::Gcm,
        Self::Block,
        Self::OrdinaryCrate,
        Self::GooseChange,
        Self::GooseRepetition,
    ];

    /// As it stands in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Encryption => "encryption",
            Self::Mac => "mac",
            Self::Both => "both",
            Self::Gcm => "gcm",
            Self::Block => "block",
            Self::OrdinaryCrate => "crate-ccm",
            Self::GooseChange => "goose-change",
            Self::GooseRepetition => "goose-repetition",
        }
    }
}

/// A row: units of the meter, for [`BATCH`] messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row {
    /// The measured operation.
    pub what: What,
    /// Octets of data.
    pub payload: usize,
    /// Octets of template.
    pub template: usize,
    /// The ordinary computation.
    pub ordinary: u64,
    /// The preparation.
    pub prepare: u64,
    /// Work that is left when the data is there.
    pub online: u64,
}

/// Measures.
pub trait Meter {
    /// Cost of `run`, which does something [`BATCH`] times.
    fn measure(&mut self, run: &mut dyn FnMut()) -> u64;
}

const KEY: [u8; 16] = *b"a key of no use!";
const RECORDS: RecordNumbering = RecordNumbering { salt: [1, 2, 3, 4], epoch: 1, kind: 23 };

/// All rows, one after the other.
pub fn each_row(meter: &mut dyn Meter, found: &mut dyn FnMut(Row)) {
    found(block(meter));
    found(goose_change(meter));
    found(goose_repetition(meter));
    for payload in PAYLOADS {
        found(encryption(meter, payload));
        found(gcm(meter, payload));
        found(by_crate(meter, payload));
        for template in TEMPLATES.into_iter().filter(|&template| template <= payload) {
            found(mac(meter, payload, template));
            found(both(meter, payload, template));
        }
    }
}

/// Messages: the same beginning, and something else in each behind the longest template.
fn messages(payload: usize) -> [[u8; LONGEST]; BATCH] {
    let mut messages = [[0x2e; LONGEST]; BATCH];
    for (number, message) in messages.iter_mut().enumerate() {
        message[..payload].iter_mut().skip(96).for_each(|octet| *octet = number as u8);
    }
    messages
}

fn block(meter: &mut dyn Meter) -> Row {
    let cipher = Aes128::new(&KEY.into());
    let mut blocks = [[0_u8; 16].into(); BATCH];
    let ordinary = meter.measure(&mut || cipher.encrypt_blocks(black_box(&mut blocks)));
    let online =
        meter.measure(&mut || blocks.iter_mut().for_each(|block| cipher.encrypt_block(black_box(block))));
    Row { what: What::Block, payload: 16, template: 0, ordinary, prepare: 0, online }
}

fn encryption(meter: &mut dyn Meter, payload: usize) -> Row {
    macro_rules! sized {
        ($($octets:literal)*) => {
            match payload {
                $($octets => encryption_of::<$octets>(meter),)*
                other => unreachable!("no size for {other} octets"),
            }
        };
    }
    sized!(16 32 48 64 80 96 112 128 200 224 288 304 464 496 608 800 1000)
}

fn encryption_of<const N: usize>(meter: &mut dyn Meter) -> Row {
    let cipher = Aes128::new(&KEY.into());
    let first = |number: usize| [number as u8; 16];
    let mut data = messages(N);
    // A keystream without a preparation is made when it is applied: counter mode as it always is.
    let ordinary = meter.measure(&mut || {
        for (number, data) in data.iter_mut().enumerate() {
            Keystream::<0>::prepare(&cipher, first(number), 0).apply(&cipher, black_box(&mut data[..N]));
        }
    });
    let mut prepared = [const { None }; BATCH];
    let prepare = meter.measure(&mut || {
        for (number, slot) in prepared.iter_mut().enumerate() {
            *slot = Some(Keystream::<N>::prepare(&cipher, first(number), N));
        }
    });
    let mut data = messages(N);
    let online = meter.measure(&mut || {
        for (slot, data) in prepared.iter_mut().zip(&mut data) {
            if let Some(keystream) = slot.take() {
                keystream.apply(&cipher, black_box(&mut data[..N]));
            }
        }
    });
    Row { what: What::Encryption, payload: N, template: 0, ordinary, prepare, online }
}

fn mac(meter: &mut dyn Meter, payload: usize, template: usize) -> Row {
    let cipher = Aes128::new(&KEY.into());
    let data = messages(payload);
    // B_0, and the AAD of a record, which fills a block.
    let begin = |number: usize| {
        let mut mac = CbcMac::new();
        mac.update(&cipher, &[number as u8; 16]);
        mac.update(&cipher, &[9; 16]);
        mac
    };
    let ordinary = meter.measure(&mut || {
        for (number, data) in data.iter().enumerate() {
            let mut mac = begin(number);
            mac.update(&cipher, black_box(&data[..payload]));
            black_box(mac.finish(&cipher));
        }
    });
    let mut begun: ArrayVec<CbcMac, BATCH> = ArrayVec::new();
    let prepare = meter.measure(&mut || {
        begun.clear();
        for (number, data) in data.iter().enumerate() {
            let mut mac = begin(number);
            mac.update(&cipher, &data[..template]);
            begun.push(mac);
        }
    });
    let online = meter.measure(&mut || {
        for (mac, data) in begun.iter().zip(&data) {
            let mut mac = mac.clone();
            mac.update(&cipher, black_box(&data[template..payload]));
            black_box(mac.finish(&cipher));
        }
    });
    Row { what: What::Mac, payload, template, ordinary, prepare, online }
}

fn both(meter: &mut dyn Meter, payload: usize, template: usize) -> Row {
    sent(meter, What::Both, &messages(payload), payload, template, &mut |_| {})
}

fn goose_change(meter: &mut dyn Meter) -> Row {
    let template = goose::predictable_prefix_of_change(&GOOSE).expect("invariant: a GOOSE message");
    let mut messages = [[0; LONGEST]; BATCH];
    for (number, message) in messages.iter_mut().enumerate() {
        message[..GOOSE.len()].copy_from_slice(&GOOSE);
        message[template..GOOSE.len()].iter_mut().for_each(|octet| *octet ^= number as u8);
    }
    sent(meter, What::GooseChange, &messages, GOOSE.len(), template, &mut |_| {})
}

fn goose_repetition(meter: &mut dyn Meter) -> Row {
    let repeat = |message: &mut [u8]| {
        let mut before = GOOSE;
        before.copy_from_slice(&message[..GOOSE.len()]);
        goose::repetition(&before, message).expect("invariant: its number grows by no octet");
    };
    let mut message = [0; LONGEST];
    message[..GOOSE.len()].copy_from_slice(&GOOSE);
    let messages = [(); BATCH].map(|()| {
        repeat(&mut message);
        message
    });
    sent(meter, What::GooseRepetition, &messages, GOOSE.len(), LONGEST_TEMPLATE, &mut |known| repeat(known))
}

/// CCM of messages whose first `template` octets are foreseen: those of the first one, and `foresee` makes of them those of
/// the next.
fn sent(
    meter: &mut dyn Meter,
    what: What,
    messages: &[[u8; LONGEST]; BATCH],
    payload: usize,
    template: usize,
    foresee: &mut dyn FnMut(&mut [u8]),
) -> Row {
    let ccm = Ccm::new(Aes128::new(&KEY.into()), TagLength::EIGHT);
    let mut sender = Sender::<_, _, 1008, LONGEST_TEMPLATE, BATCH>::new(&ccm, RECORDS, 0);
    let mut met = CacheHit::Full;
    let mut send_all = |sender: &mut Sender<'_, _, _, 1008, LONGEST_TEMPLATE, BATCH>,
                        data: &mut [[u8; LONGEST]; BATCH]| {
        met = CacheHit::Full;
        for data in data {
            let sent = sender.send(black_box(&mut data[..payload])).expect("invariant: numbers are left");
            met = met.min(black_box(sent).hit);
        }
    };
    let mut data = *messages;
    let ordinary = meter.measure(&mut || send_all(&mut sender, &mut data));
    let mut known = messages[0];
    let prepare = meter.measure(&mut || {
        while sender.prepare(Expected::exactly(payload), black_box(&known[..template])) {
            foresee(&mut known);
        }
    });
    let mut data = *messages;
    let online = meter.measure(&mut || send_all(&mut sender, &mut data));
    assert_eq!(met, CacheHit::Full, "{} of {payload} octets, template {template}: as foreseen", what.name());
    Row { what, payload, template, ordinary, prepare, online }
}

fn gcm(meter: &mut dyn Meter, payload: usize) -> Row {
    let gcm = Gcm::new(Aes128::new(&KEY.into()));
    let aad = [7; 28];
    let nonce = |number: usize| [number as u8; 12];
    let mut data = messages(payload);
    let ordinary = meter.measure(&mut || {
        for (number, data) in data.iter_mut().enumerate() {
            black_box(gcm.seal(&nonce(number), &aad, black_box(&mut data[..payload])));
        }
    });
    let mut prepared = [const { None }; BATCH];
    let prepare = meter.measure(&mut || {
        for (number, slot) in prepared.iter_mut().enumerate() {
            *slot = Some(gcm.prepare::<1008>(&nonce(number), &aad, payload));
        }
    });
    let mut data = messages(payload);
    let online = meter.measure(&mut || {
        for (slot, data) in prepared.iter_mut().zip(&mut data) {
            if let Some(prepared) = slot.take() {
                black_box(prepared.seal(&aad, black_box(&mut data[..payload])));
            }
        }
    });
    Row { what: What::Gcm, payload, template: 0, ordinary, prepare, online }
}

fn by_crate(meter: &mut dyn Meter, payload: usize) -> Row {
    let ccm = ccm::Ccm::<Aes128, ccm::consts::U8, ccm::consts::U12>::new(&KEY.into());
    let mut data = messages(payload);
    let ordinary = meter.measure(&mut || {
        for (number, data) in data.iter_mut().enumerate() {
            let (nonce, mut aad) = (RECORDS.nonce(number as u64), [0; 32]);
            let octets = RECORDS.aad(number as u64, payload, &mut aad);
            let nonce = nonce.octets().try_into().expect("invariant: 12 octets");
            let sealed =
                ccm.encrypt_inout_detached(nonce, &aad[..octets], black_box(&mut data[..payload]).into());
            let _ = black_box(sealed);
        }
    });
    Row { what: What::OrdinaryCrate, payload, template: 0, ordinary, prepare: 0, online: 0 }
}
