//! A TCP transfer by iperf3, the program that the papers used too.

use std::time::Duration;

use lab::{Error, Machine};
use serde_json::Value;

/// Time that it may take beyond its own duration.
const GRACE: Duration = Duration::from_secs(20);

/// Octets that arrived.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Goodput {
    pub(super) megabits_per_second: f64,
    pub(super) octets: f64,
}

/// Transfers with CUBIC for `time`, in whole seconds, over so many streams at once.
pub(super) fn tcp(from: &Machine, to: &Machine, streams: u32, time: Duration) -> Result<Goodput, Error> {
    let address = to.ipv4.to_string();
    let mut server = to.namespace.spawn(&["iperf3", "-s", "-1", "--forceflush", "-B", &address])?;
    server.wait_for_line("listening", GRACE)?;
    let (time_text, streams) = (time.as_secs().max(1).to_string(), streams.to_string());
    let client = ["iperf3", "-c", &address, "-C", "cubic", "-t", &time_text, "-P", &streams, "-J"];
    let output = from.namespace.run_within(&client, time + GRACE)?;
    server.wait(GRACE)?;
    goodput(&output.stdout)
}

fn goodput(report: &str) -> Result<Goodput, Error> {
    let report: Value = serde_json::from_str(report)
        .map_err(|error| Error::Unexpected(format!("iperf3 answers no JSON: {error}")))?;
    let received = &report["end"]["sum_received"];
    match (received["bits_per_second"].as_f64(), received["bytes"].as_f64()) {
        (Some(rate), Some(octets)) if octets > 0.0 => Ok(Goodput { megabits_per_second: rate / 1e6, octets }),
        _ => Err(Error::Unexpected(format!("iperf3 transferred nothing: {}", report["error"]))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_arrived_counts() {
        let report = r#"{"end":{"sum_sent":{"bits_per_second":9e9,"bytes":9},
            "sum_received":{"bits_per_second":2.5e8,"bytes":31250000}}}"#;
        let expected = Goodput { megabits_per_second: 250.0, octets: 31_250_000.0 };
        assert_eq!(goodput(report).unwrap(), expected);
        for bad in ["", "{\"error\":\"unable to connect\"}", &report.replace("31250000", "0")] {
            assert!(goodput(bad).is_err(), "{bad}");
        }
    }
}
