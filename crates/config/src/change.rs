//! Fates of a running gateway's parts under another configuration: for a reload, and for those that foretell one.
//!
//! Only configurations are compared here. What a running link or site knows beside its configuration, such as the MTUs of its interfaces,
//! comes in as an argument.

use fieldbus::relation::Relation;

use crate::fieldbus::{Cell, CellRelation, Mode};
use crate::site::settings::most_payload;
use crate::{Gateway, Io, Keys, Link, Mka, Site};

/// Keys of `[gateway]` that are different and cannot be taken over while it runs.
pub fn fixed(old: &Gateway, new: &Gateway) -> Vec<&'static str> {
    let Gateway {
        name,
        // Links have it, too, and change with it.
        announced_name: _,
        state,
        state_max_age,
        io: _,
        polling,
        realtime,
        cpus,
        unguarded: _,
        antedate,
        http: _,
        log: _,
    } = old;
    let same = [
        ("name", *name == new.name),
        ("state", *state == new.state),
        ("state_max_age", *state_max_age == new.state_max_age),
        ("polling", *polling == new.polling),
        ("realtime", *realtime == new.realtime),
        ("cpus", *cpus == new.cpus),
        ("antedate", *antedate == new.antedate),
    ];
    same.into_iter().filter(|(_, same)| !same).map(|(key, _)| key).collect()
}

/// Change of a link that keeps its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkChange {
    /// It goes on untouched.
    Keep,
    /// It goes on with other keys or settings.
    Change {
        /// Differences of its keys.
        keys: KeysChange,
        /// Its ports are closed and opened again.
        reopen: bool,
    },
    /// It is stopped, and another one started.
    Restart,
}

/// Whether `io`, before and from here on, wants ports of another kind. Programs come and go in front of those of AF_XDP; `fell_back` says
/// that a port is none of AF_XDP although it should be.
pub fn needs_other_ports(io: [Io; 2], fell_back: bool) -> bool {
    let on_packet_sockets = io.map(|io| io == Io::AfPacket);
    io[0] != io[1] && (on_packet_sockets[0] != on_packet_sockets[1] || fell_back)
}

/// Change of a link's keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeysChange {
    /// They are static.
    Static,
    /// They are agreed on, and SAs go on; the SecY's settings change if `pipeline` says so.
    Agreed {
        /// Whether the SecY has other settings.
        pipeline: bool,
    },
    /// There are none; the SecY's settings change if `pipeline` says so.
    None {
        /// Whether the SecY has other settings.
        pipeline: bool,
    },
    /// Nothing of them, nor of the SecY's settings: the cell is another one.
    Keep,
}

/// Circumstances of a link that its configuration does not tell.
#[derive(Clone, Copy)]
pub struct Around<'k> {
    /// Whether the MTUs of its interfaces are the same.
    pub same_mtus: bool,
    /// Whether `io` of the gateway changes.
    pub io_changes: bool,
    /// Whether that wants ports of another kind: see [`needs_other_ports`].
    pub other_ports: bool,
    /// Whether its SCI stays, from the settings of key agreement after and before.
    pub keeps_sci: &'k dyn Fn(&Mka, &Mka) -> bool,
}

impl LinkChange {
    /// The change from `old` to `new`.
    pub fn of(old: &Link, new: &Link, around: Around<'_>) -> Self {
        let Around { same_mtus, io_changes, other_ports, keeps_sci } = around;
        // A link that goes into a site, or comes out of one, leaves its slot.
        if new.in_site != old.in_site {
            return Self::Restart;
        }
        if new == old && same_mtus && !io_changes {
            return Self::Keep;
        }
        let same_pipeline = new.is_like_but_for_keys(old) && same_mtus;
        let keys = match (&new.keys, &old.keys) {
            _ if same_pipeline && new.keys == old.keys => KeysChange::Keep,
            (Keys::None, Keys::None) => KeysChange::None { pipeline: !same_pipeline },
            (Keys::Static(_), Keys::Static(_)) => KeysChange::Static,
            (Keys::Agreed(mka), Keys::Agreed(old_mka)) if keeps_sci(mka, old_mka) => {
                KeysChange::Agreed { pipeline: !same_pipeline }
            }
            _ => return Self::Restart,
        };
        let ports = |link: &Link| (link.plain.clone(), link.protected.clone(), link.mtu);
        let reopen = other_ports || ports(new) != ports(old) || !same_mtus;
        Self::Change { keys, reopen }
    }

