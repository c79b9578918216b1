/* Antedated AES-CCM and AES-GCM, and DTLS 1.2 records: most of the cipher's work is done before the data exists.
 *
 *   static uint64_t memory[ANTEDATE_SMALL_OCTETS / 8];
 *   antedate_ccm *sender;
 *   const antedate_ccm_config config = {
 *       .key = key, .key_octets = 16, .tag_octets = 8,
 *       .prefix = (const uint8_t *)"station-1", .prefix_octets = 9,
 *   };
 *   antedate_ccm_init(memory, sizeof memory, &config, &sender);
 *
 *   // While there is nothing else to do:
 *   while (antedate_ccm_prepare(sender, 24, "temperature cell 4: ", 20) == ANTEDATE_OK) {}
 *
 *   // When the value is known: 24 octets, room for the tag behind them.
 *   if (antedate_ccm_send(sender, buffer, sizeof buffer, 24, &sent) == ANTEDATE_OK)
 *       transmit(buffer, sent.octets);
 *
 * The other end needs to know nothing of it: what is sent is what ordinary AES-CCM, AES-GCM or DTLS sends. A guess that was
 * wrong costs time and nothing else. Numbers are nonces: a sender takes one after the other and none twice.
 *
 * Nothing is allocated. A sender belongs to one thread or interrupt at a
 * time: a call that interrupts another on the same sender is refused with ANTEDATE_ERROR_BUSY. A sender must not be
 * copied or moved; if it was, calls are refused with ANTEDATE_ERROR_NO_SENDER. Pointers are checked for NULL and for
 * overlaps; that what they point at is there is the caller's word, and memory that was never initialised, not even with
 * zeros, is no sender to ask for anything.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */

#ifndef FRAMEWARD_ANTEDATE_H
#define FRAMEWARD_ANTEDATE_H

/* Made of crates/antedate-c by scripts/header.sh; do not edit. */

#include <stddef.h>
#include <stdint.h>
#if UINTPTR_MAX == 0xffffffff
#define ANTEDATE_32_BIT
#endif


// Octets of an IV of CBC, and of a block.
#define ANTEDATE_CBC_IV_OCTETS 16

#if defined(ANTEDATE_32_BIT)
// Octets of memory for CBC.
#define ANTEDATE_CBC_OCTETS 1152
#endif

#if !defined(ANTEDATE_32_BIT)
// Octets of memory for CBC.
#define ANTEDATE_CBC_OCTETS 1536
#endif

// The longest AAD of a message, in octets.
#define ANTEDATE_CCM_AAD_OCTETS 32

// Octets in front of the data of a DTLS record: its header, and the explicit nonce.
#define ANTEDATE_DTLS_HEADER_OCTETS 21

// The type of DTLS records that hold what an application sends.
#define ANTEDATE_DTLS_APPLICATION_DATA 23

// Octets of a GCM tag.
#define ANTEDATE_GCM_TAG_OCTETS 16

// Octets of a GCM nonce in front of the number.
#define ANTEDATE_GCM_PREFIX_OCTETS 4

#if defined(ANTEDATE_32_BIT)
// Octets of a receiver.
#define ANTEDATE_RECEIVER_OCTETS 896
#endif

#if !defined(ANTEDATE_32_BIT)
// Octets of a receiver.
#define ANTEDATE_RECEIVER_OCTETS 1280
#endif

// Alignment of a sender's memory, which an array of uint64_t has.
#define ANTEDATE_ALIGNMENT 8

#if defined(ANTEDATE_32_BIT)
// Octets of a sender that prepares for 2 messages, up to 64 octets of each, with templates of up to 32.
#define ANTEDATE_SMALL_OCTETS 896
#endif

#if !defined(ANTEDATE_32_BIT)
// Octets of a sender that prepares for 2 messages, up to 64 octets of each, with templates of up to 32.
#define ANTEDATE_SMALL_OCTETS 2048
#endif

