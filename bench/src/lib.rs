//! What benches and the instruction guard share: one JSON row a figure.
