//! `ListOptions` of list, watch and deletecollection, parsed and validated in upstream's order: numbers, then
//! selectors, then combinations (apimachinery's `internalversion` and its `validation`).

use pintle_gates::{Feature, Gates};
use pintle_registry::ApiError;
use pintle_selector::{FieldSelector, LabelSelector};
use pintle_value::{Errors, FieldPath};

use super::{Query, check_errors};

/// The interpretation of a list's resourceVersion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VersionMatch {
    /// Exactly this revision.
    Exact,
    /// This revision or a newer revision.
    NotOlderThan,
}

/// `ListOptions`, for lists, watches and the selection of deletecollection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ListOptions {
    /// The label selector.
    pub(crate) labels: LabelSelector,
    /// The field selector, with the client's field labels.
    pub(crate) fields: FieldSelector,
    /// True if the client understands bookmarks.
    pub(crate) allow_watch_bookmarks: bool,
    /// The resourceVersion as text.
    pub(crate) resource_version: String,
    /// The interpretation of the resourceVersion.
    pub(crate) version_match: Option<VersionMatch>,
    /// Seconds after which the server ends a watch.
    pub(crate) timeout_seconds: Option<i64>,
    /// Maximum number of objects of a list; 0 means all.
    pub(crate) limit: i64,
    /// The continue token.
    pub(crate) continue_token: String,
    /// True for a watch that starts with the existing objects.
    pub(crate) send_initial_events: Option<bool>,
}

impl ListOptions {
    /// Parses and validates the options. They are validated as options of a watch if the query has `watch`. As in
    /// upstream, a deprecated `/watch/` path does not count.
    ///
    /// # Errors
    /// Returns an error if a value is malformed or a combination is invalid.
    pub(crate) fn read(query: &Query, gates: &Gates) -> Result<Self, ApiError> {
        Self::read_with(query, gates.is_enabled(Feature::WATCH_LIST))
    }

    /// Like [`ListOptions::read`]; `has_watch_list` says whether watches may begin with the existing objects.
    ///
    /// # Errors
    /// Returns an error if a value is malformed or a combination is invalid.
    pub(crate) fn read_with(query: &Query, has_watch_list: bool) -> Result<Self, ApiError> {
        let mut options = Self::decode(query)?;
        let mut match_text = query.text("resourceVersionMatch");
        let mut errors = Errors::new();
        if query.flag("watch") {
            if has_watch_list {
                options.default_watch(&mut match_text);
            }
            options.validate_watch(&match_text, has_watch_list, &mut errors);
        } else {
            options.validate_list(&match_text, &mut errors);
        }
        check_errors("ListOptions", errors)?;
        Ok(options)
    }

    /// Parses the options without validation and defaults.
    ///
    /// # Errors
    /// Returns an error if a value is malformed.
    pub(crate) fn decode(query: &Query) -> Result<Self, ApiError> {
        let timeout_seconds = query.integer("timeoutSeconds")?;
        let limit = query.integer("limit")?.unwrap_or(0);
        let malformed = |error: pintle_selector::SelectorParseError| ApiError::BadRequest(error.to_string());
        Ok(Self {
            labels: LabelSelector::parse(&query.text("labelSelector")).map_err(malformed)?,
            fields: FieldSelector::parse(&query.text("fieldSelector")).map_err(malformed)?,
            allow_watch_bookmarks: query.flag("allowWatchBookmarks"),
            resource_version: query.text("resourceVersion"),
            version_match: match query.get("resourceVersionMatch") {
                Some("Exact") => Some(VersionMatch::Exact),
                Some("NotOlderThan") => Some(VersionMatch::NotOlderThan),
                _ => None,
            },
            timeout_seconds,
            limit,
            continue_token: query.text("continue"),
            send_initial_events: query.optional_flag("sendInitialEvents"),
        })
    }

    /// A watch without a specific resourceVersion starts with the existing objects (upstream:
    /// `SetListOptionsDefaults`).
    fn default_watch(&mut self, match_text: &mut String) {
        if self.send_initial_events.is_none()
            && match_text.is_empty()
            && matches!(self.resource_version.as_str(), "" | "0")
        {
            self.send_initial_events = Some(true);
            self.version_match = Some(VersionMatch::NotOlderThan);
            "NotOlderThan".clone_into(match_text);
        }
    }

