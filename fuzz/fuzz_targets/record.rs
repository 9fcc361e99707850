//! A record: read as a database reads it, and written back, or refused.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tvmtune_plan::record::Record;

fuzz_target!(|text: &str| {
    match Record::from_toml(text) {
        Ok(record) => {
            let back = Record::from_toml(&record.to_toml()).expect("a record is read back");
            assert_eq!(back.to_toml(), record.to_toml());
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
