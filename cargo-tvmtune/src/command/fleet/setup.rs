//! `cargo tvmtune fleet setup`: prepares a NATS server. Without it, the first worker or submission does, with
//! the default settings.

use anyhow::{Context, Result};
use tvmtune_fleet::nats::{Fleet, Settings, runtime};

use super::server;
use crate::Exit;
use crate::cli::FleetSetup;
use crate::output::{print, println};

pub(super) fn run(arguments: &FleetSetup) -> Result<Exit> {
    let server = server(&arguments.server);
    let runtime = runtime().context("no thread can be started")?;
    let settings = runtime.block_on(async {
        let former = Fleet::open(&server, "tvmtune setup").await?.settings();
        let settings = changed(former, arguments)?;
        anyhow::Ok(Fleet::set_up(&server, "tvmtune setup", settings).await?.settings())
    })?;
    let url = server.shown();
    println!(
        "{url} is ready: a silent worker loses its task after {} s, a task is set aside after {} \
         workers failed at it, and outcomes are kept for {} days",
        settings.lease_seconds, settings.tries, settings.days
    );
    print!(
        "\non each machine that tunes:   cargo tvmtune worker --nats {url}\n\
         in the crate to be tuned:     cargo tvmtune fleet tune --nats {url}\n\
         to see what goes on:          cargo tvmtune fleet status --nats {url}\n"
    );
    Ok(Exit::Done)
}

fn changed(former: Settings, arguments: &FleetSetup) -> Result<Settings> {
    let settings = Settings {
        lease_seconds: arguments.lease.map_or(former.lease_seconds, |it| it.0.as_secs_f64()),
        tries: arguments.tries.unwrap_or(former.tries),
        days: arguments.days.unwrap_or(former.days),
        replicas: arguments.replicas.unwrap_or(former.replicas),
        ..former
    };
    settings.check().map(|()| settings).context("these settings do not work")
}