    fn validate_list(&self, match_text: &str, errors: &mut Errors) {
        let path = FieldPath::new("resourceVersionMatch");
        if !match_text.is_empty() {
            if self.resource_version.is_empty() {
                errors.forbidden(&path, "resourceVersionMatch is forbidden unless resourceVersion is provided");
            }
            if !self.continue_token.is_empty() {
                errors.forbidden(&path, "resourceVersionMatch is forbidden when continue is provided");
            }
            if self.version_match.is_none() {
                errors.not_supported(&path, match_text, &["Exact", "NotOlderThan", ""]);
            }
            if self.version_match == Some(VersionMatch::Exact) && self.resource_version == "0" {
                errors.forbidden(&path, "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"");
            }
        }
        if self.send_initial_events.is_some() {
            errors.forbidden(&FieldPath::new("sendInitialEvents"), "sendInitialEvents is forbidden for list");
        }
    }

    fn validate_watch(&self, match_text: &str, has_watch_list: bool, errors: &mut Errors) {
        let path = FieldPath::new("resourceVersionMatch");
        let not_older = self.version_match == Some(VersionMatch::NotOlderThan);
        if self.send_initial_events.is_some() && !not_older {
            errors.forbidden(&path, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
        }
        if self.send_initial_events.is_some() && !has_watch_list {
            let detail = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";
            errors.forbidden(&FieldPath::new("sendInitialEvents"), detail);
        }
        if !match_text.is_empty() {
            if self.send_initial_events.is_none() {
                errors.forbidden(
                    &path,
                    "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
                );
            }
            if !not_older {
                errors.not_supported(&path, match_text, &["NotOlderThan"]);
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

    #[test]
    fn watches_begin_with_objects_only_with_the_feature() {
        let refused = "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature \
                       gate is enabled";
        let query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
        check_with(true, query, &[]);
        check_with(false, query, &[refused]);
        check_with(false, "watch=1&sendInitialEvents=false", &[REQUIRES, refused]);
        let begins = |has_watch_list| {
            ListOptions::read_with(&Query::parse("watch=1"), has_watch_list).map(|options| options.send_initial_events)
        };
        assert_eq!(begins(true).expect("options"), Some(true));
        assert_eq!(begins(false).expect("options"), None);
    }

    fn check(query: &str, expect: &[&str]) {
        check_with(true, query, expect);
    }

    fn check_with(has_watch_list: bool, query: &str, expect: &[&str]) {
        let found = ListOptions::read_with(&Query::parse(query), has_watch_list)
            .map_or_else(|e| e.to_string(), |_| "ok".to_owned());
        let expect = match expect {
            [] => "ok".to_owned(),
            [one] => format!("ListOptions.meta.k8s.io \"\" is invalid: {one}"),
            many => format!("ListOptions.meta.k8s.io \"\" is invalid: [{}]", many.join(", ")),
        };
        assert_eq!(found, expect, "{query}");
    }

    #[test]
    fn list_options_are_validated() {
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
    fn watch_options_are_validated() {
        for (query, expect) in [
            ("", &[][..]),
            ("resourceVersion=5", &[]),
            ("limit=5&continue=x", &[CONTINUE]),
            ("limit=5&continue=x&resourceVersion=5", &[]),
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
    fn parse_errors_are_returned_before_validation_errors() {
        for (query, expect) in [
            ("timeoutSeconds=x&limit=y", "strconv.ParseInt: parsing \"x\": invalid syntax"),
            ("limit=y&labelSelector=!", "strconv.ParseInt: parsing \"y\": invalid syntax"),
            ("labelSelector=!&fieldSelector=a", "unable to parse requirement: found '', expected: identifier"),
            ("fieldSelector=a&resourceVersionMatch=Exact", "invalid selector: 'a'; can't understand 'a'"),
            ("fieldSelector=a&watch=1&sendInitialEvents=true", "invalid selector: 'a'; can't understand 'a'"),
        ] {
            let found = ListOptions::read_with(&Query::parse(query), true).map(drop);
            assert_eq!(found, Err(ApiError::BadRequest(expect.to_owned())), "{query}");
        }
    }

    #[test]
    fn watches_without_a_revision_send_initial_events() {
        for (query, expect) in [
            ("watch=1", Some(true)),
            ("watch=1&resourceVersion=0", Some(true)),
            ("watch=1&resourceVersion=5", None),
            ("watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan", Some(false)),
            ("", None),
            ("resourceVersion=0", None),
        ] {
            let options = ListOptions::read_with(&Query::parse(query), true).expect(query);
            assert_eq!(options.send_initial_events, expect, "{query}");
        }
    }
}
