//! The encodings of built-in kinds in etcd that upstream's decoder accepts (upstream: `NewStorageCodec`): Protobuf,
//! JSON and YAML, and base64 of each.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pintle_codec::{json, protobuf, yaml};

/// A stored object as Protobuf or JSON.
pub(super) enum EncodedObject<'s> {
    /// The bytes as they are stored.
    Stored(&'s [u8]),
    /// The bytes that base64 contained. YAML is converted to JSON here.
    Unpacked(Vec<u8>),
}

impl<'s> EncodedObject<'s> {
    /// Determines the encoding of an object (upstream: `recognizer`): Protobuf, JSON or YAML, or base64 of one of them.
    pub(super) fn of(stored: &'s [u8]) -> Self {
        let is_known =
            |bytes: &[u8]| bytes.starts_with(&protobuf::PREFIX) || bytes.trim_ascii_start().starts_with(b"{");
        let from_yaml = |bytes: &[u8]| {
            let tree = yaml::decode(bytes).ok()?.value;
            tree.as_object().is_some().then(|| json::encode(&tree))
        };
        if is_known(stored) {
            return Self::Stored(stored);
        }
        let unpacked = from_yaml(stored).or_else(|| {
            let bytes = STANDARD.decode(stored).ok()?;
            if is_known(&bytes) { Some(bytes) } else { from_yaml(&bytes) }
        });
        unpacked.map_or(Self::Stored(stored), Self::Unpacked)
    }

    /// The bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Stored(bytes) => bytes,
            Self::Unpacked(bytes) => bytes,
        }
    }

    /// True if an update would write the object in another form.
    pub(super) fn is_unpacked(&self) -> bool {
        matches!(self, Self::Unpacked(_))
    }

    /// The Protobuf with its envelope.
    pub(super) fn protobuf(&self) -> Option<&[u8]> {
        Some(self.bytes()).filter(|bytes| bytes.starts_with(&protobuf::PREFIX))
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use pintle_gates::Gates;
    use pintle_store::ValueTransformer as _;

    use super::super::StoredForm;
    use super::*;

    /// Upstream's decoder of the storage accepts the same encodings and spellings.
    #[test]
    fn objects_are_read_in_every_encoding_and_spelling() {
        let key = "/registry/configmaps/n/a";
        let form = StoredForm::new("/registry", true, &Gates::default()).expect("a form");
        let read = |stored: Vec<u8>| {
            let read = form.transform_from_storage(key, Bytes::from(stored)).map_err(|error| error.detail)?;
            Ok::<_, String>(String::from_utf8_lossy(&read.value).into_owned())
        };
        let json = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","uid":"u","labels":{"a":"b"}},"data":{"k":"\u003c"}}"#;
        let protobuf = form.transform_to_storage(key, json.into()).expect("stored").bytes;
        let spelled = r#"
            { "data" : {"\u006b" : "<"}, "metadata": {"labels":{"a":"b"}, "resourceVersion":"7", "selfLink":"/a", "uid":"u", "name":"a"},
              "apiVersion":"v1", "kind":"ConfigMap", "nope": [1, 2.0] }
        "#;
        let yaml = "metadata: {uid: u, name: a, labels: {a: b}}\ndata:\n  k: <\nkind: ConfigMap\napiVersion: v1\n";
        let other_case = r#"{"Kind":"ConfigMap","APIVERSION":"v1","metadata":{"uid":"u","name":"a","labels":{"a":"b"}},"data":{"k":"<"}}"#;
        let twice = r#"{"kind":"Pod","kind":"ConfigMap","apiVersion":"v1","metadata":{"uid":"u","name":"b","name":"a","labels":{"a":"b"}},"data":{"k":"<"}}"#;
        // These values have unknown fields, and an envelope with its fields in another order.
        let envelope = protobuf::open_envelope(&protobuf).expect("an envelope");
        let raw = [envelope.raw, b"\xfa\x7f\x01a"].concat();
        let length = u8::try_from(raw.len()).expect("a short message");
        let reordered =
            [b"k8s\0\x12", &[length][..], &raw, b"\x1a\0\x22\0\x0a\x0f\x12\x09ConfigMap\x0a\x02v1"].concat();
        let no_kind = json.replace("\"kind\":\"ConfigMap\",", "").into_bytes();
        let protobuf_no_kind = [b"k8s\0\x0a\x04\x0a\x02v1\x12", &[length - 4][..], envelope.raw].concat();
        let others = [twice.into(), no_kind, protobuf.to_vec(), protobuf_no_kind, reordered];
        for stored in [spelled.into(), yaml.into(), other_case.into()].into_iter().chain(others) {
            for stored in [stored.clone(), STANDARD.encode(&stored).into_bytes()] {
                let text = stored.escape_ascii().to_string();
                assert_eq!(read(stored).as_deref(), Ok(json), "{text}");
            }
        }
        for (stored, why) in [
            ("{", "couldn't get version/kind; json parse error: unexpected end of JSON input"),
            ("{}", "Object 'Kind' is missing in '{}'"),
            (r#"{"kind":"ConfigMap"}"#, "Object 'apiVersion' is missing in '{\"kind\":\"ConfigMap\"}'"),
        ] {
            assert_eq!(read(stored.into()).as_deref(), Err(&why.to_owned()));
        }
        // Upstream serves objects without a uid, and without a name.
        let empty = r#"{"kind":"ConfigMap","apiVersion":"v1"}"#;
        assert_eq!(read(empty.into()).as_deref(), Ok(r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{}}"#));
    }
}