#if defined(ANTEDATE_32_BIT)
// Octets of a sender that prepares for 4 messages, up to 256 octets of each, with templates of up to 96.
#define ANTEDATE_MEDIUM_OCTETS 2432
#endif

#if !defined(ANTEDATE_32_BIT)
// Octets of a sender that prepares for 4 messages, up to 256 octets of each, with templates of up to 96.
#define ANTEDATE_MEDIUM_OCTETS 3584
#endif

#if defined(ANTEDATE_32_BIT)
// Octets of a sender that prepares for 4 messages, up to 1024 octets of each, with templates of up to 96.
#define ANTEDATE_LARGE_OCTETS 5504
#endif

#if !defined(ANTEDATE_32_BIT)
// Octets of a sender that prepares for 4 messages, up to 1024 octets of each, with templates of up to 96.
#define ANTEDATE_LARGE_OCTETS 6656
#endif

// The longest template that a sender uses, in octets. Longer ones may be given: it takes their beginning.
#define ANTEDATE_TEMPLATE_OCTETS 96

// Usable share of the preparation.
enum antedate_met
#ifdef __cplusplus
  : int32_t
#endif // __cplusplus
 {
    // Nothing was prepared: the message took the ordinary time.
    ANTEDATE_MET_NOTHING = 0,
    // The keystream; length, AAD or template were others than expected.
    ANTEDATE_MET_KEYSTREAM = 1,
    // All of it.
    ANTEDATE_MET_ALL = 2,
};
#ifndef __cplusplus
typedef int32_t antedate_met;
#endif // __cplusplus

// Result of a function. Negative: nothing was done, and no number was used.
enum antedate_result
#ifdef __cplusplus
  : int32_t
#endif // __cplusplus
 {
    // Done.
    ANTEDATE_OK = 0,
    // Nothing more can be prepared now: as many messages are prepared for as there is room for, no number is left, or
    // no message was sent yet that tells how long the next one is.
    ANTEDATE_FULL = 1,
    // A step is done; the message takes more of them.
    ANTEDATE_MORE = 2,
    // A pointer is NULL that must not be.
    ANTEDATE_ERROR_NULL = -1,
    // The memory is smaller than ANTEDATE_SMALL_OCTETS, or not aligned to ANTEDATE_ALIGNMENT.
    ANTEDATE_ERROR_MEMORY = -2,
    // A key, tag, prefix or AAD has a length that there is not, a first number is too large, or a message is longer
    // than its nonce allows; data of CBC is no multiple of 16 octets.
    ANTEDATE_ERROR_LENGTH = -3,
    // The buffer is too short for the message and what is written around it.
    ANTEDATE_ERROR_ROOM = -4,
    // Two areas overlap that must not.
    ANTEDATE_ERROR_OVERLAP = -5,
    // This is no sender, or no receiver, of this kind: never begun, wiped, or moved to another address since. A copy of a
    // sender would use its nonces a second time.
    ANTEDATE_ERROR_NO_SENDER = -6,
    // Another call has this sender, which an interrupt or a thread interrupted.
    ANTEDATE_ERROR_BUSY = -7,
    // All numbers under this key are used: change the key.
    ANTEDATE_ERROR_EXHAUSTED = -8,
    // This is no message of the protocol that was named.
    ANTEDATE_ERROR_MESSAGE = -9,
    // This number was taken before, or is too old to tell.
    ANTEDATE_ERROR_REPLAYED = -10,
    // The message is forged, or of another key or number. Its data is wiped.
    ANTEDATE_ERROR_NOT_AUTHENTIC = -11,
    // The record is of another epoch: it belongs to other keys.
    ANTEDATE_ERROR_EPOCH = -12,
};
#ifndef __cplusplus
typedef int32_t antedate_result;
#endif // __cplusplus

// Encrypts and decrypts CBC under one key. It lies in memory that its owner gave, and must not be moved.
typedef struct antedate_cbc antedate_cbc;

// Seals CCM messages or DTLS records under one key. It lies in memory that its owner gave, and must not be moved.
typedef struct antedate_ccm antedate_ccm;

