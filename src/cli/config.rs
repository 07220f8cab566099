//! Shows a config with its includes, overrides and defaults resolved, or checks it.

use std::path::PathBuf;

use anyhow::Result;
use clap::Subcommand;
use skein_core::config::Config;

use super::UsageError;
use super::stdout::{print, print_line};

/// Arguments of `skein config`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Print the config a run would use: includes, overrides and defaults resolved.
    Show {
        /// The config.
        file: PathBuf,
        /// Replace one value, such as rl.steps=20; may be repeated, later ones win.
        #[arg(long = "set", value_name = "KEY=VALUE")]
        overrides: Vec<String>,
    },
    /// Check configs and the task files, tables and commands they name; report every problem; exit code 2 if there is one.
    Check {
        /// The configs.
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// Replace one value in each, such as rl.steps=20; may be repeated, later ones win.
        #[arg(long = "set", value_name = "KEY=VALUE")]
        overrides: Vec<String>,
    },
}

/// Runs the subcommand.
pub fn run(args: Args) -> Result<()> {
    match args.action {
        Action::Show { file, overrides } => {
            let config = Config::load(&file, &overrides).map_err(|error| UsageError(error.to_string()))?;
            print(config.to_toml())?;
        }
        Action::Check { files, overrides } => {
            let mut problems = Vec::new();
            for file in files {
                let checked = Config::check(&file, &overrides);
                checked.warnings.iter().for_each(|warning| say!("warning: {warning}"));
                if checked.problems.is_empty() {
                    print_line(format_args!("{}: ok", file.display()))?;
                }
                problems.extend(checked.problems.iter().map(ToString::to_string));
            }
            if !problems.is_empty() {
                return Err(UsageError(format!("the config does not work\n{}", problems.join("\n"))).into());
            }
        }
    }
    Ok(())
}
