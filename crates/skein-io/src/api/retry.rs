//! How long to wait before a request is repeated.

use std::time::{Duration, SystemTime};

/// Wait before repetition number `retry`, counted from 0: `first` doubled each time up to `most`, less up to half of it
/// as `draw`, a draw from [0, 1), says. Without the draw, requests that failed together would come back together.
pub(super) fn backoff(first: Duration, most: Duration, retry: u32, draw: f64) -> Duration {
    let doubled = first.saturating_mul(2_u32.saturating_pow(retry)).min(most);
    doubled.mul_f64(1.0 - draw / 2.0)
}

/// What a `Retry-After` header asks for: seconds, or the time until an HTTP date, 0 for one that has passed; none where
/// it is neither (RFC 9110, section 10.2.3).
pub(super) fn retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(Duration::from_secs(value.parse().unwrap_or(u64::MAX)));
    }
    let date = httpdate::parse_http_date(value).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

/// Whether a request that got this status may fare better later.
pub(super) fn may_pass(status: u16) -> bool {
    matches!(status, 408 | 409 | 425 | 429 | 500..=599) && status != 501
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn waits_double_up_to_a_bound_and_vary_below_it() {
        let waits: Vec<Duration> = (0..5).map(|retry| backoff(SECOND, 10 * SECOND, retry, 0.0)).collect();
        assert_eq!(waits, [1, 2, 4, 8, 10].map(|secs| secs * SECOND));
        assert_eq!(backoff(SECOND, 10 * SECOND, u32::MAX, 0.0), 10 * SECOND);
        assert_eq!(backoff(2 * SECOND, 10 * SECOND, 0, 0.5), SECOND.mul_f64(1.5));
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        let wait = |value| retry_after(value, now);
        assert_eq!(wait(" 120 "), Some(120 * SECOND));
        assert_eq!(wait("0"), Some(Duration::ZERO));
        assert_eq!(wait("99999999999999999999999"), Some(Duration::from_secs(u64::MAX)));
        assert_eq!(wait("Sun, 06 Nov 1994 08:49:47 GMT"), Some(10 * SECOND));
        assert_eq!(wait("Sunday, 06-Nov-94 08:49:47 GMT"), Some(10 * SECOND));
        assert_eq!(wait("Sun Nov  6 08:49:30 1994"), Some(Duration::ZERO));
        for odd in ["", "soon", "-5", "1.5", "+1", "Sun, 06 Nov 1994"] {
            assert_eq!(wait(odd), None, "{odd}");
        }
    }

    #[test]
    fn what_may_pass() {
        assert!([408, 429, 500, 502, 503, 504, 529].into_iter().all(may_pass));
        assert!(![200, 301, 400, 401, 403, 404, 422, 501].into_iter().any(may_pass));
    }
}
