package main

import (
	"encoding/json"
	"math/rand"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// lastVersion is the last minor version whose answers are recorded; no check has changed in the versions after it.
const lastVersion = 37

// podRow is a pod and its violations: for each level, the versions whose violations differ from those of the version
// before, followed by the numbers of the violations. The last version, which stands for the latest one, is -1.
type podRow struct {
	Pod        object  `json:"pod"`
	Baseline   [][]int `json:"baseline"`
	Restricted [][]int `json:"restricted"`
}

type object = map[string]any

// setting is a value of a field of a pod or of a container, by its path.
type setting struct {
	path  string
	value any
}

// parse reads settings in the form `path: value, value, …`, where the values are the items of a JSON array.
func parse(text string) []setting {
	var all []setting
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		path, list, _ := strings.Cut(strings.TrimSpace(line), ": ")
		var values []any
		check(json.Unmarshal([]byte("["+list+"]"), &values))
		for _, value := range values {
			all = append(all, setting{path, value})
		}
	}
	return all
}

const profiles = `{"type":"RuntimeDefault"}, {"type":"Localhost","localhostProfile":"x"}, {"type":"Unconfined"}, {"type":""}, {"type":"Other"}`

const seLinux = `{}, {"type":"container_t"}, {"type":"container_init_t"}, {"type":"container_kvm_t"}, {"type":"container_engine_t"}, {"type":"spc_t"}, {"user":"u"}, {"role":"r","level":"s0"}, {"type":"z_t","user":"u","role":"r"}`

var podSettings = parse(`
	spec/hostNetwork: true
	spec/hostPID: true
	spec/hostIPC: true
	spec/hostUsers: true, false
	spec/os: {"name":"windows"}, {"name":"linux"}
	spec/securityContext/appArmorProfile: ` + profiles + `
	spec/securityContext/seccompProfile: ` + profiles + `
	spec/securityContext/seLinuxOptions: ` + seLinux + `
	spec/securityContext/runAsNonRoot: true, false
	spec/securityContext/runAsUser: 0, 1000
	spec/securityContext/windowsOptions: {}, {"hostProcess":true}, {"hostProcess":false}
	spec/securityContext/sysctls: [], [{"name":"kernel.shm_rmid_forced","value":"0"}], [{"name":"net.ipv4.ip_local_reserved_ports","value":"1"}], [{"name":"net.ipv4.tcp_rmem","value":"1"},{"name":"net.ipv4.tcp_wmem","value":"1"}]
	spec/securityContext/sysctls: [{"name":"net.ipv4.tcp_keepalive_time","value":"1"},{"name":"net.ipv4.tcp_fin_timeout","value":"1"},{"name":"net.ipv4.tcp_keepalive_intvl","value":"1"},{"name":"net.ipv4.tcp_keepalive_probes","value":"1"}]
	spec/securityContext/sysctls: [{"name":"net.ipv4.ip_local_port_range","value":"1"},{"name":"net.ipv4.tcp_syncookies","value":"1"},{"name":"net.ipv4.ping_group_range","value":"1"},{"name":"net.ipv4.ip_unprivileged_port_start","value":"1"}]
	spec/securityContext/sysctls: [{"name":"vm.swappiness","value":"1"},{"name":"a","value":"1"},{"name":"vm.swappiness","value":"2"}]
	metadata/annotations/container.apparmor.security.beta.kubernetes.io~a: "", "runtime/default", "localhost/x", "unconfined", "a\"b\\\u00fc\u0007"
	metadata/annotations/container.apparmor.security.beta.kubernetes.io~z: "unconfined"
	metadata/annotations/seccomp.security.alpha.kubernetes.io~pod: "", "runtime/default", "docker/default", "localhost/x", "unconfined"
	metadata/annotations/container.seccomp.security.alpha.kubernetes.io~a: "runtime/default", "unconfined"
	metadata/annotations/container.seccomp.security.alpha.kubernetes.io~none: "unconfined"
`)

