//! A meeting in several people's calendars: the slot an answer proposes, and the slots a question leaves free.
//!
//! The first `Day, H:MM - H:MM` of an answer counts, with the day's case and the real minutes. Wishes (`would rather not
//! meet on Monday after 12:00`) bind like refusals: the questions are made so that one slot honours them all.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;
use serde::Deserialize;

use super::clock::{Minutes, from_hours, time_of_day};

/// Working hours where a structured constraint does not give them: those of NaturalPlan, 9:00 to 17:00.
const WORK_HOURS: [f64; 2] = [9.0, 17.0];

/// A proposed meeting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot<'a> {
    day: &'a str,
    start: Minutes,
    end: Minutes,
}

impl<'a> Slot<'a> {
    /// The first slot that a text names.
    pub fn find(text: &'a str) -> Option<Self> {
        static SLOT: LazyLock<Regex> = LazyLock::new(|| {
            Regex::new(r"([A-Za-z]+), ([0-9]+:[0-9]+) - ([0-9]+:[0-9]+)").expect("the pattern is a constant")
        });
        let found = SLOT.captures(text)?;
        let [day, start, end] = [1, 2, 3].map(|group| found.get(group).map_or("", |part| part.as_str()));
        Some(Self { day, start: time_of_day(start)?, end: time_of_day(end)? })
    }
}

/// A stretch of one day, from its start up to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stretch {
    day: String,
    start: Minutes,
    end: Minutes,
}

/// What a calendar question demands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Demands {
    days: Vec<String>,
    work: (Minutes, Minutes),
    duration: Minutes,
    /// When somebody is busy or does not want to meet.
    blocked: Vec<Stretch>,
    /// Only the first free slot will do.
    earliest: bool,
}

/// [`Demands`] as a gold object's fields: hours are numbers, `9.5` is half past nine.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct DemandFields {
    days: Vec<String>,
    duration_hours: f64,
    #[serde(default = "default_work_hours")]
    work_hours: [f64; 2],
    busy: BTreeMap<String, Vec<[f64; 2]>>,
    #[serde(default)]
    preference_text: String,
}

fn default_work_hours() -> [f64; 2] {
    WORK_HOURS
}

impl Demands {
    /// Reads a question's text.
    pub fn read(question: &str) -> Option<Self> {
        static WORK: LazyLock<Regex> = LazyLock::new(|| {
            Regex::new(r"work hours of ([0-9]+:[0-9]+) to ([0-9]+:[0-9]+) on ([^.\n]+)").expect("a constant")
        });
        let work = WORK.captures(question)?;
        let hours = (time_of_day(&work[1])?, time_of_day(&work[2])?);
        let days: Vec<String> = day_names(&work[3]).map(str::to_owned).collect();
        let duration = duration(&question[..work.get(0)?.start()])?;
        let rest = &question[work.get(0)?.end()..];
        let mut blocked = busy(rest)?;
        blocked.extend(wishes(rest, hours)?);
        (!days.is_empty()).then_some(Self { days, work: hours, duration, blocked, earliest: wants_earliest(rest) })
    }

    /// Reads a gold object's fields.
    pub fn from_fields(fields: &DemandFields) -> Option<Self> {
        let work = (from_hours(fields.work_hours[0])?, from_hours(fields.work_hours[1])?);
        let busy = fields.busy.iter().flat_map(|(day, stretches)| stretches.iter().map(move |stretch| (day, stretch)));
        let mut blocked = busy
            .map(|(day, [start, end])| {
                Some(Stretch { day: day.clone(), start: from_hours(*start)?, end: from_hours(*end)? })
            })
            .collect::<Option<Vec<_>>>()?;
        blocked.extend(wishes(&fields.preference_text, work)?);
        Some(Self {
            days: fields.days.clone(),
            work,
            duration: from_hours(fields.duration_hours)?,
            blocked,
            earliest: wants_earliest(&fields.preference_text),
        })
    }

    /// Whether a slot keeps every demand.
    pub fn allow(&self, slot: &Slot) -> bool {
        let Some(day) = self.days.iter().position(|day| day == slot.day) else { return false };
        let fits = slot.end.checked_sub(slot.start) == Some(self.duration) && self.is_free(day, slot.start);
        fits && (!self.earliest || self.first_free() == Some((day, slot.start)))
    }

