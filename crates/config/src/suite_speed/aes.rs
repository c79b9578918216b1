//! Whether ciphers have AES instructions here.
//!
//! aws-lc uses what the CPU has, unless an environment variable masks it: `OPENSSL_ia32cap` (x86-64), whose bit 57
//! stands for AES, or `OPENSSL_armcap` (AArch64), whose bit 2 does. A value that begins with `~` takes the bits away
//! that it has; one with `|` adds, which takes nothing away; any other one stands for all that the CPU has. libaegis
//! asks the CPU itself and heeds neither variable.

use serde::{Deserialize, Serialize};

/// Whether the CPU has AES instructions, and the ciphers may use them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AesInstructions {
    /// They are there and used.
    Present,
    /// The CPU has none.
    Absent,
    /// The CPU has them, and an environment variable keeps aws-lc from them.
    Masked,
}

/// The variable that masks, and the bit in it that stands for AES.
#[cfg(target_arch = "aarch64")]
const MASK: (&str, u32) = ("OPENSSL_armcap", 2);
#[cfg(not(target_arch = "aarch64"))]
const MASK: (&str, u32) = ("OPENSSL_ia32cap", 32 + 25);

impl AesInstructions {
    pub(super) fn of_this_cpu() -> Self {
        let (variable, bit) = MASK;
        match std::env::var(variable) {
            _ if !cpu_has_aes() => Self::Absent,
            Ok(value) if is_masked(&value, bit) => Self::Masked,
            _ => Self::Present,
        }
    }
}

fn cpu_has_aes() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("aes");
    #[cfg(target_arch = "aarch64")]
    return std::arch::is_aarch64_feature_detected!("aes");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    false
}

/// Whether `value` keeps aws-lc from the feature of `bit`. A value without digits it ignores; but where it ends before
/// any (an empty variable), aws-lc takes what its memory happens to hold, and that took the AES instructions away when
/// it was tried: no figure of such a run is one of this CPU.
fn is_masked(value: &str, bit: u32) -> bool {
    let prefix = value.chars().next().filter(|first| matches!(first, '~' | '|'));
    let number = value.strip_prefix(['~', '|']).unwrap_or(value);
    let (number, radix) = number.strip_prefix("0x").map_or((number, 10), |hex| (hex, 16));
    let digits = number.split(|c: char| !c.is_digit(radix)).next().unwrap_or_default();
    let Ok(bits) = u64::from_str_radix(digits, radix) else { return number.is_empty() };
    let named = bits >> bit & 1 == 1;
    match prefix {
        Some('~') => named,
        Some(_) => false,
        None => !named,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_is_read_as_aws_lc_reads_it() {
        for (value, masked) in [
            ("~0x200000200000000:~0x60000000000", true),
            ("~0x200000000000000", true),
            ("~144115188075855872", true),
            ("~0x200000000", false), // CLMUL alone
            ("~0x0", false),
            (":~0x60000000000", false),
            ("|0x200000000000000", false),
            ("0x1e58020247000000:0x128", false),
            ("0x1c58020247000000:0x128", true),
            ("0", true),
            ("", true),
            ("~", true),
            ("none", false),
        ] {
            assert_eq!(is_masked(value, 57), masked, "{value:?}");
        }
        assert!(is_masked("~4", 2) && is_masked("0x1", 2) && !is_masked("0x5", 2));
    }
}
