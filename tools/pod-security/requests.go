package main

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	basemetrics "k8s.io/component-base/metrics"
	"k8s.io/pod-security-admission/admission"
	"k8s.io/pod-security-admission/admission/api/load"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/metrics"
)

func withGroup(text string) string {
	return strings.ReplaceAll(text, "$", "pod-security.admission.config.k8s.io")
}

// complete completes and validates a configuration as the plugin does, with the plugin's messages.
func complete(subject *admission.Admission) error {
	if err := subject.CompleteConfiguration(); err != nil {
		return fmt.Errorf("PodSecurity configuration error: %w", err)
	}
	if err := subject.ValidateConfiguration(); err != nil {
		return fmt.Errorf("PodSecurity invalid: %w", err)
	}
	return nil
}

// cluster has the namespaces and pods that the plugin reads.
type cluster struct {
	namespaces map[string]*corev1.Namespace
	pods       []object
}

func newCluster() *cluster {
	return &cluster{namespaces: map[string]*corev1.Namespace{}}
}

func (c *cluster) GetNamespace(_ context.Context, name string) (*corev1.Namespace, error) {
	if namespace, ok := c.namespaces[name]; ok {
		return namespace, nil
	}
	return nil, errors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, name)
}

func (c *cluster) ListPods(context.Context, string) ([]*corev1.Pod, error) {
	var pods []*corev1.Pod
	for _, pod := range c.pods {
		pods = append(pods, convert[corev1.Pod](pod))
	}
	return pods, nil
}

// requestConfigurations are the configurations under which requests are sent.
var requestConfigurations = []string{
	"",
	"apiVersion: $/v1\nkind: PodSecurityConfiguration\ndefaults: {enforce: baseline, enforce-version: v1.30, audit: restricted, warn: restricted, warn-version: v1.99}\n",
	"apiVersion: $/v1\nkind: PodSecurityConfiguration\nexemptions: {namespaces: [\"n\"], runtimeClasses: [gvisor]}\n",
	"apiVersion: $/v1\nkind: PodSecurityConfiguration\ndefaults: {enforce: restricted}\nexemptions: {usernames: [alice], runtimeClasses: [gvisor, kata]}\n",
}

// labelSets are the labels of the namespace, without their prefix.
var labelSets = []string{
	"",
	"enforce=privileged",
	"enforce=baseline",
	"enforce=restricted",
	"enforce=restricted,enforce-version=v1.20",
	"enforce=restricted,enforce-version=v1.99",
	"enforce=baseline,audit=restricted,warn=restricted",
	"enforce=baseline,enforce-version=v1.22,audit=restricted,audit-version=v1.19,warn=privileged",
	"audit=baseline",
	"warn=restricted,warn-version=v1.35",
	"warn-version=v1.0",
	"enforce-version=v1.0,enforce=restricted,warn-version=v1.1",
	"enforce=strict",
	"enforce=baseline,enforce-version=v1,audit=x,warn=y",
	"enforce=Restricted,enforce-version=1.2,audit=a,audit-version=b,warn=c,warn-version=latest1",
	"enforce=privileged,enforce-version=v1.5,warn=privileged",
	"other=x,enforcement=restricted",
}

func labels(text string) map[string]string {
	found := map[string]string{"kubernetes.io/metadata.name": "n"}
	for _, pair := range strings.Split(text, ",") {
		if name, value, ok := strings.Cut(pair, "="); ok {
			found["pod-security.kubernetes.io/"+name] = value
		}
	}
	return found
}

// request is a request to the plugin.
type request struct {
	Operation   string `json:"operation"`
	Resource    string `json:"resource"`
	Subresource string `json:"subresource,omitempty"`
	Namespace   string `json:"namespace"`
	Name        string `json:"name"`
	User        string `json:"user,omitempty"`
	// Expired is true if the deadline of the request has passed.
	Expired bool   `json:"expired,omitempty"`
	Object  object `json:"object"`
	Old     object `json:"old,omitempty"`
}

