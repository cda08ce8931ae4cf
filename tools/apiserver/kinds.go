package main

import (
	"context"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"time"
)

// kind is a built-in kind that this server serves.
type kind struct {
	groupVersion schema.GroupVersion
	resource     string
	singular     string
	name         string
	object, list runtime.Object
	namespaced   bool
	// shortNames and categories are other names of the resource, for clients.
	shortNames, categories []string
	// createOnUpdate says that a PUT of an object that does not exist creates it.
	createOnUpdate bool
	// conditional says that a PUT has to name the resourceVersion that it replaces.
	conditional bool
	// selectable are the fields, beside name and namespace, by which objects can be selected.
	selectable func(runtime.Object) fields.Set
	// labels are the names of these fields.
	labels []string
	// prepareCreate and prepareUpdate are what the kind's strategy does to an object before it is stored.
	prepareCreate func(runtime.Object)
	prepareUpdate func(updated, old runtime.Object)
	// prepareStatus does the same for an update of the status, if the kind has that subresource.
	prepareStatus func(updated, old runtime.Object)
	// gracePeriod is how long a deletion may take that does not say so, if the kind is deleted gracefully.
	gracePeriod func(runtime.Object) int64
	// keepsDependents says that the garbage collector does not look at dependents of the kind.
	keepsDependents bool
	// returnsDeleted says that a delete answers with the object that it has removed.
	returnsDeleted bool
	// resets are the fields that writes cannot set, for the object and its status.
	resets, statusResets []string
	// neededBy says whether a server with these options serves the kind. Without it, every server does.
	neededBy func(options) bool
}

