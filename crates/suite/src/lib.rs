//! Keys and cipher suites: seal and open, nonces, secrets. No protocol, no input or output.
