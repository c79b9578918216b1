//! Apart from the others: the kernel's own macsec, in a kernel that is a process.

use super::figure::{Body, Figure, Table, number};
use super::query::{Query, command};
use crate::evidence::contest::{BENCH, Contestant, FIGURES};
use crate::evidence::document::Document;

/// Its measurements, as a table: no bar of it stands beside the others'.
pub(super) fn figure(document: &Document) -> Figure {
    let mut query = Query::new(document, BENCH);
    let contestant = Contestant::KernelMacsec;
    let mut rows = Vec::new();
    for figure in FIGURES.into_iter().filter(|figure| contestant.has(figure)) {
        if let Some(measured) = query.measured(&format!("{figure}, {}", contestant.name())) {
            let spread = measured.spread.map_or_else(
                || "one round".to_owned(),
                |spread| format!("{} to {}", number(spread.lowest), number(spread.highest)),
            );
            rows.push([figure.to_owned(), number(measured.value), measured.unit.clone(), spread]);
        }
    }
    let nothing = rows.is_empty();
    Figure {
        id: "rivals-kernel-macsec".into(),
        title: "Kernel macsec, in User-Mode Linux".into(),
        caption: "The other implementation of MACsec for Linux: in each box a guest that bridges the LAN to its macsec0, GCM-AES-128, frames in the same namespaces as everybody else's. A kernel in user space: its shape, not its speed. The kernel of these namespaces mostly has no such driver. User-Mode Linux has, but it is a process, without the CPU's instructions for AES, and two such kernels share this machine with sender and receiver. So it stands apart, and is nobody's best rival above. CPU is that of all processes of both guests and of softirqs.".into(),
        units: "as each row says".into(),
        source: "this run; no paper. Interoperability, frame by frame: tests/interop".into(),
        command: command(document, BENCH),
        body: if nothing {
            Body::Nothing
        } else {
            Body::Table(Table::new(["", "median", "unit", "lowest to highest"], rows))
        },
        gaps: query.gaps(),
    }
}
