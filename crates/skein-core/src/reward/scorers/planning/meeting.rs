//! A day of meeting friends across a town: plans are walked through step by step and their valid meetings counted.
//!
//! Travel takes the minutes of the town's table, whatever times the plan writes; waiting must move time forward; a
//! meeting counts if friend, place and window fit, once per friend. The walk ends at the first step that breaks a rule
//! or is no step.

use super::clock::{Minutes, time_with_half};

/// The steps of a plan's text: what follows `SOLUTION:`, sentence by sentence.
pub fn steps(plan: &str) -> impl Iterator<Item = &str> {
    let plan = plan.split_once("SOLUTION:").map_or(plan, |(_, after)| after);
    plan.split('.').map(str::trim).filter(|step| !step.is_empty())
}

/// Where and when a friend can be met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Friend<'a> {
    pub name: &'a str,
    pub place: &'a str,
    pub from: Minutes,
    pub until: Minutes,
    pub duration: Minutes,
}

impl<'a> Friend<'a> {
    /// A friend whose window is written `1:15PM to 4:45PM`.
    pub fn new(name: &'a str, place: &'a str, window: &str, duration: Minutes) -> Option<Self> {
        let (from, until) = window.split_once(" to ")?;
        Some(Self { name, place, from: time_with_half(from.trim())?, until: time_with_half(until.trim())?, duration })
    }
}

/// Minutes from each place to others.
pub type TravelTimes<'a> = Vec<(&'a str, Vec<(&'a str, Minutes)>)>;

/// What a meeting question demands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Day<'a> {
    pub place: &'a str,
    pub start: Minutes,
    pub friends: Vec<Friend<'a>>,
    pub travel: TravelTimes<'a>,
}

impl<'a> Day<'a> {
    /// Reads a question's text.
    pub fn read(question: &'a str) -> Option<Self> {
        let (distances, rest) = question.split_once("CONSTRAINTS:")?;
        let mut sentences = rest.split_terminator('.').map(str::trim).filter(|sentence| !sentence.is_empty());
        let (place, start) = sentences.next()?.strip_prefix("You arrive at ")?.rsplit_once(" at ")?;
        let mut friends = Vec::new();
        while let Some(sentence) = sentences.next() {
            let (name, presence) = sentence.split_once(" will be at ")?;
            let (place, window) = presence.rsplit_once(" from ")?;
            let (_, wish) = sentences.next()?.rsplit_once(" for a minimum of ")?;
            friends.push(Friend::new(name, place, window, wish.strip_suffix(" minutes")?.parse().ok()?)?);
        }
        Some(Self { place, start: time_with_half(start)?, friends, travel: travel_times(distances) })
    }

    /// Valid meetings of a plan before it first breaks a rule.
    pub fn valid_meetings<'s>(&self, steps: impl Iterator<Item = &'s str>) -> usize {
        let mut walk = Walk { day: self, place: self.place, now: self.start, met: vec![false; self.friends.len()] };
        for step in steps {
            if walk.take(step).is_none() {
                break;
            }
        }
        walk.met.into_iter().filter(|met| *met).count()
    }

    fn minutes(&self, from: &str, to: &str) -> Option<(&'a str, Minutes)> {
        let (_, row) = self.travel.iter().find(|(place, _)| *place == from)?;
        row.iter().find(|(place, _)| *place == to).copied()
    }
}

/// Lines of the form `Nob Hill to Union Square: 7.`; those of one origin stand together.
fn travel_times(text: &str) -> TravelTimes<'_> {
    let mut travel: TravelTimes = Vec::new();
    for line in text.lines() {
        let entry = line.trim().trim_end_matches('.').split_once(": ").and_then(|(route, minutes)| {
            let (from, to) = route.split_once(" to ")?;
            Some((from, to, minutes.parse().ok()?))
        });
        let Some((from, to, minutes)) = entry else { continue };
        match travel.last_mut() {
            Some((place, row)) if *place == from => row.push((to, minutes)),
            _ => travel.push((from, vec![(to, minutes)])),
        }
    }
    travel
}

struct Walk<'d, 'a> {
    day: &'d Day<'a>,
    place: &'a str,
    now: Minutes,
    met: Vec<bool>,
}

impl Walk<'_, '_> {
    /// Takes one step, or refuses it.
    fn take(&mut self, step: &str) -> Option<()> {
        if step.starts_with("You start") {
            return Some(());
        }
        let between = |start: &str, end: &str| {
            let (_, rest) = step.split_once(start)?;
            Some(rest.split_once(end).map_or(rest, |(before, _)| before).trim())
        };
        if step.starts_with("You travel") {
            let (place, minutes) = self.day.minutes(self.place, between("travel to ", " in")?)?;
            self.now = self.now.checked_add(minutes)?;
            self.place = place;
            Some(())
        } else if step.starts_with("You wait") {
            let until = time_with_half(between("wait until ", ".")?)?;
            (until > self.now).then(|| self.now = until)
        } else if step.starts_with("You meet") {
            self.meet(between("meet ", " for")?)
        } else {
            None
        }
    }

    fn meet(&mut self, name: &str) -> Option<()> {
        let index = self.day.friends.iter().position(|friend| friend.name == name)?;
        let friend = &self.day.friends[index];
        let end = self.now.checked_add(friend.duration)?;
        let fits = friend.place == self.place && friend.from <= self.now && end <= friend.until && !self.met[index];
        fits.then(|| {
            self.met[index] = true;
            self.now = end;
        })
    }
}
