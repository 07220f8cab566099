//! What tasks are about, and which side of the split each piece of content belongs to.
//!
//! Names of people and places are pairs of words. Every word occurs on both sides, but no pair does, so that what is
//! learned about the words carries over while the held-out entities stay unseen.

use super::{Split, Wordings};
use crate::random::Stream;

/// One content in this many is held out.
const TEST_SHARE: u64 = 4;

/// Draws made for each entity wanted; of twelve words at most four are ever taken on each side, so few are wasted.
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

    /// `count` entities that share no word with each other or with `taken`; `None` when they were not found in a
    /// bounded number of tries.
    pub(super) fn draw(&self, kind: Kind, count: usize, taken: &[Value], stream: &mut Stream) -> Option<Vec<Value>> {
        let mut used: Vec<String> =
            taken.iter().flat_map(|value| value.text().split(' ').map(str::to_owned).collect::<Vec<_>>()).collect();
        let mut drawn = Vec::with_capacity(count);
        for _ in 0..TRIES_PER_ENTITY * count {
            if drawn.len() == count {
                break;
            }
            let name = stream.choose(self.all(kind));
            if name.split(' ').all(|word| !used.iter().any(|other| other == word)) {
                used.extend(name.split(' ').map(str::to_owned));
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

/// `text` without the spaces that stand beside a sign: `5 + 2 -> Ana Reed` becomes `5+2->Ana Reed`.
///
/// Byte-level tokenizers have other tokens for a word after a space than for one after a sign, and table cells and
/// answers follow signs. A small model copies a word more easily where it is the same token everywhere.
pub(super) fn tighten(text: &str) -> String {
    let is_sign = |c: Option<char>| c.is_some_and(|c| !c.is_alphanumeric() && c != ' ');
    let mut tight = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        if c != ' ' || !(is_sign(tight.chars().next_back()) || is_sign(rest.peek().copied())) {
            tight.push(c);
        }
    }
    tight
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
    fn tight_text_keeps_spaces_between_words_only() {
        assert_eq!(tighten("1: Ana Reed -> 3, 3 + 5 = 8 -> A; 2: 9 in 12 9"), "1:Ana Reed->3,3+5=8->A;2:9 in 12 9");
    }

    #[test]
    fn drawn_entities_share_no_word() {
        let entities = Entities::of(Split::Test);
        let mut stream = Stream::new(0, "draw", 0);
        let taken = entities.draw(Kind::Person, 1, &[], &mut stream).expect("enough names");
        for _ in 0..100 {
            let drawn = entities.draw(Kind::Person, 3, &taken, &mut stream).expect("enough names");
            let texts: Vec<String> = drawn.iter().chain(&taken).map(Value::text).collect();
            let words: std::collections::HashSet<&str> = texts.iter().flat_map(|text| text.split(' ')).collect();
            assert_eq!(words.len(), 8);
        }
        assert!(entities.draw(Kind::Place, 13, &[], &mut stream).is_none());
    }
}
