package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
)

// answers notes the media types in which a server shows metadata.
type answers struct {
	http.RoundTripper
	lock  sync.Mutex
	types map[string]bool
}

func (a *answers) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := a.RoundTripper.RoundTrip(request)
	// What goes wrong, and what is deleted, is told in JSON where objects have no Protobuf.
	if err == nil && response.StatusCode == http.StatusOK && strings.Contains(request.Header.Get("Accept"), "as=PartialObjectMetadata") {
		a.lock.Lock()
		defer a.lock.Unlock()
		mediaType, _, _ := strings.Cut(response.Header.Get("Content-Type"), ";")
		a.types[mediaType] = true
	}
	return response, err
}

// metadataOnly sees objects as the garbage collector does: their metadata, in Protobuf, of built-in and of custom kinds.
func metadataOnly(ctx context.Context, c clients) error {
	config := metadata.ConfigFor(c.config)
	answers := &answers{types: map[string]bool{}}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		answers.RoundTripper = next
		return answers
	})
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return err
	}
	whole, err := dynamic.NewForConfig(c.config)
	if err != nil {
		return err
	}
	parts := schema.GroupVersionResource{Group: c.namespace + ".example.com", Version: "v1", Resource: "parts"}
	if err := define(ctx, whole, parts, "Part"); err != nil {
		return fmt.Errorf("definition: %w", err)
	}
	for resource, kind := range map[schema.GroupVersionResource]string{
		{Version: "v1", Resource: "secrets"}: "Secret",
		parts:                                "Part",
	} {
		for _, stream := range []bool{false, true} {
			objects := mirrored{
				version:  resource.GroupVersion(),
				metadata: client.Resource(resource).Namespace(c.namespace),
				whole:    whole.Resource(resource).Namespace(c.namespace),
			}
			if err := objects.follow(ctx, kind, stream); err != nil {
				return fmt.Errorf("%s, stream %v: %w", kind, stream, err)
			}
		}
	}
	delete(answers.types, runtime.ContentTypeProtobuf)
	return expect("other answers than Protobuf", fmt.Sprint(answers.types), "map[]")
}

// define makes a custom kind and waits until it is served.
func define(ctx context.Context, client dynamic.Interface, resource schema.GroupVersionResource, kind string) error {
	definitions := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	name := resource.Resource + "." + resource.Group
	definition := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": name},
		"spec": map[string]any{
			"group": resource.Group, "scope": "Namespaced",
			"names": map[string]any{"plural": resource.Resource, "kind": kind},
			"versions": []any{map[string]any{
				"name": resource.Version, "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{
					"type": "object", "x-kubernetes-preserve-unknown-fields": true,
				}},
			}},
		},
	}}
	if _, err := definitions.Create(ctx, definition, metav1.CreateOptions{}); err != nil {
		return err
	}
	return soon(ctx, func(ctx context.Context) (bool, error) {
		found, err := definitions.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		// There are none at first, not even an empty list of them.
		conditions, _, _ := unstructured.NestedSlice(found.Object, "status", "conditions")
		for _, condition := range conditions {
			if condition, ok := condition.(map[string]any); ok && condition["type"] == "Established" && condition["status"] == "True" {
				return true, nil
			}
		}
		return false, nil
	})
}

// mirrored is a kind's objects in a namespace, as metadata and whole.
type mirrored struct {
	version  schema.GroupVersion
	metadata metadata.ResourceInterface
	whole    dynamic.ResourceInterface
}

// follow keeps an informer on metadata while objects come, change and go.
func (r mirrored) follow(ctx context.Context, kind string, stream bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	from := source{
		list: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return r.metadata.List(ctx, options)
		},
		watch: r.metadata.Watch,
	}
	m, err := newMirror(from, &metav1.PartialObjectMetadata{}, stream)
	if err != nil {
		return err
	}
	if err := r.create(ctx, kind, "before"); err != nil {
		return err
	}
	go m.informer.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), m.informer.HasSynced) {
		return fmt.Errorf("the informer does not sync")
	}
	for i := range 10 {
		if err := r.create(ctx, kind, name(i)); err != nil {
			return err
		}
		patch := []byte(`{"metadata":{"labels":{"seen":"yes"}}}`)
		patched, err := r.metadata.Patch(ctx, name(i), types.MergePatchType, patch, metav1.PatchOptions{})
		if err != nil {
			return fmt.Errorf("patch: %w", err)
		}
		if err := expect("label", patched.Labels["seen"], "yes"); err != nil {
			return err
		}
		if i%2 == 0 {
			if err := r.metadata.Delete(ctx, name(i), *metav1.NewPreconditionDeleteOptions(string(patched.UID))); err != nil {
				return fmt.Errorf("delete: %w", err)
			}
		}
	}
	if err := r.agree(ctx, m); err != nil {
		return err
	}
	// What is not there is an error in Protobuf, too.
	if _, err := r.metadata.Get(ctx, "none", metav1.GetOptions{}); err == nil || !strings.Contains(err.Error(), `"none" not found`) {
		return fmt.Errorf("get of nothing: %v", err)
	}
	if err := r.metadata.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		return fmt.Errorf("delete all: %w", err)
	}
	return r.agree(ctx, m)
}

func (r mirrored) create(ctx context.Context, kind, name string) error {
	object := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": name}}}
	object.SetGroupVersionKind(r.version.WithKind(kind))
	_, err := r.whole.Create(ctx, object, metav1.CreateOptions{})
	return err
}

// agree waits until the informer has what a list of whole objects has.
func (r mirrored) agree(ctx context.Context, m *mirror) error {
	list, err := r.whole.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	want := map[string]string{}
	for _, item := range list.Items {
		want[item.GetName()] = item.GetResourceVersion()
	}
	if err := soon(ctx, func(context.Context) (bool, error) { return m.shows(want) }); err != nil {
		return fmt.Errorf("not in step: %w: handlers saw %v, the list has %v", err, m.seen, want)
	}
	return nil
}
