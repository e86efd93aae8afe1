//! The command line of `deliveries` and `receivers`.

use clap::Subcommand;

use super::args::{DEFAULT_PROJECT, name};

/// What to do with deliveries.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum DeliveriesCommand {
    /// List deliveries, the newest first
    List(DeliveriesListArgs),
    /// Owe deliveries once more, behind what their receivers are owed already
    Redeliver(RedeliverArgs),
}

/// Options of `deliveries list`.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct DeliveriesListArgs {
    /// Only those to this receiver
    #[arg(long, value_name = "ID")]
    pub receiver: Option<String>,
    /// Only those in this state
    #[arg(long, value_name = "STATE", value_parser = ["pending", "delivered", "dead"])]
    pub state: Option<String>,
    /// The most to list
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..))]
    pub limit: u16,
    /// The project
    #[arg(long, value_name = "NAME", default_value = DEFAULT_PROJECT, value_parser = name)]
    pub project: String,
    /// Print the list as JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of `deliveries redeliver`.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct RedeliverArgs {
    /// The delivery's id
    #[arg(value_name = "ID", required_unless_present = "dead", conflicts_with = "dead")]
    pub id: Option<String>,
    /// Everything that was given up for this receiver
    #[arg(long, value_name = "RECEIVER")]
    pub dead: Option<String>,
    /// The project
    #[arg(long, value_name = "NAME", default_value = DEFAULT_PROJECT, value_parser = name)]
    pub project: String,
}

/// What to do with receivers.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum ReceiversCommand {
    /// List them with how they do
    List(ReceiversListArgs),
    /// Send a receiver an event of type test now, and tell what it made of it
    Test(ReceiverTestArgs),
}

/// Options of `receivers list`.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct ReceiversListArgs {
    /// The project
    #[arg(long, value_name = "NAME", default_value = DEFAULT_PROJECT, value_parser = name)]
    pub project: String,
    /// Print the list as JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of `receivers test`.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct ReceiverTestArgs {
    /// The receiver's id
    #[arg(value_name = "ID")]
    pub id: String,
    /// The project
    #[arg(long, value_name = "NAME", default_value = DEFAULT_PROJECT, value_parser = name)]
    pub project: String,
}
