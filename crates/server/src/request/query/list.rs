//! `ListOptions`: what lists, watches and deletecollection are told, read and checked in upstream's order: numbers,
//! then selectors, then what may not be combined (apimachinery's `internalversion` and its `validation`).

use pintle_registry::ApiError;
use pintle_selector::{FieldSelector, LabelSelector};
use pintle_value::{Errors, FieldPath};

use super::{Query, invalid};

/// How a list's resourceVersion is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VersionMatch {
    /// Exactly this one.
    Exact,
    /// This one or a newer one.
    NotOlderThan,
}

/// `ListOptions`, for lists, watches and the selection of deletecollection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ListOptions {
    /// The labels to select by.
    pub(crate) labels: LabelSelector,
    /// The fields to select by, as the client calls them.
    pub(crate) fields: FieldSelector,
    /// True if the client understands bookmarks.
    pub(crate) allow_watch_bookmarks: bool,
    /// The resourceVersion's text.
    pub(crate) resource_version: String,
    /// How it is meant.
    pub(crate) version_match: Option<VersionMatch>,
    /// After how many seconds the server ends a watch.
    pub(crate) timeout_seconds: Option<i64>,
    /// At most how many objects a list has; 0 is all.
    pub(crate) limit: i64,
    /// Where to go on.
    pub(crate) continue_token: String,
    /// A watch that starts with what is there.
    pub(crate) send_initial_events: Option<bool>,
}

impl ListOptions {
    /// Reads and checks the options. They are those of a watch if the query says so; a deprecated `/watch/` path does
    /// not make them so, as upstream has it.
    ///
    /// # Errors
    /// A value that is malformed or a combination that is not allowed.
    pub(crate) fn read(query: &Query) -> Result<Self, ApiError> {
        let timeout_seconds = query.integer("timeoutSeconds")?;
        let limit = query.integer("limit")?.unwrap_or(0);
        let malformed = |error: pintle_selector::SelectorParseError| ApiError::BadRequest(error.to_string());
        let meant = query.text("resourceVersionMatch");
        let mut options = Self {
            labels: LabelSelector::parse(&query.text("labelSelector")).map_err(malformed)?,
            fields: FieldSelector::parse(&query.text("fieldSelector")).map_err(malformed)?,
            allow_watch_bookmarks: query.flag("allowWatchBookmarks"),
            resource_version: query.text("resourceVersion"),
            version_match: match meant.as_str() {
                "Exact" => Some(VersionMatch::Exact),
                "NotOlderThan" => Some(VersionMatch::NotOlderThan),
                _ => None,
            },
            timeout_seconds,
            limit,
            continue_token: query.text("continue"),
            send_initial_events: query.optional_flag("sendInitialEvents"),
        };
        let mut errors = Errors::new();
        if query.flag("watch") {
            options.check_watch(&meant, &mut errors);
            options.default_watch(&meant);
        } else {
            options.check_list(&meant, &mut errors);
        }
        invalid("ListOptions", errors)?;
        Ok(options)
    }

    /// A watch from nowhere in particular starts with what is there (upstream: `SetListOptionsDefaults`).
    fn default_watch(&mut self, meant: &str) {
        if self.send_initial_events.is_none() && meant.is_empty() && matches!(self.resource_version.as_str(), "" | "0")
        {
            self.send_initial_events = Some(true);
            self.version_match = Some(VersionMatch::NotOlderThan);
        }
    }

