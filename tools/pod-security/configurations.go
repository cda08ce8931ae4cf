package main

import (
	"strings"

	"k8s.io/pod-security-admission/admission"
	admissionapi "k8s.io/pod-security-admission/admission/api"
	"k8s.io/pod-security-admission/admission/api/load"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/metrics"
)

// configurations are texts of configurations, with $ in place of the group.
var configurations = []string{
	"",
	"apiVersion: $/v1\nkind: PodSecurityConfiguration\n",
	"apiVersion: $/v1beta1\nkind: PodSecurityConfiguration\n",
	"apiVersion: $/v1alpha1\nkind: PodSecurityConfiguration\n",
	"apiVersion: $/v2\nkind: PodSecurityConfiguration\n",
	"apiVersion: $/v1\nkind: Other\n",
	"kind: PodSecurityConfiguration\n",
	"apiVersion: $/v1\n",
	"a: [",
	"{\"a\": }",
	"[]",
	"apiVersion: $/v1\nkind: PodSecurityConfiguration\ndefaults:\n  enforce: baseline\n  enforce-version: v1.20\n  audit: restricted\n  warn: restricted\n  warn-version: latest\nexemptions:\n  usernames: [a, system:b]\n  namespaces: [kube-system]\n  runtimeClasses: [gvisor, a.b]\n",
	"{\"apiVersion\":\"$/v1\",\"kind\":\"PodSecurityConfiguration\",\"defaults\":{\"audit\":\"baseline\",\"audit-version\":\"v1.0\"}}",
	"apiVersion: $/v1\nkind: PodSecurityConfiguration\ndefaults:\n  enforce: strict\n",
	"apiVersion: $/v1\nkind: PodSecurityConfiguration\ndefaults:\n  enforce: strict\n  enforce-version: v1\n  audit: Baseline\n  audit-version: v1.01\n  warn: x\n  warn-version: v1.99999999999999999999\n",
	"apiVersion: $/v1\nkind: PodSecurityConfiguration\ndefaults:\n  warn-version: v1.1000\n",
	"apiVersion: $/v1\nkind: PodSecurityConfiguration\ndefaults: null\nexemptions: null\n",
	"apiVersion: $/v1\nkind: PodSecurityConfiguration\nexemptions:\n  usernames: [\"\", a, a]\n  namespaces: [A, a, a, \"\"]\n  runtimeClasses: [\"a_b\", a.b, a.b]\n",
	"apiVersion: $/v1\nkind: PodSecurityConfiguration\nexemptions:\n  usernames: [\"\"]\n",
	"apiVersion: $/v1\nkind: PodSecurityConfiguration\nunknown: 1\n",
	"apiVersion: $/v1\nkind: PodSecurityConfiguration\ndefaults:\n  Enforce: baseline\n",
	"apiVersion: $/v1\nkind: PodSecurityConfiguration\ndefaults:\n  enforce: baseline\n  enforce: restricted\n",
	"apiVersion: $/v1\nkind: PodSecurityConfiguration\ndefaults:\n  enforce: 1\n",
	"apiVersion: $/v1beta1\nkind: PodSecurityConfiguration\nexemptions:\n  usernames: a\n",
	"apiVersion: $/v1\nkind: PodSecurityConfiguration\nexemptions:\n  namespaces: [n]\n",
}

// schemeName is the name of the scheme in a build of kube-apiserver, where the paths of modules have no version.
const schemeName = "k8s.io/pod-security-admission/admission/api/scheme/scheme.go:31"

func recordConfigurations() []any {
	var rows []any
	for _, text := range configurations {
		text := withGroup(text)
		row := object{"text": text}
		loaded, err := load.LoadFromData([]byte(text))
		if err == nil {
			subject := newAdmission(loaded, nil)
			if err = complete(subject); err == nil {
				row["configuration"] = describe(loaded)
			} else {
				row["invalid"] = err.Error()
			}
		} else {
			row["unreadable"] = strings.ReplaceAll(err.Error(), "pkg/runtime/scheme.go:111", schemeName)
		}
		rows = append(rows, row)
	}
	return rows
}

func describe(configuration *admissionapi.PodSecurityConfiguration) object {
	defaults, exemptions := configuration.Defaults, configuration.Exemptions
	return object{
		"enforce":        defaults.Enforce + ":" + defaults.EnforceVersion,
		"audit":          defaults.Audit + ":" + defaults.AuditVersion,
		"warn":           defaults.Warn + ":" + defaults.WarnVersion,
		"usernames":      append([]string{}, exemptions.Usernames...),
		"namespaces":     append([]string{}, exemptions.Namespaces...),
		"runtimeClasses": append([]string{}, exemptions.RuntimeClasses...),
	}
}

func newAdmission(configuration *admissionapi.PodSecurityConfiguration, cluster *cluster) *admission.Admission {
	if cluster == nil {
		cluster = newCluster()
	}
	return &admission.Admission{
		Configuration:    configuration,
		Evaluator:        evaluator,
		Metrics:          metrics.NewPrometheusRecorder(api.MajorMinorVersion(1, 36)),
		PodSpecExtractor: admission.DefaultPodSpecExtractor{},
		NamespaceGetter:  cluster,
		PodLister:        cluster,
	}
}
