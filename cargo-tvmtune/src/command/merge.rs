//! `cargo tvmtune merge`: the union of databases. Schedules are taken over; compiled code stays where
//! it is, since whoever made it is nobody we know.

use std::path::Path;

use anyhow::{Result, bail};
use tvmtune_plan::database::{Cache, Database, Files, Store, StoreKind};
use tvmtune_plan::printable::shown;

use crate::Exit;
use crate::cli::Merge;
use crate::output::{eprintln, println};
use crate::render::count;

pub(crate) fn run(arguments: &Merge) -> Result<Exit> {
    let no_code = Files::default();
    let own = Database::new(Vec::new(), Cache::discover());
    let accept = match arguments.less_accurate {
        true => Database::accept_less_accurate,
        false => Database::accept,
    };
    let (mut n_merged, mut n_refused) = (0, 0);
    for folder in &arguments.from {
        if !folder.is_dir() {
            bail!("`{}` is no folder of records", shown(folder));
        }
        let store = Store { kind: StoreKind::Overlay, dir: folder.clone() };
        let from = Database::new(vec![store], None);
        for (_, _, record) in from.list() {
            let merged = record.and_then(|it| match &arguments.into {
                Some(into) => accept(into, &it, &no_code, usize::MAX),
                None => own.put(&it, &no_code),
            });
            match merged {
                Ok(_) => n_merged += 1,
                Err(error) => {
                    eprintln!("warning: {error}");
                    n_refused += 1;
                }
            }
        }
    }
    if arguments.into.is_none()
        && let Some(cache) = own.cache()
    {
        cache.touch_packages()?;
    }
    let into = arguments.into.as_deref().unwrap_or(Path::new("your cache"));
    println!("{} merged into {}", count(n_merged, "record"), shown(into));
    Ok(if n_refused == 0 { Exit::Done } else { Exit::Refused })
}
