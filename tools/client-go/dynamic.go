package main

import (
	"context"
	"fmt"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/scale"
)

// inJSON returns a configuration for clients that cannot decode CBOR but would request it if it is preferred.
func inJSON(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	return config
}

// mapper returns the RESTMapper of kubectl and controllers.
func mapper(c clients) (*restmapper.DeferredDiscoveryRESTMapper, discovery.DiscoveryInterface, error) {
	client, err := discovery.NewDiscoveryClientForConfig(inJSON(c.config))
	if err != nil {
		return nil, nil, err
	}
	return restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client)), client, nil
}

func scaleDeployment(ctx context.Context, c clients) error {
	if _, err := c.typed.AppsV1().Deployments(c.namespace).Create(ctx, deployment("a"), metav1.CreateOptions{}); err != nil {
		return err
	}
	typed, err := c.typed.AppsV1().Deployments(c.namespace).GetScale(ctx, "a", metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("typed get: %w", err)
	}
	typed.Spec.Replicas = 2
	if typed, err = c.typed.AppsV1().Deployments(c.namespace).UpdateScale(ctx, "a", typed, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("typed update: %w", err)
	}
	if err := expect("typed update", typed.Spec, autoscalingv1.ScaleSpec{Replicas: 2}); err != nil {
		return err
	}
	// The scale client of the horizontal pod autoscaler, which discovers kinds.
	mapper, client, err := mapper(c)
	if err != nil {
		return err
	}
	resolver := scale.NewDiscoveryScaleKindResolver(client)
	scales, err := scale.NewForConfig(inJSON(c.config), mapper, dynamic.LegacyAPIPathResolverFunc, resolver)
	if err != nil {
		return err
	}
	resource := schema.GroupResource{Group: "apps", Resource: "deployments"}
	found, err := scales.Scales(c.namespace).Get(ctx, resource, "a", metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("get: %w", err)
	}
	if err := expect("selector", found.Status.Selector, "app=a"); err != nil {
		return err
	}
	found.Spec.Replicas = 3
	if _, err := scales.Scales(c.namespace).Update(ctx, resource, found, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("update: %w", err)
	}
	patch := []byte(`{"spec":{"replicas":4}}`)
	patched, err := scales.Scales(c.namespace).
		Patch(ctx, resource.WithVersion("v1"), "a", types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("patch: %w", err)
	}
	return expect("replicas", patched.Spec.Replicas, 4)
}

func dynamicObjects(ctx context.Context, c clients) error {
	client, err := dynamic.NewForConfig(c.config)
	if err != nil {
		return err
	}
	jobs := client.Resource(schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "cronjobs"}).Namespace(c.namespace)
	watch, err := jobs.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	defer watch.Stop()
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "batch/v1", "kind": "CronJob", "metadata": map[string]any{"generateName": "nightly-"},
		"spec": map[string]any{
			"schedule": "0 3 * * *",
			"jobTemplate": map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{
				"restartPolicy": "Never",
				"containers":    []any{map[string]any{"name": "c", "image": "registry.example/c:1"}},
			}}}},
		},
	}}
	created, err := jobs.Create(ctx, object, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create: %w", err)
	}
	if policy, _, _ := unstructured.NestedString(created.Object, "spec", "concurrencyPolicy"); policy != "Allow" {
		return fmt.Errorf("create: no defaults: %v", created.Object["spec"])
	}
	if err := unstructured.SetNestedField(created.Object, true, "spec", "suspend"); err != nil {
		return err
	}
	if created, err = jobs.Update(ctx, created, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("update: %w", err)
	}
	list, err := jobs.List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list: %w", err)
	}
	if err := expect("list", len(list.Items), 1); err != nil {
		return err
	}
	if err := jobs.Delete(ctx, created.GetName(), metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	for _, want := range []string{"ADDED", "MODIFIED", "DELETED"} {
		select {
		case event := <-watch.ResultChan():
			if err := expect("event", string(event.Type), want); err != nil {
				return fmt.Errorf("%w: %v", err, event.Object)
			}
		case <-ctx.Done():
			return fmt.Errorf("no %s event", want)
		}
	}
	// Metadata only, in Protobuf, like the garbage collector's requests.
	partial, err := metadata.NewForConfig(c.config)
	if err != nil {
		return err
	}
	namespaces, err := partial.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).
		List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + c.namespace})
	if err != nil {
		return fmt.Errorf("metadata: %w", err)
	}
	return expect("metadata", len(namespaces.Items), 1)
}

func discover(_ context.Context, c clients) error {
	mapper, client, err := mapper(c)
	if err != nil {
		return err
	}
	version, err := client.ServerVersion()
	if err != nil {
		return err
	}
	if err := expect("version", version.Major+"."+version.Minor, "1.36"); err != nil {
		return err
	}
	if _, _, err := client.ServerGroupsAndResources(); err != nil {
		return fmt.Errorf("groups and resources: %w", err)
	}
	if _, err := client.ServerPreferredNamespacedResources(); err != nil {
		return fmt.Errorf("preferred resources: %w", err)
	}
	for kind, resource := range map[schema.GroupKind]schema.GroupVersionResource{
		{Kind: "Pod"}:                       {Version: "v1", Resource: "pods"},
		{Group: "apps", Kind: "Deployment"}: {Group: "apps", Version: "v1", Resource: "deployments"},
		{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}: {Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers"},
		{Group: "networking.k8s.io", Kind: "Ingress"}:           {Group: "networking.k8s.io", Version: "v1", Resource: "ingresses"},
	} {
		mapping, err := mapper.RESTMapping(kind)
		if err != nil {
			return err
		}
		if err := expect(kind.String(), mapping.Resource, resource); err != nil {
			return err
		}
	}
	short := restmapper.NewShortcutExpander(mapper, client, nil)
	found, err := short.ResourceFor(schema.GroupVersionResource{Resource: "deploy"})
	if err != nil {
		return err
	}
	return expect("deploy", found.Resource, "deployments")
}

func openAPI(_ context.Context, c clients) error {
	_, client, err := mapper(c)
	if err != nil {
		return err
	}
	document, err := client.OpenAPISchema()
	if err != nil {
		return fmt.Errorf("v2: %w", err)
	}
	names := map[string]bool{}
	for _, definition := range document.GetDefinitions().GetAdditionalProperties() {
		names[definition.GetName()] = true
	}
	if !names["io.k8s.api.core.v1.Pod"] || !names["io.k8s.api.apps.v1.Deployment"] {
		return fmt.Errorf("v2: %d definitions without Pod and Deployment", len(names))
	}
	paths, err := client.OpenAPIV3().Paths()
	if err != nil {
		return fmt.Errorf("v3: %w", err)
	}
	for _, path := range []string{"api/v1", "apis/apps/v1"} {
		group, ok := paths[path]
		if !ok {
			return fmt.Errorf("v3: no %s", path)
		}
		text, err := group.Schema("application/json")
		if err != nil {
			return fmt.Errorf("v3 %s: %w", path, err)
		}
		if len(text) < 10_000 {
			return fmt.Errorf("v3 %s: only %d bytes", path, len(text))
		}
	}
	return nil
}
