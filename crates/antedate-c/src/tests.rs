//! Mistakes that C can make, and every legal length.

#![allow(unsafe_code, clippy::undocumented_unsafe_blocks)]

use core::ffi::c_void;
use core::ptr;
use std::vec::Vec;

use aes::cipher::KeyInit as _;
use aes::{Aes128, Aes256};
use antedate::{Ccm, Gcm, Nonce, TagLength};

use crate::cbc::*;
use crate::ccm::*;
use crate::gcm::*;
use crate::memory::{enter, Head};
use crate::receiver::*;
use crate::results::antedate_met::*;
use crate::results::antedate_result::{self, *};
use crate::results::antedate_sent;
use crate::sizes::*;
use crate::templates::*;

const KEY: [u8; 32] = [7; 32];
const PREFIX: [u8; 10] = *b"station-10";
const UNSENT: antedate_sent = antedate_sent { octets: 0, number: 0, met: ANTEDATE_MET_NOTHING };

type Memory = [u64; ANTEDATE_LARGE_OCTETS / 8 + 1];
const EMPTY: Memory = [0; ANTEDATE_LARGE_OCTETS / 8 + 1];

fn config() -> antedate_ccm_config {
    antedate_ccm_config {
        key: KEY.as_ptr(),
        key_octets: 16,
        tag_octets: 8,
        prefix: PREFIX.as_ptr(),
        prefix_octets: 9,
        aad: ptr::null(),
        aad_octets: 0,
        first_number: 0,
    }
}

fn dtls_config() -> antedate_dtls_config {
    antedate_dtls_config {
        key: KEY.as_ptr(),
        key_octets: 16,
        tag_octets: 8,
        salt: [1; 4],
        epoch: 1,
        content_type: ANTEDATE_DTLS_APPLICATION_DATA,
        first_number: 0,
    }
}

fn gcm_config() -> antedate_gcm_config {
    antedate_gcm_config { key: KEY.as_ptr(), key_octets: 16, prefix: [1; 4], first_number: 0 }
}

fn ccm_init(memory: &mut Memory, config: &antedate_ccm_config) -> Result<*mut antedate_ccm, antedate_result> {
    let mut sender = ptr::dangling_mut();
    let result =
        unsafe { antedate_ccm_init(memory.as_mut_ptr().cast(), size_of::<Memory>(), config, &mut sender) };
    assert_eq!(sender.is_null(), result != ANTEDATE_OK);
    Ok(sender).filter_ok(result)
}

fn dtls_init(
    memory: &mut Memory,
    config: &antedate_dtls_config,
) -> Result<*mut antedate_ccm, antedate_result> {
    let mut sender = ptr::dangling_mut();
    let result =
        unsafe { antedate_dtls_init(memory.as_mut_ptr().cast(), size_of::<Memory>(), config, &mut sender) };
    Ok(sender).filter_ok(result)
}

fn gcm_init(memory: &mut Memory, config: &antedate_gcm_config) -> Result<*mut antedate_gcm, antedate_result> {
    let mut sender = ptr::dangling_mut();
    let result =
        unsafe { antedate_gcm_init(memory.as_mut_ptr().cast(), size_of::<Memory>(), config, &mut sender) };
    Ok(sender).filter_ok(result)
}

trait FilterOk {
    fn filter_ok(self, result: antedate_result) -> Self;
}

impl<T> FilterOk for Result<T, antedate_result> {
    fn filter_ok(self, result: antedate_result) -> Self {
        if result == ANTEDATE_OK {
            self
        } else {
            Err(result)
        }
    }
}

fn send(
    sender: *mut antedate_ccm,
    buffer: &mut [u8],
    length: usize,
) -> Result<antedate_sent, antedate_result> {
    let mut sent = UNSENT;
    let result =
        unsafe { antedate_ccm_send(sender, buffer.as_mut_ptr().cast(), buffer.len(), length, &mut sent) };
    Ok(sent).filter_ok(result)
}

/// The ordinary mode's result for a message.
fn ordinary(key: &[u8], tag: usize, nonce: &[u8], aad: &[u8], data: &[u8]) -> Vec<u8> {
    let (tag, nonce) = (TagLength::new(tag).unwrap(), Nonce::new(nonce).unwrap());
    let mut sealed = data.to_vec();
    let tag = match key.len() {
        16 => Ccm::new(Aes128::new_from_slice(key).unwrap(), tag).seal(&nonce, aad, &mut sealed),
        _ => Ccm::new(Aes256::new_from_slice(key).unwrap(), tag).seal(&nonce, aad, &mut sealed),
    };
    sealed.extend_from_slice(tag.octets());
    sealed
}

