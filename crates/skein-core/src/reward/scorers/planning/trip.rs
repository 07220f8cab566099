//! A trip through cities by direct flights: the stays an answer plans, and what a question demands of them.
//!
//! Line by line, `Day 5 … from Oslo to Riga` is a flight and `5-8` a stretch of days; the plan ends with the stretch
//! that ends on the last day, so that alternatives behind it don't count. A stay lasts from one flight's day to the
//! next one's, both included. A plan without flights is none.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;
use serde::Deserialize;

/// A city and the days it is visited on, both ends included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stay<'a> {
    /// Its name.
    pub city: &'a str,
    /// The day of arrival.
    pub first: i64,
    /// The day of departure.
    pub last: i64,
}

impl Stay<'_> {
    /// The city and how many days it takes.
    pub fn to_gold(&self) -> (String, i64) {
        (self.city.to_owned(), self.days())
    }

    fn days(&self) -> i64 {
        self.last - self.first + 1
    }
}

/// The stays that a plan's text lists; none where it has no flights.
pub fn stays(plan: &str) -> Vec<Stay<'_>> {
    let (mut total, mut last_day) = (None, None);
    let mut flights = Vec::new();
    for line in plan.lines() {
        total = total_days(line).or(total);
        if let Some(end) = stretch_end(line) {
            last_day = Some(end);
            if total == last_day {
                break;
            }
        }
        flights.extend(flight(line));
    }
    let (Some(last_day), Some((_, origin, _))) = (last_day, flights.first()) else { return Vec::new() };
    let arrivals = [(1, *origin)].into_iter().chain(flights.iter().map(|(day, _, to)| (*day, *to)));
    let departures = flights.iter().map(|(day, _, _)| *day).chain([last_day]);
    arrivals.zip(departures).map(|((first, city), last)| Stay { city, first, last }).collect()
}

/// The number behind `cities for`, in `the 5 European cities for 20 days`.
fn total_days(line: &str) -> Option<i64> {
    let (_, rest) = line.split_once("cities for ")?;
    let (days, rest) = leading_number(rest)?;
    rest.starts_with(" days").then_some(days)
}

/// The end of a line's first `a-b`.
fn stretch_end(line: &str) -> Option<i64> {
    let bytes = line.as_bytes();
    let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let dash = (1..bytes.len()).find(|&at| bytes[at] == b'-' && is_digit(at - 1) && is_digit(at + 1))?;
    leading_number(&line[dash + 1..]).map(|(end, _)| end)
}

/// The last `from X to Y` of a line, and the last `Day N` before it.
fn flight(line: &str) -> Option<(i64, &str, &str)> {
    let (before, from, to) = line.rmatch_indices("from ").find_map(|(at, word)| {
        let (from, rest) = leading_name(&line[at + word.len()..])?;
        let (to, _) = leading_name(rest.strip_prefix(" to ")?)?;
        Some((&line[..at], from, to))
    })?;
    let day = before.rmatch_indices("Day ").find_map(|(at, word)| leading_number(&before[at + word.len()..]))?;
    Some((day.0, from, to))
}

fn leading_number(text: &str) -> Option<(i64, &str)> {
    let length = text.bytes().take_while(u8::is_ascii_digit).count();
    // Days beyond this many digits are no days, and can't overflow.
    (1..=9)
        .contains(&length)
        .then(|| text.split_at(length))
        .and_then(|(digits, rest)| Some((digits.parse().ok()?, rest)))
}

/// A word, and the capitalised ones behind it: `New York`, `Santorini`.
fn leading_name(text: &str) -> Option<(&str, &str)> {
    let word = |text: &str| text.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(text.len());
    let mut end = word(text);
    while end > 0 {
        let Some(rest) = text[end..].strip_prefix([' ', '-']) else { break };
        if !rest.starts_with(char::is_uppercase) || rest.starts_with("Day ") {
            break;
        }
        end += 1 + word(rest);
    }
    (end > 0).then(|| text.split_at(end))
}

/// Whether a plan goes through the gold stays, in order, as long as each takes; what it adds at the end is not looked at.
pub fn is_itinerary(plan: &[Stay], gold: &[(String, i64)]) -> bool {
    plan.len() >= gold.len()
        && gold.iter().zip(plan).all(|((city, days), stay)| stay.city == city && stay.days() == *days)
}

