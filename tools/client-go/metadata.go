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

// mediaTypeRecorder records the media types of responses to requests for metadata.
type mediaTypeRecorder struct {
	http.RoundTripper
	lock  sync.Mutex
	types map[string]bool
}

func (a *mediaTypeRecorder) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := a.RoundTripper.RoundTrip(request)
	// Errors and results of deletes are in JSON for kinds without Protobuf.
	if err == nil && response.StatusCode == http.StatusOK && strings.Contains(request.Header.Get("Accept"), "as=PartialObjectMetadata") {
		a.lock.Lock()
		defer a.lock.Unlock()
		mediaType, _, _ := strings.Cut(response.Header.Get("Content-Type"), ";")
		a.types[mediaType] = true
	}
	return response, err
}

// metadataOnly reads objects like the garbage collector: only their metadata, in Protobuf, of built-in kinds and
// custom resources.
func metadataOnly(ctx context.Context, c clients) error {
	config := metadata.ConfigFor(c.config)
	mediaTypeRecorder := &mediaTypeRecorder{types: map[string]bool{}}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		mediaTypeRecorder.RoundTripper = next
		return mediaTypeRecorder
	})
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return err
	}
	dynamicClient, err := dynamic.NewForConfig(c.config)
	if err != nil {
		return err
	}
	parts := schema.GroupVersionResource{Group: c.namespace + ".example.com", Version: "v1", Resource: "parts"}
	if err := define(ctx, dynamicClient, parts, "Part"); err != nil {
		return fmt.Errorf("definition: %w", err)
	}
	for resource, kind := range map[schema.GroupVersionResource]string{
		{Version: "v1", Resource: "secrets"}: "Secret",
		parts:                                "Part",
	} {
		for _, useWatchList := range []bool{false, true} {
			objects := metadataAndObjects{
				version:       resource.GroupVersion(),
				metadata:      client.Resource(resource).Namespace(c.namespace),
				dynamicClient: dynamicClient.Resource(resource).Namespace(c.namespace),
			}
			if err := objects.follow(ctx, kind, useWatchList); err != nil {
				return fmt.Errorf("%s, stream %v: %w", kind, useWatchList, err)
			}
		}
	}
	delete(mediaTypeRecorder.types, runtime.ContentTypeProtobuf)
	return expect("responses other than Protobuf", fmt.Sprint(mediaTypeRecorder.types), "map[]")
}

// define creates a CustomResourceDefinition and waits until it is established.
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
	return eventually(ctx, func(ctx context.Context) (bool, error) {
		found, err := definitions.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		// At first there are no conditions, not even an empty list.
		conditions, _, _ := unstructured.NestedSlice(found.Object, "status", "conditions")
		for _, condition := range conditions {
			if condition, ok := condition.(map[string]any); ok && condition["type"] == "Established" && condition["status"] == "True" {
				return true, nil
			}
		}
		return false, nil
	})
}

// metadataAndObjects has clients for the objects of a kind in a namespace: their metadata and the complete objects.
type metadataAndObjects struct {
	version       schema.GroupVersion
	metadata      metadata.ResourceInterface
	dynamicClient dynamic.ResourceInterface
}

// follow runs an informer on metadata while objects are created, updated and deleted.
func (r metadataAndObjects) follow(ctx context.Context, kind string, useWatchList bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	from := source{
		list: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return r.metadata.List(ctx, options)
		},
		watch: r.metadata.Watch,
	}
	m, err := newTrackedInformer(from, &metav1.PartialObjectMetadata{}, useWatchList)
	if err != nil {
		return err
	}
	if err := r.create(ctx, kind, "before"); err != nil {
		return err
	}
	go m.informer.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), m.informer.HasSynced) {
		return fmt.Errorf("the informer did not sync")
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
	if err := r.waitUntilInSync(ctx, m); err != nil {
		return err
	}
	// The error for a missing object is in Protobuf, too.
	if _, err := r.metadata.Get(ctx, "none", metav1.GetOptions{}); err == nil || !strings.Contains(err.Error(), `"none" not found`) {
		return fmt.Errorf("get of a missing object: %v", err)
	}
	if err := r.metadata.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		return fmt.Errorf("delete all: %w", err)
	}
	return r.waitUntilInSync(ctx, m)
}

func (r metadataAndObjects) create(ctx context.Context, kind, name string) error {
	object := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": name}}}
	object.SetGroupVersionKind(r.version.WithKind(kind))
	_, err := r.dynamicClient.Create(ctx, object, metav1.CreateOptions{})
	return err
}

// waitUntilInSync waits until the informer contains the same objects as a list of complete objects.
func (r metadataAndObjects) waitUntilInSync(ctx context.Context, m *trackedInformer) error {
	list, err := r.dynamicClient.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	want := map[string]string{}
	for _, item := range list.Items {
		want[item.GetName()] = item.GetResourceVersion()
	}
	if err := eventually(ctx, func(context.Context) (bool, error) { return m.matches(want) }); err != nil {
		return fmt.Errorf("not in sync: %w: handlers observed %v, the list has %v", err, m.observed, want)
	}
	return nil
}
