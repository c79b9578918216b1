//! Direction of a frame.

/// Direction of a frame through this gateway.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Direction {
    /// From the machine to the network.
    Outward,
    /// From the network to the machine.
    Inward,
}
