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

// follow keeps informers while somebody else writes. It says "synced" once they are; for every line that it reads, it
// waits until they agree with a list and says how often each asked for everything there is, by lists and by streams.
func follow(ctx context.Context, c clients, commands io.Reader) error {
	mirrors, err := allInformers(c)
	if err != nil {
		return err
	}
	for _, m := range mirrors {
		go m.informer.RunWithContext(ctx)
	}
	for _, m := range mirrors {
		if !cache.WaitForCacheSync(ctx.Done(), m.informer.HasSynced) {
			return fmt.Errorf("an informer does not sync")
		}
	}
	fmt.Println("synced")
	lines := bufio.NewScanner(commands)
	for lines.Scan() {
		if err := agree(ctx, c, mirrors); err != nil {
			return err
		}
		for _, m := range mirrors {
			asked := m.asked()
			fmt.Printf("%d+%d ", asked[0], asked[1])
		}
		fmt.Println()
	}
	return lines.Err()
}

// allInformers makes informers on the same objects: on typed and dynamic clients, that is over Protobuf and JSON, beginning
// with a list and with a stream.
func allInformers(c clients) ([]*mirror, error) {
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
	loose := source{
		list: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return untyped.List(ctx, options)
		},
		watch: untyped.Watch,
	}
	var mirrors []*mirror
	for _, stream := range []bool{false, true} {
		one, err := newMirror(typed, &corev1.ConfigMap{}, stream)
		if err != nil {
			return nil, err
		}
		other, err := newMirror(loose, &unstructured.Unstructured{}, stream)
		if err != nil {
			return nil, err
		}
		mirrors = append(mirrors, one, other)
	}
	return mirrors, nil
}

// agree waits until all have what a list has.
func agree(ctx context.Context, c clients, mirrors []*mirror) error {
	want, err := versions(ctx, c)
	if err != nil {
		return err
	}
	for i, m := range mirrors {
		err := soon(ctx, func(context.Context) (bool, error) { return m.shows(want) })
		if err != nil {
			return fmt.Errorf("informer %d is not in step: %w: handlers saw %v, the list has %v", i, err, m.seen, want)
		}
	}
	return nil
}

// versions lists what there is: for each name the version.
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
