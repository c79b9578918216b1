//! Prints the rows of this host: `precompute [ROUNDS]`. Built with `--cfg aes_backend="soft"` it measures what a
//! processor without AES instructions would do.

use precompute::host;

fn main() {
    let rounds = std::env::args().nth(1).and_then(|rounds| rounds.parse().ok()).unwrap_or(201);
    for row in host::rows(rounds) {
        println!("{}", host::line(&row));
    }
    println!("end");
}
