package main

import (
	"bytes"
	"flag"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/audit/policy"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/klog/v2"
)

const head = "apiVersion: audit.k8s.io/v1\nkind: Policy\n"

// policyRow is a file, and the error or the warning that it causes.
type policyRow struct {
	Text, Error, Warning string
}

func policies() []policyRow {
	flags := flag.NewFlagSet("", flag.PanicOnError)
	klog.InitFlags(flags)
	_ = flags.Set("logtostderr", "false")
	_ = flags.Set("alsologtostderr", "false")
	_ = flags.Set("stderrthreshold", "FATAL")
	log := &bytes.Buffer{}
	klog.SetOutput(log)
	texts := []string{
		"", " ", "{", "a: [", "- a", "x", "{}", "kind: Policy", "apiVersion: audit.k8s.io/v1", head,
		head + "rules: []\n", head + "rules:\n- level: None\n",
		`{"apiVersion":"audit.k8s.io/v1","kind":"Policy","rules":[{"level":"Metadata"}]}`,
		"apiVersion: audit.k8s.io/v1beta1\nkind: Policy\nrules: [{level: None}]\n",
		"apiVersion: audit.k8s.io/v2\nkind: Policy\nrules: [{level: None}]\n",
		"apiVersion: v1\nkind: Policy\nrules: [{level: None}]\n",
		"apiVersion: a/b/c\nkind: Policy\nrules: [{level: None}]\n",
		"apiVersion: audit.k8s.io/v1\nkind: Event\n", "apiVersion: audit.k8s.io/v1\nkind: EventList\n",
		"apiVersion: audit.k8s.io/v1\nkind: PolicyList\n", "apiVersion: audit.k8s.io/v1\nkind: Pod\n",
		"apiVersion: audit.k8s.io/v1\nkind: policy\n",
		// Unknown and duplicate fields.
		head + "rule: []\nrules: [{level: None}]\n", head + "rules: [{level: None, Level: None}]\n",
		head + "rules: [{level: None}]\nrules: [{level: Metadata}]\n",
		head + "rules: [{level: None}]\nomitStages: [x]\nother: 1\n",
		head + "metadata: {name: a, other: 1}\nrules: [{level: None, resource: []}]\n",
		`{"apiVersion":"audit.k8s.io/v1","kind":"Policy","rules":[{"level":"None"}],"rules":[{"level":"Request"}]}`,
		// Types.
		head + "rules: {}\n", head + "rules: [1]\n", head + "rules: [null]\n", head + "rules: null\n",
		head + "rules: [{level: 1}]\n", head + "rules: [{level: None, users: a}]\n",
		head + "rules: [{level: None, resources: [pods]}]\n", head + "rules: [{level: None, omitManagedFields: 1}]\n",
		head + "omitStages: Panic\n", head + "omitManagedFields: 'true'\n", head + "metadata: []\n",
		head + "metadata: {name: 1}\n", head + "metadata: {labels: {a: 1}}\n", head + "metadata: {creationTimestamp: x}\n",
		head + "metadata: {ownerReferences: [{uid: 1}], generation: a}\n", head + "metadata: {managedFields: [{fieldsV1: 1}]}\n", "apiVersion: audit.k8s.io/v1\nrules: [{level: None}]\n",
		head + "rules: [{level: None, users: [null], verbs: [1]}]\n",
		head + "rules: [{level: None, omitStages: [1]}]\n",
		// Rules.
		head + "rules: [{}]\n", head + "rules: [{level: ''}]\n", head + "rules: [{level: none}]\n",
		head + "rules: [{level: None}, {level: All}, {}]\n", head + "omitStages: [Panic, '', panic]\nrules: [{level: None}]\n",
		head + "rules: [{level: None, omitStages: [RequestReceived, ResponseStarted, ResponseComplete, Panic, Other]}]\n",
		head + "rules: [{level: None, nonResourceURLs: ['', '*', '/', '/a*', '/*a', '/a*b*', 'a', 'a*b', '**', '/é*']}]\n",
		head + "rules: [{level: None, nonResourceURLs: ['/a'], resources: [{}]}]\n",
		head + "rules: [{level: None, nonResourceURLs: ['/a', '/b'], namespaces: ['']}]\n",
		head + "rules: [{level: None, resources: [{group: '*'}, {group: ''}, {group: apps/v1}, {group: Apps}, {group: a_b}]}]\n",
		head + "rules: [{level: None, resources: [{resourceNames: [a, b]}, {resources: [a], resourceNames: [b]}]}]\n",
		head + "rules: [{level: None, resources: [{group: " + strings.Repeat("a", 254) + "}]}]\n",
		head + "rules: [{level: None, resources: [{resources: ['', '*/*', 'pods/', 'PODS']}]}]\n",
	}
	var rows []policyRow
	for _, text := range texts {
		log.Reset()
		row := policyRow{Text: text}
		if _, err := policy.LoadPolicyFromBytes([]byte(text)); err != nil {
			row.Error = err.Error()
		}
		klog.Flush()
		if _, warning, found := strings.Cut(log.String(), "] "); found {
			// Each severity has the line.
			row.Warning, _, _ = strings.Cut(warning, "\nW")
		}
		rows = append(rows, row)
	}
	return rows
}

