/*
 * A measuring station: prepares while there is nothing else to do, and sends when a value is known.
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
    }
    /* A copy of a sender would use its nonces again. */
    memcpy(gcm_memory, ccm_memory, sizeof ccm_memory);
    if (antedate_ccm_prepare((antedate_ccm *)(void *)gcm_memory, 24, NULL, 0) != ANTEDATE_ERROR_NO_SENDER)
        return 0;
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

int main(void)
{
    return ccm() && dtls() && gcm() ? 0 : 1;
}
