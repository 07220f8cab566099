//! Gold answers of planning tasks, read from JSON objects or from a plan's text.
//!
//! Fields that scoring does not need are ignored. An object whose task can't be told, or whose fields don't fit together,
//! is an error.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::clock::Minutes;
use super::meeting::{Day, Friend, steps};
use super::{Mode, ScoreError, calendar, problem, trip};

/// What separates cities, and stay lengths, where they are written as one text.
const ITEM_SEPARATOR: &str = "**";

/// A gold answer, by task.
pub enum Gold<'a> {
    Calendar(CalendarGold<'a>),
    Trip(TripGold<'a>),
    Meeting(MeetingGold<'a>),
}

pub struct CalendarGold<'a> {
    /// Names a slot; see [`CalendarGold::slot`].
    plan: Cow<'a, str>,
    constraints: Option<calendar::DemandFields>,
    mode: Mode,
}

pub struct TripGold<'a> {
    pub stays: Vec<(String, i64)>,
    plan: Option<Cow<'a, str>>,
    constraints: Option<trip::Demands>,
    mode: Mode,
}

pub struct MeetingGold<'a> {
    plan: Option<Plan<'a>>,
    num_meetings: Option<usize>,
    constraints: Vec<Row<'a>>,
    travel: Pairs<Text<'a>, Pairs<Text<'a>, Minutes>>,
    mode: Mode,
}

/// What tells a gold object's task.
#[derive(Deserialize)]
struct Shape<'a> {
    #[serde(rename = "type", borrow)]
    kind: Option<Cow<'a, str>>,
    cities: Option<IgnoredAny>,
    golden_plan: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct CalendarFields<'a> {
    #[serde(borrow)]
    plan: Text<'a>,
    constraints: Option<calendar::DemandFields>,
    #[serde(default)]
    mode: Mode,
}

#[derive(Deserialize)]
struct TripFields<'a> {
    cities: Items<String>,
    durations: Items<i64>,
    #[serde(borrow)]
    plan: Option<Text<'a>>,
    constraints: Option<trip::Demands>,
    #[serde(default)]
    mode: Mode,
}

#[derive(Deserialize)]
struct MeetingFields<'a> {
    #[serde(borrow, alias = "golden_plan")]
    plan: Option<Plan<'a>>,
    #[serde(alias = "golden_score")]
    golden_meetings: Option<usize>,
    #[serde(borrow, default)]
    constraints: Vec<Row<'a>>,
    #[serde(borrow, default)]
    dist_matrix: Pairs<Text<'a>, Pairs<Text<'a>, Minutes>>,
    #[serde(default)]
    mode: Mode,
}

/// A text that is borrowed where JSON writes it without escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Deserialize)]
#[serde(untagged)]
enum Plan<'a> {
    Steps(#[serde(borrow)] Vec<Text<'a>>),
    Whole(#[serde(borrow)] Text<'a>),
}

/// `[place, arrival]`, or `[friend, place, window, minutes]`.
#[derive(Deserialize)]
#[serde(untagged)]
enum Row<'a> {
    Friend(#[serde(borrow)] Text<'a>, Text<'a>, Text<'a>, Minutes),
    Arrival(#[serde(borrow)] Text<'a>, Text<'a>),
}

/// A list, or its items in one text.
#[derive(Deserialize)]
#[serde(untagged)]
enum Items<T> {
    List(Vec<T>),
    Joined(String),
}

impl<T: std::str::FromStr> Items<T> {
    fn into_list(self) -> Option<Vec<T>> {
        match self {
            Self::List(items) => Some(items),
            Self::Joined(text) => text
                .split(ITEM_SEPARATOR)
                .filter(|item| !item.is_empty())
                .map(|item| item.trim().parse().ok())
                .collect(),
        }
    }
}

/// A JSON object's entries in their order.
struct Pairs<K, V>(Vec<(K, V)>);

impl<K, V> Default for Pairs<K, V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, K: Deserialize<'de>, V: Deserialize<'de>> Deserialize<'de> for Pairs<K, V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries<K, V>(PhantomData<(K, V)>);
        impl<'de, K: Deserialize<'de>, V: Deserialize<'de>> Visitor<'de> for Entries<K, V> {
            type Value = Pairs<K, V>;

            fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Pairs(entries))
            }
        }
        deserializer.deserialize_map(Entries(PhantomData))
    }
}

