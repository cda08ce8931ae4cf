package main

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/util/retry"
)

// store is the interface of every typed client, so that one test covers all kinds.
type store[T any, L any] interface {
	Create(context.Context, *T, metav1.CreateOptions) (*T, error)
	Get(context.Context, string, metav1.GetOptions) (*T, error)
	Update(context.Context, *T, metav1.UpdateOptions) (*T, error)
	Patch(context.Context, string, types.PatchType, []byte, metav1.PatchOptions, ...string) (*T, error)
	List(context.Context, metav1.ListOptions) (*L, error)
	Delete(context.Context, string, metav1.DeleteOptions) error
}

// collection is implemented by most of them; services do not support it.
type collection interface {
	DeleteCollection(context.Context, metav1.DeleteOptions, metav1.ListOptions) error
}

// exerciseCRUD creates, reads, updates, patches, lists and deletes an object. meta returns an object's metadata,
// count the length of a list.
func exerciseCRUD[T any, L any](
	ctx context.Context, s store[T, L], object *T, meta func(*T) *metav1.ObjectMeta, count func(*L) int,
) error {
	name := meta(object).Name
	created, err := s.Create(ctx, object, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create: %w", err)
	}
	if meta(created).UID == "" || meta(created).ResourceVersion == "" || meta(created).CreationTimestamp.IsZero() {
		return fmt.Errorf("create: metadata is incomplete: %+v", meta(created))
	}
	if _, err := s.Create(ctx, object, metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create again: %v", err)
	}
	found, err := s.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("get: %w", err)
	}
	if err := expect("get: uid", meta(found).UID, meta(created).UID); err != nil {
		return err
	}

	meta(found).Annotations = map[string]string{"step": "update"}
	updated, err := s.Update(ctx, found, metav1.UpdateOptions{FieldManager: "walk"})
	if err != nil {
		return fmt.Errorf("update: %w", err)
	}
	if err := expect("update: annotation", meta(updated).Annotations["step"], "update"); err != nil {
		return err
	}
	// created has an old resourceVersion by now.
	if _, err := s.Update(ctx, created, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		return fmt.Errorf("update of an old version: %v", err)
	}
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		fresh, err := s.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		meta(fresh).Annotations["retry"] = "yes"
		_, err = s.Update(ctx, fresh, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("retry on conflict: %w", err)
	}

	patches := []struct {
		kind types.PatchType
		body string
	}{
		{types.MergePatchType, `{"metadata":{"labels":{"merge":"yes"}}}`},
		{types.StrategicMergePatchType, `{"metadata":{"labels":{"strategic":"yes"}}}`},
		{types.JSONPatchType, `[{"op":"add","path":"/metadata/labels/json","value":"yes"}]`},
	}
	var patched *T
	for _, patch := range patches {
		if patched, err = s.Patch(ctx, name, patch.kind, []byte(patch.body), metav1.PatchOptions{}); err != nil {
			return fmt.Errorf("%s: %w", patch.kind, err)
		}
	}
	for _, label := range []string{"merge", "strategic", "json"} {
		if err := expect("patch: label "+label, meta(patched).Labels[label], "yes"); err != nil {
			return err
		}
	}

	for _, options := range []metav1.ListOptions{
		{}, {LabelSelector: "merge in (yes,no),json"}, {FieldSelector: "metadata.name=" + name}, {ResourceVersion: "0"}, {Limit: 1},
	} {
		list, err := s.List(ctx, options)
		if err != nil {
			return fmt.Errorf("list %+v: %w", options, err)
		}
		if err := expect(fmt.Sprintf("list %+v", options), count(list), 1); err != nil {
			return err
		}
	}

	wrong := types.UID("00000000-0000-0000-0000-000000000000")
	err = s.Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &wrong}})
	if !apierrors.IsConflict(err) {
		return fmt.Errorf("delete with another uid: %v", err)
	}
	if err := s.Delete(ctx, name, *metav1.NewDeleteOptions(0)); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	_, err = s.Get(ctx, name, metav1.GetOptions{})
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) || status.Status().Details.Name != name {
		return fmt.Errorf("get of a deleted object: %v", err)
	}
	if _, err := s.Create(ctx, object, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create again after the delete: %w", err)
	}
	if all, ok := s.(collection); ok {
		err = all.DeleteCollection(ctx, *metav1.NewDeleteOptions(0), metav1.ListOptions{})
	} else {
		err = s.Delete(ctx, name, *metav1.NewDeleteOptions(0))
	}
	if err != nil {
		return fmt.Errorf("delete collection: %w", err)
	}
	list, err := s.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	return expect("list at the end", count(list), 0)
}