#[test]
fn each_length_of_key_tag_prefix_and_aad_is_sealed_as_the_ordinary_mode_does() {
    let data: [u8; 100] = core::array::from_fn(|at| at as u8);
    for key_octets in [16, 32] {
        for tag_octets in [4, 6, 8, 10, 12, 14, 16] {
            for prefix_octets in 3..=9 {
                for aad_octets in [0, 1, 13, 32] {
                    let mut memory = EMPTY;
                    let aad = data.as_ptr().cast();
                    let config = antedate_ccm_config {
                        key_octets,
                        tag_octets,
                        prefix_octets,
                        aad,
                        aad_octets,
                        first_number: 0x01020304,
                        ..config()
                    };
                    let sender = ccm_init(&mut memory, &config).unwrap();
                    for (row, (length, met)) in
                        [(100, ANTEDATE_MET_ALL), (99, ANTEDATE_MET_KEYSTREAM), (0, ANTEDATE_MET_NOTHING)]
                            .into_iter()
                            .enumerate()
                    {
                        if met != ANTEDATE_MET_NOTHING {
                            let prepared =
                                unsafe { antedate_ccm_prepare(sender, 100, data.as_ptr().cast(), 50) };
                            assert_eq!(prepared, ANTEDATE_OK);
                        }
                        let mut buffer = [0; 116];
                        buffer[..100].copy_from_slice(&data);
                        let sent = send(sender, &mut buffer, length).unwrap();
                        assert_eq!((sent.number, sent.met), (0x01020304 + row as u64, met));
                        let mut nonce = PREFIX[..prefix_octets].to_vec();
                        nonce.extend_from_slice(&(sent.number as u32).to_be_bytes());
                        let expected = ordinary(
                            &KEY[..key_octets],
                            tag_octets,
                            &nonce,
                            &data[..aad_octets],
                            &data[..length],
                        );
                        assert_eq!(buffer[..sent.octets], expected, "{tag_octets} {prefix_octets}");
                    }
                }
            }
        }
    }
}

#[test]
fn what_there_is_not_is_refused() {
    let memory = &mut EMPTY.clone();
    for key_octets in [0, 15, 17, 24, 31, usize::MAX] {
        let refused = Err(ANTEDATE_ERROR_LENGTH);
        assert_eq!(ccm_init(memory, &antedate_ccm_config { key_octets, ..config() }), refused);
        assert_eq!(dtls_init(memory, &antedate_dtls_config { key_octets, ..dtls_config() }), refused);
        let wrong = antedate_gcm_config { key_octets, ..gcm_config() };
        assert_eq!(gcm_init(memory, &wrong), Err(ANTEDATE_ERROR_LENGTH));
    }
    for tag_octets in [0, 2, 5, 17, usize::MAX] {
        let refused = Err(ANTEDATE_ERROR_LENGTH);
        assert_eq!(ccm_init(memory, &antedate_ccm_config { tag_octets, ..config() }), refused);
        assert_eq!(dtls_init(memory, &antedate_dtls_config { tag_octets, ..dtls_config() }), refused);
    }
    let lengths = [
        antedate_ccm_config { prefix_octets: 2, ..config() },
        antedate_ccm_config { prefix_octets: 10, ..config() },
        antedate_ccm_config { aad: KEY.as_ptr().cast(), aad_octets: 33, ..config() },
        antedate_ccm_config { aad: KEY.as_ptr().cast(), aad_octets: usize::MAX, ..config() },
    ];
    for wrong in lengths {
        assert_eq!(ccm_init(memory, &wrong), Err(ANTEDATE_ERROR_LENGTH));
    }
    for wrong in [
        antedate_ccm_config { key: ptr::null(), ..config() },
        antedate_ccm_config { prefix: ptr::null(), ..config() },
        antedate_ccm_config { aad_octets: 1, ..config() },
    ] {
        assert_eq!(ccm_init(memory, &wrong), Err(ANTEDATE_ERROR_NULL));
    }
    // CCM of DTLS has tags of 16 and 8 octets, and sequence numbers of 48 bits.
    let wrong = antedate_dtls_config { tag_octets: 12, ..dtls_config() };
    assert_eq!(dtls_init(memory, &wrong), Err(ANTEDATE_ERROR_LENGTH));
    let wrong = antedate_dtls_config { first_number: 1 << 48, ..dtls_config() };
    assert_eq!(dtls_init(memory, &wrong), Err(ANTEDATE_ERROR_LENGTH));
}

