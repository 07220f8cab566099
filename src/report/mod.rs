//! What people look at after runs: one table over arms, and a page with curves.
//!
//! Reads what runs have written and computes nothing new about a model. The page is one file that opens without a
//! network.

mod chart;
mod page;
mod table;

pub use page::render_page;
pub use table::{Arm, collect_arms, render};