// request is a request as rules see it.
type request struct {
	User                                                      *string
	Groups                                                    []string
	Verb, Group, Resource, Subresource, Namespace, Name, Path string
}

// decisionRow is what a policy, a list of rules in YAML, decides about a request.
type decisionRow struct {
	Policy            string
	Request           request
	Level             string
	OmitStages        []string
	OmitManagedFields bool
}

func decisions() []decisionRow {
	jane, admin, nobody := "jane", "admin", ""
	requests := []request{
		{User: &jane, Groups: []string{"dev", "system:authenticated"}, Verb: "get", Resource: "pods", Namespace: "shop", Name: "a", Path: "/api/v1/namespaces/shop/pods/a"},
		{User: &jane, Groups: []string{"dev"}, Verb: "get", Resource: "pods", Subresource: "log", Namespace: "shop", Name: "a", Path: "/api/v1/namespaces/shop/pods/a/log"},
		{User: &admin, Groups: []string{"system:masters"}, Verb: "update", Group: "apps", Resource: "deployments", Subresource: "status", Namespace: "shop", Name: "b", Path: "/apis/apps/v1/namespaces/shop/deployments/b/status"},
		{User: &admin, Verb: "list", Resource: "nodes", Path: "/api/v1/nodes"},
		{User: &nobody, Verb: "create", Group: "apps", Resource: "deployments", Namespace: "other", Path: "/apis/apps/v1/namespaces/other/deployments"},
		{Verb: "get", Path: "/healthz/etcd"},
		{User: &jane, Groups: []string{"dev"}, Verb: "get", Path: "/"},
		{User: &jane, Verb: "post", Path: "/api*"},
		{Verb: "get", Resource: "pods", Namespace: "shop", Name: "a"},
	}
	rules := []string{
		"rules: [{level: Metadata, users: [jane, '']}]",
		"rules: [{level: Metadata, userGroups: [x, dev]}]",
		"rules: [{level: Metadata, userGroups: [system:masters], users: [admin]}]",
		"rules: [{level: Request, verbs: [get, list]}]",
		"rules: [{level: Request, verbs: ['*']}]",
		"rules: [{level: Request, namespaces: [shop]}]",
		"rules: [{level: Request, namespaces: ['']}]",
		"rules: [{level: Request, resources: [{}]}]",
		"rules: [{level: Request, resources: [{resources: [pods]}]}]",
		"rules: [{level: Request, resources: [{resources: [pods/log]}]}]",
		"rules: [{level: Request, resources: [{resources: [pods/*]}]}]",
		"rules: [{level: Request, resources: [{group: '*', resources: ['*/status']}]}]",
		"rules: [{level: Request, resources: [{group: apps, resources: ['*']}]}]",
		"rules: [{level: Request, resources: [{group: '*', resources: ['*/*']}]}]",
		"rules: [{level: Request, resources: [{group: '*', resources: ['*'], resourceNames: [a]}]}]",
		"rules: [{level: Request, resources: [{group: '*', resources: ['*'], resourceNames: ['']}]}]",
		"rules: [{level: Request, resources: [{group: x}, {group: apps, resources: [deployments, deployments/status]}], namespaces: [shop]}]",
		"rules: [{level: Metadata, nonResourceURLs: ['/healthz*']}]",
		"rules: [{level: Metadata, nonResourceURLs: ['*']}]",
		"rules: [{level: Metadata, nonResourceURLs: ['/', '/api*']}]",
		"rules: [{level: Metadata, nonResourceURLs: ['/healthz/']}]",
		"omitStages: [Panic]\nomitManagedFields: true\nrules: [{level: RequestResponse, users: [jane], omitStages: [RequestReceived, Panic], omitManagedFields: false}, {level: None, users: [admin]}, {level: Request, namespaces: [other], omitManagedFields: true}]",
		"rules: [{level: None, nonResourceURLs: ['/healthz*']}, {level: Metadata, omitStages: [ResponseStarted, RequestReceived]}]",
		"omitManagedFields: false\nrules: [{level: Metadata, omitManagedFields: true}]",
	}
	var rows []decisionRow
	for _, text := range rules {
		loaded, err := policy.LoadPolicyFromBytes([]byte(head + text))
		if err != nil {
			panic(err)
		}
		evaluator := policy.NewPolicyRuleEvaluator(loaded)
		for _, request := range requests {
			attributes := authorizer.AttributesRecord{
				Verb: request.Verb, APIGroup: request.Group, Resource: request.Resource, Subresource: request.Subresource,
				Namespace: request.Namespace, Name: request.Name, Path: request.Path, ResourceRequest: request.Resource != "",
			}
			if request.User != nil {
				attributes.User = &user.DefaultInfo{Name: *request.User, Groups: request.Groups}
			}
			config := evaluator.EvaluatePolicyRule(attributes)
			stages := policy.ConvertStagesToStrings(config.OmitStages)
			slices.Sort(stages)
			rows = append(rows, decisionRow{text, request, string(config.Level), stages, config.OmitManagedFields})
		}
	}
	return rows
}