    /// The link's line, if it goes on.
    pub fn words(self) -> Option<&'static str> {
        match self {
            Self::Change { reopen: true, .. } => Some("restarted, its SAs go on"),
            // Changes of a cell alone are told relation by relation.
            Self::Change { keys: KeysChange::Keep, .. } | Self::Keep | Self::Restart => None,
            Self::Change { .. } => Some("changed"),
        }
    }
}

/// Whether a station with `new` keys is understood by its peers as long as they have `old` ones: it has a CAK or its own static SA
/// still.
pub fn is_understood(old: &Keys, new: &Keys) -> bool {
    match (old, new) {
        (Keys::Agreed(old), Keys::Agreed(new)) => {
            new.caks().any(|cak| old.caks().any(|before| before == cak))
        }
        (Keys::Static(old), Keys::Static(new)) => {
            old.suite == new.suite && new.transmit.goes_on_as(&old.transmit)
        }
        (old, new) => old == new,
    }
}

/// Change of a site.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SiteChange {
    /// It goes on untouched.
    Keep,
    /// Peers come, go or begin anew. Other VLANs may cross, too.
    Peers,
    /// Other VLANs cross, and nothing else changes.
    Vlans,
    /// It is stopped and started.
    Restart,
    /// It was not there.
    Start,
}

impl SiteChange {
    /// The change to `new`, between two starts of the gateway. A running site may have to be restarted where this says that its peers
    /// change, since it can number only so many.
    pub fn of(old: Option<&Site>, new: &Site, lan_mtu: usize, io_changes: bool) -> Self {
        let Some(old) = old else { return Self::Start };
        let channel = |site: &Site| most_payload(site, lan_mtu).is_some();
        let peers_alone = old.goes_on_as(new) && channel(old) == channel(new);
        Self::judge(old == new, peers_alone, io_changes).of_peers(old.peers != new.peers)
    }

    /// The same, where it is known whether peers are different.
    #[must_use]
    pub fn of_peers(self, peers_change: bool) -> Self {
        if self == Self::Peers && !peers_change { Self::Vlans } else { self }
    }

    /// The change of one that is the same, or differs in what changes while it runs alone: [`Site::goes_on_as`].
    pub fn judge(same: bool, peers_alone: bool, restarted_anyway: bool) -> Self {
        match () {
            () if restarted_anyway => Self::Restart,
            () if same => Self::Keep,
            () if peers_alone => Self::Peers,
            () => Self::Restart,
        }
    }

    /// The site's line.
    pub const fn words(self) -> Option<&'static str> {
        match self {
            Self::Keep => None,
            Self::Peers => Some("its peers change"),
            Self::Vlans => Some("other VLANs cross"),
            Self::Restart => Some("restarted; its peers agree on keys anew"),
            Self::Start => Some("started"),
        }
    }
}

