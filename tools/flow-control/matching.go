package main

import (
	"context"
	"fmt"
	"math/rand"

	api "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"
	"k8s.io/apiserver/pkg/authentication/user"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/util/flowcontrol"
	"k8s.io/apiserver/pkg/util/flowcontrol/fairqueuing/queueset"
	"k8s.io/apiserver/pkg/util/flowcontrol/request"
	"k8s.io/utils/ptr"
)

// matchingCase is a configuration, the conditions that the controller writes into the status of the FlowSchemas, and
// requests.
type matchingCase struct {
	Name       string
	Levels     []*api.PriorityLevelConfiguration
	Schemas    []*api.FlowSchema
	Conditions map[string]condition
	Requests   []matchedRequest
}

// matchedRequest is a request with the FlowSchema, the priority level and the distinguisher that it gets.
type matchedRequest struct {
	digest
	Schema, Level, Distinguisher string
}

// digest is the part of a request that FlowSchemas match. Requests without a resource have a path.
type digest struct {
	User   string
	Groups []string
	info
	Path string `json:",omitempty"`
}

func (d digest) upstream() flowcontrol.RequestDigest {
	info := d.request()
	info.Path = d.Path
	return flowcontrol.RequestDigest{RequestInfo: info, User: &user.DefaultInfo{Name: d.User, Groups: d.Groups}}
}

func limited(name string, shares int32, queuing *api.QueuingConfiguration) *api.PriorityLevelConfiguration {
	response := api.LimitResponse{Type: api.LimitResponseTypeReject}
	if queuing != nil {
		response = api.LimitResponse{Type: api.LimitResponseTypeQueue, Queuing: queuing}
	}
	return &api.PriorityLevelConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: api.PriorityLevelConfigurationSpec{
			Type:    api.PriorityLevelEnablementLimited,
			Limited: &api.LimitedPriorityLevelConfiguration{NominalConcurrencyShares: &shares, LendablePercent: ptr.To(int32(0)), LimitResponse: response},
		},
	}
}

func schema(name, level string, precedence int32, method api.FlowDistinguisherMethodType, rules ...api.PolicyRulesWithSubjects) *api.FlowSchema {
	s := &api.FlowSchema{ObjectMeta: metav1.ObjectMeta{Name: name}}
	s.Spec.PriorityLevelConfiguration.Name = level
	s.Spec.MatchingPrecedence = precedence
	s.Spec.Rules = rules
	if method != "" {
		s.Spec.DistinguisherMethod = &api.FlowDistinguisherMethod{Type: method}
	}
	return s
}

func userSubject(name string) api.Subject {
	return api.Subject{Kind: api.SubjectKindUser, User: &api.UserSubject{Name: name}}
}

func groupSubject(name string) api.Subject {
	return api.Subject{Kind: api.SubjectKindGroup, Group: &api.GroupSubject{Name: name}}
}

func accountSubject(namespace, name string) api.Subject {
	return api.Subject{Kind: api.SubjectKindServiceAccount, ServiceAccount: &api.ServiceAccountSubject{Namespace: namespace, Name: name}}
}

func everything(subjects ...api.Subject) api.PolicyRulesWithSubjects {
	return api.PolicyRulesWithSubjects{
		Subjects: subjects,
		ResourceRules: []api.ResourcePolicyRule{{
			Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}, Namespaces: []string{"*"}, ClusterScope: true,
		}},
		NonResourceRules: []api.NonResourcePolicyRule{{Verbs: []string{"*"}, NonResourceURLs: []string{"*"}}},
	}
}

func (c matchingCase) answered(digests []digest) matchingCase {
	clock := newClock()
	controller := newController(clock, queueset.NewQueueSetFactory(clock), 600)
	controller.digest(c.Levels, c.Schemas)
	c.Conditions = controller.statuses.written
	for _, digest := range digests {
		row := matchedRequest{digest: digest}
		controller.Handle(apirequest.WithUser(context.Background(), digest.upstream().User), digest.upstream(),
			func(schema *api.FlowSchema, level *api.PriorityLevelConfiguration, distinguisher string) {
				row.Schema, row.Level, row.Distinguisher = schema.Name, level.Name, distinguisher
			},
			func() request.WorkEstimate { return request.WorkEstimate{InitialSeats: 1} }, nil, func() {})
		c.Requests = append(c.Requests, row)
	}
	return c
}