// Seals GCM messages under one key. It lies in memory that its owner gave, and must not be moved.
typedef struct antedate_gcm antedate_gcm;

// Opens what one sender sealed under one key. It lies in memory that its owner gave, and must not be moved.
typedef struct antedate_receiver antedate_receiver;

// Parameters for sealing CCM messages. The octets that it points at are copied.
typedef struct antedate_ccm_config {
    // The key.
    const uint8_t *key;
    // 16 (AES-128) or 32 (AES-256).
    size_t key_octets;
    // Octets of a tag: 4, 6, 8, 10, 12, 14 or 16.
    size_t tag_octets;
    // Beginning of nonces; no other sender has this one under this key. The message's number follows, in 4
    // octets, most significant first.
    const uint8_t *prefix;
    // 3 to 9, for nonces of 7 to 13 octets.
    size_t prefix_octets;
    // Octets that are authenticated with each message and not sent with it; may be NULL.
    const void *aad;
    // Up to ANTEDATE_CCM_AAD_OCTETS.
    size_t aad_octets;
    // The number of the first message. No number from here on was ever used under this key and prefix: keep the next one in
    // memory that survives a restart, or change the key.
    uint32_t first_number;
} antedate_ccm_config;

// Parameters for sealing DTLS 1.2 records: AES-CCM (tags of 16 octets) or AES-CCM-8 (RFC 6655), in one epoch
// and direction. The octets that it points at are copied.
typedef struct antedate_dtls_config {
    // The key: client_write_key or server_write_key.
    const uint8_t *key;
    // 16 (AES-128) or 32 (AES-256).
    size_t key_octets;
    // 16, or 8 for AES-CCM-8.
    size_t tag_octets;
    // client_write_IV or server_write_IV.
    uint8_t salt[4];
    // The epoch.
    uint16_t epoch;
    // The type of the records, mostly ANTEDATE_DTLS_APPLICATION_DATA.
    uint8_t content_type;
    // The sequence number of the first record, below 2^48: behind those that the handshake used in this epoch.
    uint64_t first_number;
} antedate_dtls_config;

// A message that was sealed.
typedef struct antedate_sent {
    // Octets that are to be sent, from the beginning of the buffer.
    size_t octets;
    // The message's number. Unless the receiver counts along, it is to be sent too.
    uint64_t number;
    // Usable share of the preparation.
    antedate_met met;
} antedate_sent;

// Parameters for sealing GCM messages. The octets that it points at are copied.
typedef struct antedate_gcm_config {
    // The key.
    const uint8_t *key;
    // 16 (AES-128) or 32 (AES-256).
    size_t key_octets;
    // Beginning of nonces; no other sender has this one under this key. The message's number follows, in 8
    // octets, most significant first.
    uint8_t prefix[4];
    // The number of the first message. No number from here on was ever used under this key and prefix: keep the next one in
    // memory that survives a restart, or change the key.
    uint64_t first_number;
} antedate_gcm_config;

// A message that was opened.
typedef struct antedate_opened {
    // Octets of the data. It begins where the message began; in a DTLS record ANTEDATE_DTLS_HEADER_OCTETS behind.
    size_t octets;
    // The number.
    uint64_t number;
    // The type of a DTLS record; otherwise 0.
    uint8_t content_type;
} antedate_opened;

// Beginning that all messages so far have in common. Zeros are none yet.
typedef struct antedate_learned {
    // The template.
    uint8_t octets[ANTEDATE_TEMPLATE_OCTETS];
    // Octets of it. After the first message all of that one, as far as there is room.
    size_t length;
    // Messages that it was learned from.
    uint32_t messages;
} antedate_learned;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Begins CBC under a key of 16 (AES-128) or 32 octets (AES-256). `memory`: ANTEDATE_CBC_OCTETS, aligned to
// ANTEDATE_ALIGNMENT, that belong to CBC until it is wiped.
//
// CBC does not authenticate: put a MAC over IV and ciphertext, and check it before decryption. The protocol defines the
// padding to whole blocks. A new protocol takes CCM or GCM.
antedate_result antedate_cbc_init(void *memory,
                                  size_t octets,
                                  const uint8_t *key,
                                  size_t key_octets,
                                  struct antedate_cbc **cbc);

