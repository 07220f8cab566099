//! What tasks are about, and which side of the split each piece of content belongs to.
//!
//! Names of people and places are pairs of words. Every word occurs on both sides, but no pair does, so that what is
//! learned about the words carries over while the held-out entities stay unseen.

use super::{Split, Wordings};
use crate::random::Stream;

/// One content in this many is held out.
const TEST_SHARE: u64 = 4;

/// Draws made for each entity wanted; of twelve first words at most five are ever taken, so few are wasted.
const TRIES_PER_ENTITY: usize = 20;

/// The side that `content` belongs to, whatever the seed of the run: a quarter of all contents is held out.
pub(super) fn split_of(content: &str) -> Split {
    match Stream::new(0, content, 0).below(TEST_SHARE) {
        0 => Split::Test,
        _ => Split::Train,
    }
}

/// What kind of thing a word names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A person.
    Person,
    /// A place.
    Place,
}

impl Kind {
    /// The title of a table column that holds words of this kind.
    pub(super) fn title(self) -> &'static str {
        match self {
            Kind::Person => "Name",
            Kind::Place => "Place",
        }
    }
}

/// What one step hands to the next.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Value {
    /// A whole number.
    Number(i64),
    /// The name of a person or place.
    Word(Kind, String),
}

impl Value {
    /// As it stands in questions and answers.
    pub fn text(&self) -> String {
        match self {
            Value::Number(number) => number.to_string(),
            Value::Word(_, text) => text.clone(),
        }
    }
}

const GIVEN_NAMES: [&str; 12] =
    ["Ana", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gus", "Hana", "Ivo", "Jana", "Kim", "Leo"];
const FAMILY_NAMES: [&str; 12] =
    ["Reed", "Cole", "Lane", "Moss", "Park", "Shaw", "Webb", "York", "Bell", "Dean", "Ford", "Hill"];
const PLACE_ADJECTIVES: [&str; 12] =
    ["North", "South", "East", "West", "Old", "New", "Red", "Blue", "High", "Low", "Grand", "Little"];
const PLACE_NOUNS: [&str; 12] =
    ["Hall", "Gate", "Bay", "Lake", "Mill", "Dock", "Farm", "Inn", "Tower", "Yard", "Pier", "Arena"];

/// The entities of one side of the split.
#[derive(Debug, Clone)]
pub(super) struct Entities {
    people: Vec<String>,
    places: Vec<String>,
}

impl Entities {
    pub(super) fn of(split: Split) -> Self {
        let pairs = |firsts: &[&str], seconds: &[&str]| -> Vec<String> {
            let all = firsts.iter().flat_map(|first| seconds.iter().map(move |second| format!("{first} {second}")));
            all.filter(|name| split_of(name) == split).collect()
        };
        Self { people: pairs(&GIVEN_NAMES, &FAMILY_NAMES), places: pairs(&PLACE_ADJECTIVES, &PLACE_NOUNS) }
    }

    pub(super) fn all(&self, kind: Kind) -> &[String] {
        match kind {
            Kind::Person => &self.people,
            Kind::Place => &self.places,
        }
    }

    /// `count` entities with different first words, none of them sharing its first word with `taken`.
    /// `None` when they were not found in a bounded number of tries.
    pub(super) fn draw(&self, kind: Kind, count: usize, taken: &[Value], stream: &mut Stream) -> Option<Vec<Value>> {
        let first_word = |name: &str| name.split(' ').next().map(str::to_owned);
        let mut used: Vec<Option<String>> = taken.iter().map(|value| first_word(&value.text())).collect();
        let mut drawn = Vec::with_capacity(count);
        for _ in 0..TRIES_PER_ENTITY * count {
            if drawn.len() == count {
                break;
            }
            let name = stream.choose(self.all(kind));
            let first = first_word(name);
            if !used.contains(&first) {
                used.push(first);
                drawn.push(Value::Word(kind, name.clone()));
            }
        }
        (drawn.len() == count).then_some(drawn)
    }
}

/// Fills `{name}` places of a wording.
pub(super) fn fill(wording: &str, places: &[(&str, &str)]) -> String {
    places.iter().fold(wording.to_owned(), |text, (name, value)| text.replace(&format!("{{{name}}}"), value))
}

/// One of the wordings that belong to `split`.
pub(super) fn pick_wording(wordings: &Wordings, split: Split, stream: &mut Stream) -> &'static str {
    let candidates = match split {
        Split::Train => wordings.train,
        Split::Test => wordings.test,
    };
    stream.choose::<&'static str>(candidates)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entities_are_parted_but_share_every_word() {
        let (train, test) = (Entities::of(Split::Train), Entities::of(Split::Test));
        for (kind, words) in [
            (Kind::Person, GIVEN_NAMES.iter().chain(&FAMILY_NAMES)),
            (Kind::Place, PLACE_ADJECTIVES.iter().chain(&PLACE_NOUNS)),
        ] {
            assert_eq!(train.all(kind).len() + test.all(kind).len(), 144);
            assert!(train.all(kind).iter().all(|name| !test.all(kind).contains(name)));
            for word in words {
                let has = |side: &Entities| side.all(kind).iter().any(|name| name.split(' ').any(|w| w == *word));
                assert!(has(&train), "{word} is never trained on");
            }
            assert!((25..=50).contains(&test.all(kind).len()), "{} are held out", test.all(kind).len());
        }
    }

    #[test]
    fn drawn_entities_differ_in_their_first_words() {
        let entities = Entities::of(Split::Test);
        let mut stream = Stream::new(0, "draw", 0);
        let taken = entities.draw(Kind::Person, 1, &[], &mut stream).expect("enough names");
        for _ in 0..100 {
            let drawn = entities.draw(Kind::Person, 4, &taken, &mut stream).expect("enough names");
            let texts: Vec<String> = drawn.iter().chain(&taken).map(Value::text).collect();
            let firsts: std::collections::HashSet<&str> = texts.iter().filter_map(|t| t.split(' ').next()).collect();
            assert_eq!(firsts.len(), 5);
        }
        assert!(entities.draw(Kind::Place, 13, &[], &mut stream).is_none());
    }
}
