/*
 * A measuring station: prepares while there is nothing else to do, and sends when a value is known. Its GOOSE messages go
 * over CCM, its fields with their heads in front.
 *
 *   cargo build --release --package frameward-antedate-c
 *   cc -std=c99 -Iinclude example/station.c ../../target/release/libantedate_c.a -lpthread -ldl -lm -o station && ./station
 *
 * Prints what goes over the wire, a line for each message: protocol, number, what of the preparation was of use, octets.
 */
#include <stdio.h>
#include <string.h>

#include "antedate.h"

static const uint8_t key[16] = {0x40, 0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47,
                                0x48, 0x49, 0x4a, 0x4b, 0x4c, 0x4d, 0x4e, 0x4f};

/* Nothing is allocated: senders lie here. */
static uint64_t ccm_memory[ANTEDATE_SMALL_OCTETS / sizeof(uint64_t)];
static uint64_t goose_memory[ANTEDATE_MEDIUM_OCTETS / sizeof(uint64_t)];
static uint64_t dtls_memory[ANTEDATE_MEDIUM_OCTETS / sizeof(uint64_t)];
static uint64_t gcm_memory[ANTEDATE_LARGE_OCTETS / sizeof(uint64_t)];

static void transmit(const char *protocol, const uint8_t *octets, const antedate_sent *sent)
{
    size_t i;
    printf("%s %lu %d ", protocol, (unsigned long)sent->number, (int)sent->met);
    for (i = 0; i < sent->octets; i++)
        printf("%02x", octets[i]);
    printf("\n");
}

static int check(antedate_result result, const char *what)
{
    if (result != ANTEDATE_OK)
        fprintf(stderr, "%s: %d\n", what, (int)result);
    return result == ANTEDATE_OK;
}

/* The other end of ccm(), if it runs this library too: each number once. */
static int receive(const uint8_t *octets, const antedate_sent *sent)
{
    static uint64_t memory[ANTEDATE_RECEIVER_OCTETS / sizeof(uint64_t)];
    const antedate_ccm_config config = {
        .key = key, .key_octets = sizeof key,
        .tag_octets = 8,
        .prefix = (const uint8_t *)"station-1", .prefix_octets = 9,
    };
    uint8_t buffer[64 + 8];
    antedate_receiver *receiver;
    antedate_opened opened;

    if (!check(antedate_ccm_receiver_init(memory, sizeof memory, &config, &receiver), "antedate_ccm_receiver_init"))
        return 0;
    memcpy(buffer, octets, sent->octets);
    if (!check(antedate_ccm_open(receiver, sent->number, buffer, sent->octets, &opened), "antedate_ccm_open"))
        return 0;
    if (opened.octets != sent->octets - 8 || memcmp(buffer, "temperature cell 4: ", 20) != 0)
        return 0;
    memcpy(buffer, octets, sent->octets);
    if (antedate_ccm_open(receiver, sent->number, buffer, sent->octets, NULL) != ANTEDATE_ERROR_REPLAYED)
        return 0;
    return check(antedate_receiver_wipe(receiver), "antedate_receiver_wipe");
}

/* Messages of one form, of which all is known beforehand but the value. */
static int ccm(void)
{
    static const char *const values[] = {"21.5", "21.7", "-273.15"};
    static const char template[] = "temperature cell 4: ";
    const antedate_ccm_config config = {
        .key = key, .key_octets = sizeof key,
        .tag_octets = 8,
        .prefix = (const uint8_t *)"station-1", .prefix_octets = 9,
        .first_number = 41,
    };
    antedate_ccm *sender;
    size_t i;

    if (!check(antedate_ccm_init(ccm_memory, sizeof ccm_memory, &config, &sender), "antedate_ccm_init"))
        return 0;
    for (i = 0; i < sizeof values / sizeof *values; i++) {
        uint8_t buffer[64 + 8];
        antedate_sent sent;
        int length;

        /* While there is nothing else to do: */
        while (antedate_ccm_prepare(sender, 24, template, strlen(template)) == ANTEDATE_OK) {}

        /* When the value is known. The last one is longer than expected, which costs time and nothing else. */
        length = snprintf((char *)buffer, sizeof buffer, "%s%s", template, values[i]);
        if (!check(antedate_ccm_send(sender, buffer, sizeof buffer, (size_t)length, &sent), "antedate_ccm_send"))
            return 0;
        transmit("ccm", buffer, &sent);
        if (!receive(buffer, &sent))
            return 0;
    }
    /* A copy of a sender would use its nonces again. */
    memcpy(gcm_memory, ccm_memory, sizeof ccm_memory);
    if (antedate_ccm_prepare((antedate_ccm *)(void *)gcm_memory, 24, NULL, 0) != ANTEDATE_ERROR_NO_SENDER)
        return 0;
    return check(antedate_ccm_wipe(sender), "antedate_ccm_wipe");
}

