use suite::identity::Identity;

use super::*;
use crate::Io;
use crate::check::Plan;

fn configured(bind: &str, endpoint: &str, more: &str) -> Config {
    let text = format!(
        r#"[gateway]
name = "edge"
[[site]]
name = "dresden"
lan = "eth2"
bind = "{bind}"
identity = "a.key"
[[site.peer]]
name = "berlin"
{endpoint}
public_key = "{}"
{more}
"#,
        Identity::new(&[2; 32]).public()
    );
    let files = crate::KeyFiles {
        key: &crate::key_file::read,
        cak: &crate::key_file::read_cak,
        identity: &|_| Ok(Identity::new(&[1; 32])),
        master_key: &crate::key_file::read_master_key,
    };
    crate::parse(Path::new("gw.toml"), &text, files).unwrap().0
}

#[test]
fn the_sums_are_those_of_the_formats() {
    use IpVersion::{V4, V6};
    let plain = Mode::Plain { vni: 0 };
    for (mode, mtu, version, unsplit, in_two) in [
        // A LAN payload of 1470 over a path of 1500 (wire formats, section 3.4).
        (Mode::Identifier, 1500, V4, 1470, 2894),
        (Mode::Identifier, 1500, V6, 1450, 2854),
        // A full LAN frame needs 1530.
        (Mode::Identifier, 1530, V4, 1500, 2954),
        (Mode::HeaderEncryption, 1500, V4, 1458, 2902),
        (plain, 1500, V4, 1450, 1450),
        (plain, 1550, V4, 1500, 1500),
    ] {
        let sums = Sums::of(mode, mtu - version.octets() - UDP_OCTETS);
        assert_eq!(sums, Sums { unsplit, in_two }, "{mode:?} {mtu} {version:?}");
    }
    assert_eq!(Sums::of(Mode::Identifier, 1472).machines(), 1438);
    assert_eq!(Sums::of(Mode::HeaderEncryption, 0), Sums { unsplit: 0, in_two: 0 });
}

/// The forwarding half treats a frame as the plan says of it.
#[test]
fn the_forwarding_half_agrees() {
    use suite::tunnel::EpochSecret;
    use tunnel::{
        Command, Destination, Event, Forwarding, Generation, Limits, PeerId, PeerSettings, Settings,
    };
    use wire::Instant;

    const PEER: PeerId = PeerId(0);
    let generation = Generation(1);
    for (mode, payload) in [Mode::Identifier, Mode::HeaderEncryption, Mode::Plain { vni: 7 }]
        .into_iter()
        .flat_map(|mode| [(mode, 1200), (mode, 1472), (mode, 8973)])
    {
        let settings = Settings {
            peers: vec![PeerSettings { mode, path_payload: payload }],
            lan_frame: 20_000,
            limits: Limits::default(),
            window: 64,
            table_seed: [7; 16],
        };
        let mut forwarding = Forwarding::new(settings);
        let now = Instant::START;
        forwarding.handle_command(now, Command::Begin { peer: PEER, generation });
        let secret = EpochSecret::new(&[9; 32]);
        forwarding.handle_command(now, Command::InstallTransmit { peer: PEER, generation, epoch: 1, secret });
        let mut pn = 0_u32;
        let mut packets = |forwarding: &mut Forwarding, lan_mtu: usize| {
            pn += 1;
            // Encrypted, with SCI.
            let mut frame = vec![0x5a; HEADER_OCTETS + lan_mtu];
            frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
            frame[12..16].copy_from_slice(&[0x88, 0xe5, 0x2c, 0]);
            frame[16..20].copy_from_slice(&pn.to_be_bytes());
            let route = forwarding.route(now, &frame).unwrap();
            assert_eq!(route.destination, Destination::All);
            forwarding.dispatch(now, &route, PEER, &frame).len()
        };
        let sums = Sums::of(mode, payload);
        // A new flow: what may be told to go in two does, though packets are longer than later.
        let first = packets(&mut forwarding, sums.in_two);
        if mode == Mode::Identifier {
            assert_eq!(first, 2, "{mode:?} {payload}");
        }
        while let Some(event) = forwarding.poll_event() {
            if let Event::Announce { peer, generation, index, request, .. } = event {
                forwarding.handle_command(now, Command::Announced { peer, generation, index, request });
            }
        }
        while forwarding.poll_released(now).is_some() {}
        assert_eq!(packets(&mut forwarding, sums.unsplit), 1, "{mode:?} {payload}");
        let (beyond, in_two) =
            (packets(&mut forwarding, sums.unsplit + 1), packets(&mut forwarding, sums.in_two));
        match mode {
            Mode::Plain { .. } => assert_eq!((beyond, in_two), (0, 1), "{payload}"),
            _ => assert_eq!((beyond, in_two), (2, 2), "{mode:?} {payload}"),
        }
        // Known flows of identifier mode have 32 octets more.
        assert_eq!(packets(&mut forwarding, sums.in_two + 33), 0, "{mode:?} {payload}");
    }
}