var containerSettings = parse(`
	securityContext: {}
	securityContext/allowPrivilegeEscalation: true, false
	securityContext/appArmorProfile: ` + profiles + `
	securityContext/seccompProfile: ` + profiles + `
	securityContext/seLinuxOptions: ` + seLinux + `
	securityContext/runAsNonRoot: true, false
	securityContext/runAsUser: 0, 1000
	securityContext/windowsOptions: {}, {"hostProcess":true}, {"hostProcess":false}
	securityContext/privileged: true, false
	securityContext/procMount: "Default", "Unmasked", "Other", ""
	securityContext/capabilities: {}, {"drop":["ALL"]}, {"drop":["all","NET_RAW"]}, {"add":["NET_BIND_SERVICE"]}, {"add":["NET_RAW","CHOWN","ALL"]}, {"add":["CHOWN"],"drop":["ALL"]}
	securityContext/capabilities: {"add":["AUDIT_WRITE","CHOWN","DAC_OVERRIDE","FOWNER","FSETID","KILL","MKNOD","NET_BIND_SERVICE","SETFCAP","SETGID","SETPCAP","SETUID","SYS_CHROOT"]}
	ports: [{"containerPort":1}], [{"containerPort":1,"hostPort":9}], [{"containerPort":1,"hostPort":80},{"containerPort":2,"hostPort":9},{"containerPort":3,"hostPort":80}]
	livenessProbe: {"httpGet":{"port":1}}, {"httpGet":{"port":1,"host":"b"}}, {"tcpSocket":{"port":1,"host":"a"}}, {"exec":{"command":["x"]}}
	readinessProbe: {"httpGet":{"port":1,"host":"c"}}, {"tcpSocket":{"port":1}}
	startupProbe: {"tcpSocket":{"port":1,"host":"b"}}, {"grpc":{"port":1}}
	lifecycle: {}, {"postStart":{"httpGet":{"port":1,"host":"a"}}}, {"preStop":{"tcpSocket":{"port":1,"host":"d"}},"postStart":{"exec":{"command":["x"]}}}
`)

// minimalPod has one container and sets nothing.
const minimalPod = `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"a"}]}}`

// restrictedPod has containers of all types, which the level restricted allows.
const restrictedPod = `{"metadata":{"name":"p"},"spec":{
	"securityContext":{"runAsNonRoot":true,"seccompProfile":{"type":"RuntimeDefault"}},
	"initContainers":[{"name":"i","securityContext":{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]}}}],
	"containers":[{"name":"a","securityContext":{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]}}}],
	"ephemeralContainers":[{"name":"e","securityContext":{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]}}}]}}`

var containerLists = []string{"initContainers", "containers", "ephemeralContainers"}

// volumeTypes are all types of volumes, and none.
func volumeTypes() []string {
	types := []string{""}
	source := reflect.TypeOf(corev1.VolumeSource{})
	for i := range source.NumField() {
		name, _, _ := strings.Cut(source.Field(i).Tag.Get("json"), ",")
		types = append(types, name)
	}
	return types
}

func volume(name, kind string) object {
	volume := object{"name": name}
	if kind != "" {
		volume[kind] = object{}
	}
	return volume
}

func recordPods() table {
	var rows []any
	var known violationTable
	add := func(pod object) { rows = append(rows, known.record(pod)) }
	bases := []string{minimalPod, restrictedPod}
	for _, base := range bases {
		add(read(base))
		for _, setting := range podSettings {
			pod := read(base)
			set(pod, setting)
			add(pod)
		}
	}
	for _, list := range containerLists {
		for _, setting := range containerSettings {
			pod := read(restrictedPod)
			set(containers(pod, list)[0].(object), setting)
			add(pod)
		}
	}
	for _, kind := range volumeTypes() {
		pod := read(minimalPod)
		pod["spec"].(object)["volumes"] = []any{volume("v", kind)}
		add(pod)
	}
	random := rand.New(rand.NewSource(20))
	for range 250 {
		add(randomPod(random, bases))
	}
	return table{{"violations", known.rows}, {"pods", rows}}
}

