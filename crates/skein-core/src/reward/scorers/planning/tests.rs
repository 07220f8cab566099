//! Tests of planning answers on made tasks, and on real ones where a checkout of them stands beside the repository.

use std::path::Path;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const CALENDAR: &str = "You need to schedule a meeting for Ada and Bo for half an hour between the work hours of 9:00 to \
    17:00 on either Monday, Tuesday or Friday. \n\nHere are the existing schedules for everyone during the days: \n\
    Ada is busy on Monday during 9:00 to 12:00, 13:00 to 17:00, Friday during 9:30 to 16:00; \n\
    Bo has no meetings the whole week.\n\nBo would rather not meet on Tuesday. Friday before 9:20. Ada can not meet on \
    Monday after 12:50. Find a time that works.";

const TRIP: &str = "You plan to visit 3 European cities for 9 days in total. You only take direct flights to commute \
    between cities. You would like to visit Oslo for 3 days. You want to spend 4 days in New Riga. You want to meet a \
    friend in New Riga between day 3 and day 4. You plan to stay in Bern for 4 days. You are going to attend a wedding in \
    Bern between day 6 and day 9.\n\nHere are the cities that have direct flights:\nOslo and New Riga, from New Riga to \
    Bern.\n\nFind a trip plan of visiting the cities for 9 days by taking direct flights to commute between them.";

const MEETING: &str = "You are visiting a town.\n\nTravel distances (in minutes):\nPier to Mint: 10.\nPier to Old Yard: \
    20.\nMint to Pier: 11.\nMint to Old Yard: 5.\nOld Yard to Pier: 21.\nOld Yard to Mint: 6.\n\nCONSTRAINTS: You arrive \
    at Pier at 9:00AM. Kim will be at Mint from 9:30AM to 10:00AM. You'd like to meet Kim for a minimum of 15 minutes. \
    Lee will be at Old Yard from 9:00AM to 10:15AM. You'd like to meet Lee for a minimum of 20 minutes.";

const KIM_LEE: &str = "You start at Pier at 9:00AM. You travel to Mint in 10 minutes and arrive at 9:10AM. You wait until \
    9:30AM. You meet Kim for 15 minutes from 9:30AM to 9:45AM. You travel to Old Yard in 5 minutes. You meet Lee for 20 \
    minutes.";

fn trip_plan(stays: &[(&str, u32)]) -> String {
    let total = stays.iter().map(|(_, days)| days - 1).sum::<u32>() + 1;
    let mut plan =
        format!("Here is the trip plan for visiting the {} European cities for {total} days:\n\n", stays.len());
    let mut day = 1;
    for (index, (city, days)) in stays.iter().enumerate() {
        if index > 0 {
            plan += &format!("**Day {day}:** Fly from {} to {city}.\n", stays[index - 1].0);
        }
        plan += &format!("**Day {day}-{}:** Visit {city} for {days} days.\n", day + days - 1);
        day += days - 1;
    }
    plan
}

fn constrained(answer: &str, gold: &str, question: &str) -> bool {
    score_with(answer, gold, question, Mode::Constraints).unwrap() == 1.0
}

#[test]
fn a_slot_is_its_day_and_minutes() {
    let gold = r#"{"type":"calendar","plan":"Here is the proposed time: Monday, 9:30 - 10:00"}"#;
    for (answer, expected) in [
        ("SOLUTION: Monday, 9:30 - 10:00", 1.0),
        ("Monday, 09:30 - 10:00, or Tuesday, 9:00 - 9:30", 1.0),
        ("Tuesday, 9:00 - 9:30, or Monday, 9:30 - 10:00", 0.0),
        ("monday, 9:30 - 10:00", 0.0),
        ("Monday 9:30 - 10:00", 0.0),
        ("Monday, 9:35 - 10:00", 0.0),
        ("Monday, 9:30 - 99999999999:00", 0.0),
        ("", 0.0),
    ] {
        assert_eq!(score(answer, gold, "").unwrap(), expected, "{answer}");
    }
    assert_eq!(score("Monday, 9:30 - 10:00", "Monday, 9:30 - 10:00", "").unwrap(), 1.0);
}

