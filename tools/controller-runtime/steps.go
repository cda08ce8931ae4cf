package main

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// step is one test of the lifecycle of sites.
type step struct {
	name string
	run  func(context.Context, client.Client, *operator) error
}

var steps = []step{
	{"a site gets its resources", func(ctx context.Context, c client.Client, o *operator) error {
		return createAndWait(ctx, c, o, "first", 1)
	}},
	{"an owned deployment is recreated", recreateOwned},
	{"a change reaches the owned deployment", updateOwned},
	{"background deletion", func(ctx context.Context, c client.Client, o *operator) error {
		return deleteSite(ctx, c, o, "first", metav1.DeletePropagationBackground)
	}},
	{"foreground deletion", func(ctx context.Context, c client.Client, o *operator) error {
		if err := createAndWait(ctx, c, o, "second", 1); err != nil {
			return err
		}
		return deleteSite(ctx, c, o, "second", metav1.DeletePropagationForeground)
	}},
	{"orphaning deletion", orphanOwned},
	{"a finalizer delays the deletion", waitForFinalizer},
	{"deletecollection of many sites", deleteAll},
	{"webhooks for sites and deployments", checkWebhooks},
}

// createAndWait creates a site and waits until the operator has reconciled it.
func createAndWait(ctx context.Context, c client.Client, o *operator, name string, replicas int64) error {
	site := newSiteWithSpec(name)
	// The default is 1.
	if replicas != 1 {
		site.Object["spec"] = map[string]any{"replicas": replicas}
	}
	if err := c.Create(ctx, site); err != nil {
		return err
	}
	return waitUntilReady(ctx, c, o, name, replicas)
}

// waitUntilReady waits until a site has all its resources.
func waitUntilReady(ctx context.Context, c client.Client, o *operator, name string, replicas int64) error {
	return eventually(ctx, func(ctx context.Context) (bool, error) {
		site, deployment := newSite(name), deploymentOf(name)
		if err := c.Get(ctx, client.ObjectKeyFromObject(site), site); err != nil {
			return false, err
		}
		if gone, err := isDeleted(ctx, c, deployment); gone || err != nil {
			return false, err
		}
		found, _, err := unstructured.NestedInt64(site.Object, "status", "replicas")
		owned := metav1.IsControlledBy(deployment, site)
		hasExternal := o.hasExternal(name) && controllerutil.ContainsFinalizer(site, finalizer)
		return owned && hasExternal && found == replicas && int64(*deployment.Spec.Replicas) == replicas, err
	})
}

// recreateOwned deletes the deployment of a site. The operator must notice and create it again.
func recreateOwned(ctx context.Context, c client.Client, o *operator) error {
	before := deploymentOf("first")
	if err := c.Get(ctx, client.ObjectKeyFromObject(before), before); err != nil {
		return err
	}
	if err := c.Delete(ctx, deploymentOf("first")); err != nil {
		return err
	}
	return eventually(ctx, func(ctx context.Context) (bool, error) {
		after := deploymentOf("first")
		gone, err := isDeleted(ctx, c, after)
		return !gone && after.UID != before.UID, err
	})
}

func updateOwned(ctx context.Context, c client.Client, o *operator) error {
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec": {"replicas": 3}}`))
	if err := c.Patch(ctx, newSite("first"), patch); err != nil {
		return err
	}
	return waitUntilReady(ctx, c, o, "first", 3)
}

// deleteSite deletes a site and waits until its external resource and its deployment are deleted.
func deleteSite(ctx context.Context, c client.Client, o *operator, name string, policy metav1.DeletionPropagation) error {
	before := deploymentOf(name)
	if err := c.Get(ctx, client.ObjectKeyFromObject(before), before); err != nil {
		return err
	}
	if err := c.Delete(ctx, newSite(name), client.PropagationPolicy(policy)); err != nil {
		return err
	}
	return eventually(ctx, func(ctx context.Context) (bool, error) {
		site, err := isDeleted(ctx, c, newSite(name))
		if !site || err != nil {
			return false, err
		}
		if o.hasExternal(name) {
			return false, errors.New("the site was deleted before its external resource")
		}
		// An operator that has not observed the deletion yet may create another deployment, which is
		// garbage-collected as well.
		deployment := deploymentOf(name)
		gone, err := isDeleted(ctx, c, deployment)
		if policy == metav1.DeletePropagationForeground && err == nil && deployment.UID == before.UID {
			return false, errors.New("the site was deleted before its deployment")
		}
		return gone, err
	})
}

