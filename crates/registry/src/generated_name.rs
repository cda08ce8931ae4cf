//! Generated names (upstream: `names.SimpleNameGenerator` of `apiserver/pkg/storage/names`).

use pintle_value::Str;

/// The characters of generated names: no vowels and no characters that look alike (upstream: `util/rand`).
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// The number of random characters that are added.
const SUFFIX_LENGTH: usize = 5;
/// Maximum length of the part of the base that is used, in bytes (upstream: `MaxGeneratedNameLength`).
const MAX_BASE_LENGTH: usize = 63 - SUFFIX_LENGTH;

/// Generates a name from a base such as a `generateName`.
#[must_use]
pub fn generate_name(base: &str) -> Str {
    let mut end = base.len().min(MAX_BASE_LENGTH);
    while !base.is_char_boundary(end) {
        end -= 1;
    }
    let mut name = String::with_capacity(end + SUFFIX_LENGTH);
    name.push_str(&base[..end]);
    for byte in uuid::Uuid::new_v4().as_bytes().iter().take(SUFFIX_LENGTH) {
        name.push(char::from(ALPHABET[usize::from(*byte) % ALPHABET.len()]));
    }
    name.into()
}
