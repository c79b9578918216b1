//! Providers of different bandwidths, each a bottleneck with one deep queue that the test reads: who sends no more than it carries fills none.

use super::*;

/// Bits a second that each provider carries, and what the site is told of it.
const CARRIES: [u64; 2] = [20_000_000, 5_000_000];
const RATES: [&str; 2] = ["18M", "4M"];
/// Octets of bulk frames, and how many are sent at once: 200 ms of the faster provider's queue are 500,000 octets.
const BULK: (usize, usize) = (1400, 2000);

/// The interfaces that are the bottlenecks, towards plant 2.
fn bottlenecks(providers: &Providers) -> [(&Namespace, &'static str); 2] {
    [(&providers.wan.plants.internet, "to2"), (&providers.second, "to2")]
}

/// Lets each provider carry no more than it does.
fn narrow(providers: &Providers) {
    for ((network, device), carries) in bottlenecks(providers).into_iter().zip(CARRIES) {
        let rate = format!("{carries}bit");
        let limits = ["rate", &rate, "burst", "16384", "latency", "200ms", "overhead", "24"];
        network
            .run(&[&["tc", "qdisc", "replace", "dev", device, "root", "tbf"][..], &limits].concat())
            .unwrap();
    }
}

/// Packets that each provider had no room for.
fn lost(providers: &Providers) -> [u64; 2] {
    bottlenecks(providers).map(|(network, device)| {
        let shown = network.run(&["tc", "-s", "qdisc", "show", "dev", device]).unwrap().stdout;
        let (_, rest) = shown.split_once("dropped ").unwrap();
        rest.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
    })
}

/// Octets that the site has sent by each uplink, and packets that found no room there.
fn uplinks(wan: &Wan) -> Vec<[u64; 2]> {
    let site = wan.report(0).sites.remove(0);
    let of = |uplink: &report::site::PathUplinkReport| {
        let count = |name| counter(&uplink.figures.counters, name);
        [count("OutOctetsLine"), count("OutPktsBulkFull") + count("OutPktsBulkDelayed")]
    };
    site.path_uplinks.iter().map(of).collect()
}

/// Bulk at once, and time for what waits to leave.
fn flood(wan: &mut Wan) {
    wan.frames_into(0, BULK.0, BULK.1);
    wan.wait_until_idle(0);
    std::thread::sleep(Duration::from_millis(500));
}

fn with(rates: Option<[&str; 2]>) -> Providers {
    let providers = Providers::with(&|plants, scratch| {
        let lines = both_paths("none");
        let lines = match rates {
            None => lines,
            Some([first, second]) => lines
                .replace("interface = \"wan\" }", &format!("interface = \"wan\", rate = \"{first}\" }}"))
                .replace(
                    &format!("interface = \"{WAN2}\" }}"),
                    &format!("interface = \"{WAN2}\", rate = \"{second}\" }}"),
                ),
        };
        replace_endpoint(scratch, plants, 0, &lines);
        let without =
            format!("paths = [{{ interface = \"wan\" }}, {{ interface = \"{WAN2}\" }}]\ncopies = \"none\"\n");
        replace_endpoint(scratch, plants, 1, &without);
    });
    narrow(&providers);
    providers
}

#[test]
fn each_path_keeps_to_the_rate_of_its_uplink() {
    // Without rates the provider's queue is full, and loses.
    let mut providers = with(None);
    let used = preferred(&providers.wan, 0).expect("a path");
    flood(&mut providers.wan);
    assert!(lost(&providers)[used] > 0, "the provider is no bottleneck: {:?}", lost(&providers));
    assert!(uplinks(&providers.wan).is_empty());
    providers.wan.stop();

    let mut providers = with(Some(RATES));
    let status = |providers: &Providers| providers.wan.report(0).sites.remove(0).path_uplinks;
    let named: Vec<_> = status(&providers)
        .iter()
        .map(|uplink| (uplink.name.clone(), uplink.figures.bits_per_second))
        .collect();
    assert_eq!(named, [("wan".to_owned(), 18_000_000), (WAN2.to_owned(), 4_000_000)]);
    let used = preferred(&providers.wan, 0).expect("a path");
    for (round, used) in [used, 1 - used].into_iter().enumerate() {
        if round == 1 {
            // The flow moves: its path dies for everything but what waits in the provider's queue.
            providers.drop_at(1 - used, "drop");
            let mut up = [false; 2];
            up[used] = true;
            providers.until_up(up);
        }
        let before = uplinks(&providers.wan);
        flood(&mut providers.wan);
        let after = uplinks(&providers.wan);
        let grown = |path: usize| after[path][0] - before[path][0];
        assert!(grown(used) > 10 * BULK.0 as u64, "path {used} is not used: {before:?} {after:?}");
        assert!(grown(1 - used) < grown(used) / 10, "the other path is used: {before:?} {after:?}");
        assert!(after[used][1] > before[used][1], "nothing waited too long: {after:?}");
        assert_eq!(lost(&providers), [0, 0], "path {used} sends more than its provider carries");
    }
    let channel =
        status(&providers).into_iter().map(|uplink| counter(&uplink.figures.counters, "OutOctetsChannel"));
    assert!(channel.into_iter().all(|octets| octets > 0), "probes are charged where they leave");
    assert_eq!(providers.wan.peer(0).path.as_deref(), Some("user space: it has several paths"));
    providers.wan.stop();
}