func randomPod(random *rand.Rand, bases []string) object {
	pod := read(bases[random.Intn(len(bases))])
	spec := pod["spec"].(object)
	for _, list := range containerLists {
		items := containers(pod, list)
		for i := range random.Intn(2) {
			items = append(items, object{"name": list[:1] + string(rune('n'-i*3))})
		}
		if len(items) > 0 {
			spec[list] = items
		}
	}
	if types := volumeTypes(); random.Intn(2) == 0 {
		var volumes []any
		for i := range 1 + random.Intn(3) {
			volume := volume(string(rune('v'-i)), types[random.Intn(len(types))])
			volume[types[1+random.Intn(len(types)-1)]] = object{}
			volumes = append(volumes, volume)
		}
		spec["volumes"] = volumes
	}
	for range random.Intn(4) {
		set(pod, podSettings[random.Intn(len(podSettings))])
	}
	for range random.Intn(8) {
		list := containers(pod, containerLists[random.Intn(len(containerLists))])
		if len(list) > 0 {
			set(list[random.Intn(len(list))].(object), containerSettings[random.Intn(len(containerSettings))])
		}
	}
	return pod
}

func containers(pod object, list string) []any {
	items, _ := pod["spec"].(object)[list].([]any)
	return items
}

// set sets the value at a path. A tilde stands for a slash in a key.
func set(target object, setting setting) {
	path := strings.Split(setting.path, "/")
	for _, key := range path[:len(path)-1] {
		child, ok := target[key].(object)
		if !ok {
			child = object{}
			target[key] = child
		}
		target = child
	}
	target[strings.ReplaceAll(path[len(path)-1], "~", "/")] = setting.value
}

// read parses a pod.
func read(text string) object {
	var pod object
	check(json.Unmarshal([]byte(text), &pod))
	return pod
}

// convert makes a typed object of an untyped one, by way of JSON.
func convert[T any](in any) *T {
	out := new(T)
	check(json.Unmarshal(encode(in), out))
	return out
}

var evaluator = func() policy.Evaluator {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	check(err)
	return evaluator
}()

// violationTable numbers the violations of all pods.
type violationTable struct {
	rows    []any
	numbers map[[2]string]int
}

func (t *violationTable) number(result policy.CheckResult) int {
	key := [2]string{result.ForbiddenReason, result.ForbiddenDetail}
	number, ok := t.numbers[key]
	if !ok {
		if t.numbers == nil {
			t.numbers = map[[2]string]int{}
		}
		number = len(t.rows)
		t.numbers[key] = number
		t.rows = append(t.rows, key)
	}
	return number
}

// record asks upstream about a pod, which is recorded as its Go type encodes it.
func (t *violationTable) record(pod object) podRow {
	typed := convert[corev1.Pod](pod)
	row := podRow{Pod: *convert[object](typed)}
	delete(row.Pod, "status")
	row.Baseline = t.violations(typed, api.LevelBaseline)
	row.Restricted = t.violations(typed, api.LevelRestricted)
	return row
}

func (t *violationTable) violations(pod *corev1.Pod, level api.Level) [][]int {
	var changes [][]int
	var last []int
	add := func(name int, version api.Version) {
		lv := api.LevelVersion{Level: level, Version: version}
		violations := []int{}
		for _, result := range evaluator.EvaluatePod(lv, &pod.ObjectMeta, &pod.Spec) {
			if !result.Allowed {
				violations = append(violations, t.number(result))
			}
		}
		if last == nil || !slices.Equal(last, violations) {
			changes = append(changes, append([]int{name}, violations...))
		}
		last = violations
	}
	for minor := range lastVersion + 1 {
		add(minor, api.MajorMinorVersion(1, minor))
	}
	add(-1, api.LatestVersion())
	return changes
}
