//! Forms in which a SecTAG names its SC and SA, and VLAN tags in front of it.

use secy::ClearVlan;
use wire::Sci;

use super::super::craft::{C, Craft, E, ES, SC, SCB, V};
use super::super::kernel::OUR_MAC;
use super::{RECEIVER, Receiver, differ, judge, same};

const SILENT: &str = "the kernel discards it without counting it";
const SCB_PORT: &str = "the kernel does not know SCB: it takes ES and SCB for ES, and SCB alone for no SCI; the broadcast \
                        channel's SCI has port 0 (clause 9.5)";
const VLAN: &str = "the tag is not authenticated, and the kernel puts it back into what it delivers: who can send to its \
                    wire chooses the VLAN of a frame. Ours refuses the frame, or delivers it without the tag";
const TWO: &str = "the kernel looks behind one tag alone, and sees no SecTAG";

fn bits(bits: &[u8]) -> Vec<Craft> {
    bits.iter().zip(1..).map(|(&bits, pn)| Craft::new(100, pn).bits(bits)).collect()
}

fn one() -> Craft {
    Craft::new(100, 1)
}

#[test]
fn channels() {
    let alone = Receiver { second_sc: false, ..RECEIVER };
    let idle = Receiver { in_use: false, ..RECEIVER };
    let port_0 = Sci::new(OUR_MAC, 0);
    judge(vec![
        same("SC, ES", RECEIVER, bits(&[SC | E | C, ES | E | C]), "++ OK 2"),
        same("no SCI, and one receive SC", alone, bits(&[E | C, 0]), "++ OK 2"),
        differ("no SCI, and two receive SCs", RECEIVER, bits(&[E | C, 0]), ["--", "-- NoSAError 2"], SILENT),
        differ(
            "SCB: the broadcast channel of an EPON",
            RECEIVER,
            bits(&[SCB | E | C, ES | SCB | E | C]).into_iter().map(|craft| craft.sci(port_0)).collect(),
            ["-- NotValid 1", "-- NoSAError 2"],
            SCB_PORT,
        ),
        differ(
            "SCB, and one receive SC",
            alone,
            bits(&[SCB | E | C, ES | SCB | E | C]),
            ["++ OK 2", "-- NoSAError 2"],
            SCB_PORT,
        ),
        same(
            "SC with ES or SCB",
            RECEIVER,
            bits(&[SC | ES | E | C, SC | SCB | E | C, SC | ES | SCB | E | C]),
            "-{3} BadTag 3",
        ),
        same("version 1", RECEIVER, bits(&[V | SC | E | C, V | SC]), "-- BadTag 2"),
        same("E and C", RECEIVER, bits(&[SC | E | C, SC]), "++ OK 2"),
        same("C without E", RECEIVER, bits(&[SC | C]), "+ OK 1"),
        differ("E without C", RECEIVER, bits(&[SC | E]), ["-", "- BadTag 1"], SILENT),
        same(
            "another SC",
            RECEIVER,
            vec![one().sci(port_0), one().sci(Sci::new(OUR_MAC, 2))],
            "-- NoSAError 2",
        ),
        same("an SC without SA", RECEIVER, vec![one().sci(super::SECOND)], "- NoSAError 1"),
        same("an AN without SA", RECEIVER, (1..4).map(|an| one().an(an)).collect(), "-{3} NoSAError 3"),
        same("an SA that is not in use", idle, vec![one()], "- NoSAError 1"),
        differ(
            "a VLAN tag in clear",
            RECEIVER,
            vec![one().tagged(&[0x81, 0, 0x60, 5])],
            ["~ OK 1", "- ClearVlan 1"],
            VLAN,
        ),
        differ(
            "a VLAN tag in clear, stripped",
            Receiver { clear_vlan: ClearVlan::Strip, ..RECEIVER },
            vec![one().tagged(&[0x81, 0, 0x60, 5])],
            ["~ OK 1", "+ OK 1"],
            VLAN,
        ),
        differ(
            "two VLAN tags in clear",
            RECEIVER,
            vec![one().tagged(&[0x88, 0xa8, 0, 5, 0x81, 0, 0, 6])],
            ["- NoTag 1", "- ClearVlan 1"],
            TWO,
        ),
        differ(
            "two VLAN tags in clear, stripped",
            Receiver { clear_vlan: ClearVlan::Strip, ..RECEIVER },
            vec![one().tagged(&[0x88, 0xa8, 0, 5, 0x81, 0, 0, 6])],
            ["- NoTag 1", "+ OK 1"],
            TWO,
        ),
    ]);
}
