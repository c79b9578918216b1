//! Messages of etcd in JSON: numbers of 64 bits are texts, octets are base64, and what is zero or empty is left out.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::super::{Entry, KEY_OCTETS, VALUE_OCTETS, Write};
use super::encoded;

#[derive(Serialize)]
pub(super) struct RangeRequest {
    key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    range_end: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_mod_revision: Option<String>,
}

/// Names and first revision of a watch.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct WatchRequest {
    key: String,
    range_end: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Head {
    revision: String,
}

/// What has to be there keeps an entry from being longer in memory than in the answer.
#[derive(Deserialize)]
pub(super) struct KeyValue {
    key: String,
    #[serde(default)]
    value: String,
    mod_revision: String,
}

#[derive(Deserialize)]
pub(super) struct RangeAnswer {
    pub(super) header: Head,
    #[serde(default)]
    pub(super) kvs: Vec<KeyValue>,
    #[serde(default)]
    pub(super) more: bool,
}

#[derive(Deserialize)]
pub(super) struct TransactionAnswer {
    pub(super) header: Head,
    #[serde(default)]
    pub(super) succeeded: bool,
    #[serde(default)]
    pub(super) responses: Vec<Response>,
}

#[derive(Deserialize)]
pub(super) struct Response {
    pub(super) response_range: Option<RangeAnswer>,
}

#[derive(Deserialize)]
pub(super) struct WatchAnswer {
    pub(super) result: Option<WatchResult>,
}

#[derive(Deserialize)]
pub(super) struct WatchResult {
    #[serde(default)]
    pub(super) header: Head,
    #[serde(default)]
    pub(super) created: bool,
    #[serde(default)]
    pub(super) canceled: bool,
    #[serde(default)]
    pub(super) events: Vec<Event>,
}

#[derive(Deserialize)]
pub(super) struct Event {
    #[serde(rename = "type", default)]
    kind: String,
    pub(super) kv: KeyValue,
}

impl RangeRequest {
    pub(super) fn one(key: &str) -> Self {
        let key = encoded(key.as_bytes());
        Self { key, range_end: None, limit: None, revision: None, min_mod_revision: None }
    }

    /// The same, if it was written after that revision.
    pub(super) fn newer(key: &str, after: u64) -> Self {
        Self { min_mod_revision: Some(after.saturating_add(1).to_string()), ..Self::one(key) }
    }

    /// One of those whose keys begin with `prefix`, if any was written after that revision. etcd applies the limit last.
    pub(super) fn any_newer(prefix: &str, after: u64) -> Self {
        let newer = after.saturating_add(1).to_string();
        Self { min_mod_revision: Some(newer), ..Self::page(prefix, prefix, 1, 0) }
    }

    /// Up to `limit` entries from the key `from` on, whose keys begin with `prefix`. Revision 0 is the newest one.
    pub(super) fn page(from: &str, prefix: &str, limit: usize, revision: u64) -> Self {
        Self {
            key: encoded(from.as_bytes()),
            range_end: Some(encoded(&behind(prefix))),
            limit: Some(limit.to_string()),
            revision: (revision > 0).then(|| revision.to_string()),
            min_mod_revision: None,
        }
    }
}

impl Head {
    pub(super) fn revision(&self) -> Option<u64> {
        self.revision.parse().ok()
    }
}

impl KeyValue {
    pub(super) fn entry(self) -> Option<Entry> {
        let key = String::from_utf8(STANDARD.decode(self.key).ok()?).ok()?;
        let (value, revision) = (STANDARD.decode(self.value).ok()?, self.mod_revision.parse().ok()?);
        (key.len() <= KEY_OCTETS && value.len() <= VALUE_OCTETS).then_some(Entry { key, value, revision })
    }
}

impl Event {
    pub(super) fn is_removal(&self) -> bool {
        self.kind == "DELETE"
    }
}

/// Writes entries if each of them has the revision `seen`, or tells which ones are there.
pub(super) fn transaction(writes: &[Write<'_>]) -> serde_json::Value {
    let keys: Vec<_> = writes.iter().map(|write| encoded(write.key.as_bytes())).collect();
    let both = || keys.iter().zip(writes);
    let compare = both().map(|(key, write)| {
        serde_json::json!({ "key": key, "target": "MOD", "result": "EQUAL", "mod_revision": write.seen.to_string() })
    });
    let put = both().map(
        |(key, write)| serde_json::json!({ "request_put": { "key": key, "value": encoded(write.value) } }),
    );
    // A single one is told. Of several the caller looks at each.
    let there = keys.first().filter(|_| keys.len() == 1);
    let there = there.map(|key| serde_json::json!({ "request_range": { "key": key } }));
    serde_json::json!({
        "compare": compare.collect::<Vec<_>>(),
        "success": put.collect::<Vec<_>>(),
        "failure": there.into_iter().collect::<Vec<_>>(),
    })
}

impl WatchRequest {
    /// Of an entry.
    pub(super) fn one(key: &str) -> Self {
        Self { key: encoded(key.as_bytes()), range_end: None }
    }

    /// Of all whose keys begin with `prefix`.
    pub(super) fn all(prefix: &str) -> Self {
        Self { key: encoded(prefix.as_bytes()), range_end: Some(encoded(&behind(prefix))) }
    }

    /// Asks for all changes from a revision on, and for notifications while there are none.
    pub(super) fn from(&self, revision: u64) -> serde_json::Value {
        let mut request = serde_json::json!({
            "key": self.key,
            "start_revision": revision.to_string(),
            "progress_notify": true,
        });
        if let Some(end) = &self.range_end {
            request["range_end"] = end.as_str().into();
        }
        serde_json::json!({ "create_request": request })
    }
}

/// The first key behind all that begin with `prefix`.
fn behind(prefix: &str) -> Vec<u8> {
    let mut octets = prefix.as_bytes().to_vec();
    // Texts have no octet 0xff.
    if let Some(last) = octets.last_mut() {
        *last += 1;
    }
    octets
}
