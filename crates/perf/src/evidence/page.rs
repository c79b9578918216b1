//! `index.html`: what a run has measured, as one page that a person looks at.
//!
//! It is self-contained: styles and plots are inside, and it has no script. Plots are drawn for two widths, of which the
//! style sheet shows one, so that letters are as large on a telephone as on a desk.

mod antedate;
mod bars;
mod everything;
mod fieldbus;
mod figure;
mod fleet;
mod in_kernel;
mod iot;
mod kernel;
mod lines;
mod overload;
mod papers;
mod query;
mod rivals;
mod scaling;
mod style;
mod summary;
mod thesis;
mod tii;
mod tunnels;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use self::figure::{Figure, number};
use crate::evidence::document::Document;
use crate::evidence::quietness::{INTERRUPTED, STOLEN};

const STYLE: &str = include_str!("page/style.css");

/// A part of the page.
struct Section {
    id: &'static str,
    title: &'static str,
    about: &'static str,
    figures: Vec<Figure>,
}

/// The whole page.
pub fn render(document: &Document) -> String {
    let sections = sections(document);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "Frameward: evidence" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                (head(document))
                nav aria-label="sections" {
                    @for section in &sections { a href={ "#" (section.id) } { (section.title) } }
                    a href="#papers" { "The papers" }
                    a href="#everything" { "Every figure" }
                }
                main {
                    @for section in &sections {
                        section id=(section.id) {
                            h2 { (section.title) }
                            p.about { (section.about) }
                            @for figure in &section.figures { (figure.markup()) }
                        }
                    }
                    (papers::markup())
                    (everything::markup(document))
                }
                (foot(document))
            }
        }
    };
    page.into_string()
}

fn sections(document: &Document) -> Vec<Section> {
    vec![
        Section {
            id: "rivals",
            title: "Beside the others",
            about: "Each stands in the same two boxes of the same network, one after the other, round by round, with its fastest authenticated cipher and an MTU at which nobody fragments.",
            figures: rivals::figures(document),
        },
        Section {
            id: "overload",
            title: "Too many frames",
            about: "What arrives of up to ten times the frames that there is room for, one way and both ways at once.",
            figures: overload::figures(document),
        },
        Section {
            id: "tii",
            title: "MACsec for industry",
            about: "FragmentConfig frames for legacy networks, and other ciphers: the tables and figures of Lackorzynski et al., 2021, redrawn.",
            figures: tii::figures(document),
        },
        Section {
            id: "thesis",
            title: "FragmentConfig frames",
            about: "The same in more detail: the tables and figures of Huster's thesis, 2018.",
            figures: thesis::figures(document),
        },
        Section {
            id: "tunnels",
            title: "Tunnels",
            about: "MACsec frames between sites without what their headers tell: Lackorzynski et al., 2022.",
            figures: tunnels::figures(document),
        },
        Section {
            id: "iot",
            title: "Before the data is there",
            about: "Antedated encryption and templates for small devices: Hiller et al., 2018.",
            figures: iot::figures(document),
        },
        Section {
            id: "fieldbus",
            title: "Fieldbus",
            about: "Cyclic frames of a hundred octets, each relation with a key of its own: Skuballa et al.",
            figures: fieldbus::figures(document),
        },
        Section {
            id: "kernel",
            title: "In the kernel",
            about: "Frames that stay in the kernel, protected by XDP programs, beside the same through user space, a bridge, and a program that only forwards.",
            figures: in_kernel::figures(document),
        },
        Section {
            id: "scaling",
            title: "More of everything",
            about: "Throughput over the number of what there is, beside what it would be if nothing were lost.",
            figures: scaling::figures(document),
        },
        Section {
            id: "fleet",
            title: "Fleet",
            about: "Agents of 100 to 5,000 gateways and one etcd with TLS: how soon all have their versions, what a revocation takes, and what a fleet costs at rest.",
            figures: fleet::figures(document),
        },
    ]
}

