#!/usr/bin/env bash
# Breaks the XDP programs line by line, and has the tests of crates/xdp find each. A mutant that they do not find is a rule that
# nobody tests. Takes some minutes; root, the pinned compiler.
#
#   scripts/bpf_mutants.sh          all of them
#   scripts/bpf_mutants.sh WORD     those whose line has the word in it
#
# The sources are changed in a copy, and the tests load what is made of it.
set -euo pipefail
cd "$(dirname "$0")/.."

# file | what stands there once | what is put in its place
mutants=(
    'chacha20_poly1305.h|QUARTER(a3, b0, c1, d2)|QUARTER(a3, b0, c1, d1)'
    'chacha20_poly1305.h|.s = {w[4], w[5], w[6], w[7]}|.s = {w[4], w[5], w[7], w[6]}'
    'chacha20_poly1305.h|low &= mask_of(octets), high &= octets > 8 ? mask_of(octets - 8) : 0;|low &= mask_of(octets);'
    'chacha20_poly1305.h|u64 c = h->h0 + 5;|u64 c = h->h0;'
    'chacha20_poly1305.h|u64 p4 = a4 * (m->r0 & 3) + (p3 >> 32);|u64 p4 = (p3 >> 32);'
    'chacha20_poly1305.h|chacha20_block(&stream, job, 1 + begin / STREAM_OCTETS)|chacha20_block(&stream, job, begin / STREAM_OCTETS)'
    'chacha20_poly1305.h|h->h1 = low_half(p1) + (p0 >> 32)|h->h1 = low_half(p1)'
    'chacha20_poly1305.h|low = high, high = 0, k0 &= mask_of(octets), k1 = 0;|low = high, high = 0, k1 = 0;'
    'chacha20_poly1305.h|k1 &= mask_of(octets - 8);|'
    'chacha20_poly1305.h|low >> by \| high << 1 << (63 - by)|low >> by'
    'chacha20_poly1305.h|U64(here) = job->from ? low ^ k0 : U64(here) ^ k0|U64(here) = low ^ k0'
    'chacha20_poly1305.h|how & OPENS_TEXT ? low : k0|k0'
    'chacha20_poly1305.h|return ((U64(icv) ^ tag.low) \| (U64(icv + 8) ^ tag.high)) != 0;|return (U64(icv) ^ tag.low) != 0;'
    'cell.bpf.c|encrypts ? AAD : AAD + payload|AAD'
    'cell.bpf.c|if (given < payload && pad(ctx, at + AAD + given, payload - given)) return XDP_DROP;|'
    'cell.bpf.c|moves ? 0 : ICV|ICV'
    'room.h|to -= BLOCK_OCTETS * blocks - octets;|'
    'cell.bpf.c|if (BEHIND_ETHERTYPE + payload + ICV > cell->mtu |if (payload + ICV > cell->mtu '
    'cell.bpf.c|if (!relation \|\| !seq) return|if (!relation) return'
    'cell.bpf.c|front.ethertype != cell->ethertype \|\| front.tags > 1)|front.ethertype != cell->ethertype)'
    'cell.bpf.c|cell->aside \|\| !parse(ctx, &front) \|\| !is_fieldbus(front.ethertype)|!parse(ctx, &front) \|\| !is_fieldbus(front.ethertype)'
    'cell.bpf.c|!machine \|\| machine->ethertype != front.ethertype|!machine'
    'cell.bpf.c|    u16 ethertype = machine->ethertype;|    u16 ethertype = PROFINET;'
    'cell.bpf.c|    u32 tag = machine->tag;|    u32 tag = 0;'
    'cell.bpf.c|cell->aside \|\| !parse(ctx, &front) \|\| front.ethertype != cell|!parse(ctx, &front) \|\| front.ethertype != cell'
    'cell.bpf.c|if (!commit(relation, &under, job.text, now, &moved)) return discard(count, IN_LATE);|commit(relation, &under, job.text, now, &moved);'
    'relation.h|if (seq <= newest) return LATE;|if (seq < newest) return LATE;'
    'relation.h|newer = seq > d->seq;|newer = 1;'
    'relation.h|d->seq++; // 0 behind the last|d->seq; // 0 behind the last'
    'relation.h|else if (d->now.epoch > 0 && d->now.key_id == ((key_id + 1) & 0xff))|else if (0)'
    'relation.h|r->place ^= 1, r->running = 1, r->entered = 0, r->enabled = 0;|r->place ^= 1, r->running = 1, r->entered = 0;'
    'relation.h|(!d->seq \|\| d->seq > epoch_end)|(!d->seq \|\| d->seq >= epoch_end)'
    'relation.h|moved->gap >= r->alarm && !r->told|moved->gap >= r->alarm'
    'cell.bpf.c|add_residence(&residence_outward, number, came);|add_residence(&residence_inward, number, came);'
    'cell.bpf.c|add_residence(&residence_inward, number, now);|add_residence(&residence_outward, number, now);'
    'cell.bpf.c|if (moved.gap_known) add_time(|add_time('
    'chacha20_poly1305.h|if (how & ERASES) words[2 * block] = 0, words[2 * block + 1] = 0;|'
    'chacha20_poly1305.h|if (how & ERASES) UNROLLED for (int i = 0; i < 8; i++) w[i] = 0;|'
    'ahead.h|if (!slot \|\| !hold(slot, id)) return 0;|if (!slot \|\| !hold(slot, slot->id)) return 0;'
    'ahead.h|if (slot->octets >= octets) return slot;|return slot;'
    'ahead.h|wipe(slot), set_id(slot, 0);|set_id(slot, 0);'
    'ahead.h|    set_id(slot, 0); // It is spent.|'
    'ahead.h|(struct keystream *)&slot->ahead.words[STREAM_OCTETS / 8 * i], job, 1 + i)|(struct keystream *)&slot->ahead.words[STREAM_OCTETS / 8 * i], job, i)'
    'relation.h|return (u64)key->serial << 32 \| seq;|return 1ull << 32 \| seq;'
    'relation.h|r->made[SENT].octets = job->text;|'
    'relation.h|d->seq = seq, r->made[RECEIVED].octets = octets;|d->seq = seq;'
    'change.h|r->made[SENT].serial = r->made[RECEIVED].serial = 0;|'
    'cell.bpf.c|if (command->what != WATCH) empty_slots(number);|'
    'cell.bpf.c|if (octets < slot->octets) wipe(slot);|'
    'cell.bpf.c|if (octets > AHEAD_OCTETS) octets = AHEAD_OCTETS;|'
    'change.h|r->cycle = command->cycle, r->alarm = command->alarm;|r->cycle = command->cycle;'
    'change.h|if (r->enabled) r->place ^= 1, r->running = 1;|if (r->enabled) r->running = 1;'
    'change.h|d->now.epoch + 1 != key->epoch|0'
    'change.h|if (r->unknown > r->verified) r->news.flags \|= LOST;|r->news.flags \|= LOST;'
    'sa.h|pn == sa->last ? 0 : pn + 1)|pn + 1)'
    'sa.h|if (!pn \|\| pn > sa->reserved) break;|if (!pn) break;'
    'sa.h|key->base[1] ^ BE32((u32)(pn >> 32))|key->base[1]'
    'sa.h|if (near > expected && near - expected > half && near >= whole) return near - whole;|'
    'sa.h|if (near < expected && expected - near > half && near + whole > near) return near + whole;|'
    'sa.h|window->highest - pn >= window->width|window->highest - pn > window->width'
    'sa.h|block->instance == instance && block->number|(block->instance == instance \|\| 1) && block->number'
    'sa.h|block->number == pn / 64 && (block->seen|(block->seen'
    'sa.h|if (is_seen(block, pn, sa->instance)) return DUPLICATE;|'
    'sa.h|if (!sa->window \|\| pn < sa->floor \|\| sa->highest - pn >= sa->window) return LATE;|'
    'sa.h|lowest > sa->floor ? lowest : sa->floor|lowest'
    'sa_change.h|if (sc->encoding == an + 1) __sync_lock_test_and_set(&sc->encoding, 0);|'
    'sa_change.h|if (reserved < sa->reserved) reserved = sa->reserved;|'
    'sa_change.h|next + left / 2|next + left'
    'sa_change.h|if (command->pn > sa->floor) sa->floor = command->pn;|'
    'sa_change.h|if (sa->in_use) sa->in_use = ENDS;|'
    'sa_change.h|sa->shared = command->pn != 0;|sa->shared = 1;'
    'sa.h|u32 in_use = sa->in_use == IN_USE;|u32 in_use = sa->in_use;'
    'link.bpf.c|if (opening->pn < window.floor && *(volatile u32 *)&sa->shared) return GONE;|'
    'link.bpf.c|return hand_over(ctx);|return discard(count, OUT_NO_SA);'
    'sa_ahead.h|if (slot->pn == pn) return slot;|return slot;'
    'sa_ahead.h|if (!slot \|\| *(volatile u64 *)&slot->id != instance) return 0;|if (!slot) return 0; instance = slot->id;'
    'sa_ahead.h|int failed = sealing->ahead ? seal_ready(ctx, job, &slot->ahead) : aead(ctx, job);|int failed = seal_ready(ctx, job, &slot->ahead);'
    'sa_ahead.h|if (!sealing->ahead) erase(slot);|'
    'sa_ahead.h|opening->ahead ? open_ready(ctx, job, &slot->ahead) : aead(ctx, job);|open_ready(ctx, job, &slot->ahead);'
    'sa_ahead.h|sealing->ahead = slot->octets >= job->text;|sealing->ahead = 1;'
    'sa_ahead.h|opening->ahead = slot->octets >= job->text;|opening->ahead = 1;'
    'link.bpf.c|sealing.ahead ? OUT_ANTEDATED : OUT_NOT_ANTEDATED|OUT_ANTEDATED'
    'link.bpf.c|opening.ahead ? IN_ANTEDATED : IN_NOT_ANTEDATED|IN_ANTEDATED'
    'link.bpf.c|if (encrypts && sealing.ring < RINGS) |'
    'link.bpf.c|if (tag.encrypted && opening.ring < RINGS) |'
    'link.bpf.c|    erase_text(slot, slot->octets);|'
    'link.bpf.c|return FORGED;|return erase(slot), FORGED;'
    'link.bpf.c|if (open_ready(ctx, job, &slot->ahead)) {|if (open_ready(ctx, job, &slot->ahead)) { opening->instance = 0;'
    'sa_ahead.h|if (octets > *(volatile u32 *)&ring->longest) |if (0) '
    'sa_ahead.h|if (next > known) __sync_val_compare_and_swap(&ring->next, known, next);|__sync_val_compare_and_swap(&ring->next, known, next);'
    'sa_ahead.h|if (next > known) __sync_val_compare_and_swap(&ring->next, known, next);|(void)known;'
    'sa_ahead.h|if (*(volatile u64 *)&ring->instance != instance) return;|if (ring->instance != instance && !next) return;'
    'sa_ahead.h|return ringbuf_output(&wake, &number, sizeof number, WAKE);|return number;'
    'sa_change.h|publish(&sa->instance, command->instance);|publish(&sa->instance, 2);'
    'link.bpf.c|follow(sealing.ring, sealing.instance, sealing.pn + 1, job.text);|'
    'link.bpf.c|follow(opening.ring, opening.instance, opening.pn + 1, job.text);|{}'
    'link.bpf.c|if (freshness != DELAYED) follow(|follow('
    'sa_ahead.h|aead_ready(ctx, job, ahead, OPENS_TEXT);|aead_ready(ctx, job, ahead, OPENS_TEXT \| ERASES);'
    'sa_ahead.h|if (!fits \|\| pn > reserved \|\| |if (!fits \|\| '
    'sa_ahead.h|int fits = clear < secure_data && slot->octets >= secure_data - clear;|int fits = clear < secure_data;'
    'sa_ahead.h|pn == last ? 0 : pn + 1) != pn) {|pn + 1) != pn) {'
    'link.bpf.c|if (tci & V \|\| (tci & (E \| C)) == E) return 0;|if (tci & V) return 0;'
    'link.bpf.c|given == 1 \|\| |'
    'link.bpf.c|if (link->shared && has_extension(ctx)) |if (has_extension(ctx)) '
    'link.bpf.c|(u8 *)end_of(ctx) && data[15] & RESERVED_BITS;|(u8 *)end_of(ctx);'
    'link.bpf.c|tag->sci = source \| 1ull << 56;|tag->sci = source;'
    'link.bpf.c|data[15] = secure_data < SHORT_LENGTH_LIMIT ?|data[15] = secure_data <= SHORT_LENGTH_LIMIT ?'
    'link.bpf.c|if (link->aside) return redirect_map(&plain_sockets, ctx->rx_queue_index, link->rest);|'
    'link.bpf.c|if (link->aside) return redirect_map(&protected_sockets, ctx->rx_queue_index, link->rest);|'
    'link.bpf.c|if (ethertype == MAC_CONTROL) return discard(count, IN_MAC_CONTROL);|'
    'link.bpf.c|if (!link->strip_vlan) return discard(count, IN_CLEAR_VLAN);|'
    'link.bpf.c|return link->express ? hand_over(ctx) : discard(count, OUT_PN_UNRESERVED);|return discard(count, OUT_PN_UNRESERVED);'
    'link.bpf.c|return link->express ? hand_over(ctx) : discard(count, OUT_PN_UNRESERVED);|return hand_over(ctx);'
    'link.bpf.c|return link->express ? hand_over(ctx) : discard(count, OUT_PN_EXHAUSTED);|return discard(count, OUT_PN_EXHAUSTED);'
    'express.h|if (classes->pcps >> pcp & 1) return 1;|'
    'express.h|at < EXPRESS_LIST && at < list->count|at < EXPRESS_LIST - 1 && at < list->count'
    'express.h| \|\| list->of[at] == other) return 1;|) return 1;'
    'express.h| \|\| at[0] >> 4 != (ipv4 ? 4 : 6)) return 0;|) return 0;'
    'express.h|: (at[0] << 2 \| at[1] >> 6) & 0x3f|: at[1] >> 2'
    'express.h|octets < IPV4_OCTETS \|\| U16(at + 6) & IPV4_FRAGMENT|octets < IPV4_OCTETS'
    'express.h|octets = (at[0] & 0x0f) * 4;|'
    'express.h|(protocol != UDP && protocol != TCP) \|\| ports + 4 > end|ports + 4 > end'
    'link.bpf.c|(link->express && (header + secure_data + ICV > link->longest \|\| !is_express(ctx)))|(link->express && !is_express(ctx))'
    'link.bpf.c|(link->express && !names_sc(ctx))|0'
    'link.bpf.c|U16(at) != MACSEC \|\| !(at[2] & SC)) return 0;|U16(at) != MACSEC) return 0;'
    'link.bpf.c|if (at + VLAN_TAG <= end && is_vlan(U16(at))) at += VLAN_TAG;|'
    'link.bpf.c|job.from = clear ? 0 : ICV;|job.from = ICV;'
    'link.bpf.c|freshness == DELAYED ? IN_DELAYED : IN_OK|IN_OK'
    'siphash.h|v0 ^= end, v2 ^= 0xee;|v0 ^= end, v2 ^= 0xff;'
    'siphash.h|.front = (v0 ^ v1 ^ v2 ^ v3) & ~QUIC_BIT|.front = v0 ^ v1 ^ v2 ^ v3'
    'siphash.h|numbers[2] * BE32((u32)(header >> 32))|numbers[1] * BE32((u32)(header >> 32))'
    'window.h|front && front != BUSY && __sync_val_compare_and_swap(&bucket->front[place], front, 0) == front;|front && (bucket->front[place] = front);'
    'window.h|else if (lane->gap_end > gap) {|else if (lane->gap_end > gap + (1 << 30)) {'
    'window.h|else if (anchor <= last) {|else if (anchor <= last - ANCHORS) {'
    'window.h|if (number < lane->anchors_high) *entry = MOVED_ANCHOR;|if (0) *entry = MOVED_ANCHOR;'
    'window.h|remove(held, number);|'
    'window.h|if (anchor->seq == seq) *held|if (0) *held'
    'window.h|lane->newest > half ? lane->newest - half : 0;|lane->newest > half ? lane->newest - half + 1 : 0;'
    'window.h|if (lane->high <= lane->newest + width) {|if (lane->high < lane->newest + width) {'
    'site.bpf.c|late = seq + half < lane->newest |late = seq + half + 1 < lane->newest '
    'site.bpf.c|lane->gap_start = lane->high, lane->gap_end = seq, lane->high = seq + 1;|lane->high = seq + 1;'
    'site.bpf.c|if (checked_front(lane->check, block.front, header) != word) return|if (0) return'
    'site.bpf.c|forget(site, number, seq);|forget(site, number, seq + 1);'
    'site.bpf.c|if (header >> 52 & 0xf) return|if (0) return'
    'site.bpf.c|if (octets > path->most \|\| adjust_head|if (adjust_head'
    'site.bpf.c|        flow->place = USER_SPACE, flow->left = now;|        flow->left = now;'
    'settling.h|time_since(flow->left, now) >= pause|time_since(flow->added, now) >= pause'
    'settling.h|waited >= WAIT_FOR_PAUSE ? HANDED_OVER : quiet|quiet'
    'settling.h|waited >= WAIT_FOR_PAUSE ? HANDED_OVER : quiet|waited >= WAIT_FOR_PAUSE ? 0 : quiet'
    'settling.h|if (waited >= MOST_SETTLING) return 1;|'
    'settling.h|worker->no_frame > flow->turn && |worker && '
    'settling.h|worker->no_frame > flow->turn && |worker->no_frame >= flow->turn && '
    'site.bpf.c|flow->left = exact, flow->turn = worker->begun;|flow->left = exact;'
    'site.bpf.c|flow->left = exact, flow->turn = worker->begun;|flow->turn = worker->begun;'
    'settling.h|if (time_since(order->used, now) >= AWAY) order->place|if (!order->used) order->place'
    'settling.h|worker->no_packet[port] > last->turn|worker->no_packet[port] >= last->turn'
    'settling.h|worker->no_packet[port] > last->turn|worker->no_packet[port & 0] > last->turn'
    'settling.h| && time_since(last->at, exact) >= HANDED_OVER|'
    'settling.h|!worker->begun \|\| time_since(order->began, now) >= MOST_SETTLING|!worker->begun'
    'settling.h|last->turn = worker->begun, last->at = exact;|last->turn = worker->begun & 0, last->at = exact;'
    'settling.h|    note_passed(last, worker, exact);|'
    'site.bpf.c|if (kind == UNKNOWN_IDENTIFIER) note_passed|note_passed'
    'site.bpf.c|if (kind == UNKNOWN_IDENTIFIER) note_passed(last, worker, ktime_get_ns());|'
    'site.bpf.c|half_words(~U64(tunnel)) + |'
    'site.bpf.c|if (checksum) U16(udp + 6)|U16(udp + 6)'
    'site.bpf.c|if (!(bits_here(data, outer) & RECEIVES)) return XDP_PASS;|'
    'site.bpf.c|if (kind == UNKNOWN_IDENTIFIER && has_token(ctx, outer - UDP_OCTETS)) return XDP_DROP;|'
    'site.bpf.c| && !has_token(ctx, outer - UDP_OCTETS) ? XDP_PASS| ? XDP_PASS'
    'site.bpf.c|if (data[14] != 0x45) return has_token(ctx, ETHERNET + 4 * (data[14] & 0xf)) ? XDP_DROP : XDP_PASS;|if (data[14] != 0x45) return XDP_PASS;'
    'site.bpf.c|ETHERNET + 4 * (data[14] & 0xf))|ETHERNET + IPV4_OCTETS)'
    'site.bpf.c| \|\| U16(udp + 2) != site->port) return 0;|) return 0;'
    'site.bpf.c|for (u32 ago = 0; ago < 2; ago++)|for (u32 ago = 0; ago < 1; ago++)'
    'site.bpf.c|for (u32 ago = 0; ago < 2; ago++)|for (u32 ago = 0; ago < 3; ago++)'
    'site.bpf.c|sip_of_two(site->token_key, header, period << 16 \| from)|sip_of_two(site->token_key, header & 0, period << 16 \| from)'
    'site.bpf.c|sip_of_two(site->token_key, header, period << 16 \| from)|sip_of_two(site->token_key, header, period << 16 \| (from & 0))'
    'site.bpf.c|sip_of_two(site->token_key, header, period << 16 \| from)|sip_of_two(site->token_key, header, (period & 0) \| from)'
    'siphash.h|v2 ^= 0xff;|v2 ^= 0xee;'
    'site.bpf.c|if (station->where > HERE) return;|'
    'site.bpf.c|if (station && station->address == address) hear_here(station, ktime_get_coarse_ns());|if (station && station->where > HERE) hear_here(station, ktime_get_coarse_ns());'
    'site.bpf.c|if (station && station->address == address) hear|if (station) hear'
    'flows.h|differs \|= flow->address[i] ^ key->address[i];|(void)i;'
    'flows.h|differs \|= flow->sci[i] ^ key->sci[i];|(void)i;'
    'site.bpf.c|if (!flow \|\| flow->key != key) {|if (!flow) {'
    'site.bpf.c|source->where != HERE \|\| |'
    'site.bpf.c|destination->where != BEHIND + number|0'
    'site.bpf.c|time_since(destination->heard, now) >= site->station_age|0'
    'site.bpf.c|time_since(station->heard, now) < STAY) return station->where != HERE;|time_since(station->heard, now) < STAY) return 1;'
    'site.bpf.c|if (front + payload - TUNNEL > site->lan_frame) return|if (front + payload > site->lan_frame) return'
    'site.bpf.c|(len > udp && adjust_tail(ctx, -(int)(len - udp))) \|\| |'
    'site.bpf.c|U16(data + 20) & FRAGMENT \|\| |'
    'site.bpf.c|lane->newest + width && !(seq & (half - 1))|lane->newest + width'
    'site.bpf.c|checksum ? checksum : 0xffff|checksum'
    'site.bpf.c|sum += *here;|'
    'site.bpf.c|(!path->vxlan && (!lane \|\| !lane->open))|(!path->vxlan && !lane)'
    'site.bpf.c|if (plain) front = 0;|'
    'site.bpf.c|if (port != site->port) return inward_plain|if (port == site->plain_port \|\| port != site->port) return inward_plain'
    'strangers.h|(u64)U32(data + four) << 32 \| 0xffff0000ull|(u64)U32(data + four) << 32'
    'strangers.h|if (due > now + at_once) return 0;|if (due > now) return 0;'
    'strangers.h|if (due > now + at_once) return 0;|if (due > now + AT_ONCE) return 0;'
    'strangers.h|if (due < now) __sync_val_compare_and_swap(&part->due, due, now);|'
    'strangers.h|price = cost * PARTS;|price = cost;'
    'strangers.h|price * knowns, KNOWN|price, KNOWN'
    'strangers.h|return take_time(part, price, EVER, now);|return 1;'
    'strangers.h|if (own && take_time(own|if (own && !take_time(own'
    'strangers.h|if (take_time(part, price, AT_ONCE, now)) return 1;|if (!own && take_time(part, price, AT_ONCE, now)) return 1;'
    'strangers.h|from.port = outer == MOST_OUTER ? U16(data + MOST_OUTER - UDP_OCTETS) : U16(data + ETHERNET + IPV4_OCTETS);|from.port = site->port;'
    'strangers.h|U16(data + MOST_OUTER - UDP_OCTETS)|U16(data + MOST_OUTER - UDP_OCTETS + 2)'
    'strangers.h|.address = address_at(data, outer, IPV4_SOURCE, IPV6_SOURCE)};|.zero = 0};'
    'strangers.h|if (kind != UNKNOWN_IDENTIFIER) number|if (kind != SHORT_HEADER) number'
    'strangers.h|found ? known_as & ~ANY_IDENTIFIER : NOBODY|found ? (known_as & 0) : NOBODY'
    'strangers.h|else if (found && known_as & ANY_IDENTIFIER) return 1;|'
    'strangers.h|else if (found && known_as & ANY_IDENTIFIER) return 1;|else if (found) return 1;'
    'strangers.h|count->of[kind]++;|'
    'strangers.h|if (!(bits_here(data, outer) >> (kind & 31) & 1)) return 1;|if (!bits_here(data, outer)) return 1;'
    'strangers.h|return bits ? *bits : 0;|return bits ? *bits : ~0u;'
    'strangers.h|, IPV4_DESTINATION, IPV6_DESTINATION|, IPV4_SOURCE, IPV6_DESTINATION'
    'strangers.h|, IPV4_DESTINATION, IPV6_DESTINATION|, IPV4_DESTINATION, IPV6_SOURCE'
    'strangers.h|u32 zero = 0, place = kind;|u32 zero = 0, place = 0;'
    'site.bpf.c|if (late && open != WATCHED) return|if (late) return'
    'site.bpf.c|if (open == WATCHED) {|if (0) {'
    'site.bpf.c|        note_passed(last, worker, ktime_get_ns());|'
    'site.bpf.c|lane->open = from ? WATCHED : TAKEN|lane->open = TAKEN'
    'site.bpf.c|if (!admits(ctx, outer, kind)) return XDP_DROP;|'
    'site.bpf.c|word & QUIC_LONG_BIT ? LONG_HEADER : SHORT_HEADER|LONG_HEADER'
    'site.bpf.c|port == site->port ? UNKNOWN_IDENTIFIER : UNKNOWN_ADDRESS|UNKNOWN_IDENTIFIER'
    'site.bpf.c|return ethertype == MACSEC \|\| |return 1 \|\| '
    'site.bpf.c| \|\| ethertype == BEAT|'
    'site.bpf.c|ethertype == site->cyclic;|(site->cyclic ? 0 : 0);'
    'plain.h|*stranger = !found;|*stranger = 1;'
    'plain.h|*stranger = !found;|*stranger = 0;'
    'plain.h|(U32(data) ^ U32(head + 6)) \| (U16(data + 4) ^ U16(head + 10))|(U32(data) ^ U32(head + 6))'
    'plain.h|(U32(data + 30) ^ U32(head + 26))|0'
    'plain.h|(U32(data + 26) ^ U32(head + 30))|0'
    'plain.h|(U64(data + 38 + 8 * i) ^ U64(head + 22 + 8 * i))|0'
    'plain.h|octets < least \|\| |octets < (least & 1) \|\| '
    'plain.h| \|\| octets > site->lan_frame|'
    'plain.h|inner[14] & VERSION \|\| |'
    'plain.h|U16(inner + 12) != MACSEC \|\| |'
    'plain.h|!path->receives \|\| |'
    'plain.h|!(vxlan & VNI_THERE) \|\| |'
    'plain.h|0x00ffffff00000000ull|0x0000ffff00000000ull'
    'plain.h|station->address != address \|\| |'
    'plain.h|station->where != BEHIND + number|station->where < BEHIND'
    'plain.h|station->where != BEHIND + number|station->where == HERE'
    'plain.h|station->heard = now;|'
    'plain.h|if (order->path != path_number) order->path = path_number, order->place = SETTLING, order->began = now;|'
    'plain.h|order->place = SETTLING, order->began = now;|order->place = SETTLING;'
    'plain.h|        note_passed(last, worker, ktime_get_ns());|'
    'plain.h|(len > udp && adjust_tail|(len > udp + 4096 && adjust_tail'
    'site.bpf.c|remove(held, number);|'
)

