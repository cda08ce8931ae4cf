//! Which versions of the built-in API are served (upstream: `apiserver/pkg/server/resourceconfig` and
//! `APIEnablementOptions`, the flag `--runtime-config`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pintle_catalog::{Catalog, ResourceFacts};
use pintle_versions::Minor;

/// The versions and resources of the built-in API that are turned on or off. The default serves what kube-apiserver
/// serves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuntimeConfig {
    /// The values of the kinds of versions, in the order in which they count.
    stages: Vec<(Stage, bool)>,
    versions: BTreeMap<(String, String), bool>,
    resources: BTreeMap<(String, String, String), bool>,
    emulation: EmulationOptions,
}

/// Which of the later versions a server serves that emulates an older version than its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EmulationOptions {
    /// Whether newer versions of the beta and stable resources of the emulated version are served
    /// (`--emulation-forward-compatible`).
    pub forward_compatible: bool,
    /// Whether newer versions are served that the configuration names
    /// (`--runtime-config-emulation-forward-compatible`).
    pub runtime_config_forward_compatible: bool,
}

/// A kind of versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    All,
    Ga,
    Beta,
    Alpha,
}

impl Stage {
    /// The names of all kinds, in the order in which their values count.
    const NAMES: [(&'static str, Self); 4] =
        [("api/all", Self::All), ("api/ga", Self::Ga), ("api/beta", Self::Beta), ("api/alpha", Self::Alpha)];

    fn contains(self, version: &str) -> bool {
        self == Self::All || Self::of(version) == Some(self)
    }

    /// The kind of a version: `v1`, `v1beta1` or `v1alpha1`.
    fn of(version: &str) -> Option<Self> {
        let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let rest = version.strip_prefix('v')?;
        for (word, stage) in [("beta", Self::Beta), ("alpha", Self::Alpha)] {
            if let Some((major, minor)) = rest.split_once(word) {
                return (number(major) && number(minor)).then_some(stage);
            }
        }
        number(rest).then_some(Self::Ga)
    }
}

impl RuntimeConfig {
    /// The configuration of the values of `--runtime-config` in a version.
    ///
    /// # Errors
    /// See [`RuntimeConfig::parse`].
    pub fn from_flags<T: AsRef<str>>(minor: Minor, values: &[T]) -> Result<Self, String> {
        Self::parse(pintle_catalog::shared_of(minor), values)
    }

    /// Reads the values of the flag: `KEY=BOOL` with a key `api/all`, `api/ga`, `api/beta`, `api/alpha`,
    /// `GROUP/VERSION` or `GROUP/VERSION/RESOURCE`; several with commas between them. Later values win.
    ///
    /// # Errors
    /// A key or a value is malformed, or a group or version is unknown. Or the rest of the server needs a resource that
    /// is turned off.
    pub fn parse<T: AsRef<str>>(catalog: &Catalog, values: &[T]) -> Result<Self, String> {
        let pairs = values.iter().flat_map(|value| value.as_ref().split(',')).filter(|pair| !pair.is_empty());
        let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        let pairs: BTreeMap<&str, &str> = pairs.map(|(key, value)| (key.trim(), value.trim())).collect();
        if pairs.len() == 1 && pairs.get("api/all") == Some(&"false") {
            return Err("invalid runtime-config with only api/all=false".to_owned());
        }
        let mut config = Self::default();
        for (name, stage) in Stage::NAMES {
            match pairs.get(name) {
                Some(&"true") => config.stages.push((stage, true)),
                Some(&"false") => config.stages.push((stage, false)),
                Some(value) => return Err(format!("invalid value {name}={value}")),
                None => {}
            }
        }
        let mut unknown = BTreeSet::new();
        for (key, value) in pairs.into_iter().filter(|(key, _)| Stage::NAMES.iter().all(|(name, _)| name != key)) {
            let words: Vec<&str> = key.split('/').collect();
            let (group, version, resource) = match words[..] {
                [group, version] => (group, version, None),
                [group, version, resource] => (group, version, Some(resource)),
                _ => return Err(format!("runtime-config invalid key {key}")),
            };
            if !catalog.registered_versions().iter().any(|(known, _)| *known == group) {
                unknown.insert(format!("{group}/{version}"));
                continue;
            }
            config.insert(catalog, (key, value), (group, version), resource)?;
        }
        if !unknown.is_empty() {
            return Err(format!("unknown api groups {}", unknown.into_iter().collect::<Vec<_>>().join(",")));
        }
        config.check_dependencies(catalog)?;
        Ok(config)
    }

    fn insert(
        &mut self,
        catalog: &Catalog,
        (key, value): (&str, &str),
        (group, version): (&str, &str),
        resource: Option<&str>,
    ) -> Result<(), String> {
        let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        let registered = catalog.registered_versions();
        if !registered.iter().any(|(known, versions)| *known == group && versions.contains(&version)) {
            return Err(format!("group version {group_version} that has not been registered"));
        }
        let enabled = parse_value(key, value)?;
        // A version that is registered without being served any more may be turned on, as in upstream. Nothing follows.
        let Some(resource) = resource else {
            self.versions.insert((group.to_owned(), version.to_owned()), enabled);
            return Ok(());
        };
        if resource.to_lowercase() != resource {
            let why = "group/version/resource and resource is always lowercase plural, not";
            return Err(format!("invalid key {key}: {why} {resource:?}"));
        }
        self.resources.insert((group.to_owned(), version.to_owned(), resource.to_owned()), enabled);
        Ok(())
    }

    /// Checks that the resources are served that the rest of the server needs.
    fn check_dependencies(&self, catalog: &Catalog) -> Result<(), String> {
        let mut needed = catalog.resources().iter().filter(|facts| facts.served && is_needed(facts));
        match needed.find(|facts| !self.is_enabled(catalog, facts)) {
            None => Ok(()),
            Some(facts) => {
                let group = if facts.group.is_empty() { "the core group" } else { facts.group };
                Err(format!("{} of {group} cannot be disabled: the server needs it", facts.plural))
            }
        }
    }

    /// The same configuration for a server that may emulate an older version.
    #[must_use]
    pub fn emulating(self, emulation: EmulationOptions) -> Self {
        Self { emulation, ..self }
    }

    /// Whether a version of a resource is served (upstream: `shouldServeBasedOnVersionIntroduced`). It must be enabled.
    /// The emulated version must have it, or the options about emulation ask for it.
    #[must_use]
    pub fn is_served(&self, catalog: &Catalog, facts: &ResourceFacts, emulation: Minor) -> bool {
        if facts.releases.contains(emulation) {
            return self.is_enabled(catalog, facts) || self.is_newer_of_served(catalog, facts, emulation);
        }
        if facts.introduced.is_none_or(|introduced| introduced <= emulation) {
            return false;
        }
        let is_named = self.emulation.runtime_config_forward_compatible && self.names(facts) == Some(true);
        (is_named && self.is_enabled(catalog, facts)) || self.is_newer_of_served(catalog, facts, emulation)
    }

    /// Whether the options about emulation ask for newer versions, and an older version is served that is not alpha.
    fn is_newer_of_served(&self, catalog: &Catalog, facts: &ResourceFacts, emulation: Minor) -> bool {
        if !self.emulation.forward_compatible || self.names(facts) == Some(false) {
            return false;
        }
        let group = catalog.groups().iter().find(|group| group.name == facts.group);
        let older = group.into_iter().flat_map(|group| &group.versions);
        let mut older = older.skip_while(|version| version.name != facts.version).skip(1);
        older.any(|version| {
            let resource = catalog.resource(facts.group, version.name, facts.plural);
            Stage::of(version.name) != Some(Stage::Alpha)
                && resource.is_some_and(|older| older.releases.contains(emulation) && self.is_enabled(catalog, older))
        })
    }

    /// Whether the configuration enables a resource by the name of its version or its own; `None` without such a name.
    fn names(&self, facts: &ResourceFacts) -> Option<bool> {
        let ResourceFacts { group, version, plural, .. } = facts;
        let resource = self.resources.get(&((*group).into(), (*version).into(), (*plural).into()));
        resource.or_else(|| self.versions.get(&((*group).into(), (*version).into()))).copied()
    }

    /// Checks that the emulated version has what the configuration names.
    ///
    /// # Errors
    /// A resource that is named came later, in upstream's words.
    pub fn check_emulation(&self, catalog: &Catalog, emulation: Minor) -> Result<(), String> {
        const ADVICE: &str = "Consider setting --runtime-config-emulation-forward-compatible=true";
        if self.emulation.runtime_config_forward_compatible {
            return Ok(());
        }
        for facts in catalog.resources() {
            let later = facts.introduced.filter(|introduced| *introduced > emulation);
            if let (Some(introduced), Some(true)) = (later, self.names(facts)) {
                let resource = format!("{}/{}, Resource={}", facts.group, facts.version, facts.plural);
                return Err(format!(
                    "cannot enable resource {resource} in runtime-config because it is introduced at {introduced} \
                     after the current version {emulation}. {ADVICE}"
                ));
            }
        }
        Ok(())
    }

    /// The catalog of a server of this version with this configuration. It has the types of versions that are off by default only if
    /// the configuration turns such a version on.
    #[must_use]
    pub fn catalog(&self, minor: Minor) -> &'static Arc<Catalog> {
        let shared = pintle_catalog::shared_of(minor);
        let is_optional = |facts: &&ResourceFacts| shared.kind_type(facts.group, facts.version, facts.kind).is_none();
        let mut optional = shared.resources().iter().filter(is_optional);
        let is_newer = self.emulation.forward_compatible;
        if is_newer || optional.any(|facts| self.is_enabled(shared, facts)) {
            pintle_catalog::complete_of(minor)
        } else {
            shared
        }
    }

    /// The resources that are turned off although admission plugins enforce their objects, with their storage prefixes.
    /// A server with such a plugin must not start if there are any: it would allow requests that they forbid.
    pub fn disabled_rules<'a>(
        &'a self,
        catalog: &'a Catalog,
    ) -> impl Iterator<Item = (&'static str, &'static str)> + 'a {
        let off = catalog.resources().iter().filter(|facts| is_rule(facts) && !self.is_enabled(catalog, facts));
        off.filter_map(|facts| {
            let storage = facts.storage().filter(|_| facts.is_hub())?;
            Some((facts.plural, storage.prefix))
        })
    }

    /// True if a version of a resource is served.
    #[must_use]
    pub fn is_enabled(&self, catalog: &Catalog, facts: &ResourceFacts) -> bool {
        let ResourceFacts { group, version, .. } = facts;
        if let Some(enabled) = self.names(facts) {
            return enabled;
        }
        let of_stage = self.stages.iter().rev().find(|(stage, _)| stage.contains(version));
        if let Some((_, enabled)) = of_stage {
            return *enabled;
        }
        let versions = catalog.groups().iter().find(|known| known.name == *group).map(|known| &known.versions);
        versions.into_iter().flatten().any(|known| known.name == *version && known.enabled)
    }
}