#[test]
fn a_free_slot_keeps_every_calendar() {
    let gold = "Monday, 12:00 - 12:30";
    for slot in ["Monday, 12:00 - 12:30", "Monday, 12:20 - 12:50", "Friday, 16:30 - 17:00"] {
        assert!(constrained(slot, gold, CALENDAR), "{slot}");
    }
    for slot in [
        "Monday, 12:30 - 13:00",
        "Monday, 11:45 - 12:15",
        "Monday, 12:00 - 12:45",
        "Monday, 12:30 - 12:00",
        "Tuesday, 9:00 - 9:30",
        "Wednesday, 9:00 - 9:30",
        "Friday, 9:00 - 9:30",
        "Friday, 16:45 - 17:15",
    ] {
        assert!(!constrained(slot, gold, CALENDAR), "{slot}");
    }
    let earliest = format!("{CALENDAR} The group would like to meet at their earlist availability.");
    assert!(constrained("Monday, 12:00 - 12:30", gold, &earliest));
    assert!(!constrained("Monday, 12:10 - 12:40", gold, &earliest));
}

#[test]
fn calendar_constraints_as_fields() {
    let gold = json!({
        "type": "calendar", "plan": "Monday, 9:30 - 10:30", "mode": "constraints",
        "constraints": {
            "days": ["Monday"], "duration_hours": 1.0, "busy": {"Monday": [[9.0, 9.5], [11.0, 16.0]]},
            "preference_text": "Bo do not want to meet on Monday after 16:30.",
        },
    })
    .to_string();
    assert_eq!(score("Monday, 10:00 - 11:00", &gold, ""), Ok(1.0));
    assert_eq!(score("Monday, 16:00 - 17:00", &gold, ""), Ok(0.0));
    assert_eq!(check_gold(&gold, ""), Ok(()));
}

#[test]
fn a_trip_is_its_cities_and_stays_in_order() {
    let plan = trip_plan(&[("Oslo", 3), ("New Riga", 4), ("Bern", 4)]);
    let joined = json!({"cities": "Oslo**New Riga**Bern", "durations": "3**4**4"}).to_string();
    let listed = json!({"type": "trip", "cities": ["Oslo", "New Riga", "Bern"], "durations": [3, 4, 4], "plan": plan})
        .to_string();
    let cut = plan.lines().take(4).collect::<Vec<_>>().join("\n");
    let alternative = format!("{plan}Or: **Day 1:** Fly from Bern to Oslo.\n");
    for gold in [joined.as_str(), &listed, &plan] {
        for (answer, expected) in [
            (plan.as_str(), 1.0),
            (&plan.replace('*', ""), 1.0),
            (&alternative, 1.0),
            (&cut, 0.0),
            (&plan.replace("Fly from", "Go to"), 0.0),
            (&trip_plan(&[("Oslo", 3), ("New Riga", 5), ("Bern", 3)]), 0.0),
            (&trip_plan(&[("New Riga", 4), ("Oslo", 3), ("Bern", 4)]), 0.0),
            ("", 0.0),
        ] {
            assert_eq!(score(answer, gold, "").unwrap(), expected, "{answer}");
        }
        assert_eq!(check_gold(gold, ""), Ok(()));
    }
}

#[test]
fn a_trip_may_take_any_order_that_flights_and_events_allow() {
    let gold = json!({"cities": ["Oslo", "New Riga", "Bern"], "durations": [3, 4, 4]}).to_string();
    assert!(constrained(&trip_plan(&[("Oslo", 3), ("New Riga", 4), ("Bern", 4)]), &gold, TRIP));
    for stays in [
        [("New Riga", 4), ("Oslo", 3), ("Bern", 4)],
        [("Oslo", 3), ("Bern", 4), ("New Riga", 4)],
        [("Oslo", 4), ("New Riga", 3), ("Bern", 4)],
        [("Oslo", 3), ("New Riga", 4), ("Oslo", 4)],
    ] {
        assert!(!constrained(&trip_plan(&stays), &gold, TRIP), "{stays:?}");
    }
    assert!(!constrained(&trip_plan(&[("Oslo", 3), ("New Riga", 4)]), &gold, TRIP));
    let free = TRIP.replace("from New Riga to Bern", "New Riga and Bern").replace("between day 6 and day 9", "one day");
    assert!(constrained(&trip_plan(&[("Bern", 4), ("New Riga", 4), ("Oslo", 3)]), &gold, &free));
    let late = TRIP.replace("day 3 and day 4", "day 1 and day 2");
    assert!(!constrained(&trip_plan(&[("Oslo", 3), ("New Riga", 4), ("Bern", 4)]), &gold, &late));
}

