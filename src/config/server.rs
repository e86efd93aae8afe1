//! `[server]`: the HTTP API.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::length;
use super::setting::{Allowed, Setting};
use crate::domain::time::Micros;

/// The HTTP API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Server {
    /// The address and port to listen on.
    pub listen: SocketAddr,
    /// The largest body accepted, in bytes, after decompression.
    pub body_limit_bytes: usize,
    /// How long a request may take before it is answered with an error.
    #[serde(with = "length")]
    pub request_timeout: Micros,
    /// The most readers that follow the rail at the same time.
    pub max_streams: usize,
    /// How often a reader of the rail is sent a sign of life.
    #[serde(with = "length")]
    pub stream_heartbeat: Micros,
    /// How long a reader of the rail may take nothing before it is dropped.
    #[serde(with = "length")]
    pub stream_patience: Micros,
    /// How long a client may take to send the head of a request, and keep a connection without one.
    #[serde(with = "length")]
    pub head_timeout: Micros,
    /// The most connections at the same time.
    pub max_connections: usize,
    /// How many requests a minute each key may make, where its own limit says nothing; 0 is no limit.
    pub requests_per_minute: u32,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 7070)),
            body_limit_bytes: 10 * 1024 * 1024,
            request_timeout: Micros::seconds(30),
            max_streams: 100,
            stream_heartbeat: Micros::seconds(15),
            stream_patience: Micros::seconds(30),
            head_timeout: Micros::seconds(15),
            max_connections: 1_000,
            requests_per_minute: 300_000,
        }
    }
}

pub(super) const SETTINGS: &[Setting] = &[
    Setting { key: "listen", allowed: Allowed::Text(check_listen) },
    Setting { key: "body_limit_bytes", allowed: Allowed::Whole(1_000, 1_000_000_000) },
    Setting { key: "request_timeout", allowed: Allowed::Length(Micros::seconds(1), Micros::seconds(3_600)) },
    Setting { key: "max_streams", allowed: Allowed::Whole(0, 10_000) },
    Setting { key: "stream_heartbeat", allowed: Allowed::Length(Micros::seconds(1), Micros::seconds(300)) },
    Setting { key: "stream_patience", allowed: Allowed::Length(Micros::seconds(1), Micros::seconds(3_600)) },
    Setting { key: "head_timeout", allowed: Allowed::Length(Micros::seconds(1), Micros::seconds(600)) },
    Setting { key: "max_connections", allowed: Allowed::Whole(10, 1_000_000) },
    Setting { key: "requests_per_minute", allowed: Allowed::Whole(0, 10_000_000) },
];

fn check_listen(text: &str) -> Result<(), String> {
    match text.parse::<SocketAddr>() {
        Ok(_) => Ok(()),
        Err(_) => Err(format!(
            "is \"{text}\", must be an IP address and a port, such as \"127.0.0.1:7070\" (this machine only), \"0.0.0.0:7070\" \
             (every network) or \"[::1]:7070\""
        )),
    }
}
