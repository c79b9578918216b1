//! One SecY (IEEE 802.1AE): protects and verifies frames, without clock, socket or log.