#[test]
fn memory_decides_what_is_prepared() {
    let mut memory = EMPTY;
    let begin: *mut c_void = memory.as_mut_ptr().cast();
    let mut sender = ptr::null_mut();
    let mut slots =
        |memory, octets| match unsafe { antedate_ccm_init(memory, octets, &config(), &mut sender) } {
            ANTEDATE_OK => {
                let mut prepared = 0;
                while unsafe { antedate_ccm_prepare(sender, 16, ptr::null(), 0) } == ANTEDATE_OK {
                    prepared += 1;
                    assert_eq!(unsafe { antedate_ccm_fill_level(sender) }, prepared);
                }
                Ok(prepared)
            }
            refused => Err(refused),
        };
    assert_eq!(slots(begin, ANTEDATE_SMALL_OCTETS - 1), Err(ANTEDATE_ERROR_MEMORY));
    assert_eq!(slots(begin, ANTEDATE_SMALL_OCTETS), Ok(2));
    assert_eq!(slots(begin, ANTEDATE_MEDIUM_OCTETS - 1), Ok(2));
    assert_eq!(slots(begin, ANTEDATE_MEDIUM_OCTETS), Ok(4));
    assert_eq!(slots(begin, usize::MAX), Err(ANTEDATE_ERROR_LENGTH));
    assert_eq!(slots(ptr::null_mut(), ANTEDATE_SMALL_OCTETS), Err(ANTEDATE_ERROR_NULL));
    for moved in 1..8 {
        let aside = begin.cast::<u8>().wrapping_add(moved).cast();
        assert_eq!(slots(aside, ANTEDATE_SMALL_OCTETS), Err(ANTEDATE_ERROR_MEMORY));
    }
    // Aligned to ANTEDATE_ALIGNMENT and to no more, and it ends where it is said to end.
    for words in [0, 1] {
        memory = EMPTY;
        let [.., last] = &mut memory;
        *last = 0x5a5a_5a5a_5a5a_5a5a;
        let begin = memory.as_mut_ptr().wrapping_add(words);
        let octets = size_of::<Memory>() - 8 * words - 8;
        let mut sender = ptr::null_mut();
        let result = unsafe { antedate_gcm_init(begin.cast(), octets, &gcm_config(), &mut sender) };
        assert_eq!(result, ANTEDATE_OK);
        for _ in 0..4 {
            assert_eq!(unsafe { antedate_gcm_prepare(sender, 2000, ptr::null(), 0) }, ANTEDATE_OK);
        }
        assert_eq!(unsafe { antedate_gcm_prepare(sender, 2000, ptr::null(), 0) }, ANTEDATE_FULL);
        assert_eq!(memory.last(), Some(&0x5a5a_5a5a_5a5a_5a5a));
        // Wiped memory holds nothing.
        assert_eq!(unsafe { antedate_gcm_wipe(sender) }, ANTEDATE_OK);
        assert!(memory[..memory.len() - 1].iter().all(|word| *word == 0));
        assert_eq!(unsafe { antedate_gcm_wipe(sender) }, ANTEDATE_ERROR_NO_SENDER);
    }
}

#[test]
fn what_is_no_sender_is_told_from_one() {
    let memory = &mut EMPTY.clone();
    let refused = Err(ANTEDATE_ERROR_NO_SENDER);
    assert_eq!(send(memory.as_mut_ptr().cast(), &mut [0; 32], 1), refused, "zeros");
    assert_eq!(send(memory.as_mut_ptr().wrapping_byte_add(1).cast(), &mut [0; 32], 1), refused);
    assert_eq!(send(ptr::null_mut(), &mut [0; 32], 1), Err(ANTEDATE_ERROR_NULL));
    let gcm = gcm_init(memory, &gcm_config()).unwrap();
    assert_eq!(send(gcm.cast(), &mut [0; 32], 1), refused, "one for GCM");

    let sender = ccm_init(memory, &config()).unwrap();
    assert_eq!(send(sender, &mut [0; 32], 1).unwrap().number, 0);
    let at = sender as usize - memory.as_ptr() as usize;
    let mut copy = *memory;
    let copied = copy.as_mut_ptr().wrapping_byte_add(at).cast();
    assert_eq!(send(copied, &mut [0; 32], 1), refused, "a copy");
    assert_eq!(send(sender, &mut [0; 32], 1).unwrap().number, 1);

    // A call that interrupts another.
    let head: *mut Head<dyn crate::ccm::Messages> = sender.cast();
    let entered = unsafe { enter(head) };
    assert_eq!(send(sender, &mut [0; 32], 1), Err(ANTEDATE_ERROR_BUSY));
    assert_eq!(unsafe { antedate_ccm_wipe(sender) }, ANTEDATE_ERROR_BUSY);
    drop(entered);
    assert_eq!(send(sender, &mut [0; 32], 1).unwrap().number, 2);
}

