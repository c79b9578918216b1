//! The host's default routes through an interface, out of the calling thread's network namespace.

use std::fs;

/// The kinds of IP that leave by default through the interface: `IPv4`, `IPv6`.
pub fn default_routes(interface: &str) -> Vec<&'static str> {
    // A kernel without IPv6, or a box without /proc, has none that could be lost.
    let read = |file: &str| fs::read_to_string(format!("/proc/thread-self/net/{file}")).unwrap_or_default();
    let versions =
        [("IPv4", ipv4(&read("route"), interface)), ("IPv6", ipv6(&read("ipv6_route"), interface))];
    versions.into_iter().filter_map(|(version, has)| has.then_some(version)).collect()
}

/// `Iface Destination Gateway Flags RefCnt Use Metric Mask ...`, addresses in hexadecimal.
fn ipv4(table: &str, interface: &str) -> bool {
    table.lines().skip(1).any(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        matches!(words.as_slice(), [name, "00000000", _, _, _, _, _, "00000000", ..] if *name == interface)
    })
}

/// `destination length source length next-hop metric references use flags interface`.
fn ipv6(table: &str, interface: &str) -> bool {
    table.lines().any(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        matches!(words.as_slice(), [to, "00", .., name] if to.bytes().all(|c| c == b'0') && *name == interface)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_routes_are_told_from_others() {
        let table = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n\
                     eth0\t00000000\t0101A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
                     eth1\t0000A8C0\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n\
                     eth2\t00000000\t0101A8C0\t0003\t0\t0\t0\t00000080\t0\t0\t0\n";
        assert_eq!(["eth0", "eth1", "eth2"].map(|name| ipv4(table, name)), [true, false, false]);
        let zeros = "0".repeat(32);
        let table = format!(
            "{zeros} 00 {zeros} 00 fe800000000000000000000000000001 00000400 00000001 00000000 00000003 eth0\n\
             fe8{} 40 {zeros} 00 {zeros} 00000100 00000001 00000000 00000001 eth1\n",
            "0".repeat(29)
        );
        assert_eq!(["eth0", "eth1"].map(|name| ipv6(&table, name)), [true, false]);
    }
}
