//! Every table and every figure of the five papers, and where on this page it is: none is forgotten.

use maud::{Markup, html};

/// Whether something of a paper is on the page.
enum Coverage {
    /// In these figures of the page.
    Drawn(&'static [&'static str]),
    /// Not, and why.
    Not(&'static str),
}

use Coverage::{Drawn, Not};

const SKETCH: &str = "a sketch of a network or of devices; it has no numbers";
const FORMAT: &str = "a layout; our frames are described in ARCHITECTURE.md and dissected by tools/";
const COURSE: &str = "the course of an algorithm; it has no numbers";
const OTHERS: &str = "explains somebody else's protocol; it has no numbers of the thesis";

/// A paper and all that it numbers.
struct Paper {
    name: &'static str,
    items: &'static [(&'static str, Coverage)],
}

const PAPERS: [Paper; 5] = [
    Paper {
        name: "Lackorzynski et al., Enabling and Optimizing MACsec for Industrial Environments, 2021",
        items: &[
            ("Figure 1", Not(SKETCH)),
            ("Figure 2", Not(FORMAT)),
            ("Figure 3", Not(COURSE)),
            ("Figure 4", Drawn(&["tii-figure-4a", "tii-figure-4b"])),
            ("Figure 5", Drawn(&["tii-figure-5a", "tii-figure-5b"])),
            ("Figure 6", Drawn(&["tii-figure-6"])),
            ("Table I", Drawn(&["tii-table-1"])),
            ("Table II", Drawn(&["tii-table-2"])),
            ("Table III", Drawn(&["tii-table-3"])),
            ("Table IV", Drawn(&["tii-table-4"])),
        ],
    },
    Paper {
        name: "Huster, Enhancements for MACsec providing transparent Layer-2 encryption, 2018",
        items: &[
            ("Figure 1.1", Not(SKETCH)),
            ("Figure 2.1", Not(OTHERS)),
            ("Figure 2.2", Not(FORMAT)),
            ("Figure 2.3", Not(SKETCH)),
            ("Figure 2.4", Not(FORMAT)),
            ("Figure 2.5", Not(FORMAT)),
            ("Figure 2.6", Not(OTHERS)),
            ("Figure 2.7", Not(OTHERS)),
            ("Figure 2.8", Not(OTHERS)),
            ("Figure 2.9", Not(OTHERS)),
            ("Figure 3.1", Not(COURSE)),
            ("Figure 3.2", Not(FORMAT)),
            ("Figure 4.1", Not(COURSE)),
            ("Figure 4.2", Not(COURSE)),
            ("Figure 4.3", Not(FORMAT)),
            ("Figure 4.4", Not("a structure in C; ours is Rust")),
            ("Figure 4.5", Not("a structure in C; ours is Rust")),
            ("Figure 5.1", Drawn(&["thesis-table-7-1"])),
            ("Figure 5.2", Drawn(&["thesis-table-7-1"])),
            ("Figure 5.3", Drawn(&["thesis-table-7-2"])),
            ("Figure 5.4", Drawn(&["thesis-table-7-3"])),
            ("Figure 5.5", Drawn(&["thesis-figure-5-5"])),
            ("Table 3.1", Drawn(&["thesis-table-3-1"])),
            ("Table 3.2", Drawn(&["thesis-table-3-2"])),
            ("Table 5.1", Drawn(&["thesis-table-5-1"])),
            ("Table 7.1", Drawn(&["thesis-table-7-1"])),
            ("Table 7.2", Drawn(&["thesis-table-7-2"])),
            ("Table 7.3", Drawn(&["thesis-table-7-3"])),
        ],
    },
    Paper {
        name: "Lackorzynski et al., Secure and Efficient Tunneling of MACsec for Modern Industrial Use Cases, 2022",
        items: &[
            ("Figure 1", Not(FORMAT)),
            ("Figure 2", Not(SKETCH)),
            ("Figure 3", Not(FORMAT)),
            ("Figure 4", Not(SKETCH)),
            ("Figure 5", Drawn(&["tunnel-figure-5a", "tunnel-figure-5a-split", "tunnel-figure-5b"])),
            ("Table 1", Drawn(&["tunnel-table-1"])),
            ("Table 2", Drawn(&["tunnel-table-2-latency", "tunnel-table-2-throughput"])),
        ],
    },
    Paper {
        name: "Hiller et al., Secure Low Latency Communication for Constrained Industrial IoT Scenarios, 2018",
        items: &[
            ("Figure 1", Not(COURSE)),
            ("Figure 2", Not(COURSE)),
            ("Figure 3", Not(COURSE)),
            ("Figure 4", Not("two encodings of a message; it has no numbers")),
            ("Figure 5", Drawn(&["iot-figure-5", "iot-figure-5-share"])),
            ("Figure 6", Drawn(&["iot-figure-6"])),
            ("Figure 7", Drawn(&["iot-table-1", "iot-figure-7"])),
            ("Table I", Drawn(&["iot-table-1"])),
        ],
    },
    Paper {
        name: "Skuballa et al., Cryptographic Protection of Cyclic Real-Time Communication in Ethernet-Based Fieldbuses",
        items: &[
            ("Figure 1", Not(COURSE)),
            ("Figure 2", Not("the blocks of a hardware engine; we have none")),
            ("Figure 3", Drawn(&["fieldbus-figure-3"])),
            ("Figure 4", Not("the blocks of a system on an FPGA; we have none")),
            ("Figure 5", Not(SKETCH)),
            ("Table I", Drawn(&["fieldbus-table-1"])),
            ("Table II", Drawn(&["fieldbus-table-2"])),
        ],
    },
];

pub(super) fn markup() -> Markup {
    html! {
        section id="papers" {
            h2 { "The papers, item by item" }
            p.about { "Every table and every figure of the five papers, and where it stands above, or why it does not." }
            @for paper in &PAPERS {
                details {
                    summary { (paper.name) }
                    div.scroll {
                        table {
                            tbody {
                                @for (item, place) in paper.items {
                                    tr {
                                        th scope="row" { (item) }
                                        td {
                                            @match place {
                                                Drawn(ids) => {
                                                    @for (number, id) in ids.iter().enumerate() {
                                                        @if number > 0 { ", " }
                                                        a href={ "#" (id) } { (id) }
                                                    }
                                                }
                                                Not(reason) => { "not drawn: " (reason) }
                                            }
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::evidence::page::tests::empty_figures;

    /// Figures and tables as they are numbered in the papers.
    const COUNTS: [(usize, usize); 5] = [(6, 4), (22, 6), (5, 2), (7, 1), (5, 2)];

    #[test]
    fn no_table_and_no_figure_of_a_paper_is_forgotten() {
        for (paper, (figures, tables)) in PAPERS.iter().zip(COUNTS) {
            let names: BTreeSet<_> = paper.items.iter().map(|(name, _)| *name).collect();
            assert_eq!(names.len(), paper.items.len(), "{}", paper.name);
            let of = |kind: &str| names.iter().filter(|name| name.starts_with(kind)).count();
            assert_eq!((of("Figure "), of("Table ")), (figures, tables), "{}", paper.name);
        }
    }

    #[test]
    fn what_is_said_to_be_drawn_is_on_the_page() {
        let drawn: BTreeSet<String> = empty_figures().into_iter().map(|figure| figure.id).collect();
        let items = PAPERS.iter().flat_map(|paper| paper.items);
        for id in
            items.filter_map(|(_, place)| if let Drawn(ids) = place { Some(*ids) } else { None }).flatten()
        {
            assert!(drawn.contains(*id), "{id} is no figure of the page");
        }
    }
}