#[test]
fn what_is_refused_uses_no_number_and_encrypts_nothing() {
    let memory = &mut EMPTY.clone();
    let sender = ccm_init(memory, &config()).unwrap();
    let mut buffer = [9; 32];
    assert_eq!(send(sender, &mut buffer, 25), Err(ANTEDATE_ERROR_ROOM));
    assert_eq!(send(sender, &mut buffer, usize::MAX), Err(ANTEDATE_ERROR_ROOM));
    let begin: *mut c_void = buffer.as_mut_ptr().cast();
    let raw = |buffer, room, sent| unsafe { antedate_ccm_send(sender, buffer, room, 24, sent) };
    assert_eq!(raw(ptr::null_mut(), 32, ptr::null_mut()), ANTEDATE_ERROR_NULL);
    assert_eq!(raw(begin, usize::MAX, ptr::null_mut()), ANTEDATE_ERROR_LENGTH);
    assert_eq!(raw(sender.cast(), 32, ptr::null_mut()), ANTEDATE_ERROR_OVERLAP);
    assert_eq!(raw(begin, 32, begin.cast()), ANTEDATE_ERROR_OVERLAP);
    assert_eq!(raw(begin, 32, sender.cast()), ANTEDATE_ERROR_OVERLAP);
    let prepared = unsafe { antedate_ccm_prepare(sender, 24, sender.cast(), 20) };
    assert_eq!(prepared, ANTEDATE_ERROR_OVERLAP);
    let prepared = unsafe { antedate_ccm_prepare(sender, 24, ptr::null(), 20) };
    assert_eq!(prepared, ANTEDATE_ERROR_NULL);
    let prepared = unsafe { antedate_ccm_prepare_as_before(sender, ptr::null(), 0) };
    assert_eq!(prepared, ANTEDATE_FULL, "no message yet");
    assert_eq!(unsafe { antedate_ccm_next_unprepared(sender, ptr::null_mut()) }, ANTEDATE_ERROR_NULL);
    assert_eq!(buffer, [9; 32]);
    assert_eq!(send(sender, &mut buffer, 24).unwrap(), antedate_sent { octets: 32, ..UNSENT });

    let sender = dtls_init(memory, &dtls_config()).unwrap();
    assert_eq!(send(sender, &mut [0; 21 + 8 + 9], 10), Err(ANTEDATE_ERROR_ROOM));
    assert_eq!(send(sender, &mut [0; 17_000], (1 << 14) + 1), Err(ANTEDATE_ERROR_LENGTH));
    assert_eq!(send(sender, &mut [0; 21 + 8 + 10], 10).unwrap(), antedate_sent { octets: 39, ..UNSENT });

    let sender = gcm_init(memory, &gcm_config()).unwrap();
    let mut buffer = [9; 32];
    let begin: *mut u8 = buffer.as_mut_ptr();
    let raw = |aad: *const u8, aad_octets, length, sent| unsafe {
        antedate_gcm_send(sender, aad.cast(), aad_octets, begin.cast(), 32, length, sent)
    };
    assert_eq!(raw(ptr::null(), 1, 16, ptr::null_mut()), ANTEDATE_ERROR_NULL);
    assert_eq!(raw(begin.wrapping_add(31), 1, 16, ptr::null_mut()), ANTEDATE_ERROR_OVERLAP);
    assert_eq!(raw(sender.cast(), 1, 16, ptr::null_mut()), ANTEDATE_ERROR_OVERLAP);
    assert_eq!(raw(ptr::null(), 0, 17, ptr::null_mut()), ANTEDATE_ERROR_ROOM);
    assert_eq!(buffer, [9; 32]);
    let mut sent = UNSENT;
    assert_eq!(raw(KEY.as_ptr(), 20, 16, &mut sent), ANTEDATE_OK);
    assert_eq!(sent, antedate_sent { octets: 32, ..UNSENT });
    let mut plain = [9; 16];
    let tag = Gcm::new(Aes128::new(&[7; 16].into())).seal(
        &[1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0],
        &KEY[..20],
        &mut plain,
    );
    assert_eq!((&buffer[..16], &buffer[16..]), (&plain[..], &tag[..]));
}

