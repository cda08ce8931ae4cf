// Drives a cluster through controller-runtime like an operator, and prints OK or the error. The first argument is the
// kubeconfig of an administrator; the operator itself has a service account with only the roles that it needs. It
// reconciles a Deployment for each Site, and an external resource that a finalizer protects. At last it serves webhooks.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/go-logr/logr/funcr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// timeout is the time limit of the program.
const timeout = 2 * time.Minute

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if err := run(ctx, os.Args[1]); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("OK")
}

// run starts the operator, runs all steps, and stops it.
func run(ctx context.Context, kubeconfig string) error {
	log.SetLogger(funcr.New(func(prefix, arguments string) { fmt.Fprintln(os.Stderr, prefix, arguments) }, funcr.Options{}))
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.QPS, config.Burst = 500, 500
	direct, err := client.New(config, client.Options{})
	if err != nil {
		return err
	}
	if err := define(ctx, direct); err != nil {
		return fmt.Errorf("definition: %w", err)
	}
	own, err := operatorConfig(ctx, direct, config)
	if err != nil {
		return fmt.Errorf("service account: %w", err)
	}
	manager, err := ctrl.NewManager(own, ctrl.Options{
		Metrics:          server.Options{BindAddress: "0"},
		LeaderElection:   true,
		LeaderElectionID: "sites.example.com",
		// A manager that stops gracefully releases its lease.
		LeaderElectionNamespace:       "default",
		LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		return err
	}
	operator := &operator{client: manager.GetClient(), external: map[string]bool{}}
	if err := operator.register(manager); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(ctx) }()
	for _, step := range steps {
		if err := step.run(ctx, direct, operator); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	stop()
	return <-ended
}

// define creates the CustomResourceDefinition of sites and waits until it is established.
func define(ctx context.Context, c client.Client) error {
	definition := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1",
		"kind":       "CustomResourceDefinition",
		"metadata":   map[string]any{"name": "sites.example.com"},
		"spec": map[string]any{
			"group": "example.com",
			"scope": "Namespaced",
			"names": map[string]any{"plural": "sites", "kind": "Site"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"subresources": map[string]any{"status": map[string]any{}},
				"schema": map[string]any{"openAPIV3Schema": map[string]any{
					"type": "object",
					"properties": map[string]any{
						"spec": map[string]any{
							"type": "object",
							"properties": map[string]any{
								"replicas": map[string]any{"type": "integer", "default": int64(1)},
							},
						},
						"status": map[string]any{
							"type":       "object",
							"properties": map[string]any{"replicas": map[string]any{"type": "integer"}},
						},
					},
				}},
			}},
		},
	}}
	if err := c.Create(ctx, definition); err != nil {
		return err
	}
	return eventually(ctx, func(ctx context.Context) (bool, error) {
		if err := c.Get(ctx, client.ObjectKeyFromObject(definition), definition); err != nil {
			return false, err
		}
		// The conditions are null at first.
		status, _ := definition.Object["status"].(map[string]any)
		conditions, _ := status["conditions"].([]any)
		for _, condition := range conditions {
			condition, _ := condition.(map[string]any)
			if condition["type"] == "Established" && condition["status"] == "True" {
				return true, nil
			}
		}
		return false, nil
	})
}

// eventually polls until a condition holds.
func eventually(ctx context.Context, condition func(context.Context) (bool, error)) error {
	err := wait.PollUntilContextTimeout(ctx, 5*time.Millisecond, 30*time.Second, true, condition)
	if errors.Is(err, context.DeadlineExceeded) {
		return errors.New("timed out waiting for the condition")
	}
	return err
}

// isDeleted returns true if the object does not exist, and other errors as they are.
func isDeleted(ctx context.Context, c client.Client, object client.Object) (bool, error) {
	err := c.Get(ctx, client.ObjectKeyFromObject(object), object)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	return false, err
}