func orphanOwned(ctx context.Context, c client.Client, o *operator) error {
	if err := createAndWait(ctx, c, o, "third", 2); err != nil {
		return err
	}
	if err := c.Delete(ctx, newSite("third"), client.PropagationPolicy(metav1.DeletePropagationOrphan)); err != nil {
		return err
	}
	err := eventually(ctx, func(ctx context.Context) (bool, error) { return isDeleted(ctx, c, newSite("third")) })
	if err != nil {
		return err
	}
	deployment := deploymentOf("third")
	if err := c.Get(ctx, client.ObjectKeyFromObject(deployment), deployment); err != nil {
		return err
	}
	if len(deployment.OwnerReferences) > 0 {
		return fmt.Errorf("the deployment still has owners: %v", deployment.OwnerReferences)
	}
	// A new site with the same name adopts the deployment.
	if err := createAndWait(ctx, c, o, "third", 2); err != nil {
		return err
	}
	return deleteSite(ctx, c, o, "third", metav1.DeletePropagationBackground)
}

// waitForFinalizer blocks the removal of the finalizer: the site stays terminating until the operator removes it.
func waitForFinalizer(ctx context.Context, c client.Client, o *operator) error {
	site := newSiteWithSpec("fourth")
	site.SetLabels(map[string]string{"hold": "yes"})
	if err := c.Create(ctx, site); err != nil {
		return err
	}
	if err := waitUntilReady(ctx, c, o, "fourth", 1); err != nil {
		return err
	}
	if err := c.Delete(ctx, newSite("fourth")); err != nil {
		return err
	}
	if err := c.Get(ctx, client.ObjectKeyFromObject(site), site); err != nil {
		return err
	}
	if site.GetDeletionTimestamp().IsZero() || !o.hasExternal("fourth") {
		return errors.New("the site is not terminating with its external resource")
	}
	if err := c.Get(ctx, client.ObjectKeyFromObject(deploymentOf("fourth")), deploymentOf("fourth")); err != nil {
		return fmt.Errorf("the deployment was deleted before the site: %w", err)
	}
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata": {"labels": null}}`))
	if err := c.Patch(ctx, newSite("fourth"), patch); err != nil {
		return err
	}
	return eventually(ctx, func(ctx context.Context) (bool, error) {
		site, err := isDeleted(ctx, c, newSite("fourth"))
		if !site || err != nil {
			return false, err
		}
		return isDeleted(ctx, c, deploymentOf("fourth"))
	})
}

// deleteAll creates many sites and deletes them with one deletecollection.
func deleteAll(ctx context.Context, c client.Client, o *operator) error {
	const count = 50
	for i := range count {
		if err := c.Create(ctx, newSiteWithSpec(fmt.Sprintf("many-%02d", i))); err != nil {
			return err
		}
	}
	for i := range count {
		if err := waitUntilReady(ctx, c, o, fmt.Sprintf("many-%02d", i), 1); err != nil {
			return err
		}
	}
	if err := c.DeleteAllOf(ctx, newSite(""), client.InNamespace("default")); err != nil {
		return err
	}
	for i := range count {
		name := fmt.Sprintf("many-%02d", i)
		err := eventually(ctx, func(ctx context.Context) (bool, error) {
			site, err := isDeleted(ctx, c, newSite(name))
			if !site || err != nil {
				return false, err
			}
			return isDeleted(ctx, c, deploymentOf(name))
		})
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}