#[test]
fn numbers_end() {
    let memory = &mut EMPTY.clone();
    let sender = ccm_init(memory, &antedate_ccm_config { first_number: u32::MAX, ..config() }).unwrap();
    let mut next = 0;
    assert_eq!(unsafe { antedate_ccm_next_unprepared(sender, &mut next) }, ANTEDATE_OK);
    assert_eq!(next, u64::from(u32::MAX));
    assert_eq!(unsafe { antedate_ccm_prepare(sender, 1, ptr::null(), 0) }, ANTEDATE_OK);
    assert_eq!(unsafe { antedate_ccm_prepare(sender, 1, ptr::null(), 0) }, ANTEDATE_FULL);
    assert_eq!(unsafe { antedate_ccm_next_unprepared(sender, &mut next) }, ANTEDATE_FULL);
    assert_eq!(send(sender, &mut [0; 32], 1).unwrap().met, ANTEDATE_MET_ALL);
    assert_eq!(send(sender, &mut [0; 32], 1), Err(ANTEDATE_ERROR_EXHAUSTED));

    let last = (1 << 48) - 1;
    let sender = dtls_init(memory, &antedate_dtls_config { first_number: last, ..dtls_config() }).unwrap();
    assert_eq!(send(sender, &mut [0; 64], 1).unwrap().number, last);
    assert_eq!(send(sender, &mut [0; 64], 1), Err(ANTEDATE_ERROR_EXHAUSTED));

    let sender = gcm_init(memory, &antedate_gcm_config { first_number: u64::MAX, ..gcm_config() }).unwrap();
    let send = || unsafe {
        antedate_gcm_send(sender, ptr::null(), 0, [0_u8; 32].as_mut_ptr().cast(), 32, 1, ptr::null_mut())
    };
    assert_eq!((send(), send()), (ANTEDATE_OK, ANTEDATE_ERROR_EXHAUSTED));
}

#[test]
fn templates_are_foreseen_learned_and_sorted_or_refused() {
    let begin = |octets: &[u8]| octets.as_ptr().cast::<c_void>();
    let apdu = *b"\0\x01\0\x15\0\0\0\0\x61\x0b\x80\x01g\x84\x02tt\x86\x02\0\xff";
    let (mut foreseen, mut next) = (77, [9; 32]);
    assert_eq!(unsafe { antedate_goose_change(begin(&apdu), apdu.len(), &mut foreseen) }, ANTEDATE_OK);
    assert_eq!(foreseen, 15);
    let mut repetition = |octets, room| unsafe {
        antedate_goose_repetition(begin(&apdu), octets, next.as_mut_ptr().cast(), room)
    };
    assert_eq!(repetition(21, 20), ANTEDATE_ERROR_ROOM);
    assert_eq!(repetition(20, 20), ANTEDATE_ERROR_MESSAGE);
    assert_eq!(repetition(21, 32), ANTEDATE_OK);
    assert_eq!(next[..21], [&apdu[..19], &[1, 0]].concat());
    assert_eq!(next[21..], [9; 11], "what lies behind the message");
    // A number that needs an octet more is no repetition.
    let widest = *b"\0\x01\0\x0d\0\0\0\0\x61\x03\x86\x01\x7f";
    let to: *mut c_void = next.as_mut_ptr().cast();
    let refused = unsafe { antedate_goose_repetition(begin(&widest), widest.len(), to, 32) };
    assert_eq!(refused, ANTEDATE_ERROR_MESSAGE);
    assert_eq!(unsafe { antedate_goose_repetition(to, 21, to, 32) }, ANTEDATE_ERROR_OVERLAP);
    assert_eq!(unsafe { antedate_goose_change(begin(&apdu), 3, &mut foreseen) }, ANTEDATE_ERROR_MESSAGE);
    assert_eq!(unsafe { antedate_goose_change(begin(&apdu), 21, ptr::null_mut()) }, ANTEDATE_ERROR_NULL);
    assert_eq!(unsafe { antedate_goose_change(ptr::null(), 21, &mut foreseen) }, ANTEDATE_ERROR_NULL);

    let json = *b"{\"ts\":\"2026\"}";
    assert_eq!(unsafe { antedate_ppmp(begin(&json), json.len(), &mut foreseen) }, ANTEDATE_OK);
    assert_eq!(foreseen, 7);
    assert_eq!(unsafe { antedate_ppmp(begin(&json), 3, &mut foreseen) }, ANTEDATE_ERROR_MESSAGE);

    let mut learned = antedate_learned { octets: [0; ANTEDATE_TEMPLATE_OCTETS], length: 0, messages: 0 };
    let mut learn = |message: &[u8]| {
        assert_eq!(unsafe { antedate_learn(&mut learned, begin(message), message.len()) }, ANTEDATE_OK);
        learned.octets[..learned.length].to_vec()
    };
    assert_eq!(learn(&[7; 200]), [7; 96], "as far as there is room");
    assert_eq!(learn(&[7; 60]), [7; 60]);
    assert_eq!(learn(b"\x07\x07\x08"), [7; 2]);
    assert_eq!(learn(b""), []);
    assert_eq!(learn(&[7; 60]), []);
    // A structure that was never set to zeros.
    learned.length = 97;
    assert_eq!(unsafe { antedate_learn(&mut learned, begin(&json), 3) }, ANTEDATE_ERROR_LENGTH);
    assert_eq!(unsafe { antedate_learn(ptr::null_mut(), begin(&json), 3) }, ANTEDATE_ERROR_NULL);
    let own: *mut antedate_learned = &mut learned;
    assert_eq!(unsafe { antedate_learn(own, own.cast(), 3) }, ANTEDATE_ERROR_OVERLAP);

    let fields = *b"\x01\x02ab\x02\x00\x03\x81\x01c";
    let (mut sorted, mut restored, mut heads) = ([9; 12], [9; 12], 0);
    let to = sorted.as_mut_ptr().cast();
    let sort = |octets, to, room, heads| unsafe { antedate_sort(begin(&fields), octets, to, room, heads) };
    assert_eq!(sort(10, to, 9, &mut heads), ANTEDATE_ERROR_ROOM);
    assert_eq!(sort(9, to, 12, &mut heads), ANTEDATE_ERROR_MESSAGE);
    assert_eq!(sort(10, to, 12, ptr::null_mut()), ANTEDATE_ERROR_NULL);
    assert_eq!(sort(10, to, 12, to.cast()), ANTEDATE_ERROR_OVERLAP);
    assert_eq!(sort(10, to, 12, &mut heads), ANTEDATE_OK);
    assert_eq!((heads, &sorted), (7, b"\x01\x02\x02\x00\x03\x81\x01abc\x09\x09"));
    let to = restored.as_mut_ptr().cast();
    assert_eq!(unsafe { antedate_restore(begin(&sorted), 10, to, 12) }, ANTEDATE_OK);
    assert_eq!(restored[..10], fields);
    assert_eq!(unsafe { antedate_restore(begin(&sorted), 3, to, 12) }, ANTEDATE_ERROR_MESSAGE);
    assert_eq!(unsafe { antedate_restore(begin(&sorted), 10, to, 9) }, ANTEDATE_ERROR_ROOM);
}

