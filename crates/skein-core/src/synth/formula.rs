//! Math and science steps: a formula of one number that the step is about, x, and one or two numbers the question states.
//!
//! Every formula is injective in x, so that another x always means another answer, and every science question states
//! what its answer follows from.

use super::content::{Value, fill, pick_wording, split_of};
use super::{Draft, Incoming, Maker, Outcome, Phrasing, Puzzle, Wordings};
use crate::skill::Domain;
use crate::task::option_letter;

/// What a parameter of a formula does, which decides how large it is.
#[derive(Debug, Clone, Copy)]
enum Parameter {
    Addend,
    Factor,
    Absent,
}

/// One skill of math or science.
#[derive(Debug)]
pub(super) struct Formula {
    pub(super) domain: Domain,
    pub(super) skill: &'static str,
    parameters: [Parameter; 2],
    compute: fn(i64, i64, i64) -> i64,
    /// The calculation as it is written down while thinking; `{y}` is the result.
    work: &'static str,
    pub(super) phrasing: Phrasing,
}

const PRODUCT: fn(i64, i64, i64) -> i64 = |x, a, _| x * a;
const SUM: fn(i64, i64, i64) -> i64 = |x, a, _| x + a;
const DIFFERENCE: fn(i64, i64, i64) -> i64 = |x, a, _| x - a;
const LINE: fn(i64, i64, i64) -> i64 = |x, a, b| a * x + b;

