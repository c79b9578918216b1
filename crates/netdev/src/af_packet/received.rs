//! One place of the receive ring: a frame as the kernel left it there, and what has to be put right.
//!
//! ```text
//!  tpacket2_hdr 32 | ... | virtio_net_hdr 10 | frame, its outermost VLAN tag taken out
//!                          tp_mac - 10         tp_mac
//!
//!  tpacket2_hdr:    status 4 | len 4 | snaplen 4 | mac 2 | net 2 | sec 4 | nsec 4 | VLAN TCI 2 | VLAN TPID 2 | 4
//!  virtio_net_hdr:  flags 1 | gso_type 1 | hdr_len 2 | gso_size 2 | csum_start 2 | csum_offset 2
//! ```
//! All in host byte order.

use std::time::Duration;

use crate::port::{ETHERNET_HEADER, VLAN_TAG};

const VIRTIO_HEADER: usize = 10;
const VIRTIO_NEEDS_CHECKSUM: u8 = 1;

/// A frame in its place of the ring.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Received<'r> {
    /// From the destination address on, without the outermost VLAN tag.
    octets: &'r [u8],
    /// The outermost tag, as it stood on the wire.
    tag: Option<[u8; VLAN_TAG]>,
    /// The place was too small for it.
    pub(super) cut: bool,
    /// Of several frames, merged or not yet cut apart.
    pub(super) super_frame: bool,
    /// Offset at which the checksum begins to count, and its own offset from there.
    checksum: Option<(usize, usize)>,
    /// Moment at which the kernel got it, since 1970: seconds and nanoseconds.
    time: (u32, u32),
}

impl<'r> Received<'r> {
    /// Reads a place of the ring (`struct tpacket2_hdr`, host byte order). None if its lengths lead out of it.
    ///
    /// ```text
    ///  0 status 4 | 4 len 4 | 8 snaplen 4 | 12 mac 2 | 14 net 2 | 16 sec 4 | 20 nsec 4 | 24 TCI 2 | 26 TPID 2
    /// ```
    pub(super) fn parse(place: &'r [u8], flags: u32) -> Option<Self> {
        let half = |at: usize| place.get(at..at + 2)?.try_into().ok().map(u16::from_ne_bytes);
        let word = |at: usize| place.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes);
        let (len, captured, start) = (word(4)?, word(8)?, usize::from(half(12)?));
        let octets = place.get(start..start.checked_add(captured as usize)?)?;
        let header = place.get(start.checked_sub(VIRTIO_HEADER)?..start)?;
        let tag = (flags & libc::TP_STATUS_VLAN_VALID != 0).then(|| {
            // Without TPID_VALID (before Linux 3.13) it was always an 802.1Q tag.
            let tpid = if flags & libc::TP_STATUS_VLAN_TPID_VALID != 0 { half(26) } else { None };
            let [a, b] = tpid.unwrap_or(libc::ETH_P_8021Q as u16).to_be_bytes();
            let [c, d] = half(24).unwrap_or(0).to_be_bytes();
            [a, b, c, d]
        });
        let from_header = |at: usize| usize::from(u16::from_ne_bytes([header[at], header[at + 1]]));
        Some(Self {
            octets,
            tag,
            cut: captured < len,
            super_frame: header[1] != 0,
            checksum: (header[0] & VIRTIO_NEEDS_CHECKSUM != 0).then(|| (from_header(6), from_header(8))),
            time: (word(16)?, word(20)?),
        })
    }

    /// Moment at which the kernel got it, since 1970.
    pub(super) fn time(&self) -> Duration {
        let (seconds, nanoseconds) = self.time;
        Duration::from_secs(seconds.into()) + Duration::from_nanos(nanoseconds.into())
    }

    /// Octets of the frame as it would have stood on a wire.
    pub(super) fn len(&self) -> usize {
        self.octets.len() + if self.tag.is_some() { VLAN_TAG } else { 0 }
    }

    /// Writes the frame as it would have stood on a wire. `frame` is as long as [`Self::len`]. Says
    /// whether a checksum had to be completed.
    pub(super) fn write(&self, frame: &mut [u8]) -> bool {
        let Some(tag) = self.tag else {
            frame.copy_from_slice(self.octets);
            return self.complete_checksum(frame, 0);
        };
        let (addresses, rest) = self.octets.split_at(ETHERNET_HEADER - 2);
        frame[..12].copy_from_slice(addresses);
        frame[12..16].copy_from_slice(&tag);
        frame[16..].copy_from_slice(rest);
        self.complete_checksum(frame, VLAN_TAG)
    }

    fn complete_checksum(&self, frame: &mut [u8], shift: usize) -> bool {
        let Some((start, offset)) = self.checksum else { return false };
        let Some(counted) = frame.get_mut(start + shift..) else { return false };
        if offset + 2 > counted.len() {
            return false;
        }
        let sum = internet_checksum(counted);
        counted[offset..offset + 2].copy_from_slice(&sum.to_be_bytes());
        true
    }
}

