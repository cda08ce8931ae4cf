package main

import (
	"context"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
)

// flunders are objects of an API server behind the aggregation layer.
var flunders = schema.GroupVersionResource{Group: "wardle.example.com", Version: "v1", Resource: "flunders"}

// printFlunders runs a metadata informer and a dynamic informer for the Flunders of a namespace, and prints a line for
// each event. It ends at the end of its input.
func printFlunders(ctx context.Context, c clients, end io.Reader) error {
	ofMetadata, err := metadata.NewForConfig(metadata.ConfigFor(c.config))
	if err != nil {
		return err
	}
	ofObjects, err := dynamic.NewForConfig(c.config)
	if err != nil {
		return err
	}
	informers := map[string]cache.SharedIndexInformer{
		"metadata": metadatainformer.NewFilteredSharedInformerFactory(ofMetadata, 0, c.namespace, nil).
			ForResource(flunders).Informer(),
		"dynamic": dynamicinformer.NewFilteredDynamicSharedInformerFactory(ofObjects, 0, c.namespace, nil).
			ForResource(flunders).Informer(),
	}
	for name, informer := range informers {
		show := func(event string, object any) {
			if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = unknown.Obj
			}
			accessor := object.(metav1.Object)
			fmt.Println(name, event, accessor.GetName(), accessor.GetLabels()["step"])
		}
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(object any) { show("add", object) },
			UpdateFunc: func(before, after any) {
				// A list after a broken watch repeats what is known.
				if before.(metav1.Object).GetResourceVersion() != after.(metav1.Object).GetResourceVersion() {
					show("update", after)
				}
			},
			DeleteFunc: func(object any) { show("delete", object) },
		})
		if err != nil {
			return err
		}
		go informer.RunWithContext(ctx)
	}
	_, err = io.Copy(io.Discard, end)
	return err
}
