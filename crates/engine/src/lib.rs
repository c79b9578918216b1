//! Ports, bursts, workers and control: the only crate with input and output on the frame path.
