//! How a chat model on a server is reached, asked and paid.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Longest time a config may ask for, in seconds: a day.
const MAX_SECS: f64 = 86_400.0;

/// A server with the OpenAI-compatible chat API.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ApiConfig {
    /// Address of the API, for instance `http://localhost:8000/v1`; `/chat/completions` is added. No default.
    pub base_url: String,
    /// The model's name on the server. No default.
    pub model: String,
    /// Environment variable that holds the API key; default none: no key is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key_env: Option<String>,
    /// Whether replies are asked for as a stream of events; default false.
    pub stream: bool,
    /// Requests under way at once; default 8.
    pub max_concurrent: usize,
    /// Requests begun in any minute, retries included; default 0: no limit.
    pub requests_per_minute: usize,
    /// Times a request is repeated after a failure that may pass; default 5.
    pub max_retries: u32,
    /// Wait before the first repetition; it doubles each time, and up to half of it is taken off at random; default 1.
    pub backoff_secs: f64,
    /// Longest wait the doubling leads to; default 60. A server that asks for more gets it.
    pub max_backoff_secs: f64,
    /// Time a connection may take to stand; default 10.
    pub connect_timeout_secs: f64,
    /// Time the server may be silent; default 120.
    pub read_timeout_secs: f64,
    /// Time an attempt may take as a whole; default 300.
    pub request_timeout_secs: f64,
    /// Longest reply, as it comes over the network; default 4 MiB.
    pub max_reply_bytes: usize,
    /// Folder of replies that were paid for once; default none: every reply is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<PathBuf>,
    /// Price of a million prompt tokens, in whatever currency; default 0.
    pub prompt_price: f64,
    /// Price of a million completion tokens; default 0.
    pub completion_price: f64,
    /// Fields that every request gets besides; one that is there already is replaced. Default none.
    #[serde(skip_serializing_if = "serde_json::Map::is_empty")]
    pub extra: serde_json::Map<String, serde_json::Value>,
}

impl Default for ApiConfig {
    fn default() -> Self {
        Self {
            base_url: String::new(),
            model: String::new(),
            api_key_env: None,
            stream: false,
            max_concurrent: 8,
            requests_per_minute: 0,
            max_retries: 5,
            backoff_secs: 1.0,
            max_backoff_secs: 60.0,
            connect_timeout_secs: 10.0,
            read_timeout_secs: 120.0,
            request_timeout_secs: 300.0,
            max_reply_bytes: 4 << 20,
            cache: None,
            prompt_price: 0.0,
            completion_price: 0.0,
            extra: serde_json::Map::new(),
        }
    }
}

impl ApiConfig {
    /// What is wrong with these values, each with its field.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let address = self.base_url.strip_prefix("https://").or_else(|| self.base_url.strip_prefix("http://"));
        match address {
            None => problems.push("base_url: expected an address that begins with http:// or https://".to_owned()),
            // Addresses are shown in errors, so they must not hold secrets.
            Some(rest) if rest.split('/').next().is_some_and(|host| host.is_empty() || host.contains('@')) => {
                problems.push("base_url: expected a host without user name or password".to_owned());
            }
            Some(rest) if rest.contains(['?', '#']) => {
                problems.push("base_url: expected an address without query or fragment".to_owned());
            }
            Some(_) => {}
        }
        if self.model.is_empty() {
            problems.push("model: expected the model's name on the server".to_owned());
        }
        for (field, value) in [("max_concurrent", self.max_concurrent), ("max_reply_bytes", self.max_reply_bytes)] {
            if value == 0 {
                problems.push(format!("{field}: is 0, expected at least 1"));
            }
        }
        for (field, secs) in [
            ("backoff_secs", self.backoff_secs),
            ("max_backoff_secs", self.max_backoff_secs),
            ("connect_timeout_secs", self.connect_timeout_secs),
            ("read_timeout_secs", self.read_timeout_secs),
            ("request_timeout_secs", self.request_timeout_secs),
        ] {
            if !(secs > 0.0 && secs <= MAX_SECS) {
                problems.push(format!("{field}: is {secs}, expected more than 0 and at most {MAX_SECS}"));
            }
        }
        for (field, price) in [("prompt_price", self.prompt_price), ("completion_price", self.completion_price)] {
            if !(price >= 0.0 && price.is_finite()) {
                problems.push(format!("{field}: is {price}, expected 0 or more"));
            }
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_config_names_its_problems() {
        let good = ApiConfig { base_url: "http://localhost:8000/v1".into(), model: "m".into(), ..Default::default() };
        assert!(good.problems().is_empty());
        assert_eq!(ApiConfig::default().problems().len(), 2);
        for base_url in ["ftp://host", "https://user:word@host/v1", "http:///v1", "http://host?key=1"] {
            let bad = ApiConfig { base_url: base_url.into(), ..good.clone() };
            assert!(bad.problems()[0].starts_with("base_url: "), "{base_url}");
        }
        let bad = ApiConfig {
            max_concurrent: 0,
            backoff_secs: f64::NAN,
            read_timeout_secs: 1e300,
            prompt_price: -1.0,
            ..good
        };
        assert_eq!(bad.problems().len(), 4, "{:?}", bad.problems());
    }

    #[test]
    fn a_config_is_written_as_toml() {
        let text = "base_url = \"http://localhost/v1\"\nmodel = \"m\"\nextra = { top_k = 1 }\n";
        let config: ApiConfig = toml::from_str(text).unwrap();
        assert_eq!(config.extra["top_k"], 1);
        assert_eq!(toml::from_str::<ApiConfig>(&toml::to_string(&config).unwrap()).unwrap(), config);
        assert!(toml::from_str::<ApiConfig>("key = \"secret\"").is_err());
    }
}