// matching records the matching of FlowSchemas, a row of JSON for each configuration.
func matching() []byte {
	authenticated := []string{"system:authenticated"}
	var digests []digest
	requests := []digest{
		{info: info{Verb: "get"}, Path: "/healthz"}, {info: info{Verb: "get"}, Path: "/livez"}, {info: info{Verb: "get"}, Path: "/readyz"},
		{info: info{Verb: "get"}, Path: "/healthz/ping"}, {info: info{Verb: "post"}, Path: "/healthz"}, {info: info{Verb: "get"}, Path: "/version"},
		{info: info{Verb: "list", Resource: "pods", Namespace: "default"}}, {info: info{Verb: "list", Resource: "pods"}},
		{info: info{Verb: "update", Resource: "nodes", Name: "a", Subresource: "status"}}, {info: info{Verb: "update", Resource: "nodes", Name: "a"}},
		{info: info{Verb: "update", Group: "coordination.k8s.io", Resource: "leases", Namespace: "kube-node-lease", Name: "a"}},
		{info: info{Verb: "update", Group: "coordination.k8s.io", Resource: "leases", Namespace: "kube-system", Name: "a"}},
		{info: info{Verb: "create", Group: "coordination.k8s.io", Resource: "leases", Namespace: "kube-system"}},
		{info: info{Verb: "delete", Group: "coordination.k8s.io", Resource: "leases", Namespace: "kube-system", Name: "a"}},
		{info: info{Verb: "update", Resource: "endpoints", Namespace: "kube-system", Name: "a"}},
		{info: info{Verb: "get", Group: "coordination.k8s.io", Resource: "leases", Namespace: "default", Name: "a"}},
	}
	users := []digest{
		{User: "kubernetes-admin", Groups: []string{"system:masters", "system:authenticated"}},
		{User: "jane", Groups: authenticated},
		{User: "system:anonymous", Groups: []string{"system:unauthenticated"}},
		{User: "system:node:a", Groups: []string{"system:nodes", "system:authenticated"}},
		{User: "system:kube-controller-manager", Groups: authenticated},
		{User: "system:kube-scheduler", Groups: authenticated},
		{User: "system:serviceaccount:kube-system:x", Groups: []string{"system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"}},
		{User: "system:serviceaccount:default:x", Groups: []string{"system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"}},
		{User: "nobody"},
	}
	for _, user := range users {
		for _, request := range requests {
			request.User, request.Groups = user.User, user.Groups
			digests = append(digests, request)
		}
	}
	all := matchingCase{
		Name:    "bootstrap",
		Levels:  append(append([]*api.PriorityLevelConfiguration{}, bootstrap.MandatoryPriorityLevelConfigurations...), bootstrap.SuggestedPriorityLevelConfigurations...),
		Schemas: append(append([]*api.FlowSchema{}, bootstrap.MandatoryFlowSchemas...), bootstrap.SuggestedFlowSchemas...),
	}
	queued := limited("queued", 10, &api.QueuingConfiguration{Queues: 64, HandSize: 6, QueueLengthLimit: 50})
	jane := everything(userSubject("jane"))
	few := []digest{digests[0], digests[6], digests[16], digests[22], digests[32], digests[len(digests)-1]}
	rows := []matchingCase{
		all.answered(digests),
		matchingCase{Name: "nothing"}.answered(few),
		matchingCase{Name: "mandatory schemas without levels", Schemas: bootstrap.MandatoryFlowSchemas}.answered(few),
		matchingCase{Name: "mandatory levels without schemas", Levels: bootstrap.MandatoryPriorityLevelConfigurations}.answered(few),
		matchingCase{Name: "a missing level", Levels: []*api.PriorityLevelConfiguration{queued}, Schemas: []*api.FlowSchema{
			schema("dangling", "missing", 1, "", jane), schema("present", "queued", 2, "", jane),
		}}.answered(few),
		matchingCase{Name: "equal precedence", Levels: []*api.PriorityLevelConfiguration{queued}, Schemas: []*api.FlowSchema{
			schema("b", "queued", 5, "ByUser", jane), schema("a", "queued", 5, "ByNamespace", jane), schema("c", "queued", 4, "", everything(userSubject("bob"))),
		}}.answered(few),
		matchingCase{Name: "before the exempt schema", Levels: []*api.PriorityLevelConfiguration{queued}, Schemas: []*api.FlowSchema{
			schema("first", "queued", 1, "ByUser", everything(groupSubject("*"))), schema("last", "queued", 10000, "ByUser", everything(groupSubject("*"))),
		}}.answered(few),
		matchingCase{Name: "a catch-all schema of an own sort", Levels: []*api.PriorityLevelConfiguration{queued}, Schemas: []*api.FlowSchema{
			schema("catch-all", "queued", 10000, "ByUser", jane), schema("exempt", "queued", 9000, "", jane),
		}}.answered(few),
		matchingCase{Name: "broken levels", Levels: []*api.PriorityLevelConfiguration{
			{ObjectMeta: metav1.ObjectMeta{Name: "queued"}, Spec: api.PriorityLevelConfigurationSpec{Type: "Exempt", Exempt: &api.ExemptPriorityLevelConfiguration{}}},
			limited("exempt", 3, nil), limited("deep", 3, &api.QueuingConfiguration{Queues: 512, HandSize: 8, QueueLengthLimit: 50}),
			limited("zero", 3, &api.QueuingConfiguration{Queues: 0, HandSize: 1, QueueLengthLimit: 50}),
		}, Schemas: []*api.FlowSchema{
			schema("to-broken", "queued", 3, "", jane), schema("to-deep", "deep", 4, "", jane), schema("to-zero", "zero", 5, "ByUser", jane),
			schema("exempt", "exempt", 1, "", everything(groupSubject("system:masters"))),
		}}.answered(few),
	}
	for seed := int64(1); seed <= 8; seed++ {
		rows = append(rows, randomMatching(seed))
	}
	return jsonLines(rows)
}

