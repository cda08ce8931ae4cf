//! Static bearer tokens from a CSV file, in kube-apiserver's format: `token,user,uid,"group1,group2"`.

use std::collections::HashMap;

use pintle_value::Str;

use crate::authenticate::AuthenticationResult;
use crate::{AuthFuture, TokenAuthenticator, UserInfo};

/// An error in a token file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenFileError {
    /// A line has too few columns.
    #[error("line {line}: a token line must have at least 3 columns (token, user name, user uid), found {columns}")]
    TooFewColumns {
        /// The line, counted from 1.
        line: usize,
        /// The number of its columns.
        columns: usize,
    },
    /// A quoted field is not closed.
    #[error("line {line}: a quoted field is not closed")]
    OpenQuote {
        /// The line, counted from 1.
        line: usize,
    },
}

/// Authenticates users by the tokens of a file that was read at start (`--token-auth-file`).
#[derive(Clone, Debug, Default)]
pub struct TokenFileAuthenticator {
    tokens: HashMap<String, UserInfo>,
}

impl TokenFileAuthenticator {
    /// Parses the text of a file. Empty lines and empty tokens are skipped; of a duplicate token, the last line counts.
    ///
    /// # Errors
    /// A line is malformed.
    pub fn parse(text: &str) -> Result<Self, TokenFileError> {
        let mut tokens = HashMap::new();
        for (i, line) in text.lines().enumerate() {
            let line = line.trim_end_matches('\r');
            if line.is_empty() {
                continue;
            }
            let columns = columns(line).ok_or(TokenFileError::OpenQuote { line: i + 1 })?;
            let [token, name, uid, rest @ ..] = columns.as_slice() else {
                return Err(TokenFileError::TooFewColumns { line: i + 1, columns: columns.len() });
            };
            if token.is_empty() {
                continue;
            }
            let groups = rest.first().map(|g| g.split(',').filter(|g| !g.is_empty()).map(Str::from).collect());
            let user =
                UserInfo { name: name.into(), uid: uid.into(), groups: groups.unwrap_or_default(), extra: Vec::new() };
            tokens.insert(token.clone(), user);
        }
        Ok(Self { tokens })
    }
}

/// The trimmed fields of a CSV line (RFC 4180). `None` if a quoted field is not closed.
fn columns(line: &str) -> Option<Vec<String>> {
    let mut columns = Vec::new();
    let mut field = String::new();
    let mut quoted = false;
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                field.push('"');
            }
            '"' if quoted => quoted = false,
            '"' if field.trim().is_empty() => {
                field.clear();
                quoted = true;
            }
            ',' if !quoted => columns.push(std::mem::take(&mut field).trim().to_owned()),
            c => field.push(c),
        }
    }
    columns.push(field.trim().to_owned());
    (!quoted).then_some(columns)
}

impl TokenAuthenticator for TokenFileAuthenticator {
    fn authenticate_token<'a>(&'a self, token: &'a str, _: &'a [Str]) -> AuthFuture<'a, AuthenticationResult> {
        // A look-up by hash does not reveal by its timing how much of a token was right.
        AuthFuture::ready(Ok(self.tokens.get(token).map(|user| user.clone().into())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, token: &str, expect: Result<(&str, &str, &[&str]), TokenFileError>) {
        let found = TokenFileAuthenticator::parse(text).map(|file| file.tokens.get(token).cloned().unwrap_or_default());
        let expect = expect.map(|(name, uid, groups)| UserInfo {
            name: name.into(),
            uid: uid.into(),
            groups: groups.iter().map(|g| Str::from(*g)).collect(),
            extra: Vec::new(),
        });
        assert_eq!(found, expect, "{text}");
    }

    #[test]
    fn lines_are_parsed_like_kube_apiserver_does() {
        check("t,alice,1", "t", Ok(("alice", "1", &[])));
        check("\nt, alice ,1,\"a,b\"\n", "t", Ok(("alice", "1", &["a", "b"])));
        check("t,alice,1,dev\r\nt,bob,2,ops", "t", Ok(("bob", "2", &["ops"])));
        check("t,alice", "t", Err(TokenFileError::TooFewColumns { line: 1, columns: 2 }));
        check("t,alice,1,\"a", "t", Err(TokenFileError::OpenQuote { line: 1 }));
    }
}
