//! The line of an event in the format `legacy` (upstream: `audit.EventString`).

use pintle_value::Str;
use pintle_value::print::quote;

use super::Event;

impl Event {
    /// The event as one line with some of its fields, without a line feed.
    #[must_use]
    pub fn to_line(&self) -> String {
        let Self { user, impersonated_user, .. } = self;
        let (name, groups) = match user.name.as_str() {
            "" => ("<none>", None),
            name => (name, Some(&user.groups)),
        };
        let groups = groups.filter(|groups| !groups.is_empty());
        let groups = groups.map_or_else(|| "<none>".to_owned(), |groups| quoted(groups));
        let as_user = impersonated_user.as_ref().map_or("<self>", |user| &user.name);
        // In upstream, an empty list is not a missing list. Users without groups have a missing list.
        let as_groups = impersonated_user.as_ref().map(|user| &user.groups).filter(|groups| !groups.is_empty());
        let as_groups = as_groups.map_or_else(|| "<lookup>".to_owned(), |groups| quoted(groups));
        let namespace = self.object_ref.as_ref().map(|reference| reference.namespace.as_str());
        let namespace = namespace.filter(|namespace| !namespace.is_empty()).unwrap_or("<none>");
        let status = self.response_status.as_ref();
        let response = status.map_or_else(|| "<deferred>".to_owned(), |status| status.code.to_string());
        let mut line = format!("{} AUDIT:", self.request_received_timestamp.rfc3339_nano());
        for (field, value) in [
            ("id", self.audit_id.as_str()),
            ("stage", self.stage.name()),
            ("ip", self.source_ips.first().map_or("<unknown>", Str::as_str)),
            ("method", &self.verb),
            ("user", name),
            ("groups", &groups),
            ("as", as_user),
            ("asgroups", &as_groups),
            ("user-agent", &self.user_agent),
            ("namespace", namespace),
            ("uri", &self.request_uri),
            ("response", &response),
        ] {
            line.extend([" ", field, "=", &quote(value)]);
        }
        line
    }
}

fn quoted(texts: &[Str]) -> String {
    texts.iter().map(|text| quote(text)).collect::<Vec<_>>().join(",")
}