/* GOOSE from behind the EtherType: the state of a switch. A change of the state is known up to its time, a repetition as a
 * whole. */
static int goose(void)
{
    static const uint8_t first[] =
        "\x00\x01\x00\x60\x00\x00\x00\x00\x61\x56"
        "\x80\x14" "IED1LD0/LLN0$GO$gcb1" "\x81\x02\x07\xd0" "\x82\x13" "IED1LD0/LLN0$status" "\x83\x04" "gcb1"
        "\x84\x08\x5b\x00\x11\x22\x33\x44\x55\x0a" "\x85\x01\x03" "\x86\x01\x00" "\x87\x01\x00" "\x88\x01\x01"
        "\x89\x01\x00" "\x8a\x01\x01" "\xab\x03\x83\x01\x00";
    enum { octets = sizeof first - 1, time = 65, st_num = 75, sq_num = 78, state = octets - 1 };
    const antedate_ccm_config config = {
        .key = key, .key_octets = sizeof key,
        .tag_octets = 8,
        .prefix = (const uint8_t *)"station-2", .prefix_octets = 9,
    };
    uint8_t message[octets], next[octets], buffer[octets + 8];
    antedate_ccm *sender;
    antedate_sent sent;
    size_t foreseen;
    int i;

    memcpy(message, first, octets);
    if (!check(antedate_ccm_init(goose_memory, sizeof goose_memory, &config, &sender), "antedate_ccm_init"))
        return 0;

    /* While nothing happens: all that comes before the time of the next change. */
    if (!check(antedate_goose_change(message, octets, &foreseen), "antedate_goose_change"))
        return 0;
    if (!check(antedate_ccm_prepare(sender, octets, message, foreseen), "antedate_ccm_prepare"))
        return 0;
    /* The switch opens. */
    message[time + 3]++, message[st_num]++, message[sq_num] = 0, message[state] = 1;
    memcpy(buffer, message, octets);
    if (!check(antedate_ccm_send(sender, buffer, sizeof buffer, octets, &sent), "antedate_ccm_send"))
        return 0;
    transmit("goose", buffer, &sent);

    for (i = 0; i < 2; i++) {
        /* Until it is time to say it again: all of it. */
        if (!check(antedate_goose_repetition(message, octets, next, sizeof next), "antedate_goose_repetition"))
            return 0;
        if (!check(antedate_ccm_prepare(sender, octets, next, octets), "antedate_ccm_prepare"))
            return 0;
        memcpy(message, next, octets);
        memcpy(buffer, message, octets);
        if (!check(antedate_ccm_send(sender, buffer, sizeof buffer, octets, &sent), "antedate_ccm_send"))
            return 0;
        transmit("goose", buffer, &sent);
    }
    return check(antedate_ccm_wipe(sender), "antedate_ccm_wipe");
}

/* Readings of eight sensors in fields: type, length, value. Sorted, all types and lengths stand in front, and are learned. */
#define READINGS(a, b) "\x01\x04" a "\x02\x03" b "\x03\x01" "1" "\x04\x01" "0" "\x05\x01" "1" "\x06\x01" "1" "\x07\x01" "0" "\x08\x02" "ok"
static int fields(void)
{
    static const char *const readings[] = {READINGS("21.5", "990"), READINGS("21.7", "991"), READINGS("22.0", "987")};
    const antedate_ccm_config config = {
        .key = key, .key_octets = sizeof key,
        .tag_octets = 8,
        .prefix = (const uint8_t *)"station-3", .prefix_octets = 9,
    };
    antedate_learned learned = {{0}, 0, 0};
    antedate_ccm *sender;
    size_t i;

    if (!check(antedate_ccm_init(ccm_memory, sizeof ccm_memory, &config, &sender), "antedate_ccm_init"))
        return 0;
    for (i = 0; i < sizeof readings / sizeof *readings; i++) {
        uint8_t buffer[64];
        antedate_sent sent;
        size_t heads, octets = strlen(readings[i]);

        if (i > 0 && !check(antedate_ccm_prepare(sender, octets, learned.octets, learned.length), "antedate_ccm_prepare"))
            return 0;
        if (!check(antedate_sort(readings[i], octets, buffer, octets, &heads), "antedate_sort"))
            return 0;
        if (!check(antedate_learn(&learned, buffer, heads), "antedate_learn"))
            return 0;
        if (!check(antedate_ccm_send(sender, buffer, sizeof buffer, octets, &sent), "antedate_ccm_send"))
            return 0;
        transmit("fields", buffer, &sent);
    }
    return check(antedate_ccm_wipe(sender), "antedate_ccm_wipe");
}