place=$(mktemp -d)
trap 'rm -r "$place"' EXIT
# Built once; each mutant is another object that they load. Of the whole workspace, whose features are those of make test.
suites=(vectors watch ahead same same_secy express_sc two_cpus link_ahead site)
mapfile -t tests < <(cargo test --locked --workspace "${suites[@]/#/--test=}" --no-run --message-format=json 2>/dev/null |
    jq -r 'select(.executable and (.manifest_path | endswith("/crates/xdp/Cargo.toml"))) | .executable')
((${#tests[@]} == ${#suites[@]})) || {
    echo "mutants: the tests of crates/xdp do not build" >&2
    exit 1
}
export FRAMEWARD_CELL_OBJECT=$place/cell.bpf.o FRAMEWARD_LINK_OBJECT=$place/link.bpf.o FRAMEWARD_VECTORS_OBJECT=$place/vectors.bpf.o
export FRAMEWARD_SITE_OBJECT=$place/site.bpf.o PROPTEST_MAX_SHRINK_ITERS=0

missed=0 found=0
for mutant in "${mutants[@]}"; do
    [[ $mutant == *${1:-}* ]] || continue
    # A bar that belongs to the text has a backslash in front.
    mapfile -t parts < <(sed 's/\\|/\x01/g; s/|/\n/g' <<<"$mutant" | tr '\001' '|')
    file=${parts[0]} from=${parts[1]} to=${parts[2]:-}
    cp crates/xdp/bpf/*.[ch] "$place"
    text=$(<"$place/$file")
    before=${text%%"$from"*}
    [[ $text != "$before" ]] || {
        echo "mutants: $file has no such line: $from" >&2
        exit 1
    }
    printf '%s\n' "$before$to${text#"$before$from"}" >"$place/$file"
    scripts/bpf.sh build "$place" >/dev/null
    : >"$place/log"
    survives=1
    # Of a SecY's programs and SAs the tests of cells know nothing.
    for test in "${tests[@]}"; do
        [[ $file != link.bpf.c && $file != express.h && $file != sa*.h || $test == */same_secy-* || $test == */express_sc-* || $test == */two_cpus-* || $test == */link_ahead-* ]] || continue
        (cd crates/xdp && "$test" >>"$place/log" 2>&1) || {
            survives=0
            break
        }
    done
    if ((survives)); then
        echo "MISSED  $mutant"
        missed=$((missed + 1))
    else
        echo "found   $mutant   by $(sed -nE 's/^    ([a-z0-9_:]+)$/\1/p' "$place/log" | sort -u | head -3 | tr '\n' ' ')"
        found=$((found + 1))
    fi
done
echo "mutants: $found found, $missed missed"
((!missed))
