//! Floor 3: the HTTP API.