func template() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "a"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "registry.example/c:1"}}},
	}
}

func deployment(name string) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}},
			Template: template(),
		},
	}
}

func pods(ctx context.Context, c clients) error {
	s := c.typed.CoreV1().Pods(c.namespace)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: template().Spec}
	err := exerciseCRUD(ctx, s, pod, func(o *corev1.Pod) *metav1.ObjectMeta { return &o.ObjectMeta },
		func(l *corev1.PodList) int { return len(l.Items) })
	if err != nil {
		return err
	}
	// Bind the pod and update its status, like a scheduler and a kubelet.
	pod.Name = "b"
	created, err := s.Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if err := expect("default", created.Spec.RestartPolicy, corev1.RestartPolicyAlways); err != nil {
		return err
	}
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: "b", UID: created.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: "node-1"},
	}
	if err := s.Bind(ctx, binding, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("bind: %w", err)
	}
	bound, err := s.Get(ctx, "b", metav1.GetOptions{})
	if err != nil {
		return err
	}
	bound.Status.Phase = corev1.PodRunning
	if bound, err = s.UpdateStatus(ctx, bound, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("update status: %w", err)
	}
	if err := expect("phase", bound.Status.Phase, corev1.PodRunning); err != nil {
		return err
	}
	list, err := s.List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=node-1,status.phase=Running"})
	if err != nil {
		return err
	}
	return expect("pods of the node", len(list.Items), 1)
}

func deployments(ctx context.Context, c clients) error {
	return exerciseCRUD(ctx, c.typed.AppsV1().Deployments(c.namespace), deployment("a"),
		func(o *appsv1.Deployment) *metav1.ObjectMeta { return &o.ObjectMeta },
		func(l *appsv1.DeploymentList) int { return len(l.Items) })
}

func services(ctx context.Context, c clients) error {
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "a"},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "a"},
			Ports:    []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromString("http")}},
		},
	}
	return exerciseCRUD(ctx, c.typed.CoreV1().Services(c.namespace), service,
		func(o *corev1.Service) *metav1.ObjectMeta { return &o.ObjectMeta },
		func(l *corev1.ServiceList) int { return len(l.Items) })
}

func configMaps(ctx context.Context, c clients) error {
	object := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "a"},
		Data:       map[string]string{"k": "v"},
		BinaryData: map[string][]byte{"b": {0, 1, 255}},
	}
	return exerciseCRUD(ctx, c.typed.CoreV1().ConfigMaps(c.namespace), object,
		func(o *corev1.ConfigMap) *metav1.ObjectMeta { return &o.ObjectMeta },
		func(l *corev1.ConfigMapList) int { return len(l.Items) })
}

func dryRun(ctx context.Context, c clients) error {
	s := c.typed.AppsV1().Deployments(c.namespace)
	all := []string{metav1.DryRunAll}
	tried, err := s.Create(ctx, deployment("a"), metav1.CreateOptions{DryRun: all})
	if err != nil {
		return fmt.Errorf("create: %w", err)
	}
	if tried.Spec.Replicas == nil || *tried.Spec.Replicas != 1 {
		return fmt.Errorf("create: no defaults: %+v", tried.Spec)
	}
	if _, err := s.Get(ctx, "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		return fmt.Errorf("a dry run was stored: %v", err)
	}
	created, err := s.Create(ctx, deployment("a"), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	patch := []byte(`{"spec":{"replicas":5}}`)
	patched, err := s.Patch(ctx, "a", types.MergePatchType, patch, metav1.PatchOptions{DryRun: all})
	if err != nil {
		return fmt.Errorf("patch: %w", err)
	}
	if err := expect("patch: replicas", *patched.Spec.Replicas, 5); err != nil {
		return err
	}
	if err := s.Delete(ctx, "a", metav1.DeleteOptions{DryRun: all}); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	found, err := s.Get(ctx, "a", metav1.GetOptions{})
	if err != nil {
		return err
	}
	return expect("version after dry runs", found.ResourceVersion, created.ResourceVersion)
}
