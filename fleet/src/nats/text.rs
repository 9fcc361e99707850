//! Texts that may be longer than a message.
//!
//! A short text is the message. A long one lies in parts in a bucket, under names that its hash gives, and
//! the message says so: parts that are stored twice are the same, and a text that arrives in parts is
//! checked as a whole.

use async_nats::jetstream::kv;
use bytes::Bytes;
use tvmtune_ir::digest::Digest;

use super::error::{Doing, NatsError};
use super::open::Fleet;
use crate::wire::WireError;

/// The first bytes of a message that stands for a text in parts; JSON has other ones.
const IN_PARTS: &[u8] = b"parts ";

impl Fleet {
    /// Returns the message that stands for a text, after its parts are stored if it is long.
    pub(super) async fn put_text(&self, text: Vec<u8>) -> Result<Bytes, NatsError> {
        if text.len() <= self.part_bytes {
            return Ok(text.into());
        }
        let digest = Digest::of([text.as_slice()]);
        let mut n_parts = 0;
        for part in text.chunks(self.part_bytes) {
            let stored = self.texts.put(part_name(digest, n_parts), part.to_vec().into()).await;
            stored.doing("store a part of a text")?;
            n_parts += 1;
        }
        Ok(format!("parts {digest} {n_parts}").into_bytes().into())
    }

    /// Returns the text that a message stands for.
    pub(super) async fn text(
        &self,
        what: &'static str,
        message: Bytes,
        max_bytes: usize,
    ) -> Result<Bytes, NatsError> {
        let Some(rest) = message.strip_prefix(IN_PARTS) else { return Ok(message) };
        let malformed = |why: &str| WireError::Malformed { what, why: why.to_owned() };
        let parsed =
            parse(rest).ok_or_else(|| malformed("it is in parts, and does not say which"))?;
        let (digest, n_parts) = parsed;
        let mut text = Vec::new();
        for n in 0..n_parts {
            let part = part(&self.texts, digest, n).await?;
            text.extend_from_slice(&part.ok_or_else(|| malformed("a part of it is missing"))?);
            if text.len() > max_bytes {
                return Err(malformed("it is longer than any").into());
            }
        }
        match Digest::of([text.as_slice()]) == digest {
            true => Ok(text.into()),
            false => Err(malformed("its parts are not those of its hash").into()),
        }
    }
}

async fn part(texts: &kv::Store, digest: Digest, n: u32) -> Result<Option<Bytes>, NatsError> {
    texts.get(part_name(digest, n)).await.doing("read a part of a text")
}

fn part_name(digest: Digest, n: u32) -> String {
    format!("{digest}.{n}")
}

fn parse(text: &[u8]) -> Option<(Digest, u32)> {
    let (digest, n_parts) = std::str::from_utf8(text).ok()?.split_once(' ')?;
    Some((digest.parse().ok()?, n_parts.parse().ok()?))
}