/// The cell that is different, and how, in words.
pub fn cell_difference(before: Option<&Cell>, now: Option<&Cell>) -> Option<(String, String)> {
    match (before, now) {
        (None, None) => None,
        (None, Some(cell)) => {
            Some((cell.name.clone(), format!("started, {} relations", cell.relations.len())))
        }
        (Some(cell), None) => Some((cell.name.clone(), "stopped".to_owned())),
        (Some(before), Some(cell)) => {
            let of = |cell: &Cell, relation: Relation| {
                cell.relations.iter().find(|one| one.relation.identity() == relation.identity()).copied()
            };
            let added = cell.relations.iter().filter(|one| of(before, one.relation).is_none()).count();
            let gone = before.relations.iter().filter(|one| of(cell, one.relation).is_none()).count();
            let switched = |to: Mode| {
                let is_now = |one: &&CellRelation| one.mode == to;
                let was_not =
                    |one: &&CellRelation| of(before, one.relation).is_some_and(|old| old.mode != to);
                cell.relations.iter().filter(is_now).filter(was_not).count()
            };
            let counts = [
                (added, "added"),
                (gone, "removed"),
                (switched(Mode::Protect), "protected from now on"),
                (switched(Mode::Shadow), "IN CLEAR from now on (shadow)"),
            ];
            let words: Vec<_> = counts
                .iter()
                .filter(|(count, _)| *count > 0)
                .map(|(count, what)| format!("{count} {what}"))
                .collect();
            let fallbacks = (&before.fallback_master_key, &cell.fallback_master_key);
            let all = if !keeps_sessions(before, cell) {
                "; all sessions are made anew"
            } else if before.master_key != cell.master_key {
                "; sessions change to the preferred master key that both gateways have"
            } else {
                match fallbacks {
                    (before, now) if before == now => "",
                    (_, None) => "; the fallback master key is removed",
                    (None, Some(_)) => "; a fallback master key is added",
                    (Some(_), Some(_)) => "; the fallback master key is another one",
                }
            };
            let what =
                if words.is_empty() { "changed".into() } else { format!("relations: {}", words.join(", ")) };
            Some((cell.name.clone(), format!("{what}{all}")))
        }
    }
}

/// True if relations that stay go on in their sessions. Under other master keys they do so until others are agreed on, if there is a
/// common one.
pub fn keeps_sessions(before: &Cell, now: &Cell) -> bool {
    (before.protection, before.ethertype) == (now.protection, now.ethertype)
}

