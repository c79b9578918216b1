//! The cipher's work done before the data exists.
//!
//! On a small processor the AES of one message can take longer than the message may wait. But a keystream depends on
//! key and nonce alone, and the beginning of a CBC-MAC on octets that are often known beforehand: both are computed here
//! while there is nothing else to do, and when the data comes, little more than an exclusive-or is left. After Hiller et
//! al., "Secure Low Latency Communication for Constrained Industrial IoT Scenarios" (LCN 2018), sections IV-A and IV-B.
//!
//! ```
//! use aes::{Aes128, cipher::KeyInit};
//! use antedate::{Ccm, Expected, PrefixNumbering, Sender, TagLength};
//!
//! let ccm = Ccm::new(Aes128::new(&[7; 16].into()), TagLength::EIGHT);
//! // Records of up to 64 octets, templates of up to 32, two records ahead.
//! let mut sender = Sender::<_, _, 64, 32, 2>::new(&ccm, PrefixNumbering::new(*b"station-1"), 0);
//!
//! // While there is nothing else to do:
//! sender.prepare(Expected::exactly(24), b"temperature cell 4: ");
//!
//! // When the value is known:
//! let mut data = *b"temperature cell 4: 21.5";
//! let sent = sender.send(&mut data)?;
//! assert_eq!((sent.number, sent.hit), (0, antedate::CacheHit::Full));
//! # Ok::<(), antedate::SendError>(())
//! ```
//!
//! The result is that of the ordinary modes, bit by bit: the other end needs to know nothing. A guess that was wrong
//! costs time and nothing else: the message is sealed in the ordinary way, as far as need be. A nonce is used once,
//! because a [`ccm::Prepared`] is used up by the one message that it seals.
//!
//! | module | what |
//! |---|---|
//! | [`keystream`] | counter mode, antedated |
//! | [`cbc_mac`] | CBC-MAC that can be stopped and resumed |
//! | [`cbc`] | CBC with the beginning of the message encrypted ahead, for protocols that have it still |
//! | [`ccm`], [`gcm`] | the two of them as AEADs, ordinary and antedated |
//! | [`sender`], [`dtls`], [`gcm::sender`] | messages by number: what is prepared for which; the records of DTLS 1.2 |
//! | [`dtls::Reader`], [`window`] | records that come in, each once |
//! | [`length`], [`template`] | what the next message will look like |
//!
//! No allocation, no `unsafe`, no clock; AES comes from a crate.
#![no_std]

pub mod cbc;
pub mod cbc_mac;
pub mod ccm;
pub mod dtls;
pub mod gcm;
pub mod keystream;
pub mod length;
pub mod sender;
pub mod template;
pub mod window;

pub use cbc::Cbc;
pub use ccm::{CacheHit, Ccm, Expected, Nonce, NotAuthentic, Sealed, Tag, TagLength};
pub use gcm::Gcm;
pub use length::LengthPredictor;
pub use sender::{PrefixNumbering, SendError, Sender, Step};