// Encrypts the beginning of the next message, while there is nothing else to do. `iv`: ANTEDATE_CBC_IV_OCTETS of a random
// generator, used for one message, that nobody sees before it is sent. `beginning`: what the message will begin with; its whole
// blocks are of use, up to ANTEDATE_TEMPLATE_OCTETS. Takes the place of what was prepared before.
antedate_result antedate_cbc_prepare(struct antedate_cbc *cbc,
                                     const uint8_t *iv,
                                     const void *beginning,
                                     size_t octets);

// Encrypts a message in place. `data`: whole blocks of 16 octets. `iv`: that of the preparation, or another one; then the
// message takes the ordinary time, and the preparation stays. `ready` may be NULL: how many octets were encrypted
// beforehand. CBC, data and `ready` do not overlap.
//
// If this returns anything but ANTEDATE_OK, nothing was encrypted and nothing is to be sent.
antedate_result antedate_cbc_encrypt(struct antedate_cbc *cbc,
                                     const uint8_t *iv,
                                     void *data,
                                     size_t octets,
                                     size_t *ready);

// Decrypts a message in place; the caller has checked that it is authentic. `data`: whole blocks of 16 octets.
antedate_result antedate_cbc_decrypt(struct antedate_cbc *cbc,
                                     const uint8_t *iv,
                                     void *data,
                                     size_t octets);

// Ends CBC: wipes key and preparation, and gives the memory back.
antedate_result antedate_cbc_wipe(struct antedate_cbc *cbc);

// Begins to send CCM messages. `memory`: `octets` octets, aligned to ANTEDATE_ALIGNMENT, that belong to the sender until it
// is wiped; ANTEDATE_SMALL_OCTETS, ANTEDATE_MEDIUM_OCTETS or ANTEDATE_LARGE_OCTETS of them decide what is prepared.
// `*sender` is NULL unless this returns ANTEDATE_OK. Needs about as much of the stack as of the memory, for the moment.
antedate_result antedate_ccm_init(void *memory,
                                  size_t octets,
                                  const struct antedate_ccm_config *config,
                                  struct antedate_ccm **sender);

// Begins to send DTLS 1.2 records; as antedate_ccm_init. The handshake is somebody else's: key and salt come from it.
antedate_result antedate_dtls_init(void *memory,
                                   size_t octets,
                                   const struct antedate_dtls_config *config,
                                   struct antedate_ccm **sender);

// Prepares for one more message, while there is nothing else to do. `expected`: its octets. `template`: what it will
// begin with, as far as that is known; may be NULL. A wrong guess costs time when the message is sent, nothing else.
// ANTEDATE_FULL: nothing more can be prepared now.
antedate_result antedate_ccm_prepare(struct antedate_ccm *sender,
                                     size_t expected,
                                     const void *template_,
                                     size_t template_octets);

// Prepares for one more message in steps, for an idle loop that has to be left soon: at most `blocks` blocks of AES, and at the
// first step of a message 5 more at most. `expected` and `template` are taken at the first step. ANTEDATE_OK: a message is
// prepared; ANTEDATE_MORE: there is more to do for this one. A message that is sent meanwhile uses what is ready.
antedate_result antedate_ccm_step(struct antedate_ccm *sender,
                                  size_t expected,
                                  const void *template_,
                                  size_t template_octets,
                                  size_t blocks);

// Prepares for one more message that is as long as those before it have it.
antedate_result antedate_ccm_prepare_as_before(struct antedate_ccm *sender,
                                               const void *template_,
                                               size_t template_octets);