/// True if the configurations have a master key in common: a gateway that has one agrees on keys with one that has the other.
pub fn has_common_master_key(before: &Cell, now: &Cell) -> bool {
    now.master_keys().iter().any(|key| before.master_keys().iter().any(|known| known == key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;
    use crate::tests::validated;

    const TEXT: &str = "[gateway]\nname = \"a\"\n[[link]]\nname = \"x\"\nplain = \"eth0\"\nprotected = \"eth1\"\n[link.mka]\n\
                        cak_file = \"a.cak\"\n[[site]]\nname = \"s\"\nlan = \"eth2\"\nbind = \"0.0.0.0:7787\"\nidentity = \"s.key\"\n\
                        [[site.peer]]\nname = \"b\"\nendpoint = \"192.0.2.1:7787\"\npublic_key = \"4a3807d064d077181cc070989e76891d20dc5559548dc2c77c1a50273882b38d\"\n";

    fn config(from: &str, to: &str) -> Config {
        assert!(TEXT.contains(from), "{from}");
        validated(&TEXT.replacen(from, to, 1)).unwrap().0
    }

    #[test]
    fn a_link_goes_on_as_far_as_it_can() {
        let old = config("", "").links.remove(0);
        let agreed = |pipeline, reopen| LinkChange::Change { keys: KeysChange::Agreed { pipeline }, reopen };
        for (from, to, expected, understood) in [
            ("name = \"x\"", "name = \"x\" # press", LinkChange::Keep, true),
            ("[link.mka]", "replay_window = 64\n[link.mka]", agreed(true, false), true),
            ("plain = \"eth0\"", "plain = \"eth9\"", agreed(true, true), true),
            ("[link.mka]", "mtu = 1400\n[link.mka]", agreed(true, true), true),
            ("[link.mka]", "[link.mka]\nrekey = \"1h\"", agreed(false, false), true),
            ("[link.mka]", "[link.mka]\nsci = \"02:00:00:00:00:0a/1\"", LinkChange::Restart, true),
            ("a.cak", "b.cak", agreed(false, false), false),
            ("\"a.cak\"", "\"b.cak\"\nfallback_cak_file = \"a.cak\"", agreed(false, false), true),
        ] {
            let new = config(from, to).links.remove(0);
            let keeps_sci = |new: &Mka, old: &Mka| new.sci == old.sci;
            let around =
                Around { same_mtus: true, io_changes: false, other_ports: false, keeps_sci: &keeps_sci };
            assert_eq!(LinkChange::of(&old, &new, around), expected, "{to}");
            assert_eq!(is_understood(&old.keys, &new.keys), understood, "{to}");
            let other_io =
                LinkChange::of(&old, &new, Around { io_changes: true, other_ports: true, ..around });
            assert!(
                matches!(other_io, LinkChange::Restart | LinkChange::Change { reopen: true, .. }),
                "{to}"
            );
        }
    }

    #[test]
    fn only_packet_sockets_and_what_fell_back_to_them_are_opened_again() {
        for (io, fell_back, expected) in [
            ([Io::Auto, Io::Auto], true, false),
            ([Io::Auto, Io::AfPacket], false, true),
            ([Io::AfPacket, Io::Kernel], false, true),
            ([Io::Auto, Io::Kernel], false, false),
            ([Io::Auto, Io::Kernel], true, true),
        ] {
            assert_eq!(needs_other_ports(io, fell_back), expected, "{io:?} {fell_back}");
        }
    }

    #[test]
    fn a_site_is_restarted_for_all_but_its_peers_and_vlans() {
        let old = config("", "").sites.remove(0);
        let more = "[[site.peer]]\nname = \"c\"\nendpoint = \"192.0.2.2:7787\"\npublic_key = \"3b6a27bcceb6a42d62a3a8d02a6f0d73653215771de243a63ac048a18b59da29\"\n[[site.peer]]\nname = \"b\"";
        for (from, to, expected) in [
            ("name = \"s\"", "name = \"s\" # plant", SiteChange::Keep),
            ("192.0.2.1", "192.0.2.9", SiteChange::Peers),
            ("[[site.peer]]\nname = \"b\"", more, SiteChange::Peers),
            ("[[site.peer]]", "vlans = [10, \"untagged\"]\n[[site.peer]]", SiteChange::Vlans),
            ("[[site.peer]]", "vlans = [10]\n[[site.peer]]", SiteChange::Restart),
            (
                "[[site.peer]]\nname = \"b\"",
                "vlans = [\"untagged\"]\n[[site.peer]]\nname = \"c\"",
                SiteChange::Peers,
            ),
            ("eth2", "eth9", SiteChange::Restart),
            ("s.key", "t.key", SiteChange::Restart),
        ] {
            let new = config(from, to).sites.remove(0);
            assert_eq!(SiteChange::of(Some(&old), &new, 1500, false), expected, "{to}");
            assert_eq!(SiteChange::of(Some(&old), &new, 1500, true), SiteChange::Restart);
            assert_eq!(SiteChange::of(None, &new, 1500, false), SiteChange::Start);
        }
    }

    #[test]
    fn what_a_gateway_cannot_change_while_it_runs_is_named() {
        let fixed_by = |line: &str| {
            let (old, new) = (config("", ""), config("name = \"a\"\n", &format!("name = \"a\"\n{line}\n")));
            fixed(&old.gateway, &new.gateway)
        };
        for line in
            ["", "io = \"af_packet\"", "http = \"127.0.0.1:9464\"", "log = \"json\"", "unguarded = true"]
        {
            assert_eq!(fixed_by(line), Vec::<&str>::new(), "{line}");
        }
        assert_eq!(fixed_by("polling = \"busy\"\nstate = \"/x\""), ["state", "polling"]);
    }

    #[test]
    fn the_same_in_another_order_is_the_same() {
        let (head, rest) = TEXT.split_once("[[link]]").unwrap();
        let (link, site) = rest.split_once("[[site]]").unwrap();
        let other = validated(&format!("{head}[[site]]{site}[[link]]{link}")).unwrap().0;
        assert!(config("", "").says_the_same(&other));
        for (from, to) in [
            ("eth0", "eth8"),
            ("a.cak", "b.cak"),
            ("192.0.2.1", "192.0.2.2"),
            ("name = \"a\"", "name = \"b\""),
        ] {
            assert!(!config(from, to).says_the_same(&other), "{to}");
        }
    }
}
