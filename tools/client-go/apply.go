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

// configuration is what one controller wants of a deployment.
func configuration(c clients, replicas int32) *appsapply.DeploymentApplyConfiguration {
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

// applyTyped has controllers apply what they want of one deployment, by typed configurations.
func applyTyped(ctx context.Context, c clients) error {
	deployments := c.typed.AppsV1().Deployments(c.namespace)
	own := metav1.ApplyOptions{FieldManager: "first"}
	created, err := deployments.Apply(ctx, configuration(c, 3), own)
	if err != nil {
		return fmt.Errorf("apply: %w", err)
	}
	if err := expect("replicas", *created.Spec.Replicas, 3); err != nil {
		return err
	}
	again, err := deployments.Apply(ctx, configuration(c, 3), own)
	if err != nil {
		return fmt.Errorf("apply again: %w", err)
	}
	if err := expect("resourceVersion of what did not change", again.ResourceVersion, created.ResourceVersion); err != nil {
		return err
	}
	if err := extracted(again); err != nil {
		return err
	}
	if err := contested(ctx, c); err != nil {
		return err
	}

	status := appsapply.Deployment("web", c.namespace).WithStatus(appsapply.DeploymentStatus().WithReplicas(2))
	reported, err := deployments.ApplyStatus(ctx, status, metav1.ApplyOptions{FieldManager: "reporter"})
	if err != nil {
		return fmt.Errorf("apply a status: %w", err)
	}
	of, err := appsapply.ExtractDeploymentStatus(reported, "reporter")
	if err != nil || of.Status == nil || of.Spec != nil {
		return fmt.Errorf("the reporter owns %+v (%v)", of, err)
	}
	return expect("replicas in the status", reported.Status.Replicas, 2)
}

// extracted sees to it that what a controller applied can be taken out of the object again.
func extracted(deployment *appsv1.Deployment) error {
	found, err := appsapply.ExtractDeployment(deployment, "first")
	if err != nil {
		return fmt.Errorf("extract: %w", err)
	}
	if found.Spec == nil || found.Spec.Template == nil || len(found.Spec.Template.Spec.Containers) != 1 {
		return fmt.Errorf("extract: %+v", found)
	}
	container := found.Spec.Template.Spec.Containers[0]
	if container.ImagePullPolicy != nil || len(container.Ports) != 1 || *container.Ports[0].ContainerPort != 80 {
		return fmt.Errorf("extract: of the container %+v", container)
	}
	return nil
}

// contested has a second controller want other replicas than the first: by apply, by force, and through the scale.
func contested(ctx context.Context, c clients) error {
	deployments := c.typed.AppsV1().Deployments(c.namespace)
	other := appsapply.Deployment("web", c.namespace).WithSpec(appsapply.DeploymentSpec().WithReplicas(5))
	_, err := deployments.Apply(ctx, other, metav1.ApplyOptions{FieldManager: "second"})
	if !apierrors.IsConflict(err) {
		return fmt.Errorf("a contested field: %v", err)
	}
	cause, found := apierrors.StatusCause(err, metav1.CauseTypeFieldManagerConflict)
	if !found || cause.Field != ".spec.replicas" || cause.Message != `conflict with "first"` {
		return fmt.Errorf("a contested field: the cause is %+v", cause)
	}
	forced, err := deployments.Apply(ctx, other, metav1.ApplyOptions{FieldManager: "second", Force: true})
	if err != nil {
		return fmt.Errorf("by force: %w", err)
	}
	if err := expect("replicas by force", *forced.Spec.Replicas, 5); err != nil {
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

// applyDynamic applies an object that the program has no type for.
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
		return fmt.Errorf("apply less: %w", err)
	}
	data, _, _ := unstructured.NestedStringMap(applied.Object, "data")
	return expect("keys that are left", len(data), 1)
}