// randomMatching makes schemas and requests from a few words, so that many of them match.
func randomMatching(seed int64) matchingCase {
	random := rand.New(rand.NewSource(seed))
	some := func(most int, wildcard float64, words ...string) []string {
		if random.Float64() < wildcard {
			return []string{"*"}
		}
		var chosen []string
		for range 1 + random.Intn(most) {
			chosen = append(chosen, words[random.Intn(len(words))])
		}
		return chosen
	}
	one := func(words ...string) string { return words[random.Intn(len(words))] }
	users := []string{"jane", "bob", "system:serviceaccount:a:x", "system:serviceaccount:a:y", "system:serviceaccount:ab:x", "system:serviceaccount:a:", "system:anonymous"}
	groups := []string{"dev", "ops", "system:authenticated", "system:unauthenticated", "system:masters", "system:serviceaccounts:a"}
	verbs := []string{"get", "list", "create", "watch", "delete"}
	apiGroups := []string{"", "apps", "example.com"}
	resources := []string{"pods", "pods/status", "deployments", "nodes", "deployments/scale", "tokenreviews"}
	namespaces := []string{"a", "b", "ab"}
	paths := []string{"/healthz", "/healthz/*", "/api/*", "/metrics", "/metrics/", "/*", "/debug/pprof", "/version"}
	subject := func() api.Subject {
		switch random.Intn(7) {
		case 0, 1:
			return userSubject(one(append(users, "*")...))
		case 2, 3:
			return groupSubject(one(append(groups[:4], "*")...))
		case 4, 5:
			return accountSubject(one(namespaces...), one("x", "y", "*"))
		default:
			return api.Subject{Kind: api.SubjectKind(one("User", "Group", "ServiceAccount", "Other"))}
		}
	}
	c := matchingCase{Name: fmt.Sprintf("random %d", seed), Levels: []*api.PriorityLevelConfiguration{
		limited("wide", 10, &api.QueuingConfiguration{Queues: 64, HandSize: 6, QueueLengthLimit: 50}),
		limited("single", 10, &api.QueuingConfiguration{Queues: 1, HandSize: 1, QueueLengthLimit: 50}),
		limited("reject", 10, nil),
	}}
	for i := range 8 {
		var rules []api.PolicyRulesWithSubjects
		for range random.Intn(3) + 1 {
			rule := api.PolicyRulesWithSubjects{}
			for range random.Intn(5) {
				rule.Subjects = append(rule.Subjects, subject())
			}
			for range random.Intn(4) {
				rule.ResourceRules = append(rule.ResourceRules, api.ResourcePolicyRule{
					Verbs: some(3, 0.4, verbs...), APIGroups: some(2, 0.5, apiGroups...), Resources: some(3, 0.4, resources...),
					Namespaces: some(2, 0.4, namespaces...), ClusterScope: random.Intn(2) == 0,
				})
			}
			for range random.Intn(3) {
				rule.NonResourceRules = append(rule.NonResourceRules, api.NonResourcePolicyRule{
					Verbs: some(2, 0.5, verbs...), NonResourceURLs: some(3, 0.2, paths...),
				})
			}
			rules = append(rules, rule)
		}
		c.Schemas = append(c.Schemas, schema(fmt.Sprintf("schema-%d", i), one("wide", "wide", "wide", "single", "reject", "exempt", "missing"),
			int32(1+random.Intn(5)), api.FlowDistinguisherMethodType(one("ByUser", "ByNamespace", "")), rules...))
	}
	var digests []digest
	for range 60 {
		d := digest{User: one(users...), info: info{Verb: one(verbs...)}}
		for range random.Intn(3) {
			d.Groups = append(d.Groups, one(groups...))
		}
		if random.Intn(4) == 0 {
			d.Path = one("/healthz", "/healthz/ping", "/healthzz", "/api", "/api/v1", "/metrics", "/metrics/a", "/", "/debug/pprof/heap", "/version/")
		} else {
			d.Group, d.Resource, d.Namespace = one(apiGroups...), one("pods", "deployments", "nodes", "tokenreviews"), one("", "a", "b", "ab")
			d.Subresource = one("", "", "", "status", "scale")
		}
		digests = append(digests, d)
	}
	return c.answered(digests)
}