#[test]
fn cbc_is_prepared_for_one_iv_and_undone_or_refused() {
    let memory = &mut EMPTY.clone();
    let mut cbc = ptr::null_mut();
    let mut init = |octets, key_octets| {
        let begun = unsafe {
            antedate_cbc_init(memory.as_mut_ptr().cast(), octets, KEY.as_ptr(), key_octets, &mut cbc)
        };
        assert_eq!(cbc.is_null(), begun != ANTEDATE_OK);
        begun
    };
    assert_eq!(init(64, 16), ANTEDATE_ERROR_MEMORY);
    assert_eq!(init(ANTEDATE_CBC_OCTETS, 24), ANTEDATE_ERROR_LENGTH);
    assert_eq!(init(ANTEDATE_CBC_OCTETS, 16), ANTEDATE_OK);
    let begin = |octets: &[u8]| octets.as_ptr().cast();
    let ordinary = |iv: &[u8; 16], data: &[u8]| {
        let mut data = data.to_vec();
        antedate::Cbc::new(Aes128::new_from_slice(&KEY[..16]).unwrap()).encrypt(iv, &mut data).unwrap();
        data
    };
    let encrypt = |iv: &[u8; 16], data: &mut [u8]| {
        let mut ready = 99;
        let at = data.as_mut_ptr().cast();
        let result = unsafe { antedate_cbc_encrypt(cbc, iv.as_ptr(), at, data.len(), &mut ready) };
        (result, ready)
    };
    let (iv, other, message) = ([1; 16], [2; 16], [3; 128]);
    let prepare =
        |octets: &[u8]| unsafe { antedate_cbc_prepare(cbc, iv.as_ptr(), begin(octets), octets.len()) };
    assert_eq!(prepare(&message), ANTEDATE_OK);
    // Refusals, and a message under another IV, leave the preparation as it is.
    assert_eq!(encrypt(&iv, &mut [3; 17]), (ANTEDATE_ERROR_LENGTH, 99));
    for (iv, ready) in [(other, 0), (iv, ANTEDATE_TEMPLATE_OCTETS), (iv, 0)] {
        let mut data = message;
        assert_eq!(encrypt(&iv, &mut data), (ANTEDATE_OK, ready));
        assert_eq!(data[..], ordinary(&iv, &message));
        let at = data.as_mut_ptr().cast();
        assert_eq!(unsafe { antedate_cbc_decrypt(cbc, iv.as_ptr(), at, 127) }, ANTEDATE_ERROR_LENGTH);
        assert_eq!(unsafe { antedate_cbc_decrypt(cbc, iv.as_ptr(), at, 128) }, ANTEDATE_OK);
        assert_eq!(data, message);
    }
    let place: *mut c_void = cbc.cast();
    unsafe {
        assert_eq!(antedate_cbc_prepare(cbc, ptr::null(), begin(&message), 16), ANTEDATE_ERROR_NULL);
        assert_eq!(antedate_cbc_prepare(cbc, iv.as_ptr(), ptr::null(), 16), ANTEDATE_ERROR_NULL);
        assert_eq!(antedate_cbc_prepare(cbc, iv.as_ptr(), place, 16), ANTEDATE_ERROR_OVERLAP);
        assert_eq!(
            antedate_cbc_encrypt(cbc, iv.as_ptr(), place, 16, ptr::null_mut()),
            ANTEDATE_ERROR_OVERLAP
        );
        assert_eq!(antedate_cbc_decrypt(cbc, iv.as_ptr(), place, 16), ANTEDATE_ERROR_OVERLAP);
        assert_eq!(antedate_cbc_wipe(cbc), ANTEDATE_OK);
        assert_eq!(antedate_cbc_prepare(cbc, iv.as_ptr(), ptr::null(), 0), ANTEDATE_ERROR_NO_SENDER);
    }
}

