//! The machine that figures are of.

use std::sync::LazyLock;

/// Read once: a run has many figures, and the machine does not change in it.
static NAME: LazyLock<String> = LazyLock::new(read_name);

/// This machine: its architecture, its CPU, and how many of them.
pub fn name() -> &'static str {
    &NAME
}

fn read_name() -> String {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let model = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = model.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("unknown CPU", |(_, name)| name);
    format!("{}, {model}, {cpus} CPUs", std::env::consts::ARCH)
}