const hostPod = `{"metadata":{"name":"p","namespace":"n"},"spec":{"hostNetwork":true,"containers":[{"name":"a","image":"i"}]}}`

// templates are the objects with pod templates, with $ in place of the template.
var templates = []struct{ resource, text string }{
	{"podtemplates", `{"metadata":{"name":"t"},"template":$}`},
	{"replicationcontrollers", `{"metadata":{"name":"t"},"spec":{"template":$}}`},
	{"apps/replicasets", `{"metadata":{"name":"t"},"spec":{"template":$}}`},
	{"apps/deployments", `{"metadata":{"name":"t"},"spec":{"template":$}}`},
	{"apps/statefulsets", `{"metadata":{"name":"t"},"spec":{"template":$}}`},
	{"apps/daemonsets", `{"metadata":{"name":"t"},"spec":{"template":$}}`},
	{"batch/jobs", `{"metadata":{"name":"t"},"spec":{"template":$}}`},
	{"batch/cronjobs", `{"metadata":{"name":"t"},"spec":{"jobTemplate":{"spec":{"template":$}}}}`},
}

func withSpec(text, path string, value any) object {
	pod := read(text)
	set(pod, setting{path, value})
	return pod
}

// requests are the requests for pods and templates.
func requests() []request {
	pod := func(operation, subresource string, object, old object) request {
		return request{Operation: operation, Resource: "pods", Subresource: subresource, Namespace: "n", Name: "p", Object: object, Old: old}
	}
	image := func(list, image string) object {
		pod := read(hostPod)
		pod["spec"].(object)[list] = []any{object{"name": "a", "image": image}}
		return pod
	}
	all := []request{
		pod("CREATE", "", read(minimalPod), nil),
		pod("CREATE", "", read(restrictedPod), nil),
		pod("CREATE", "", read(hostPod), nil),
		pod("CREATE", "", withSpec(hostPod, "spec/runtimeClassName", "gvisor"), nil),
		pod("CREATE", "binding", read(hostPod), nil),
		pod("CREATE", "eviction", read(hostPod), nil),
		pod("UPDATE", "", read(hostPod), read(hostPod)),
		pod("UPDATE", "", withSpec(hostPod, "spec/hostPID", true), read(hostPod)),
		pod("UPDATE", "", image("containers", "j"), read(hostPod)),
		pod("UPDATE", "", image("initContainers", "j"), read(hostPod)),
		pod("UPDATE", "", image("initContainers", "j"), image("initContainers", "k")),
		pod("UPDATE", "ephemeralcontainers", image("ephemeralContainers", "j"), read(hostPod)),
		pod("UPDATE", "ephemeralcontainers", image("ephemeralContainers", "j"), image("ephemeralContainers", "j")),
		pod("UPDATE", "ephemeralcontainers", image("ephemeralContainers", "j"), image("ephemeralContainers", "k")),
		pod("UPDATE", "resize", read(hostPod), read(hostPod)),
		pod("UPDATE", "status", image("containers", "j"), read(hostPod)),
	}
	alice := pod("CREATE", "", read(hostPod), nil)
	alice.User = "alice"
	elsewhere := pod("CREATE", "", read(hostPod), nil)
	elsewhere.Namespace = "missing"
	all = append(all, alice, elsewhere)
	for _, template := range templates {
		object := read(strings.ReplaceAll(template.text, "$", hostPod))
		all = append(all, request{Operation: "CREATE", Resource: template.resource, Namespace: "n", Name: "t", Object: object})
	}
	deployment := all[len(all)-5]
	update, scale, ofAlice, missing := deployment, deployment, deployment, deployment
	update.Operation, update.Old = "UPDATE", deployment.Object
	scale.Operation, scale.Subresource, scale.Old = "UPDATE", "scale", deployment.Object
	ofAlice.User = "alice"
	missing.Namespace = "missing"
	gvisor := deployment
	gvisor.Object = read(strings.ReplaceAll(templates[3].text, "$", string(encode(withSpec(hostPod, "spec/runtimeClassName", "gvisor")))))
	empty := request{Operation: "CREATE", Resource: "replicationcontrollers", Namespace: "n", Name: "t", Object: read(`{"metadata":{"name":"t"},"spec":{}}`)}
	return append(all, update, scale, ofAlice, missing, gvisor, empty)
}

