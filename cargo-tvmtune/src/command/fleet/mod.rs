//! `cargo tvmtune fleet`: workers that meet at a NATS server, as those see them who ask for something.

mod setup;
mod status;
mod tasks;
mod tune;

use anyhow::Result;
use tvmtune_fleet::nats::Server;

use crate::Exit;
use crate::cli::{FleetCommand, NatsServer};

pub(crate) fn run(command: &FleetCommand) -> Result<Exit> {
    match command {
        FleetCommand::Setup(it) => setup::run(it),
        FleetCommand::Tune(it) => tune::run(it),
        FleetCommand::Status(it) => status::run(it),
    }
}

/// Returns the server that options and variables name.
pub(super) fn server(options: &NatsServer) -> Server {
    let server = Server {
        url: options.nats.clone().unwrap_or_default(),
        creds: options.nats_creds.clone(),
        ca: options.nats_ca.clone(),
        cert: options.nats_cert.clone(),
        key: options.nats_key.clone(),
        ..Server::default()
    };
    server.or_variables(|name| std::env::var(name).ok())
}