impl<'a> Gold<'a> {
    /// Reads a gold answer.
    ///
    /// # Errors
    /// When it is empty, an object of no known task, or no plan.
    pub fn read(text: &'a str) -> Result<Self, ScoreError> {
        let text = text.trim();
        if !text.starts_with('{') {
            return Self::read_plan(text);
        }
        let malformed = |error: serde_json::Error| problem(format!("is not an object of a planning task: {error}"));
        let shape: Shape = serde_json::from_str(text).map_err(malformed)?;
        let kind = match (shape.kind.as_deref(), shape.cities, shape.golden_plan) {
            (Some(kind), _, _) => kind,
            (None, Some(_), _) => "trip",
            (None, None, Some(_)) => "meeting",
            (None, None, None) => "calendar",
        };
        match kind {
            "calendar" => serde_json::from_str(text).map_err(malformed).and_then(CalendarGold::new).map(Self::Calendar),
            "trip" => serde_json::from_str(text).map_err(malformed).and_then(TripGold::new).map(Self::Trip),
            "meeting" => serde_json::from_str(text).map_err(malformed).and_then(MeetingGold::new).map(Self::Meeting),
            other => Err(problem(format!("has the type `{other}`; known are calendar, trip and meeting"))),
        }
    }

    fn read_plan(text: &'a str) -> Result<Self, ScoreError> {
        if calendar::Slot::find(text).is_some() {
            let plan = Cow::Borrowed(text);
            return Ok(Self::Calendar(CalendarGold { plan, constraints: None, mode: Mode::default() }));
        }
        let stays: Vec<(String, i64)> = trip::stays(text).iter().map(|stay| stay.to_gold()).collect();
        if !stays.is_empty() {
            let plan = Some(Cow::Borrowed(text));
            return Ok(Self::Trip(TripGold { stays, plan, constraints: None, mode: Mode::default() }));
        }
        if steps(text).next().is_some_and(|step| step.starts_with("You start")) {
            return Ok(Self::Meeting(MeetingGold {
                plan: Some(Plan::Whole(Text(Cow::Borrowed(text)))),
                num_meetings: None,
                constraints: Vec::new(),
                travel: Pairs::default(),
                mode: Mode::default(),
            }));
        }
        Err(problem("is no calendar slot, trip plan or meeting plan"))
    }

    /// The mode that the gold object asks for.
    pub fn mode(&self) -> Mode {
        match self {
            Self::Calendar(gold) => gold.mode,
            Self::Trip(gold) => gold.mode,
            Self::Meeting(gold) => gold.mode,
        }
    }

    /// The gold plan as an answer would give it; none where the object has no plan's text.
    pub fn plan_text(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::Calendar(gold) => Some(Cow::Borrowed(&gold.plan)),
            Self::Trip(gold) => gold.plan.as_deref().map(Cow::Borrowed),
            Self::Meeting(gold) => match gold.plan.as_ref()? {
                Plan::Whole(text) => Some(Cow::Borrowed(&text.0)),
                Plan::Steps(steps) => {
                    Some(Cow::Owned(steps.iter().map(|step| step.0.as_ref()).collect::<Vec<_>>().join(" ")))
                }
            },
        }
    }

    /// The day that a meeting task describes; none for other tasks.
    ///
    /// # Errors
    /// When the constraints are missing or malformed.
    pub fn day<'d>(&'d self, question: &'d str) -> Result<Option<Day<'d>>, ScoreError> {
        let Self::Meeting(gold) = self else { return Ok(None) };
        let day = if gold.constraints.is_empty() { Day::read(question) } else { gold.day() };
        day.map(Some).ok_or_else(super::no_constraints)
    }
}