// namespaceRequests are the requests for namespaces: creates with all labels, and updates between all of them.
func namespaceRequests() []request {
	namespace := func(labels map[string]string) object {
		return object{"metadata": object{"name": "n", "labels": labels}}
	}
	var all []request
	for _, new := range labelSets {
		all = append(all, request{Operation: "CREATE", Resource: "namespaces", Namespace: "n", Name: "n", Object: namespace(labels(new))})
		for _, old := range labelSets {
			all = append(all, request{Operation: "UPDATE", Resource: "namespaces", Namespace: "n", Name: "n", Object: namespace(labels(new)), Old: namespace(labels(old))})
		}
	}
	update := all[len(labelSets)*3+4]
	finalize, expired := update, update
	finalize.Subresource = "finalize"
	expired.Expired = true
	return append(all, finalize, expired)
}

// existingPods are the pods of the namespace, in the order of their names.
func existingPods() []object {
	var pods []object
	add := func(name, controller string, pod object) {
		set(pod, setting{"metadata/name", name})
		if controller != "" {
			owner := object{"apiVersion": "v1", "kind": "K", "name": "k", "uid": controller, "controller": true}
			other := object{"apiVersion": "v1", "kind": "K", "name": "o", "uid": "other"}
			set(pod, setting{"metadata/ownerReferences", []any{other, owner}})
		}
		pods = append(pods, pod)
	}
	add("a-exempt", "", withSpec(hostPod, "spec/runtimeClassName", "gvisor"))
	add("b-host", "", read(hostPod))
	add("c-1", "c", read(hostPod))
	add("c-2", "c", read(hostPod))
	add("c-3", "c", read(minimalPod))
	add("d-kata", "", withSpec(minimalPod, "spec/runtimeClassName", "kata"))
	add("e-good", "e", read(restrictedPod))
	add("f-pid", "", withSpec(restrictedPod, "spec/hostPID", true))
	add("g-plain", "", read(minimalPod))
	add("h-plain", "h", read(minimalPod))
	return pods
}

var kinds = map[string]struct {
	kind string
	new  func(object) runtime.Object
}{
	"namespaces":             {"Namespace", func(o object) runtime.Object { return convert[corev1.Namespace](o) }},
	"pods":                   {"Pod", func(o object) runtime.Object { return convert[corev1.Pod](o) }},
	"podtemplates":           {"PodTemplate", func(o object) runtime.Object { return convert[corev1.PodTemplate](o) }},
	"replicationcontrollers": {"ReplicationController", func(o object) runtime.Object { return convert[corev1.ReplicationController](o) }},
	"apps/replicasets":       {"ReplicaSet", func(o object) runtime.Object { return convert[appsv1.ReplicaSet](o) }},
	"apps/deployments":       {"Deployment", func(o object) runtime.Object { return convert[appsv1.Deployment](o) }},
	"apps/statefulsets":      {"StatefulSet", func(o object) runtime.Object { return convert[appsv1.StatefulSet](o) }},
	"apps/daemonsets":        {"DaemonSet", func(o object) runtime.Object { return convert[appsv1.DaemonSet](o) }},
	"batch/jobs":             {"Job", func(o object) runtime.Object { return convert[batchv1.Job](o) }},
	"batch/cronjobs":         {"CronJob", func(o object) runtime.Object { return convert[batchv1.CronJob](o) }},
}