/* DTLS 1.2 with AES_128_CCM; key and salt would be the handshake's. Lengths are learned, and there is no template. */
static int dtls(void)
{
    const antedate_dtls_config config = {
        .key = key, .key_octets = sizeof key,
        .tag_octets = 16,
        .salt = {1, 2, 3, 4}, .epoch = 1,
        .content_type = ANTEDATE_DTLS_APPLICATION_DATA,
        .first_number = 1,
    };
    antedate_ccm *sender;
    int i;

    if (!check(antedate_dtls_init(dtls_memory, sizeof dtls_memory, &config, &sender), "antedate_dtls_init"))
        return 0;
    for (i = 0; i < 3; i++) {
        uint8_t buffer[ANTEDATE_DTLS_HEADER_OCTETS + 32 + 16];
        antedate_sent sent;

        while (antedate_ccm_prepare_as_before(sender, NULL, 0) == ANTEDATE_OK) {}
        memset(buffer + ANTEDATE_DTLS_HEADER_OCTETS, 'a' + i, 32);
        if (!check(antedate_ccm_send(sender, buffer, sizeof buffer, 32, &sent), "antedate_ccm_send"))
            return 0;
        transmit("dtls", buffer, &sent);
    }
    return check(antedate_ccm_wipe(sender), "antedate_ccm_wipe");
}

/* AES-GCM with a header that is authenticated; it holds the message's number, which is known beforehand. */
static int gcm(void)
{
    const antedate_gcm_config config = {
        .key = key, .key_octets = sizeof key,
        .prefix = {1, 2, 3, 4},
        .first_number = 7,
    };
    antedate_gcm *sender;
    uint64_t number;
    int i;

    if (!check(antedate_gcm_init(gcm_memory, sizeof gcm_memory, &config, &sender), "antedate_gcm_init"))
        return 0;
    for (i = 0; i < 2; i++) {
        char header[32];
        uint8_t buffer[100 + ANTEDATE_GCM_TAG_OCTETS];
        antedate_sent sent;

        if (!check(antedate_gcm_next_unprepared(sender, &number), "antedate_gcm_next_unprepared"))
            return 0;
        snprintf(header, sizeof header, "valve 3, message %06lu", (unsigned long)number);
        if (!check(antedate_gcm_prepare(sender, 100, header, strlen(header)), "antedate_gcm_prepare"))
            return 0;
        memset(buffer, 'A' + i, 100);
        if (!check(antedate_gcm_send(sender, header, strlen(header), buffer, sizeof buffer, 100, &sent),
                   "antedate_gcm_send"))
            return 0;
        transmit("gcm", buffer, &sent);
    }
    return check(antedate_gcm_wipe(sender), "antedate_gcm_wipe");
}

/* AES-CBC, for a protocol that has it still. Its IV comes from a random generator; here it is a constant, so that the output is
 * always the same. The MAC over IV and ciphertext, and the padding, are the protocol's. */
static int cbc(void)
{
    static const uint8_t iv[ANTEDATE_CBC_IV_OCTETS] = "an IV, for once";
    static const char template[] = "temperature cell 4, in degrees: ";
    uint8_t buffer[48];
    antedate_sent sent = {sizeof buffer, 0, ANTEDATE_MET_NOTHING};
    antedate_cbc *key_of_cbc;
    size_t ready;

    if (!check(antedate_cbc_init(gcm_memory, sizeof gcm_memory, key, sizeof key, &key_of_cbc), "antedate_cbc_init"))
        return 0;
    /* While there is nothing else to do: */
    if (!check(antedate_cbc_prepare(key_of_cbc, iv, template, strlen(template)), "antedate_cbc_prepare"))
        return 0;

    /* When the value is known: 37 octets, and 11 of padding. */
    memset(buffer, 11, sizeof buffer);
    memcpy(buffer, template, strlen(template));
    memcpy(buffer + strlen(template), "21.50", 5);
    if (!check(antedate_cbc_encrypt(key_of_cbc, iv, buffer, sizeof buffer, &ready), "antedate_cbc_encrypt"))
        return 0;
    sent.met = ready == strlen(template) ? ANTEDATE_MET_ALL : ANTEDATE_MET_NOTHING;
    transmit("cbc", buffer, &sent);

    /* The other end. */
    if (!check(antedate_cbc_decrypt(key_of_cbc, iv, buffer, sizeof buffer), "antedate_cbc_decrypt"))
        return 0;
    if (memcmp(buffer, template, strlen(template)) != 0)
        return 0;
    return check(antedate_cbc_wipe(key_of_cbc), "antedate_cbc_wipe");
}

int main(void)
{
    return ccm() && goose() && fields() && dtls() && gcm() && cbc() ? 0 : 1;
}
