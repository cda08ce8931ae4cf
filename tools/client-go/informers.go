package main

import (
	"bufio"
	"context"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
)

// follow runs informers while another process writes. It prints "synced" when they have synced. For every input line
// it waits until they agree with a list, and prints how often each read the initial state, by lists and by streams.
func follow(ctx context.Context, c clients, commands io.Reader) error {
	informers, err := allInformers(c)
	if err != nil {
		return err
	}
	for _, m := range informers {
		go m.informer.RunWithContext(ctx)
	}
	for _, m := range informers {
		if !cache.WaitForCacheSync(ctx.Done(), m.informer.HasSynced) {
			return fmt.Errorf("an informer did not sync")
		}
	}
	fmt.Println("synced")
	lines := bufio.NewScanner(commands)
	for lines.Scan() {
		if err := waitUntilInSync(ctx, c, informers); err != nil {
			return err
		}
		for _, m := range informers {
			counts := m.counts()
			fmt.Printf("%d+%d ", counts[0], counts[1])
		}
		fmt.Println()
	}
	return lines.Err()
}

// allInformers creates informers for the same objects: with typed and dynamic clients, which use Protobuf and JSON,
// and with and without a streaming list.
func allInformers(c clients) ([]*trackedInformer, error) {
	client, err := dynamic.NewForConfig(c.config)
	if err != nil {
		return nil, err
	}
	untyped := client.Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).Namespace(c.namespace)
	typed := source{
		list: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return c.typed.CoreV1().ConfigMaps(c.namespace).List(ctx, options)
		},
		watch: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return c.typed.CoreV1().ConfigMaps(c.namespace).Watch(ctx, options)
		},
	}
	untypedSource := source{
		list: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return untyped.List(ctx, options)
		},
		watch: untyped.Watch,
	}
	var informers []*trackedInformer
	for _, useWatchList := range []bool{false, true} {
		one, err := newTrackedInformer(typed, &corev1.ConfigMap{}, useWatchList)
		if err != nil {
			return nil, err
		}
		other, err := newTrackedInformer(untypedSource, &unstructured.Unstructured{}, useWatchList)
		if err != nil {
			return nil, err
		}
		informers = append(informers, one, other)
	}
	return informers, nil
}

// waitUntilInSync waits until all informers contain the same objects as a list.
func waitUntilInSync(ctx context.Context, c clients, informers []*trackedInformer) error {
	want, err := versions(ctx, c)
	if err != nil {
		return err
	}
	for i, m := range informers {
		err := eventually(ctx, func(context.Context) (bool, error) { return m.matches(want) })
		if err != nil {
			return fmt.Errorf("informer %d is not in sync: %w: handlers observed %v, the list has %v", i, err, m.observed, want)
		}
	}
	return nil
}

// versions returns the resourceVersion of every object by name.
func versions(ctx context.Context, c clients) (map[string]string, error) {
	list, err := c.typed.CoreV1().ConfigMaps(c.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	versions := map[string]string{}
	for _, item := range list.Items {
		versions[item.Name] = item.ResourceVersion
	}
	return versions, nil
}