var kinds = []kind{
	{
		groupVersion: corev1.SchemeGroupVersion, resource: "configmaps", singular: "configmap", name: "ConfigMap", shortNames: []string{"cm"},
		object: &corev1.ConfigMap{}, list: &corev1.ConfigMapList{}, namespaced: true,
	},
	{
		groupVersion: corev1.SchemeGroupVersion, resource: "secrets", singular: "secret", name: "Secret",
		object: &corev1.Secret{}, list: &corev1.SecretList{}, namespaced: true,
		labels: []string{"type"},
		selectable: func(object runtime.Object) fields.Set {
			return fields.Set{"type": string(object.(*corev1.Secret).Type)}
		},
	},
	{
		groupVersion: corev1.SchemeGroupVersion, resource: "pods", singular: "pod", name: "Pod", shortNames: []string{"po"}, categories: []string{"all"},
		object: &corev1.Pod{}, list: &corev1.PodList{}, namespaced: true,
		labels: []string{"spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "status.phase"},
		selectable: func(object runtime.Object) fields.Set {
			pod := object.(*corev1.Pod)
			return fields.Set{
				"spec.nodeName":           pod.Spec.NodeName,
				"spec.restartPolicy":      string(pod.Spec.RestartPolicy),
				"spec.schedulerName":      pod.Spec.SchedulerName,
				"spec.serviceAccountName": pod.Spec.ServiceAccountName,
				"status.phase":            string(pod.Status.Phase),
			}
		},
		prepareCreate: func(object runtime.Object) {
			pod := object.(*corev1.Pod)
			pod.Generation = 1
			pod.Status = corev1.PodStatus{Phase: corev1.PodPending, QOSClass: corev1.PodQOSBestEffort}
		},
		prepareUpdate: func(updated, old runtime.Object) {
			pod, before := updated.(*corev1.Pod), old.(*corev1.Pod)
			pod.Status = before.Status
			pod.Generation = nextGeneration(before.Generation, before.Spec, pod.Spec)
		},
		prepareStatus: func(updated, old runtime.Object) {
			pod, before := updated.(*corev1.Pod), old.(*corev1.Pod)
			pod.Spec, pod.OwnerReferences, pod.DeletionTimestamp = before.Spec, before.OwnerReferences, nil
			pod.Status.QOSClass = before.Status.QOSClass
		},
		returnsDeleted: true,
		// A pod that is bound to no node ends at once.
		gracePeriod: func(object runtime.Object) int64 {
			pod := object.(*corev1.Pod)
			ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
			if pod.Spec.NodeName == "" || ended || pod.Spec.TerminationGracePeriodSeconds == nil {
				return 0
			}
			return *pod.Spec.TerminationGracePeriodSeconds
		},
		resets: []string{"status"}, statusResets: []string{"spec", "metadata.deletionTimestamp", "metadata.ownerReferences"},
	},
	{
		groupVersion: corev1.SchemeGroupVersion, resource: "namespaces", singular: "namespace", name: "Namespace", shortNames: []string{"ns"},
		object: &corev1.Namespace{}, list: &corev1.NamespaceList{},
		labels: []string{"status.phase"},
		selectable: func(object runtime.Object) fields.Set {
			return fields.Set{"status.phase": string(object.(*corev1.Namespace).Status.Phase)}
		},
		prepareCreate: func(object runtime.Object) {
			namespace := object.(*corev1.Namespace)
			namespace.Status = corev1.NamespaceStatus{Phase: corev1.NamespaceActive}
			namespace.Spec.Finalizers = []corev1.FinalizerName{corev1.FinalizerKubernetes}
		},
		prepareUpdate: func(updated, old runtime.Object) {
			namespace, before := updated.(*corev1.Namespace), old.(*corev1.Namespace)
			namespace.Spec.Finalizers, namespace.Status = before.Spec.Finalizers, before.Status
		},
		resets: []string{"status"},
	},
	{
		groupVersion: corev1.SchemeGroupVersion, resource: "events", singular: "event", name: "Event", shortNames: []string{"ev"},
		object: &corev1.Event{}, list: &corev1.EventList{}, namespaced: true, createOnUpdate: true, keepsDependents: true,
		labels: []string{
			"involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid",
			"involvedObject.apiVersion", "involvedObject.resourceVersion", "involvedObject.fieldPath",
			"reason", "reportingComponent", "source", "type",
		},
		selectable: func(object runtime.Object) fields.Set {
			event := object.(*corev1.Event)
			source := event.Source.Component
			if source == "" {
				source = event.ReportingController
			}
			return fields.Set{
				"involvedObject.kind":            event.InvolvedObject.Kind,
				"involvedObject.namespace":       event.InvolvedObject.Namespace,
				"involvedObject.name":            event.InvolvedObject.Name,
				"involvedObject.uid":             string(event.InvolvedObject.UID),
				"involvedObject.apiVersion":      event.InvolvedObject.APIVersion,
				"involvedObject.resourceVersion": event.InvolvedObject.ResourceVersion,
				"involvedObject.fieldPath":       event.InvolvedObject.FieldPath,
				"reason":                         event.Reason,
				"reportingComponent":             event.ReportingController,
				"source":                         source,
				"type":                           event.Type,
			}
		},
	},
	{
		groupVersion: appsv1.SchemeGroupVersion, resource: "deployments", singular: "deployment", name: "Deployment", shortNames: []string{"deploy"}, categories: []string{"all"},
		object: &appsv1.Deployment{}, list: &appsv1.DeploymentList{}, namespaced: true,
		prepareCreate: func(object runtime.Object) {
			deployment := object.(*appsv1.Deployment)
			deployment.Status, deployment.Generation = appsv1.DeploymentStatus{}, 1
		},
		prepareUpdate: func(updated, old runtime.Object) {
			deployment, before := updated.(*appsv1.Deployment), old.(*appsv1.Deployment)
			deployment.Status = before.Status
			deployment.Generation = before.Generation
			if !equality.Semantic.DeepEqual(before.Spec, deployment.Spec) ||
				!equality.Semantic.DeepEqual(before.Annotations, deployment.Annotations) {
				deployment.Generation++
			}
		},
		prepareStatus: func(updated, old runtime.Object) {
			deployment, before := updated.(*appsv1.Deployment), old.(*appsv1.Deployment)
			deployment.Spec, deployment.Labels = before.Spec, before.Labels
		},
		resets: []string{"status"}, statusResets: []string{"spec", "metadata.labels"},
	},
	{
		groupVersion: coordinationv1.SchemeGroupVersion, resource: "leases", singular: "lease", name: "Lease",
		object: &coordinationv1.Lease{}, list: &coordinationv1.LeaseList{}, namespaced: true, createOnUpdate: true, conditional: true,
	},
	{
		groupVersion: corev1.SchemeGroupVersion, resource: "services", singular: "service", name: "Service", shortNames: []string{"svc"}, categories: []string{"all"},
		object: &corev1.Service{}, list: &corev1.ServiceList{}, namespaced: true, neededBy: options.aggregates,
	},
	{
		groupVersion: discoveryv1.SchemeGroupVersion, resource: "endpointslices", singular: "endpointslice", name: "EndpointSlice",
		object: &discoveryv1.EndpointSlice{}, list: &discoveryv1.EndpointSliceList{}, namespaced: true, neededBy: options.aggregates,
	},
	{
		groupVersion: flowcontrolv1.SchemeGroupVersion, resource: "flowschemas", singular: "flowschema", name: "FlowSchema",
		object: &flowcontrolv1.FlowSchema{}, list: &flowcontrolv1.FlowSchemaList{}, neededBy: options.controlsFlow,
		prepareCreate: func(object runtime.Object) {
			object.(*flowcontrolv1.FlowSchema).Status = flowcontrolv1.FlowSchemaStatus{}
		},
		prepareUpdate: func(updated, old runtime.Object) {
			updated.(*flowcontrolv1.FlowSchema).Status = old.(*flowcontrolv1.FlowSchema).Status
		},
		prepareStatus: func(updated, old runtime.Object) {
			updated.(*flowcontrolv1.FlowSchema).Spec = old.(*flowcontrolv1.FlowSchema).Spec
		},
		resets: []string{"status"}, statusResets: []string{"spec"},
	},
	{
		groupVersion: flowcontrolv1.SchemeGroupVersion, resource: "prioritylevelconfigurations", singular: "prioritylevelconfiguration",
		name:   "PriorityLevelConfiguration",
		object: &flowcontrolv1.PriorityLevelConfiguration{}, list: &flowcontrolv1.PriorityLevelConfigurationList{}, neededBy: options.controlsFlow,
	},
	{
		groupVersion: admissionregistrationv1.SchemeGroupVersion, resource: "validatingwebhookconfigurations",
		singular: "validatingwebhookconfiguration", name: "ValidatingWebhookConfiguration",
		object: &admissionregistrationv1.ValidatingWebhookConfiguration{}, list: &admissionregistrationv1.ValidatingWebhookConfigurationList{},
		neededBy: options.callsValidatingWebhooks,
	},
}

func nextGeneration(generation int64, before, after any) int64 {
	if equality.Semantic.DeepEqual(before, after) {
		return generation
	}
	return generation + 1
}

// labelWithName is the default of a namespace's labels.
func labelWithName(namespace *corev1.Namespace) {
	if namespace.Name == "" {
		return
	}
	if namespace.Labels == nil {
		namespace.Labels = map[string]string{}
	}
	namespace.Labels[corev1.LabelMetadataName] = namespace.Name
}

var (
	// scheme knows the kinds at their served version, which stands for the internal version as well: nothing is converted.
	scheme          = runtime.NewScheme()
	codecs          = serializer.NewCodecFactory(scheme)
	storageVersions = []schema.GroupVersion{
		corev1.SchemeGroupVersion, appsv1.SchemeGroupVersion, coordinationv1.SchemeGroupVersion, discoveryv1.SchemeGroupVersion,
		flowcontrolv1.SchemeGroupVersion, admissionregistrationv1.SchemeGroupVersion,
	}
)

func init() {
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	scheme.AddUnversionedTypes(schema.GroupVersion{Version: "v1"},
		&metav1.Status{}, &metav1.APIVersions{}, &metav1.APIGroupList{}, &metav1.APIGroup{}, &metav1.APIResourceList{})
	for _, kind := range kinds {
		internal := schema.GroupVersion{Group: kind.groupVersion.Group, Version: runtime.APIVersionInternal}
		for _, version := range []schema.GroupVersion{kind.groupVersion, internal} {
			scheme.AddKnownTypeWithName(version.WithKind(kind.name), kind.object)
			scheme.AddKnownTypeWithName(version.WithKind(kind.name+"List"), kind.list)
		}
		// Without fields of its own a kind has upstream's default, with a message of its own.
		if kind.labels != nil {
			utilruntime.Must(scheme.AddFieldLabelConversionFunc(kind.groupVersion.WithKind(kind.name), kind.convertFieldLabel))
		}
	}
	scheme.AddTypeDefaultingFunc(&corev1.Namespace{}, func(object any) { labelWithName(object.(*corev1.Namespace)) })
	for _, version := range storageVersions {
		if version.Group != "" {
			metav1.AddToGroupVersion(scheme, version)
		}
		utilruntime.Must(scheme.SetVersionPriority(version))
	}
}

func (k kind) convertFieldLabel(label, value string) (string, string, error) {
	if label == "metadata.name" || (label == "metadata.namespace" && k.namespaced) {
		return label, value, nil
	}
	for _, known := range k.labels {
		if known == label {
			return label, value, nil
		}
	}
	return "", "", fmt.Errorf("field label not supported: %s", label)
}

// createNamespaces creates the namespaces that every cluster has.
func createNamespaces(ctx context.Context, client kubernetes.Interface) error {
	for _, name := range []string{"default", "kube-node-lease", "kube-public", "kube-system"} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		err := wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
			_, err := client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
			return err == nil || errors.IsAlreadyExists(err), nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
