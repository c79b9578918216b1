//! CPUs of this machine, processes that may run on them, and interrupts that reach them: as the kernel tells in /sys and /proc.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::Path;

/// CPUs by their numbers; written as the kernel does, `0-2,5`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Cpus(pub BTreeSet<usize>);

impl Cpus {
    /// As the kernel writes them. None if it is no such list.
    pub fn parse(text: &str) -> Option<Self> {
        let mut cpus = BTreeSet::new();
        for part in text.trim().split(',').filter(|part| !part.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (first.trim().parse::<usize>().ok()?, last.trim().parse::<usize>().ok()?);
            // A box has no more; a list that is longer is a mistake.
            if first > last || last >= 8192 {
                return None;
            }
            cpus.extend(first..=last);
        }
        Some(Self(cpus))
    }

    /// As the kernel writes them where each CPU is a bit: `ff,0000000f`.
    fn parse_mask(text: &str) -> Option<Self> {
        let digits: String = text.trim().chars().filter(|&digit| digit != ',').collect();
        let mut cpus = BTreeSet::new();
        for (at, digit) in digits.chars().rev().enumerate() {
            let bits = digit.to_digit(16)?;
            cpus.extend((0..4).filter(|bit| bits & (1 << bit) != 0).map(|bit| 4 * at + bit));
        }
        Some(Self(cpus))
    }

    fn read(file: impl AsRef<Path>) -> Self {
        // A list that a kernel does not tell is empty.
        fs::read_to_string(file).ok().and_then(|text| Self::parse(&text)).unwrap_or_default()
    }

    /// Those that are on.
    pub fn online() -> Self {
        Self::read("/sys/devices/system/cpu/online")
    }

    /// Those that the kernel keeps free of whoever does not ask for them: `isolcpus=`, and isolated partitions of cpusets.
    pub fn isolated() -> Self {
        let mut cpus = Self::read("/sys/devices/system/cpu/isolated");
        cpus.0.extend(Self::read("/sys/fs/cgroup/cpuset.cpus.isolated").0);
        cpus
    }

    /// Those that this process may use.
    pub fn allowed() -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        line.and_then(Self::parse).unwrap_or_default()
    }

    /// Those that are in both.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self(self.0.intersection(&other.0).copied().collect())
    }

    /// Those that are not in the other.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        Self(self.0.difference(&other.0).copied().collect())
    }
}

impl fmt::Display for Cpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest: Vec<usize> = self.0.iter().rev().copied().collect();
        let mut comma = "";
        while let Some(first) = rest.pop() {
            let mut last = first;
            while rest.last() == Some(&(last + 1)) {
                last = rest.pop().unwrap_or(last);
            }
            match last - first {
                0 => write!(f, "{comma}{first}")?,
                _ => write!(f, "{comma}{first}-{last}")?,
            }
            comma = ",";
        }
        Ok(())
    }
}

/// A setting that brings an interface's frames, and the softirqs behind them, to CPUs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bringer {
    /// The file that says to which CPUs.
    pub file: String,
    /// The interface.
    pub interface: String,
    /// The CPUs.
    pub cpus: Cpus,
}

/// The interrupts of these interfaces, and what of their receive queues is handed on to other CPUs. Virtual interfaces have none: their
/// softirqs run where the sender does.
pub fn bringers<'i>(interfaces: impl Iterator<Item = &'i str>) -> Vec<Bringer> {
    interfaces.flat_map(|interface| interrupts(interface).into_iter().chain(steered(interface))).collect()
}

fn interrupts(interface: &str) -> Vec<Bringer> {
    let device = format!("/sys/class/net/{interface}/device");
    let listed = names(&format!("{device}/msi_irqs"));
    let line = fs::read_to_string(format!("{device}/irq")).ok().map(|number| number.trim().to_owned());
    // A device with messages has no line, or one that is not used.
    let numbers = if listed.is_empty() { line.into_iter().collect() } else { listed };
    let bringer = |number: String| {
        let cpus = Cpus::read(format!("/proc/irq/{number}/effective_affinity_list"));
        Bringer { file: format!("/proc/irq/{number}/smp_affinity_list"), interface: interface.into(), cpus }
    };
    numbers.into_iter().map(bringer).filter(|bringer| !bringer.cpus.0.is_empty()).collect()
}

fn steered(interface: &str) -> Vec<Bringer> {
    let queues = format!("/sys/class/net/{interface}/queues");
    let bringer = |queue: String| {
        let file = format!("{queues}/{queue}/rps_cpus");
        let cpus = Cpus::parse_mask(&fs::read_to_string(&file).ok()?)?;
        (!cpus.0.is_empty()).then(|| Bringer { file, interface: interface.into(), cpus })
    };
    names(&queues).into_iter().filter(|queue| queue.starts_with("rx-")).filter_map(bringer).collect()
}

fn names(directory: &str) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_written_as_the_kernel_does() {
        for (text, cpus) in [("", vec![]), ("0\n", vec![0]), ("0-2,5", vec![0, 1, 2, 5]), ("3,1", vec![1, 3])]
        {
            let read = Cpus::parse(text).expect(text);
            assert_eq!(read.0.iter().copied().collect::<Vec<_>>(), cpus, "{text:?}");
            assert_eq!(Cpus::parse(&read.to_string()), Some(read));
        }
        for text in ["a", "2-1", "1-", "0-99999", "-1"] {
            assert_eq!(Cpus::parse(text), None, "{text:?}");
        }
        assert_eq!(Cpus(BTreeSet::from([1, 2, 3, 7])).to_string(), "1-3,7");
        assert_eq!(Cpus::parse_mask("1,00000009"), Cpus::parse("0,3,32"));
        assert_eq!(Cpus::parse_mask("x"), None);
    }

    #[test]
    fn this_machine_has_cpus() {
        assert!(!Cpus::online().0.is_empty());
        assert!(!Cpus::allowed().0.is_empty());
    }
}
