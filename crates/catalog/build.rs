//! Extracts the field descriptions from the sources of the `k8s-openapi` package and compresses them for
//! `descriptions.rs`. The package is located through Cargo and never compiled: compiling its types takes most of a
//! minute, while its descriptions are 110 KB.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use pintle_versions::{Minor, MinorRange};

/// The descriptions of a type (under the empty name) and of its fields.
type Descriptions = BTreeMap<String, String>;

/// The descriptions of a type in all versions: each text with the first and the last version that has it.
type VersionedDescriptions = BTreeMap<String, Vec<(String, Minor, Minor)>>;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=Cargo.toml");
    let folder = k8s_openapi_folder();
    let mut models: BTreeMap<String, VersionedDescriptions> = BTreeMap::new();
    for minor in Minor::known() {
        for (model, descriptions) in models_of(&folder.join("src").join(format!("v1_{}", minor.number()))) {
            let model = models.entry(model).or_default();
            for (name, text) in descriptions {
                let texts = model.entry(name).or_default();
                match texts.last_mut().filter(|(known, _, last)| *known == text && last.next() == minor) {
                    Some((_, _, last)) => *last = minor,
                    None => texts.push((text, minor, minor)),
                }
            }
        }
    }
    let mut packed = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    for (model, descriptions) in &models {
        write!(packed, "\x1d{model}").expect("memory");
        for (name, texts) in descriptions {
            for (text, first, last) in texts {
                write!(packed, "\x1e{name}{}\x1f{text}", range(*first, *last)).expect("memory");
            }
        }
    }
    let target = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo")).join("descriptions.z");
    fs::write(target, packed.finish().expect("memory")).expect("the output folder is writable");
}

/// The range of versions behind a name; empty for all versions.
fn range(first: Minor, last: Minor) -> String {
    let range = MinorRange::of_known(first, last);
    if range == MinorRange::ALL { String::new() } else { format!("\x1c{range}") }
}

/// The descriptions of all types of a version.
fn models_of(sources: &Path) -> BTreeMap<String, Descriptions> {
    let mut models = BTreeMap::new();
    read_models_of_folder(sources, &mut models);
    assert!(models.len() > 600, "{} has {} types, fewer than expected", sources.display(), models.len());
    models.insert("List".to_owned(), list_descriptions(&sources.join("list.rs"), &models));
    models
}

/// The folder of the package's sources. The feature adds the package to the dependency graph, so that Cargo pins and
/// fetches it.
fn k8s_openapi_folder() -> PathBuf {
    let manifest_dir = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from).expect("set by cargo");
    let output = Command::new(env::var_os("CARGO").expect("set by cargo"))
        .args(["metadata", "--format-version=1", "--features=descriptions-source", "--filter-platform"])
        .arg(env::var_os("HOST").expect("set by cargo"))
        .arg("--manifest-path")
        .arg(manifest_dir.join("Cargo.toml"))
        .output()
        .expect("cargo starts");
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("cargo prints JSON");
    let manifest = metadata["packages"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|package| package["name"] == "k8s-openapi")
        .and_then(|package| package["manifest_path"].as_str())
        .expect("k8s-openapi is a dependency");
    Path::new(manifest).parent().expect("a manifest is in a folder").to_path_buf()
}

fn read_models_of_folder(folder: &Path, models: &mut BTreeMap<String, Descriptions>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    for entry in entries {
        let path = entry.expect("a readable folder").path();
        if path.is_dir() {
            read_models_of_folder(&path, models);
        } else if path.extension().is_some_and(|e| e == "rs") {
            let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            let tokens = tokenize(&text);
            for start in 0..tokens.len() {
                if tokens[start] == Token::Word("schema_name".to_owned()) {
                    read_model(&tokens[start..], models);
                }
            }
        }
    }
}

/// A token of a Rust source file, as far as schemas need it.
#[derive(Clone, Debug, PartialEq)]
enum Token {
    Text(String),
    Word(String),
    Punctuation(char),
}

fn tokenize(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' => tokens.push(Token::Text(read_string_literal(&mut chars))),
            '/' if chars.peek() == Some(&'/') => while chars.next_if(|c| *c != '\n').is_some() {},
            '\'' => {
                // A character literal or a lifetime. Quotes in character literals must not start a string.
                if chars.next_if_eq(&'"').is_some() {
                    chars.next();
                }
            }
            c if c.is_alphanumeric() || c == '_' => {
                let mut word = String::from(c);
                while let Some(c) = chars.next_if(|c| c.is_alphanumeric() || *c == '_') {
                    word.push(c);
                }
                tokens.push(Token::Word(word));
            }
            c if c.is_whitespace() => {}
            c => tokens.push(Token::Punctuation(c)),
        }
    }
    tokens
}