pub(super) static FORMULAS: [Formula; 10] = [
    Formula {
        domain: Domain::Math,
        skill: "Area Calculation",
        parameters: [Parameter::Factor, Parameter::Absent],
        compute: PRODUCT,
        work: "{x} * {a} = {y}",
        phrasing: Phrasing {
            terse: Wordings {
                train: &[
                    "Area of a rectangle {x} by {a}?",
                    "Rectangle, {x} by {a}. Find its area.",
                    "Sides are {x} by {a}. What is the area?",
                    "Find the area of a rectangle of {x} by {a}.",
                ],
                test: &["What is the area of a rectangle {x} by {a}?", "A rectangle of {x} by {a}. Find the area."],
            },
            full: Wordings {
                train: &[
                    "A rectangular plot is {x} metres long and {a} metres wide. What is its area in square metres?",
                    "A wall measures {x} metres by {a} metres. How many square metres does it cover?",
                    "What area, in square metres, has a rectangle with sides of {x} and {a} metres?",
                ],
                test: &[
                    "A rectangular field measures {x} metres by {a} metres. What area does it have, in square metres?",
                    "How many square metres has a rectangle that is {x} metres long and {a} metres wide?",
                ],
            },
        },
    },
    Formula {
        domain: Domain::Math,
        skill: "Polynomial And Equation Solving",
        parameters: [Parameter::Addend, Parameter::Absent],
        compute: DIFFERENCE,
        work: "{x} - {a} = {y}",
        phrasing: Phrasing {
            terse: Wordings {
                train: &[
                    "Solve n + {a} = {x}.",
                    "Find n in n + {a} = {x}.",
                    "What is n if n + {a} = {x}?",
                    "Equation: n + {a} = {x}. Solve for n.",
                ],
                test: &["Solve for n if n + {a} = {x}.", "Equation: n + {a} = {x}. What is n?"],
            },
            full: Wordings {
                train: &[
                    "Solve the equation n + {a} = {x} for n.",
                    "Which number n satisfies n + {a} = {x}?",
                    "Adding {a} to the number n gives {x}. Find n.",
                ],
                test: &["Find the number n for which n + {a} = {x}.", "Adding {a} to n gives {x}. Solve for n."],
            },
        },
    },
    Formula {
        domain: Domain::Math,
        skill: "Substitution Methods",
        parameters: [Parameter::Factor, Parameter::Addend],
        compute: LINE,
        work: "{a} * {x} = {m}, {m} + {b} = {y}",
        phrasing: Phrasing {
            terse: Wordings {
                train: &[
                    "Put n = {x} into {a}n + {b}.",
                    "Find {a}n + {b} for n = {x}.",
                    "What is {a}n + {b} if n = {x}?",
                    "Let n = {x}. What is {a}n + {b}?",
                ],
                test: &["Find {a}n + {b} if n = {x}.", "Put n = {x}. What is {a}n + {b}?"],
            },
            full: Wordings {
                train: &[
                    "Substitute n = {x} into {a}n + {b}. What is the value?",
                    "What is the value of {a}n + {b} when n is {x}?",
                    "Replace n by {x} in the expression {a}n + {b} and give its value.",
                ],
                test: &[
                    "Substitute {x} for n in the expression {a}n + {b}. What is its value?",
                    "Give the value of {a}n + {b} for n = {x}.",
                ],
            },
        },
    },
    Formula {
        domain: Domain::Math,
        skill: "Absolute Value Inequalities",
        parameters: [Parameter::Addend, Parameter::Absent],
        compute: SUM,
        work: "{a} + {x} = {y}",
        phrasing: Phrasing {
            terse: Wordings {
                train: &[
                    "Largest n with |n - {a}| <= {x}?",
                    "Find the largest n for |n - {a}| <= {x}.",
                    "Solve |n - {a}| <= {x} for the largest n.",
                    "If |n - {a}| <= {x}, what is the largest n?",
                ],
                test: &["What is the largest n with |n - {a}| <= {x}?", "Solve |n - {a}| <= {x}. Find the largest n."],
            },
            full: Wordings {
                train: &[
                    "What is the largest integer n with |n - {a}| <= {x}?",
                    "The inequality |n - {a}| <= {x} holds for some integers n. Which of them is the largest?",
                    "Solve |n - {a}| <= {x} and give the largest integer solution n.",
                ],
                test: &[
                    "Which is the largest integer n that solves |n - {a}| <= {x}?",
                    "Give the largest of the integers n for which |n - {a}| <= {x} holds.",
                ],
            },
        },
    },
    Formula {
        domain: Domain::Math,
        skill: "Constant Speed Calculations",
        parameters: [Parameter::Factor, Parameter::Absent],
        compute: PRODUCT,
        work: "{x} * {a} = {y}",
        phrasing: Phrasing {
            terse: Wordings {
                train: &[
                    "How far at speed {x} for {a} hours?",
                    "Distance for {a} hours at speed {x}?",
                    "Find the distance at speed {x} in {a} hours.",
                    "A car at speed {x} goes {a} hours. How far?",
                ],
                test: &[
                    "A car goes {a} hours at speed {x}. Find the distance.",
                    "Distance at speed {x} for {a} hours?",
                ],
            },
            full: Wordings {
                train: &[
                    "A boat keeps a speed of {x} km per hour for {a} hours. How many km does it cover?",
                    "At a constant {x} km per hour, how many km does a bus go in {a} hours?",
                    "A drone flies for {a} hours at a steady {x} km per hour. How far, in km, does it fly?",
                ],
                test: &[
                    "A bus keeps a constant speed of {x} km per hour for {a} hours. How far, in km, does it go?",
                    "How many km does a boat cover in {a} hours at a steady {x} km per hour?",
                ],
            },
        },
    },
    Formula {
        domain: Domain::Science,
        skill: "Cost Analysis",
        parameters: [Parameter::Addend, Parameter::Absent],
        compute: SUM,
        work: "{x} + {a} = {y}",
        phrasing: Phrasing {
            terse: Wordings {
                train: &[
                    "Pay for goods {x} and shipping {a}. Total cost?",
                    "Total cost of goods {x} with shipping {a}?",
                    "With shipping {a} and goods {x}, what is the cost?",
                    "Find the cost of goods {x} plus shipping {a}.",
                ],
                test: &[
                    "What is the total cost of goods {x} plus shipping {a}?",
                    "With shipping {a} and goods {x}, find the cost.",
                ],
            },
            full: Wordings {
                train: &[
                    "An order has goods for {x} dollars and a fixed shipping cost of {a} dollars. What is the total cost?",
                    "Total cost is the cost of the goods plus shipping. The goods cost {x} dollars, shipping {a}. Total?",
                    "Making a batch takes {x} dollars of material and {a} dollars of labour. What does it cost in total?",
                ],
                test: &[
                    "The goods of an order cost {x} dollars and shipping is fixed at {a} dollars. What does it cost in total?",
                    "A batch takes material for {x} dollars plus {a} dollars of labour. What is the total cost?",
                ],
            },
        },
    },
    Formula {
        domain: Domain::Science,
        skill: "Calculation Of Gross Earnings",
        parameters: [Parameter::Factor, Parameter::Absent],
        compute: PRODUCT,
        work: "{x} * {a} = {y}",
        phrasing: Phrasing {
            terse: Wordings {
                train: &[
                    "Work {x} hours for pay {a}. Gross?",
                    "Gross earnings of {x} hours with pay {a}?",
                    "At pay {a} for {x} hours, what is the gross?",
                    "Find the gross of {x} hours at pay {a}.",
                ],
                test: &[
                    "What is the gross of {x} hours with pay {a}?",
                    "At pay {a} for {x} hours, find the gross earnings.",
                ],
            },
            full: Wordings {
                train: &[
                    "Gross earnings are hours times hourly pay. A clerk works {x} hours at {a} dollars an hour. Gross?",
                    "A worker is paid {a} dollars an hour, before any deduction, for {x} hours. What are the gross earnings?",
                    "What are the gross earnings, before deductions, for {x} hours at {a} dollars an hour?",
                ],
                test: &[
                    "A clerk is paid {a} dollars an hour for {x} hours, before any deduction. What are the gross earnings?",
                    "Gross earnings are hourly pay times hours. What are they for {x} hours at {a} dollars an hour?",
                ],
            },
        },
    },
    Formula {
        domain: Domain::Science,
        skill: "Financial Analysis",
        parameters: [Parameter::Addend, Parameter::Absent],
        compute: DIFFERENCE,
        work: "{x} - {a} = {y}",
        phrasing: Phrasing {
            terse: Wordings {
                train: &[
                    "With revenue {x} and expenses {a}, what is the profit?",
                    "Profit of revenue {x} less expenses {a}?",
                    "Find the profit at revenue {x}, expenses {a}.",
                    "After expenses {a} of revenue {x}, what profit?",
                ],
                test: &[
                    "What is the profit of revenue {x}, expenses {a}?",
                    "With revenue {x} and expenses {a}, find the profit.",
                ],
            },
            full: Wordings {
                train: &[
                    "A stall takes in {x} dollars and spends {a} dollars. Profit is revenue minus expenses. What is it?",
                    "A shop has revenue of {x} dollars and expenses of {a} dollars. What is its profit?",
                    "What profit remains from a revenue of {x} dollars after {a} dollars of expenses?",
                ],
                test: &[
                    "A stall has revenue of {x} dollars and spends {a} dollars. What profit remains?",
                    "Profit is revenue minus expenses. What is it for revenue of {x} dollars and {a} dollars of expenses?",
                ],
            },
        },
    },
    Formula {
        domain: Domain::Science,
        skill: "Utility Function Computation",
        parameters: [Parameter::Factor, Parameter::Addend],
        compute: LINE,
        work: "{a} * {x} = {m}, {m} + {b} = {y}",
        phrasing: Phrasing {
            terse: Wordings {
                train: &[
                    "Utility {a}q + {b} at q = {x}?",
                    "Find the utility {a}q + {b} for q = {x}.",
                    "With q = {x}, what is the utility {a}q + {b}?",
                    "Utility is {a}q + {b}. What is it at q = {x}?",
                ],
                test: &["What is the utility {a}q + {b} at q = {x}?", "With q = {x}, find the utility {a}q + {b}."],
            },
            full: Wordings {
                train: &[
                    "A buyer's utility from q goods is {a}q + {b}. What is the utility of {x} goods?",
                    "Utility is given by U(q) = {a}q + {b}. Compute U for q = {x}.",
                    "With the utility function {a}q + {b}, what utility do q = {x} goods give?",
                ],
                test: &[
                    "A buyer has the utility function U(q) = {a}q + {b}. What is the utility of q = {x} goods?",
                    "Utility from q goods is {a}q + {b}. Compute the utility for q = {x}.",
                ],
            },
        },
    },
    Formula {
        domain: Domain::Science,
        skill: "Date Calculation",
        parameters: [Parameter::Addend, Parameter::Absent],
        compute: SUM,
        work: "{x} + {a} = {y}",
        phrasing: Phrasing {
            terse: Wordings {
                train: &[
                    "From day {x}, which day is {a} days later?",
                    "Starts on day {x}, ends {a} days later. End?",
                    "Which day comes {a} days later than day {x}?",
                    "Find the day {a} days later than day {x}.",
                ],
                test: &[
                    "From day {x}, find the day {a} days later.",
                    "Starts on day {x}. Which day comes {a} days later?",
                ],
            },
            full: Wordings {
                train: &[
                    "Days of a project are numbered. A test starts on day {x} and ends {a} days later. On which day?",
                    "Counting days from 1, which day comes {a} days after day {x}?",
                    "A permit issued on day {x} of a project runs out {a} days later. On which day is that?",
                ],
                test: &[
                    "Days are counted from 1. A permit issued on day {x} ends {a} days later. Which day is that?",
                    "Which day of a project comes {a} days after a test that starts on day {x}?",
                ],
            },
        },
    },
];

