//! QUIC (RFC 9000) as the channel uses it: its limits, its times, and how a site that has restarted says so.
//!
//! A site that restarts knows nothing of the connections before. What its peers still send there it answers with
//! *stateless resets* (RFC 9000, 10.3), so that they do not wait for their timeout. The tokens of these come from a key
//! that is the same after the restart. So do connection IDs: a packet of nobody is no reason for an answer, only one
//! whose ID this site has once given out. The first packet of a connection shows instead that who sent it knows this site's
//! public key ([`suite::knock`]).

use std::sync::Arc;
use std::time::Duration;

use quinn::crypto::{CryptoError, HmacKey};
use quinn::{
    ClientConfig, ConnectionId, ConnectionIdGenerator, EndpointConfig, MtuDiscoveryConfig, ServerConfig,
    TransportConfig, VarInt,
};
use quinn_proto::InvalidCid;
use suite::identity::{PublicKey, RecognitionKey};
use suite::knock::KnockKey;

use super::random;

/// A packet at least so often, so that a NAT does not forget.
const KEEP_ALIVE: Duration = Duration::from_secs(1);
/// A peer that was not heard for so long is lost.
pub(super) const DEAD: Duration = Duration::from_secs(3);
/// QUIC counts from the first packet that it sent after the last one that it heard (RFC 9000, 10.1): a keep-alive.
const IDLE: Duration = Duration::from_secs(DEAD.as_secs() - KEEP_ALIVE.as_secs());
/// The least UDP payload that a path has to carry (RFC 9000, 14): the floor of what is told to the worker.
pub(super) const FLOOR: u16 = 1200;
/// Interval between searches for a larger path MTU.
const SEARCH: Duration = Duration::from_secs(120);
/// Pause before a path that swallowed large packets is tried again.
const COOL_DOWN: Duration = Duration::from_secs(30);
/// Streams that the peer may have open: one for control, one for announcements, a fill, the rest with one MKPDU each.
pub(super) const STREAMS: u32 = 35;

/// Codes that a connection is closed with.
pub(super) mod code {
    use quinn::VarInt;

    /// This site stops.
    pub(crate) const STOPPED: VarInt = VarInt::from_u32(1);
    /// There is another connection with the same peer.
    pub(crate) const SUPERSEDED: VarInt = VarInt::from_u32(2);
    /// The peer broke the protocol.
    pub(crate) const FAULT: VarInt = VarInt::from_u32(3);
    /// The peer was taken out of this site's configuration, or is configured otherwise.
    pub(crate) const REMOVED: VarInt = VarInt::from_u32(4);
}

/// First octets of streams, beside those of [`tunnel::Stream`].
pub(super) mod kind {
    /// One MKPDU.
    pub(crate) const MKPDU: u8 = 2;
    /// A packet of the longest length.
    pub(crate) const FILL: u8 = 3;
}

/// For all connections. `most_payload`: octets of the largest UDP payload that is worth looking for.
pub(super) fn transport(most_payload: u16) -> Arc<TransportConfig> {
    let mut search = MtuDiscoveryConfig::default();
    search
        .interval(SEARCH)
        .upper_bound(most_payload.max(FLOOR))
        // To the octet: a frame that would just fit must not be split.
        .minimum_change(1)
        .black_hole_cooldown(COOL_DOWN);
    let mut transport = TransportConfig::default();
    transport
        .max_concurrent_bidi_streams(VarInt::from_u32(0))
        .max_concurrent_uni_streams(VarInt::from_u32(STREAMS))
        .stream_receive_window(VarInt::from_u32(64 * 1024))
        .receive_window(VarInt::from_u32(512 * 1024))
        .send_window(512 * 1024)
        .datagram_receive_buffer_size(None)
        .max_idle_timeout(Some(VarInt::from_u32(IDLE.as_millis() as u32).into()))
        .keep_alive_interval(Some(KEEP_ALIVE))
        // The first repetition after 300 ms instead of a second: a peer that is about to start is soon found.
        .initial_rtt(Duration::from_millis(100))
        .initial_mtu(FLOOR)
        .min_mtu(FLOOR)
        .mtu_discovery_config(Some(search))
        .allow_spin(false)
        .enable_segmentation_offload(false);
    Arc::new(transport)
}

