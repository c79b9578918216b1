#!/usr/bin/env bash
# Breaks the protocol crates line by line, and has the models of crates/models find each in their quick depth (those of sessions in
# the deep one), by the property that is named beside it. Half an hour.
#
#   scripts/model_mutants.sh          all of them
#   scripts/model_mutants.sh WORD     those whose line has the word in it
#
# A mutant of crates/mka is shown to the model of the KaY (those of its change of CAKs and of its election to the simulation of links), one of a relation's
# handshake or of a site's session to the model of that, another one of crates/fieldbus or crates/tunnel to the simulation of cells or of
# sites, one of crates/secy or crates/pnstore to that of links, one of a window of sites or of reassembly to the search beside it, one of
# flow numbers to their property, one of crates/fleet to the simulation of fleets, one of crates/control to that of control. The sources
# are changed in a copy, target/model-mutants.
set -euo pipefail
cd "$(dirname "$0")/.."

# property that has to find it | file below crates | what stands there once | what is put in its place
mutants=(
    # The SAK before goes on protecting.
    'two SAKs|mka/src/cp.rs|older.tx = false;|'
    # Nobody waits until all receive.
    'does not accept|mka/src/cp.rs|let go = took_too_long \|\| all_receiving \|\| follows;|let go = true;'
    # All SAKs of a key server have one name.
    'comes twice|mka/src/distribution.rs|self.kn = self.kn.wrapping_add(1).max(1);|self.kn = 1;'
    # SSCIs follow from the order in which peers were heard.
    'comes twice|mka/src/association.rs|scis.sort_unstable_by(\|a, b\| b.cmp(a));|'
    # A SAK is anybody's.
    'elected|mka/src/distributed_sak.rs|let is_ours = principal.server() == ElectedServer::Peer(mi);|let is_ours = true;'
    # All SAKs have one AN.
    'in use goes|mka/src/key_server.rs|*order.iter().chain(&zero).find(free).unwrap_or(&order[0])|*order.iter().chain(&zero).find(free).map_or(&order[0], \|_\| &An::ALL[1])'
    # A SAK protects before the SecY has it.
    'can do|mka/src/cp.rs|phase: Phase::Receive,|phase: Phase::Receiving(station.now() + TRANSMIT_DELAY),'
    # No SecY hears that it is to protect.
    'in time|mka/src/cp.rs|station.request(Event::EnableTransmit(ki));|'
    # No SecY hears that a SAK is over.
    'can do|mka/src/cp.rs|station.request(Event::Retire(sak.ki));|'
    # Nobody is ever lost.
    'can do|mka/src/peers.rs|extract_if(.., \|peer\| now >= peer.expiry())|extract_if(.., \|_\| false)'
    # Who joins is no reason for a SAK.
    'in time|mka/src/key_server.rs|.find(\|peer\| !distribution.members.contains(&peer.mi) && (is_awaited \|\| !is_led(peer)));|.find(\|_\| false);'
    # A peer is lost after its life time, whatever it shows.
    'in time|mka/src/peer.rs|self.shown = now;|'
    # A program that goes on in the place of another one knows no SAK.
    'changes no KaY|mka/src/passed_on.rs|cp: cp.clone(),|cp: Cp::default(),'
    # Handshake of a relation. An offer is used again.
    'entered twice|fieldbus/src/handshake.rs|self.offer = Offer { nonce: nonce(&mut self.drbg), key_id: KeyId(last.0.wrapping_add(KEY_ID_GAP)) };|'
    # A request confirms.
    'has entered|fieldbus/src/handshake.rs|if state == HelloState::Entered {|if state != HelloState::Entered \|\| true {'
    # A frame of the session before confirms the newest.
    'has entered|fieldbus/src/handshake.rs|newest.number != number)|newest.number < number)'
    # Whatever names no nonce of the present is answered with the offer.
    'running session|fieldbus/src/handshake.rs|(None, _, HelloState::Request) =>|(_, _, HelloState::Request) =>'
    # Nobody asks anew.
    'in time|fieldbus/src/handshake.rs|&& !self.asked.is_multiple_of(HELLO_TRIES)|'
    # A session is enabled whenever the peer says so.
    'can do|fieldbus/src/handshake.rs|if core::mem::replace(&mut self.confirmed, true) {|if core::mem::replace(&mut self.confirmed, true) && false {'
    # Sessions of sites. All epochs have one secret.
    'protects twice|tunnel/src/session/transmit_epochs.rs|secret: draw(),|secret: { draw(); EpochSecret::new(&[7; 32]) },'
    # A site is ready before its worker is.
    'before the other sends|tunnel/src/session/handle_message.rs|EpochOffer::UnderWay => {}|EpochOffer::UnderWay => self.due.epoch_ready = Some(epoch),'
    # Each connection voids what is known.
    'the epoch that the other sends|tunnel/src/session/handle_message.rs|is_none_or(\|(known, _)\| known != instance)|is_none_or(\|(known, _)\| known == known)'
    # Answers about flows of the peer's start before count.
    'means one flow|tunnel/src/session.rs|if event.subject() != (self.settings.peer, self.generation)|if !matches!(event, Event::FlowAccepted { .. }) && event.subject() != (self.settings.peer, self.generation)'
    # An epoch that comes again is out of order.
    'at fault|tunnel/src/session/receive_epochs.rs|if epoch == self.newest && epoch != 0 {|if epoch == self.newest && epoch == 0 {'
    # A wish is heeded though it has been met.
    'can do|tunnel/src/session/transmit_epochs.rs|self.wanted \|= self.offered.is_none() && newest == self.newest();|self.wanted \|= newest <= self.newest();'
    # An offer that was lost with its connection is not sent again.
    'in time|tunnel/src/session/transmit_epochs.rs|offered.told_now = false;|offered.told_now \|= false;'
    # Flows that the peer knew at its start before count as known.
    'in time|tunnel/src/session/handle_message.rs|self.peer_flows = PeerFlows::default();|'
    # Flow numbers that come again. A number that comes again means the flow of before.
    'means one flow|tunnel/src/announced_flows.rs|self.slots[usize::from(*slot)] = Some(flow);|self.slots[usize::from(*slot)].get_or_insert(flow);'
    # An answer about the flow of before is taken for one about its number.
    'means one flow|tunnel/src/session/announcements.rs|self.announcing.get(&index).filter(\|(wanted, _)\| *wanted == flow)|self.announcing.get(&index).filter(\|(wanted, _)\| *wanted == flow \|\| true)'
    # An acknowledgement that was held back is about whatever flow has the number by now.
    'means one flow|tunnel/src/flows.rs|known.is_some_and(\|request\| request != given.request)|known.is_some_and(\|request\| request != given.request && false)'
    # So is an answer of the forwarding half.
    'means one flow|tunnel/src/session/peer_flows.rs|is_some_and(\|asked\| asked.request == request)|is_some_and(\|asked\| asked.request == request \|\| true)'
    # A request whose number has another flow by now counts as answered.
    'at fault|tunnel/src/session/announcements.rs|self.again.remove(&index);|self.again.remove(&index); self.in_flight.remove(&index);'
    # Identifier window. An anchor that was used enters with the window.
    'accepted twice|tunnel/src/window.rs|if anchor < self.anchors_high {|if anchor >= u64::MAX - self.anchors_high {'
    # What an anchor has jumped over is filled twice.
    'accepted twice|tunnel/src/window.rs|self.gap.end -= 1;|self.gap.end -= u64::from(self.gap.end > self.gap_start() + 1);'
    # A position has the window end where it was.
    'comes next|tunnel/src/window.rs|if self.high <= self.newest + self.width {|if self.high < self.newest + self.width {'
    # What is older than W/2 is taken.
    'older than|tunnel/src/window.rs|seq + self.half() < self.newest|seq + self.width < self.newest'
    # A late packet moves the window back.
    'goes back|tunnel/src/window.rs|self.newest = self.newest.max(seq);|self.newest = seq;'
    # Window of header encryption. Each PN of a block makes the others new.
    'stays so|tunnel/src/header_encryption/window.rs|self.bits[self.slot(place)] \|= kind.bits() << shift(pn);|self.bits[self.slot(place)] = kind.bits() << shift(pn);'
    # A frame that came in fragments comes whole, too.
    'stays so|tunnel/src/header_encryption/window.rs|Self::Whole => 0b11,|Self::Whole => 0b01,'
    # The lowest block is not found.
    'accepted twice|tunnel/src/header_encryption/window.rs|let (mut low, mut high) = (0, len - 1);|let (mut low, mut high) = (1, len - 1);'
    # The lowest block stays, and the highest goes.
    'stays so|tunnel/src/header_encryption/window.rs|self.head = (self.head + 1) % BLOCKS as u8;|'
    # A block evicts another one though there is room.
    'stays so|tunnel/src/header_encryption/window.rs|if self.len() == BLOCKS {|if self.len() == BLOCKS \|\| place == self.len() && place > 8 {'
    # A sender sends a PN again.
    'accepted twice|tunnel/src/header_encryption/window.rs|return freshness;|return Freshness::New;'
    # Reassembly. Whose SDU it is does not matter.
    'join|secy/src/reassemble.rs|other.addresses == fragment.addresses && towards.answers(other)|towards.answers(other)'
    # A neighbour need not say that it has one.
    'join|secy/src/reassemble.rs|other.addresses == fragment.addresses && towards.answers(other)|other.addresses == fragment.addresses'
    # Parts with addresses inside join others.
    'join|secy/src/reassemble.rs|is_alike && other.addresses|other.addresses'
    # All SAs have the same PNs.
    'join|secy/src/reassemble.rs|held.fragment.an == an && held.fragment.pn == pn|held.fragment.pn == pn'
    # What lies behind stays after it was delivered.
    'delivered twice|secy/src/reassemble.rs|let used = before.contains(&index) \|\| behind.contains(&index);|let used = before.contains(&index);'
    # Any SDU fits.
    'too long|secy/src/sdu_buffer.rs|octets > SDU_OCTETS \|\| full|full'
    # Octets of another fragment are a fragment's.
    'delivered twice|secy/src/reassemble.rs|octets.copy_within(held.octets.clone(), end);|'
    # All go but the oldest.
    'oldest goes|secy/src/reassemble.rs|self.retain(\|_\| !core::mem::take(&mut first));|self.retain(\|_\| core::mem::take(&mut first));'
    # Memory has no end.
    'oldest goes|secy/src/reassemble.rs|while self.held.is_full() \|\| self.octets.len() + octets.len() > self.octets.capacity() {|while self.held.is_full() {'
    # Simulation of links. PNs do not go on.
    'nonce comes twice|secy/src/transmit_pns.rs|self.next = if pn == self.last { None } else { pn.number().checked_add(1).and_then(Pn::new) };|'
    # Without an SA frames pass as they are.
    'plaintext|secy/src/transmit.rs|(true, _, _) => TransmitDiscard::NoSa,|(true, _, _) => return Ok(Protected(())),'
    # A wrong ICV is right.
    'only what was sent|secy/src/receive.rs|if !open.authentic {|if !open.authentic && open.pn.number() == 0 {'
    # Duplicates inside the replay window are fresh.
    'delivered twice|secy/src/replay_window.rs|} else if self.blocks[self.block(pn)] & bit(pn) != 0 {|} else if self.blocks[self.block(pn)] & bit(pn) > bit(pn) {'
    # A retired SA stays.
    'can do|secy/src/table.rs|let sa = self.transmit[an.index()].take()?;|let sa = self.transmit[an.index()].take_if(\|_\| false)?;'
    # A SecY that goes on in the place of another one has no marks in its replay windows.
    'delivered twice|secy/src/replay_window.rs|self.blocks.copy_from_slice(blocks);|let _ = blocks;'
    # Another CAK waits for the next start.
    'can do|mka/src/kay.rs|self.participants.configure(&mut self.station, caks);|drop(caks);'
    # Two groups that were parted keep a key server each.
    'outages heal|mka/src/election.rs|let beats = \|peer: &Peer\| me.is_available() && (me.priority, me.sci) < (peer.priority, peer.sci);|let beats = \|peer: &Peer\| me.is_available() && (before == ElectedServer::Me \|\| (me.priority, me.sci) < (peer.priority, peer.sci));'
    # Leases and floors of static keys. A block is used that is not on disk.
    'nonce comes twice|pnstore/src/store.rs|next.ends.insert(name.0, end.number());|next.ends.insert(name.0, first.number());'
    # The last PN is given back, too.
    'nonce comes twice|pnstore/src/store.rs|let used = (next.number() - 1).max(1);|let used = next.number().saturating_sub(2).max(1);'
    # State of any age is good.
    'nonce comes twice|pnstore/src/store.rs|age > *max_age|age > Duration::MAX.max(*max_age)'
    # The file's new name is not synced.
    'nonce comes twice|pnstore/src/disk.rs|disk.rename(&next, name)?;|disk.rename(&next, name)?; if !name.is_empty() { return Ok(()); }'
    # A sync that failed is none.
    'nonce comes twice|pnstore/src/disk.rs|disk.sync_directory()|disk.sync_directory().or(Ok(()))'
    # Floors do not rise.
    'delivered twice|pnstore/src/store.rs|known.insert(name.0, lowest.number());|known.insert(name.0, 1);'
    # A file is overwritten in place.
    'outlives a crash|pnstore/src/disk.rs|disk.write_synced(&next, octets)?;|disk.write_synced(name, octets)?; disk.write_synced(&next, octets)?;'
    # Another SA protects only where none did.
    'outages heal|secy/src/table.rs|self.encoding_sa = Some(an);|self.encoding_sa = self.encoding_sa.or(Some(an));'
    # Simulation of control. An SA that is retired stays in the worker.
    'can do|control/src/sa_table.rs|self.changes.list.push(SaChange::Retire { an, out: Box::default() });|'
    # Nobody hears that a SAK is installed.
    'outages heal|control/src/key_agreement.rs|self.report(changes.reports, around);|drop(changes.reports);'
    # Simulation of cells. A Seq is taken twice.
    'nonce comes twice|fieldbus/src/keys.rs|transmit.next_seq = seq.next();|'
    # All later epochs have the key of the second.
    'nonce comes twice|fieldbus/src/handshake/nonce_pair.rs|nonces, protection, epoch }|nonces, protection, epoch: epoch.min(1) }'
    # A verified frame moves nothing.
    'delivered twice|fieldbus/src/keys.rs|receiver.newest = seq.number();|'
    # A program that goes on in the place of another one begins its epoch anew, or takes what has come before.
    'nonce comes twice|fieldbus/src/keys/passed_on.rs|next_seq: transmit.next_seq.map_or(0, Seq::number),|next_seq: transmit.next_seq.map_or(0, \|_\| 1),'
    'delivered twice|fieldbus/src/keys/passed_on.rs|newest: receive.newest,|newest: 0,'
    # A wrong ICV is right.
    'only what was sent|fieldbus/src/receive.rs|if !authentic {|if !authentic && open.payload == 0 {'
    # Simulation of sites. A seq is taken twice, now and then.
    'nonce comes twice|tunnel/src/lane.rs|self.next_seq += 1;|self.next_seq += u64::from(seq % 64 != 0 \|\| self.epoch % 2 == 0);'
    # Copies are no duplicates.
    'delivered twice|tunnel/src/forwarding/handle_packet.rs|if used && let Some|if used && packet.is_empty() && let Some'
    # The AN is lost on the way: seen where keys roll, since those of stations have AN 0.
    'only what was sent|wire/src/tunnel/header.rs|form << 4 \| self.fields.tci_low & 0x0f,|form << 4 \| self.fields.tci_low & 0x0c,'
    # An SCI is its sender's: seen where a site protects for its machines.
    'only what was sent|wire/src/tunnel/frame.rs|out[20..28].copy_from_slice(&self.flow.sci.octets());|out[20..28].copy_from_slice(&crate::Sci::new(self.flow.source, 1).octets());'
    # A flow that is told to the peer is not masked.
    'plaintext|tunnel/src/identifier/outward.rs|.map(\|(octet, mask)\| octet ^ mask)|.map(\|(octet, mask)\| octet ^ (mask & 0))'
    # Simulation of fleets. Old records are accepted.
    'nothing older|fleet/src/accept.rs|Some(reached) if version < reached.version => {|Some(reached) if version.saturating_add(1_000_000) < reached.version => {'
    # What was taken back is forgotten.
    'stays away|fleet/src/install.rs|self.write(TAKEN_BACK, &format!("{}\n", trial.version))|self.write(TAKEN_BACK, &format!("{}\n", trial.before))'
    # Taking back leads to the same version.
    'taking back leads|fleet/src/install.rs|.and_then(\|()\| self.lead_to(trial.before))|.and_then(\|()\| self.lead_to(trial.version))'
)

