package main

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	appsapply "k8s.io/client-go/applyconfigurations/apps/v1"
	autoscalingapply "k8s.io/client-go/applyconfigurations/autoscaling/v1"
	coreapply "k8s.io/client-go/applyconfigurations/core/v1"
	metaapply "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/dynamic"
)

// deploymentConfiguration is the apply configuration of one controller for a deployment.
func deploymentConfiguration(c clients, replicas int32) *appsapply.DeploymentApplyConfiguration {
	labels := map[string]string{"app": "web"}
	port := coreapply.ContainerPort().WithContainerPort(80)
	container := coreapply.Container().WithName("web").WithImage("web:1").WithPorts(port)
	template := coreapply.PodTemplateSpec().WithLabels(labels).WithSpec(coreapply.PodSpec().WithContainers(container))
	spec := appsapply.DeploymentSpec().
		WithReplicas(replicas).
		WithSelector(metaapply.LabelSelector().WithMatchLabels(labels)).
		WithTemplate(template)
	return appsapply.Deployment("web", c.namespace).WithLabels(labels).WithSpec(spec)
}

// applyTyped applies typed configurations of several controllers to one deployment.
func applyTyped(ctx context.Context, c clients) error {
	deployments := c.typed.AppsV1().Deployments(c.namespace)
	own := metav1.ApplyOptions{FieldManager: "first"}
	created, err := deployments.Apply(ctx, deploymentConfiguration(c, 3), own)
	if err != nil {
		return fmt.Errorf("apply: %w", err)
	}
	if err := expect("replicas", *created.Spec.Replicas, 3); err != nil {
		return err
	}
	again, err := deployments.Apply(ctx, deploymentConfiguration(c, 3), own)
	if err != nil {
		return fmt.Errorf("apply again: %w", err)
	}
	if err := expect("resourceVersion after an apply without a change", again.ResourceVersion, created.ResourceVersion); err != nil {
		return err
	}
	if err := expectExtracted(again); err != nil {
		return err
	}
	if err := applyConflicts(ctx, c); err != nil {
		return err
	}

	status := appsapply.Deployment("web", c.namespace).WithStatus(appsapply.DeploymentStatus().WithReplicas(2))
	reported, err := deployments.ApplyStatus(ctx, status, metav1.ApplyOptions{FieldManager: "reporter"})
	if err != nil {
		return fmt.Errorf("apply a status: %w", err)
	}
	statusConfiguration, err := appsapply.ExtractDeploymentStatus(reported, "reporter")
	if err != nil || statusConfiguration.Status == nil || statusConfiguration.Spec != nil {
		return fmt.Errorf("fields of the reporter: %+v (%v)", statusConfiguration, err)
	}
	return expect("replicas in the status", reported.Status.Replicas, 2)
}

// expectExtracted checks that the fields that a controller applied can be extracted from the object.
func expectExtracted(deployment *appsv1.Deployment) error {
	found, err := appsapply.ExtractDeployment(deployment, "first")
	if err != nil {
		return fmt.Errorf("extract: %w", err)
	}
	if found.Spec == nil || found.Spec.Template == nil || len(found.Spec.Template.Spec.Containers) != 1 {
		return fmt.Errorf("extract: %+v", found)
	}
	container := found.Spec.Template.Spec.Containers[0]
	if container.ImagePullPolicy != nil || len(container.Ports) != 1 || *container.Ports[0].ContainerPort != 80 {
		return fmt.Errorf("extract: container %+v", container)
	}
	return nil
}

// applyConflicts has a second controller set other replicas than the first: by apply, by forced apply, and through
// the scale subresource.
func applyConflicts(ctx context.Context, c clients) error {
	deployments := c.typed.AppsV1().Deployments(c.namespace)
	other := appsapply.Deployment("web", c.namespace).WithSpec(appsapply.DeploymentSpec().WithReplicas(5))
	_, err := deployments.Apply(ctx, other, metav1.ApplyOptions{FieldManager: "second"})
	if !apierrors.IsConflict(err) {
		return fmt.Errorf("apply of a conflicting field: %v", err)
	}
	cause, found := apierrors.StatusCause(err, metav1.CauseTypeFieldManagerConflict)
	if !found || cause.Field != ".spec.replicas" || cause.Message != `conflict with "first"` {
		return fmt.Errorf("apply of a conflicting field: the cause is %+v", cause)
	}
	forced, err := deployments.Apply(ctx, other, metav1.ApplyOptions{FieldManager: "second", Force: true})
	if err != nil {
		return fmt.Errorf("forced apply: %w", err)
	}
	if err := expect("replicas after a forced apply", *forced.Spec.Replicas, 5); err != nil {
		return err
	}
	scale := autoscalingapply.Scale().WithName("web").WithNamespace(c.namespace).
		WithSpec(autoscalingapply.ScaleSpec().WithReplicas(7))
	scaled, err := deployments.ApplyScale(ctx, "web", scale, metav1.ApplyOptions{FieldManager: "scaler", Force: true})
	if err != nil {
		return fmt.Errorf("apply a scale: %w", err)
	}
	if err := expect("replicas of the scale", scaled.Spec.Replicas, 7); err != nil {
		return err
	}
	left, err := deployments.Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, entry := range left.ManagedFields {
		if entry.Manager == "second" {
			return fmt.Errorf("the second controller still owns %s", entry.FieldsV1)
		}
	}
	return nil
}

// applyDynamic applies an unstructured object with the dynamic client.
func applyDynamic(ctx context.Context, c clients) error {
	client, err := dynamic.NewForConfig(c.config)
	if err != nil {
		return err
	}
	maps := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(c.namespace)
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": "a"},
		"data":     map[string]any{"k": "v", "l": "w"},
	}}
	options := metav1.ApplyOptions{FieldManager: "dynamic"}
	if _, err := maps.Apply(ctx, "a", object, options); err != nil {
		return fmt.Errorf("apply: %w", err)
	}
	unstructured.RemoveNestedField(object.Object, "data", "l")
	applied, err := maps.Apply(ctx, "a", object, options)
	if err != nil {
		return fmt.Errorf("apply with fewer fields: %w", err)
	}
	data, _, _ := unstructured.NestedStringMap(applied.Object, "data")
	return expect("remaining keys", len(data), 1)
}
