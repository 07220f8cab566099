//! Times of day, in minutes after midnight, as planning questions and answers write them.
//!
//! Reads `14:30` and `2:30PM` and refuses everything else: a time that has to be guessed is no time.

/// Minutes after midnight.
pub type Minutes = u32;

/// Minutes of an hour.
const HOUR: Minutes = 60;

/// A time on a 24-hour clock, `9:00` to `24:00`.
pub fn time_of_day(text: &str) -> Option<Minutes> {
    let (hour, minute) = parts(text)?;
    let time = hour * HOUR + minute;
    (time <= 24 * HOUR).then_some(time)
}

/// A time on a 12-hour clock, `9:00AM` or `9:00pm`.
pub fn time_with_half(text: &str) -> Option<Minutes> {
    let (time, half) = text.split_at_checked(text.len().checked_sub(2)?)?;
    let (hour, minute) = parts(time)?;
    let morning = (1..=12).contains(&hour).then_some(hour % 12 * HOUR + minute)?;
    if half.eq_ignore_ascii_case("AM") {
        Some(morning)
    } else {
        half.eq_ignore_ascii_case("PM").then_some(morning + 12 * HOUR)
    }
}

/// Minutes from hours, as in `9.5`.
pub fn from_hours(hours: f64) -> Option<Minutes> {
    let minutes = (hours * f64::from(HOUR)).round();
    (0.0..=f64::from(24 * HOUR)).contains(&minutes).then_some(minutes as Minutes)
}

fn parts(text: &str) -> Option<(u32, u32)> {
    let (hour, minute) = text.split_once(':')?;
    let number = |text: &str| text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse::<u32>().ok()).flatten();
    let (hour, minute) = (number(hour)?, number(minute)?);
    (hour <= 24 && minute < HOUR).then_some((hour, minute))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_clocks() {
        for (text, time) in
            [("9:00", Some(540)), ("24:00", Some(1440)), ("24:01", None), ("9:60", None), ("+9:0", None)]
        {
            assert_eq!(time_of_day(text), time, "{text}");
        }
        for (text, time) in [
            ("9:15AM", Some(555)),
            ("12:00AM", Some(0)),
            ("12:30pm", Some(750)),
            ("13:00PM", None),
            ("9:00", None),
            ("é", None),
        ] {
            assert_eq!(time_with_half(text), time, "{text}");
        }
        assert_eq!(from_hours(9.5), Some(570));
        assert_eq!(from_hours(f64::NAN), None);
    }
}