fn head(document: &Document) -> Markup {
    let machine = &document.machine;
    let measured: f64 = document.steps.iter().map(|step| step.seconds).sum();
    html! {
        header {
            p.mark { "Frameward" }
            h1 { "Evidence" }
            p.lead {
                "Frameward encrypts Ethernet for machines that cannot do it themselves: two boxes in the cable, MACsec between them. "
                "This is what one machine has measured of it, beside what stands in its place elsewhere, and beside the five papers "
                "that it makes real."
            }
            (summary::markup(document))
            @if document.effort == "quick" {
                p.warning {
                    strong { "A quick run. " }
                    "It shows that everything runs. Its figures come of single short rounds and prove nothing; "
                    code { "make bench" } " makes figures."
                }
            }
            dl.run {
                dt { "Machine" } dd { (machine.cpu) ", " (machine.cpus) " CPUs, " (machine.architecture) ", " (machine.memory_mib) " MiB" }
                dt { "System" } dd { (machine.system) ", Linux " (machine.kernel) }
                dt { "Commit" } dd { code { (document.commit) } }
                dt { "Run" } dd { (document.effort) ", ended " (document.ended) ", " (number((measured / 60.0).round())) " minutes of measuring" }
                dt { "Programs" } dd {
                    @for (position, (name, version)) in document.programs.iter().enumerate() {
                        @if position > 0 { "; " }
                        @if version.to_lowercase().contains(&name.to_lowercase()) { (version) } @else { (name) " " (version) }
                    }
                }
            }
            (gaps(document))
            (noise(document))
        }
    }
}

/// All that this run has not measured, in one place.
fn gaps(document: &Document) -> Markup {
    let gaps: Vec<_> =
        document.steps.iter().filter_map(|step| Some((&step.name, step.gap.as_ref()?))).collect();
    html! {
        @if gaps.is_empty() {
            p.complete { "No step of this run is missing. Whether targets were met stands beside each." }
        } @else {
            details.gaps open {
                summary { (gaps.len()) " of " (document.steps.len()) " steps left a gap" }
                ul { @for (name, gap) in gaps { li { strong { (name) } ": " (gap) } } }
            }
        }
    }
}

/// Share of the machine that others took meanwhile, for each step where it was much.
fn noise(document: &Document) -> Markup {
    let told: Vec<_> =
        document.steps.iter().filter_map(|step| Some((&step.name, step.quietness.as_ref()?))).collect();
    let noisy: Vec<_> = told.iter().filter(|(_, quietness)| quietness.is_noisy()).collect();
    let again = told.iter().filter(|(_, quietness)| quietness.tries > 1).count();
    html! {
        @if told.is_empty() {
            p.warning { "How quiet the machine was is not known of this run: it was made before that was measured." }
        } @else if noisy.is_empty() {
            p.complete {
                "In no step the hypervisor took more than " (number(STOLEN)) " % of the CPU time, or an empty loop's p99.9 was more than "
                (number(INTERRUPTED)) " times its length. Measured again for that: " (again) "."
            }
        } @else {
            details.gaps {
                summary { (noisy.len()) " of " (told.len()) " steps were noisy; measured again for that: " (again) }
                p { "The CPU time that the hypervisor gave to others, and p99.9 of an empty loop, in times of its length:" }
                ul {
                    @for (name, quietness) in noisy {
                        li { strong { (name) } ": " (number(quietness.stolen)) " %, " (number(quietness.empty_loop)) }
                    }
                }
            }
        }
    }
}

fn foot(document: &Document) -> Markup {
    html! {
        footer {
            p {
                "All that is drawn here stands in " code { "evidence.json" } " beside this page, every round of it. "
                "Made by " code { (if document.effort == "quick" { "make bench-quick" } else { "make bench" }) } "."
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::evidence::document::Machine;
    use crate::evidence::outcome::Outcome;

    /// The figures of a run that has measured nothing.
    pub(super) fn empty_figures() -> Vec<Figure> {
        let machine = Machine {
            architecture: "x86_64".into(),
            cpu: "c".into(),
            cpus: 1,
            memory_mib: 1024,
            kernel: "6".into(),
            system: "s".into(),
        };
        let document =
            Document::new(("quick", "c", "t"), machine, BTreeMap::new(), Vec::new(), Outcome::default());
        sections(&document).into_iter().flat_map(|section| section.figures).collect()
    }
}
