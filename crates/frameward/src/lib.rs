//! An open-source MACsec encryption gateway for industrial networks.