/// The Internet checksum (RFC 1071) over octets in which the pseudo-header's sum already stands in the checksum's
/// place. Never 0, which in UDP means none.
fn internet_checksum(octets: &[u8]) -> u16 {
    let mut sum: u64 = 0;
    for pair in octets.chunks(2) {
        sum += u64::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    match !(sum as u16) {
        0 => 0xffff,
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: usize = 76;

    /// A place of the ring with a frame in it.
    fn place(frame: &[u8], len: u32, tag: (u16, u16), header: [u8; VIRTIO_HEADER]) -> Vec<u8> {
        let mut octets = vec![0; 2048];
        octets[4..8].copy_from_slice(&len.to_ne_bytes());
        octets[8..12].copy_from_slice(&(frame.len() as u32).to_ne_bytes());
        octets[12..14].copy_from_slice(&(START as u16).to_ne_bytes());
        octets[24..26].copy_from_slice(&tag.0.to_ne_bytes());
        octets[26..28].copy_from_slice(&tag.1.to_ne_bytes());
        octets[START - VIRTIO_HEADER..START].copy_from_slice(&header);
        octets[START..START + frame.len()].copy_from_slice(frame);
        octets
    }

    fn written(received: &Received<'_>) -> (Vec<u8>, bool) {
        let mut frame = vec![0; received.len()];
        let completed = received.write(&mut frame);
        (frame, completed)
    }

    #[test]
    fn a_vlan_tag_is_put_back() {
        let frame: Vec<u8> = (0..60).collect();
        let valid = libc::TP_STATUS_USER | libc::TP_STATUS_VLAN_VALID;
        let with_type = valid | libc::TP_STATUS_VLAN_TPID_VALID;
        for (flags, tag) in [
            (libc::TP_STATUS_USER, None),
            (valid, Some([0x81, 0x00, 0xc0, 0x05])),
            (with_type, Some([0x88, 0xa8, 0xc0, 0x05])),
        ] {
            let place = place(&frame, 60, (0xc005, 0x88a8), [0; VIRTIO_HEADER]);
            let received = Received::parse(&place, flags).unwrap();
            let mut expected = frame.clone();
            expected.splice(12..12, tag.into_iter().flatten());
            assert_eq!(written(&received), (expected, false));
        }
    }

    #[test]
    fn the_time_is_the_kernels() {
        let mut place = place(&[0; 60], 60, (0, 0), [0; VIRTIO_HEADER]);
        place[16..20].copy_from_slice(&1_700_000_000_u32.to_ne_bytes());
        place[20..24].copy_from_slice(&31_250_u32.to_ne_bytes());
        let time = Received::parse(&place, libc::TP_STATUS_USER).unwrap().time();
        assert_eq!(time, Duration::from_nanos(1_700_000_000_000_031_250));
    }

    #[test]
    fn an_unfilled_checksum_is_completed_also_behind_a_tag() {
        // A UDP datagram of 4 octets over IPv4, 10.0.0.1:1 to 10.0.0.2:2; the checksum's place holds the sum of the
        // pseudo-header (addresses, protocol 17, length 12), as the kernel leaves it.
        let mut frame = vec![0; 14 + 20];
        let pseudo: u16 = 0x0a00 + 0x0001 + 0x0a00 + 0x0002 + 17 + 12;
        frame.extend([0, 1, 0, 2, 0, 12]);
        frame.extend(pseudo.to_be_bytes());
        frame.extend([0xde, 0xad, 0xbe, 0xef]);
        let sum = !(u32::from(pseudo) + 1 + 2 + 12 + 0xdead + 0xbeef);
        let expected = (sum as u16).wrapping_sub(1); // one carry, complemented
        let mut header = [0; VIRTIO_HEADER];
        header[0] = VIRTIO_NEEDS_CHECKSUM;
        header[6..8].copy_from_slice(&34u16.to_ne_bytes());
        header[8..10].copy_from_slice(&6u16.to_ne_bytes());
        let place = place(&frame, frame.len() as u32, (5, 0x8100), header);
        for (flags, shift) in
            [(libc::TP_STATUS_USER, 0), (libc::TP_STATUS_USER | libc::TP_STATUS_VLAN_VALID, VLAN_TAG)]
        {
            let (frame, completed) = written(&Received::parse(&place, flags).unwrap());
            assert!(completed);
            assert_eq!(frame[40 + shift..42 + shift], expected.to_be_bytes());
        }
    }

    #[test]
    fn a_checksum_beyond_the_frame_is_left_alone() {
        let frame = [0; 60];
        for (start, offset) in [(60u16, 0u16), (61, 0), (59, 0), (34, 25), (0xffff, 0xffff)] {
            let mut header = [0; VIRTIO_HEADER];
            header[0] = VIRTIO_NEEDS_CHECKSUM;
            header[6..8].copy_from_slice(&start.to_ne_bytes());
            header[8..10].copy_from_slice(&offset.to_ne_bytes());
            let place = place(&frame, 60, (0, 0), header);
            let received = Received::parse(&place, libc::TP_STATUS_USER).unwrap();
            assert_eq!(written(&received), (frame.to_vec(), false), "{start} {offset}");
        }
    }

    #[test]
    fn checksums_of_odd_length_and_of_nothing() {
        for (octets, sum) in [
            (&[][..], 0xffff),
            (&[0, 0], 0xffff),
            (&[0xff, 0xff], 0xffff),
            (&[0x12], !0x1200),
            (&[0x12, 0x34, 0x56], !(0x1234 + 0x5600)),
            (&[0xff, 0xff, 0x00, 0x01], !1),
        ] {
            assert_eq!(internet_checksum(octets), sum, "{octets:x?}");
        }
    }

    #[test]
    fn cut_super_and_impossible_frames_are_told() {
        let frame = [0; 60];
        assert!(Received::parse(&place(&frame, 61, (0, 0), [0; 10]), 1).unwrap().cut);
        let mut header = [0; VIRTIO_HEADER];
        header[1] = 1;
        assert!(Received::parse(&place(&frame, 60, (0, 0), header), 1).unwrap().super_frame);
        let mut beyond = place(&frame, 60, (0, 0), [0; 10]);
        beyond[8..12].copy_from_slice(&u32::MAX.to_ne_bytes());
        assert_eq!(Received::parse(&beyond, 1), None);
        beyond[8..12].copy_from_slice(&60u32.to_ne_bytes());
        for start in [0u16, 9, 2000, u16::MAX] {
            beyond[12..14].copy_from_slice(&start.to_ne_bytes());
            assert_eq!(Received::parse(&beyond, 1), None, "{start}");
        }
        for cut in 0..START {
            assert_eq!(Received::parse(&place(&frame, 60, (0, 0), [0; 10])[..cut], 1), None, "{cut}");
        }
    }
}