// Seals the next message in place, with what was prepared for it or in the ordinary way. `buffer`: `room` octets, that do
// not overlap the sender's.
//
// A CCM message: `length` octets at the beginning of the buffer, then room for the tag. A DTLS record: `length` octets
// behind ANTEDATE_DTLS_HEADER_OCTETS free ones, then room for the tag; the header is written too.
//
// `sent` may be NULL. If this returns anything but ANTEDATE_OK, nothing was encrypted and nothing is to be sent.
antedate_result antedate_ccm_send(struct antedate_ccm *sender,
                                  void *buffer,
                                  size_t room,
                                  size_t length,
                                  struct antedate_sent *sent);

// Messages that are prepared for; 0 also if this is no sender.
size_t antedate_ccm_fill_level(struct antedate_ccm *sender);

// The number of the first message that is not prepared for: its template may hold it, as a sequence number.
// ANTEDATE_FULL: there is none.
antedate_result antedate_ccm_next_unprepared(struct antedate_ccm *sender, uint64_t *number);

// Ends the sender: wipes key and keystream, and gives the memory back.
antedate_result antedate_ccm_wipe(struct antedate_ccm *sender);

// Begins to send GCM messages; as antedate_ccm_init.
antedate_result antedate_gcm_init(void *memory,
                                  size_t octets,
                                  const struct antedate_gcm_config *config,
                                  struct antedate_gcm **sender);

// Prepares for one more message, while there is nothing else to do. `expected`: its octets. `aad`: what its AAD will
// begin with, as far as that is known; may be NULL. A wrong guess costs time when the message is sent, nothing else.
// ANTEDATE_FULL: nothing more can be prepared now.
antedate_result antedate_gcm_prepare(struct antedate_gcm *sender,
                                     size_t expected,
                                     const void *aad,
                                     size_t aad_octets);

// Prepares for one more message that is no longer than those before it.
antedate_result antedate_gcm_prepare_as_before(struct antedate_gcm *sender,
                                               const void *aad,
                                               size_t aad_octets);

// Seals the next message in place, with what was prepared for it or in the ordinary way. `aad`: what is authenticated
// beside it and not encrypted; may be NULL. `buffer`: `room` octets: `length` octets of data, then room for the tag of
// ANTEDATE_GCM_TAG_OCTETS. Sender, AAD, buffer and `sent` do not overlap; `sent` may be NULL.
//
// If this returns anything but ANTEDATE_OK, nothing was encrypted and nothing is to be sent.
antedate_result antedate_gcm_send(struct antedate_gcm *sender,
                                  const void *aad,
                                  size_t aad_octets,
                                  void *buffer,
                                  size_t room,
                                  size_t length,
                                  struct antedate_sent *sent);

// Messages that are prepared for; 0 also if this is no sender.
size_t antedate_gcm_fill_level(struct antedate_gcm *sender);

// The number of the first message that is not prepared for: its AAD may hold it. ANTEDATE_FULL: there is none.
antedate_result antedate_gcm_next_unprepared(struct antedate_gcm *sender,
                                             uint64_t *number);

// Ends the sender: wipes key and keystream, and gives the memory back.
antedate_result antedate_gcm_wipe(struct antedate_gcm *sender);

// Begins to open CCM messages. `config`: that of their sender, but for `first_number`: the lowest number that is taken. After a
// restart it is behind the highest one that was, unless the key is new: else old messages are taken again. `memory`:
// ANTEDATE_RECEIVER_OCTETS, aligned to ANTEDATE_ALIGNMENT, that belong to the receiver until it is wiped.
antedate_result antedate_ccm_receiver_init(void *memory,
                                           size_t octets,
                                           const struct antedate_ccm_config *config,
                                           struct antedate_receiver **receiver);

// Begins to read DTLS 1.2 records; as antedate_ccm_receiver_init. `config`: the other end's; `content_type` is
// not looked at.
antedate_result antedate_dtls_receiver_init(void *memory,
                                            size_t octets,
                                            const struct antedate_dtls_config *config,
                                            struct antedate_receiver **receiver);

