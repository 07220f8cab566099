//! The Jinja environment transformers renders chat templates in, on minijinja.

use std::time::{SystemTime, UNIX_EPOCH};

use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, Error, ErrorKind, Value};

use super::python;

/// What `raise_exception` was called with, carried through minijinja's error.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Refusal(pub String);

/// The name of the one template.
pub(super) const TEMPLATE: &str = "chat template";

/// An environment that holds `source`, ready to render.
pub(super) fn build(source: &str) -> Result<Environment<'static>, Error> {
    let mut environment = Environment::new();
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    environment.set_formatter(|out, _, value| Ok(out.write_str(&python::str(value)?)?));
    environment.set_unknown_method_callback(python::method);
    environment.add_filter("tojson", python::tojson);
    environment.add_filter("string", |value: &Value| python::str(value));
    environment.add_filter("int", python::int);
    environment.add_filter("float", python::to_float);
    environment.add_test("sequence", python::is_sequence);
    environment.add_function("dict", python::dict);
    environment.add_function("raise_exception", |message: String| -> Result<Value, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, message.clone()).with_source(Refusal(message)))
    });
    environment.add_function("strftime_now", |format: &str| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        strftime(format, now)
    });
    environment.add_template_owned(TEMPLATE, scope_generation_blocks(source))?;
    Ok(environment)
}

/// Turns `{% generation %}` blocks, which only mark the assistant's text, into `{% with %}` blocks: the same output, the same
/// white space rules, a scope of their own as in transformers.
fn scope_generation_blocks(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        let (before, tag) = rest.split_at(start + 2);
        out.push_str(before);
        rest = tag;
        let Some(end) = tag.find("%}") else { break };
        let inner = &tag[..end];
        let word = inner.trim_matches(|c: char| c.is_whitespace() || matches!(c, '-' | '+'));
        let replacement = match word {
            "generation" => "with",
            "endgeneration" => "endwith",
            _ => continue,
        };
        out.push_str(&inner.replacen(word, replacement, 1));
        rest = &tag[end..];
    }
    out.push_str(rest);
    out
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"];

/// Python's `strftime` for the directives chat templates use, in UTC so that a prompt does not depend on the machine's
/// time zone.
fn strftime(format: &str, unix_seconds: u64) -> Result<String, Error> {
    let (days, seconds) = (unix_seconds / 86400, unix_seconds % 86400);
    let (year, month, day) = civil_date(days);
    let month_name = MONTHS[month as usize - 1];
    let day_name = DAYS[(days % 7) as usize];
    let mut out = String::new();
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('d') => out.push_str(&format!("{day:02}")),
            Some('m') => out.push_str(&format!("{month:02}")),
            Some('Y') => out.push_str(&year.to_string()),
            Some('y') => out.push_str(&format!("{:02}", year % 100)),
            Some('B') => out.push_str(month_name),
            Some('b') => out.push_str(&month_name[..3]),
            Some('A') => out.push_str(day_name),
            Some('a') => out.push_str(&day_name[..3]),
            Some('H') => out.push_str(&format!("{:02}", seconds / 3600)),
            Some('M') => out.push_str(&format!("{:02}", seconds / 60 % 60)),
            Some('S') => out.push_str(&format!("{:02}", seconds % 60)),
            Some('%') => out.push('%'),
            other => {
                let directive = other.map_or_else(String::new, String::from);
                let message = format!("strftime_now: the directive %{directive} is not supported");
                return Err(Error::new(ErrorKind::InvalidOperation, message));
            }
        }
    }
    Ok(out)
}

/// Year, month and day of the Gregorian calendar, `days` after 1970-01-01.
fn civil_date(days: u64) -> (u64, u64, u64) {
    let is_leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let (mut year, mut day) = (1970, days);
    while day >= if is_leap(year) { 366 } else { 365 } {
        day -= if is_leap(year) { 366 } else { 365 };
        year += 1;
    }
    let lengths = [31, if is_leap(year) { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while day >= lengths[month] {
        day -= lengths[month];
        month += 1;
    }
    (year, month as u64 + 1, day + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_print_as_in_python() {
        // datetime.fromtimestamp(t, timezone.utc).strftime(…)
        let format = "%a %A %d %b %B %Y %y %m %H:%M:%S %%";
        for (seconds, expected) in [
            (0, "Thu Thursday 01 Jan January 1970 70 01 00:00:00 %"),
            (951_782_399, "Mon Monday 28 Feb February 2000 00 02 23:59:59 %"),
            (951_782_400, "Tue Tuesday 29 Feb February 2000 00 02 00:00:00 %"),
            (1_735_689_599, "Tue Tuesday 31 Dec December 2024 24 12 23:59:59 %"),
            (4_107_542_400, "Mon Monday 01 Mar March 2100 00 03 00:00:00 %"),
        ] {
            assert_eq!(strftime(format, seconds).unwrap(), expected);
        }
        assert!(strftime("%Q", 0).is_err());
    }

    #[test]
    fn only_generation_tags_are_rewritten() {
        let source = "{%- generation -%}{{ generation }}{% set generation = 1 %}{%+ endgeneration %}{% generation";
        let expected = "{%- with -%}{{ generation }}{% set generation = 1 %}{%+ endwith %}{% generation";
        assert_eq!(scope_generation_blocks(source), expected);
    }
}
