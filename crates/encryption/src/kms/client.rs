//! The client of KMS v2 plugins in other processes (upstream: `kmsv2/grpc_service.go`, `k8s.io/kms/apis/v2/api.proto`).

use std::borrow::Cow;
use std::path::PathBuf;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use pintle_value::print::quote;
use pintle_value::url::parse_reference;
use zeroize::Zeroizing;

use super::grpc::UnixChannel;
use super::object::{annotation, write_annotations};
use super::plugin::{DECRYPT, ENCRYPT, STATUS};
use super::wire::{Fields, MALFORMED, WireValue, write_bytes};
use super::{EncryptedDek, KmsError, KmsFuture, KmsPlugin, KmsStatus};
use crate::Secret;

/// A plugin that listens at a Unix socket. The connection is made at the first call, and again after it was lost.
#[derive(Debug)]
pub struct KmsClient {
    channel: UnixChannel,
}

impl KmsClient {
    /// A client of the plugin at a URL such as `unix:///run/kms.sock`, or `unix:///@kms` for an abstract socket. Each call
    /// ends after the time.
    ///
    /// # Errors
    /// Returns upstream's message about the URL.
    pub fn new(endpoint: &str, timeout: Duration) -> Result<Self, String> {
        Ok(Self { channel: UnixChannel::new(socket_path(endpoint)?, timeout) })
    }

    async fn call(&self, method: &str, message: &[u8]) -> Result<Vec<u8>, KmsError> {
        let answer = self.channel.call(method, message).await?;
        Ok(answer.to_vec())
    }
}

/// The path of a plugin's socket (`ParseEndpoint`). An abstract socket begins with a zero byte.
fn socket_path(endpoint: &str) -> Result<PathBuf, String> {
    if endpoint.is_empty() {
        return Err("remote KMS provider can't use empty string as endpoint".to_owned());
    }
    let invalid = |error| format!("invalid endpoint {} for remote KMS provider, error: {error}", quote(endpoint));
    let (url, _) = parse_reference(endpoint).map_err(invalid)?;
    if url.scheme != "unix" {
        return Err(format!("unsupported scheme {} for remote KMS provider", quote(&url.scheme)));
    }
    let path: Cow<'_, [u8]> = percent_decode_str(&url.escaped_path).into();
    let path = String::from_utf8_lossy(&path).into_owned();
    Ok(match path.strip_prefix("/@") {
        Some(name) => format!("\0{name}").into(),
        None => path.into(),
    })
}

/// The fields of an answer that have bytes.
fn fields(answer: &[u8]) -> Result<Vec<(u64, &[u8])>, String> {
    let mut fields = Vec::new();
    for field in Fields::of(answer) {
        if let (number, WireValue::Bytes(bytes)) = field.ok_or(MALFORMED)? {
            fields.push((number, bytes));
        }
    }
    Ok(fields)
}

fn text(bytes: &[u8]) -> Result<String, String> {
    let text = str::from_utf8(bytes).map_err(|_| "string field contains invalid UTF-8")?;
    Ok(text.to_owned())
}

fn status(answer: &[u8]) -> Result<KmsStatus, KmsError> {
    let mut status = KmsStatus::default();
    for (number, bytes) in fields(answer)? {
        match number {
            1 => status.version = text(bytes)?,
            2 => status.healthz = text(bytes)?,
            3 => status.key_id = text(bytes)?,
            _ => {}
        }
    }
    Ok(status)
}

fn encrypted(answer: &[u8]) -> Result<EncryptedDek, KmsError> {
    let mut dek = EncryptedDek::default();
    for (number, bytes) in fields(answer)? {
        match number {
            1 => dek.ciphertext = bytes.to_vec(),
            2 => dek.key_id = text(bytes)?,
            3 => {
                let (name, value) = annotation(bytes).map_err(|error| error.to_string())?;
                dek.annotations.insert(name, value);
            }
            _ => {}
        }
    }
    Ok(dek)
}

impl KmsPlugin for KmsClient {
    fn status(&self) -> KmsFuture<'_, KmsStatus> {
        Box::pin(async { status(&self.call(STATUS, &[]).await?) })
    }

    fn encrypt<'p>(&'p self, uid: &'p str, dek: &'p [u8]) -> KmsFuture<'p, EncryptedDek> {
        Box::pin(async move {
            let mut request = Zeroizing::new(Vec::with_capacity(dek.len() + uid.len() + 16));
            write_bytes(1, dek, &mut request);
            write_bytes(2, uid.as_bytes(), &mut request);
            encrypted(&self.call(ENCRYPT, &request).await?)
        })
    }

    fn decrypt<'p>(&'p self, uid: &'p str, dek: &'p EncryptedDek) -> KmsFuture<'p, Secret> {
        Box::pin(async move {
            let mut request = Vec::new();
            write_bytes(1, &dek.ciphertext, &mut request);
            write_bytes(2, uid.as_bytes(), &mut request);
            write_bytes(3, dek.key_id.as_bytes(), &mut request);
            write_annotations(4, &dek.annotations, &mut request);
            let answer = Zeroizing::new(self.call(DECRYPT, &request).await?);
            let secret = fields(&answer)?.into_iter().rev().find(|(number, _)| *number == 1);
            Ok(Secret::new(secret.map(|(_, bytes)| bytes.to_vec()).unwrap_or_default()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::socket_path;

    #[test]
    fn sockets_are_found_by_the_paths_of_urls() {
        let path = |endpoint| socket_path(endpoint).map(|path| path.display().to_string());
        assert_eq!(path("unix:///run/kms.sock"), Ok("/run/kms.sock".to_owned()));
        assert_eq!(path("unix:///a%20b?c#d"), Ok("/a b".to_owned()));
        assert_eq!(path("unix:///@kms"), Ok("\0kms".to_owned()));
        assert_eq!(path(""), Err("remote KMS provider can't use empty string as endpoint".to_owned()));
        assert_eq!(path("tcp://a"), Err("unsupported scheme \"tcp\" for remote KMS provider".to_owned()));
        let expect = "invalid endpoint \":\" for remote KMS provider, error: parse \":\": missing protocol scheme";
        assert_eq!(path(":"), Err(expect.to_owned()));
    }
}
