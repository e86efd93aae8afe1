//! Signatures of outgoing calls, in the Standard Webhooks form: who has the project's secret can tell that a call is ours, that
//! nobody changed it, and when it was made.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use ring::hmac;
use secrecy::{ExposeSecret as _, SecretString};

use crate::domain::time::Timestamp;

/// What a secret begins with; the rest is the key in base64.
const PREFIX: &str = "whsec_";

/// The headers `webhook-id`, `webhook-timestamp` and `webhook-signature` of a call. `id` is the same for each try of one call,
/// so that its receiver can tell a repetition. There is one signature a secret: while one takes the place of another, whoever
/// knows either can verify the call.
///
/// # Errors
/// A secret is not of the form `whsec_` and base64, or the id can't stand in a header. The text holds neither.
pub(crate) fn headers(secrets: &[&SecretString], id: &str, now: Timestamp, body: &[u8]) -> Result<HeaderMap, String> {
    let seconds = now.millis().div_euclid(1000).to_string();
    let mut signatures = Vec::with_capacity(secrets.len());
    for secret in secrets {
        let key = secret.expose_secret().strip_prefix(PREFIX).and_then(|key| STANDARD.decode(key).ok());
        let key = key.ok_or_else(|| "the signing secret is not of the form whsec_ and base64".to_owned())?;
        let mut signed = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, &key));
        for part in [id.as_bytes(), b".", seconds.as_bytes(), b".", body] {
            signed.update(part);
        }
        signatures.push(format!("v1,{}", STANDARD.encode(signed.sign().as_ref())));
    }
    let signature = signatures.join(" ");
    let mut headers = HeaderMap::new();
    for (name, value) in [("webhook-id", id), ("webhook-timestamp", &seconds), ("webhook-signature", &signature)] {
        let value = HeaderValue::from_str(value).map_err(|_| format!("{name} can't stand in a header"))?;
        headers.insert(HeaderName::from_static(name), value);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_is_the_standards_own() {
        // Reckoned by hand with the openssl command over "msg_1.1614265330.{}" and the key of 24 bytes 0x00-0x17.
        let secret = SecretString::from(format!("whsec_{}", STANDARD.encode((0..24).collect::<Vec<u8>>())));
        let now = Timestamp::from_micros(1_614_265_330_999_999);
        let headers = headers(&[&secret], "msg_1", now, b"{}").expect("headers");
        assert_eq!(headers["webhook-id"], "msg_1");
        assert_eq!(headers["webhook-timestamp"], "1614265330");
        let signature = "v1,1IAVWmooqOL1/V6LNhFkPDxWIonZ9qPyZDb44YNMCfU=";
        assert_eq!(headers["webhook-signature"], signature);
        let other = SecretString::from(format!("whsec_{}", STANDARD.encode([7; 24])));
        let both = super::headers(&[&other, &secret], "msg_1", now, b"{}").expect("headers");
        let both = both["webhook-signature"].to_str().expect("text").to_owned();
        assert!(both.ends_with(&format!(" {signature}")) && both.matches("v1,").count() == 2, "{both}");
    }

    #[test]
    fn a_secret_of_another_form_is_refused_without_being_told() {
        for secret in ["hunter2", "whsec_not base64!"] {
            let error =
                headers(&[&SecretString::from(secret)], "id", Timestamp::from_micros(1), b"").expect_err("refused");
            assert!(!error.contains(secret), "{error}");
        }
    }
}