#[test]
fn a_day_counts_the_meetings_before_its_first_slip() {
    let gold = json!({"type": "meeting", "plan": [KIM_LEE], "golden_meetings": 2}).to_string();
    let count = |plan: &str| valid_meetings(plan, &gold, MEETING).unwrap();
    assert_eq!(count(&format!("Thoughts. SOLUTION: {KIM_LEE}")), 2);
    assert_eq!(count(&format!("Thoughts. {KIM_LEE}")), 0, "a sentence that is no step");
    assert_eq!(count(&KIM_LEE.replace("You wait until 9:30AM. ", "")), 0, "too early for Kim");
    assert_eq!(count(&KIM_LEE.replace("9:30AM. You meet", "9:05AM. You meet")), 0, "back in time");
    assert_eq!(count(&KIM_LEE.replace("travel to Old Yard", "travel to Mars")), 1);
    assert_eq!(count(&KIM_LEE.replace("Lee", "Kim")), 1, "nobody is met twice");
    assert_eq!(count(&format!("{KIM_LEE} You wait until 9:00PM. You travel to Pier in 1 minutes.")), 2);
    assert_eq!(score(KIM_LEE, &gold, MEETING), Ok(1.0));
    assert_eq!(check_gold(&gold, MEETING), Ok(()));
    let lee = json!({"plan": "You start at Pier. You travel to Old Yard in 20 minutes. You meet Lee for 20 minutes.",
        "golden_meetings": 1, "type": "meeting"});
    assert_eq!(score(KIM_LEE, &lee.to_string(), MEETING), Ok(0.0), "equal, not more");
    assert!(constrained(KIM_LEE, &lee.to_string(), MEETING));
}