/// Where x comes from.
#[derive(Debug, Clone)]
enum Operand {
    Given(i64),
    /// The previous answer itself.
    Previous,
    /// A number for each word that the previous answer can be.
    Cases(Vec<(String, i64)>),
}

/// A formula step with everything its question states.
#[derive(Debug, Clone)]
pub(super) struct FormulaPuzzle {
    formula: &'static Formula,
    operand: Operand,
    a: i64,
    b: i64,
    /// The numbers to choose from, in letter order; empty where the number itself is asked for.
    options: Vec<i64>,
}

impl FormulaPuzzle {
    pub(super) fn gold(&self, previous: Option<&Value>) -> Option<String> {
        let x = match (&self.operand, previous) {
            (Operand::Given(x), _) => *x,
            (Operand::Previous, Some(Value::Number(x))) => *x,
            (Operand::Cases(cases), Some(Value::Word(_, word))) => cases.iter().find(|(text, _)| text == word)?.1,
            _ => return None,
        };
        let y = (self.formula.compute)(x, self.a, self.b);
        match self.options.as_slice() {
            [] => Some(y.to_string()),
            options => options.iter().position(|&option| option == y).map(|index| option_letter(index).to_string()),
        }
    }
}

impl Formula {
    /// A step of this formula; `None` where no numbers of the level fit what comes in.
    pub(super) fn draft(&'static self, maker: &mut Maker, incoming: Option<Incoming>) -> Option<Draft> {
        let (operand, x) = draw_operand(maker, incoming)?;
        let (a, b) = (maker.parameter(self.parameters[0]), maker.parameter(self.parameters[1]));
        let y = (self.compute)(x, a, b);
        let content = format!("{}: {x} {a} {b}", self.skill);
        if !(1..=maker.difficulty.max_answer).contains(&y) || split_of(&content) != maker.split {
            return None;
        }
        let options = match self.domain {
            Domain::Science => self.draw_options(maker, &operand, incoming, (x, a, b))?,
            _ => Vec::new(),
        };

        let wording = pick_wording(maker.wordings(&self.phrasing), maker.split, &mut maker.stream);
        let (a_text, b_text, x_text) = (a.to_string(), b.to_string(), x.to_string());
        let asked_with = |x: &str| fill(wording, &[("x", x), ("a", &a_text), ("b", &b_text)]);
        let (question, looked_up) = match (&operand, incoming) {
            (Operand::Previous, Some(incoming)) => (maker.refer(incoming, &asked_with), String::new()),
            (Operand::Cases(cases), Some(incoming)) => (
                maker.refer_by_cases(incoming, cases) + &asked_with("x"),
                format!("{} = {x}, ", incoming.outcome.value.text()),
            ),
            _ => (asked_with(&x_text), String::new()),
        };
        let (y_text, m_text) = (y.to_string(), (a * x).to_string());
        let work = fill(self.work, &[("x", &x_text), ("a", &a_text), ("b", &b_text), ("m", &m_text), ("y", &y_text)]);
        let puzzle = FormulaPuzzle { formula: self, operand, a, b, options };
        let previous = incoming.map(|incoming| &incoming.outcome.value);
        let answer = puzzle.gold(previous)?;
        let choice = if puzzle.options.is_empty() { String::new() } else { format!(" -> {answer}") };
        Some(Draft {
            domain: self.domain,
            skill: self.skill,
            question,
            standalone: incoming.map(|_| asked_with(&x_text)),
            options: puzzle.options.iter().map(i64::to_string).collect(),
            answer,
            work: format!("{looked_up}{work}{choice}"),
            outcome: Outcome {
                value: Value::Number(y),
                others: puzzle.options.iter().filter(|&&option| option != y).map(|&o| Value::Number(o)).collect(),
                chosen: !puzzle.options.is_empty(),
            },
            puzzle: Puzzle::Formula(puzzle),
        })
    }

