// Drives a cluster through client-go like a controller, and prints OK or the error. The first argument is the
// kubeconfig. Every step works in its own namespace, so that one failure does not cause the next. With a namespace as
// the second argument it runs informers on that namespace and compares them with a list on command. The third argument
// selects something else to do in the namespace: "flunders", or "pod-metrics" with a label selector. All clients use
// CBOR if client-go's features say so: KUBE_FEATURE_ClientsAllowCBOR and KUBE_FEATURE_ClientsPreferCBOR.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/features"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// timeout is the time limit of a step.
const timeout = 2 * time.Minute

// clients contains the clients and the namespace of a step.
type clients struct {
	// config uses JSON and typed uses Protobuf. With CBOR enabled, both use CBOR.
	config    *rest.Config
	typed     kubernetes.Interface
	namespace string
}

// step is one use of client-go.
type step struct {
	name string
	run  func(context.Context, clients) error
}

var steps = []step{
	{"pods", pods},
	{"deployments", deployments},
	{"services", services},
	{"service-account", actAsServiceAccount},
	{"configmaps", configMaps},
	{"dry-run", dryRun},
	{"scale", scaleDeployment},
	{"apply", applyTyped},
	{"apply-dynamic", applyDynamic},
	{"dynamic", dynamicObjects},
	{"discovery", discover},
	{"openapi", openAPI},
	{"lease", electLeaders},
	{"events", recordEvents},
	{"metadata", metadataOnly},
	{"informers-list", func(ctx context.Context, c clients) error { return followChanges(ctx, c, false) }},
	{"informers-stream", func(ctx context.Context, c clients) error { return followChanges(ctx, c, true) }},
}

func main() {
	if len(os.Args) < 2 || len(os.Args) > 5 {
		fmt.Fprintln(os.Stderr, "usage: client-go KUBECONFIG [NAMESPACE [flunders | pod-metrics SELECTOR]]")
		os.Exit(2)
	}
	// Ignore the server's warnings, because steps check the responses.
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	c, err := connect(os.Args[1])
	switch {
	case err != nil:
	case len(os.Args) > 2:
		c.namespace = os.Args[2]
		err = runInNamespace(context.Background(), c, os.Args[3:])
	default:
		err = run(c)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("OK")
}

func runInNamespace(ctx context.Context, c clients, arguments []string) error {
	switch {
	case len(arguments) == 0:
		return follow(ctx, c, os.Stdin)
	case len(arguments) == 1 && arguments[0] == "flunders":
		return printFlunders(ctx, c, os.Stdin)
	case len(arguments) == 2 && arguments[0] == "pod-metrics":
		return printPodMetrics(ctx, c, arguments[1])
	}
	return fmt.Errorf("unknown arguments %q", arguments)
}

func connect(kubeconfig string) (clients, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return clients{}, err
	}
	config.QPS, config.Burst = -1, 0
	binary := rest.CopyConfig(config)
	binary.ContentType = runtime.ContentTypeProtobuf
	if prefersCBOR() {
		config.Wrap(countCBOR)
		binary = rest.CopyConfig(config)
		binary.ContentType = runtime.ContentTypeCBOR
	}
	binary.AcceptContentTypes = binary.ContentType
	typed, err := kubernetes.NewForConfig(binary)
	return clients{config: config, typed: typed}, err
}

func prefersCBOR() bool {
	gates := features.FeatureGates()
	return gates.Enabled(features.ClientsAllowCBOR) && gates.Enabled(features.ClientsPreferCBOR)
}

// sentCBOR and gotCBOR count requests and responses in CBOR.
var sentCBOR, gotCBOR atomic.Int64

// countCBOR counts requests and responses in CBOR, and fails a request that accepts only CBOR if the response is
// something else.
func countCBOR(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		if strings.HasSuffix(request.Header.Get("Content-Type"), "cbor") {
			sentCBOR.Add(1)
		}
		response, err := next.RoundTrip(request)
		if err != nil {
			return nil, err
		}
		switch got := response.Header.Get("Content-Type"); {
		case got == runtime.ContentTypeCBOR || got == runtime.ContentTypeCBORSequence:
			gotCBOR.Add(1)
		case request.Header.Get("Accept") == runtime.ContentTypeCBOR:
			return nil, fmt.Errorf("%s %s: response is %s, want CBOR", request.Method, request.URL, got)
		}
		return response, nil
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

func run(c clients) error {
	failed := 0
	for _, step := range steps {
		started := time.Now()
		c.namespace = "go-" + step.name
		if err := runStep(step, c); err != nil {
			failed++
			fmt.Printf("%s: %v\n", step.name, err)
		} else {
			fmt.Printf("%s: %d ms\n", step.name, time.Since(started).Milliseconds())
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d steps failed", failed, len(steps))
	}
	if sent, got := sentCBOR.Load(), gotCBOR.Load(); prefersCBOR() && (sent < 50 || got < 50) {
		return fmt.Errorf("only %d requests and %d responses in CBOR", sent, got)
	}
	return nil
}

func runStep(step step, c clients) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.namespace}}
	if _, err := c.typed.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create namespace: %w", err)
	}
	return step.run(ctx, c)
}

// expect returns an error if got differs from want.
func expect[T comparable](what string, got, want T) error {
	if got != want {
		return fmt.Errorf("%s: got %v, want %v", what, got, want)
	}
	return nil
}