impl<'a> CalendarGold<'a> {
    fn new(fields: CalendarFields<'a>) -> Result<Self, ScoreError> {
        let gold = Self { plan: fields.plan.0, constraints: fields.constraints, mode: fields.mode };
        if gold.slot().is_none() {
            return Err(problem("has a `plan` without a `Day, H:MM - H:MM`"));
        }
        Ok(gold)
    }

    pub fn slot(&self) -> Option<calendar::Slot<'_>> {
        calendar::Slot::find(&self.plan)
    }

    pub fn demands(&self, question: &str) -> Option<calendar::Demands> {
        match &self.constraints {
            Some(fields) => calendar::Demands::from_fields(fields),
            None => calendar::Demands::read(question),
        }
    }
}

impl<'a> TripGold<'a> {
    fn new(fields: TripFields<'a>) -> Result<Self, ScoreError> {
        let durations = fields.durations.into_list().ok_or_else(|| problem("has `durations` that are no numbers"))?;
        let cities = fields.cities.into_list().unwrap_or_default();
        if cities.is_empty() || cities.len() != durations.len() {
            return Err(problem(format!("has {} `cities` and {} `durations`", cities.len(), durations.len())));
        }
        let stays = cities.into_iter().zip(durations).collect();
        Ok(Self { stays, plan: fields.plan.map(|plan| plan.0), constraints: fields.constraints, mode: fields.mode })
    }

    pub fn demands(&self, question: &str) -> Option<Cow<'_, trip::Demands>> {
        match &self.constraints {
            Some(demands) => Some(Cow::Borrowed(demands)),
            None => trip::Demands::read(question).map(Cow::Owned),
        }
    }
}

impl Pairs<Text<'_>, Minutes> {
    fn row(&self) -> Vec<(&str, Minutes)> {
        self.0.iter().map(|(to, minutes)| (to.0.as_ref(), *minutes)).collect()
    }
}

impl<'a> MeetingGold<'a> {
    fn new(fields: MeetingFields<'a>) -> Result<Self, ScoreError> {
        if fields.plan.is_none() && fields.golden_meetings.is_none() {
            return Err(problem("has neither a `plan` nor `golden_meetings`"));
        }
        Ok(Self {
            plan: fields.plan,
            num_meetings: fields.golden_meetings,
            constraints: fields.constraints,
            travel: fields.dist_matrix,
            mode: fields.mode,
        })
    }

    fn day(&self) -> Option<Day<'_>> {
        let (Row::Arrival(place, start), friends) = self.constraints.split_first()? else { return None };
        let friends = friends.iter().map(|row| match row {
            Row::Friend(name, place, window, duration) => Friend::new(&name.0, &place.0, &window.0, *duration),
            Row::Arrival(..) => None,
        });
        Some(Day {
            place: &place.0,
            start: super::clock::time_with_half(&start.0)?,
            friends: friends.collect::<Option<_>>()?,
            travel: self.travel.0.iter().map(|(from, to)| (from.0.as_ref(), to.row())).collect(),
        })
    }

    /// The valid meetings of the gold plan, or the number the object gives where it has no plan.
    pub fn wanted(&self, day: &Day) -> usize {
        match &self.plan {
            Some(Plan::Steps(list)) => day.valid_meetings(list.iter().flat_map(|step| steps(&step.0))),
            Some(Plan::Whole(text)) => day.valid_meetings(steps(&text.0)),
            None => self.num_meetings.unwrap_or_default(),
        }
    }

    /// That the number of meetings is the gold plan's.
    ///
    /// # Errors
    /// When it is not.
    pub fn check_count(&self, day: &Day) -> Result<(), ScoreError> {
        let (given, wanted) = (self.num_meetings, self.wanted(day));
        match given {
            Some(given) if given != wanted => {
                Err(problem(format!("says {given} meetings, and {wanted} of its plan are valid")))
            }
            _ => Ok(()),
        }
    }
}
