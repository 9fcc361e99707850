//! Reading what can be read of a damaged profile: wrong events are left out, and counted.
//!
//! `cargo tvmtune profile` refuses such a file, since its sums would be wrong. Weights and buckets lose little
//! by an event.

use serde_json::Value;

use super::read::Profile;

/// The events of a file that mean something.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ValidEvents {
    pub(crate) profile: Profile,
    /// Number of those that mean nothing.
    pub(crate) n_wrong: usize,
    /// What is wrong with the file; `None` if nothing is.
    pub(crate) why: Option<String>,
}

impl ValidEvents {
    /// Reads the content of a file. The runtime writes an event a line: where a file is damaged, it is read
    /// so.
    ///
    /// # Errors
    ///
    /// A text that says what is wrong, if the file has no launch.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, String> {
        let why = match Profile::read(bytes) {
            Ok(profile) if profile.launches.is_empty() => {
                return Err("no launch was traced".to_owned());
            }
            Ok(profile) => return Ok(Self { profile, n_wrong: 0, why: None }),
            Err(why) => why,
        };
        let (mut profile, mut n_wrong) = (Profile::default(), 0);
        for line in String::from_utf8_lossy(bytes).lines() {
            let event = line.trim().trim_start_matches('[').trim_end_matches([',', ']']);
            if event.is_empty() {
                continue;
            }
            let added = serde_json::from_str::<Value>(event).map_err(|it| it.to_string());
            if added.and_then(|it| profile.add(it)).is_err() {
                n_wrong += 1;
            }
        }
        match profile.launches.is_empty() {
            true => Err(why),
            false => Ok(Self { profile, n_wrong, why: Some(why) }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A launch with this duration.
    fn launch(duration_us: &str) -> String {
        format!(
            "{{\"cat\":\"tvmtune\",\"name\":\"k\",\"ph\":\"X\",\"ts\":0,\"dur\":{duration_us},\"args\":{{\
             \"dims\":{{}},\"bucket\":{{}},\"isa\":\"avx2\",\"tier\":\"exact\",\"threads\":1,\
             \"artifact\":\"a\",\"workload\":\"w\"}}}}"
        )
    }

    #[test]
    fn wrong_events_are_left_out_and_counted() {
        let counts = |text: &[u8]| {
            let it = ValidEvents::read(text).unwrap();
            (it.profile.launches.len(), it.n_wrong, it.why.is_some())
        };
        let [good, negative] = [launch("1"), launch("-1")];
        assert_eq!(counts(format!("[\n{good},\n{good},\n").as_bytes()), (2, 0, false));
        let cut = &good[..good.len() / 2];
        assert_eq!(counts(format!("[\n{good},\n{cut}").as_bytes()), (1, 0, false));
        // A line that a full disk cut, before others, and numbers that mean nothing.
        let text = format!("[\n{good},\n{cut}\n{negative},\nnonsense\n{good},\n");
        assert_eq!(counts(text.as_bytes()), (2, 3, true));
        let text = [good.as_bytes(), b",\n\xff\n", good.as_bytes(), b"]"].concat();
        assert_eq!(counts(&[b"[", text.as_slice()].concat()), (2, 1, true));
    }

    #[test]
    fn a_file_without_launches_is_an_error() {
        let error = |text: &str| ValidEvents::read(text.as_bytes()).unwrap_err();
        assert_eq!(error("[]"), "no launch was traced");
        assert!(error("").contains("the file is empty"));
        assert!(error("nonsense").contains("expected a list of events"));
        assert!(error(&format!("[\n{},\n", launch("-1"))).contains("line 2: "));
    }
}
