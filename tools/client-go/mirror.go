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

// source is what an informer reads: typed and dynamic clients have the same two methods.
type source struct {
	list  func(context.Context, metav1.ListOptions) (runtime.Object, error)
	watch func(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// mirror is an informer, and what its handlers were told: for each name the version.
type mirror struct {
	informer cache.SharedInformer
	lock     sync.Mutex
	seen     map[string]string
	// lists and streams count how often the informer asked for everything there is, and in which way.
	lists, streams int
	problem        error
}

// newMirror makes an informer that begins with a list or, with `stream`, with the initial events of its watch.
func newMirror(from source, example runtime.Object, stream bool) (*mirror, error) {
	m := &mirror{seen: map[string]string{}}
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
	if !stream {
		lister = withoutStream{listWatch}
	}
	m.informer = cache.NewSharedInformer(lister, example, 0)
	_, err := m.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { m.told("", "", object) },
		UpdateFunc: func(before, after any) { m.update(before, after) },
		DeleteFunc: func(object any) { m.gone(object) },
	})
	return m, err
}

// withoutStream tells client-go that its source cannot stream lists.
type withoutStream struct{ *cache.ListWatch }

func (withoutStream) IsWatchListSemanticsUnSupported() bool { return true }

func (m *mirror) count(counter *int) {
	m.lock.Lock()
	defer m.lock.Unlock()
	*counter++
}

func (m *mirror) update(before, after any) {
	old := before.(metav1.Object)
	m.told(old.GetName(), old.GetResourceVersion(), after)
}

// told notes a version that takes the place of the one that was known; of none if `name` is empty.
func (m *mirror) told(name, version string, object any) {
	m.lock.Lock()
	defer m.lock.Unlock()
	now := object.(metav1.Object)
	if known := m.seen[now.GetName()]; known != version || (name != "" && name != now.GetName()) {
		m.note("%s: %s takes the place of %q, but %q was known", now.GetName(), now.GetResourceVersion(), version, known)
	}
	m.seen[now.GetName()] = now.GetResourceVersion()
}

func (m *mirror) gone(object any) {
	m.lock.Lock()
	defer m.lock.Unlock()
	// The informer may have found it missing from a later list.
	if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = unknown.Obj
	}
	name := object.(metav1.Object).GetName()
	if _, there := m.seen[name]; !there {
		m.note("%s was deleted, but not known", name)
	}
	delete(m.seen, name)
}

func (m *mirror) note(format string, arguments ...any) {
	if m.problem == nil {
		m.problem = fmt.Errorf(format, arguments...)
	}
}

// asked tells how often the informer asked for everything, by lists and by streams.
func (m *mirror) asked() [2]int {
	m.lock.Lock()
	defer m.lock.Unlock()
	return [2]int{m.lists, m.streams}
}

// shows tells whether handlers and store both have exactly these objects.
func (m *mirror) shows(want map[string]string) (bool, error) {
	m.lock.Lock()
	defer m.lock.Unlock()
	stored := map[string]string{}
	for _, object := range m.informer.GetStore().List() {
		item := object.(metav1.Object)
		stored[item.GetName()] = item.GetResourceVersion()
	}
	return maps.Equal(m.seen, want) && maps.Equal(stored, want), m.problem
}
