//! Counters of a UDP port.

wire::counters! {
    /// Cumulative counters of a UDP port. Octets are those of UDP payloads.
    UdpCounters {
        /// Packets received.
        rx_packets = "RxPackets",
        /// Their octets.
        rx_octets = "RxOctets",
        /// Packets that the kernel took to be sent.
        tx_packets = "TxPackets",
        /// Their octets.
        tx_octets = "TxOctets",
        /// To be sent, but the socket or the kernel had no room.
        tx_dropped = "TxDropped" [discard],
        /// To be sent, but there is no way to the address, or it is not allowed.
        tx_unreachable = "TxUnreachable" [discard],
        /// To be sent, but longer than the MTU of the interface, and never fragmented.
        tx_too_long = "TxTooLong" [discard],
        /// Received, but cut by the kernel.
        rx_truncated = "RxTruncated" [discard],
        /// Dropped by the kernel before it reached us: the socket's buffer was full, or a checksum was wrong.
        rx_kernel_dropped = "RxKernelDropped" [discard],
    }
}