#[test]
fn a_name_is_reached_over_whatever_the_socket_can() {
    use IpVersion::{V4, V6};
    for (bind, endpoint, expected) in [
        ("0.0.0.0:1", "192.0.2.1:1", vec![V4]),
        ("[::]:1", "192.0.2.1:1", vec![V4]),
        ("[::]:1", "[2001:db8::1]:1", vec![V6]),
        ("0.0.0.0:1", "berlin.example:1", vec![V4]),
        ("[2001:db8::2]:1", "berlin.example:1", vec![V6]),
        ("[::]:1", "berlin.example:1", vec![V4, V6]),
    ] {
        let config = configured(bind, &format!("endpoint = \"{endpoint}\""), "");
        let site = &config.sites[0];
        assert_eq!(IpVersion::towards(&site.peers[0], site.bind), expected, "{bind} {endpoint}");
    }
}

#[test]
fn the_plan_says_which_flows_the_kernel_may_have() {
    let (plain, header) = (Mode::Plain { vni: 7 }, Mode::HeaderEncryption);
    for (io, mode, modes) in [
        (Io::Auto, Mode::Identifier, Some("identifier")),
        (Io::Auto, header, None),
        (Io::Auto, plain, Some("plain")),
        (Io::Kernel, plain, Some("plain")),
        (Io::AfXdp, plain, None),
    ] {
        let mut config = configured("0.0.0.0:7787", "endpoint = \"198.51.100.7:7787\"", "");
        config.gateway.io = io;
        config.sites[0].peers[0].mode = mode;
        let text = Plan::new(&config, None).unwrap().to_string();
        let said = modes.map(|modes| format!("frames     known flows of {modes} mode: kernel, if"));
        assert_eq!(said.is_some(), text.contains("known flows"), "{text}");
        assert!(said.is_none_or(|said| text.contains(&said)), "{text}");
    }
}

#[test]
fn the_plan_shows_the_sums() {
    let config = configured("0.0.0.0:7787", "endpoint = \"198.51.100.7:7787\"", "");
    let plan = Plan::new(&config, Some(&|_| Ok(1500))).unwrap();
    assert_eq!(plan.not_carried(), []);
    let keys = [1, 2].map(|octet| Identity::new(&[octet; 32]).public());
    let expected = format!(
        "
site dresden
  lan        eth2, MTU 1500
  carries    only MACsec frames of stations; for ordinary machines: protect = true and [site.mka] at all sites
  frames     known flows of identifier mode: kernel, if the drivers of LAN and WAN take its programs
             all others: user space (LAN by AF_XDP, or else AF_PACKET; UDP sockets)
  identity   public key {}
  binds      UDP 0.0.0.0:7787 (data and management channel)
  limits     4096 flows to a peer, 256 of an SCI, 256 of a source; 1000 new ones a second; forgotten after 300 s
  stations   8192, forgotten after 300 s; window of 4096 seqs

  peer berlin: identifier, at 198.51.100.7:7787
    public key {}
    path       1500 octets (if probes find no less) - IPv4 20 - UDP 8 = payload 1472
                                  LAN MTU unsplit  machines' MTU  LAN MTU in two packets
             * identifier                    1470           1438                    2894
               header-encryption             1458           1426                    2902
               plain                         1450           1418             never split
    so         frames above 1470 octets are split in two; the machines' MTU of 1438 avoids it
",
        keys[0], keys[1]
    );
    let text = plan.to_string();
    assert!(text.ends_with(&expected), "{text}");
    let offline = Plan::new(&config, None).unwrap().to_string();
    assert!(offline.contains("  lan        eth2\n") && !offline.contains("    so "), "{offline}");
}

