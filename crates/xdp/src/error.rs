//! Why the kernel does not take a cell or a link, or a change of it. What a user reads is one line.

use aya::EbpfError;
use aya::maps::MapError;
use aya::programs::ProgramError;
use secy::InstallError;

/// Why frames do not go through the kernel.
#[derive(Debug, thiserror::Error)]
pub enum XdpError {
    /// The suite is not the one that has a program.
    #[error("the kernel protects cyclic frames by chacha20-poly1305 only; the suite is {0}")]
    Suite(&'static str),
    /// The same, of a link.
    #[error(
        "the kernel protects a link's frames by chacha20-poly1305 and chacha20-poly1305-xpn only; the suite is {0}"
    )]
    LinkSuite(&'static str),
    /// A SecY that the programs are not.
    #[error("the kernel path does not have {0}")]
    Setting(&'static str),
    /// A wider replay window than there was room made for at the start.
    #[error(
        "the kernel's maps have room for replay windows of {room} PNs since the start; that of the link is {wanted}; restart the gateway"
    )]
    Window {
        /// PNs of the window.
        wanted: u32,
        /// The most.
        room: u32,
    },
    /// An SC or SA cannot be installed.
    #[error("the kernel path does not take an SC or SA: {0:?}")]
    Install(InstallError),
    /// Longer frames than the programs take.
    #[error("the kernel path takes an MTU of up to {most}; that of the protected side is {mtu}")]
    Mtu {
        /// Of the protected side.
        mtu: usize,
        /// The most.
        most: usize,
    },
    /// More relations than there was room made for at the start.
    #[error(
        "the kernel's maps have room for {room} relations since the start, and there are {wanted}; restart the gateway"
    )]
    Room {
        /// Relations that the kernel is to have.
        wanted: usize,
        /// The most.
        room: usize,
    },
    /// More lanes of a site than there are identifiers for.
    #[error("the kernel's table has room for the windows of {most} lanes, and {wanted} are wanted")]
    Lanes {
        /// Lanes that the kernel is to have.
        wanted: u32,
        /// The most.
        most: u64,
    },
    /// More relations than a cell may have, or two that cannot be told apart.
    #[error("two relations cannot be told apart, or there are too many")]
    Relations,
    /// The object as such is refused: no BTF, or maps that this kernel does not have.
    #[error("this kernel does not take the BPF object: {0}")]
    Object(EbpfError),
    /// A program is refused.
    #[error("this kernel does not take the program {program}: {reason}")]
    Program {
        /// Its name.
        program: &'static str,
        /// Message of the kernel, or of its verifier.
        reason: String,
    },
    /// A map cannot be read or written.
    #[error("a map of the kernel path: {0}")]
    Map(#[from] MapError),
    /// Maps and programs are for those who may have them.
    #[error("the kernel takes programs with CAP_BPF and CAP_NET_ADMIN alone, which are not granted")]
    NotPermitted,
    /// The verifier allows no sums of pointers into frames without this capability.
    #[error("the kernel takes such programs with CAP_PERFMON alone, which is not granted")]
    Perfmon,
    /// There are no programs to be had, for this reason.
    #[error("{why}")]
    NotLoaded {
        /// It.
        why: String,
        /// See [`XdpError::is_of_rights`].
        of_rights: bool,
    },
    /// The number of CPUs is not known.
    #[error("the CPUs cannot be counted: {0}")]
    Cpus(std::io::Error),
    /// There is no thread for keystream ahead.
    #[error("keystream ahead needs a thread: {0}")]
    Thread(std::io::Error),
    /// Keystream ahead has no memory.
    #[error("the kernel does not share memory for keystream ahead: {0}")]
    Shared(std::io::Error),
    /// The program before this one has not passed them on.
    #[error("programs and maps cannot be taken over: {0}")]
    Passed(std::io::Error),
    /// An interface cannot be sent to.
    #[error("an interface of the kernel path: {0}")]
    Port(#[from] aya::maps::xdp::XdpMapError),
    /// A key of another suite, or a relation that there is not.
    #[error("the kernel path was given a change that it does not know")]
    Malformed,
}

impl From<EbpfError> for XdpError {
    fn from(error: EbpfError) -> Self {
        match &error {
            EbpfError::MapError(MapError::CreateError { io_error, .. })
                if io_error.kind() == std::io::ErrorKind::PermissionDenied =>
            {
                Self::NotPermitted
            }
            _ => Self::Object(error),
        }
    }
}

impl From<InstallError> for XdpError {
    fn from(error: InstallError) -> Self {
        Self::Install(error)
    }
}

impl XdpError {
    /// Whether it is this process that must not, and not the kernel that cannot.
    pub const fn is_of_rights(&self) -> bool {
        matches!(self, Self::NotPermitted | Self::Perfmon | Self::NotLoaded { of_rights: true, .. })
    }

    /// Error of a run of a program, or of its descriptor.
    pub(crate) fn run(program: &'static str, error: &std::io::Error) -> Self {
        Self::Program { program, reason: error.to_string() }
    }

    /// A program's error in one line: of the verifier's log the last line but the statistics, which says what it does not like.
    pub(crate) fn program(program: &'static str, error: &ProgramError) -> Self {
        let reason = match error {
            ProgramError::LoadError { io_error, verifier_log } => {
                let log = verifier_log.to_string();
                if io_error.kind() == std::io::ErrorKind::PermissionDenied && log.contains("prohibited") {
                    return Self::Perfmon;
                }
                let statistics = ["verification time", "stack depth", "processed"];
                let said = log.lines().rev().find(|line| {
                    !line.trim().is_empty() && !statistics.iter().any(|start| line.starts_with(start))
                });
                let cure = match io_error.kind() {
                    std::io::ErrorKind::PermissionDenied => "; CAP_BPF and CAP_NET_ADMIN are needed",
                    _ => "",
                };
                format!("{io_error}; {}{cure}", said.unwrap_or_default().trim())
            }
            other => other.to_string(),
        };
        Self::Program { program, reason }
    }
}
