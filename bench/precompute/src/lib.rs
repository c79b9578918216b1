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
use antedate::{CacheHit, Ccm, Expected, Gcm, Sender, TagLength};
use arrayvec::ArrayVec;
use ccm::aead::AeadInOut as _;

/// Messages that are measured together.
pub const BATCH: usize = 8;
/// The longest payload.
pub const LONGEST: usize = 1000;
/// Payloads that are measured, in octets; those of the paper's text and figures are among them.
pub const PAYLOADS: [usize; 14] = [16, 32, 48, 64, 80, 96, 112, 128, 200, 304, 464, 608, 800, 1000];
/// Templates that are measured, in octets.
pub const TEMPLATES: [usize; 5] = [0, 16, 32, 48, 96];

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
}

impl What {
    /// All.
    pub const ALL: [Self; 6] =
        [Self::Encryption, Self::Mac, Self::Both, Self::Gcm, Self::Block, Self::OrdinaryCrate];

    /// As it stands in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Encryption => "encryption",
            Self::Mac => "mac",
            Self::Both => "both",
            Self::Gcm => "gcm",
            Self::Block => "block",
            Self::OrdinaryCrate => "crate-ccm",
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
    sized!(16 32 48 64 80 96 112 128 200 304 464 608 800 1000)
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
    let ccm = Ccm::new(Aes128::new(&KEY.into()), TagLength::EIGHT);
    let mut sender = Sender::<_, _, 1008, 96, BATCH>::new(&ccm, RECORDS, 0);
    let mut met = CacheHit::Full;
    let mut send_all = |sender: &mut Sender<'_, _, _, 1008, 96, BATCH>, data: &mut [[u8; LONGEST]; BATCH]| {
        for data in data {
            if let Ok(sent) = sender.send(black_box(&mut data[..payload])) {
                met = met.min(black_box(sent).hit);
            }
        }
    };
    let mut data = messages(payload);
    let ordinary = meter.measure(&mut || send_all(&mut sender, &mut data));
    let known = messages(payload);
    let prepare = meter.measure(&mut || {
        while sender.prepare(Expected::exactly(payload), black_box(&known[0][..template])) {}
    });
    let mut data = messages(payload);
    let online = meter.measure(&mut || send_all(&mut sender, &mut data));
    Row { what: What::Both, payload, template, ordinary, prepare, online }
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
