//! An MKPDU that parses is written again to what parses to the same, and to the same octets from then on.

use wire::mkpdu::{
    CapableSuite, Extensions, Mkpdu, MkpduError, ParameterSet, SystemName, TimingEntry, Tlv, TlvWriter, Tlvs,
    Writer,
};

/// Parses `octets` as a frame from its destination address on.
///
/// # Panics
/// If the codec is wrong.
pub fn run(octets: &[u8]) {
    let mkpdu = match Mkpdu::parse(octets) {
        Ok(mkpdu) => mkpdu,
        Err(MkpduError::NotMka(packet_type)) => {
            assert_ne!(packet_type, 5);
            return assert_eq!(packet_type, octets[15]);
        }
        Err(_) => return,
    };
    let body = 18 + usize::from(u16::from_be_bytes([octets[16], octets[17]]));
    assert_eq!([mkpdu.authenticated(), mkpdu.icv()].concat(), octets[..body]);
    assert!(mkpdu.sets().count() <= body / 4);
    mkpdu.sets().for_each(|set| {
        if let ParameterSet::Announcement(tlvs) = set {
            announcement(tlvs);
        }
    });
    let once = written(&mkpdu);
    // A set of a later version loses what it has behind the end that is known.
    assert!(once.len() <= body);
    let again = Mkpdu::parse(&once).expect("what is written is an MKPDU");
    assert_eq!((again.basic, again.icv_indicated), (mkpdu.basic, mkpdu.icv_indicated));
    assert!(again.sets().eq(mkpdu.sets()));
    assert_eq!(written(&again), once);
}

fn written(mkpdu: &Mkpdu<'_>) -> Vec<u8> {
    let mut buffer = vec![0xaa; mkpdu.authenticated().len() + 16];
    let Mkpdu { destination, source, eapol_version, basic, .. } = mkpdu;
    let mut writer =
        Writer::new(&mut buffer, *destination, *source, *eapol_version, basic).expect("it had room");
    mkpdu.sets().for_each(|set| writer.push(&set).expect("it had room"));
    writer.finish(mkpdu.icv_indicated, |_| *mkpdu.icv()).expect("it had room").to_vec()
}

/// An announcement that is read and written again is read in the same way.
fn announcement(tlvs: Tlvs<'_>) {
    let mut buffer = vec![0; 0x1000];
    let mut writer = TlvWriter::new(&mut buffer);
    for tlv in tlvs.iter() {
        match tlv {
            Tlv::CipherSuites(suites) => writer.cipher_suites(suites.iter()),
            Tlv::Extensions(extensions, figures) => writer.extensions(&extensions, figures.iter()),
            Tlv::Name(octets) => match SystemName::new(octets) {
                Ok(name) => {
                    let is_plain = |c: char| c == ' ' || c.is_ascii_graphic() && !"\"'\\".contains(c);
                    assert!(name.as_str().chars().all(is_plain), "{name} is not printable");
                    assert_eq!(name.as_str().trim(), name.as_str());
                    writer.name(&name)
                }
                // What is no name cannot be written as one. Nothing else may begin as this TLV does.
                Err(_) => writer.other(127, &[b"\xf2\x46\x57\x02FWRD", octets].concat()),
            },
            Tlv::Other { kind, value } => writer.other(kind, value),
        }
        .expect("it is no longer than it was");
    }
    assert!(writer.finish().iter().map(Read::of).eq(tlvs.iter().map(Read::of)));
}

/// Contents of a TLV.
#[derive(PartialEq)]
enum Read<'f> {
    CipherSuites(Vec<CapableSuite>),
    Extensions(Extensions, Vec<TimingEntry>),
    Name(&'f [u8]),
    Other(u8, &'f [u8]),
}

impl<'f> Read<'f> {
    fn of(tlv: Tlv<'f>) -> Self {
        match tlv {
            Tlv::CipherSuites(suites) => Self::CipherSuites(suites.iter().collect()),
            Tlv::Extensions(extensions, figures) => Self::Extensions(extensions, figures.iter().collect()),
            Tlv::Name(octets) => Self::Name(octets),
            Tlv::Other { kind, value } => Self::Other(kind, value),
        }
    }
}
