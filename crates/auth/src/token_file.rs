//! Static bearer tokens from a CSV file, in kube-apiserver's format: `token,user,uid,"group1,group2"`.

use std::collections::HashMap;

use pintle_value::Str;

use crate::authenticate::AuthenticationResult;
use crate::csv::{CsvError, read_records};
use crate::{AuthFuture, TokenAuthenticator, UserInfo};

/// An error in a token file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenFileError {
    /// The text does not consist of comma-separated values.
    #[error(transparent)]
    Malformed(#[from] CsvError),
    /// A record has too few columns.
    #[error("the token file must have at least 3 columns (token, user name, user uid), found {columns}")]
    TooFewColumns {
        /// The number of its columns.
        columns: usize,
    },
}

/// Authenticates users by the tokens of a file that was read at start (`--token-auth-file`).
#[derive(Clone, Debug, Default)]
pub struct TokenFileAuthenticator {
    tokens: HashMap<String, UserInfo>,
}

impl TokenFileAuthenticator {
    /// Parses the text of a file. Empty tokens are skipped. If a token occurs several times, the last record counts.
    ///
    /// # Errors
    /// The text is malformed.
    pub fn parse(text: &str) -> Result<Self, TokenFileError> {
        let mut tokens = HashMap::new();
        for record in read_records(text)? {
            let [token, name, uid, rest @ ..] = record.as_slice() else {
                return Err(TokenFileError::TooFewColumns { columns: record.len() });
            };
            if token.is_empty() {
                continue;
            }
            // As in upstream, an empty column is one group without a name.
            let groups = rest.first().map(|groups| groups.split(',').map(Str::from).collect());
            let user =
                UserInfo { name: name.into(), uid: uid.into(), groups: groups.unwrap_or_default(), extra: Vec::new() };
            tokens.insert(token.clone(), user);
        }
        Ok(Self { tokens })
    }
}

impl TokenAuthenticator for TokenFileAuthenticator {
    fn authenticate_token<'a>(&'a self, token: &'a str, _: &'a [Str]) -> AuthFuture<'a, AuthenticationResult> {
        // A look-up by hash does not reveal by its timing how much of a token was correct.
        AuthFuture::ready(Ok(self.tokens.get(token).map(|user| user.clone().into())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, token: &str, expect: Result<(&str, &str, &[&str]), &str>) {
        let found = TokenFileAuthenticator::parse(text).map(|file| file.tokens.get(token).cloned().unwrap_or_default());
        let (found, expect) = (found.map_err(|error| error.to_string()), expect.map_err(str::to_owned));
        let expect = expect.map(|(name, uid, groups)| UserInfo {
            name: name.into(),
            uid: uid.into(),
            groups: groups.iter().map(|g| Str::from(*g)).collect(),
            extra: Vec::new(),
        });
        assert_eq!(found, expect, "{text}");
    }

    #[test]
    fn records_are_read_like_kube_apiserver_does() {
        check("t,alice,1", "t", Ok(("alice", "1", &[])));
        check("\nt, alice ,1,\"a,b\"\n", "t", Ok((" alice ", "1", &["a", "b"])));
        check("t,alice,1,dev\r\nt,bob,2,ops", "t", Ok(("bob", "2", &["ops"])));
        check("\" t\nu\",alice,1,\",a\"", " t\nu", Ok(("alice", "1", &["", "a"])));
        check("t,alice,1,", "t", Ok(("alice", "1", &[""])));
        check("t,alice", "t", Err("the token file must have at least 3 columns (token, user name, user uid), found 2"));
        let error = "parse error on line 1, column 13: extraneous or missing \" in quoted-field";
        check("t,alice,1,\"a", "t", Err(error));
    }
}