// Begins to open GCM messages; as antedate_ccm_receiver_init.
antedate_result antedate_gcm_receiver_init(void *memory,
                                           size_t octets,
                                           const struct antedate_gcm_config *config,
                                           struct antedate_receiver **receiver);

// Opens the CCM message with this number in place. `message`: `octets` octets, the tag among them. `opened` may be NULL.
//
// ANTEDATE_ERROR_REPLAYED: this number was taken, or is older than the last 64; ANTEDATE_ERROR_NOT_AUTHENTIC: forged, or of
// another key or number, and the data is wiped. Whatever is refused moves nothing.
antedate_result antedate_ccm_open(struct antedate_receiver *receiver,
                                  uint64_t number,
                                  void *message,
                                  size_t octets,
                                  struct antedate_opened *opened);

// Opens one DTLS record in place; as antedate_ccm_open. A datagram may hold several: each is 13 octets longer than the number
// in its octets 11 and 12. ANTEDATE_ERROR_EPOCH: the record belongs to other keys.
antedate_result antedate_dtls_open(struct antedate_receiver *receiver,
                                   void *record,
                                   size_t octets,
                                   struct antedate_opened *opened);

// Opens the GCM message with this number in place; as antedate_ccm_open. `aad`: `aad_octets` octets that were authenticated
// with it; may be NULL if there are none.
antedate_result antedate_gcm_open(struct antedate_receiver *receiver,
                                  uint64_t number,
                                  const void *aad,
                                  size_t aad_octets,
                                  void *message,
                                  size_t octets,
                                  struct antedate_opened *opened);

// Ends the receiver: wipes the key, and gives the memory back.
antedate_result antedate_receiver_wipe(struct antedate_receiver *receiver);

// Learns from one more message. The template is at `learned->octets`, and has `learned->length` octets.
antedate_result antedate_learn(struct antedate_learned *learned, const void *message, size_t octets);

// GOOSE (IEC 61850-8-1): how much is known of the next message that announces a change. `message`: one before it, from
// behind the EtherType. `*foreseen`: octets up to the time of the change; those of `message` are the template.
// ANTEDATE_ERROR_MESSAGE: this is no GOOSE message.
antedate_result antedate_goose_change(const void *message,
                                      size_t octets,
                                      size_t *foreseen);

// GOOSE: writes to `next` the repetition that follows `message`, which differs in `sqNum` alone and is as long. It is the
// template, and also what is to be sent unless something changes. `room`: at least `octets`.
//
// ANTEDATE_ERROR_MESSAGE: this is no GOOSE message, or the next `sqNum` needs an octet more than this one has.
antedate_result antedate_goose_repetition(const void *message,
                                          size_t octets,
                                          void *next,
                                          size_t room);

// PPMP (Eclipse Unide): how much is known of the next message that is formed like `message`. `*foreseen`: octets up to its
// first time. ANTEDATE_ERROR_MESSAGE: a string in it does not end.
antedate_result antedate_ppmp(const void *message,
                              size_t octets,
                              size_t *foreseen);

// Puts types and lengths of fields (ISO/IEC 8825-1, types of one octet) in front of their values, so that the template is
// longer: types and lengths seldom change. `sorted` is what is sealed and sent; it has as many octets as `message`. The
// receiver puts them back with antedate_restore(). `*heads`: octets of types and lengths, which are a template for the next
// message of this form.
//
// ANTEDATE_ERROR_MESSAGE: these are no fields.
antedate_result antedate_sort(const void *message,
                              size_t octets,
                              void *sorted,
                              size_t room,
                              size_t *heads);

// Undoes antedate_sort(). `sorted`: what was received, after it was opened. `message`: room for as many octets.
// ANTEDATE_ERROR_MESSAGE: these are no sorted fields.
antedate_result antedate_restore(const void *sorted,
                                 size_t octets,
                                 void *message,
                                 size_t room);

#ifdef __cplusplus
} // extern "C"
#endif // __cplusplus

#endif /* FRAMEWARD_ANTEDATE_H */
