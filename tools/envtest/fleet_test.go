// Package fleet tests a scaffolded kubebuilder project as its author would: cargo xtask envtest scaffolds the project
// example.org/fleet, with the kind Sailor in two versions and its webhooks, and copies this file into it.
package fleet

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	crewv1 "example.org/fleet/api/v1"
	crewv2 "example.org/fleet/api/v2"
	"example.org/fleet/internal/controller"
	webhookv1 "example.org/fleet/internal/webhook/v1"
)

const timeout = 30 * time.Second

// fleet is a test environment with the project's manager.
type fleet struct {
	env     *envtest.Environment
	client  client.Client
	metrics string
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually calls a function until it returns no error.
func eventually(t *testing.T, check func() error) {
	t.Helper()
	deadline := time.Now().Add(timeout)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// freeAddress is an address of the loopback interface on which nothing listens.
func freeAddress(t *testing.T) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

// start runs the project's manager, with its webhooks and with metrics that need authentication.
func start(t *testing.T) *fleet {
	scheme := runtime.NewScheme()
	must(t, clientgoscheme.AddToScheme(scheme))
	must(t, crewv1.AddToScheme(scheme))
	must(t, crewv2.AddToScheme(scheme))
	config := filepath.Join("..", "..", "config")
	env := &envtest.Environment{
		Scheme:                scheme,
		CRDDirectoryPaths:     []string{filepath.Join(config, "crd", "bases")},
		ErrorIfCRDPathMissing: true,
		WebhookInstallOptions: envtest.WebhookInstallOptions{Paths: []string{filepath.Join(config, "webhook", "manifests.yaml")}},
	}
	cfg, err := env.Start()
	must(t, err)
	t.Cleanup(func() { must(t, env.Stop()) })
	options := env.WebhookInstallOptions
	metrics := freeAddress(t)
	manager, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme: scheme,
		WebhookServer: webhook.NewServer(webhook.Options{
			Host: options.LocalServingHost, Port: options.LocalServingPort, CertDir: options.LocalServingCertDir,
		}),
		Metrics: metricsserver.Options{
			BindAddress: metrics, SecureServing: true, FilterProvider: filters.WithAuthenticationAndAuthorization,
		},
	})
	must(t, err)
	reconciler := &controller.SailorReconciler{Client: manager.GetClient(), Scheme: scheme}
	must(t, reconciler.SetupWithManager(manager))
	must(t, webhookv1.SetupSailorWebhookWithManager(manager))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		must(t, <-ended)
	})
	address := net.JoinHostPort(options.LocalServingHost, fmt.Sprint(options.LocalServingPort))
	eventually(t, func() error {
		connection, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			return err
		}
		return connection.Close()
	})
	direct, err := client.New(cfg, client.Options{Scheme: scheme})
	must(t, err)
	return &fleet{env: env, client: direct, metrics: "https://" + metrics + "/metrics"}
}

// scrape reads the manager's metrics with a bearer token.
func (f *fleet) scrape(token string) (int, string, error) {
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequest(http.MethodGet, f.metrics, nil)
	if err != nil {
		return 0, "", err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := (&http.Client{Transport: transport, Timeout: timeout}).Do(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}

// expectCode scrapes until the status is the expected one, and returns the metrics.
func (f *fleet) expectCode(t *testing.T, token string, expected int) string {
	t.Helper()
	var metrics string
	eventually(t, func() error {
		code, body, err := f.scrape(token)
		if err == nil && code != expected {
			err = fmt.Errorf("status %d instead of %d: %s", code, expected, body)
		}
		metrics = body
		return err
	})
	return metrics
}

func TestFleet(t *testing.T) {
	f := start(t)
	ctx := context.Background()
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "default", Name: name} }

	t.Run("objects of both versions pass the webhooks and are converted", func(t *testing.T) {
		must(t, f.client.Create(ctx, &crewv1.Sailor{ObjectMeta: meta("ann")}))
		must(t, f.client.Create(ctx, &crewv2.Sailor{ObjectMeta: meta("bob")}))
		for _, name := range []string{"ann", "bob"} {
			key := client.ObjectKey{Namespace: "default", Name: name}
			must(t, f.client.Get(ctx, key, &crewv1.Sailor{}))
			must(t, f.client.Get(ctx, key, &crewv2.Sailor{}))
		}
	})

	t.Run("users have the rights of their roles", func(t *testing.T) {
		user, err := f.env.AddUser(envtest.User{Name: "jane", Groups: []string{"crew"}}, &rest.Config{})
		must(t, err)
		jane, err := client.New(user.Config(), client.Options{Scheme: f.client.Scheme()})
		if err == nil {
			err = jane.List(ctx, &crewv1.SailorList{})
		}
		if !apierrors.IsForbidden(err) {
			t.Fatalf("a user without roles may list: %v", err)
		}
		must(t, f.client.Create(ctx, &rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: "crew"},
			Rules: []rbacv1.PolicyRule{
				{APIGroups: []string{crewv1.GroupVersion.Group}, Resources: []string{"sailors"}, Verbs: []string{"list"}},
			},
		}))
		must(t, f.client.Create(ctx, binding("crew", rbacv1.Subject{Kind: "Group", APIGroup: rbacv1.GroupName, Name: "crew"})))
		eventually(t, func() error { return jane.List(ctx, &crewv1.SailorList{}) })
	})

	t.Run("metrics need a token and a role", func(t *testing.T) {
		token := func(name string) string {
			account := &corev1.ServiceAccount{ObjectMeta: meta(name)}
			must(t, f.client.Create(ctx, account))
			request := &authenticationv1.TokenRequest{}
			must(t, f.client.SubResource("token").Create(ctx, account, request))
			return request.Status.Token
		}
		f.expectCode(t, "", http.StatusUnauthorized)
		f.expectCode(t, token("stranger"), http.StatusForbidden)
		must(t, f.client.Create(ctx, &rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: "metrics"},
			Rules:      []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}},
		}))
		must(t, f.client.Create(ctx, binding("metrics", rbacv1.Subject{Kind: "ServiceAccount", Namespace: "default", Name: "prometheus"})))
		metrics := f.expectCode(t, token("prometheus"), http.StatusOK)
		for _, path := range []string{
			"/convert", "/mutate-crew-example-org-v1-sailor", "/validate-crew-example-org-v1-sailor",
		} {
			series := fmt.Sprintf("controller_runtime_webhook_requests_total{code=\"200\",webhook=%q}", path)
			if !strings.Contains(metrics, series) {
				must(t, errors.New("no request of "+path))
			}
		}
	})
}

// binding grants a cluster role to a subject.
func binding(role string, subject rbacv1.Subject) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{subject},
	}
}
