package main

import (
	"context"
	"fmt"
	"maps"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// source contains the list and watch functions of an informer. Typed and dynamic clients have both.
type source struct {
	list  func(context.Context, metav1.ListOptions) (runtime.Object, error)
	watch func(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// trackedInformer is an informer with the resourceVersions that its handlers observed, by name.
type trackedInformer struct {
	informer cache.SharedInformer
	lock     sync.Mutex
	observed map[string]string
	// lists and streams count how often the informer read the initial state, by each method.
	lists, streams int
	err            error
}

// newTrackedInformer creates an informer that starts with a list or, with useWatchList, with the initial events of
// its watch.
func newTrackedInformer(from source, example runtime.Object, useWatchList bool) (*trackedInformer, error) {
	m := &trackedInformer{observed: map[string]string{}}
	listWatch := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			m.count(&m.lists)
			return from.list(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			watch, err := from.watch(ctx, options)
			if err == nil && options.SendInitialEvents != nil && *options.SendInitialEvents {
				m.count(&m.streams)
			}
			return watch, err
		},
	}
	var lister cache.ListerWatcher = listWatch
	if !useWatchList {
		lister = withoutWatchList{listWatch}
	}
	m.informer = cache.NewSharedInformer(lister, example, 0)
	_, err := m.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { m.recordVersion("", "", object) },
		UpdateFunc: func(before, after any) { m.update(before, after) },
		DeleteFunc: func(object any) { m.recordDelete(object) },
	})
	return m, err
}

// withoutWatchList tells client-go that its source does not support streaming lists.
type withoutWatchList struct{ *cache.ListWatch }

func (withoutWatchList) IsWatchListSemanticsUnSupported() bool { return true }

func (m *trackedInformer) count(counter *int) {
	m.lock.Lock()
	defer m.lock.Unlock()
	*counter++
}

func (m *trackedInformer) update(before, after any) {
	old := before.(metav1.Object)
	m.recordVersion(old.GetName(), old.GetResourceVersion(), after)
}

// recordVersion records a new version of an object. name and version are those of the previous version, or empty for
// a new object.
func (m *trackedInformer) recordVersion(name, version string, object any) {
	m.lock.Lock()
	defer m.lock.Unlock()
	now := object.(metav1.Object)
	if known := m.observed[now.GetName()]; known != version || (name != "" && name != now.GetName()) {
		m.fail("%s: %s replaces %q, but %q was observed before", now.GetName(), now.GetResourceVersion(), version, known)
	}
	m.observed[now.GetName()] = now.GetResourceVersion()
}

func (m *trackedInformer) recordDelete(object any) {
	m.lock.Lock()
	defer m.lock.Unlock()
	// The informer may have missed the delete and found the object missing in a later list.
	if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = unknown.Obj
	}
	name := object.(metav1.Object).GetName()
	if _, there := m.observed[name]; !there {
		m.fail("%s was deleted, but never observed", name)
	}
	delete(m.observed, name)
}

func (m *trackedInformer) fail(format string, arguments ...any) {
	if m.err == nil {
		m.err = fmt.Errorf(format, arguments...)
	}
}

// counts returns how often the informer read the initial state, by lists and by streams.
func (m *trackedInformer) counts() [2]int {
	m.lock.Lock()
	defer m.lock.Unlock()
	return [2]int{m.lists, m.streams}
}

// matches returns true if both the handlers and the store have exactly these objects.
func (m *trackedInformer) matches(want map[string]string) (bool, error) {
	m.lock.Lock()
	defer m.lock.Unlock()
	stored := map[string]string{}
	for _, object := range m.informer.GetStore().List() {
		item := object.(metav1.Object)
		stored[item.GetName()] = item.GetResourceVersion()
	}
	return maps.Equal(m.observed, want) && maps.Equal(stored, want), m.err
}
