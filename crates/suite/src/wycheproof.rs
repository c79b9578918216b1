//! Project Wycheproof vectors.