// recordRequests sends all requests under all configurations, those for pods and templates with all labels of the
// namespace. A row has the numbers of a configuration, a request and the answers.
func recordRequests() table {
	pods := existingPods()
	var sets, configurations, sent, answers, rows []any
	for _, text := range labelSets {
		sets = append(sets, labels(text))
	}
	numbers := map[string]int{}
	number := func(answer object) int {
		key := string(encode(answer))
		number, ok := numbers[key]
		if !ok {
			number = len(answers)
			numbers[key] = number
			answers = append(answers, answer)
		}
		return number
	}
	forPods := requests()
	all := append(forPods, namespaceRequests()...)
	for _, request := range all {
		sent = append(sent, request)
	}
	for c, text := range requestConfigurations {
		text = withGroup(text)
		configurations = append(configurations, text)
		for r, request := range all {
			var numbers []int
			for _, set := range labelSets {
				numbers = append(numbers, number(answer(text, labels(set), pods, request)))
				if r >= len(forPods) {
					break
				}
			}
			rows = append(rows, []any{c, r, numbers})
		}
	}
	var existing []any
	for _, pod := range pods {
		existing = append(existing, pod)
	}
	return table{
		{"configurations", configurations},
		{"labels", sets},
		{"pods", existing},
		{"requests", sent},
		{"answers", answers},
		{"rows", rows},
	}
}

// answer sends a request and describes the response and what was counted.
func answer(configuration string, labels map[string]string, pods []object, request request) object {
	loaded, err := load.LoadFromData([]byte(configuration))
	check(err)
	cluster := newCluster()
	cluster.pods = pods
	cluster.namespaces["n"] = &corev1.Namespace{}
	cluster.namespaces["n"].Labels = labels
	subject := newAdmission(loaded, cluster)
	check(complete(subject))
	registry := basemetrics.NewKubeRegistry()
	subject.Metrics.(*metrics.PrometheusRecorder).MustRegister(registry.MustRegister)
	group, plural, found := strings.Cut(request.Resource, "/")
	if !found {
		group, plural = "", request.Resource
	}
	kind := kinds[request.Resource]
	attributes := &api.AttributesRecord{
		Name:        request.Name,
		Namespace:   request.Namespace,
		Kind:        schema.GroupVersionKind{Group: group, Version: "v1", Kind: kind.kind},
		Resource:    schema.GroupVersionResource{Group: group, Version: "v1", Resource: plural},
		Subresource: request.Subresource,
		Operation:   admissionv1.Operation(request.Operation),
		Object:      kind.new(request.Object),
		Username:    request.User,
	}
	if request.Old != nil {
		attributes.OldObject = kind.new(request.Old)
	}
	ctx := context.Background()
	if request.Expired {
		expired, cancel := context.WithDeadline(ctx, time.Unix(0, 0))
		defer cancel()
		ctx = expired
	}
	response := subject.Validate(ctx, attributes)
	answer := object{}
	if response.Result != nil {
		answer["message"], answer["code"] = response.Result.Message, response.Result.Code
	}
	if len(response.Warnings) > 0 {
		answer["warnings"] = response.Warnings
	}
	if len(response.AuditAnnotations) > 0 {
		answer["annotations"] = response.AuditAnnotations
	}
	if counted := counted(registry); len(counted) > 0 {
		answer["counted"] = counted
	}
	return answer
}

// counted returns the series that are not zero.
func counted(registry basemetrics.KubeRegistry) []string {
	families, err := registry.Gather()
	check(err)
	var lines []string
	for _, family := range families {
		for _, metric := range family.Metric {
			value := metric.GetCounter().GetValue()
			if value == 0 {
				continue
			}
			var pairs []string
			for _, label := range metric.Label {
				pairs = append(pairs, fmt.Sprintf("%s=%q", label.GetName(), label.GetValue()))
			}
			lines = append(lines, fmt.Sprintf("%s{%s} %v", family.GetName(), strings.Join(pairs, ","), value))
		}
	}
	sort.Strings(lines)
	return lines
}