#[test]
fn a_message_is_prepared_in_steps() {
    let memory = &mut EMPTY.clone();
    let sender = ccm_init(memory, &config()).unwrap();
    let step = |blocks| unsafe { antedate_ccm_step(sender, 40, KEY.as_ptr().cast(), 32, blocks) };
    // Three blocks of keystream and two of the template.
    for (blocks, wanted) in
        [(1, ANTEDATE_MORE), (3, ANTEDATE_MORE), (0, ANTEDATE_MORE), (1, ANTEDATE_OK), (1, ANTEDATE_MORE)]
    {
        assert_eq!(step(blocks), wanted);
    }
    assert_eq!(unsafe { antedate_ccm_fill_level(sender) }, 1);
    for (number, met) in
        [ANTEDATE_MET_ALL, ANTEDATE_MET_KEYSTREAM, ANTEDATE_MET_NOTHING].into_iter().enumerate()
    {
        let mut buffer = [7; 48];
        let sent = send(sender, &mut buffer, 40).unwrap();
        assert_eq!((sent.number, sent.met), (number as u64, met));
        let nonce = [&PREFIX[..9], &(number as u32).to_be_bytes()].concat();
        assert_eq!(buffer[..], ordinary(&KEY[..16], 8, &nonce, &[], &[7; 40]));
    }
    for _ in 0..4 {
        assert_eq!(step(usize::MAX), ANTEDATE_OK);
    }
    assert_eq!(step(usize::MAX), ANTEDATE_FULL);
    assert_eq!(unsafe { antedate_ccm_step(sender, 40, ptr::null(), 32, 1) }, ANTEDATE_ERROR_NULL);
}