copy=target/model-mutants
# Not the target of the sources themselves: cargo takes a mutant there for theirs.
built=target/model-mutants-built
rm -rf "$copy"
mkdir -p "$copy"
git ls-files -z --cached --others --exclude-standard Cargo.toml Cargo.lock rust-toolchain.toml .cargo crates testkit bench tests |
    xargs -0 cp --parents -t "$copy"
missed=0 found=0
for mutant in "${mutants[@]}"; do
    [[ $mutant == *${1:-}* ]] || continue
    # A bar that belongs to the text has a backslash in front.
    mapfile -t parts < <(sed 's/\\|/\x01/g; s/|/\n/g' <<<"$mutant" | tr '\001' '|')
    property=${parts[0]} file=crates/${parts[1]} from=${parts[2]} to=${parts[3]:-}
    text=$(<"$file")
    before=${text%%"$from"*}
    [[ $text != "$before" && ${text#*"$from"} != *"$from"* ]] || {
        echo "mutants: not once in $file: $from" >&2
        exit 1
    }
    printf '%s\n' "$before$to${text#"$before$from"}" >"$copy/$file"
    depth=quick of=
    case ${parts[1]} in
    tunnel/src/window.rs) search=(frameward-tunnel --lib window::exhaustive) ;;
    tunnel/src/announced_flows.rs | tunnel/src/flows.rs | tunnel/src/session/announcements.rs | tunnel/src/session/peer_flows.rs) search=(frameward-tunnel --test renumbered) ;;
    tunnel/src/header_encryption/window.rs) search=(frameward-tunnel --lib header_encryption::window::exhaustive) ;;
    secy/src/reassemble.rs | secy/src/sdu_buffer.rs) search=(frameward-secy --lib reassemble::exhaustive) ;;
    fieldbus/src/handshake.rs) search=(frameward-models --test handshake) ;;
    fieldbus/*) search=(frameward-models --test simulation) of=cells ;;
    tunnel/src/session/* | tunnel/src/session.rs) search=(frameward-models --test session) depth=deep ;;
    control/*) search=(frameward-control --lib key_agreement::simulation) ;;
    fleet/*) search=(frameward-fleet --test agents) ;;
    tunnel/* | wire/src/tunnel/*) search=(frameward-models --test simulation) of=sites ;;
    secy/* | pnstore/* | mka/src/kay.rs | mka/src/election.rs) search=(frameward-models --test simulation) of=links ;;
    *) search=(frameward-models --test kay) ;;
    esac
    test=(cargo test --manifest-path "$copy/Cargo.toml" --target-dir "$built" --locked -p "${search[@]}")
    "${test[@]}" --no-run >"$copy/log" 2>&1 || {
        cat "$copy/log"
        echo "mutants: does not build: $mutant" >&2
        exit 1
    }
    FRAMEWARD_MODELS=$depth timeout 600 "${test[@]}" -- --nocapture $of >"$copy/log" 2>&1 || true
    by=$(sed -nE 's/^.*NOT SO: ([^:]+):.*/\1/p' "$copy/log" | sort -u)
    if [[ $by == *"$property"* ]]; then
        echo "found   $mutant   by: $(paste -sd, - <<<"$by")"
        found=$((found + 1))
    else
        echo "MISSED  $mutant   by: $(paste -sd, - <<<"$by")"
        missed=$((missed + 1))
    fi
    cp "$file" "$copy/$file"
done
echo "mutants: $found found, $missed missed"
((!missed))
