//! The API key, kept where it can't be printed.

use std::fmt;

use ureq::http::HeaderValue;

/// Stands for the key in texts that come from elsewhere.
const HIDDEN: &str = "[API key]";

/// A secret that is sent to the server and shown nowhere.
#[derive(Clone)]
pub(super) struct ApiKey {
    secret: String,
    header: HeaderValue,
}

impl ApiKey {
    /// A key, unless it has characters that no key has.
    pub(super) fn new(secret: &str) -> Option<Self> {
        let secret = secret.trim();
        let usable = !secret.is_empty() && secret.bytes().all(|byte| byte.is_ascii_graphic());
        let mut header = HeaderValue::from_str(&format!("Bearer {secret}")).ok().filter(|_| usable)?;
        header.set_sensitive(true);
        Some(Self { secret: secret.to_owned(), header })
    }

    /// The value of the authorization header.
    pub(super) fn header(&self) -> &HeaderValue {
        &self.header
    }

    /// `text` without the key, which servers like to repeat in their complaints.
    pub(super) fn hidden_in(&self, text: &str) -> String {
        text.replace(&self.secret, HIDDEN)
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_sent_and_not_shown() {
        let key = ApiKey::new(" sk-123\n").unwrap();
        assert_eq!(key.header(), "Bearer sk-123");
        assert_eq!(key.hidden_in("no such key: sk-123."), "no such key: [API key].");
        assert!(!format!("{key:?} {:?}", key.header()).contains("123"));
        assert!(ApiKey::new("").is_none() && ApiKey::new("a b").is_none() && ApiKey::new("a\r\nX: b").is_none());
    }
}