/// How a window of days binds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum WindowKind {
    /// An event: all of its days are spent in the city.
    WholeWindow,
    /// A friend: one of the days is.
    AnyDay,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Window {
    city: String,
    first: i64,
    last: i64,
    kind: WindowKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Direction {
    BothWays,
    OneWay,
}

/// What a trip question demands; also the fields in which a gold object says so.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Demands {
    total_days: i64,
    durations: BTreeMap<String, i64>,
    #[serde(default)]
    windows: Vec<Window>,
    flights: Vec<(String, String, Direction)>,
}

/// A city's name: capitalised words.
const CITY: &str = r"(\p{Lu}[\p{L}'’-]*(?: \p{Lu}[\p{L}'’-]*)*)";

impl Demands {
    /// Reads a question's text.
    pub fn read(question: &str) -> Option<Self> {
        static STAY: LazyLock<Regex> = LazyLock::new(|| {
            let pattern = format!(r"\b(?:visit|stay in) {CITY} for ([0-9]+) days?\b|\bspend ([0-9]+) days? in {CITY}");
            Regex::new(&pattern).expect("a constant")
        });
        let (request, flights) = question.split_once("direct flights:")?;
        let mut durations = BTreeMap::new();
        for stay in STAY.captures_iter(request) {
            let (city, days) = match (stay.get(1), stay.get(4)) {
                (Some(city), _) => (city, &stay[2]),
                (None, city) => (city?, &stay[3]),
            };
            durations.insert(city.as_str().to_owned(), days.parse().ok()?);
        }
        let windows = request.split(". ").filter_map(window).collect();
        let flights = flights.trim().lines().next()?.trim_end_matches('.').split(", ");
        let demands = Self {
            total_days: total_days(request)?,
            durations,
            windows,
            flights: flights.map(route).collect::<Option<_>>()?,
        };
        (!demands.durations.is_empty()).then_some(demands)
    }

    /// Whether a plan keeps every demand.
    pub fn allow(&self, plan: &[Stay]) -> bool {
        let visited: BTreeMap<&str, &Stay> = plan.iter().map(|stay| (stay.city, stay)).collect();
        let stay_of = |city: &str| visited.get(city);
        plan.len() == self.durations.len()
            && self.durations.iter().all(|(city, days)| stay_of(city).is_some_and(|stay| stay.days() == *days))
            && plan.last().is_some_and(|stay| stay.last == self.total_days)
            && plan.windows(2).all(|pair| self.can_fly(pair[0].city, pair[1].city))
            && self.windows.iter().all(|window| stay_of(&window.city).is_some())
            && plan.iter().all(|stay| self.keeps_windows(stay))
    }

    /// Whether a stay covers what happens in its city.
    pub fn keeps_windows(&self, stay: &Stay) -> bool {
        self.windows.iter().filter(|window| window.city == stay.city).all(|window| window.is_kept(stay))
    }

    /// Whether a direct flight goes from one city to another.
    pub fn can_fly(&self, from: &str, to: &str) -> bool {
        self.flights.iter().any(|(a, b, direction)| {
            (a == from && b == to) || (*direction == Direction::BothWays && a == to && b == from)
        })
    }
}

impl Window {
    fn is_kept(&self, stay: &Stay) -> bool {
        match self.kind {
            WindowKind::WholeWindow => stay.first <= self.first && self.last <= stay.last,
            WindowKind::AnyDay => stay.first <= self.last && self.first <= stay.last,
        }
    }
}

/// A sentence about a city and two days.
fn window(sentence: &str) -> Option<Window> {
    static PLACE: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(&format!(r"\b(?:in|at) {CITY}")).expect("the pattern is a constant"));
    static DAY: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\bday ([0-9]{1,9})\b").expect("a constant"));
    let mut days = DAY.captures_iter(sentence).filter_map(|day| day[1].parse().ok());
    let (first, last) = (days.next()?, days.next()?);
    let kind = if sentence.contains("meet") && sentence.contains("friend") {
        WindowKind::AnyDay
    } else {
        WindowKind::WholeWindow
    };
    Some(Window { city: PLACE.captures(sentence)?[1].to_owned(), first, last, kind })
}

/// `Oslo and Riga`, or `from Oslo to Riga` for one direction.
fn route(text: &str) -> Option<(String, String, Direction)> {
    let text = text.trim();
    let (from, to, direction) = match text.strip_prefix("from ") {
        Some(one_way) => {
            let (from, to) = one_way.split_once(" to ")?;
            (from, to, Direction::OneWay)
        }
        None => {
            let (from, to) = text.split_once(" and ")?;
            (from, to, Direction::BothWays)
        }
    };
    Some((from.to_owned(), to.to_owned(), direction))
}