    /// The right number among those that follow from other values of x (and numbers near it where there are too few),
    /// so that the question alone does not tell which is right.
    fn draw_options(
        &self,
        maker: &mut Maker,
        operand: &Operand,
        incoming: Option<Incoming>,
        (x, a, b): (i64, i64, i64),
    ) -> Option<Vec<i64>> {
        let others = match (operand, incoming) {
            (Operand::Cases(cases), _) => cases.iter().map(|(_, number)| *number).collect(),
            (_, Some(incoming)) => incoming.outcome.other_numbers(),
            (_, None) => Vec::new(),
        };
        let y = (self.compute)(x, a, b);
        let follow: Vec<i64> = maker.plausible(x, others).into_iter().map(|x| (self.compute)(x, a, b)).collect();
        let mut options = vec![y];
        for wrong in maker.plausible(y, follow) {
            if !options.contains(&wrong) && options.len() < maker.difficulty.num_options {
                options.push(wrong);
            }
        }
        let full = options.len() == maker.difficulty.num_options;
        maker.stream.shuffle(&mut options);
        full.then_some(options)
    }
}

fn draw_operand(maker: &mut Maker, incoming: Option<Incoming>) -> Option<(Operand, i64)> {
    let Some(incoming) = incoming else {
        let x = maker.stream.between(2, maker.difficulty.max_given);
        return Some((Operand::Given(x), x));
    };
    match &incoming.outcome.value {
        Value::Number(x) => Some((Operand::Previous, *x)),
        Value::Word(..) => {
            let mut words: Vec<String> = incoming.outcome.others.iter().map(Value::text).collect();
            maker.stream.shuffle(&mut words);
            words.truncate(maker.difficulty.num_options - 1);
            words.push(incoming.outcome.value.text());
            let numbers = maker.distinct_numbers(words.len(), 2..=maker.difficulty.max_given)?;
            let x = *numbers.last()?;
            let mut cases: Vec<(String, i64)> = words.into_iter().zip(numbers).collect();
            maker.stream.shuffle(&mut cases);
            Some((Operand::Cases(cases), x))
        }
    }
}

impl Maker<'_> {
    fn parameter(&mut self, parameter: Parameter) -> i64 {
        match parameter {
            Parameter::Addend => self.stream.between(1, self.difficulty.max_addend),
            Parameter::Factor => self.stream.between(2, self.difficulty.max_factor),
            Parameter::Absent => 0,
        }
    }
}
