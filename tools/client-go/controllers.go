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

// eventually polls until a condition holds. It waits long enough for a reflector that could not connect for a while: its
// backoff grows to a minute.
func eventually(ctx context.Context, condition func(context.Context) (bool, error)) error {
	return wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, 2*time.Minute, true, condition)
}

// changeCount is the number of writes while informers are checked.
const changeCount = 1000

// followChanges checks that informers follow a namespace while it changes. With useWatchList the informer streams the
// initial state (sendInitialEvents); without it, it lists first.
func followChanges(ctx context.Context, c clients, useWatchList bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	objects := c.typed.CoreV1().ConfigMaps(c.namespace)
	from := source{
		list: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return objects.List(ctx, options)
		},
		watch: objects.Watch,
	}
	m, err := newTrackedInformer(from, &corev1.ConfigMap{}, useWatchList)
	if err != nil {
		return err
	}
	// Some objects exist before the informers start.
	existing := map[string]bool{}
	for i := range 20 {
		if err := writeRandom(ctx, c, i, map[string]bool{}); err != nil {
			return err
		}
		existing[name(i)] = true
	}
	go m.informer.RunWithContext(ctx)
	factory := informers.NewSharedInformerFactoryWithOptions(c.typed, 0, informers.WithNamespace(c.namespace))
	lister := factory.Core().V1().ConfigMaps().Lister()
	factory.StartWithContext(ctx)
	factory.WaitForCacheSyncWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), m.informer.HasSynced) {
		return fmt.Errorf("the informer did not sync")
	}
	for i := range changeCount {
		if err := writeRandom(ctx, c, i, existing); err != nil {
			return fmt.Errorf("change %d: %w", i, err)
		}
	}
	if err := waitUntilInSync(ctx, c, []*trackedInformer{m}); err != nil {
		return err
	}
	want, err := versions(ctx, c)
	if err != nil {
		return err
	}
	err = eventually(ctx, func(context.Context) (bool, error) {
		cached, err := lister.List(labels.Everything())
		found := map[string]string{}
		for _, item := range cached {
			found[item.Name] = item.ResourceVersion
		}
		return maps.Equal(found, want), err
	})
	if err != nil {
		return fmt.Errorf("the factory's informer is not in sync: %w", err)
	}
	// It read the initial state once, by the expected method.
	if useWatchList {
		return expect("lists and streams", m.counts(), [2]int{0, 1})
	}
	return expect("lists and streams", m.counts(), [2]int{1, 0})
}

func name(i int) string { return fmt.Sprintf("object-%d", i%20) }

// writeRandom creates, updates or deletes a random object. existing contains the names of the objects that exist.
func writeRandom(ctx context.Context, c clients, i int, existing map[string]bool) error {
	objects := c.typed.CoreV1().ConfigMaps(c.namespace)
	object := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name(rand.Intn(20))},
		Data:       map[string]string{"i": fmt.Sprint(i)},
	}
	if len(existing) == 0 {
		object.Name = name(i)
	}
	var err error
	switch {
	case !existing[object.Name]:
		existing[object.Name] = true
		_, err = objects.Create(ctx, object, metav1.CreateOptions{})
	case i%5 == 0:
		delete(existing, object.Name)
		err = objects.Delete(ctx, object.Name, metav1.DeleteOptions{})
	default:
		_, err = objects.Update(ctx, object, metav1.UpdateOptions{})
	}
	return err
}

// electLeaders has two candidates hold a Lease one after the other.
func electLeaders(ctx context.Context, c clients) error {
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
	if err := expectLeader(ctx, elected, "first"); err != nil {
		return err
	}
	second, stopSecond := context.WithCancel(ctx)
	defer stopSecond()
	if err := candidate(second, "second"); err != nil {
		return err
	}
	stopFirst()
	if err := expectLeader(ctx, elected, "second"); err != nil {
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

func expectLeader(ctx context.Context, elected <-chan string, want string) error {
	select {
	case got := <-elected:
		return expect("leader", got, want)
	case <-ctx.Done():
		return fmt.Errorf("%s did not become leader", want)
	}
}

// recordEvents emits the same event several times, which becomes one event with a series, visible in both API groups.
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
		// The recorder merges an event that is not stored yet into the same series.
		time.Sleep(50 * time.Millisecond)
	}
	return eventually(ctx, func(ctx context.Context) (bool, error) {
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
			return false, fmt.Errorf("events differ between API groups: %+v and %+v", core.Items, event)
		}
		return true, nil
	})
}
