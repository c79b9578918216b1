//! Every committed object, whatever loads it: whether this kernel takes each of its programs. Root. Tests beside this one show what
//! the programs do.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use aya::programs::{Program, ProgramError};
use aya::{EbpfLoader, VerifierLogLevel};

/// Lines of the verifier's log that are shown.
const LAST_LINES: usize = 12;

#[test]
fn this_kernel_takes_every_program() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("bpf");
    let files = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let mut objects: Vec<_> = files.filter(|file| file.to_string_lossy().ends_with(".bpf.o")).collect();
    objects.sort();
    assert!(!objects.is_empty(), "no object in {}", folder.display());
    let refused: Vec<_> = objects.iter().flat_map(|object| refused(object)).collect();
    assert!(refused.is_empty(), "{} refused:\n{}", refused.len(), refused.join("\n"));
}

/// Lists the programs of an object that the kernel refuses, with its reasons.
fn refused(object: &Path) -> Vec<String> {
    let name = object.file_name().unwrap().to_string_lossy();
    let mut ebpf = match EbpfLoader::new().verifier_log_level(VerifierLogLevel::VERBOSE).load_file(object) {
        Ok(ebpf) => ebpf,
        Err(error) => return vec![format!("{name}: {error}")],
    };
    let mut refused = Vec::new();
    for (program, loaded) in ebpf.programs_mut() {
        let taken = match loaded {
            Program::Xdp(xdp) => xdp.load(),
            Program::SchedClassifier(classifier) => classifier.load(),
            other => {
                panic!("{name}: {program} is of a type that this test does not know: {:?}", other.prog_type())
            }
        };
        match taken {
            Ok(()) => println!("{name}: {program}: taken"),
            Err(error) => refused.push(format!("{name}: {program}: {}", reason(&error))),
        }
    }
    refused
}

/// The end of the verifier's log, which says what it does not like.
fn reason(error: &ProgramError) -> String {
    let ProgramError::LoadError { io_error, verifier_log } = error else { return error.to_string() };
    let log = verifier_log.to_string();
    let lines: Vec<_> = log.lines().collect();
    let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
    format!("{io_error}\n    {}", last.join("\n    "))
}