#[test]
fn unusable_golds_are_errors() {
    for (gold, problem) in [
        ("", "is no calendar slot"),
        ("soon", "is no calendar slot"),
        ("{", "is not an object"),
        (r#"{"type":"party"}"#, "has the type `party`"),
        (r#"{"type":"calendar","plan":"soon"}"#, "without a `Day"),
        (r#"{"type":"trip","cities":["Oslo"],"durations":[1,2]}"#, "1 `cities` and 2 `durations`"),
        (r#"{"type":"trip","cities":"Oslo","durations":"few"}"#, "`durations` that are no numbers"),
        (r#"{"type":"meeting"}"#, "neither a `plan` nor"),
        (r#"{"type":"meeting","plan":["You start at Pier."]}"#, "has no constraints"),
    ] {
        let error = score("", gold, "").unwrap_err().to_string();
        assert!(error.contains(problem), "{gold}: {error}");
        assert!(check_gold(gold, "").is_err(), "{gold}");
    }
    for gold in ["Monday, 9:00 - 9:30", &trip_plan(&[("Oslo", 2), ("Bern", 2)])] {
        assert!(score_with("", gold, "no demands", Mode::Constraints).is_err());
    }
    let wrong_count = json!({"type": "meeting", "plan": [KIM_LEE], "golden_meetings": 3}).to_string();
    assert!(check_gold(&wrong_count, MEETING).unwrap_err().to_string().contains("says 3 meetings, and 2"));
    let other_plan = trip_plan(&[("Oslo", 2), ("Bern", 2)]);
    let contradiction = json!({"cities": "Bern**Oslo", "durations": "2**2", "plan": other_plan}).to_string();
    assert!(check_gold(&contradiction, "").is_err());
}

proptest! {
    #[test]
    fn any_answer_and_question_can_be_judged(
        parts in proptest::collection::vec(
            proptest::sample::select(vec![
                "Monday, ", "9:00", " - ", "25:61", "Day 1", "Day 99999999999", "-", "3-", "5", " from ", "Oslo", " to ",
                "\n", "cities for ", " days", "SOLUTION:", "You start", "You travel to ", " in", "You wait until ", "AM",
                "You meet ", "Kim", " for", ".", "é", "direct flights:", "CONSTRAINTS:", " and ", "You arrive at ",
                "work hours of 9:00 to 17:00 on Monday", "for one hour", " will be at ", "Monday during ",
            ]),
            0..20,
        ),
        noise in "\\PC{0,20}",
    ) {
        let text = parts.concat() + &noise;
        let trip = r#"{"cities":"Oslo","durations":"3"}"#;
        let meeting = r#"{"type":"meeting","plan":["You start at Pier."]}"#;
        for gold in ["Monday, 9:00 - 9:30", trip, meeting, &text] {
            for mode in [Mode::Exact, Mode::Constraints] {
                for question in [&text, CALENDAR, TRIP, MEETING] {
                    let score = score_with(&text, gold, question, mode);
                    prop_assert!(score.is_err() || score == Ok(0.0) || score == Ok(1.0));
                }
            }
            let _ = check_gold(gold, &text);
        }
    }
}

/// The real tasks' golds must satisfy what is parsed from their own questions, and so must other valid orders of trips.
#[test]
fn real_golds_satisfy_their_constraints() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/planning.jsonl");
    let Ok(text) = std::fs::read_to_string(&path) else {
        eprintln!("NOT RUN: the planning tasks are not at ../shared/data/planning.jsonl");
        return;
    };
    let mut num_reordered = 0;
    for line in text.lines() {
        let item: Value = serde_json::from_str(line).expect("JSON");
        let (question, mut gold) = (item["question"].as_str().expect("a question"), item["answer"].clone());
        let id = &item["id"];
        assert_eq!(check_gold(&gold.to_string(), question), Ok(()), "{id}");
        gold["mode"] = json!("constraints");
        assert_eq!(check_gold(&gold.to_string(), question), Ok(()), "{id}");
        if gold["type"] == "trip" {
            num_reordered += usize::from(check_trip(&item, question, &gold));
        }
        if gold["type"] != "meeting" {
            let meta = &item["meta"];
            gold["constraints"] = if gold["type"] == "trip" { meta["constraints"].clone() } else { meta.clone() };
        } else {
            gold["constraints"] = item["meta"]["constraints"].clone();
            gold["dist_matrix"] = item["meta"]["dist_matrix"].clone();
        }
        assert_eq!(check_gold(&gold.to_string(), ""), Ok(()), "{id}, from fields");
    }
    eprintln!("planning: {} golds hold; {num_reordered} trips have another valid order", text.lines().count());
    assert_eq!(num_reordered, 34, "as many as the data's own search found");
}

/// Searches a trip's orders; all the valid ones but the gold's are accepted under constraints and wrong when exact.
fn check_trip(item: &Value, question: &str, gold: &Value) -> bool {
    let cities: Vec<&str> = gold["cities"].as_array().unwrap().iter().map(|city| city.as_str().unwrap()).collect();
    let days: Vec<u32> = gold["durations"].as_array().unwrap().iter().map(|day| day.as_u64().unwrap() as u32).collect();
    let read = trip::Demands::read(question).unwrap();
    let fields: trip::Demands = serde_json::from_value(item["meta"]["constraints"].clone()).unwrap();
    assert_eq!(read, fields, "{}", item["id"]);
    let mut orders = Vec::new();
    extend_order(&read, &cities, &days, 1, &mut Vec::new(), &mut orders);
    let gold_text = gold.to_string();
    let mut num_valid = 0;
    for order in orders {
        let plan = trip_plan(&order.iter().map(|&at| (cities[at], days[at])).collect::<Vec<_>>());
        let valid = score(&plan, &gold_text, question) == Ok(1.0);
        let is_gold = order.is_sorted();
        num_valid += u64::from(valid);
        assert_eq!(score_with(&plan, &gold_text, question, Mode::Exact), Ok(f64::from(u8::from(is_gold))));
    }
    assert_eq!(Some(num_valid), item["meta"]["valid_orders_found"].as_u64(), "{}", item["id"]);
    num_valid > 1
}

/// All orders of cities that follow flights and events.
fn extend_order(
    demands: &trip::Demands,
    cities: &[&str],
    days: &[u32],
    first: i64,
    order: &mut Vec<usize>,
    found: &mut Vec<Vec<usize>>,
) {
    if order.len() == cities.len() {
        found.push(order.clone());
        return;
    }
    for next in 0..cities.len() {
        let last = first + i64::from(days[next]) - 1;
        let reachable = order.last().is_none_or(|&at| demands.can_fly(cities[at], cities[next]));
        let in_time = demands.keeps_windows(&trip::Stay { city: cities[next], first, last });
        if reachable && in_time && !order.contains(&next) {
            order.push(next);
            extend_order(demands, cities, days, last, order, found);
            order.pop();
        }
    }
}