/// True for resources that other parts of the API are built on: the core group, and the addresses of its services.
fn is_needed(facts: &ResourceFacts) -> bool {
    facts.group.is_empty()
        || facts.is_hub()
            && facts.group == "networking.k8s.io"
            && matches!(facts.plural, "ipaddresses" | "servicecidrs")
}

/// True for resources that say which requests are allowed. Budgets of evictions do too, but an eviction fails without
/// them.
fn is_rule(facts: &ResourceFacts) -> bool {
    facts.served && facts.group == "admissionregistration.k8s.io"
}

/// The value of a key. A key without a value is true.
fn parse_value(key: &str, value: &str) -> Result<bool, String> {
    if value.is_empty() {
        return Ok(true);
    }
    pintle_value::parse_bool(value).map_err(|why| format!("invalid value of {key}: {value}, err: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The group versions that are served otherwise than by default.
    fn changes(values: &[&str]) -> Result<Vec<String>, String> {
        let catalog = pintle_catalog::shared();
        let config = RuntimeConfig::parse(catalog, values)?;
        let differs = |facts: &&ResourceFacts| {
            facts.served && config.is_enabled(catalog, facts) != RuntimeConfig::default().is_enabled(catalog, facts)
        };
        let changed = catalog.resources().iter().filter(differs);
        let mut names: Vec<String> = changed
            .map(|facts| {
                let sign = if config.is_enabled(catalog, facts) { '+' } else { '-' };
                format!("{sign}{}/{} {}", facts.group, facts.version, facts.plural)
            })
            .collect();
        names.sort();
        Ok(names)
    }

    #[test]
    fn versions_and_resources_are_turned_on_and_off() {
        const POLICIES: [&str; 2] = [
            "+admissionregistration.k8s.io/v1beta1 mutatingadmissionpolicies",
            "+admissionregistration.k8s.io/v1beta1 mutatingadmissionpolicybindings",
        ];
        const ALPHA: [&str; 9] = [
            "+admissionregistration.k8s.io/v1alpha1 mutatingadmissionpolicies",
            "+admissionregistration.k8s.io/v1alpha1 mutatingadmissionpolicybindings",
            "+certificates.k8s.io/v1alpha1 clustertrustbundles",
            "+coordination.k8s.io/v1alpha2 leasecandidates",
            "+internal.apiserver.k8s.io/v1alpha1 storageversions",
            "+resource.k8s.io/v1alpha3 devicetaintrules",
            "+resource.k8s.io/v1alpha3 resourcepoolstatusrequests",
            "+scheduling.k8s.io/v1alpha2 podgroups",
            "+scheduling.k8s.io/v1alpha2 workloads",
        ];
        let off = "-policy/v1 poddisruptionbudgets";
        for (values, expect) in [
            (&[][..], &[][..]),
            (&["api/alpha=true,api/ga=true"], &ALPHA),
            (&["admissionregistration.k8s.io/v1beta1"], &POLICIES),
            (&["admissionregistration.k8s.io/v1beta1=t", "policy/v1=false"], &[POLICIES[0], POLICIES[1], off]),
            (&["admissionregistration.k8s.io/v1beta1/mutatingadmissionpolicies=true"], &POLICIES[..1]),
            (&["api/alpha=true", "scheduling.k8s.io/v1alpha2=false"], &ALPHA[..7]),
            (&["coordination.k8s.io/v1alpha2=true"], &ALPHA[3..4]),
            (&["policy/v1=false", "policy/v1=true"], &[]),
            (&["policy/v1=false,policy/v1/poddisruptionbudgets=true"], &[]),
            (&["policy/v1/poddisruptionbudgets=0"], &[off]),
            (&["autoscaling/v1=false"], &["-autoscaling/v1 horizontalpodautoscalers"]),
            (&["autoscaling/v2=false"], &["-autoscaling/v2 horizontalpodautoscalers"]),
            // Registered, and not served anyway.
            (&["policy/v1beta1=false", "policy/v1beta1=true,rbac.authorization.k8s.io/v1alpha1=true"], &[]),
            (&["policy/v1/x=true"], &[]),
        ] {
            assert_eq!(changes(values).expect("valid"), expect, "{values:?}");
        }
        let beta = changes(&["api/beta=true"]).expect("valid");
        assert_eq!(beta.len(), 18, "{beta:?}");
        let all = changes(&["api/all=true"]).expect("valid");
        assert_eq!(all.len(), beta.len() + ALPHA.len(), "{all:?}");
    }

    #[test]
    fn only_versions_that_are_off_by_default_need_their_types() {
        for (values, expect) in [
            (&[][..], false),
            (&["api/ga=true", "policy/v1=false", "policy/v1beta1=true"], false),
            (&["api/alpha=true"], true),
            (&["resource.k8s.io/v1beta1/deviceclasses=true"], true),
        ] {
            let config = RuntimeConfig::from_flags(Default::default(), values).expect("valid");
            assert_eq!(Arc::ptr_eq(config.catalog(Minor::DEFAULT), pintle_catalog::complete()), expect, "{values:?}");
        }
    }

    #[test]
    fn what_cannot_be_served_is_refused() {
        for (values, expect) in [
            (&["api/all=false"][..], "invalid runtime-config with only api/all=false"),
            (&["api/all=x"], "invalid value api/all=x"),
            (&["api/beta"], "invalid value api/beta="),
            (&["v1=true"], "runtime-config invalid key v1"),
            (&["a/b/c/d=true"], "runtime-config invalid key a/b/c/d"),
            (&["example.com/v1=true", "api/legacy=true"], "unknown api groups api/legacy,example.com/v1"),
            (&["policy/v2=true"], "group version policy/v2 that has not been registered"),
            (
                &["policy/v1=yes"],
                r#"invalid value of policy/v1: yes, err: strconv.ParseBool: parsing "yes": invalid syntax"#,
            ),
            (
                &["policy/v1/Pods=true"],
                r#"invalid key policy/v1/Pods: group/version/resource and resource is always lowercase plural, not "Pods""#,
            ),
            (&["/v1=false"], "bindings of the core group cannot be disabled: the server needs it"),
            (
                &["networking.k8s.io/v1/ipaddresses=false"],
                "ipaddresses of networking.k8s.io cannot be disabled: the server needs it",
            ),
        ] {
            assert_eq!(changes(values).expect_err("invalid"), expect, "{values:?}");
        }
    }
}
