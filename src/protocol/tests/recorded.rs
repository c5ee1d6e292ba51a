//! The recorded frames and message sets under tests/fixtures/vectors.

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use serde_json::Value;

use crate::protocol::RequestHeader;

/// One entry of the index and what its files hold.
pub(super) struct Vector {
    pub(super) entry: Value,
    request: Vec<u8>,
    response: Vec<u8>,
    set: Vec<u8>,
}

pub(super) fn all() -> &'static [Vector] {
    static VECTORS: LazyLock<Vec<Vector>> = LazyLock::new(|| {
        let index: Value = serde_json::from_str(&read("index.json")).unwrap();
        let vectors = index["vectors"].as_array().unwrap();
        vectors.iter().map(Vector::load).collect()
    });
    &VECTORS
}

impl Vector {
    fn load(entry: &Value) -> Self {
        let bytes = |file: &str| from_hex(&entry[file].as_str().map(read).unwrap_or_default());
        Self {
            request: bytes("request_file"),
            response: bytes("response_file"),
            set: bytes("file"),
            entry: entry.clone(),
        }
    }

    pub(super) fn name(&self) -> &str {
        self.entry["name"].as_str().unwrap()
    }

    pub(super) fn is_exchange(&self) -> bool {
        self.entry["kind"] == "exchange"
    }

    /// Whether it has frames; a bare message set has none.
    pub(super) fn has_frames(&self) -> bool {
        self.entry["kind"] != "record_set"
    }

    /// Number and version of the answer to a request with this header, if there is one.
    pub(super) fn layout(&self, asked: Option<&RequestHeader>) -> (i16, i16) {
        let number = |value: &Value| value.as_i64().map(|it| i16::try_from(it).unwrap());
        let (key, version) = match asked {
            Some(asked) => (Some(asked.api_key), Some(asked.api_version)),
            None => (
                number(&self.entry["api_key"]),
                number(&self.entry["api_version"]),
            ),
        };
        match &self.entry["response_layout"] {
            // Only the second of two requests was answered.
            Value::Array(layout) if layout[0] == "Metadata" => (3, number(&layout[1]).unwrap()),
            _ => {
                let answered = number(&self.entry["response_layout_version"]);
                (key.unwrap(), answered.or(version).unwrap())
            }
        }
    }

    /// Frames of the request, without their sizes.
    pub(super) fn requests(&self) -> Vec<Vec<u8>> {
        frames(&self.request)
    }

    /// Frames of the response, without their sizes.
    pub(super) fn responses(&self) -> Vec<Vec<u8>> {
        frames(&self.response)
    }

    /// The bare message set.
    pub(super) fn message_set(&self) -> Vec<u8> {
        self.set.clone()
    }

    /// What must be found in each response.
    pub(super) fn expected(&self) -> Vec<Value> {
        match &self.entry["expected"] {
            Value::Array(frames) => frames.clone(),
            Value::Null => Vec::new(),
            frame => vec![frame.clone()],
        }
    }
}

/// The bytes of a recorded frame, its size in front; `side` is `request` or `response`.
pub(crate) fn frame(name: &str, side: &str) -> Vec<u8> {
    from_hex(&read(&format!("{name}.{side}.hex")))
}

/// Line ends are passed over.
pub(crate) fn from_hex(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16);
    digits.chunks(2).map(|pair| byte(pair).unwrap()).collect()
}

fn read(file: &str) -> String {
    let mut path = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    path.extend(["tests", "fixtures", "vectors", file]);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn frames(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    while let Some((size, rest)) = bytes.split_first_chunk() {
        let (frame, rest) = rest.split_at(u32::from_be_bytes(*size).try_into().unwrap());
        frames.push(frame.to_vec());
        bytes = rest;
    }
    assert!(bytes.is_empty());
    frames
}
