//! Each file of `fuzz/corpus/TARGET` through the body of that target.

use std::fs;
use std::path::Path;

#[test]
fn the_corpus_of_every_target() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for (target, run) in targets::TARGETS {
        let folder = corpus.join(target);
        let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let mut files = 0;
        for entry in entries {
            let path = entry.expect("a readable folder").path();
            let octets = fs::read(&path).expect("a readable file");
            // The panic of a body does not know the file.
            println!("{}", path.display());
            run(&octets);
            files += 1;
        }
        assert!(files > 0, "{} is empty", folder.display());
    }
    let folders = fs::read_dir(&corpus).expect("a readable folder").count();
    assert_eq!(folders, targets::TARGETS.len(), "each folder belongs to a target");
}