#[test]
fn what_was_sealed_is_opened_once_by_its_receiver_alone() {
    const UNOPENED: antedate_opened = antedate_opened { octets: 0, number: 0, content_type: 0 };
    let (memory, own) = (&mut EMPTY.clone(), &mut EMPTY.clone());
    let place: *mut c_void = own.as_mut_ptr().cast();
    let mut receiver = ptr::null_mut();
    let opened_as = |octets, number, content_type| Ok(antedate_opened { octets, number, content_type });

    let sender = ccm_init(memory, &antedate_ccm_config { first_number: 7, ..config() }).unwrap();
    for (octets, wanted) in
        [(ANTEDATE_RECEIVER_OCTETS / 2, ANTEDATE_ERROR_MEMORY), (ANTEDATE_RECEIVER_OCTETS, ANTEDATE_OK)]
    {
        let begun = unsafe { antedate_ccm_receiver_init(place, octets, &config(), &mut receiver) };
        assert_eq!((begun, receiver.is_null()), (wanted, wanted != ANTEDATE_OK));
    }
    let open = |receiver, number, message: &mut [u8]| {
        let mut opened = UNOPENED;
        let begin = message.as_mut_ptr().cast();
        let result = unsafe { antedate_ccm_open(receiver, number, begin, message.len(), &mut opened) };
        Ok(opened).filter_ok(result)
    };
    let mut message = [3; 28];
    send(sender, &mut message, 20).unwrap();
    // As it was before a restart, behind number 7.
    let behind = antedate_ccm_config { first_number: 8, ..config() };
    let mut elsewhere = EMPTY;
    let mut later = ptr::null_mut();
    let begun = unsafe {
        antedate_ccm_receiver_init(elsewhere.as_mut_ptr().cast(), size_of::<Memory>(), &behind, &mut later)
    };
    assert_eq!(begun, ANTEDATE_OK);
    assert_eq!(open(later, 7, &mut message.clone()), Err(ANTEDATE_ERROR_REPLAYED));
    for number in [6, 8, 7 | 1 << 32] {
        let wanted = if number < 9 { ANTEDATE_ERROR_NOT_AUTHENTIC } else { ANTEDATE_ERROR_MESSAGE };
        assert_eq!(open(receiver, number, &mut message.clone()), Err(wanted), "another number");
    }
    assert_eq!(open(receiver, 7, &mut message[..7].to_vec()), Err(ANTEDATE_ERROR_MESSAGE));
    let mut opened = message;
    assert_eq!(open(receiver, 7, &mut opened), opened_as(20, 7, 0));
    assert_eq!(opened[..20], [3; 20]);
    assert_eq!(open(receiver, 7, &mut message.clone()), Err(ANTEDATE_ERROR_REPLAYED));
    assert_eq!(open(sender.cast(), 7, &mut message.clone()), Err(ANTEDATE_ERROR_NO_SENDER), "a sender");
    assert_eq!(open(ptr::null_mut(), 7, &mut message.clone()), Err(ANTEDATE_ERROR_NULL));
    let raw = unsafe { antedate_ccm_open(receiver, 9, receiver.cast(), 28, ptr::null_mut()) };
    assert_eq!(raw, ANTEDATE_ERROR_OVERLAP);
    let raw = unsafe { antedate_dtls_open(receiver, message.as_mut_ptr().cast(), 28, ptr::null_mut()) };
    assert_eq!(raw, ANTEDATE_ERROR_NO_SENDER, "one for CCM");

    let sender = dtls_init(memory, &dtls_config()).unwrap();
    let octets = size_of::<Memory>();
    let wrong = antedate_dtls_config { tag_octets: 12, ..dtls_config() };
    let refused = unsafe { antedate_dtls_receiver_init(place, octets, &wrong, &mut receiver) };
    assert_eq!(refused, ANTEDATE_ERROR_LENGTH);
    let begun = unsafe { antedate_dtls_receiver_init(place, octets, &dtls_config(), &mut receiver) };
    assert_eq!(begun, ANTEDATE_OK);
    let open = |record: &mut [u8]| {
        let mut opened = UNOPENED;
        let begin = record.as_mut_ptr().cast();
        let result = unsafe { antedate_dtls_open(receiver, begin, record.len(), &mut opened) };
        Ok(opened).filter_ok(result)
    };
    let mut record = [5; 21 + 10 + 8];
    send(sender, &mut record, 10).unwrap();
    for (at, wanted) in
        [(1, ANTEDATE_ERROR_MESSAGE), (4, ANTEDATE_ERROR_EPOCH), (30, ANTEDATE_ERROR_NOT_AUTHENTIC)]
    {
        let mut changed = record;
        changed[at] ^= 1;
        assert_eq!(open(&mut changed), Err(wanted));
    }
    let mut opened = record;
    assert_eq!(open(&mut opened), opened_as(10, 0, 23));
    assert_eq!(opened[21..31], [5; 10]);
    assert_eq!(open(&mut record), Err(ANTEDATE_ERROR_REPLAYED));

    let sender = gcm_init(memory, &gcm_config()).unwrap();
    let begun = unsafe { antedate_gcm_receiver_init(place, octets, &gcm_config(), &mut receiver) };
    assert_eq!(begun, ANTEDATE_OK);
    let mut message = [6; 26];
    let (to, aad): (*mut c_void, *const c_void) = (message.as_mut_ptr().cast(), KEY.as_ptr().cast());
    let sealed = unsafe { antedate_gcm_send(sender, aad, 20, to, 26, 10, ptr::null_mut()) };
    assert_eq!(sealed, ANTEDATE_OK);
    let open = |aad_octets, message: &mut [u8]| {
        let mut opened = UNOPENED;
        let (begin, octets) = (message.as_mut_ptr().cast(), message.len());
        let result = unsafe { antedate_gcm_open(receiver, 0, aad, aad_octets, begin, octets, &mut opened) };
        Ok(opened).filter_ok(result)
    };
    assert_eq!(open(19, &mut message.clone()), Err(ANTEDATE_ERROR_NOT_AUTHENTIC));
    assert_eq!(open(20, &mut message[..15].to_vec()), Err(ANTEDATE_ERROR_MESSAGE));
    let mut opened = message;
    assert_eq!(open(20, &mut opened), opened_as(10, 0, 0));
    assert_eq!(opened[..10], [6; 10]);
    assert_eq!(open(20, &mut message), Err(ANTEDATE_ERROR_REPLAYED));

    assert_eq!(unsafe { antedate_receiver_wipe(receiver) }, ANTEDATE_OK);
    assert_eq!(unsafe { antedate_receiver_wipe(receiver) }, ANTEDATE_ERROR_NO_SENDER);
    assert!(own.iter().all(|word| *word == 0), "what is wiped holds no key");
}
