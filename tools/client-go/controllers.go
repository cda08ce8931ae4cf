package main

import (
	"context"
	"fmt"
	"maps"
	"math/rand"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// soon polls until a condition holds.
func soon(ctx context.Context, condition func(context.Context) (bool, error)) error {
	return wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, 30*time.Second, true, condition)
}

// changes is how many writes informers are kept in step through.
const changes = 1000

// followChanges keeps informers in step with a namespace while it changes. With `stream` the informer asks for what is
// there as initial events of its watch; without it, it lists first.
func followChanges(ctx context.Context, c clients, stream bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	objects := c.typed.CoreV1().ConfigMaps(c.namespace)
	from := source{
		list: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return objects.List(ctx, options)
		},
		watch: objects.Watch,
	}
	m, err := newMirror(from, &corev1.ConfigMap{}, stream)
	if err != nil {
		return err
	}
	// Some objects are there before the informers are.
	there := map[string]bool{}
	for i := range 20 {
		if err := change(ctx, c, i, map[string]bool{}); err != nil {
			return err
		}
		there[name(i)] = true
	}
	go m.informer.RunWithContext(ctx)
	factory := informers.NewSharedInformerFactoryWithOptions(c.typed, 0, informers.WithNamespace(c.namespace))
	lister := factory.Core().V1().ConfigMaps().Lister()
	factory.StartWithContext(ctx)
	factory.WaitForCacheSyncWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), m.informer.HasSynced) {
		return fmt.Errorf("the informer does not sync")
	}
	for i := range changes {
		if err := change(ctx, c, i, there); err != nil {
			return fmt.Errorf("change %d: %w", i, err)
		}
	}
	if err := agree(ctx, c, []*mirror{m}); err != nil {
		return err
	}
	want, err := versions(ctx, c)
	if err != nil {
		return err
	}
	err = soon(ctx, func(context.Context) (bool, error) {
		cached, err := lister.List(labels.Everything())
		found := map[string]string{}
		for _, item := range cached {
			found[item.Name] = item.ResourceVersion
		}
		return maps.Equal(found, want), err
	})
	if err != nil {
		return fmt.Errorf("the factory's informer is not in step: %w", err)
	}
	// It asked for everything once, in the way that it should.
	if stream {
		return expect("lists and streams", m.asked(), [2]int{0, 1})
	}
	return expect("lists and streams", m.asked(), [2]int{1, 0})
}

func name(i int) string { return fmt.Sprintf("object-%d", i%20) }

// change creates, updates or deletes an object; `there` says which exist.
func change(ctx context.Context, c clients, i int, there map[string]bool) error {
	objects := c.typed.CoreV1().ConfigMaps(c.namespace)
	object := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name(rand.Intn(20))},
		Data:       map[string]string{"i": fmt.Sprint(i)},
	}
	if len(there) == 0 {
		object.Name = name(i)
	}
	var err error
	switch {
	case !there[object.Name]:
		there[object.Name] = true
		_, err = objects.Create(ctx, object, metav1.CreateOptions{})
	case i%5 == 0:
		delete(there, object.Name)
		err = objects.Delete(ctx, object.Name, metav1.DeleteOptions{})
	default:
		_, err = objects.Update(ctx, object, metav1.UpdateOptions{})
	}
	return err
}

// lead lets two candidates hold a Lease one after the other.
func lead(ctx context.Context, c clients) error {
	elected := make(chan string, 2)
	candidate := func(ctx context.Context, identity string) error {
		lock, err := resourcelock.New(resourcelock.LeasesResourceLock, c.namespace, "leader", c.typed.CoreV1(),
			c.typed.CoordinationV1(), resourcelock.ResourceLockConfig{Identity: identity})
		if err != nil {
			return err
		}
		elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock:            lock,
			LeaseDuration:   4 * time.Second,
			RenewDeadline:   3 * time.Second,
			RetryPeriod:     200 * time.Millisecond,
			ReleaseOnCancel: true,
			Name:            "leader",
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(context.Context) { elected <- identity },
				OnStoppedLeading: func() {},
			},
		})
		if err != nil {
			return err
		}
		go elector.Run(ctx)
		return nil
	}
	first, stopFirst := context.WithCancel(ctx)
	defer stopFirst()
	if err := candidate(first, "first"); err != nil {
		return err
	}
	if err := next(ctx, elected, "first"); err != nil {
		return err
	}
	second, stopSecond := context.WithCancel(ctx)
	defer stopSecond()
	if err := candidate(second, "second"); err != nil {
		return err
	}
	stopFirst()
	if err := next(ctx, elected, "second"); err != nil {
		return err
	}
	lease, err := c.typed.CoordinationV1().Leases(c.namespace).Get(ctx, "leader", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity != "second" || lease.Spec.RenewTime == nil {
		return fmt.Errorf("the lease is %+v", lease.Spec)
	}
	return nil
}

func next(ctx context.Context, elected <-chan string, want string) error {
	select {
	case got := <-elected:
		return expect("leader", got, want)
	case <-ctx.Done():
		return fmt.Errorf("%s never leads", want)
	}
}

// recordEvents says the same thing several times, which becomes one event with a series, in both groups.
func recordEvents(ctx context.Context, c clients) error {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: template().Spec}
	pod, err := c.typed.CoreV1().Pods(c.namespace).Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: c.typed.EventsV1()})
	defer broadcaster.Shutdown()
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		return err
	}
	recorder := broadcaster.NewRecorder(scheme.Scheme, "pintle.dev/recorder")
	for range 3 {
		recorder.Eventf(pod, nil, corev1.EventTypeNormal, "Tried", "Trying", "attempt of %s", pod.Name)
		// The recorder drops what it has not stored yet into the same series.
		time.Sleep(50 * time.Millisecond)
	}
	return soon(ctx, func(ctx context.Context) (bool, error) {
		list, err := c.typed.EventsV1().Events(c.namespace).List(ctx, metav1.ListOptions{})
		if err != nil || len(list.Items) != 1 {
			return false, err
		}
		event := list.Items[0]
		if event.Series == nil {
			return false, nil
		}
		core, err := c.typed.CoreV1().Events(c.namespace).
			List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=a,reason=Tried"})
		if err != nil {
			return false, err
		}
		if len(core.Items) != 1 || core.Items[0].Message != "attempt of a" || event.Note != "attempt of a" {
			return false, fmt.Errorf("events differ between groups: %+v and %+v", core.Items, event)
		}
		return true, nil
	})
}
