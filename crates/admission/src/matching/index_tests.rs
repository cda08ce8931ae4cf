//! The index of matchers finds every matcher that matches a request, and no matcher for other resources.

use std::fmt::Write as _;

use super::tests::{request, yaml};
use super::*;

/// Rules with names, wildcards and lists of both.
const RULES: &[&str] = &[
    r#"operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods]"#,
    r#"operations: [CREATE, DELETE], apiGroups: [""], apiVersions: [v1], resources: [pods/status, services]"#,
    r#"operations: ["*"], apiGroups: [""], apiVersions: [v1], resources: [pods/*]"#,
    r#"operations: [UPDATE], apiGroups: ["*"], apiVersions: ["*"], resources: ["*/status"]"#,
    r#"operations: [UPDATE], apiGroups: ["*"], apiVersions: ["*"], resources: ["*/*"]"#,
    r#"operations: ["*"], apiGroups: [apps], apiVersions: ["*"], resources: ["*"]"#,
    r#"operations: ["*"], apiGroups: ["*"], apiVersions: [v1], resources: [events]"#,
    r#"operations: ["*"], apiGroups: [events.k8s.io], apiVersions: [v1], resources: [events]"#,
    r#"operations: ["*"], apiGroups: [autoscaling], apiVersions: [v1], resources: [horizontalpodautoscalers]"#,
    r#"operations: ["*"], apiGroups: [autoscaling, apps, ""], apiVersions: [v1], resources: [pods, deployments, "*/scale"]"#,
    r#"operations: [CONNECT], apiGroups: ["*"], apiVersions: ["*"], resources: [pods/exec]"#,
    r#"operations: ["*"], apiGroups: [], apiVersions: [v1], resources: [pods]"#,
];

const REQUESTS: &[&str] = &[
    "CREATE /pods/",
    "UPDATE /pods/",
    "DELETE /pods/",
    "UPDATE /pods/status",
    "UPDATE /services/status",
    "DELETE /services/",
    "CREATE /events/",
    "CREATE events.k8s.io/events/",
    "UPDATE events.k8s.io/events/",
    "CREATE apps/deployments/",
    "UPDATE apps/deployments/scale",
    "UPDATE apps/deployments/status",
    "DELETE autoscaling/horizontalpodautoscalers/",
    "CREATE /configmaps/",
];

struct Item(RequestMatcher);

impl Matching for Item {
    fn matcher(&self) -> Option<&RequestMatcher> {
        Some(&self.0)
    }
}

/// A matcher of these rules, each in braces.
fn matcher(policy: &str, rules: &str) -> Item {
    let webhook = format!("{{matchPolicy: {policy}, namespaceSelector: {{}}, objectSelector: {{}}, rules: [{rules}]}}");
    Item(RequestMatcher::of_webhook(&yaml(&webhook)))
}

/// The positions of the matchers that match a request, and the positions that the index finds.
fn positions(list: &MatchingList<Item>, items: &[Item], text: &str) -> (Vec<usize>, Vec<usize>) {
    request(text).inspect(&Value::object(), |attributes| {
        let matching = items.iter().enumerate().filter(|(_, Item(matcher))| matcher.has_rule_for(attributes));
        let found = list.candidates(attributes).map(|(position, _)| position);
        (matching.map(|(position, _)| position).collect(), found.collect())
    })
}

#[test]
fn the_index_finds_all_matchers_that_match() {
    let matchers = || {
        let of_rules = |policy| RULES.iter().map(move |rule| matcher(policy, &format!("{{{rule}}}")));
        let all = RULES.iter().map(|rule| format!("{{{rule}}}")).collect::<Vec<_>>().join(",");
        of_rules("Exact").chain(of_rules("Equivalent")).chain([matcher("Exact", &all), matcher("Equivalent", &all)])
    };
    let (list, items): (MatchingList<Item>, Vec<Item>) = (matchers().collect(), matchers().collect());
    for text in REQUESTS {
        let (matching, found) = positions(&list, &items, text);
        assert!(matching.iter().all(|position| found.contains(position)), "{text}: {matching:?} {found:?}");
        assert!(found.is_sorted_by(|one, next| one < next), "{text}: {found:?}");
        // Versions are not looked up, and equivalent resources are looked up for all.
        assert!(found.len() <= matching.len() + 3, "{text}: {matching:?} {found:?}");
    }
}

#[test]
fn matchers_without_rules_are_always_found() {
    let everything = || Item(RequestMatcher::of_match_resources(&yaml("{namespaceSelector: {}, objectSelector: {}}")));
    let items = || [matcher("Exact", ""), everything(), matcher("Exact", &format!("{{{}}}", RULES[0])), everything()];
    let (list, items) = (items().into_iter().collect(), items());
    assert_eq!(positions(&list, &items, "CREATE /pods/").1, [1, 2, 3]);
    assert_eq!(positions(&list, &items, "CREATE /configmaps/").1, [1, 3]);
}

#[test]
fn rules_with_many_names_are_looked_up_by_their_resources() {
    let mut names = String::new();
    for number in 0..1000 {
        let _ = write!(names, "a{number},");
    }
    let rule = format!(
        r#"{{operations: ["*"], apiGroups: [{names} ""], apiVersions: ["*"], resources: [{names} pods, services]}}"#
    );
    let (list, items) = ([matcher("Exact", &rule)].into_iter().collect(), [matcher("Exact", &rule)]);
    for (text, matching, found) in
        [("CREATE /pods/", 1, 1), ("CREATE /configmaps/", 0, 0), ("CREATE apps/deployments/", 0, 0)]
    {
        let positions = positions(&list, &items, text);
        assert_eq!((positions.0.len(), positions.1.len()), (matching, found), "{text}");
    }
}
