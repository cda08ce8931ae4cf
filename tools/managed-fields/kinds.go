package main

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// resets are the fields that writes cannot set (GetResetFields), by subresource.
type resets map[string][]string

// kind is an API kind with a field manager for each subresource.
type kind struct {
	gvk       schema.GroupVersionKind
	namespace string
	managers  map[string]*managedfields.FieldManager
}

var scaleKind = autoscalingv1.SchemeGroupVersion.WithKind("Scale")

func newKind(apiVersion, name, namespace string, resets resets) *kind {
	created := &kind{
		gvk:       schema.FromAPIVersionAndKind(apiVersion, name),
		namespace: namespace,
		managers:  map[string]*managedfields.FieldManager{},
	}
	for subresource, paths := range resets {
		set := fieldpath.NewSet()
		for _, path := range paths {
			var parts []any
			for _, part := range strings.Split(path, ".") {
				parts = append(parts, part)
			}
			set.Insert(fieldpath.MakePathOrDie(parts...))
		}
		filters := fieldpath.NewExcludeFilterSetMap(map[fieldpath.APIVersion]*fieldpath.Set{fieldpath.APIVersion(apiVersion): set})
		types, of := applyconfigurations.NewTypeConverter(scheme.Scheme), created.gvk
		if subresource == "scale" {
			// client-go has no schema of Scale, so a deduced schema is used.
			types, of = managedfields.NewDeducedTypeConverter(), scaleKind
		}
		manager, err := managedfields.NewDefaultFieldManager(types, runtime.UnsafeObjectConvertor(scheme.Scheme),
			defaults{}, scheme.Scheme, of, of.GroupVersion(), subresource, filters)
		must(err)
		created.managers[subresource] = manager
	}
	return created
}

func (k *kind) apiVersion() string { return k.gvk.GroupVersion().String() }

// defaults is the defaulter of Deployments, as far as the requests here need it.
type defaults struct{}

// Default implements runtime.ObjectDefaulter.
func (defaults) Default(of runtime.Object) {
	deployment, ok := of.(*appsv1.Deployment)
	if !ok {
		return
	}
	spec, part := &deployment.Spec, intstr.FromString("25%")
	setDefault(&spec.Replicas, 1)
	setDefault(&spec.RevisionHistoryLimit, 10)
	setDefault(&spec.ProgressDeadlineSeconds, 600)
	setDefault(&spec.Strategy.RollingUpdate, appsv1.RollingUpdateDeployment{})
	setDefault(&spec.Strategy.RollingUpdate.MaxSurge, part)
	setDefault(&spec.Strategy.RollingUpdate.MaxUnavailable, part)
	setDefaultString(&spec.Strategy.Type, appsv1.RollingUpdateDeploymentStrategyType)
	pod := &spec.Template.Spec
	setDefault(&pod.TerminationGracePeriodSeconds, 30)
	setDefault(&pod.SecurityContext, corev1.PodSecurityContext{})
	setDefaultString(&pod.RestartPolicy, corev1.RestartPolicyAlways)
	setDefaultString(&pod.DNSPolicy, corev1.DNSClusterFirst)
	setDefaultString(&pod.SchedulerName, corev1.DefaultSchedulerName)
	for i := range pod.Containers {
		container := &pod.Containers[i]
		policy := corev1.PullAlways
		if strings.Contains(container.Image, ":") {
			policy = corev1.PullIfNotPresent
		}
		setDefaultString(&container.ImagePullPolicy, policy)
		setDefaultString(&container.TerminationMessagePath, corev1.TerminationMessagePathDefault)
		setDefaultString(&container.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
		for i := range container.Ports {
			setDefaultString(&container.Ports[i].Protocol, corev1.ProtocolTCP)
		}
	}
}

// setDefault sets a missing value.
func setDefault[T any](place **T, value T) {
	if *place == nil {
		*place = &value
	}
}

// setDefaultString sets an empty string.
func setDefaultString[T ~string](place *T, text T) {
	if *place == "" {
		*place = text
	}
}

// prepare does the work of PrepareForCreate and PrepareForUpdate of the kinds' strategies.
func prepare(subresource string, written, live runtime.Object) {
	switch written := written.(type) {
	case *corev1.ServiceAccount:
		for i, secret := range written.Secrets {
			written.Secrets[i] = corev1.ObjectReference{Name: secret.Name}
		}
	case *corev1.Node:
		if live, ok := live.(*corev1.Node); ok && subresource == "status" {
			written.Spec = live.Spec
		} else if ok {
			written.Status = live.Status
		}
	case *appsv1.Deployment:
		if live, ok := live.(*appsv1.Deployment); ok && subresource == "status" {
			written.Spec, written.Labels = live.Spec, live.Labels
		} else if ok {
			written.Status = live.Status
		} else {
			written.Status = appsv1.DeploymentStatus{}
		}
	}
}

// scale writes a deployment through its scale subresource.
func (k *kind) scale(of request, live runtime.Object) (runtime.Object, error) {
	deployment := live.DeepCopyObject().(*appsv1.Deployment)
	paths := managedfields.ResourcePathMappings{k.apiVersion(): fieldpath.MakePathOrDie("spec", "replicas")}
	handler := managedfields.NewScaleHandler(deployment.ManagedFields, k.gvk.GroupVersion(), paths)
	entries, err := handler.ToSubresource()
	must(err)
	scale := &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{
			Name: deployment.Name, Namespace: deployment.Namespace, UID: deployment.UID,
			CreationTimestamp: deployment.CreationTimestamp, ManagedFields: entries,
		},
		Spec:   autoscalingv1.ScaleSpec{Replicas: *deployment.Spec.Replicas},
		Status: autoscalingv1.ScaleStatus{Replicas: deployment.Status.Replicas, Selector: "l=x"},
	}
	scale.SetGroupVersionKind(scaleKind)
	written, err := write(k.managers["scale"], scaleKind, of, scale)
	if err != nil {
		return nil, err
	}
	wanted := written.(*autoscalingv1.Scale)
	deployment.Spec.Replicas = &wanted.Spec.Replicas
	deployment.ManagedFields, err = handler.ToParent(wanted.ManagedFields)
	return deployment, err
}