    fn is_free(&self, day: usize, start: Minutes) -> bool {
        let end = start + self.duration;
        let clashes = |other: &Stretch| other.day == self.days[day] && start < other.end && other.start < end;
        self.work.0 <= start && end <= self.work.1 && !self.blocked.iter().any(clashes)
    }

    /// The first free start, which is the opening of the day or the end of something.
    fn first_free(&self) -> Option<(usize, Minutes)> {
        (0..self.days.len()).find_map(|day| {
            let ends = self.blocked.iter().filter(|other| other.day == self.days[day]).map(|other| other.end);
            let start = ends.chain([self.work.0]).filter(|start| self.is_free(day, *start)).min()?;
            Some((day, start))
        })
    }
}

fn day_names(text: &str) -> impl Iterator<Item = &str> {
    static DAY: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\b[A-Z][a-z]+day\b").expect("a constant"));
    DAY.find_iter(text).map(|day| day.as_str())
}

/// The meeting's length, from `a meeting for Ann and Bo for half an hour`.
fn duration(text: &str) -> Option<Minutes> {
    static LENGTH: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"\bfor (?:(half an hour)|(?:an|one|1) hour( and a half)?|one and a half hours|([0-9]{1,2}) hours|([0-9]{1,3}) minutes)\b")
            .expect("a constant")
    });
    let found = LENGTH.captures_iter(text).last()?;
    let number = |group: usize| found.get(group).and_then(|number| number.as_str().parse::<Minutes>().ok());
    Some(match (found.get(1), number(3), number(4)) {
        (Some(_), _, _) => 30,
        (_, Some(hours), _) => 60 * hours,
        (_, _, Some(minutes)) => minutes,
        _ if found[0].contains("half") => 90,
        _ => 60,
    })
}

/// `Monday during 9:00 to 10:00, 11:30 to 12:00, Tuesday during …`, whoever it is about.
fn busy(text: &str) -> Option<Vec<Stretch>> {
    static PART: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"\b([A-Z][a-z]+day) during|([0-9]+:[0-9]+) to ([0-9]+:[0-9]+)").expect("a constant")
    });
    let mut day = None;
    let mut stretches = Vec::new();
    for part in PART.captures_iter(text) {
        match part.get(1) {
            Some(name) => day = Some(name.as_str()),
            None => stretches.push(Stretch {
                day: day?.to_owned(),
                start: time_of_day(&part[2])?,
                end: time_of_day(&part[3])?,
            }),
        }
    }
    Some(stretches)
}

/// Refusals and dislikes: a verb, then days with or without a `before` or `after`, one sentence each.
fn wishes(text: &str, work: (Minutes, Minutes)) -> Option<Vec<Stretch>> {
    static WISH: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(concat!(
            r"(?:can ?not meet|can't meet|(?:do|does) not want to meet|would rather not meet",
            r"|would like to avoid more meetings) on ",
            r"((?:[A-Z][a-z]+day(?: (?:before|after) [0-9]+:[0-9]+)?(?:\.\s+|,\s*|\s+and\s+|\s+or\s+|\.|$))+)",
        ))
        .expect("a constant")
    });
    static PART: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"([A-Z][a-z]+day)(?: (before|after) ([0-9]+:[0-9]+))?").expect("a constant"));
    let parts = WISH.captures_iter(text).flat_map(|wish| {
        let (_, [days]) = wish.extract();
        PART.captures_iter(days)
    });
    parts
        .map(|part| {
            let limit = part.get(3).map(|time| time_of_day(time.as_str()));
            let (start, end) = match (part.get(2).map(|word| word.as_str()), limit) {
                (Some("before"), Some(limit)) => (work.0, limit?),
                (Some(_), Some(limit)) => (limit?, work.1),
                _ => work,
            };
            Some(Stretch { day: part[1].to_owned(), start, end })
        })
        .collect()
}

/// NaturalPlan's own spelling is `earlist availability`.
fn wants_earliest(text: &str) -> bool {
    static EARLIEST: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"(?i)\bearli?(?:e?st) availability").expect("a constant"));
    EARLIEST.is_match(text)
}