/// For the endpoint. `longest`: octets of the longest datagram that is received.
pub(super) fn endpoint(key: &RecognitionKey, longest: u16) -> EndpointConfig {
    let mut config = EndpointConfig::new(Arc::new(Resets(key.clone())));
    let ids = ConnectionIds::new(key);
    config
        // Bit 0x40 of the first octet tells QUIC from data on the same port.
        .grease_quic_bit(false)
        .supported_versions(vec![1])
        .cid_generator(move || Box::new(ids.clone()));
    config.max_udp_payload_size(longest.max(FLOOR)).expect("invariant: between 1200 and 65527");
    config
}

/// For connections to this site.
pub(super) fn client(
    crypto: Arc<dyn quinn::crypto::ClientConfig>,
    transport: Arc<TransportConfig>,
    site: PublicKey,
) -> ClientConfig {
    let mut config = ClientConfig::new(crypto);
    let key = KnockKey::of(site);
    let knock = move || ConnectionId::new(&key.knock(random::number().to_le_bytes()));
    config.transport_config(transport).initial_dst_cid_provider(Arc::new(knock));
    config
}

/// Configuration that all incoming connections share.
pub(super) fn server(
    crypto: Arc<dyn quinn::crypto::ServerConfig>,
    transport: Arc<TransportConfig>,
) -> ServerConfig {
    let mut config = ServerConfig::with_crypto(crypto);
    config
        .transport_config(transport)
        .max_incoming(64)
        .incoming_buffer_size(8 * 1024)
        .incoming_buffer_size_total(256 * 1024)
        .migration(true);
    config
}

/// Stateless reset tokens.
struct Resets(RecognitionKey);

impl HmacKey for Resets {
    fn sign(&self, data: &[u8], signature_out: &mut [u8]) {
        signature_out.copy_from_slice(&self.0.tag(data));
    }

    fn signature_len(&self) -> usize {
        RecognitionKey::TAG_OCTETS
    }

    fn verify(&self, data: &[u8], signature: &[u8]) -> Result<(), CryptoError> {
        if self.0.verify(data, signature) { Ok(()) } else { Err(CryptoError) }
    }
}

/// Connection IDs: `random 8 | the first 8 octets of the tag of ("connection ID", random)`.
#[derive(Clone, Debug)]
pub(super) struct ConnectionIds(RecognitionKey);

impl ConnectionIds {
    const OCTETS: usize = 16;

    pub(super) fn new(key: &RecognitionKey) -> Self {
        Self(key.clone())
    }

    fn of(&self, random: [u8; 8]) -> [u8; Self::OCTETS] {
        // Longer than a connection ID, so that no tag of one is a reset token.
        let mut tagged = *b"connection ID........";
        tagged[13..].copy_from_slice(&random);
        let tag = self.0.tag(&tagged);
        let mut id = [0; Self::OCTETS];
        id[..8].copy_from_slice(&random);
        id[8..].copy_from_slice(&tag[..8]);
        id
    }

    /// Whether this site has given out this connection ID.
    pub(super) fn are_ours(&self, id: &[u8]) -> bool {
        id.len() == Self::OCTETS && self.begin(id)
    }

    /// Whether one that this site has given out stands at the beginning of `octets`.
    pub(super) fn begin(&self, octets: &[u8]) -> bool {
        octets.first_chunk::<{ Self::OCTETS }>().is_some_and(|id| {
            let [random @ .., _, _, _, _, _, _, _, _] = *id;
            *id == self.of(random)
        })
    }
}

impl ConnectionIdGenerator for ConnectionIds {
    fn generate_cid(&mut self) -> ConnectionId {
        ConnectionId::new(&self.of(random::number().to_le_bytes()))
    }

    fn validate(&self, cid: &ConnectionId) -> Result<(), InvalidCid> {
        if self.are_ours(cid) { Ok(()) } else { Err(InvalidCid) }
    }

    fn cid_len(&self) -> usize {
        Self::OCTETS
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}