#[test]
fn what_cannot_travel_is_warned_about() {
    let config = configured("[::]:7787", "", "");
    let plan = Plan::new(&config, Some(&|_| Ok(9000))).unwrap();
    let [warning] = plan.not_carried().try_into().unwrap();
    // Of two IP versions the smaller one counts.
    assert_eq!(
        warning.to_string(),
        "gw.toml:8: site \"dresden\": peer \"berlin\": frames with more than 2854 octets behind the SecTAG's EtherType are dropped, and eth2 takes 9000; set the machines' MTU to 2822"
    );
    assert!(plan.to_string().contains("full frames of this LAN are DROPPED; set the machines' MTU to 2822"));
    let enough = configured("[::]:7787", "path_mtu = 9216", "");
    assert_eq!(Plan::new(&enough, Some(&|_| Ok(9000))).unwrap().not_carried(), []);
}

#[test]
fn the_lan_is_there_and_takes_what_is_configured() {
    let config = configured("0.0.0.0:7787", "", "");
    let judged = |config: &Config, found: Option<usize>| {
        let read = |name: &str| found.ok_or(InterfaceError::Missing { name: name.into() });
        Plan::new(config, Some(&read)).map(drop).map_err(|errors| errors[0].to_string())
    };
    assert_eq!(judged(&config, Some(1500)), Ok(()));
    assert_eq!(
        judged(&config, None),
        Err("gw.toml:3: site \"dresden\": interface eth2 does not exist; 'ip link' lists those that do"
            .into())
    );
    let mut small = config;
    small.sites[0].mtu = Mtu::Octets(1600);
    assert_eq!(
        judged(&small, Some(1500)),
        Err("gw.toml:3: site \"dresden\": mtu = 1600 is more than the 1500 of eth2; set mtu to 1500 or less, or ip link set eth2 mtu 1600".into())
    );
}

#[test]
fn what_of_cells_crosses_is_said() {
    let plan = |mode| {
        let config = configured("0.0.0.0:7787\"\ncells = \"0x88b5", "endpoint = \"b.example:1\"", mode);
        Plan::new(&config, None).unwrap().to_string()
    };
    let line = "  cells      protected frames of EtherType 0x88b5 cross; of cells that only authenticate everybody on the way can read the data";
    assert!(plan("").contains(&format!("{line}\n")));
    let others = plan("mode = \"header-encryption\"");
    assert!(others.contains(&format!("{line}; not to peers in other modes than identifier\n")), "{others}");
}

#[test]
fn what_header_encryption_refuses_is_said() {
    let config = configured("0.0.0.0:7787", "endpoint = \"b.example:1\"", "mode = \"header-encryption\"");
    let plan = Plan::new(&config, None).unwrap().to_string();
    assert!(plan.contains("binds      UDP 0.0.0.0:7788 (header encryption)"), "{plan}");
    assert!(
        plan.contains("refuses    frames without encryption, with a confidentiality offset, without SCI")
    );
}

/// A site at whose LAN nobody speaks MACsec is quiet, and carries nothing: the plan says so before.
#[test]
fn what_a_site_without_protect_carries_is_told() {
    let line = "  carries    only MACsec frames of stations; for ordinary machines: protect = true and [site.mka] at all sites\n";
    let config = configured("0.0.0.0:7787", "", "");
    let plan = Plan::new(&config, None).unwrap().to_string();
    assert!(plan.contains(line), "{plan}");
    let mut protects = config;
    protects.sites[0].protect = true;
    let plan = Plan::new(&protects, None).unwrap().to_string();
    assert!(plan.contains("  protects   all frames") && !plan.contains("  carries    "), "{plan}");
}