    fn check_list(&self, meant: &str, errors: &mut Errors) {
        let path = FieldPath::new("resourceVersionMatch");
        if !meant.is_empty() {
            if self.resource_version.is_empty() {
                errors.forbidden(&path, "resourceVersionMatch is forbidden unless resourceVersion is provided");
            }
            if !self.continue_token.is_empty() {
                errors.forbidden(&path, "resourceVersionMatch is forbidden when continue is provided");
            }
            if self.version_match.is_none() {
                errors.not_supported(&path, meant, &["Exact", "NotOlderThan", ""]);
            }
            if self.version_match == Some(VersionMatch::Exact) && self.resource_version == "0" {
                errors.forbidden(&path, "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"");
            }
        }
        if self.send_initial_events.is_some() {
            errors.forbidden(&FieldPath::new("sendInitialEvents"), "sendInitialEvents is forbidden for list");
        }
    }

    fn check_watch(&self, meant: &str, errors: &mut Errors) {
        let path = FieldPath::new("resourceVersionMatch");
        let not_older = self.version_match == Some(VersionMatch::NotOlderThan);
        if self.send_initial_events.is_some() && !not_older {
            errors.forbidden(&path, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
        }
        if !meant.is_empty() {
            if self.send_initial_events.is_none() {
                errors.forbidden(
                    &path,
                    "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
                );
            }
            if !not_older {
                errors.not_supported(&path, meant, &["NotOlderThan"]);
            }
            if !self.continue_token.is_empty() {
                errors.forbidden(&path, "resourceVersionMatch is forbidden when continue is provided");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNLESS: &str = "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is \
                          provided";
    const CONTINUE: &str =
        "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided";
    const LIST_VALUE: &str =
        "resourceVersionMatch: Unsupported value: \"x\": supported values: \"Exact\", \"NotOlderThan\", \"\"";
    const ZERO: &str =
        "resourceVersionMatch: Forbidden: resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
    const INITIAL: &str = "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list";
    const REQUIRES: &str =
        "resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
    const NEEDS_INITIAL: &str = "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless \
                                 sendInitialEvents is provided";
    const WATCH_VALUE: &str = "resourceVersionMatch: Unsupported value: \"Exact\": supported values: \"NotOlderThan\"";

    fn check(query: &str, expect: &[&str]) {
        let found = ListOptions::read(&Query::parse(query)).map_or_else(|e| e.to_string(), |_| "ok".to_owned());
        let expect = match expect {
            [] => "ok".to_owned(),
            [one] => format!("ListOptions.meta.k8s.io \"\" is invalid: {one}"),
            many => format!("ListOptions.meta.k8s.io \"\" is invalid: [{}]", many.join(", ")),
        };
        assert_eq!(found, expect, "{query}");
    }

    #[test]
    fn lists_are_checked() {
        for (query, expect) in [
            ("", &[][..]),
            ("limit=5&continue=x", &[]),
            ("limit=-5", &[]),
            ("resourceVersion=1", &[]),
            ("resourceVersion=0&limit=3", &[]),
            ("resourceVersion=1&continue=x", &[]),
            ("resourceVersion=1&resourceVersionMatch=Exact", &[]),
            ("resourceVersion=0&resourceVersionMatch=NotOlderThan", &[]),
            ("resourceVersion=1&resourceVersionMatch=NotOlderThan&limit=1", &[]),
            ("resourceVersionMatch=", &[]),
            ("resourceVersionMatch=Exact", &[UNLESS]),
            ("resourceVersionMatch=NotOlderThan", &[UNLESS]),
            ("resourceVersionMatch=NotOlderThan&continue=x", &[UNLESS, CONTINUE]),
            ("resourceVersion=1&resourceVersionMatch=Exact&continue=x", &[CONTINUE]),
            ("resourceVersion=1&resourceVersionMatch=x", &[LIST_VALUE]),
            ("resourceVersionMatch=x&continue=x", &[UNLESS, CONTINUE, LIST_VALUE]),
            ("resourceVersion=0&resourceVersionMatch=Exact", &[ZERO]),
            ("resourceVersion=0&resourceVersionMatch=Exact&continue=x", &[CONTINUE, ZERO]),
            ("sendInitialEvents=true", &[INITIAL]),
            ("sendInitialEvents=false", &[INITIAL]),
            ("sendInitialEvents=true&resourceVersionMatch=NotOlderThan", &[UNLESS, INITIAL]),
            ("watch=false&sendInitialEvents=true", &[INITIAL]),
            ("watch=0&sendInitialEvents=true", &[INITIAL]),
        ] {
            check(query, expect);
        }
    }

    #[test]
    fn watches_are_checked() {
        for (query, expect) in [
            ("", &[][..]),
            ("resourceVersion=5", &[]),
            ("limit=5&continue=x", &[]),
            ("sendInitialEvents=true&resourceVersionMatch=NotOlderThan", &[]),
            ("sendInitialEvents=false&resourceVersionMatch=NotOlderThan", &[]),
            ("sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=7", &[]),
            ("sendInitialEvents=true", &[REQUIRES]),
            ("sendInitialEvents=false", &[REQUIRES]),
            ("sendInitialEvents=", &[REQUIRES]),
            ("sendInitialEvents=true&resourceVersionMatch=Exact", &[REQUIRES, WATCH_VALUE]),
            ("resourceVersionMatch=NotOlderThan", &[NEEDS_INITIAL]),
            ("resourceVersionMatch=NotOlderThan&resourceVersion=1", &[NEEDS_INITIAL]),
            ("resourceVersionMatch=Exact&resourceVersion=1", &[NEEDS_INITIAL, WATCH_VALUE]),
            ("resourceVersionMatch=Exact&continue=x", &[NEEDS_INITIAL, WATCH_VALUE, CONTINUE]),
            ("sendInitialEvents=true&resourceVersionMatch=NotOlderThan&continue=x", &[CONTINUE]),
        ] {
            check(&format!("watch=1&{query}"), expect);
            check(&format!("watch=&{query}"), expect);
        }
    }

    #[test]
    fn what_cannot_be_read_is_told_before_what_cannot_be_combined() {
        for (query, expect) in [
            ("timeoutSeconds=x&limit=y", "strconv.ParseInt: parsing \"x\": invalid syntax"),
            ("limit=y&labelSelector=!", "strconv.ParseInt: parsing \"y\": invalid syntax"),
            ("labelSelector=!&fieldSelector=a", "unable to parse requirement: found '', expected: identifier"),
            ("fieldSelector=a&resourceVersionMatch=Exact", "invalid selector: 'a'; can't understand 'a'"),
            ("fieldSelector=a&watch=1&sendInitialEvents=true", "invalid selector: 'a'; can't understand 'a'"),
        ] {
            let found = ListOptions::read(&Query::parse(query)).map(drop);
            assert_eq!(found, Err(ApiError::BadRequest(expect.to_owned())), "{query}");
        }
    }

    #[test]
    fn watches_from_nowhere_begin_with_what_is_there() {
        for (query, expect) in [
            ("watch=1", Some(true)),
            ("watch=1&resourceVersion=0", Some(true)),
            ("watch=1&resourceVersion=5", None),
            ("watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan", Some(false)),
            ("", None),
            ("resourceVersion=0", None),
        ] {
            let options = ListOptions::read(&Query::parse(query)).expect(query);
            assert_eq!(options.send_initial_events, expect, "{query}");
        }
    }
}