/// Reads the rest of a string literal.
fn read_string_literal(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> String {
    let mut text = String::new();
    while let Some(c) = chars.next() {
        match c {
            '"' => return text,
            '\\' => match chars.next() {
                Some('n') => text.push('\n'),
                Some('t') => text.push('\t'),
                Some('r') => text.push('\r'),
                Some('u') => {
                    let code: String = chars.by_ref().skip(1).take_while(|c| *c != '}').collect();
                    text.extend(u32::from_str_radix(&code, 16).ok().and_then(char::from_u32));
                }
                Some(c) => text.push(c),
                None => {}
            },
            c => text.push(c),
        }
    }
    text
}

/// Parses `schema_name() { "NAME" ... } ... json_schema!({ ... })` from its first token on.
fn read_model(tokens: &[Token], models: &mut BTreeMap<String, Descriptions>) {
    let Some(Token::Text(name)) = tokens.iter().find(|t| matches!(t, Token::Text(_))) else { return };
    let Some(start) = tokens.windows(4).position(|w| {
        w[0] == Token::Word("json_schema".to_owned())
            && w[1] == Token::Punctuation('!')
            && w[3] == Token::Punctuation('{')
    }) else {
        return;
    };
    let schema = entries(&tokens[start + 3..]);
    let mut descriptions = Descriptions::new();
    descriptions.extend(description(&schema).map(|text| (String::new(), text)));
    if let Some((_, properties)) = schema.iter().find(|(key, _)| key == "properties") {
        for (field, value) in entries(properties) {
            let text = match value.first() {
                Some(Token::Punctuation('{')) => description(&entries(value)),
                _ => inserted_description(value),
            };
            descriptions.extend(text.map(|text| (field, text)));
        }
    }
    models.insert(name.clone(), descriptions);
}

/// The entries of an object literal: each key with the tokens of its value.
fn entries(tokens: &[Token]) -> Vec<(String, &[Token])> {
    let mut entries: Vec<(String, &[Token])> = Vec::new();
    let mut depth = 0;
    let mut key: Option<(String, usize)> = None;
    for (i, token) in tokens.iter().enumerate() {
        let end = match token {
            Token::Punctuation('{' | '[' | '(') => {
                depth += 1;
                false
            }
            Token::Punctuation('}' | ']' | ')') => {
                depth -= 1;
                depth == 0
            }
            Token::Punctuation(',') => depth == 1,
            Token::Text(text) if depth == 1 && key.is_none() && tokens.get(i + 1) == Some(&Token::Punctuation(':')) => {
                key = Some((text.clone(), i + 2));
                false
            }
            _ => false,
        };
        if end && let Some((name, start)) = key.take() {
            entries.push((name, &tokens[start..i]));
        }
        if depth == 0 {
            break;
        }
    }
    entries
}

fn description(schema: &[(String, &[Token])]) -> Option<String> {
    let (_, value) = schema.iter().find(|(key, _)| key == "description")?;
    match value.first() {
        Some(Token::Text(text)) => Some(text.clone()),
        _ => None,
    }
}

/// The text in `insert("description".into(), "TEXT".into())`, which is used for fields that refer to another type.
fn inserted_description(tokens: &[Token]) -> Option<String> {
    let start = tokens.iter().position(|t| *t == Token::Text("description".to_owned()))?;
    tokens[start + 1..].iter().find_map(|token| match token {
        Token::Text(text) => Some(text.clone()),
        _ => None,
    })
}

/// The descriptions of a list kind's fields. The package has one generic type for all list kinds, with doc comments
/// only.
fn list_descriptions(path: &Path, models: &BTreeMap<String, Descriptions>) -> Descriptions {
    let text = fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut descriptions = Descriptions::new();
    let mut comment = "";
    for line in text.lines().map(str::trim) {
        if let Some(text) = line.strip_prefix("/// ") {
            comment = text;
        } else if let Some((field, _)) = line.strip_prefix("pub ").and_then(|l| l.split_once(": ")) {
            descriptions.insert(field.to_owned(), comment.to_owned());
        }
    }
    if let Some(status) = models.get("io.k8s.apimachinery.pkg.apis.meta.v1.Status") {
        for field in ["apiVersion", "kind"] {
            descriptions.extend(status.get(field).map(|text| (field.to_owned(), text.clone())));
        }
    }
    descriptions
}
